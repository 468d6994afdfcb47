"""Every call of an experiment on a service, as requests and what their answers mean."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from rolf.arms.table import Arms, number_table
from rolf.checks import MAX_BATCH, MAX_KEY, as_number, whole
from rolf.client.arguments import (
    decision_id,
    fits_header,
    plain,
    plain_context,
    table_of_arms,
    warn_of,
)
from rolf.client.exchange import Call, Request
from rolf.errors import InvalidArgument, RequestTooLarge, ServiceError
from rolf.tables.raw import index_labels
from rolf.types import Decision, FloatArray

if TYPE_CHECKING:
    from rolf.client.experiment import RemoteExperiment
    from rolf.experiments.log.decisions import LoggedDecision
    from rolf.experiments.status.pending import Pending
    from rolf.experiments.status.result import ArmRecord, Counts, Status


def path(name: str, *parts: str) -> str:
    """The path of an experiment, or of something of it."""
    return "/".join(["/v1/experiments", quote(name, safe=""), *parts])


# --- decisions and rewards ---


def ask(
    experiment: RemoteExperiment,
    *,
    available: Iterable[Any] | None = None,
    features: Any = None,
    context: Any = None,
    idempotency_key: str | None = None,
) -> Call[Decision]:
    """Decide which arm to play next; the decision is durable when this returns.

    Args:
        available: the arms to choose from; by default all that are not retired.
        features: (K, d) features of this round, for policies that take them.
        context: of this round, for policies that were created with one: its entries by name,
            or in order.
        idempotency_key: asking again with the same key, also after a crash of this process,
            gives the same decision; asking for something else with it is refused. Without one,
            every call has a key of its own, so that its retries decide once.
    """
    given = {"available": available, "features": features, "context": context}
    decisions = yield from _decisions(experiment, None, idempotency_key, **given)
    return decisions[0]


def ask_many(
    experiment: RemoteExperiment,
    n: int,
    *,
    available: Iterable[Any] | None = None,
    features: Any = None,
    context: Any = None,
    distinct: bool = False,
    idempotency_key: str | None = None,
) -> Call[list[Decision]]:
    """Make several decisions before any of them is rewarded.

    Args:
        n: how many; at most 100,000, and at most 1,000 with an idempotency key.
        available: as in ``ask``.
        features: as in ``ask``.
        context: as in ``ask``.
        distinct: a slate, ``n`` different arms.
        idempotency_key: as in ``ask``.
    """
    n = whole("n", n, 1, MAX_BATCH)
    given = {"available": available, "features": features, "context": context}
    return (yield from _decisions(experiment, n, idempotency_key, distinct=distinct, **given))


def _decisions(
    experiment: RemoteExperiment,
    n: int | None,
    key: str | None,
    *,
    available: Any,
    features: Any,
    context: Any,
    distinct: bool = False,
) -> Call[list[Decision]]:
    count = 1 if n is None else n
    given = yield from round_given(experiment, available, features, context)
    if distinct:
        given["distinct"] = distinct

    def request(first: int, size: int) -> Request:
        wanted = given if n is None else {"n": size, **given}
        headers = {"Idempotency-Key": uuid.uuid4().hex if key is None else _checked_key(key)}
        return Request("POST", path(experiment.name, "ask"), wanted, headers=headers)

    if key is None and not distinct:
        answers = yield from _in_parts(experiment, count, request, remember=features is None)
    else:
        answers = [(yield request(0, count))]
    return [_decision(each) for answer in answers for each in answer["decisions"]]


def round_given(
    experiment: RemoteExperiment, available: Any, features: Any, context: Any
) -> Call[dict[str, Any]]:
    """What is given of a round, as a request says it."""
    if index_labels(features) is not None:
        features = yield from _ordered(experiment, features)
    body = {
        "available": None if available is None else plain("available", _listed(available)),
        "features": None if features is None else number_table(features).tolist(),
        "context": None if context is None else plain_context(context),
    }
    return {name: value for name, value in body.items() if value is not None}


def _in_parts(
    experiment: RemoteExperiment,
    count: int,
    request: Callable[[int, int], Request],
    remember: bool = True,
) -> Call[list[Any]]:
    """The answers about so many things, as many at a time as the service takes.

    ``request`` makes the request about some of them: the first, and how many; ``remember``: how
    many it may be does not depend on what they are.
    """
    line, answers, first = experiment._line, [], 0
    part = line.part
    while first < count:
        size = min(part, count - first)
        try:
            answer = yield request(first, size)
        except RequestTooLarge:
            if size == 1:
                raise
            part = (size + 1) // 2
            continue
        if remember:
            line.part = min(part, line.part)
        answers.append(answer)
        first += size
    return answers


def _ordered(experiment: RemoteExperiment, features: Any) -> Call[FloatArray]:
    """The rows of a DataFrame, whose index names the arms, in the order of the arms."""
    known = yield from arm_table(experiment)
    table = np.array([list(each.features.values()) for each in known], dtype=np.float64)
    labels = named([each.arm for each in known])
    return Arms(table, labels, list(known[0].features)).round_features(features)


def named(labels: list[Any]) -> list[Any] | None:
    """The names of arms; None if they only have numbers."""
    return None if labels == list(range(len(labels))) else labels


def _listed(available: Any) -> list[Any]:
    if isinstance(available, str) or not isinstance(available, Iterable):
        raise InvalidArgument("available", available, "a list of arms")
    return list(available)


def _checked_key(key: Any) -> str:
    if not fits_header(key) or len(key) > MAX_KEY:
        expected = f"ASCII text without blanks, up to {MAX_KEY} characters: it is sent in a header"
        raise InvalidArgument("idempotency_key", key, expected)
    return str(key)


def _decision(data: Mapping[str, Any]) -> Decision:
    chance = data["probability"]
    return Decision(
        data["id"],
        data["arm"],
        math.nan if chance is None else chance,
        data["greedy"],
        data["matched"],
    )


def tell(experiment: RemoteExperiment, decision: Decision | str, reward: float) -> Call[None]:
    """Record a reward: late, in any order, from anywhere; durable when this returns.

    Telling the same reward again changes nothing; a different one is refused. Of a reward that
    was corrected, both what was told and what it was corrected to count as the same.
    """
    body = {"id": decision_id(decision), "reward": as_number(reward)}
    yield Request("POST", path(experiment.name, "tell"), body)


def tell_many(
    experiment: RemoteExperiment,
    rewards: Mapping[str, float] | Iterable[tuple[Decision | str, float]],
) -> Call[int]:
    """Record many rewards, all or none: pairs, or a mapping by id.

    They are sent 1,000 at a time, or as many as the service takes, and what holds for all of them
    holds for each part. If that is cut short, the same call again completes it.

    Returns:
        How many of them were not on record before. Those whose first answer was lost on the way
        were, when they were sent again.
    """
    pairs = rewards.items() if isinstance(rewards, Mapping) else rewards
    told = []
    try:
        for decision, reward in pairs:
            told.append({"reward": as_number(reward), "id": decision_id(decision)})
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument("rewards", rewards, "pairs of an id and a reward") from None

    def request(first: int, size: int) -> Request:
        body = {"rewards": told[first : first + size]}
        return Request("POST", path(experiment.name, "tell"), body)

    answers = yield from _in_parts(experiment, len(told), request)
    return sum(answer["new"] for answer in answers)


def correct(
    experiment: RemoteExperiment, decision: Decision | str, reward: float, reason: str
) -> Call[None]:
    """Put the right reward in the place of a wrong one; durable when this returns.

    Args:
        decision: one that has been told a reward, or its id.
        reward: the right one.
        reason: why the other one was wrong.
    """
    body = {"id": decision_id(decision), "reward": as_number(reward)}
    yield Request("POST", path(experiment.name, "correct"), {**body, "reason": reason})


def learn(
    experiment: RemoteExperiment,
    arms: Any,
    rewards: Any,
    *,
    features: Any = None,
    context: Any = None,
    probabilities: Any = None,
    source: str | None = None,
) -> Call[int]:
    """Learn from rewards of before the experiment; durable when this returns.

    Args:
        arms: the arm of each past round, by its name.
        rewards: its reward.
        features: (n, d) features that each had, for policies that take them with every ask.
        context: (n, m) context that each had, for policies that were created with one.
        probabilities: with which chance each was chosen; uniform by default.
        source: a name for where they come from. The same rounds from the same source are learned
            once, however often they are sent. Without one, every call has a source of its own, so
            that its retries learn once.

    Returns:
        How many rounds were learned; 0 if they were known.
    """
    body = {
        "arms": plain("arms", arms),
        "rewards": plain("rewards", rewards),
        "features": None if features is None else plain("features", features),
        "context": None if context is None else plain_context(context),
        "probabilities": None if probabilities is None else plain("probabilities", probabilities),
        "source": uuid.uuid4().hex if source is None else source,
    }
    given = {name: value for name, value in body.items() if value is not None}
    answer = yield Request("POST", path(experiment.name, "learn"), given)
    return len(given["rewards"]) if source is None else int(answer["learned"])


# --- what is known ---


def describe(experiment: RemoteExperiment) -> Call[dict[str, Any]]:
    """How the experiment was created, and its counts, as plain data."""
    answer: dict[str, Any] = yield Request("GET", path(experiment.name))
    return answer


def counts(experiment: RemoteExperiment) -> Call[Counts]:
    """How many decisions were made and how many rewards told, without any estimates."""
    from rolf.experiments.status.result import Counts

    known = yield from describe(experiment)
    return Counts(known["asked"], known["told"])


def status(
    experiment: RemoteExperiment, *, control: Any = None, timeline: bool = False
) -> Call[Status]:
    """Counts of decisions and rewards, every arm's plays and estimate, and the uplift.

    Args:
        control: an arm to compare with; by default an equal share of all active arms.
        timeline: read the whole log for rewards over time.
    """
    from rolf.experiments.status.result import Status

    params = {"timeline": "true"} if timeline else {}
    if control is not None:
        params["control"] = str(control)
    return Status.from_dict((yield Request("GET", path(experiment.name, "status"), params=params)))


def pending(experiment: RemoteExperiment, limit: int = 100) -> Call[Pending]:
    """The latest decisions without a reward, not even the default one, the latest first.

    However long the log is, only the latest 1,000 decisions are looked at.

    Args:
        limit: how many to list; at most 1,000.
    """
    from rolf.experiments.status.pending import LATEST, Pending, PendingDecision

    params = {"most": whole("limit", limit, 1, LATEST)}
    answer = yield Request("GET", path(experiment.name, "waiting"), params=params)
    decisions = [PendingDecision(**each) for each in answer["decisions"]]
    return Pending(decisions, answer["total"], answer["looked_at"])


def arm_table(experiment: RemoteExperiment) -> Call[list[ArmRecord]]:
    """Every arm, retired ones included, with its features and how often it was played."""
    from rolf.experiments.status.result import ArmRecord

    answer = yield Request("GET", path(experiment.name, "arms"))
    return [ArmRecord(**each) for each in answer["arms"]]


def log(experiment: RemoteExperiment) -> Request:
    """The request for the log, a line per decision."""
    return Request("GET", path(experiment.name, "log"), params={"format": "jsonl"})


def logged(line: str) -> LoggedDecision:
    """A decision in a line of a log."""
    from rolf.experiments.log.decisions import LoggedDecision

    try:
        return LoggedDecision.from_dict(json.loads(line))
    except (TypeError, ValueError, LookupError):
        raise ServiceError("the answer to a request for the log is not one of rolf's") from None


# --- changes ---


def add_arms(experiment: RemoteExperiment, features: Any) -> Call[list[Any]]:
    """Add arms and return their names: rows of features, or a DataFrame or file with names.

    If the answer is lost, this is not tried again: it would add arms without names twice.
    """
    body = table_of_arms(features)
    answer = yield Request("POST", path(experiment.name, "arms"), body, repeatable=False)
    warn_of(answer["notes"])
    return list(answer["added"])


def retire_arms(experiment: RemoteExperiment, ids: Any) -> Call[None]:
    """Stop choosing these arms. Rewards of decisions already made can still be told."""
    yield Request("POST", path(experiment.name, "arms", "retire"), _ids(ids))


def restore_arms(experiment: RemoteExperiment, ids: Any) -> Call[None]:
    """Choose retired arms again, with everything that is known about them."""
    yield Request("POST", path(experiment.name, "arms", "restore"), _ids(ids))


def _ids(ids: Any) -> dict[str, Any]:
    listed = [ids] if isinstance(ids, str) or not isinstance(ids, Iterable) else list(ids)
    return {"arms": plain("ids", listed)}


def pause(experiment: RemoteExperiment) -> Call[None]:
    """Make no more decisions until ``resume``; rewards can still be told."""
    yield Request("POST", path(experiment.name, "pause"))


def resume(experiment: RemoteExperiment) -> Call[None]:
    """Make decisions again after ``pause``."""
    yield Request("POST", path(experiment.name, "resume"))


def delete(experiment: RemoteExperiment, *, confirm: str) -> Call[None]:
    """Delete the experiment with all its decisions and rewards; ``confirm`` is its name."""
    if confirm != experiment.name:
        raise InvalidArgument("confirm", confirm, f"the experiment's name, {experiment.name!r}")
    params = {"confirm": confirm}
    yield Request("DELETE", path(experiment.name), params=params, deletes=True)
