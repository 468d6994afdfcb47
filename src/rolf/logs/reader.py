"""Decisions of a log, some at a time: from files or from memory, with arms as numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rolf.arms.labels import Coder, Lookup, rewarded
from rolf.arms.table import Arms
from rolf.errors import InvalidArgument
from rolf.tables.files import SLICE, numbers
from rolf.tables.parts import Batch, Part
from rolf.types import FloatArray, IntArray

#: the columns of a log: arm, reward, and the chance of the arm, which may be missing
OWN = ("arm", "reward", "probability")
OPEN_BANDIT = ("item_id", "click", "propensity_score")
AFFINITY = "user-item_affinity_"


class Contexts(NamedTuple):
    """The features of every round, without copies of those that never change."""

    fixed: FloatArray  # (K, d - m)
    moving: FloatArray  # (n, K, m)

    def table(self, round: int) -> FloatArray:
        """(K, d) features of one round."""
        return np.hstack([self.fixed, self.moving[round]])

    def rows(self, rounds: IntArray, arms: IntArray) -> FloatArray:
        """(n, d) features of one arm per round."""
        return np.hstack([self.fixed[arms], self.moving[rounds, arms]])

    def predictions(self, rounds: IntArray, theta: FloatArray) -> FloatArray:
        """(n, K): the features of some rounds times coefficients (d,)."""
        size = self.fixed.shape[1]
        out: FloatArray = self.fixed @ theta[:size] + self.moving[rounds] @ theta[size:]
        return out

    def typical(self) -> FloatArray:
        """(K, d): how large the features are, as root mean squares."""
        return np.hstack([self.fixed, np.sqrt(np.mean(self.moving**2, axis=0))])


def varying_features(columns: Iterable[str], arms: Arms) -> list[str]:
    """The features for which a log has a column ``x_<arm>_<feature>`` for every arm."""
    known, prefix = set(columns), f"x_{arms.labels[0]}_"
    names = [column.removeprefix(prefix) for column in columns if column.startswith(prefix)]
    return [name for name in names if all(f"x_{label}_{name}" in known for label in arms.labels)]


def contexts_of(columns: Mapping[str, FloatArray], arms: Arms, size: int) -> Contexts | None:
    """The features of ``size`` rounds: the fixed ones, then those of the log.

    A feature of the log replaces the fixed one of the same name. None if no feature of the log
    is there for all arms.
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


# --- parts ---------------------------------------------------------------------------------------


class Rows(NamedTuple):
    """Some decisions with rewards: the arm of each as a position in ``labels``, and the rest as in
    a ``Log``."""

    codes: IntArray
    labels: list[str]
    chances: FloatArray
    rewards: FloatArray
    columns: Mapping[str, FloatArray]
    defaults: IntArray | None = None  # 1 where the reward is a default
    batch: Batch | None = None  # from which they were read
    arm: str = "arm"  # the column of the arms there

    @property
    def size(self) -> int:
        return int(self.rewards.size)

    def slice(self, start: int, stop: int) -> Rows:
        """Only those from one to another."""
        return Rows(
            self.codes[start:stop],
            self.labels,
            self.chances[start:stop],
            self.rewards[start:stop],
            {name: values[start:stop] for name, values in self.columns.items()},
            None if self.defaults is None else self.defaults[start:stop],
            None if self.batch is None else self.batch.slice(start, stop),
            self.arm,
        )

    def positions(self, lookup: Lookup) -> IntArray:
        """The positions of the arms in a table."""
        out = lookup(self.codes, self.labels)
        if self.batch is not None:
            lookup.check(out, self.batch, self.arm)
        elif not lookup.complete and out.size and out.min() < 0:
            got = f"no row for arm {self.labels[self.codes[out.argmin()]]!r} of the log"
            expected = f"a row for every arm; there are rows for {lookup.some()}"
            raise InvalidArgument("features", got, expected)
        return out


class Layout(NamedTuple):
    """Which columns of a file are what."""

    arm: str
    reward: str
    probability: str | None
    default: str | None
    order: str | None
    features: Mapping[str, str]  # of the names in a ``Log``: those in the file

    @classmethod
    def of(cls, path: str | Path, names: Sequence[str]) -> tuple[Layout, bool]:
        """The layout of a file with these columns, and whether it is the Open Bandit Dataset's."""
        open_bandit = "arm" not in names and "item_id" in names
        arm, reward, probability = OPEN_BANDIT if open_bandit else OWN
        if missing := [name for name in (arm, reward) if name not in names]:
            raise InvalidArgument(
                f"{path}: columns",
                names,
                f"{', '.join(missing)} too: a log has {' and '.join(OWN[:2])}, "
                f"or, in the Open Bandit Dataset, {' and '.join(OPEN_BANDIT[:2])}",
            )
        features = {name: name for name in names if name.startswith("x_")}
        if open_bandit:
            items = [name.removeprefix(AFFINITY) for name in names if name.startswith(AFFINITY)]
            features = {f"x_{item}_affinity": f"{AFFINITY}{item}" for item in items}

        def known(name: str) -> str | None:
            return name if name in names else None

        order = known("timestamp" if open_bandit else "number")
        layout = cls(arm, reward, known(probability), known("is_default"), order, features)
        return layout, open_bandit

    def columns(self, features: bool) -> list[str]:
        """All of them; those of features only if they are wanted."""
        some = [self.arm, self.reward, self.probability, self.default]
        return [*(each for each in some if each), *(self.features.values() if features else ())]


class LogPart(NamedTuple):
    """A part of a log: rows of files, or of memory."""

    part: Part | None = None
    layout: Layout | None = None
    held: Rows | None = None

    def rows(self, start: int, stop: int, features: bool = False) -> Iterator[Rows]:
        """The decisions with rewards from one to another, some at a time; with the features of
        their rounds if these are wanted."""
        first = 0
        for rows in [self.held] if self.held is not None else self._read(features):
            low, high = max(start - first, 0), min(stop - first, rows.size)
            for each in range(low, high, SLICE):
                yield rows.slice(each, min(each + SLICE, high))
            first += rows.size
            if first >= stop:
                return

    def _read(self, features: bool) -> Iterator[Rows]:
        assert self.part is not None
        assert self.layout is not None
        coder = Coder()
        for batch in self.part.batches(self.layout.columns(features)):
            yield read_rows(batch, self.layout, coder, features)


def read_rows(batch: Batch, layout: Layout, coder: Coder, features: bool) -> Rows:
    """The decisions of a batch that have a reward; a bad value is named by its file and row."""
    batch = rewarded(batch, layout.reward)
    codes, labels = coder(batch, layout.arm)

    def column(name: str, optional: bool = False) -> FloatArray:
        return numbers(batch.rows, name, batch.where, optional=optional)

    if layout.probability is None:
        chances = np.full(batch.size, math.nan)
    else:
        chances = column(layout.probability, optional=True)
        if not (chances.min(initial=1.0) > 0.0 and chances.max(initial=1.0) <= 1.0):
            wrong = np.flatnonzero((chances <= 0.0) | (chances > 1.0))
            for row in wrong[:1].tolist():  # none if all are empty
                path, number = batch.where(row)
                got = f"{chances[row]:g} in row {number}"
                expected = "chances above 0 and at most 1"
                raise InvalidArgument(f"{path}: {layout.probability}", got, expected)
    defaults = None
    if layout.default is not None:
        defaults = _marked(batch.rows.column(layout.default))
    columns = {new: column(old) for new, old in layout.features.items()} if features else {}
    return Rows(codes, labels, chances, column(layout.reward), columns, defaults, batch, layout.arm)


def _marked(column: Any) -> IntArray:
    """1 where a column says yes."""
    import pyarrow as pa

    try:
        marks = column.cast(pa.bool_()).fill_null(False).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        marks = [bool(mark) for mark in column.to_pylist()]
    return np.asarray(marks, dtype=np.int64)
