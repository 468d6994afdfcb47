"""Each arm's chance of being the best one, as a number that follows from the state alone.

The share of draws from the joint posterior in which an arm is best. The draws take their random
numbers from a hash of the round and the components in proportion to their weights, so that the
same state gives the same chances, here and in another process.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rolf.estimators.posterior.mixture import loadings
from rolf.estimators.posterior.scales import noise_variances
from rolf.kernel import looped, shared
from rolf.linalg import cholesky
from rolf.types import FloatArray, IntArray


@shared
def hashed(key: int, place: int) -> float:
    """A number in (0, 1) that looks random (the finalizer of SplitMix64)."""
    x = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(place)
    x *= np.uint64(0xD1B54A32D192ED03)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return (float(x >> np.uint64(11)) + 0.5) / 2.0**53


@shared
def hashed_normals(key: int, place: int, out: FloatArray) -> None:
    """Fill an array with numbers that look standard normal (Box and Muller)."""
    for i in range(0, out.size, 2):
        radius = math.sqrt(-2.0 * math.log(hashed(key, place + i)))
        angle = 2.0 * math.pi * hashed(key, place + i + 1)
        out[i] = radius * math.cos(angle)
        if i + 1 < out.size:
            out[i + 1] = radius * math.sin(angle)


@looped
def win_shares(
    model: Any,
    belief: Any,
    features: FloatArray,
    available: IntArray,
    draws: int,
    round: int,
) -> FloatArray:
    """The share of draws from the posterior in which each available arm (n,) is the best one,
    with one more draw in which all of them are, so that no share is zero."""
    count, size = available.size, belief.components.cov.shape[1]
    wins = np.full(count, 1.0 / count)
    evidence = belief.components.evidence
    noises = noise_variances(evidence, model.noise)
    if noises[0] < 0.0:
        return wins
    errors, degrees = evidence.errors, evidence.seen[0] - 1.0
    numbers, coef = np.empty(1 + size + count), np.empty(size)
    length = numbers.size + 1
    start, passed = hashed(round, 0), 0.0
    g = loaded = -1
    means, alone = np.empty(count), np.empty(count)
    reach, root = np.empty((size, count)), np.empty((size, size))
    for draw in range(draws):
        while g < 0 or ((draw + start) / draws > passed and g < evidence.weights.size - 1):
            g += 1
            passed += evidence.weights[g]
        if g != loaded:
            means, reach, alone = loadings(model, belief, features, g, available)
            root = cholesky(belief.components.cov[g])
            loaded = g
        hashed_normals(round, 1 + draw * (length + length % 2), numbers)
        scale = noises[g]
        if model.noise == 0.0 and errors[g] > 0.0:
            # over chi-squared, by the cube of a normal number (Wilson and Hilferty)
            part = 2.0 / (9.0 * degrees)
            cube = max(1.0 - part + math.sqrt(part) * numbers[0], 0.2) ** 3
            scale = errors[g] / (degrees * cube)
        scale = math.sqrt(scale)
        for i in range(size):
            inner = 0.0
            for j in range(i + 1):
                inner += root[i, j] * numbers[1 + j]
            coef[i] = inner
        best, winner = -math.inf, 0
        for place in range(count):
            value = math.sqrt(alone[place]) * numbers[1 + size + place]
            for i in range(size):
                value += reach[i, place] * coef[i]
            value = means[place] + scale * value
            if value > best:
                best, winner = value, place
        wins[winner] += 1.0
    for place in range(count):
        wins[place] /= draws + 1.0
    return wins
