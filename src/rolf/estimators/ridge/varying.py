"""Ridge on the features of the round, alone or with a free bias per arm.

``VaryingRidge`` sees only the features x_{a,t}. ``BiasedRidge`` has the features [x_{a,t}, e_a];
the biases are eliminated, so the state is d x d.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rolf.checks import MAX_FEATURE
from rolf.estimators import contract as op
from rolf.estimators.contract import History, Observation, Traits, arm_totals
from rolf.linalg import (
    add,
    add_outer,
    dot,
    inverse_root,
    matvec,
    root_update,
    vecmat,
    weighted_gram,
)
from rolf.types import FloatArray

# --- features alone ----------------------------------------------------------------------------


class VaryingRidge(NamedTuple):
    """The number of features d and the penalty l."""

    size: int
    penalty: float


class VaryingBelief(NamedTuple):
    """sum x x' (d, d) and sum x y (d,) add up; root root' = M^-1, M = l I + sum x x', and
    theta = M^-1 sum x y follow."""

    moment: FloatArray
    cross: FloatArray
    root: FloatArray
    theta: FloatArray


def _begin(model: VaryingRidge, arms: int) -> VaryingBelief:
    size = model.size
    root = np.eye(size) / math.sqrt(model.penalty)
    return VaryingBelief(np.zeros((size, size)), np.zeros(size), root, np.zeros(size))


def _observe(model: VaryingRidge, belief: VaryingBelief, seen: Observation) -> None:
    row = seen.row
    error = seen.reward - dot(row, belief.theta)
    gain, size = root_update(belief.root, row)
    add(belief.theta, error / (1.0 + size), gain)
    add(belief.cross, seen.reward, row)
    add_outer(belief.moment, 1.0, row, row)


def _means(model: VaryingRidge, belief: VaryingBelief, features: FloatArray) -> FloatArray:
    return matvec(features, belief.theta)


def _widths(model: VaryingRidge, belief: VaryingBelief, features: FloatArray) -> FloatArray:
    out = np.empty(features.shape[0])
    for arm in range(features.shape[0]):
        half = vecmat(features[arm], belief.root)
        out[arm] = math.sqrt(dot(half, half))
    return out


def _recompute(model: VaryingRidge, belief: VaryingBelief, round: int) -> None:
    belief.root[:] = inverse_root(belief.moment, model.penalty)
    belief.theta[:] = belief.root @ (belief.root.T @ belief.cross)


def _learn(model: VaryingRidge, belief: VaryingBelief, history: History) -> None:
    belief.moment[:] += history.rows.T @ history.rows
    belief.cross[:] += history.rows.T @ history.rewards


def _check_totals(model: VaryingRidge, belief: VaryingBelief, rounds: int) -> None:
    op.check_moments(belief.moment, belief.cross, rounds)


def _agrees(saved: Any, recomputed: Any) -> bool:
    roots = op.same_roots(saved.root, recomputed.root)
    return roots and op.same(saved.theta, recomputed.theta)


op.estimator(
    VaryingRidge,
    {
        op.check_totals: _check_totals,
        op.begin: _begin,
        op.observe: _observe,
        op.means: _means,
        op.widths: _widths,
        op.recompute: _recompute,
        op.learn: _learn,
    },
    Traits(totals=("moment", "cross"), agrees=_agrees),
)

# --- features and a bias for every arm ------------------------------------------------------------


class BiasedRidge(NamedTuple):
    """The number of features d and the penalty l."""

    size: int
    penalty: float


class BiasedBelief(NamedTuple):
    """Additive totals first: counts, sums, feature sums (K, d), second moment (d, d) and
    cross moment (d,). Then root root' = M^-1 and theta = M^-1 q, with

        M = l I + sum x x' - sum_a c_a c_a' / (N_a + l)
        q =       sum x y  - sum_a c_a S_a  / (N_a + l),   c_a the feature sum of arm a.
    """

    counts: FloatArray
    sums: FloatArray
    feature_sums: FloatArray
    moment: FloatArray
    cross: FloatArray
    root: FloatArray
    theta: FloatArray


def _biased_begin(model: BiasedRidge, arms: int) -> BiasedBelief:
    size = model.size
    return BiasedBelief(
        counts=np.zeros(arms),
        sums=np.zeros(arms),
        feature_sums=np.zeros((arms, size)),
        moment=np.zeros((size, size)),
        cross=np.zeros(size),
        root=np.eye(size) / np.sqrt(model.penalty),
        theta=np.zeros(size),
    )


def _biased_observe(model: BiasedRidge, belief: BiasedBelief, seen: Observation) -> None:
    # M grows by w z z' with z = x - c_a/(N_a + l), w = 1 - 1/(N_a + l + 1)
    arm, row, reward = seen.arm, seen.row, seen.reward
    total = belief.counts[arm] + model.penalty
    weight = total / (total + 1.0)
    centred = row - belief.feature_sums[arm] / total
    scaled = centred * np.sqrt(weight)
    bias = (belief.sums[arm] - dot(belief.feature_sums[arm], belief.theta)) / total
    error = reward - dot(row, belief.theta) - bias
    gain, size = root_update(belief.root, scaled)
    add(belief.theta, np.sqrt(weight) * error / (1.0 + size), gain)
    belief.counts[arm] += 1.0
    belief.sums[arm] += reward
    add(belief.feature_sums[arm], 1.0, row)
    add(belief.cross, reward, row)
    add_outer(belief.moment, 1.0, row, row)


def _biased_means(model: BiasedRidge, belief: BiasedBelief, features: FloatArray) -> FloatArray:
    explained = matvec(belief.feature_sums, belief.theta)
    bias = (belief.sums - explained) / (belief.counts + model.penalty)
    return matvec(features, belief.theta) + bias


def _biased_recompute(model: BiasedRidge, belief: BiasedBelief, round: int) -> None:
    weights = 1.0 / (belief.counts + model.penalty)
    moment = belief.moment - weighted_gram(belief.feature_sums, weights)
    belief.root[:] = inverse_root(moment, model.penalty)
    cross = belief.cross - belief.feature_sums.T @ (belief.sums * weights)
    belief.theta[:] = belief.root @ (belief.root.T @ cross)


def _biased_learn(model: BiasedRidge, belief: BiasedBelief, history: History) -> None:
    totals = arm_totals(belief.counts.size, history)
    belief.counts[:] += totals.counts
    belief.sums[:] += totals.sums
    np.add.at(belief.feature_sums, history.positions, history.rows)
    belief.moment[:] += history.rows.T @ history.rows
    belief.cross[:] += history.rows.T @ history.rewards


def _biased_check(model: BiasedRidge, belief: BiasedBelief, rounds: int) -> None:
    op.check_arms(model, belief, rounds)
    op.check_sums(belief.counts[:, None], belief.feature_sums, MAX_FEATURE)
    op.check_moments(belief.moment, belief.cross, rounds)


op.estimator(
    BiasedRidge,
    {
        op.check_totals: _biased_check,
        op.begin: _biased_begin,
        op.observe: _biased_observe,
        op.means: _biased_means,
        op.recompute: _biased_recompute,
        op.learn: _biased_learn,
    },
    Traits(totals=("counts", "sums", "feature_sums", "moment", "cross"), agrees=_agrees),
)
