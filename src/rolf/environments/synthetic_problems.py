"""Problems with a chosen share of the means explained by the observed features.

Mean reward of arm a: spread (sqrt(share) o_a + sqrt(1 - share) u_a). The observed part is
o = X theta with X and theta standard normal, the latent part u is drawn per arm, and both are
scaled to standard deviation 1 over the arms. So ``share`` is the share of the variance of the
means that the features explain, up to the chance correlation of o and u: at 1 nothing is latent,
at 0 the features explain nothing.

With categories instead of a standard normal X, every arm belongs to one of d categories, none
empty, and X has one column of zeros and ones per category.

A dense u is standard normal; a sparse u is zero except for a fifth of the arms, which get a
random sign times 1 + Uniform(0, 1). ``scale`` and ``shift`` only change the unit and the origin
of the rewards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rolf.checks import between, generator, one_of, whole
from rolf.environments.problem import KINDS, DescribedFamily, Problem
from rolf.errors import InvalidArgument
from rolf.types import FloatArray, Generator, Seed


@dataclass(frozen=True)
class SyntheticFamily(DescribedFamily):
    """A distribution over synthetic problems; made by ``synthetic``."""

    kind = "synthetic"

    arms: int
    observed: int
    share: float
    latent: str
    noise: float
    spread: float
    shift: float
    scale: float
    rewards: str
    features: str

    def draw(self, seed: Seed = None) -> Problem:
        """One problem."""
        rng = generator(seed)
        features = self._features(rng)
        observed = features @ rng.standard_normal(self.observed)
        latent = self._latent(rng)
        parts = math.sqrt(self.share) * observed / observed.std()
        parts += math.sqrt(1.0 - self.share) * latent / latent.std()
        if self.rewards == "bernoulli":
            means = np.clip(0.5 + 0.25 * parts, 0.02, 0.98)
            return Problem(features, means, rewards=self.rewards)
        means = self.shift + self.scale * (self.spread * parts)
        return Problem(features, means, self.noise * self.scale, rewards=self.rewards)

    def _features(self, rng: Generator) -> FloatArray:
        if self.features == "normal":
            return rng.standard_normal((self.arms, self.observed))
        others = rng.integers(self.observed, size=self.arms - self.observed)
        categories = rng.permutation(np.concatenate([np.arange(self.observed), others]))
        dummies: FloatArray = np.eye(self.observed)[categories]
        return dummies

    def _latent(self, rng: Generator) -> FloatArray:
        if self.latent == "dense":
            return rng.standard_normal(self.arms)
        latent = np.zeros(self.arms)
        chosen = rng.permutation(self.arms)[: max(self.arms // 5, 1)]
        signs = np.where(rng.random(chosen.size) < 0.5, -1.0, 1.0)
        latent[chosen] = signs * (1.0 + rng.random(chosen.size))
        return latent


def synthetic(
    *,
    arms: int = 30,
    observed: int = 8,
    share: float = 0.5,
    latent: str = "dense",
    noise: float = 0.1,
    spread: float = 0.5,
    shift: float = 0.0,
    scale: float = 1.0,
    rewards: str = "gaussian",
    features: str = "normal",
) -> SyntheticFamily:
    """Problems whose features explain a chosen share of the variance of the mean rewards.

    Args:
        arms: K.
        observed: d.
        share: share of the variance of the mean rewards that the observed features explain, in
            [0, 1].
        latent: "dense", every arm has a latent part; or "sparse", a fifth of the arms have one.
        noise: standard deviation of the rewards' noise.
        spread: standard deviation of the mean rewards over the arms.
        shift: added to all rewards.
        scale: multiplies all rewards, means and noise alike, before the shift is added.
        rewards: "gaussian", "student" or "bernoulli", as in ``Problem``. The means of Bernoulli
            rewards are 1/2 + (the means divided by spread)/4, clipped to [0.02, 0.98]: noise and
            spread are ignored, shift and scale must keep their defaults.
        features: "normal", standard normal; or "categories", d columns of zeros and ones for one
            categorical feature, with d between 2 and K.
    """
    arms = whole("arms", arms, 2)
    observed = whole("observed", observed, 1)
    share = between("share", share, 0.0, 1.0, inclusive=True)
    latent = one_of("latent", latent, "dense", "sparse")
    noise = between("noise", noise, 0.0, math.inf, inclusive=True)
    spread = between("spread", spread, 0.0, math.inf)
    shift = between("shift", shift, -math.inf, math.inf)
    scale = between("scale", scale, 0.0, math.inf)
    rewards = one_of("rewards", rewards, *KINDS)
    if rewards == "bernoulli" and shift != 0.0:
        raise InvalidArgument("shift", shift, "0 for Bernoulli rewards")
    if rewards == "bernoulli" and scale != 1.0:
        raise InvalidArgument("scale", scale, "1 for Bernoulli rewards")
    features = one_of("features", features, "normal", "categories")
    if features == "categories" and not 2 <= observed <= arms:
        raise InvalidArgument("observed", observed, f"from 2 to {arms} categories")
    return SyntheticFamily(
        arms, observed, share, latent, noise, spread, shift, scale, rewards, features
    )
