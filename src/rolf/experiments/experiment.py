"""Durable ask and tell, in one process or in many.

A decision is in the database before ``ask`` returns it, a reward before ``tell`` returns. Each
process keeps a replica of the state and, with every ask, reads what the others wrote.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rolf.errors import ExperimentError, InvalidArgument, RolfError
from rolf.experiments.arm_changes import ArmChanges
from rolf.experiments.batch import Ask, Tell
from rolf.experiments.beliefs import Beliefs, interrupts_recognised
from rolf.experiments.log.decisions import LoggedDecision, logged_decisions
from rolf.experiments.log.synced import LiveReplica
from rolf.experiments.protocol import METHODS
from rolf.experiments.serving import Served, in_thread
from rolf.experiments.status.pending import PendingDecisions
from rolf.experiments.storage.contract import Record, Row, Store, log_rows
from rolf.experiments.storage.forks import notice_forks
from rolf.experiments.together import Together
from rolf.experiments.transfer.backup import back_up
from rolf.experiments.transfer.export import write_log
from rolf.experiments.warm_start import WarmStart
from rolf.types import Decision

#: how long an ask may spend on default rewards that are due, in seconds, and how many at a time
EXPIRY_TIME, EXPIRY_PART = 0.01, 100


class Experiment(Together, Beliefs, PendingDecisions, ArmChanges, WarmStart, Served):
    """Decisions and rewards that are never lost. ``rolf.open_experiment`` opens one.

    Several threads may share it, and so may processes that are forked from this one. Close it, or
    use it in a ``with`` statement.
    """

    def __init__(self, store: Store, record: Record, *, new: bool = False) -> None:
        close_abandoned()
        self._record = record
        self._new = new  # whether it was created just now, by the one who opens it
        self._lock = threading.RLock()
        self._closed = False
        self._unfinished = False  # whether a call has begun and not ended
        #: this process's replica of the log, for servers and tests
        self.synced = LiveReplica(store, record, new=new)
        notice_forks(self)

    @property
    def name(self) -> str:
        return self._record.name

    @property
    def policy(self) -> str:
        """The name of the policy."""
        return self._record.policy

    @property
    def record(self) -> Record:
        """How the experiment was created."""
        return self._record

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """One call at a time. After an interrupted call the state is read from the log again."""
        with self._lock:
            self._check_open()
            if self._unfinished:
                self.synced.fold()
            else:
                self.synced.fold_if_reconnected()
            self._unfinished = True
            try:
                with interrupts_recognised():
                    yield
            except RolfError:
                self._unfinished = False
                raise
            self._unfinished = False

    def _check_open(self) -> None:
        if self._closed:
            raise ExperimentError(f"experiment {self.name!r} is closed; open it again")

    def after_fork_in_child(self) -> None:
        """A new process has the state as some thread may just have been changing it."""
        self._lock = threading.RLock()
        self._unfinished = True

    # --- decisions ---

    def ask(
        self,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        idempotency_key: str | None = None,
    ) -> Decision:
        """Decide which arm to play next; the decision is durable when this returns.

        Args:
            available: the arms to choose from; by default all that are not retired.
            features: (K, d) features of this round, for policies that take them.
            context: of this round, for policies that were created with one: its entries by name,
                or in order. It is stored once with the decision.
            idempotency_key: asking again with the same key, in any process and also after a
                crash, gives the same decision; asking for something else with it is refused.
        """
        ask = Ask(
            available=available, features=features, context=context, idempotency_key=idempotency_key
        )
        self.submit([ask])
        return ask.result()[0]

    def ask_many(
        self,
        n: int,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        distinct: bool = False,
        idempotency_key: str | None = None,
    ) -> list[Decision]:
        """Make several decisions before any of them is rewarded.

        Args:
            n: how many; at most 100,000, and at most 1,000 with an idempotency key.
            available: as in ``ask``.
            features: as in ``ask``.
            context: as in ``ask``.
            distinct: a slate, ``n`` different arms. They are chosen one after the other, each from
                those that are left; a decision's probability is that of its arm at its place,
                given the arms before it. Each gets its own reward.
            idempotency_key: as in ``ask``.
        """
        ask = Ask(
            n,
            available=available,
            features=features,
            context=context,
            distinct=distinct,
            idempotency_key=idempotency_key,
        )
        self.submit([ask])
        return ask.result()

    # --- rewards ---

    def tell(self, decision: Decision | str, reward: float) -> None:
        """Record a reward: late, in any order, from any process; durable when this returns.

        Telling the same reward again changes nothing; a different one is refused. Of a reward that
        was corrected, both what was told and what it was corrected to count as the same.
        """
        self.tell_many([(decision, reward)])

    def tell_many(
        self, rewards: Mapping[str, float] | Iterable[tuple[Decision | str, float]]
    ) -> int:
        """Record many rewards, all or none: pairs, or a mapping by id.

        All are checked before any is recorded. Large batches are recorded part by part, so that
        others need not wait; if that is cut short, the same call again completes it. Returns how
        many were not on record before.
        """
        tell = Tell(rewards)
        self.submit(tells=[tell])
        return tell.result()

    def _expire_all(self) -> None:
        """Give all default rewards that are due; others may ask in between."""
        finished = False
        while not finished:
            with self._exclusive():
                finished = self._expire()
            time.sleep(0.0)

    def _expire(self) -> bool:
        """Give the default reward to decisions that have waited too long, the oldest first, as
        far as the time goes; whether there are no more of them."""
        after, default = self._record.reward_after, self._record.default_reward
        if after is None or default is None:
            return True
        self.synced.sync()
        now, end = self.synced.now(), time.monotonic() + EXPIRY_TIME
        while due := self.synced.replica.due(now - after, EXPIRY_PART):
            self.synced.expire(due, default, now)
            self.synced.sync()
            if time.monotonic() > end:
                return False
        return True

    # --- the log ---

    def log(self) -> list[LoggedDecision]:
        """All decisions with their rewards, in their order."""
        with self.current(defaults=False) as replica:
            context, roster, last = replica.policy.context, replica.roster, replica.last
        rows = self._rows(last)
        return logged_decisions(rows, self._record, roster, context)

    def export(self, path: str | Path) -> int:
        """Write the log to a file, .csv or .parquet, one row per decision with its reward.

        Returns:
            How many decisions were written.
        """
        with self.current(defaults=False) as replica:
            policy, rows = replica.policy, self._rows(replica.last)
        return write_log(path, self._record, rows, policy)

    def _rows(self, upto: int) -> list[Row]:
        """The rows of the log up to one."""
        if not upto:
            return []
        return [Row(*row) for row in log_rows(self.synced.store, self._record, 0, upto)]

    # --- snapshots ---

    def snapshot(self) -> None:
        """Save the state, so that opening need not fold the log. Also happens by itself."""
        with self._exclusive():
            self.synced.sync()
            self.synced.save()

    def rebuild(self) -> None:
        """Discard the saved state, fold the whole log again and save the result."""
        with self._exclusive():
            self.synced.rebuild()

    # --- the end ---

    def backup(self, path: str | Path) -> None:
        """Write the experiment to a new file, a SQLite database of its own, while it is in use.

        ``rolf restore`` puts it into another database; it can also be opened where it is.
        """
        self._check_open()
        back_up(self.synced.store, path, [self.name])

    def delete(self, *, confirm: str) -> None:
        """Delete the experiment with all its decisions and rewards; ``confirm`` is its name."""
        if confirm != self.name:
            raise InvalidArgument("confirm", confirm, f"the experiment's name, {self.name!r}")
        with self._exclusive():
            self.synced.store.delete(self._record.id)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._closed = True
            self.synced.store.close()
        close_abandoned()

    def __enter__(self) -> Experiment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "synced") and not self._closed:  # by the garbage collector, in any thread
            _abandoned.append(self.synced.store)

    def __repr__(self) -> str:
        asked, told = sum(self.synced.replica.asked), sum(self.synced.replica.told)
        return f"<Experiment {self.name!r}: {self.policy}, {asked} asked, {told} told>"


for _method in METHODS:
    setattr(Experiment, f"a{_method}", in_thread(getattr(Experiment, _method)))


#: stores of experiments that were never closed; the garbage collector must not wait for a lock
_abandoned: deque[Store] = deque()


def close_abandoned() -> None:
    """Close the stores of experiments that are gone without having been closed."""
    with suppress(IndexError):
        while True:
            _abandoned.popleft().close()
