"""What routes depend on: the state of the service, who calls, and requests of strict JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.concurrency import run_in_threadpool

from rolf.errors import InvalidArgument, RolfError
from rolf.experiments.experiment import Experiment
from rolf.service.auth import ApiKey, Auth, Scope, note
from rolf.service.batching import Batcher
from rolf.service.http.errors import CutOff, Problem, problem_of
from rolf.service.http.metrics import Metrics
from rolf.service.http.middleware import RequestInfo
from rolf.service.open_experiments import OpenExperiments
from rolf.service.result_cache import Results
from rolf.service.settings import Settings

#: problems that are found before the key is checked
EARLY = {"bad-request", "not-found", "method-not-allowed", "too-large"}
EARLY |= {"unsupported-media-type", "invalid"}


class Service:
    """The state of this process: everything that lasts is in the database."""

    def __init__(self, settings: Settings, experiments: OpenExperiments) -> None:
        self.settings = settings
        self.experiments = experiments
        self.metrics = Metrics()
        self.results = Results()
        self.auth = Auth(
            experiments.store, settings.rate, settings.burst, keyless=settings.insecure_local
        )
        self.batcher = Batcher(self.auth, experiments)
        self.closing = False

    def close(self) -> None:
        self.batcher.close()
        self.experiments.close()


def needs(scope: Scope) -> dict[str, Any]:
    """The scope that a route needs, for its description."""
    return {"x-scope": scope}


class Caller:
    """Who makes a request, and what they may use."""

    __slots__ = ("header", "info", "scope", "service")

    def __init__(self, request: Request) -> None:
        self.service: Service = request.app.state.service
        self.info: RequestInfo = request.scope["request_info"]
        self.header: str | None = request.headers.get("authorization")
        extra = getattr(request.scope.get("route"), "openapi_extra", None) or {}
        keyed = request.scope["path"].startswith("/v1/")
        self.scope: str | None = extra.get("x-scope", "read" if keyed else None)

    def check(self, experiment: str | None = None) -> ApiKey:
        """The caller's key, if it allows what the route needs."""
        auth = self.service.auth
        key = auth.authenticate(self.header)
        note(self.info, key, experiment)
        auth.authorize(key, self.scope, experiment)
        return key

    def experiment(self, name: str) -> Experiment:
        """An experiment, if the caller may use it."""
        self.check(name)
        return self.service.experiments.current(name)


async def _caller(request: Request) -> Caller:
    return Caller(request)


Calling = Annotated[Caller, Depends(_caller)]


class StrictRequest(Request):
    """A request whose body is JSON as the standard has it: no NaN, no lone surrogates, and no
    endless nesting."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            try:
                self._json = from_json(await self.body(), allow_inf_nan=False)
            except ValueError as error:
                raise HTTPException(400, f"the body is not JSON: {error}") from None
        return self._json


class Route(APIRoute):
    """A route that takes the parameters of its description, and a body of strict JSON."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        handle = super().get_route_handler()
        takes_body = self.body_field is not None
        parameters = {field.alias for field in self.dependant.query_params}

        async def strict(request: Request) -> Response:
            service: Service = request.app.state.service
            service.auth.check_form(request.headers.get("authorization"))
            for name in request.query_params if request.scope["query_string"] else ():
                if name not in parameters:
                    wanted = f"one of {', '.join(sorted(parameters))}" if parameters else "none"
                    raise InvalidArgument("names of parameters", name, wanted)
            if takes_body:
                kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
                if kind != "application/json":
                    raise Problem("unsupported-media-type", "send Content-Type: application/json")
                request = StrictRequest(request.scope, request.receive)
            response: Response = await handle(request)
            return response

        return strict


async def on_error(request: Request, error: Exception) -> Response:
    """The answer to an error. Callers without the right to the request learn only that."""
    if isinstance(error, CutOff):
        return Response()  # which is not sent: another has started
    problem = problem_of(error)
    caller = Caller(request)
    if caller.info.key is None and problem.slug in EARLY and caller.scope is not None:
        try:
            await run_in_threadpool(caller.check, request.path_params.get("name"))
        except (Problem, RolfError) as refusal:
            problem = problem_of(refusal)
    caller.info.problem = problem.slug
    return problem.response(caller.info.id)
