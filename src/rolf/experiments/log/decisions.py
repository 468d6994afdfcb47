"""The decisions of a log with their rewards, in their public form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from rolf.experiments.roster import Roster
from rolf.experiments.storage.rows import CORRECTION, DECISION, DEFAULT, REWARD, Record, Row
from rolf.policies.core.rounds import Context


@dataclass(frozen=True)
class Correction:
    """A correction of a reward.

    Attributes:
        was: the reward before the correction.
        reward: the corrected reward.
        reason: why the earlier reward was wrong.
        corrected_at: when it was corrected, in seconds since 1970.
    """

    was: float
    reward: float
    reason: str
    corrected_at: float


@dataclass(frozen=True)
class LoggedDecision:
    """A decision in the log of an experiment, with its reward.

    Attributes:
        id: the id for telling its reward.
        arm: the name of its arm.
        probability: the probability with which the arm was chosen; None if unknown.
        asked_at: when the decision was made, in seconds since 1970.
        reward: the current reward: as last corrected, told or given by default; None while the
            decision is pending.
        told_at: when the reward was told.
        is_default: whether it is the default reward.
        corrections: corrections of the reward, in order.
        context: context of the round, by name; None for experiments without contexts.
        features: (K, d) features of the round, for policies that take them with every ask;
            otherwise None.
        greedy, pseudo_action: the arm the draw was centred on, and RoLF's pseudo-action.
        matched: whether the reward enters the estimates (RoLF's coupling).
        asked_order, told_order: positions of decision and reward in the log, from 1.
    """

    id: str
    arm: Any
    probability: float | None
    asked_at: float
    reward: float | None
    told_at: float | None
    is_default: bool
    corrections: list[Correction]
    context: dict[str, float] | None
    features: list[list[float]] | None
    greedy: Any
    pseudo_action: Any
    matched: bool
    asked_order: int
    told_order: int | None

    def to_dict(self) -> dict[str, Any]:
        """The decision as plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LoggedDecision:
        """The inverse of ``to_dict``."""
        known = {each.name: data[each.name] for each in fields(cls)}
        known["corrections"] = [Correction(**each) for each in data["corrections"]]
        return cls(**known)


class History(NamedTuple):
    """The rows of a decision."""

    decision: Row
    reward: Row | None = None
    corrections: tuple[Row, ...] = ()


def logged_decisions(
    rows: Iterable[Row], record: Record, roster: Roster, context: Context | None
) -> list[LoggedDecision]:
    """The decisions in these rows with their rewards, ordered by number.

    ``roster``: one that has all of their arms.
    """
    labels = roster.arms.labels
    histories = decision_histories(rows)
    return [_logged(each, record, labels, context) for each in histories]


def decision_histories(rows: Iterable[Row]) -> list[History]:
    """Group rows by decision, ordered by number; rewards follow their decisions."""
    histories: dict[int, History] = {}
    for row in rows:
        if row.kind == DECISION:
            histories[row.number] = History(row)
        elif row.kind == CORRECTION:
            known = histories[row.number]
            histories[row.number] = known._replace(corrections=(*known.corrections, row))
        elif row.kind in (REWARD, DEFAULT):  # a late reward replaces the default
            histories[row.number] = histories[row.number]._replace(reward=row)
    return [histories[number] for number in sorted(histories)]


def _logged(
    history: History, record: Record, labels: list[Any], context: Context | None
) -> LoggedDecision:
    row, told, corrections = history
    recorded = row.parsed
    latest = corrections[-1] if corrections else told
    return LoggedDecision(
        id=record.decision_id(row.number),
        arm=labels[row.arm],
        probability=row.probability,
        asked_at=row.time,
        reward=latest and latest.reward,
        told_at=told and told.time,
        is_default=told is not None and told.kind == DEFAULT,
        corrections=[
            Correction(
                each.parsed["was"], float(each.reward or 0.0), each.parsed["reason"], each.time
            )
            for each in corrections
        ],
        context=(
            None if context is None else dict(zip(context.names, recorded["context"], strict=True))
        ),
        features=recorded.get("features"),
        greedy=labels[row.greedy],
        pseudo_action=labels[row.pseudo_action],
        matched=bool(row.matched),
        asked_order=row.seq,
        told_order=told and told.seq,
    )
