"""LinUCB: the best upper confidence bound of a linear model on the observed features.

Score of arm a in round t: x_a'theta + alpha sqrt(log t) sqrt(x_a' M^-1 x_a), with
M = ridge I + sum x x'. Each reward updates the widths; they are never recomputed from scratch.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from rolf.arms.table import Arms
from rolf.estimators.contract import widths
from rolf.estimators.ridge.fixed import Ridge
from rolf.kernel import implement
from rolf.policies.core.parts import Params
from rolf.policies.core.rules import Optimistic, Situation, believed_means, bounds
from rolf.policies.policy import Policy
from rolf.policies.rivals.settings import Baseline, ridge_penalty
from rolf.types import FloatArray, Seed


class LogBound(NamedTuple):
    """alpha sqrt(log t) widths above the estimate."""

    alpha: float


def _bounds(bound: LogBound, now: Situation, round: int) -> tuple[FloatArray, FloatArray]:
    estimates = believed_means(now)
    scale = bound.alpha * math.sqrt(math.log(round))
    return estimates, estimates + scale * widths(now.model, now.belief, now.features)


implement(LogBound, {bounds: _bounds})


class LinUCB(Policy):
    """LinUCB on the observed features (Li et al. 2010).

    Args:
        features: (K, d), one row per arm: an array, a nested list or a DataFrame.
        setting: "paper": width alpha = 1 + sqrt(log(2/delta)/2); "tuned": that times the
            noise. Explicit arguments override either.
        noise: standard deviation of the noise, used by the tuned setting.
        delta: confidence, in (0, 1).
        ridge: penalty of the ridge; 0.6 in both settings.
        width: alpha.
        seed: for this policy's draws, which only break ties.
    """

    name = "linucb"
    summary = "LinUCB on the observed features (Li et al. 2010)"

    def __init__(
        self,
        features: Any,
        *,
        setting: str = "paper",
        noise: float = 0.1,
        delta: float = 1e-4,
        ridge: float | None = None,
        width: float | None = None,
        seed: Seed = None,
    ) -> None:
        arms = Arms.read(features)
        model = self._model(arms.features, ridge_penalty(ridge))
        bound = LogBound(Baseline.checked(setting, noise, delta).confidence_width(width))
        super().__init__(arms, Params(model, Optimistic(bound)), seed)

    def _model(self, features: FloatArray, penalty: float) -> Any:
        return Ridge(features, penalty)
