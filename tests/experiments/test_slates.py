"""Slates: several different arms at once, with the chance of each at its place."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

import rolf
from cli.test_experiments import files  # noqa: F401
from rolf.errors import ExperimentError, InvalidArgument
from rolf.experiments.storage import contract as base
from rolf.testing.storage import create_experiment, current_state, folded_state, round_features
from support.commands import run
from support.helpers import ARMS, FEATURES, LETTERS, every_policy, extra, make, play
from support.stores import make_url


@every_policy
def test_a_slate_has_different_arms(name):
    policy = make(name)
    play(policy, 10)
    slate = policy.ask_many(ARMS, distinct=True, **extra(policy))
    assert {each.arm for each in slate} == set(range(ARMS))
    assert all(0.0 < each.probability <= 1.0 for each in slate)
    assert slate[-1].probability == 1.0  # nothing else is left
    assert policy.rounds == 10 + ARMS
    for each in slate:
        policy.tell(each, 0.5)
    some = policy.ask_many(2, distinct=True, available=[1, 4, 5], **extra(policy))
    assert {each.arm for each in some} < {1, 4, 5}
    assert len({each.arm for each in some}) == 2


@every_policy
def test_slates_of_an_experiment(name):
    url = make_url("sqlite")
    experiment = create_experiment(url, policy=name)
    slate = experiment.ask_many(4, distinct=True, **round_features(experiment))
    assert len({each.arm for each in slate}) == 4
    experiment.tell_many({each.id: 0.25 for each in slate})
    again = rolf.open_experiment(url, "one")
    assert current_state(again) == current_state(experiment) == folded_state(experiment)
    status = again.status(**round_features(again))
    assert (status.asked, status.told) == (4, 4)
    assert sorted(arm.plays for arm in status.arms) == [0, 0, 1, 1, 1, 1]


@pytest.mark.slow
def test_a_probability_is_that_of_the_arm_at_its_place():
    """Counted over many slates, given the arm at the first place."""
    firsts, seconds, stated = Counter(), Counter(), {}
    for seed in range(4000):
        policy = make("rolf-bayes", seed=seed, explore=1.0)
        one, two = policy.ask_many(2, distinct=True)
        assert one.probability == pytest.approx(1 / ARMS)
        assert two.probability == pytest.approx(1 / (ARMS - 1))
        firsts[one.arm] += 1
    assert max(abs(count / 4000 - 1 / ARMS) for count in firsts.values()) < 0.03
    for seed in range(4000):
        policy = make("rolf-ridge", seed=seed, exploration=0)
        policy.learn(range(ARMS), [1.0, 0.9, 0.0, 0.0, 0.0, 0.0])
        one, two = policy.ask_many(2, distinct=True)
        if one.arm == 2:
            seconds[two.arm] += 1
            stated[two.arm] = two.probability
    total = sum(seconds.values())
    assert total > 200
    for arm, count in seconds.items():
        assert abs(count / total - stated[arm]) < 4 * np.sqrt(stated[arm] / total)


@pytest.mark.parametrize("wrong", [7, 0, -1, 2.0, "2", True])
def test_slates_that_cannot_be(wrong):
    policy, experiment = make("ucb"), create_experiment(make_url("memory"), policy="ucb")
    for ask_many in (policy.ask_many, experiment.ask_many):
        with pytest.raises(InvalidArgument, match="n: got"):
            ask_many(wrong, distinct=True)
        with pytest.raises(InvalidArgument, match="at most 2, the number of available arms"):
            ask_many(3, available=[1, 2], distinct=True)
    experiment.retire_arms([0])
    with pytest.raises(InvalidArgument, match="at most 5"):
        experiment.ask_many(6, distinct=True)
    assert policy.rounds == 0
    assert experiment.status().asked == 0


def test_a_slate_that_is_recorded_in_parts_is_distinct(monkeypatch):
    monkeypatch.setattr(base, "MAX_TEXT", 1)  # one decision at a time
    experiment = create_experiment(make_url("sqlite"), policy="rolf-varying")
    slate = experiment.ask_many(ARMS, distinct=True, features=FEATURES)
    assert {each.arm for each in slate} == set(range(ARMS))


def test_slates_on_the_command_line(files):  # noqa: F811
    items, url = files
    run("new", url, "x", "--features", items)
    slate = json.loads(run("ask", url, "x", "-n", 4, "--distinct", "--json"))
    assert sorted(each["arm"] for each in slate) == list("abcd")
    with pytest.raises(InvalidArgument, match="at most 4"):
        run("ask", url, "x", "-n", 5, "--distinct", ok=False)


# --- what an experiment believes ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["rolf-bayes", "rolf-lasso", "lints", "rolf-bayes-varying"])
def test_an_experiment_says_what_its_policy_would(name):
    experiment = create_experiment(make_url("sqlite"), policy=name, features=LETTERS)
    alone = make(name, LETTERS)
    rng = np.random.default_rng(0)
    arms, rewards = rng.choice(list("abcdef"), 60), rng.normal(size=60)
    more = {}
    if alone.varying:
        more = {"features": LETTERS.loc[arms].to_numpy()}
    experiment.learn(arms, rewards, **more)
    alone.learn(arms, rewards, **more)
    given = extra(alone)
    for method in ("estimates", "probabilities", "intervals", "probability_best"):
        same = method if hasattr(alone, method) else method.removeprefix("probability_")
        if hasattr(alone, same):
            one, two = getattr(experiment, method)(**given), getattr(alone, same)(**given)
            assert np.allclose(one, two, atol=0.05 if method == "probability_best" else 1e-8), (
                method
            )
            assert list(one.index) == list("abcdef")
        else:
            with pytest.raises(ExperimentError, match=f"{name} has no posterior"):
                getattr(experiment, method)(**given)
    assert experiment.rank(**given) == alone.rank(**given)
    assert experiment.rank(2, **given) == alone.rank(2, **given)
    best = alone.rank(1, **given)[0]
    experiment.retire_arms(best)
    assert experiment.rank(**given) == alone.rank(**given)[1:]
    assert experiment.probabilities(**given)[best] == 0.0
    assert experiment.probabilities(**given).sum() == pytest.approx(1.0)
    if hasattr(alone, "intervals"):
        assert experiment.probability_best(**given)[best] == 0.0
        assert set(experiment.intervals(0.5, **given).columns) == {"low", "high"}
    experiment.restore_arms([best])
    assert experiment.rank(1, **given) == [best]


def test_reading_beliefs_records_and_changes_nothing(url):
    experiment = create_experiment(url, policy="rolf-bayes")
    other = rolf.open_experiment(url, "one")
    experiment.tell_many([(each, 0.1 * place) for place, each in enumerate(other.ask_many(8))])
    before = current_state(other)
    other.rank(3), other.intervals(), other.probabilities(), other.probability_best(draws=10)
    assert current_state(other) == before
    assert other.probabilities(available=[1, 2])[[0, 3, 4, 5]].tolist() == [0.0] * 4
    for call in (
        lambda: other.rank(0),
        lambda: other.intervals(2.0),
        lambda: other.probability_best(draws=0),
        lambda: other.probabilities(available=[99]),
        lambda: other.estimates(features=FEATURES),
        lambda: other.rank(context=[1.0]),
    ):
        with pytest.raises(InvalidArgument):
            call()


def test_arms_come_back_with_what_is_known_about_them(url):
    experiment = create_experiment(url, policy="ucb", features=LETTERS)
    experiment.tell(experiment.ask(available=["b"]), 5.0)
    experiment.retire_arms(["a", "b"])
    assert "b" not in {each.arm for each in experiment.ask_many(20)}
    experiment.snapshot()
    other = rolf.open_experiment(url, "one")
    other.restore_arms("b")
    other.restore_arms(["b", "c"])  # they are there already
    assert [arm.active for arm in experiment.status().arms] == [False, *[True] * 5]
    assert experiment.estimates()["b"] == 5.0
    assert experiment.ask(available=["b"]).arm == "b"
    with pytest.raises(InvalidArgument, match="ids"):
        other.restore_arms(["z"])
    assert current_state(rolf.open_experiment(url, "one")) == folded_state(experiment)
    rolf.open_experiment(url, "one", features=LETTERS)
