"""Ridge on the augmented features [X' B], without forming B.

The estimated rewards r of all K arms solve

    (D + l I + l V (S^-2 - I) V') r = sums,     D = diag(counts),

with X' = V S W' the thin singular value decomposition and l the penalty: a diagonal matrix plus
one of rank d, so a round costs O(K d).

The paper's doubly robust ridge estimate is this very estimate whenever every past round is imputed
again with the newest estimate and the rounds that did not match change neither: from the ridge
equations b - A m = p m, so

    (n G + I)^-1 (n G m + (b - A m)/p) = (n G + I)^-1 (n G + I) m = m.

Otherwise it is not; see ``pseudo_rewards.py``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rolf.augment import Augmentation
from rolf.estimators import operations as op
from rolf.estimators.operations import Observation
from rolf.kernel import shared
from rolf.linalg import add, add_outer, assign, dot, matvec, solve, vecmat, weighted_gram
from rolf.types import FloatArray, IntArray


class AugmentedRidge(NamedTuple):
    """Directions V (K, d), squared scales S^2 (d,), the penalty l, and whether features are so
    large that the first updates would lose many digits."""

    directions: FloatArray
    scales2: FloatArray
    penalty: float
    fragile: bool

    @classmethod
    def of(cls, augmented: Augmentation, penalty: float) -> AugmentedRidge:
        scales2 = augmented.scales**2
        return cls(augmented.directions, scales2, penalty, bool((scales2 > 1e6).any()))


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
    """One more reward of one arm: E changes in one entry, so core by one rank."""
    before = belief.counts[arm] + model.penalty
    after = before + 1.0
    change = 1.0 / after - 1.0 / before
    row = model.directions[arm]
    pull = matvec(belief.core, row)
    factor = -change / (1.0 + change * dot(row, pull))
    add_outer(belief.core, factor, pull, pull)
    old = belief.sums[arm]
    belief.counts[arm] += 1.0
    belief.sums[arm] = old + reward
    add(belief.image, belief.sums[arm] / after - old / before, row)
    estimate(model, belief)


@shared
def estimate(model: AugmentedRidge, belief: AugmentedBelief) -> None:
    """The estimates, from core and image."""
    shift = matvec(model.directions, matvec(belief.core, belief.image))
    assign(belief.estimates, (belief.sums - shift) / (belief.counts + model.penalty))


@shared
def refresh(model: AugmentedRidge, belief: AugmentedBelief) -> None:
    """Recompute everything from counts and sums, in O(K d^2), to remove accumulated rounding."""
    weights = 1.0 / (belief.counts + model.penalty)
    prior = model.penalty * (1.0 / model.scales2 - 1.0)
    # (I + C V'E^-1 V) core = C, which also holds where C has zeros on its diagonal
    left = weighted_gram(model.directions, weights)
    right = np.zeros(left.shape)
    for i in range(prior.size):
        for j in range(prior.size):
            left[i, j] *= prior[i]
        left[i, i] += 1.0
        right[i, i] = prior[i]
    core = solve(left, right)
    for i in range(prior.size):
        for j in range(prior.size):
            belief.core[i, j] = (core[i, j] + core[j, i]) / 2.0
    assign(belief.image, vecmat(belief.sums * weights, model.directions))
    estimate(model, belief)


@shared
def take_in(model: AugmentedRidge, belief: AugmentedBelief, arm: int, reward: float) -> None:
    """One more reward of one arm, with a refresh now and then."""
    add_reward(model, belief, arm, reward)
    belief.seen[0] += 1
    count = belief.seen[0]
    early = model.fragile and count <= 2 * belief.counts.size
    if early or count & (count - 1) == 0:
        refresh(model, belief)  # at each doubling, against rounding


def _observe(model: AugmentedRidge, belief: AugmentedBelief, seen: Observation) -> None:
    take_in(model, belief, seen.arm, seen.reward)


def _means(model: AugmentedRidge, belief: AugmentedBelief, features: FloatArray) -> FloatArray:
    return belief.estimates


def _recompute(model: AugmentedRidge, belief: AugmentedBelief, round: int) -> None:
    belief.seen[0] = int(belief.counts.sum())
    refresh(model, belief)


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
