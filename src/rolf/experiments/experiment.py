"""Durable ask and tell, in one process or in many.

A decision is in the database before its answer leaves, a reward before ``tell`` returns. Each
process keeps a replica of the state and reads, with every ask, what the others wrote.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, overload

from rolf.checks import whole
from rolf.errors import (
    AlreadyTold,
    ExperimentError,
    InvalidArgument,
    RolfError,
    StorageError,
    UnknownDecision,
    UnusableStorage,
)
from rolf.experiments.replica import Replica
from rolf.experiments.roster import Table
from rolf.experiments.status import Status, status_of
from rolf.experiments.storage.base import (
    CHANGE,
    ConnectionRenewed,
    Make,
    Record,
    Row,
    Store,
    Written,
)
from rolf.types import Decision

#: rows of the log between two snapshots
EVERY = 10_000
#: decisions of one ask
MOST = 100_000


class Experiment:
    """Decisions and rewards that are never lost. Made by ``rolf.open``.

    It may be used by several threads; a process that was forked opens its own. Close it, or
    use it in a ``with`` statement.
    """

    def __init__(self, store: Store, record: Record, *, new: bool = False) -> None:
        self._store = store
        self._record = record
        self._lock = threading.RLock()
        self._closed = False
        self._unsure = False  # whether something was begun and not ended
        self._renewals = store.renewals  # of the connection, when the replica was made
        self._since = 0  # rows since the last snapshot that is known of
        self._seen = 0  # up to which row that one goes
        self._now = time.time
        if new:
            self._replica = Replica(record)
            self._reader = store.reader(record.id, 0)
        else:
            self._fold()
            self._snapshot_if_due()

    @property
    def name(self) -> str:
        return self._record.name

    @property
    def policy(self) -> str:
        """The policy's name in the catalogue."""
        return self._record.policy

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One thing at a time. What an interrupt left half done is read anew from the log."""
        with self._lock:
            if self._closed:
                raise ExperimentError(f"experiment {self.name!r} is closed; open it again")
            if self._unsure:
                self._store.close()  # it connects again
                self._fold()
            elif self._store.renewals != self._renewals:
                self._fold()
            self._unsure = True
            try:
                yield
            except RolfError:
                self._unsure = False
                raise
            except SystemError as error:  # how compiled code reports an interrupt
                if isinstance(error.__cause__, KeyboardInterrupt):
                    raise KeyboardInterrupt from error
                raise
            self._unsure = False

    # --- decisions ---

    @overload
    def ask(
        self, n: None = None, available: Iterable[Any] | None = None, *, features: Any = None
    ) -> Decision: ...
    @overload
    def ask(
        self, n: int, available: Iterable[Any] | None = None, *, features: Any = None
    ) -> list[Decision]: ...
    def ask(
        self, n: int | None = None, available: Iterable[Any] | None = None, *, features: Any = None
    ) -> Decision | list[Decision]:
        """Decide which arm to play next; the decision is durable when this returns.

        Args:
            n: give a list of this many decisions, made in one transaction; at most 100,000.
            available: the arms to choose from; all that are not retired by default.
            features: (K, d) features of this round, for policies that take them.
        """
        count = 1 if n is None else whole("n", n, 1, MOST)
        once = isinstance(available, Iterable) and not hasattr(available, "__len__")
        wanted = list(available) if once and available is not None else available
        with self._alone():
            self._expire()

            def make(rows: list[Any]) -> list[Row]:
                self._take(rows)
                replica = self._replica
                positions = replica.table.available(wanted)
                table = self._round(features)
                kept = json.dumps(table.tolist()) if replica.policy.varying else None
                return replica.choose(count, positions, table, kept, self._now())

            written = self._write(make)
            self._take(written.fresh)
            decisions = [self._decision(row) for row in written.rows]
            self._snapshot_if_due()
        return decisions if n is not None else decisions[0]

    def _decision(self, row: Row) -> Decision:
        labels = self._replica.table.arms.labels
        chance = math.nan if row.probability is None else row.probability
        key = f"{self._record.tag}-{row.number}"
        return Decision(key, labels[row.arm], chance, labels[row.greedy], bool(row.matched))

    def _round(self, features: Any) -> Any:
        policy = self._replica.policy
        if policy.varying:
            return self._replica.table.arms.round_features(features)
        return policy._round_features(features)

    # --- rewards ---

    def tell(self, decision: Decision | str, reward: float) -> None:
        """Record a reward: late, in any order, from any process; durable when this returns.

        The same reward again changes nothing; another one is refused.
        """
        self.tell_many([(decision, reward)])

    def tell_many(
        self, rewards: Mapping[str, float] | Iterable[tuple[Decision | str, float]]
    ) -> None:
        """Record many rewards in one transaction, all or none: pairs, or a mapping by id."""
        pairs = rewards.items() if isinstance(rewards, Mapping) else rewards
        wanted = []
        try:
            for decision, reward in pairs:
                value = self._replica.policy._number(reward)
                wanted.append((self._number(decision), value))
        except (TypeError, ValueError) as error:
            if isinstance(error, InvalidArgument):
                raise
            raise InvalidArgument("rewards", rewards, "pairs of an id and a reward") from None
        if not wanted:
            return
        with self._alone():
            careful = self._record.reward_after is not None
            known, fresh = self._store.tell(self._reader, wanted, self._now(), careful)
            self._take(fresh)
        for (number, reward), there in zip(wanted, known, strict=True):
            key = f"{self._record.tag}-{number}"
            if there is None:
                raise UnknownDecision(f"decision {key!r} was not issued by this experiment")
            if there != reward:
                raise AlreadyTold(
                    f"decision {key!r} has been told the reward {there!r} already, not {reward!r}"
                )

    def _number(self, decision: Decision | str) -> int:
        key = decision.id if isinstance(decision, Decision) else decision
        if not isinstance(key, str):
            raise InvalidArgument("decision", key, "a decision or its id")
        tag, _, number = key.rpartition("-")
        if tag != self._record.tag or not number.isdecimal() or len(number) > 18:
            raise UnknownDecision(f"decision {key!r} was not issued by this experiment")
        return int(number)

    def _expire(self) -> None:
        """Give the default reward to decisions that have waited too long."""
        after, default = self._record.reward_after, self._record.default_reward
        if after is None or default is None:
            return
        self._sync()
        now = self._now()
        due = self._replica.due(now - after)
        if due:
            self._store.expire(self._record.id, due, default, now)

    # --- what is known ---

    def estimates(self, *, features: Any = None) -> Any:
        """Estimated mean reward of every arm: an array, or a Series for labelled arms."""
        with self._alone():
            self._expire()
            self._sync()
            values = self._replica.policy.estimates(**self._varying(features))
            return self._replica.table.arms.labelled(values)

    def status(self, *, features: Any = None) -> Status:
        """Counts of decisions and rewards, and every arm's plays and estimate."""
        with self._alone():
            self._expire()
            self._sync()
            table = self._round(features) if features is not None else None
            return status_of(self.name, self._replica, table)

    def _varying(self, features: Any) -> dict[str, Any]:
        return {"features": self._round(features)} if self._replica.policy.varying else {}

    # --- arms that come and go ---

    def add_arms(self, features: Any) -> list[Any]:
        """Add arms: rows of features, in a DataFrame or file if they have names. Gives these."""
        before, after = self._change(lambda table: table.addition(features))
        return after.arms.labels[before.arms.count :]

    def retire_arms(self, ids: Any) -> None:
        """Ask for these arms no more. Rewards of decisions in flight can still be told."""
        self._change(lambda table: table.retirement(ids))

    def update_features(self, features: Any) -> None:
        """Correct features: a mapping of arms to rows, or a table or file of some arms, or all.

        Counts and sums of rewards are kept; what follows from them is computed anew.
        """
        if self._replica.policy.varying:
            raise InvalidArgument("features", features, "nothing: features come with every ask")
        self._change(lambda table: table.correction(features))

    def _change(self, describe: Callable[[Table], dict[str, Any]]) -> tuple[Table, Table]:
        """Record a change of the arms; gives the tables before and after."""
        tables: tuple[Table, Table]

        def make(rows: list[Any]) -> list[Row]:
            nonlocal tables
            self._take(rows)
            before = self._replica.table
            change = describe(before)
            tables = before, before.changed(change)
            Replica(self._record._replace(features=tables[1].dumps()))  # whether it can be
            number = self._replica.changes + 1
            return [Row(0, CHANGE, number, self._now(), features=json.dumps(change))]

        with self._alone():
            self._take(self._write(make).fresh)
            self._sync()
        return tables

    # --- the replica ---

    def _write(self, make: Make) -> Written:
        try:
            return self._store.write(self._reader, make)
        except ConnectionRenewed:
            # A server that crashed may have lost what it showed but had not written out.
            self._fold()
            return self._store.write(self._reader, make)

    def _take(self, rows: list[Any]) -> None:
        self._replica.apply(rows)
        self._since += len(rows)

    def _sync(self) -> None:
        self._take(self._store.read(self._reader))
        if self._store.renewals != self._renewals:
            self._fold()

    def _saved(self) -> Replica:
        """The replica of the snapshot; an empty one if there is none that can be used."""
        snapshot = self._store.snapshot(self._record.id)
        if snapshot is not None:
            with suppress(KeyError, ValueError, TypeError, AttributeError):  # the log will do
                return Replica.load(self._record, snapshot)
        return Replica(self._record)

    def _fold(self, *, anew: bool = False) -> None:
        """Know all of the log, in the canonical order: from the snapshot on, or anew."""
        with _readable(self.name):
            replica = Replica(self._record) if anew else self._saved()
            upto = self._store.settle(self._record.id)
            self._renewals = self._store.renewals
            self._seen, self._since = replica.last, 0
            replica.apply(self._counted(self._store.log(self._record.id, replica.last, upto)))
        self._replica = replica
        self._reader = self._store.reader(self._record.id, max(upto, replica.last))

    def _counted(self, rows: Iterable[Any]) -> Iterator[Any]:
        for row in rows:
            self._since += 1
            yield row

    def _snapshot_if_due(self) -> None:
        if self._since >= EVERY:
            with suppress(StorageError):  # what was asked for is done; the next time will do
                self._snapshot(unless_known=True)

    def snapshot(self) -> None:
        """Keep the state, so that opening need not fold the log. Happens by itself as well."""
        with self._alone():
            self._snapshot(unless_known=False)

    def _snapshot(self, *, unless_known: bool) -> None:
        latest = self._store.snapshot(self._record.id)
        if unless_known and latest is not None and latest.upto > self._seen:
            self._seen, self._since = latest.upto, 0  # another process was faster
            return
        upto = self._store.settle(self._record.id)
        self._take(self._store.read(self._reader, upto))
        if not self._replica.ordered or self._store.renewals != self._renewals:
            self._fold()
        self._save()

    def _save(self) -> None:
        self._store.save(self._record.id, self._replica.dump())
        self._seen, self._since = self._replica.last, 0

    def rebuild(self) -> None:
        """Forget the snapshot, fold the whole log again and keep what comes out."""
        with self._alone():
            self._store.forget(self._record.id)
            self._fold(anew=True)
            self._save()

    # --- the end ---

    def delete(self, *, confirm: str) -> None:
        """Delete the experiment with all its decisions and rewards; ``confirm`` is its name."""
        if confirm != self.name:
            raise InvalidArgument("confirm", confirm, f"the experiment's name, {self.name!r}")
        with self._alone():
            self._store.delete(self._record.id)

    def close(self) -> None:
        """Give the connection back."""
        with self._lock:
            self._closed = True
            self._store.close()

    def __enter__(self) -> Experiment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with suppress(Exception):
            self._store.close()

    def __repr__(self) -> str:
        asked, told = sum(self._replica.asked), sum(self._replica.told)
        return f"<Experiment {self.name!r}: {self.policy}, {asked} asked, {told} told>"


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """What cannot be read as a log is damaged."""
    try:
        yield
    except RolfError:
        raise
    except (ValueError, TypeError, LookupError) as error:
        words = f"experiment {name!r} is damaged in the database ({error})"
        raise UnusableStorage(words) from error
