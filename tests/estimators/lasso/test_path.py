"""The lasso solver against scikit-learn, along paths, on degenerate problems, and broken."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolf.estimators.lasso.path import absorb, follow, lasso_start, solve_from_nothing
from support import oracle

pytestmark = pytest.mark.compiled


def violation(lasso):
    """Distance from the optimality conditions, computed here and not by the solver."""
    half = lasso.half[0]
    corr = lasso.target - lasso.gram @ lasso.coef
    active = lasso.coef != 0
    gaps = np.where(active, np.abs(corr - half * np.sign(lasso.coef)), np.abs(corr) - half)
    return gaps.max() / max(np.abs(lasso.target).max(), half)


def grown(seed, size, rows, penalty):
    rng = np.random.default_rng(seed)
    design, target = rng.standard_normal((rows, size)), rng.standard_normal(rows)
    lasso = lasso_start(np.zeros((size, size)), penalty)
    for row, reward in zip(design, target, strict=True):
        absorb(lasso, row, reward)
    return design, target, lasso


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 40), st.sampled_from([0.01, 0.6, 5.0])
)
def test_observations_one_by_one_match_scikit_learn(seed, size, rows, penalty):
    design, target, lasso = grown(seed, size, rows, penalty)
    assert np.abs(lasso.coef - oracle.lasso(design, target, penalty)).max() < 1e-7
    assert violation(lasso) < 1e-9
    assert np.allclose(lasso.gram, design.T @ design)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 40))
def test_from_nothing_equals_one_by_one(seed, size, rows):
    _, _, lasso = grown(seed, size, rows, 0.3)
    fresh = lasso_start(lasso.gram.copy(), 0.3)
    fresh.target[:] = lasso.target
    solve_from_nothing(fresh)
    assert np.abs(fresh.coef - lasso.coef).max() < 1e-8


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 10), st.floats(0.01, 20), st.floats(0.01, 20))
def test_follow_moves_target_and_penalty(seed, size, before, after):
    design, target, lasso = grown(seed, size, 30, before)
    moved = target + np.random.default_rng(seed + 1).standard_normal(30)
    follow(lasso, design.T @ moved, after)
    assert np.abs(lasso.coef - oracle.lasso(design, moved, after)).max() < 1e-7
    assert violation(lasso) < 1e-9


def test_by_hand():
    # One variable: m = soft(b, l/2)/A.
    lasso = lasso_start(np.zeros((1, 1)), 1.0)
    absorb(lasso, np.array([2.0]), 3.0)  # A = 4, b = 6
    assert lasso.coef[0] == pytest.approx((6 - 0.5) / 4)
    absorb(lasso, np.array([2.0]), -6.0)  # A = 8, b = -6
    assert lasso.coef[0] == pytest.approx(-(6 - 0.5) / 8)
    absorb(lasso, np.array([2.0]), 2.8)  # A = 12, b = -0.4, inside the threshold
    assert lasso.coef[0] == 0.0
    # Orthogonal design: every coordinate for itself.
    lasso = lasso_start(np.zeros((2, 2)), 2.0)
    absorb(lasso, np.array([1.0, 0.0]), 5.0)
    absorb(lasso, np.array([0.0, 2.0]), 0.4)
    assert np.allclose(lasso.coef, [4.0, 0.0])


@pytest.mark.parametrize("size", [2, 3, 5])
def test_ties_and_repeated_columns_still_reach_an_optimum(size):
    # All columns alike: infinitely many optima, all with the same fit.
    lasso = lasso_start(np.zeros((size, size)), 0.5)
    for reward in (1.0, 2.0, -1.0, 4.0, 0.5, 0.5):
        absorb(lasso, np.ones(size), reward)
        assert violation(lasso) < 1e-9
    total, squares = 7.0, 6.0
    assert lasso.coef.sum() == pytest.approx((total - 0.25) / squares)


def test_integer_designs_with_many_ties():
    rng = np.random.default_rng(0)
    for _ in range(30):
        size = int(rng.integers(2, 7))
        lasso = lasso_start(np.zeros((size, size)), 1.0)
        for _ in range(25):
            absorb(lasso, rng.integers(-1, 2, size).astype(float), float(rng.integers(-2, 3)))
            assert violation(lasso) < 1e-9


def test_extreme_scales():
    rng = np.random.default_rng(1)
    for scale in (1e-8, 1e8):
        lasso = lasso_start(np.zeros((6, 6)), scale)
        for _ in range(60):
            absorb(lasso, rng.standard_normal(6), scale * rng.standard_normal())
            assert violation(lasso) < 1e-9


@pytest.mark.parametrize("scale", [1e2, 1e4, 1e6])
def test_rewards_far_larger_than_the_penalty(scale):
    # Arms come one after another, so for long there are fewer observations than variables and
    # the solution nearly interpolates: the hard case for a path.
    rng = np.random.default_rng(2)
    rows = np.linalg.qr(rng.standard_normal((30, 30)))[0] * rng.uniform(0.2, 5, 30)
    lasso = lasso_start(np.zeros((30, 30)), 0.6)
    for t in range(300):
        row = rows[t % 30 if t < 60 else int(rng.integers(5))]
        absorb(lasso, row, scale * rng.standard_normal())
        assert violation(lasso) < 1e-12
    assert (lasso.steps[1:] == 0).all()


def test_coordinate_descent_is_a_last_resort_that_works():
    from rolf.estimators.lasso.optimality import descend
    from rolf.kernel import looped

    design, target, lasso = grown(7, 8, 40, 0.6)
    expected = lasso.coef.copy()
    lasso.coef[:] = 0.0
    lasso.signs[:] = 0.0
    looped(descend)(lasso)
    assert lasso.steps[2] == 0
    assert np.abs(lasso.coef - expected).max() < 1e-8
    assert np.abs(lasso.coef - oracle.lasso(design, target, 0.6)).max() < 1e-7


@pytest.mark.parametrize("damage", ["inverse", "coef", "signs"])
def test_the_fallback_repairs_what_is_broken(damage):
    design, target, lasso = grown(5, 8, 40, 0.6)
    rng = np.random.default_rng(0)
    if damage == "inverse":
        lasso.inverse[:] = 0.0
    elif damage == "coef":
        lasso.coef[:] = rng.standard_normal(8)
    else:
        lasso.signs[:] = 0.0
    row, reward = rng.standard_normal(8), 0.7
    absorb(lasso, row, reward)
    assert lasso.steps[1] > 0  # it was used
    expected = oracle.lasso(np.vstack([design, row]), np.append(target, reward), 0.6)
    assert np.abs(lasso.coef - expected).max() < 1e-7
    for _ in range(20):  # and the path goes on from there
        absorb(lasso, rng.standard_normal(8), rng.standard_normal())
        assert violation(lasso) < 1e-9
    assert lasso.steps[1] == 1
    assert lasso.steps[2] == 0
