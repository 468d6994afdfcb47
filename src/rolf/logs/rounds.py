"""The features of a log's rounds, where they vary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from rolf.arms.table import Arms
from rolf.types import FloatArray, IntArray


class Contexts(NamedTuple):
    """The features of every round, without copies of the constant ones."""

    fixed: FloatArray  # (K, d - m)
    moving: FloatArray  # (n, K, m)

    def table(self, round: int) -> FloatArray:
        """(K, d) features of one round."""
        return np.hstack([self.fixed, self.moving[round]])

    def rows(self, rounds: IntArray, arms: IntArray) -> FloatArray:
        """(n, d) features, of one arm per round."""
        return np.hstack([self.fixed[arms], self.moving[rounds, arms]])

    def predictions(self, rounds: IntArray, theta: FloatArray) -> FloatArray:
        """(n, K): features of some rounds times coefficients (d,)."""
        size = self.fixed.shape[1]
        out: FloatArray = self.fixed @ theta[:size] + self.moving[rounds] @ theta[size:]
        return out

    def typical(self) -> FloatArray:
        """(K, d): how large the features are, as root mean squares."""
        return np.hstack([self.fixed, np.sqrt(np.mean(self.moving**2, axis=0))])


def varying_features(columns: Iterable[str], arms: Arms) -> list[str]:
    """The features with a column ``x_<arm>_<feature>`` for every arm."""
    known, prefix = set(columns), f"x_{arms.labels[0]}_"
    names = [column.removeprefix(prefix) for column in columns if column.startswith(prefix)]
    return [name for name in names if all(f"x_{label}_{name}" in known for label in arms.labels)]


def contexts_of(columns: Mapping[str, FloatArray], arms: Arms, size: int) -> Contexts | None:
    """The features of ``size`` rounds: the fixed ones, then the log's.

    A feature in the log replaces the fixed one of the same name. None if the log has no
    feature for all arms.
    """
    names = varying_features(columns, arms)
    if not names:
        return None
    kept = [place for place, column in enumerate(arms.columns) if column not in names]
    moving = np.empty((size, arms.count, len(names)))
    for place, name in enumerate(names):
        for arm, label in enumerate(arms.labels):
            moving[:, arm, place] = columns[f"x_{label}_{name}"]
    return Contexts(arms.features[:, kept], moving)
