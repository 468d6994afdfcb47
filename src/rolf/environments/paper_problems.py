"""The problems of the paper's experiments.

True features z = [x, u], of which the d-dimensional x is observed; mean reward z'theta with
theta uniform on (-1/2, 1/2). The cases differ in the relation of the row spaces of X and U:

1. general: z standard normal;
2. R(U) in R(X): x standard normal, u = C x with C uniform on (-1, 1); the observed features leave
   no latent part (d_h = 0);
3. R(X) in R(U): u standard normal, x = C u.

Scenario 1 has K = 30 arms, d_z = 35 and d = 17. In scenario 2 everything is observed,
d = d_z = 2K = 60; with no u left, its cases 1 and 2 are the same distribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rolf.checks import between, generator, one_of, whole
from rolf.environments.problem import DescribedFamily, Problem
from rolf.errors import InvalidArgument
from rolf.types import FloatArray, Generator, Seed


@dataclass(frozen=True)
class PaperFamily(DescribedFamily):
    """A distribution over the paper's problems; made by ``paper``."""

    kind = "paper"

    scenario: int
    case: int
    arms: int
    size: int  # d_z
    observed: int  # d
    noise: float
    bound: str
    theta: float
    mixing: float

    def draw(self, seed: Seed = None) -> Problem:
        """One problem."""
        rng = generator(seed)
        observed, latent = self._features(rng)
        theta = rng.uniform(-self.theta, self.theta, self.size)
        if self.bound == "theta":
            theta /= max(1.0, float(np.abs(theta).sum()))
        means = np.hstack([observed, latent]) @ theta
        means /= max(1.0, float(np.abs(means).max()))
        return Problem(observed, means, self.noise)

    def _features(self, rng: Generator) -> tuple[FloatArray, FloatArray]:
        hidden = self.size - self.observed
        if self.case == 3:
            latent = rng.standard_normal((self.arms, hidden))
            mixing = rng.uniform(-self.mixing, self.mixing, (self.observed, hidden))
            return latent @ mixing.T, latent
        observed = rng.standard_normal((self.arms, self.observed))
        if self.case == 2:
            mixing = rng.uniform(-self.mixing, self.mixing, (hidden, self.observed))
            return observed, observed @ mixing.T
        return observed, rng.standard_normal((self.arms, hidden))


def paper(
    scenario: int = 1,
    case: int = 1,
    *,
    arms: int = 30,
    size: int | None = None,
    observed: int | None = None,
    noise: float = 0.1,
    bound: str = "rewards",
    theta: float = 0.5,
    mixing: float = 1.0,
) -> PaperFamily:
    """The problems of scenario 1 (partly observed) or 2 (fully observed).

    Args:
        scenario: 1 or 2.
        case: 1, 2 or 3; scenario 2 has no case 3.
        arms: K.
        size: d_z, by default 35 in scenario 1 and 2K in scenario 2.
        observed: d, by default half of d_z in scenario 1 and d_z in scenario 2.
        noise: standard deviation of the rewards' noise.
        bound: "rewards" scales the mean rewards so that none exceeds 1 in absolute value;
            "theta" scales theta to an l1 norm of at most 1 first.
        theta: coefficients are uniform on (-theta, theta).
        mixing: the entries of C in cases 2 and 3 are uniform on (-mixing, mixing).
    """
    if scenario not in (1, 2):
        raise InvalidArgument("scenario", scenario, "1 or 2")
    if case not in (1, 2, 3) or (scenario == 2 and case == 3):
        raise InvalidArgument("case", case, "1, 2 or 3" if scenario == 1 else "1 or 2")
    bound = one_of("bound", bound, "rewards", "theta")
    arms = whole("arms", arms, 2)
    if size is None:
        size = 35 if scenario == 1 else 2 * arms
    size = whole("size", size, 1)
    if observed is None:
        observed = max(size // 2, 1) if scenario == 1 else size
    observed = whole("observed", observed, 1, size)
    if case == 3 and observed == size:
        raise InvalidArgument("observed", observed, "fewer than size: case 3 needs latent features")
    noise = between("noise", noise, 0.0, math.inf, inclusive=True)
    theta = between("theta", theta, 0.0, math.inf)
    mixing = between("mixing", mixing, 0.0, math.inf)
    return PaperFamily(scenario, case, arms, size, observed, noise, bound, theta, mixing)
