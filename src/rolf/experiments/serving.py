"""What a server needs of an experiment besides asking and telling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from rolf.errors import ExperimentError
from rolf.experiments.storage.contract import Record
from rolf.policies.warm import warm_up


class Served:
    """The part of an experiment that is for servers.

    Every coroutine is the method without the ``a`` in another thread, so that the event loop goes
    on meanwhile. One that is cancelled still takes effect: a decision that nobody got waits for
    its reward like any other.
    """

    ask: Any
    tell: Any
    tell_many: Any
    status: Any
    _replica: Any
    _record: Record

    def warm_up(self) -> None:
        """Compile, or load, what ``ask``, ``tell`` and ``status`` call, before anybody waits."""
        warm_up(self._replica.policy)

    async def aask(self, *args: Any, **kwargs: Any) -> Any:
        """``ask`` for coroutines."""
        return await _in_thread(self.ask, *args, **kwargs)

    async def atell(self, *args: Any, **kwargs: Any) -> None:
        """``tell`` for coroutines."""
        await _in_thread(self.tell, *args, **kwargs)

    async def atell_many(self, *args: Any, **kwargs: Any) -> None:
        """``tell_many`` for coroutines."""
        await _in_thread(self.tell_many, *args, **kwargs)

    async def astatus(self, *args: Any, **kwargs: Any) -> Any:
        """``status`` for coroutines."""
        return await _in_thread(self.status, *args, **kwargs)

    def __reduce__(self) -> NoReturn:
        raise ExperimentError(
            f"experiment {self._record.name!r} holds a connection and cannot be pickled or copied: "
            "send its URL and name, and call rolf.open_experiment there"
        )


async def _in_thread(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    import asyncio  # takes as long to import as all of rolf

    return await asyncio.to_thread(method, *args, **kwargs)
