"""What every request passes on its way in and out.

It gets an id, is limited in size and time, is counted and logged, and its answer gets the headers
that keep browsers safe.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import secrets
import time
from collections.abc import Iterable, Sequence
from typing import Any

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rolf.errors import without_password
from rolf.service.auth import FORM
from rolf.service.http.errors import RETRY_AFTER, Problem
from rolf.service.http.logging import current_request, log
from rolf.service.http.metrics import Metrics
from rolf.service.settings import Settings, is_loopback

REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
#: ids of requests that have none: of the process, and their numbers
PROCESS, NUMBERS = secrets.token_hex(12), itertools.count(1)
#: what no path has: escaped slashes, backslashes and zeros, and empty parts
CROOKED = re.compile(rb"%2f|%5c|%00|\\|//", re.IGNORECASE)
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
#: bytes of all headers
MAX_HEADERS = 32_000
#: characters of the name of an experiment in the log
MAX_NAME = 100

PAGE_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    b"font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; "
    b"form-action 'none'; frame-ancestors 'none'"
)
OTHER_POLICY = b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
SAFE_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]


class CutOff(Exception):
    """An answer that has begun cannot be finished; the connection is closed, so that nobody takes
    it for the whole."""


class Visit:
    """A request on its way: who makes it, and what has become of it."""

    __slots__ = ("experiment", "id", "key", "problem", "started", "status")

    def __init__(self, id: str) -> None:
        self.id = id
        self.started = time.perf_counter()
        self.key: str | None = None
        self.experiment: str | None = None
        self.problem: str | None = None
        self.status = 0


class Front:
    """The outermost layer around an application."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1000})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = scope["headers"]
        visit = scope["visit"] = Visit(request_id(headers))
        token = current_request.set(visit.id)
        self._metrics.in_flight.inc()
        outgoing = self._sending(scope, visit, send)
        try:
            problem = self._refused(scope, headers)
            if problem is not None:
                visit.problem = problem.slug
                await problem.response(visit.id)(scope, receive, outgoing)
            else:
                await self._app(scope, self._receiving(receive), outgoing)
        except asyncio.CancelledError:  # the server ends, and this has taken too long
            visit.problem = "unavailable"
            if not visit.status:
                words = "the service is ending, and this was not finished: try again"
                problem = Problem("unavailable", words, headers={"Retry-After": str(RETRY_AFTER)})
                await problem.response(visit.id)(scope, receive, outgoing)
        except CutOff as error:
            visit.problem = "cut-off"
            log(logging.WARNING, "cut off", problem=without_password(str(error)))
        except Exception as error:
            if not isinstance(error, TimeoutError):  # of a client that does not read
                log(logging.ERROR, "error", traceback=True, problem=type(error).__name__)
            if not visit.status:
                problem = Problem("internal", "the log of the service says more")
                await problem.response(visit.id)(scope, receive, outgoing)
        finally:
            self._metrics.in_flight.dec()
            self._record(scope, visit)
            current_request.reset(token)

    def _refused(self, scope: Scope, headers: list[tuple[bytes, bytes]]) -> Problem | None:
        """Why a request is not even looked at."""
        if sum(len(name) + len(value) for name, value in headers) > MAX_HEADERS:
            return Problem("headers-too-large", f"more than {MAX_HEADERS} bytes of headers")
        if CROOKED.search(scope.get("raw_path", b"")):
            return Problem("not-found", "no path has escaped slashes or empty parts")
        length = _header(headers, b"content-length")
        if length is not None and length.isdigit() and int(length) > self._settings.max_body:
            return Problem("too-large", f"more than {self._settings.max_body} bytes")
        if self._settings.insecure_local and not _comes_from_here(scope, headers):
            words = "without keys only programs and pages of this machine are served"
            return Problem("forbidden", words)
        return None

    def _receiving(self, receive: Receive) -> Receive:
        """The body of a request, up to a size, as long as it keeps coming."""
        size, limit, finished = 0, self._settings.max_body, False
        deadline = asyncio.get_running_loop().time() + self._settings.receive_timeout

        async def limited() -> Message:
            nonlocal size, finished
            if finished:
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                words = "the body did not arrive in time"
                raise HTTPException(408, words, {"Connection": "close"}) from None
            if message["type"] == "http.request":
                size += len(message.get("body", b""))
                finished = not message.get("more_body", False)
                if size > limit:
                    raise HTTPException(413, f"more than {limit} bytes", {"Connection": "close"})
            return message

        return limited

    def _sending(self, scope: Scope, visit: Visit, send: Send) -> Send:
        """The answer, with more headers; a client must take it in."""
        timeout = self._settings.receive_timeout

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                visit.status = message["status"]
                message["headers"] = [*message["headers"], *added_headers(scope["path"], visit.id)]
            if message.get("more_body"):
                async with asyncio.timeout(timeout):
                    await send(message)
            else:
                await send(message)

        return sending

    def _record(self, scope: Scope, visit: Visit) -> None:
        seconds = time.perf_counter() - visit.started
        method = scope["method"] if scope["method"] in METHODS else "other"
        route = getattr(scope.get("route"), "path", None) or "unknown"
        self._metrics.answered(method, route, visit.status, seconds)
        if visit.problem is None and visit.status >= 500:
            visit.problem = "internal"
        if visit.problem is not None:
            self._metrics.problem(visit.problem)
        fields: dict[str, Any] = {
            "request": visit.id,
            "key": visit.key,
            "method": method,
            "route": route,
            "experiment": _harmless(visit.experiment),
            "status": visit.status,
            "problem": visit.problem,
            "ms": round(1000.0 * seconds, 2),
        }
        log(logging.INFO, "request", **{name: each for name, each in fields.items() if each})


def added_headers(path: str, id: str) -> Iterable[tuple[bytes, bytes]]:
    """Headers of every answer."""
    yield from SAFE_HEADERS
    yield b"x-request-id", id.encode()
    if path == "/" or path.startswith("/static/"):
        yield b"content-security-policy", PAGE_POLICY
        yield b"cache-control", b"no-cache"
    else:
        yield b"content-security-policy", OTHER_POLICY
        yield b"cache-control", b"no-store"


def _harmless(name: str | None) -> str | None:
    """A name as it is logged: not a long one, nor a key that somebody has put in its place."""
    return None if name is None else FORM.sub(r"rolf_\1_...", name)[:MAX_NAME]


def request_id(headers: Sequence[tuple[bytes, bytes]] = ()) -> str:
    """What a request is called in the log: as its headers say, or else something new."""
    given = _header(headers, b"x-request-id")
    if given is not None and REQUEST_ID.fullmatch(given):
        text = given.decode()
        if FORM.search(text) is None:
            return text
    return f"{PROCESS}{next(NUMBERS):08x}"


def _header(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    return next((value for each, value in headers if each == name), None)


def _comes_from_here(scope: Scope, headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether a request is from this machine, and not from a page of a foreign site.

    Such a page may send requests here, or have its own name lead here.
    """
    client = scope.get("client")
    if client is None or not is_loopback(client[0]):
        return False
    host = (_header(headers, b"host") or b"").decode("latin-1")
    origin = _header(headers, b"origin")
    if origin is not None and origin.decode("latin-1") != f"{scope['scheme']}://{host}":
        return False
    if _header(headers, b"sec-fetch-site") in (b"cross-site", b"same-site"):
        return False
    return is_loopback(re.sub(r":\d{1,5}$", "", host).strip("[]"))
