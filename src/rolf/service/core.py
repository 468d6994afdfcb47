"""What all routes share: the experiments, who may do what, and how answers are written."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import Depends, HTTPException, Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json

from rolf.experiments.experiment import Experiment
from rolf.experiments.storage.base import Key
from rolf.service.front import Visit
from rolf.service.handles import Handles, unknown
from rolf.service.keys import LOCAL, allows, check_key
from rolf.service.limits import Buckets
from rolf.service.metrics import Metrics
from rolf.service.problems import Problem
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
        self.closing = False

    def authenticate(self, visit: Visit, header: str | None) -> Key:
        """The key of a request, which is looked up every time: it may have been revoked."""
        if header is None and self.settings.insecure_local:
            key: Key | None = LOCAL
        else:
            if header is None:
                raise _unauthorized("no key was sent: Authorization: Bearer <key>")
            scheme, _, text = header.partition(" ")
            key = (
                check_key(self.handles.store, text.strip()) if scheme.lower() == "bearer" else None
            )
        if key is None:
            raise _unauthorized("the key is not valid")
        visit.key = key.id
        wait = self.buckets.wait_for(key.id)
        if wait:
            words = f"more than {self.settings.rate:g} requests a second"
            raise Problem("too-many-requests", words, headers={"Retry-After": str(wait)})
        return key


def _unauthorized(detail: str) -> Problem:
    return Problem("unauthorized", detail, headers={"WWW-Authenticate": "Bearer"})


class Caller:
    """Whoever makes a request."""

    __slots__ = ("header", "service", "visit")

    def __init__(self, service: Service, visit: Visit, header: str | None) -> None:
        self.service = service
        self.visit = visit
        self.header = header

    def check(self, scope: str, experiment: str | None = None) -> Key:
        """The caller's key, if it allows something; an experiment that it is not for does not
        exist as far as it is told."""
        self.visit.experiment = experiment
        key = self.service.authenticate(self.visit, self.header)
        if experiment is not None and key.experiment not in (None, experiment):
            raise unknown(experiment)
        if not allows(key, scope):
            words = f"this needs a key with the scope {scope}; this one has {key.scope}"
            raise Problem("forbidden", words)
        return key

    def use(
        self, scope: str, name: str, work: Callable[[Experiment], T], *, check: bool = False
    ) -> T:
        """Do some work with an experiment if the caller may."""
        self.check(scope, name)
        return self.service.handles.use(name, work, check=check)


async def _caller(request: Request) -> Caller:
    header = request.headers.get("authorization")
    return Caller(request.app.state.service, request.scope["visit"], header)


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
        if self.body_field is None:
            return handle

        async def strict(request: Request) -> Response:
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


class Results:
    """Results that took long, which are given again for a while: five times as long as they took.

    Nobody computes what somebody else is computing.
    """

    LONG = 0.1
    MOST = 200

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._computing: dict[Any, threading.Lock] = {}
        self._known: dict[Any, tuple[float, Any]] = {}  # until when it is good, and the result

    def get(self, key: Any, compute: Callable[[], T]) -> T:
        with self._lock:
            known = self._fresh(key)
            if known is not None:
                return known[0]  # type: ignore[no-any-return]
            computing = self._computing.setdefault(key, threading.Lock())
        arrived = time.monotonic()
        with computing:
            with self._lock:
                known = self._fresh(key)
            if known is not None:
                return known[0]  # type: ignore[no-any-return]
            began = time.monotonic()
            try:
                result = compute()
                took = time.monotonic() - began
                with self._lock:
                    if took > self.LONG:
                        self._known[key] = (arrived + 6.0 * took, result)
                    else:
                        self._known.pop(key, None)
                    while len(self._known) > self.MOST:
                        self._known.pop(next(iter(self._known)))
                return result
            finally:
                with self._lock:
                    self._computing.pop(key, None)

    def _fresh(self, key: Any) -> tuple[Any] | None:
        until, result = self._known.get(key, (0.0, None))
        return (result,) if until > time.monotonic() else None
