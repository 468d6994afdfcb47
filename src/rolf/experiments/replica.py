"""The state of an experiment in one process: its log, folded row by row.

Nothing but rows of the log changes a replica. So replicas that have read the same rows in the
same order hold the same bits, and a snapshot made from rows read in the canonical order equals
what a fold of the whole log gives.

Rows enter like this: a decision moves the clocks as it did when it was taken; a reward is the
policy's own update; a late reward replaces the default that was taken in before, by the
difference that the two make to the totals; a change of the arms makes a policy with the new
table, which is given the totals of the old one and computes the rest from them.
"""

from __future__ import annotations

import heapq
import json
import math
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from rolf.errors import ExperimentError, RolfWarning, UnknownPolicy
from rolf.experiments.roster import Table
from rolf.experiments.storage.base import CHANGE, DECISION, REWARD, Record, Row, Snapshot
from rolf.policies.arrays import arrays, fill, find, pack, remember
from rolf.policies.base import Policy
from rolf.policies.contract import check_choose
from rolf.policies.operations import rebuild
from rolf.policies.registry import policy_class
from rolf.types import Choice, FloatArray, IntArray

#: of a snapshot: counts on whenever the arrays of a state, or what stands beside them, change
FORMAT = 3


class Moments:
    """Number, sum and sum of squares of every arm's rewards, less the first reward of all."""

    def __init__(self, arms: int) -> None:
        self.anchor: float | None = None
        self.counts: list[float] = [0.0] * arms
        self.sums: list[float] = [0.0] * arms
        self.squares: list[float] = [0.0] * arms

    def add(self, arm: int, reward: float, sign: float = 1.0) -> None:
        if self.anchor is None:
            self.anchor = float(reward)  # a database may give 1 for 1.0
        value = reward - self.anchor
        self.counts[arm] += sign
        self.sums[arm] += sign * value
        self.squares[arm] += sign * value * value

    def extend(self, arms: int) -> None:
        for each in (self.counts, self.sums, self.squares):
            each += [0.0] * arms


class Replica:
    """What one process knows of an experiment."""

    def __init__(self, record: Record, *, quiet: bool = True) -> None:
        self.record = record
        self.table = Table.loads(record.features)
        self._make(quiet)
        self.last = 0  # the highest row taken in
        self.ordered = True  # whether all rows came in the canonical order
        self.issued = 0  # the highest number of a decision
        self.changes = 0
        self.asked: list[int] = [0] * self.table.arms.count
        self.told: list[int] = [0] * self.table.arms.count
        self.defaults = 0
        self.moments = Moments(self.table.arms.count)
        #: number -> time of the decisions that may yet get the default reward
        self.open: dict[int, float] = {}
        self._oldest: list[tuple[float, int]] = []  # the same, as a heap; some may be gone
        self._philox = np.random.Philox(key=record.seed)
        self._rng = np.random.Generator(self._philox)
        self._start = self._philox.state

    def _make(self, quiet: bool = True) -> None:
        """A policy that knows nothing, for the table of now."""
        with warnings.catch_warnings():
            if quiet:  # it was said when the experiment was made
                warnings.simplefilter("ignore", RolfWarning)
            policy = self._class()(
                self.table.arms.features, seed=0, **json.loads(self.record.options)
            )
        self.policy: Policy = policy
        self.state = policy._state
        self.waiting: FloatArray | None = getattr(self.state, "waiting", None)

    def _class(self) -> Any:
        """The class of the policy, which must keep to what a replica relies on."""
        try:
            cls = policy_class(self.record.policy)
        except UnknownPolicy as error:
            raise ExperimentError(
                f"experiment {self.record.name!r} was made with the policy "
                f"{self.record.policy!r}, which cannot be imported here; install the package that "
                f"has it, or put it on the path ({error.wanted})"
            ) from error
        check_choose(cls, self.table.arms.features, json.loads(self.record.options))
        return cls

    # --- rows of the log ---

    def apply(self, rows: Iterable[Any]) -> None:
        """Take in rows of the log."""
        expires = self.record.reward_after is not None
        for row in rows:
            (seq, kind, number, time, arm, probability, greedy, pseudo, matched, mark, x, y) = row
            if seq < self.last:
                self.ordered = False
            else:
                self.last = seq
            if kind == DECISION:
                clock = self.state.clock
                if mark == 1:
                    clock[0] += 1
                else:
                    for place in range(clock.size):
                        clock[place] += mark >> place & 1
                if self.waiting is not None:
                    self.waiting[arm] += 1.0
                self.asked[arm] += 1
                if number > self.issued:
                    self.issued = number
                if expires:
                    self.open[number] = time
                    heapq.heappush(self._oldest, (time, number))
            elif kind == CHANGE:
                self.changes = max(self.changes, number)
                self._change(json.loads(x))
            else:
                policy = self.policy
                chance = math.nan if probability is None else probability
                choice = Choice(arm, chance, greedy, pseudo, bool(matched))
                features = policy.arms.features[arm] if x is None else np.array(json.loads(x))
                self.moments.add(arm, y)
                if mark:
                    self._replace(choice, features, y)
                else:
                    policy._update(policy.params, self.state, choice, features, y)
                    if expires:
                        self.open.pop(number, None)
                if kind == REWARD:
                    self.told[arm] += 1
                else:
                    self.defaults += 1

    def _replace(self, choice: Choice, row: FloatArray, reward: float) -> None:
        """A real reward in the place of the default one."""
        policy, state = self.policy, self.state
        self.defaults -= 1
        self.moments.add(choice.arm, self.record.default_reward or 0.0, -1.0)
        restore = remember(state)
        after = []
        for value in (reward, self.record.default_reward):
            policy._update(policy.params, state, choice, row, float(value or 0.0))
            after.append([find(state, path).copy() for path in policy.totals])
            restore()
        for path, real, default in zip(policy.totals, *after, strict=True):
            find(state, path)[...] += real - default
        rebuild(policy.params, state)

    def _change(self, change: dict[str, Any]) -> None:
        self.table = self.table.changed(change)
        new = self.table.arms.count - len(self.asked)
        self.asked += [0] * new
        self.told += [0] * new
        self.moments.extend(new)
        if "retire" in change:
            return
        before, known = self.policy, self.state
        self._make()
        paths = [*before.totals, *before.common, *(["waiting"] if self.waiting is not None else [])]
        for path in paths:
            old, array = find(known, path), find(self.state, path)
            array[tuple(slice(0, size) for size in old.shape)] = old
        rebuild(self.policy.params, self.state)

    def due(self, before: float) -> list[int]:
        """Decisions of this time or earlier that may get the default reward."""
        out, heap = [], self._oldest
        while heap and (heap[0][0] <= before or heap[0][1] not in self.open):
            time, number = heapq.heappop(heap)
            if number in self.open:
                out.append((time, number))
        for each in out:  # until their reward is read
            heapq.heappush(heap, each)
        return [number for _, number in out]

    # --- decisions ---

    def choose(
        self, count: int, available: IntArray, features: FloatArray, kept: str | None, time: float
    ) -> list[Row]:
        """The next decisions, as rows to be added; this replica stays as it was.

        The draws of a decision depend on the seed and its number alone.
        """
        policy, state = self.policy, self.state
        clock = state.clock.copy()
        waiting = None if self.waiting is None else self.waiting.copy()
        rows = []
        try:
            for number in range(self.issued + 1, self.issued + 1 + count):
                before = state.clock.copy()
                later = policy._chance_later(available)
                choice = policy._choose(
                    policy.params, state, features, available, self._stream(number)
                )
                chance = choice.probability if later is None else later(choice.arm)
                mark = sum(int(step) << place for place, step in enumerate(state.clock - before))
                rows.append(
                    Row(
                        seq=0,
                        kind=DECISION,
                        number=number,
                        time=time,
                        arm=int(choice.arm),
                        probability=None if math.isnan(chance) else float(chance),
                        greedy=int(choice.greedy),
                        pseudo=int(choice.pseudo),
                        matched=bool(choice.matched),
                        mark=mark,
                        features=kept,
                    )
                )
        finally:
            state.clock[:] = clock
            if waiting is not None:
                state.waiting[:] = waiting
        return rows

    def _stream(self, number: int) -> np.random.Generator:
        """The generator of one decision: a counter-based one, set to the decision's block."""
        state = self._start
        state["state"]["counter"][:] = (0, 0, number, 0)
        self._philox.state = state
        return self._rng

    # --- snapshots ---

    def dump(self) -> Snapshot:
        """All of it, to the last bit."""
        data = {
            "table": self.table.dumps(),
            "arrays": {path: pack(array) for path, array in arrays(self.state)},
            "issued": self.issued,
            "changes": self.changes,
            "asked": self.asked,
            "told": self.told,
            "defaults": self.defaults,
            "moments": vars(self.moments),
            "open": [[number, time] for number, time in self.open.items()],
        }
        return Snapshot(self.last, str(FORMAT), json.dumps(data))

    @classmethod
    def load(cls, record: Record, snapshot: Snapshot) -> Replica:
        """Go on from a snapshot. Raises ValueError or KeyError if it is damaged, or of another
        format."""
        if snapshot.version != str(FORMAT):
            raise ValueError(f"format {snapshot.version}, not {FORMAT}")
        data = json.loads(snapshot.state)
        out = cls(record)
        out.table = Table.loads(data["table"])
        out._make()
        fill(out.state, {path: data["arrays"][path] for path, _ in arrays(out.state)})
        out.last = snapshot.upto
        out.issued, out.changes = data["issued"], data["changes"]
        out.asked, out.told, out.defaults = data["asked"], data["told"], data["defaults"]
        vars(out.moments).update(data["moments"])
        out.open = dict(data["open"])
        out._oldest = sorted((time, number) for number, time in out.open.items())
        return out
