"""The shares of draws in which an arm is best, and the hash that the draws come from."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import rolf
from rolf.estimators.posterior.winners import hashed, hashed_normals
from rolf.kernel import looped
from rolf.linalg import cholesky
from rolf.policies.posterior_policy import DRAWS
from support.helpers import ARMS, extra, make, play, reward_of

ROUNDS = 2000


def shares(policy, rounds, available=None):
    """The shares of wins (rounds, K) in the next rounds, if nothing were learned in them."""
    arms = list(range(policy.arms.count)) if available is None else available
    more = np.zeros(policy.arms.count)
    more[arms] = 1.0 / len(arms)  # of the draw in which all arms are best
    clock, out = policy.state.clock[0], []
    for _ in range(rounds):
        out.append(policy.probabilities(available=arms, **extra(policy)))
        policy.state.clock[0] += 1
    policy.state.clock[0] = clock
    return (np.array(out) * (DRAWS + 1) - more) / DRAWS


CASES = [
    ("rolf-bayes", {}, 3),
    ("rolf-bayes", {}, 4),
    ("rolf-bayes", {}, 8),
    ("rolf-bayes", {}, 40),
    ("rolf-bayes", {"noise": 0.3}, 1),
    ("rolf-bayes", {"noise": 0.3}, 20),
    ("rolf-bayes", {"rewards": "binary"}, 12),
    ("rolf-bayes", {"rewards": "counts"}, 12),
    ("rolf-bayes-varying", {}, 12),
    ("rolf-bayes-varying", {"noise": 0.3}, 12),
]


@pytest.mark.parametrize(("name", "options", "rounds"), CASES, ids=str)
@pytest.mark.parametrize("available", [None, [1, 2, 5]], ids=["all", "some"])
def test_on_average_they_are_the_chances_of_being_best(name, options, rounds, available):
    """Within the errors of both: 200,000 draws each, no more variance than independent ones."""
    policy = make(name, rule="sample", **options)
    rng = np.random.default_rng(2)
    for _ in range(rounds):  # so noisy that several arms may be best
        decision = policy.ask(**extra(policy))
        policy.tell(decision, reward_of(policy, decision.arm, 0.6 * rng.standard_normal()))
    expected = policy.probability_best(available=available, draws=200_000, **extra(policy))
    assert 0.01 < expected.max() < 0.99
    found = shares(policy, ROUNDS, available)
    errors = np.sqrt(2.0 * expected * (1.0 - expected) / (ROUNDS * DRAWS)) + 1e-5
    assert (np.abs(found.mean(axis=0) - expected) < 4.5 * errors).all()
    single = expected * (1.0 - expected) / DRAWS
    assert (found.var(axis=0) < 1.2 * single + 1e-4 / DRAWS).all()
    for arm in np.flatnonzero(expected > 0.05):  # rounds tell nothing about the next ones
        series = found[:, arm]
        for lag in (1, 2, 3, 10):
            assert abs(np.corrcoef(series[lag:], series[:-lag])[0, 1]) < 4.5 / np.sqrt(ROUNDS)


def test_rewards_that_are_all_equal_tell_nothing():
    policy = make("rolf-bayes", rule="sample")
    assert policy.probabilities() == pytest.approx(np.full(ARMS, 1.0 / ARMS))
    for _ in range(5):
        policy.tell(policy.ask(), 3.0)
    assert policy.probabilities() == pytest.approx(np.full(ARMS, 1.0 / ARMS))
    assert policy.probabilities(available=[1, 3])[[1, 3]] == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("noise", [None, 0.3])
def test_the_only_arm_has_chance_one(noise):
    policy = make("rolf-bayes", rule="sample", noise=noise)
    play(policy, 20)
    for arm in range(ARMS):
        assert policy.probabilities(available=[arm])[arm] == 1.0
        assert policy.ask(available=[arm]).probability == 1.0


def test_an_arm_that_is_surely_best_has_nearly_all():
    policy = make("rolf-bayes", rule="sample")
    rng = np.random.default_rng(0)
    arms = np.repeat(np.arange(ARMS), 30)
    policy.learn(arms, 10.0 * (arms == 2) + 0.1 * rng.standard_normal(arms.size))
    chances = policy.probabilities()
    assert chances[2] == pytest.approx((DRAWS + 1 / ARMS) / (DRAWS + 1))
    assert np.delete(chances, 2) == pytest.approx(1 / ARMS / (DRAWS + 1))


def test_many_arms():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((500, 5))
    means = features @ rng.standard_normal(5) + rng.standard_normal(500)
    policy = rolf.RoLFBayes(features, rule="sample", seed=1)
    for _ in range(150):
        decision = policy.ask()
        policy.tell(decision, rng.normal(means[decision.arm], 0.5))
    chances = policy.probabilities()
    assert chances.min() >= 1.0 / 500 / (DRAWS + 1)
    assert chances.sum() == pytest.approx(1.0)
    expected = policy.probability_best(draws=100_000)
    likely = expected > 0.02
    assert likely.any()
    found = shares(policy, 200).mean(axis=0)
    errors = np.sqrt(expected * (1.0 - expected) / (200 * DRAWS)) + 1e-3
    assert (np.abs(found - expected) < 4.5 * errors).all()


# --- the hash ----------------------------------------------------------------------------------


@looped
def uniforms(keys, places, first):
    out = np.empty((keys, places))
    for key in range(keys):
        for place in range(places):
            out[key, place] = hashed(first + key, place)
    return out


@looped
def normals(keys, size, out):
    for key in range(keys):
        hashed_normals(key + 1, 1, out[key])


def correlations(table):
    """Of every column with the next ones, and of every row with the next ones."""
    out = []
    for each in (table, table.T):
        z = (each - each.mean()) / each.std()
        out += [np.mean(z[lag:] * z[:-lag]) * np.sqrt(z[lag:].size) for lag in (1, 2, 3, 7, 64)]
    return np.array(out)


@pytest.mark.parametrize("first", [0, 1, 10**6, 2**40])
def test_hashed_numbers_look_uniform_and_independent(first):
    table = uniforms(500, 600, first)
    assert table.min() > 0.0
    assert table.max() < 1.0
    assert np.unique(table).size == table.size
    assert stats.kstest(table.ravel(), "uniform").pvalue > 1e-3
    by_round = [stats.kstest(row, "uniform").pvalue for row in table]
    assert stats.kstest(by_round, "uniform").pvalue > 1e-3
    by_place = [stats.kstest(row, "uniform").pvalue for row in table.T]
    assert stats.kstest(by_place, "uniform").pvalue > 1e-3
    assert np.abs(correlations(table)).max() < 4.5
    for left, right in ((table[:, :-1], table[:, 1:]), (table[:-1], table[1:])):
        boxes = np.histogram2d(left.ravel(), right.ravel(), bins=16, range=[[0, 1], [0, 1]])[0]
        assert stats.chisquare(boxes.ravel()).pvalue > 1e-3


@pytest.mark.parametrize("size", [1, 2, 7, 600])
def test_hashed_normals_look_normal_and_independent(size):
    table = np.full((20_000 // size + 100, size), np.nan)
    normals(len(table), size, table)
    assert np.isfinite(table).all()
    assert stats.kstest(table.ravel(), "norm").pvalue > 1e-3
    assert stats.kstest((table**2).sum(axis=1), "chi2", args=(size,)).pvalue > 1e-3
    if size > 64:
        assert np.abs(correlations(table)).max() < 4.5
        assert np.abs(correlations(table**2)).max() < 4.5


def test_cholesky_gives_a_root():
    rng = np.random.default_rng(0)
    half = rng.standard_normal((6, 4))
    for matrix in (half.T @ half, half @ half.T, np.zeros((3, 3)), np.eye(2)):
        root = cholesky(matrix)
        assert root @ root.T == pytest.approx(matrix, abs=1e-6)
        assert (np.triu(root, 1) == 0.0).all()
