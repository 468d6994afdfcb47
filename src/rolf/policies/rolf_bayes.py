"""RoLF-Bayes: learns from the rewards how much to trust the features.

The augmented model with three unknown scales: of what the features explain, of what is
latent, of the noise (``estimators/scales.py``). An arm's score is its posterior mean plus
``width`` posterior standard deviations, both over all scales: what is not known about the
weights of the features, about the arm's latent part and about the scales counts together.
Decisions that still wait for their reward narrow an arm's deviation as the reward will, so a
batch is spread over the arms.
"""

from __future__ import annotations

import math
from typing import Any

from rolf.arms.table import Arms
from rolf.checks import between
from rolf.estimators.posterior import make_grid
from rolf.policies.composition import Params
from rolf.policies.posterior_policy import PosteriorBound, PosteriorPolicy
from rolf.policies.rules import Optimistic
from rolf.types import Seed


class RoLFBayes(PosteriorPolicy):
    """RoLF that learns how much to trust the features: the one to start with.

    Nothing has to be set, not even the noise. Rewards may have any scale and any level, and
    features any units: their columns are standardised.

    Args:
        features: (K, d) table, one row per arm.
        width: the bonus of an arm of which little is known, in posterior standard deviations.
        seed: of this policy's own draws, which only break ties.

    >>> policy = RoLFBayes([[0.0], [1.0], [2.0]], seed=1)
    >>> for reward in (40.1, 40.3, 40.2, 40.4):
    ...     policy.tell(policy.ask(), reward)
    >>> policy.scales()["noise"] > 0
    True
    """

    name = "rolf-bayes"
    summary = "learns how much to trust the features; no constants to set"

    def __init__(self, features: Any, *, width: float = 2.75, seed: Seed = None) -> None:
        arms = Arms.read(features)
        rule = Optimistic(PosteriorBound(between("width", width, 0.0, math.inf)))
        super().__init__(arms, Params(make_grid(arms.features), rule), seed)
