"""The divergence of two click rates, and the largest rate within a given divergence."""

from __future__ import annotations

import math

import numpy as np

from rolf.kernel import looped, shared
from rolf.types import FloatArray

STEPS = 50  # of Newton's method, far more than needed
NEAR = 1e-15  # relative: smaller steps change nothing


@shared
def bernoulli_divergence(mean: float, other: float) -> float:
    """kl(m, q) of two Bernoulli distributions; 0 log 0 is 0."""
    out = 0.0
    if mean > 0.0:
        out += mean * math.log(mean / other)
    if mean < 1.0:
        out += (1.0 - mean) * math.log((1.0 - mean) / (1.0 - other))
    return out


@shared
def largest_rate(mean: float, room: float) -> float:
    """The largest q with kl(mean, q) <= room.

    kl is convex in q, so Newton's method descends to the solution from any start above it. Two
    bounds give such starts: kl >= 2 (q - m)^2, and kl >= (q - m)^2/(2 q), which is closer for small
    m.
    """
    mean = min(max(mean, 0.0), 1.0)
    if mean == 1.0 or room == 0.0:
        return mean
    rate = min(mean + math.sqrt(0.5 * room), mean + room + math.sqrt(room * (room + 2.0 * mean)))
    if rate >= 1.0:  # m log m + (1 - m) log((1 - m)/(1 - q)) is at most kl
        rest = mean * math.log(mean) if mean > 0.0 else 0.0
        rate = 1.0 - (1.0 - mean) * math.exp(-(room - rest) / (1.0 - mean))
    for _ in range(STEPS):
        if rate >= 1.0:
            return 1.0
        excess = bernoulli_divergence(mean, rate) - room
        step = excess * rate * (1.0 - rate) / (rate - mean)
        if step <= NEAR * rate:
            break
        rate -= step
    return max(rate, mean)


@looped
def largest_rates(means: FloatArray, counts: FloatArray, room: float) -> FloatArray:
    """The largest rate of every arm within divergence room/count; 1 for an arm without rewards."""
    out = np.ones(means.size)
    for arm in range(means.size):
        if counts[arm] > 0.0:
            out[arm] = largest_rate(means[arm], room / counts[arm])
    return out
