"""The file of a SQLite store: whose it is, how it is opened, and when it is on the disk."""

from __future__ import annotations

import os
import sqlite3
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rolf.errors import StorageError, StorageUnavailable, UnusableStorage

MAGIC = b"SQLite format 3\x00"
APPLICATION = 0x524F4C46  # "ROLF", in the header of every file of ours
SYNC = getattr(os, "fdatasync", os.fsync)

_opened: dict[tuple[int, str], int] = {}  # connections of a process to a file
_guard = threading.Lock()


def open_file(path: Path) -> sqlite3.Connection:
    """Connect, after a look at the file unless this process has it open.

    To open a file and close it ends all locks that the process holds on it, SQLite's included.
    """
    key = (os.getpid(), os.path.realpath(path))
    with _guard:
        if not _opened.get(key):
            inspect(path)
        with translated(path):
            made = sqlite3.connect(path, timeout=0.0, isolation_level=None, check_same_thread=False)
        _opened[key] = _opened.get(key, 0) + 1
    return made


def close_file(path: Path, connection: sqlite3.Connection) -> None:
    with _guard:
        connection.close()
        _opened[os.getpid(), os.path.realpath(path)] -= 1


def inspect(path: Path) -> None:
    """Look at a file's first bytes, without SQLite, which might write to it."""
    try:
        with open(path, "rb") as file:
            head = file.read(100)
            size = file.seek(0, os.SEEK_END)
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise UnusableStorage(f"{path}: there is no folder {path.parent}") from None
        return
    except OSError as error:
        raise UnusableStorage(f"{path}: cannot be opened ({error.strerror})") from None
    if not head:
        return
    if not head.startswith(MAGIC):
        raise UnusableStorage(f"{path}: not a SQLite database")
    if len(head) < 100:
        raise UnusableStorage(f"{path}: damaged, it ends after {len(head)} bytes")
    (page,), (changes, pages) = struct.unpack(">H", head[16:18]), struct.unpack(">II", head[24:32])
    (application,), (valid,) = struct.unpack(">I", head[68:72]), struct.unpack(">I", head[92:96])
    whole = pages * (65536 if page == 1 else page)
    if application != APPLICATION:
        raise UnusableStorage(f"{path}: a SQLite database, but not one of rolf's experiments")
    unfinished = any(Path(f"{path}{end}").exists() for end in ("-wal", "-journal"))
    if changes == valid and size < whole and not unfinished:
        raise UnusableStorage(f"{path}: damaged, {size} bytes are left of {whole}")


class Journal:
    """The write-ahead log of a connection, to wait for the disk outside of SQLite's lock.

    A commit that SQLite does not sync is in the log, and seen by others, at once; a sync of the
    log puts it on the disk, together with every commit before it. So writers need not queue
    for the disk, and what is acknowledged never rests on something that may yet be lost. Before
    the log is used again from its start, SQLite has synced it and the database. Nobody deletes
    the log while this connection is open.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(f"{path}-wal", os.O_RDWR)

    def sync(self) -> None:
        try:
            SYNC(self._file)
        except OSError as error:
            raise StorageUnavailable(
                f"{self._path}: cannot be written ({error.strerror})"
            ) from error

    def close(self) -> None:
        os.close(self._file)


def busy(error: sqlite3.Error) -> bool:
    """Whether it is others who write."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """SQLite's errors as ours."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if busy(error):
            raise StorageUnavailable(f"{path}: other processes keep it locked") from error
        if code == sqlite3.SQLITE_FULL:
            raise StorageUnavailable(f"{path}: the disk is full; nothing was recorded") from error
        if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise StorageUnavailable(f"{path}: cannot be written or read ({error})") from error
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise UnusableStorage(f"{path}: damaged ({error})") from error
        raise StorageError(f"{path}: {error}") from error
