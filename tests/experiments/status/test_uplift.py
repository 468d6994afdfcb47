"""Uplift: what a decision earned beyond what the control would have."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import rolf
from rolf.errors import InvalidArgument
from rolf.estimators.posterior.mixture import known_posterior
from rolf.experiments.status.make import status_of
from rolf.experiments.status.result import LEVEL
from rolf.experiments.status.timeline import Outcomes, timeline
from rolf.experiments.status.uplift import _draws, _linear, logged_uplift
from rolf.experiments.status.view import view_of
from rolf.testing.storage import ARMS, FEATURES, NAMED_FEATURES, create_experiment, round_features
from support.stores import make_url


def played(policy, arms, rewards, **options):
    experiment = create_experiment(make_url("memory"), policy=policy, **options)
    for arm, reward in zip(arms, rewards, strict=True):
        experiment.tell(experiment.ask(available=[arm]), reward)
    return experiment


def some_rewards(seed, count=120, clicks=False):
    rng = np.random.default_rng(seed)
    arms = rng.choice(ARMS, size=count, p=[0.05, 0.05, 0.1, 0.1, 0.2, 0.5])
    means = np.linspace(0.1, 0.6, ARMS)[arms]
    rewards = rng.random(count) < means if clicks else means + 0.2 * rng.standard_normal(count)
    return arms.tolist(), rewards.astype(float).tolist()


def test_nothing_is_gained_over_the_arm_that_was_always_played():
    _, rewards = some_rewards(0, 40)
    uplift = played("rolf-bayes", [2] * 40, rewards).status(control=2).uplift
    assert (uplift.estimate, uplift.low, uplift.high) == pytest.approx((0.0, 0.0, 0.0), abs=1e-12)


@pytest.mark.parametrize("policy", ["rolf-bayes", "ucb"])
@pytest.mark.parametrize("control", [None, 3])
def test_the_estimate_by_hand(policy, control):
    """Shares of the decisions and posterior means are in the status itself."""
    experiment = played(policy, *some_rewards(1))
    experiment.retire_arms([0])
    status = experiment.status(control=control)
    active = [arm for arm in status.arms if arm.active]
    earned = sum(arm.plays * arm.posterior_mean for arm in status.arms) / status.asked
    baseline = sum(arm.posterior_mean for arm in active) / len(active)
    if control is not None:
        baseline = status.arms[control].posterior_mean
    assert status.uplift.estimate == pytest.approx(earned - baseline)
    assert status.uplift.baseline == pytest.approx(baseline)
    assert status.uplift.low < status.uplift.estimate < status.uplift.high
    assert (status.uplift.control, status.uplift.level) == (control, LEVEL)
    assert (status.uplift.estimator, status.uplift.posterior_of) == ("posterior", "rolf-bayes")


def test_the_interval_agrees_with_draws_from_the_posterior():
    policy = rolf.RoLFBayes(FEATURES, seed=0)
    policy.learn(*some_rewards(2))
    known = known_posterior(policy.params.model, policy.state.belief, policy.arms.features)
    weights = np.array([0.5, 0.2, 0.1, 0.2, -0.4, -0.6])
    low, high = _linear(known, weights).interval(0.9)[0]
    draws = _draws(known, weights)
    error = draws.std() * math.sqrt(0.05 * 0.95 / draws.size) / 0.103  # of a 5% quantile
    assert np.quantile(draws, [0.05, 0.95]) == pytest.approx([low, high], abs=5.0 * error)


@pytest.mark.parametrize("clicks", [False, True])
def test_how_often_the_interval_holds_the_truth(clicks):
    """60 logs of UCB: fewer than 46 hits have a chance below 0.001 if the level is 0.9."""
    hits = 0
    for seed in range(60):
        rewards = "bernoulli" if clicks else "gaussian"
        problem = rolf.environments.synthetic(arms=8, observed=2, rewards=rewards).draw(seed=seed)
        options = {"features": problem.features, "options": {"setting": "tuned", "noise": 0.3}}
        experiment = create_experiment(make_url("memory"), policy="ucb", **options)
        rng = np.random.default_rng(seed)
        for _ in range(12):
            batch = experiment.ask_many(10)
            experiment.tell_many({each.id: problem.reward(each.arm, rng) for each in batch})
        status = experiment.status()
        shares = np.array([arm.plays for arm in status.arms]) / status.asked
        truth = float(shares @ problem.means - problem.means.mean())
        hits += status.uplift.low <= truth <= status.uplift.high
    assert hits >= 46


def test_an_unknown_control_is_refused():
    experiment = create_experiment(make_url("memory"), features=NAMED_FEATURES)
    with pytest.raises(InvalidArgument, match=r"control.*'a', 'b'"):
        experiment.status(control="z")


def test_there_is_no_uplift_before_anything_is_known():
    experiment = create_experiment(make_url("memory"))
    assert experiment.status().uplift is None
    decision = experiment.ask()
    assert experiment.status(control=0).uplift is None
    experiment.tell(decision, 2.5)
    assert experiment.status().uplift is None  # one reward says nothing about the noise
    experiment.retire_arms(range(ARMS))
    assert experiment.status().uplift is None


# --- from logged probabilities ---


def logged(rng, count, probabilities, means):
    arms = rng.choice(len(means), size=count, p=probabilities)
    rewards = means[arms] + 0.3 * rng.standard_normal(count)
    rewards[:10] = math.nan  # they wait
    numbers = np.arange(count, dtype=np.float64)
    return Outcomes(numbers, arms, probabilities[arms], rewards, np.full(count, float(len(means))))


@pytest.mark.parametrize("control", [None, 1])
def test_inverse_propensity_by_repetition(control):
    """The estimates centre on the truth, and 200 intervals hold it as often as they should: fewer
    than 165 hits have a chance below 0.001."""
    rng = np.random.default_rng(5)
    means, probabilities = np.array([5.0, 5.5, 6.5]), np.array([0.2, 0.2, 0.6])
    truth = probabilities @ means - (means.mean() if control is None else means[control])
    found = np.array(
        [logged_uplift(logged(rng, 400, probabilities, means), control, 0.9) for _ in range(200)]
    )
    estimates = found[:, 0]
    assert abs(estimates.mean() - truth) < 4.0 * estimates.std() / math.sqrt(200)
    assert ((found[:, 1] <= truth) & (truth <= found[:, 2])).sum() >= 165
    assert found[:, 3].mean() == pytest.approx(probabilities @ means - truth, abs=0.05)


def test_inverse_propensity_says_why_not():
    rng = np.random.default_rng(0)
    means, probabilities = np.array([0.0, 1.0, 2.0]), np.array([0.5, 0.5, 0.0])
    assert "positive" in logged_uplift(logged(rng, 400, probabilities, means), None, 0.9)
    assert "positive" in logged_uplift(logged(rng, 400, probabilities, means), 2, 0.9)
    unknown = logged(rng, 400, np.ones(3) / 3, means)
    unknown = unknown._replace(probabilities=np.full(400, math.nan))
    assert "on record" in logged_uplift(unknown, 1, 0.9)
    assert "too few" in logged_uplift(logged(rng, 11, np.ones(3) / 3, means), None, 0.9)
    assert "too few" in logged_uplift(logged(rng, 50, np.ones(3) / 3, means), None, 0.9)


def test_policies_whose_features_vary_need_the_log():
    experiment = create_experiment(make_url("memory"), policy="rolf-varying")
    features = round_features(experiment)
    for _ in range(80):
        batch = experiment.ask_many(20, **features)
        experiment.tell_many({each.id: float(each.arm) for each in batch})
    without = experiment.status()
    assert without.uplift is None
    assert all(arm.mean == arm.arm for arm in without.arms if arm.plays)
    status = experiment.status(timeline=True)
    assert status.uplift.estimator == "ips"
    assert status.uplift.low < status.mean_reward - np.mean(range(ARMS)) < status.uplift.high
    assert "mean so far" in str(status)
    sure = create_experiment(make_url("memory"), policy="rolf-bayes-varying", name="sure")
    for _ in range(100):
        sure.tell(sure.ask(**features), 1.0)
    status = sure.status(timeline=True)
    assert status.uplift is None
    assert any("no uplift" in note for note in status.notes)


# --- rewards over time ---


def test_the_timeline_by_hand():
    url = make_url("memory")
    experiment = create_experiment(url, policy="ucb", reward_after=50.0, default_reward=-1.0)
    now = 0.0
    experiment.synced.now = lambda: now
    decisions = []
    for number in range(40):
        now = float(number)
        decisions.append(experiment.ask())
    now = 40.0
    experiment.tell_many([(each, index // 10) for index, each in enumerate(decisions[:30])])
    periods = experiment.status(timeline=True).timeline
    assert [(period.first, period.last) for period in periods] == [
        (1, 10),
        (11, 20),
        (21, 30),
        (31, 40),
    ]
    assert [period.mean for period in periods] == [0.0, 1.0, 2.0, None]
    assert [period.rewards for period in periods] == [10, 10, 10, 0]
    assert (periods[1].start, periods[1].end) == (10.0, 19.0)
    now = 1000.0
    status = experiment.status(timeline=True)
    assert status.timeline[3].mean == -1.0  # by default
    experiment.tell(decisions[39], 9.0)  # late, in its place
    status = experiment.status(timeline=True)
    assert status.timeline[3].mean == 0.0
    assert status.total_reward == pytest.approx(sum(range(3)) * 10 - 9 + 9.0)
    assert status.mean_reward == pytest.approx(status.total_reward / 40)
    weighted = sum(period.rewards * period.mean for period in status.timeline)
    assert weighted == pytest.approx(status.total_reward)
    json.dumps(status.to_dict(), allow_nan=False)


def test_a_timeline_without_decisions():
    experiment = create_experiment(make_url("memory"))
    assert experiment.status(timeline=True).timeline == []
    assert experiment.status().timeline is None
    nothing = np.zeros(0)
    assert timeline(Outcomes(nothing, nothing.astype(int), nothing, nothing, nothing)) == []


def test_rows_after_the_captured_moment_do_not_count():
    experiment = played("ucb", *some_rewards(3, 40))
    view = view_of(experiment.synced.replica)
    assert status_of("one", view).total_reward == experiment.status().total_reward
    status = experiment.status(timeline=True)
    assert sum(period.rewards for period in status.timeline) == status.told == 40
