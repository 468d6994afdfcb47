"""LinTS: Thompson sampling in a linear model on the observed features.

Each round draws theta from N(theta_hat, v^2 M^-1), M = ridge I + sum x x', and plays the arm with
the largest x_a'theta. Each reward updates a square root of M^-1, so a draw costs O(d^2) and needs
no factorisation.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from rolf.arms.table import Arms
from rolf.estimators.ridge.coefficients import CoefficientRidge
from rolf.kernel import implement
from rolf.linalg import matmat, normal_matrix
from rolf.policies.core.parts import Params
from rolf.policies.core.rules import Sampled, Situation, draw
from rolf.policies.policy import Policy
from rolf.policies.rivals.settings import Baseline, at_least_zero, ridge_penalty
from rolf.types import FloatArray, Generator, Seed


class LinearSampler(NamedTuple):
    """v, the standard deviation of a draw in units of the widths."""

    scale: float


def _draw(sampler: LinearSampler, now: Situation, count: int, rng: Generator) -> FloatArray:
    root, coef = now.belief.root, now.belief.coef
    steps = sampler.scale * matmat(root, normal_matrix(coef.size, count, rng))
    return matmat(now.model.features, coef.reshape((coef.size, 1)) + steps)


implement(LinearSampler, {draw: _draw})


class LinTS(Policy):
    """Thompson sampling on the observed features (Agrawal and Goyal 2013).

    The probability of a decision is estimated from 1000 draws when it is first read.

    Args:
        features: (K, d), one row per arm: an array, a nested list or a DataFrame.
        setting: "paper": v = noise sqrt(48 d log(1/delta)); "tuned": v = noise.
            Explicit arguments override either.
        noise: standard deviation of the noise.
        delta: confidence, in (0, 1).
        ridge: penalty of the ridge; 0.6 in both settings.
        scale: v.
        seed: for this policy's draws.
    """

    name = "lints"
    summary = "Thompson sampling on the observed features (Agrawal and Goyal 2013)"

    def __init__(
        self,
        features: Any,
        *,
        setting: str = "paper",
        noise: float = 0.1,
        delta: float = 1e-4,
        ridge: float | None = None,
        scale: float | None = None,
        seed: Seed = None,
    ) -> None:
        arms = Arms.read(features)
        baseline = Baseline.checked(setting, noise, delta)
        spread = baseline.noise
        if not baseline.tuned:
            spread *= math.sqrt(48.0 * arms.features.shape[1] * -math.log(baseline.delta))
        sampler = LinearSampler(at_least_zero("scale", spread if scale is None else scale))
        model = CoefficientRidge(arms.features, ridge_penalty(ridge))
        super().__init__(arms, Params(model, Sampled(sampler)), seed)
