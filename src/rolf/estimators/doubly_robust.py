"""Doubly robust estimation from pseudo-rewards, without keeping the history.

In a round whose pseudo-action is arm k, drawn with probability phi, the pseudo-reward of
arm a is

    x_a'm + 1(a = k)/phi (y - x_a'm)

for the imputation estimate m. Every past round is imputed anew with the newest m, so the
sum over rounds and arms of x_a times the pseudo-reward is n G m + (b - A m)/p: the counts
and the sums of the rewards of each arm are all that is needed.

With the augmented features G is block diagonal, (X X', I). The main lasso

    min_u  n u'Gu - 2 u'(n G m + (b - A m)/p) + l2 |u|_1

therefore has a closed form, a soft threshold, in its K - d latent coordinates and needs a
solver in the d observed ones only. (For ridge, b - A m = p m and the doubly robust estimate
is the imputation estimate itself, so there is nothing to compute.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rolf.estimators.lasso import Lasso, absorb, follow, lasso_start, solve_from_nothing
from rolf.kernel import looped, shared
from rolf.linalg import assign, matvec, weighted_gram
from rolf.types import FloatArray


@shared
def pseudo_rewards(
    estimates: FloatArray, arm: int, reward: float, probability: float
) -> FloatArray:
    """Doubly robust pseudo-rewards of all arms for one observed reward."""
    out = estimates.copy()
    out[arm] += (reward - estimates[arm]) / probability
    return out


class RobustModel(NamedTuple):
    """matrix: augmented features (K, K); rank: d; probability: p."""

    matrix: FloatArray
    rank: int
    probability: float


class RobustState(NamedTuple):
    """counts and sums are the truth.

    imputation is the lasso over all K coordinates, main the lasso over the d observed
    ones with Gram matrix X X' and everything divided by n; coef (K,) is the doubly robust
    estimate and estimates (K,) the rewards that it gives to the arms.
    """

    counts: FloatArray
    sums: FloatArray
    imputation: Lasso
    main: Lasso
    coef: FloatArray
    estimates: FloatArray


def robust_start(model: RobustModel, gram: FloatArray, penalty: float) -> RobustState:
    arms = model.matrix.shape[0]
    return RobustState(
        counts=np.zeros(arms),
        sums=np.zeros(arms),
        imputation=lasso_start(np.zeros((arms, arms)), penalty),
        main=lasso_start(np.array(gram), penalty),
        coef=np.zeros(arms),
        estimates=np.zeros(arms),
    )


@looped
def robust_update(
    model: RobustModel,
    state: RobustState,
    arm: int,
    reward: float,
    imputation_penalty: float,
    main_penalty: float,
) -> None:
    """One more matched reward."""
    state.counts[arm] += 1.0
    state.sums[arm] += reward
    absorb(state.imputation, model.matrix[arm], reward)
    if imputation_penalty != 2.0 * state.imputation.half[0]:
        follow(state.imputation, state.imputation.target.copy(), imputation_penalty)
    _main(model, state, main_penalty)


@shared
def _main(model: RobustModel, state: RobustState, penalty: float) -> None:
    """The main estimate, given the imputation estimate."""
    arms = state.counts.size
    rank = model.rank
    total = 0.0
    for a in range(arms):
        total += state.counts[a]
    imputed = state.imputation.coef
    corr = state.imputation.corr
    scale = 1.0 / (model.probability * total)
    target = matvec(state.main.gram, imputed[:rank])
    for i in range(rank):
        target[i] += corr[i] * scale
    follow(state.main, target, penalty / total)
    threshold = penalty / (2.0 * total)
    for j in range(arms):
        if j < rank:
            state.coef[j] = state.main.coef[j]
        else:
            value = imputed[j] + corr[j] * scale
            size = max(abs(value) - threshold, 0.0)
            state.coef[j] = size if value > 0.0 else -size
    assign(state.estimates, matvec(model.matrix, state.coef))


@looped
def _solve_robust(model: RobustModel, state: RobustState, main_penalty: float) -> None:
    solve_from_nothing(state.imputation)
    _main(model, state, main_penalty)


def robust_rebuild(
    model: RobustModel, state: RobustState, imputation_penalty: float, main_penalty: float
) -> None:
    """Everything anew from counts and sums."""
    if not state.counts.any():
        return
    state.imputation.gram[:] = weighted_gram(model.matrix, state.counts)
    state.imputation.target[:] = state.sums @ model.matrix
    state.imputation.half[0] = imputation_penalty / 2.0
    _solve_robust(model, state, main_penalty)
