"""A connection to PostgreSQL that is restored when it is lost."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from rolf.errors import MissingExtra, RolfError, StorageError, StorageUnavailable, UnusableStorage
from rolf.experiments.storage import schema
from rolf.experiments.storage.base import SCHEMA, Reconnected
from rolf.experiments.storage.postgres_sql import PREPARED, SETTINGS
from rolf.experiments.storage.urls import without_password

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

SETUP_LOCK = 0x524F4C46  # the advisory lock for creating tables


class Link:
    """A connection to the database of a ``postgresql://`` URL, with its tables up to date."""

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
        self.reconnects = 0
        self.run(lambda connection: None)

    def _connect(self) -> psycopg.Connection[Any]:
        """The connection of this process; one opened before a fork belongs to the parent."""
        current = self._connection
        if current is not None and self._process == os.getpid() and not current.closed:
            return current
        self._inherited = current  # never closed: that would end it for the parent too
        module = self.psycopg
        connection: psycopg.Connection[Any]
        try:
            connection = module.connect(self.url, autocommit=True, connect_timeout=10)
        except module.ProgrammingError as error:
            words = without_password(_short(error))
            raise StorageUnavailable(f"PostgreSQL: not a usable URL ({words})") from None
        except module.Error as error:
            raise StorageUnavailable(f"PostgreSQL: cannot be reached ({_short(error)})") from error
        connection.isolation_level = module.IsolationLevel.READ_COMMITTED
        connection.prepare_threshold = None  # ours are prepared by name and outlive a rollback
        try:
            connection.execute(SETTINGS, prepare=False)
            self._prepare(connection)
            for statement in PREPARED:
                connection.execute(statement.encode())
        except BaseException:
            connection.close()
            raise
        self._connection, self._process = connection, os.getpid()
        return connection

    def _prepare(self, connection: psycopg.Connection[Any]) -> None:
        """Create the tables, or migrate those of an older version."""
        if self._version(connection) == SCHEMA:
            return
        # Locked outside the transaction, which would not see tables created while it waited.
        connection.execute("SELECT pg_advisory_lock(%s)", (SETUP_LOCK,))
        try:
            version = self._version(connection)  # another process may have been faster
            if version == SCHEMA:
                return
            with connection.transaction():
                connection.execute("CREATE SEQUENCE IF NOT EXISTS rolf_sequence")
                for statement in schema.steps(version, schema.POSTGRES):
                    connection.execute(statement.encode())
        finally:
            if not connection.closed:
                connection.execute("SELECT pg_advisory_unlock(%s)", (SETUP_LOCK,))

    def _version(self, connection: psycopg.Connection[Any]) -> int | None:
        tables = connection.execute(
            "SELECT to_regclass('rolf_meta'), to_regclass('rolf_experiments')"
        ).fetchone()
        if tables == (None, None):
            return None
        row = None
        with suppress(self.psycopg.errors.UndefinedTable, self.psycopg.errors.UndefinedColumn):
            row = connection.execute("SELECT version FROM rolf_meta").fetchone()
        if row is None or not schema.is_version(row[0]):
            raise UnusableStorage("PostgreSQL: the tables called rolf_... are not rolf's")
        if row[0] > SCHEMA:
            known = f"layout {row[0]}, this one knows {SCHEMA}"
            raise UnusableStorage(f"PostgreSQL: the tables were made by a newer rolf ({known})")
        return int(row[0])

    def run(self, action: Callable[[psycopg.Connection[Any]], T], *, repeat: bool = True) -> T:
        """Run an action, and repeat it if the connection is lost.

        Everything may be done twice: tells are idempotent, and a decision that was recorded but
        never answered just waits. An action that depends on rows read earlier must not be
        repeated: with ``repeat=False`` Reconnected is raised instead.
        """
        with self._lock:
            try:
                return self._try(action)
            except _Lost as lost:
                self.reconnects += 1
                if not repeat:
                    self._try(lambda connection: None)  # raises if the server is out of reach
                    raise Reconnected(f"PostgreSQL: {_lost(lost)}") from lost.__cause__
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
    """The first line of the server's message, which contains no password."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
