"""OFUL: optimism over the self-normalised confidence ellipsoid of a linear model.

Score of arm a: x_a'theta + radius_t sqrt(x_a' M^-1 x_a), with M = ridge I + sum x x' and

    radius_t = sigma sqrt(log(det M / ridge^d) + 2 log(1/delta)) + sqrt(ridge) S

by theory (Abbasi-Yadkori et al. 2011), where S bounds the norm of theta, or a constant.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from rolf.arms.table import Arms
from rolf.errors import InvalidArgument
from rolf.estimators.contract import widths
from rolf.estimators.ridge.fixed import Ridge
from rolf.kernel import implement
from rolf.policies.core.parts import Params
from rolf.policies.core.rules import Optimistic, Situation, believed_means, bounds
from rolf.policies.policy import Policy
from rolf.policies.rivals.settings import Baseline, at_least_zero, ridge_penalty
from rolf.types import FloatArray, Seed


class EllipsoidBound(NamedTuple):
    """The radius, a constant, or negative for the theory's, which depends on the other fields."""

    radius: float
    noise: float
    delta: float
    bound: float  # S


def _bounds(ball: EllipsoidBound, now: Situation, round: int) -> tuple[FloatArray, FloatArray]:
    radius = ball.radius
    if radius < 0.0:
        spread = now.belief.logdet[0] - 2.0 * math.log(ball.delta)
        radius = ball.noise * math.sqrt(spread) + math.sqrt(now.model.penalty) * ball.bound
    estimates = believed_means(now)
    return estimates, estimates + radius * widths(now.model, now.belief, now.features)


implement(EllipsoidBound, {bounds: _bounds})


class OFUL(Policy):
    """OFUL on the observed features (Abbasi-Yadkori et al. 2011).

    Args:
        features: (K, d), one row per arm: an array, a nested list or a DataFrame.
        setting: "paper": radius 1, as in the paper's lower bound; "tuned": the radius of
            the theory for this noise. Explicit arguments override either.
        noise: standard deviation of the noise, used by the theory's radius.
        delta: confidence, in (0, 1).
        ridge: penalty of the ridge; 1 in both settings.
        radius: a number, or "theory".
        bound: S, the bound on the norm of theta in the theory's radius.
        seed: for this policy's draws, which only break ties.
    """

    name = "oful"
    summary = "OFUL on the observed features (Abbasi-Yadkori et al. 2011)"

    def __init__(
        self,
        features: Any,
        *,
        setting: str = "paper",
        noise: float = 0.1,
        delta: float = 1e-4,
        ridge: float | None = None,
        radius: float | str | None = None,
        bound: float = 1.0,
        seed: Seed = None,
    ) -> None:
        arms = Arms.read(features)
        baseline = Baseline.checked(setting, noise, delta)
        if radius is None:
            radius = "theory" if baseline.tuned else 1.0
        if isinstance(radius, str) and radius != "theory":
            raise InvalidArgument("radius", radius, 'a number or "theory"')
        constant = -1.0 if radius == "theory" else at_least_zero("radius", radius)
        ball = EllipsoidBound(
            constant, baseline.noise, baseline.delta, at_least_zero("bound", bound)
        )
        model = Ridge(arms.features, ridge_penalty(ridge, default=1.0))
        super().__init__(arms, Params(model, Optimistic(ball)), seed)
