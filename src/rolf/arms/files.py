"""Read tables from files: Parquet if the name ends so, else CSV."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rolf.errors import InvalidArgument, RolfError
from rolf.types import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET = (".parquet", ".pq")


def read_table(path: str | Path, text: Sequence[str] = ()) -> pa.Table:
    """Read a table; the columns named in ``text`` are kept as text, as written."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    source = Path(path)
    try:
        source.open("rb").close()
        if source.suffix.lower() in PARQUET:
            table = parquet.read_table(source)
        else:
            types = dict.fromkeys(text, pa.string())
            table = csv.read_csv(source, convert_options=csv.ConvertOptions(column_types=types))
    except OSError as error:
        raise RolfError(f"{path}: cannot be read ({error.strerror or error})") from None
    except pa.ArrowInvalid as error:
        raise RolfError(f"{path}: is neither CSV nor Parquet ({error})") from None
    for i, name in enumerate(table.column_names):
        if name in text and table.column(i).type != pa.string():
            table = table.set_column(i, name, table.column(i).cast(pa.string()))
    return table


def numbers(path: str | Path, table: pa.Table, name: str) -> FloatArray:
    """A column as numbers; an error names the first value that is not a number."""
    import pyarrow as pa

    column = table.column(name)
    try:
        values = np.array(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        values = np.array([_number(each) for each in column.to_pylist()])
    bad_rows = np.flatnonzero(~np.isfinite(values)).tolist()
    if bad_rows:
        row = bad_rows[0]
        value = column[row].as_py()
        shown = "nothing" if value in (None, "") else repr(value)
        raise InvalidArgument(f"{path}: {name}", f"{shown} in row {row}", "a number in every row")
    return values


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan
