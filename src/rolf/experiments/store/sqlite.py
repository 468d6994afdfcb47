"""Experiments in one SQLite file, shared by the processes of one machine.

Write-ahead log, and a sync of the disk with every commit. Writers take turns.
"""

from __future__ import annotations

import os
import random
import sqlite3
import struct
import threading
import time as clock
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from rolf.errors import StorageError, StorageUnavailable, UnknownExperiment, UnusableStorage
from rolf.experiments.store import schema
from rolf.experiments.store.base import (
    COLUMNS,
    DECISION,
    DEFAULT,
    FIELDS,
    REWARD,
    SCHEMA,
    Make,
    Reader,
    Record,
    Row,
    Snapshot,
    Store,
    chunked,
)

T = TypeVar("T")

MAGIC = b"SQLite format 3\x00"
APPLICATION = 0x524F4C46  # "ROLF", in the header of every file of ours
PATIENCE = 30.0  # seconds to wait for other writers
CHUNK = 20_000

INSERT = f"INSERT INTO rolf_log (experiment, {COLUMNS}) VALUES ({', '.join('?' * 13)})"
LAST = 2**62
ADD = f"""
INSERT OR IGNORE INTO rolf_log (experiment, {COLUMNS})
SELECT id, {", ".join("?" * 12)} FROM rolf_experiments WHERE id = ?"""
READ = f"""
SELECT {COLUMNS} FROM rolf_log WHERE experiment = ? AND seq > ? AND seq <= ? ORDER BY seq"""
REWARDED = f"""
INSERT INTO rolf_log (experiment, {COLUMNS})
SELECT experiment, (SELECT max(seq) + 1 FROM rolf_log WHERE experiment = :experiment), :kind,
    number, :time, arm, probability, greedy, pseudo, matched,
    :kind = {REWARD} AND EXISTS (SELECT 1 FROM rolf_log WHERE experiment = :experiment
        AND number = :number AND kind = {DEFAULT}),
    json_extract(features, '$[' || arm || ']'), :reward
FROM rolf_log AS decision
WHERE experiment = :experiment AND number = :number AND kind = {DECISION}
    AND NOT EXISTS (SELECT 1 FROM rolf_log WHERE experiment = :experiment
        AND number = :number AND kind IN ({REWARD}, :kind))"""
KNOWN = "SELECT kind, reward FROM rolf_log WHERE experiment = ? AND number = ?"


class SQLiteReader(Reader):
    def __init__(self, experiment: int, after: int) -> None:
        super().__init__(experiment)
        self.after = after
        self.crowded = False  # whether another process was faster the last time

    def wrote(self, seqs: Sequence[int]) -> None:
        self.after = max(seqs)


class SQLiteStore(Store):
    """A file. The path ``:memory:`` is not one: use ``memory://``."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._process = 0
        with self._lock:
            self._connect()

    # --- the connection ---

    def _connect(self) -> sqlite3.Connection:
        """The connection of this process: one that was made before a fork is not ours."""
        if self._connection is None or self._process != os.getpid():
            self._inherited = self._connection  # never closed: its locks are the parent's
            made = _open(self.path)
            try:
                with translated(self.path):
                    made.execute("PRAGMA synchronous = FULL")
                self._prepare(made)
            except BaseException:
                _close(self.path, made)
                raise
            self._connection, self._process = made, os.getpid()
        return self._connection

    def _prepare(self, made: sqlite3.Connection) -> None:
        """Make the tables, or bring those of an older version up to date."""
        version = self._patient(lambda: self._version(made))
        if version is not None and version > SCHEMA:
            known = f"layout {version}, this one knows {SCHEMA}"
            raise UnusableStorage(f"{self.path}: made by a newer rolf ({known})")
        if version != SCHEMA:
            with self._transaction(made):
                version = self._version(made)  # another process may have been faster
                if version is None:
                    made.execute(f"PRAGMA application_id = {APPLICATION}")
                for statement in schema.steps(version):
                    made.execute(statement.format(**schema.SQLITE))
        # Only now: the header that says whose file it is must not wait in the log of writes.
        self._patient(lambda: made.execute("PRAGMA journal_mode = WAL").fetchone())

    def _version(self, made: sqlite3.Connection) -> int | None:
        with translated(self.path):
            tables = {name for (name,) in made.execute("SELECT name FROM sqlite_master")}
            if not tables:
                return None
            row = None
            if "rolf_meta" in tables:
                row = made.execute("SELECT version FROM rolf_meta").fetchone()
        if row is None:
            raise UnusableStorage(f"{self.path}: not a database of rolf's experiments")
        return int(row[0])

    def _patient(self, action: Callable[[], T]) -> T:
        """Try again while others write. SQLite's own waiting sleeps too long for fast writers."""
        deadline = clock.monotonic() + PATIENCE
        pause = 0.0002
        while True:
            try:
                with translated(self.path):
                    return action()
            except StorageUnavailable as error:
                cause = error.__cause__
                busy = getattr(cause, "sqlite_errorcode", 0) & 0xFF in (
                    sqlite3.SQLITE_BUSY,
                    sqlite3.SQLITE_LOCKED,
                )
                if not busy or clock.monotonic() > deadline:
                    raise
                clock.sleep(pause * random.uniform(0.5, 1.5))
                pause = min(2.0 * pause, 0.001)

    @contextmanager
    def _transaction(self, connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
        """All or nothing, and on the disk when it ends."""
        self._patient(lambda: connection.execute("BEGIN IMMEDIATE"))
        try:
            with translated(self.path):
                yield connection
                connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _query(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._lock:
            connection = self._connect()
            return self._patient(lambda: connection.execute(sql, values).fetchall())

    def _change(self, sql: str, values: Any) -> int:
        """One statement that is a transaction of its own."""
        with self._lock:
            connection = self._connect()
            return self._patient(lambda: connection.execute(sql, values).rowcount)

    # --- experiments ---

    def create(self, record: Record) -> Record | None:
        names = Record._fields[1:]
        marks = ", ".join("?" * len(names))
        added = self._change(
            f"INSERT INTO rolf_experiments ({', '.join(names)}) VALUES ({marks}) "
            "ON CONFLICT DO NOTHING",
            record[1:],
        )
        return self.find(record.name) if added == 1 else None

    def find(self, name: str) -> Record | None:
        rows = self._query(f"SELECT {FIELDS} FROM rolf_experiments WHERE name = ?", (name,))
        return Record(*rows[0]) if rows else None

    def names(self) -> list[str]:
        return [name for (name,) in self._query("SELECT name FROM rolf_experiments ORDER BY name")]

    def delete(self, experiment: int) -> None:
        with self._lock, self._transaction(self._connect()) as connection:
            for table in ("rolf_snapshots", "rolf_log"):
                connection.execute(f"DELETE FROM {table} WHERE experiment = ?", (experiment,))
            connection.execute("DELETE FROM rolf_experiments WHERE id = ?", (experiment,))

    # --- the log ---

    def reader(self, experiment: int, after: int) -> Reader:
        return SQLiteReader(experiment, after)

    def read(self, reader: Reader, upto: int | None = None) -> list[Any]:
        assert isinstance(reader, SQLiteReader)
        rows = self._query(READ, (reader.experiment, reader.after, upto or LAST))
        if rows:
            reader.after = rows[-1][0]
        return rows

    def settle(self, experiment: int) -> int:
        sql = "SELECT coalesce(max(seq), 0) FROM rolf_log WHERE experiment = ?"
        return int(self._query(sql, (experiment,))[0][0])

    def write(self, reader: Reader, make: Make) -> list[Any]:
        assert isinstance(reader, SQLiteReader)
        with self._lock:
            rows = self._write_at_once(reader, make)
            if rows is not None:
                return rows
            with self._transaction(self._connect()) as connection:
                self._check(connection, reader.experiment)
                new = make(self.read(reader))
                rows = [row._replace(seq=reader.after + i) for i, row in enumerate(new, 1)]
                connection.executemany(INSERT, [(reader.experiment, *row) for row in rows])
            if rows:
                reader.wrote([row.seq for row in rows])
        return rows

    def _write_at_once(self, reader: SQLiteReader, make: Make) -> list[Any] | None:
        """One row in one statement, unless others write at the same time."""
        if reader.crowded:
            reader.crowded = False  # the lock this time, then try again
            return None
        new = make(self.read(reader))
        if len(new) != 1:
            return None
        row = new[0]._replace(seq=reader.after + 1)
        if self._change(ADD, (*row, reader.experiment)) != 1:
            reader.crowded = True
            return None
        reader.wrote([row.seq])
        return [row]

    @staticmethod
    def _check(connection: sqlite3.Connection, experiment: int) -> None:
        found = connection.execute("SELECT 1 FROM rolf_experiments WHERE id = ?", (experiment,))
        if found.fetchone() is None:
            raise UnknownExperiment("the experiment has been deleted")

    def tell(
        self, experiment: int, rewards: Sequence[tuple[int, float]], time: float, careful: bool
    ) -> list[float | None]:
        rows = [
            {"experiment": experiment, "kind": REWARD, "number": n, "reward": r, "time": time}
            for n, r in rewards
        ]
        wanted: list[float | None] = [reward for _, reward in rewards]
        with self._lock:
            if len(rows) == 1 and self._change(REWARDED, rows[0]) == 1:
                return wanted
            try:
                with self._transaction(self._connect()) as connection:
                    self._check(connection, experiment)
                    connection.executemany(REWARDED, rows)
                    known = []
                    for number, _ in rewards:
                        found = dict(connection.execute(KNOWN, (experiment, number)))
                        known.append(found.get(REWARD))
                    if known != wanted:
                        raise _Differs
            except _Differs:
                pass
        return known

    def expire(self, experiment: int, numbers: Sequence[int], reward: float, time: float) -> None:
        rows = [
            {"experiment": experiment, "kind": DEFAULT, "number": n, "reward": reward, "time": time}
            for n in numbers
        ]
        with self._lock, self._transaction(self._connect()) as connection:
            connection.executemany(REWARDED, rows)

    def log(self, experiment: int, after: int, upto: int | None) -> Iterator[Any]:
        def chunk(after: int) -> list[Any]:
            return self._query(f"{READ} LIMIT {CHUNK}", (experiment, after, upto or LAST))

        return chunked(chunk, after, CHUNK)

    def restore(self, experiment: int, rows: Sequence[Row]) -> None:
        with self._lock, self._transaction(self._connect()) as connection:
            self._check(connection, experiment)
            numbered = ((experiment, seq, *row[1:]) for seq, row in enumerate(rows, 1))
            connection.executemany(INSERT, numbered)

    # --- snapshots ---

    def snapshot(self, experiment: int) -> Snapshot | None:
        sql = "SELECT upto, version, state FROM rolf_snapshots WHERE experiment = ?"
        rows = self._query(sql, (experiment,))
        return Snapshot(*rows[0]) if rows else None

    def save(self, experiment: int, snapshot: Snapshot) -> None:
        self._change(
            "INSERT INTO rolf_snapshots VALUES (?, ?, ?, ?) ON CONFLICT (experiment) DO UPDATE SET "
            "upto = excluded.upto, version = excluded.version, state = excluded.state "
            "WHERE excluded.upto >= rolf_snapshots.upto",
            (experiment, *snapshot),
        )

    def forget(self, experiment: int) -> None:
        self._change("DELETE FROM rolf_snapshots WHERE experiment = ?", (experiment,))

    def close(self) -> None:
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                _close(self.path, self._connection)
            self._connection = None


_opened: dict[tuple[int, str], int] = {}  # connections of a process to a file
_guard = threading.Lock()


def _open(path: Path) -> sqlite3.Connection:
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


def _close(path: Path, connection: sqlite3.Connection) -> None:
    with _guard:
        connection.close()
        _opened[os.getpid(), os.path.realpath(path)] -= 1


class _Differs(Exception):
    """A reward on record is another one: nothing is to be written."""


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


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """SQLite's errors as ours."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise StorageUnavailable(f"{path}: other processes keep it locked") from error
        if code == sqlite3.SQLITE_FULL:
            raise StorageUnavailable(f"{path}: the disk is full; nothing was recorded") from error
        if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise StorageUnavailable(f"{path}: cannot be written or read ({error})") from error
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise UnusableStorage(f"{path}: damaged ({error})") from error
        raise StorageError(f"{path}: {error}") from error
