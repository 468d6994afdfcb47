"""HTTP connections that slow clients cannot hold open."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import h11
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from rolf.service.http.errors import RETRY_AFTER, Problem
from rolf.service.http.middleware import has_large_body, new_request_id, security_headers

#: connections beyond the most there may be, for checks of the service's health alone
SPARE = 20
CHECKS = {"/healthz", "/readyz"}
#: bytes that the system keeps for a client: what is not read is soon noticed, and takes little
SENT_AHEAD = 131_072
#: bytes that a client reads in the time that it may take
PROGRESS = 16_384
#: seconds, and bytes, that a client may go on sending once it was answered
LINGER, LINGER_BYTES = 2.0, 16_000_000


class Transport:
    """A transport whose end does not depend on the other side: a client that does not read is cut
    off, and so is one that goes on sending after its answer.

    Args:
        transport: the one that asyncio has made.
        patience: seconds in which a client reads ``PROGRESS`` bytes, or all that is left.
        unread: whether much of a request is still to come.
    """

    def __init__(
        self, transport: asyncio.Transport, patience: float, unread: Callable[[], bool]
    ) -> None:
        self._transport = transport
        self._patience = patience
        self._unread = unread
        self._closing = False
        self._timer: asyncio.TimerHandle | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._closing or self._transport.is_closing()

    def close(self) -> None:
        """Send what is left to send, and close: but not as long as the client is sending, or it
        would not get to read its answer."""
        if self._closing:
            return
        self._closing = True
        self.stop_watching()
        if self._unread():
            self._timer = asyncio.get_running_loop().call_later(LINGER, self._transport.abort)
            self._transport.resume_reading()
            self._transport.write_eof()
        else:
            self.watch()
            self._transport.close()

    def watch(self) -> None:
        """Cut the client off unless it keeps reading."""
        before = self._transport.get_write_buffer_size()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._patience, self._check, before)

    def _check(self, before: int) -> None:
        if self._transport.get_write_buffer_size() > before - PROGRESS:
            self._transport.abort()
        else:
            self.watch()

    def stop_watching(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Protocol(H11Protocol):
    """A connection that is cut off if the headers of a request take too long to arrive, or the
    client too long to read.

    When there are too many connections, one makes room for a new one: one that never sent a
    request, the one that has been idle for longest, the one whose client has not read for longest,
    or one of an address that has more than half of them. If there is none, the new one is spare:
    it is for checks of health, and closed if there are too many of these, too.
    """

    timeout = 20.0
    most = 1_000
    _timer: asyncio.TimerHandle | None = None
    last_active = 0.0
    stalled_since = 0.0  # when the client stopped reading; 0: it reads
    excess = 0  # bytes that came after the answer

    def connection_made(self, transport: Any) -> None:
        self.guarded = Transport(transport, self.timeout, self._is_unread)
        super().connection_made(cast(asyncio.Transport, self.guarded))
        connection = transport.get_extra_info("socket")
        with suppress(OSError):  # the client is gone
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SENT_AHEAD)
        self.last_active = self.loop.time()
        self._start_timer()
        if len(self.connections) > self.most:
            self._make_room()

    def _is_unread(self) -> bool:
        return self.conn.their_state is h11.SEND_BODY and has_large_body(self.headers)

    def _make_room(self) -> None:
        connections = cast("set[Protocol]", self.connections)
        others = [each for each in connections if each is not self and each.is_open()]
        if len(others) < self.most:
            return
        addresses = Counter(map(_address, others))
        greedy = {each for each, count in addresses.items() if count > self.most // 2}
        idle = [each for each in others if _is_idle(each)]
        stalled = [each for each in others if each.stalled_since]
        if idle:  # first those that never sent a request
            last = min(idle, key=lambda each: (each.cycle is not None, each.last_active))
        elif stalled:
            last = min(stalled, key=lambda each: each.stalled_since)
        elif greedy - {_address(self)}:
            those = [each for each in others if _address(each) in greedy]
            last = min(those, key=lambda each: each.last_active)
        elif len(others) < self.most + SPARE:
            self.app = OnlyChecks(self.app)
            return
        else:
            last = self
        last.transport.abort()

    def is_open(self) -> bool:
        return not self.transport.is_closing()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            self.excess += len(data)
            if self.excess > LINGER_BYTES:
                self.transport.abort()
            return
        self.last_active = self.loop.time()
        if self._timer is None and (self.cycle is None or self.cycle.response_complete):
            self._start_timer()
        super().data_received(data)

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._stop_timer()

    def on_response_complete(self) -> None:
        self.last_active = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)
        self.guarded.stop_watching()

    def pause_writing(self) -> None:
        self.stalled_since = self.loop.time()
        if self.is_open():
            self.guarded.watch()
        super().pause_writing()

    def resume_writing(self) -> None:
        self.stalled_since = 0.0
        if self.is_open():
            self.guarded.stop_watching()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP as the service answers any bad request."""
        id = new_request_id()
        answer = Problem("bad-request", "this is not HTTP/1.1").response(id)
        headers = [*answer.raw_headers, *security_headers(""), (b"x-request-id", id.encode())]
        headers.append((b"connection", b"close"))
        for event in (
            h11.Response(status_code=answer.status_code, headers=headers),
            h11.Data(data=bytes(answer.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self.timeout, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class OnlyChecks:
    """Answers checks of health, and nothing else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in CHECKS:
            await self._app(scope, receive, send)
        else:
            words = "there are too many connections for now: try again"
            headers = {"Retry-After": str(RETRY_AFTER), "Connection": "close"}
            problem = Problem("unavailable", words, headers=headers)
            await problem.response(new_request_id())(scope, receive, send)


def _address(connection: Protocol) -> str | None:
    return connection.client and connection.client[0]


def _is_idle(connection: Protocol) -> bool:
    return connection.cycle is None or connection.cycle.response_complete
