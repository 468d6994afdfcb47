"""What all routes share: the experiments, who may do what, and how answers are written."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import Depends, HTTPException, Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json

from rolf.errors import InvalidArgument
from rolf.experiments.batch import Ask, Tell
from rolf.experiments.experiment import Experiment
from rolf.experiments.storage.contract import Key
from rolf.service.auth import FORM, LOCAL, Scope, allows, check_key
from rolf.service.batching import Desk, Known
from rolf.service.http.errors import Problem
from rolf.service.http.metrics import Metrics
from rolf.service.http.middleware import Visit
from rolf.service.limits import Buckets
from rolf.service.open_experiments import Handles, unknown
from rolf.service.result_cache import Results
from rolf.service.settings import Settings

T = TypeVar("T")


class Service:
    """The state of this process: everything that lasts is in the database."""

    def __init__(self, settings: Settings, handles: Handles, metrics: Metrics) -> None:
        self.settings = settings
        self.handles = handles
        self.metrics = metrics
        self.buckets = Buckets(settings.rate, settings.burst)
        self.results = Results()
        self.desk = Desk(handles, self._admit_to_decide)
        self.closing = False

    def admit(
        self,
        visit: Visit,
        header: str | None,
        scope: str,
        experiment: str | None = None,
        known: Known | None = None,
    ) -> Key:
        """The key of a request, if it allows something. An experiment that it is not for does not
        exist as far as it is told.

        Keys are looked up every time, as they may be revoked; ``known`` are those of requests that
        are served together.
        """
        known = {} if known is None else known
        if header not in known:
            known[header] = self._key(header)
        key = known[header]
        if key is None:
            raise unauthorized(header)
        visit.key = key.id
        visit.experiment = experiment
        wait = self.buckets.wait_for(key.id)
        if wait:
            words = f"more than {self.settings.rate:g} requests a second"
            raise Problem("too-many-requests", words, headers={"Retry-After": str(wait)})
        if experiment is not None and key.experiment not in (None, experiment):
            raise unknown(experiment)
        if not allows(key, scope):
            words = f"this needs a key with the scope {scope}; this one has {key.scope}"
            raise Problem("forbidden", words)
        return key

    def _key(self, header: str | None) -> Key | None:
        if header is None:
            return LOCAL if self.settings.insecure_local else None
        return check_key(self.handles.store, _sent(header))

    def refuse_at_once(self, header: str | None) -> None:
        """Raise if no key can have been sent; nothing is read or looked up."""
        if header is None and self.settings.insecure_local:
            return
        if header is None or FORM.fullmatch(_sent(header)) is None:
            raise unauthorized(header)

    def _admit_to_decide(
        self, visit: Visit, header: str | None, experiment: str, known: Known
    ) -> None:
        self.admit(visit, header, "decide", experiment, known)

    def close(self) -> None:
        self.desk.close()
        self.handles.close()


def unauthorized(header: str | None) -> Problem:
    words = "the key is not valid" if header else "send Authorization: Bearer <key>"
    return Problem("unauthorized", words, headers={"WWW-Authenticate": "Bearer"})


def _sent(header: str) -> str:
    """The key in a header; empty if it has none."""
    scheme, _, text = header.partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""


def needs(scope: Scope) -> dict[str, Any]:
    """The scope that a route needs, for its description."""
    return {"x-scope": scope}


class Caller:
    """Whoever makes a request."""

    __slots__ = ("header", "scope", "service", "visit")

    def __init__(self, request: Request) -> None:
        self.service: Service = request.app.state.service
        self.visit: Visit = request.scope["visit"]
        self.header = request.headers.get("authorization")
        extra = getattr(request.scope.get("route"), "openapi_extra", None) or {}
        keyed = request.scope["path"].startswith("/v1/")
        self.scope: str | None = extra.get("x-scope", "read" if keyed else None)

    def check(self, experiment: str | None = None) -> Key:
        """The caller's key, if it allows what the route needs."""
        return self.service.admit(self.visit, self.header, self.scope or "read", experiment)

    def use(self, name: str, work: Callable[[Experiment], T], *, check: bool = True) -> T:
        """Do some work with an experiment if the caller may; ``check``: the work itself would not
        notice that it has been deleted."""
        self.check(name)
        return self.service.handles.use(name, work, check=check)

    async def queue(self, name: str, work: Ask | Tell) -> None:
        """Have something done together with what others ask or tell."""
        await self.service.desk.serve(name, work, self.visit, self.header)


async def _caller(request: Request) -> Caller:
    return Caller(request)


Calling = Annotated[Caller, Depends(_caller)]


# --- requests ---


class StrictRequest(Request):
    """A request whose body is JSON as the standard has it: no NaN, no halves of characters, and
    not nested without end."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            try:
                self._json = from_json(await self.body(), allow_inf_nan=False)
            except ValueError as error:
                raise HTTPException(400, f"the body is not JSON: {error}") from None
        return self._json


class Route(APIRoute):
    """A route that takes JSON, and nothing else."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        handle = super().get_route_handler()
        takes_body = self.body_field is not None
        known = {field.alias for field in self.dependant.query_params}

        async def strict(request: Request) -> Response:
            service: Service = request.app.state.service
            service.refuse_at_once(request.headers.get("authorization"))
            for name in request.query_params if request.scope["query_string"] else ():
                if name not in known:
                    words = f"one of {', '.join(sorted(known))}" if known else "none at all"
                    raise InvalidArgument("the names of parameters", name, words)
            if not takes_body:
                plain: Response = await handle(request)
                return plain
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise Problem("unsupported-media-type", "send Content-Type: application/json")
            response: Response = await handle(StrictRequest(request.scope, request.receive))
            return response

        return strict


# --- answers ---


def answer(data: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer in JSON, where an unknown number is null."""
    try:
        text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_without_nan(data), allow_nan=False, separators=(",", ":"))
    return Response(text.encode(), status, headers, media_type="application/json")


def _without_nan(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {name: _without_nan(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_without_nan(value) for value in data]
    return data
