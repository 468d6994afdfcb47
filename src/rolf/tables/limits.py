"""Limits on the size of tables, and errors for files that cannot be read.

A small file can be crafted to fill the memory when read, so its size in memory is estimated
beforehand and counted while reading.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rolf.errors import InvalidArgument, RolfError

#: the largest table that is read
MAX_ROWS, MAX_COLUMNS = 20_000_000, 100_000
#: what a table may take in memory: FREE_BYTES, or TIMES_FILE times the size of its file (a log of
#: ten million decisions needs more), but at most MAX_BYTES
FREE_BYTES, TIMES_FILE, MAX_BYTES = 100_000_000, 100, 16_000_000_000


@contextmanager
def table_errors(path: str | Path) -> Iterator[None]:
    """Name the file in errors: it is not a table, or cannot be read."""
    import pyarrow as pa

    try:
        with reading_errors(Path(path)):
            yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise RolfError(f"{path}: is neither CSV nor Parquet ({error})") from None


@contextmanager
def reading_errors(path: Path) -> Iterator[None]:
    """Name the file in errors: it cannot be read."""
    try:
        yield
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: OSError) -> RolfError:
    """The error for a file that the system cannot read."""
    return RolfError(f"{path}: cannot be read ({error.strerror or error})")


def _allowance(path: str | Path) -> int:
    """How many bytes a file's table may take in memory."""
    return min(MAX_BYTES, max(FREE_BYTES, TIMES_FILE * os.path.getsize(path)))


def check_size(path: str | Path, rows: int, columns: int) -> None:
    """Raise if there are too many rows or columns."""
    if rows > MAX_ROWS:
        raise InvalidArgument(str(path), f"{rows:,} rows or more", f"at most {MAX_ROWS:,} rows")
    if columns > MAX_COLUMNS:
        wanted = f"at most {MAX_COLUMNS:,} columns"
        raise InvalidArgument(str(path), f"{columns:,} columns or more", wanted)


def check_bytes(path: str | Path, count: int) -> None:
    """Raise if rows take more memory than a file of this size may."""
    if count > _allowance(path):
        wanted = f"a table of at most {_allowance(path):,} bytes, for a file of this size"
        raise InvalidArgument(str(path), f"{count:,} bytes or more", wanted)


def check_table(path: str | Path, rows: int, columns: int, count: int) -> None:
    """Raise if a table is too large: in rows, columns or bytes."""
    check_size(path, rows, columns)
    check_bytes(path, count)
