"""Columns of names, such as those of arms, as integers: one lookup per name, not one per row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from rolf.errors import InvalidArgument
from rolf.tables.parts import Batch
from rolf.text import first_few, listed
from rolf.types import IntArray


class Coder:
    """A column of names as positions in a list of distinct names, shared by batches where
    possible."""

    def __init__(self) -> None:
        self._dictionary: Any = None
        self._labels: list[str] = []
        self._nameless = False  # whether a name is empty

    def __call__(self, batch: Batch, column: str) -> tuple[IntArray, list[str]]:
        import pyarrow as pa

        cells = batch.rows.column(column)
        if isinstance(cells, pa.ChunkedArray):
            cells = cells.combine_chunks()
        if isinstance(cells, pa.ChunkedArray):  # older versions leave it chunked
            cells = pa.concat_arrays(cells.chunks)
        if cells.null_count:
            _refuse_empty(batch, column, ~cells.is_valid().to_numpy(False))
        if not pa.types.is_dictionary(cells.type):
            cells = cells.dictionary_encode()
        if self._dictionary is None or not cells.dictionary.equals(self._dictionary):
            self._dictionary = cells.dictionary
            self._labels = cells.dictionary.cast(pa.string()).to_pylist()
            self._nameless = "" in self._labels
        codes = cells.indices.to_numpy(zero_copy_only=False)
        if self._nameless:
            _refuse_empty(batch, column, codes == self._labels.index(""))
        return codes, self._labels


def _refuse_empty(batch: Batch, column: str, empty: Any) -> None:
    """Raise if cells have no name, and list the rows of the first file with such cells."""
    rows = [batch.where(row) for row in np.flatnonzero(empty).tolist()]
    if rows:
        path = rows[0][0]
        numbers = listed([str(number) for file, number in rows if file == path])
        wanted = "a name in every row"
        raise InvalidArgument(f"{path}: {column}", f"nothing in row {numbers}", wanted)


class Lookup:
    """Positions of labels among known ones, as text; -1 for unknown ones."""

    def __init__(self, known: Iterable[Any]) -> None:
        self._known = {str(label): position for position, label in enumerate(known)}
        self._labels: list[str] | None = None
        self._table = np.zeros(0, dtype=np.int64)
        self.complete = True  # whether the last call knew all labels

    def __call__(self, codes: IntArray, labels: list[str]) -> IntArray:
        if labels is not self._labels:
            self._labels = labels
            places = [self._known.get(label, -1) for label in labels]
            self._table = np.array(places, dtype=np.int64)
            self.complete = -1 not in places
        return self._table[codes]

    def examples(self) -> str:
        """The first few known labels, in words."""
        return first_few(list(self._known))
