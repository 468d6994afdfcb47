"""Experiments in PostgreSQL, shared by processes on many machines.

The procedure ``rolf_append`` locks the head of a log, adds rows and commits without waiting for the
disk. Then it commits a second transaction that does wait: with it, everything logged before is on
disk, including everything a decision was based on.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg

from rolf.errors import StorageError, UnknownExperiment
from rolf.experiments.storage.contract import PART
from rolf.experiments.storage.postgres.pool import Connection, KeptLocked, pools, prepare_tables
from rolf.experiments.storage.rows import APART, COLUMNS, LogRow, Row
from rolf.experiments.storage.schema import GIVEN
from rolf.experiments.storage.sql import Execute, SQLStore, Taken
from rolf.experiments.storage.urls import invalid_url

T = TypeVar("T")

LOCKS = 0x524F4C << 32  # advisory locks taken by asks, one per experiment
UNLOCK = b"SELECT pg_advisory_unlock(%s)"
APPEND = b"CALL rolf_append(%s::int8, %s::int8, %s::int8, %s::json, %s::int8)"
FLUSH = b"SELECT pg_logical_emit_message(true, 'rolf', '')"
TAKE_LOCK = f"SELECT {COLUMNS} FROM rolf_lock(%s::int8, %s::int8, %s::int8, {PART})".encode()
FIND = f"""
SELECT {COLUMNS} FROM rolf_log
WHERE experiment + 0 = %s::int8 AND number = ANY(%s::int8[]) AND kind NOT IN {APART}"""


class PostgresStore(SQLStore):
    """The database of a ``postgresql://`` URL."""

    tables = {**SQLStore.tables, "rolf_heads": "experiment"}  # noqa: RUF012
    snapshot_types = ("?::int8", "?::text", "?::text")
    lock_record = "FOR KEY SHARE"

    def __init__(self, url: str, timeout: float) -> None:
        self._closed = False
        self._locks: dict[int, int] = {}  # locks held, by thread
        self._pool = pools.open(url, timeout)
        self._run = self._pool.run
        try:
            self._run(prepare_tables)
        except BaseException:
            self.close()
            raise

    @property
    def reconnects(self) -> int:  # type: ignore[override]
        return self._pool.reconnects

    def now(self) -> float:
        return self._pool.now()

    def _query(self, sql: str, values: Sequence[Any] = (), *, prepare: bool = True) -> list[Any]:
        statement = sql.replace("?", "%s").encode()
        return self._run(lambda connection: connection.fetch(statement, values, prepare=prepare))

    def _change(self, action: Callable[[Execute], T]) -> T:
        def run(connection: Connection) -> T:
            def execute(sql: str, values: Sequence[Any] = ()) -> list[Any]:
                cursor = connection.execute(sql.replace("?", "%s").encode(), values)
                return cursor.fetchall() if cursor.description else []

            try:
                with connection.transaction():
                    return action(execute)
            except psycopg.errors.UniqueViolation:
                raise Taken from None

        return self._run(run)

    def append(self, experiment: int, rows: Sequence[Row], after: int | None = None) -> int | None:
        columns = (dict(zip(GIVEN, row[1:], strict=True)) for row in rows)
        rows_json = json.dumps(list(columns), separators=(",", ":"))

        def add(connection: Connection) -> int | None:
            me = threading.get_ident()
            values = (experiment, len(rows), after, rows_json, self._locks.get(me))
            try:
                last: int | None = connection.fetch(APPEND, values)[0][0]
            except psycopg.errors.UniqueViolation:
                return None
            if last is not None:
                self._locks.pop(me, None)
            return last

        last = self._run(add, repeat=False)
        if last is None:
            self._check_exists(experiment)
        return last

    def _check_exists(self, experiment: int) -> None:
        if not self._query("SELECT 1 FROM rolf_heads WHERE experiment = ?", (experiment,)):
            raise UnknownExperiment("the experiment has been deleted")

    @contextmanager
    def lock(self, experiment: int, after: int) -> Iterator[list[LogRow]]:
        """Read with a lock, so that concurrent asks do not take each other's numbers. Appending
        releases the lock; if a process stalls with it, others go ahead."""
        key = LOCKS | experiment & 0xFFFFFFFF
        me = threading.get_ident()

        def lock_and_read(connection: Connection) -> list[LogRow]:
            rows = connection.fetch(TAKE_LOCK, (key, experiment, after))
            self._locks[me] = key
            return rows

        with self._pool.same_connection():
            try:
                rows = self._run(lock_and_read)
            except KeptLocked:  # for too long
                rows = self.read(experiment, after)
            try:
                yield rows
            finally:
                if self._locks.pop(me, None) is not None:
                    with suppress(StorageError):
                        self._run(lambda connection: connection.fetch(UNLOCK, (key,)))

    def settle(self) -> None:
        self._run(lambda connection: connection.fetch(FLUSH))

    def find(self, experiment: int, numbers: Sequence[int]) -> list[LogRow]:
        # never prepared: a plan made while the table was small may scan the whole log
        return self._query(FIND, (experiment, list(numbers)), prepare=False)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            pools.close(self._pool)


def open_store(url: str, create: bool, timeout: float) -> PostgresStore:
    if url.endswith("://"):
        raise invalid_url(url)
    return PostgresStore(url, timeout)
