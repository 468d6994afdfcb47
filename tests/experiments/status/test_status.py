"""The status of an experiment."""

from __future__ import annotations

import json

import numpy as np
import pytest

import rolf
from rolf.experiments.status.make import DRAWS, status_of
from rolf.experiments.status.result import LEVEL
from rolf.experiments.status.text import table
from rolf.experiments.status.view import view_of
from rolf.experiments.storage.rows import REWARD
from rolf.policies.posterior_policy import PosteriorPolicy
from rolf.policies.state.arrays import arrays
from rolf.testing.experiments import rows_of
from rolf.testing.storage import (
    ARMS,
    FEATURES,
    NAMED_FEATURES,
    accepted_reward,
    create_experiment,
    play,
    round_features,
)
from support.helpers import every_policy
from support.stores import make_url


def test_counts_per_arm():
    url = make_url("memory")
    experiment = create_experiment(url, features=NAMED_FEATURES, policy="ucb", reward_after=10.0)
    now = 0.0
    experiment.synced.now = lambda: now
    decisions = [experiment.ask(available=[arm]) for arm in "aaabbc"]
    for decision in decisions[:2] + decisions[3:4]:
        experiment.tell(decision, 2.0)
    experiment.retire_arms(["c"])
    now = 20.0
    experiment.ask(available=["d"])
    status = experiment.status()
    assert (status.name, status.policy) == ("one", "ucb")
    assert status.options == rolf.UCB(FEATURES).options
    assert (status.asked, status.told, status.defaults, status.pending) == (7, 3, 3, 1)
    assert [arm.arm for arm in status.arms] == list("abcdef")
    assert [arm.plays for arm in status.arms] == [3, 2, 1, 1, 0, 0]
    assert [arm.told for arm in status.arms] == [2, 1, 0, 0, 0, 0]
    assert [arm.active for arm in status.arms] == [True, True, False, True, True, True]
    estimates = [arm.estimate for arm in status.arms[:3]]
    assert estimates == pytest.approx([4 / 3, 1.0, 0.0])  # default rewards are zeros


@every_policy
def test_every_status_is_plain_data(name):
    """Also before the first reward, and with every arm retired."""
    experiment = create_experiment(make_url("memory"), policy=name)
    features = round_features(experiment)
    varying = bool(features)
    actions = (
        lambda: None,
        lambda: play(experiment, 12),
        lambda: experiment.retire_arms(range(ARMS)),
    )
    for action in actions:
        action()
        for arguments in ({}, features):
            status = experiment.status(**arguments)
            data = json.loads(json.dumps(status.to_dict(), allow_nan=False))
            assert len(data["arms"]) == ARMS
            unknown = varying and not arguments
            assert all((arm["estimate"] is None) == unknown for arm in data["arms"])
    assert all(arm.best is None for arm in experiment.status(**features).arms)


@pytest.mark.parametrize("name", ["ucb", "rolf-bayes"])
def test_the_best_active_arm(name):
    experiment = create_experiment(make_url("memory"), policy=name)
    for arm in range(ARMS):
        for noise in (-0.1, 0.0, 0.1):
            experiment.tell(experiment.ask(available=[arm]), arm + noise)
    arms = experiment.status().arms
    assert sum(arm.best for arm in arms) == pytest.approx(1.0)
    assert arms[5].best > 0.99
    assert all(arm.low < arm.estimate < arm.high for arm in arms)
    experiment.retire_arms([5])
    arms = experiment.status().arms
    assert arms[5].best == 0.0
    assert arms[4].best > 0.99
    assert sum(arm.best for arm in arms) == pytest.approx(1.0)


@every_policy
def test_rewards_of_any_size_that_is_accepted(name):
    experiment = create_experiment(make_url("memory"), policy=name)
    features = round_features(experiment)
    for reward in (1e300, -1e300, 1e300):
        decision = experiment.ask(**features)
        experiment.tell(decision, accepted_reward(experiment, reward))
    status = experiment.status(**features)
    json.dumps(status.to_dict(), allow_nan=False)
    assert status.told == 3
    assert all(np.isfinite(arm.estimate) for arm in status.arms)


# --- what it is computed from ---


def replica_of(experiment):
    return experiment.synced.replica


@every_policy
def test_a_status_is_of_the_moment_at_which_it_was_captured(name):
    experiment = create_experiment(make_url("memory"), policy=name)
    features = round_features(experiment)
    play(experiment, 20)
    table = np.array(features["features"]) if features else None
    view = view_of(replica_of(experiment), table)
    expected = status_of("one", view_of(replica_of(experiment), table))
    play(experiment, 20)
    experiment.retire_arms([0])
    experiment.add_arms(np.ones((1, len(FEATURES[0]))))
    assert status_of("one", view) == expected
    assert experiment.status() != expected


@pytest.mark.parametrize("name", ["ucb", "linucb", "rolf-lasso"])
def test_policies_without_a_posterior_have_that_of_rolf_bayes(name):
    experiment = create_experiment(make_url("memory"), policy=name)
    play(experiment, 40)
    experiment.status()  # the replica is in step with the log afterwards
    totals = replica_of(experiment).totals
    bayes = rolf.RoLFBayes(FEATURES, seed=0)
    bayes.learn_totals(totals.counts, totals.sums, totals.squares, level=totals.anchor)
    experiment.retire_arms([1])
    arms = experiment.status().arms
    low, high = bayes.intervals(LEVEL).T
    available = [arm for arm in range(ARMS) if arm != 1]
    assert [arm.posterior_mean for arm in arms] == bayes.estimates().tolist()
    assert [arm.low for arm in arms] == low.tolist()
    assert [arm.high for arm in arms] == high.tolist()
    assert [arm.best for arm in arms] == getattr(
        bayes, "probability_best", getattr(bayes, "best", None)
    )(available=available, draws=DRAWS).tolist()


@pytest.mark.parametrize("clicks", [False, True])
@every_policy
def test_every_interval_belongs_to_the_estimate_beside_it(name, clicks):
    experiment = create_experiment(make_url("memory"), policy=name)
    features = round_features(experiment)
    rng = np.random.default_rng(0)
    for _ in range(150):
        decision = experiment.ask(**features)
        chance = 0.1 + 0.1 * decision.arm
        reward = rng.random() < chance if clicks else chance + 0.1 * rng.standard_normal()
        experiment.tell(decision, max(float(reward), 0.0))
    status = experiment.status(**features)
    data = json.loads(json.dumps(status.to_dict()))
    owner = data["posterior_of"]
    own = isinstance(replica_of(experiment).policy, PosteriorPolicy)
    varying = experiment.synced.replica.policy.varying
    assert owner == (name if own else None if varying else "rolf-bayes")
    header, *rows = table(status)
    for arm in data["arms"]:
        assert (arm["low"] is None) == (owner is None)
        if owner is not None:
            assert arm["low"] < arm["posterior_mean"] < arm["high"]
        if own:
            assert arm["estimate"] == arm["posterior_mean"]
    if owner is not None:  # what is printed: the last estimate before the interval is its own
        place = header.index("90% interval")
        assert header[place - 1] == ("estimate" if own else "rolf-bayes")
        for row in rows:
            low, high = map(float, row[place].split(" to "))
            assert low <= float(row[place - 1]) <= high
    assert ("has no intervals:" in str(status)) == (owner not in (None, name))


@pytest.mark.parametrize("name", ["rolf-bayes", "rolf-lasso", "ucb"])
def test_nothing_of_the_size_of_arms_by_arms_is_copied(name):
    count = 200
    features = np.random.default_rng(0).random((count, 2))
    experiment = create_experiment(make_url("memory"), features=features, policy=name)
    for reward in (0.0, 1.0):
        experiment.tell(experiment.ask(), reward)
    replica = replica_of(experiment)
    view = view_of(replica)
    assert view.features is replica.policy.arms.features
    parts = [view.estimates, *(view.totals or ())]
    if view.belief is not None:
        parts += [array for _, array in arrays(view.belief)]
        assert view.model is replica.policy.params.model
    assert sum(np.size(part) for part in parts) < 119 * (3 * count + 25)


def test_rewards_whose_squares_are_too_large_for_a_posterior():
    """An older version accepted them."""
    experiment = create_experiment(make_url("memory"), policy="ucb")
    experiment.ask_many(3)
    for row, reward in zip(rows_of(experiment), (1.0, 1e145, 3.0), strict=True):
        experiment.synced.store.append(experiment.record.id, [row.rewarded(REWARD, reward, 5.0)])
    assert experiment.status().told == 3
    assert all(arm.low is None and arm.best is None for arm in experiment.status().arms)
