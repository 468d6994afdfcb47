"""RoLF-Bayes for features that change with every ask.

An arm keeps its latent part, while its observed features are those of the round. The three scales
are learned as for fixed features (``estimators/posterior/varying.py``). The score of an arm is its
posterior mean plus a number of posterior standard deviations, over all scales.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rolf.arms.table import Arms
from rolf.errors import InvalidArgument
from rolf.estimators.posterior.varying import varying_grid
from rolf.policies.core.parts import Params
from rolf.policies.core.rounds import Context
from rolf.policies.posterior_policy import PosteriorPolicy, known_noise, posterior_rule
from rolf.types import Seed

SMALLEST = 1e-100  # smallest size of a column of features


class RoLFBayesVarying(PosteriorPolicy):
    """RoLF-Bayes for features that change with every ask.

    Args:
        features: (K, d): the numbers of arms and features, the arms' names, and the units of the
            features; the values come with every ``ask``.
        horizon: the number of rounds, if known. It then explores only as far as the remaining
            rounds can repay; after the last one it continues as if the number were unknown.
        noise: the standard deviation of a reward around its mean, if known.
        rule: "bound" plays the arm with the largest upper bound; "sample" draws each arm with its
            posterior probability of being the best.
        explore: the share of decisions drawn uniformly from the available arms.
        width: the bonus of a little known arm in the first rounds, in posterior standard
            deviations.
        context: names or number of the entries of a context. Every ``ask`` then brings a context
            instead of features, which are derived as the products of (1, context) and the arm's (1,
            features). Entries of size about 1 work best.
        seed: for this policy's draws, which by default only break ties.

    >>> policy = RoLFBayesVarying([[1.0], [2.0]], seed=1)
    >>> decision = policy.ask(features=[[0.5], [0.1]])
    >>> policy.tell(decision, 1.0)
    """

    name = "rolf-bayes-varying"
    summary = "RoLF-Bayes for features that vary over time"
    varying = True

    def __init__(
        self,
        features: Any,
        *,
        horizon: int | None = None,
        noise: float | None = None,
        rule: str = "bound",
        explore: float = 0.0,
        width: float = 2.75,
        context: int | Sequence[str] | None = None,
        seed: Seed = None,
    ) -> None:
        arms = Arms.read(features)
        self.context = Context.read(context)
        table = arms.features if self.context is None else self.context.typical(arms.features)
        sizes = np.abs(table).max(axis=0)
        if ((sizes > 0.0) & (sizes < SMALLEST)).any():
            raise InvalidArgument("features", features, f"columns of size {SMALLEST:g} and above")
        model = varying_grid(table, known_noise(noise))
        super().__init__(arms, Params(model, posterior_rule(rule, width, horizon, explore)), seed)
