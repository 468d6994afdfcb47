"""HTTP connections that slow clients cannot hold for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from rolf.service.http.errors import Problem
from rolf.service.http.middleware import new_request_id, security_headers


class Protocol(H11Protocol):
    """A connection that is closed if the headers of a request take too long to arrive.

    When there are too many connections, an idle one makes room for a new one: first those that
    never sent a request, then the one that has been idle for longest. If none is idle, the new one
    is closed.
    """

    timeout = 20.0
    most = 1_000
    _timer: asyncio.TimerHandle | None = None
    last_active = 0.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.last_active = self.loop.time()
        self._start_timer()
        if len(self.connections) > self.most:
            idle = [each for each in self.connections if each is not self and _is_idle(each)]
            last = min(idle, key=_rank, default=self)
            self.connections.discard(last)
            last.transport.close()

    def data_received(self, data: bytes) -> None:
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


def _is_idle(connection: Any) -> bool:
    return connection.cycle is None or connection.cycle.response_complete


def _rank(connection: Any) -> tuple[bool, float]:
    return connection.cycle is not None, connection.last_active
