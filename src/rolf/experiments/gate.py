"""One call at a time: closing, forks, and interrupted calls."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from types import TracebackType

from rolf.errors import ExperimentError, RolfError
from rolf.experiments.log.synced import SyncedReplica
from rolf.experiments.storage.contract import Store
from rolf.experiments.storage.forks import notice_forks


class Gate:
    """Lets one call at a time use a replica, and rebuilds the replica from the log after an
    interrupted call."""

    def __init__(self, log: SyncedReplica) -> None:
        close_abandoned()
        self._log = log
        self._lock = threading.RLock()
        self._closed = False
        self._unfinished = False  # whether a call has started and not finished
        notice_forks(self)

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            self.check_open()
            if self._unfinished or self._log.store.reconnects != self._log.reconnects:
                self._log.fold()
            self._unfinished = True
        except BaseException:
            self._lock.release()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, RolfError):
            self._unfinished = False
        self._lock.release()
        check_interrupted(error)

    def check_open(self) -> None:
        if self._closed:
            name = self._log.record.name
            raise ExperimentError(f"experiment {name!r} is closed; open it again")

    def close(self) -> None:
        """Refuse further calls, and close the connection."""
        with self._lock:
            self._closed = True
            self._log.store.close()
        close_abandoned()

    def after_fork_in_child(self) -> None:
        """Distrust the state, which another thread may have been changing during the fork."""
        self._lock = threading.RLock()
        self._unfinished = True

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):  # called by the garbage collector, in any thread
            _abandoned.append(self._log.store)


def check_interrupted(error: BaseException | None) -> None:
    """Raise an interrupt that compiled code reports as a SystemError."""
    if isinstance(error, SystemError) and isinstance(error.__cause__, KeyboardInterrupt):
        raise KeyboardInterrupt from error


#: stores of experiments that were never closed; the garbage collector must not wait for a lock
_abandoned: deque[Store] = deque()


def close_abandoned() -> None:
    """Close the stores of experiments that were collected without being closed."""
    with suppress(IndexError):
        while True:
            _abandoned.popleft().close()
