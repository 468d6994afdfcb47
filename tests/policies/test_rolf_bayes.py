"""RoLF-Bayes against a dense posterior written from the model, and what it promises."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

import rolf
from rolf.policies.core.posterior_rules import HOPE
from support.helpers import all_moments

pytestmark = pytest.mark.compiled

FEATURES = np.random.default_rng(3).standard_normal((7, 3)) * [1.0, 20.0, 0.05] + [0.0, 5.0, 1.0]
BOTH = pytest.mark.parametrize("name", ["rolf-bayes", "rolf-bayes-varying"])


def standardised(features):
    centred = (features - features.mean(axis=0)) / features.std(axis=0)
    return centred / np.sqrt((centred**2).sum() / len(features))


def dense(kernel_rows, kernel_new, arms, count, rewards, observed, latent, prior):
    """Mixture means and variances of all arms, from covariance matrices of all rewards.

    Generalised least squares with a flat level, component by component; nothing is shared
    with the library but the grid.
    """
    n = len(rewards)
    same = arms[:, None] == arms[None, :]
    cross_same = np.arange(count)[:, None] == arms[None, :]
    logs, means, variances, errors = [], [], [], []
    for o, free in zip(observed, latent, strict=True):
        cov = o * kernel_rows @ kernel_rows.T + free * same + np.eye(n)
        inverse = np.linalg.inv(cov)
        ones = inverse.sum(axis=0)
        level = ones @ rewards / ones.sum()
        left = rewards - level
        error = left @ inverse @ left
        logs.append(
            -0.5 * np.linalg.slogdet(cov)[1]
            - 0.5 * math.log(ones.sum())
            - 0.5 * (n - 1) * math.log(error)
        )
        to_arms = o * kernel_new @ kernel_rows.T + free * cross_same
        means.append(level + to_arms @ inverse @ left)
        own = o * (kernel_new**2).sum(axis=1) + free
        reduced = own - np.einsum("ai,ij,aj->a", to_arms, inverse, to_arms)
        variances.append(reduced + (1.0 - to_arms @ ones) ** 2 / ones.sum())
        errors.append(error)
    logs = np.array(logs) + prior
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    means, variances, errors = np.array(means), np.array(variances), np.array(errors)
    return weights, means, variances, errors


def played(policy, rounds, seed, features=None, level=3.0):
    """Random arms and rewards, told as history one by one through ask and tell."""
    rng = np.random.default_rng(seed)
    means = rng.standard_normal(7)
    arms, rewards, rows = [], [], []
    for _ in range(rounds):
        table = rng.standard_normal((7, 3)) if policy.varying else FEATURES
        arm = int(rng.choice(7, p=[0.4, 0.25, 0.15, 0.1, 0.05, 0.05, 0.0]))
        more = {"features": table} if policy.varying else {}
        decision = policy.ask(available=[arm], **more)
        reward = level + means[arm] + 0.3 * rng.standard_normal()
        policy.tell(decision, reward)
        arms.append(arm)
        rewards.append(reward)
        rows.append(table[arm])
    return np.array(arms), np.array(rewards), np.array(rows)


def rebuilt(policy):
    """A copy in which everything, also the evidence, is computed again from the totals."""
    copy = rolf.Policy.from_dict(policy.to_dict())
    copy.recompute()
    return copy


def evidence_of(policy):
    return policy.state.belief.components.evidence


@pytest.mark.parametrize("rounds", [2, 5, 40])
def test_fixed_features_against_dense_matrices(rounds):
    policy = rolf.RoLFBayes(FEATURES, seed=0)
    arms, rewards, _ = played(policy, rounds, seed=rounds)
    grid = policy.params.model
    rows = standardised(FEATURES)
    weights, means, variances, errors = dense(
        rows[arms], rows, arms, 7, rewards, grid.observed, grid.latent, grid.prior
    )
    for _ in range(2):  # as it came in one by one, and as started again from the totals
        belief = policy.state.belief.components
        live = belief.evidence.alive == 1
        assert weights[~live].sum() < 1e-15
        assert np.allclose(belief.evidence.weights, weights, atol=1e-9)
        anchor = policy.state.belief.anchor[0]
        found, spreads = all_moments(grid, belief)
        assert np.allclose(found[live] + anchor, means[live], atol=1e-8)
        # (beyond a thousand times the noise it is the dense matrices that lose the digits)
        sound = live & (grid.observed + grid.latent < 1e3)
        assert np.allclose(spreads[sound], variances[sound], rtol=1e-6, atol=1e-8)
        assert np.allclose(belief.evidence.errors[live], errors[live], rtol=1e-7)
        assert np.allclose(policy.estimates(), weights @ means, atol=1e-9)
        policy = rebuilt(policy)


@pytest.mark.parametrize("rounds", [2, 5, 40])
def test_varying_features_against_dense_matrices(rounds):
    policy = rolf.RoLFBayesVarying(FEATURES, seed=0)
    arms, rewards, rows = played(policy, rounds, seed=rounds)
    grid = policy.params.model
    scale = np.sqrt(grid.sizes[1:])
    rows = rows - grid.centre
    table = np.random.default_rng(9).standard_normal((7, 3))
    weights, means, variances, errors = dense(
        rows * scale,
        (table - grid.centre) * scale,
        arms,
        7,
        rewards,
        grid.observed,
        grid.latent,
        grid.prior,
    )
    for _ in range(2):
        evidence = evidence_of(policy)
        live = evidence.alive == 1
        assert np.allclose(evidence.weights, weights, atol=1e-9)
        assert np.allclose(evidence.errors[live], errors[live], rtol=1e-6)
        assert np.allclose(policy.estimates(features=table), weights @ means, atol=1e-8)
        posterior = policy.posterior(table)
        shown = evidence.weights > 0.0
        sound = (grid.observed + grid.latent)[shown] < 10.0
        found, expected = posterior.variances[sound], variances[shown][sound]
        assert np.allclose(found, expected, rtol=1e-4)  # large features: dense loses digits
        policy = rebuilt(policy)


@BOTH
def test_starting_afresh_from_the_totals_changes_nothing_but_rounding(name):
    policy = rolf.policy_class(name)(FEATURES, seed=0)
    more = {"features": FEATURES} if policy.varying else {}
    played(policy, 63, seed=1)
    for rounds in (0, 1, 10):  # the 64th reward starts afresh by itself
        played(policy, rounds, seed=2)
        one, two = (
            policy.state.belief.components.evidence,
            rebuilt(policy).state.belief.components.evidence,
        )
        assert np.allclose(one.weights, two.weights, atol=1e-9)
        live = one.alive == 1
        assert np.allclose(one.errors[live], two.errors[live], rtol=1e-7)
        assert np.ptp(one.logdets[live] - two.logdets[live]) < 1e-7  # a constant cancels
        assert np.allclose(policy.estimates(**more), rebuilt(policy).estimates(**more), atol=1e-9)
    assert (one.alive == 0).any()


@BOTH
def test_a_component_that_was_left_out_comes_back(name):
    """Rewards without noise kill all noisy components; noise that comes later needs them."""
    policy = rolf.policy_class(name)(FEATURES, seed=0)
    more = {"features": FEATURES} if policy.varying else {}
    rng = np.random.default_rng(0)
    for _ in range(60):
        decision = policy.ask(**more)
        policy.tell(decision, float(decision.arm))
    quiet = policy.scales()["noise"]
    assert (evidence_of(policy).alive == 0).any()
    for _ in range(1000):
        decision = policy.ask(**more)
        policy.tell(decision, float(decision.arm) + 5.0 * rng.standard_normal())
    evidence, fresh = (
        policy.state.belief.components.evidence,
        rebuilt(policy).state.belief.components.evidence,
    )
    assert policy.scales()["noise"] > 4.0 > 0.5 > quiet
    assert np.allclose(evidence.weights, fresh.weights, atol=1e-6)


# --- what does not matter ---------------------------------------------------------------------


def trace(policy, scale=1.0, shift=0.0, rounds=150, seed=4, order=None):
    """The arms it picks, on one stream of noise per arm."""
    rng = np.random.default_rng(seed)
    count = policy.arms.count
    order = np.arange(count) if order is None else np.asarray(order)
    means = np.random.default_rng(8).standard_normal(count)
    noise = 0.5 * rng.standard_normal((rounds, count))
    out = []
    for round in range(rounds):
        more = {"features": FEATURES} if policy.varying else {}
        decision = policy.ask(**more)
        true = int(order[decision.arm])
        policy.tell(decision, shift + scale * (means[true] + noise[round, true]))
        out.append(true)
    return out


@BOTH
@pytest.mark.parametrize(("scale", "shift"), [(1000.0, 0.0), (1e-9, 0.0), (1.0, 40.0), (1e3, -1e6)])
def test_scale_and_level_of_the_rewards_do_not_matter(name, scale, shift):
    make = rolf.policy_class(name)
    one, two = make(FEATURES, seed=0), make(FEATURES, seed=0)
    assert trace(one) == trace(two, scale, shift)
    more = {"features": FEATURES} if one.varying else {}
    again = (np.array(two.estimates(**more)) - shift) / scale
    assert np.allclose(one.estimates(**more), again, atol=1e-6)
    assert two.scales()["noise"] == pytest.approx(scale * one.scales()["noise"], rel=1e-5)
    assert two.scales()["explained"] == pytest.approx(one.scales()["explained"], rel=1e-5)


def test_units_and_origin_of_the_features_do_not_matter():
    moved = FEATURES * [1e-6, 3.0, 1e9] + [1.0, -50.0, 0.0]
    assert trace(rolf.RoLFBayes(FEATURES, seed=0)) == trace(rolf.RoLFBayes(moved, seed=0))


@settings(deadline=None, max_examples=10)
@given(order=st.permutations(range(7)))
def test_relabelling_the_arms_changes_nothing(order):
    one, two = rolf.RoLFBayes(FEATURES, seed=0), rolf.RoLFBayes(FEATURES[order], seed=0)
    arms = np.random.default_rng(1).integers(0, 7, 60)
    rewards = np.random.default_rng(2).standard_normal(60)
    one.learn(arms, rewards)
    two.learn([order.index(arm) for arm in arms], rewards)
    assert np.allclose(one.estimates()[order], two.estimates(), atol=1e-9)
    assert np.allclose(one.intervals()[order], two.intervals(), atol=1e-8)
    assert one.ask().arm == order[two.ask().arm]


def test_a_level_far_away_costs_no_digits():
    near, far = rolf.RoLFBayes(FEATURES, seed=0), rolf.RoLFBayes(FEATURES, seed=0)
    assert trace(near) == trace(far, shift=1e8)
    assert rebuilt(far).scales()["noise"] == pytest.approx(near.scales()["noise"], rel=1e-4)


# --- the rule -----------------------------------------------------------------------------------


def bounds_by_hand(posterior, waiting, width):
    noises = posterior.noises * posterior.degrees / max(posterior.degrees - 2.0, 0.5)
    mean = posterior.weights @ posterior.means
    spread = (posterior.means - mean) ** 2 + noises[:, None] * posterior.variances
    noise = posterior.weights @ noises
    ratio = posterior.weights @ spread / noise
    ratio = ratio / (1.0 + waiting * ratio)
    reach = width * (0.55 + 0.45 * ratio / (ratio + 0.1))
    return mean, mean + reach * np.sqrt(noise * ratio)


@BOTH
@pytest.mark.parametrize("horizon", [None, 80])
def test_decisions_have_the_largest_bound(name, horizon):
    """The bound by hand, from the posterior's components and with decisions that wait; with a
    horizon until it is over, and beyond."""
    policy = rolf.policy_class(name)(FEATURES, width=2.0, horizon=horizon, seed=0)
    more = {"features": FEATURES} if policy.varying else {}
    rng = np.random.default_rng(5)
    waiting = np.zeros(7)
    pending, bonus_decided = [], 0
    for turn in range(100):
        if turn >= 9:
            width = math.sqrt(2.0**2 + 2.0 * math.log(1.0 + (turn + 1) / 300.0))
            if horizon and turn < horizon:
                width = min(width, -ndtri(min(0.5, HOPE / (horizon - turn))))
            mean, bounds = bounds_by_hand(policy.posterior(FEATURES), waiting, width)
        decision = policy.ask(**more)
        if turn >= 9:
            assert bounds[decision.arm] == pytest.approx(bounds.max(), rel=1e-9)
            assert mean[decision.greedy] == pytest.approx(mean.max(), rel=1e-9)
            bonus_decided += decision.arm != mean.argmax()
        waiting[decision.arm] += 1
        pending.append(decision)
        while len(pending) > turn % 4:
            told = pending.pop(0)
            waiting[told.arm] -= 1
            policy.tell(told, 3.0 + 0.2 * told.arm + rng.standard_normal())
    assert bonus_decided > (3 if horizon else 10)  # the bonus decided often enough to be tested
