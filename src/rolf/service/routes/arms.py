"""Routes for the arms of an experiment."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Response

from rolf.errors import InvalidArgument
from rolf.service.dependencies import Calling, Route, needs
from rolf.service.http.answers import answer
from rolf.service.routes.decisions import check_size
from rolf.service.routes.experiments import table_of
from rolf.service.schemas.requests import Labels, MoreArms, NewFeatures
from rolf.service.schemas.responses import Added, ArmsShown, Changed, Updated

router = APIRouter(route_class=Route, prefix="/v1/experiments/{name}/arms")


@router.get("", response_model=ArmsShown, openapi_extra=needs("read"))
def list_arms(caller: Calling, name: str) -> Response:
    """All arms, retired ones included, with their features as numbers."""
    arms = caller.experiment(name).arm_table()
    return answer({"arms": [asdict(arm) for arm in arms]})


@router.post("", response_model=Added, status_code=201, openapi_extra=needs("admin"))
def add_arms(caller: Calling, name: str, more: MoreArms) -> Response:
    """Add arms, described like those that are there."""
    table = table_of(caller, more.arms, more.features)
    experiment = caller.experiment(name)
    with caller.service.experiments.notes() as notes:
        added = experiment.add_arms(table)
    return answer({"added": added, "notes": notes}, 201)


@router.post("/update", response_model=Updated, openapi_extra=needs("admin"))
def update_features(caller: Calling, name: str, new: NewFeatures) -> Response:
    """Correct the features of some or all arms; what was learned is computed again."""
    table = table_of(caller, new.arms, new.features)
    if new.of is not None:
        if new.features is None or len(set(new.of)) != len(new.features):
            raise InvalidArgument("of", new.of, "a different arm for every row of features")
        table = dict(zip(new.of, new.features, strict=True))
    experiment = caller.experiment(name)
    with caller.service.experiments.notes() as notes:
        experiment.update_features(table)
    return answer({"notes": notes})


@router.post("/retire", response_model=Changed, openapi_extra=needs("admin"))
def retire_arms(caller: Calling, name: str, some: Labels) -> Response:
    """Stop choosing arms; rewards of decisions already made can still be told."""
    check_size(caller, len(some.arms), "arms")
    caller.experiment(name).retire_arms(some.arms)
    return answer({"arms": some.arms})


@router.post("/restore", response_model=Changed, openapi_extra=needs("admin"))
def restore_arms(caller: Calling, name: str, some: Labels) -> Response:
    """Choose retired arms again, with everything that is known about them."""
    check_size(caller, len(some.arms), "arms")
    caller.experiment(name).restore_arms(some.arms)
    return answer({"arms": some.arms})
