"""The paper's estimators, transcribed equation by equation.

Slow and literal: the whole history is kept and every sum over rounds is a sum over rounds.
Nothing here is shared with the library. The lasso is solved by scikit-learn and then made
exact on the support it found; ``lasso`` refuses to answer unless the optimality conditions
hold.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np
from sklearn.linear_model import Lasso


@dataclass
class History:
    """What happened in each round: arm, reward, whether it matched, features of the round."""

    arms: list = field(default_factory=list)
    rewards: list = field(default_factory=list)
    matched: list = field(default_factory=list)
    features: list = field(default_factory=list)  # (K, n) augmented features of the round

    def add(self, arm, reward, matched, features):
        self.arms.append(arm)
        self.rewards.append(reward)
        self.matched.append(matched)
        self.features.append(features)

    @property
    def kept(self):
        """Rounds that change the estimators: those that matched (algorithm box)."""
        return [t for t, m in enumerate(self.matched) if m]


def lasso(design, target, penalty):
    """argmin |target - design m|^2 + penalty |m|_1, exact to rounding."""
    rows, size = design.shape
    gram, moment = design.T @ design, design.T @ target
    scale = max(np.abs(moment).max(), penalty)
    half = penalty / 2.0
    if np.abs(moment).max() <= half:
        return np.zeros(size)
    for tolerance in (1e-8, 1e-12, 1e-16):
        with warnings.catch_warnings():  # it may not reach its tolerance; the check below decides
            warnings.simplefilter("ignore")
            model = Lasso(
                alpha=penalty / (2 * rows), fit_intercept=False, tol=tolerance, max_iter=200_000
            )
            found = model.fit(design, target).coef_
        support = np.flatnonzero(found)
        signs = np.sign(found[support])
        exact = np.zeros(size)
        exact[support] = np.linalg.lstsq(
            gram[np.ix_(support, support)], moment[support] - half * signs, rcond=None
        )[0]
        corr = moment - gram @ exact
        off = np.setdiff1d(np.arange(size), support)
        if (
            (np.sign(exact[support]) == signs).all()
            and np.abs(corr[support] - half * signs).max(initial=0.0) <= 1e-9 * scale
            and (np.abs(corr[off]) <= half + 1e-9 * scale).all()
        ):
            return exact
    raise AssertionError("the oracle found no exact lasso solution")


def lasso_impute(history, penalty, rounds=None):
    """Eq. lasso_impute, over the rounds that matched, or over others."""
    rounds = history.kept if rounds is None else rounds
    design = np.array([history.features[t][history.arms[t]] for t in rounds])
    target = np.array([history.rewards[t] for t in rounds])
    return lasso(design, target, penalty)


def pseudo_rewards(history, t, impute, p):
    """Eq. pseudoY for all arms of round t; the pseudo-action is the arm where it matched.

    ``impute`` is one estimate for all rounds, or a dict with that of every round.
    """
    estimate = impute[t] if isinstance(impute, dict) else impute
    features = history.features[t]
    arm, reward = history.arms[t], history.rewards[t]
    out = features @ estimate
    out[arm] += (reward - features[arm] @ estimate) / p
    return out


def lasso_main(history, impute, p, penalty):
    """Eq. lasso_main, given the imputation estimate of all rounds or of each."""
    kept = history.kept
    design = np.vstack([history.features[t] for t in kept])
    target = np.concatenate([pseudo_rewards(history, t, impute, p) for t in kept])
    return lasso(design, target, penalty)


def ridge_impute(history, penalty, rounds=None):
    """Eq. ridge_impute, over the rounds that matched, or over others."""
    size = history.features[0].shape[1]
    matrix, moment = penalty * np.eye(size), np.zeros(size)
    for t in history.kept if rounds is None else rounds:
        row = history.features[t][history.arms[t]]
        matrix += np.outer(row, row)
        moment += row * history.rewards[t]
    return np.linalg.solve(matrix, moment)


def ridge_main(history, impute, p, penalty=1.0):
    """Eq. def_ridge_DR, with the identity (penalty 1) of the paper."""
    size = history.features[0].shape[1]
    matrix, moment = penalty * np.eye(size), np.zeros(size)
    for t in history.kept:
        rewards = pseudo_rewards(history, t, impute, p)
        for row, reward in zip(history.features[t], rewards, strict=True):
            matrix += np.outer(row, row)
            moment += row * reward
    return np.linalg.solve(matrix, moment)


def theory_penalties(matrix, p, delta, noise, t):
    """The penalties inside Eqs. lasso_impute and lasso_main."""
    arms = matrix.shape[0]
    largest = np.sqrt(np.diag(matrix.T @ matrix).max())
    log = np.log(2 * arms * t**2 / delta)
    return (
        2 * largest * noise * np.sqrt(2 * p * t * log),
        4 * noise * largest / p * np.sqrt(2 * t * log),
    )
