"""A connection to PostgreSQL that is made anew when it is lost."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from rolf.errors import MissingExtra, RolfError, StorageError, StorageUnavailable, UnusableStorage
from rolf.experiments.storage import schema
from rolf.experiments.storage.base import SCHEMA, ConnectionRenewed, without_password
from rolf.experiments.storage.postgres_sql import PREPARED, SETTINGS

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

SETUP = 0x524F4C46  # the advisory lock under which tables are made


class Link:
    """A database that a ``postgresql://`` URL names, with the tables of today."""

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError as error:
            hint = "PostgreSQL needs psycopg: pip install 'rolf-bandits[postgres]'"
            raise MissingExtra(hint) from error
        self.psycopg = psycopg
        self.url = url
        self._lock = threading.RLock()
        self._connection: psycopg.Connection[Any] | None = None
        self._process = 0
        self.renewals = 0
        self.run(lambda connection: None)

    def _connect(self) -> psycopg.Connection[Any]:
        """The connection of this process: one that was made before a fork is not ours."""
        kept = self._connection
        if kept is not None and self._process == os.getpid() and not kept.closed:
            return kept
        self._inherited = kept  # kept alive: to close it would end it for the parent as well
        module = self.psycopg
        made: psycopg.Connection[Any]
        try:
            made = module.connect(self.url, autocommit=True, connect_timeout=10)
        except module.ProgrammingError as error:
            words = without_password(_short(error))
            raise StorageUnavailable(f"PostgreSQL: not a usable URL ({words})") from None
        except module.Error as error:
            raise StorageUnavailable(f"PostgreSQL: cannot be reached ({_short(error)})") from error
        made.isolation_level = module.IsolationLevel.READ_COMMITTED
        made.prepare_threshold = None  # ours are prepared by name, and outlive a rollback
        try:
            made.execute(SETTINGS, prepare=False)
            self._prepare(made)
            for statement in PREPARED:
                made.execute(statement.encode())
        except BaseException:
            made.close()
            raise
        self._connection, self._process = made, os.getpid()
        return made

    def _prepare(self, made: psycopg.Connection[Any]) -> None:
        """Make the tables, or bring those of an older version up to date."""
        if self._version(made) == SCHEMA:
            return
        # Not within the transaction: it would not notice what was made while it waited.
        made.execute("SELECT pg_advisory_lock(%s)", (SETUP,))
        try:
            version = self._version(made)  # another process may have been faster
            if version == SCHEMA:
                return
            with made.transaction():
                made.execute("CREATE SEQUENCE IF NOT EXISTS rolf_sequence")
                for statement in schema.steps(version, schema.POSTGRES):
                    made.execute(statement.encode())
        finally:
            if not made.closed:
                made.execute("SELECT pg_advisory_unlock(%s)", (SETUP,))

    def _version(self, made: psycopg.Connection[Any]) -> int | None:
        found = made.execute(
            "SELECT to_regclass('rolf_meta'), to_regclass('rolf_experiments')"
        ).fetchone()
        assert found is not None
        meta, experiments = found
        if meta is None and experiments is None:
            return None
        row = None
        with suppress(self.psycopg.errors.UndefinedTable, self.psycopg.errors.UndefinedColumn):
            row = made.execute("SELECT version FROM rolf_meta").fetchone()
        if row is None or not schema.known(row[0]):
            raise UnusableStorage("PostgreSQL: the tables called rolf_... are not rolf's")
        if row[0] > SCHEMA:
            known = f"layout {row[0]}, this one knows {SCHEMA}"
            raise UnusableStorage(f"PostgreSQL: the tables were made by a newer rolf ({known})")
        return int(row[0])

    def run(self, action: Callable[[psycopg.Connection[Any]], T], *, repeat: bool = True) -> T:
        """Do something, once more if the connection is lost.

        Everything may be done twice: tells are idempotent, and a decision that was recorded but
        never answered is one that waits. What rests on what was read before is not to be
        repeated: ConnectionRenewed is raised instead.
        """
        with self._lock:
            try:
                return self._try(action)
            except _Lost as lost:
                self.renewals += 1
                if not repeat:
                    self._try(lambda connection: None)  # or it is out of reach
                    raise ConnectionRenewed(f"PostgreSQL: {_lost(lost)}") from lost.__cause__
                try:
                    return self._try(action)
                except _Lost as again:
                    raise StorageUnavailable(f"PostgreSQL: {_lost(again)}") from again.__cause__

    def _try(self, action: Callable[[psycopg.Connection[Any]], T]) -> T:
        psycopg = self.psycopg
        connection = None
        try:
            connection = self._connect()
            return action(connection)
        except RolfError:
            raise
        except psycopg.Error as error:
            ours = isinstance(error, psycopg.OperationalError) and not error.sqlstate
            if connection is not None and (ours or connection.closed or connection.broken):
                connection.close()
                self._connection = None
                raise _Lost from error
            if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
                raise StorageUnavailable(
                    f"PostgreSQL: does not answer ({_short(error)})"
                ) from error
            raise StorageError(f"PostgreSQL: {_short(error)}") from error

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        return self.run(lambda connection: connection.execute(sql.encode(), values).fetchall())

    def close(self) -> None:
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            else:
                self._inherited = self._connection
            self._connection = None


class _Lost(Exception):
    """The connection is gone."""


def _lost(lost: _Lost) -> str:
    return f"the connection was lost ({_short(lost.__cause__)})"


def _short(error: BaseException | None) -> str:
    """The first line of what the server said, which has no password in it."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
