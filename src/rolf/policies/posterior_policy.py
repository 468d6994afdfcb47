"""The base class of policies with a posterior: intervals, probabilities of being best, scales.

Intervals and the probability of being best come from the posterior itself, a mixture of Student t
distributions; ``scales`` says how far the features explain the rewards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from rolf.checks import MAX_COUNT, between, one_of, whole
from rolf.errors import InvalidArgument
from rolf.estimators.posterior.contract import reward_variance
from rolf.estimators.posterior.mixture import (
    MixturePosterior,
    intervals,
    known_posterior,
    probabilities_of_best,
)
from rolf.estimators.posterior.scales import noise_posterior
from rolf.policies.core.posterior_rules import PosteriorBound, PosteriorDraws
from rolf.policies.core.rules import Drawn, Optimistic
from rolf.policies.policy import Policy
from rolf.types import FloatArray

#: draws from the posterior in a round of ``rule="sample"``
DRAWS = 100
#: options that lead to one rule each
RULES: Sequence[Mapping[str, Any]] = ({}, {"explore": 0.1}, {"rule": "sample"})


def known_noise(noise: float | None) -> float:
    """The noise variance, 0 if the option is None."""
    return 0.0 if noise is None else between("noise", noise, 1e-30, 1e30) ** 2


def posterior_rule(rule: str, width: float, horizon: int | None, explore: float) -> Any:
    """The rule for these options."""
    kind = one_of("rule", rule, "bound", "sample")
    rounds = 0 if horizon is None else whole("horizon", horizon, 1, MAX_COUNT)
    explore = between("explore", explore, 0.0, 1.0, inclusive=True)
    if kind == "sample":
        if rounds:
            raise InvalidArgument("horizon", horizon, 'nothing with rule="sample"')
        return Drawn(PosteriorDraws(DRAWS), explore)
    optimistic = Optimistic(PosteriorBound(between("width", width, 0.0, 1e100), rounds))
    return Drawn(optimistic, explore) if explore > 0.0 else optimistic


class PosteriorPolicy(Policy):
    """A policy that holds a posterior over the arms and the scales."""

    variants: ClassVar[Sequence[Mapping[str, Any]]] = RULES

    def posterior(self, features: FloatArray) -> MixturePosterior | None:
        """The posterior of the arms with these features (K, d); None while nothing is known."""
        with self._lock:
            return known_posterior(self.params.model, self.state.belief, features)

    def intervals(self, level: float = 0.9, *, features: Any = None, context: Any = None) -> Any:
        """Posterior intervals of the arms' mean rewards.

        Each contains the mean with probability ``level``, with equal probabilities below and above.
        An array (K, 2), or a table with columns low and high for named arms. Unbounded until two
        different rewards are known.

        Args:
            level: in (0, 1).
            features: (K, d) features of the round, for policies that take them.
            context: of the round, for policies created with one.
        """
        level = between("level", level, 0.0, 1.0)
        known = self.posterior(self.round_features(features, context))
        ends = intervals(known, self.arms.count, level)
        return self.arms.labelled(ends, ("low", "high"))

    def probability_best(
        self,
        *,
        available: Iterable[Any] | None = None,
        features: Any = None,
        context: Any = None,
        draws: int = 10_000,
    ) -> Any:
        """The posterior probability of every arm to be the best one.

        The share of ``draws`` from the joint posterior in which it is. Reading it does not affect
        later decisions.
        """
        round = self.round(available, features, context)
        draws = whole("draws", draws, 1)
        known = self.posterior(round.features)
        shares = probabilities_of_best(known, self.arms.count, round.available, draws)
        return self.arms.labelled(shares)

    def scales(self) -> dict[str, float]:
        """The learned scales: standard deviations, and the share that features explain.

        ``noise`` is the standard deviation of a reward around its mean; ``observed`` and ``latent``
        are those of the parts of the arms' means that features do and do not explain; ``explained``
        is the share of the variance between arms that features explain, from 0 (ignore them) to 1
        (trust them). NaN while nothing is known. For clicks and counts the two parts are on the
        scale of the log-odds or the logarithm, and the noise is that of an average reward so far.
        """
        with self._lock:
            model, belief = self.params.model, self.state.belief
            evidence = belief.components.evidence
            known = evidence.seen[0] if model.noise > 0.0 else evidence.errors.max()
            if known <= 0.0:
                return dict.fromkeys(("noise", "observed", "latent", "explained"), math.nan)
            weights = evidence.weights.copy()
            unit, _ = noise_posterior(evidence, model.noise)
            noise = reward_variance(model, belief, float(weights @ unit))
        observed, latent = model.observed, model.latent
        return {
            "noise": math.sqrt(noise),
            "observed": math.sqrt(float(weights @ (unit * observed))),
            "latent": math.sqrt(float(weights @ (unit * latent))),
            "explained": float(weights @ (observed / (observed + latent))),
        }
