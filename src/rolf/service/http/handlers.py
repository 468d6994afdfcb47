"""How errors become answers."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from rolf.errors import RolfError
from rolf.service.dependencies import Caller
from rolf.service.http.errors import BY_STATUS, KINDS, LISTED, Problem, problem_of
from rolf.service.http.middleware import CutOff

#: problems that are found before the key is looked at
UNCHECKED = {"bad-request", "not-found", "method-not-allowed", "too-large"}
UNCHECKED |= {"unsupported-media-type", "invalid"}


async def on_problem(request: Request, error: Exception) -> Response:
    return await _respond(request, problem_of(error))


async def on_invalid(request: Request, error: Exception) -> Response:
    """A request that does not have the form that its description says."""
    assert isinstance(error, RequestValidationError)
    messages: dict[str, dict[str, None]] = {}
    for each in error.errors()[: 5 * LISTED]:
        messages.setdefault(_where(each, error.body), {})[each["msg"]] = None
    errors = [
        {"where": where, "message": _words(", or: ".join(found))}
        for where, found in [*messages.items()][:LISTED]
    ]
    detail = f"{errors[0]['where']}: {errors[0]['message']}" if errors else "not valid"
    return await _respond(request, Problem("invalid", detail, errors=errors))


def _where(error: Any, body: Any) -> str:
    """The place of an error in a request, without the names of the forms that were tried there."""
    first, *rest = error["loc"]
    if first != "body":
        return ".".join(map(str, error["loc"]))
    place, here = ["body"], body
    for step in rest:
        places = here if isinstance(here, dict) else range(len(here) if type(here) is list else 0)
        if step in places:
            here = here[step]
        elif error["type"] != "missing" or step is not rest[-1]:
            continue
        place.append(str(step))
    return ".".join(place)


def _words(message: str) -> str:
    return message if len(message) <= 300 else message[:297] + "..."


async def on_http(request: Request, error: Exception) -> Response:
    """What the framework refuses: paths and methods that do not exist, for instance."""
    assert isinstance(error, HTTPException)
    slug = BY_STATUS.get(error.status_code, "bad-request")
    detail = str(error.detail or KINDS[slug].title)
    return await _respond(request, Problem(slug, detail, headers=error.headers))


async def on_bug(request: Request, error: Exception) -> Response:
    if isinstance(error, CutOff):
        return Response()  # which is not sent: another has begun
    return await _respond(request, problem_of(error))


async def _respond(request: Request, problem: Problem) -> Response:
    """The answer of a problem. Whoever may not do this anyway is told nothing else."""
    caller = Caller(request)
    if caller.visit.key is None and problem.slug in UNCHECKED and caller.scope is not None:
        try:
            await run_in_threadpool(caller.check, request.path_params.get("name"))
        except (Problem, RolfError) as error:
            problem = problem_of(error)
    caller.visit.problem = problem.slug
    return problem.response(caller.visit.id)
