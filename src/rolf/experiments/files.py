"""Tables in files: CSV, or Parquet by the ending."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rolf.errors import RolfError

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET = (".parquet", ".pq")


def read_table(path: str | Path, text: Sequence[str] = (), *, first: bool = False) -> pa.Table:
    """Read a table; columns named in ``text``, and the first if wanted, stay text as written."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    source = Path(path)
    try:
        source.open("rb").close()
        if source.suffix.lower() in PARQUET:
            table = parquet.read_table(source)
        else:
            kept = [*text]
            if first:
                with csv.open_csv(source) as reader:
                    kept += reader.schema.names[:1]
            types = dict.fromkeys(kept, pa.string())
            table = csv.read_csv(source, convert_options=csv.ConvertOptions(column_types=types))
    except OSError as error:
        raise RolfError(f"{path}: cannot be read ({error.strerror or error})") from None
    except pa.ArrowInvalid as error:
        raise RolfError(f"{path}: is neither CSV nor Parquet ({error})") from None
    for place, name in enumerate(table.column_names):
        wanted = name in text or (first and place == 0)
        if wanted and table.column(place).type != pa.string():
            table = table.set_column(place, name, table.column(place).cast(pa.string()))
    return table
