"""Ridge on fixed observed features alone, for policies that draw from its posterior.

The belief is d coefficients and a square root of their covariance, so a reward costs O(d^2) for any
number of arms.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rolf.estimators import contract as op
from rolf.estimators.contract import Observation
from rolf.linalg import add, dot, inverse_root, matvec, root_update, weighted_gram
from rolf.types import FloatArray


class CoefficientRidge(NamedTuple):
    """Features (K, d) and the penalty l."""

    features: FloatArray
    penalty: float


class CoefficientBelief(NamedTuple):
    """counts and sums are the truth; root root' = M^-1 with M = l I + sum_a N_a x_a x_a', and
    coef = M^-1 sum_a S_a x_a (d,)."""

    counts: FloatArray
    sums: FloatArray
    root: FloatArray
    coef: FloatArray


def _begin(model: CoefficientRidge, arms: int) -> CoefficientBelief:
    size = model.features.shape[1]
    counts, sums = np.zeros((2, arms))
    return CoefficientBelief(counts, sums, np.eye(size) / math.sqrt(model.penalty), np.zeros(size))


def _observe(model: CoefficientRidge, belief: CoefficientBelief, seen: Observation) -> None:
    arm, row = seen.arm, model.features[seen.arm]
    error = seen.reward - dot(row, belief.coef)
    gain, size = root_update(belief.root, row)
    add(belief.coef, error / (1.0 + size), gain)
    belief.counts[arm] += 1.0
    belief.sums[arm] += seen.reward


def _means(model: CoefficientRidge, belief: CoefficientBelief, features: FloatArray) -> FloatArray:
    return matvec(model.features, belief.coef)


def _recompute(model: CoefficientRidge, belief: CoefficientBelief, round: int) -> None:
    moment = weighted_gram(model.features, belief.counts)
    belief.root[:] = inverse_root(moment, model.penalty)
    belief.coef[:] = belief.root @ (belief.root.T @ (belief.sums @ model.features))


def _agrees(saved: CoefficientBelief, recomputed: CoefficientBelief) -> bool:
    return op.same_roots(saved.root, recomputed.root) and op.same(saved.coef, recomputed.coef)


op.arm_estimator(
    CoefficientRidge,
    {op.begin: _begin, op.observe: _observe, op.means: _means, op.recompute: _recompute},
    agrees=_agrees,
    drawn=("root", "coef"),
)
