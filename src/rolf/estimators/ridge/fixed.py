"""Ridge on fixed observed features alone.

The belief is the estimated reward of every arm and its squared width x_a' M^-1 x_a; both are
updated in O(K d), not recomputed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rolf.estimators import contract as op
from rolf.estimators.contract import Observation
from rolf.kernel import shared
from rolf.linalg import (
    add,
    assign,
    inverse_root,
    matmat,
    matvec,
    root_update,
    squared_norms,
    weighted_gram,
)
from rolf.types import FloatArray

LOSS = 1e-2  # recompute a squared width below this share of its last computed value


class Ridge(NamedTuple):
    """Features (K, d) and the penalty l."""

    features: FloatArray
    penalty: float


class RidgeBelief(NamedTuple):
    """counts and sums are the truth.

    root root' = M^-1 with M = l I + sum_a N_a x_a x_a'; estimates = X M^-1 b (K,); squares are
    the squared widths x_a' M^-1 x_a (K,), which are recomputed when below limits, and logdet
    [log(det M / l^d)].
    """

    counts: FloatArray
    sums: FloatArray
    root: FloatArray
    estimates: FloatArray
    squares: FloatArray
    limits: FloatArray
    logdet: FloatArray


def _begin(model: Ridge, arms: int) -> RidgeBelief:
    root = np.eye(model.features.shape[1]) / np.sqrt(model.penalty)
    counts, sums, estimates = np.zeros((3, arms))
    squares = squared_norms(model.features @ root)
    return RidgeBelief(counts, sums, root, estimates, squares, LOSS * squares, np.zeros(1))


def _observe(model: Ridge, belief: RidgeBelief, seen: Observation) -> None:
    arm = seen.arm
    gain, size = root_update(belief.root, model.features[arm])
    spread = matvec(model.features, gain)
    error = seen.reward - belief.estimates[arm]
    belief.counts[arm] += 1.0
    belief.sums[arm] += seen.reward
    add(belief.estimates, error / (1.0 + size), spread)
    narrow(model, belief, spread, size)
    belief.logdet[0] += math.log(1.0 + size)


@shared
def narrow(model: Ridge, belief: RidgeBelief, spread: FloatArray, size: float) -> None:
    """The squared widths after one more reward, in O(K).

    Subtraction accumulates rounding errors. A width that has lost most of its size is recomputed
    from the root, which stays accurate: two or three times per arm in a long run.
    """
    assign(belief.squares, belief.squares - spread * spread * (1.0 / (1.0 + size)))
    lost = np.flatnonzero(belief.squares < belief.limits)
    if lost.size > 0:
        squares = squared_norms(matmat(model.features[lost], belief.root))
        belief.squares[lost] = squares
        belief.limits[lost] = LOSS * squares


def _means(model: Ridge, belief: RidgeBelief, features: FloatArray) -> FloatArray:
    return belief.estimates


def _widths(model: Ridge, belief: RidgeBelief, features: FloatArray) -> FloatArray:
    return np.sqrt(belief.squares)


def _recompute(model: Ridge, belief: RidgeBelief, round: int) -> None:
    moment = weighted_gram(model.features, belief.counts)
    belief.root[:] = inverse_root(moment, model.penalty)
    half = model.features @ belief.root
    belief.estimates[:] = half @ (half.T @ belief.sums)
    belief.squares[:] = squared_norms(half)
    belief.limits[:] = LOSS * belief.squares
    _, log = np.linalg.slogdet(belief.root)
    belief.logdet[0] = -2.0 * log - belief.root.shape[0] * math.log(model.penalty)


def _check_rest(model: Ridge, belief: RidgeBelief, rounds: int) -> None:
    if (belief.squares < 0.0).any():
        raise ValueError("squares are below 0")
    if belief.logdet[0] < -1e-6:
        raise ValueError("logdet is below 0")


def _agrees(saved: RidgeBelief, recomputed: RidgeBelief) -> bool:
    return (
        op.same_roots(saved.root, recomputed.root)
        and op.same(saved.estimates, recomputed.estimates)
        and op.same(saved.squares, recomputed.squares)
        and op.same(1.0 + saved.logdet, 1.0 + recomputed.logdet)
        and bool(((saved.limits >= 0.0) & (saved.limits <= saved.squares)).all())
    )


op.arm_estimator(
    Ridge,
    {
        op.check_rest: _check_rest,
        op.begin: _begin,
        op.observe: _observe,
        op.means: _means,
        op.recompute: _recompute,
        op.widths: _widths,
    },
    agrees=_agrees,
)
