"""RoLF-Lasso (Algorithm 1): doubly robust lasso on augmented features, coupled draws.

Imputation:  min_m  sum over matched rounds (y - x_a'm)^2 + l1 |m|_1
Main:        min_u  sum over matched rounds and all arms (pseudo-reward - x_a'u)^2 + l2 |u|_1

Both depend on the past only through the counts and sums of each arm; see
``estimators/lasso/doubly_robust.py``, and ``estimators/lasso/pseudo.py`` for frozen pseudo-rewards.
Penalties by "theory" are

    l1 = 2 s_max sigma sqrt(2 p t log(2 K t^2/delta)),
    l2 = (4 s_max sigma/p) sqrt(2 t log(2 K t^2/delta)),

with s_max^2 the largest diagonal entry of the augmented Gram matrix.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rolf.arms.table import Arms
from rolf.checks import between
from rolf.errors import InvalidArgument
from rolf.estimators.lasso.basis import augmented_features
from rolf.estimators.lasso.doubly_robust import Penalties, RobustLasso
from rolf.estimators.lasso.pseudo import PseudoLasso
from rolf.policies.core.coupling import Coupling
from rolf.policies.core.parts import Params
from rolf.policies.options import augmentation, reading
from rolf.policies.policy import Policy
from rolf.theory import lasso_exploration, penalty_factors
from rolf.types import Seed


class RoLFLasso(Policy):
    """RoLF with the doubly robust lasso.

    Args:
        features: (K, d), one row per arm: an array, a nested list or a DataFrame.
        p: coupling probability, in (1/2, 1).
        delta: confidence, in (0, 1).
        coupling: what the pseudo-action is drawn around: "action" (the paper) or
            "greedy" (the runs published by its authors; exploration nearly stops after
            the forced phase).
        exploration: forced uniform rounds: a number, by default 2K, or "theory".
        penalty: "theory", or a number for both lassos, or a pair (l1, l2); p by default,
            as in the runs published by the paper's authors.
        noise: standard deviation of the noise (sigma); used by penalty="theory" only.
        keep_scale: keep the singular values of rank-deficient features. By default an orthonormal
            basis replaces such features, with a warning if that loses something.
        basis: the basis of the features' complement, which affects the lasso (its signs do not):
            "svd", from LAPACK's full singular value decomposition (the paper), or "qr", from a
            Householder QR. For K >= 11 d/6 the two are the same.
        cap: on resampling: "text", with log(1/(1-p)), or "appendix", with log(1/p).
        imputation: "latest" re-imputes all earlier rounds with the newest estimate (the paper's
            proofs); with "frozen", pseudo-rewards keep the estimate of their round (its equation),
            with "previous" that of the round before (the order of lines in its algorithm box).
        unmatched: what to do with rounds that did not match: "skip" them (the algorithm box) or
            "impute", where the imputation sums over them as well (the equations).
        seed: for this policy's draws.
    """

    name = "rolf-lasso"
    summary = "RoLF with the doubly robust lasso (Algorithm 1 of the paper)"
    variants = ({}, {"imputation": "frozen"})

    def __init__(
        self,
        features: Any,
        *,
        p: float = 0.6,
        delta: float = 1e-4,
        coupling: str = "action",
        exploration: float | str | None = None,
        penalty: float | str | tuple[float, float] | None = None,
        noise: float = 0.1,
        keep_scale: bool | None = None,
        basis: str = "svd",
        cap: str = "text",
        imputation: str = "latest",
        unmatched: str = "skip",
        seed: Seed = None,
    ) -> None:
        arms = Arms.read(features)
        count = arms.count
        augmented = augmentation(arms, keep_scale, basis)
        rule = Coupling.checked(
            p,
            delta,
            coupling,
            exploration,
            cap,
            arms=count,
            constant=lasso_exploration(augmented),
            size=count,
        )
        noise = between("noise", noise, 0.0, math.inf)
        penalties = lasso_penalties(penalty, rule.probability, noise, augmented.sigma_max)
        model = RobustLasso(
            augmented_features(augmented), augmented.gram, rule.probability, rule.delta, penalties
        )
        how = reading(imputation, unmatched)
        estimator = model if how is None else PseudoLasso(model, how)
        super().__init__(arms, Params(estimator, rule), seed)


def lasso_penalties(penalty: Any, p: float, noise: float, sigma_max: float) -> Penalties:
    """Check the penalty argument."""
    if isinstance(penalty, str) and penalty == "theory":
        return Penalties(*penalty_factors(sigma_max, noise, p), True)
    pair: Any = p if penalty is None else penalty
    if isinstance(pair, str) or (np.ndim(pair) and np.shape(pair) != (2,)):
        raise InvalidArgument("penalty", penalty, '"theory", a number, or a pair of numbers')
    first, second = pair if np.ndim(pair) else (pair, pair)
    return Penalties(
        between("penalty", first, 0.0, math.inf), between("penalty", second, 0.0, math.inf), False
    )
