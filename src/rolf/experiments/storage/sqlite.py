"""Experiments in one SQLite file, shared by the processes of one machine.

Writers take turns in the write-ahead log, but do not queue for the disk: a process commits its
row, then waits until the log is on the disk. An ask without competition is one statement, which
adds its row if the process has read every other one. Otherwise it reads, chooses and adds its row
under the lock.
"""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time as clock
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from rolf.errors import RolfError, UnknownExperiment, UnusableStorage
from rolf.experiments.storage import schema
from rolf.experiments.storage.base import (
    COLUMNS,
    DECISION,
    DEFAULT,
    REWARD,
    SCHEMA,
    LogRow,
    MakeRows,
    Reader,
    Record,
    Rewards,
    Row,
    Told,
    Written,
)
from rolf.experiments.storage.sql import CHUNK_ROWS, MAX_SEQ, SQLStore, in_chunks
from rolf.experiments.storage.sqlite_file import (
    APPLICATION_ID,
    Journal,
    close_file,
    is_busy,
    open_file,
    translated,
)
from rolf.experiments.storage.urls import invalid_url

T = TypeVar("T")

LOCK_TIMEOUT = 30.0  # seconds to wait for other writers
CHECKPOINT_PAGES = 4000  # of the write-ahead log, before they are moved into the file

INSERT = f"INSERT INTO rolf_log (experiment, {COLUMNS}) VALUES ({', '.join('?' * 13)})"
LAST_SEQ = "coalesce((SELECT max(seq) FROM rolf_log WHERE experiment = :experiment), 0)"
INSERT_IF_ALL_READ = f"""
INSERT OR IGNORE INTO rolf_log (experiment, {COLUMNS})
SELECT id, {LAST_SEQ} + 1, {", ".join(f":{name}" for name in Row._fields[1:])}
FROM rolf_experiments WHERE id = :experiment AND {LAST_SEQ} = :last_read RETURNING seq"""
READ = f"""
SELECT {COLUMNS} FROM rolf_log WHERE experiment = ? AND seq > ? AND seq <= ? ORDER BY seq"""
INSERT_REWARD = f"""
INSERT INTO rolf_log (experiment, {COLUMNS})
SELECT experiment, {LAST_SEQ} + 1, :kind,
    number, :time, arm, probability, greedy, pseudo, matched,
    :kind = {REWARD} AND EXISTS (SELECT 1 FROM rolf_log WHERE experiment = :experiment
        AND number = :number AND kind = {DEFAULT}),
    json_extract(features, '$[' || arm || ']'), :reward
FROM rolf_log AS decision
WHERE experiment = :experiment AND number = :number AND kind = {DECISION}
    AND NOT EXISTS (SELECT 1 FROM rolf_log WHERE experiment = :experiment
        AND number = :number AND kind IN ({REWARD}, :kind))"""
INSERT_REWARD_RETURNING = f"{INSERT_REWARD} RETURNING {COLUMNS}"
RECORDED_REWARD = f"""
SELECT reward FROM rolf_log WHERE experiment = ? AND number = ? AND kind = {REWARD}"""


class SQLiteReader(Reader):
    def __init__(self, experiment: int, after: int) -> None:
        super().__init__(experiment)
        self.after = after

    def wrote(self, row: LogRow) -> list[LogRow]:
        """The rows to apply now that this row was written: none if others came before it."""
        if row[0] == self.after + 1:
            self.after += 1
            return [row]
        self.own_unread.add(row[0])
        self.contended = True
        return []


class SQLiteStore(SQLStore):
    """A file. The path ``:memory:`` is not one: use ``memory://``."""

    placeholder = "?"

    def __init__(self, path: str) -> None:
        self.path = Path(os.path.realpath(path))  # the working folder may change later
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._journal: Journal | None = None
        self._process = 0
        with self._lock:
            self._connect()

    # --- the connection ---

    def _connect(self) -> sqlite3.Connection:
        """The connection of this process; one opened before a fork belongs to the parent."""
        if self._connection is None or self._process != os.getpid():
            self._inherited = self._connection  # never closed: its locks are the parent's
            connection = open_file(self.path)
            try:
                self._retry(lambda: connection.execute("PRAGMA synchronous = FULL"))
                self._prepare(connection)
                self._journal = self._use_journal(connection)
            except BaseException:
                close_file(self.path, connection)
                raise
            self._connection, self._process = connection, os.getpid()
        return self._connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Create the tables, or migrate those of an older version."""
        version = self._retry(lambda: self._version(connection))
        if version is not None and version > SCHEMA:
            known = f"layout {version}, this one knows {SCHEMA}"
            raise UnusableStorage(f"{self.path}: made by a newer rolf ({known})")
        if version != SCHEMA:
            with self._transaction(connection):
                version = self._version(connection)  # another process may have been faster
                if version is None:
                    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                for statement in schema.steps(version, schema.SQLITE):
                    connection.execute(statement)

    def _use_journal(self, connection: sqlite3.Connection) -> Journal | None:
        """Switch to write-ahead logging. None where it is not available: SQLite syncs instead.

        Called once the tables exist: the header that says whose file it is must not sit in the
        write-ahead log.
        """
        (mode,) = self._retry(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone())
        self._retry(lambda: self._version(connection))  # a first query creates the log file
        if mode != "wal":
            return None
        journal = Journal(self.path)
        self._retry(lambda: connection.execute("PRAGMA synchronous = NORMAL"))
        self._retry(lambda: connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}"))
        return journal

    def _version(self, connection: sqlite3.Connection) -> int | None:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if not tables:
            return None
        row = None
        if "rolf_meta" in tables:
            row = connection.execute("SELECT version FROM rolf_meta").fetchone()
        if row is None or not schema.is_version(row[0]):
            raise UnusableStorage(f"{self.path}: not a database of rolf's experiments")
        return int(row[0])

    def _retry(self, action: Callable[[], T]) -> T:
        """Try again while others write: SQLite's own waiting sleeps too long for fast writers."""
        deadline, pause = 0.0, 0.00005
        while True:
            try:
                return action()
            except sqlite3.Error as error:
                deadline = deadline or clock.monotonic() + LOCK_TIMEOUT
                if not is_busy(error) or clock.monotonic() > deadline:
                    with translated(self.path):
                        raise
            clock.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(1.2 * pause, 0.001)

    @contextmanager
    def _transaction(self, connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
        """All or nothing, and on the disk when it ends."""
        self._retry(lambda: connection.execute("BEGIN IMMEDIATE"))
        try:
            with translated(self.path):
                yield connection
            self._retry(lambda: connection.execute("COMMIT"))
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self._sync()

    def _sync(self) -> None:
        if self._journal is not None:
            self._journal.sync()

    def _query(self, sql: str, values: Any = ()) -> list[Any]:
        with self._lock:
            connection = self._connect()
            return self._retry(lambda: connection.execute(sql, values).fetchall())

    def _change(self, sql: str, values: Any) -> list[Any]:
        with self._lock:
            rows = self._query(sql, values)
            if rows:
                self._sync()
        return rows

    # --- experiments ---

    def create(self, record: Record, rows: Sequence[Row] = ()) -> Record | None:
        with self._lock, self._transaction(self._connect()) as connection:
            ids = connection.execute(self._creation, record[1:]).fetchall()
            if not ids:
                return None
            ((id,),) = ids
            numbered = ((id, seq, *row[1:]) for seq, row in enumerate(rows, 1))
            connection.executemany(INSERT, numbered)
        return record._replace(id=id)

    def delete(self, experiment: int) -> None:
        with self._lock, self._transaction(self._connect()) as connection:
            for table in ("rolf_snapshots", "rolf_log"):
                connection.execute(f"DELETE FROM {table} WHERE experiment = ?", (experiment,))
            connection.execute("DELETE FROM rolf_experiments WHERE id = ?", (experiment,))

    # --- the log ---

    def reader(self, experiment: int, after: int) -> Reader:
        return SQLiteReader(experiment, after)

    def read(self, reader: Reader, upto: int | None = None) -> list[LogRow]:
        assert isinstance(reader, SQLiteReader)
        rows = self._query(READ, (reader.experiment, reader.after, upto or MAX_SEQ))
        if rows:
            reader.after = rows[-1][0]
        return rows

    def settle(self, experiment: int) -> int:
        return int(self._query(f"SELECT {LAST_SEQ}", {"experiment": experiment})[0][0])

    def write(self, reader: Reader, make_rows: MakeRows) -> Written:
        assert isinstance(reader, SQLiteReader)
        with self._lock:
            row = None if reader.contended else self._write_uncontended(reader, make_rows)
            if row is not None:
                return Written([row], reader.wrote(row))
            with self._transaction(self._connect()) as connection:
                self._check_exists(connection, reader.experiment)
                unseen = self.read(reader)
                reader.caught_up(unseen)
                new = make_rows(unseen)
                rows = [row._replace(seq=reader.after + i) for i, row in enumerate(new, 1)]
                connection.executemany(INSERT, [(reader.experiment, *row) for row in rows])
            reader.after += len(rows)
        return Written(rows, rows)

    def _write_uncontended(self, reader: SQLiteReader, make_rows: MakeRows) -> Row | None:
        """Add a single row, provided that all others have been read; None if that fails."""
        try:
            rows = make_rows([])
        except RolfError:  # perhaps only because arms have changed
            reader.contended = True
            return None
        if len(rows) == 1:
            values = rows[0]._asdict()
            values |= {"experiment": reader.experiment, "last_read": reader.after}
            if added := self._change(INSERT_IF_ALL_READ, values):
                return rows[0]._replace(seq=added[0][0])
            reader.contended = True
        return None

    @staticmethod
    def _check_exists(connection: sqlite3.Connection, experiment: int) -> None:
        rows = connection.execute("SELECT 1 FROM rolf_experiments WHERE id = ?", (experiment,))
        if rows.fetchone() is None:
            raise UnknownExperiment("the experiment has been deleted")

    def tell(self, reader: Reader, rewards: Rewards, time: float, *, has_defaults: bool) -> Told:
        assert isinstance(reader, SQLiteReader)
        experiment = reader.experiment
        rows = [_reward(experiment, REWARD, number, reward, time) for number, reward in rewards]
        told: list[float | None] = [reward for _, reward in rewards]
        with self._lock:
            if len(rows) == 1 and (added := self._change(INSERT_REWARD_RETURNING, rows[0])):
                return Told(told, reader.wrote(added[0]))
            on_record: list[float | None] = []
            try:
                with self._transaction(self._connect()) as connection:
                    self._check_exists(connection, experiment)
                    connection.executemany(INSERT_REWARD, rows)
                    for number, _ in rewards:
                        recorded = connection.execute(RECORDED_REWARD, (experiment, number))
                        on_record.append(next(recorded, (None,))[0])
                    if on_record != told:
                        raise _Differs
            except _Differs:
                pass
        return Told(on_record)

    def expire(self, experiment: int, numbers: Sequence[int], reward: float, time: float) -> None:
        rows = [_reward(experiment, DEFAULT, number, reward, time) for number in numbers]
        with self._lock, self._transaction(self._connect()) as connection:
            connection.executemany(INSERT_REWARD, rows)

    def log(self, experiment: int, after: int, upto: int | None) -> Iterator[LogRow]:
        def fetch(after: int) -> list[LogRow]:
            return self._query(f"{READ} LIMIT {CHUNK_ROWS}", (experiment, after, upto or MAX_SEQ))

        return in_chunks(fetch, after)

    def close(self) -> None:
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                close_file(self.path, self._connection)
                if self._journal is not None:
                    self._journal.close()
            else:
                self._inherited = self._connection
            self._connection = self._journal = None


class _Differs(Exception):
    """A reward on record differs: the transaction is rolled back."""


def _reward(experiment: int, kind: int, number: int, reward: float, time: float) -> dict[str, Any]:
    """The values of INSERT_REWARD."""
    return {
        "experiment": experiment,
        "kind": kind,
        "number": number,
        "reward": reward,
        "time": time,
    }


def open_store(url: str, create: bool) -> SQLiteStore | None:
    path = url.removeprefix("sqlite:///")
    if path in (url, ""):
        raise invalid_url(url)
    exists = Path(path).exists() and Path(path).stat().st_size > 0
    return SQLiteStore(path) if create or exists else None
