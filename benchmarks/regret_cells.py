"""The cells of benchmarks/regret.py: distributions over problems, in four sets.

main: 48 cells. The five panels of the paper at three noise levels; 24 synthetic cells that vary
the number of arms, the number of features, the share of the variance that the features explain,
dense or sparse latent parts, and the noise; heavy tails, Bernoulli rewards, rewards around 40 and
rewards times 1000.

long: a representative 18 of them that can be played for 30,000 rounds.

close: many arms with similar means, as in ratings: 40 to 80 arms, a spread of 0.1, noise of one to
four times that, few features, some of them dummy columns of a category. In some cells the means are
bounded from above, so that many are near the best.

varying: features that change every round, with constant latent parts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from rolf.environments import Problem, VaryingProblem, paper, synthetic, varying
from rolf.environments.problem import DescribedFamily, look
from rolf.simulation.runs import draw_problem
from rolf.types import FloatArray, Seed

NOISES = (0.04, 0.1, 0.5)
COIN = 0.45  # the noise level that specialists are told for Bernoulli rewards


def _name(family: Any, *extra: str) -> str:
    latent = family.latent if family.share < 1.0 else "all seen"
    parts = [f"K={family.arms} d={family.observed}", f"share {family.share:g}", latent]
    if family.rewards != "bernoulli":
        parts.append(f"noise {family.noise:g}")
    return ", ".join([*parts, *extra])


def _systematic() -> list[Any]:
    """24 cells: arms x features x share, minus six, and three with share 0."""
    out = []
    for i, arms in enumerate((10, 30, 100)):
        sizes = (1, round(arms / 4), arms)
        grid = [(j, k, share) for j in range(3) for k, share in enumerate((0.5, 0.9, 1.0))]
        # two of nine are left out per K, so that each size and each share is left out twice overall
        kept = [(j, i + j + 2 * k, share) for j, k, share in grid if i == j or (i + j + k) % 3 != 2]
        for j, turn, share in [*kept, ((i + 1) % 3, i, 0.0)]:
            latent = ("dense", "sparse")[(turn % 3 + j) % 2]
            noise = NOISES[turn % 3]
            out.append(
                synthetic(arms=arms, observed=sizes[j], share=share, latent=latent, noise=noise)
            )
    return out


def _main() -> dict[str, Any]:
    panels = [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)]
    out: dict[str, Any] = {
        f"paper {scenario}.{case}, noise {noise:g}": paper(scenario, case, noise=noise)
        for scenario, case in panels
        for noise in NOISES
    }
    out |= {_name(family): family for family in _systematic()}
    # The same seed draws the same problem for any noise, share, shift, scale or kind of rewards.
    base: dict[str, Any] = {"arms": 30, "observed": 8, "share": 0.9, "latent": "dense"}
    small: dict[str, Any] = {"arms": 10, "observed": 2, "share": 0.5, "latent": "sparse"}
    large: dict[str, Any] = {"arms": 100, "observed": 25, "share": 0.5, "latent": "sparse"}
    for sizes, noise in ((small, 0.5), (base, 0.1), (large, 0.1)):
        family = synthetic(**sizes, noise=noise, rewards="student")
        out[_name(family, "heavy tails")] = family
    for sizes in (small, base, large):
        family = synthetic(**sizes, rewards="bernoulli")
        out[_name(family, "Bernoulli")] = family
    for noise in (0.1, 0.5):
        family = synthetic(**base, noise=noise, shift=40.0)
        out[_name(family, "around 40")] = family
    family = synthetic(**base, noise=0.1, scale=1000.0)
    out[_name(family, "times 1000")] = family
    return out


# A fair spread, without the cells of 100 arms and 100 features, which take minutes per policy.
LONG = (
    "paper 1.1, noise 0.1",
    "paper 1.1, noise 0.5",
    "paper 1.2, noise 0.04",
    "paper 1.3, noise 0.5",
    "paper 2.1, noise 0.1",
    "K=10 d=1, share 0.9, dense, noise 0.5",
    "K=10 d=2, share 1, all seen, noise 0.5",
    "K=10 d=10, share 0.9, sparse, noise 0.1",
    "K=30 d=1, share 0.5, sparse, noise 0.1",
    "K=30 d=8, share 0.5, sparse, noise 0.5",
    "K=30 d=30, share 0, sparse, noise 0.1",
    "K=100 d=1, share 0.9, sparse, noise 0.1",
    "K=100 d=25, share 0.5, sparse, noise 0.04",
    "K=100 d=25, share 0.9, sparse, noise 0.5",
    "K=100 d=1, share 0, dense, noise 0.5",
    "K=10 d=2, share 0.5, sparse, noise 0.5, heavy tails",
    "K=30 d=8, share 0.9, dense, Bernoulli",
    "K=30 d=8, share 0.9, dense, noise 0.5, around 40",
)


@dataclass(frozen=True)
class Bounded(DescribedFamily):
    """Problems of another family, with means transformed to approach a bound from below.

    The standardised means z become -log(1 + exp(-2 z)), rescaled to the original spread: about a
    sixth of the arms end up within a tenth of the spread of the best.
    """

    kind = "bounded"

    inner: Any

    @property
    def arms(self) -> int:
        return int(self.inner.arms)

    @property
    def noise(self) -> float:
        return float(self.inner.noise)

    def draw(self, seed: Seed = None) -> Problem:
        problem = self.inner.draw(seed)
        centre, spread = problem.means.mean(), problem.means.std()
        bent = -np.logaddexp(0.0, -2.0 * (problem.means - centre) / spread)
        means = centre + spread * (bent - bent.mean()) / bent.std()
        return Problem(problem.features, means, problem.noise, rewards=problem.rewards)


def _close() -> dict[str, Any]:
    """Cells by arms, features, share, latent part, noise, kind of features, and boundedness."""
    rows: list[tuple[int, int, float, str, float, str, bool]] = [
        (40, 1, 0.3, "dense", 0.1, "normal", False),
        (40, 6, 0.9, "dense", 0.4, "normal", False),
        (60, 5, 0.6, "sparse", 0.2, "normal", False),
        (60, 10, 0.95, "dense", 0.4, "normal", False),
        (80, 13, 0.5, "dense", 0.1, "normal", False),
        (40, 5, 0.6, "dense", 0.2, "categories", False),
        (60, 8, 0.9, "dense", 0.4, "categories", False),
        (80, 12, 0.3, "dense", 0.3, "categories", False),
        (40, 3, 0.95, "dense", 0.4, "normal", True),
        (60, 4, 0.6, "dense", 0.3, "normal", True),
        (80, 10, 0.9, "dense", 0.2, "categories", True),
    ]
    out: dict[str, Any] = {}
    for arms, observed, share, latent, noise, features, bounded in rows:
        family = synthetic(
            arms=arms,
            observed=observed,
            share=share,
            latent=latent,
            noise=noise,
            spread=0.1,
            features=features,
        )
        extra = ["categories"] * (features == "categories") + ["bounded"] * bounded
        out[_name(family, "close", *extra)] = Bounded(family) if bounded else family
    return out


def _varying() -> dict[str, Any]:
    rows = [
        (10, 3, 0.9, 0.5),
        (10, 5, 0.5, 0.1),
        (30, 17, 0.5, 0.1),
        (30, 8, 1.0, 0.1),
        (30, 8, 0.9, 0.5),
        (100, 5, 0.3, 0.1),
    ]
    out: dict[str, Any] = {}
    for arms, observed, share, noise in rows:
        name = f"K={arms} d={observed}, share {share:g}, noise {noise:g}, varying"
        out[name] = varying(arms=arms, observed=observed, share=share, noise=noise)
    return out


_MAIN = _main()
SETS: dict[str, dict[str, Any]] = {
    "main": _MAIN,
    "long": {cell: _MAIN[cell] for cell in LONG},
    "close": _close(),
    "varying": _varying(),
}
CELLS: dict[str, Any] = {cell: family for each in SETS.values() for cell, family in each.items()}
# The two panels of scenario 2 have the same distribution; different seeds make them differ.
OFFSETS = {f"paper 2.2, noise {noise:g}": 1 for noise in NOISES}


def moving(family: Any) -> bool:
    """Whether the features change every round."""
    return getattr(family, "kind", "") == "varying"


def _unit(family: Any) -> float:
    """The factor that multiplies all rewards; in varying problems, scale concerns the means."""
    return 1.0 if moving(family) else float(getattr(family, "scale", 1.0))


def level(family: Any) -> float:
    """The standard deviation of the noise that specialists are told."""
    if getattr(family, "rewards", "gaussian") == "bernoulli":
        return COIN
    return float(family.noise * _unit(family))


def blind_level(family: Any) -> float:
    """The same for policies that do not see features, for which their variation is noise too."""
    if not moving(family):
        return level(family)
    return math.hypot(family.noise, family.scale * math.sqrt(family.share))


def quiet(family: Any) -> bool:
    """Whether the noise, in units of the rewards, is at most 0.1."""
    return level(family) <= 0.1 * _unit(family)


def one_play(family: Any) -> float:
    """The average regret of a single play of a random arm."""
    costs = []
    for seed in range(200):
        _, means, best = look(family.draw(seed).params, 0, np.random.default_rng(seed))
        costs.append(best - means.mean())
    return float(np.mean(costs))


def spreads(family: Any, seed: int, runs: int) -> FloatArray:
    """The standard deviation of the mean rewards over the arms, for the problem of each run."""
    return np.array([_spread(draw_problem(family, seed, run)) for run in range(runs)])


def _spread(problem: Any) -> float:
    if isinstance(problem, VaryingProblem):  # over random features too
        latent = problem.spread**2 / 3.0 if problem.spread > 0.0 else problem.bias.var()
        return math.sqrt(float(problem.theta @ problem.theta + latent))
    return float(problem.means.std())
