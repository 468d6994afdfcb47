"""Connections to PostgreSQL: shared, restored when lost, and never waited for indefinitely.

Existing pools connect in background threads. Here, a caller must learn immediately and in its own
thread why a connection fails, must be able to leave with Ctrl-C, and may fork at any moment.
"""

from __future__ import annotations

import re
import threading
import time as clock
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, TypeVar

import psycopg
from psycopg import waiting
from psycopg.conninfo import conninfo_to_dict

from rolf.errors import (
    InvalidArgument,
    RolfError,
    StorageError,
    StorageUnavailable,
    UnusableStorage,
)
from rolf.experiments.storage import schema
from rolf.experiments.storage.contract import SCHEMA, Reconnected
from rolf.experiments.storage.forks import take_part

T = TypeVar("T")

SETUP_LOCK = 0x524F4C46  # the advisory lock for creating tables
MOST = 16  # connections per pool
IDLE = psycopg.pq.TransactionStatus.IDLE
CLOCK_TRUST = 60.0  # seconds for which a reading of the server's clock is valid

#: Commits wait for the disk, and statements always find rows by an index, whatever the planner
#: believes about the tables.
SETTINGS = """
SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')
    WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false),
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('enable_seqscan', 'off', false),
    set_config('enable_bitmapscan', 'off', false),
    set_config('enable_sort', 'off', false),
    set_config('enable_hashjoin', 'off', false),
    set_config('enable_mergejoin', 'off', false),
    set_config('jit', 'off', false),
    set_config('extra_float_digits', '1', false),
    set_config('statement_timeout', %(timeout)s, false),
    set_config('lock_timeout', %(timeout)s, false),
    set_config('idle_in_transaction_session_timeout', %(timeout)s, false)"""
CLOCK = "SELECT extract(epoch FROM clock_timestamp())::float8"


class Connection(psycopg.Connection[Any]):
    """A connection that waits with a timeout, and stops immediately when interrupted."""

    timeout = 30.0
    _pool = None  # psycopg treats connections with this attribute as managed by a pool

    @cached_property
    def _cursor(self) -> psycopg.Cursor[Any]:
        """One cursor for all statements that return rows, since creating one is slow."""
        return self.cursor(binary=True)

    def fetch(self, sql: bytes, values: Sequence[Any] = (), *, prepare: bool = True) -> list[Any]:
        """The rows returned by a statement."""
        return self._cursor.execute(sql, values, prepare=prepare).fetchall()

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        deadline = clock.monotonic() + self.timeout
        try:
            return waiting.wait(_until(gen, deadline), self.pgconn.socket, interval=interval)
        except psycopg.Error:
            raise
        except BaseException:  # the state of the server is unknown: never use it again
            self.pgconn.finish()
            raise


class Silent(Exception):
    """The server does not answer."""


def _until(gen: Generator[Any, Any, T], deadline: float) -> Generator[Any, Any, T]:
    """The same generator with a deadline; it is resumed at least once per interval."""
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and clock.monotonic() > deadline:
                raise Silent
            wanted = gen.send(ready)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


class Pool:
    """The connections of this process to one database."""

    def __init__(self, url: str, timeout: float, lock: threading.RLock) -> None:
        self.url, self.timeout = url, timeout
        self.users = 0
        self.reconnects = 0
        self._secrets = _check(url)
        self._lock = lock
        self._returned = threading.Condition(lock)
        self._queued = 0  # threads that wait for a connection
        self._idle: list[Connection] = []
        self._busy: dict[int, Connection | None] = {}  # by thread; None while it connects
        self._kept: set[int] = set()  # threads that keep their connection
        self._ahead, self._read_clock_at = 0.0, -CLOCK_TRUST

    # --- running something ---

    def run(self, action: Callable[[Connection], T], *, repeat: bool = True) -> T:
        """Run an action, repeating it if the connection is lost.

        Repeating is safe, since a place in a log is taken only once. An action that depends on rows
        read earlier must not be repeated: with ``repeat=False``, Reconnected is raised instead.
        """
        try:
            return self._try(action)
        except _Lost as lost:
            with self._lock:
                self.reconnects += 1
            if not repeat:
                # raises if the server is unreachable
                self._try(lambda connection: None, new=True)
                raise Reconnected(f"PostgreSQL: {lost}") from None
            try:
                return self._try(action, new=True)
            except _Lost as again:
                raise StorageUnavailable(f"PostgreSQL: {again}") from None

    def _try(self, action: Callable[[Connection], T], *, new: bool = False) -> T:
        connection = None
        try:
            connection = self._take(new)
            return action(connection)
        except RolfError:
            raise
        except Silent:
            with self._lock:
                self.reconnects += 1  # after a crash, rows the server has shown may be gone
            words = f"PostgreSQL: no answer within {self.timeout:g} seconds"
            raise StorageUnavailable(words) from None
        except psycopg.Error as error:
            ours = isinstance(error, psycopg.OperationalError) and not error.sqlstate
            if connection is not None and (ours or connection.closed or connection.broken):
                connection.close()
                raise _Lost(f"the connection was lost ({self._words(error)})") from None
            if isinstance(error, psycopg.errors.LockNotAvailable | psycopg.errors.QueryCanceled):
                words = f"PostgreSQL: locked by others for too long ({self._words(error)})"
                raise KeptLocked(words) from None
            if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
                words = f"PostgreSQL: does not answer ({self._words(error)})"
                raise StorageUnavailable(words) from None
            raise StorageError(f"PostgreSQL: {self._words(error)}") from None
        except (UnicodeError, OverflowError) as error:
            words = f"PostgreSQL: cannot store a value ({self._words(error)})"
            raise StorageError(words) from None
        finally:
            self._give_back()

    @contextmanager
    def same_connection(self) -> Iterator[None]:
        """Run everything in this thread over one connection."""
        me = threading.get_ident()
        self._kept.add(me)
        try:
            yield
        finally:
            self._kept.discard(me)
            self._give_back()

    def _take(self, new: bool) -> Connection:
        """A connection for this thread: the one it keeps, an idle one, or a new one.

        ``new``: close idle ones first, since a lost connection often means that all are lost.
        """
        me = threading.get_ident()
        if me in self._busy:
            kept = self._busy[me]
            if kept is not None and not kept.closed and me in self._kept:
                return kept
            self._give_back(always=True)  # it was lost, or left behind by an interrupt
        with self._lock:
            while not self._idle and len(self._busy) >= MOST:
                self._wait_for_one()
            self._busy[me] = None
            if new:
                self.close()
            while self._idle:
                connection = self._busy[me] = self._idle.pop()
                if not connection.closed:
                    return connection
                self.reconnects += 1
        connection = self._busy[me] = self._connect()
        self._set_up(connection)
        return connection

    def _wait_for_one(self) -> None:
        self._queued += 1
        try:
            if not self._returned.wait(self.timeout):
                raise StorageUnavailable(f"PostgreSQL: all {MOST} connections are in use")
        finally:
            self._queued -= 1

    def _give_back(self, *, always: bool = False) -> None:
        """Return this thread's connection to the pool, unless it is broken."""
        me = threading.get_ident()
        if me in self._kept and not always:
            return
        with self._lock:
            connection = self._busy.pop(me, None)
            if connection is not None:
                if connection.pgconn.transaction_status == IDLE and self.users > 0:
                    self._idle.append(connection)
                else:
                    connection.close()
            if self._queued:
                self._returned.notify()

    def _words(self, error: BaseException) -> str:
        """The first line of a message, without secrets."""
        text = str(error).strip()
        text = text.splitlines()[0] if text else type(error).__name__
        for secret in self._secrets:
            text = text.replace(secret, "...")
        return text

    # --- connecting ---

    def _connect(self) -> Connection:
        parameters = conninfo_to_dict(self.url)
        seconds = max(1, round(self.timeout))
        defaults = {
            "connect_timeout": min(10, seconds),
            "keepalives_idle": min(10, seconds),
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 1000 * seconds,
            "application_name": "rolf",
        }
        more: Any = {name: value for name, value in defaults.items() if name not in parameters}
        try:
            connection = Connection.connect(
                self.url, autocommit=True, client_encoding="utf8", **more
            )
        except psycopg.Error as error:
            words = f"PostgreSQL: cannot be reached ({self._words(error)})"
            raise StorageUnavailable(words) from None
        connection.timeout = self.timeout
        connection.prepare_threshold = 0
        return connection

    def _set_up(self, connection: Connection) -> None:
        # the server times out slightly before the client, since it can say why
        values = {"timeout": f"{max(1, round(900 * self.timeout))}ms"}
        connection.execute(SETTINGS, values, prepare=False)

    def now(self) -> float:
        """The server's time, from a reading that is refreshed occasionally."""
        before = clock.monotonic()
        if before - self._read_clock_at > CLOCK_TRUST:
            ((now,),) = self.run(lambda connection: connection.execute(CLOCK).fetchall())
            after = clock.monotonic()
            self._ahead, self._read_clock_at = now - (before + after) / 2.0, after
        return clock.monotonic() + self._ahead

    def start_over(self) -> list[Connection | None]:
        """Leave all connections to the parent process."""
        inherited = [*self._idle, *self._busy.values()]
        self._idle, self._busy, self._kept = [], {}, set()
        self._returned, self._queued = threading.Condition(self._lock), 0
        return inherited

    def close(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()


class Pools:
    """The pools of this process, by URL and timeout."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._open: dict[tuple[str, float], Pool] = {}
        self._inherited: list[Any] = []  # the parent's, never closed here
        take_part(self)

    def open(self, url: str, timeout: float) -> Pool:
        """Open the pool of a URL, counting users."""
        with self.lock:
            pool = self._open.get((url, timeout)) or Pool(url, timeout, self.lock)
            self._open[url, timeout] = pool
            pool.users += 1
        return pool

    def close(self, pool: Pool) -> None:
        """Release the pool; the last user closes its connections."""
        with self.lock:
            pool.users -= 1
            if pool.users == 0:
                self._open.pop((pool.url, pool.timeout), None)
                pool.close()

    def before_fork(self) -> None:
        self.lock.acquire()

    def after_fork(self, in_child: bool) -> None:
        if in_child:
            for pool in self._open.values():
                self._inherited += pool.start_over()
        self.lock.release()


pools = Pools()


class KeptLocked(StorageUnavailable):
    """Another process holds a lock for too long."""


class _Lost(Exception):
    """The connection is gone."""


def _check(url: str) -> list[str]:
    """Raise if a URL is unusable, without quoting any of it; return its secrets."""
    _, _, rest = url.partition("://")
    authority = rest.partition("/")[0]
    strange = rest.count("@") > 1 or "@" in rest[len(authority) :] or " " in rest
    strange |= any(not re.match("[0-9a-fA-F]{2}", part) for part in rest.split("%")[1:])
    try:
        parameters = conninfo_to_dict(url)
        strange |= not re.fullmatch("[0-9,]*", str(parameters.get("port") or ""))
    except psycopg.Error:
        strange = True
    if strange or not rest.isprintable():
        wanted = "postgresql://user:password@host/database, with @ : / ? # % and spaces in"
        wanted += " user name or password escaped, as in p%40ss for p@ss"
        raise InvalidArgument("url", "postgresql:...", wanted) from None
    return [str(parameters[name]) for name in ("password", "sslpassword") if parameters.get(name)]


# --- tables ---


def prepare_tables(connection: Connection) -> None:
    """Create the tables if they do not exist."""
    if _version(connection) == SCHEMA:
        return
    # Locked outside the transaction, which would not see tables created while it waited.
    connection.execute("SELECT pg_advisory_lock(%s)", (SETUP_LOCK,))
    try:
        version = _version(connection)  # another process may have created them
        if version == SCHEMA:
            return
        with connection.transaction():
            for statement in schema.statements(schema.POSTGRES):
                connection.execute(statement.encode())
    finally:
        if not connection.closed:
            connection.execute("SELECT pg_advisory_unlock(%s)", (SETUP_LOCK,))


def _version(connection: Connection) -> int | None:
    tables = connection.execute(
        "SELECT to_regclass('rolf_meta'), to_regclass('rolf_experiments')"
    ).fetchone()
    if tables == (None, None):
        return None
    row = None
    with suppress(psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
        row = connection.execute("SELECT version FROM rolf_meta").fetchone()
    if row is None or not schema.is_version(row[0]):
        raise UnusableStorage("PostgreSQL: the tables named rolf_... are not rolf's")
    if row[0] > SCHEMA:
        known = f"layout {row[0]}, this one knows {SCHEMA}"
        raise UnusableStorage(f"PostgreSQL: the tables were made by a newer rolf ({known})")
    return int(row[0])
