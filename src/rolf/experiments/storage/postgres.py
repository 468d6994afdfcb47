"""Experiments in PostgreSQL, shared by processes on many machines.

An ask that is alone is one statement: it adds its row if there is nothing that it has not seen.
Where others write as well, asks take turns: one reads, chooses, adds its row and commits without
waiting for the disk, so that the next can go on; then a transaction that waits is ended: what was
logged before is on the disk with it, and so is everything that others may have built on. Turns save
attempts and no more: who sleeps in one is passed over, and a number that is taken is tried again.

Transactions overlap, so a row may become visible after one with a higher sequence number. A
transaction gets its own number first and the sequence numbers of its rows then. So if a process
knows of a row, writes another one, and later finds all transactions up to its own at an end, then
no row before the first one can still come: it need not read there again.
"""

from __future__ import annotations

import time as clock
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from rolf.errors import RolfError, StorageError, StorageUnavailable, UnknownExperiment
from rolf.experiments.storage.base import (
    DEFAULT,
    REWARD,
    Make,
    Reader,
    Record,
    Row,
    Written,
    chunked,
)
from rolf.experiments.storage.postgres_link import Link
from rolf.experiments.storage.postgres_sql import (
    BEGIN,
    DONE,
    ENDED,
    HELD,
    KNOWN,
    LOG,
    READ,
    REWARDED,
    TOP,
    TURN,
    WRITERS,
    WRITTEN,
)
from rolf.experiments.storage.postgres_wire import call, literal, log_row, script
from rolf.experiments.storage.sql import SQLStore

if TYPE_CHECKING:
    import psycopg

IMPORTS = 0x524F4D  # the space of the lock that marks an import
ASKS = 0x524F4C  # the space of advisory locks in which asks take turns
PATIENCE = 5000  # milliseconds to wait for one's turn
TOGETHER = 500  # rows added by one message
DOUBTS = 500  # rows that may be in doubt before it is ended
LAST = 2**62
CHUNK = 20_000
IDLE = 0  # no transaction


#: a row, and the transaction that it came with
Added: TypeAlias = tuple[Any, int]


class PostgresReader(Reader):
    """``base``: all rows up to it are known; ``given``: those after it that are known."""

    def __init__(self, experiment: int, after: int) -> None:
        super().__init__(experiment)
        self.base = self.top = after
        self.given: set[int] = set()
        self.limit = DOUBTS
        #: transactions of ours, each with the highest row that was known before it
        self.marks: deque[tuple[int, int]] = deque()

    def wrote(self, added: Sequence[Added]) -> Written:
        """A transaction of ours has added rows."""
        rows = [row for row, _ in added]
        if added:
            self.marks.append((added[0][1], self.top))  # before it knew of its own
            self.top = max(self.top, rows[-1][0])
        (self.own if self.crowded else self.given).update(row[0] for row in rows)
        return Written(rows, [] if self.crowded else rows)

    def take(self, found: list[Any], upto: int | None = None) -> list[Any]:
        """Rows that are new, of all there are after the base; from now on they are known."""
        new = [log_row(row)[:-1] for row in found if int(row[0]) not in self.given]
        self.given.update(row[0] for row in new)
        if new:
            self.top = max(self.top, new[-1][0])
        if upto is not None:
            self._reach(upto)
        elif found:
            self.ended(int(found[0][-1]))
        return new

    def ended(self, before: int) -> None:
        """All transactions before this one had ended when all rows were read."""
        base = self.base
        while self.marks and self.marks[0][0] < before:
            base = max(base, self.marks.popleft()[1])
        self._reach(base)

    def _reach(self, base: int) -> None:
        if base > self.base:
            self.base = base
            self.given = {seq for seq in self.given if seq > base}
            while self.marks and self.marks[0][1] <= base:
                self.marks.popleft()


class PostgresStore(SQLStore):
    """A database that a ``postgresql://`` URL names."""

    mark = "%s"

    def __init__(self, url: str) -> None:
        self._link = Link(url)
        self._run = self._link.run
        self._psycopg = self._link.psycopg
        self._impatient = 0.0  # until when no turns are taken

    @property
    def renewals(self) -> int:
        return self._link.renewals

    def _query(self, sql: str, values: Any = ()) -> list[Any]:
        return self._link.query(sql, values)

    _change = _query

    # --- experiments ---

    def create(self, record: Record, rows: Sequence[Row] = ()) -> Record | None:
        copy = f"COPY rolf_log (experiment, {WRITTEN}) FROM STDIN"

        def action(connection: psycopg.Connection[Any]) -> Record | None:
            with connection.transaction():
                added = connection.execute(self._creation.encode(), record[1:]).fetchone()
                if added is not None and rows:
                    connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", (IMPORTS,))
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

    # --- the log ---

    def reader(self, experiment: int, after: int) -> Reader:
        return PostgresReader(experiment, after)

    def read(self, reader: Reader, upto: int | None = None) -> list[Any]:
        assert isinstance(reader, PostgresReader)
        new = self._run(partial(self._recent, reader, upto))
        return new + self._catch_up(reader)

    @staticmethod
    def _recent(
        reader: PostgresReader, upto: int | None, connection: psycopg.Connection[Any]
    ) -> list[Any]:
        values = (reader.experiment, reader.base, upto or LAST)
        return reader.take(call(connection, "rolf_recent", values), upto)

    def _catch_up(self, reader: PostgresReader) -> list[Any]:
        """Where a long transaction, of anybody, keeps rows in doubt: end the doubt."""
        if len(reader.given) < reader.limit:
            return []
        new = []
        with suppress(StorageError):
            upto = self.settle(reader.experiment, patience=0.2)
            new = self._run(partial(self._recent, reader, upto))
        reader.limit = max(DOUBTS, 2 * len(reader.given))
        return new

    def settle(self, experiment: int, patience: float = 5.0) -> int:
        """Wait for the end of all transactions that may hold an earlier row."""
        upto, ours = self._query(TOP, (experiment,))[0]
        writers: set[str] | None = None
        deadline = clock.monotonic() + patience
        while clock.monotonic() < deadline:
            if self._query(ENDED, (ours,))[0][0]:
                return int(upto)
            now = {name for (name,) in self._query(WRITERS, (IMPORTS,))}
            writers = now if writers is None else writers & now
            if not writers:
                return int(upto)
            clock.sleep(0.002)
        raise StorageUnavailable("PostgreSQL: a transaction that writes to the log does not end")

    def write(self, reader: Reader, make: Make) -> Written:
        assert isinstance(reader, PostgresReader)
        if not reader.crowded:
            seen = self._catch_up(reader)
            try:
                new = make(seen)
            except RolfError:  # perhaps only because arms have changed
                new = []
            if len(new) == 1:
                added = self._run(partial(self._add_alone, reader, new[0]), repeat=False)
                if added is not None:
                    return reader.wrote([added])
                reader.crowded = True
        while True:
            rows = self._run(partial(self._add, reader, make), repeat=False)
            if rows is not None:
                return reader.wrote(rows)
            self._check(reader.experiment)

    def _add_alone(
        self, reader: PostgresReader, row: Row, connection: psycopg.Connection[Any]
    ) -> Added | None:
        """Add a row if there is none that has not been read."""
        place = reader.experiment
        turn = (ASKS, place % 2**31)  # nobody else has his
        values = (*row[1:], place, place, reader.base, len(reader.given), *turn)
        try:
            added = call(connection, "rolf_add_alone", values)
        except self._psycopg.errors.UniqueViolation:  # another ask of the same moment
            return None
        if not added:
            return None
        seq, ours, ended = map(int, added[0])
        reader.ended(ended)
        return row._replace(seq=seq), ours

    def _add(
        self, reader: PostgresReader, make: Make, connection: psycopg.Connection[Any]
    ) -> list[Added] | None:
        """Read and add rows, in turn with others; None if a number is taken all the same."""
        out = []
        try:
            new = self._take_turn(reader, connection)
            if new is None:
                return None
            rows = make(new)
            for first in range(0, len(rows), TOGETHER):
                part = rows[first : first + TOGETHER]
                end = DONE if first + TOGETHER >= len(rows) else ""
                added = script(connection, self._additions(reader, part, connection) + end)
                if not all(added[: len(part)]):  # the experiment is gone
                    return None
                for row, ((seq, ours, _),) in zip(part, added, strict=False):
                    out.append((row._replace(seq=int(seq)), int(ours)))
        except self._psycopg.errors.UniqueViolation:
            return None
        finally:
            if not connection.closed and connection.info.transaction_status != IDLE:
                connection.execute("ROLLBACK")
        return out

    @staticmethod
    def _additions(
        reader: PostgresReader, rows: Sequence[Row], connection: psycopg.Connection[Any]
    ) -> str:
        return "; ".join(
            f"EXECUTE rolf_add({', '.join(literal(connection, each) for each in values)})"
            for values in ((*row[1:], reader.experiment) for row in rows)
        )

    def _take_turn(
        self, reader: PostgresReader, connection: psycopg.Connection[Any]
    ) -> list[Any] | None:
        """Begin a transaction when it is our turn, and read; None if somebody sleeps in his."""
        begin = TURN if clock.monotonic() >= self._impatient else BEGIN
        lock = {"patience": PATIENCE, "space": ASKS, "turn": reader.experiment % 2**31}
        read = READ.format(reader.experiment, reader.base, LAST)
        try:
            *_, found = script(connection, begin.format(**lock) + read)
        except self._psycopg.errors.LockNotAvailable:
            self._impatient = clock.monotonic() + 30.0
            return None
        new = reader.take(found)
        reader.looked(new)
        return new

    def _check(self, experiment: int) -> None:
        if not self._query("SELECT 1 FROM rolf_experiments WHERE id = %s", (experiment,)):
            raise UnknownExperiment("the experiment has been deleted")

    def tell(
        self, reader: Reader, rewards: Sequence[tuple[int, float]], time: float, careful: bool
    ) -> tuple[list[float | None], list[Any]]:
        assert isinstance(reader, PostgresReader)
        experiment = reader.experiment
        wanted: list[float | None] = [reward for _, reward in rewards]

        def one(connection: psycopg.Connection[Any]) -> Any:
            with suppress(self._psycopg.errors.UniqueViolation):  # told at the same moment
                values = (experiment, REWARD, *rewards[0], time, reader.base)
                return call(connection, "rolf_reward", values)
            return None

        def many(connection: psycopg.Connection[Any]) -> list[float | None]:
            known: list[float | None] = []
            numbers = [number for number, _ in rewards]
            with connection.transaction():
                self._reward(connection, experiment, REWARD, rewards, time, careful)
                there = dict(connection.execute(KNOWN.encode(), (experiment, numbers)).fetchall())
                known = [there.get(number) for number in numbers]
                if known != wanted:
                    raise self._psycopg.Rollback
            return known

        if len(rewards) == 1 and not careful and (added := self._run(one)):
            *row, ours = log_row(added[0][:-1])
            if int(added[0][-1]) != len(reader.given):
                reader.crowded = True  # there are rows to be read before this one
            return wanted, reader.wrote([(tuple(row), ours)]).fresh
        known = self._run(many)
        if None in known:
            self._check(experiment)
        return known, []

    @staticmethod
    def _reward(
        connection: psycopg.Connection[Any],
        experiment: int,
        kind: int,
        rewards: Sequence[tuple[int, float]],
        time: float,
        careful: bool,
    ) -> None:
        """Add rewards; ``careful``: a default reward and a real one must see each other."""
        given = sorted(rewards)  # in one order everywhere, against deadlocks
        numbers = [number for number, _ in given]
        values = {"experiment": experiment, "kind": kind, "time": time, "numbers": numbers}
        values["rewards"] = [reward for _, reward in given]
        if careful:
            connection.execute(HELD.encode(), (experiment, numbers))
        connection.execute(REWARDED.encode(), values)

    def expire(self, experiment: int, numbers: Sequence[int], reward: float, time: float) -> None:
        rewards = [(number, reward) for number in numbers]

        def action(connection: psycopg.Connection[Any]) -> None:
            with connection.transaction():
                self._reward(connection, experiment, DEFAULT, rewards, time, True)

        self._run(action)

    def log(self, experiment: int, after: int, upto: int | None) -> Iterator[Any]:
        def chunk(connection: psycopg.Connection[Any], after: int) -> list[Any]:
            values = (experiment, after, upto or LAST)
            with connection.transaction(), connection.cursor(binary=True) as cursor:
                cursor.execute("SET LOCAL enable_sort = off")  # by the index, chunk after chunk
                return cursor.execute(f"{LOG} LIMIT {CHUNK}".encode(), values).fetchall()

        return chunked(lambda after: self._run(lambda held: chunk(held, after)), after, CHUNK)

    def close(self) -> None:
        self._link.close()
