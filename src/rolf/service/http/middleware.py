"""What every request passes on its way in, and its answer on its way out: a class per duty."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rolf.errors import without_password
from rolf.service.http.errors import RETRY_AFTER, CutOff, Problem
from rolf.service.http.logging import current_request, log
from rolf.service.http.metrics import Metrics
from rolf.service.settings import Settings, is_loopback

REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
#: ids of requests that come without one: a prefix for this process, and a number
PROCESS, NUMBERS = secrets.token_hex(12), itertools.count(1)
#: what no path of the service contains: escaped slashes, backslashes and NULs, and empty parts
CROOKED = re.compile(rb"%2f|%5c|%00|\\|//", re.IGNORECASE)
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
#: bytes of all headers
MAX_HEADERS = 32_000
#: bytes of a body that are read and forgotten rather than end the connection
LARGE_BODY = 64_000
#: bytes from which compressing an answer is worthwhile
LARGE = 10_000

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
PAGE_HEADERS = [
    *SAFE_HEADERS,
    (b"content-security-policy", PAGE_POLICY),
    (b"cache-control", b"no-cache"),
]
OTHER_HEADERS = [
    *SAFE_HEADERS,
    (b"content-security-policy", OTHER_POLICY),
    (b"cache-control", b"no-store"),
]


class RequestInfo:
    """What is known about a request: who sent it, and what became of it."""

    __slots__ = ("experiment", "id", "key", "problem", "started", "status")

    def __init__(self, id: str) -> None:
        self.id = id
        self.started = time.perf_counter()
        self.key: str | None = None  # its id
        self.experiment: str | None = None
        self.problem: str | None = None
        self.status = 0  # until the answer starts


def wrapped(
    app: ASGIApp, settings: Settings, metrics: Metrics, redact: Callable[[str], str]
) -> ASGIApp:
    """An application within all middleware; ``redact`` takes API keys out of a text."""
    inner: ASGIApp = Compression(app)
    if settings.insecure_local:
        inner = LocalOnly(inner)
    inner = Limits(inner, settings.max_body, settings.receive_timeout)
    inner = Failures(inner)
    inner = SecurityHeaders(inner)
    inner = AccessLog(inner, metrics)
    return Entry(app, RequestId(inner, redact))


class Entry:
    """Where the server calls: requests pass the middleware, start and end of the process do not,
    and WebSockets are refused."""

    def __init__(self, app: ASGIApp, http: ASGIApp) -> None:
        self._app = app
        self._http = http

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1000})


class RequestId:
    """Gives every request an id, which its log lines and its answer have."""

    def __init__(self, app: ASGIApp, redact: Callable[[str], str]) -> None:
        self._app = app
        self._redact = redact

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        info = scope["request_info"] = RequestInfo(self._id(scope["headers"]))
        header = (b"x-request-id", info.id.encode())

        async def with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], header]
            await send(message)

        token = current_request.set(info.id)
        try:
            await self._app(scope, receive, with_id)
        finally:
            current_request.reset(token)

    def _id(self, headers: Sequence[tuple[bytes, bytes]]) -> str:
        """The id that the headers have, if it is one and no API key; otherwise a new one."""
        sent = _header(headers, b"x-request-id")
        if sent is not None and REQUEST_ID.fullmatch(sent):
            text = sent.decode()
            if self._redact(text) == text:
                return text
        return new_request_id()


def new_request_id() -> str:
    return f"{PROCESS}{next(NUMBERS):08x}"


class AccessLog:
    """Counts and logs every request."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        info: RequestInfo = scope["request_info"]

        async def noting_status(message: Message) -> None:
            if message["type"] == "http.response.start":
                info.status = message["status"]
            await send(message)

        self._metrics.in_flight.inc()
        try:
            await self._app(scope, receive, noting_status)
        finally:
            self._metrics.in_flight.dec()
            self._record(scope, info)

    def _record(self, scope: Scope, info: RequestInfo) -> None:
        seconds = time.perf_counter() - info.started
        method = scope["method"] if scope["method"] in METHODS else "other"
        route = getattr(scope.get("route"), "path", None) or "unknown"
        if info.problem is None and info.status >= 500:
            info.problem = "internal"
        self._metrics.requests.labels(method, route, str(info.status)).inc()
        self._metrics.seconds.labels(method, route).observe(seconds)
        if info.problem is not None:
            self._metrics.problems.labels(info.problem).inc()
        fields: dict[str, Any] = {
            "request": info.id,
            "key": info.key,
            "method": method,
            "route": route,
            "experiment": info.experiment,
            "status": info.status,
            "problem": info.problem,
            "ms": round(1000.0 * seconds, 2),
        }
        log(logging.INFO, "request", **{name: each for name, each in fields.items() if each})


class SecurityHeaders:
    """Adds the headers that keep browsers safe."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *security_headers(scope["path"])]
            await send(message)

        await self._app(scope, receive, with_headers)


def security_headers(path: str) -> list[tuple[bytes, bytes]]:
    """Headers of every answer."""
    return PAGE_HEADERS if path == "/" or path.startswith("/static/") else OTHER_HEADERS


class Failures:
    """Answers requests whose handling fails or is cut short."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        info: RequestInfo = scope["request_info"]
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:  # the server is shutting down, and this has taken too long
            info.problem = "unavailable"
            if not info.status:
                words = "the service is shutting down, and this was not finished: try again"
                headers = {"Retry-After": str(RETRY_AFTER)}
                await _refuse(Problem("unavailable", words, headers=headers), scope, receive, send)
        except CutOff as error:
            info.problem = "cut-off"
            log(logging.WARNING, "cut off", problem=without_password(str(error)))
        except Exception as error:
            if not isinstance(error, TimeoutError):  # of a client that does not read
                log(logging.ERROR, "error", traceback=True, problem=type(error).__name__)
            if not info.status:
                problem = Problem("internal", "the log of the service says more")
                await problem.response(info.id)(scope, receive, send)


class Limits:
    """Refuses what is too large, and clients that take too long to send it."""

    def __init__(self, app: ASGIApp, max_body: int, timeout: float) -> None:
        self._app = app
        self._max_body = max_body
        self._timeout = timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        receive, send = self._limited(scope, receive, send)
        problem = self._refusal(scope)
        if problem is None:
            await self._app(scope, receive, send)
        else:
            await _refuse(problem, scope, receive, send)

    def _refusal(self, scope: Scope) -> Problem | None:
        headers = scope["headers"]
        if sum(len(name) + len(value) for name, value in headers) > MAX_HEADERS:
            return Problem("headers-too-large", f"more than {MAX_HEADERS} bytes of headers")
        if CROOKED.search(scope.get("raw_path", b"")):
            return Problem("not-found", "no path has escaped slashes or empty parts")
        length = _header(headers, b"content-length")
        if length is not None and length.isdigit() and int(length) > self._max_body:
            return Problem("too-large", f"more than {self._max_body} bytes")
        return None

    def _limited(self, scope: Scope, receive: Receive, send: Send) -> tuple[Receive, Send]:
        """The body of a request, as long as it keeps coming and is not too large; and the answer.
        One that does not wait for the end of a large body ends the connection."""
        size, finished, large = 0, False, has_large_body(scope["headers"])
        deadline = asyncio.get_running_loop().time() + self._timeout

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
                if size > self._max_body:
                    raise HTTPException(413, f"more than {self._max_body} bytes")
            return message

        async def closing(message: Message) -> None:
            if large and not finished and message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)

        return limited, closing


def has_large_body(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether a request has a body that may be large."""
    length = _header(headers, b"content-length")
    if length is not None and length.isdigit():
        return int(length) > LARGE_BODY
    return _header(headers, b"transfer-encoding") is not None


class LocalOnly:
    """Serves only programs and pages of this machine.

    Pages of other sites may send requests here, or have their own name resolve to this machine.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._is_local(scope):
            await self._app(scope, receive, send)
        else:
            words = "without keys only programs and pages of this machine are served"
            await _refuse(Problem("forbidden", words), scope, receive, send)

    @staticmethod
    def _is_local(scope: Scope) -> bool:
        client, headers = scope.get("client"), scope["headers"]
        if client is None or not is_loopback(client[0]):
            return False
        host = (_header(headers, b"host") or b"").decode("latin-1")
        origin = _header(headers, b"origin")
        if origin is not None and origin.decode("latin-1") != f"{scope['scheme']}://{host}":
            return False
        if _header(headers, b"sec-fetch-site") in (b"cross-site", b"same-site"):
            return False
        return is_loopback(re.sub(r":\d{1,5}$", "", host).strip("[]"))


class Compression(GZipMiddleware):
    """Compresses large answers to GET, which pages fetch again and again; logs are streams, and
    decisions and rewards are small."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app, minimum_size=LARGE, compresslevel=5)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET" or scope["path"].endswith("/log"):
            await self.app(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


async def _refuse(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    info: RequestInfo = scope["request_info"]
    info.problem = problem.slug
    await problem.response(info.id)(scope, receive, send)


def _header(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    return next((value for each, value in headers if each == name), None)
