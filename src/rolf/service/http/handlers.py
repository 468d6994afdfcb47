"""How errors become answers."""

from __future__ import annotations

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from rolf.errors import RolfError
from rolf.service.dependencies import Caller
from rolf.service.http.errors import Problem, problem_of
from rolf.service.http.middleware import CutOff

#: problems that are found before the key is looked at
UNCHECKED = {"bad-request", "not-found", "method-not-allowed", "too-large"}
UNCHECKED |= {"unsupported-media-type", "invalid"}


async def on_error(request: Request, error: Exception) -> Response:
    """The answer to an error. Callers that may not do this anyway are told nothing else."""
    if isinstance(error, CutOff):
        return Response()  # which is not sent: another has begun
    problem = problem_of(error)
    caller = Caller(request)
    if caller.visit.key is None and problem.slug in UNCHECKED and caller.scope is not None:
        try:
            await run_in_threadpool(caller.check, request.path_params.get("name"))
        except (Problem, RolfError) as refusal:
            problem = problem_of(refusal)
    caller.visit.problem = problem.slug
    return problem.response(caller.visit.id)
