"""Experiments in one SQLite file, shared by the processes of one machine.

Writers take turns in the write-ahead log, not at the disk: a row is committed, then its process
waits until the log is on the disk. An ask that is alone is one statement: it adds its row if there
is nothing that it has not seen. Otherwise it reads, chooses and adds its row under the lock.
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
    Make,
    Reader,
    Record,
    Row,
    Written,
    chunked,
)
from rolf.experiments.storage.sql import SQLStore
from rolf.experiments.storage.sqlite_file import (
    APPLICATION,
    Journal,
    busy,
    close_file,
    open_file,
    translated,
)

T = TypeVar("T")

PATIENCE = 30.0  # seconds to wait for other writers
PAGES = 4000  # of the write-ahead log, before they are moved into the file
CHUNK = 20_000
LAST = 2**62

INSERT = f"INSERT INTO rolf_log (experiment, {COLUMNS}) VALUES ({', '.join('?' * 13)})"
TOP = "coalesce((SELECT max(seq) FROM rolf_log WHERE experiment = :experiment), 0)"
ADD = f"""
INSERT OR IGNORE INTO rolf_log (experiment, {COLUMNS})
SELECT id, {TOP} + 1, {", ".join(f":{name}" for name in Row._fields[1:])}
FROM rolf_experiments WHERE id = :experiment AND {TOP} = :seen RETURNING seq"""
READ = f"""
SELECT {COLUMNS} FROM rolf_log WHERE experiment = ? AND seq > ? AND seq <= ? ORDER BY seq"""
REWARDED = f"""
INSERT INTO rolf_log (experiment, {COLUMNS})
SELECT experiment, {TOP} + 1, :kind,
    number, :time, arm, probability, greedy, pseudo, matched,
    :kind = {REWARD} AND EXISTS (SELECT 1 FROM rolf_log WHERE experiment = :experiment
        AND number = :number AND kind = {DEFAULT}),
    json_extract(features, '$[' || arm || ']'), :reward
FROM rolf_log AS decision
WHERE experiment = :experiment AND number = :number AND kind = {DECISION}
    AND NOT EXISTS (SELECT 1 FROM rolf_log WHERE experiment = :experiment
        AND number = :number AND kind IN ({REWARD}, :kind))"""
REWARDED_ONE = f"{REWARDED} RETURNING {COLUMNS}"
KNOWN = "SELECT kind, reward FROM rolf_log WHERE experiment = ? AND number = ?"


class SQLiteReader(Reader):
    def __init__(self, experiment: int, after: int) -> None:
        super().__init__(experiment)
        self.after = after

    def wrote(self, row: Any) -> list[Any]:
        """What is to be taken in now that a row was written: it, unless others came before."""
        if row[0] == self.after + 1:
            self.after += 1
            return [row]
        self.own.add(row[0])
        self.crowded = True
        return []


class SQLiteStore(SQLStore):
    """A file. The path ``:memory:`` is not one: use ``memory://``."""

    mark = "?"

    def __init__(self, path: str) -> None:
        self.path = Path(os.path.realpath(path))  # links, and another working folder later
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._journal: Journal | None = None
        self._process = 0
        with self._lock:
            self._connect()

    # --- the connection ---

    def _connect(self) -> sqlite3.Connection:
        """The connection of this process: one that was made before a fork is not ours."""
        if self._connection is None or self._process != os.getpid():
            self._inherited = self._connection  # never closed: its locks are the parent's
            made = open_file(self.path)
            try:
                self._patient(lambda: made.execute("PRAGMA synchronous = FULL"))
                self._prepare(made)
                self._journal = self._follow(made)
            except BaseException:
                close_file(self.path, made)
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
                for statement in schema.steps(version, schema.SQLITE):
                    made.execute(statement)

    def _follow(self, made: sqlite3.Connection) -> Journal | None:
        """Write ahead from now on. None where that cannot be: SQLite itself syncs then.

        Not before the tables are there: the header that says whose file it is must not wait in
        the log of writes.
        """
        (mode,) = self._patient(lambda: made.execute("PRAGMA journal_mode = WAL").fetchone())
        self._patient(lambda: self._version(made))  # a first look makes the log
        if mode != "wal":
            return None
        journal = Journal(self.path)
        self._patient(lambda: made.execute("PRAGMA synchronous = NORMAL"))
        self._patient(lambda: made.execute(f"PRAGMA wal_autocheckpoint = {PAGES}"))
        return journal

    def _version(self, made: sqlite3.Connection) -> int | None:
        tables = {name for (name,) in made.execute("SELECT name FROM sqlite_master")}
        if not tables:
            return None
        row = None
        if "rolf_meta" in tables:
            row = made.execute("SELECT version FROM rolf_meta").fetchone()
        if row is None or not schema.known(row[0]):
            raise UnusableStorage(f"{self.path}: not a database of rolf's experiments")
        return int(row[0])

    def _patient(self, action: Callable[[], T]) -> T:
        """Try again while others write. SQLite's own waiting sleeps too long for fast writers."""
        deadline, pause = 0.0, 0.00005
        while True:
            try:
                return action()
            except sqlite3.Error as error:
                deadline = deadline or clock.monotonic() + PATIENCE
                if not busy(error) or clock.monotonic() > deadline:
                    with translated(self.path):
                        raise
            clock.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(1.2 * pause, 0.001)

    @contextmanager
    def _transaction(self, connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
        """All or nothing, and on the disk when it ends."""
        self._patient(lambda: connection.execute("BEGIN IMMEDIATE"))
        try:
            with translated(self.path):
                yield connection
            self._patient(lambda: connection.execute("COMMIT"))
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
            return self._patient(lambda: connection.execute(sql, values).fetchall())

    def _change(self, sql: str, values: Any) -> list[Any]:
        """One statement that is a transaction of its own; what it returns shows that it wrote."""
        with self._lock:
            rows = self._query(sql, values)
            if rows:
                self._sync()
        return rows

    # --- experiments ---

    def create(self, record: Record, rows: Sequence[Row] = ()) -> Record | None:
        with self._lock, self._transaction(self._connect()) as connection:
            added = connection.execute(self._creation, record[1:]).fetchall()
            if not added:
                return None
            made = record._replace(id=added[0][0])
            numbered = ((made.id, seq, *row[1:]) for seq, row in enumerate(rows, 1))
            connection.executemany(INSERT, numbered)
        return made

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

    def write(self, reader: Reader, make: Make) -> Written:
        assert isinstance(reader, SQLiteReader)
        with self._lock:
            row = None if reader.crowded else self._write_alone(reader, make)
            if row is not None:
                return Written([row], reader.wrote(row))
            with self._transaction(self._connect()) as connection:
                self._check(connection, reader.experiment)
                seen = self.read(reader)
                reader.looked(seen)
                new = make(seen)
                rows = [row._replace(seq=reader.after + i) for i, row in enumerate(new, 1)]
                connection.executemany(INSERT, [(reader.experiment, *row) for row in rows])
            reader.after += len(rows)
        return Written(rows, rows)

    def _write_alone(self, reader: SQLiteReader, make: Make) -> Row | None:
        """Add a row if there is none that has not been read; None if there is, or are several."""
        try:
            new = make([])
        except RolfError:  # perhaps only because arms have changed
            reader.crowded = True
            return None
        if len(new) == 1:
            values = new[0]._asdict()
            values |= {"experiment": reader.experiment, "seen": reader.after}
            if added := self._change(ADD, values):
                return new[0]._replace(seq=added[0][0])
            reader.crowded = True
        return None

    @staticmethod
    def _check(connection: sqlite3.Connection, experiment: int) -> None:
        found = connection.execute("SELECT 1 FROM rolf_experiments WHERE id = ?", (experiment,))
        if found.fetchone() is None:
            raise UnknownExperiment("the experiment has been deleted")

    def tell(
        self, reader: Reader, rewards: Sequence[tuple[int, float]], time: float, careful: bool
    ) -> tuple[list[float | None], list[Any]]:
        assert isinstance(reader, SQLiteReader)
        experiment = reader.experiment
        rows = [
            {"experiment": experiment, "kind": REWARD, "number": n, "reward": r, "time": time}
            for n, r in rewards
        ]
        wanted: list[float | None] = [reward for _, reward in rewards]
        with self._lock:
            if len(rows) == 1 and (added := self._change(REWARDED_ONE, rows[0])):
                return wanted, reader.wrote(added[0])
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
        return known, []

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
    """A reward on record is another one: nothing is to be written."""
