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
from support import oracle

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


# --- which basis ----------------------------------------------------------------------------------


def lapack(features):
    """The complement of a full singular value decomposition, as the paper takes it."""
    return np.linalg.svd(features, full_matrices=True)[0][:, features.shape[1] :]


def lasso_estimates(features, seed=0, rounds=150, **options):
    """What RoLF-Lasso estimates after some rounds whose arms do not depend on it."""
    rng = np.random.default_rng(seed)
    policy = rolf.RoLFLasso(features, exploration=rounds, seed=1, **options)
    means = rng.uniform(-1, 1, len(features))
    for _ in range(rounds):
        decision = policy.ask()
        policy.tell(decision, means[decision.arm] + 0.1 * rng.standard_normal())
    return policy.estimates()


def signs_aside(one, other):
    return np.abs(one * np.sign((one * other).sum(axis=0)) - other).max()


@pytest.mark.parametrize(("arms", "size"), [(30, 17), (30, 10), (100, 60), (100, 54), (5, 4)])
def test_the_basis_is_that_of_a_full_decomposition(arms, size):
    features = np.random.default_rng(arms + size).standard_normal((arms, size))
    basis = Augmentation(features).basis()
    assert signs_aside(basis, lapack(features)) < 1e-12
    plain = Augmentation(features, basis="qr").basis()
    if 6 * arms >= 11 * size:
        assert np.array_equal(basis, plain)
    elif arms - size > 1:
        assert signs_aside(basis, plain) > 0.01


def test_bases_of_rank_deficient_features_are_those_of_the_reduced_ones():
    rng = np.random.default_rng(4)
    for arms, rank, columns in ((30, 10, 14), (12, 9, 20), (12, 9, 10)):
        features = rng.standard_normal((arms, rank)) @ rng.standard_normal((rank, columns))
        for basis in ("svd", "qr"):
            augmented = Augmentation(features, basis=basis)
            assert np.abs(features.T @ augmented.basis()).max() < 1e-10
            square = augmented.matrix.T @ augmented.matrix
            assert np.allclose(square, np.eye(arms), atol=1e-12)
        assert signs_aside(Augmentation(features).basis(), lapack(augmented.observed)) < 1e-12


def test_the_lasso_agrees_with_one_on_the_basis_of_the_decomposition():
    features = np.random.default_rng(7).standard_normal((30, 17))
    rng = np.random.default_rng(0)
    policy = rolf.RoLFLasso(features, exploration=150, seed=1)
    means = rng.uniform(-1, 1, 30)
    matrix = np.hstack([features, lapack(features)])
    history = oracle.History()
    for _ in range(150):
        decision = policy.ask()
        reward = means[decision.arm] + 0.1 * rng.standard_normal()
        history.add(decision.arm, reward, decision.matched, matrix)
        policy.tell(decision, reward)
    p = 0.6
    imputed = oracle.lasso_impute(history, p)
    expected = matrix @ oracle.lasso_main(history, imputed, p, p)
    assert np.abs(policy.estimates() - expected).max() < 1e-9


def test_where_bases_matter_to_the_lasso():
    rng = np.random.default_rng(8)
    far, near = rng.standard_normal((30, 10)), rng.standard_normal((30, 17))
    assert np.array_equal(lasso_estimates(far), lasso_estimates(far, basis="qr"))
    assert np.abs(lasso_estimates(near) - lasso_estimates(near, basis="qr")).max() > 0.01
    # a basis saved is the basis restored
    policy = rolf.RoLFLasso(near, basis="qr", seed=0)
    policy.learn([0, 1, 2, 0], [1.0, 0.0, 0.5, 0.8])
    again = rolf.Policy.from_dict(policy.to_dict())
    assert np.array_equal(again.estimates(), policy.estimates())
    with pytest.raises(rolf.RolfError, match="basis"):
        rolf.RoLFLasso(near, basis="householder")


def test_the_ridge_depends_on_no_basis_and_the_lasso_on_no_signs():
    rng = np.random.default_rng(9)
    features, rewards = rng.standard_normal((12, 8)), rng.standard_normal(40)
    arms, p = rng.integers(0, 12, 40), 0.6
    basis = Augmentation(features).basis()
    turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    signs = np.diag([1.0, -1.0, -1.0, 1.0])
    ridge, lasso = [], []
    for latent in (basis, basis @ turn, basis @ signs):
        matrix = np.hstack([features, latent])
        history = oracle.History()
        for arm, reward in zip(arms.tolist(), rewards.tolist(), strict=True):
            history.add(arm, reward, True, matrix)
        ridge.append(matrix @ oracle.ridge_impute(history, p))
        imputed = oracle.lasso_impute(history, p)
        lasso.append(matrix @ oracle.lasso_main(history, imputed, p, p))
    policy = rolf.RoLFRidge(features, seed=0)
    policy.learn(arms, rewards)
    for estimates in ridge:
        assert np.abs(policy.estimates() - estimates).max() < 1e-10
    assert np.abs(lasso[0] - lasso[2]).max() < 1e-9
    assert np.abs(lasso[0] - lasso[1]).max() > 1e-3
