"""Export a log to a file, one row per decision. Columns:

* ``id``, ``number``, ``arm``, ``probability``, ``asked_at``: the decision;
* ``reward``, ``told_at``, ``is_default``: its reward, empty while it is pending;
* ``greedy``, ``pseudo``, ``matched``, ``clocks``: needed by the policy's update;
* ``asked_order``, ``told_order``: positions of decision and reward in the log;
* ``corrections``: the reward before each correction and its reason, as JSON;
* ``x_<arm>_<feature>``: the features of the round, if they vary;
* ``context_<name>``: the context of the round, if features follow from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rolf.errors import InvalidArgument, RolfError
from rolf.experiments.roster import Roster
from rolf.experiments.storage.rows import (
    CORRECTION,
    DECISION,
    DEFAULT,
    REWARD,
    ROSTER,
    Record,
    Row,
)
from rolf.extras import require
from rolf.logs.layout import CONTEXT
from rolf.policies.core.rounds import Context
from rolf.policies.policy import Policy
from rolf.tables.parquet import PARQUET, is_parquet
from rolf.text import harmless


class Logged(NamedTuple):
    """A decision with its latest reward, and their positions in the log."""

    decision: Row
    asked_order: int
    reward: Row | None = None
    told_order: int | None = None
    corrections: tuple[tuple[int, Row], ...] = ()


def write_log(path: str | Path, record: Record, rows: Sequence[Row], policy: Policy) -> int:
    """Write the log of an experiment to a CSV or Parquet file; return the number of decisions."""
    require("pyarrow", "exporting a log")
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    target = _checked_path(path)
    decisions, roster = joined(rows), _last_roster(record, rows)
    corrected = any(each.corrections for each in decisions)
    columns = columns_of(decisions, policy, roster, record.tag, corrections=corrected)
    if not all(_is_plain(label) for label in roster.arms.labels):
        columns |= {name: list(map(str, columns[name])) for name in ("arm", "greedy", "pseudo")}
    table = pa.table(columns)
    try:
        if is_parquet(target):
            pq.write_table(table, target)
        else:
            pyarrow.csv.write_csv(_for_spreadsheets(table), target)
    except OSError as error:
        raise RolfError(f"{path}: cannot be written ({error.strerror or error})") from None
    return len(decisions)


def _checked_path(path: Any) -> Path:
    """Check that a path ends in .csv or .parquet."""
    if isinstance(path, str | Path) and Path(path).suffix.lower() in (".csv", *PARQUET):
        return Path(path)
    wanted = "a file that ends in .csv or .parquet"
    raise InvalidArgument("path", str(path) if isinstance(path, Path) else path, wanted)


def _for_spreadsheets(table: Any) -> Any:
    """Escape text that spreadsheets would take for formulas; ``read_table`` undoes it."""
    import pyarrow as pa

    for i, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            values = [harmless(each) for each in table.column(i).to_pylist()]
            table = table.set_column(i, field.name, pa.array(values, pa.string()))
    return table.rename_columns([harmless(name) for name in table.column_names])


def _last_roster(record: Record, rows: Iterable[Row]) -> Roster:
    """The roster at the end of a log."""
    roster = Roster.loads(record.features)
    for row in rows:
        if row.kind == ROSTER:
            roster = roster.changed(row.parsed)
    return roster


def joined(rows: Iterable[Row]) -> list[Logged]:
    """Join decisions with the rewards that follow them in the log."""
    logged: dict[int, Logged] = {}
    for row in rows:
        if row.kind == DECISION:
            logged[row.number] = Logged(row, row.seq)
        elif row.kind == CORRECTION:
            known = logged[row.number]
            corrections = (*known.corrections, (row.seq, row))
            logged[row.number] = known._replace(corrections=corrections)
        elif row.kind in (REWARD, DEFAULT):  # a late reward replaces the default
            logged[row.number] = logged[row.number]._replace(reward=row, told_order=row.seq)
    return [logged[number] for number in sorted(logged)]


def columns_of(
    logged: list[Logged], policy: Policy, roster: Roster, tag: str, *, corrections: bool
) -> dict[str, Any]:
    """Decisions as columns, with the context of their rounds or their features if they vary."""
    labels = _column_labels(roster)
    decisions = [each.decision for each in logged]
    rewards = [each.reward for each in logged]
    columns: dict[str, Any] = {
        "id": [f"{tag}-{row.number}" for row in decisions],
        "number": [row.number for row in decisions],
        "arm": [labels[row.arm] for row in decisions],
        "probability": [row.probability for row in decisions],
        "asked_at": [row.time for row in decisions],
        "reward": [_final_reward(each) for each in logged],
        "told_at": [None if row is None else row.time for row in rewards],
        "is_default": [row is not None and row.kind == DEFAULT for row in rewards],
        "greedy": [labels[row.greedy] for row in decisions],
        "pseudo": [labels[row.pseudo_action] for row in decisions],
        "matched": [bool(row.matched) for row in decisions],
        "clocks": [row.clock_steps for row in decisions],
        "asked_order": [each.asked_order for each in logged],
        "told_order": [each.told_order for each in logged],
    }
    if corrections:
        columns["corrections"] = [_corrections_text(each.corrections) for each in logged]
    if policy.context is not None:
        columns |= _context_columns(logged, policy.context)
    elif policy.varying:
        columns |= _round_columns(logged, roster)
    return columns


def _final_reward(logged: Logged) -> float | None:
    """The reward after all corrections."""
    if logged.corrections:
        return logged.corrections[-1][1].reward
    return None if logged.reward is None else logged.reward.reward


def _round_columns(logged: list[Logged], roster: Roster) -> dict[str, list[float | None]]:
    """The features of every round; empty for arms added later."""
    rounds = [each.decision.parsed["features"] for each in logged]
    return {
        f"x_{label}_{column}": [
            table[arm][feature] if arm < len(table) else None for table in rounds
        ]
        for arm, label in enumerate(_column_labels(roster))
        for feature, column in enumerate(roster.arms.columns)
    }


def _context_columns(logged: list[Logged], context: Context) -> dict[str, list[float]]:
    """The context of every round."""
    rounds = [each.decision.parsed["context"] for each in logged]
    return {
        f"{CONTEXT}{name}": [entries[place] for entries in rounds]
        for place, name in enumerate(context.names)
    }


def _is_plain(label: Any) -> bool:
    """Whether the name of an arm survives a file, unlike 2.0, which comes back as 2."""
    return isinstance(label, str) or (isinstance(label, int) and abs(label) < 2**63)


def _column_labels(roster: Roster) -> list[Any]:
    """The names of the arms, all of one type."""
    labels = roster.arms.labels
    return labels if len({type(label) for label in labels}) == 1 else [str(each) for each in labels]


def _corrections_text(rows: Sequence[tuple[int, Row]]) -> str | None:
    """The corrections of a decision with their positions in the log; None if there are none."""
    corrections = [
        {
            "from": row.parsed["was"],
            "to": row.reward,
            "reason": row.parsed["reason"],
            "at": row.time,
            "order": order,
            "refold": row.parsed["refold"],
        }
        for order, row in rows
    ]
    return json.dumps(corrections) if corrections else None
