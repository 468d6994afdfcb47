"""Sums over the decisions of a log, from which values and their intervals follow.

Sums of parts add up to those of the whole, so a log may be read in any number of parts. To give
the same bits wherever the parts were read, they are added in the order of the parts, and by
functions that no library splits over threads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rolf.types import FloatArray

#: rewards of a batch that are looked at to find the most common one; of more, every so many-th
SAMPLE = 1 << 14
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
    #: t and s themselves, for the bootstrap
    kept: tuple[tuple[FloatArray, FloatArray], ...] = ()

    def plus(self, other: Sums) -> Sums:
        """With the sums of more decisions, about the same centre."""
        added = (mine + more for mine, more in zip(self[1:], other[1:], strict=True))
        return Sums(self.centre, *added)

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
        return cls(values, total, float((values * values).sum()), apart)


def sums_of(
    centre: float,
    x: FloatArray,
    weights: Weights,
    scale: FloatArray | None = None,
    keep: bool = False,
) -> Sums:
    """The sums of x_i, for a scale s_i that is 1 by default."""
    size, first, squares = x.size, float(x.sum()), float((x * x).sum())
    s, xs, ss = float(size), first, float(size)
    if scale is not None:
        s, xs, ss = float(scale.sum()), float((x * scale).sum()), float((scale * scale).sum())
    kept = ()
    if keep:
        ones = np.ones(size) if scale is None else scale
        kept = ((x + centre * ones, ones),)
    return Sums(centre, size, first, s, squares, xs, ss, *weights[1:], kept)


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
        cls,
        weights: FloatArray,
        chances: FloatArray | None = None,
        variances: FloatArray | None = None,
    ) -> Overlap:
        """Of the weights of some decisions, the chances of their arms in the log, and variances
        that are to be expected."""
        return cls(
            weights.size,
            float(weights.sum()),
            float((weights * weights).sum()),
            0.0 if variances is None else float(variances.sum()),
            0 if chances is None else int(np.count_nonzero(chances >= 1.0)),
        )

    @property
    def effective(self) -> float:
        """As in ``Sums``."""
        return self.w**2 / self.ww

    def plus(self, other: Overlap) -> Overlap:
        return Overlap(*(mine + more for mine, more in zip(self, other, strict=True)))


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
    def of(cls, rewards: FloatArray) -> Spread:
        step = 1 if rewards.size <= SAMPLE else rewards.size // (SAMPLE // 4) | 1
        values, counts = np.unique(rewards[::step], return_counts=True)
        low, high = float(rewards.min()), float(rewards.max())
        return cls(low, high, values, counts.astype(float), int(counts.sum()), True)._pruned()

    def plus(self, other: Spread) -> Spread:
        """Together with that of more rewards."""
        both = np.concatenate([self.values, other.values])
        values, places = np.unique(both, return_inverse=True)
        counts = np.bincount(places, np.concatenate([self.counts, other.counts]), values.size)
        return Spread(
            min(self.low, other.low),
            max(self.high, other.high),
            values,
            counts,
            self.size + other.size,
            self.exact and other.exact,
        )._pruned()

    def _pruned(self) -> Spread:
        """With no more candidates than may be kept; the least count is taken off all."""
        if self.values.size <= CANDIDATES:
            return self
        least = np.partition(self.counts, -CANDIDATES - 1)[-CANDIDATES - 1]
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
