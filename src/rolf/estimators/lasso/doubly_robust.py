"""Doubly robust estimation from pseudo-rewards, without keeping the history.

In a round whose pseudo-action is arm k, drawn with probability phi, the pseudo-reward of
arm a is

    x_a'm + 1(a = k)/phi (y - x_a'm)

for the imputation estimate m. All earlier rounds are re-imputed with the newest m, as in the
paper's proofs, so the sum over rounds and arms of x_a times the pseudo-reward is n G m + (b - A
m)/p, and the counts and sums of rewards per arm are enough. (``pseudo.py`` has the other readings
of the paper's equations.)

With the augmented features G is block diagonal, (X X', I). The main lasso

    min_u  n u'Gu - 2 u'(n G m + (b - A m)/p) + l2 |u|_1

therefore has a closed form, a soft threshold, in its K - d latent coordinates, and needs a solver
only in the d observed ones. (For ridge, b - A m = p m and the doubly robust estimate is the
imputation estimate itself, so there is nothing to compute.)

"Theory" penalties grow with the round: l1 and l2 are then constants times sqrt(t log(2 K
t^2/delta)).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rolf.estimators import contract as op
from rolf.estimators.contract import (
    ArmTotals,
    History,
    Observation,
    add_totals,
    arm_totals,
)
from rolf.estimators.lasso.basis import augmented_row, coefficients_of, rewards_of
from rolf.estimators.lasso.imputation import arm_count, begin_imputation, imputation_lasso
from rolf.estimators.lasso.path import Lasso, absorb, follow, lasso_start, solve_from_nothing
from rolf.estimators.lasso.support import check_gram, check_lasso
from rolf.kernel import looped, shared
from rolf.linalg import assign, matvec, weighted_gram
from rolf.theory import penalty_growth
from rolf.types import FloatArray, IntArray


@shared
def pseudo_rewards(
    estimates: FloatArray, arm: int, reward: float, probability: float
) -> FloatArray:
    """Doubly robust pseudo-rewards of all arms for one observed reward."""
    out = estimates.copy()
    out[arm] += (reward - estimates[arm]) / probability
    return out


class Penalties(NamedTuple):
    """l1 and l2; "theory" penalties grow with the round."""

    imputation: float
    main: float
    theory: bool


class RobustLasso(NamedTuple):
    """features: [X' B], as a matrix or an operator (``basis.py``); gram: X X' (d, d);
    probability: p."""

    features: Any
    gram: FloatArray
    probability: float
    delta: float
    penalties: Penalties


class RobustBelief(NamedTuple):
    """counts and sums are the truth.

    imputation is the lasso over all K coordinates, main the lasso over the d observed
    ones with Gram matrix X X' and everything divided by n; coef (K,) is the doubly robust estimate
    and estimates (K,) are the rewards that it implies. last: [round of the last update], which set
    the penalties of the estimates.
    """

    counts: FloatArray
    sums: FloatArray
    imputation: Lasso
    main: Lasso
    coef: FloatArray
    estimates: FloatArray
    last: IntArray


def _begin(model: RobustLasso, arms: int) -> RobustBelief:
    penalty = model.penalties.imputation
    counts, sums, coef, estimates = np.zeros((4, arms))
    return RobustBelief(
        counts=counts,
        sums=sums,
        imputation=begin_imputation(model.features, penalty),
        main=lasso_start(np.array(model.gram), penalty),
        coef=coef,
        estimates=estimates,
        last=np.zeros(1, dtype=np.int64),
    )


@shared
def growth(model: RobustLasso, round: int) -> float:
    """The factor of the penalties in round t."""
    if not model.penalties.theory:
        return 1.0
    return penalty_growth(arm_count(model.features), model.delta, round)


@looped
def add_reward(
    model: RobustLasso,
    belief: RobustBelief,
    arm: int,
    reward: float,
    imputation_penalty: float,
    main_penalty: float,
) -> None:
    """Add a matched reward."""
    impute(model, belief, arm, reward, imputation_penalty)
    solve_again(model, belief, main_penalty)


@shared
def impute(
    model: RobustLasso, belief: RobustBelief, arm: int, reward: float, penalty: float
) -> None:
    """Add a reward to the imputation estimate."""
    belief.counts[arm] += 1.0
    belief.sums[arm] += reward
    lasso = imputation_lasso(model.features, belief.imputation, belief.counts)
    absorb(lasso, augmented_row(model.features, arm), reward)
    if penalty != 2.0 * lasso.half[0]:
        follow(lasso, lasso.target.copy(), penalty)


@shared
def solve_again(model: RobustLasso, belief: RobustBelief, penalty: float) -> None:
    """Solve for the main estimate, with all rounds re-imputed."""
    arms = belief.counts.size
    rank = model.gram.shape[0]
    total = 0.0
    for a in range(arms):
        total += belief.counts[a]
    imputed = belief.imputation.coef
    corr = belief.imputation.corr
    scale = 1.0 / (model.probability * total)
    target = np.empty(arms)
    observed = matvec(belief.main.gram, imputed[:rank])
    for i in range(rank):
        target[i] = observed[i] + corr[i] * scale
    for j in range(rank, arms):
        target[j] = imputed[j] + corr[j] * scale
    solve_main(model, belief, target, total, penalty)


@shared
def solve_main(
    model: RobustLasso, belief: RobustBelief, target: FloatArray, total: float, penalty: float
) -> None:
    """Solve for the main estimate, given the number n of rounds and the sum over rounds and arms of
    x_a times the pseudo-reward, divided by n."""
    rank = model.gram.shape[0]
    follow(belief.main, target[:rank].copy(), penalty / total)
    threshold = penalty / (2.0 * total)
    for j in range(target.size):
        if j < rank:
            belief.coef[j] = belief.main.coef[j]
        else:
            size = max(abs(target[j]) - threshold, 0.0)
            belief.coef[j] = size if target[j] > 0.0 else -size
    assign(belief.estimates, rewards_of(model.features, belief.coef))


@looped
def solve_from_totals(model: RobustLasso, belief: RobustBelief, main_penalty: float) -> None:
    """Solve both lassos, once the imputation's Gram matrix and target are set."""
    solve_from_nothing(imputation_lasso(model.features, belief.imputation, belief.counts))
    solve_again(model, belief, main_penalty)


def _observe(model: RobustLasso, belief: RobustBelief, seen: Observation) -> None:
    belief.last[0] = seen.round
    grown = growth(model, seen.round)
    first, second = model.penalties.imputation * grown, model.penalties.main * grown
    add_reward(model, belief, seen.arm, seen.reward, first, second)


def _means(model: RobustLasso, belief: RobustBelief, features: FloatArray) -> FloatArray:
    return belief.estimates


def set_problem(model: RobustLasso, belief: RobustBelief, round: int) -> float:
    """Set the imputation's problem from counts and sums. Returns the growth of the penalties."""
    if belief.last[0] == 0:  # merged or learned: use the present round
        belief.last[0] = round
    grown = growth(model, max(int(belief.last[0]), 1))
    if belief.counts.any():
        if isinstance(model.features, np.ndarray):
            belief.imputation.gram[:] = weighted_gram(model.features, belief.counts)
        belief.imputation.target[:] = coefficients_of(model.features, belief.sums)
        belief.imputation.half[0] = model.penalties.imputation * grown / 2.0
    return grown


def _recompute(model: RobustLasso, belief: RobustBelief, round: int) -> None:
    grown = set_problem(model, belief, round)
    if belief.counts.any():
        solve_from_totals(model, belief, model.penalties.main * grown)


def _learn(model: RobustLasso, belief: RobustBelief, history: History) -> None:
    _learn_totals(model, belief, arm_totals(belief.counts.size, history))


def _learn_totals(model: RobustLasso, belief: RobustBelief, totals: ArmTotals) -> None:
    add_totals(model, belief, totals)
    belief.last[0] = 0


def _check_rest(model: RobustLasso, belief: RobustBelief, rounds: int) -> None:
    if not 0 <= belief.last[0] <= rounds:
        raise ValueError(f"last is {belief.last[0]}, after {rounds} rounds")
    check_lasso(belief.imputation)
    check_lasso(belief.main)
    if isinstance(model.features, np.ndarray):
        check_gram(belief.imputation.gram, model.features, belief.counts)
    if not np.allclose(belief.main.gram, model.gram, rtol=1e-6, atol=1e-9 * model.gram.max()):
        raise ValueError("main.gram is not that of the features")


#: arrays too large to save
DERIVED = ("imputation", "main", "coef", "estimates")

op.arm_estimator(
    RobustLasso,
    {
        op.check_rest: _check_rest,
        op.begin: _begin,
        op.observe: _observe,
        op.means: _means,
        op.recompute: _recompute,
        op.learn: _learn,
        op.learn_totals: _learn_totals,
    },
    derived=DERIVED,
)
