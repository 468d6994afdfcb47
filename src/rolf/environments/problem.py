"""Problems: the class users hold, and the arrays the engine plays."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from rolf.arms.table import number_table
from rolf.checks import between, one_of, vector
from rolf.errors import InvalidArgument
from rolf.kernel import implement, kernel
from rolf.types import FloatArray, Generator, Seed

# --- the operations that the engine calls ------------------------------------------------


@kernel
def look(problem: Any, round: int, rng: Generator) -> tuple[FloatArray, FloatArray, float]:
    """Features (K, d), mean rewards (K,) and the largest mean reward in this round."""
    raise NotImplementedError


@kernel
def respond(problem: Any, mean: float, rng: Generator) -> float:
    """A reward with this mean."""
    raise NotImplementedError


GAUSSIAN, STUDENT, BERNOULLI = range(3)
KINDS = {"gaussian": GAUSSIAN, "student": STUDENT, "bernoulli": BERNOULLI}


class Fixed(NamedTuple):
    """Fixed features and means; one class for all kinds of rewards, so one compiled loop does."""

    features: FloatArray
    means: FloatArray
    best: float
    noise: float
    kind: int  # of rewards: a value of KINDS


def _look(problem: Fixed, round: int, rng: Generator) -> tuple[FloatArray, FloatArray, float]:
    return problem.features, problem.means, problem.best


def _respond(problem: Fixed, mean: float, rng: Generator) -> float:
    if problem.kind == BERNOULLI:
        return 1.0 if rng.random() < mean else 0.0
    drawn = rng.standard_normal()
    if problem.kind == STUDENT:  # from normals: rng.standard_t takes seconds to compile
        first, second, third = rng.standard_normal(), rng.standard_normal(), rng.standard_normal()
        # t_3 is z / sqrt(chi2_3 / 3), of variance 3
        drawn /= math.sqrt(first * first + second * second + third * third)
    return mean + problem.noise * drawn


implement(Fixed, {look: _look, respond: _respond})

# --- the public classes ---------------------------------------------------------------------


class Family(Protocol):
    """A distribution over problems."""

    def draw(self, seed: Seed = None) -> Problem: ...

    def describe(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class DescribedFamily:
    """A family fully described by its fields."""

    kind: ClassVar[str]

    def describe(self) -> dict[str, Any]:
        """The family as plain data."""
        return {"problem": self.kind, **asdict(self)}


def check_array(name: str, array: Any, shape: tuple[int, ...]) -> None:
    """Refuse an array that replaced one of another shape: compiled code would read past its end."""
    same = isinstance(array, np.ndarray) and array.dtype == np.float64 and array.shape == shape
    if not same:
        got = f"shape {np.shape(array)}" if np.shape(array) != shape else array
        raise InvalidArgument(name, got, f"floats of shape {shape}, as when the problem was made")


class Problem:
    """One bandit problem with fixed features.

    Args:
        features: (K, d) observed features.
        means: (K,) true mean rewards.
        noise: standard deviation of the rewards around their mean. Ignored for Bernoulli rewards,
            whose ``.noise`` is the root of their mean variance, sqrt(mean of m (1 - m)) over the
            arms.
        rewards: distribution around the mean: "gaussian"; "student", the heavy-tailed Student's t
            with 3 degrees of freedom; or "bernoulli", 1 with probability mean and else 0, for
            means in [0, 1].
    """

    def __init__(
        self, features: Any, means: Any, noise: float = 0.1, *, rewards: str = "gaussian"
    ) -> None:
        table = number_table(features)
        values = vector("means", means, "arm", table.shape[0])
        self.features: FloatArray = table
        self.means: FloatArray = values
        self._shape = table.shape
        self.rewards = one_of("rewards", rewards, *KINDS)
        if rewards == "bernoulli":
            if ((values < 0.0) | (values > 1.0)).any():
                raise InvalidArgument("means", means, "between 0 and 1 for Bernoulli rewards")
            self.noise = math.sqrt(float(np.mean(values * (1.0 - values))))
        else:
            self.noise = between("noise", noise, 0.0, math.inf, inclusive=True)

    @property
    def best(self) -> int:
        """The best arm."""
        return int(self.means.argmax())

    @property
    def params(self) -> Fixed:
        """The arrays the engine plays."""
        check_array("features", self.features, self._shape)
        check_array("means", self.means, self._shape[:1])
        kind = KINDS[self.rewards]
        return Fixed(self.features, self.means, float(self.means.max()), self.noise, kind)

    def reward(self, arm: int, rng: Generator) -> float:
        """Draw a reward of one arm."""
        return float(respond(self.params, float(self.means[arm]), rng))

    def describe(self) -> dict[str, Any]:
        """The problem as plain data."""
        return {
            "problem": "fixed",
            "features": self.features.tolist(),
            "means": self.means.tolist(),
            "noise": self.noise,
            "rewards": self.rewards,
        }

    def __repr__(self) -> str:
        arms, size = self.features.shape
        return f"<Problem of {arms} arms with {size} features, noise {self.noise:g}>"
