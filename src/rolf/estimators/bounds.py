"""Upper bounds from a posterior over the scales: quantiles of what is believed of each arm.

An arm's bound is exceeded with a chance, given in deviations of a normal distribution, over all
components together. Where most of them say that an arm is hopeless but a few allow it to be the
best one, the quantile sees those, as no number of standard deviations would. Decisions that wait
narrow an arm as their rewards will.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rolf.estimators.mixture import Believed, mixture, reward_variance
from rolf.estimators.operations import Table
from rolf.kernel import kernel, looped, shared
from rolf.types import FloatArray, IntArray

#: the bonus of an arm that is well known, as a share of that of an unknown one, and the variance,
#: in units of the noise's, at which it is half way
SETTLED = 0.55
HALFWAY = 0.1
#: the rounds after which the bonus grows, and how fast for known arms and for unknown ones
STEADY = 1000.0
SLOW, FAST = 1.5, 4.0
#: error of the logarithm of a chance, and the steps in which it is reached at the latest
CLOSE = 1e-9
STEPS = 100
#: deviations beyond which a normal distribution has ended
FAR = 8.0


class Bonus(NamedTuple):
    """How far above its mean the bound of an arm is, in deviations.

    Of an arm of which little is known ``width`` to begin with, later
    sqrt(width^2 + FAST ``growth``), but at most ``limit``. An arm of which one more reward would
    teach little has SETTLED of the width and of the limit, and SLOW for FAST.
    """

    width: float
    growth: float
    limit: float


@kernel
def upper_bounds(
    model: Any,
    belief: Any,
    known: Believed,
    waiting: FloatArray,
    available: IntArray,
    bonus: Bonus,
) -> tuple[FloatArray, FloatArray]:
    """Mean of every arm (K,) and its upper bound (K,), exact for the available arms with the
    largest bounds and at most that for the others."""
    raise NotImplementedError


@shared
def deviations(bonus: Bonus, ratio: float) -> float:
    """The bonus of an arm with this variance in units of the noise's."""
    fresh = ratio / (ratio + HALFWAY)
    share = SETTLED + (1.0 - SETTLED) * fresh
    pace = SLOW + (FAST - SLOW) * fresh
    grown = math.sqrt((share * bonus.width) ** 2 + pace * bonus.growth)
    return min(grown, share * bonus.limit)


@shared
def tail(z: float) -> float:
    """The chance that a standard normal number exceeds z."""
    return 0.5 * math.erfc(z / math.sqrt(2.0))


@shared
def deviations_of(chance: float) -> float:
    """What a standard normal number exceeds with a chance of at most 1/2."""
    low, high = 0.0, 40.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if tail(middle) > chance:
            low = middle
        else:
            high = middle
    return low


@shared
def exceeded(weights: FloatArray, means: FloatArray, spreads: FloatArray, x: float) -> float:
    """The chance that a mixture of normal distributions exceeds x."""
    out = 0.0
    for g in range(weights.size):
        off = x - means[g]
        if off < FAR * spreads[g]:
            out += weights[g] * tail(off / spreads[g]) if off > -FAR * spreads[g] else weights[g]
    return out


@shared
def quantile(
    weights: FloatArray, means: FloatArray, spreads: FloatArray, chance: float, x: float
) -> float:
    """What a mixture of normal distributions exceeds with a chance, found from x: Newton's method
    for the logarithm of the chance, where it leaves the bracket bisection."""
    low, high = math.inf, -math.inf
    for g in range(weights.size):
        low = min(low, means[g])
        high = max(high, means[g] + FAR * spreads[g])
    for _ in range(STEPS):
        mass = density = 0.0
        for g in range(weights.size):
            off = x - means[g]
            if off < FAR * spreads[g]:
                if off > -FAR * spreads[g]:
                    z = off / spreads[g]
                    mass += weights[g] * tail(z)
                    density += weights[g] / spreads[g] * math.exp(-0.5 * z * z)
                else:
                    mass += weights[g]
        excess = math.log(mass / chance) if mass > 0.0 else -math.inf
        if abs(excess) < CLOSE:
            break
        if excess > 0.0:
            low = x
        else:
            high = x
        step = math.sqrt(2.0 * math.pi) * mass * excess
        new = x + step / density if density > 0.0 else math.inf
        if not low < new < high:
            new = 0.5 * (low + high)
            if not low < new < high:
                break
        x = new
    return x


@looped
def normal_bounds(
    known: Believed, waiting: FloatArray, available: IntArray, bonus: Bonus
) -> tuple[FloatArray, FloatArray]:
    """Bounds for rewards with normal noise. While all rewards were equal, the least known arm
    comes first."""
    mean, variance, noise = mixture(known)
    upper = np.empty(mean.size)
    if noise < 0.0:
        for a in range(mean.size):
            upper[a] = variance[a] / (1.0 + waiting[a] * variance[a])
            if upper[a] <= 0.0:
                upper[a] = -waiting[a]
        return mean, upper
    reach, first = np.empty(mean.size), available[0]
    for a in range(mean.size):
        ratio = variance[a] / noise
        ratio /= 1.0 + waiting[a] * ratio
        reach[a] = deviations(bonus, ratio)
        upper[a] = mean[a] + reach[a] * math.sqrt(noise * ratio)  # if it were normal
    for a in available:
        if upper[a] > upper[first]:
            first = a
    count, least = (
        0,
        0.01 * tail(deviations(bonus, 1e9)),
    )  # what lighter components say does not matter
    for g in range(known.weights.size):
        count += 1 if known.weights[g] > least else 0
    weights, means, spreads = np.empty(count), np.empty(count), np.empty(count)
    best = -math.inf
    for turn in range(-1, available.size):
        arm = first if turn < 0 else available[turn]
        if turn >= 0 and arm == first:
            continue
        place, total = 0, 0.0
        for g in range(known.weights.size):
            if known.weights[g] > least:
                ratio = max(known.variances[g, arm], 0.0)
                weights[place] = known.weights[g]
                means[place] = known.means[g, arm]
                spread = known.noises[g] * ratio / (1.0 + waiting[arm] * ratio)
                spreads[place] = math.sqrt(spread) + 1e-300
                total += known.weights[g]
                place += 1
        chance = total * tail(reach[arm])
        if turn < 0 or exceeded(weights, means, spreads, best) > (1.0 - 1e-6) * chance:
            upper[arm] = quantile(weights, means, spreads, chance, upper[arm])
            best = max(best, upper[arm])
        else:
            upper[arm] = min(mean[arm], best)
    return mean, upper


def _bounds(
    model: Any,
    belief: Any,
    known: Believed,
    waiting: FloatArray,
    available: IntArray,
    bonus: Bonus,
) -> tuple[FloatArray, FloatArray]:
    return normal_bounds(known, waiting, available, bonus)


def _variance(model: Any, belief: Any, unit: float) -> float:
    return unit


#: for estimators of rewards with normal noise
NORMAL: Table = {upper_bounds: _bounds, reward_variance: _variance}
