"""What every store promises.

An experiment is a record, a log and a snapshot. The log is the truth: rows are added at its end
and never changed, and all processes see them in the same order, numbered 1, 2, 3 and so on. For
each decision it holds

* the decision: its number, the arm and everything that the update will need;
* its reward: a copy of the decision with the reward and the time it came, so that a reader
  never has to look back. A late reward follows the default reward that it replaces;
* corrections of its reward, if there are any: copies of the reward, each with the reward that
  takes the place of the one before it, which it names together with the reason.

Three more kinds of rows change the roster (the arms, or whether the experiment is paused), hold
rewards from before it, and name the decisions that were made for an idempotency key. No two rows
of a log share a place (``Row.place``): a number belongs to one decision, and a decision gets one
reward, at most one more in place of the default, and one first correction, one second and so on;
an idempotency key is used once. That is what makes it safe to append without having read what
others wrote last.

A store is four operations on logs (``append``, ``settle``, ``read``, ``find``), and the keeping
of records, snapshots and API keys. Tests for every store are in ``rolf.testing.storage``.
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

#: rows that are read or added at a time: no lock is held for longer than this takes
PART = 1_000

#: characters of details that are added at a time
MAX_TEXT = 1_000_000

#: names of experiments that are not there yet: an import fills them, and renames them at the end
HIDDEN = " "

#: seconds after which an import or a backup that has not ended counts as abandoned
ABANDONED = 86_400.0


class Reconnected(StorageUnavailable):
    """The connection was lost and restored before any rows were added.

    A server that crashed may have taken back rows that it had shown but not written to the disk.
    """


class Store(ABC):
    """A database of experiments.

    Every method raises errors of ``rolf.errors`` only. Several threads may share a store.
    """

    #: how many times a lost connection was restored: rows read before may be gone
    reconnects: int = 0
    #: seconds since 1970, by the database's clock
    now: Callable[[], float] = staticmethod(time.time)

    # --- logs ---

    @abstractmethod
    def append(self, experiment: int, rows: Sequence[Row], after: int | None = None) -> int | None:
        """Add rows at the end of the log, all or none; returns the ``seq`` of its last row.

        Returns None, and adds nothing, if a place is taken, or if ``after`` is given and the log
        goes beyond that row. Raises UnknownExperiment if the experiment is gone. The rows, and
        all before them, are on the disk when this returns; others may see them earlier.
        """

    @contextmanager
    def lock(self, experiment: int, after: int) -> Iterator[list[LogRow]]:
        """What ``read`` gives, once others have appended what they are about to: a store may lock
        the log for one process at a time that reads in order to append, which saves attempts.
        Nothing depends on it.
        """
        yield self.read(experiment, after)

    @abstractmethod
    def settle(self) -> None:
        """Wait until everything that can be read is on the disk."""

    @abstractmethod
    def read(
        self, experiment: int, after: int, upto: int | None = None, limit: int = PART
    ) -> list[LogRow]:
        """The rows that follow a row, in order, optionally up to one; at most ``limit``."""

    @abstractmethod
    def find(self, experiment: int, numbers: Sequence[int]) -> list[LogRow]:
        """All rows of decisions, or of idempotency keys, with these numbers: decisions, rewards and
        corrections, or idempotency keys."""

    # --- records ---

    @abstractmethod
    def create(self, record: Record) -> Record | None:
        """Add an experiment with an empty log; the store assigns the id. None if the name is
        taken."""

    @abstractmethod
    def record(self, name: str) -> Record | None:
        """The experiment of a name."""

    @abstractmethod
    def names(self) -> list[str]:
        """The names of all experiments, in order, without hidden ones."""

    @abstractmethod
    def rename(self, names: Mapping[int, str]) -> bool:
        """Give experiments other names, all or none; False if one is taken or the experiment is
        gone."""

    @abstractmethod
    def delete(self, experiment: int) -> None:
        """Delete an experiment with its log and its snapshot."""

    # --- snapshots ---

    @abstractmethod
    def snapshot(self, experiment: int) -> Snapshot | None:
        """The snapshot of an experiment, if there is one."""

    @abstractmethod
    def save(self, experiment: int, snapshot: Snapshot) -> None:
        """Store a snapshot, unless there is a later one or the experiment is gone."""

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
        """Add an API key, whose id is new."""
        raise self._keeps_no_keys()

    def revoke_key(self, id: str, time: float) -> bool:
        """Mark an API key as revoked, unless it is; False if there is none with this id."""
        raise self._keeps_no_keys()

    def _keeps_no_keys(self) -> StorageError:
        return StorageError("this storage keeps no API keys: use sqlite:/// or postgresql://")

    @abstractmethod
    def close(self) -> None:
        """Release what this store holds; it opens again when it is used again."""


def log_rows(
    store: Store, record: Record, after: int = 0, upto: int | None = None
) -> Iterator[LogRow]:
    """The rows that follow a row, in order, optionally up to one, read part by part.

    Raises if the experiment is deleted meanwhile, so that no part is taken for the whole.
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
    """How many rows, with this many characters of details on average, are added at a time."""
    return max(1, min(PART, int(MAX_TEXT / max(characters, 1.0))))


def check_follows(store: Store, record: Record, after: int, rows: Sequence[LogRow]) -> None:
    """Raise if there are rows missing between a row and these."""
    if rows and rows[0][0] != after + 1:
        check_exists(store, record)
        missing = f"row {rows[0][0]} follows row {after}"
        raise UnusableStorage(f"experiment {record.name!r} is damaged in the database ({missing})")


def check_exists(store: Store, record: Record) -> None:
    """Raise if the experiment is gone, even if there is another of the same name."""
    current = store.record(record.name)
    if current is None or (current.id, current.tag) != (record.id, record.tag):
        raise UnknownExperiment("the experiment has been deleted")


def import_name() -> str:
    """A hidden name for an experiment while it is filled; says when that began."""
    return f"{HIDDEN}{int(time.time())} {uuid.uuid4().hex}"


def import_began(name: str) -> float:
    """When an import with this hidden name began; long ago if the name does not say."""
    began, _, _ = name.removeprefix(HIDDEN).partition(" ")
    return float(began) if began.isdecimal() else 0.0
