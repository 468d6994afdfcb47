"""RoLF-Bayes: learns from the rewards how much to trust the features.

The augmented model has three unknown scales: of the part that features explain, of the latent part,
and of the noise (``estimators/posterior/scales.py``). An arm's score is its posterior mean plus a
number of posterior standard deviations that grows with time, both averaged over all scales, so
uncertainty about the weights of the features, the arm's latent part and the scales all count
(``policies/core/posterior_rules.py``). A pending decision narrows its arm's deviation as its reward
will, which spreads a batch over the arms.
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

    Nothing has to be set, not even the noise. Rewards may have any scale and level, and features
    any units: their columns are standardised.

    Args:
        features: (K, d) table, one row per arm.
        rewards: "real"; "binary", 0, 1 or between, such as clicks; or "counts", 0, 1, 2, ... with
            Poisson noise (with more noise, intervals are too narrow).
        horizon: the number of rounds, if known. It then explores only as far as the remaining
            rounds can repay; after the last one it continues as if the number were unknown.
        noise: the standard deviation of a real reward around its mean, if known.
        rule: "bound" plays the arm with the largest upper bound; "sample" draws each arm with its
            posterior probability of being the best.
        explore: the share of decisions drawn uniformly from the available arms.
        width: the bonus of a little known arm in the first rounds, in posterior standard
            deviations.
        seed: for this policy's draws, which by default only break ties.

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
