"""What an experiment can say about its arms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from rolf.arms.table import Arms
from rolf.checks import between, whole
from rolf.errors import ExperimentError
from rolf.estimators.posterior.mixture import intervals, probabilities_of_best
from rolf.experiments.parts import Part
from rolf.experiments.roster import Roster
from rolf.experiments.status.make import status_from
from rolf.experiments.status.result import ArmRecord, Counts, Status, arm_records
from rolf.experiments.status.timeline import read_outcomes
from rolf.experiments.status.view import capture
from rolf.experiments.storage.contract import log_rows
from rolf.policies.core.parts import means, probabilities
from rolf.policies.posterior_policy import PosteriorPolicy
from rolf.types import FloatArray


class Beliefs(Part):
    """The part of an experiment that reads, and records nothing but default rewards."""

    @property
    def _arms(self) -> Arms:
        return self.synced.replica.roster.arms

    def estimates(self, *, features: Any = None, context: Any = None) -> Any:
        """Estimated mean reward of every arm: an array, or a Series for labelled arms."""
        with self.current():
            return self._arms.labelled(self._estimates(features, context))

    def _estimates(self, features: Any, context: Any) -> FloatArray:
        params, table = self.synced.replica.policy.params, self._round_features(features, context)
        return means(params, self.synced.replica.state, table)

    def _round_features(self, features: Any, context: Any) -> FloatArray:
        policy = self.synced.replica.policy
        if policy.varying and policy.context is None and context is None:
            return self._arms.round_features(features)  # whose arms may have names
        return policy.round_features(features, context)

    def rank(self, k: int | None = None, *, features: Any = None, context: Any = None) -> list[Any]:
        """The ``k`` best arms by estimate, best first, without retired ones; all by default."""
        with self.current() as replica:
            positions = replica.roster.positions
            count = positions.size if k is None else whole("k", k, 1)
            values = self._estimates(features, context)[positions]
            order = np.argsort(-values, kind="stable")[:count]
            return [self._arms.labels[arm] for arm in positions[order]]

    def probabilities(
        self,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        draws: int = 10_000,
    ) -> Any:
        """Each arm's chance in the next ``ask``; 0 for retired arms.

        Exact, except for Thompson sampling, where it is the share of ``draws`` posterior draws.
        Reading it changes no later decision.
        """
        draws = whole("draws", draws, 1)
        with self.current() as replica:
            arms = replica.roster.available(available)
            table, params = self._round_features(features, context), replica.policy.params
            out = np.zeros(self._arms.count)
            out[arms] = probabilities(params, replica.state, table, arms, draws)
            return self._arms.labelled(out)

    def intervals(self, level: float = 0.9, *, features: Any = None, context: Any = None) -> Any:
        """Posterior intervals of the arms' mean rewards, for policies with a posterior.

        Each holds the mean with probability ``level``, as much below as above. An array (K, 2), or
        a table with columns low and high for labelled arms. Unbounded while fewer than two
        different rewards have come.
        """
        level = between("level", level, 0.0, 1.0)
        with self.current():
            known = self._posterior_policy().posterior(self._round_features(features, context))
            ends = intervals(known, self._arms.count, level)
            return self._arms.labelled(ends, ("low", "high"))

    def probability_best(
        self,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        draws: int = 10_000,
    ) -> Any:
        """The posterior probability of every arm to be the best one that is not retired, for
        policies with a posterior: the share of ``draws`` in which it is."""
        draws = whole("draws", draws, 1)
        with self.current() as replica:
            known = self._posterior_policy().posterior(self._round_features(features, context))
            arms = replica.roster.active_among(available)
            return self._arms.labelled(probabilities_of_best(known, self._arms.count, arms, draws))

    def _posterior_policy(self) -> PosteriorPolicy:
        policy = self.synced.replica.policy
        if not isinstance(policy, PosteriorPolicy):
            raise no_posterior(self.synced.replica.record.policy)
        return policy

    def status(
        self,
        *,
        features: Any = None,
        context: Any = None,
        control: Any = None,
        timeline: bool = False,
    ) -> Status:
        """Counts of decisions and rewards, every arm's plays and estimate, and the uplift.

        Args:
            features: (K, d) features of a round, for policies that take them.
            context: of a round, for experiments with contexts.
            control: an arm to compare with; by default an equal share of all active arms.
            timeline: read the whole log for rewards over time. Where features come with every
                ask, the uplift needs it too.
        """
        with self.current() as replica:
            given = features is not None or context is not None
            view = capture(replica, self._round_features(features, context) if given else None)
            last = replica.last
        outcomes = None
        if timeline:
            rows = log_rows(self.synced.store, self._record, 0, last)
            outcomes = read_outcomes(Roster.loads(self._record.features), rows)
        with interrupts_recognised():  # asks need not wait for this
            return status_from(self._record.name, view, control, outcomes)

    def _status_in_round(
        self, features: Any, context: Any, available: Any, level: float, draws: int
    ) -> Status:
        """The status of the arms in a round: ``estimates``, ``intervals`` and
        ``probability_best`` at once,
        for which asks need not wait."""
        with self.current() as replica:
            view = capture(replica, self._round_features(features, context))
            arms = None if available is None else replica.roster.active_among(available)
        return status_from(self._record.name, view, level=level, available=arms, draws=draws)

    def counts(self) -> Counts:
        """How many decisions were made and how many rewards told, without any estimates."""
        with self.current(defaults=False) as replica:
            return Counts(sum(replica.asked), sum(replica.told))

    @property
    def arms(self) -> list[Any]:
        """The names of all arms, retired ones included."""
        with self.current(defaults=False) as replica:
            return list(replica.roster.arms.labels)

    def arm_table(self) -> list[ArmRecord]:
        """Every arm, retired ones included, with its features and how often it was played."""
        with self.current(defaults=False) as replica:
            return arm_records(replica)


@contextmanager
def interrupts_recognised() -> Iterator[None]:
    """Compiled code reports an interrupt as a SystemError."""
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise


def no_posterior(policy: str) -> ExperimentError:
    return ExperimentError(
        f"{policy} has no posterior, from which this follows; "
        "status() shows that of RoLF-Bayes given the same rewards"
    )
