"""What a server needs of an experiment besides asking and telling."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, NoReturn, ParamSpec, TypeVar

from rolf.errors import ExperimentError
from rolf.experiments.storage.contract import Record
from rolf.policies.warm import warm_up

P = ParamSpec("P")
T = TypeVar("T")


def in_thread(method: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The coroutine of a method: the same in another thread, so that the event loop goes on.

    One that is cancelled still takes effect: a decision that was never received stays pending
    like any other.
    """

    @wraps(method)
    async def coroutine(*args: P.args, **kwargs: P.kwargs) -> T:
        import asyncio  # takes as long to import as all of rolf

        return await asyncio.to_thread(method, *args, **kwargs)

    coroutine.__name__ = f"a{method.__name__}"
    coroutine.__doc__ = f"``{method.__name__}`` for coroutines."
    return coroutine


class Served:
    """The part of an experiment that is for servers."""

    synced: Any
    _record: Record

    def warm_up(self) -> None:
        """Compile, or load, what ``ask``, ``tell`` and ``status`` call, before anybody waits."""
        warm_up(self.synced.replica.policy)

    def __reduce__(self) -> NoReturn:
        raise ExperimentError(
            f"experiment {self._record.name!r} holds a connection and cannot be pickled or copied: "
            "send its URL and name, and call rolf.open_experiment there"
        )
