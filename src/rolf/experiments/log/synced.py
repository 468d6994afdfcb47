"""The replica of one process, kept in sync with the shared log."""

from __future__ import annotations

import math
import warnings
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from rolf.errors import RolfError, RolfWarning, StorageError, UnusableStorage
from rolf.experiments.log.replica import Corrected, Replica, earlier_corrections
from rolf.experiments.log.snapshot import dump, load, reads
from rolf.experiments.storage.contract import PART, Reconnected, Store, check_follows, log_rows
from rolf.experiments.storage.rows import LogRow, Record, Row
from rolf.types import Decision

#: number of rows between two snapshots
SNAPSHOT_INTERVAL = 10_000
#: number of recent decisions to keep, so that their rewards need no lookup
RECENT = 10_000


class Attempt:
    """An attempt to append rows based on the current replica.

    Attributes:
        replica: the current replica.
        certain: whether it has everything written so far; if not, rows are appended only if the log
            ends where the replica does.
    """

    def __init__(self, log: SyncedReplica, *, certain: bool) -> None:
        self.replica = log.replica
        self.certain = certain
        self.done = False
        self._log = log

    def append(self, rows: Sequence[Row]) -> bool:
        """Append rows durably and apply them; False if others have written in the meantime."""
        if self.certain or rows:
            self.done = self._log.append(rows, None if self.certain else self.replica.last)
        return self.done


class SyncedReplica:
    """A replica, with how far it has read the log and when its state was last saved."""

    def __init__(self, store: Store, record: Record, *, new: bool = False) -> None:
        self.store = store
        self.record = record
        self.new = new  # whether this process has just created the experiment
        self.now: Callable[[], float] = store.now  # seconds since 1970
        self.snapshot_upto = 0  # the last row covered by the latest known snapshot
        self.rows_since_snapshot = 0
        self.contended = False  # whether others write too
        self._recent: OrderedDict[int, Row] = OrderedDict()
        if new:
            self.replica = Replica(record)
            self.reconnects = store.reconnects
        else:
            self.fold()
            self.snapshot_if_due()

    # --- reading ---

    def apply(self, rows: Sequence[LogRow]) -> None:
        try:
            self.replica.apply(rows)
            self.rows_since_snapshot += len(rows)
        except Corrected:
            self.fold(use_snapshot=False, corrected=True)

    def sync(self, unseen: Sequence[LogRow] | None = None) -> Replica:
        """Apply everything written before this call; ``unseen``: the first part of it."""
        id, upto = self.record.id, None
        rows = self.store.read(id, self.replica.last) if unseen is None else unseen
        self.contended = bool(rows)
        while rows:
            check_follows(self.store, self.record, self.replica.last, rows)
            self.apply(rows)
            if len(rows) < PART:
                break
            if upto is None:  # others may write as fast as this process reads
                upto = self.store.append(id, [])
            rows = self.store.read(id, self.replica.last, upto)
        self.fold_if_reconnected()
        return self.replica

    # --- writing ---

    def attempts(self) -> Generator[Attempt]:
        """Attempts to append rows, until one succeeds; close the iterator, which may hold a lock.

        As long as no other process writes, nothing is read first: the first attempt appends on
        condition that the log has not grown. Once others write too, the log is read first, and rows
        are made again if their place was taken in the meantime. Only other asks wait while rows are
        made. Afterwards the state is saved if due.
        """
        attempt = Attempt(self, certain=False)
        if not self.contended:
            yield attempt
        while not attempt.done:
            with self.store.lock(self.record.id, self.replica.last) as unseen:
                self.sync(unseen)
                attempt = Attempt(self, certain=True)
                yield attempt
        self.snapshot_if_due()

    def append(self, rows: Sequence[Row], after: int | None = None) -> bool:
        """Append rows, and apply them if no unknown rows precede them; False if a place is taken,
        or if the log extends beyond ``after``."""
        try:
            last = self.store.append(self.record.id, rows, after)
        except Reconnected:
            self.fold()
            return False
        if last is None:
            self.contended = True
            return False
        first = last - len(rows) + 1
        if first == self.replica.last + 1:
            self.apply([(seq, *row[1:]) for seq, row in enumerate(rows, first)])
        else:
            self.contended = True
        return True

    # --- decisions of this process ---

    def decisions(self, rows: Sequence[Row]) -> list[Decision]:
        """The decisions in these rows, which are kept because this process will probably be told
        their rewards."""
        for row in rows:
            self._recent[row.number] = row
        while len(self._recent) > RECENT:
            self._recent.popitem(last=False)
        labels = self.replica.roster.arms.labels
        return [
            Decision(
                self.record.decision_id(row.number),
                labels[row.arm],
                math.nan if row.probability is None else row.probability,
                labels[row.greedy],
                bool(row.matched),
            )
            for row in rows
        ]

    def take_recent(self, numbers: Sequence[int]) -> list[Row]:
        """The decisions with these numbers, if all of them are kept, and stop keeping them."""
        if not all(number in self._recent for number in numbers):
            return []
        return [self._recent.pop(number) for number in numbers]

    # --- folding the log ---

    def fold(self, *, use_snapshot: bool = True, corrected: bool = False) -> None:
        """Apply the whole log, or the rows after the snapshot; ``corrected``: with corrections
        applied from the start."""
        with _damage_reported(self.record.name):
            self.reconnects = self.store.reconnects
            replica = self._load_snapshot() if use_snapshot else self._blank(corrected)
            while True:
                self.snapshot_upto, self.rows_since_snapshot = replica.last, 0
                try:
                    replica.apply(self._counted(log_rows(self.store, self.record, replica.last)))
                    break
                except Corrected:
                    replica = self._blank(corrected=True)
        self.replica = replica
        self._recent.clear()

    def _blank(self, corrected: bool) -> Replica:
        if not corrected:
            return Replica(self.record)
        known = earlier_corrections(log_rows(self.store, self.record))
        snapshot = self.store.snapshot(self.record.id)
        if snapshot and snapshot.upto < max((row.seq for row in known.values()), default=0):
            self.store.forget(
                self.record.id
            )  # it lacks corrections, so opening it would fold the log
        return Replica(self.record, corrections=known)

    def fold_if_reconnected(self) -> None:
        """Fold the log again after a lost connection: a crashed server may have lost rows."""
        if self.store.reconnects != self.reconnects:
            self.fold()

    def _load_snapshot(self) -> Replica:
        """The replica from the snapshot; an empty one if there is no usable snapshot."""
        snapshot = self.store.snapshot(self.record.id)
        if snapshot is None or not reads(snapshot):
            return Replica(self.record)
        last_row = self.store.read(self.record.id, snapshot.upto - 1, snapshot.upto)
        try:
            return load(self.record, snapshot, last_row)
        except (LookupError, ValueError, TypeError, AttributeError, OverflowError) as error:
            blank = Replica(
                self.record
            )  # raises if the policy rather than the snapshot is at fault
            warnings.warn(
                f"the saved state of experiment {self.record.name!r} is damaged ({error}); "
                "it is recomputed from the log",
                RolfWarning,
                stacklevel=2,
            )
            self.store.forget(self.record.id)
            return blank

    def _counted(self, rows: Iterable[LogRow]) -> Iterator[LogRow]:
        for row in rows:
            self.rows_since_snapshot += 1
            yield row

    # --- snapshots ---

    def snapshot_if_due(self) -> None:
        if self.rows_since_snapshot < SNAPSHOT_INTERVAL:
            return
        with suppress(StorageError):  # the caller's work is done; saving can wait
            latest = self.store.snapshot(self.record.id)
            usable = latest is not None and reads(latest)
            if latest and usable and latest.upto > self.snapshot_upto:  # another process saved it
                self.snapshot_upto, self.rows_since_snapshot = latest.upto, 0
            else:
                self.save()

    def save(self) -> None:
        """Save the state."""
        self.store.save(self.record.id, dump(self.replica))
        self.snapshot_upto, self.rows_since_snapshot = self.replica.last, 0

    def rebuild(self) -> None:
        """Delete the snapshot, fold the whole log and save the result."""
        self.store.forget(self.record.id)
        self.fold(use_snapshot=False)
        self.store.forget(self.record.id)
        self.save()


@contextmanager
def _damage_reported(name: str) -> Iterator[None]:
    """Report a log that cannot be read as damaged."""
    try:
        yield
    except RolfError:
        raise
    except (ValueError, TypeError, LookupError) as error:
        raise UnusableStorage(
            f"experiment {name!r} is damaged in the database ({error})"
        ) from error
