"""The decisions of a log, batch by batch, from files or memory, with arms as integers.

Arms, rewards and probabilities are checked here; errors name the file and its rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from rolf.errors import InvalidArgument
from rolf.logs.layout import Layout
from rolf.tables.labels import Coder, Lookup
from rolf.tables.parquet import SLICE
from rolf.tables.parts import Batch, TablePart, numbers
from rolf.types import FloatArray, IntArray


class Decisions(NamedTuple):
    """Some decisions with rewards. Arms are positions in ``labels``; the rest is as in a
    ``Log``."""

    codes: IntArray
    labels: list[str]
    probabilities: FloatArray
    rewards: FloatArray
    columns: Mapping[str, FloatArray]
    defaults: IntArray | None = None  # 1 where the reward is a default
    batch: Batch | None = None  # the rows they were read from
    arm: str = "arm"  # its column of arms
    rows: int = 0  # how many rows were read, with and without a reward

    @property
    def size(self) -> int:
        return int(self.rewards.size)

    def slice(self, start: int, stop: int) -> Decisions:
        """The decisions from ``start`` to ``stop``."""
        return Decisions(
            self.codes[start:stop],
            self.labels,
            self.probabilities[start:stop],
            self.rewards[start:stop],
            {name: values[start:stop] for name, values in self.columns.items()},
            None if self.defaults is None else self.defaults[start:stop],
            None if self.batch is None else self.batch.slice(start, stop),
            self.arm,
        )

    def positions(self, lookup: Lookup) -> IntArray:
        """The positions of the arms in a table; raises if one is not in it."""
        positions = lookup(self.codes, self.labels)
        if lookup.complete or not positions.size or positions.min() >= 0:
            return positions
        row = int((positions < 0).argmax())
        label = self.labels[self.codes[row]]
        if self.batch is None:
            got = f"no row for arm {label!r} of the log"
            wanted = f"a row for every arm; there are rows for {lookup.examples()}"
            raise InvalidArgument("features", got, wanted)
        path, number = self.batch.where(row)
        wanted = f"an arm of the features: there are rows for {lookup.examples()}"
        raise InvalidArgument(f"{path}: {self.arm}", f"{label!r} in row {number}", wanted)


class LogPart(NamedTuple):
    """A part of a log: rows of files, or of memory."""

    part: TablePart | None = None
    layout: Layout | None = None
    held: Decisions | None = None

    def batches(self, features: bool = False) -> Iterator[Decisions]:
        """Read its decisions with rewards, batch by batch, optionally with the features of their
        rounds."""
        if self.held is not None:
            yield self.held
            return
        assert self.part is not None
        assert self.layout is not None
        coder = Coder()
        for batch in self.part.batches(self.layout.columns(features)):
            yield read_decisions(batch, self.layout, coder, features)

    def decisions(self, start: int, stop: int, features: bool = False) -> Iterator[Decisions]:
        """Its decisions with rewards from ``start`` to ``stop``, at most ``SLICE`` at a time."""
        first = 0
        for batch in self.batches(features):
            low, high = max(start - first, 0), min(stop - first, batch.size)
            for each in range(low, high, SLICE):
                yield batch.slice(each, min(each + SLICE, high))
            first += batch.size
            if first >= stop:
                return


def read_decisions(batch: Batch, layout: Layout, coder: Coder, features: bool) -> Decisions:
    """The decisions in a batch that have a reward."""
    rows = batch.size
    if not layout.complete:
        batch = _rewarded(batch, layout.reward)
    codes, labels = coder(batch, layout.arm)
    rewards = numbers(batch, layout.reward)
    if layout.probability is None:
        probabilities = np.broadcast_to(math.nan, batch.size)  # takes no memory
    else:
        probabilities = numbers(batch, layout.probability, optional=not layout.certain)
        _check_probabilities(probabilities, batch, layout.probability)
    defaults = None
    if layout.default is not None:
        defaults = _marked(batch.rows.column(layout.default))
    columns = {}
    if features:
        columns = {new: numbers(batch, old) for new, old in layout.features.items()}
    return Decisions(
        codes, labels, probabilities, rewards, columns, defaults, batch, layout.arm, rows
    )


def _rewarded(batch: Batch, reward: str) -> Batch:
    """The rows of a batch that have a reward."""
    column = batch.rows.column(reward)
    if not column.null_count:
        return batch
    valid = column.is_valid()
    return batch.filter(valid.combine_chunks() if hasattr(valid, "chunks") else valid)


def wrong_probabilities(values: FloatArray) -> IntArray:
    """Where probabilities are not in (0, 1]; unknown ones are NaN and pass."""
    if values.min(initial=1.0) > 0.0 and values.max(initial=1.0) <= 1.0:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero((values <= 0.0) | (values > 1.0))


PROBABILITIES = "probabilities above 0 and at most 1"


def _check_probabilities(values: FloatArray, batch: Batch, column: str) -> None:
    for row in wrong_probabilities(values)[:1].tolist():
        path, number = batch.where(row)
        got = f"{values[row]:g} in row {number}"
        raise InvalidArgument(f"{path}: {column}", got, PROBABILITIES)


def _marked(column: Any) -> IntArray:
    """1 where a column says yes."""
    import pyarrow as pa

    try:
        marks = column.cast(pa.bool_()).fill_null(False).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        marks = [bool(mark) for mark in column.to_pylist()]
    return np.asarray(marks, dtype=np.int64)
