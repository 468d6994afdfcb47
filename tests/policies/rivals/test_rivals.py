"""Baselines against their formulas, recomputed from the history each round."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rolf
from support import oracle

pytestmark = pytest.mark.compiled

ARMS, SIZE = 7, 3
FEATURES = np.random.default_rng(0).standard_normal((ARMS, SIZE))
MEANS = np.random.default_rng(1).uniform(-1, 1, ARMS)


def rounds(policy, number, seed=2):
    """Play, giving (decision, history before it) for each round."""
    rng = np.random.default_rng(seed)
    arms, rewards = [], []
    for _ in range(number):
        decision = policy.ask()
        yield decision, np.array(arms, dtype=int), np.array(rewards)
        reward = MEANS[decision.arm] + 0.1 * rng.standard_normal()
        policy.tell(decision, reward)
        arms.append(decision.arm)
        rewards.append(reward)


def ridge(arms, rewards, penalty):
    moment = penalty * np.eye(SIZE) + FEATURES[arms].T @ FEATURES[arms]
    inverse = np.linalg.inv(moment)
    theta = inverse @ (FEATURES[arms].T @ rewards)
    widths = np.sqrt(np.einsum("ij,jk,ik->i", FEATURES, inverse, FEATURES))
    return theta, widths, moment


@pytest.mark.parametrize(
    ("options", "penalty", "width"),
    [
        ({}, 0.6, 1 + math.sqrt(math.log(2e4) / 2)),
        ({"setting": "tuned", "noise": 0.2}, 0.6, 0.2 * (1 + math.sqrt(math.log(2e4) / 2))),
        ({"setting": "tuned", "width": 0.7, "ridge": 2.0}, 2.0, 0.7),
    ],
)
def test_linucb(options, penalty, width):
    policy = rolf.LinUCB(FEATURES, seed=0, **options)
    for t, (decision, arms, rewards) in enumerate(rounds(policy, 200), start=1):
        theta, widths, _ = ridge(arms, rewards, penalty)
        scores = FEATURES @ theta + width * math.sqrt(math.log(t)) * widths
        assert scores[decision.arm] == pytest.approx(scores.max(), abs=1e-9)
    assert (
        np.abs(policy.state.belief.squares - ridge(*history(policy), penalty)[1] ** 2).max() < 1e-12
    )


@pytest.mark.parametrize(
    ("options", "penalty", "width"),
    [
        ({}, 0.6, 1 + math.sqrt(math.log(2e4) / 2)),
        ({"setting": "tuned", "noise": 0.2}, 0.6, 0.2 * (1 + math.sqrt(math.log(2e4) / 2))),
        ({"width": 0.7, "ridge": 2.0}, 2.0, 0.7),
    ],
)
def test_linucb_varying(options, penalty, width):
    policy = rolf.LinUCBVarying(FEATURES, seed=0, **options)
    rng = np.random.default_rng(2)
    theta = np.array([1.0, -0.5, 0.2])
    moment, cross = penalty * np.eye(SIZE), np.zeros(SIZE)
    bonus_decided = 0
    for t in range(1, 201):
        table = rng.standard_normal((ARMS, SIZE))
        inverse = np.linalg.inv(moment)
        estimates = table @ inverse @ cross
        widths = np.sqrt(np.einsum("ij,jk,ik->i", table, inverse, table))
        scores = estimates + width * math.sqrt(math.log(t)) * widths
        decision = policy.ask(features=table)
        assert np.allclose(policy.estimates(features=table), estimates)
        assert scores[decision.arm] == pytest.approx(scores.max(), abs=1e-9)
        bonus_decided += decision.arm != estimates.argmax()
        reward = table[decision.arm] @ theta + 0.5 * rng.standard_normal()
        policy.tell(decision, reward)
        moment += np.outer(table[decision.arm], table[decision.arm])
        cross += reward * table[decision.arm]
    assert bonus_decided > 10  # the width decided often enough to be tested


def history(policy):
    """An equivalent history: each arm's mean, as often as it was told."""
    ridge = policy.state.belief
    arms = np.repeat(np.arange(ARMS), ridge.counts.astype(int))
    return arms, (ridge.sums / np.maximum(ridge.counts, 1))[arms]


@pytest.mark.parametrize("options", [{}, {"setting": "tuned", "noise": 0.3}, {"radius": 0.4}])
def test_oful(options):
    policy = rolf.OFUL(FEATURES, delta=0.01, bound=2.0, seed=0, **options)
    for decision, arms, rewards in rounds(policy, 200):
        theta, widths, moment = ridge(arms, rewards, 1.0)
        radius = options.get("radius", 1.0)
        if "setting" in options:
            logdet = np.linalg.slogdet(moment)[1]
            radius = 0.3 * math.sqrt(logdet + 2 * math.log(100)) + 2.0
        scores = FEATURES @ theta + radius * widths
        assert scores[decision.arm] == pytest.approx(scores.max(), abs=1e-9)


@pytest.mark.parametrize(
    ("options", "scale"),
    [
        ({}, 0.1 * math.sqrt(48 * SIZE * math.log(1e4))),
        ({"setting": "tuned"}, 0.1),
        ({"setting": "tuned", "scale": 2.5}, 2.5),
    ],
)
def test_lints_draws_from_its_posterior(options, scale):
    policy = rolf.LinTS(FEATURES, seed=0, **options)
    assert policy.params.rule.sampler.scale == pytest.approx(scale)
    assert len(list(rounds(policy, 150))) == 150
    theta, _, moment = ridge(*history(policy), 0.6)
    assert np.allclose(policy.estimates(), FEATURES @ theta)
    root = policy.state.belief.root
    assert np.allclose(root @ root.T, np.linalg.inv(moment))
    # how often each arm is asked, against draws made here
    rng = np.random.default_rng(3)
    drawn = rng.multivariate_normal(theta, scale**2 * np.linalg.inv(moment), 20_000) @ FEATURES.T
    expected = np.bincount(drawn.argmax(axis=1), minlength=ARMS) / 20_000
    asked = [policy.ask().arm for _ in range(5000)]
    shares = np.bincount(asked, minlength=ARMS) / 5000
    # five standard deviations of the difference of two shares: once in 250,000 tests
    spread = np.sqrt(expected * (1 - expected) * (1 / 5000 + 1 / 20_000)) + 1e-3
    assert (np.abs(shares - expected) < 5 * spread).all()
    assert (np.abs(policy.probabilities(draws=20_000) - expected) < 5 * spread).all()
    with pytest.raises(rolf.RolfError, match="draws"):
        policy.probabilities(draws=0)


@pytest.mark.parametrize(
    ("options", "scale"),
    [({}, 1.0), ({"setting": "tuned", "noise": 0.3}, 0.3), ({"scale": 0.5}, 0.5)],
)
def test_ucb(options, scale):
    policy = rolf.UCB(FEATURES, delta=0.01, seed=0, **options)
    for t, (decision, arms, rewards) in enumerate(rounds(policy, 200)):
        counts = np.bincount(arms, minlength=ARMS)
        if t < ARMS:  # every arm once, first
            assert counts[decision.arm] == 0
            continue
        means = np.bincount(arms, rewards, minlength=ARMS) / counts
        scores = means + scale * np.sqrt(2 * math.log(100) / counts)
        assert scores[decision.arm] == pytest.approx(scores.max(), abs=1e-12)
        assert np.allclose(policy.estimates(), means)


@pytest.mark.parametrize("options", [{}, {"setting": "tuned"}, {"lam1": 0.3, "lam2": 0.05}])
def test_drlasso_is_the_lasso_on_its_pseudo_rewards(options):
    policy = rolf.DRLasso(FEATURES, seed=0, **options)
    lam1, lam2 = options.get("lam1", 1.0), options.get("lam2", 0.05 if options else 0.5)
    average = FEATURES.mean(axis=0)
    beta = np.zeros(SIZE)
    pseudo = []
    rng = np.random.default_rng(4)
    for t in range(1, 120):
        rate = math.sqrt((math.log(t) + math.log(SIZE)) / t)
        coin = 1.0 if t <= 10 else min(1.0, lam1 * rate)
        scores = FEATURES @ beta
        best = np.isclose(scores, scores.max(), rtol=0, atol=1e-12)
        chances = coin / ARMS + (1 - coin) * best / best.sum()
        assert np.allclose(policy.probabilities(), chances)
        decision = policy.ask()
        reward = MEANS[decision.arm] + 0.1 * rng.standard_normal()
        chance = chances[decision.arm]
        policy.tell(decision, reward)
        value = average @ beta + (reward - scores[decision.arm]) / (ARMS * chance)
        pseudo.append(np.clip(value, -3, 3))
        design = np.tile(average, (t, 1))
        beta = oracle.lasso(design, np.array(pseudo), lam2 * rate * t)
        assert np.allclose(policy.estimates(), FEATURES @ beta, atol=1e-8)


def test_drlasso_clips_pseudo_rewards():
    policy = rolf.DRLasso(np.ones((3, 1)), seed=0, clip=2.0)
    policy.tell(policy.ask(), 1e6)
    assert policy.state.belief.total[1] == 2.0


def test_equal_features_are_chosen_equally_often():
    # Arms 0 and 1 look the same; only ties, broken at random, can tell them apart.
    features = np.array([[-0.5], [-0.5], [0.5]])
    for cls in (rolf.LinUCB, rolf.OFUL):
        policy = cls(features, seed=0)
        counts = np.zeros(3)
        for _ in range(600):
            decision = policy.ask()
            counts[decision.arm] += 1
            policy.tell(decision, -1.0 if decision.arm == 2 else -0.2)
        same = counts[:2]
        # a fair coin: five standard deviations, once in 1.7 million
        assert abs(same[0] - same[1]) < 5 * math.sqrt(same.sum())
        assert same.sum() > 100


def test_pseudo_rewards_by_hand():
    from rolf.estimators.lasso.doubly_robust import pseudo_rewards

    estimates = np.array([1.0, 2.0])
    assert pseudo_rewards(estimates, 1, 4.0, 0.5).tolist() == [1.0, 6.0]
    assert pseudo_rewards(estimates, 0, 4.0, 1.0).tolist() == [4.0, 2.0]
    assert estimates.tolist() == [1.0, 2.0]  # left as they were
