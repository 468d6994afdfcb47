"""DRLasso: doubly robust lasso on the average of the observed features.

After ``forced`` uniform rounds, round t explores uniformly with probability
lam1 sqrt((log t + log d)/t), else it plays the arm with the largest x_a'beta, where beta is the
lasso of ``estimators/lasso/average.py``. It was made for varying features and does poorly with
fixed ones: their average never changes, so only its largest entry can carry weight.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from rolf.arms.table import Arms
from rolf.checks import between
from rolf.estimators.lasso.average import AverageLasso, decay
from rolf.kernel import implement
from rolf.policies.core.parts import Params
from rolf.policies.core.rules import Exploring, exploration
from rolf.policies.policy import Policy
from rolf.policies.rivals.settings import Baseline, at_least_zero
from rolf.types import Seed


class DecayingShare(NamedTuple):
    """lam1, the forced rounds, and the number of features d."""

    factor: float
    forced: float
    size: int


def _exploration(schedule: DecayingShare, round: int) -> float:
    if round <= schedule.forced:
        return 1.0
    return min(1.0, schedule.factor * decay(schedule.size, round))


implement(DecayingShare, {exploration: _exploration})


class DRLasso(Policy):
    """The doubly robust lasso bandit (Kim and Paik 2019).

    Args:
        features: (K, d), one row per arm: an array, a nested list or a DataFrame.
        setting: "paper": lam1 = 1, lam2 = 0.5; "tuned": lam2 = 0.5 noise, as a lasso penalty is
            proportional to the noise. Explicit arguments override either.
        noise: standard deviation of the noise, used by the tuned setting.
        lam1: factor of the probability of exploring.
        lam2: factor of the penalty.
        forced: uniform rounds at the start.
        clip: pseudo-rewards are clipped to [-clip, clip].
        seed: for this policy's draws.
    """

    name = "drlasso"
    summary = "the doubly robust lasso bandit (Kim and Paik 2019)"

    def __init__(
        self,
        features: Any,
        *,
        setting: str = "paper",
        noise: float = 0.1,
        lam1: float | None = None,
        lam2: float | None = None,
        forced: float = 10,
        clip: float = 3.0,
        seed: Seed = None,
    ) -> None:
        arms = Arms.read(features)
        baseline = Baseline.checked(setting, noise)
        penalty = 0.5 * baseline.noise if baseline.tuned else 0.5
        model = AverageLasso.of(
            arms.features,
            at_least_zero("lam2", penalty if lam2 is None else lam2),
            between("clip", clip, 0.0, math.inf),
        )
        schedule = DecayingShare(
            at_least_zero("lam1", 1.0 if lam1 is None else lam1),
            between("forced", forced, 0.0, math.inf, inclusive=True),
            model.size,
        )
        super().__init__(arms, Params(model, Exploring(schedule)), seed)
