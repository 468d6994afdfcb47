"""Rewards as rows of the log: told, given by default, and corrected."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator, Mapping
from typing import TypeVar

from rolf.checks import MAX_COUNT
from rolf.errors import AlreadyTold, InvalidArgument, RolfError, UnknownDecision, UntoldDecision
from rolf.experiments.log.synced import SyncedReplica
from rolf.experiments.storage.contract import PART, Reconnected, check_exists
from rolf.experiments.storage.rows import CORRECTION, DECISION, DEFAULT, REWARD, Record, Row
from rolf.types import Decision

T = TypeVar("T")

#: maximum number of corrections of one decision
MAX_CORRECTIONS = 1_000
#: seconds a call may spend on due default rewards, and how many to give at a time
DEFAULTS_TIME, DEFAULTS_PART = 0.01, 100

# --- rewards that are told ---


def tell(log: SyncedReplica, rewards: dict[int, float]) -> set[int]:
    """Record rewards of decisions; all are checked before any is written. Return the decisions
    whose rewards were new.

    They are written part by part, so that no other process waits for long. If a part cannot be
    written, repeating the call completes it.
    """
    now = log.now()
    rows = recent_rows(log, rewards, now)
    if rows and log.append(rows):
        return set(rewards)
    new: set[int] = set()
    rows = reward_rows(log, rewards, REWARD, now)
    for part in _parts(rows):
        while part and not log.append(part):  # others have told some of them
            again = {row.number: rewards[row.number] for row in part}
            part = reward_rows(log, again, REWARD, now)
        new |= {row.number for row in part}
    if not rows:
        log.store.settle()  # they are in the log, but perhaps not yet on disk
    return new


def recent_rows(log: SyncedReplica, rewards: Mapping[int, float], now: float) -> list[Row]:
    """The rows for these rewards if all decisions were recently made by this process, on condition
    that no other process has told them; otherwise none."""
    decisions = log.take_recent(list(rewards)) if len(rewards) <= PART else []
    whole = log.replica.whole
    return [row.rewarded(REWARD, rewards[row.number], now, whole=whole) for row in decisions]


def reward_rows(
    log: SyncedReplica, rewards: Mapping[int, float], kind: int, now: float
) -> list[Row]:
    """The rows for the rewards that are not yet in the log.

    Raises if a decision is unknown, or has been told a different reward.
    """
    rows = []
    whole = log.replica.whole
    for numbers in _parts(list(rewards)):
        decisions: dict[int, Row] = {}
        told: dict[int, list[Row]] = {number: [] for number in numbers}
        defaulted = set()
        for values in log.store.find(log.record.id, numbers):
            row = Row(*values)
            if row.kind == DECISION:
                decisions[row.number] = row
            elif row.kind == DEFAULT:
                defaulted.add(row.number)
            else:
                told[row.number].append(row)
        for number in numbers:
            reward, before = rewards[number], number in defaulted
            if number not in decisions:
                raise _unknown(log, number)
            if not told[number] and not (before and kind == DEFAULT):
                row = decisions[number]
                rows.append(row.rewarded(kind, reward, now, replaces_default=before, whole=whole))
            elif kind == REWARD and all(each.reward != reward for each in told[number]):
                raise already_told(log.record, number, _latest(told[number]).reward, reward)
    return rows


# --- default rewards ---


def give_defaults(log: SyncedReplica) -> bool:
    """Give the default reward to decisions pending for too long, oldest first, within a time limit;
    return whether none are left."""
    after, default = log.record.reward_after, log.record.default_reward
    if after is None or default is None:
        return True
    log.sync()
    now, end = log.now(), clock.monotonic() + DEFAULTS_TIME
    while due := log.replica.due(now - after, DEFAULTS_PART):
        give_default(log, due, default, now)
        log.sync()
        if clock.monotonic() > end:
            return False
    return True


def give_default(log: SyncedReplica, numbers: list[int], reward: float, now: float) -> None:
    """Record the default reward of decisions without a reward."""
    rewards = dict.fromkeys(numbers, reward)
    while rows := reward_rows(log, rewards, DEFAULT, now):
        if log.append(rows):
            return


# --- corrections ---


def correct(log: SyncedReplica, number: int, reward: float, reason: str) -> None:
    """Replace the reward of a decision."""
    now = log.now()
    while True:
        log.sync()
        row = correction_row(log, number, reward, reason, now)
        if row is None:
            log.store.settle()  # it is in the log, but perhaps not yet on disk
            return
        try:
            if log.store.append(log.record.id, [row]) is not None:
                return  # it is read with the next call, like rows of other processes
        except Reconnected:
            log.fold()


def correction_row(
    log: SyncedReplica, number: int, reward: float, reason: str, now: float
) -> Row | None:
    """The row that corrects the reward of a decision; None if it is the current reward."""
    rows = [Row(*values) for values in log.store.find(log.record.id, [number])]
    told = [row for row in rows if row.kind in (REWARD, CORRECTION)]
    if not rows:
        raise _unknown(log, number)
    if not told:
        raise not_told(log.record, number)
    latest = _latest(told)
    wrong = float(latest.reward or 0.0)
    if wrong == reward:
        return None
    if latest.kind == CORRECTION and latest.ordinal >= MAX_CORRECTIONS:
        id, expected = log.record.decision_id(number), "a decision with fewer corrections"
        raise InvalidArgument("decision", id, expected)
    return latest.corrected(reward, reason, now, refold=log.replica.must_refold(wrong, reward))


def _latest(told: list[Row]) -> Row:
    """The row with the current reward: the last correction, or the reward itself."""
    return max(told, key=lambda row: row.ordinal if row.kind == CORRECTION else 0)


def _parts(items: list[T]) -> Iterator[list[T]]:
    for first in range(0, len(items), PART):
        yield items[first : first + PART]


def decision_number(record: Record, decision: Decision | str) -> int:
    """The number of a decision of this experiment."""
    id = decision.id if isinstance(decision, Decision) else decision
    if not isinstance(id, str):
        raise InvalidArgument("decision", id, "a decision or its id")
    tag, _, number = id.rpartition("-")
    known = tag == record.tag and number.isascii() and number.isdecimal()
    if not known or number.startswith("0") or len(number) > 18 or int(number) > MAX_COUNT:
        raise unknown_decision(id)
    return int(number)


# --- errors ---


def _unknown(log: SyncedReplica, number: int) -> RolfError:
    """The error for a decision that is not in the log."""
    check_exists(log.store, log.record)
    return unknown_decision(log.record.decision_id(number))


def unknown_decision(id: str) -> UnknownDecision:
    return UnknownDecision(f"decision {id!r} was not issued by this experiment", id)


def already_told(record: Record, number: int, told: object, reward: float) -> AlreadyTold:
    id = record.decision_id(number)
    return AlreadyTold(
        f"decision {id!r} has been told the reward {told!r} already, not {reward!r}; "
        "if that was wrong, correct it",
        id,
    )


def not_told(record: Record, number: int) -> UntoldDecision:
    id = record.decision_id(number)
    return UntoldDecision(f"decision {id!r} has no reward to correct; tell it one", id)
