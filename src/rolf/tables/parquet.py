"""Parquet files: checking their metadata, and reading a whole table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolf.errors import InvalidArgument
from rolf.extras import require
from rolf.tables.limits import check_bytes, check_size, table_errors

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET = (".parquet", ".pq")
#: rows read at a time
BATCH = 1 << 16
#: rows processed at a time, few enough that a column of them stays in the processor's cache
SLICE = 1 << 16


def is_parquet(path: str | Path) -> bool:
    """Whether a file is Parquet, by its name."""
    return Path(path).suffix.lower() in PARQUET


def read_parquet(path: str | Path, text: Sequence[str] = ()) -> pa.Table:
    """Read a table; the columns named in ``text`` are read as text."""
    require("pyarrow", "reading a table from a file")
    source = Path(path)
    with table_errors(source):
        source.open("rb").close()
        return _as_text(_read(source), text)


def _read(path: Path) -> pa.Table:
    """Read a Parquet file piece by piece, and stop if it gets too large.

    Text is read as dictionary codes, as it is stored: a single long entry may be repeated in every
    row.
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
    """Rows with text instead of dictionary codes."""
    import pyarrow as pa

    for i, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            column = rows.column(i).cast(field.type.value_type)
            rows = rows.set_column(i, field.name, column)
    return rows


def _as_text(table: pa.Table, text: Sequence[str]) -> pa.Table:
    import pyarrow as pa

    for i, name in enumerate(table.column_names):
        if name in text and table.column(i).type != pa.string():
            table = table.set_column(i, name, table.column(i).cast(pa.string()))
    return table


def check_parquet(path: str | Path) -> None:
    """Raise if the metadata of a Parquet file say that its table is too large to read."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        _check_metadata(path, file.metadata)


def _check_metadata(path: str | Path, metadata: Any) -> None:
    check_size(path, metadata.num_rows, metadata.num_columns)
    groups = [_group_size(metadata.row_group(group)) for group in range(metadata.num_row_groups)]
    stored, cells = map(sum, zip(*groups, (0, 0), strict=True))
    check_bytes(path, max(stored, 8 * max(cells, metadata.num_rows)))


def check_row_groups(path: str | Path, metadata: Any) -> None:
    """Raise if the metadata of a Parquet file say that even one row group is too large."""
    check_size(path, 0, metadata.num_columns)
    for group in range(metadata.num_row_groups):
        check_bytes(path, _group_size(metadata.row_group(group))[0])


def _group_size(group: Any) -> tuple[int, int]:
    """Bytes of an unpacked row group in its stored encoding, and its number of cells."""
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
    """Whether a PyArrow type is text."""
    import pyarrow as pa

    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
    )


def _decoded_size(column: Any) -> int:
    """Bytes that a column takes with its dictionary entries written out row by row."""
    import pyarrow as pa
    from pyarrow import compute

    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    if not is_text(column.type.value_type):
        return 16 * len(column)
    lengths = compute.binary_length(column.dictionary).take(column.indices)
    return 8 * len(column) + int(compute.sum(lengths).as_py() or 0)
