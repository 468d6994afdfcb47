"""Other ways to decide from the posterior of RoLF-Bayes, to compare with its own.

Each is RoLF-Bayes with another bound: the same model, the same scales, the same updates.
``benchmarks/regret.py --policy NAME`` takes the names in ``RULES``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rolf.estimators.posterior.bounds import Bonus, normal_bounds, upper_bounds
from rolf.estimators.posterior.fixed import component_moments
from rolf.estimators.posterior.mixture import Believed, mixture
from rolf.estimators.posterior.scales import noise_variances
from rolf.kernel import implement, shared
from rolf.policies.core.parts import Params
from rolf.policies.core.rules import Optimistic, Situation, bounds
from rolf.policies.rolf_bayes import RoLFBayes
from rolf.types import FloatArray, Seed


class Steady(NamedTuple):
    """The same bound with a constant width."""

    width: float


class Tempered(NamedTuple):
    """A constant width, and components weighted by a power of their weight."""

    width: float


class PlugIn(NamedTuple):
    """A constant width, and only the component with the largest weight."""

    width: float


@shared
def _reweighted(weights: FloatArray, width: float, now: Situation) -> tuple[FloatArray, FloatArray]:
    """Means and bounds from the posterior's components with other weights."""
    grid, components = now.model, now.belief.components
    shape = weights.size, now.pending.size
    means, variances, everything = np.zeros(shape), np.zeros(shape), np.arange(shape[1])
    if components.evidence.seen[0] > 0.0:
        for g in range(shape[0]):
            mean, variance = component_moments(grid, components, g, everything)
            means[g] = mean
            variances[g] = variance
    noises = noise_variances(components.evidence, grid.noise)
    mean, variance, noise = mixture(Believed(weights, means, variances, noises))
    bonus = Bonus(width, 0.0, math.inf)
    return mean, normal_bounds(mean, variance, noise, now.pending, bonus)


def _steady(bound: Steady, now: Situation, round: int) -> tuple[FloatArray, FloatArray]:
    bonus = Bonus(bound.width, 0.0, math.inf)
    return upper_bounds(now.model, now.belief, now.features, now.pending, bonus)


def _tempered(bound: Tempered, now: Situation, round: int) -> tuple[FloatArray, FloatArray]:
    powers = now.belief.components.evidence.weights**0.4
    return _reweighted(powers / powers.sum(), bound.width, now)


def _plug_in(bound: PlugIn, now: Situation, round: int) -> tuple[FloatArray, FloatArray]:
    weights = now.belief.components.evidence.weights
    alone = np.zeros(weights.size)
    alone[np.argmax(weights)] = 1.0
    return _reweighted(alone, bound.width, now)


implement(Steady, {bounds: _steady})
implement(Tempered, {bounds: _tempered})
implement(PlugIn, {bounds: _plug_in})


class _OtherBound(RoLFBayes):
    """RoLF-Bayes with another bound."""

    bound: type

    def __init__(self, features: Any, *, width: float = 2.75, seed: Seed = None) -> None:
        super().__init__(features, width=width, seed=seed)
        self.params = Params(self.params.model, Optimistic(self.bound(width)))


def _with_bound(bound: type) -> type[_OtherBound]:
    return type(bound.__name__, (_OtherBound,), {"bound": bound})


RULES = {
    "steady": _with_bound(Steady),
    "tempered": _with_bound(Tempered),
    "plug-in": _with_bound(PlugIn),
}
