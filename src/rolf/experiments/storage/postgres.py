"""Experiments in PostgreSQL, shared by processes on many machines.

An ask without competition is one statement, which adds its row if the process has seen every
other one. Where others write too, asks take turns: a process reads, chooses, adds its row and
commits without waiting for the disk, so that the next one can start. Then it ends a transaction
that does wait: everything logged before is on the disk with it, and so is everything that the
decision was based on. Turns only save attempts. A process that stalls in its turn is skipped after
a timeout, and a decision whose number turns out to be taken is made again.
"""

from __future__ import annotations

import time as clock
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from rolf.errors import RolfError, StorageError, StorageUnavailable, UnknownExperiment
from rolf.experiments.storage import postgres_reader
from rolf.experiments.storage.base import (
    DEFAULT,
    REWARD,
    LogRow,
    MakeRows,
    Reader,
    Record,
    Rewards,
    Row,
    Told,
    Written,
)
from rolf.experiments.storage.postgres_link import Link
from rolf.experiments.storage.postgres_reader import Added, PostgresReader
from rolf.experiments.storage.postgres_sql import (
    BEGIN,
    BEGIN_TURN,
    COMMIT_AND_FLUSH,
    HIGHEST_ROW,
    INSERT_REWARDS,
    INSERTED_COLUMNS,
    LOCK_DECISIONS,
    LOG,
    OTHER_WRITERS,
    READ,
    RECORDED_REWARDS,
    TRANSACTIONS_ENDED,
)
from rolf.experiments.storage.postgres_wire import call, literal, log_row, script
from rolf.experiments.storage.sql import CHUNK_ROWS, MAX_SEQ, SQLStore, in_chunks
from rolf.experiments.storage.urls import invalid_url

if TYPE_CHECKING:
    import psycopg

IMPORT_LOCKS = 0x524F4D  # key of the advisory lock that an import holds
TURN_LOCKS = 0x524F4C  # key of the advisory locks by which asks take turns
TURN_TIMEOUT = 5000  # milliseconds to wait for a turn
ROWS_PER_MESSAGE = 500  # that are added
IDLE = 0  # the status of a connection without a transaction


class PostgresStore(SQLStore):
    """The database that a ``postgresql://`` URL names."""

    placeholder = "%s"

    def __init__(self, url: str) -> None:
        self._link = Link(url)
        self._run = self._link.run
        self._psycopg = self._link.psycopg
        self._no_turns_until = 0.0  # after somebody has stalled in a turn

    @property
    def reconnects(self) -> int:
        return self._link.reconnects

    def _query(self, sql: str, values: Any = ()) -> list[Any]:
        return self._link.query(sql, values)

    _change = _query

    # --- experiments ---

    def create(self, record: Record, rows: Sequence[Row] = ()) -> Record | None:
        copy = f"COPY rolf_log (experiment, {INSERTED_COLUMNS}) FROM STDIN"

        def action(connection: psycopg.Connection[Any]) -> Record | None:
            with connection.transaction():
                added = connection.execute(self._creation.encode(), record[1:]).fetchone()
                if added is not None and rows:
                    connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", (IMPORT_LOCKS,))
                    with connection.cursor() as cursor, cursor.copy(copy.encode()) as lines:
                        for row in rows:
                            lines.write_row((added[0], *row[1:]))
            return None if added is None else record._replace(id=added[0])

        return self._run(action)

    def delete(self, experiment: int) -> None:
        def action(connection: psycopg.Connection[Any]) -> None:
            with connection.transaction():
                for table, column in (
                    ("rolf_experiments", "id"),
                    ("rolf_snapshots", "experiment"),
                    ("rolf_log", "experiment"),
                ):
                    sql = f"DELETE FROM {table} WHERE {column} = %s"
                    connection.execute(sql.encode(), (experiment,))

        self._run(action)

    def _check_exists(self, experiment: int) -> None:
        if not self._query("SELECT 1 FROM rolf_experiments WHERE id = %s", (experiment,)):
            raise UnknownExperiment("the experiment has been deleted")

    # --- reading the log ---

    def reader(self, experiment: int, after: int) -> Reader:
        return PostgresReader(experiment, after)

    def read(self, reader: Reader, upto: int | None = None) -> list[LogRow]:
        assert isinstance(reader, PostgresReader)
        rows = self._run(partial(self._read_unseen, reader, upto))
        return rows + self._settle_if_due(reader)

    @staticmethod
    def _read_unseen(
        reader: PostgresReader, upto: int | None, connection: psycopg.Connection[Any]
    ) -> list[LogRow]:
        values = (reader.experiment, reader.base, upto or MAX_SEQ)
        return reader.unseen(call(connection, "rolf_recent", values), upto)

    def _settle_if_due(self, reader: PostgresReader) -> list[LogRow]:
        """Settle rows if a long transaction, of anyone, has kept too many of them unsettled."""
        if len(reader.seen) < reader.max_unsettled:
            return []
        rows = []
        with suppress(StorageError):
            upto = self.settle(reader.experiment, timeout=0.2)
            rows = self._run(partial(self._read_unseen, reader, upto))
        reader.max_unsettled = max(postgres_reader.MAX_UNSETTLED, 2 * len(reader.seen))
        return rows

    def settle(self, experiment: int, timeout: float = 5.0) -> int:
        """Wait for the end of all transactions that may hold an earlier row."""
        highest, transaction = self._query(HIGHEST_ROW, (experiment,))[0]
        writers: set[str] | None = None  # that have been writing since then
        deadline = clock.monotonic() + timeout
        while clock.monotonic() < deadline:
            if self._query(TRANSACTIONS_ENDED, (transaction,))[0][0]:
                return int(highest)
            now = {name for (name,) in self._query(OTHER_WRITERS, (IMPORT_LOCKS,))}
            writers = now if writers is None else writers & now
            if not writers:
                return int(highest)
            clock.sleep(0.002)
        raise StorageUnavailable("PostgreSQL: a transaction that writes to the log does not end")

    def log(self, experiment: int, after: int, upto: int | None) -> Iterator[LogRow]:
        def fetch(after: int, connection: psycopg.Connection[Any]) -> list[LogRow]:
            values = (experiment, after, upto or MAX_SEQ)
            with connection.transaction(), connection.cursor(binary=True) as cursor:
                cursor.execute("SET LOCAL enable_sort = off")  # use the index for every chunk
                return cursor.execute(f"{LOG} LIMIT {CHUNK_ROWS}".encode(), values).fetchall()

        return in_chunks(lambda after: self._run(partial(fetch, after)), after)

    # --- decisions and changes ---

    def write(self, reader: Reader, make_rows: MakeRows) -> Written:
        assert isinstance(reader, PostgresReader)
        if not reader.contended:
            settled = self._settle_if_due(reader)
            try:
                rows = make_rows(settled)
            except RolfError:  # perhaps only because arms have changed
                rows = []
            if len(rows) == 1:
                added = self._run(partial(self._add_uncontended, reader, rows[0]), repeat=False)
                if added is not None:
                    return Written([added[0]], reader.wrote([added]))
                reader.contended = True
        while True:
            all_added = self._run(partial(self._add_in_turn, reader, make_rows), repeat=False)
            if all_added is not None:
                return Written([row for row, _ in all_added], reader.wrote(all_added))
            self._check_exists(reader.experiment)

    def _add_uncontended(
        self, reader: PostgresReader, row: Row, connection: psycopg.Connection[Any]
    ) -> Added | None:
        """Add a row, provided that all others have been seen and nobody has a turn."""
        experiment = reader.experiment
        turn = (TURN_LOCKS, experiment % 2**31)
        values = (*row[1:], experiment, experiment, reader.base, len(reader.seen), *turn)
        try:
            added = call(connection, "rolf_add_alone", values)
        except self._psycopg.errors.UniqueViolation:  # by an ask at the same moment
            return None
        if not added:
            return None
        seq, transaction, ended = map(int, added[0])
        reader.ended(ended)
        return row._replace(seq=seq), transaction

    def _add_in_turn(
        self, reader: PostgresReader, make_rows: MakeRows, connection: psycopg.Connection[Any]
    ) -> list[Added] | None:
        """Read and add rows, taking turns with others; None if a number is taken nonetheless."""
        all_added: list[Added] = []
        try:
            unseen = self._take_turn(reader, connection)
            if unseen is None:
                return None
            rows = make_rows(unseen)
            for first in range(0, len(rows), ROWS_PER_MESSAGE):
                part = rows[first : first + ROWS_PER_MESSAGE]
                end = COMMIT_AND_FLUSH if first + ROWS_PER_MESSAGE >= len(rows) else ""
                added = script(connection, self._additions(reader, part, connection) + end)
                if not all(added[: len(part)]):  # the experiment is gone
                    return None
                for row, ((seq, transaction, _),) in zip(part, added, strict=False):
                    all_added.append((row._replace(seq=int(seq)), int(transaction)))
        except self._psycopg.errors.UniqueViolation:
            return None
        finally:
            if not connection.closed and connection.info.transaction_status != IDLE:
                connection.execute("ROLLBACK")
        return all_added

    @staticmethod
    def _additions(
        reader: PostgresReader, rows: Sequence[Row], connection: psycopg.Connection[Any]
    ) -> str:
        return "; ".join(
            f"EXECUTE rolf_add({', '.join(literal(connection, value) for value in values)})"
            for values in ((*row[1:], reader.experiment) for row in rows)
        )

    def _take_turn(
        self, reader: PostgresReader, connection: psycopg.Connection[Any]
    ) -> list[LogRow] | None:
        """Begin a transaction when it is our turn, and read; None if the turn does not come."""
        begin = BEGIN_TURN if clock.monotonic() >= self._no_turns_until else BEGIN
        turn = {"timeout": TURN_TIMEOUT, "key": TURN_LOCKS, "turn": reader.experiment % 2**31}
        read = READ.format(reader.experiment, reader.base, MAX_SEQ)
        try:
            *_, fetched = script(connection, begin.format(**turn) + read)
        except self._psycopg.errors.LockNotAvailable:
            self._no_turns_until = clock.monotonic() + 30.0
            return None
        rows = reader.unseen(fetched)
        reader.caught_up(rows)
        return rows

    # --- rewards ---

    def tell(self, reader: Reader, rewards: Rewards, time: float, *, has_defaults: bool) -> Told:
        assert isinstance(reader, PostgresReader)
        experiment = reader.experiment
        told: list[float | None] = [reward for _, reward in rewards]

        def tell_one(connection: psycopg.Connection[Any]) -> Any:
            with suppress(self._psycopg.errors.UniqueViolation):  # told at the same moment
                values = (experiment, REWARD, *rewards[0], time, reader.base)
                return call(connection, "rolf_reward", values)
            return None

        def tell_all(connection: psycopg.Connection[Any]) -> list[float | None]:
            on_record: list[float | None] = []
            numbers = [number for number, _ in rewards]
            with connection.transaction():
                self._add_rewards(connection, experiment, REWARD, rewards, time, has_defaults)
                rows = connection.execute(RECORDED_REWARDS.encode(), (experiment, numbers))
                recorded = dict(rows.fetchall())
                on_record = [recorded.get(number) for number in numbers]
                if on_record != told:
                    raise self._psycopg.Rollback
            return on_record

        if len(rewards) == 1 and not has_defaults and (added := self._run(tell_one)):
            *row, transaction = log_row(added[0][:-1])
            if int(added[0][-1]) != len(reader.seen):
                reader.contended = True  # there are rows to be read before this one
            return Told(told, reader.wrote([(tuple(row), transaction)]))
        on_record = self._run(tell_all)
        if None in on_record:
            self._check_exists(experiment)
        return Told(on_record)

    @staticmethod
    def _add_rewards(
        connection: psycopg.Connection[Any],
        experiment: int,
        kind: int,
        rewards: Rewards,
        time: float,
        has_defaults: bool,
    ) -> None:
        """Add rewards. A default reward and a real one must not overlook each other."""
        ordered = sorted(rewards)  # the same order everywhere prevents deadlocks
        numbers = [number for number, _ in ordered]
        values = {"experiment": experiment, "kind": kind, "time": time, "numbers": numbers}
        values["rewards"] = [reward for _, reward in ordered]
        if has_defaults:
            connection.execute(LOCK_DECISIONS.encode(), (experiment, numbers))
        connection.execute(INSERT_REWARDS.encode(), values)

    def expire(self, experiment: int, numbers: Sequence[int], reward: float, time: float) -> None:
        rewards = [(number, reward) for number in numbers]

        def action(connection: psycopg.Connection[Any]) -> None:
            with connection.transaction():
                self._add_rewards(connection, experiment, DEFAULT, rewards, time, True)

        self._run(action)

    def close(self) -> None:
        self._link.close()


def open_store(url: str, create: bool) -> PostgresStore:
    if url.endswith("://"):
        raise invalid_url(url)
    return PostgresStore(url)
