"""Routes that show what is known: status, pending decisions, estimates and the diagnosis."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query, Response

from rolf.diagnosis.diagnose import diagnose
from rolf.errors import ExperimentError, InvalidArgument
from rolf.experiments.experiment import Experiment
from rolf.experiments.roster import Roster
from rolf.experiments.status.pending import LATEST
from rolf.experiments.status.result import Status
from rolf.experiments.status.timeline import read_outcomes
from rolf.experiments.storage.contract import log_rows
from rolf.logs.log import Log
from rolf.service.dependencies import Calling, Route, needs
from rolf.service.http.answers import answer
from rolf.service.schemas.body import ONE_ROUND
from rolf.service.schemas.requests import Question
from rolf.service.schemas.responses import (
    BELIEF,
    DiagnosisShown,
    Estimates,
    PendingShown,
    StatusShown,
)

router = APIRouter(route_class=Route, prefix="/v1/experiments/{name}")

Sort = Literal["added", "arm", "plays", "told", "mean", "estimate", "best"]


@router.get("/status", response_model=StatusShown, openapi_extra=needs("read"))
def status(
    caller: Calling,
    name: str,
    control: Annotated[str | None, Query(max_length=1_000)] = None,
    timeline: bool = False,
    top: Annotated[int | None, Query(ge=1, le=100_000)] = None,
    search: Annotated[str | None, Query(max_length=1_000)] = None,
    sort: Sort = "added",
) -> Response:
    """Counts, beliefs and uplift, of all arms or of some.

    `search` keeps arms whose names contain a text, `sort` puts the largest first (names in their
    order), and `top` keeps only the first of them.
    """

    experiment = caller.experiment(name)
    label = None if control is None else _label(experiment, control)
    now = caller.service.results.get(
        ("status", name, experiment.record.tag, control, timeline),
        lambda: experiment.status(control=label, timeline=timeline),
    )
    data = now.to_dict()
    arms = data["arms"]
    active = [arm for arm in arms if arm["active"] and arm["best"] is not None]
    best = max(active, key=lambda arm: arm["best"], default=None)
    data["best"] = best and {"arm": best["arm"], "probability": best["best"]}
    data["all_arms"] = len(arms)
    if search:
        wanted = search.casefold()
        arms = [arm for arm in arms if wanted in str(arm["arm"]).casefold()]
    data["matching_arms"] = len(arms)
    if sort == "arm":
        arms = sorted(arms, key=lambda arm: str(arm["arm"]))
    elif sort != "added":
        arms = sorted(arms, key=lambda arm: -_known(arm[sort]))
    data["arms"] = arms[:top]
    return answer(data)


def _known(value: float | None) -> float:
    return -np.inf if value is None else value


def _label(experiment: Experiment, text: str) -> Any:
    """An arm whose name is given as text but may be a number: 1.0 or, as browsers write it, 1."""
    for label in experiment.arms:
        if text == str(label) or (isinstance(label, float) and text == f"{label:.17g}"):
            return label
    raise InvalidArgument("control", text, "the name of an arm")


@router.get("/pending", response_model=PendingShown, openapi_extra=needs("read"))
def pending(
    caller: Calling, name: str, limit: Annotated[int, Query(ge=1, le=LATEST)] = 100
) -> Response:
    """The latest decisions without a reward, the latest first; up to `limit` of them.

    Only the latest 1,000 decisions are looked at; `total` counts all that are pending.
    """

    experiment = caller.experiment(name)
    found = caller.service.results.get(
        ("pending", name, experiment.record.tag, limit), lambda: experiment.pending(limit)
    )
    decisions = [decision._asdict() for decision in found.decisions]
    return answer({**found._asdict(), "decisions": decisions})


@router.get("/estimates", response_model=Estimates, openapi_extra=needs("read"))
def estimates(caller: Calling, name: str) -> Response:
    """The estimated mean reward of every arm, an interval, and the probability that it is best."""

    experiment = caller.experiment(name)
    now = caller.service.results.get(
        ("status", name, experiment.record.tag, None, False), experiment.status
    )
    return _believed(now)


@router.post("/estimates", response_model=Estimates, openapi_extra=needs("read", **ONE_ROUND))
def estimates_in_round(caller: Calling, name: str, question: Question) -> Response:
    """The same in a round: with its features or in its context, at another level of the intervals,
    with the probability that each is the best of some arms."""
    digest = hashlib.sha256(question.model_dump_json().encode()).digest()
    experiment = caller.experiment(name)
    text = caller.service.results.get(  # many rounds may be kept: text is smaller than objects
        ("estimates", name, experiment.record.tag, digest),
        lambda: _believed(experiment.status_in_round(**dict(question))).body,
    )
    return Response(text, media_type="application/json")


def _believed(now: Status) -> Response:
    """What a status says about the arms."""
    arms = [{field: getattr(arm, field) for field in BELIEF} for arm in now.arms]
    return answer({"policy": now.policy, "posterior_of": now.posterior_of, "arms": arms})


@router.get("/diagnosis", response_model=DiagnosisShown, openapi_extra=needs("read"))
def diagnosis(
    caller: Calling,
    name: str,
    level: Annotated[float, Query(gt=0.0, lt=1.0)] = 0.95,
) -> Response:
    """Whether the features explain the rewards, in plain words and in numbers."""

    experiment = caller.experiment(name)
    found = caller.service.results.get(
        ("diagnosis", name, experiment.record.tag, level), lambda: _diagnosis(experiment, level)
    )
    return answer(found)


def _diagnosis(experiment: Experiment, level: float) -> dict[str, Any]:
    with experiment.current() as replica:
        policy, roster, last = replica.policy, replica.roster, replica.last
    if policy.varying and policy.context is None:
        raise ExperimentError("features come with every ask, so arms have none to judge")
    rows = log_rows(experiment.synced.store, experiment.record, 0, last)
    outcomes = read_outcomes(Roster.loads(experiment.record.features), rows)
    known = ~np.isnan(outcomes.rewards)
    if not known.any():
        return {"verdict": "not enough data", "reason": "no decision has a reward yet"}
    labels = roster.arms.labels
    arms = [labels[arm] for arm in outcomes.arms[known].tolist()]
    log = Log(arms, outcomes.probabilities[known], outcomes.rewards[known])
    found = diagnose(log, roster.arms, level=level, progress=False)
    return {**found.to_dict(), "text": str(found)}
