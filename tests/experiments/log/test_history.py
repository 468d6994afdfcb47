"""Rewards from before an experiment, and policies that start from them."""

from __future__ import annotations

import numpy as np
import pandas
import pytest

import rolf
from rolf.errors import ExperimentError, InvalidArgument
from rolf.experiments.storage.rows import HISTORY
from rolf.policies.catalogue import CATALOG
from rolf.testing.experiments import rows_of
from rolf.testing.storage import (
    accepted_reward,
    create_experiment,
    current_state,
    folded_state,
    play,
    round_features,
)
from support.helpers import ARMS, FEATURES, LETTERS, in_processes, make
from support.stores import make_url

RNG = np.random.default_rng(5)
PAST_ARMS = RNG.integers(0, ARMS, 200)
PAST_REWARDS = RNG.uniform(0.0, 1.0, 200)


def past_features(experiment):
    return {"features": FEATURES[PAST_ARMS]} if experiment.synced.replica.policy.varying else {}


# --- forced exploration ------------------------------------------------------------------------


def forced(policy, rounds=40):
    """In which of the next rounds the policy explores whatever it has learned."""
    extra = {"features": FEATURES} if policy.varying else {}
    out = []
    for _ in range(rounds):
        before = policy.state.clock[1]
        policy.ask(**extra)
        out.append(bool(policy.state.clock[1] > before))
    return out


@pytest.mark.parametrize("name", ["rolf-lasso", "rolf-ridge", "rolf-varying"])
def test_rolf_does_not_explore_again_what_history_knows(name):
    arms = np.tile(np.arange(ARMS), 2)
    fresh, learned = make(name), make(name)
    assert forced(fresh) == [True] * 2 * ARMS + [False] * (40 - 2 * ARMS)
    more = {"features": FEATURES[arms]} if learned.varying else {}
    learned.learn(arms, np.ones(arms.size), **more)
    assert not any(forced(learned))
    assert learned.rounds == 2 * ARMS + 40


@pytest.mark.parametrize("name", ["rolf-lasso", "rolf-ridge"])
def test_history_of_few_arms_does_not_replace_exploring_the_others(name):
    policy = make(name)
    policy.learn([0] * 500 + [1], [1.0] * 501)  # two rounds of arm 0 and one of arm 1 count
    assert sum(forced(policy)) == 2 * ARMS - 3
    again = make(name)
    for _ in range(5):
        again.learn([0] * 100, [1.0] * 100)
    again.learn_totals([0, 1, 0, 0, 0, 0], [0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    assert sum(forced(again)) == 2 * ARMS - 3


def test_history_shortens_exploration_of_any_length():
    arms = np.repeat(np.arange(ARMS), 30)
    for exploration, left in ((7, 0), (180, 0), (186, 6), (7.5, 0), (0, 0)):
        policy = make("rolf-ridge", exploration=exploration)
        policy.learn(arms, np.ones(arms.size))
        assert sum(forced(policy)) == left, exploration
    theory = make("rolf-ridge", exploration="theory")
    needed = theory.forced_rounds(10**6)
    arms = np.repeat(np.arange(ARMS), int(needed / ARMS) + 1)
    theory.learn_totals(*np.bincount(arms)[None].repeat(2, axis=0))
    assert sum(forced(theory)) < 40


# --- experiments -------------------------------------------------------------------------------


#: every policy in one database, some in every database
PLACES = [(name, "sqlite") for name in CATALOG] + [
    (name, kind)
    for name in ("rolf-bayes", "rolf-varying", "drlasso")
    for kind in ("memory", "postgresql")
]


@pytest.mark.parametrize(("name", "kind"), PLACES)
def test_history_is_durable_and_exact(name, kind):
    """The same bits in the process that learned it, in one that has been reading, in one that
    opens a snapshot and in one that folds the log; the same estimates as of a policy alone."""
    url = make_url(kind)
    experiment = create_experiment(url, policy=name)
    other = rolf.open_experiment(url, "one")
    assert experiment.learn(PAST_ARMS, PAST_REWARDS, **past_features(experiment)) == 200
    alone = make(name)
    alone.learn(PAST_ARMS, PAST_REWARDS, **past_features(experiment))
    extra = round_features(experiment)
    assert np.allclose(experiment.estimates(**extra), alone.estimates(**extra), atol=1e-9)
    assert current_state(other) == current_state(experiment) == folded_state(experiment)
    assert experiment.synced.replica.state.clock.tolist() == alone.state.clock.tolist()
    play(other, 10)
    other.snapshot()
    experiment.learn(
        PAST_ARMS[:9],
        PAST_REWARDS[:9],
        **{name: rows[:9] for name, rows in past_features(experiment).items()},
    )
    again = rolf.open_experiment(url, "one")
    assert again.synced.snapshot_upto > 0
    assert current_state(again) == current_state(other) == folded_state(experiment)
    status = again.status(**extra)
    assert (status.asked, status.told, status.history) == (10, 10, 209)
    counts = np.bincount(PAST_ARMS, minlength=ARMS) + np.bincount(PAST_ARMS[:9], minlength=ARMS)
    assert [arm.history for arm in status.arms] == counts.tolist()
    assert sum(arm.plays for arm in status.arms) == 10


def test_history_is_known_but_was_not_earned(url):
    experiment = create_experiment(url, policy="ucb")
    experiment.learn([0, 1, 1], [5.0, 7.0, 9.0])
    assert experiment.status().total_reward == 0.0
    assert experiment.status().mean_reward is None
    experiment.tell(experiment.ask(available=[1]), 2.0)
    experiment.snapshot()
    for each in (experiment, rolf.open_experiment(url, "one")):
        status = each.status(timeline=True)
        assert (status.total_reward, status.mean_reward) == (2.0, 2.0)
        assert status.arms[1].mean == 2.0
        assert status.arms[1].estimate == pytest.approx(6.0)
        assert [period.mean for period in status.timeline] == [2.0]


def test_a_long_history_is_one_small_row(url):
    experiment = create_experiment(url, policy="rolf-bayes", features=LETTERS)
    arms = np.array(list("abcdef"))[RNG.integers(0, ARMS, 50_000)]
    experiment.learn(arms, RNG.normal(100.0, 1.0, arms.size))
    (row,) = rows_of(experiment)
    assert (row.kind, row.number) == (HISTORY, 1)
    assert len(row.details) < 1000
    assert row.parsed["counts"] == pandas.Series(arms).value_counts().sort_index().tolist()
    low, high = experiment.intervals().loc["a"]
    assert 99.9 < low < high < 100.1


def test_the_same_source_counts_once(url):
    experiment = create_experiment(url)
    assert experiment.learn([0, 1], [1.0, 2.0], source="march") == 2
    assert rolf.open_experiment(url, "one").learn([0, 1], [1.0, 2.0], source="march") == 0
    experiment.snapshot()
    again = rolf.open_experiment(url, "one")
    assert again.learn(iter([0, 1]), iter([1.0, 2.0]), source="march") == 0
    with pytest.raises(ExperimentError, match=r"'march' was learned already, with other rounds"):
        again.learn([0, 1], [1.0, 3.0], source="march")
    assert again.learn([0, 1], [1.0, 2.0], source="april") == 2
    assert again.learn([0, 1], [1.0, 2.0]) == 2
    assert again.learn([0, 1], [1.0, 2.0]) == 2  # without a name nobody can tell
    assert again.status().history == 8
    assert current_state(again) == folded_state(again)


@pytest.mark.parametrize("name", CATALOG)
def test_a_source_is_known_when_there_are_more_arms(name, tmp_path):
    """Also to a copy of the experiment."""
    experiment = create_experiment(make_url("sqlite"), policy=name)
    past = {"arms": PAST_ARMS, "rewards": PAST_REWARDS, **past_features(experiment)}
    assert experiment.learn(source="spring", **past) == PAST_ARMS.size
    experiment.add_arms(FEATURES[:1] + 0.5)
    assert experiment.learn(source="spring", **past) == 0
    with pytest.raises(ExperimentError, match="other rounds"):
        experiment.learn(source="spring", **{**past, "rewards": 0.5 * PAST_REWARDS})
    experiment.backup(tmp_path / "copy.db")
    copy = rolf.open_experiment(f"sqlite:///{tmp_path}/copy.db", experiment.name)
    assert copy.learn(source="spring", **past) == 0


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (
            {"arms": ["a", "z", "y", "z"], "rewards": [1.0] * 4},
            r"2 unknown arms.*'z' \(2 rounds\), 'y' \(1 round\)",
        ),
        ({"arms": ["a", [1]], "rewards": [1.0] * 2}, r"1 unknown arm'.*\[1\]"),
        ({"arms": ["a", "b"], "rewards": [1.0]}, "rewards: got '1 rewards', wanted 2"),
        (
            {"arms": ["a", "b"], "rewards": [1.0, float("nan")]},
            "rewards: got 'nan for past round 1'",
        ),
        ({"arms": ["a", "b"], "rewards": [1.0, "x"]}, "rewards"),
        ({"arms": ["a", "b"], "rewards": [1.0, 1e120]}, "in past round 1"),
        ({"arms": "ab", "rewards": [1.0, 2.0]}, "arms: got 'ab'"),
        ({"arms": [], "rewards": []}, "at least one past round"),
        ({"arms": ["a"], "rewards": [1.0], "features": [[1.0]]}, "fixed features"),
        ({"arms": ["a"], "rewards": [1.0], "probabilities": [0.0]}, "probabilities"),
        ({"arms": ["a"], "rewards": [1.0], "source": " "}, "source"),
        ({"arms": ["a"], "rewards": [1.0], "source": 3}, "source"),
        ({"arms": ["a"], "rewards": [1.0], "source": "x" * 300}, "at most 200"),
    ],
)
def test_history_that_is_refused_changes_nothing(arguments, match):
    experiment = create_experiment(make_url("memory"), features=LETTERS)
    before = current_state(experiment)
    with pytest.raises(InvalidArgument, match=match):
        experiment.learn(**arguments)
    assert current_state(experiment) == before
    assert rows_of(experiment) == []


def test_a_history_that_is_too_long_for_a_row_is_refused(monkeypatch):
    from rolf.experiments.log import history as past

    monkeypatch.setattr(past, "MAX_CHARACTERS", 1000)
    experiment = create_experiment(make_url("memory"), policy="rolf-varying")
    with pytest.raises(InvalidArgument, match=r"200 rounds.*fewer at a time"):
        experiment.learn(PAST_ARMS, PAST_REWARDS, features=FEATURES[PAST_ARMS])
    experiment.learn(PAST_ARMS[:5], PAST_REWARDS[:5], features=FEATURES[PAST_ARMS[:5]])


def test_retired_and_new_arms_have_history_too(url):
    experiment = create_experiment(url, policy="rolf-ridge")
    experiment.retire_arms([0])
    experiment.learn([0, 0, 1], [5.0, 5.0, 1.0])
    experiment.add_arms([[1.0, 2.0, 3.0]])
    experiment.learn([6, 1], [2.0, 1.0])
    assert [arm.history for arm in experiment.status().arms] == [2, 2, 0, 0, 0, 0, 1]
    assert current_state(rolf.open_experiment(url, "one")) == folded_state(experiment)


def test_rewards_that_expire_are_not_disturbed_by_history(url):
    experiment = create_experiment(url, policy="ucb", reward_after=10.0)
    experiment.synced.now = lambda: 0.0
    experiment.ask_many(2)
    experiment.learn([0, 1], [1.0, 1.0])
    experiment.synced.now = lambda: 20.0
    status = experiment.status()
    assert (status.defaults, status.pending, status.history) == (2, 0, 2)


def learn_and_play(url, number):
    with rolf.open_experiment(url, "one") as experiment:
        for part in range(5):
            experiment.learn([number, number], [1.0, 0.0], source=f"part {part}")  # all the same
            experiment.learn([number], [0.5], source=f"{number}, part {part}")
            play(experiment, 3)


@pytest.mark.slow
def test_processes_learn_the_same_history_once(shared_url):
    create_experiment(shared_url, policy="rolf-bayes").close()
    in_processes(learn_and_play, *[(shared_url, 3)] * 3)
    experiment = rolf.open_experiment(shared_url, "one")
    status = experiment.status()
    assert (status.asked, status.told, status.history) == (45, 45, 15)
    assert current_state(experiment) == folded_state(experiment)


def test_accepted_rewards_only():
    clicks = create_experiment(make_url("memory"), policy="beta-ts")
    with pytest.raises(InvalidArgument, match=r"3 in past round 1.*from 0 to 1"):
        clicks.learn([0, 1], [1.0, 3.0])
    assert accepted_reward(clicks, 3.0) == 1.0
