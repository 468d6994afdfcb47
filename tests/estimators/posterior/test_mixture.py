"""Intervals, chances of being best and starting again, against straightforward computations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import stdtr, stdtrit

import rolf
from rolf.estimators.contract import begin
from rolf.estimators.posterior import mixture
from rolf.estimators.posterior.fixed import absorb, make_grid, refresh
from rolf.estimators.posterior.mixture import MixturePosterior
from rolf.estimators.posterior.regression import Posterior
from rolf.estimators.posterior.scales import weigh
from rolf.estimators.posterior.student import below, low_quantile, low_quantiles, tail_table
from rolf.estimators.posterior.winners import count_wins
from support.helpers import all_moments

# --- as it was computed before ------------------------------------------------------------------


def bisected(known, chance):
    """Quantiles of all arms, by bisection between the components' quantiles."""
    spread = np.sqrt(known.noises[:, None] * known.variances)
    each = known.means + spread * stdtrit(known.degrees, chance)
    low, high = each.min(axis=0), each.max(axis=0)
    spread = np.maximum(spread, 1e-300)
    for _ in range(80):
        middle = 0.5 * (low + high)
        below = known.weights @ stdtr(known.degrees, (middle - known.means) / spread)
        low = np.where(below < chance, middle, low)
        high = np.where(below < chance, high, middle)
    return 0.5 * (low + high)


def drawn(known, arms, draws, rng):
    """How often each arm is the best of ``arms``, all of them drawn in every draw."""
    wins = np.zeros(known.means.shape[1])
    for g, share in enumerate(rng.multinomial(draws, known.weights / known.weights.sum())):
        reach, alone = known.loadings(g, arms)
        covariance = reach.T @ known.cov[g] @ reach + np.diag(alone)
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        noise = np.sqrt(known.noises[g] * known.degrees / rng.chisquare(known.degrees, share))
        steps = rng.standard_normal((share, arms.size)) @ root.T
        values = known.means[g, arms] + noise[:, None] * steps
        wins += np.bincount(arms[values.argmax(axis=1)], minlength=wins.size)
    return wins / draws


def step_by_step(grid, components, counts, sums, squares):
    """The components after one step per arm that was seen."""
    components.evidence.seen[0] = 0.0
    for arm in np.flatnonzero(counts):
        absorb(grid, components, int(arm), sums[arm] / counts[arm], counts[arm])
    seen = counts > 0.0
    within = np.maximum(squares[seen] - sums[seen] ** 2 / counts[seen], 0.0).sum()
    components.evidence.errors[:] += within
    weigh(grid.prior, components.evidence, grid.noise)


# --- examples -----------------------------------------------------------------------------------


def played(arms, rounds, seed=0, size=4, level=0.0):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((arms, size))
    means = 0.5 * features @ rng.standard_normal(size) + 0.5 * rng.standard_normal(arms)
    chosen = rng.integers(0, arms, rounds)
    rewards = level + means[chosen] + rng.standard_normal(rounds)
    return features, chosen, rewards


def policy_of(kind, arms, rounds, **options):
    features, chosen, rewards = played(arms, rounds, **options)
    policy = kind(features, seed=0)
    rows = {"features": features[chosen]} if policy.varying else {}
    policy.learn(chosen, rewards, **rows)
    return policy, features


KINDS = [rolf.RoLFBayes, rolf.RoLFBayesVarying]
ROUNDS = [2, 3, 8, 60, 5000]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("level", [0.5, 0.9, 0.999999])
def test_intervals_are_those_of_bisection(kind, rounds, level):
    policy, features = policy_of(kind, 30, rounds, level=1000.0)
    known = policy.posterior(features)
    ends = known.interval(level)
    expected = [bisected(known, 0.5 * (1.0 + sign * level)) for sign in (-1.0, 1.0)]
    width = (ends[:, 1] - ends[:, 0])[:, None]
    assert (width > 0.0).all()
    allowed = 1e-9 if level < 0.99 else 1e-7  # bisection rounds 1 - chance
    assert np.abs((ends - np.column_stack(expected)) / width).max() < allowed


@pytest.mark.parametrize("degrees", [1.0, 2.0, 7.0, 40.0, 1e3, 1e6, math.inf])
def test_the_table_holds_the_tail(degrees):
    """A mixture of one component: its quantiles are those of Student's t."""
    for chance in (0.5, 0.3, 0.05, 1e-3, 1e-9):
        one = float(stdtrit(degrees, chance))
        means, spreads = np.array([[0.0, 1e-3]]), np.array([[1.0, 1.0]])
        weights = np.array([1.0, 1e-13])  # the second only opens the bracket
        (found,) = low_quantiles(tail_table(degrees), weights, means, spreads, chance, one)
        assert found == pytest.approx(one, rel=1e-10, abs=1e-12)


def test_components_far_apart_and_without_width():
    """Where Newton's method leaves the bracket or has no slope, bisection goes on."""
    table = tail_table(3.0)
    weights = np.array([0.02, 0.02, 0.96])
    means = np.array([[0.0, 1e6, 2e6], [5.0, 5.0, 5.0], [0.0, 1.0, 2.0]])
    spreads = np.array([[1e-3, 1e-3, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    one = float(stdtrit(3.0, 0.05))
    far, point, mixed = low_quantiles(table, weights, means, spreads, 0.05, one)
    assert far == pytest.approx(2e6 + stdtrit(3.0, 0.01 / 0.96), abs=1e-6)
    assert point == 5.0
    assert mixed == pytest.approx(2.0 + stdtrit(3.0, 0.05 / 0.96), abs=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rounds", [3, 60, 2000])
def test_chances_of_being_best_are_those_of_drawing_everything(kind, rounds):
    """5 standard deviations for each of 20 arms: a false alarm in 80,000 runs."""
    policy, features = policy_of(kind, 20, rounds)
    known = policy.posterior(features)
    arms = np.delete(np.arange(20), [3, 11])
    draws = 200_000
    found = known.best(arms, draws)
    expected = drawn(known, arms, draws, np.random.default_rng(7))
    assert found.sum() == pytest.approx(1.0)
    assert found[3] == found[11] == 0.0
    allowed = 5.0 * np.sqrt(2.0 * np.maximum(expected, 5.0 / draws) / draws)
    assert (np.abs(found - expected) < allowed).all()


def wins_of(means, sds, draws, reach=None, root=None):
    means = np.asarray(means, dtype=float)
    reach = np.zeros((1, means.size)) if reach is None else reach
    root = np.ones((1, 1)) if root is None else root
    wins = np.zeros(means.size)
    count_wins(means, reach, root, np.asarray(sds), np.ones(draws), np.random.default_rng(0), wins)
    return wins / draws


def test_winners_by_hand():
    normal = 0.5 * (1.0 + math.erf(0.5))  # the chance that 1 + e > e'
    draws = 400_000
    assert wins_of([1.0, 0.0], [1.0, 1.0], draws)[0] == pytest.approx(normal, abs=0.004)
    assert wins_of([0.0, 0.0, -9.0], [1.0, 3.0, 0.0], draws)[1] == pytest.approx(0.5, abs=0.004)
    many = wins_of(np.zeros(300), np.ones(300), 60_000)  # all alike
    assert np.abs(many - 1 / 300).max() < 5.0 * math.sqrt(1 / 300 / 60_000)
    one = wins_of(np.zeros(300), np.append(np.zeros(299), 1.0), 100_000)  # wins if above zero
    assert one[-1] == pytest.approx(0.5, abs=0.008)
    reach = np.array([[1.0, 2.0], [0.0, 1.0], [3.0, 1.0], [0.5, 0.0], [1.0, 1.0]])
    root = np.tril(np.arange(1.0, 26.0).reshape(5, 5))
    step = (reach[:, 0] - reach[:, 1]) @ root
    chance = 0.5 * (1.0 + math.erf(20.0 / np.linalg.norm(step) / math.sqrt(2.0)))
    found = wins_of([20.0, 0.0], [0.0, 0.0], draws, reach, root)[0]
    assert found == pytest.approx(chance, abs=0.004)


def test_winners_far_out_by_hand():
    """The chance of high numbers, of a single arm and of many: 4.5 standard deviations."""
    draws = 2_000_000
    tail = 0.5 * math.erfc(3.2 / math.sqrt(2.0))
    found = wins_of([0.0, 3.2], [1.0, 0.0], draws)[0]
    assert abs(found - tail) < 4.5 * math.sqrt(tail / draws)
    lower = (1.0 - 0.5 * math.erfc(2.5 / math.sqrt(2.0))) ** 300  # nobody is above 2.5
    found = wins_of(np.append(np.zeros(300), 2.5), np.append(np.ones(300), 0.0), draws)[-1]
    assert abs(found - lower) < 4.5 * math.sqrt(lower * (1.0 - lower) / draws)


def test_every_draw_has_its_own_noise():
    draws = 400_001  # odd: the last one has no partner
    noises = np.where(np.arange(draws) % 2 == 0, 1.0, 50.0)
    wins = np.zeros(2)
    reach, root = np.array([[1.0, 0.0]]), np.ones((1, 1))
    count_wins(
        np.array([10.0, 0.0]), reach, root, np.zeros(2), noises, np.random.default_rng(0), wins
    )
    chance = 0.5 + 0.25 * (1.0 + math.erf(0.2 / math.sqrt(2.0)))
    assert wins.sum() == draws
    assert wins[0] / draws == pytest.approx(chance, abs=0.004)


@pytest.mark.parametrize("degrees", [1.0, 2.0, 5.0, 29.0, 999.0, 1e9, math.inf])
def test_the_table_of_tails_against_scipy(degrees):
    table = tail_table(degrees)
    values = np.append(np.linspace(0.0, 40.0, 501), np.logspace(2.0, 5.0, 40))
    tails = [below(table, -value)[0] for value in values]
    assert np.abs(tails - stdtr(degrees, -values)).max() < 5e-15
    for chance in (0.4, 0.05, 0.025, 0.005, 1e-6, 1e-9):
        expected = float(stdtrit(degrees, chance))
        assert low_quantile(table, chance) == pytest.approx(expected, rel=1e-7)


def test_rivals_by_hand(monkeypatch):
    """With one-sided chances of 1.7e-7 left out, arms may be 5.1 deviations off, both ways."""
    posterior = MixturePosterior(
        weights=np.ones(1),
        noises=np.ones(1),
        means=np.array([[0.0, -10.0, -11.0]]),
        variances=np.ones((1, 3)),
        cov=np.zeros((1, 1, 1)),
        degrees=1e6,
        loadings=lambda component, arms: (np.zeros((1, arms.size)), np.ones(arms.size)),
    )
    far = -float(stdtrit(1e6, 0.5e-6 / 3))
    assert far == pytest.approx(5.1, abs=0.01)
    assert posterior._rivals(0, np.arange(3), far).tolist() == [0, 1]
    assert posterior._rivals(0, np.array([1, 2]), far).tolist() == [1, 2]
    used = []
    monkeypatch.setattr(
        MixturePosterior, "_rivals", lambda self, component, arms, far: used.append(far) or arms
    )
    posterior.best(np.arange(3), 10)
    assert used == [pytest.approx(far, rel=1e-9)]


def test_arms_that_cannot_be_the_best_are_left_out(monkeypatch):
    policy, features = policy_of(rolf.RoLFBayes, 40, 8000)
    known = policy.posterior(features)
    everything = np.arange(40)
    component = int(known.weights.argmax())
    far = -float(stdtrit(known.degrees, 0.5e-6 / 40))
    rivals = known._rivals(component, everything, far)
    assert 0 < rivals.size < 20
    few = known.best(everything, 100_000)
    monkeypatch.setattr(MixturePosterior, "_rivals", lambda self, component, arms, far: arms)
    every = known.best(everything, 100_000)
    assert np.abs(few - every).max() < 0.01
    assert (few[np.setdiff1d(everything, rivals)] == 0.0).all()
    assert few.argmax() in rivals


def make_components(grid):
    return begin(grid, grid.rows.shape[0]).components


def example(name):
    rng = np.random.default_rng(3)
    features = rng.standard_normal((25, 5))
    counts = rng.integers(1, 40, 25).astype(float)
    if name == "few seen":
        counts[3:] = 0.0
    elif name == "one seen":
        counts[1:] = 0.0
    elif name == "collinear":
        features[:, 4] = features[:, 3] + 1e-7 * features[:, 4]
    elif name == "constant":
        features[:] = 1.0
    elif name == "often":
        counts *= 1e5
    sums = counts * (features[:, 0] + rng.standard_normal(25)) + 1e3 * counts * (name == "high")
    squares = sums**2 / np.maximum(counts, 1.0) + counts
    return make_grid(features), counts, sums, squares


NAMES = ["all seen", "few seen", "one seen", "collinear", "constant", "often", "high"]


@pytest.mark.parametrize("name", NAMES)
def test_starting_again_is_one_step_per_arm(name):
    grid, *totals = example(name)
    assert isinstance(grid, Posterior)
    found, expected = make_components(grid), make_components(grid)
    found.evidence.alive[:] = 0  # components that were left out come back
    refresh(grid, found, *totals)
    step_by_step(grid, expected, *totals)
    assert (found.places == expected.places).all()
    assert (found.plays == expected.plays).all()
    for one, other in zip(all_moments(grid, found), all_moments(grid, expected), strict=True):
        assert np.allclose(one, other, rtol=1e-8)
    scale = np.abs(expected.cov).max(axis=(1, 2), keepdims=True)
    assert np.abs((found.cov - expected.cov) / scale).max() < 1e-8
    evidence, other = found.evidence, expected.evidence
    assert np.allclose(evidence.errors, other.errors, rtol=1e-9)
    assert np.allclose(evidence.weights, other.weights, rtol=1e-7, atol=1e-12)
    assert evidence.seen == other.seen
    logdets = evidence.logdets - other.logdets  # only differences between components count
    assert np.ptp(logdets) < 1e-7


def test_equal_rewards_leave_no_error():
    """At any level: nothing may look as if it had varied."""
    grid, counts, _, _ = example("all seen")
    components = make_components(grid)
    refresh(grid, components, counts, 7.0 * counts, 49.0 * counts)
    assert (components.evidence.errors == 0.0).all()
    means, _ = all_moments(grid, components)
    assert (means == 7.0).all()


def test_no_rewards_leave_everything_as_it_was():
    grid, *_ = example("all seen")
    components, before = make_components(grid), make_components(grid)
    refresh(grid, components, *np.zeros((3, 25)))
    for array, values in zip(components[:-1], before[:-1], strict=True):
        assert (array == values).all()
    assert (components.evidence.weights == before.evidence.weights).all()


def test_without_a_scale_intervals_are_unbounded_and_chances_equal():
    assert np.isinf(mixture.intervals(None, 3, 0.9)).all()
    chances = mixture.probabilities_of_best(None, 4, np.array([1, 3]), 10)
    assert chances.tolist() == [0.0, 0.5, 0.0, 0.5]
