"""Augmentation: the mathematics by hand, invariants by Hypothesis, and awkward features."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import rolf
from rolf import Augmentation

NUMBERS = st.floats(-100, 100, allow_subnormal=False).map(lambda x: round(x, 3))


@st.composite
def tables(draw):
    arms, size = draw(st.integers(2, 7)), draw(st.integers(1, 9))
    return draw(arrays(np.float64, (arms, size), elements=NUMBERS))


@settings(deadline=None, max_examples=200)
@given(tables())
def test_the_basis_is_orthonormal_and_orthogonal_to_the_features(features):
    augmented = Augmentation(features)
    basis = augmented.basis()
    arms = features.shape[0]
    assert augmented.rank == np.linalg.matrix_rank(features)
    assert basis.shape == (arms, arms - augmented.rank)
    scale = max(np.abs(features).max(), 1.0)
    assert np.abs(features.T @ basis).max(initial=0.0) < 1e-10 * scale
    assert np.abs(basis.T @ basis - np.eye(basis.shape[1])).max(initial=0.0) < 1e-12
    assert np.linalg.matrix_rank(augmented.matrix) == arms


@settings(deadline=None, max_examples=100)
@given(tables(), st.integers(0, 10**6))
def test_every_reward_vector_is_represented_exactly(features, seed):
    augmented = Augmentation(features)
    rewards = np.random.default_rng(seed).standard_normal(features.shape[0])
    observed, latent = augmented.coefficients(rewards)
    rebuilt = augmented.observed @ observed + augmented.complement(latent)
    assert np.abs(rebuilt - rewards).max() < 1e-8


@settings(deadline=None, max_examples=100)
@given(tables(), st.integers(0, 10**6))
def test_operator_and_matrix_agree(features, seed):
    augmented = Augmentation(features)
    rng = np.random.default_rng(seed)
    basis = augmented.basis()
    right = rng.standard_normal((basis.shape[1], 3))
    left = rng.standard_normal((basis.shape[0], 3))
    assert np.allclose(augmented.complement(right), basis @ right, atol=1e-12)
    assert np.allclose(augmented.complement(right[:, 0]), basis @ right[:, 0], atol=1e-12)
    assert np.allclose(augmented.project(left), basis.T @ left, atol=1e-12)


def test_by_hand():
    # One feature (1, 1): the complement of two arms is spanned by (1, -1)/sqrt(2).
    basis = Augmentation([[1.0], [1.0]]).basis()
    assert np.allclose(np.abs(basis), np.sqrt(0.5))
    assert basis[0, 0] == -basis[1, 0]
    gram = Augmentation([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]]).gram
    assert np.allclose(gram, [[5.0, 0.0], [0.0, 9.0]])


@pytest.mark.parametrize(
    ("features", "rank"),
    [
        ([[1.0, 2.0], [2.0, 4.0], [0.0, 0.0]], 1),  # second column twice the first
        ([[1.0, 0.0], [1.0, 0.0], [2.0, 0.0]], 1),  # zero column, duplicated arms
        ([[1.0, 5.0], [1.0, 5.0], [1.0, 5.0]], 1),  # constant columns
        (np.zeros((3, 2)), 0),  # nothing known at all
        (np.eye(3), 3),
        (np.ones((2, 6)), 1),
        (np.arange(12.0).reshape(3, 4), 2),
        ([[1e-9], [2e-9]], 1),
        ([[1e12], [1e12 + 1]], 1),
    ],
)
@pytest.mark.filterwarnings("ignore:the features have rank")  # said, and tested, elsewhere
def test_awkward_features(features, rank):
    augmented = Augmentation(features)
    arms = np.shape(features)[0]
    assert augmented.rank == rank
    assert augmented.matrix.shape == (arms, arms)
    for cls in rolf.policy_classes():  # and every policy plays on them
        policy = cls(features, seed=0)
        extra = {"features": features} if cls.varying else {}
        for _ in range(20):
            decision = policy.ask(**extra)
            policy.tell(decision, float(decision.arm == 1))
        assert np.isfinite(policy.estimates(**extra)).all()


def test_rank_deficient_features_become_orthonormal_unless_scale_is_kept():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((5, 2)) @ rng.standard_normal((2, 8))
    orthonormal = Augmentation(features)
    kept = Augmentation(features, keep_scale=True)
    assert orthonormal.reduced
    assert np.allclose(orthonormal.gram, np.eye(2))
    singular = np.linalg.svd(features, compute_uv=False)[:2]
    assert np.allclose(kept.gram, np.diag(singular**2))
    assert np.allclose(kept.observed @ kept.observed.T, features @ features.T)
    full = rng.standard_normal((5, 3))
    assert (Augmentation(full).observed == full).all()


@pytest.mark.parametrize("name", ["rolf-lasso", "rolf-ridge"])
def test_dummies_that_follow_from_each_other_are_warned_about(name):
    # Two categorical columns as dummies: rank 1 below the number of columns.
    first, second = np.eye(3)[[0, 1, 2, 0, 1, 2]], np.eye(2)[[0, 0, 0, 1, 1, 1]]
    table = np.hstack([first, second])
    build = rolf.policy_class(name)
    with pytest.warns(rolf.RolfWarning, match="rank 4 but 5 columns"):
        lost = build(table, seed=0)
    kept = build(table, seed=0, keep_scale=True)
    dropped = build(table[:, 1:], seed=0)
    for policy in (lost, kept, dropped):
        policy.learn([0] * 20, [1.0] * 20)
    if name == "rolf-ridge":  # nothing is shared under the basis; with scales it is
        assert np.abs(lost.estimates()[1:]).max() < 1e-9
    assert (np.abs(kept.estimates()[1:]) > 1e-3).any()
    assert (np.abs(dropped.estimates()[1:]) > 1e-3).any()
    build(table, seed=0, keep_scale=False)  # said on purpose: silent


def test_gram_of_augmented_features_is_block_diagonal():
    features = np.random.default_rng(1).standard_normal((9, 4))
    augmented = Augmentation(features)
    gram = augmented.matrix.T @ augmented.matrix
    expected = np.eye(9)
    expected[:4, :4] = features.T @ features
    assert np.allclose(gram, expected, atol=1e-12)
    values = np.linalg.eigvalsh(gram)
    assert augmented.sigma_min == pytest.approx(np.sqrt(values[0]))
    assert augmented.sigma_max == pytest.approx(np.sqrt(np.diag(gram).max()))


def test_latent_dimension():
    rng = np.random.default_rng(2)
    features = rng.standard_normal((10, 4))
    augmented = Augmentation(features)
    inside = features @ rng.standard_normal(4)
    assert augmented.latent_dimension(inside) == 0
    assert augmented.latent_dimension(inside + augmented.basis()[:, 2]) == 1
    assert augmented.latent_dimension(rng.standard_normal(10)) == 6
    # the paper's cases: R(U) in R(X) leaves nothing latent, the others leave K - d
    for case, expected in [(1, 13), (2, 0), (3, 13)]:
        problem = rolf.environments.paper(1, case).draw(0)
        assert Augmentation(problem.features).latent_dimension(problem.means) == expected


def test_many_arms_never_form_a_square_matrix():
    arms, size = 100_000, 20
    features = np.random.default_rng(3).standard_normal((arms, size))
    tracemalloc.start()
    augmented = Augmentation(features)
    latent = augmented.project(np.ones(arms))
    back = augmented.complement(latent)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.abs(features.T @ back).max() < 1e-8
    assert peak < 10 * features.nbytes  # a square matrix would be 5,000 times the features


@pytest.mark.parametrize("bad", [[1.0, 2.0], [[np.nan]], [[np.inf, 1.0]], np.zeros((0, 3))])
def test_bad_input(bad):
    with pytest.raises(rolf.RolfError, match="features"):
        Augmentation(bad)


def test_wrong_shapes_are_named():
    augmented = Augmentation([[1.0], [2.0], [3.0]])
    with pytest.raises(rolf.RolfError, match="coefficients"):
        augmented.complement(np.zeros(3))
    with pytest.raises(rolf.RolfError, match="rewards"):
        augmented.project(np.zeros(2))
