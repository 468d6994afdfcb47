"""What a problem is, to a person and to the engine."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import numpy as np

from rolf.checks import between
from rolf.errors import InvalidArgument
from rolf.kernel import implements, kernel
from rolf.types import FloatArray, Generator, Seed

# --- the operations that the engine calls ------------------------------------------------


@kernel
def look(problem: Any, round: int, rng: Generator) -> tuple[FloatArray, FloatArray, float]:
    """Features (K, d), mean rewards (K,) and the best of them, in this round."""
    raise NotImplementedError


@kernel
def respond(problem: Any, mean: float, rng: Generator) -> float:
    """A reward with this mean."""
    raise NotImplementedError


class Fixed(NamedTuple):
    """Fixed features and means, Gaussian noise."""

    features: FloatArray
    means: FloatArray
    best: float
    noise: float


@implements(look, Fixed)
def _look(problem: Fixed, round: int, rng: Generator) -> tuple[FloatArray, FloatArray, float]:
    return problem.features, problem.means, problem.best


@implements(respond, Fixed)
def _respond(problem: Fixed, mean: float, rng: Generator) -> float:
    return mean + problem.noise * rng.standard_normal()


# --- what people hold -----------------------------------------------------------------------


class Family(Protocol):
    """A distribution over problems."""

    def draw(self, seed: Seed = None) -> Problem: ...

    def describe(self) -> dict[str, Any]: ...


class Problem:
    """One bandit problem with fixed features.

    Args:
        features: (K, d) observed features.
        means: (K,) true mean rewards.
        noise: standard deviation of the Gaussian noise.
    """

    def __init__(self, features: Any, means: Any, noise: float = 0.1) -> None:
        try:
            table = np.array(features, dtype=np.float64, order="C")
            values = np.array(means, dtype=np.float64)
        except (TypeError, ValueError):
            given = f"{features!r} and {means!r}"
            raise InvalidArgument("features and means", given, "numbers") from None
        if table.ndim != 2 or not np.isfinite(table).all():
            raise InvalidArgument("features", features, "a (K, d) table of finite numbers")
        if values.shape != (table.shape[0],) or not np.isfinite(values).all():
            raise InvalidArgument("means", means, f"{table.shape[0]} finite numbers, one an arm")
        self.features: FloatArray = table
        self.means: FloatArray = values
        self.noise = between("noise", noise, 0.0, math.inf, inclusive=True)

    @property
    def best(self) -> int:
        """The best arm."""
        return int(self.means.argmax())

    @property
    def params(self) -> Fixed:
        return Fixed(self.features, self.means, float(self.means.max()), self.noise)

    def reward(self, arm: int, rng: Generator) -> float:
        """A reward of one arm."""
        return float(respond(self.params, float(self.means[arm]), rng))

    def describe(self) -> dict[str, Any]:
        """The problem as plain data."""
        return {
            "problem": "fixed",
            "features": self.features.tolist(),
            "means": self.means.tolist(),
            "noise": self.noise,
        }

    def __repr__(self) -> str:
        arms, size = self.features.shape
        return f"<Problem of {arms} arms with {size} features, noise {self.noise:g}>"
