"""Which of many arms is the best one in draws from their joint posterior.

A draw gives arm a the value drift_a + sd_a e_a with e standard normal. Few of the e can decide:
those above ``HIGH`` are drawn first, of a random set of arms of the right size, and the others
only where they could still win. The distribution of the best arm is exactly that of drawing
all of them.

``count_wins`` draws from a random stream. ``win_shares`` takes its random numbers from a hash of
the round and the components in proportion to their weights, so that the same state gives the same
shares, here and in another process.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rolf.estimators.posterior.contract import loadings
from rolf.estimators.posterior.scales import noise_variances
from rolf.kernel import looped, shared
from rolf.linalg import cholesky, matvec, normal_matrix
from rolf.types import FloatArray, Generator, IntArray

#: what few standard normal numbers exceed, and how few
HIGH = 2.5
SHARE = 0.5 * math.erfc(HIGH / math.sqrt(2.0))
GAP = math.log1p(-SHARE)


@shared
def high_normal(rng: Generator) -> float:
    """A standard normal number above HIGH."""
    while True:
        value = math.sqrt(HIGH * HIGH - 2.0 * math.log(1.0 - rng.random()))
        if rng.random() * value < HIGH:
            return value


@shared
def low_normal(rng: Generator) -> float:
    """A standard normal number that is not above HIGH."""
    while True:
        value = rng.standard_normal()
        if value <= HIGH:
            return float(value)


@shared
def gap(rng: Generator) -> int:
    """How many arms come before the next one whose number is high."""
    return int(min(math.log(1.0 - rng.random()) / GAP, 1e9))


@shared
def two_drifts(
    means: FloatArray,
    reach: FloatArray,
    coef: FloatArray,
    other: FloatArray,
    out: FloatArray,
    more: FloatArray,
) -> None:
    """Write means + reach'coef into ``out`` (A,), and the same for ``other`` into ``more``.

    Two at once, and three rows of ``reach`` at a time, because reading it takes the time.
    """
    size, arms = reach.shape
    for a in range(arms):
        out[a] = more[a] = means[a]
    blocks = size // 3
    for block in range(blocks):
        i = 3 * block
        p, q, r = coef[i], coef[i + 1], coef[i + 2]
        s, t, u = other[i], other[i + 1], other[i + 2]
        for a in range(arms):
            x, y, z = reach[i, a], reach[i + 1, a], reach[i + 2, a]
            out[a] += p * x + q * y + r * z
            more[a] += s * x + t * y + u * z
    for i in range(3 * blocks, size):
        for a in range(arms):
            out[a] += coef[i] * reach[i, a]
            more[a] += other[i] * reach[i, a]


@shared
def draw(root: FloatArray, noise: float, rng: Generator) -> FloatArray:
    """noise root e, e standard normal."""
    out: FloatArray = noise * matvec(root, normal_matrix(1, root.shape[1], rng)[0])
    return out


@looped
def count_wins(
    means: FloatArray,
    reach: FloatArray,
    root: FloatArray,
    sds: FloatArray,
    noises: FloatArray,
    rng: Generator,
    wins: FloatArray,
) -> None:
    """Add to ``wins`` (A,) how often each arm is the best one, in a draw per entry of ``noises``.

    Its value is means[a] + noise (reach[:, a]'root e + sds[a] e_a) with e, e_a standard normal.
    """
    arms = means.size
    middle, spare = np.empty(arms), np.empty(arms)
    for i in range(noises.size):
        noise = noises[i]
        if i % 2 == 0:
            following = noises[min(i + 1, noises.size - 1)]
            coef, other = draw(root, noise, rng), draw(root, following, rng)
            two_drifts(means, reach, coef, other, middle, spare)
        else:
            middle, spare = spare, middle
        best = -math.inf
        winner = 0
        a = gap(rng)
        while a < arms:
            value = middle[a] + noise * sds[a] * high_normal(rng)
            if value > best:
                best = value
                winner = a
            a += 1 + gap(rng)
        high = HIGH * noise
        for a in range(arms):  # one whose number was high draws a lower one, and does not win by it
            if middle[a] + high * sds[a] > best:
                value = middle[a] + noise * sds[a] * low_normal(rng)
                if value > best:
                    best = value
                    winner = a
        wins[winner] += 1.0


# --- shares that follow from the state alone ------------------------------------------------------


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
