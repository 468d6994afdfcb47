"""Read tables from files: Parquet if the name ends so, else CSV.

A small file can be written so that it fills the memory once it is read. So what it will take is
estimated before, and counted while it is read.
"""

from __future__ import annotations

import codecs
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rolf.errors import InvalidArgument, RolfError
from rolf.extras import require
from rolf.tables.cells import amount, decimal_mark, number
from rolf.tables.csv import SEPARATORS, Layout, find_layout, open_bytes
from rolf.text import HARMLESS, as_written, harmless, listed
from rolf.types import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET = (".parquet", ".pq")
#: the largest table that is read
MAX_ROWS, MAX_COLUMNS = 20_000_000, 100_000
#: what a table may take in memory: this much, or, as a log of ten million decisions takes more,
#: this many times the size of its file; but never more than the largest
FREE_BYTES, TIMES_FILE, MAX_BYTES = 100_000_000, 100, 16_000_000_000
#: bytes that stand for nothing in Windows' form of Latin-1
NOT_WINDOWS = b"\x81\x8d\x8f\x90\x9d"
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
#: bytes of CSV that are looked at, and rows of Parquet that are read, at a time
BLOCK, BATCH = 1 << 22, 1 << 16
#: rows that are worked on at a time, so few that a column of them stays close to the processor
SLICE = 1 << 16


def read_table(path: str | Path, text: Sequence[str] = ()) -> pa.Table:
    """Read a table; the columns named in ``text`` are kept as text, as written."""
    require("pyarrow", "reading a table from a file")
    source = Path(path)
    with table_errors(source):
        source.open("rb").close()
        table = _read_parquet(source) if is_parquet(source) else _read_csv(source, text)
        return _as_text(table, text)


def is_parquet(path: str | Path) -> bool:
    """Whether a file is Parquet, by its name."""
    return Path(path).suffix.lower() in PARQUET


@contextmanager
def table_errors(path: str | Path) -> Iterator[None]:
    """Say of which file it is that it is no table, or cannot be read."""
    import pyarrow as pa

    try:
        with reading_errors(Path(path)):
            yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise RolfError(f"{path}: is neither CSV nor Parquet ({error})") from None


@contextmanager
def reading_errors(path: Path) -> Iterator[None]:
    """Say of which file it is that it cannot be read."""
    try:
        yield
    except OSError as error:
        raise RolfError(f"{path}: cannot be read ({error.strerror or error})") from None


def check_parquet(path: str | Path) -> None:
    """Raise if a Parquet file says that its table is too large to be read."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        _check_metadata(path, file.metadata)


def _allowance(path: str | Path) -> int:
    """How many bytes the table of a file may take."""
    return min(MAX_BYTES, max(FREE_BYTES, TIMES_FILE * os.path.getsize(path)))


def _check_size(path: str | Path, rows: int, columns: int) -> None:
    if rows > MAX_ROWS:
        raise InvalidArgument(str(path), f"{rows:,} rows or more", f"at most {MAX_ROWS:,} rows")
    if columns > MAX_COLUMNS:
        wanted = f"at most {MAX_COLUMNS:,} columns"
        raise InvalidArgument(str(path), f"{columns:,} columns or more", wanted)


def check_bytes(path: str | Path, count: int) -> None:
    """Raise if rows take more memory than those of a file of this size may."""
    if count > _allowance(path):
        wanted = f"a table of at most {_allowance(path):,} bytes, for a file of this size"
        raise InvalidArgument(str(path), f"{count:,} bytes or more", wanted)


# --- Parquet -----------------------------------------------------------------------------------


def _read_parquet(path: Path) -> pa.Table:
    """A Parquet file, row by row until it is too large.

    Text is read as it is stored, as numbers of the entries of a dictionary: a single long entry
    may stand in every row.
    """
    import pyarrow as pa
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        _check_metadata(path, file.metadata)
        schema = file.schema_arrow
        check_kinds(path, schema)
        texts = [each.name for each in schema if is_text(each.type)]
    with parquet.ParquetFile(path, read_dictionary=texts) as file:
        batches, size = [], 0
        for batch in file.iter_batches(BATCH):
            size += sum(_decoded_size(column) for column in batch.columns)
            check_bytes(path, size)
            batches.append(_without_dictionaries(batch))
        nothing = _without_dictionaries(file.schema_arrow.empty_table())
    table = pa.Table.from_batches(batches) if batches else nothing
    return table.replace_schema_metadata(schema.metadata)


def _without_dictionaries(rows: Any) -> Any:
    """Rows with text in the place of numbers of texts."""
    import pyarrow as pa

    for i, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            column = rows.column(i).cast(field.type.value_type)
            rows = rows.set_column(i, field.name, column)
    return rows


def _check_metadata(path: str | Path, metadata: Any) -> None:
    _check_size(path, metadata.num_rows, metadata.num_columns)
    groups = [_group_size(metadata.row_group(group)) for group in range(metadata.num_row_groups)]
    stored, cells = map(sum, zip(*groups, (0, 0), strict=True))
    check_bytes(path, max(stored, 8 * max(cells, metadata.num_rows)))


def check_row_groups(path: str | Path, metadata: Any) -> None:
    """Raise if a Parquet file says that it cannot even be read one row group at a time."""
    _check_size(path, 0, metadata.num_columns)
    for group in range(metadata.num_row_groups):
        check_bytes(path, _group_size(metadata.row_group(group))[0])


def _group_size(group: Any) -> tuple[int, int]:
    """Bytes of a row group as it is stored, once it is unpacked, and the number of its cells."""
    columns = [group.column(i) for i in range(group.num_columns)]
    stored = sum(column.total_uncompressed_size for column in columns)
    return stored, sum(column.num_values for column in columns)


def check_kinds(path: str | Path, schema: Any) -> None:
    """Raise if a column holds anything but numbers and text."""
    import pyarrow as pa

    for field in schema:
        if pa.types.is_nested(field.type):
            expected = "columns of numbers or text"
            raise InvalidArgument(f"{path}: {field.name}", str(field.type), expected)


def is_text(kind: Any) -> bool:
    """Whether a type of PyArrow's is that of text."""
    import pyarrow as pa

    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
    )


def _decoded_size(column: Any) -> int:
    """Bytes that a column takes once the entries of its dictionary stand in its rows."""
    import pyarrow as pa
    from pyarrow import compute

    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    if not is_text(column.type.value_type):
        return 16 * len(column)
    lengths = compute.binary_length(column.dictionary).take(column.indices)
    return 8 * len(column) + int(compute.sum(lengths).as_py() or 0)


# --- CSV ---------------------------------------------------------------------------------------


def _read_csv(path: Path, text: Sequence[str]) -> pa.Table:
    import pyarrow as pa
    from pyarrow import compute, csv

    layout = check_csv(path)
    types = dict.fromkeys((*text, *map(harmless, text)), pa.string())
    table = csv.read_csv(
        path,
        read_options=csv.ReadOptions(
            encoding=layout.encoding.replace("utf-8-sig", "utf8"), skip_rows=layout.first_line
        ),
        parse_options=csv.ParseOptions(delimiter=layout.separator),
        convert_options=csv.ConvertOptions(column_types=types, decimal_point=layout.mark),
    )
    for i, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            values = compute.replace_substring_regex(table.column(i), HARMLESS, r"\1")
            table = table.set_column(i, field.name, values)
    return table.rename_columns([as_written(each) for each in table.column_names])


def check_csv(path: Path) -> Layout:
    """The layout of a CSV file.

    One that is too large is refused, also one that only becomes so when it is unpacked.
    """
    size = lines = columns = 0
    start, decoder = b"", codecs.getincrementaldecoder("utf-8")()
    utf8 = windows = True
    with open_bytes(path) as stream:
        while block := stream.read(BLOCK):
            if not size:
                start = block
                header = re.split(rb"[\r\n]", block, maxsplit=1)[0]
                columns = max(header.count(mark.encode()) for mark in SEPARATORS)
            lines += max(block.count(b"\n"), block.count(b"\r"))
            size += len(block)
            _check_size(path, lines - 1, columns + 1)
            check_bytes(path, size)
            utf8 = utf8 and _fits(decoder, block)
            windows = windows and block.translate(None, NOT_WINDOWS) == block
            if b"\0" in block and not start.startswith(UTF16):
                raise RolfError(f"{path}: is neither CSV nor Parquet (it is no text)")
    if start.startswith(UTF16):
        return find_layout(start, "utf-16")
    if utf8 and _fits(decoder, b"", final=True):
        return find_layout(start, "utf-8-sig")
    return find_layout(start, "cp1252" if windows else "latin-1")


def _fits(decoder: codecs.IncrementalDecoder, block: bytes, final: bool = False) -> bool:
    try:
        decoder.decode(block, final)
    except UnicodeDecodeError:
        return False
    return True


# --- columns -----------------------------------------------------------------------------------


def _as_text(table: pa.Table, text: Sequence[str]) -> pa.Table:
    import pyarrow as pa

    for i, name in enumerate(table.column_names):
        if name in text and table.column(i).type != pa.string():
            table = table.set_column(i, name, table.column(i).cast(pa.string()))
    return table


def check_columns(source: str | Path, columns: Sequence[str]) -> None:
    """Raise if two columns of a table have one name."""
    if twice := [name for name, count in Counter(columns).items() if count > 1]:
        raise InvalidArgument(f"{source}: columns", f"{listed(twice)} twice", "each column once")


def numbers(
    rows: Any, name: str, where: Callable[[int], tuple[str, int]], *, optional: bool = False
) -> FloatArray:
    """A column of a table or batch as numbers; an error names the first that is none.

    ``where`` says from which file a row is, and its number there. With ``optional``, cells may be
    empty; they become NaN.
    """
    import pyarrow as pa

    column = rows.column(name)
    try:
        values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        values = written_numbers(column.to_pylist())
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()
    if np.isfinite(total):  # as it is, as a rule, if all of them are
        return np.asarray(values, dtype=np.float64)
    bad_rows = np.flatnonzero(~np.isfinite(values))
    if optional:
        empty = column.is_null().to_numpy(zero_copy_only=False)[bad_rows]
        bad_rows = bad_rows[~empty]
    for row in bad_rows.tolist():
        if optional and column[row].as_py() == "":
            continue
        value = column[row].as_py()
        shown = "nothing" if value in (None, "") else repr(value)
        path, number = where(row)
        got = f"{shown} in row {number}"
        raise InvalidArgument(f"{path}: {name}", got, "a number in every row")
    return np.asarray(values, dtype=np.float64)


def written_numbers(values: Sequence[Any]) -> FloatArray:
    """Numbers with a decimal point or, if more of them fit it, a decimal comma."""
    amounts = [None if value is None else amount(value) for value in values]
    digits = [each[0] for each in amounts if each is not None]
    mark = decimal_mark(digits, ".")
    plain = [math.nan if each is None or each[1] else number(each[0], mark) for each in amounts]
    return np.array(plain, dtype=np.float64)
