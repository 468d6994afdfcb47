"""What policies with a posterior over the scales share: their bound, and what they can say.

Intervals and the chance of being best come from the posterior itself, a mixture of Student t
distributions; ``scales`` says what was learned about the features.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from rolf.checks import between, whole
from rolf.estimators.bounds import upper_bounds
from rolf.estimators.mixture import (
    MixturePosterior,
    believed,
    chances_of_best,
    intervals,
    known_posterior,
    mixture,
)
from rolf.estimators.scales import Evidence
from rolf.kernel import implement
from rolf.policies.base import Policy
from rolf.policies.rules import Situation, bounds
from rolf.types import FloatArray

#: rounds after which the bonus starts to grow
STEADY = 300.0


class PosteriorBound(NamedTuple):
    """The bonus of an arm of which little is known, in posterior standard deviations."""

    width: float


def _bounds(bound: PosteriorBound, now: Situation, round: int) -> tuple[FloatArray, FloatArray]:
    mean, variance, noise = mixture(believed(now.model, now.belief, now.features))
    width = math.sqrt(bound.width**2 + 2.0 * math.log1p(round / STEADY))
    upper = upper_bounds(now.model, now.belief, mean, variance, noise, now.waiting, width)
    return mean, upper


implement(PosteriorBound, {bounds: _bounds})


class PosteriorPolicy(Policy):
    """A policy that holds a posterior over the arms and the scales."""

    @property
    def _evidence(self) -> Evidence:
        evidence: Evidence = self._state.belief.components.evidence
        return evidence

    def _posterior(self, features: FloatArray) -> MixturePosterior | None:
        with self._lock:
            return known_posterior(self.params.model, self._state.belief, features)

    def intervals(self, level: float = 0.9, *, features: Any = None) -> Any:
        """Posterior intervals of the arms' mean rewards.

        Each holds the mean with probability ``level``, as much below as above. An array
        (K, 2), or a table with columns low and high for labelled arms. Unbounded while
        fewer than two different rewards have come.

        Args:
            level: in (0, 1).
            features: (K, d) features of the round, for policies that take them.
        """
        level = between("level", level, 0.0, 1.0)
        known = self._posterior(self._round_features(features))
        ends = intervals(known, self.arms.count, level)
        return self.arms.labelled(ends, ("low", "high"))

    def best(
        self, *, available: Iterable[Any] | None = None, features: Any = None, draws: int = 10_000
    ) -> Any:
        """The posterior probability of every arm to be the best one.

        The share of ``draws`` from the joint posterior in which it is. Reading it changes no
        later decision.
        """
        arms = self._everything if available is None else self.arms.subset(available)
        draws = whole("draws", draws, 1)
        known = self._posterior(self._round_features(features))
        return self.arms.labelled(chances_of_best(known, self.arms.count, arms, draws))

    def scales(self) -> dict[str, float]:
        """What was learned about the scales: standard deviations and a share.

        ``noise`` is the standard deviation of a reward around its mean, ``observed`` that of
        the part of the arms' means that features explain, ``latent`` that of the part they do
        not; ``explained`` is the share of the variance between arms that features explain,
        from 0 (ignore them) to 1 (trust them). NaN while nothing is known.
        """
        with self._lock:
            evidence = self._evidence
            degrees = float(evidence.seen[0]) - 1.0
            if float(evidence.errors.max()) <= 0.0:
                return dict.fromkeys(("noise", "observed", "latent", "explained"), math.nan)
            weights, noise = evidence.weights.copy(), evidence.errors / degrees
        observed, latent = self.params.model.observed, self.params.model.latent
        return {
            "noise": math.sqrt(float(weights @ noise)),
            "observed": math.sqrt(float(weights @ (noise * observed))),
            "latent": math.sqrt(float(weights @ (noise * latent))),
            "explained": float(weights @ (observed / (observed + latent))),
        }
