"""Tables in files: CSV, or Parquet by the ending."""

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
    """Read a table; columns named in ``text`` stay text as written."""
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
    for place, name in enumerate(table.column_names):
        if name in text and table.column(place).type != pa.string():
            table = table.set_column(place, name, table.column(place).cast(pa.string()))
    return table


def numbers(path: str | Path, table: pa.Table, name: str) -> FloatArray:
    """A column as numbers; what is no number is named."""
    import pyarrow as pa

    column = table.column(name)
    try:
        out = np.array(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        out = np.array([_number(each) for each in column.to_pylist()])
    wrong = np.flatnonzero(~np.isfinite(out)).tolist()
    if wrong:
        value = column[wrong[0]].as_py()
        got = "nothing" if value in (None, "") else repr(value)
        got = f"{got} in row {wrong[0]}"
        raise InvalidArgument(f"{path}: {name}", got, "a number in every row")
    return out


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan
