"""Which of many arms is the best one in draws from their joint posterior.

A draw gives arm a the value drift_a + sd_a e_a with e standard normal. Few of the e can decide:
those above ``HIGH`` are drawn first, of a random set of arms of the right size, and the others
only where they could still win. The distribution of the best arm is exactly that of drawing
all of them.
"""

from __future__ import annotations

import math

import numpy as np

from rolf.kernel import looped, shared
from rolf.linalg import matvec, normal_matrix
from rolf.types import FloatArray, Generator

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
