"""Count, sum and sum of squares of the rewards per arm."""

from __future__ import annotations

import math

import numpy as np

from rolf.estimators.contract import ArmTotals

#: how much larger than the variance of the other rewards the square of a wrong reward may be for
#: subtracting it from sums to leave only negligible rounding errors
LARGEST_MISTAKE = 1e6


class RewardTotals:
    """Counts, sums and sums of squares per arm, of rewards minus the first one."""

    def __init__(self, arms: int) -> None:
        self.anchor: float | None = None
        self.counts: list[float] = [0.0] * arms
        self.sums: list[float] = [0.0] * arms
        self.squares: list[float] = [0.0] * arms

    def add(self, arm: int, reward: float, sign: float = 1.0) -> None:
        if self.anchor is None:
            self.anchor = reward
        value = reward - self.anchor
        self.counts[arm] += sign
        self.sums[arm] += sign * value
        self.squares[arm] += sign * value * value

    def add_totals(self, totals: ArmTotals) -> None:
        if self.anchor is None:
            self.anchor = totals.level
        step = totals.level - self.anchor
        moved = totals.squares + step * (2.0 * totals.sums + step * totals.counts)
        self.counts = (np.array(self.counts) + totals.counts).tolist()
        self.sums = (np.array(self.sums) + totals.sums + step * totals.counts).tolist()
        self.squares = (np.array(self.squares) + moved).tolist()

    def extend(self, arms: int) -> None:
        for values in (self.counts, self.sums, self.squares):
            values += [0.0] * arms

    def can_take_off(self, wrong: float, right: float) -> bool:
        """Whether sums and sums of squares keep their precision when a reward is replaced by
        another: neither of them, nor the first reward, is far from the other rewards."""
        count = math.fsum(self.counts) - 1.0
        if self.anchor is None or count < 1.0:
            return False
        away = wrong - self.anchor
        mean = (math.fsum(self.sums) - away) / count
        variance = (math.fsum(self.squares) - away * away) / count - mean * mean
        farthest = max(abs(away - mean), abs(right - self.anchor - mean), abs(mean))
        return farthest * farthest <= LARGEST_MISTAKE * variance
