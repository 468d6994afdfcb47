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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rolf.arms.delimited import SEPARATORS, Layout, find_layout, open_bytes
from rolf.arms.parsing import amount, decimal_mark, number
from rolf.errors import InvalidArgument, RolfError
from rolf.extras import require
from rolf.text import HARMLESS, as_written, harmless
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


def read_table(path: str | Path, text: Sequence[str] = ()) -> pa.Table:
    """Read a table; the columns named in ``text`` are kept as text, as written."""
    require("pyarrow", "reading a table from a file")
    import pyarrow as pa

    source = Path(path)
    try:
        with reading_errors(source):
            source.open("rb").close()
            parquet = source.suffix.lower() in PARQUET
            table = _read_parquet(source) if parquet else _read_csv(source, text)
            return _as_text(table, text)
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


def _check_bytes(path: str | Path, count: int) -> None:
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
        for field in schema:
            if pa.types.is_nested(field.type):
                expected = "columns of numbers or text"
                raise InvalidArgument(f"{path}: {field.name}", str(field.type), expected)
        texts = [each.name for each in schema if _is_text(each.type)]
    with parquet.ParquetFile(path, read_dictionary=texts) as file:
        batches, size = [], 0
        for batch in file.iter_batches(BATCH):
            size += sum(_decoded_size(column) for column in batch.columns)
            _check_bytes(path, size)
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
    stored = cells = 0
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for i in range(row_group.num_columns):
            chunk = row_group.column(i)
            stored += chunk.total_uncompressed_size
            cells += chunk.num_values
    _check_bytes(path, max(stored, 8 * max(cells, metadata.num_rows)))


def _is_text(kind: Any) -> bool:
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
    if not _is_text(column.type.value_type):
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
            _check_bytes(path, size)
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
        raise InvalidArgument(f"{source}: columns", f"{twice[0]} twice", "each column once")


def numbers(path: str | Path, table: pa.Table, name: str, *, optional: bool = False) -> FloatArray:
    """A column as numbers; an error names the first value that is not a number.

    With ``optional``, cells may be empty; they become NaN.
    """
    import pyarrow as pa

    column = table.column(name)
    try:
        values = np.array(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        values = written_numbers(column.to_pylist())
    bad_rows = np.flatnonzero(~np.isfinite(values)).tolist()
    if optional:
        bad_rows = [row for row in bad_rows if column[row].as_py() not in (None, "")]
    if bad_rows:
        row = bad_rows[0]
        value = column[row].as_py()
        shown = "nothing" if value in (None, "") else repr(value)
        raise InvalidArgument(f"{path}: {name}", f"{shown} in row {row}", "a number in every row")
    return values


def written_numbers(values: Sequence[Any]) -> FloatArray:
    """Numbers with a decimal point or, if more of them fit it, a decimal comma."""
    amounts = [None if value is None else amount(value) for value in values]
    digits = [each[0] for each in amounts if each is not None]
    mark = decimal_mark(digits, ".")
    plain = [math.nan if each is None or each[1] else number(each[0], mark) for each in amounts]
    return np.array(plain, dtype=np.float64)
