"""Beta-Bernoulli Thompson sampling, which most systems for clicks run (Chapelle and Li 2011).

The rate of arm a has the prior Beta(prior, prior) and, after n_a rewards that add up to s_a, the
posterior Beta(prior + s_a, prior + n_a - s_a). Each round draws a rate per arm and plays the arm
with the largest one. A reward between 0 and 1 counts as a fraction of a click.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rolf.arms.table import Arms
from rolf.checks import between
from rolf.estimators.means import ArmMeans
from rolf.kernel import implement
from rolf.policies.core.parts import Params
from rolf.policies.core.rules import Sampled, Situation, draw
from rolf.policies.policy import Policy
from rolf.types import FloatArray, Generator, Seed


class BetaSampler(NamedTuple):
    """The prior's pseudo-counts of successes and of failures."""

    prior: float


def _draw(sampler: BetaSampler, now: Situation, count: int, rng: Generator) -> FloatArray:
    counts = now.belief.counts
    clicks = np.minimum(np.maximum(now.belief.sums, 0.0), counts)
    out = np.empty((counts.size, count))
    for arm in range(counts.size):
        successes = sampler.prior + clicks[arm]
        failures = sampler.prior + counts[arm] - clicks[arm]
        for place in range(count):
            out[arm, place] = rng.beta(successes, failures)
    return out


implement(BetaSampler, {draw: _draw})


class BetaTS(Policy):
    """Beta-Bernoulli Thompson sampling, which sees no features.

    The probability of a decision is estimated from 1000 draws when it is first read.

    Args:
        features: (K, d); only the number and the names of the arms are used.
        prior: of the rate of an arm, Beta(prior, prior); 1 is uniform.
        seed: for this policy's draws.

    >>> policy = BetaTS([[0.0], [0.0]], seed=1)
    >>> policy.learn([0] * 40 + [1] * 40, [1.0] * 40 + [0.0] * 40)
    >>> [policy.ask().arm for _ in range(5)]
    [0, 0, 0, 0, 0]
    """

    name = "beta-ts"
    summary = "Beta-Bernoulli Thompson sampling for clicks, ignores features"

    def __init__(self, features: Any, *, prior: float = 1.0, seed: Seed = None) -> None:
        arms = Arms.read(features)
        sampler = BetaSampler(between("prior", prior, 0.0, math.inf))
        super().__init__(arms, Params(ArmMeans(arms.count), Sampled(sampler)), seed)
        self.reward_range = (0.0, 1.0)
