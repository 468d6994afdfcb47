"""What an exported log holds besides decisions and rewards: corrections and history.

The column ``corrections`` has, for a decision whose reward was corrected, a JSON list with the
rewards before and after each correction, its reason, its time and its place in the log. A Parquet
file also has the history that the experiment learned from, with its place in the log.

Nothing in a file is believed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rolf.arms.table import number_table
from rolf.checks import MAX_COUNT, whole
from rolf.errors import InvalidArgument, RolfError
from rolf.estimators.contract import arm_totals
from rolf.experiments.log.history import Past, checked_rewards, checked_source
from rolf.experiments.storage.contract import DEFAULT, HISTORY, Row
from rolf.policies.history import checked_probabilities
from rolf.policies.policy import Policy

#: fields of a correction in a file
FIELDS = "from, to, reason, at and order"


# --- corrections -------------------------------------------------------------------------------


def corrections_text(rows: Sequence[tuple[int, Row]]) -> str | None:
    """The corrections of a decision, with their places in the log; None if there are none."""
    out = [
        {
            "from": row.details["was"],
            "to": row.reward,
            "reason": row.details["reason"],
            "at": row.time,
            "order": order,
            "refold": row.details["refold"],
        }
        for order, row in rows
    ]
    return json.dumps(out) if out else None


def corrected_rows(
    where: str, text: str, reward: Row, told: float, policy: Policy
) -> list[tuple[float, Row]]:
    """The reward as it was told, at its place, and its corrections at theirs; ``reward`` is how
    the last one left it."""
    entries = _entries(where, text)
    if reward.kind == DEFAULT:
        raise InvalidArgument(where, text, "nothing for a default reward")
    row = reward._replace(reward=_number(where, entries[0], "from", policy))
    out, place = [(told, row)], told
    for entry in entries:
        time, order, reason = entry["at"], entry["order"], entry["reason"]
        if _number(where, entry, "from", policy) != row.reward:
            raise InvalidArgument(where, entry["from"], f"{row.reward!r}, the reward before")
        if not isinstance(reason, str) or not _finite(time) or not _finite(order):
            raise InvalidArgument(where, entry, "a reason, a time and a place in the log")
        if not place < order <= 2 * MAX_COUNT:
            raise InvalidArgument(where, order, f"a place after {place:g}")
        refold = bool(entry.get("refold", True)) or policy.sequential
        row = row.corrected(_number(where, entry, "to", policy), reason, time, refold=refold)
        place = float(order)
        out.append((place, row))
    if row.reward != reward.reward:
        raise InvalidArgument(where, row.reward, f"{reward.reward!r}, the reward of the decision")
    return out


def _entries(where: str, text: str) -> list[dict[str, Any]]:
    try:
        entries = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        entries = None
    good = isinstance(entries, list) and entries
    if not good or not all(
        isinstance(each, dict) and {"from", "to", "reason", "at", "order"} <= set(each)
        for each in entries
    ):
        raise InvalidArgument(where, text, f"a JSON list of corrections, each with {FIELDS}")
    return list(entries)


def _number(where: str, entry: Mapping[str, Any], field: str, policy: Policy) -> float:
    try:
        return policy.check_reward(entry[field])
    except InvalidArgument as error:
        raise InvalidArgument(where, entry[field], error.wanted) from None


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


# --- history -----------------------------------------------------------------------------------


def history_data(rows: Sequence[tuple[int, Row]]) -> list[dict[str, Any]]:
    """Histories with their places in the log."""
    return [{"order": order, "time": row.time, "learned": row.details} for order, row in rows]


def history_rows(path: str | Path, data: Any, policy: Policy) -> list[tuple[float, Row]]:
    """The histories of a file, each at its place in the log."""
    if not isinstance(data, list):
        raise InvalidArgument(f"{path}: history", data, "a list")
    rows = []
    for number, each in enumerate(data, 1):
        where = f"{path}: history {number}"
        try:
            order = whole("order", each["order"], 0, 2 * MAX_COUNT)
            learned = each["learned"]
            past = _checked_past(learned, policy)
            text = past.dumps(checked_source(learned["source"]))
            good = _finite(each["time"])
        except (LookupError, ValueError, TypeError, AttributeError, OverflowError) as error:
            raise InvalidArgument(where, each, f"what rolf wrote ({error})") from None
        except RolfError as error:
            raise RolfError(f"{where}: {error}") from None
        if not good:
            raise InvalidArgument(where, each["time"], "seconds since 1970")
        rows.append((float(order), Row(0, HISTORY, number, float(each["time"]), features=text)))
    return rows


def _checked_past(learned: Mapping[str, Any], policy: Policy) -> Past:
    """A history that the policy can learn."""
    count = policy.arms.count
    arms = [whole("arms", each, 0, count - 1) for each in learned["arms"]]
    if len(set(arms)) < len(arms):
        raise InvalidArgument("arms", arms, "each arm once")
    past = Past.loads(dict(learned), count)
    if past.rounds is not None:
        positions = past.rounds.positions
        if positions.dtype != np.int64 or not ((positions >= 0) & (positions < count)).all():
            raise InvalidArgument("rounds", "arms", "positions of arms")
        columns = policy.typical_features().shape[1] if policy.varying else 0
        number_table(past.rounds.rows, "rounds", rows=positions.size, columns=columns)
        checked_probabilities(past.rounds.probabilities, positions.size, count)
        checked_rewards(policy, past.rounds.rewards, positions.size)
        past = past._replace(totals=arm_totals(count, past.rounds, past.totals.level))
    past.check_fits(policy)
    return past
