"""Blocks of rounds give what the plain loop gives, where both run."""

from __future__ import annotations

import numpy as np
import pytest

import rolf
from rolf import theory
from rolf.paper.blocks import (
    Settings,
    lasso_estimates,
    play_blocks,
    ridge_estimates,
    theory_forced,
)
from rolf.simulation.loop import play_policy, ready_loop

FEATURES = np.array([[1.0], [0.0], [0.0]])  # augmented: the unit vectors


def forced(rounds):
    return lambda t: np.minimum(t, rounds)


def one_by_one(policy, options, means, noise, rounds, runs):
    problem = rolf.environments.Problem(FEATURES[: len(means)], means, noise)
    return rolf.simulate(
        {"rolf": (policy, options)}, problem, rounds=rounds, runs=runs, seed=0, progress=False
    ).regret[0]


def agree(blocks, rounds):
    """Within five standard errors of each other: once in 1.7 million."""
    error = np.sqrt(blocks.var() / blocks.size + rounds.var() / rounds.size)
    assert blocks.mean() == pytest.approx(rounds.mean(), abs=5.0 * error)


@pytest.mark.slow
@pytest.mark.parametrize("gap", [0.02, 0.5])
def test_regret_is_that_of_the_plain_loop(gap):
    means = [gap, 0.0, -gap]
    plain = one_by_one("rolf-ridge", {"exploration": 6}, means, 0.5, 20_000, 150)
    settings = Settings(0.6, 1e-4, 0.5, forced(6))
    blocks = play_blocks(means, [2_000, 20_000], settings, runs=2000, seed=1)
    agree(blocks.regret[0], plain[:, 1999])
    agree(blocks.regret[1], plain[:, 19_999])
    assert (blocks.plays.sum(axis=2) == [[2_000], [20_000]]).all()


@pytest.mark.slow
def test_so_are_the_estimates():
    means, noise, rounds = [0.2, -0.9], 0.5, 5_000
    options = {"penalty": "theory", "noise": noise, "exploration": 100, "p": 0.55, "delta": 0.1}
    errors = []
    problem = rolf.environments.Problem(FEATURES[:2], means, noise)
    loop = ready_loop(rolf.RoLFLasso(FEATURES[:2], seed=0), problem)
    for seed in range(200):
        policy = rolf.RoLFLasso(FEATURES[:2], seed=seed, **options)
        play_policy(policy, problem, np.random.default_rng(seed), np.empty(rounds), loop)
        errors.append(np.abs(policy.estimates() - means).max())
    settings = Settings(0.55, 0.1, noise, forced(100))
    blocks = play_blocks(means, [rounds], settings, estimates=lasso_estimates, runs=2000, seed=0)
    agree(blocks.errors[0], np.array(errors))


def test_the_forced_phase_of_the_theory_goes_on_for_ever_but_slowly():
    count = theory_forced(theory.exploration_factor_ridge(2, p=0.51), 2, 0.01)
    assert count(np.array([0, 1000])).tolist() == [0, 1000]
    end = theory.forced_phase(theory.exploration_factor_ridge(2, p=0.51), 2, delta=0.01)
    assert count(np.array(end)) == pytest.approx(end, rel=1e-3)
    assert end < count(np.array(100 * end)) < 2 * end


def test_a_seed_decides_everything():
    settings = Settings(0.6, 1e-4, 0.5, forced(6))
    one, same, other = (
        play_blocks([0.1, 0.0], [10**7], settings, runs=5, seed=seed) for seed in (0, 0, 1)
    )
    assert (one.regret == same.regret).all()
    assert (one.regret != other.regret).any()


def test_ridge_and_lasso_by_hand():
    settings = Settings(0.6, 0.1, 0.5, forced(0))
    counts, sums = np.array([[4.0, 1.0]]), np.array([[2.0, -3.0]])
    assert ridge_estimates(counts, sums, np.array([5.0]), settings) == pytest.approx(
        np.array([[2.0 / 4.6, -3.0 / 1.6]])
    )
    policy = rolf.RoLFLasso(FEATURES[:2], penalty="theory", noise=0.01, p=0.6, delta=0.1, seed=0)
    policy.learn([0, 0, 0, 0, 1], [0.5, 0.5, 0.5, 0.5, -3.0])
    mine = lasso_estimates(counts, sums, np.array([5.0]), settings._replace(noise=0.01))
    assert mine[0] == pytest.approx(policy.estimates(), rel=1e-9)
