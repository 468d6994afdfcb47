"""What a policy can say about its arms."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from rolf.arms.table import Arms
from rolf.checks import whole
from rolf.errors import InvalidArgument
from rolf.policies.core.rounds import Context
from rolf.policies.operations import estimate, probabilities
from rolf.types import FloatArray, IntArray


class ShowsBeliefs:
    """The part of a policy that says what it believes, and in which features."""

    name: ClassVar[str]
    varying: ClassVar[bool]
    context: Context | None
    arms: Arms
    params: Any
    _state: Any
    _lock: threading.RLock
    _everything: IntArray

    def estimates(self, *, features: Any = None, context: Any = None) -> Any:
        """Estimated mean reward of every arm: an array, or a Series for labelled arms."""
        table = self._round_features(features, context)
        with self._lock:
            values = np.array(estimate(self.params, self._state, table))
        return self.arms.labelled(values)

    def probabilities(
        self,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        draws: int = 10_000,
    ) -> Any:
        """Each arm's chance in the next ``ask``.

        Exact, except for Thompson sampling, where it is the share of ``draws`` posterior
        draws. Reading it changes no later decision.
        """
        arms = self._everything if available is None else self.arms.subset(available)
        table = self._round_features(features, context)
        draws = whole("draws", draws, 1)
        out = np.zeros(self.arms.count)
        with self._lock:
            out[arms] = probabilities(self.params, self._state, table, arms, draws)
        return self.arms.labelled(out)

    def rank(self, k: int | None = None, *, features: Any = None, context: Any = None) -> list[Any]:
        """The ``k`` best arms by estimate, best first; all of them by default."""
        count = self.arms.count if k is None else whole("k", k, 1)
        table = self._round_features(features, context)
        with self._lock:
            values = np.array(estimate(self.params, self._state, table))
        order = np.argsort(-values, kind="stable")[:count]
        return [self.arms.labels[arm] for arm in order]

    def _round_features(self, features: Any, context: Any = None) -> FloatArray:
        """The features of a round as they were given, or as they follow from its context."""
        if self.context is not None:
            if features is not None:
                expected = "nothing: they follow from the context and the features of the arms"
                raise InvalidArgument("features", features, expected)
            return self.context.of_all(self.arms.features, self.context.vector(context))
        if context is not None:
            expected = f"nothing: {self.name} was created without the option context"
            raise InvalidArgument("context", context, expected)
        if self.varying:
            return self.arms.round_features(features)
        if features is not None:
            expected = f"nothing: {self.name} has fixed features; rolf-bayes-varying takes them"
            raise InvalidArgument("features", features, expected)
        return self.arms.features

    def _typical_features(self) -> FloatArray:
        """Features that a round might have, (K, D)."""
        if self.context is None:
            return self.arms.features
        return self.context.typical(self.arms.features)
