"""An experiment on a service, with the methods of a local one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from rolf.client import beliefs
from rolf.client import calls as operations
from rolf.client.transport import Connected, Line, awaited, sent
from rolf.errors import ExperimentError, InvalidArgument

if TYPE_CHECKING:
    from rolf.experiments.log.decisions import LoggedDecision


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

    @property
    def arms(self) -> list[Any]:
        """The names of all arms, retired ones included."""
        return [each.arm for each in self.arm_table()]

    # --- decisions ---

    ask, aask = sent(operations.ask), awaited(operations.ask)
    ask_many, aask_many = sent(operations.ask_many), awaited(operations.ask_many)

    # --- everything else ---

    tell, atell = sent(operations.tell), awaited(operations.tell)
    tell_many, atell_many = sent(operations.tell_many), awaited(operations.tell_many)
    correct, acorrect = sent(operations.correct), awaited(operations.correct)
    learn, alearn = sent(operations.learn), awaited(operations.learn)

    describe, adescribe = sent(operations.describe), awaited(operations.describe)
    counts, acounts = sent(operations.counts), awaited(operations.counts)
    status, astatus = sent(operations.status), awaited(operations.status)
    pending, apending = sent(operations.pending), awaited(operations.pending)
    estimates, aestimates = sent(beliefs.estimates), awaited(beliefs.estimates)
    arm_table, aarm_table = sent(operations.arm_table), awaited(operations.arm_table)
    rank, arank = sent(beliefs.rank), awaited(beliefs.rank)
    probability_best = sent(beliefs.probability_best)
    aprobability_best = awaited(beliefs.probability_best)
    intervals, aintervals = sent(beliefs.intervals), awaited(beliefs.intervals)
    diagnosis, adiagnosis = sent(beliefs.diagnosis), awaited(beliefs.diagnosis)

    def log(self) -> list[LoggedDecision]:
        """All decisions with their rewards, in their order."""
        return [operations.logged(line) for line in self._line.lines(operations.log(self))]

    async def alog(self) -> list[LoggedDecision]:
        """``log`` for coroutines."""
        lines = self._line.alines(operations.log(self))
        return [operations.logged(line) async for line in lines]

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
