"""What is asked for and told together, and what has come of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from rolf.checks import MAX_BATCH, whole
from rolf.errors import RolfError
from rolf.experiments.log.idempotency import Request
from rolf.experiments.storage.contract import PART
from rolf.types import Decision

Pairs: TypeAlias = Mapping[str, float] | Iterable[tuple[Decision | str, float]]


class Ask:
    """Decisions that are wanted, as in ``Experiment.ask_many``; then the decisions, or an error.

    Attributes:
        decisions: those made so far.
        new: how many of them were not on record before.
        error: why they could not be made.
    """

    def __init__(
        self,
        n: int = 1,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        distinct: bool = False,
        idempotency_key: str | None = None,
    ) -> None:
        self.count = whole("n", n, 1, MAX_BATCH if idempotency_key is None else PART)
        self.available = list(available) if isinstance(available, Iterator) else available
        self.features, self.context, self.distinct = features, context, distinct
        self.request: Request | None = None
        if idempotency_key is not None:
            self.request = Request(
                idempotency_key,
                n=self.count,
                available=self.available,
                features=features,
                context=context,
                distinct=distinct,
            )
        self.chosen: list[int] = []
        self.decisions: list[Decision] = []
        self.new = 0
        self.error: RolfError | None = None

    @property
    def unfinished(self) -> bool:
        return self.error is None and len(self.decisions) < self.count

    def result(self) -> list[Decision]:
        """The decisions, if they could be made."""
        if self.error is not None:
            raise self.error
        return self.decisions


class Tell:
    """Rewards to record, all or none, as in ``Experiment.tell_many``; then how many were new, or
    an error.

    Attributes:
        numbered: the rewards by the numbers of their decisions, once they are checked.
        new: how many of them were not on record before.
        error: why they could not be recorded.
    """

    def __init__(self, rewards: Pairs) -> None:
        self.rewards = rewards
        self.numbered: dict[int, float] = {}
        self.new = 0
        self.error: RolfError | None = None

    def result(self) -> int:
        """How many rewards were not on record, if they could be recorded."""
        if self.error is not None:
            raise self.error
        return self.new
