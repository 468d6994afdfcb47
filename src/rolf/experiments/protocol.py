"""What an experiment can do, wherever it is: in a database that is open here, or on a service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from rolf.experiments.log.decisions import LoggedDecision
    from rolf.experiments.status.pending import Pending
    from rolf.experiments.status.result import ArmRecord, Counts, Status
    from rolf.experiments.transfer.learn_file import Learned
    from rolf.progress import Progress
    from rolf.types import Decision

#: the methods of every experiment: each has a coroutine, whose name starts with an ``a``
METHODS = (
    *("ask", "ask_many", "tell", "tell_many", "correct"),
    *("learn", "learn_totals", "learn_file"),
    *("status", "counts", "pending", "log", "export", "backup"),
    *("arm_table", "add_arms", "update_features", "retire_arms", "restore_arms"),
    *("estimates", "rank", "probabilities", "intervals", "probability_best"),
    *("pause", "resume", "delete"),
)


class ExperimentProtocol(Protocol):
    """What every experiment has. ``Experiment`` and ``RemoteExperiment`` keep to it, name by name
    and argument by argument; each may take more."""

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
        """Decide which arm to play next; the decision is durable when this returns."""

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
        """Record many rewards; returns how many were not on record before."""

    def correct(self, decision: Decision | str, reward: float, reason: str) -> None:
        """Put the right reward in the place of a wrong one."""

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
        """Learn from rounds from before the experiment; returns how many were new."""

    def learn_totals(
        self,
        counts: Any,
        sums: Any,
        squares: Any = None,
        *,
        level: float = 0.0,
        source: str | None = None,
    ) -> int:
        """Learn from rewards from before the experiment that were added up per arm."""

    def learn_file(
        self,
        path: str | Path,
        arm: str,
        reward: str,
        *,
        source: str | None = None,
        skip_unknown: bool = False,
        progress: Progress = None,
    ) -> Learned:
        """Learn from a table in a file; a service refuses it."""

    # --- what is known ---

    def status(self, *, control: Any = None, timeline: bool = False) -> Status:
        """Counts, every arm's estimate, and the uplift."""

    def counts(self) -> Counts:
        """How many decisions were made and how many rewards told."""

    def pending(self, limit: int = 100) -> Pending:
        """The latest decisions without a reward."""

    def log(self) -> list[LoggedDecision]:
        """All decisions with their rewards, in their order."""

    def export(self, path: str | Path) -> int:
        """Write the log to a file; a service refuses it."""

    def backup(self, path: str | Path) -> None:
        """Write the experiment to a database of its own; a service refuses it."""

    def estimates(self, *, features: Any = None, context: Any = None) -> Any:
        """Estimated mean reward per arm."""

    def rank(self, k: int | None = None, *, features: Any = None, context: Any = None) -> list[Any]:
        """The ``k`` best active arms by estimate."""

    def probabilities(
        self,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        draws: int = 10_000,
    ) -> Any:
        """Each arm's probability in the next ``ask``."""

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

    def update_features(self, features: Any) -> None:
        """Correct the features of some or all arms."""

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
