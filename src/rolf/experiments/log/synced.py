"""The replica of one process, kept in step with the log that all processes share."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from rolf.errors import (
    AlreadyTold,
    InvalidArgument,
    RolfError,
    RolfWarning,
    StorageError,
    UnknownDecision,
    UntoldDecision,
    UnusableStorage,
)
from rolf.experiments.log.replica import Corrected, Replica, earlier_corrections
from rolf.experiments.storage.contract import (
    CORRECTION,
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
#: corrections of one decision
MAX_CORRECTIONS = 1_000
#: decisions of this process that are kept, so that their rewards need not look them up
RECENT = 10_000


class LiveReplica:
    """A replica, how far it has read the log, and when its state was last saved."""

    def __init__(self, store: Store, record: Record, *, new: bool) -> None:
        self.store = store
        self.record = record
        self.now = store.now  # seconds since 1970
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
        try:
            self.replica.apply(rows)
            self.rows_since_snapshot += len(rows)
        except Corrected:
            self.fold(use_snapshot=False, corrected=True)

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

    def tell(self, rewards: dict[int, float], time: float) -> set[int]:
        """Record the rewards of decisions; all of them are checked before any is written. Returns
        the decisions whose rewards were not on record.

        They are written part by part, so that nobody has to wait for long. If a part cannot be
        written, the same call again completes it.
        """
        rows = self.recent_rewards(rewards, time)
        if rows and self._append(rows):
            return set(rewards)
        new: set[int] = set()
        rows = self._reward_rows(rewards, REWARD, time)
        for part in _parts(rows):
            while part and not self._append(part):  # others told some of them meanwhile
                again = {row.number: rewards[row.number] for row in part}
                part = self._reward_rows(again, REWARD, time)
            new |= {row.number for row in part}
        if not rows:
            self.store.settle()  # they are on record, but perhaps not yet on the disk
        return new

    def recent_rewards(self, rewards: dict[int, float], time: float) -> list[Row]:
        """The rows that give these rewards to decisions that this process has made just now,
        provided that nobody else has told them; none if other decisions are among them."""
        if len(rewards) > PART or not all(number in self._recent for number in rewards):
            return []
        whole = self.replica.whole
        decisions = [self._recent.pop(number) for number in rewards]
        return [row.rewarded(REWARD, rewards[row.number], time, whole=whole) for row in decisions]

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
        whole = self.replica.whole
        for numbers in _parts(list(rewards)):
            decisions: dict[int, Row] = {}
            told: dict[int, list[Row]] = {number: [] for number in numbers}
            defaulted = set()
            for values in self.store.find(self.record.id, numbers):
                row = Row(*values)
                if row.kind == DECISION:
                    decisions[row.number] = row
                elif row.kind == DEFAULT:
                    defaulted.add(row.number)
                else:
                    told[row.number].append(row)
            for number in numbers:
                reward, before = rewards[number], number in defaulted
                if number not in decisions:
                    raise self._unknown(number)
                if not told[number] and not (before and kind == DEFAULT):
                    row = decisions[number]
                    rows.append(
                        row.rewarded(kind, reward, time, replaces_default=before, whole=whole)
                    )
                elif kind == REWARD and all(each.reward != reward for each in told[number]):
                    raise already_told(self.record, number, _latest(told[number]).reward, reward)
        return rows

    # --- corrections ---

    def correct(self, number: int, reward: float, reason: str, time: float) -> None:
        """Put another reward in the place of the one that a decision was told."""
        while True:
            self.sync()
            rows = [Row(*values) for values in self.store.find(self.record.id, [number])]
            told = [row for row in rows if row.kind in (REWARD, CORRECTION)]
            if not rows:
                raise self._unknown(number)
            if not told:
                raise not_told(self.record, number)
            latest = _latest(told)
            wrong = float(latest.reward or 0.0)
            if wrong == reward:
                self.store.settle()  # it is on record, but perhaps not yet on the disk
                return
            if latest.correction >= MAX_CORRECTIONS and latest.kind == CORRECTION:
                id, expected = self.record.decision_id(number), "a decision corrected less often"
                raise InvalidArgument("decision", id, expected)
            refold = self.replica.must_refold(wrong, reward)
            row = latest.corrected(reward, reason, time, refold=refold)
            try:
                if self.store.append(self.record.id, [row]) is not None:
                    return  # it is read with the next call, like what others write
            except Reconnected:
                self.fold()

    def _unknown(self, number: int) -> RolfError:
        """What to raise about a decision that is not in the log."""
        check_exists(self.store, self.record)
        return unknown_decision(self.record.decision_id(number))

    # --- folding the log ---

    def fold(self, *, use_snapshot: bool = True, corrected: bool = False) -> None:
        """Apply the whole log, or what follows the snapshot; ``corrected``: with corrections that
        are known before."""
        with _damage_reported(self.record.name):
            self._reconnects = self.store.reconnects
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
            self.store.forget(self.record.id)  # whoever opens it would have to fold the log
        return Replica(self.record, corrections=known)

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
    return UnknownDecision(f"decision {id!r} was not issued by this experiment", id)


def already_told(record: Record, number: int, told: object, reward: float) -> AlreadyTold:
    id = record.decision_id(number)
    return AlreadyTold(
        f"decision {id!r} has been told the reward {told!r} already, not {reward!r}; "
        "if that was wrong, correct it",
        id,
    )


def not_told(record: Record, number: int) -> UntoldDecision:
    id = record.decision_id(number)
    return UntoldDecision(f"decision {id!r} has no reward to correct; tell it one", id)


def _latest(told: list[Row]) -> Row:
    """The row with the reward that counts: the last correction, or the reward itself."""
    return max(told, key=lambda row: row.correction if row.kind == CORRECTION else 0)


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
