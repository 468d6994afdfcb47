"""Ridge on the augmented features [X' B], without forming B.

The estimated rewards r of all K arms solve

    (D + l I + l V (S^-2 - I) V') r = sums,     D = diag(counts),

with X' = V S W' the thin singular value decomposition and l the penalty: a diagonal matrix plus
one of rank d, so a round costs O(K d).

The paper's doubly robust ridge estimate equals this one if all earlier rounds are re-imputed with
the newest estimate and unmatched rounds change neither: the ridge equations give b - A m = p m, so

    (n G + I)^-1 (n G m + (b - A m)/p) = (n G + I)^-1 (n G + I) m = m.

Otherwise the two differ; see ``estimators/lasso/pseudo.py``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rolf.augment import Augmentation
from rolf.estimators import contract as op
from rolf.estimators.contract import Observation
from rolf.kernel import shared
from rolf.linalg import add, add_outer, assign, dot, matvec, solve, vecmat, weighted_gram
from rolf.types import FloatArray, IntArray

#: rounding error of sums of numbers of size 1
ROUNDING = 1e-14


class AugmentedRidge(NamedTuple):
    """Directions V (K, d), squared scales S^2 (d,) and the penalty l."""

    directions: FloatArray
    scales2: FloatArray
    penalty: float

    @classmethod
    def of(cls, augmented: Augmentation, penalty: float) -> AugmentedRidge:
        return cls(augmented.directions, augmented.scales**2, penalty)


class AugmentedBelief(NamedTuple):
    """counts and sums are the truth; the rest follows from them.

    With E = D + l I and C = l (S^-2 - I): core = (C^-1 + V' E^-1 V)^-1 (d, d),
    image = V' E^-1 sums (d,), estimates = E^-1 (sums - V core image) (K,); seen [n].
    """

    counts: FloatArray
    sums: FloatArray
    core: FloatArray
    image: FloatArray
    estimates: FloatArray
    seen: IntArray


def _begin(model: AugmentedRidge, arms: int) -> AugmentedBelief:
    rank = model.directions.shape[1]
    core = np.diag(model.penalty * (1.0 - model.scales2))
    counts, sums, estimates = np.zeros((3, arms))
    seen = np.zeros(1, dtype=np.int64)
    return AugmentedBelief(counts, sums, core, np.zeros(rank), estimates, seen)


@shared
def add_reward(model: AugmentedRidge, belief: AugmentedBelief, arm: int, reward: float) -> None:
    """Add a reward of one arm: E changes in one entry, so core changes by rank one."""
    before = belief.counts[arm] + model.penalty
    after = before + 1.0
    change = 1.0 / after - 1.0 / before
    row = model.directions[arm]
    pull = matvec(belief.core, row)
    add_outer(belief.core, -change / (1.0 + change * dot(row, pull)), pull, pull)
    old = belief.sums[arm]
    belief.counts[arm] += 1.0
    belief.sums[arm] = old + reward
    add(belief.image, belief.sums[arm] / after - old / before, row)


@shared
def estimate(model: AugmentedRidge, belief: AugmentedBelief) -> None:
    """Compute the estimates from core and image."""
    shift = matvec(model.directions, matvec(belief.core, belief.image))
    assign(belief.estimates, (belief.sums - shift) / (belief.counts + model.penalty))


@shared
def refresh(model: AugmentedRidge, belief: AugmentedBelief) -> None:
    """Recompute core and image from counts and sums, against accumulated rounding: O(n d^2) if n
    arms have rewards.

    V'V = I, so E^-1 = I/l - diag(held) with held = N/(l (N + l)) turns (I + C V'E^-1 V) core = C
    into (S^-2 - C V' diag(held) V) core = C, where arms without rewards drop out.
    """
    played = np.flatnonzero(belief.counts)
    rows, counts = model.directions[played], belief.counts[played]
    prior = model.penalty * (1.0 / model.scales2 - 1.0)
    left = weighted_gram(rows, counts / (model.penalty * (counts + model.penalty)))
    right = np.zeros(left.shape)
    trace = 0.0
    for i in range(prior.size):
        trace += left[i, i]
    least = ROUNDING * model.penalty * trace  # below it, S^-2 would be lost to rounding
    for i in range(prior.size):
        for j in range(prior.size):
            left[i, j] *= -prior[i]
        left[i, i] += max(1.0 / model.scales2[i], least)
        right[i, i] = prior[i]
    core = solve(left, right)
    for i in range(prior.size):
        for j in range(prior.size):
            belief.core[i, j] = (core[i, j] + core[j, i]) / 2.0
    assign(belief.image, vecmat(belief.sums[played] / (counts + model.penalty), rows))


@shared
def take_in(model: AugmentedRidge, belief: AugmentedBelief, arm: int, reward: float) -> None:
    """Add a reward of one arm, with an occasional refresh."""
    add_reward(model, belief, arm, reward)
    belief.seen[0] += 1
    count = belief.seen[0]
    if count & (count - 1) == 0:
        refresh(model, belief)  # at each doubling, against rounding
    estimate(model, belief)


def _observe(model: AugmentedRidge, belief: AugmentedBelief, seen: Observation) -> None:
    take_in(model, belief, seen.arm, seen.reward)


def _means(model: AugmentedRidge, belief: AugmentedBelief, features: FloatArray) -> FloatArray:
    return belief.estimates


def _recompute(model: AugmentedRidge, belief: AugmentedBelief, round: int) -> None:
    belief.seen[0] = int(belief.counts.sum())
    refresh(model, belief)
    estimate(model, belief)


def _check_rest(model: AugmentedRidge, belief: AugmentedBelief, rounds: int) -> None:
    if belief.seen[0] != belief.counts.sum():
        raise ValueError("seen is not the sum of the counts")


op.arm_estimator(
    AugmentedRidge,
    {
        op.begin: _begin,
        op.observe: _observe,
        op.means: _means,
        op.recompute: _recompute,
        op.check_rest: _check_rest,
    },
)
