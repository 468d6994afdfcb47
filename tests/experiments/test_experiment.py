"""Experiments on every store: what they refuse, what they recover from, and policies of users."""

from __future__ import annotations

import json
import math
from datetime import timedelta

import numpy as np
import pandas
import pytest

import rolf
from rolf.arms.table import Arms
from rolf.errors import DifferentExperiment, ExperimentError, InvalidArgument, RolfWarning
from rolf.experiments.database import Database, create
from rolf.experiments.roster import Roster
from rolf.experiments.storage.memory import MemoryStore
from rolf.experiments.storage.rows import DECISION, REWARD, ROSTER
from rolf.experiments.storage.sqlite import file as sqlite_file
from rolf.testing.experiments import roster_of, rows_of
from rolf.testing.storage import (
    ARMS,
    FEATURES,
    MEANS,
    NAMED_FEATURES,
    create_experiment,
    current_state,
    folded_state,
    play,
)
from support.stores import make_url


def test_invalid_asks_change_nothing(url):
    experiment = create_experiment(url)
    play(experiment, 5)
    before = current_state(experiment)
    invalid = [
        {"available": [99]},
        {"available": []},
        {"features": FEATURES},
    ]
    for arguments in invalid:
        with pytest.raises(InvalidArgument):
            experiment.ask(**arguments)
        with pytest.raises(InvalidArgument):
            experiment.ask_many(2, **arguments)
    with pytest.raises(InvalidArgument):
        experiment.ask_many(0)
    assert current_state(experiment) == before
    assert experiment.ask(available=iter([2])).arm == 2
    experiment.tell_many([])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"policy": "ucb"}, "policy: 'rolf-ridge' there, 'ucb' here"),
        ({"options": {"p": 0.9}}, "options: p: 0.6 there, 0.9 here"),
        ({"seed": 5}, "seed: 4 there, 5 here"),
        ({"reward_after": 3.0}, "reward_after: None there, 3.0 here"),
        ({"policy": rolf.UCB}, "policy: 'rolf-ridge' there, 'ucb' here"),
        ({"features": FEATURES + np.eye(ARMS, 3)}, "arm 0, column 0"),
        ({"features": FEATURES[:4]}, "shape"),
        ({"features": NAMED_FEATURES}, "no names"),
    ],
)
def test_other_settings_are_refused(url, arguments, words):
    create_experiment(url)
    with pytest.raises(DifferentExperiment, match=words):
        create_experiment(url, **arguments)
    create_experiment(url).ask()


def test_features_are_corrected(url):
    experiment = create_experiment(url, policy="linucb")
    play(experiment, 40)
    corrected = FEATURES.copy()
    corrected[2] = [1.0, 2.0, 3.0]
    experiment.update_features({2: corrected[2]})
    fresh = rolf.LinUCB(corrected)
    belief = experiment.synced.replica.state.belief
    fresh.state.belief.counts[:] = belief.counts
    fresh.state.belief.sums[:] = belief.sums
    fresh.recompute()
    assert np.allclose(experiment.estimates(), fresh.estimates())
    assert current_state(rolf.open_experiment(url, "one")) == folded_state(experiment)
    experiment.update_features(FEATURES)
    for wrong in ({9: [1, 2, 3]}, FEATURES[:3], FEATURES[:, :2], {1: [1, 2]}, {0: "x"}):
        with pytest.raises(InvalidArgument, match="features"):
            experiment.update_features(wrong)


def test_arms_and_names_that_are_refused(url):
    experiment = create_experiment(url, features=NAMED_FEATURES)
    renamed = NAMED_FEATURES.rename(columns={0: "q"})
    for wrong in (NAMED_FEATURES, FEATURES, renamed, [[1.0]], []):
        with pytest.raises(InvalidArgument, match="features"):
            experiment.add_arms(wrong)
    with pytest.raises(InvalidArgument, match="ids"):
        experiment.retire_arms("zz")
    varying = create_experiment(url, "two", policy="rolf-varying")
    with pytest.raises(InvalidArgument, match="every ask"):
        varying.update_features(FEATURES)
    for wrong in ("", " x", 3, "x" * 501):
        with pytest.raises(InvalidArgument, match="name"):
            create_experiment(url, wrong)


def test_any_database_takes_the_longest_name(url):
    rng = np.random.default_rng(0)
    name = "".join(map(chr, rng.integers(0x20000, 0x2A6D0, 500)))  # four bytes each
    create_experiment(url, name).close()
    assert Database(url).names() == [name]


def test_draws_depend_on_seed_and_number_alone(url):
    """A restart neither repeats nor skips exploration."""
    expected = play(create_experiment(url, "steady"), 24)
    arms = []
    rng = np.random.default_rng(0)
    for number in range(24):
        experiment = create_experiment(url, "restarted")
        decision = experiment.ask()
        experiment.tell(decision, MEANS[decision.arm] + 0.1 * rng.standard_normal())
        arms.append(decision.arm)
        assert decision.id.endswith(f"-{number + 1}")
        experiment.close()
    assert arms == expected


def test_a_table_given_again_may_be_the_first_the_current_or_the_active_one(url):
    experiment = create_experiment(url, features=NAMED_FEATURES)
    new = pandas.DataFrame([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]], index=["g", "h"])
    experiment.add_arms(new)
    experiment.retire_arms(["a", "b"])
    everything = pandas.concat([NAMED_FEATURES, new])
    for same in (NAMED_FEATURES, everything, everything[2:]):
        rolf.open_experiment(url, "one", features=same)
        rolf.open_experiment(url, "one", features=same[[2, 0, 1]][::-1])
    changed = everything.copy()
    changed.loc["h", 1] = 7.0
    for other, words in (
        (NAMED_FEATURES.rename(index={"a": "z"}), "'z' is new"),
        (everything[1:], "'a' is missing"),
        (everything[[0, 1]], "shape"),
        (everything.rename(columns={0: "q"}), "columns"),
        (changed, "arm 'h', column 1: 2.0 there, 7.0 here"),
    ):
        with pytest.raises(DifferentExperiment, match=words):
            rolf.open_experiment(url, "one", features=other)


def test_arms_counts_and_log(url):
    one, two = (create_experiment(url, features=NAMED_FEATURES, policy="ucb") for _ in range(2))
    decisions = [one.ask(available=[arm]) for arm in "aab"]
    one.tell(decisions[0], 2.0)
    one.add_arms(pandas.DataFrame([[1.0, 2.0, 3.0]], index=["g"]))
    one.retire_arms(["b"])
    one.tell(two.ask(available=["g"]), 1.0)
    for experiment in (one, two):  # without asking or telling first
        assert experiment.counts() == (4, 2)
        arms = {each.arm: each for each in experiment.arm_table()}
        assert list(arms) == list("abcdefg")
        assert [each.plays for each in arms.values()] == [2, 1, 0, 0, 0, 0, 1]
        assert [each.told for each in arms.values()] == [1, 0, 0, 0, 0, 0, 1]
        assert [name for name, each in arms.items() if not each.active] == ["b"]
        assert arms["g"].features == {"0": 1.0, "1": 2.0, "2": 3.0}
        assert arms["a"].features == dict(zip("012", FEATURES[0].tolist(), strict=True))
        roster = roster_of(experiment)
        assert roster.arms.labels == list(arms)
        assert roster.active == [each.active for each in arms.values()]
        log = rows_of(experiment)
        kinds = [DECISION, DECISION, DECISION, REWARD, ROSTER, ROSTER, DECISION, REWARD]
        assert [row.kind for row in log] == kinds
        assert [row.number for row in log] == [1, 2, 3, 1, 1, 2, 4, 4]
        assert [row.clock_steps for row in log if row.kind == DECISION] == [1] * 4
        assert not any(row.replaces_default for row in log if row.kind == REWARD)
        assert experiment.record.name == "one"
        assert experiment.record.seed == 4
    two.close()
    for method in (two.counts, two.arm_table, lambda: two.arms, two.log):
        with pytest.raises(ExperimentError, match="closed"):
            method()


def test_counting_expires_nothing():
    experiment = create_experiment(make_url("memory"), policy="ucb", reward_after=10.0)
    now = 0.0
    experiment.synced.now = lambda: now
    decision = experiment.ask()
    now = 100.0
    experiment.counts()
    experiment.arm_table()
    assert len(rows_of(experiment)) == 1
    experiment.tell(decision, 1.0)
    assert not rows_of(experiment)[1].replaces_default


@pytest.mark.parametrize("policy", ["beta-ts", "kl-ucb"])
def test_a_default_reward_must_be_one_that_the_policy_accepts(policy):
    url = make_url("memory")
    with pytest.raises(InvalidArgument, match=r"default_reward: got -1\.0, wanted .*from 0 to 1"):
        create_experiment(url, policy=policy, default_reward=-1.0, reward_after=10.0)
    assert Database(url).names() == []
    create_experiment(url, policy=policy, default_reward=0.5, reward_after=10.0)


def test_a_warning_about_the_features_is_shown_once():
    url = make_url("memory")
    dependent = np.column_stack([FEATURES[:, :2], FEATURES[:, 0] + FEATURES[:, 1]])
    with pytest.warns(RolfWarning, match="rank 2 but 3 columns") as caught:
        experiment = create_experiment(url, features=dependent)
    assert len(caught) == 1
    play(experiment, 5)
    create_experiment(url, features=dependent).ask()  # warnings are errors here
    experiment.add_arms([[1.0, 1.0, 2.0]])


@pytest.mark.parametrize("label", [np.nan, np.inf, None, True, (1, 2)])
def test_names_of_arms_that_no_log_can_hold(label):
    frame = pandas.DataFrame(FEATURES, index=pandas.Index([label, *"bcdef"], tupleize_cols=False))
    with pytest.raises(InvalidArgument, match="arms named by text or numbers"):
        create_experiment(make_url("memory"), features=frame)


def test_another_default_reward_is_refused():
    url = make_url("memory")
    create_experiment(url, default_reward=0.5, reward_after=3.0)
    with pytest.raises(DifferentExperiment, match=r"default_reward: 0\.5 there, 0\.25 here"):
        create_experiment(url, default_reward=0.25, reward_after=3.0)


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"default_reward": 1.0}, "default_reward"),
        ({"reward_after": 0.0}, "reward_after"),
        ({"reward_after": timedelta(seconds=-1)}, "reward_after"),
        ({"reward_after": 1.0, "default_reward": math.nan}, "default_reward"),
        ({"reward_after": 1.0, "default_reward": 1e200}, "default_reward"),
        ({"seed": -1}, "seed"),
        ({"seed": 2.5}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"options": {"q": 1}}, "options"),
        ({"policy": "rolf-rigde"}, "policy"),
    ],
)
def test_settings_that_are_no_settings(arguments, argument):
    url = make_url("memory")
    with pytest.raises(InvalidArgument, match=f"^{argument}: "):
        create_experiment(url, **arguments)
    assert Database(url).names() == []


def test_what_is_recorded_of_the_settings(url):
    experiment = create_experiment(url, reward_after=timedelta(days=2, seconds=1))
    assert experiment.record.reward_after == 172801.0
    assert experiment.record.default_reward == 0.0
    assert experiment.record.seed == 4
    assert json.loads(experiment.record.options) == rolf.RoLFRidge(FEATURES).options
    seeds = {create_experiment(url, name, seed=None).record.seed for name in "abc"}
    assert len(seeds) == 3


def test_another_process_may_create_it_first(monkeypatch):
    url = make_url("memory")
    create_experiment(url).ask()
    record, calls = MemoryStore.record, []

    def too_early(store, name):
        calls.append(name)
        return record(store, name) if len(calls) > 1 else None

    monkeypatch.setattr(MemoryStore, "record", too_early)
    assert create_experiment(url).status().asked == 1


def test_a_failed_call_leaves_no_connection_open():
    url = make_url("sqlite")
    create_experiment(url).close()
    path = url.removeprefix("sqlite:///")
    assert path not in sqlite_file.files._open
    for attempt in (
        lambda: rolf.open_experiment(url, "none"),
        lambda: create_experiment(url, seed=99),
        lambda: create(url, "one", Roster.read(FEATURES)),
    ):
        with pytest.raises(ExperimentError):
            attempt()
    assert path not in sqlite_file.files._open


def test_arms_by_name_and_by_column():
    frame = NAMED_FEATURES.rename(index={"a": "first"})
    experiment = create_experiment(make_url("memory"), features=frame)
    experiment.retire_arms("first")
    assert roster_of(experiment).active == [False] + [True] * 5
    new = pandas.DataFrame([[1.0, 2.0, 3.0]], index=["g"])
    experiment.add_arms(new[[2, 0, 1]])
    assert experiment.arm_table()[-1].features == {"0": 1.0, "1": 2.0, "2": 3.0}
    experiment.update_features((2 * new)[[1, 2, 0]])
    assert experiment.arm_table()[-1].features == {"0": 2.0, "1": 4.0, "2": 6.0}
    for wrong in (Arms(new.to_numpy(), ["h"], list("xyz")), new[:0]):
        with pytest.raises(InvalidArgument, match="features"):
            experiment.add_arms(wrong)
    experiment.add_arms(Arms(new.to_numpy(), ["h"], ["0", "1", "2"]))
    numbered = create_experiment(make_url("memory"), policy="ucb")
    numbered.retire_arms(2)
    assert not roster_of(numbered).active[2]
