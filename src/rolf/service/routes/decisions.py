"""Routes for decisions and rewards."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Response

from rolf.experiments import batch
from rolf.experiments.experiment import Experiment
from rolf.service.dependencies import Caller, Calling, Route, answer, needs
from rolf.service.http.errors import Problem
from rolf.service.schemas.requests import (
    Ask,
    Correct,
    Corrected,
    Decisions,
    IdempotencyKey,
    Learn,
    Learned,
    OneOrMany,
    Recorded,
    ToldMany,
)

router = APIRouter(route_class=Route, prefix="/v1/experiments/{name}")


@router.post("/ask", response_model=Decisions, openapi_extra=needs("decide"))
async def ask(
    caller: Calling,
    name: str,
    wanted: Ask,
    idempotency_key: Annotated[IdempotencyKey | None, Header()] = None,
) -> Response:
    """Decide which arms to play; the decisions are stored when the answer comes.

    With an `Idempotency-Key`, asking again gives the same decisions, also after a crash and from
    another instance.
    """
    check_size(caller, wanted.n or 1, "decisions")
    if wanted.features is not None and wanted.n is not None and wanted.n > 1:
        stored = wanted.n * sum(map(len, wanted.features))  # by each decision
        check_size(caller, stored, "numbers in the features of all decisions", 1_000)
    asked = batch.Ask(
        wanted.n or 1,
        available=wanted.available,
        features=wanted.features,
        context=wanted.context,
        distinct=wanted.distinct,
        idempotency_key=idempotency_key,
    )
    await caller.queue(name, asked)
    caller.service.metrics.decisions.inc(asked.new)
    return answer({"decisions": [decision.to_dict() for decision in asked.decisions]})


@router.post("/tell", response_model=Recorded, openapi_extra=needs("decide"))
async def tell(caller: Calling, name: str, told: OneOrMany) -> Response:
    """Tell the rewards of decisions, all or none; to tell the same again changes nothing."""
    rewards = told.rewards if isinstance(told, ToldMany) else [told]
    check_size(caller, len(rewards), "rewards")
    batched = batch.Tell([(each.id, each.reward) for each in rewards])
    await caller.queue(name, batched)
    caller.service.metrics.rewards.inc(batched.new)
    return answer({"told": len(batched.numbered), "new": batched.new})


@router.post("/correct", response_model=Corrected, openapi_extra=needs("admin"))
def correct(caller: Calling, name: str, right: Correct) -> Response:
    """Put the right reward in the place of a wrong one; the log keeps both, and the reason."""
    caller.use(
        name,
        lambda experiment: experiment.correct(right.id, right.reward, right.reason),
    )
    return answer({"id": right.id, "reward": right.reward})


@router.post("/learn", response_model=Learned, openapi_extra=needs("admin"))
def learn(caller: Calling, name: str, past: Learn) -> Response:
    """Learn from rewards of before the experiment, all or none."""
    check_size(caller, len(past.arms), "rounds", 10)

    def work(experiment: Experiment) -> int:
        return experiment.learn(
            past.arms,
            past.rewards,
            features=past.features,
            context=past.context,
            probabilities=past.probabilities,
            source=past.source,
        )

    return answer({"learned": caller.use(name, work)})


def check_size(caller: Caller, count: int, what: str, times: int = 1) -> None:
    """Raise if a request is about too many things."""
    most = times * caller.service.settings.max_batch
    if count > most:
        raise Problem("too-large", f"{count} {what}; up to {most} at a time")
