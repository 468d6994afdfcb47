"""Pending decisions of an experiment, whose rewards have not arrived yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rolf.experiments.storage.contract import Store, check_exists
from rolf.experiments.storage.rows import DECISION, DEFAULT, REWARD, Record, Row

#: how many decisions are looked at, in total and at a time
LATEST, AT_A_TIME = 1_000, 100


class PendingDecision(NamedTuple):
    """A decision without a reward.

    Attributes:
        id: the id for telling its reward.
        arm: the name of its arm.
        probability: the probability with which the arm was chosen; None if unknown.
        asked_at: when the decision was made, in seconds since 1970.
    """

    id: str
    arm: Any
    probability: float | None
    asked_at: float


class Pending(NamedTuple):
    """The latest decisions without a reward.

    Attributes:
        decisions: pending decisions, latest first.
        total: number of decisions without a reward; the ones not listed are older.
        looked_at: number of latest decisions examined; ``decisions`` lists all that are pending
            among them.
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
    """The latest pending decisions of an experiment, as of row ``last`` of its log.

    ``issued`` is the number of the latest decision, ``total`` the number of pending ones.
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
    """The decisions without a reward up to row ``upto`` of the log, latest first."""
    rows = [Row(*values) for values in store.find(record.id, numbers)]
    if not rows:
        check_exists(store, record)
    rows = [row for row in rows if row.seq <= upto]
    rewarded = {row.number for row in rows if row.kind in (REWARD, DEFAULT)}
    found = [row for row in rows if row.kind == DECISION and row.number not in rewarded]
    return sorted(found, key=lambda row: -row.number)
