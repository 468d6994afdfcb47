"""Rewards that were wrong, and are corrected."""

from __future__ import annotations

import numpy as np
import pytest

import rolf
from rolf.errors import (
    AlreadyTold,
    InvalidArgument,
    StorageUnavailable,
    UnknownDecision,
    UntoldDecision,
)
from rolf.experiments.log import rewards as log_rewards
from rolf.experiments.log import synced as live
from rolf.experiments.storage.rows import CORRECTION, DEFAULT, REWARD
from rolf.policies.state.arrays import arrays
from rolf.testing.experiments import rows_of
from rolf.testing.storage import (
    accepted_reward,
    create_experiment,
    current_state,
    folded_state,
    round_features,
)
from support.helpers import FEATURES, every_policy, in_processes
from support.stores import make_url

#: by how much a reward is wrong, and which it is: the first one is what sums are relative to
MISTAKES = {"small": 0.5, "gross": 1e9}


def played(url, policy, wrong, place):
    """An experiment in which all is right but the reward of one decision, if ``wrong`` is given."""
    experiment = create_experiment(url, policy=policy)
    arms, rng, decisions = np.tile(np.arange(6), 5), np.random.default_rng(3), []
    for number, arm in enumerate(arms):  # whatever is told, the same arms are played
        decision = experiment.ask(available=[arm], **round_features(experiment))
        reward = accepted_reward(experiment, rng.uniform())
        if number == place:
            right = reward
            reward = reward if wrong is None else accepted_reward(experiment, reward + wrong)
        experiment.tell(decision, reward)
        decisions.append(decision)
    return experiment, decisions[place], right


def believed(experiment):
    """All that it shows, and all that its next decisions depend on."""
    extra = round_features(experiment)
    arms = experiment.status(**extra).arms
    shown = [[arm.plays, arm.told, arm.estimate, arm.low, arm.high] for arm in arms]
    chances = experiment.probabilities(**extra)
    state = {path: array.copy() for path, array in arrays(experiment.synced.replica.state)}
    return np.array(shown, dtype=np.float64), chances, state


@every_policy
@pytest.mark.parametrize("size", list(MISTAKES))
@pytest.mark.parametrize("place", [0, 12])
def test_the_state_is_that_of_a_log_which_was_right_from_the_start(name, size, place):
    right, _, _ = played(make_url("memory"), name, None, place)
    url = make_url("sqlite")
    wrong, decision, reward = played(url, name, MISTAKES[size], place)
    watching = rolf.open_experiment(url, "one")
    wrong.correct(decision, reward, "typed without the decimal point")
    expected, got = believed(right), believed(wrong)
    assert np.allclose(got[0], expected[0], rtol=1e-8, equal_nan=True)
    drawn = 0.03 if name == "lints" else 1e-8  # chances that only draws can tell
    assert np.allclose(got[1], expected[1], atol=drawn)
    assert current_state(watching) == current_state(wrong) == folded_state(wrong)
    wrong.snapshot()
    again = rolf.open_experiment(url, "one")
    assert again.synced.snapshot_upto == again.synced.replica.last
    assert current_state(again) == folded_state(wrong)
    if size == "gross" and name not in ("kl-ucb", "beta-ts"):  # which accept no gross mistakes
        assert all((got[2][path] == array).all() for path, array in expected[2].items())


def test_the_log_keeps_both_rewards_and_the_reason(url):
    experiment = create_experiment(url, policy="ucb")
    one, two = experiment.ask_many(2)
    experiment.tell_many({one.id: 7.0, two.id: 0.25})
    experiment.correct(one, 0.7, "a comma was lost")
    experiment.correct(one.id, 0.75, "and a digit")
    rows = rows_of(rolf.open_experiment(url, "one"))[2:]
    assert [(row.kind, row.number, row.reward) for row in rows] == [
        (REWARD, 1, 7.0),
        (REWARD, 2, 0.25),
        (CORRECTION, 1, 0.7),
        (CORRECTION, 1, 0.75),
    ]
    assert [(row.parsed["was"], row.parsed["reason"]) for row in rows[2:]] == [
        (7.0, "a comma was lost"),
        (0.7, "and a digit"),
    ]
    status = experiment.status()
    assert (status.asked, status.told, status.pending) == (2, 2, 0)
    assert status.arms[one.arm].estimate in (0.75, 0.5)  # alone, or with the other


def test_telling_and_correcting_again(url):
    experiment = create_experiment(url)
    decision, other = experiment.ask_many(2)
    experiment.tell(decision, 7.0)
    experiment.correct(decision, 0.7, "a slip")
    experiment.correct(decision, 0.7, "a slip")  # a message that came twice
    experiment.tell(decision, 7.0)  # as late as it may be, it was told
    experiment.tell(decision, 0.7)
    rows = rows_of(experiment)
    assert len(rows) == 4
    with pytest.raises(AlreadyTold, match=r"reward 0\.7 already, not 0\.8; if .* correct it"):
        experiment.tell(decision, 0.8)
    experiment.correct(decision, 7.0, "it was right after all")
    experiment.tell(decision, 0.7)
    assert rows_of(rolf.open_experiment(url, "one"))[:4] == rows
    assert len(rows_of(experiment)) == 5
    assert current_state(experiment) == folded_state(experiment)
    with pytest.raises(UntoldDecision, match=f"{other.id}.*no reward to correct"):
        experiment.correct(other, 1.0, "never told")
    assert experiment.status().pending == 1


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (("DECISION", "x", "why"), InvalidArgument, "reward"),
        (("DECISION", float("nan"), "why"), InvalidArgument, "reward"),
        (("DECISION", 1.0, ""), InvalidArgument, "reason"),
        (("DECISION", 1.0, None), InvalidArgument, "reason"),
        (("DECISION", 1.0, "x" * 1001), InvalidArgument, "1000 characters"),
        (("DECISION", 1.0, "\ud800"), InvalidArgument, "reason"),
        (("nobody-1", 1.0, "why"), UnknownDecision, "nobody-1"),
        (("DECISION9", 1.0, "why"), UnknownDecision, "not issued"),
        ((3, 1.0, "why"), InvalidArgument, "decision"),
    ],
)
def test_corrections_that_are_refused_change_nothing(arguments, error, match):
    experiment = create_experiment(make_url("memory"))
    decision = experiment.ask()
    experiment.tell(decision, 0.5)
    id = arguments[0].replace("DECISION", decision.id) if isinstance(arguments[0], str) else 3
    before = current_state(experiment)
    with pytest.raises(error, match=match):
        experiment.correct(id, *arguments[1:])
    assert current_state(experiment) == before


def test_no_more_corrections_than_the_log_can_number(monkeypatch):
    monkeypatch.setattr(log_rewards, "MAX_CORRECTIONS", 3)
    experiment = create_experiment(make_url("memory"))
    decision = experiment.ask()
    experiment.tell(decision, 0.0)
    for reward in (1.0, 2.0, 3.0):
        experiment.correct(decision, reward, "again")
    with pytest.raises(InvalidArgument, match="fewer corrections"):
        experiment.correct(decision, 4.0, "again")


def test_default_and_late_rewards(url):
    experiment = create_experiment(url, policy="rolf-bayes", reward_after=10.0, default_reward=0.1)
    now = 0.0
    experiment.synced.now = lambda: now
    experiment.tell_many([(each, 0.3 * place) for place, each in enumerate(experiment.ask_many(6))])
    late, lost = experiment.ask_many(2)
    now = 20.0
    experiment.status()
    with pytest.raises(UntoldDecision, match="tell it one"):
        experiment.correct(lost, 1.0, "it has only the default reward")
    experiment.tell(late, 1.0)
    experiment.correct(late, 0.2, "the wrong order")
    status = experiment.status()
    assert (status.told, status.defaults, status.pending) == (7, 1, 0)
    kinds = [(row.kind, row.reward) for row in rows_of(experiment) if row.number > 6]
    assert (DEFAULT, 0.1) in kinds
    assert kinds[-2:] == [(REWARD, 1.0), (CORRECTION, 0.2)]
    assert current_state(rolf.open_experiment(url, "one")) == folded_state(experiment)


@pytest.mark.parametrize("name", ["rolf-ridge", "drlasso", "rolf-varying"])
def test_corrections_between_snapshots_arms_and_history(url, name, monkeypatch):
    """Whatever lies before and after, all replicas hold the same bits."""
    monkeypatch.setattr(live, "SNAPSHOT_INTERVAL", 20)
    experiment, other = create_experiment(url, policy=name), rolf.open_experiment(url, "one")
    extra, decisions = round_features(experiment), []
    rng = np.random.default_rng(1)
    for step in range(60):
        each = (experiment, other)[step % 2]
        decisions.append(each.ask(**extra))
        each.tell(decisions[-1], rng.normal())
        if step % 9 == 8:
            wrong = decisions[int(rng.integers(0, len(decisions)))]
            each.correct(wrong, rng.normal() * (1e8 if step == 26 else 1.0), f"step {step}")
        if step == 20:
            past = {"features": FEATURES[:2]} if extra else {}
            each.learn([0, 1], [0.5, 1.0], **past)
        if step == 30 and not extra:
            each.update_features({0: [0.1, 0.2, 0.3]})
        if step % 15 == 0:
            assert current_state(experiment) == current_state(other) == folded_state(other)
    again = rolf.open_experiment(url, "one")
    assert again.synced.snapshot_upto > 0
    assert current_state(again) == current_state(other) == folded_state(other)
    experiment.rebuild()
    assert current_state(experiment) == folded_state(other)


def test_a_snapshot_from_before_a_correction_is_replaced(url, monkeypatch):
    monkeypatch.setattr(live, "SNAPSHOT_INTERVAL", 20)
    experiment, decision, right = played(url, "drlasso", 0.5, 3)
    assert experiment.synced.store.snapshot(experiment.record.id).upto > 20
    experiment.correct(decision, right, "half too much")
    again = rolf.open_experiment(url, "one")
    assert again.synced.snapshot_upto == again.synced.replica.last
    third = rolf.open_experiment(url, "one")
    assert third.synced.rows_since_snapshot == 0
    assert current_state(third) == current_state(experiment) == folded_state(experiment)


def correct_all(url, ids, reward):
    with rolf.open_experiment(url, "one") as experiment:
        for id in ids:
            experiment.correct(id, reward, f"{reward} is right")
            experiment.ask()


@pytest.mark.slow
def test_processes_correct_the_same_decisions(shared_url):
    experiment = create_experiment(shared_url, policy="rolf-bayes")
    decisions = experiment.ask_many(10)
    experiment.tell_many({each.id: float(place) for place, each in enumerate(decisions)})
    ids = [each.id for each in decisions]
    in_processes(correct_all, *((shared_url, ids, reward) for reward in (100.0, 200.0, 300.0)))
    current = {each.number: each.reward for each in rows_of(experiment) if each.kind == REWARD}
    corrections = [row for row in rows_of(experiment) if row.kind == CORRECTION]
    assert len(corrections) == 30
    for row in corrections:  # each names the reward that it replaced
        assert row.parsed["was"] == current[row.number]
        current[row.number] = row.reward
    status = experiment.status()
    assert (status.asked, status.told) == (40, 10)
    assert current_state(experiment) == folded_state(experiment)


def test_a_fold_that_fails_is_made_up_for(monkeypatch):
    """A process learns of a gross mistake while the database is locked by others. It must not go
    on as if it had taken in the correction, nor save such a state for others to open."""
    url = make_url("sqlite")
    experiment, decision, reward = played(url, "ucb", MISTAKES["gross"], 12)
    other = rolf.open_experiment(url, "one")
    experiment.correct(decision, reward, "a slip")

    def locked(**_):
        raise StorageUnavailable("others keep it locked")

    with monkeypatch.context() as patch:
        patch.setattr(other.synced, "fold", locked)
        for _ in range(2):
            with pytest.raises(StorageUnavailable):
                other.status()
    other.ask()
    other.snapshot()
    with rolf.open_experiment(url, "one") as again:
        assert again.synced.snapshot_upto > 0
        assert current_state(again) == current_state(other) == folded_state(experiment)
