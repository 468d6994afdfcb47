"""Export a log to a file, one row per decision, and import it as a new experiment.

A Parquet file also says how the experiment was created. The columns:

* ``id``, ``number``, ``arm``, ``probability``, ``asked_at``: the decision;
* ``reward``, ``told_at``, ``is_default``: its reward, empty while it waits;
* ``greedy``, ``pseudo``, ``matched``, ``clocks``: what the policy's update needs;
* ``asked_order``, ``told_order``: the places of decision and reward in the log;
* ``x_<arm>_<feature>``: the features of the round, where they vary.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rolf.arms.files import PARQUET, read_table
from rolf.arms.table import number_table
from rolf.errors import ExperimentError, InvalidArgument, RolfError
from rolf.experiments.experiment import Experiment
from rolf.experiments.opening import create
from rolf.experiments.roster import Roster
from rolf.experiments.storage.base import CHANGE, DECISION, DEFAULT, REWARD, Row
from rolf.policies.registry import check_options, policy_class, policy_name

METADATA = b"rolf-experiment"
FILES = "a file that ends in .csv or .parquet"


class _Logged(NamedTuple):
    """A decision with its latest reward, and their places in the log."""

    decision: Row
    asked_order: int
    reward: Row | None = None
    told_order: int | None = None


# --- export ---


def export_log(experiment: Experiment, path: str | Path) -> int:
    """Write the log to a file; returns the number of decisions."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    target = Path(path)
    parquet = target.suffix.lower() in PARQUET
    if not parquet and target.suffix.lower() != ".csv":
        raise InvalidArgument("path", str(path), FILES)
    record = experiment.record
    logged, roster = _collect(experiment)
    columns = _columns(logged, roster, record.tag)
    if policy_class(record.policy).varying:
        columns |= _round_columns(logged, roster)
    table = pa.table(columns)
    settings = {
        "policy": record.policy,
        "options": json.loads(record.options),
        "seed": record.seed,
        "default_reward": record.default_reward,
        "reward_after": record.reward_after,
        "features": json.loads(roster.dumps()),
    }
    try:
        if parquet:
            table = table.replace_schema_metadata({METADATA: json.dumps(settings)})
            pq.write_table(table, target)
        else:
            pyarrow.csv.write_csv(table, target)
    except OSError as error:
        raise RolfError(f"{path}: cannot be written ({error.strerror or error})") from None
    return len(logged)


def _collect(experiment: Experiment) -> tuple[list[_Logged], Roster]:
    """The decisions with their rewards, and the roster at the end of the log."""
    roster = Roster.loads(experiment.record.features)
    logged: dict[int, _Logged] = {}
    for order, row in enumerate(experiment.log(), 1):
        if row.kind == DECISION:
            logged[row.number] = _Logged(row, order)
        elif row.kind == CHANGE:
            roster = roster.changed(json.loads(row.features or ""))
        else:  # a late reward takes the place of the default
            logged[row.number] = logged[row.number]._replace(reward=row, told_order=order)
    return [logged[number] for number in sorted(logged)], roster


def _columns(logged: list[_Logged], roster: Roster, tag: str) -> dict[str, Any]:
    labels = _column_labels(roster)
    decisions = [each.decision for each in logged]
    rewards = [each.reward for each in logged]
    return {
        "id": [f"{tag}-{row.number}" for row in decisions],
        "number": [row.number for row in decisions],
        "arm": [labels[row.arm] for row in decisions],
        "probability": [row.probability for row in decisions],
        "asked_at": [row.time for row in decisions],
        "reward": [None if row is None else row.reward for row in rewards],
        "told_at": [None if row is None else row.time for row in rewards],
        "is_default": [row is not None and row.kind == DEFAULT for row in rewards],
        "greedy": [labels[row.greedy] for row in decisions],
        "pseudo": [labels[row.pseudo] for row in decisions],
        "matched": [bool(row.matched) for row in decisions],
        "clocks": [row.clock_steps for row in decisions],
        "asked_order": [each.asked_order for each in logged],
        "told_order": [each.told_order for each in logged],
    }


def _round_columns(logged: list[_Logged], roster: Roster) -> dict[str, list[float | None]]:
    """The features of every round; empty for arms that were added later."""
    rounds = [json.loads(each.decision.features or "") for each in logged]
    return {
        f"x_{label}_{column}": [
            table[arm][feature] if arm < len(table) else None for table in rounds
        ]
        for arm, label in enumerate(_column_labels(roster))
        for feature, column in enumerate(roster.arms.columns)
    }


def _column_labels(roster: Roster) -> list[Any]:
    """The names of the arms, all of one type."""
    labels = roster.arms.labels
    return labels if len({type(label) for label in labels}) == 1 else [str(each) for each in labels]


# --- import ---


def import_log(
    url: str,
    name: str,
    path: str | Path,
    *,
    features: Any = None,
    policy: Any = None,
    options: Mapping[str, Any] | None = None,
    seed: int | None = None,
    default_reward: float | None = None,
    reward_after: float | None = None,
) -> Experiment:
    """Create an experiment from an exported log; decisions keep their ids.

    A Parquet file needs nothing else; arguments override what it says. A CSV file needs the
    policy, and the features of all arms in it, retired ones included.
    """
    data, recorded = _load(path)
    if features is not None:
        roster = Roster.read(features)
    elif "features" in recorded:
        roster = Roster.loads(json.dumps(recorded["features"]))
    else:
        raise InvalidArgument("features", None, f"the table of arms, which {path} does not have")
    tag, rows = _rows(path, data, roster)
    chosen = policy if policy is not None else recorded.get("policy")
    if chosen is None:
        expected = f"the policy's name, which {path} does not have; a Parquet file would"
        raise InvalidArgument("policy", None, expected)
    cls = policy_class(chosen)
    check_options(cls, options or {})
    if options is None and policy_name(cls) == recorded.get("policy"):
        options = recorded.get("options")
    if default_reward is None:
        default_reward = recorded.get("default_reward")
    if reward_after is None:
        reward_after = recorded.get("reward_after")
    _check_defaults(rows, default_reward, reward_after)
    return create(
        url,
        name,
        roster,
        policy=cls,
        options=options,
        seed=seed if seed is not None else recorded.get("seed"),
        default_reward=default_reward,
        reward_after=reward_after,
        tag=tag,
        rows=rows,
    )


def _load(path: str | Path) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """The columns of a file, and how the experiment was created if the file says so."""
    if Path(path).suffix.lower() not in (".csv", *PARQUET):
        raise InvalidArgument("path", str(path), FILES)
    table = read_table(path, ("id", "arm", "greedy", "pseudo"))
    if missing := [each for each in ("id", "arm", "reward") if each not in table.column_names]:
        raise InvalidArgument(f"{path}: columns", table.column_names, f"{', '.join(missing)} too")
    recorded = json.loads((table.schema.metadata or {}).get(METADATA, b"{}"))
    return table.to_pydict(), recorded


def _check_defaults(rows: list[Row], default: float | None, after: float | None) -> None:
    """The default rewards in a log must be those of the new experiment."""
    defaults = {float(row.reward or 0.0) for row in rows if row.kind == DEFAULT}
    if defaults and (after is None or defaults != {default or 0.0}):
        expected = ", ".join(map(str, sorted(defaults)))
        expected += ", and reward_after with it: the log has such rewards"
        raise InvalidArgument("default_reward", default, expected)


def _rows(path: str | Path, data: dict[str, list[Any]], roster: Roster) -> tuple[str, list[Row]]:
    """The tag of a file's decisions, and their log in its order."""
    count = len(data["id"])
    positions = {str(label): position for position, label in enumerate(roster.arms.labels)}

    def column(name: str, default: Any) -> list[Any]:
        return data[name] if name in data else [default] * count

    def arms(name: str) -> list[int]:
        labels = data[name] if name in data else data["arm"]
        for label in labels:
            if str(label) not in positions:
                raise InvalidArgument(f"{path}: {name}", label, "an arm of the features")
        return [positions[str(label)] for label in labels]

    _check_values(path, data)
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
        _rounds(path, data, roster, count),
        strict=True,
    )
    rewards = zip(
        data["reward"],
        column("told_at", None),
        column("is_default", False),
        column("asked_order", None),
        column("told_order", None),
        strict=True,
    )
    ordered: list[tuple[float, Row]] = []
    for decision, (reward, told_at, default, asked_order, told_order) in zip(
        (Row.decision(*values) for values in decisions), rewards, strict=True
    ):
        asked = 2.0 * decision.number if asked_order is None else float(asked_order)
        ordered.append((asked, decision))
        if reward is None:
            continue
        told = asked + 1.0 if told_order is None else float(told_order)
        if told <= asked:
            raise InvalidArgument(f"{path}: told_order", told_order, f"a place after {asked:g}")
        kind = DEFAULT if default else REWARD
        time = decision.time if told_at is None else told_at
        ordered.append((told, decision.rewarded(kind, float(reward), time)))
    ordered.sort(key=lambda each: each[0])
    return tag, [row for _, row in ordered]


def _decision_numbers(path: str | Path, ids: list[Any]) -> tuple[str, list[int]]:
    """The tag that all ids share, and the number of each decision."""
    tags, numbers = set(), []
    for id in ids:
        tag, _, number = str(id).rpartition("-")
        tags.add(tag)
        if not tag or not number.isdecimal() or len(number) > 18:
            raise InvalidArgument(f"{path}: id", id, "ids of decisions that rolf issued")
        numbers.append(int(number))
    if len(tags) > 1 or len(set(numbers)) < len(ids):
        raise InvalidArgument(f"{path}: id", sorted(tags), "each decision of one experiment once")
    return (tags.pop() if tags else ""), numbers


#: the smallest and largest value of columns of numbers, and what they hold in words
LIMITS = {
    "reward": (-math.inf, math.inf, "a finite number"),
    "probability": (0.0, 1.0, "a number from 0 to 1"),
    "asked_at": (-math.inf, math.inf, "seconds since 1970"),
    "told_at": (-math.inf, math.inf, "seconds since 1970"),
    "clocks": (0, 2**15 - 1, "a number that rolf wrote"),
    "asked_order": (0, 2**62, "a place in the log"),
    "told_order": (0, 2**62, "a place in the log"),
    "matched": (0, 1, "true or false"),
    "is_default": (0, 1, "true or false"),
}
MAY_BE_EMPTY = ("reward", "probability", "told_at", "told_order")


def _check_values(path: str | Path, data: dict[str, list[Any]]) -> None:
    """Raise if a column of numbers holds anything else."""
    for name, (low, high, expected) in LIMITS.items():
        for row, value in enumerate(data.get(name, ())):
            if value is None and name in MAY_BE_EMPTY:
                continue
            good = isinstance(value, int | float) and math.isfinite(value) and low <= value <= high
            if not good or (name == "clocks" and value != int(value)):
                raise InvalidArgument(f"{path}: {name}", f"{value!r} in row {row}", expected)


def _rounds(
    path: str | Path, data: dict[str, list[Any]], roster: Roster, count: int
) -> list[str | None]:
    """The (K, d) features of every round as JSON, where the log has them."""
    labels, columns = roster.arms.labels, roster.arms.columns
    names = [[f"x_{label}_{column}" for column in columns] for label in labels]
    if not all(name in data for row in names for name in row):
        return [None] * count
    rounds: list[str | None] = []
    for place in range(count):
        table = [[data[name][place] for name in row] for row in names]
        if any(value is None for row in table for value in row):
            raise ExperimentError("a round of the log lacks features of some arms")
        checked = number_table(table, f"{path}: features of row {place}")
        rounds.append(json.dumps(checked.tolist()))
    return rounds
