"""The contract of every store.

An experiment is a record, a log and a snapshot. The log is the source of truth: rows are appended
and never changed, and all processes see them in the same order, numbered 1, 2, 3 and so on. For
each decision it holds

* the decision: its number, the arm and everything the update will need;
* its reward: a copy of the decision with the reward and its time, so that readers never have to
  look back. A late reward follows the default reward it replaces;
* corrections of its reward, if any: copies of the reward, each with the new value, the value it
  replaces and the reason.

Three more kinds of rows change the roster (the arms, or whether the experiment is paused), hold
history, and list the decisions made for an idempotency key. No two rows of a log share a place
(``Row.place``): a number belongs to one decision; a decision gets one reward, at most one more that
replaces the default, one first correction, one second and so on; an idempotency key is used once.
This makes it safe to append without having read the latest rows of other processes.

A store has four operations on logs (``append``, ``settle``, ``read``, ``find``), and keeps records,
snapshots and API keys. ``rolf.testing.storage`` has tests for any store.
"""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rolf.errors import StorageError, StorageUnavailable, UnknownExperiment, UnusableStorage
from rolf.experiments.storage.rows import Key, LogRow, Record, Row, Snapshot

#: version of the table layout
SCHEMA = 1

#: how many rows are read or added at a time, which bounds how long a lock is held
PART = 1_000

#: how many characters of details are added at a time
MAX_TEXT = 1_000_000

#: prefix of hidden names: an import fills an experiment under one and renames it at the end
HIDDEN = " "

#: seconds after which an unfinished import or backup counts as abandoned
ABANDONED = 86_400.0


class Reconnected(StorageUnavailable):
    """The connection was lost and restored before any rows were added.

    After a crash, a server may lack rows that it had shown but not written to disk.
    """


class Store(ABC):
    """A database of experiments.

    Methods only raise errors from ``rolf.errors``. A store may be shared by threads.
    """

    #: how often a lost connection was restored, after which rows read earlier may be gone
    reconnects: int = 0
    #: seconds since 1970, by the database's clock
    now: Callable[[], float] = staticmethod(time.time)

    # --- logs ---

    @abstractmethod
    def append(self, experiment: int, rows: Sequence[Row], after: int | None = None) -> int | None:
        """Append rows to the log, all or none; return the ``seq`` of its last row.

        Returns None and adds nothing if a place is taken, or if the log extends beyond row
        ``after``. Raises UnknownExperiment if the experiment is gone. When this returns, these rows
        and all earlier ones are on disk; others may see them before that.
        """

    @contextmanager
    def lock(self, experiment: int, after: int) -> Iterator[list[LogRow]]:
        """Like ``read``, but a store may lock the log for one process at a time that reads in order
        to append, which saves failed attempts. Correctness does not depend on it.
        """
        yield self.read(experiment, after)

    @abstractmethod
    def settle(self) -> None:
        """Wait until everything that can be read is on disk."""

    @abstractmethod
    def read(
        self, experiment: int, after: int, upto: int | None = None, limit: int = PART
    ) -> list[LogRow]:
        """The rows after a row, in order, optionally up to another; at most ``limit``."""

    @abstractmethod
    def find(self, experiment: int, numbers: Sequence[int]) -> list[LogRow]:
        """All rows of the decisions (with rewards and corrections) or idempotency keys with these
        numbers."""

    # --- records ---

    @abstractmethod
    def create(self, record: Record) -> Record | None:
        """Add an experiment with an empty log and a new id; None if the name is taken."""

    @abstractmethod
    def record(self, name: str) -> Record | None:
        """The record of an experiment by name."""

    @abstractmethod
    def names(self) -> list[str]:
        """The sorted names of all experiments, without hidden ones."""

    @abstractmethod
    def rename(self, names: Mapping[int, str]) -> bool:
        """Rename experiments, all or none; False if a name is taken or an experiment is gone."""

    @abstractmethod
    def delete(self, experiment: int) -> None:
        """Delete an experiment with its log and its snapshot."""

    # --- snapshots ---

    @abstractmethod
    def snapshot(self, experiment: int) -> Snapshot | None:
        """The snapshot of an experiment, if any."""

    @abstractmethod
    def save(self, experiment: int, snapshot: Snapshot) -> None:
        """Save a snapshot unless a later one exists or the experiment is gone."""

    @abstractmethod
    def forget(self, experiment: int) -> None:
        """Delete the snapshot."""

    # --- API keys ---

    def keys(self) -> list[Key]:
        """All API keys, the oldest first."""
        raise self._keeps_no_keys()

    def key(self, id: str) -> Key | None:
        """The API key with an id."""
        raise self._keeps_no_keys()

    def add_key(self, key: Key) -> None:
        """Add an API key with a new id."""
        raise self._keeps_no_keys()

    def revoke_key(self, id: str, time: float) -> bool:
        """Mark an API key as revoked if it is not; False if there is no key with this id."""
        raise self._keeps_no_keys()

    def _keeps_no_keys(self) -> StorageError:
        return StorageError("this storage keeps no API keys: use sqlite:/// or postgresql://")

    @abstractmethod
    def close(self) -> None:
        """Release all resources; the store reopens when it is used again."""


def log_rows(
    store: Store, record: Record, after: int = 0, upto: int | None = None
) -> Iterator[LogRow]:
    """The rows after a row, in order, optionally up to another, read part by part.

    Raises if the experiment is deleted meanwhile, so that a partial log is never mistaken for all.
    """
    while True:
        rows = store.read(record.id, after, upto)
        check_follows(store, record, after, rows)
        yield from rows
        if len(rows) < PART:
            break
        after = rows[-1][0]
    check_exists(store, record)


def part_size(characters: float) -> int:
    """How many rows to add at a time, given the average number of characters in their details."""
    return max(1, min(PART, int(MAX_TEXT / max(characters, 1.0))))


def check_follows(store: Store, record: Record, after: int, rows: Sequence[LogRow]) -> None:
    """Raise if rows are missing between a row and these."""
    if rows and rows[0][0] != after + 1:
        check_exists(store, record)
        missing = f"row {rows[0][0]} follows row {after}"
        raise UnusableStorage(f"experiment {record.name!r} is damaged in the database ({missing})")


def check_exists(store: Store, record: Record) -> None:
    """Raise if the experiment is gone, even if another has the same name."""
    current = store.record(record.name)
    if current is None or (current.id, current.tag) != (record.id, record.tag):
        raise UnknownExperiment("the experiment has been deleted")


def import_name() -> str:
    """A hidden name for an experiment being filled, with the time when that began."""
    return f"{HIDDEN}{int(time.time())} {uuid.uuid4().hex}"


def import_began(name: str) -> float:
    """When an import with this hidden name began; long ago if the name has no time."""
    began, _, _ = name.removeprefix(HIDDEN).partition(" ")
    return float(began) if began.isdecimal() else 0.0
