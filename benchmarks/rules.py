"""Other ways to decide from the posterior of RoLF-Bayes, to be measured beside its own.

Each is RoLF-Bayes with another bound: the same model, the same scales, the same updates.
``benchmarks/regret.py --policy NAME`` takes the names in ``RULES``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rolf.estimators.posterior.bounds import Bonus, upper_bounds
from rolf.estimators.posterior.mixture import Believed, believed
from rolf.kernel import implement, shared
from rolf.policies.core.parts import Params
from rolf.policies.core.rules import Optimistic, Situation, bounds
from rolf.policies.rolf_bayes import RoLFBayes
from rolf.types import FloatArray, Seed


class Steady(NamedTuple):
    """The same bound with a width that does not grow."""

    width: float


class Tempered(NamedTuple):
    """A width that does not grow, and components weighed by a power of their weight."""

    width: float


class PlugIn(NamedTuple):
    """A width that does not grow, from the one component with the largest weight."""

    width: float


@shared
def _bounds_of(known: Believed, width: float, now: Situation) -> tuple[FloatArray, FloatArray]:
    bonus = Bonus(width, 0.0, math.inf)
    return upper_bounds(now.model, now.belief, known, now.pending, bonus)


def _steady(bound: Steady, now: Situation, round: int) -> tuple[FloatArray, FloatArray]:
    return _bounds_of(believed(now.model, now.belief, now.features), bound.width, now)


def _tempered(bound: Tempered, now: Situation, round: int) -> tuple[FloatArray, FloatArray]:
    known = believed(now.model, now.belief, now.features)
    powers = known.weights**0.4
    weights = powers / powers.sum()
    flat = Believed(weights, known.means, known.variances, known.noises)
    return _bounds_of(flat, bound.width, now)


def _plug_in(bound: PlugIn, now: Situation, round: int) -> tuple[FloatArray, FloatArray]:
    known = believed(now.model, now.belief, now.features)
    alone = np.zeros(known.weights.size)
    alone[np.argmax(known.weights)] = 1.0
    one = Believed(alone, known.means, known.variances, known.noises)
    return _bounds_of(one, bound.width, now)


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
