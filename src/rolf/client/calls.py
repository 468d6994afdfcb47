"""Methods that make calls over HTTP, and their coroutines."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar
from urllib.parse import quote

from rolf.client.exchange import Call
from rolf.client.transport import Transport

P = ParamSpec("P")
T = TypeVar("T")


def path(name: str, *parts: str) -> str:
    """The path of an experiment, or of something of it."""
    return "/".join(["/v1/experiments", quote(name, safe=""), *parts])


class Connected:
    """What makes calls over a transport.

    Close it, or use it in a ``with`` or an ``async with`` statement.
    """

    transport: Transport

    def close(self) -> None:
        """Close the connections of this process, which all experiments of the service share; they
        are opened again when needed."""
        self.transport.close()

    async def aclose(self) -> None:
        """``close``, and the connections of this event loop too."""
        await self.transport.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


S = TypeVar("S", bound=Connected)


def sent(make: Callable[Concatenate[S, P], Call[T]]) -> Callable[Concatenate[S, P], T]:
    """The method that makes a call and waits for its result."""

    @wraps(make)
    def method(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.transport.send(make(self, *args, **kwargs))

    method.__signature__ = _signature(make)  # type: ignore[attr-defined]
    return method


def awaited(method: Any) -> Callable[..., Coroutine[Any, Any, Any]]:
    """The coroutine of a method that ``sent`` has made; its name starts with an ``a``."""
    make = method.__wrapped__

    @wraps(make)
    async def coroutine(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return await self.transport.asend(make(self, *args, **kwargs))

    coroutine.__name__ = f"a{make.__name__}"
    coroutine.__doc__ = f"``{make.__name__}`` for coroutines."
    coroutine.__signature__ = _signature(make)  # type: ignore[attr-defined]
    return coroutine


def _signature(make: Callable[..., Any]) -> inspect.Signature:
    """The signature of a call's result, not of the call."""
    signature = inspect.signature(make)
    result = str(signature.return_annotation).removeprefix("Call[").removesuffix("]")
    return signature.replace(return_annotation=result)
