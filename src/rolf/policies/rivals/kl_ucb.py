"""KL-UCB: the largest mean that the rewards of an arm do not rule out (Garivier and Cappe 2011).

Score of arm a in round t after n_a rewards with mean m:

    max { q : n_a kl(m, q) <= log t + c log log t },

with kl(m, q) = m log(m/q) + (1-m) log((1-m)/(1-q)) for binary rewards, found by bisection, and
(m - q)^2/(2 noise^2) for Gaussian ones, which is mean + noise sqrt(2 (log t + c log log t)/n_a).
Arms without rewards come first.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rolf.arms.table import Arms
from rolf.checks import between, one_of
from rolf.estimators.means import ArmMeans
from rolf.kernel import implement
from rolf.policies.core.parts import Params
from rolf.policies.core.rules import Optimistic, Situation, bounds, unseen_first
from rolf.policies.policy import Policy
from rolf.policies.rivals.divergence import largest_rates
from rolf.policies.rivals.settings import at_least_zero
from rolf.types import FloatArray, Seed


class DivergenceBound(NamedTuple):
    """Whether rewards are binary, otherwise their noise, and c."""

    binary: bool
    noise: float
    factor: float


def _bounds(bound: DivergenceBound, now: Situation, round: int) -> tuple[FloatArray, FloatArray]:
    counts, estimates = now.belief.counts, now.belief.estimates
    log = math.log(max(round, 2))
    room = max(log + bound.factor * math.log(max(log, 1.0)), 0.0)
    if bound.binary:
        upper = largest_rates(estimates, counts, room)
    else:
        upper = estimates + bound.noise * np.sqrt(2.0 * room / np.maximum(counts, 1.0))
    return estimates, unseen_first(counts, upper)


implement(DivergenceBound, {bounds: _bounds})


class KLUCB(Policy):
    """KL-UCB, which sees no features (Garivier and Cappe 2011).

    Args:
        features: (K, d); only the number and the names of the arms are used.
        rewards: "binary", 0 or 1 or anything between, such as clicks, or "real".
        noise: standard deviation of real rewards.
        c: factor of log log t; 0 as its authors recommend, 3 as in their theorem.
        seed: for this policy's draws, which only break ties.
    """

    name = "kl-ucb"
    summary = "KL-UCB for clicks or Gaussian rewards, ignores features (Garivier, Cappe 2011)"

    def __init__(
        self,
        features: Any,
        *,
        rewards: str = "binary",
        noise: float = 1.0,
        c: float = 0.0,
        seed: Seed = None,
    ) -> None:
        arms = Arms.read(features)
        binary = one_of("rewards", rewards, "binary", "real") == "binary"
        bound = DivergenceBound(
            binary, between("noise", noise, 0.0, math.inf), at_least_zero("c", c)
        )
        super().__init__(arms, Params(ArmMeans(arms.count), Optimistic(bound)), seed)
        if binary:
            self.reward_range = (0.0, 1.0)
