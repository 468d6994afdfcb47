"""Links between what is linear in the features and the rewards of clicks and counts.

    clicks:  reward 0 or 1,        mean h(x) = 1/(1 + exp(-x))
    counts:  reward 0, 1, 2, ...,  mean h(x) = exp(x)

n rewards with sum s have the log likelihood s x - n A(x), up to a constant, with A' = h.
"""

from __future__ import annotations

import math

import numpy as np

from rolf.kernel import looped, shared
from rolf.types import FloatArray

CLICKS, COUNTS = 0, 1
#: the largest change of x in one step of Newton's method, and the change after which the next one
#: would be negligible: it squares the error
LONGEST = 3.0
CLOSE = 1e-6
STEPS = 100


@shared
def response(link: int, x: float) -> tuple[float, float, float]:
    """h(x), its derivative, and A(x)."""
    if link == COUNTS:
        mean = math.exp(min(x, 300.0))
        return mean, mean, mean
    small = math.exp(-abs(x))
    rest = small / (1.0 + small)
    mean = rest if x < 0.0 else 1.0 - rest
    return mean, rest * (1.0 - rest), max(x, 0.0) + math.log1p(small)


@shared
def limited(step: float) -> float:
    return min(max(step, -LONGEST), LONGEST)


@looped
def averaged(
    link: int, weights: FloatArray, means: FloatArray, variances: FloatArray
) -> FloatArray:
    """h of every arm (K,) over normal components: its mean for clicks, and for counts, where a
    wide distribution has a mean far above everything probable, h of the mean."""
    count, arms = means.shape
    out = np.zeros(arms)
    for g in range(count):
        for a in range(arms):
            x = means[g, a]
            if link == CLICKS:
                # a logistic function averaged over a normal distribution is about another one
                x /= math.sqrt(1.0 + math.pi / 8.0 * max(variances[g, a], 0.0))
                out[a] += weights[g] * response(link, x)[0]
            else:
                out[a] += weights[g] * x
    if link == COUNTS:
        for a in range(arms):
            out[a] = response(link, out[a])[0]
    return out


@looped
def linked(link: int, values: FloatArray) -> FloatArray:
    """h of every value (n,)."""
    out = np.empty(values.size)
    for i in range(values.size):
        out[i] = response(link, values[i])[0]
    return out
