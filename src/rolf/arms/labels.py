"""Columns of arms' names, as numbers: one lookup per name, and not one per row."""

from __future__ import annotations

from typing import Any

import numpy as np

from rolf.arms.table import Arms
from rolf.errors import InvalidArgument
from rolf.tables.parts import Batch
from rolf.text import first_few
from rolf.types import IntArray


def rewarded(batch: Batch, reward: str) -> Batch:
    """The rows of a batch that have a reward."""
    column = batch.rows.column(reward)
    if not column.null_count:
        return batch
    valid = column.is_valid()
    return batch.filter(valid.combine_chunks() if hasattr(valid, "chunks") else valid)


class Coder:
    """Names as positions in a list of distinct names, which is the same one from batch to batch
    as long as it can be; with ``empty``, -1 where there is none, which else is an error."""

    def __init__(self, empty: bool = False) -> None:
        self._empty = empty
        self._dictionary: Any = None
        self._labels: list[str] = []

    def __call__(self, batch: Batch, name: str) -> tuple[IntArray, list[str]]:
        import pyarrow as pa

        column = batch.rows.column(name)
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # as older versions leave it
            column = pa.concat_arrays(column.chunks)
        if column.null_count and not self._empty:
            path, row = batch.where(int(np.argmin(column.is_valid().to_numpy(False))))
            raise InvalidArgument(f"{path}: {name}", f"nothing in row {row}", "an arm")
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        if self._dictionary is None or not column.dictionary.equals(self._dictionary):
            self._dictionary = column.dictionary
            self._labels = column.dictionary.cast(pa.string()).to_pylist()
        indices = column.indices.fill_null(-1) if column.null_count else column.indices
        return indices.to_numpy(zero_copy_only=False), self._labels


class Lookup:
    """Positions of arms in a table of arms, by their names as text; -1 for others."""

    def __init__(self, arms: Arms) -> None:
        self._known = {str(label): position for position, label in enumerate(arms.labels)}
        self._labels: list[str] | None = None
        self._table = np.zeros(0, dtype=np.int64)
        self.complete = True  # whether all labels of the last call are known

    def __call__(self, codes: IntArray, labels: list[str]) -> IntArray:
        if labels is not self._labels:
            self._labels = labels
            places = [self._known.get(label, -1) for label in labels]
            self._table = np.array(places, dtype=np.int64)
            self.complete = -1 not in places
        return self._table[codes]

    def some(self) -> str:
        """The first few names, in words."""
        return first_few(list(self._known))

    def check(self, positions: IntArray, batch: Batch, name: str) -> None:
        """Raise if a row of a batch, whose positions are these, has an arm that is unknown."""
        if not self.complete and positions.size and positions.min() < 0:
            row = int((positions < 0).argmax())
            path, number = batch.where(row)
            label = str(batch.rows.column(name)[row].as_py())
            expected = f"an arm of the features: there are rows for {self.some()}"
            raise InvalidArgument(f"{path}: {name}", f"{label!r} in row {number}", expected)
