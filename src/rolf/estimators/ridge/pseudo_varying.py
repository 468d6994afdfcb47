"""Doubly robust ridge on varying features, for the readings described in
``estimators/lasso/pseudo.py``.

The augmented features of arm a in round t are x~ = [x_{a,t}, e_a]. The main ridge sums x~ x~' and
x~ times the pseudo-reward over the matched rounds and all arms, so a reward needs the features of
all arms in its round. With n matched rounds, X_t (K, d) the table of round t, y_t (K,) its
pseudo-rewards, C = sum X_t, P = sum X_t'X_t, q = sum y_t and u = sum X_t'y_t, coefficients and
biases of the main ridge with penalty l solve

    (P + l I - C'C/(n + l)) theta = u - C'q/(n + l),        bias = (q - C theta)/(n + l).

If all rounds are re-imputed with the newest (theta, bias) of the imputation, then

    q = C theta + n bias + (sums - F theta - N bias)/p,
    u = P theta + C'bias + (cross - A theta - F'bias)/p

with counts N, feature sums F and second moment A of the played arms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rolf.checks import MAX_FEATURE
from rolf.estimators import contract as op
from rolf.estimators.contract import Observation, Traits
from rolf.estimators.lasso.doubly_robust import pseudo_rewards
from rolf.estimators.lasso.pseudo import LARGEST, Reading
from rolf.kernel import shared
from rolf.linalg import add, add_outer, assign, matvec, solve, vecmat, weighted_gram
from rolf.types import FloatArray


class PseudoVarying(NamedTuple):
    """d, the penalty l of the imputation, p, and the reading; the main penalty is l/p."""

    size: int
    penalty: float
    probability: float
    reading: Reading


class Played(NamedTuple):
    """Totals of the played arms: counts and sums (K,), feature sums (K, d), second moment (d, d)
    and cross moment (d,)."""

    counts: FloatArray
    sums: FloatArray
    feature_sums: FloatArray
    moment: FloatArray
    cross: FloatArray

    @classmethod
    def nothing(cls, arms: int, size: int) -> Played:
        shapes = ((arms,), (arms,), (arms, size), (size, size), (size,))
        return cls(*(np.zeros(shape) for shape in shapes))


class PseudoVaryingBelief(NamedTuple):
    """All but the main estimate (theta (d,), bias (K,)) is additive: totals of the matched rounds,
    of what the imputation has seen, and of what is set aside; and C (K, d), P (d, d), q (K,) and u
    (d,), where q and u are zero unless frozen."""

    matched: Played
    imputation: Played
    aside: Played
    table_sums: FloatArray
    table_moment: FloatArray
    pseudo: FloatArray
    pseudo_cross: FloatArray
    theta: FloatArray
    bias: FloatArray


def _begin(model: PseudoVarying, arms: int) -> PseudoVaryingBelief:
    size = model.size
    return PseudoVaryingBelief(
        matched=Played.nothing(arms, size),
        imputation=Played.nothing(arms, size),
        aside=Played.nothing(arms, size),
        table_sums=np.zeros((arms, size)),
        table_moment=np.zeros((size, size)),
        pseudo=np.zeros(arms),
        pseudo_cross=np.zeros(size),
        theta=np.zeros(size),
        bias=np.zeros(arms),
    )


@shared
def add_table(target: FloatArray, factor: float, table: FloatArray) -> None:
    """``target += factor table``, in place, for matrices."""
    add(target.reshape(target.size), factor, table.reshape(table.size))


@shared
def add_played(played: Played, arm: int, row: FloatArray, reward: float) -> None:
    """Add a reward."""
    played.counts[arm] += 1.0
    played.sums[arm] += reward
    add(played.feature_sums[arm], 1.0, row)
    add_outer(played.moment, 1.0, row, row)
    add(played.cross, reward, row)


@shared
def take_over(played: Played, aside: Played) -> None:
    """Add what was set aside, and clear it."""
    for target, source in (
        (played.counts, aside.counts),
        (played.sums, aside.sums),
        (played.cross, aside.cross),
    ):
        add(target, 1.0, source)
        add(source, -1.0, source)
    for table, other in (
        (played.feature_sums, aside.feature_sums),
        (played.moment, aside.moment),
    ):
        add_table(table, 1.0, other)
        add_table(other, -1.0, other)


@shared
def biased_ridge(
    moment: FloatArray,
    feature_sums: FloatArray,
    counts: FloatArray,
    cross: FloatArray,
    sums: FloatArray,
    penalty: float,
) -> tuple[FloatArray, FloatArray]:
    """Coefficients (d,) and biases (K,) of a ridge from its totals, by eliminating the biases."""
    weights = 1.0 / (counts + penalty)
    left = moment - weighted_gram(feature_sums, weights)
    for i in range(left.shape[0]):
        left[i, i] += penalty
    right = cross - vecmat(sums * weights, feature_sums)
    theta = solve(left, right.reshape((right.size, 1))).reshape(right.size)
    return theta, (sums - matvec(feature_sums, theta)) * weights


@shared
def solve_imputation(
    model: PseudoVarying, belief: PseudoVaryingBelief
) -> tuple[FloatArray, FloatArray]:
    """The imputation estimate: coefficients and biases."""
    seen = belief.imputation
    return biased_ridge(
        seen.moment, seen.feature_sums, seen.counts, seen.cross, seen.sums, model.penalty
    )


@shared
def solve_varying(
    model: PseudoVarying, belief: PseudoVaryingBelief, theta: FloatArray, bias: FloatArray
) -> None:
    """The main estimate, given the newest imputation estimate."""
    played, tables, moment = belief.matched, belief.table_sums, belief.table_moment
    count = played.counts.sum()
    pseudo, cross = belief.pseudo, belief.pseudo_cross
    if not model.reading.frozen:
        p = model.probability
        left = played.sums - matvec(played.feature_sums, theta) - played.counts * bias
        pseudo = matvec(tables, theta) + count * bias + left / p
        rest = played.cross - matvec(played.moment, theta) - vecmat(bias, played.feature_sums)
        cross = matvec(moment, theta) + vecmat(bias, tables) + rest / p
    counts = np.full(pseudo.size, count)
    penalty = model.penalty / model.probability
    theta, bias = biased_ridge(moment, tables, counts, cross, pseudo, penalty)
    assign(belief.theta, theta)
    assign(belief.bias, bias)


def _observe(model: PseudoVarying, belief: PseudoVaryingBelief, seen: Observation) -> None:
    arm, reward = seen.arm, seen.reward
    table = seen.row.reshape((belief.bias.size, model.size))
    before = (belief.theta, belief.bias)
    if model.reading.previous:
        before = solve_imputation(model, belief)
    take_over(belief.imputation, belief.aside)
    add_played(belief.imputation, arm, table[arm], reward)
    add_played(belief.matched, arm, table[arm], reward)
    add_table(belief.table_sums, 1.0, table)
    add_table(belief.table_moment, 1.0, weighted_gram(table, np.ones(belief.bias.size)))
    theta, bias = solve_imputation(model, belief)
    if model.reading.frozen:
        imputed = matvec(table, theta) + bias
        if model.reading.previous:
            imputed = matvec(table, before[0]) + before[1]
        rewards = pseudo_rewards(imputed, arm, reward, model.probability)
        add(belief.pseudo, 1.0, rewards)
        add(belief.pseudo_cross, 1.0, vecmat(rewards, table))
    solve_varying(model, belief, theta, bias)


def _set_aside(model: PseudoVarying, belief: PseudoVaryingBelief, seen: Observation) -> None:
    if model.reading.unmatched:
        table = seen.row.reshape((belief.bias.size, model.size))
        add_played(belief.aside, seen.arm, table[seen.arm], seen.reward)


def _keep(model: PseudoVarying, features: FloatArray, arm: int) -> FloatArray:
    return features.ravel()


def _means(model: PseudoVarying, belief: PseudoVaryingBelief, features: FloatArray) -> FloatArray:
    return matvec(features, belief.theta) + belief.bias


def _recompute(model: PseudoVarying, belief: PseudoVaryingBelief, round: int) -> None:
    theta, bias = solve_imputation(model, belief)
    solve_varying(model, belief, theta, bias)


def _check_totals(model: PseudoVarying, belief: PseudoVaryingBelief, rounds: int) -> None:
    for played in (belief.matched, belief.imputation, belief.aside):
        op.check_arms(model, played, rounds)
        op.check_sums(played.counts[:, None], played.feature_sums, MAX_FEATURE)
        op.check_moments(played.moment, played.cross, rounds)
    count = belief.matched.counts.sum()
    op.check_sums(count, belief.table_sums, MAX_FEATURE)
    op.check_sums(count, belief.pseudo, LARGEST)
    op.check_moments(belief.table_moment / belief.bias.size, np.zeros(1), rounds)
    op.check_sums(count * belief.bias.size, belief.pseudo_cross, LARGEST)


def _check_growth(model: PseudoVarying) -> None:
    raise ValueError(
        'with imputation="frozen" or "previous", or unmatched="impute", a new arm would need '
        "features in all earlier rounds"
    )


TOTALS = tuple(
    f"{part}.{name}" for part in ("matched", "imputation", "aside") for name in Played._fields
)

op.estimator(
    PseudoVarying,
    {
        op.begin: _begin,
        op.observe: _observe,
        op.set_aside: _set_aside,
        op.keep: _keep,
        op.means: _means,
        op.recompute: _recompute,
        op.check_totals: _check_totals,
        op.check_growth: _check_growth,
    },
    Traits(
        totals=(*TOTALS, "table_sums", "table_moment", "pseudo", "pseudo_cross"), sequential=True
    ),
)
