"""Statistics of numbers that do not fit in memory, added part by part in a fixed order."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rolf.extras import require
from rolf.types import FloatArray

#: size of the quantile sketches: quantiles are exact up to about this many runs; beyond, their rank
#: is within 0.14% of the requested one with 99% confidence
SKETCH = 2048


class RunMoments:
    """Count, mean, and sums of squares around the mean; with ``products``, of products too.

    Parts are merged by the formula of Chan, Golub and LeVeque, which avoids cancellation.
    """

    def __init__(self, size: int, *, products: bool = False) -> None:
        self.count = 0
        self.mean: FloatArray = np.zeros(size)
        self.squares: FloatArray = np.zeros((size, size) if products else size)
        self._products = products

    def add(self, values: FloatArray) -> None:
        """Add rows (n, size)."""
        count = values.shape[0]
        if count == 0:
            return
        mean = values.mean(axis=0)
        shift, total = mean - self.mean, self.count + count
        self.squares += self._sum(values - mean)
        self.squares += self._sum(shift[None, :]) * (self.count * count / total)
        self.mean += shift * (count / total)
        self.count = total

    def _sum(self, centred: FloatArray) -> FloatArray:
        out: FloatArray = centred.T @ centred if self._products else (centred**2).sum(axis=0)
        return out

    @property
    def variance(self) -> FloatArray:
        """The variance, or the covariance with ``products``; zeros for a single row."""
        return self.squares / max(self.count - 1, 1)


class Statistics(NamedTuple):
    """Regret of a cell's runs after some rounds: arrays with one number per round."""

    rounds: FloatArray
    runs: int
    mean: FloatArray
    std: FloatArray
    min: FloatArray
    max: FloatArray
    sketches: list[Any]

    @property
    def stderr(self) -> FloatArray:
        out: FloatArray = self.std / max(self.runs, 1) ** 0.5
        return out

    def quantile(self, share: float) -> FloatArray:
        """The smallest regret that a share ``share`` of the runs does not exceed, per round."""
        return np.array([sketch.get_quantile(share, True) for sketch in self.sketches])


class Collector:
    """Gathers the statistics of a cell, part by part."""

    def __init__(self, rounds: Any) -> None:
        require("datasketches", "quantiles of a sweep")
        from datasketches import kll_doubles_sketch

        self.rounds = rounds
        self.moments = RunMoments(len(rounds))
        self.min, self.max = np.full(len(rounds), np.inf), np.full(len(rounds), -np.inf)
        self.sketches = [kll_doubles_sketch(SKETCH) for _ in rounds]

    def add(self, values: FloatArray) -> None:
        """Add the regret (runs, rounds) of some runs."""
        if values.shape[0] == 0:
            return
        self.moments.add(values)
        self.min = np.minimum(self.min, values.min(axis=0))
        self.max = np.maximum(self.max, values.max(axis=0))
        for column, sketch in zip(values.T, self.sketches, strict=True):
            sketch.update(np.ascontiguousarray(column))

    def statistics(self) -> Statistics:
        std = np.sqrt(self.moments.variance)
        count, mean = self.moments.count, self.moments.mean
        return Statistics(self.rounds, count, mean, std, self.min, self.max, self.sketches)
