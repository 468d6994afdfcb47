"""Routes for decisions and rewards."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Response

from rolf.experiments import batch
from rolf.service.dependencies import Caller, Calling, Route, needs
from rolf.service.http.answers import answer
from rolf.service.http.errors import Problem
from rolf.service.schemas.body import ONE_ROUND
from rolf.service.schemas.requests import Ask, Correct, IdempotencyKey, Learn, OneOrMany, ToldMany
from rolf.service.schemas.responses import Corrected, Decisions, Learned, Recorded

router = APIRouter(route_class=Route, prefix="/v1/experiments/{name}")


@router.post("/ask", response_model=Decisions, openapi_extra=needs("decide", **ONE_ROUND))
async def ask(
    caller: Calling,
    name: str,
    wanted: Ask,
    idempotency_key: Annotated[IdempotencyKey | None, Header()] = None,
) -> Response:
    """Decide which arms to play; the decisions are stored before the answer is sent.

    With an `Idempotency-Key`, asking again gives the same decisions, even after a crash and from
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
    await caller.service.batcher.submit(name, asked, caller)
    caller.service.metrics.decisions.inc(asked.new)
    return answer({"decisions": [decision.to_dict() for decision in asked.decisions]})


@router.post("/tell", response_model=Recorded, openapi_extra=needs("decide"))
async def tell(caller: Calling, name: str, told: OneOrMany) -> Response:
    """Tell the rewards of decisions, all or none; telling the same again changes nothing."""
    rewards = told.rewards if isinstance(told, ToldMany) else [told]
    check_size(caller, len(rewards), "rewards")
    told_now = batch.Tell([(each.id, each.reward) for each in rewards])
    await caller.service.batcher.submit(name, told_now, caller)
    caller.service.metrics.rewards.inc(told_now.new)
    return answer({"told": len(told_now.numbered), "new": told_now.new})


@router.post("/correct", response_model=Corrected, openapi_extra=needs("admin"))
def correct(caller: Calling, name: str, right: Correct) -> Response:
    """Correct a reward that was wrong; the log keeps both, and the reason."""
    caller.experiment(name).correct(right.id, right.reward, right.reason)
    return answer({"id": right.id, "reward": right.reward})


@router.post("/learn", response_model=Learned, openapi_extra=needs("admin"))
def learn(caller: Calling, name: str, past: Learn) -> Response:
    """Learn from rounds from before the experiment, all or none."""
    check_size(caller, len(past.arms), "rounds", 10)

    learned = caller.experiment(name).learn(
        past.arms,
        past.rewards,
        features=past.features,
        context=past.context,
        probabilities=past.probabilities,
        source=past.source,
    )
    return answer({"learned": learned})


def check_size(caller: Caller, count: int, what: str, times: int = 1) -> None:
    """Raise if a request is about too many things."""
    most = times * caller.service.settings.max_batch
    if count > most:
        raise Problem("too-large", f"{count} {what}; up to {most} at a time")
