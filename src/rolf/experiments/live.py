"""The replica of one process, kept in step with the log that all processes share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from rolf.errors import RolfError, StorageError, UnusableStorage
from rolf.experiments.replica import Replica
from rolf.experiments.storage.base import LogRow, MakeRows, Reconnected, Record, Store, Written

#: rows of the log between two snapshots
SNAPSHOT_INTERVAL = 10_000


class LiveReplica:
    """A replica, how far it has read the log, and when its state was last saved."""

    def __init__(self, store: Store, record: Record, *, new: bool) -> None:
        self.store = store
        self.record = record
        self.snapshot_upto = 0  # the last row that the latest known snapshot covers
        self.rows_since_snapshot = 0
        if new:
            self.replica = Replica(record)
            self.reader = store.reader(record.id, 0)
            self._reconnects = store.reconnects
        else:
            self.fold()
            self.snapshot_if_due()

    # --- rows ---

    def write(self, make_rows: MakeRows) -> Written:
        try:
            return self.store.write(self.reader, make_rows)
        except Reconnected:
            # A server that crashed may have lost rows that it had shown but not written out.
            self.fold()
            return self.store.write(self.reader, make_rows)

    def apply(self, rows: Sequence[LogRow]) -> None:
        self.replica.apply(rows)
        self.rows_since_snapshot += len(rows)

    def sync(self) -> None:
        """Apply everything that has been written since."""
        self.apply(self.store.read(self.reader))
        self.fold_if_reconnected()

    # --- folding the log ---

    def fold(self, *, use_snapshot: bool = True) -> None:
        """Apply the whole log in the canonical order, or what follows the snapshot."""
        id = self.record.id
        with _damage_reported(self.record.name):
            replica = self._load_snapshot() if use_snapshot else Replica(self.record)
            upto = self.store.settle(id)
            self._reconnects = self.store.reconnects
            self.snapshot_upto, self.rows_since_snapshot = replica.last, 0
            replica.apply(self._counted(self.store.log(id, replica.last, upto)))
        self.replica = replica
        self.reader = self.store.reader(id, max(upto, replica.last))

    def fold_if_reconnected(self) -> None:
        if self.store.reconnects != self._reconnects:
            self.fold()

    def _load_snapshot(self) -> Replica:
        """The replica of the snapshot; an empty one if there is no usable snapshot."""
        snapshot = self.store.snapshot(self.record.id)
        if snapshot is not None:
            with suppress(KeyError, ValueError, TypeError, AttributeError):  # fold the log instead
                return Replica.load(self.record, snapshot)
        return Replica(self.record)

    def _counted(self, rows: Iterable[LogRow]) -> Iterator[LogRow]:
        for row in rows:
            self.rows_since_snapshot += 1
            yield row

    # --- snapshots ---

    def snapshot_if_due(self) -> None:
        if self.rows_since_snapshot < SNAPSHOT_INTERVAL:
            return
        with suppress(StorageError):  # the caller's work is done; the next time will do
            latest = self.store.snapshot(self.record.id)
            if latest is not None and latest.upto > self.snapshot_upto:  # another was faster
                self.snapshot_upto, self.rows_since_snapshot = latest.upto, 0
            else:
                self.snapshot()

    def snapshot(self) -> None:
        """Save the state."""
        upto = self.store.settle(self.record.id)
        self.apply(self.store.read(self.reader, upto))
        if self.replica.ordered:
            self.fold_if_reconnected()
        else:
            self.fold()
        self._save()

    def _save(self) -> None:
        self.store.save(self.record.id, self.replica.dump())
        self.snapshot_upto, self.rows_since_snapshot = self.replica.last, 0

    def rebuild(self) -> None:
        """Delete the snapshot, fold the whole log and save the result."""
        self.store.forget(self.record.id)
        self.fold(use_snapshot=False)
        self._save()


@contextmanager
def _damage_reported(name: str) -> Iterator[None]:
    """A log that cannot be read is damaged."""
    try:
        yield
    except RolfError:
        raise
    except (ValueError, TypeError, LookupError) as error:
        raise UnusableStorage(
            f"experiment {name!r} is damaged in the database ({error})"
        ) from error
