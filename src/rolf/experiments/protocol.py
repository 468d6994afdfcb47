"""The interface of every experiment, in a local database or on a service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rolf.experiments.log.decisions import LoggedDecision
    from rolf.experiments.status.pending import Pending
    from rolf.experiments.status.result import ArmRecord, Counts, Status
    from rolf.types import Decision

#: the methods of every experiment; each has a coroutine with an ``a`` in front of its name
METHODS = (
    *("ask", "ask_many", "tell", "tell_many", "correct", "learn"),
    *("status", "counts", "pending", "log"),
    *("arm_table", "add_arms", "retire_arms", "restore_arms", "pause", "resume"),
    *("estimates", "rank", "intervals", "probability_best"),
    "delete",
)


class ExperimentProtocol(Protocol):
    """The common interface of ``Experiment`` and ``RemoteExperiment``, which implement it name by
    name and argument by argument; each may have more."""

    @property
    def name(self) -> str: ...

    @property
    def policy(self) -> str:
        """The name of the policy."""

    @property
    def arms(self) -> list[Any]:
        """The names of all arms, retired ones included."""

    @property
    def paused(self) -> bool:
        """Whether the experiment makes no decisions until it is resumed."""

    # --- decisions and rewards ---

    def ask(
        self,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        idempotency_key: str | None = None,
    ) -> Decision:
        """Choose the next arm; the decision is durable when this returns."""

    def ask_many(
        self,
        n: int,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        distinct: bool = False,
        idempotency_key: str | None = None,
    ) -> list[Decision]:
        """Make several decisions before any of them is rewarded."""

    def tell(self, decision: Decision | str, reward: float) -> None:
        """Record a reward; durable when this returns."""

    def tell_many(
        self, rewards: Mapping[str, float] | Iterable[tuple[Decision | str, float]]
    ) -> int:
        """Record many rewards; returns how many were new."""

    def correct(self, decision: Decision | str, reward: float, reason: str) -> None:
        """Replace a wrong reward."""

    def learn(
        self,
        arms: Any,
        rewards: Any,
        *,
        features: Any = None,
        context: Any = None,
        probabilities: Any = None,
        source: str | None = None,
    ) -> int:
        """Learn from history, rounds played before the experiment; returns how many were new."""

    # --- estimates and status ---

    def status(self, *, control: Any = None, timeline: bool = False) -> Status:
        """Counts, every arm's estimate, and the uplift."""

    def counts(self) -> Counts:
        """The numbers of decisions and rewards."""

    def pending(self, limit: int = 100) -> Pending:
        """The latest decisions without a reward."""

    def log(self) -> list[LoggedDecision]:
        """All decisions in order, with their rewards."""

    def estimates(self, *, features: Any = None, context: Any = None) -> Any:
        """Estimated mean reward per arm."""

    def rank(self, k: int | None = None, *, features: Any = None, context: Any = None) -> list[Any]:
        """The ``k`` best active arms by estimate."""

    def intervals(self, level: float = 0.9, *, features: Any = None, context: Any = None) -> Any:
        """Posterior intervals of the arms' mean rewards."""

    def probability_best(
        self,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        draws: int = 10_000,
    ) -> Any:
        """Each arm's posterior probability of being the best active one."""

    # --- changes ---

    def arm_table(self) -> Sequence[ArmRecord]:
        """A row per arm, retired ones included: features, plays and rewards."""

    def add_arms(self, features: Any) -> list[Any]:
        """Add arms and return their names."""

    def retire_arms(self, ids: Any) -> None:
        """Stop choosing these arms."""

    def restore_arms(self, ids: Any) -> None:
        """Choose retired arms again."""

    def pause(self) -> None:
        """Make no more decisions until ``resume``."""

    def resume(self) -> None:
        """Make decisions again after ``pause``."""

    def delete(self, *, confirm: str) -> None:
        """Delete the experiment with all its decisions and rewards."""
