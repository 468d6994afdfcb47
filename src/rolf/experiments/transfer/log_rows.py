"""Read the rows of exported logs: decisions and rewards, in the order in which they were logged.

Nothing in a file is believed. Whatever an experiment could not be continued with is refused here,
by the row that it stands in. Rows are read some at a time, in the order of the decisions; rewards
wait until all that was logged before them has been read.
"""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from rolf.arms.table import number_table
from rolf.checks import MAX_COUNT
from rolf.errors import ExperimentError, InvalidArgument
from rolf.experiments.roster import Roster
from rolf.experiments.storage.contract import DECISION, DEFAULT, REWARD, Row
from rolf.experiments.transfer.log_additions import corrected_rows
from rolf.experiments.transfer.log_files import TEXT
from rolf.policies.core.rounds import Context
from rolf.policies.policy import Policy
from rolf.tables.parts import Batch, Stream

#: how the columns with the entries of a context begin
CONTEXT = "context_"
#: seconds since 1970 of a decision or a reward, up to the year 5138
MAX_TIME = 1e11
#: the longest tag of an experiment, with which the ids of its decisions start
MAX_TAG = 64
#: rows that are read at a time
PART = 10_000

Columns = dict[str, list[Any]]
#: the number of a row as people count, with its file if that is not the one that errors name
Number: TypeAlias = Callable[[int], str]


class LogRows:
    """The log of an experiment in a file or folder, in its order, read some rows at a time.

    Attributes:
        tag: with which the ids of the decisions start, once some were read.
    """

    def __init__(
        self,
        stream: Stream,
        roster: Roster,
        policy: Policy,
        others: Sequence[tuple[float, Row]] = (),
        count: Callable[[int], None] = lambda rows: None,
    ) -> None:
        """``others``: more rows of the log, with their places; ``count`` is told how many rows
        were read."""
        self._stream, self._roster, self._policy = stream, roster, policy
        self._others, self._count = others, count
        self._numbers = _Numbers()

    @property
    def tag(self) -> str:
        return self._numbers.tag or ""

    def __iter__(self) -> Iterator[Row]:
        """Rows whose place in the log comes before that of all decisions that were not yet read
        need not wait."""
        name = "asked_order" if "asked_order" in self._stream.names else "number"
        order = name if self._stream.counts(name) else None
        waiting: list[tuple[float, int, Row]] = []
        last, inserted = -math.inf, 0
        for place, row in self._others:
            heapq.heappush(waiting, (place, inserted, row))
            inserted += 1
        for path, number, data in self._parts(order):
            before = last
            for place, row in self._placed(path, number, data):
                if place < before:
                    expected = f"nothing that was logged before {before:g}, as ids and rows tell"
                    raise InvalidArgument(f"{path}: {name}", f"{place:g} after that", expected)
                heapq.heappush(waiting, (place, inserted, row))
                inserted += 1
                if row.kind == DECISION:
                    last = max(last, place)
            self._count(len(data["id"]))
            if order is None:  # nothing is known of what follows
                last = -math.inf
            while waiting and waiting[0][0] < last:
                yield heapq.heappop(waiting)[2]
        while waiting:
            yield heapq.heappop(waiting)[2]

    def _parts(self, order: str | None) -> Iterator[tuple[str, Number, Columns]]:
        """The columns of some rows at a time, with their file, and what numbers its rows."""
        import pyarrow as pa

        for part in self._stream.parts(order):
            for whole in part.batches(self._stream.names):
                for first in range(0, whole.size, PART):
                    batch = whole.slice(first, min(first + PART, whole.size))
                    rows = batch.rows
                    for i, field in enumerate(rows.schema):
                        if field.name in TEXT and not pa.types.is_string(field.type):
                            rows = rows.set_column(i, field.name, rows.column(i).cast(pa.string()))
                    yield batch.where(0)[0], _numbering(batch), rows.to_pydict()

    def _placed(self, path: str, number: Number, data: Columns) -> Iterator[tuple[float, Row]]:
        """Decisions, rewards and corrections, with their places in the log."""
        count = len(data["id"])
        positions = {str(label): place for place, label in enumerate(self._roster.arms.labels)}

        def column(name: str, default: Any) -> list[Any]:
            return data[name] if name in data else [default] * count

        def arms(name: str) -> list[int]:
            labels = data[name] if name in data else data["arm"]
            for row, label in enumerate(labels):
                if str(label) not in positions:
                    raise _wrong(path, name, label, number(row), "an arm of the features")
            return [positions[str(label)] for label in labels]

        _check_values(path, data, self._policy, number)
        decisions = zip(
            self._numbers.read(path, data["id"], number),
            column("asked_at", 0.0),
            arms("arm"),
            column("probability", None),
            arms("greedy"),
            arms("pseudo"),
            map(bool, column("matched", True)),
            map(int, column("clocks", 1)),
            _rounds(path, data, self._roster, self._policy, number),
            strict=True,
        )
        rewards = zip(
            data["reward"],
            column("told_at", None),
            column("is_default", False),
            column("asked_order", None),
            column("told_order", None),
            column("corrections", None),
            strict=True,
        )
        whole = self._policy.whole
        for decision, (reward, told_at, default, asked_order, told_order, corrections) in zip(
            (Row.decision(*values) for values in decisions), rewards, strict=True
        ):
            asked = 2.0 * decision.number if asked_order is None else float(asked_order)
            yield asked, decision
            if reward is None:
                if corrections:
                    expected = "nothing without reward"
                    raise InvalidArgument(f"{path}: corrections", corrections, expected)
                continue
            told = asked + 1.0 if told_order is None else float(told_order)
            if told <= asked:
                raise InvalidArgument(f"{path}: told_order", told_order, f"a place after {asked:g}")
            kind = DEFAULT if default else REWARD
            time = decision.time if told_at is None else told_at
            row = decision.rewarded(kind, float(reward), time, whole=whole)
            if corrections:
                where = f"{path}: corrections of decision {decision.number}"
                yield from corrected_rows(where, corrections, row, told, self._policy)
            else:
                yield told, row


def _numbering(batch: Batch) -> Number:
    first = batch.where(0)[0]

    def number(row: int) -> str:
        path, place = batch.where(row)
        return f"{place}" if path == first else f"{place} of {path}"

    return number


class _Numbers:
    """The numbers of decisions, each of which may come once, and the tag that all ids share."""

    def __init__(self) -> None:
        self.tag: str | None = None
        self._seen: dict[int, int] = {}  # bits of 512 numbers

    def read(self, path: str, ids: list[Any], row_number: Number) -> list[int]:
        """The numbers of some ids."""
        numbers = []
        for row, id in enumerate(ids):
            tag, _, text = str(id).rpartition("-")
            short = text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_COUNT))
            if not (0 < len(tag) <= MAX_TAG and short and 0 < int(text) <= MAX_COUNT):
                raise _wrong(path, "id", id, row_number(row), "ids of decisions that rolf issued")
            self.tag = tag if self.tag is None else self.tag
            number = int(text)
            block, bit = self._seen.get(number >> 9, 0), 1 << (number & 511)
            if tag != self.tag or block & bit:
                expected = "each decision of one experiment once"
                raise _wrong(path, "id", id, row_number(row), expected)
            self._seen[number >> 9] = block | bit
            numbers.append(number)
        return numbers


def _wrong(path: str, column: str, value: Any, row: str, expected: str) -> InvalidArgument:
    """The error about a cell."""
    return InvalidArgument(f"{path}: {column}", f"{value!r} in row {row}", expected)


# --- what a column may hold ----------------------------------------------------------------------

#: the smallest and largest value of columns of numbers, and what they hold in words
LIMITS = {
    "reward": (-math.inf, math.inf, "a finite number"),
    "probability": (1e-100, 1.0, "a number above 0 and up to 1"),
    "asked_at": (0.0, MAX_TIME, "seconds since 1970"),
    "told_at": (0.0, MAX_TIME, "seconds since 1970"),
    "clocks": (1, 2**15 - 1, "a number that rolf wrote"),
    "asked_order": (0, 2 * MAX_COUNT, "a place in the log"),
    "told_order": (0, 2 * MAX_COUNT, "a place in the log"),
    "matched": (0, 1, "true or false"),
    "is_default": (0, 1, "true or false"),
}
MAY_BE_EMPTY = ("reward", "probability", "told_at", "told_order")


def _check_values(path: str, data: Columns, policy: Policy, number: Number) -> None:
    """Raise if a column of numbers holds anything else."""
    for name, (low, high, expected) in LIMITS.items():
        for row, value in enumerate(data.get(name, ())):
            if value is None and name in MAY_BE_EMPTY:
                continue
            if not (_finite(value) and low <= value <= high):
                raise _wrong(path, name, value, number(row), expected)
    _check_clocks(path, data.get("clocks", ()), policy.state.clock.size, number)
    for row, reward in enumerate(data["reward"]):
        if reward is not None:
            _check_reward(path, number(row), reward, policy)
    if policy.traits.weighs:
        _check_weights(path, data, policy.name, number)


def _finite(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:
        return False


def _check_clocks(path: str, clocks: Any, size: int, number: Number) -> None:
    """Every decision is a round, which the first bit says; no other bits than the clock has."""
    for row, steps in enumerate(clocks):
        if steps != int(steps) or int(steps) % 2 == 0 or int(steps) >= 2**size:
            raise _wrong(path, "clocks", steps, number(row), LIMITS["clocks"][2])


def _check_reward(path: str, row: str, reward: Any, policy: Policy) -> None:
    try:
        policy.check_reward(reward)
    except InvalidArgument as error:
        raise _wrong(path, "reward", reward, row, error.wanted) from None


def _check_weights(path: str, data: Columns, name: str, number: Number) -> None:
    """A policy that weighs rewards by the chances of their arms needs the chances."""
    chances = data.get("probability", [None] * len(data["reward"]))
    for row, (chance, reward) in enumerate(zip(chances, data["reward"], strict=True)):
        if chance is None and reward is not None:
            expected = f"the chance of every arm with a reward, which {name} needs"
            got = f"nothing in row {number(row)}"
            raise InvalidArgument(f"{path}: probability", got, expected)


def _rounds(
    path: str, data: Columns, roster: Roster, policy: Policy, number: Number
) -> list[str | None]:
    """The (K, d) features of every round as JSON, where the log has them."""
    count = len(data["id"])
    if policy.context is not None:
        return _contexts(path, data, policy.context, count)
    labels, columns = roster.arms.labels, roster.arms.columns
    names = [[f"x_{label}_{column}" for column in columns] for label in labels]
    if missing := [name for row in names for name in row if name not in data]:
        if policy.varying and count:
            expected = f"{missing[0]} too: {policy.name} needs the features of every round"
            raise InvalidArgument(f"{path}: columns", list(data), expected)
        return [None] * count
    rounds: list[str | None] = []
    for place in range(count):
        table = [[data[name][place] for name in row] for row in names]
        if any(value is None for row in table for value in row):
            raise ExperimentError("a round of the log lacks features of some arms")
        checked = number_table(table, f"{path}: features of row {number(place)}")
        rounds.append(json.dumps(checked.tolist()))
    return rounds


def _contexts(path: str, data: Columns, context: Context, count: int) -> list[str | None]:
    """The context of every round as JSON."""
    names = [f"{CONTEXT}{name}" for name in context.names]
    if missing := [name for name in names if name not in data]:
        raise InvalidArgument(f"{path}: columns", list(data), f"{', '.join(missing)} too")
    rounds = [[data[name][place] for name in names] for place in range(count)]
    if not rounds:
        return []
    table = context.table(rounds, f"{path}: context")
    return [json.dumps({"context": entries}) for entries in table.tolist()]
