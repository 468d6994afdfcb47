"""Options shared by the rivals, with their checks."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from rolf.checks import between, one_of
from rolf.policies.options import LARGEST, checked_penalty


class Baseline(NamedTuple):
    """The options of all baselines: the setting, the noise and the confidence."""

    tuned: bool
    noise: float
    delta: float

    @classmethod
    def checked(cls, setting: Any, noise: Any, delta: Any = 1e-4) -> Baseline:
        return cls(
            one_of("setting", setting, "paper", "tuned") == "tuned",
            between("noise", noise, 0.0, math.inf),
            between("delta", delta, 0.0, 1.0),
        )

    def confidence_width(self, width: float | None) -> float:
        """alpha of LinUCB: ``width``, or 1 + sqrt(log(2/delta)/2), times the noise if tuned."""
        alpha = 1.0 + math.sqrt((math.log(2.0) - math.log(self.delta)) / 2.0)
        if self.tuned:
            alpha *= self.noise
        return at_least_zero("width", alpha if width is None else width)


def at_least_zero(argument: str, value: Any) -> float:
    return between(argument, value, 0.0, LARGEST, inclusive=True)


def ridge_penalty(ridge: float | None, default: float = 0.6) -> float:
    """The penalty of a baseline's ridge."""
    return checked_penalty("ridge", default if ridge is None else ridge)
