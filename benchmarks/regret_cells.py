"""The cells of benchmarks/regret.py: 48 distributions over problems.

The five panels of the paper at three noise levels; 24 synthetic cells that vary the number of
arms, the number of features, the share of the variance that the features explain, dense or sparse
latent parts, and the noise; heavy tails, Bernoulli rewards, rewards around 40 and rewards times
1000.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rolf.environments import paper, synthetic

NOISES = (0.04, 0.1, 0.5)
COIN = 0.45  # the noise level that specialists are told where rewards are Bernoulli


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
        # two of nine are left out per K; over all K, each size and each share twice
        kept = [(j, i + j + 2 * k, share) for j, k, share in grid if i == j or (i + j + k) % 3 != 2]
        for j, turn, share in [*kept, ((i + 1) % 3, i, 0.0)]:
            latent = ("dense", "sparse")[(turn % 3 + j) % 2]
            noise = NOISES[turn % 3]
            out.append(
                synthetic(arms=arms, observed=sizes[j], share=share, latent=latent, noise=noise)
            )
    return out


def _cells() -> dict[str, Any]:
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


CELLS: dict[str, Any] = _cells()
# The two panels of scenario 2 are the same distribution: other seeds make them differ.
OFFSETS = {f"paper 2.2, noise {noise:g}": 1 for noise in NOISES}


def level(family: Any) -> float:
    """The standard deviation of the noise that specialists are told."""
    if getattr(family, "rewards", "gaussian") == "bernoulli":
        return COIN
    return float(family.noise * getattr(family, "scale", 1.0))


def quiet(family: Any) -> bool:
    """Whether the noise, in units of the rewards, is at most 0.1."""
    return level(family) <= 0.1 * getattr(family, "scale", 1.0)


def one_play(family: Any) -> float:
    """What a single play of a random arm costs on average."""
    drawn = [family.draw(seed).means for seed in range(200)]
    return float(np.mean([means.max() - means.mean() for means in drawn]))
