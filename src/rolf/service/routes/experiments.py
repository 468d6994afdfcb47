"""Routes for experiments as a whole: create, list, show, pause and delete them."""

from __future__ import annotations

import json
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Response

from rolf.errors import InvalidArgument, RolfError
from rolf.experiments.database import Database, ExperimentSummary
from rolf.experiments.experiment import Experiment
from rolf.service.auth import note
from rolf.service.dependencies import Caller, Calling, Route, needs
from rolf.service.http.answers import answer
from rolf.service.http.errors import Problem, unknown_experiment
from rolf.service.routes.decisions import check_size
from rolf.service.schemas.requests import ArmRow, Creation, Table
from rolf.service.schemas.responses import Created, Details, Paused, Summaries, Who

router = APIRouter(route_class=Route, prefix="/v1")

MAX_LISTED = 100


@router.get("/whoami", response_model=Who, openapi_extra=needs("read"))
def whoami(caller: Calling) -> Response:
    """The key of this request, and what it allows."""
    key = caller.check()
    return answer({"key": key.id, "scope": key.scope, "experiment": key.experiment})


@router.get("/experiments", response_model=Summaries, openapi_extra=needs("read"))
def list_experiments(
    caller: Calling,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 50,
    after: Annotated[str | None, Query(max_length=1_000)] = None,
) -> Response:
    """The experiments in the order of their names, page by page."""
    key = caller.check()
    experiments = caller.service.experiments
    names = [
        name
        for name in experiments.store.names()
        if key.experiment in (None, name) and (after is None or name > after)
    ]
    found = []
    for name in names[:limit]:
        try:
            found.append(ExperimentSummary.of(experiments.current(name))._asdict())
        except RolfError:  # deleted just now, or damaged
            record = experiments.store.record(name)
            if record is not None:
                summary = ExperimentSummary(record.name, record.policy, record.created)
                found.append(summary._asdict())
    return answer({"experiments": found, "next": names[limit - 1] if names[limit:] else None})


@router.post("/experiments", response_model=Created, status_code=201, openapi_extra=needs("admin"))
def create_experiment(caller: Calling, new: Creation) -> Response:
    """Create an experiment. Creating it again with the same settings changes nothing."""
    key = caller.check()
    note(caller.info, key, new.name)
    if key.experiment is not None:
        raise Problem("forbidden", "this key is for one experiment")
    experiment, created, notes = caller.service.experiments.create(
        new.name,
        features=table_of(caller, new.arms, new.features),
        policy=new.policy,
        options=new.options,
        context=new.context,
        seed=new.seed,
        default_reward=new.default_reward,
        reward_after=new.reward_after,
    )
    experiment.warm_up()
    place = {"Location": f"/v1/experiments/{quote(new.name)}"}
    return answer({**details(experiment), "notes": notes}, 201 if created else 200, place)


@router.get("/experiments/{name}", response_model=Details, openapi_extra=needs("read"))
def show_experiment(caller: Calling, name: str) -> Response:
    """An experiment: how it was created, and its counts."""
    return answer(details(caller.experiment(name)))


@router.delete("/experiments/{name}", status_code=204, openapi_extra=needs("admin"))
def remove_experiment(caller: Calling, name: str, confirm: Annotated[str, Query()]) -> Response:
    """Delete an experiment with all its decisions and rewards; `confirm` is its name."""
    caller.check(name)
    experiments = caller.service.experiments
    if confirm != name:
        raise InvalidArgument("confirm", confirm, f"the name of the experiment, {name!r}")
    if experiments.store.record(name) is None:
        raise unknown_experiment(name)
    Database(experiments.url).delete(name, confirm=confirm)
    experiments.drop(name)
    return Response(status_code=204)


@router.post("/experiments/{name}/pause", response_model=Paused, openapi_extra=needs("admin"))
def pause(caller: Calling, name: str) -> Response:
    """Make no more decisions until the experiment is resumed; rewards can still be told."""
    caller.experiment(name).pause()
    return answer({"paused": True})


@router.post("/experiments/{name}/resume", response_model=Paused, openapi_extra=needs("admin"))
def resume(caller: Calling, name: str) -> Response:
    """Make decisions again."""
    caller.experiment(name).resume()
    return answer({"paused": False})


def details(experiment: Experiment) -> dict[str, Any]:
    """An experiment by itself."""
    record = experiment.record
    with experiment.current() as replica:
        columns = replica.roster.arms.columns
    return {
        **ExperimentSummary.of(experiment)._asdict(),
        "options": json.loads(record.options),
        "columns": columns,
        "seed": record.seed,
        "default_reward": record.default_reward,
        "reward_after": record.reward_after,
    }


def table_of(caller: Caller, arms: list[ArmRow] | None, features: Table | None) -> Any:
    """The table of arms that a request has: as rows with names, or as numbers."""
    if (arms is None) == (features is None):
        found = "neither" if arms is None else "both"
        raise InvalidArgument("arms, features", found, "one of them")
    rows: list[Any] = arms if arms is not None else features or []
    check_size(caller, len(rows), "arms")
    if arms is None:
        return features
    return [{"arm": row.arm, **(row.model_extra or {})} for row in arms]
