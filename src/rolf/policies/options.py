"""Options shared by RoLF's policies, with their checks."""

from __future__ import annotations

import warnings
from typing import Any

from rolf.arms.table import Arms
from rolf.augment import Augmentation
from rolf.checks import between, one_of
from rolf.errors import RolfWarning
from rolf.estimators.lasso.pseudo import Reading

#: the smallest penalty and the largest option: their squares neither vanish nor overflow
SMALLEST, LARGEST = 1e-100, 1e100


def checked_penalty(argument: str, value: Any) -> float:
    return between(argument, value, SMALLEST, LARGEST, inclusive=True)


def rolf_penalty(penalty: Any, p: float) -> float:
    """The penalty of a RoLF ridge: p by default, as in the paper's theory."""
    if penalty is None or penalty == "theory":
        return between("p", p, 0.5, 1.0)
    return checked_penalty("penalty", penalty)


def reading(imputation: Any, unmatched: Any) -> Reading | None:
    """How to read the paper's equations; None if counts and sums are enough."""
    imputation = one_of("imputation", imputation, "latest", "frozen", "previous")
    all_rounds = one_of("unmatched", unmatched, "skip", "impute") == "impute"
    frozen = imputation != "latest"
    if not frozen and not all_rounds:
        return None
    return Reading(frozen, imputation == "previous", all_rounds)


def augmentation(arms: Arms, keep_scale: bool | None, basis: str = "svd") -> Augmentation:
    """Augmented features of a policy's arms, with a warning if arms no longer share what they
    learn."""
    out = Augmentation(arms.features, keep_scale=bool(keep_scale), basis=basis)
    columns = arms.features.shape[1]
    if out.reduced and keep_scale is None and columns <= arms.count and out.rank > 0:
        warnings.warn(
            f"the features have rank {out.rank} but {columns} columns: they are replaced by an "
            "orthonormal basis, under which ridge shares nothing between arms. Drop "
            "redundant columns (one of each set of dummies) or pass keep_scale=True; "
            "keep_scale=False silences this warning",
            RolfWarning,
            stacklevel=4,
        )
    return out
