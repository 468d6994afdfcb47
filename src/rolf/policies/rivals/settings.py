"""Options that several policies share, each with its own checks."""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

from rolf.arms.table import Arms
from rolf.augment import Augmentation
from rolf.checks import between, one_of
from rolf.errors import RolfWarning
from rolf.estimators.lasso.pseudo import Reading

#: the smallest penalty and the largest option: their squares are numbers
SMALLEST, LARGEST = 1e-100, 1e100


class Baseline(NamedTuple):
    """The options that all baselines have: which setting, the noise and the confidence."""

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
        """alpha of LinUCB: as given, or 1 + sqrt(log(2/delta)/2), times the noise if tuned."""
        alpha = 1.0 + math.sqrt((math.log(2.0) - math.log(self.delta)) / 2.0)
        if self.tuned:
            alpha *= self.noise
        return at_least_zero("width", alpha if width is None else width)


def at_least_zero(argument: str, value: Any) -> float:
    return between(argument, value, 0.0, LARGEST, inclusive=True)


def _penalty(argument: str, value: Any) -> float:
    return between(argument, value, SMALLEST, LARGEST, inclusive=True)


def ridge_penalty(ridge: float | None, default: float = 0.6) -> float:
    """The penalty of a baseline's ridge."""
    return _penalty("ridge", default if ridge is None else ridge)


def rolf_penalty(penalty: Any, p: float) -> float:
    """The penalty of a RoLF ridge: p by default, as in the paper's theory."""
    if penalty is None or penalty == "theory":
        return between("p", p, 0.5, 1.0)
    return _penalty("penalty", penalty)


def reading(imputation: Any, unmatched: Any) -> Reading | None:
    """How the paper's equations are read; None where they need counts and sums only."""
    frozen = one_of("imputation", imputation, "latest", "frozen") == "frozen"
    all_rounds = one_of("unmatched", unmatched, "skip", "impute") == "impute"
    return Reading(frozen, all_rounds) if frozen or all_rounds else None


def augmentation(arms: Arms, keep_scale: bool | None) -> Augmentation:
    """Augmented features of a policy's arms, with a warning where that loses what they share."""
    out = Augmentation(arms.features, keep_scale=bool(keep_scale))
    columns = arms.features.shape[1]
    if out.reduced and keep_scale is None and columns <= arms.count and out.rank > 0:
        warnings.warn(
            f"the features have rank {out.rank} but {columns} columns: they are replaced by an "
            "orthonormal basis, under which ridge shares nothing between arms. Drop columns that "
            "follow from others (one of each set of dummies), or say keep_scale=True; "
            "keep_scale=False silences this",
            RolfWarning,
            stacklevel=4,
        )
    return out
