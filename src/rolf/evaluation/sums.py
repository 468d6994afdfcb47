"""Sums over the decisions of a log, from which values and their intervals follow.

Sums of parts add up to those of the whole, so a log may be read in any number of parts. To give
the same bits wherever the parts were read, they are added in the order of the parts, and by
functions that no library splits over threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rolf.types import FloatArray

#: how many of some rewards are looked at to find the most common one, where they are very many
SAMPLE = 1 << 8
#: candidates for the most common reward
CANDIDATES = 1 << 12
#: where there are more distinct rewards than candidates, the share that makes one common
COMMON = 0.01


class Sums(NamedTuple):
    """Of a ratio, sum of t_i over sum of s_i, with x_i = t_i - c s_i for a centre c, which keeps
    digits; of weights w_i; and of those whose reward is not the most common one, ``odd``."""

    centre: float
    size: int = 0
    x: float = 0.0
    s: float = 0.0
    xx: float = 0.0
    xs: float = 0.0
    ss: float = 0.0
    w: float = 0.0
    ww: float = 0.0
    odd: float = 0.0

    def plus(self, other: Sums) -> Sums:
        """With the sums of more decisions, about the same centre."""
        pairs: Any = zip(self[1:], other[1:], strict=True)
        return Sums(self.centre, *(mine + more for mine, more in pairs))

    @property
    def value(self) -> float:
        """The ratio."""
        return self.centre + self.x / self.s

    @property
    def effective(self) -> float:
        """(sum w)^2 / sum w^2: how many decisions with equal weights would tell as much."""
        return self.w**2 / self.ww

    @property
    def residual(self) -> float:
        """The sum of (t_i - v s_i)^2 for the ratio v."""
        step = self.x / self.s
        return max(self.xx - 2.0 * step * self.xs + step * step * self.ss, 0.0)


def product(a: FloatArray, b: FloatArray) -> float:
    """The sum of a_i b_i; ``@`` may split it over threads, and round differently."""
    return float(np.einsum("i,i->", a, b))


class Weights(NamedTuple):
    """Importance weights, and their sums."""

    values: FloatArray | None  # None: all 1
    w: float
    ww: float
    odd: float

    @classmethod
    def of(cls, values: FloatArray | None, rewards: FloatArray, common: float | None) -> Weights:
        odd = None if common is None else rewards != common
        if values is None:
            size = float(rewards.size)
            return cls(None, size, size, size if odd is None else float(np.count_nonzero(odd)))
        total = float(values.sum())
        apart = total if odd is None else float(values[odd].sum())
        return cls(values, total, product(values, values), apart)


def sums_of(
    centre: float,
    x: FloatArray,
    weights: Weights,
    scale: FloatArray | None = None,
) -> Sums:
    """The sums of x_i, for a scale s_i that is 1 by default."""
    size, first = x.size, float(x.sum())
    s, xs, ss = float(size), first, float(size)
    if scale is not None:
        s, xs, ss = float(scale.sum()), product(x, scale), product(scale, scale)
    return Sums(centre, size, first, s, product(x, x), xs, ss, *weights[1:])


class Overlap(NamedTuple):
    """Of importance weights before they are cut: sums of them, of their squares and of the variance
    to be expected, and how many decisions were certain."""

    size: int = 0
    w: float = 0.0
    ww: float = 0.0
    variance: float = 0.0
    certain: int = 0

    @classmethod
    def of(
        cls, weights: FloatArray, certain: int = 0, variances: FloatArray | None = None
    ) -> Overlap:
        """Of the weights of some decisions, how many of these were certain, and the variances that
        are to be expected."""
        variance = 0.0 if variances is None else float(variances.sum())
        square = product(weights, weights)
        return cls(weights.size, float(weights.sum()), square, variance, certain)

    @property
    def effective(self) -> float:
        """As in ``Sums``."""
        return self.w**2 / self.ww

    def plus(self, other: Overlap) -> Overlap:
        pairs: Any = zip(self, other, strict=True)
        return Overlap(*(mine + more for mine, more in pairs))


class Spread(NamedTuple):
    """Which rewards there are: the smallest, the largest, and the most common ones.

    Counts are those of Misra and Gries: exact as long as there are no more distinct rewards than
    ``CANDIDATES``, otherwise too low by at most the share 1/``CANDIDATES`` of all.
    """

    low: float
    high: float
    values: FloatArray
    counts: FloatArray
    size: int
    exact: bool

    @classmethod
    def of(cls, rewards: FloatArray, sample: bool = False) -> Spread:
        """Of some rewards; with ``sample`` the common ones of every so many-th."""
        step = rewards.size // SAMPLE | 1 if sample else 1
        values, counts = np.unique(rewards[::step], return_counts=True)
        low, high = float(rewards.min()), float(rewards.max())
        spread = cls(low, high, values, counts.astype(float), int(counts.sum()), True)
        return spread._pruned(SAMPLE // 8 if sample else CANDIDATES)

    def plus(self, other: Spread) -> Spread:
        """Together with that of more rewards."""
        both = np.concatenate([self.values, other.values])
        values, places = np.unique(both, return_inverse=True)
        weights = np.concatenate([self.counts, other.counts])
        counts = np.bincount(places, weights, values.size).astype(np.float64)
        return Spread(
            min(self.low, other.low),
            max(self.high, other.high),
            values,
            counts,
            self.size + other.size,
            self.exact and other.exact,
        )._pruned(CANDIDATES)

    def _pruned(self, most: int) -> Spread:
        """With no more candidates than this; the largest count of the others is taken off all."""
        if self.values.size <= most:
            return self
        least = np.partition(self.counts, -most - 1)[-most - 1]
        kept = self.counts > least
        counts = self.counts[kept] - least
        return self._replace(values=self.values[kept], counts=counts, exact=False)

    @property
    def common(self) -> float | None:
        """The most common reward, the smallest of several; None if none stands out among very
        many."""
        if not self.values.size or (not self.exact and self.counts.max() < COMMON * self.size):
            return None
        return float(self.values[self.counts.argmax()])
