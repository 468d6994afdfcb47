"""Batches: asks and tells that arrive together are written together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, TypeAlias

import numpy as np

from rolf.checks import MAX_BATCH, whole
from rolf.errors import DecisionError, DifferentRequest, InvalidArgument, RolfError, StorageError
from rolf.experiments.log import rewards
from rolf.experiments.log.idempotency import Answer, Request, answers
from rolf.experiments.log.replica import Replica
from rolf.experiments.log.synced import Attempt, SyncedReplica
from rolf.experiments.storage.contract import MAX_TEXT, PART, part_size
from rolf.experiments.storage.rows import Row
from rolf.policies.core.rounds import Round
from rolf.policies.policy import slate_size
from rolf.types import Decision

Pairs: TypeAlias = Mapping[str, float] | Iterable[tuple[Decision | str, float]]


class Ask:
    """A request for decisions, as in ``Experiment.ask_many``; later the decisions, or an error.

    Attributes:
        decisions: the decisions made so far.
        new: how many of them were not in the log before.
        error: why the decisions could not be made.
    """

    def __init__(
        self,
        n: int = 1,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        distinct: bool = False,
        idempotency_key: str | None = None,
    ) -> None:
        self.count = whole("n", n, 1, MAX_BATCH if idempotency_key is None else PART)
        self.available = list(available) if isinstance(available, Iterator) else available
        self.features, self.context, self.distinct = features, context, distinct
        self.request: Request | None = None
        if idempotency_key is not None:
            self.request = Request(
                idempotency_key,
                n=self.count,
                available=self.available,
                features=features,
                context=context,
                distinct=distinct,
            )
        self.chosen: list[int] = []
        self.decisions: list[Decision] = []
        self.new = 0
        self.error: RolfError | None = None

    @property
    def unfinished(self) -> bool:
        return self.error is None and len(self.decisions) < self.count

    def result(self) -> list[Decision]:
        """The decisions; raises if they could not be made."""
        if self.error is not None:
            raise self.error
        return self.decisions


class Tell:
    """Rewards to record, all or none, as in ``Experiment.tell_many``; later the number of new ones,
    or an error.

    Attributes:
        numbered: the rewards by decision number, once checked.
        new: how many of them were not in the log before.
        error: why the rewards could not be recorded.
    """

    def __init__(self, rewards: Pairs) -> None:
        self.rewards = rewards
        self.numbered: dict[int, float] = {}
        self.new = 0
        self.error: RolfError | None = None

    def result(self) -> int:
        """The number of new rewards; raises if they could not be recorded."""
        if self.error is not None:
            raise self.error
        return self.new


#: asks with the rows of their decisions
Answered: TypeAlias = list[tuple[Ask, list[Row]]]


def write(log: SyncedReplica, asks: Sequence[Ask], tells: Sequence[Tell]) -> None:
    """Record the rewards and make the decisions, with a single write if possible: rewards of
    decisions recently made by this process need not be looked up.

    Each ask or tell gets its own error. ``tells`` come from ``checked``.
    """
    told = _combined(tells) if tells else {}
    rows = rewards.recent_rows(log, told, log.now()) if asks and told else []
    if tells and not rows:
        _record(log, tells)
    if asks and _decide_all(log, asks, rows):
        _note_new(tells, set(told))
    elif rows:
        _record(log, tells)


# --- decisions ---


def _decide_all(log: SyncedReplica, asks: Sequence[Ask], told: Sequence[Row]) -> bool:
    """Decide for all, one after the other; return whether the rewards ``told`` were written with
    the first decisions."""
    if log.record.reward_after is not None:
        rewards.give_defaults(log)
    written = False
    while unfinished := [ask for ask in asks if ask.unfinished]:
        written |= _decide_some(log, unfinished, told)
        told = ()
    return written


def _decide_some(log: SyncedReplica, asks: Sequence[Ask], told: Sequence[Row]) -> bool:
    """Make the next decisions, up to one write. Rewards of other decisions are written with them if
    possible; return whether they were."""
    keyed = [ask.request for ask in asks if ask.request]
    known: dict[Request, Answer] = {}
    doubtful = False  # until there is a conflict, idempotency keys are assumed to be new
    with closing(log.attempts()) as attempts:
        for attempt in attempts:
            try:
                if doubtful:
                    known, told = answers(log.store, log.record, keyed), ()
                doubtful = True
                answered, rows = _choose(log, attempt, asks, known)
            except StorageError:
                if attempt.certain:
                    raise
                continue
            attempt.append([*rows, *told])
    for ask, decided in answered:
        ask.decisions += log.decisions(decided)
        ask.chosen += [row.arm for row in decided]
        ask.new += sum(row.seq == 0 for row in decided)  # the others were read from the log
    return bool(told)


def _choose(
    log: SyncedReplica, attempt: Attempt, asks: Sequence[Ask], known: Mapping[Request, Answer]
) -> tuple[Answered, list[Row]]:
    """Choose arms for asks, as many as are written at a time, except where the answer is known;
    and the rows to be written."""
    replica = attempt.replica
    answered: Answered = []
    rows: list[Row] = []
    taken = set()
    characters, number, now = 0, replica.issued + 1, log.now()
    with replica.ahead():
        for ask in asks:
            ask.error = None
            request = ask.request
            room = PART - len(rows) - (0 if request is None else ask.count)
            if rows and (room < 0 or len(rows) >= PART or characters >= MAX_TEXT):
                break
            if request is not None and request in known:
                answered.append((ask, _answer(ask, known[request])))
                continue
            if request and request.numbers[0] in taken:
                continue  # the same key twice: the first one is decided first
            try:
                decided = _chosen(replica, ask, number, PART - len(rows), now)
            except StorageError:
                raise
            except RolfError as error:
                ask.error = error
                # what was possible when the key was first used may no longer be
                before = answers(log.store, log.record, [request]) if request else {}
                if request in before:
                    ask.error = None
                    answered.append((ask, _answer(ask, before[request])))
                continue
            answered.append((ask, decided))
            number += len(decided)
            characters += len(decided) * len(decided[0].details or "")  # the same for all
            rows += decided
            if request is not None:
                rows.append(request.row(decided))
                taken.add(request.numbers[0])
    return answered, rows


def _answer(ask: Ask, answer: Answer) -> list[Row]:
    """The decisions already made for an idempotency key."""
    if isinstance(answer, DifferentRequest):
        ask.error = answer
        return []
    return answer


def _chosen(replica: Replica, ask: Ask, number: int, most: int, now: float) -> list[Row]:
    positions = replica.roster.available(ask.available)
    wanted = ask.count - len(ask.decisions)
    if ask.distinct:
        positions = np.setdiff1d(positions, ask.chosen)
        slate_size(ask.count, positions.size + len(ask.chosen))
    features = replica.policy.round_features(ask.features, ask.context)
    details = replica.details_of(features, ask.context)
    if ask.request is None and wanted > 1:
        wanted = min(part_size(len(details or "")), wanted, most)
    numbers = range(number, number + wanted)
    return replica.decide(numbers, Round(positions, features), details, now, ask.distinct)


# --- rewards ---


def checked(log: SyncedReplica, tells: Sequence[Tell]) -> list[Tell]:
    """The tells whose rewards can be recorded."""
    good = []
    for tell in tells:
        try:
            tell.numbered = _numbered(log, tell.rewards)
            if tell.numbered:
                good.append(tell)
        except RolfError as error:
            tell.error = error
    return good


def _numbered(log: SyncedReplica, told: Pairs) -> dict[int, float]:
    """Rewards by decision number."""
    pairs = told.items() if isinstance(told, Mapping) else told
    numbered: dict[int, float] = {}
    try:
        for decision, reward in pairs:
            value = log.replica.policy.check_reward(reward)
            number = rewards.decision_number(log.record, decision)
            if numbered.setdefault(number, value) != value:
                raise rewards.already_told(log.record, number, numbered[number], value)
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument("rewards", told, "pairs of an id and a reward") from None
    return numbered


def _record(log: SyncedReplica, tells: Sequence[Tell]) -> None:
    together = _combined(tells)
    if len(tells) > 1 and together:
        try:
            _note_new(tells, rewards.tell(log, together))
            return
        except DecisionError:  # nothing was recorded: find out which tell is at fault
            pass
    for tell in tells:
        try:
            tell.new = len(rewards.tell(log, tell.numbered))
        except DecisionError as error:
            tell.error = error


def _combined(tells: Sequence[Tell]) -> dict[int, float]:
    """All rewards told; none if some disagree."""
    together: dict[int, float] = {}
    for tell in tells:
        together |= tell.numbered
    agree = all(together[n] == r for each in tells for n, r in each.numbered.items())
    return together if agree else {}


def _note_new(tells: Sequence[Tell], new: set[int]) -> None:
    """Count new rewards: each counts for the first tell that has it."""
    for tell in tells:
        tell.new = len(new & tell.numbered.keys())
        new = new - tell.numbered.keys()
