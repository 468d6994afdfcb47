"""UCB1: optimism that grows with the logarithm of the round (Auer et al. 2002).

Score of arm a in round t after n_a rewards: mean + scale sqrt(2 log t/n_a). Arms without rewards
come first. It is made for rewards in [0, 1]; for rewards with another range or noise of size R, use
scale R.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rolf.arms.table import Arms
from rolf.estimators.means import ArmMeans
from rolf.kernel import implement
from rolf.policies.core.parts import Params
from rolf.policies.core.rules import Optimistic, Situation, bounds, unseen_first
from rolf.policies.policy import Policy
from rolf.policies.rivals.settings import at_least_zero
from rolf.types import FloatArray, Seed


class GrowingBound(NamedTuple):
    """scale sqrt(2 log t/n_a) above the mean."""

    scale: float


def _bounds(bound: GrowingBound, now: Situation, round: int) -> tuple[FloatArray, FloatArray]:
    counts, estimates = now.belief.counts, now.belief.estimates
    log = 2.0 * math.log(round)
    upper = estimates + bound.scale * np.sqrt(log / np.maximum(counts, 1.0))
    return estimates, unseen_first(counts, upper)


implement(GrowingBound, {bounds: _bounds})


class UCB1(Policy):
    """UCB1, which sees no features (Auer, Cesa-Bianchi and Fischer 2002).

    Args:
        features: (K, d); only the number and the names of the arms are used.
        scale: the range of the rewards, or the size of their noise; 1 as in the paper.
        seed: for this policy's draws, which only break ties.

    >>> policy = UCB1([[0.0], [0.0]], seed=1)
    >>> policy.learn([0, 0, 1], [1.0, 0.0, 0.0])
    >>> policy.ask().arm  # 0.5 + sqrt(2 log 4/2) against 0 + sqrt(2 log 4)
    0
    """

    name = "ucb1"
    summary = "UCB1: width by the logarithm of the round, ignores features (Auer et al. 2002)"

    def __init__(self, features: Any, *, scale: float = 1.0, seed: Seed = None) -> None:
        arms = Arms.read(features)
        rule = Optimistic(GrowingBound(at_least_zero("scale", scale)))
        super().__init__(arms, Params(ArmMeans(arms.count), rule), seed)
