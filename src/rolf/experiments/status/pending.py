"""The decisions of an experiment that are pending: their rewards have not come yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rolf.experiments.storage.contract import Store, check_exists
from rolf.experiments.storage.rows import DECISION, DEFAULT, REWARD, Record, Row

#: decisions that are looked at, and how many of them at a time
LATEST, AT_A_TIME = 1_000, 100


class PendingDecision(NamedTuple):
    """A decision without a reward.

    Attributes:
        id: under which its reward is told.
        arm: its name.
        probability: with which the arm was chosen; None if unknown.
        asked_at: when it was made, in seconds since 1970.
    """

    id: str
    arm: Any
    probability: float | None
    asked_at: float


class Pending(NamedTuple):
    """The latest decisions without a reward.

    Attributes:
        decisions: the latest first.
        total: how many decisions have no reward; those that are not listed are older.
        looked_at: how many of the latest decisions were looked at; ``decisions`` has all of them
            that are pending.
    """

    decisions: list[PendingDecision]
    total: int
    looked_at: int


def find_pending(
    store: Store,
    record: Record,
    last: int,
    issued: int,
    labels: Sequence[Any],
    total: int,
    limit: int,
) -> Pending:
    """The latest pending decisions of an experiment, as of the row ``last`` of its log.

    ``issued`` is the number of the latest decision, ``total`` how many are pending.
    """
    wanted, looked_at = min(limit, total), 0
    decisions: list[PendingDecision] = []
    numbers = range(issued, max(issued - LATEST, 0), -1)
    while len(decisions) < wanted and looked_at < len(numbers):
        part = numbers[looked_at : looked_at + AT_A_TIME]
        found = _unrewarded(store, record, part, last)[: wanted - len(decisions)]
        decisions += [
            PendingDecision(
                record.decision_id(row.number), labels[row.arm], row.probability, row.time
            )
            for row in found
        ]
        full = len(decisions) == wanted
        looked_at = numbers.index(found[-1].number) + 1 if full else looked_at + len(part)
    return Pending(decisions, total, looked_at)


def _unrewarded(store: Store, record: Record, numbers: Sequence[int], upto: int) -> list[Row]:
    """The decisions that had no reward when the log ended with this row, the latest first."""
    rows = [Row(*values) for values in store.find(record.id, numbers)]
    if not rows:
        check_exists(store, record)
    rows = [row for row in rows if row.seq <= upto]
    rewarded = {row.number for row in rows if row.kind in (REWARD, DEFAULT)}
    found = [row for row in rows if row.kind == DECISION and row.number not in rewarded]
    return sorted(found, key=lambda row: -row.number)
