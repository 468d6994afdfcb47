"""Durable ask and tell, in one process or in many.

A decision is in the database before ``ask`` returns it, a reward before ``tell`` returns. Each
process keeps a replica of the state and, with every ask, reads what the others wrote.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, overload

import numpy as np

from rolf.checks import MAX_COUNT, is_text, whole
from rolf.errors import ExperimentError, InvalidArgument, RolfError
from rolf.experiments.arm_changes import ArmChanges
from rolf.experiments.backup import back_up
from rolf.experiments.beliefs import Beliefs, interrupts_recognised
from rolf.experiments.live import LiveReplica, already_told, unknown_decision
from rolf.experiments.requests import Request
from rolf.experiments.serving import Served
from rolf.experiments.storage.base import PART, Record, Row, Store, log_rows, part_size
from rolf.experiments.storage.forks import notice_forks
from rolf.experiments.warm_start import WarmStart
from rolf.policies.base import slate_size
from rolf.types import Decision, FloatArray

#: decisions of one ask
MAX_BATCH = 100_000
#: characters of the reason for a correction
MAX_REASON = 1_000
#: how long an ask may spend on default rewards that are due, in seconds, and how many at a time
EXPIRY_TIME, EXPIRY_PART = 0.01, 100


class Experiment(Beliefs, ArmChanges, WarmStart, Served):
    """Decisions and rewards that are never lost. ``rolf.open_experiment`` opens one.

    Several threads may share it, and so may processes that are forked from this one. Close it, or
    use it in a ``with`` statement.
    """

    def __init__(self, store: Store, record: Record, *, new: bool = False) -> None:
        close_abandoned()
        self._store = store
        self._record = record
        self._lock = threading.RLock()
        self._closed = False
        self._unfinished = False  # whether a call has begun and not ended
        self._now = store.now
        self._live = LiveReplica(store, record, new=new)
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
                self._live.fold()
            else:
                self._live.fold_if_reconnected()
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

    @overload
    def ask(
        self,
        n: None = None,
        available: Iterable[Any] | None = None,
        *,
        features: Any = None,
        context: Any = None,
        distinct: bool = False,
        key: str | None = None,
    ) -> Decision: ...
    @overload
    def ask(
        self,
        n: int,
        available: Iterable[Any] | None = None,
        *,
        features: Any = None,
        context: Any = None,
        distinct: bool = False,
        key: str | None = None,
    ) -> list[Decision]: ...
    def ask(
        self,
        n: int | None = None,
        available: Iterable[Any] | None = None,
        *,
        features: Any = None,
        context: Any = None,
        distinct: bool = False,
        key: str | None = None,
    ) -> Decision | list[Decision]:
        """Decide which arm to play next; the decision is durable when this returns.

        Args:
            n: return a list of this many decisions; at most 100,000.
            available: the arms to choose from; by default all that are not retired.
            features: (K, d) features of this round, for policies that take them.
            context: of this round, for policies that were created with one: its entries by name,
                or in order. It is stored once with the decision.
            distinct: a slate, ``n`` different arms. They are chosen one after the other, each from
                those that are left; a decision's probability is the chance of its arm at its
                place, given the arms before it. Each gets its own reward.
            key: of this request. Asking again with the same key, in any process and also after a
                crash, gives the same decisions; for something else it is refused. At most 1,000
                decisions have one key.
        """
        most = MAX_BATCH if key is None else PART
        count = 1 if n is None else whole("n", n, 1, most)
        choices = list(available) if isinstance(available, Iterator) else available
        request = None
        if key is not None:
            request = Request(
                key, n=n, available=choices, features=features, context=context, distinct=distinct
            )
        decisions: list[Decision] = []
        chosen: list[int] = []
        with self._exclusive():
            caught_up = self._expire()

            def next_decisions() -> list[Row]:
                replica = self._replica
                positions = replica.roster.available(choices)
                wanted = count - len(decisions)
                if distinct:
                    positions = np.setdiff1d(positions, chosen)
                    slate_size(count, positions.size + len(chosen))
                table = self._round_features(features, context)
                text = self._logged_features(table, context)
                if request is None:
                    wanted = min(part_size(len(text or "")), wanted)
                return replica.choose(wanted, positions, table, text, self._now(), distinct)

            while len(decisions) < count:
                if request is None:
                    rows = self._live.write(next_decisions)
                else:
                    rows = self._live.write_once(request, next_decisions)
                self._live.remember(rows)
                decisions += [self._decision(row) for row in rows]
                chosen += [row.arm for row in rows]
            if caught_up:  # otherwise this ask has taken long enough
                self._live.snapshot_if_due()
        return decisions if n is not None else decisions[0]

    def _logged_features(self, table: FloatArray, context: Any) -> str | None:
        """What a decision has to record: its context, or the features of all arms, if they vary."""
        policy = self._replica.policy
        if policy.context is not None:
            return json.dumps({"context": policy.context.vector(context).tolist()})
        return json.dumps(table.tolist()) if policy.varying else None

    def _decision(self, row: Row) -> Decision:
        labels = self._replica.roster.arms.labels
        chance = math.nan if row.probability is None else row.probability
        id = self._record.decision_id(row.number)
        return Decision(id, labels[row.arm], chance, labels[row.greedy], bool(row.matched))

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
        pairs = rewards.items() if isinstance(rewards, Mapping) else rewards
        numbered: dict[int, float] = {}
        try:
            for decision, reward in pairs:
                value = self._replica.policy._number(reward)
                number = self._decision_number(decision)
                if numbered.setdefault(number, value) != value:
                    raise already_told(self._record, number, numbered[number], value)
        except (TypeError, ValueError) as error:
            if isinstance(error, InvalidArgument):
                raise
            raise InvalidArgument("rewards", rewards, "pairs of an id and a reward") from None
        if not numbered:
            return 0
        with self._exclusive():
            return len(self._live.tell(numbered, self._now()))

    def correct(self, decision: Decision | str, reward: float, reason: str) -> None:
        """Put the right reward in the place of a wrong one; durable when this returns.

        The log keeps both, with the reason. The state is as if the right reward had been told in
        the first place. A reward may be corrected more than once; a correction to the reward that
        counts already changes nothing.

        Args:
            decision: one that has been told a reward, or its id.
            reward: the right one.
            reason: why the other one was wrong.
        """
        value = self._replica.policy._number(reward)
        number = self._decision_number(decision)
        good = isinstance(reason, str) and reason.strip() and is_text(reason)
        if not good or len(reason) > MAX_REASON:
            raise InvalidArgument("reason", reason, f"some text, up to {MAX_REASON} characters")
        with self._exclusive():
            self._live.correct(number, value, reason, self._now())

    def _decision_number(self, decision: Decision | str) -> int:
        id = decision.id if isinstance(decision, Decision) else decision
        if not isinstance(id, str):
            raise InvalidArgument("decision", id, "a decision or its id")
        tag, _, number = id.rpartition("-")
        known = tag == self._record.tag and number.isascii() and number.isdecimal()
        if not known or number.startswith("0") or len(number) > 18 or int(number) > MAX_COUNT:
            raise unknown_decision(id)
        return int(number)

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
        self._live.sync()
        now, end = self._now(), time.monotonic() + EXPIRY_TIME
        while due := self._replica.due(now - after, EXPIRY_PART):
            self._live.expire(due, default, now)
            self._live.sync()
            if time.monotonic() > end:
                return False
        return True

    # --- the log ---

    def log(self) -> list[Row]:
        """All rows of the log, in their order."""
        self._check_open()
        return [Row(*row) for row in log_rows(self._store, self._record)]

    # --- snapshots ---

    def snapshot(self) -> None:
        """Save the state, so that opening need not fold the log. Also happens by itself."""
        with self._exclusive():
            self._live.sync()
            self._live.save()

    def rebuild(self) -> None:
        """Discard the saved state, fold the whole log again and save the result."""
        with self._exclusive():
            self._live.rebuild()

    # --- the end ---

    def backup(self, path: str | Path) -> None:
        """Write the experiment to a new file, a SQLite database of its own, while it is in use.

        ``rolf restore`` puts it into another database; it can also be opened where it is.
        """
        self._check_open()
        back_up(self._store, path, [self.name])

    def delete(self, *, confirm: str) -> None:
        """Delete the experiment with all its decisions and rewards; ``confirm`` is its name."""
        if confirm != self.name:
            raise InvalidArgument("confirm", confirm, f"the experiment's name, {self.name!r}")
        with self._exclusive():
            self._store.delete(self._record.id)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._closed = True
            self._store.close()
        close_abandoned()

    def __enter__(self) -> Experiment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):  # by the garbage collector, in any thread
            _abandoned.append(self._store)

    def __repr__(self) -> str:
        asked, told = sum(self._replica.asked), sum(self._replica.told)
        return f"<Experiment {self.name!r}: {self.policy}, {asked} asked, {told} told>"


#: stores of experiments that were never closed; the garbage collector must not wait for a lock
_abandoned: deque[Store] = deque()


def close_abandoned() -> None:
    """Close the stores of experiments that are gone without having been closed."""
    with suppress(IndexError):
        while True:
            _abandoned.popleft().close()
