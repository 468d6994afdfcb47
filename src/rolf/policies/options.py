"""Options that RoLF's policies share, each with its own checks."""

from __future__ import annotations

import warnings
from typing import Any

from rolf.arms.table import Arms
from rolf.augment import Augmentation
from rolf.checks import between, one_of
from rolf.errors import RolfWarning
from rolf.estimators.lasso.pseudo import Reading

#: the smallest penalty and the largest option: their squares are numbers
SMALLEST, LARGEST = 1e-100, 1e100


def checked_penalty(argument: str, value: Any) -> float:
    return between(argument, value, SMALLEST, LARGEST, inclusive=True)


def rolf_penalty(penalty: Any, p: float) -> float:
    """The penalty of a RoLF ridge: p by default, as in the paper's theory."""
    if penalty is None or penalty == "theory":
        return between("p", p, 0.5, 1.0)
    return checked_penalty("penalty", penalty)


def reading(imputation: Any, unmatched: Any) -> Reading | None:
    """How the paper's equations are read; None where they need counts and sums only."""
    imputation = one_of("imputation", imputation, "latest", "frozen", "previous")
    all_rounds = one_of("unmatched", unmatched, "skip", "impute") == "impute"
    frozen = imputation != "latest"
    if not frozen and not all_rounds:
        return None
    return Reading(frozen, imputation == "previous", all_rounds)


def augmentation(arms: Arms, keep_scale: bool | None, basis: str = "svd") -> Augmentation:
    """Augmented features of a policy's arms, with a warning where that loses what they share."""
    out = Augmentation(arms.features, keep_scale=bool(keep_scale), basis=basis)
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
