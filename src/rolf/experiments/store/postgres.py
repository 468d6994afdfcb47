"""Experiments in PostgreSQL, shared by processes on many machines.

Nobody takes a lock and thinks. An ask reads, chooses, and adds its row under the next number;
if another process was faster, the number is taken and it does so again. Where others ask as well,
the row is committed without waiting for the disk, so that they can go on, and then a transaction
that waits is ended: what was logged before is on the disk with it, and so is everything that
others may have built on.

Transactions overlap, so a row may become visible after one with a higher sequence number. Each
row names its transaction, and a reader asks for all rows of transactions that had not ended when
it last looked: none is missed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from rolf.errors import (
    MissingExtra,
    RolfError,
    StorageError,
    StorageUnavailable,
    UnknownExperiment,
    UnusableStorage,
)
from rolf.experiments.store import schema
from rolf.experiments.store.base import (
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
from rolf.experiments.store.postgres_sql import (
    ADD,
    ADD_AT_ONCE,
    FLUSH,
    HELD,
    HOLD,
    KNOWN,
    LOG,
    RECENT,
    REWARDED,
    WRITTEN,
)

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

SETUP = 0x524F4C46  # the advisory lock under which tables are made
LAST = 2**62
CHUNK = 20_000


class PostgresReader(Reader):
    """``base``: all rows up to it are known; ``horizon``: all of earlier transactions are;
    ``given``: rows of later transactions that are known already."""

    def __init__(self, experiment: int, after: int) -> None:
        super().__init__(experiment)
        self.base = after
        self.horizon = "0"
        self.given: set[int] = set()

    def wrote(self, seqs: Sequence[int]) -> None:
        self.given.update(seqs)

    def take(self, found: list[Any], upto: int | None) -> list[Any]:
        """Rows that are new, of what a query gave; from now on they are known."""
        new = [row[:-1] for row in found if row[0] not in self.given]
        if upto is None:
            if found:  # else the old horizon does as well
                self.horizon = found[0][-1]
            self.given = {row[0] for row in found}
        else:  # everything up to there is known now
            self.base = upto
            self.given = {seq for seq in self.given if seq > upto}
        return new


class PostgresStore(Store):
    """A database that a ``postgresql://`` URL names."""

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError as error:
            hint = "PostgreSQL needs psycopg: pip install 'rolf-bandits[postgres]'"
            raise MissingExtra(hint) from error
        self._psycopg = psycopg
        self._url = url
        self._lock = threading.RLock()
        self._connection: psycopg.Connection[Any] | None = None
        self._process = 0
        self._run(lambda connection: None)

    # --- the connection ---

    def _connect(self) -> psycopg.Connection[Any]:
        """The connection of this process: one that was made before a fork is not ours."""
        kept = self._connection
        if kept is not None and self._process == os.getpid() and not kept.closed:
            return kept
        self._inherited = kept  # kept alive: to close it would end it for the parent as well
        module = self._psycopg
        made: psycopg.Connection[Any]
        try:
            made = module.connect(self._url, autocommit=True, connect_timeout=10)
        except module.ProgrammingError as error:
            raise StorageUnavailable(f"PostgreSQL: not a usable URL ({_short(error)})") from None
        except module.Error as error:
            raise StorageUnavailable(f"PostgreSQL: cannot be reached ({_short(error)})") from error
        made.isolation_level = module.IsolationLevel.READ_COMMITTED
        try:
            made.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') = 'off'"
            )
            self._prepare(made)
        except BaseException:
            made.close()
            raise
        self._connection, self._process = made, os.getpid()
        return made

    def _prepare(self, made: psycopg.Connection[Any]) -> None:
        """Make the tables, or bring those of an older version up to date."""
        if self._version(made) == SCHEMA:
            return
        with made.transaction():
            made.execute("SELECT pg_advisory_xact_lock(%s)", (SETUP,))
            version = self._version(made)  # another process may have been faster
            if version == SCHEMA:
                return
            made.execute("CREATE SEQUENCE IF NOT EXISTS rolf_sequence")
            for statement in schema.steps(version):
                made.execute(statement.format(**schema.POSTGRES).encode())
            made.execute(
                "CREATE INDEX IF NOT EXISTS rolf_transactions ON rolf_log (experiment, xid)"
            )

    def _version(self, made: psycopg.Connection[Any]) -> int | None:
        found = made.execute(
            "SELECT to_regclass('rolf_meta'), to_regclass('rolf_experiments')"
        ).fetchone()
        assert found is not None
        meta, experiments = found
        if meta is None and experiments is None:
            return None
        row = None
        with suppress(self._psycopg.ProgrammingError):
            row = made.execute("SELECT version FROM rolf_meta").fetchone()
        if row is None or not isinstance(row[0], int):
            raise UnusableStorage("PostgreSQL: the tables called rolf_... are not rolf's")
        if row[0] > SCHEMA:
            known = f"layout {row[0]}, this one knows {SCHEMA}"
            raise UnusableStorage(f"PostgreSQL: the tables were made by a newer rolf ({known})")
        return row[0]

    def _run(self, action: Callable[[psycopg.Connection[Any]], T]) -> T:
        """Do something, once more if the connection is lost.

        Everything here may be done twice: tells are idempotent, and a decision that was
        recorded but never answered is one that waits.
        """
        psycopg = self._psycopg
        with self._lock:
            for again in (True, False):
                connection = self._connect()
                try:
                    return action(connection)
                except RolfError:
                    raise
                except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                    lost = connection.closed or connection.broken
                    if lost:
                        connection.close()
                        self._connection = None
                    if lost and again:
                        continue
                    what = "the connection was lost" if lost else "does not answer"
                    raise StorageUnavailable(f"PostgreSQL: {what} ({_short(error)})") from error
                except psycopg.Error as error:
                    raise StorageError(f"PostgreSQL: {_short(error)}") from error
        raise AssertionError

    def _query(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        return self._run(lambda connection: connection.execute(sql.encode(), values).fetchall())

    # --- experiments ---

    def create(self, record: Record) -> Record | None:
        names = Record._fields[1:]
        marks = ", ".join(["%s"] * len(names))
        added = self._query(
            f"INSERT INTO rolf_experiments ({', '.join(names)}) VALUES ({marks}) "
            "ON CONFLICT DO NOTHING RETURNING id",
            record[1:],
        )
        return self.find(record.name) if added else None

    def find(self, name: str) -> Record | None:
        rows = self._query(f"SELECT {FIELDS} FROM rolf_experiments WHERE name = %s", (name,))
        return Record(*rows[0]) if rows else None

    def names(self) -> list[str]:
        return sorted(name for (name,) in self._query("SELECT name FROM rolf_experiments"))

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
        values = (reader.experiment, reader.horizon, reader.base, upto or LAST)
        return reader.take(self._query(RECENT, values), upto)

    def settle(self, experiment: int) -> int:
        def action(connection: psycopg.Connection[Any]) -> int:
            with connection.transaction():
                connection.execute("SET LOCAL lock_timeout = '5s'")
                # Waits for all inserts under way; those after it have higher numbers.
                connection.execute("LOCK TABLE rolf_log IN SHARE MODE")
                sql = "SELECT coalesce(max(seq), 0) FROM rolf_log WHERE experiment = %s"
                row = connection.execute(sql, (experiment,)).fetchone()
            return int(row[0]) if row else 0

        return self._run(action)

    def write(self, reader: Reader, make: Make) -> list[Any]:
        assert isinstance(reader, PostgresReader)
        while True:
            new = self.read(reader)
            crowded = any(row[1] == DECISION for row in new)
            rows = make(new)
            seqs = self._run(partial(self._add, reader.experiment, rows, crowded))
            if seqs is not None:
                reader.wrote(seqs)
                return [row._replace(seq=seq) for row, seq in zip(rows, seqs, strict=True)]
            if not self._query(
                "SELECT 1 FROM rolf_experiments WHERE id = %s", (reader.experiment,)
            ):
                raise UnknownExperiment("the experiment has been deleted")

    @staticmethod
    def _add(
        experiment: int, rows: list[Row], crowded: bool, connection: psycopg.Connection[Any]
    ) -> list[int] | None:
        """Add rows if none of their numbers is taken."""
        seqs = []
        add = (ADD_AT_ONCE if crowded else ADD).encode()
        try:
            with connection.transaction() if len(rows) > 1 else nullcontext():
                for row in rows:
                    added = connection.execute(add, (*row[1:], experiment)).fetchone()
                    if added is None:
                        raise _Taken
                    seqs.append(added[0])
        except _Taken:
            return None
        if crowded:
            connection.execute(FLUSH)
        return seqs

    def tell(
        self, experiment: int, rewards: Sequence[tuple[int, float]], time: float, careful: bool
    ) -> list[float | None]:
        rows = [
            {"experiment": experiment, "kind": REWARD, "number": n, "reward": r, "time": time}
            for n, r in sorted(rewards)  # in one order everywhere, against deadlocks
        ]
        numbers = [number for number, _ in rewards]
        wanted: list[float | None] = [reward for _, reward in rewards]

        def action(connection: psycopg.Connection[Any]) -> list[float | None]:
            quick = len(rows) == 1 and not careful
            if quick and connection.execute(REWARDED.encode(), rows[0]).rowcount == 1:
                return wanted
            known: list[float | None] = []
            with connection.transaction():
                if careful:  # a default reward and a real one must see each other
                    connection.execute(HELD.encode(), (experiment, numbers))
                with connection.cursor() as cursor:
                    cursor.executemany(REWARDED.encode(), rows)
                there = dict(connection.execute(KNOWN.encode(), (experiment, numbers)).fetchall())
                known = [there.get(number) for number in numbers]
                if known != wanted:
                    raise self._psycopg.Rollback
            return known

        known = self._run(action)
        if None in known and not self._query(
            "SELECT 1 FROM rolf_experiments WHERE id = %s", (experiment,)
        ):
            raise UnknownExperiment("the experiment has been deleted")
        return known

    def expire(self, experiment: int, numbers: Sequence[int], reward: float, time: float) -> None:
        rows = [
            {"experiment": experiment, "kind": DEFAULT, "number": n, "reward": reward, "time": time}
            for n in sorted(numbers)
        ]

        def action(connection: psycopg.Connection[Any]) -> None:
            with connection.transaction():
                connection.execute(HELD.encode(), (experiment, list(numbers)))
                with connection.cursor() as cursor:
                    cursor.executemany(REWARDED.encode(), rows)

        self._run(action)

    def log(self, experiment: int, after: int, upto: int | None) -> Iterator[Any]:
        def chunk(connection: psycopg.Connection[Any], after: int) -> list[Any]:
            values = (experiment, after, upto or LAST)
            with connection.transaction(), connection.cursor(binary=True) as cursor:
                cursor.execute("SET LOCAL enable_sort = off")  # by the index, chunk after chunk
                return cursor.execute(f"{LOG} LIMIT {CHUNK}".encode(), values).fetchall()

        return chunked(lambda after: self._run(lambda held: chunk(held, after)), after, CHUNK)

    def restore(self, experiment: int, rows: Sequence[Row]) -> None:
        def action(connection: psycopg.Connection[Any]) -> None:
            with connection.transaction():
                if connection.execute(HOLD, (experiment,)).fetchone() is None:
                    raise UnknownExperiment("the experiment has been deleted")
                copy = f"COPY rolf_log (experiment, {WRITTEN}) FROM STDIN"
                with connection.cursor() as cursor, cursor.copy(copy.encode()) as lines:
                    for row in rows:
                        lines.write_row((experiment, *row[1:]))

        self._run(action)

    # --- snapshots ---

    def snapshot(self, experiment: int) -> Snapshot | None:
        sql = "SELECT upto, version, state FROM rolf_snapshots WHERE experiment = %s"
        rows = self._query(sql, (experiment,))
        return Snapshot(*rows[0]) if rows else None

    def save(self, experiment: int, snapshot: Snapshot) -> None:
        self._query(
            "INSERT INTO rolf_snapshots VALUES (%s, %s, %s, %s) ON CONFLICT (experiment) "
            "DO UPDATE SET upto = excluded.upto, version = excluded.version, "
            "state = excluded.state WHERE excluded.upto >= rolf_snapshots.upto RETURNING upto",
            (experiment, *snapshot),
        )

    def forget(self, experiment: int) -> None:
        self._query("DELETE FROM rolf_snapshots WHERE experiment = %s RETURNING 1", (experiment,))

    def close(self) -> None:
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None


class _Taken(Exception):
    """Another process was faster."""


def _short(error: BaseException) -> str:
    """The first line of what the server said, which has no password in it."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
