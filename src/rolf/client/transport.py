"""The connections to a service, for calls with and without coroutines."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from rolf.client.errors import error_of
from rolf.client.exchange import Attempt, Call, Request, broken, exchange

if TYPE_CHECKING:
    import asyncio

    import httpx

T = TypeVar("T")

#: seconds for which an idle connection is kept: servers close theirs after about five
KEPT = 3.0
#: decisions or rewards of one request, if the service takes as many
PART = 1_000
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Transport:
    """The connections to a service: of each process, and of each event loop."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout: float) -> None:
        self.url = url
        self.timeout = timeout
        self.part = PART  # decisions or rewards of one request, as far as is known
        self.headers = dict(headers)
        self._clients: dict[int, httpx.Client] = {}  # by process: a fork has connections of its own
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient]
        self._loops = WeakKeyDictionary()

    def send(self, call: Call[T]) -> T:
        """Make the requests of a call."""
        import httpx

        steps = exchange(call, self.timeout)
        outcome: Any = None
        while True:
            try:
                attempt = steps.send(outcome)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            time.sleep(attempt.pause)
            try:
                outcome = self._sync_client().request(**_arguments(attempt))
            except httpx.HTTPError as error:
                outcome = error

    async def asend(self, call: Call[T]) -> T:
        """``send`` for coroutines."""
        import asyncio

        import httpx

        steps = exchange(call, self.timeout)
        outcome: Any = None
        while True:
            try:
                attempt = steps.send(outcome)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            await asyncio.sleep(attempt.pause)
            try:
                outcome = await self._async_client().request(**_arguments(attempt))
            except httpx.HTTPError as error:
                outcome = error

    def lines(self, request: Request) -> Iterator[str]:
        """The lines of an answer as they arrive; not retried if the connection breaks."""
        import httpx

        arguments = _arguments(Attempt(request, 0.0, self.timeout))
        try:
            with self._sync_client().stream(**arguments) as response:
                if not response.is_success:
                    response.read()
                    raise error_of(response)
                yield from response.iter_lines()
        except httpx.HTTPError as error:
            raise broken(error) from error

    async def alines(self, request: Request) -> AsyncIterator[str]:
        """``lines`` for coroutines."""
        import httpx

        arguments = _arguments(Attempt(request, 0.0, self.timeout))
        try:
            async with self._async_client().stream(**arguments) as response:
                if not response.is_success:
                    await response.aread()
                    raise error_of(response)
                async for line in response.aiter_lines():
                    yield line
        except httpx.HTTPError as error:
            raise broken(error) from error

    def _sync_client(self) -> httpx.Client:
        import httpx

        client = self._clients.get(os.getpid())
        if client is None:
            new = httpx.Client(**self._settings())
            client = self._clients.setdefault(os.getpid(), new)
            if client is not new:  # another thread was faster
                new.close()
        return client

    def _async_client(self) -> httpx.AsyncClient:
        import asyncio

        import httpx

        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            self._loops[loop] = httpx.AsyncClient(**self._settings())
        return self._loops[loop]

    def _settings(self) -> dict[str, Any]:
        import httpx

        return {
            "base_url": self.url,
            "headers": self.headers,
            "limits": httpx.Limits(max_connections=None, keepalive_expiry=KEPT),
            "trust_env": urlsplit(self.url).hostname not in LOOPBACK,  # no proxy leads back here
        }

    def close(self) -> None:
        """Close the connections of this process; calls open new ones."""
        client = self._clients.pop(os.getpid(), None)
        if client is not None:
            client.close()

    def __del__(self) -> None:
        with suppress(Exception):  # modules may be gone when the interpreter exits
            self.close()

    async def aclose(self) -> None:
        """Close the connections of this event loop too."""
        import asyncio

        self.close()
        client = self._loops.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()


def _arguments(attempt: Attempt) -> dict[str, Any]:
    """An attempt in the words of httpx."""
    request = attempt.request
    return {
        "method": request.method,
        "url": request.path,
        "json": request.body,
        "params": dict(request.params),
        "headers": dict(request.headers),
        "timeout": attempt.timeout,
    }
