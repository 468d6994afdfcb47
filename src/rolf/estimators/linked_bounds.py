"""Upper bounds for clicks and counts, in units of r (``linked_posterior.py``).

How far an arm's bound is from its mean, in standard deviations, the whole mixture says, as for
rewards with normal noise (``bounds.py``). Where that is on the side of large rates, the likelihood
of the arm's own rewards says: what is believed of the arm without them is taken to be normal, and
the bound is where the two together are exp(-reach^2/2) of their largest value. For an arm without
rewards that is ``reach`` deviations above the mean, for an arm with many what KL-UCB has.
"""

from __future__ import annotations

import math

import numpy as np

from rolf.estimators.bounds import deviations, exceeded, quantile, tail
from rolf.estimators.links import STEPS, response
from rolf.estimators.mixture import Believed, mixture
from rolf.kernel import looped, shared
from rolf.types import FloatArray, IntArray

#: the bonus beside that of normal rewards. A click says so little that an arm counts as well known
#: long before it is: with 1, some runs settle on a wrong arm.
BONUS = 1.2


@shared
def depth(
    link: int, shape: tuple[float, float, float, float, float], x: float
) -> tuple[float, float]:
    """By how much the log density of an arm at x is below its largest value, and the derivative;
    ``shape`` is what ``shape_of`` gives."""
    rest, centre, count, total, floor = shape
    expected, _, partition = response(link, x)
    height = 0.5 * rest * (x - centre) ** 2 - total * x + count * partition - floor
    return height, rest * (x - centre) - total + count * expected


@shared
def shape_of(
    link: int, mean: float, spread: float, count: float, total: float, waiting: float
) -> tuple[float, float, float, float, float]:
    """Precision and place of what is believed of an arm without its own rewards; their number and
    sum, with the mean for those that wait; and the height at the mean, where density is largest."""
    expected, slope, base = response(link, mean)
    force = total - count * expected
    count, total = count + waiting, total + waiting * expected
    rest = max(1.0 / spread - count * slope, 1e-3 / spread)
    centre = mean - force / rest
    floor = 0.5 * rest * (mean - centre) ** 2 - total * mean + count * base
    return rest, centre, count, total, floor


@shared
def solved(
    link: int, shape: tuple[float, float, float, float, float], reach: float, x: float
) -> float:
    """Where the log density is reach^2/2 below its largest value, found from x above the mean."""
    for _ in range(STEPS):  # convex: from above, Newton's method never passes the solution
        height, gradient = depth(link, shape, x)
        excess = height - 0.5 * reach * reach
        if gradient <= 0.0 or abs(excess) < 1e-9 * (1.0 + reach * reach):
            break
        x -= max(excess / gradient, -1.0)
    return x


@looped
def linked_bounds(
    link: int,
    totals: tuple[FloatArray, FloatArray],
    known: Believed,
    waiting: FloatArray,
    available: IntArray,
    width: float,
) -> tuple[FloatArray, FloatArray]:
    """Means and upper bounds of all arms, given the number and the sum of each one's rewards."""
    mean, variance, _ = mixture(known)
    counts, sums = totals
    upper, reach, spread = np.empty(mean.size), np.empty(mean.size), np.empty(mean.size)
    for a in range(mean.size):
        ratio = variance[a] * response(link, mean[a])[1]
        spread[a] = variance[a] / (1.0 + waiting[a] * ratio)
        reach[a] = BONUS * deviations(width, ratio / (1.0 + waiting[a] * ratio))
        upper[a] = mean[a] + reach[a] * math.sqrt(spread[a])  # if it were normal
    first = available[0]
    for a in available:
        if upper[a] > upper[first]:
            first = a
    count, least = 0, 0.01 * tail(BONUS * width)  # what lighter components say does not matter
    for g in range(known.weights.size):
        count += 1 if known.weights[g] > least else 0
    weights, means, spreads = np.empty(count), np.empty(count), np.empty(count)
    best = -math.inf
    for turn in range(-1, available.size):
        arm = first if turn < 0 else available[turn]
        if turn >= 0 and arm == first:
            continue
        place, heavy = 0, 0.0
        for g in range(known.weights.size):
            if known.weights[g] > least:
                own = max(known.variances[g, arm], 0.0)
                slope = response(link, known.means[g, arm])[1] if waiting[arm] > 0.0 else 0.0
                weights[place] = known.weights[g]
                means[place] = known.means[g, arm]
                spreads[place] = math.sqrt(own / (1.0 + waiting[arm] * slope * own)) + 1e-300
                heavy += known.weights[g]
                place += 1
        chance = heavy * tail(reach[arm])
        shape = shape_of(link, mean[arm], spread[arm], counts[arm], sums[arm], waiting[arm])
        unit = math.sqrt(spread[arm])
        needed = mean[arm]  # the quantile from which on this bound is the largest so far
        if turn >= 0 and best > mean[arm]:
            needed += unit * math.sqrt(2.0 * max(depth(link, shape, best)[0], 0.0))
        if turn < 0 or exceeded(weights, means, spreads, needed) > (1.0 - 1e-6) * chance:
            far = quantile(weights, means, spreads, chance, upper[arm])
            deviation = max((far - mean[arm]) / unit, 0.0)
            upper[arm] = solved(link, shape, deviation, mean[arm] + deviation * unit)
            best = max(best, upper[arm])
        else:
            upper[arm] = min(mean[arm], best)
    return mean, upper
