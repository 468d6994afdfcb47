"""UCB(delta): a multi-armed bandit that ignores the features.

Score of arm a after n_a rewards: mean + scale sqrt(2 log(1/delta)/n_a). Arms without rewards come
first.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rolf.arms.table import Arms
from rolf.estimators.means import ArmMeans
from rolf.kernel import implement
from rolf.policies.core.parts import Params
from rolf.policies.core.rules import Optimistic, Situation, bounds, unseen_first
from rolf.policies.policy import Policy
from rolf.policies.rivals.settings import Baseline, at_least_zero
from rolf.types import FloatArray, Seed


class CountBound(NamedTuple):
    """width = scale sqrt(2 log(1/delta))."""

    width: float


def _bounds(bound: CountBound, now: Situation, round: int) -> tuple[FloatArray, FloatArray]:
    counts, estimates = now.belief.counts, now.belief.estimates
    upper = estimates + bound.width / np.sqrt(np.maximum(counts, 1.0))
    return estimates, unseen_first(counts, upper)


implement(CountBound, {bounds: _bounds})


class UCB(Policy):
    """UCB(delta), which sees no features (Lattimore and Szepesvari 2020).

    Args:
        features: (K, d); only the number and the names of the arms are used.
        setting: "paper": scale 1; "tuned": scale = noise. An explicit scale overrides.
        noise: standard deviation of the noise, used by the tuned setting.
        delta: confidence, in (0, 1).
        scale: factor of the width; rewards are assumed to be sub-Gaussian with this scale.
        seed: for this policy's draws, which only break ties.
    """

    name = "ucb"
    summary = "UCB(delta), a multi-armed bandit that ignores features"

    def __init__(
        self,
        features: Any,
        *,
        setting: str = "paper",
        noise: float = 0.1,
        delta: float = 1e-4,
        scale: float | None = None,
        seed: Seed = None,
    ) -> None:
        arms = Arms.read(features)
        baseline = Baseline.checked(setting, noise, delta)
        known = baseline.noise if baseline.tuned else 1.0
        factor = at_least_zero("scale", known if scale is None else scale)
        bound = CountBound(factor * math.sqrt(-2.0 * math.log(baseline.delta)))
        super().__init__(arms, Params(ArmMeans(arms.count), Optimistic(bound)), seed)
