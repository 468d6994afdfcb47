"""The log as a file, one row a decision, and back into an experiment of its own.

A Parquet file also says how the experiment was made. The columns:

* ``id``, ``number``, ``arm``, ``probability``, ``asked_at``: the decision;
* ``reward``, ``told_at``, ``is_default``: its reward, empty while it waits;
* ``greedy``, ``pseudo``, ``matched``, ``clocks``: what the policy's update needs;
* ``asked_order``, ``told_order``: where decision and reward stand in the log;
* ``x_<arm>_<feature>``: the features of the round, where they vary.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rolf.arms.files import PARQUET, read_table
from rolf.errors import ExperimentError, InvalidArgument, RolfError
from rolf.experiments.experiment import Experiment
from rolf.experiments.opening import create
from rolf.experiments.roster import Table
from rolf.experiments.storage.base import CHANGE, DECISION, DEFAULT, REWARD, Row
from rolf.policies.registry import check_options, policy_class

METADATA = b"rolf-experiment"
FILES = "a file that ends in .csv or .parquet"


def export_log(experiment: Experiment, path: str | Path) -> int:
    """Write the log to a file; gives the number of decisions."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    target = Path(path)
    parquet = target.suffix.lower() in PARQUET
    if not parquet and target.suffix.lower() != ".csv":
        raise InvalidArgument("path", str(path), FILES)
    rows, table = _collect(experiment)
    named = pa.table(_columns(rows, table, experiment))
    record = experiment._record
    made = {
        "policy": record.policy,
        "options": json.loads(record.options),
        "seed": record.seed,
        "default_reward": record.default_reward,
        "reward_after": record.reward_after,
        "features": json.loads(table.dumps()),
    }
    try:
        if parquet:
            named = named.replace_schema_metadata({METADATA: json.dumps(made)})
            pq.write_table(named, target)
        else:
            pyarrow.csv.write_csv(named, target)
    except OSError as error:
        raise RolfError(f"{path}: cannot be written ({error.strerror or error})") from None
    return len(rows)


def _collect(experiment: Experiment) -> tuple[list[dict[str, Any]], Table]:
    """Decisions with their rewards, and the arms at the end of the log."""
    with experiment._alone():
        store, record = experiment._store, experiment._record
        table = Table.loads(record.features)
        found: dict[int, dict[str, Any]] = {}
        upto = store.settle(record.id)
        for order, each in enumerate(store.log(record.id, 0, upto), 1):
            row = Row(*each)
            if row.kind == DECISION:
                found[row.number] = {"decision": row, "order": order, "reward": None}
            elif row.kind == CHANGE:
                table = table.changed(json.loads(row.features or "{}"))
            else:  # a late real reward takes the place of the default
                found[row.number]["reward"] = row
                found[row.number]["told"] = order
    return [found[number] for number in sorted(found)], table


def _columns(rows: list[dict[str, Any]], table: Table, experiment: Experiment) -> dict[str, Any]:
    labels = table.arms.labels
    if len({type(each) for each in labels}) > 1:
        labels = [str(each) for each in labels]
    tag = experiment._record.tag
    decisions = [each["decision"] for each in rows]
    rewards = [each["reward"] for each in rows]
    out = {
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
        "clocks": [row.mark for row in decisions],
        "asked_order": [each["order"] for each in rows],
        "told_order": [each.get("told") for each in rows],
    }
    if experiment._replica.policy.varying:
        rounds = [json.loads(row.features) for row in decisions]
        for place, label in enumerate(labels):
            for number, column in enumerate(table.arms.columns):
                values = [each[place][number] if place < len(each) else None for each in rounds]
                out[f"x_{label}_{column}"] = values
    return out


def import_log(
    url: str,
    name: str,
    path: str | Path,
    *,
    features: Any = None,
    policy: str | None = None,
    options: Mapping[str, Any] | None = None,
    seed: int | None = None,
    default_reward: float | None = None,
    reward_after: float | None = None,
) -> Experiment:
    """Make a new experiment of a log that was exported; decisions keep their ids.

    A Parquet file needs nothing else; what is given here takes the place of what it says.
    A CSV file needs the policy, and the features of all arms in it, retired ones included.
    """
    data, made = _load(path)
    table = Table.loads(json.dumps(made["features"])) if features is None and made else None
    if features is not None:
        table = Table.read(features)
    if table is None:
        wanted = f"the table of arms (--features), which {path} does not have"
        raise InvalidArgument("features", None, wanted)
    tag, rows = _rows(path, data, table)
    chosen = policy if policy is not None else made.get("policy")
    if chosen is None:
        wanted = f"the policy's name (--policy): {path} does not say it, a Parquet file would"
        raise InvalidArgument("policy", None, wanted)
    check_options(policy_class(chosen), options or {})
    same = chosen == made.get("policy")
    default = default_reward if default_reward is not None else made.get("default_reward")
    after = reward_after if reward_after is not None else made.get("reward_after")
    values = {float(row.reward or 0.0) for row in rows if row.kind == DEFAULT}
    if values and (after is None or values != {0.0 if default is None else default}):
        wanted = f"{', '.join(map(str, sorted(values)))}, and reward_after with it: the log has "
        wanted += "such rewards (--default-reward, --reward-after)"
        raise InvalidArgument("default_reward", default, wanted)
    experiment = create(
        url,
        name,
        table,
        policy=chosen,
        options=options if options is not None else (made.get("options") if same else None),
        seed=seed if seed is not None else made.get("seed"),
        default_reward=default,
        reward_after=after,
        tag=tag,
        rows=rows,
    )
    return experiment


def _load(path: str | Path) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    if Path(path).suffix.lower() not in (".csv", *PARQUET):
        raise InvalidArgument("path", str(path), FILES)
    read = read_table(path, ("id", "arm", "greedy", "pseudo"))
    if missing := [each for each in ("id", "arm", "reward") if each not in read.column_names]:
        raise InvalidArgument(f"{path}: columns", read.column_names, f"{', '.join(missing)} too")
    made = json.loads((read.schema.metadata or {}).get(METADATA, b"{}"))
    return read.to_pydict(), made


def _rows(path: str | Path, data: dict[str, list[Any]], table: Table) -> tuple[str, list[Row]]:
    """The log of the decisions of a file, in its order."""
    count = len(data["id"])
    positions = {str(label): place for place, label in enumerate(table.arms.labels)}

    def column(name: str, default: Any) -> list[Any]:
        return data[name] if name in data else [default] * count

    def arms(name: str) -> list[int]:
        out = []
        for each in data[name] if name in data else data["arm"]:
            if str(each) not in positions:
                raise InvalidArgument(f"{path}: {name}", each, "an arm of the features")
            out.append(positions[str(each)])
        return out

    _check(path, data)
    tags, numbers = set(), []
    for each in data["id"]:
        tag, _, number = str(each).rpartition("-")
        tags.add(tag)
        if not tag or not number.isdecimal() or len(number) > 18:
            raise InvalidArgument(f"{path}: id", each, "ids of decisions that rolf issued")
        numbers.append(int(number))
    if len(tags) > 1 or len(set(numbers)) < count:
        raise InvalidArgument(f"{path}: id", sorted(tags), "each decision of one experiment once")
    rounds = _rounds(data, table, count)
    asked, told = column("asked_at", 0.0), column("told_at", None)
    ordered: list[tuple[float, Row]] = []
    parts = zip(
        numbers,
        arms("arm"),
        column("probability", None),
        arms("greedy"),
        arms("pseudo"),
        column("matched", True),
        column("clocks", 1),
        data["reward"],
        column("is_default", False),
        column("asked_order", None),
        column("told_order", None),
        strict=True,
    )
    for place, part in enumerate(parts):
        number, arm, chance, greedy, pseudo, matched, clocks, reward, default, first, last = part
        fixed = (arm, chance, greedy, pseudo, bool(matched))
        order = 2.0 * number if first is None else float(first)
        every = None if rounds is None else json.dumps(rounds[place])
        ordered.append((order, Row(0, DECISION, number, asked[place], *fixed, clocks, every)))
        if reward is None:
            continue
        row = None if rounds is None else json.dumps(rounds[place][arm])
        time = asked[place] if told[place] is None else told[place]
        kind = DEFAULT if default else REWARD
        later = order + 1.0 if last is None else float(last)
        if later <= order:
            raise InvalidArgument(f"{path}: told_order", last, f"a place after {order:g}")
        ordered.append((later, Row(0, kind, number, time, *fixed, 0, row, float(reward))))
    ordered.sort(key=lambda each: each[0])
    return (tags.pop() if tags else ""), [row for _, row in ordered]


#: what columns of numbers may hold: the least, the most, and in words
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
EMPTY = ("reward", "probability", "told_at", "told_order")


def _check(path: str | Path, data: dict[str, list[Any]]) -> None:
    """Whether all columns hold what they should."""
    for name, (low, high, words) in LIMITS.items():
        for row, value in enumerate(data.get(name, ())):
            if value is None and name in EMPTY:
                continue
            good = isinstance(value, int | float) and math.isfinite(value) and low <= value <= high
            if not good or (name == "clocks" and value != int(value)):
                raise InvalidArgument(f"{path}: {name}", f"{value!r} in row {row}", words)


def _rounds(data: dict[str, list[Any]], table: Table, count: int) -> list[Any] | None:
    """The features of every round, (K, d) each, where the log has them."""
    labels, columns = table.arms.labels, table.arms.columns
    names = [[f"x_{label}_{column}" for column in columns] for label in labels]
    if not all(name in data for row in names for name in row):
        return None
    out = [[[data[name][place] for name in row] for row in names] for place in range(count)]
    if any(value is None for each in out for row in each for value in row):
        raise ExperimentError("a round of the log lacks features of some arms")
    return out
