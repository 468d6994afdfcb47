"""The file of a SQLite store: checking it, opening it, and syncing it to the disk."""

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
APPLICATION_ID = 0x524F4C46  # "ROLF", in the header of every file of ours
SYNC = getattr(os, "fdatasync", os.fsync)

_open_connections: dict[tuple[int, str], int] = {}  # how many, by process and file
_open_lock = threading.Lock()


def open_file(path: Path) -> sqlite3.Connection:
    """Connect, after inspecting the file unless this process has it open already.

    Opening and closing a file releases every lock that the process holds on it, SQLite's too.
    """
    key = (os.getpid(), os.path.realpath(path))
    with _open_lock:
        if not _open_connections.get(key):
            inspect(path)
        with translated(path):
            connection = sqlite3.connect(
                path, timeout=0.0, isolation_level=None, check_same_thread=False
            )
        _open_connections[key] = _open_connections.get(key, 0) + 1
    return connection


def close_file(path: Path, connection: sqlite3.Connection) -> None:
    with _open_lock:
        connection.close()
        _open_connections[os.getpid(), os.path.realpath(path)] -= 1


def inspect(path: Path) -> None:
    """Check a file's header without SQLite, which might write to the file."""
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
    (application_id,), (valid,) = struct.unpack(">I", head[68:72]), struct.unpack(">I", head[92:96])
    expected_size = pages * (65536 if page == 1 else page)
    if application_id != APPLICATION_ID:
        raise UnusableStorage(f"{path}: a SQLite database, but not one of rolf's experiments")
    unfinished = any(Path(f"{path}{end}").exists() for end in ("-wal", "-journal"))
    if changes == valid and size < expected_size and not unfinished:
        raise UnusableStorage(f"{path}: damaged, {size} bytes are left of {expected_size}")


class Journal:
    """The write-ahead log of a connection, synced to the disk outside SQLite's lock.

    A commit that SQLite does not sync is in the log, and visible to others, at once. Syncing the
    log puts it on the disk together with every commit before it. So writers need not queue for
    the disk, and nothing that is acknowledged rests on a commit that may still be lost. Before
    SQLite starts over at the beginning of the log, it syncs both the log and the database. The
    log is never deleted while this connection is open.
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


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another writer is in the way."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as rolf's own."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if is_busy(error):
            raise StorageUnavailable(f"{path}: other processes keep it locked") from error
        if code == sqlite3.SQLITE_FULL:
            raise StorageUnavailable(f"{path}: the disk is full; nothing was recorded") from error
        if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise StorageUnavailable(f"{path}: cannot be written or read ({error})") from error
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise UnusableStorage(f"{path}: damaged ({error})") from error
        raise StorageError(f"{path}: {error}") from error
