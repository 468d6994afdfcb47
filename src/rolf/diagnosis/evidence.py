"""What a diagnosis takes from a log: a few numbers per arm, additive over the parts of the log.

Moments about the mean are combined by the formulas of Chan et al. and Pebay: for two sets of sizes
n and m, with N = n + m and d = (mean of the second) - (mean of the first),

    M2 = M2' + M2'' + d^2 n m/N
    M3 = M3' + M3'' + d^3 n m (n - m)/N^2 + 3 d (n M2'' - m M2')/N
    M4 = M4' + M4'' + d^4 n m (n^2 - n m + m^2)/N^3 + 6 d^2 (n^2 M2'' + m^2 M2')/N^2
         + 4 d (n M3'' - m M3')/N

Fourth powers of rewards around 1e80 overflow, and around 1e-90 they underflow to zero; such rewards
are measured in units that are powers of two, which changes no digits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rolf.diagnosis.lack_of_fit import ArmSummary
from rolf.types import FloatArray, IntArray

#: rewards between these powers of two in size are measured in units of 1
ORDINARY = (-100, 100)
LEAST = -900


def unit_of(size: float) -> float:
    """The unit for rewards up to this size."""
    exponent = math.frexp(size)[1] if size else LEAST
    low, high = ORDINARY
    return 1.0 if low <= exponent <= high else math.ldexp(1.0, max(exponent, LEAST))


class ProbabilityRange(NamedTuple):
    """The largest and the smallest probability with which each arm was chosen (K,)."""

    most: FloatArray
    least: FloatArray

    @classmethod
    def of(cls, positions: IntArray, probabilities: FloatArray, arms: int) -> ProbabilityRange:
        most, least = np.zeros(arms), np.full(arms, np.inf)
        np.maximum.at(most, positions, probabilities)
        np.minimum.at(least, positions, probabilities)
        return cls(most, least)

    def plus(self, other: ProbabilityRange) -> ProbabilityRange:
        return ProbabilityRange(
            np.maximum(self.most, other.most), np.minimum(self.least, other.least)
        )

    @property
    def at_random(self) -> bool:
        """Whether every arm always had the same probability, as parts of one whole.

        A deterministic policy logs 1 each time; with more than one arm, that sums to more than a
        whole.
        """
        played = self.most > 0.0
        same = np.allclose(self.most[played], self.least[played], rtol=1e-6, atol=0.0)
        return bool(same and self.most.sum() <= 1.0 + 1e-6)


class Evidence(NamedTuple):
    """Rewards per arm (K,): their number, their mean less ``level``, and the sums of the second,
    third and fourth powers of their deviations from it, all in ``unit``; the smallest and the
    largest reward, and whether all are 0 or 1."""

    level: float
    counts: FloatArray
    means: FloatArray
    m2: FloatArray
    m3: FloatArray
    m4: FloatArray
    low: float
    high: float
    clicks: bool
    probabilities: ProbabilityRange | None = None  # None if any is unknown
    unit: float = 1.0

    @classmethod
    def of(
        cls,
        positions: IntArray,
        rewards: FloatArray,
        arms: int,
        level: float,
        probabilities: FloatArray | None = None,
    ) -> Evidence:
        """From some rewards; a level close to them preserves digits."""
        counts = np.bincount(positions, minlength=arms).astype(np.float64)
        low, high = float(rewards.min()), float(rewards.max())
        unit = unit_of(max(-low, high, abs(level)))
        shifted = (rewards - level) / unit
        means = np.bincount(positions, shifted, arms) / np.maximum(counts, 1.0)
        residuals = shifted - means[positions]
        squares = residuals * residuals
        m2, m3, m4 = (
            np.bincount(positions, each, arms).astype(np.float64)
            for each in (squares, squares * residuals, squares * squares)
        )
        clicks = low >= 0.0 and high <= 1.0 and bool(((rewards == 0.0) | (rewards == 1.0)).all())
        known = (
            None if probabilities is None else ProbabilityRange.of(positions, probabilities, arms)
        )
        return cls(level, counts, means, m2, m3, m4, low, high, clicks, known, unit)

    def _in(self, unit: float) -> Evidence:
        """The same in this unit, which must not be smaller."""
        ratio = self.unit / unit
        return self._replace(
            means=self.means * ratio,
            m2=self.m2 * ratio**2,
            m3=self.m3 * ratio**3,
            m4=self.m4 * ratio**4,
            unit=unit,
        )

    def plus(self, other: Evidence) -> Evidence:
        """This evidence plus that of more rewards, less the same level."""
        unit = max(self.unit, other.unit)
        if self.unit != other.unit:
            return self._in(unit).plus(other._in(unit))
        n, m = self.counts, other.counts
        total = np.maximum(n + m, 1.0)
        d = np.where((n > 0.0) & (m > 0.0), other.means - self.means, 0.0)
        both = d * n * m / total
        probabilities = None
        if self.probabilities is not None and other.probabilities is not None:
            probabilities = self.probabilities.plus(other.probabilities)
        return Evidence(
            self.level,
            n + m,
            (n * self.means + m * other.means) / total,
            self.m2 + other.m2 + d * both,
            self.m3
            + other.m3
            + d * d * both * (n - m) / total
            + 3.0 * d * (n * other.m2 - m * self.m2) / total,
            self.m4
            + other.m4
            + d**3 * both * (n * n - n * m + m * m) / total**2
            + 6.0 * d * d * (n * n * other.m2 + m * m * self.m2) / total**2
            + 4.0 * d * (n * other.m3 - m * self.m3) / total,
            min(self.low, other.low),
            max(self.high, other.high),
            self.clicks and other.clicks,
            probabilities,
            unit,
        )

    @property
    def played(self) -> IntArray:
        """The positions of the arms that have a reward."""
        return np.flatnonzero(self.counts)

    def summary(self) -> ArmSummary:
        """The ``ArmSummary`` of the arms that have a reward, in their order and in ``unit``."""
        counts, played = self.counts, self.counts > 0.0
        level, low, high = (each / self.unit for each in (self.level, self.low, self.high))
        centre = level + float(counts @ self.means) / float(counts.sum())
        variances = self.m2 / np.maximum(counts - 1.0, 1.0)
        # Rewards that never vary within an arm still carry rounding errors; a variance of exactly 0
        # would make every difference certain.
        largest = max(high - centre, centre - low)
        digits = max(1e-9 * largest, 1e-13 * abs(centre))
        within = float((counts - 1.0)[played] @ variances[played])
        if within <= (counts.sum() - played.sum()) * digits**2:
            variances[counts > 1.0] = digits**2
        means = self.means + level
        return ArmSummary(counts[played], means[played], variances[played], self.m4[played])
