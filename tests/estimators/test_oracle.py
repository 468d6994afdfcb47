"""The fast estimators against the literal transcription, at every one of 300 rounds."""

from __future__ import annotations

import numpy as np
import pytest

import rolf
from rolf.types import Choice
from support import oracle

pytestmark = pytest.mark.compiled

ROUNDS = 300
AGREE = 1e-8


def problem(seed, arms, size):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((arms, size)), rng.uniform(-1, 1, arms), rng


def events(rng, means, rounds, matched=0.85):
    """Uneven play, as of a bandit: mostly one arm, some arms for the first time late."""
    arms = means.size
    favourite = int(rng.integers(arms))
    for _ in range(rounds):
        arm = favourite if rng.random() < 0.6 else int(rng.integers(arms))
        if rng.random() < 0.02:
            favourite = int(rng.integers(arms))
        yield arm, means[arm] + 0.1 * rng.standard_normal(), bool(rng.random() < matched)


def feed(policy, arm, reward, matched, row):
    """One round, as ask and tell would do it, but with the arm and the match given."""
    policy.state.clock[0] += 1
    policy.observe(Choice(arm, 0.5, arm, arm, matched), row, reward)


SIZES = [(6, 2), (5, 5), (4, 7), (7, 1), (9, 4), (2, 1)]


@pytest.mark.parametrize(("arms", "size"), SIZES)
@pytest.mark.parametrize("penalty", ["theory", None, 0.05, (0.3, 2.0)])
def test_lasso(arms, size, penalty):
    features, means, rng = problem(arms * 10 + size, arms, size)
    p, delta, noise = 0.7, 1e-3, 0.1
    policy = rolf.RoLFLasso(features, p=p, delta=delta, noise=noise, penalty=penalty, seed=0)
    matrix = rolf.Augmentation(features).matrix
    history = oracle.History()
    unmatched = 0
    for t, (arm, reward, matched) in enumerate(events(rng, means, ROUNDS), start=1):
        before = policy.estimates().copy()
        history.add(arm, reward, matched, matrix)
        feed(policy, arm, reward, matched, features[arm])
        if not matched:
            unmatched += 1
            assert (policy.estimates() == before).all()
            continue
        if penalty == "theory":
            first, second = oracle.theory_penalties(matrix, p, delta, noise, t)
        else:
            first, second = (p, p) if penalty is None else np.broadcast_to(penalty, 2)
        impute = oracle.lasso_impute(history, first)
        main = oracle.lasso_main(history, impute, p, second)
        state = policy.state.belief
        assert np.abs(state.imputation.coef - impute).max() < AGREE, t
        assert np.abs(state.coef - main).max() < AGREE, t
        assert np.abs(policy.estimates() - matrix @ main).max() < AGREE, t
    assert unmatched > 10
    assert policy.state.belief.imputation.steps[1] == 0  # the path never needed the fallback


@pytest.mark.parametrize(("arms", "size"), [*SIZES, (12, 5)])
def test_ridge(arms, size):
    features, means, rng = problem(arms * 10 + size, arms, size)
    p = 0.7
    policy = rolf.RoLFRidge(features, p=p, seed=0)
    matrix = rolf.Augmentation(features).matrix
    history = oracle.History()
    for arm, reward, matched in events(rng, means, ROUNDS):
        history.add(arm, reward, matched, matrix)
        feed(policy, arm, reward, matched, features[arm])
        if not history.kept:
            continue
        impute = oracle.ridge_impute(history, p)
        main = oracle.ridge_main(history, impute, p)
        assert np.abs(main - impute).max() < AGREE  # the ridge identity
        assert np.abs(policy.estimates() - matrix @ main).max() < AGREE


@pytest.mark.parametrize(("arms", "size"), [(5, 2), (3, 4), (8, 1)])
def test_varying_ridge(arms, size):
    features, bias, rng = problem(arms * 10 + size, arms, size)
    theta = rng.uniform(-1, 1, size)
    p = 0.65
    policy = rolf.RoLFVarying(features, p=p, seed=0)
    history = oracle.History()
    for arm, noise, matched in events(rng, np.zeros(arms), ROUNDS):
        now = rng.standard_normal((arms, size))
        augmented = np.hstack([now, np.eye(arms)])
        reward = now[arm] @ theta + bias[arm] + noise
        history.add(arm, reward, matched, augmented)
        feed(policy, arm, reward, matched, now[arm])
        if not history.kept:
            continue
        impute = oracle.ridge_impute(history, p)
        main = oracle.ridge_main(history, impute, p)
        assert np.abs(main - impute).max() < AGREE
        probe = np.random.default_rng(1).standard_normal((arms, size))
        expected = np.hstack([probe, np.eye(arms)]) @ main
        assert np.abs(policy.estimates(features=probe) - expected).max() < AGREE


def test_main_lasso_equals_imputation_where_the_penalties_correspond():
    features, means, rng = problem(3, 8, 3)
    p, first = 0.6, 0.4
    policy = rolf.RoLFLasso(features, p=p, penalty=(first, first / p), seed=0)
    for arm, reward, matched in events(rng, means, ROUNDS):
        feed(policy, arm, reward, matched, features[arm])
        state = policy.state.belief
        assert np.abs(state.coef - state.imputation.coef).max() < AGREE
