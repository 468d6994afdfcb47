"""RoLF-Bayes: learns from the rewards how much to trust the features.

The augmented model with three unknown scales: of what the features explain, of what is latent, of
the noise (``estimators/posterior/scales.py``). An arm's score is its posterior mean plus a number
of posterior standard deviations that grows with time, both over all scales: what is not known about
the weights of the features, about the arm's latent part and about the scales counts together
(``policies/core/posterior_rules.py``). Pending decisions narrow an arm's deviation as their rewards
will, so a batch is spread over the arms.
"""

from __future__ import annotations

from typing import Any

from rolf.arms.table import Arms
from rolf.checks import one_of
from rolf.errors import InvalidArgument
from rolf.estimators.posterior.clicks import CLICKS, COUNTS, linked_grid
from rolf.estimators.posterior.fixed import make_grid
from rolf.policies.core.parts import Params
from rolf.policies.posterior_policy import RULES, PosteriorPolicy, known_noise, posterior_rule
from rolf.types import Seed

LARGEST_COUNT = 1e9


class RoLFBayes(PosteriorPolicy):
    """RoLF that learns how much to trust the features: the one to start with.

    Nothing has to be set, not even the noise. Rewards may have any scale and any level, and
    features any units: their columns are standardised.

    Args:
        features: (K, d) table, one row per arm.
        rewards: "real"; "binary", 0 or 1 or between, such as clicks; or "counts", 0, 1, 2, ...
            with the noise of Poisson's distribution: with more, intervals are too narrow.
        horizon: how many rounds there will be, if that is known: it explores as far as what is
            left can repay, not at the end, and afterwards goes on as if it had not been told.
        noise: the standard deviation of a real reward around its mean, if it is known.
        rule: "bound" plays the arm with the largest upper bound; "sample" draws each arm with its
            posterior probability of being the best.
        explore: the share of decisions that is drawn uniformly from the available arms.
        width: the bonus of an arm of which little is known, in posterior standard deviations, in
            the first rounds.
        seed: of this policy's own draws, which by default only break ties.

    >>> policy = RoLFBayes([[0.0], [1.0], [2.0]], seed=1)
    >>> for reward in (40.1, 40.3, 40.2, 40.4):
    ...     policy.tell(policy.ask(), reward)
    >>> policy.scales()["noise"] > 0
    True
    """

    name = "rolf-bayes"
    summary = "learns how much to trust the features; no constants to set"
    variants = (*RULES, *({"rewards": "binary", **rule} for rule in RULES))

    def __init__(
        self,
        features: Any,
        *,
        rewards: str = "real",
        horizon: int | None = None,
        noise: float | None = None,
        rule: str = "bound",
        explore: float = 0.0,
        width: float = 2.75,
        seed: Seed = None,
    ) -> None:
        arms = Arms.read(features)
        kind = one_of("rewards", rewards, "real", "binary", "counts")
        model: Any
        if kind == "real":
            model = make_grid(arms.features, known_noise(noise))
        elif noise is not None:
            raise InvalidArgument(
                "noise", noise, f"nothing: the noise of {kind} rewards follows from their means"
            )
        else:
            model = linked_grid(arms.features, CLICKS if kind == "binary" else COUNTS)
        super().__init__(arms, Params(model, posterior_rule(rule, width, horizon, explore)), seed)
        if kind != "real":
            self.reward_range = (0.0, 1.0) if kind == "binary" else (0.0, LARGEST_COUNT)
