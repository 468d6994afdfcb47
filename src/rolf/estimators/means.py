"""The mean reward of every arm separately, for bandits without features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rolf.estimators import contract as op
from rolf.estimators.contract import Observation
from rolf.types import FloatArray


class ArmMeans(NamedTuple):
    """The number of arms."""

    arms: int


class ArmMeansBelief(NamedTuple):
    """counts and sums (K,) are the truth; estimates are the means, 0 for an arm without rewards."""

    counts: FloatArray
    sums: FloatArray
    estimates: FloatArray


def _begin(model: ArmMeans, arms: int) -> ArmMeansBelief:
    counts, sums, estimates = np.zeros((3, arms))
    return ArmMeansBelief(counts, sums, estimates)


def _observe(model: ArmMeans, belief: ArmMeansBelief, seen: Observation) -> None:
    arm = seen.arm
    belief.counts[arm] += 1.0
    belief.sums[arm] += seen.reward
    belief.estimates[arm] = belief.sums[arm] / belief.counts[arm]


def _means(model: ArmMeans, belief: ArmMeansBelief, features: FloatArray) -> FloatArray:
    return belief.estimates


def _recompute(model: ArmMeans, belief: ArmMeansBelief, round: int) -> None:
    belief.estimates[:] = belief.sums / np.maximum(belief.counts, 1.0)


op.arm_estimator(
    ArmMeans,
    {op.begin: _begin, op.observe: _observe, op.means: _means, op.recompute: _recompute},
)
