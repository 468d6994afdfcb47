"""What routes depend on: the state of the service, who calls, and requests of strict JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute
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
from rolf.service.schemas.body import EARLY_BYTES, MAX_ENTRIES, BodyForm
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
        self.parsing = ThreadPoolExecutor(1, thread_name_prefix="rolf-parse")
        self.closing = False

    def close(self) -> None:
        self.batcher.close()
        self.parsing.shutdown()
        self.experiments.close()


def needs(scope: Scope, **more: Any) -> dict[str, Any]:
    """The scope that a route needs, for its description, and what else is said there."""
    return {"x-scope": scope, **more}


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
    """A request with a body, which is read, and then taken as its form."""

    async def read(self, authenticate: Callable[[], Awaitable[None]]) -> bytes:
        """The body. All of a large one is read for authenticated callers only."""
        length = self.headers.get("content-length", "")
        stranger = not length.isdecimal() or int(length) <= EARLY_BYTES
        if not stranger:
            await authenticate()
        parts: list[bytes] = []
        size = 0
        async for part in self.stream():
            parts.append(part)
            size += len(part)
            if stranger and size > EARLY_BYTES:
                await authenticate()
                stranger = False
        self._body = b"".join(parts)
        return self._body

    def take(self, form: Any) -> None:
        """Take a form as the content of the body."""
        self._json = form


class Route(APIRoute):
    """A route that takes the parameters of its description, and a body of strict JSON.

    Strangers can have a few kilobytes parsed, and no more. What is larger is parsed by a thread of
    its own, and limited in what takes long to parse.
    """

    def get_route_handler(self) -> Callable[[Request], Any]:
        handle = super().get_route_handler()
        form = None
        if self.body_field is not None:
            described = self.openapi_extra or {}
            most = described.get("x-max-entries", MAX_ENTRIES)
            form = BodyForm(self.body_field.field_info, most)
        parameters = {field.alias for field in self.dependant.query_params}

        async def strict(request: Request) -> Response:
            service: Service = request.app.state.service
            service.auth.check_form(request.headers.get("authorization"))
            for name in request.query_params if request.scope["query_string"] else ():
                if name not in parameters:
                    wanted = f"one of {', '.join(sorted(parameters))}" if parameters else "none"
                    raise InvalidArgument("names of parameters", name, wanted)
            if form is not None:
                kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
                if kind != "application/json":
                    raise Problem("unsupported-media-type", "send Content-Type: application/json")
                request = StrictRequest(request.scope, request.receive)
                caller = Caller(request)

                async def authenticate() -> None:
                    await run_in_threadpool(caller.check, request.path_params.get("name"))

                body = await request.read(authenticate)
                if len(body) > EARLY_BYTES:
                    loop = asyncio.get_running_loop()
                    request.take(await loop.run_in_executor(service.parsing, form.parsed, body))
                elif body:
                    request.take(form.parsed(body))
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
