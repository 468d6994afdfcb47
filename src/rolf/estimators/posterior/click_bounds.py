"""Upper bounds for clicks and counts, in units of r (``clicks.py``).

What is believed of an arm without its own rewards is taken to be normal; the likelihood of its own
rewards is not. With a bonus of w deviations, the bound is where the two together are exp(-w^2/2) of
their largest value: for an arm without rewards w deviations above the mean, for an arm with many
what KL-UCB has.
"""

from __future__ import annotations

import math

import numpy as np

from rolf.estimators.posterior.bounds import Bonus, deviations
from rolf.estimators.posterior.links import STEPS, response
from rolf.kernel import looped
from rolf.types import FloatArray


@looped
def linked_bounds(
    link: int,
    counts: FloatArray,
    sums: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    pending: FloatArray,
    bonus: Bonus,
) -> FloatArray:
    """Upper bounds of all arms, given the number and the sum of each one's rewards."""
    out = np.empty(mean.size)
    for a in range(mean.size):
        expected, slope, base = response(link, mean[a])
        ratio = variance[a] * slope
        spread = variance[a] / (1.0 + pending[a] * ratio)
        ratio /= 1.0 + pending[a] * ratio
        reach = deviations(bonus, ratio)
        count = counts[a] + pending[a]
        force = sums[a] - counts[a] * expected  # of what waits the mean is expected
        total = sums[a] + pending[a] * expected
        # precision and place of what is believed without the arm's own rewards
        rest = max(1.0 / spread - count * slope, 1e-3 / spread)
        centre = mean[a] - force / rest
        floor = 0.5 * rest * (mean[a] - centre) ** 2 - total * mean[a] + count * base
        x = mean[a] + reach * math.sqrt(spread)
        for _ in range(STEPS):  # convex: from above, Newton's method never passes the solution
            expected, _, partition = response(link, x)
            height = 0.5 * rest * (x - centre) ** 2 - total * x + count * partition - floor
            gradient = rest * (x - centre) - total + count * expected
            excess = height - 0.5 * reach * reach
            if gradient <= 0.0 or abs(excess) < 1e-9 * (1.0 + reach * reach):
                break
            x -= max(excess / gradient, -1.0)
        out[a] = x
    return out
