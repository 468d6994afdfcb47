"""Observed features that change every round.

The mean reward of arm a in round t is x_{a,t}'theta + bias_a. The features are redrawn each round;
the bias is what constant latent features contribute to the arm. With ``latent="varying"`` the bias
is redrawn too, so it cannot be learned.

Features are standard normal, so neither they nor the mean rewards are bounded. The paper's
theorems assume that both are: with ``bounded=True`` features are uniform in the unit ball, and
|theta| plus the largest bias is at most 1, so no mean reward exceeds 1 in absolute value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from rolf.checks import between, generator, one_of, whole
from rolf.environments.problem import DescribedFamily, check_array, look, respond
from rolf.errors import InvalidArgument
from rolf.kernel import implement
from rolf.types import FloatArray, Generator, Seed


class Varying(NamedTuple):
    """features (K, d), bias (K,) and means (K,) are overwritten every round."""

    features: FloatArray
    theta: FloatArray
    bias: FloatArray
    means: FloatArray
    noise: float
    spread: float  # of a varying bias; 0 if it is fixed
    bounded: bool


def _look(problem: Varying, round: int, rng: Generator) -> tuple[FloatArray, FloatArray, float]:
    arms, size = problem.features.shape
    best = -math.inf
    for a in range(arms):
        mean = 0.0
        norm2 = 0.0
        for j in range(size):
            problem.features[a, j] = rng.standard_normal()
            mean += problem.features[a, j] * problem.theta[j]
            norm2 += problem.features[a, j] ** 2
        if problem.bounded:  # a random direction, and a radius that makes it uniform in the ball
            shrink = rng.random() ** (1.0 / size) / math.sqrt(norm2)
            mean *= shrink
            for j in range(size):
                problem.features[a, j] *= shrink
        if problem.spread > 0.0:
            problem.bias[a] = problem.spread * (2.0 * rng.random() - 1.0)
        problem.means[a] = mean + problem.bias[a]
        best = max(best, problem.means[a])
    return problem.features, problem.means, best


def _respond(problem: Varying, mean: float, rng: Generator) -> float:
    return mean + problem.noise * rng.standard_normal()


implement(Varying, {look: _look, respond: _respond})


class VaryingProblem:
    """One problem whose observed features are redrawn every round.

    Attributes:
        features: (K, d) zeros, which only state the numbers of arms and features.
        theta: (d,) coefficients of the observed features.
        bias: (K,) contribution of the latent features to each arm.
        noise: standard deviation of the rewards' noise.
        spread: the bias is redrawn from (-spread, spread) every round; 0 if it is fixed.
        bounded: whether features lie in the unit ball and mean rewards in [-1, 1].
    """

    def __init__(
        self,
        arms: int,
        theta: FloatArray,
        bias: FloatArray,
        noise: float,
        spread: float,
        bounded: bool = False,
    ) -> None:
        self.features: FloatArray = np.zeros((arms, theta.size))
        self.theta = theta
        self.bias = bias
        self.noise = noise
        self.spread = spread
        self.bounded = bounded

    @property
    def params(self) -> Varying:
        """The arrays the engine plays."""
        arms, size = self.features.shape
        check_array("theta", self.theta, (size,))
        check_array("bias", self.bias, (arms,))
        return Varying(
            np.zeros((arms, size)),
            self.theta,
            self.bias.copy(),
            np.zeros(arms),
            self.noise,
            self.spread,
            self.bounded,
        )

    def describe(self) -> dict[str, Any]:
        """The problem as plain data."""
        return {
            "problem": "varying",
            "theta": self.theta.tolist(),
            "bias": self.bias.tolist(),
            "noise": self.noise,
            "spread": self.spread,
            "bounded": self.bounded,
        }


@dataclass(frozen=True)
class VaryingFamily(DescribedFamily):
    """A distribution over varying problems; made by ``varying``."""

    kind = "varying"

    arms: int
    observed: int
    latent: str
    share: float
    noise: float
    scale: float
    bounded: bool

    def draw(self, seed: Seed = None) -> VaryingProblem:
        """One problem."""
        rng = generator(seed)
        theta = rng.standard_normal(self.observed)
        length, spread = (self.scale * each for each in _sizes(self))
        theta *= length / float(np.linalg.norm(theta))
        bias = rng.uniform(-spread, spread, self.arms)
        moving = spread if self.latent == "varying" else 0.0
        return VaryingProblem(self.arms, theta, bias, self.noise, moving, self.bounded)


def _sizes(family: VaryingFamily) -> tuple[float, float]:
    """|theta| and the largest bias, for mean rewards of standard deviation 1.

    The observed part has standard deviation |theta|, or |theta|/sqrt(d + 2) in the unit ball; the
    latent part is uniform.
    """
    length = math.sqrt(family.share * (family.observed + 2.0 if family.bounded else 1.0))
    return length, math.sqrt(3.0 * (1.0 - family.share))


def varying(
    *,
    arms: int = 30,
    observed: int = 17,
    latent: str = "fixed",
    share: float = 0.5,
    noise: float = 0.1,
    scale: float | None = None,
    bounded: bool = False,
) -> VaryingFamily:
    """Problems whose observed features are redrawn every round, from a standard normal
    distribution or from the unit ball.

    Args:
        arms: K.
        observed: d.
        latent: "fixed", which can be learned, or "varying", which cannot.
        share: share of the variance of the mean rewards that the observed features explain, in
            (0, 1].
        noise: standard deviation of the rewards' noise.
        scale: standard deviation of the mean rewards; 0.5 by default, or the largest possible if
            they are bounded.
        bounded: as in the paper, features of norm at most 1 (uniform in the unit ball) and mean
            rewards between -1 and 1.
    """
    arms = whole("arms", arms, 2)
    observed = whole("observed", observed, 1)
    latent = one_of("latent", latent, "fixed", "varying")
    share = between("share", share, 0.0, 1.0 + 1e-12)
    noise = between("noise", noise, 0.0, math.inf, inclusive=True)
    if not isinstance(bounded, bool):
        raise InvalidArgument("bounded", bounded, "True or False")
    family = VaryingFamily(arms, observed, latent, min(share, 1.0), noise, 0.5, bounded)
    largest = 1.0 / sum(_sizes(family)) if bounded else math.inf
    if scale is None:
        return replace(family, scale=largest if bounded else 0.5)
    scale = between("scale", scale, 0.0, math.inf)
    if scale > largest:
        expected = f"at most {largest:.4g}, for mean rewards between -1 and 1"
        raise InvalidArgument("scale", scale, expected)
    return replace(family, scale=scale)
