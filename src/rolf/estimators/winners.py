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
def drift(
    means: FloatArray,
    reach: FloatArray,
    root: FloatArray,
    noise: float,
    rng: Generator,
    out: FloatArray,
) -> None:
    """Write means + noise reach'root e into ``out`` (A,), e (D,) standard normal."""
    size, arms = reach.shape
    coef = matvec(root, normal_matrix(1, size, rng)[0])
    for a in range(arms):
        out[a] = means[a]
    blocks = size // 4
    for block in range(blocks):  # four at a time: twice as fast as one
        i = 4 * block
        p, q = noise * coef[i], noise * coef[i + 1]
        r, s = noise * coef[i + 2], noise * coef[i + 3]
        for a in range(arms):
            near = p * reach[i, a] + q * reach[i + 1, a]
            out[a] += near + r * reach[i + 2, a] + s * reach[i + 3, a]
    for i in range(4 * blocks, size):
        p = noise * coef[i]
        for a in range(arms):
            out[a] += p * reach[i, a]


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
    middle = np.empty(arms)
    is_high = np.zeros(arms, dtype=np.bool_)
    for noise in noises:
        drift(means, reach, root, noise, rng, middle)
        best = -math.inf
        winner = 0
        a = gap(rng)
        while a < arms:
            is_high[a] = True
            value = middle[a] + noise * sds[a] * high_normal(rng)
            if value > best:
                best = value
                winner = a
            a += 1 + gap(rng)
        high = HIGH * noise
        for a in range(arms):
            if middle[a] + high * sds[a] > best and not is_high[a]:
                value = middle[a] + noise * sds[a] * low_normal(rng)
                if value > best:
                    best = value
                    winner = a
        for a in range(arms):
            is_high[a] = False
        wins[winner] += 1.0
