"""The replica of one process, kept in step with the log that all processes share."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from rolf.errors import (
    AlreadyTold,
    RolfError,
    RolfWarning,
    StorageError,
    UnknownDecision,
    UnusableStorage,
)
from rolf.experiments.replica import Replica
from rolf.experiments.storage.base import (
    DECISION,
    DEFAULT,
    PART,
    REWARD,
    LogRow,
    Reconnected,
    Record,
    Row,
    Store,
    check_exists,
    check_follows,
    log_rows,
)

T = TypeVar("T")

#: rows of the log between two snapshots
SNAPSHOT_INTERVAL = 10_000
#: decisions of this process that are kept, so that their rewards need not look them up
RECENT = 10_000


class LiveReplica:
    """A replica, how far it has read the log, and when its state was last saved."""

    def __init__(self, store: Store, record: Record, *, new: bool) -> None:
        self.store = store
        self.record = record
        self.snapshot_upto = 0  # the last row that the latest known snapshot covers
        self.rows_since_snapshot = 0
        self._contended = False  # whether others have been writing
        self._recent: OrderedDict[int, Row] = OrderedDict()
        if new:
            self.replica = Replica(record)
            self._reconnects = store.reconnects
        else:
            self.fold()
            self.snapshot_if_due()

    # --- reading ---

    def apply(self, rows: Sequence[LogRow]) -> None:
        self.replica.apply(rows)
        self.rows_since_snapshot += len(rows)

    def sync(self, unseen: Sequence[LogRow] | None = None) -> None:
        """Apply everything that was written before this call; ``unseen``: its first part."""
        id, upto = self.record.id, None
        rows = self.store.read(id, self.replica.last) if unseen is None else unseen
        self._contended = bool(rows)
        while rows:
            check_follows(self.store, self.record, self.replica.last, rows)
            self.apply(rows)
            if len(rows) < PART:
                break
            if upto is None:  # others may write as fast as this process reads
                upto = self.store.append(id, [])
            rows = self.store.read(id, self.replica.last, upto)
        self.fold_if_reconnected()

    # --- writing ---

    def write(self, make_rows: Callable[[], list[Row]]) -> list[Row]:
        """Append rows that follow from everything known, and apply them; durable afterwards.

        As long as nobody else writes, nothing has to be read first: rows are appended on the
        condition that there is nothing unknown. Once others write too, the log is read first,
        and rows are made again if their place was taken meanwhile. Nothing is locked while rows
        are made.
        """
        rows: list[Row] = []
        if not self._contended:
            with suppress(RolfError):  # perhaps only because arms have changed
                rows = make_rows()
            if rows and self._append(rows, self.replica.last):
                return rows
        while True:
            with self.store.turn(self.record.id, self.replica.last) as unseen:
                self.sync(unseen)
                rows = make_rows()
                if self._append(rows):
                    return rows

    def _append(self, rows: list[Row], after: int | None = None) -> bool:
        """Append rows, and apply them if there is nothing unknown before them; False if a place
        is taken."""
        try:
            last = self.store.append(self.record.id, rows, after)
        except Reconnected:
            self.fold()
            return False
        if last is None:
            self._contended = True
            return False
        first = last - len(rows) + 1
        if first == self.replica.last + 1:
            self.apply([(seq, *row[1:]) for seq, row in enumerate(rows, first)])
        else:
            self._contended = True
        return True

    def remember(self, decisions: Iterable[Row]) -> None:
        """Keep decisions whose rewards this process will probably be told."""
        for row in decisions:
            self._recent[row.number] = row
        while len(self._recent) > RECENT:
            self._recent.popitem(last=False)

    # --- rewards ---

    def tell(self, rewards: dict[int, float], time: float) -> None:
        """Record the rewards of decisions; all of them are checked before any is written.

        They are written part by part, so that nobody has to wait for long. If a part cannot be
        written, the same call again completes it.
        """
        if len(rewards) <= PART and all(number in self._recent for number in rewards):
            decisions = [self._recent.pop(number) for number in rewards]
            whole = self.replica.policy.whole
            rows = [
                row.rewarded(REWARD, rewards[row.number], time, whole=whole) for row in decisions
            ]
            if self._append(rows):
                return
        rows = self._reward_rows(rewards, REWARD, time)
        for part in _parts(rows):
            while part and not self._append(part):  # others told some of them meanwhile
                again = {row.number: rewards[row.number] for row in part}
                part = self._reward_rows(again, REWARD, time)
        if not rows:
            self.store.settle()  # they are on record, but perhaps not yet on the disk

    def expire(self, numbers: Sequence[int], reward: float, time: float) -> None:
        """Record the default reward of decisions that have none."""
        rewards = dict.fromkeys(numbers, reward)
        while rows := self._reward_rows(rewards, DEFAULT, time):
            if self._append(rows):
                return

    def _reward_rows(self, rewards: dict[int, float], kind: int, time: float) -> list[Row]:
        """The rows that give decisions these rewards, where they are not on record.

        Raises if a decision is unknown, or has been told a different reward.
        """
        rows = []
        for numbers in _parts(list(rewards)):
            decisions: dict[int, Row] = {}
            outcomes: dict[tuple[int, int], float] = {}
            for values in self.store.find(self.record.id, numbers):
                if values[1] == DECISION:
                    decisions[values[2]] = Row(*values)
                else:
                    outcomes[values[2], values[1]] = values[11]
            for number in numbers:
                reward, defaulted = rewards[number], (number, DEFAULT) in outcomes
                told = outcomes.get((number, REWARD))
                if number not in decisions:
                    raise self._unknown(number)
                if told is None and not (defaulted and kind == DEFAULT):
                    row = decisions[number]
                    whole = self.replica.policy.whole
                    rows.append(
                        row.rewarded(kind, reward, time, replaces_default=defaulted, whole=whole)
                    )
                elif kind == REWARD and told != reward:
                    raise already_told(self.record, number, told, reward)
        return rows

    def _unknown(self, number: int) -> RolfError:
        """What to raise about a decision that is not in the log."""
        check_exists(self.store, self.record)
        return unknown_decision(self.record.decision_id(number))

    # --- folding the log ---

    def fold(self, *, use_snapshot: bool = True) -> None:
        """Apply the whole log, or what follows the snapshot."""
        with _damage_reported(self.record.name):
            self._reconnects = self.store.reconnects
            replica = self._load_snapshot() if use_snapshot else Replica(self.record)
            self.snapshot_upto, self.rows_since_snapshot = replica.last, 0
            replica.apply(self._counted(log_rows(self.store, self.record, replica.last)))
        self.replica = replica
        self._recent.clear()

    def fold_if_reconnected(self) -> None:
        """A server that crashed may have taken back rows that it had not written to the disk."""
        if self.store.reconnects != self._reconnects:
            self.fold()

    def _load_snapshot(self) -> Replica:
        """The replica of the snapshot; an empty one if there is no usable snapshot."""
        snapshot = self.store.snapshot(self.record.id)
        if snapshot is None or not Replica.reads(snapshot):
            return Replica(self.record)
        last_row = self.store.read(self.record.id, snapshot.upto - 1, snapshot.upto)
        try:
            return Replica.load(self.record, snapshot, last_row)
        except (LookupError, ValueError, TypeError, AttributeError, OverflowError) as error:
            blank = Replica(self.record)  # raises if the policy is at fault, not the snapshot
            warnings.warn(
                f"the saved state of experiment {self.record.name!r} is damaged ({error}); "
                "it is computed from the log again",
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
        with suppress(StorageError):  # the caller's work is done; the next time will do
            latest = self.store.snapshot(self.record.id)
            usable = latest is not None and Replica.reads(latest)
            if latest and usable and latest.upto > self.snapshot_upto:  # another was faster
                self.snapshot_upto, self.rows_since_snapshot = latest.upto, 0
            else:
                self.save()

    def save(self) -> None:
        """Save the state."""
        self.store.save(self.record.id, self.replica.dump())
        self.snapshot_upto, self.rows_since_snapshot = self.replica.last, 0

    def rebuild(self) -> None:
        """Delete the snapshot, fold the whole log and save the result."""
        self.store.forget(self.record.id)
        self.fold(use_snapshot=False)
        self.store.forget(self.record.id)
        self.save()


def unknown_decision(id: str) -> UnknownDecision:
    return UnknownDecision(f"decision {id!r} was not issued by this experiment")


def already_told(record: Record, number: int, told: object, reward: float) -> AlreadyTold:
    id = record.decision_id(number)
    return AlreadyTold(f"decision {id!r} has been told the reward {told!r} already, not {reward!r}")


def _parts(items: list[T]) -> Iterator[list[T]]:
    for first in range(0, len(items), PART):
        yield items[first : first + PART]


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
