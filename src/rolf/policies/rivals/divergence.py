"""How far apart two click rates are, and the largest rate that is not too far."""

from __future__ import annotations

import math

import numpy as np

from rolf.kernel import looped, shared
from rolf.types import FloatArray

STEPS = 50  # of the bisection: its last interval is as narrow as rounding


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
    """The largest q with kl(mean, q) <= room."""
    low, high = min(max(mean, 0.0), 1.0), 1.0
    mean = low
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        if middle >= 1.0 or bernoulli_divergence(mean, middle) > room:
            high = middle
        else:
            low = middle
    return low


@looped
def largest_rates(means: FloatArray, counts: FloatArray, room: float) -> FloatArray:
    """The largest rate of every arm that is within room/count; 1 for an arm without rewards."""
    out = np.ones(means.size)
    for arm in range(means.size):
        if counts[arm] > 0.0:
            out[arm] = largest_rate(means[arm], room / counts[arm])
    return out
