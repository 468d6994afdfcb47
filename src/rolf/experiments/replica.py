"""The state of an experiment in one process: its log, folded row by row.

Nothing but rows of the log changes a replica, and everybody reads them in the same order. So
replicas that have read equally far hold the same bits, and a snapshot equals a fold of the log.
(Arrays that are large and follow from others are not saved but computed again, and then agree up
to rounding.)

A decision advances the clock as it did when it was made. A reward is the policy's own update. A
late reward replaces the default reward applied before it, by the difference that the two make to
the totals. A change of the arms creates a policy for the new roster, which gets the totals of the
old one and recomputes the rest from them.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import math
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from rolf.checks import MAX_COUNT
from rolf.errors import ExperimentError, RolfWarning, UnknownPolicy
from rolf.experiments.roster import Roster
from rolf.experiments.storage.base import CHANGE, DECISION, REWARD, LogRow, Record, Row, Snapshot
from rolf.policies.arrays import arrays, fill, find, pack, remember, under, unpack
from rolf.policies.base import Policy
from rolf.policies.contract import check_choose
from rolf.policies.operations import rebuild
from rolf.policies.registry import policy_class
from rolf.policies.saving import check_state
from rolf.types import Choice, FloatArray, IntArray

#: version of snapshots: raised whenever the arrays of a state, or the data beside them, change
FORMAT = 5

#: bytes of derived arrays up to which they are saved too
MAX_DERIVED = 2**20


class Moments:
    """Count, sum and sum of squares of every arm's rewards, relative to the first reward."""

    def __init__(self, arms: int) -> None:
        self.anchor: float | None = None
        self.counts: list[float] = [0.0] * arms
        self.sums: list[float] = [0.0] * arms
        self.squares: list[float] = [0.0] * arms

    def add(self, arm: int, reward: float, sign: float = 1.0) -> None:
        if self.anchor is None:
            self.anchor = reward
        value = reward - self.anchor
        self.counts[arm] += sign
        self.sums[arm] += sign * value
        self.squares[arm] += sign * value * value

    def extend(self, arms: int) -> None:
        for values in (self.counts, self.sums, self.squares):
            values += [0.0] * arms


class Replica:
    """What one process knows about an experiment."""

    def __init__(self, record: Record, roster: Roster | None = None) -> None:
        self.record = record
        self.roster = roster or Roster.loads(record.features)
        self._reset_policy()
        self.last = 0  # the last row applied
        self._last_row: list[Any] = []  # its kind, number and time
        self.issued = 0  # the highest number of a decision
        self.changes = 0  # the highest number of a change
        self.asked: list[int] = [0] * self.roster.arms.count
        self.told: list[int] = [0] * self.roster.arms.count
        self.defaults = 0  # decisions that count with the default reward
        self.replaced = 0  # those whose default reward gave way to a real one
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
            if seq != self.last + 1:
                raise ValueError(f"row {seq} follows row {self.last}")
            self.last, self._last_row = seq, [kind, row[2], float(row[3])]
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
        x = policy.arms.features[arm] if features is None else np.ravel(json.loads(features))
        reward = float(reward)  # whatever the database returns: compiled code tells the two apart
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
        self.replaced += 1
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

    def due(self, before: float, most: int) -> list[int]:
        """Decisions made by this time that may get the default reward: the oldest, so many.

        They stay due until their reward is read from the log.
        """
        heap = self._pending_heap
        due: list[tuple[float, int]] = []
        while heap and len(due) < most and heap[0][0] <= before:
            entry = heapq.heappop(heap)
            if entry[1] in self.pending:
                due.append(entry)
        for entry in due:
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
        """The whole replica, to the last bit, less what is large and follows from the rest."""
        derived = self._derived()
        data = {
            "row": self._last_row,
            "table": self.roster.dumps(),
            "arrays": {
                path: pack(array) for path, array in arrays(self.state) if path not in derived
            },
            "issued": self.issued,
            "changes": self.changes,
            "asked": self.asked,
            "told": self.told,
            "defaults": self.defaults,
            "replaced": self.replaced,
            "moments": vars(self.moments),
            "open": [
                pack(np.fromiter(self.pending, np.int64, len(self.pending))),
                pack(np.fromiter(self.pending.values(), np.float64, len(self.pending))),
            ],
        }
        return seal(self.last, json.dumps(data))

    def _derived(self) -> set[str]:
        """The arrays that are computed again rather than saved."""
        large = {
            path: array.nbytes
            for path, array in arrays(self.state)
            if under(self.policy.derived, path)
        }
        return set(large) if sum(large.values()) > MAX_DERIVED else set()

    @staticmethod
    def reads(snapshot: Snapshot) -> bool:
        """Whether a snapshot is of a format that this version reads."""
        return snapshot.version == str(FORMAT)

    @classmethod
    def load(cls, record: Record, snapshot: Snapshot, last_row: list[LogRow]) -> Replica:
        """The replica of a snapshot; ``last_row`` is the row of the log up to which it goes.

        Nothing is believed: raises ValueError, LookupError, TypeError or AttributeError if
        anything is damaged or does not fit the log.
        """
        data = json.loads(unseal(snapshot))
        replica = cls(record, Roster.loads(data["table"]))
        replica._fill(data["arrays"])
        replica.last, replica._last_row = snapshot.upto, data["row"]
        replica.issued, replica.changes = data["issued"], data["changes"]
        replica.asked, replica.told = data["asked"], data["told"]
        replica.defaults, replica.replaced = data["defaults"], data["replaced"]
        moments = vars(replica.moments)
        moments.update({name: data["moments"][name] for name in moments})
        numbers, times = map(unpack, data["open"])
        if numbers.ndim != 1 or numbers.dtype != np.int64 or not np.isfinite(times).all():
            raise ValueError("open decisions that are none")
        replica.pending = dict(zip(numbers.tolist(), times.tolist(), strict=True))
        replica._pending_heap = sorted((time, number) for number, time in replica.pending.items())
        replica._check(last_row)
        return replica

    def _fill(self, saved: dict[str, Any]) -> None:
        """Take over saved arrays, and compute those that were not saved."""
        expected = {path for path, _ in arrays(self.state)}
        if missing := expected - set(saved):
            if not missing <= self._derived():
                raise LookupError(f"no {', '.join(sorted(missing))}")
            fill(self.state, saved)
            rebuild(self.policy.params, self.state)
        fill(self.state, saved)  # what was saved counts, also where it can be rebuilt
        check_state(self.policy, self.state)

    def _check(self, last_row: list[LogRow]) -> None:
        """Raise ValueError if the counts contradict each other or the log."""
        count, moments = self.roster.arms.count, self.moments
        for values in (self.asked, self.told, moments.counts, moments.sums, moments.squares):
            table = np.array(values, dtype=np.float64)
            if table.shape != (count,) or not np.isfinite(table).all():
                raise ValueError(f"{count} finite numbers were expected, one per arm")
        if not isinstance(moments.anchor, float | None):
            raise ValueError("an anchor that is no number")
        whole = [*self.asked, *self.told, self.issued, self.changes, self.defaults, self.replaced]
        if not all(isinstance(value, int) and 0 <= value <= MAX_COUNT for value in whole):
            raise ValueError("counts that are no counts")
        if [[row[1], row[2], float(row[3])] for row in last_row] != [self._last_row]:
            raise ValueError(f"it does not fit row {self.last} of the log")
        outcomes = sum(self.told) + self.defaults + self.replaced
        if sum(self.asked) + outcomes + self.changes != self.last:
            raise ValueError("its counts do not add up to the rows of the log")
        if self.issued < sum(self.asked) or len(self.pending) > sum(self.asked):
            raise ValueError("more decisions than were made")


def seal(upto: int, text: str) -> Snapshot:
    """A snapshot with a checksum of everything in it."""
    return Snapshot(upto, str(FORMAT), f"{_digest(upto, text)}\n{text}")


def unseal(snapshot: Snapshot) -> str:
    """The text of a snapshot; raises ValueError if it is not what was sealed."""
    digest, _, text = snapshot.state.partition("\n")
    if digest != _digest(snapshot.upto, text):
        raise ValueError("its checksum is wrong")
    return text


def _digest(upto: int, text: str) -> str:
    return hashlib.sha256(f"{FORMAT} {upto} {text}".encode()).hexdigest()


def _import_hint(policy: str) -> str:
    """What to do so that a policy can be found by its name."""
    module, colon, _ = policy.partition(":")
    if module == "__main__":
        return "its class was defined in a script: run that script, or define it in a module"
    if colon:
        return f"put the module {module} on the path, or install its package"
    return "install the package that provides it, or import the module of its class first"
