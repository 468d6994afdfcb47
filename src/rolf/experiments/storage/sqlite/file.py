"""The connection of this process to a SQLite file.

All users of a file within a process share one connection. It is closed before the process forks and
reopened when it is next used.
"""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time as clock
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from rolf.errors import StorageError, StorageUnavailable, UnusableStorage
from rolf.experiments.storage import schema
from rolf.experiments.storage.contract import SCHEMA
from rolf.experiments.storage.forks import take_part
from rolf.experiments.storage.sqlite.guard import APPLICATION_ID, Guard, inspect

T = TypeVar("T")

CHECKPOINT_PAGES = 4000  # pages in the write-ahead log before a checkpoint
SYNC = getattr(os, "fdatasync", os.fsync)


class Files:
    """The open files of this process, by path.

    One lock is enough for all files: it is held for a single transaction, but not while waiting for
    other writers or the disk. With one lock per file, a file closed by the garbage collector could
    deadlock with the thread that triggered the collection.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._open: dict[str, File] = {}
        take_part(self)

    def open(self, path: Path) -> File:
        """Open the connection to a file, counting users."""
        with self.lock:
            file = self._open.setdefault(str(path), File(path, self.lock))
            file.users += 1
        return file

    def close(self, file: File) -> None:
        """Release the file; the last user closes the connection."""
        with self.lock:
            file.users -= 1
            if file.users == 0:
                self._open.pop(str(file.path), None)
                file.disconnect()

    def before_fork(self) -> None:
        self.lock.acquire()
        for file in self._open.values():
            file.disconnect()

    def after_fork(self, in_child: bool) -> None:
        self.lock.release()


class File:
    """A file and its connection, if open."""

    def __init__(self, path: Path, lock: threading.RLock) -> None:
        self.path = path
        self.users = 0
        self._lock = lock
        self._connection: sqlite3.Connection | None = None
        self._guard: Guard | None = None
        self._process = 0
        self._disconnects = 0  # how often the connection was closed

    def run(
        self, action: Callable[[sqlite3.Connection], T], timeout: float, *, write: bool = False
    ) -> T:
        """Run an action, in a transaction if it writes; retry while others write.

        SQLite's own busy handler sleeps too long for fast writers, and would delay forks.
        """
        deadline = clock.monotonic() + timeout
        pause = 0.00005
        while True:
            before = self._disconnects
            try:
                with self._lock:
                    return self._attempt(action, write)
            except Exception as error:
                # a signal handler in this thread may have forked or closed the file
                again = self._disconnects != before
                again |= isinstance(error, sqlite3.Error) and is_busy(error)
                if not again or clock.monotonic() > deadline:
                    with translated(self.path):
                        raise
            clock.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(1.2 * pause, 0.001)

    def _attempt(self, action: Callable[[sqlite3.Connection], T], write: bool) -> T:
        connection = self._connected()
        try:
            if write:
                connection.execute("BEGIN IMMEDIATE")
            result = action(connection)
            if write:
                connection.execute("COMMIT")
            return result
        except (OverflowError, UnicodeError) as error:
            raise StorageError(f"{self.path}: SQLite cannot store a value ({error})") from error
        finally:
            try:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            except sqlite3.ProgrammingError:
                pass  # already closed

    def sync(self, timeout: float) -> None:
        """Write everything committed to disk.

        A commit that SQLite does not sync is immediately in the write-ahead log and visible to
        others. Syncing the log puts it on disk together with all earlier commits. So writers need
        not queue for the disk, and nothing acknowledged depends on a commit that may still be lost.
        Before SQLite restarts the log from its beginning, it syncs both the log and the database.
        """
        guard = self._guard
        if guard is None or self._process != os.getpid():
            guard = self.run(lambda connection: self._guard, timeout)
        journal = None if guard is None else guard.journal
        if journal is None:
            return  # SQLite syncs each commit
        try:
            SYNC(journal.descriptor)
        except OSError as error:
            message = f"{self.path}: cannot be written ({error.strerror})"
            raise StorageUnavailable(message) from error

    # --- the connection ---

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._process == os.getpid():
            assert self._guard is not None
            self._guard.check_in_place()
            return self._connection
        if not self.users:
            raise StorageUnavailable(f"{self.path}: was closed meanwhile")
        self._inherited = self._connection, self._guard  # by a fork without before_fork
        inspect(self.path)
        with translated_unless_busy(self.path):
            connection = sqlite3.connect(
                self.path, timeout=0.0, isolation_level=None, check_same_thread=False
            )
            guard = Guard(self.path)
            try:
                connection.execute("PRAGMA synchronous = FULL")
                prepare(self.path, connection)
                guard.open(logged=use_journal(connection))
            except BaseException:
                connection.close()
                guard.close()  # not earlier, which would drop SQLite's locks
                raise
        self._connection, self._guard, self._process = connection, guard, os.getpid()
        return connection

    def disconnect(self) -> None:
        if self._process == os.getpid() and self._connection is not None:
            assert self._guard is not None
            self._guard.release()
            self._connection.close()
            self._guard.close()
        else:
            self._inherited = self._connection, self._guard
        self._connection = self._guard = None
        self._disconnects += 1


files = Files()


def prepare(path: Path, connection: sqlite3.Connection) -> None:
    """Create the tables if they do not exist."""
    version = read_version(path, connection)
    if version is not None and version > SCHEMA:
        known = f"layout {version}, this one knows {SCHEMA}"
        raise UnusableStorage(f"{path}: made by a newer rolf ({known})")
    if version == SCHEMA:
        return
    connection.execute("BEGIN IMMEDIATE")
    version = read_version(path, connection)  # another process may have created them
    if version is None:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        for statement in schema.statements(schema.SQLITE):
            connection.execute(statement)
    connection.execute("COMMIT")


def read_version(path: Path, connection: sqlite3.Connection) -> int | None:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if not tables:
        return None
    row = None
    if "rolf_meta" in tables:
        row = connection.execute("SELECT version FROM rolf_meta").fetchone()
    if row is None or not schema.is_version(row[0]):
        raise UnusableStorage(f"{path}: not a database of rolf's experiments")
    return int(row[0])


def use_journal(connection: sqlite3.Connection) -> bool:
    """Switch to write-ahead logging; False if it is unavailable, so that SQLite syncs commits.

    Called only once the tables exist: the header that identifies the file as rolf's must be in the
    file itself, not in the write-ahead log.
    """
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    connection.execute("SELECT version FROM rolf_meta").fetchone()  # creates the log file
    if mode != "wal":
        return False
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    return True


# --- errors ---


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another writer is in the way."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@contextmanager
def translated_unless_busy(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as rolf's own, except for a busy database."""
    try:
        yield
    except sqlite3.Error as error:
        if is_busy(error):
            raise
        with translated(path):
            raise
    except OSError as error:
        raise StorageUnavailable(f"{path}: cannot be opened ({error.strerror})") from error


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as rolf's own."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if is_busy(error):
            raise StorageUnavailable(f"{path}: locked by other processes for too long") from error
        if code == sqlite3.SQLITE_FULL:
            raise StorageUnavailable(f"{path}: the disk is full; nothing was recorded") from error
        if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise StorageUnavailable(f"{path}: cannot be written or read ({error})") from error
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise UnusableStorage(f"{path}: damaged ({error})") from error
        raise StorageError(f"{path}: {error}") from error
