"""Sums over the decisions of a log, from which values and their intervals follow.

Sums of parts add up to those of the whole, so a log can be read in any number of parts. They are
added in the order of the parts, by functions that no library splits over threads, so the result is
the same to the last bit wherever the parts were read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rolf.types import FloatArray

#: sample size for finding the most common of very many rewards
SAMPLE = 1 << 8
#: candidates for the most common reward
CANDIDATES = 1 << 12
#: the share that makes a reward common if there are more distinct rewards than candidates
COMMON = 0.01


class Sums(NamedTuple):
    """Sums for a ratio, sum t_i over sum s_i, with x_i = t_i - c s_i for a centre c, which
    preserves digits; sums of weights w_i, and of those whose reward is not the most common one,
    ``odd``."""

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
        """These sums plus those of more decisions, about the same centre."""
        pairs: Any = zip(self[1:], other[1:], strict=True)
        return Sums(self.centre, *(mine + more for mine, more in pairs))

    @property
    def value(self) -> float:
        """The ratio."""
        return self.centre + self.x / self.s

    @property
    def effective(self) -> float:
        """(sum w)^2 / sum w^2: how many decisions of equal weight would carry as much
        information."""
        return self.w**2 / self.ww

    @property
    def residual(self) -> float:
        """The sum of (t_i - v s_i)^2 for the ratio v."""
        step = self.x / self.s
        return max(self.xx - 2.0 * step * self.xs + step * step * self.ss, 0.0)


def product(a: FloatArray, b: FloatArray) -> float:
    """The sum of a_i b_i. (``@`` may split it over threads, and round differently.)"""
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
    """Sums over importance weights before clipping: the weights, their squares and their expected
    variances; and how many decisions were certain."""

    size: int = 0
    w: float = 0.0
    ww: float = 0.0
    variance: float = 0.0
    certain: int = 0

    @classmethod
    def of(
        cls, weights: FloatArray, certain: int = 0, variances: FloatArray | None = None
    ) -> Overlap:
        """From the weights of some decisions, how many of these were certain, and expected
        variances."""
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
    """The distribution of rewards: the smallest, the largest, and the most common ones.

    Counts follow Misra and Gries: exact up to ``CANDIDATES`` distinct rewards, otherwise too low by
    at most 1/``CANDIDATES`` of all rewards.
    """

    low: float
    high: float
    values: FloatArray
    counts: FloatArray
    size: int
    exact: bool

    @classmethod
    def of(cls, rewards: FloatArray, sample: bool = False) -> Spread:
        """From some rewards; with ``sample``, the common ones come from an evenly spaced sample."""
        step = rewards.size // SAMPLE | 1 if sample else 1
        values, counts = np.unique(rewards[::step], return_counts=True)
        low, high = float(rewards.min()), float(rewards.max())
        spread = cls(low, high, values, counts.astype(float), int(counts.sum()), True)
        return spread._pruned(SAMPLE // 8 if sample else CANDIDATES)

    def plus(self, other: Spread) -> Spread:
        """This spread and that of more rewards, together."""
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
        """Keep the ``most`` most common rewards, and subtract the largest dropped count from
        theirs."""
        if self.values.size <= most:
            return self
        least = np.partition(self.counts, -most - 1)[-most - 1]
        kept = self.counts > least
        counts = self.counts[kept] - least
        return self._replace(values=self.values[kept], counts=counts, exact=False)

    @property
    def common(self) -> float | None:
        """The most common reward, the smallest on a tie; None if very many rewards are about
        equally common."""
        if not self.values.size or (not self.exact and self.counts.max() < COMMON * self.size):
            return None
        return float(self.values[self.counts.argmax()])
