"""Read exported logs: the rows of an experiment, and how it was created.

Nothing in a file is believed. Whatever an experiment could not be continued with is refused here,
by the row that it stands in, before anything is written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rolf.arms.files import PARQUET, check_columns, read_table
from rolf.arms.recipe import Recipe
from rolf.arms.table import number_table
from rolf.checks import MAX_COUNT
from rolf.errors import ExperimentError, InvalidArgument
from rolf.estimators.operations import traits_of
from rolf.experiments.log_additions import corrected_rows
from rolf.experiments.roster import Roster
from rolf.experiments.storage.base import DEFAULT, REWARD, Row
from rolf.policies.base import Policy
from rolf.policies.composition import Params
from rolf.policies.contexts import Context

METADATA = b"rolf-experiment"
#: how the columns with the entries of a context begin
CONTEXT = "context_"
FILES = "a file that ends in .csv or .parquet"
#: seconds since 1970 of a decision or a reward, up to the year 5138
MAX_TIME = 1e11
#: the longest tag of an experiment, with which the ids of its decisions start
MAX_TAG = 64

Columns = dict[str, list[Any]]


def read_log_file(path: str | Path) -> tuple[Columns, dict[str, Any]]:
    """The columns of a file, and how the experiment was created if the file says so."""
    if not isinstance(path, str | Path):
        raise InvalidArgument("path", path, FILES)
    if Path(path).suffix.lower() not in (".csv", *PARQUET):
        raise InvalidArgument("path", str(path), FILES)
    table = read_table(path, ("id", "arm", "greedy", "pseudo", "corrections"))
    check_columns(path, table.column_names)
    if missing := [each for each in ("id", "arm", "reward") if each not in table.column_names]:
        raise InvalidArgument(f"{path}: columns", table.column_names, f"{', '.join(missing)} too")
    text = (table.schema.metadata or {}).get(METADATA, b"{}")
    try:
        recorded = json.loads(text)
    except (ValueError, RecursionError):
        recorded = None
    if not isinstance(recorded, dict):
        raise InvalidArgument(f"{path}: {METADATA.decode()}", text, "a JSON object")
    return table.to_pydict(), recorded


# --- how the experiment was created ------------------------------------------------------------


def recorded_roster(path: str | Path, recorded: Mapping[str, Any]) -> Roster:
    """The arms that a file names."""
    data = _field(path, recorded, "features", dict, {})
    table = number_table(data.get("features"), f"{path}: features")
    rows, columns = table.shape
    if rows < 2 or columns < 1:
        got = f"shape {table.shape}"
        raise InvalidArgument(f"{path}: features", got, "at least two arms and one column")
    labels = _list(path, data, "labels", rows)
    names = _list(path, data, "columns", columns)
    if (labels is None) != (names is None):
        raise InvalidArgument(f"{path}: labels", labels, "names of arms and of columns, or neither")
    for label in labels or ():
        good = isinstance(label, str | int | float) and not isinstance(label, bool)
        if not good or (isinstance(label, float) and not math.isfinite(label)):
            raise InvalidArgument(f"{path}: labels", label, "arms named by text or numbers")
    _check_distinct(path, "labels", labels or ())
    _check_distinct(path, "columns", names or ())
    active = _list(path, data, "active", rows)
    if active is not None and not all(isinstance(each, bool) for each in active):
        raise InvalidArgument(f"{path}: active", active, "true or false for every arm")
    checked: dict[str, Any] = {
        "features": table.tolist(),
        "labels": labels,
        "columns": names,
        "active": [True] * rows if active is None else active,
        "categories": _categories(path, data),
    }
    if data.get("recipe") is not None:
        checked["recipe"] = Recipe.from_dict(data["recipe"], f"{path}: recipe").to_dict()
    return Roster.loads(json.dumps(checked))


def _categories(path: str | Path, data: Mapping[str, Any]) -> dict[str, list[str]]:
    categories: dict[str, list[str]] = _field(path, data, "categories", dict, {})
    for values in categories.values():
        if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
            raise InvalidArgument(f"{path}: categories", values, "lists of text")
    return categories


def recorded_options(path: str | Path, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the policy that a file names."""
    options: dict[str, Any] = _field(path, recorded, "options", dict, {})
    return options


def recorded_policy(path: str | Path, recorded: Mapping[str, Any]) -> str | None:
    """The policy that a file names."""
    name: str | None = _field(path, recorded, "policy", str, None)
    return name


def recorded_number(path: str | Path, recorded: Mapping[str, Any], name: str) -> Any:
    """A setting that is a number, if a file has it."""
    return _field(path, recorded, name, int | float, None)


def _field(path: str | Path, data: Mapping[str, Any], name: str, kind: Any, otherwise: Any) -> Any:
    value = data.get(name)
    if value is None:
        return otherwise
    if not isinstance(value, kind) or isinstance(value, bool):
        words = {dict: "a JSON object", str: "text"}
        raise InvalidArgument(f"{path}: {name}", value, words.get(kind, "a number"))
    return value


def _list(path: str | Path, data: Mapping[str, Any], name: str, count: int) -> list[Any] | None:
    values = data.get(name)
    if values is None:
        return None
    if not isinstance(values, list) or len(values) != count:
        raise InvalidArgument(f"{path}: {name}", values, f"a list of {count}")
    return values


def _check_distinct(path: str | Path, name: str, values: Any) -> None:
    texts = [str(each) for each in values]
    if len(set(texts)) < len(texts):
        raise InvalidArgument(f"{path}: {name}", values, "each name once")


# --- rows --------------------------------------------------------------------------------------


def read_rows(
    path: str | Path,
    data: Columns,
    roster: Roster,
    policy: Policy,
    others: Sequence[tuple[float, Row]] = (),
) -> tuple[str, list[Row]]:
    """The tag of a file's decisions, and their log in its order; ``others``: more rows of it, with
    their places."""
    count = len(data["id"])
    positions = {str(label): position for position, label in enumerate(roster.arms.labels)}

    def column(name: str, default: Any) -> list[Any]:
        return data[name] if name in data else [default] * count

    def arms(name: str) -> list[int]:
        labels = data[name] if name in data else data["arm"]
        for row, label in enumerate(labels):
            if str(label) not in positions:
                got = f"{label!r} in row {row}"
                raise InvalidArgument(f"{path}: {name}", got, "an arm of the features")
        return [positions[str(label)] for label in labels]

    _check_values(path, data, policy)
    tag, numbers = _decision_numbers(path, data["id"])
    decisions = zip(
        numbers,
        column("asked_at", 0.0),
        arms("arm"),
        column("probability", None),
        arms("greedy"),
        arms("pseudo"),
        map(bool, column("matched", True)),
        map(int, column("clocks", 1)),
        _rounds(path, data, roster, policy, count),
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
    ordered: list[tuple[float, Row]] = list(others)
    whole = policy.whole
    for decision, (reward, told_at, default, asked_order, told_order, corrections) in zip(
        (Row.decision(*values) for values in decisions), rewards, strict=True
    ):
        asked = 2.0 * decision.number if asked_order is None else float(asked_order)
        ordered.append((asked, decision))
        if reward is None:
            if corrections:
                raise InvalidArgument(f"{path}: corrections", corrections, "nothing without reward")
            continue
        told = asked + 1.0 if told_order is None else float(told_order)
        if told <= asked:
            raise InvalidArgument(f"{path}: told_order", told_order, f"a place after {asked:g}")
        kind = DEFAULT if default else REWARD
        time = decision.time if told_at is None else told_at
        row = decision.rewarded(kind, float(reward), time, whole=whole)
        if corrections:
            where = f"{path}: corrections of decision {decision.number}"
            ordered += corrected_rows(where, corrections, row, told, policy)
        else:
            ordered.append((told, row))
    ordered.sort(key=lambda each: each[0])
    return tag, [row for _, row in ordered]


def _decision_numbers(path: str | Path, ids: list[Any]) -> tuple[str, list[int]]:
    """The tag that all ids share, and the number of each decision."""
    tags, numbers = set(), []
    for row, id in enumerate(ids):
        tag, _, number = str(id).rpartition("-")
        tags.add(tag)
        short = number.isascii() and number.isdecimal() and len(number) <= len(str(MAX_COUNT))
        if not (0 < len(tag) <= MAX_TAG and short and 0 < int(number) <= MAX_COUNT):
            got = f"{id!r} in row {row}"
            raise InvalidArgument(f"{path}: id", got, "ids of decisions that rolf issued")
        numbers.append(int(number))
    if len(tags) > 1 or len(set(numbers)) < len(ids):
        expected = "each decision of one experiment once"
        raise InvalidArgument(f"{path}: id", sorted(tags), expected)
    return (tags.pop() if tags else ""), numbers


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


def _check_values(path: str | Path, data: Columns, policy: Policy) -> None:
    """Raise if a column of numbers holds anything else."""
    for name, (low, high, expected) in LIMITS.items():
        for row, value in enumerate(data.get(name, ())):
            if value is None and name in MAY_BE_EMPTY:
                continue
            if not (_finite(value) and low <= value <= high):
                raise InvalidArgument(f"{path}: {name}", f"{value!r} in row {row}", expected)
    _check_clocks(path, data.get("clocks", ()), policy._state.clock.size)
    for row, reward in enumerate(data["reward"]):
        if reward is not None:
            _check_reward(path, row, reward, policy)
    model = policy.params.model if isinstance(policy.params, Params) else None
    if model is not None and traits_of(type(model)).weighs:
        _check_weights(path, data, policy.name)


def _finite(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:
        return False


def _check_clocks(path: str | Path, clocks: Any, size: int) -> None:
    """Every decision is a round, which the first bit says; no other bits than the clock has."""
    for row, steps in enumerate(clocks):
        if steps != int(steps) or int(steps) % 2 == 0 or int(steps) >= 2**size:
            got, expected = f"{steps!r} in row {row}", LIMITS["clocks"][2]
            raise InvalidArgument(f"{path}: clocks", got, expected)


def _check_reward(path: str | Path, row: int, reward: Any, policy: Policy) -> None:
    try:
        policy._number(reward)
    except InvalidArgument as error:
        got = f"{reward!r} in row {row}"
        raise InvalidArgument(f"{path}: reward", got, error.wanted) from None


def _check_weights(path: str | Path, data: Columns, name: str) -> None:
    """A policy that weighs rewards by the chances of their arms needs the chances."""
    chances = data.get("probability", [None] * len(data["reward"]))
    for row, (chance, reward) in enumerate(zip(chances, data["reward"], strict=True)):
        if chance is None and reward is not None:
            expected = f"the chance of every arm with a reward, which {name} needs"
            raise InvalidArgument(f"{path}: probability", f"nothing in row {row}", expected)


def _rounds(
    path: str | Path, data: Columns, roster: Roster, policy: Policy, count: int
) -> list[str | None]:
    """The (K, d) features of every round as JSON, where the log has them."""
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
        checked = number_table(table, f"{path}: features of row {place}")
        rounds.append(json.dumps(checked.tolist()))
    return rounds


def _contexts(path: str | Path, data: Columns, context: Context, count: int) -> list[str | None]:
    """The context of every round as JSON."""
    names = [f"{CONTEXT}{name}" for name in context.names]
    if missing := [name for name in names if name not in data]:
        raise InvalidArgument(f"{path}: columns", list(data), f"{', '.join(missing)} too")
    rounds = [[data[name][place] for name in names] for place in range(count)]
    if not rounds:
        return []
    table = context.table(rounds, f"{path}: context")
    return [json.dumps({"context": entries}) for entries in table.tolist()]
