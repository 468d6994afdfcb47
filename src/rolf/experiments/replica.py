"""The state of an experiment in one process: its log, folded row by row.

Nothing but rows of the log changes a replica. So replicas that have read the same rows in the
same order hold the same bits, and a snapshot taken after rows in the canonical order equals a fold
of the whole log.

A decision advances the clock as it did when it was made. A reward is the policy's own update. A
late reward replaces the default reward applied before it, by the difference that the two make to
the totals. A change of the arms creates a policy for the new roster, which gets the totals of the
old one and recomputes the rest from them.
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
from rolf.experiments.roster import Roster
from rolf.experiments.storage.base import CHANGE, DECISION, REWARD, LogRow, Record, Row, Snapshot
from rolf.policies.arrays import arrays, fill, find, pack, remember
from rolf.policies.base import Policy
from rolf.policies.contract import check_choose
from rolf.policies.operations import rebuild
from rolf.policies.registry import policy_class
from rolf.types import Choice, FloatArray, IntArray

#: version of snapshots: raised whenever the arrays of a state, or the data beside them, change
FORMAT = 3


class Moments:
    """Count, sum and sum of squares of every arm's rewards, relative to the first reward."""

    def __init__(self, arms: int) -> None:
        self.anchor: float | None = None
        self.counts: list[float] = [0.0] * arms
        self.sums: list[float] = [0.0] * arms
        self.squares: list[float] = [0.0] * arms

    def add(self, arm: int, reward: float, sign: float = 1.0) -> None:
        if self.anchor is None:
            self.anchor = float(reward)  # a database may return 1 for 1.0
        value = reward - self.anchor
        self.counts[arm] += sign
        self.sums[arm] += sign * value
        self.squares[arm] += sign * value * value

    def extend(self, arms: int) -> None:
        for values in (self.counts, self.sums, self.squares):
            values += [0.0] * arms


class Replica:
    """What one process knows about an experiment."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.roster = Roster.loads(record.features)
        self._reset_policy()
        self.last = 0  # the highest row applied
        self.ordered = True  # whether all rows came in the canonical order
        self.issued = 0  # the highest number of a decision
        self.changes = 0  # the highest number of a change
        self.asked: list[int] = [0] * self.roster.arms.count
        self.told: list[int] = [0] * self.roster.arms.count
        self.defaults = 0
        self.moments = Moments(self.roster.arms.count)
        #: number -> time of the decisions that may still get the default reward
        self.pending: dict[int, float] = {}
        self._pending_heap: list[tuple[float, int]] = []  # oldest first; some may be gone
        self._philox = np.random.Philox(key=record.seed)
        self._rng = np.random.Generator(self._philox)
        self._philox_start = self._philox.state

    def _reset_policy(self) -> None:
        """Start over with a policy without experience, for the current roster."""
        options = json.loads(self.record.options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RolfWarning)  # shown when the experiment was created
            cls = self._policy_class(options)
            self.policy: Policy = cls(self.roster.arms.features, seed=0, **options)
        self.state = self.policy._state
        self.waiting: FloatArray | None = getattr(self.state, "waiting", None)

    def _policy_class(self, options: dict[str, Any]) -> Any:
        """The class of the policy, which must keep the promises that a replica relies on."""
        name = self.record.policy
        try:
            cls = policy_class(name)
        except UnknownPolicy as error:
            raise ExperimentError(
                f"experiment {self.record.name!r} was created with the policy {name!r}, which "
                f"cannot be imported here; {_import_hint(name)}"
                + (f" ({error.__cause__})" if error.__cause__ else "")
            ) from error
        check_choose(cls, self.roster.arms.features, options)
        return cls

    # --- rows of the log ---

    def apply(self, rows: Iterable[LogRow]) -> None:
        """Apply rows of the log to the state."""
        for row in rows:
            seq, kind = row[0], row[1]
            if seq < self.last:
                self.ordered = False
            else:
                self.last = seq
            if kind == DECISION:
                self._apply_decision(row)
            elif kind == CHANGE:
                self._apply_change(row)
            else:
                self._apply_reward(row)

    def _apply_decision(self, row: LogRow) -> None:
        (_, _, number, time, arm, _, _, _, _, clock_steps, _, _) = row
        clock = self.state.clock
        if clock_steps == 1:  # as usual
            clock[0] += 1
        else:
            for entry in range(clock.size):
                clock[entry] += clock_steps >> entry & 1
        if self.waiting is not None:
            self.waiting[arm] += 1.0
        self.asked[arm] += 1
        if number > self.issued:
            self.issued = number
        if self.record.reward_after is not None:
            self.pending[number] = time
            heapq.heappush(self._pending_heap, (time, number))

    def _apply_reward(self, row: LogRow) -> None:
        (_, kind, number, _, arm, chance, greedy, pseudo, matched, replaces, features, reward) = row
        policy = self.policy
        probability = math.nan if chance is None else chance
        choice = Choice(arm, probability, greedy, pseudo, bool(matched))
        x = policy.arms.features[arm] if features is None else np.array(json.loads(features))
        self.moments.add(arm, reward)
        if replaces:
            self._replace_default(choice, x, reward)
        else:
            policy._update(policy.params, self.state, choice, x, reward)
            self.pending.pop(number, None)
        if kind == REWARD:
            self.told[arm] += 1
        else:
            self.defaults += 1

    def _replace_default(self, choice: Choice, x: FloatArray, reward: float) -> None:
        """Put a real reward in the place of the default one."""
        policy, state = self.policy, self.state
        default_reward = self.record.default_reward or 0.0
        self.defaults -= 1
        self.moments.add(choice.arm, default_reward, -1.0)
        restore = remember(state)
        totals_after = []
        for value in (reward, default_reward):
            policy._update(policy.params, state, choice, x, float(value))
            totals_after.append([find(state, path).copy() for path in policy.totals])
            restore()
        for path, with_real, with_default in zip(policy.totals, *totals_after, strict=True):
            find(state, path)[...] += with_real - with_default
        rebuild(policy.params, state)

    def _apply_change(self, row: LogRow) -> None:
        recorded = Row(*row)
        change = json.loads(recorded.features or "")
        self.changes = max(self.changes, recorded.number)
        self.roster = self.roster.changed(change)
        added = self.roster.arms.count - len(self.asked)
        self.asked += [0] * added
        self.told += [0] * added
        self.moments.extend(added)
        if "retire" not in change:
            self._carry_over_totals()

    def _carry_over_totals(self) -> None:
        """Replace the policy by one for the current roster with the same experience."""
        policy, state = self.policy, self.state
        self._reset_policy()
        paths = [*policy.totals, *policy.common, *(["waiting"] if self.waiting is not None else [])]
        for path in paths:
            old, new = find(state, path), find(self.state, path)
            new[tuple(slice(0, size) for size in old.shape)] = old
        rebuild(self.policy.params, self.state)

    def due(self, before: float) -> list[int]:
        """Decisions made by this time that may get the default reward."""
        due, heap = [], self._pending_heap
        while heap and (heap[0][0] <= before or heap[0][1] not in self.pending):
            time, number = heapq.heappop(heap)
            if number in self.pending:
                due.append((time, number))
        for entry in due:  # they stay until their reward is read from the log
            heapq.heappush(heap, entry)
        return [number for _, number in due]

    # --- decisions ---

    def choose(
        self,
        count: int,
        available: IntArray,
        features: FloatArray,
        features_json: str | None,
        time: float,
    ) -> list[Row]:
        """The next decisions, as rows to be added; the replica itself does not change.

        The random draws of a decision depend on the seed and its number alone.
        """
        policy, state = self.policy, self.state
        clock = state.clock.copy()
        waiting = None if self.waiting is None else self.waiting.copy()
        rows = []
        try:
            for number in range(self.issued + 1, self.issued + 1 + count):
                before = state.clock.copy()
                choice = policy._choose(
                    policy.params, state, features, available, self._generator(number)
                )
                later = policy._chance_later(choice, before, features, available)
                chance = choice.probability if later is None else later()
                steps = enumerate(state.clock - before)
                rows.append(
                    Row.decision(
                        number=number,
                        time=time,
                        arm=int(choice.arm),
                        probability=None if math.isnan(chance) else float(chance),
                        greedy=int(choice.greedy),
                        pseudo=int(choice.pseudo),
                        matched=bool(choice.matched),
                        clock_steps=sum(int(step) << entry for entry, step in steps),
                        features=features_json,
                    )
                )
        finally:
            state.clock[:] = clock
            if waiting is not None:
                state.waiting[:] = waiting
        return rows

    def _generator(self, number: int) -> np.random.Generator:
        """The random numbers of one decision: its block of a counter-based generator."""
        state = self._philox_start
        state["state"]["counter"][:] = (0, 0, number, 0)
        self._philox.state = state
        return self._rng

    # --- snapshots ---

    def dump(self) -> Snapshot:
        """The whole replica, to the last bit."""
        data = {
            "table": self.roster.dumps(),
            "arrays": {path: pack(array) for path, array in arrays(self.state)},
            "issued": self.issued,
            "changes": self.changes,
            "asked": self.asked,
            "told": self.told,
            "defaults": self.defaults,
            "moments": vars(self.moments),
            "open": [[number, time] for number, time in self.pending.items()],
        }
        return Snapshot(self.last, str(FORMAT), json.dumps(data))

    @classmethod
    def load(cls, record: Record, snapshot: Snapshot) -> Replica:
        """The replica of a snapshot. Raises ValueError, KeyError, TypeError or AttributeError if
        the snapshot is damaged or of another format."""
        if snapshot.version != str(FORMAT):
            raise ValueError(f"format {snapshot.version}, not {FORMAT}")
        data = json.loads(snapshot.state)
        replica = cls(record)
        replica.roster = Roster.loads(data["table"])
        replica._reset_policy()
        fill(replica.state, {path: data["arrays"][path] for path, _ in arrays(replica.state)})
        replica.last = snapshot.upto
        replica.issued, replica.changes = data["issued"], data["changes"]
        replica.asked, replica.told = data["asked"], data["told"]
        replica.defaults = data["defaults"]
        vars(replica.moments).update(data["moments"])
        replica.pending = dict(data["open"])
        replica._pending_heap = sorted((time, number) for number, time in replica.pending.items())
        return replica


def _import_hint(policy: str) -> str:
    """What to do so that a policy can be found by its name."""
    module, colon, _ = policy.partition(":")
    if module == "__main__":
        return "its class was defined in a script: run that script, or define it in a module"
    if colon:
        return f"put the module {module} on the path, or install its package"
    return "install the package that provides it, or import the module of its class first"
