"""The paper's statements, each checked by simulation with a fixed seed.

Where a statement holds "with probability at least 1 - 3 delta" it is checked over runs, and the
share of runs that break it is compared with 3 delta. Where one does not hold, the test says so.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import rolf
from rolf import theory
from rolf.estimators.lasso.doubly_robust import growth
from rolf.policies.core.coupling import trials
from rolf.simulation.loop import play_policy, ready_loop


def after(cls, problem, rounds, seed, **options):
    """A policy that has played ``rounds`` rounds in the engine."""
    policy = cls(problem.features, seed=seed, **options)
    rng = np.random.default_rng(seed + 1000)
    regret = np.empty(rounds)
    play_policy(policy, problem, rng, regret, ready_loop(policy, problem))
    return policy, regret


def test_cap_and_penalties_are_those_of_the_paper_in_theory_and_in_the_policies():
    features = np.random.default_rng(0).standard_normal((6, 3))
    policy = rolf.RoLFLasso(features, penalty="theory", noise=0.3, p=0.7, delta=0.01)
    matrix = rolf.Augmentation(features).matrix
    sigma_max = math.sqrt((matrix**2).sum(axis=0).max())
    for t in (1, 5, 1000):
        rho = math.log((t + 1) ** 2 / 0.01) / math.log(1 / 0.3)
        assert theory.resampling_cap(t, p=0.7, delta=0.01) == pytest.approx(rho)
        assert trials(policy.params.rule, t) == math.floor(rho) + 1
        log = math.log(2 * 6 * t**2 / 0.01)
        first = 2 * sigma_max * 0.3 * math.sqrt(2 * 0.7 * t * log)
        second = 4 * 0.3 * sigma_max / 0.7 * math.sqrt(2 * t * log)
        pair = theory.lasso_penalties(t, 6, sigma_max=sigma_max, noise=0.3, p=0.7, delta=0.01)
        assert pair == pytest.approx((first, second))
        grown = growth(policy.params.model, t)
        assert policy.params.model.penalties.imputation * grown == pytest.approx(first)
        assert policy.params.model.penalties.main * grown == pytest.approx(second)


def test_exploration_factors_by_hand():
    features = np.array([[3.0, 0.0], [0.0, 0.5], [0.0, 0.0]])  # s_max = 3, s_min = 1/2
    assert theory.exploration_factor_lasso(features, p=0.5) == pytest.approx(24**3 * 36 / 0.25)
    assert theory.exploration_factor_ridge(5, p=0.75) == pytest.approx(32 * 25 * 16)


def test_forced_rounds_until_a_horizon():
    policy = rolf.RoLFRidge(np.eye(3), exploration="theory", p=0.6, delta=0.01, seed=0)
    by_hand = 32 * 9 / 0.4**2 * math.log(2 * 3 * 500**2 / 0.01)
    assert policy.forced_rounds(500) == pytest.approx(by_hand)
    assert policy.forced_rounds(5000) > by_hand
    assert rolf.RoLFRidge(np.eye(3), exploration=7, seed=0).forced_rounds(500) == 7
    assert rolf.UCB(np.eye(3)).forced_rounds(500) == 0


def test_exploration_rounds_by_playing():
    problem = rolf.environments.Problem(np.eye(2), [0.5, 0.0])
    options = {"exploration": "theory", "p": 0.6, "delta": 0.9}
    policy, _ = after(rolf.RoLFRidge, problem, 60_000, 0, **options)
    factor = theory.exploration_factor_ridge(2)
    expected = theory.exploration_rounds(factor, 2, 60_000, delta=0.9)
    assert policy.state.clock[1] == expected
    assert expected < 30_000
    assert theory.exploration_rounds(factor, 2, 100, delta=0.9) == 100


@pytest.mark.parametrize(("arms", "size"), [(6, 2), (5, 5), (9, 4)])
def test_eigenvalues_lie_in_the_interval_and_reach_its_ends(arms, size):
    for seed in range(20):
        features = np.random.default_rng(seed).standard_normal((arms, size))
        matrix = rolf.Augmentation(features).matrix
        values = np.linalg.eigvalsh(matrix.T @ matrix)
        low, high = theory.eigenvalue_interval(features)
        assert values[0] == pytest.approx(low)
        assert values[-1] == pytest.approx(high)
        observed = np.linalg.eigvalsh(features.T @ features)
        assert min(observed[0], 1.0) <= low + 1e-9  # the paper's interval contains it
        assert high <= max(observed[-1], 1.0) + 1e-9


def test_the_departures_lemma_fails_around_the_action_and_holds_around_the_greedy_arm():
    horizon, arms = 1200, 30
    bound = theory.departures_bound(horizon, arms)
    exact = theory.departures(horizon, arms, coupling="action")
    assert exact == pytest.approx(sum(t**-0.5 for t in range(1, horizon + 1)))
    assert exact > 25 * bound  # 67.8 against 2.4
    assert theory.departures(horizon, arms, start=3, coupling="greedy") < bound
    assert theory.departures(horizon, arms, coupling="greedy") == pytest.approx(2.83, abs=0.01)
    assert theory.departures(horizon, 2) < theory.departures_bound(horizon, 2)
    assert theory.departures(horizon, 3) > theory.departures_bound(horizon, 3)
    # and what is counted in play is what is computed
    for coupling in ("action", "greedy"):
        problem = rolf.environments.Problem(np.eye(arms), np.r_[1.0, np.zeros(arms - 1)], 0.0)
        counts = []
        for seed in range(40):
            policy, regret = after(
                rolf.RoLFRidge, problem, horizon, seed, coupling=coupling, exploration=300
            )
            counts.append(regret[-1] - regret[299] if policy.rank(1) == [0] else np.nan)
        expected = theory.departures(horizon, arms, start=301, coupling=coupling)
        # Poisson-like counts: five standard errors of a mean of 40, once in 1.7 million
        error = 5 * math.sqrt(expected / np.isfinite(counts).sum())
        assert np.nanmean(counts) == pytest.approx(expected, abs=error)


def test_the_gram_corollary_fails():
    features = np.random.default_rng(0).standard_normal((4, 2))
    problem = rolf.environments.Problem(features, [1.0, 0.0, 0.0, 0.0])
    rounds = theory.gram_rounds(4, 0.5)
    policy, _ = after(rolf.RoLFRidge, problem, rounds, 0, exploration=rounds)  # all uniform
    counts = policy.state.belief.counts
    deviation = theory.gram_deviation(counts)
    matrix = rolf.Augmentation(features).matrix
    gram = matrix.T @ matrix
    weighted = matrix.T @ np.diag(counts / (0.6 * counts.sum())) @ matrix
    values, vectors = np.linalg.eigh(gram)
    half = vectors / np.sqrt(values) @ vectors.T
    direct = np.abs(np.linalg.eigvalsh(np.eye(4) - half @ weighted @ half)).max()
    assert deviation == pytest.approx(direct)
    assert deviation == pytest.approx(1 - 1 / (0.6 * 4), abs=0.02)  # uniform play
    assert deviation > 0.5  # the corollary says at most this


def test_errors_are_within_the_bound_of_ridge_just_after_the_forced_phase():
    """Not for ever (tests/paper/test_theorems.py). K=3 and features of at most 1, as the theorem
    asks; delta 0.1, so 3 delta is 30% of runs."""
    delta, p, rounds, noise = 0.1, 0.6, 60_000, 0.5
    factor = theory.exploration_factor_ridge(3, p=p)
    assert theory.exploration_rounds(factor, 3, rounds, delta=delta) < rounds
    broken = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        features, mu = rng.uniform(-1, 1, (3, 1)), rng.uniform(-1, 1, 3)
        means = rolf.Augmentation(features).matrix @ mu
        problem = rolf.environments.Problem(features, means, noise)
        options = {"exploration": "theory", "p": p, "delta": delta}
        policy, _ = after(rolf.RoLFRidge, problem, rounds, seed, **options)
        error = np.abs(policy.estimates() - problem.means).max()
        broken += error > theory.ridge_error_bound(rounds, 3, noise=noise, p=p, delta=delta)
    assert broken <= 20 * 3 * delta


@pytest.mark.slow
def test_errors_of_the_lasso_leave_the_bound_when_the_forced_phase_is_long_over():
    """Round by round, as blocks of rounds say (tests/paper/test_blocks.py)."""
    delta, p, noise = 0.1, 0.55, 0.5
    features, means = np.array([[1.0], [0.0]]), np.array([0.2, -0.9])
    problem = rolf.environments.Problem(features, means, noise)
    sizes = {"sigma_max": 1.0, "sigma_min": 1.0, "noise": noise, "p": p, "delta": delta}
    options = {"exploration": "theory", "penalty": "theory", "p": p, "delta": delta}
    for rounds, within in ((800_000, True), (10_000_000, False)):
        policy, _ = after(rolf.RoLFLasso, problem, rounds, 0, noise=noise, **options)
        error = np.abs(policy.estimates() - means).max()
        assert (error < theory.lasso_error_bound(rounds, 2, 2, **sizes)) == within


def test_at_the_horizon_of_the_experiments_the_bounds_say_nothing():
    sizes = {"sigma_max": 5.0, "sigma_min": 1.0, "noise": 0.1}
    assert theory.lasso_regret_bound(1200, 30, 30, **sizes) > 2 * 1200
    assert theory.ridge_regret_bound(1200, 30, 17, noise=0.1) > 2 * 1200
    assert theory.varying_regret_bound(1200, 30, 17, noise=0.1) > 2 * 1200


def test_d_h_is_not_the_same_in_every_basis():
    for seed in range(5):
        problem = rolf.environments.paper(1, 3).draw(seed)  # R(X) in R(U)
        augmented = rolf.Augmentation(problem.features)
        assert augmented.latent_dimension(problem.means) == 13  # K - d in the usual basis
        basis = theory.aligned_basis(problem.features, problem.means)
        assert np.allclose(basis.T @ basis, np.eye(13))
        assert np.abs(problem.features.T @ basis).max() < 1e-10
        assert np.count_nonzero(np.abs(basis.T @ problem.means) > 1e-9) == 1


def test_lower_bounds_by_hand():
    assert theory.oful_lower_bound(1600) == 100
    assert theory.lints_lower_bound(1600) == 100
    assert theory.observed_only_lower_bound(600) == 100
