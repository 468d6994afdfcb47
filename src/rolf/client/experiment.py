"""An experiment on a service, with the methods of a local one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, NoReturn, overload

from rolf.client import beliefs
from rolf.client import calls as operations
from rolf.client.transport import Connected, Line, awaited, sent
from rolf.errors import ExperimentError, InvalidArgument
from rolf.types import Decision


class RemoteExperiment(Connected):
    """An experiment on a service: asks, tells and raises as ``rolf.Experiment`` does.

    ``rolf.connect(url).experiment(name)`` gives one. Every method has a coroutine whose name starts
    with an ``a``: ``aask``, ``atell`` and so on. Several threads may share it.

    What fails for now is tried again until the time for a call is over, and then raises
    ServiceUnavailable, which is a StorageUnavailable. However often a request has to be sent,
    decisions are made once and rewards count once.
    """

    def __init__(self, line: Line, name: str) -> None:
        if not isinstance(name, str) or name in ("", ".", ".."):
            raise InvalidArgument("name", name, "the name of an experiment")
        self._line = line
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @property
    def policy(self) -> str:
        """The name of the policy."""
        return str(self.describe()["policy"])

    @property
    def paused(self) -> bool:
        """Whether the experiment makes no decisions until it is resumed."""
        return bool(self.describe()["paused"])

    # --- decisions ---

    @overload
    def ask(
        self,
        n: None = None,
        available: Iterable[Any] | None = None,
        *,
        features: Any = None,
        context: Any = None,
        distinct: bool = False,
        key: str | None = None,
    ) -> Decision: ...
    @overload
    def ask(
        self,
        n: int,
        available: Iterable[Any] | None = None,
        *,
        features: Any = None,
        context: Any = None,
        distinct: bool = False,
        key: str | None = None,
    ) -> list[Decision]: ...
    def ask(
        self,
        n: int | None = None,
        available: Iterable[Any] | None = None,
        *,
        features: Any = None,
        context: Any = None,
        distinct: bool = False,
        key: str | None = None,
    ) -> Decision | list[Decision]:
        """Decide which arm to play next; the decision is durable when this returns.

        Args:
            n: return a list of this many decisions; at most 100,000.
            available: the arms to choose from; by default all that are not retired.
            features: (K, d) features of this round, for policies that take them.
            context: of this round, for policies that were created with one: its entries by name,
                or in order.
            distinct: a slate, ``n`` different arms.
            key: of this request. Asking again with the same key, also after a crash of this
                process, gives the same decisions; for something else it is refused. At most 1,000
                decisions have one key. Without one, every call has a key of its own, so that its
                retries decide once.
        """
        options: dict[str, Any]
        options = {"features": features, "context": context, "distinct": distinct, "key": key}
        decisions = self._line.send(operations.ask(self, n, available, **options))
        return decisions if n is not None else decisions[0]

    @overload
    async def aask(
        self,
        n: None = None,
        available: Iterable[Any] | None = None,
        *,
        features: Any = None,
        context: Any = None,
        distinct: bool = False,
        key: str | None = None,
    ) -> Decision: ...
    @overload
    async def aask(
        self,
        n: int,
        available: Iterable[Any] | None = None,
        *,
        features: Any = None,
        context: Any = None,
        distinct: bool = False,
        key: str | None = None,
    ) -> list[Decision]: ...
    async def aask(
        self,
        n: int | None = None,
        available: Iterable[Any] | None = None,
        *,
        features: Any = None,
        context: Any = None,
        distinct: bool = False,
        key: str | None = None,
    ) -> Decision | list[Decision]:
        """``ask`` for coroutines."""
        options: dict[str, Any]
        options = {"features": features, "context": context, "distinct": distinct, "key": key}
        decisions = await self._line.asend(operations.ask(self, n, available, **options))
        return decisions if n is not None else decisions[0]

    # --- everything else ---

    tell, atell = sent(operations.tell), awaited(operations.tell)
    tell_many, atell_many = sent(operations.tell_many), awaited(operations.tell_many)
    correct, acorrect = sent(operations.correct), awaited(operations.correct)
    learn, alearn = sent(operations.learn), awaited(operations.learn)

    describe, adescribe = sent(operations.describe), awaited(operations.describe)
    counts, acounts = sent(operations.counts), awaited(operations.counts)
    status, astatus = sent(operations.status), awaited(operations.status)
    waiting, awaiting = sent(operations.waiting), awaited(operations.waiting)
    estimates, aestimates = sent(beliefs.estimates), awaited(beliefs.estimates)
    arms, aarms = sent(operations.arms), awaited(operations.arms)
    rank, arank = sent(beliefs.rank), awaited(beliefs.rank)
    best, abest = sent(beliefs.best), awaited(beliefs.best)
    intervals, aintervals = sent(beliefs.intervals), awaited(beliefs.intervals)
    diagnosis, adiagnosis = sent(beliefs.diagnosis), awaited(beliefs.diagnosis)

    def log(self) -> Iterator[dict[str, Any]]:
        """Every decision with its probability and its reward, by column, as they come from the
        service: the log may be larger than memory.

        If the connection fails meanwhile, this raises ServiceUnavailable; start again then.
        """
        yield from map(operations.logged, self._line.lines(operations.log(self)))

    async def alog(self) -> AsyncIterator[dict[str, Any]]:
        """``log`` for coroutines: an asynchronous iterator."""
        async for line in self._line.alines(operations.log(self)):
            yield operations.logged(line)

    add_arms, aadd_arms = sent(operations.add_arms), awaited(operations.add_arms)
    retire_arms, aretire_arms = sent(operations.retire_arms), awaited(operations.retire_arms)
    restore_arms, arestore_arms = sent(operations.restore_arms), awaited(operations.restore_arms)
    pause, apause = sent(operations.pause), awaited(operations.pause)
    resume, aresume = sent(operations.resume), awaited(operations.resume)
    delete, adelete = sent(operations.delete), awaited(operations.delete)

    def __reduce__(self) -> NoReturn:
        raise ExperimentError(
            f"experiment {self.name!r} holds connections and a key and cannot be pickled or copied:"
            " send the service's URL and the name, and call rolf.connect there"
        )

    def __repr__(self) -> str:
        return f"<RemoteExperiment {self.name!r} at {self._line.url}>"
