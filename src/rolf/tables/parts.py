"""Tables in files that may be larger than memory: Parquet files, and folders of them.

A table is a sequence of parts, usually one row group of one file each. A part only refers to its
rows, so any process that can reach the file can read it, as a task. A CSV file is read whole, as
one part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rolf.checks import check_columns
from rolf.errors import InvalidArgument
from rolf.extras import require
from rolf.tables.cells import written_numbers
from rolf.tables.csv import read_csv
from rolf.tables.limits import (
    MAX_ROWS,
    check_bytes,
    reading_errors,
    table_errors,
)
from rolf.tables.parquet import SLICE, check_kinds, check_row_groups, is_parquet, is_text
from rolf.text import listed
from rolf.types import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa

#: the most rows of a part that are sorted in memory
MAX_SORTED = MAX_ROWS
#: bytes of a column to read ahead
BUFFER = 1 << 20
#: the most numbers read at a time
CELLS = 1 << 22


class Piece(NamedTuple):
    """A row group of a Parquet file; ``first`` is the index of its first row in the file."""

    path: str
    group: int
    first: int
    rows: int


class Batch(NamedTuple):
    """Some rows; for each, its file and its place in it, from 0."""

    paths: tuple[str, ...]
    files: Any  # (n,): index into paths; None if there is only one
    places: Any  # (n,): a range or an array
    rows: Any  # a pyarrow RecordBatch or Table

    @property
    def size(self) -> int:
        return len(self.places)

    def where(self, row: int) -> tuple[str, int]:
        """The file of a row, and its number there: from 1; the header of a CSV file is row 1."""
        path = self.paths[0 if self.files is None else int(self.files[row])]
        return path, int(self.places[row]) + (1 if is_parquet(path) else 2)

    def slice(self, start: int, stop: int) -> Batch:
        """The rows from ``start`` to ``stop``."""
        files = None if self.files is None else self.files[start:stop]
        rows = self.rows.slice(start, stop - start)
        return Batch(self.paths, files, self.places[start:stop], rows)

    def filter(self, mask: Any) -> Batch:
        """The rows selected by ``mask``, a PyArrow array."""
        kept = mask.to_numpy(zero_copy_only=False)
        files = None if self.files is None else self.files[kept]
        return Batch(self.paths, files, np.asarray(self.places)[kept], self.rows.filter(mask))


class TablePart(NamedTuple):
    """Row groups to read together, sorted by a column if one is named."""

    pieces: tuple[Piece, ...]
    order: str | None = None
    held: Any = None  # the whole table, for a CSV file

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """These columns of its rows, batch by batch; text in Parquet stays dictionary-encoded."""
        wanted = list(dict.fromkeys([*columns, *([self.order] if self.order else [])]))
        if self.held is not None:
            path = self.pieces[0].path
            batches = iter([Batch((path,), None, range(self.rows), self.held)])
        else:
            batches = (batch for piece in self.pieces for batch in _piece_batches(piece, wanted))
        if self.order is None:
            yield from batches
        elif self.rows > MAX_SORTED and self.held is None:
            yield from _in_order(batches, self.order)
        else:
            yield _sorted(list(batches), self.order)


class Stream:
    """A table in a file or a folder. Opening it reads only the files' metadata.

    Attributes:
        path: of the file or folder.
        names: the columns of all files together.
        metadata: key-value metadata of the first file.
    """

    def __init__(self, path: str | Path, text: Sequence[str] = ()) -> None:
        require("pyarrow", "reading a table from a file")
        self.path = Path(path)
        self._text = tuple(text)
        with reading_errors(self.path):
            folder = self.path.is_dir()
        self._files = parquet_files(self.path) if folder else [self.path]
        if not folder and not is_parquet(self.path):
            table = read_csv(path, text)
            check_columns(path, table.column_names)
            self._table: pa.Table | None = table
            self.names: list[str] = table.column_names
            schema = table.schema
            self.metadata: dict[bytes, bytes] = table.schema.metadata or {}
            self._footers: list[Any] = []
        else:
            self._table = None
            self._footers = [_footer(each) for each in self._files]
            schema = self._footers[0].schema.to_arrow_schema()
            every = (name for footer in self._footers for name in footer.schema.names)
            self.names = list(dict.fromkeys(every))
            self.metadata = self._footers[0].metadata or {}
        self._kinds = {field.name: field.type for field in schema}

    @cached_property
    def rows(self) -> int:
        """Number of rows."""
        if self._table is not None:
            return int(self._table.num_rows)
        return sum(footer.num_rows for footer in self._footers)

    def counts(self, name: str) -> bool:
        """Whether a column holds whole numbers."""
        import pyarrow as pa

        return name in self._kinds and pa.types.is_integer(self._kinds[name])

    def check_files(self, columns: Sequence[str]) -> None:
        """Raise if a file of a folder lacks one of these columns."""
        for path, footer in zip(self._files, self._footers, strict=False):
            if missing := [name for name in columns if name not in footer.schema.names]:
                got, wanted = footer.schema.names, f"{', '.join(missing)} too, as in other files"
                raise InvalidArgument(f"{path}: columns", got, wanted)

    def parts(self, order: str | None = None) -> list[TablePart]:
        """The parts, in the order of a column if one is named, else in the order of the files.

        Row groups whose values overlap become one part, which is sorted in memory.
        """
        if order is not None:
            self._check_order(order)
        if self._table is not None:
            return [TablePart((Piece(str(self.path), 0, 0, self.rows),), order, self._table)]
        pieces = [piece for pieces in self._pieces for piece in pieces if piece.rows]
        if order is None:
            return [TablePart((piece,)) for piece in pieces]
        spans = {piece: self._span(piece, order) for piece in pieces}
        if len(pieces) > 1 and any(span is None for span in spans.values()):
            return [self._sortable(pieces, order)]
        try:
            pieces.sort(key=lambda piece: spans[piece] or ())
        except TypeError:
            got, expected = "values that cannot be compared", "numbers, or times of one kind"
            raise InvalidArgument(f"{self.path}: {order}", got, expected) from None
        chains: list[list[Piece]] = []
        end: Any = None
        for piece in pieces:
            low, high = spans[piece] or (None, None)
            if chains and low < end:
                chains[-1].append(piece)
            else:
                chains.append([piece])
            end = high if end is None else max(end, high)
        return [self._sortable(chain, order) for chain in chains]

    def nulls(self, part: TablePart, column: str) -> int | None:
        """How many cells of a column are empty; None if the files do not say."""
        if part.held is not None:
            return int(part.held.column(column).null_count)
        counts = [self._statistics(piece, column) for piece in part.pieces]
        if any(each is None or not each.has_null_count for each in counts):
            return None
        return sum(int(each.null_count) for each in counts)

    @cached_property
    def _pieces(self) -> list[list[Piece]]:
        """The row groups of every file."""
        out = []
        for path, footer in zip(self._files, self._footers, strict=True):
            sizes = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
            starts = np.cumsum([0, *sizes]).tolist()
            out.append([Piece(str(path), i, starts[i], size) for i, size in enumerate(sizes)])
        return out

    def _check_order(self, order: str) -> None:
        """Raise unless a column holds numbers or times in every file: as text, 10 precedes 9."""
        import pyarrow as pa

        kinds = {self.path: self._kinds[order]} if self._table is not None else {}
        for path, footer in zip(self._files, self._footers, strict=False):
            if footer.num_rows:
                kinds[path] = footer.schema.to_arrow_schema().field(order).type
        for path, kind in kinds.items():
            if not (pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or kind == pa.null()):
                expected = "numbers or times, by which rows can be put in order"
                raise InvalidArgument(f"{path}: {order}", str(kind), expected)

    def _sortable(self, pieces: list[Piece], order: str) -> TablePart:
        part = TablePart(tuple(pieces), order)
        if part.rows > MAX_SORTED and len(pieces) > 1:
            got = f"{part.rows:,} rows in row groups whose values overlap"
            expected = f"rows in the order of this column, or nearly: at most {MAX_SORTED:,} rows "
            expected += "are sorted at a time"
            raise InvalidArgument(f"{self.path}: {order}", got, expected)
        return part

    def _statistics(self, piece: Piece, column: str) -> Any:
        """A row group's statistics for a column; None if the file has none."""
        footer = self._footers[self._places[piece.path]]
        return footer.row_group(piece.group).column(footer.schema.names.index(column)).statistics

    @cached_property
    def _places(self) -> dict[str, int]:
        return {str(path): place for place, path in enumerate(self._files)}

    def _span(self, piece: Piece, column: str) -> tuple[Any, Any] | None:
        """The smallest and the largest value of a column in a row group, ignoring empty cells."""
        stated = self._statistics(piece, column)
        exact = stated is not None and stated.has_min_max and stated.null_count == 0
        if exact and not isinstance(stated.min, bytes | str):  # these may be truncated
            return stated.min, stated.max
        from pyarrow import compute

        ends: list[Any] = []
        for batch in _piece_batches(piece, [column]):
            values = batch.rows.column(0)
            if values.null_count:
                return None
            both = compute.min_max(values)
            ends += [both["min"].as_py(), both["max"].as_py()]
        return min(ends), max(ends)


# --- columns ------------------------------------------------------------------------------------


def numbers(batch: Batch, name: str, *, optional: bool = False) -> FloatArray:
    """A column as numbers. An error shows the first cell that is not one, and lists all such rows.

    With ``optional``, cells may be empty; they become NaN.
    """
    import pyarrow as pa

    column = batch.rows.column(name)
    try:
        values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        values = written_numbers(column.to_pylist())
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()
    if np.isfinite(total):  # usually all are finite, and nothing has to be done
        return np.asarray(values, dtype=np.float64)
    bad_rows = np.flatnonzero(~np.isfinite(values))
    if optional:
        empty = column.is_null().to_numpy(zero_copy_only=False)[bad_rows]
        bad_rows = bad_rows[~empty]
    rows = [row for row in bad_rows.tolist() if not (optional and column[row].as_py() == "")]
    if rows:
        value = column[rows[0]].as_py()
        shown = "nothing" if value in (None, "") else repr(value)
        path = batch.where(rows[0])[0]
        places = [str(number) for file, number in map(batch.where, rows) if file == path]
        got = f"{shown} in row {listed(places)}"
        raise InvalidArgument(f"{path}: {name}", got, "a number in every row")
    return np.asarray(values, dtype=np.float64)


# --- files -------------------------------------------------------------------------------------


def parquet_files(folder: Path) -> list[Path]:
    """The Parquet files of a folder and its subfolders, ``part-2`` before ``part-10``."""
    files = [
        path
        for path in folder.rglob("*")
        if is_parquet(path)
        and path.is_file()
        and not any(name.startswith((".", "_")) for name in path.relative_to(folder).parts)
    ]
    if not files:
        raise InvalidArgument(f"{folder}", "no such file in this folder", "files of Parquet")
    return sorted(files, key=lambda path: _natural(str(path.relative_to(folder))))


def _natural(text: str) -> list[tuple[str, int]]:
    """A sort key that compares numbers within text by their size."""
    return [(words, int(number or 0)) for words, number in re.findall(r"([^0-9]*)([0-9]*)", text)]


def _footer(path: Path) -> Any:
    """The metadata of a Parquet file, checked."""
    from pyarrow import parquet

    with table_errors(path), parquet.ParquetFile(path) as file:
        check_row_groups(path, file.metadata)
        check_kinds(path, file.schema_arrow)
        check_columns(path, file.metadata.schema.names)
        return file.metadata


def _piece_batches(piece: Piece, columns: Sequence[str]) -> Iterator[Batch]:
    """The rows of a row group, batch by batch; text as dictionary codes."""
    from pyarrow import parquet

    with table_errors(piece.path):
        with parquet.ParquetFile(piece.path) as file:
            kinds = {field.name: field.type for field in file.schema_arrow}
            metadata = file.metadata
        texts = [name for name in columns if is_text(kinds[name])]
        with parquet.ParquetFile(
            piece.path,
            metadata=metadata,
            read_dictionary=texts,
            buffer_size=BUFFER,
            pre_buffer=False,
        ) as file:
            done = piece.first
            size = max(1, min(SLICE, CELLS // max(len(columns), 1)))
            for batch in file.iter_batches(
                size, row_groups=[piece.group], columns=list(columns), use_threads=False
            ):
                check_bytes(piece.path, batch.nbytes)
                places = range(done, done + batch.num_rows)
                done += batch.num_rows
                yield Batch((piece.path,), None, places, batch)


# --- order -------------------------------------------------------------------------------------


def _in_order(batches: Iterable[Batch], order: str) -> Iterator[Batch]:
    """Pass batches on, and raise if their rows are not in the order of a column."""
    last: Any = None
    for batch in batches:
        column = batch.rows.column(order)
        values = column.to_numpy(zero_copy_only=False)
        wrong = column.null_count or (values[1:] < values[:-1]).any()
        if wrong or (last is not None and values[0] < last):
            path, row = batch.where(-1)
            got = f"values that go back, or are missing, before row {row}"
            expected = f"the order of this column in a row group of more than {MAX_SORTED:,} rows"
            raise InvalidArgument(f"{path}: {order}", got, expected)
        last = values[-1]
        yield batch


def _sorted(batches: list[Batch], order: str) -> Batch:
    """All rows sorted by a column; the sort is stable."""
    import pyarrow as pa
    from pyarrow import compute

    paths = tuple(dict.fromkeys(path for batch in batches for path in batch.paths))
    files = np.concatenate([np.full(each.size, paths.index(each.paths[0])) for each in batches])
    places = np.concatenate([each.places for each in batches])
    tables = [each.rows for each in batches]
    if isinstance(tables[0], pa.RecordBatch):
        tables = [pa.Table.from_batches([each]) for each in tables]
        try:  # files may differ in types: integers here, floats or nothing there
            together = pa.concat_tables(tables, promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            got, expected = f"other types ({error})", f"those of {paths[0]}: their rows are mixed"
            raise InvalidArgument(f"{', '.join(paths[1:])}: columns", got, expected) from None
        tables = [together.unify_dictionaries()]
    (table,) = tables
    sorting = compute.sort_indices(table.column(order))  # stable, empty cells last
    indices = sorting.to_numpy()
    if (indices[1:] > indices[:-1]).all():
        return Batch(paths, files, places, table.combine_chunks())
    return Batch(paths, files[indices], places[indices], table.take(sorting).combine_chunks())
