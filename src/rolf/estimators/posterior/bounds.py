"""Upper bounds from a posterior over the scales: means plus a number of standard deviations.

Pending decisions narrow an arm as their rewards will.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rolf.estimators.contract import Table
from rolf.estimators.posterior.contract import moments, reward_variance
from rolf.kernel import kernel, looped, shared
from rolf.types import FloatArray

#: the bonus of an arm that is well known, as a share of that of an unknown one, and the variance,
#: in units of the noise's, at which it is half way
SETTLED = 0.55
HALFWAY = 0.1


class Bonus(NamedTuple):
    """How far above its mean the bound of an arm is, in deviations.

    sqrt(``width``^2 + 2 ``growth``) for an arm of which little is known, but at most ``limit``;
    SETTLED times that for an arm about which one more reward would teach little.
    """

    width: float
    growth: float
    limit: float


@kernel
def upper_bounds(
    model: Any, belief: Any, features: FloatArray, pending: FloatArray, bonus: Bonus
) -> tuple[FloatArray, FloatArray]:
    """Mean of every arm (K,) and its upper bound (K,)."""
    raise NotImplementedError


@shared
def deviations(bonus: Bonus, ratio: float) -> float:
    """The bonus of an arm with this variance in units of the noise's."""
    widest = min(math.sqrt(bonus.width**2 + 2.0 * bonus.growth), bonus.limit)
    return widest * (SETTLED + (1.0 - SETTLED) * ratio / (ratio + HALFWAY))


@shared
def deviations_of(probability: float) -> float:
    """What a standard normal number exceeds with this probability, at most 1/2."""
    low, high = 0.0, 40.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if 0.5 * math.erfc(middle / math.sqrt(2.0)) > probability:
            low = middle
        else:
            high = middle
    return low


@looped
def normal_bounds(
    mean: FloatArray, variance: FloatArray, noise: float, pending: FloatArray, bonus: Bonus
) -> FloatArray:
    """Bounds for rewards with normal noise. While all rewards were equal, the least known arm
    comes first."""
    upper = np.empty(mean.size)
    for a in range(mean.size):
        ratio = variance[a] / abs(noise)
        ratio /= 1.0 + pending[a] * ratio
        if noise > 0.0:
            upper[a] = mean[a] + deviations(bonus, ratio) * math.sqrt(noise * ratio)
        else:
            upper[a] = ratio if ratio > 0.0 else -pending[a]
    return upper


def _bounds(
    model: Any, belief: Any, features: FloatArray, pending: FloatArray, bonus: Bonus
) -> tuple[FloatArray, FloatArray]:
    mean, variance, noise = moments(model, belief, features)
    return mean, normal_bounds(mean, variance, noise, pending, bonus)


def _variance(model: Any, belief: Any, unit: float) -> float:
    return unit


#: for estimators of rewards with normal noise
NORMAL: Table = {upper_bounds: _bounds, reward_variance: _variance}
