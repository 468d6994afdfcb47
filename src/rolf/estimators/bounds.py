"""Upper confidence bounds from a posterior over the scales.

The bonus is ``width`` standard deviations for an arm of which little is known and falls to
``SETTLED`` of that for an arm of which one more reward would teach little. Decisions that wait
narrow an arm as their rewards will.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rolf.estimators.mixture import Believed, in_rewards, reward_variance
from rolf.estimators.operations import Table
from rolf.kernel import kernel, looped, shared
from rolf.types import FloatArray

#: the bonus of an arm that is well known, as a share of that of an unknown one, and the
#: variance, in units of the noise's, at which it is half way
SETTLED = 0.55
HALFWAY = 0.1


@kernel
def upper_bounds(
    model: Any,
    belief: Any,
    mean: FloatArray,
    variance: FloatArray,
    noise: float,
    waiting: FloatArray,
    width: float,
) -> FloatArray:
    """Upper bounds of all arms (K,), given what ``mixture`` says of them."""
    raise NotImplementedError


@shared
def deviations(width: float, ratio: float) -> float:
    """The bonus in deviations, given an arm's variance in units of the noise's."""
    return width * (SETTLED + (1.0 - SETTLED) * ratio / (ratio + HALFWAY))


@looped
def normal_bounds(
    mean: FloatArray, variance: FloatArray, noise: float, waiting: FloatArray, width: float
) -> FloatArray:
    """Bounds for rewards with normal noise. It is negative while all rewards were equal: the
    least known arm comes first then."""
    out = np.empty(mean.size)
    for a in range(mean.size):
        ratio = variance[a] / abs(noise)
        ratio /= 1.0 + waiting[a] * ratio
        if noise > 0.0:
            out[a] = mean[a] + deviations(width, ratio) * math.sqrt(noise * ratio)
        else:
            out[a] = ratio if ratio > 0.0 else -waiting[a]
    return out


def _bounds(
    model: Any,
    belief: Any,
    mean: FloatArray,
    variance: FloatArray,
    noise: float,
    waiting: FloatArray,
    width: float,
) -> FloatArray:
    return normal_bounds(mean, variance, noise, waiting, width)


def _in_rewards(model: Any, known: Believed) -> Believed:
    return known


def _variance(model: Any, belief: Any, unit: float) -> float:
    return unit


#: for estimators of rewards with normal noise
NORMAL: Table = {upper_bounds: _bounds, in_rewards: _in_rewards, reward_variance: _variance}
