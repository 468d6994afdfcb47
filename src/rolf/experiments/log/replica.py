"""The state of an experiment in one process: its log, folded row by row.

Only rows of the log change a replica, and every process reads them in the same order. So replicas
that have read equally far are equal bit by bit, and a snapshot equals a fold of the log. (Large
arrays derived from others are not saved but recomputed, and then agree up to rounding.)

A decision advances the clock as it did when it was made. A reward is the policy's own update. A
late reward replaces the default reward applied earlier by adding their difference to the totals,
and so does a correction; if that would not be exact, the whole log is folded again with rewards
corrected from the start. A change of the arms creates a policy for the new roster, which takes over
the old totals and recomputes the rest from them.
"""

from __future__ import annotations

import heapq
import json
import math
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from rolf.errors import ExperimentError, RolfWarning, UnknownPolicy
from rolf.experiments.log.history import HistoryEntry
from rolf.experiments.log.totals import RewardTotals
from rolf.experiments.roster import Roster
from rolf.experiments.storage.rows import (
    CORRECTION,
    DECISION,
    HISTORY,
    IDEMPOTENCY,
    REWARD,
    ROSTER,
    LogRow,
    Record,
    Row,
)
from rolf.policies.contract import check_decide
from rolf.policies.core.rounds import Round
from rolf.policies.policy import Policy
from rolf.policies.registry import policy_class
from rolf.policies.state.arrays import find, remember
from rolf.types import Choice, FloatArray


class Corrected(Exception):
    """A correction that requires folding the whole log again."""


def earlier_corrections(rows: Iterable[LogRow]) -> dict[int, Row]:
    """The corrections to apply from the start: the latest of each decision, up to the last one that
    requires it."""
    since: dict[int, Row] = {}  # after the last one that requires it
    known: dict[int, Row] = {}
    for row in rows:
        if row[1] == CORRECTION:
            correction = Row(*row)
            since[correction.number] = correction
            if correction.parsed["refold"]:
                known |= since
                since.clear()
    return known


class Replica:
    """The state of an experiment, as known to one process.

    Attributes:
        record: how the experiment was created.
        roster: the arms.
        policy: the policy; ``state`` is its state, and ``whole`` says whether a reward needs the
            features of all arms in its round.
        last, last_row: the last row applied: its position in the log; its kind, number and time.
        issued, changes, histories: the highest number of a decision, of a change of the roster, and
            of a history.
        asked, told, history: decisions, rewards told, and rounds of history, per arm.
        history_sums: sum of the rewards of history, per arm.
        defaults: number of decisions that count with the default reward.
        replaced: number of default rewards replaced by real ones.
        corrected: number of corrections.
        requests: number of idempotency keys used.
        sources: sources of histories, with their digests.
        totals: totals of the rewards.
        pending: number -> time of the decisions that may still get the default reward.
    """

    def __init__(
        self,
        record: Record,
        roster: Roster | None = None,
        corrections: dict[int, Row] | None = None,
    ) -> None:
        """``corrections``: corrections to apply from the start, from ``earlier_corrections``."""
        self.record = record
        self._corrections = corrections or {}
        self.roster = roster or Roster.loads(record.features)
        self._reset_policy()
        arms = self.roster.arms.count
        self.last = self.issued = self.changes = self.histories = 0
        self.asked, self.told, self.history = [0] * arms, [0] * arms, [0] * arms
        self.history_sums = [0.0] * arms
        self.defaults = self.replaced = self.corrected = self.requests = 0
        self.sources: dict[str, str] = {}
        self.totals = RewardTotals(arms)
        self.pending: dict[int, float] = {}
        self.last_row: list[Any] = []
        self._oldest: list[tuple[float, int]] = []  # a heap, in which some are no longer pending
        self._philox = np.random.Philox(key=record.seed)
        self._rng = np.random.Generator(self._philox)
        self._philox_start = self._philox.state

    def restore(self, last: int, pending: dict[int, float]) -> None:
        """Continue after this row, with these decisions pending."""
        self.last, self.pending = last, pending
        self._oldest = sorted((time, number) for number, time in pending.items())

    def _reset_policy(self) -> None:
        """Start over with a fresh policy for the current roster."""
        options = json.loads(self.record.options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RolfWarning)  # shown when the experiment was created
            cls = self._policy_class(options)
            self.policy: Policy = cls(self.roster.arms.features, seed=0, **options)
        self.policy.arms = self.roster.arms  # named arms
        self.state = self.policy.state
        self.whole = self.policy.whole

    def _policy_class(self, options: dict[str, Any]) -> Any:
        """The class of the policy, which must meet the requirements of a replica."""
        name = self.record.policy
        try:
            cls = policy_class(name)
        except UnknownPolicy as error:
            raise ExperimentError(
                f"experiment {self.record.name!r} was created with the policy {name!r}, which "
                f"cannot be imported here; {_import_hint(name)}"
                + (f" ({error.__cause__})" if error.__cause__ else "")
            ) from error
        check_decide(cls, self.roster.arms.features, options)
        return cls

    # --- rows of the log ---

    def apply(self, rows: Iterable[LogRow]) -> None:
        """Apply rows of the log to the state."""
        for row in rows:
            seq, kind = row[0], row[1]
            if seq != self.last + 1:
                raise ValueError(f"row {seq} follows row {self.last}")
            if kind == CORRECTION and self._calls_for_fold(Row(*row)):
                raise Corrected  # before any change, since folding the log may fail
            self.last, self.last_row = seq, [kind, row[2], float(row[3])]
            if kind == DECISION:
                self._apply_decision(row)
            elif kind == ROSTER:
                self._apply_change(Row(*row))
            elif kind == HISTORY:
                self._apply_history(Row(*row))
            elif kind == CORRECTION:
                self._apply_correction(Row(*row))
            elif kind == IDEMPOTENCY:
                self.requests += 1
            else:
                self._apply_reward(row)

    def _apply_decision(self, row: LogRow) -> None:
        (_, _, number, time, arm, _, _, _, _, clock_steps, _, _, _) = row
        clock = self.state.clock
        if clock_steps == 1:  # the usual case
            clock[0] += 1
        else:
            for entry in range(clock.size):
                clock[entry] += clock_steps >> entry & 1
        self.state.pending[arm] += 1.0
        self.asked[arm] += 1
        if number > self.issued:
            self.issued = number
        if self.record.reward_after is not None:
            self.pending[number] = time
            heapq.heappush(self._oldest, (time, number))

    def _apply_reward(self, row: LogRow) -> None:
        _, kind, number, _, arm, chance, greedy, pseudo, matched, _, replaces, details, reward = row
        policy = self.policy
        probability = math.nan if chance is None else chance
        choice = Choice(arm, probability, greedy, pseudo, bool(matched))
        x = self._features_of(arm, details and json.loads(details))
        reward = float(
            reward
        )  # databases may return an int, which compiled code treats differently
        if kind == REWARD and number in self._corrections:
            reward = float(self._corrections[number].reward or 0.0)
        self.totals.add(arm, reward)
        if replaces:
            default_reward = self.record.default_reward or 0.0
            self.defaults -= 1
            self.replaced += 1
            self.totals.add(arm, default_reward, -1.0)
            self._exchange(choice, x, default_reward, reward)
        else:
            policy.observe(choice, x, reward)
            self.pending.pop(number, None)
        if kind == REWARD:
            self.told[arm] += 1
        else:
            self.defaults += 1

    def _calls_for_fold(self, row: Row) -> bool:
        return bool(row.parsed["refold"]) and not self._is_known(row)

    def _is_known(self, row: Row) -> bool:
        """Whether the decision had this reward, or a later one, from the start."""
        earlier = self._corrections.get(row.number)
        return earlier is not None and row.ordinal <= earlier.ordinal

    def _apply_correction(self, row: Row) -> None:
        self.corrected += 1
        if self._is_known(row):
            return
        details = row.parsed
        wrong, right = float(details["was"]), float(row.reward or 0.0)
        probability = math.nan if row.probability is None else row.probability
        choice = Choice(row.arm, probability, row.greedy, row.pseudo_action, bool(row.matched))
        self.totals.add(row.arm, right)
        self.totals.add(row.arm, wrong, -1.0)
        self._exchange(choice, self._features_of(row.arm, details["round"]), wrong, right)

    def _features_of(self, arm: int, recorded: dict[str, Any] | None) -> FloatArray:
        """The features kept for a decision; recorded ones if they vary."""
        policy = self.policy
        if not recorded:
            row: FloatArray = policy.arms.features[arm]
            return row
        if policy.context is None:
            return np.ravel(recorded["features"])
        rows = policy.arms.features if self.whole else policy.arms.features[[arm]]
        table = policy.context.of_all(rows, np.array(recorded["context"]))
        return policy.keep(table, arm if self.whole else 0)

    def _exchange(self, choice: Choice, x: FloatArray, wrong: float, right: float) -> None:
        """Replace a reward by another, by adding their difference."""
        policy, state = self.policy, self.state
        restore = remember(state)
        totals_after = []
        for value in (right, wrong):
            policy.observe(choice, x, float(value))
            totals_after.append([find(state, path).copy() for path in policy.totals])
            restore()
        for path, with_right, with_wrong in zip(policy.totals, *totals_after, strict=True):
            find(state, path)[...] += with_right - with_wrong
        policy.recompute()

    def must_refold(self, wrong: float, right: float) -> bool:
        """Whether a correction is exact only if the whole log is folded again."""
        return self.policy.sequential or not self.totals.can_take_off(wrong, right)

    def _apply_history(self, row: Row) -> None:
        details = row.parsed
        history = HistoryEntry.loads(details, self.roster.arms.count)
        history.teach(self.policy)
        self.totals.add_totals(history.totals)
        played = history.totals.counts.astype(int).tolist()
        self.history = [known + more for known, more in zip(self.history, played, strict=True)]
        self.history_sums = (np.array(self.history_sums) + history.totals.plain_sums).tolist()
        self.histories = max(self.histories, row.number)
        if details["source"] is not None:
            self.sources[details["source"]] = details["digest"]

    def _apply_change(self, row: Row) -> None:
        change = json.loads(row.details or "")  # a change without details is damage
        self.changes = max(self.changes, row.number)
        self.roster = self.roster.changed(change)
        added = self.roster.arms.count - len(self.asked)
        self.asked += [0] * added
        self.told += [0] * added
        self.history += [0] * added
        self.history_sums += [0.0] * added
        self.totals.extend(added)
        if "add" in change or "update" in change:
            self._carry_over_totals()

    def _carry_over_totals(self) -> None:
        """Replace the policy by one for the current roster with the same totals."""
        policy, state = self.policy, self.state
        self._reset_policy()
        paths = [*policy.totals, *policy.common, "pending"]
        for path in paths:
            old, new = find(state, path), find(self.state, path)
            new[tuple(slice(0, size) for size in old.shape)] = old
        self.policy.recompute()

    def due(self, before: float, most: int) -> list[int]:
        """Decisions made by this time that are due for the default reward: up to ``most``, oldest
        first.

        They stay due until a reward is read from the log.
        """
        heap = self._oldest
        due: list[tuple[float, int]] = []
        while heap and len(due) < most and heap[0][0] <= before:
            entry = heapq.heappop(heap)
            if entry[1] in self.pending:
                due.append(entry)
        for entry in due:
            heapq.heappush(heap, entry)
        return [number for _, number in due]

    # --- decisions ---

    @contextmanager
    def ahead(self) -> Iterator[None]:
        """Decide ahead of the log; afterwards the replica is restored."""
        state = self.state
        clock, pending = state.clock.copy(), state.pending.copy()
        try:
            yield
        finally:
            state.clock[:] = clock
            state.pending[:] = pending

    def details_of(self, features: FloatArray, context: Any) -> str | None:
        """The details to record for a decision: the context, or the features if they vary."""
        policy = self.policy
        if policy.context is not None:
            return json.dumps({"context": policy.context.vector(context).tolist()})
        return json.dumps({"features": features.tolist()}) if policy.varying else None

    def decide(
        self,
        numbers: Iterable[int],
        round: Round,
        details: str | None,
        time: float,
        distinct: bool = False,
    ) -> list[Row]:
        """Make the decisions with these numbers, as rows to append.

        The random draws of a decision depend only on the seed and its number.
        """
        policy, state = self.policy, self.state
        bits = 1 << np.arange(state.clock.size)
        rows = []
        for number in numbers:
            before = state.clock.copy()
            choice, chance = policy.decide(round, self._generator(number))
            if callable(chance):
                chance = chance()
            if distinct:
                round = round._replace(available=round.available[round.available != choice.arm])
            rows.append(
                Row(
                    seq=0,
                    kind=DECISION,
                    number=number,
                    time=time,
                    arm=int(choice.arm),
                    probability=None if math.isnan(chance) else float(chance),
                    greedy=int(choice.greedy),
                    pseudo_action=int(choice.pseudo),
                    matched=bool(choice.matched),
                    clock_steps=int((state.clock - before) @ bits),
                    details=details,
                )
            )
        return rows

    def _generator(self, number: int) -> np.random.Generator:
        """The generator of one decision: its block of a counter-based generator."""
        state = self._philox_start
        state["state"]["counter"][:] = (0, 0, number, 0)
        self._philox.state = state
        return self._rng


def _import_hint(policy: str) -> str:
    """A hint on how to make a policy importable by its name."""
    module, colon, _ = policy.partition(":")
    if module == "__main__":
        return "its class was defined in a script: run that script, or define it in a module"
    if colon:
        return f"put the module {module} on the path, or install its package"
    return "install the package that provides it, or import the module of its class first"
