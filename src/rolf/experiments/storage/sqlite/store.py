"""Experiments in one SQLite file, shared by the processes of one machine.

Writers take turns on the write-ahead log but do not queue for the disk: a process commits its rows,
then waits until the log is on disk.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rolf.errors import StorageUnavailable, UnknownExperiment
from rolf.experiments.storage.rows import APART, COLUMNS, LogRow, Row
from rolf.experiments.storage.sql import Execute, SQLStore, Taken
from rolf.experiments.storage.sqlite.file import files
from rolf.experiments.storage.urls import invalid_url

T = TypeVar("T")

INSERT = f"INSERT INTO rolf_log (experiment, {COLUMNS}) VALUES ({', '.join('?' * 14)})"
LAST = """
SELECT (SELECT max(seq) FROM rolf_log WHERE experiment = id) FROM rolf_experiments WHERE id = ?"""
FIND = f"""
SELECT {COLUMNS} FROM rolf_log INDEXED BY rolf_places
WHERE experiment = ? AND number = ? AND kind NOT IN {APART}"""


class SQLiteStore(SQLStore):
    """A store in a file. The path ``:memory:`` is refused: use ``memory://``."""

    def __init__(self, path: str, timeout: float) -> None:
        self.path = Path(os.path.realpath(path))  # the working folder may change later
        self._timeout = timeout
        self._closed = False
        self._file = files.open(self.path)
        try:
            self._query("SELECT 1")
        except BaseException:
            self.close()
            raise

    def _query(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        return self._file.run(
            lambda connection: connection.execute(sql, values).fetchall(), self._timeout
        )

    def _change(self, action: Callable[[Execute], T]) -> T:
        def run(connection: sqlite3.Connection) -> T:
            try:
                return action(lambda sql, values=(): connection.execute(sql, values).fetchall())
            except sqlite3.IntegrityError as error:
                raise Taken from error

        result = self._file.run(run, self._timeout, write=True)
        self.settle()
        return result

    def append(self, experiment: int, rows: Sequence[Row], after: int | None = None) -> int | None:
        def add(connection: sqlite3.Connection) -> int | None:
            row = connection.execute(LAST, (experiment,)).fetchone()
            if row is None:
                raise UnknownExperiment("the experiment has been deleted")
            last = row[0] or 0
            if after is not None and last != after:
                return None
            numbered = [(experiment, last + i, *row[1:]) for i, row in enumerate(rows, 1)]
            try:
                connection.executemany(INSERT, numbered)
            except sqlite3.IntegrityError:
                raise Taken from None
            return int(last) + len(rows)

        try:
            last = self._file.run(add, self._timeout, write=True)
        except Taken:
            return None
        if last is not None:
            self.settle()
        return last

    def settle(self) -> None:
        self._file.sync(self._timeout)

    def find(self, experiment: int, numbers: Sequence[int]) -> list[LogRow]:
        def look_up(connection: sqlite3.Connection) -> list[LogRow]:
            rows: list[LogRow] = []
            for number in numbers:
                rows += connection.execute(FIND, (experiment, number)).fetchall()
            return rows

        return self._file.run(look_up, self._timeout)

    def move_into_file(self) -> None:
        """Move the write-ahead log into the file, which is then complete on its own."""
        ((busy, logged, moved),) = self._query("PRAGMA wal_checkpoint(TRUNCATE)")
        if busy or logged != moved:
            raise StorageUnavailable(f"{self.path}: others are using it")

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            files.close(self._file)


def open_store(url: str, create: bool, timeout: float) -> SQLiteStore | None:
    path = url.removeprefix("sqlite:///")
    if path in (url, ""):
        raise invalid_url(url)
    try:
        exists = Path(path).exists() and Path(path).stat().st_size > 0
    except (OSError, ValueError):
        raise invalid_url(url) from None
    return SQLiteStore(path, timeout) if create or exists else None
