"""How much of a table is read at most, and what is said of files that cannot be read.

A small file can be written so that it fills the memory once it is read. So what it will take is
estimated before, and counted while it is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rolf.errors import InvalidArgument, RolfError

#: the largest table that is read
MAX_ROWS, MAX_COLUMNS = 20_000_000, 100_000
#: what a table may take in memory: this much, or, as a log of ten million decisions takes more,
#: this many times the size of its file; but never more than the largest
FREE_BYTES, TIMES_FILE, MAX_BYTES = 100_000_000, 100, 16_000_000_000


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
        raise unreadable(path, error) from None


def unreadable(path: Path, error: OSError) -> RolfError:
    """What to say of a file that the system cannot read."""
    return RolfError(f"{path}: cannot be read ({error.strerror or error})")


def _allowance(path: str | Path) -> int:
    """How many bytes the table of a file may take."""
    return min(MAX_BYTES, max(FREE_BYTES, TIMES_FILE * os.path.getsize(path)))


def check_size(path: str | Path, rows: int, columns: int) -> None:
    """Raise if there are too many rows or columns."""
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


def check_table(path: str | Path, rows: int, columns: int, count: int) -> None:
    """Raise if a table is too large: in rows, columns or bytes."""
    check_size(path, rows, columns)
    check_bytes(path, count)
