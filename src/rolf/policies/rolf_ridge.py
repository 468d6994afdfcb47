"""RoLF-Ridge (Algorithm 2): ridge on augmented features, coupled draws.

If all earlier rounds are re-imputed with the newest estimate, the paper's doubly robust ridge
estimate equals its imputation estimate, so RoLF-Ridge is one ridge regression with penalty p. It
works in the space of rewards, in O(K d) per round and without the basis of the complement
(``estimators/ridge/augmented.py``). With frozen pseudo-rewards, or with unmatched rounds in the
imputation, the two estimates differ (``estimators/lasso/pseudo.py``); a round still costs O(K d).
"""

from __future__ import annotations

from typing import Any

from rolf.arms.table import Arms
from rolf.estimators.lasso.pseudo import PseudoRidge
from rolf.estimators.ridge.augmented import AugmentedRidge
from rolf.policies.core.coupling import Coupling
from rolf.policies.core.parts import Params
from rolf.policies.options import augmentation, reading, rolf_penalty
from rolf.policies.policy import Policy
from rolf.theory import ridge_exploration
from rolf.types import Seed


class RoLFRidge(Policy):
    """RoLF with the ridge estimator.

    Args:
        features: (K, d), one row per arm: an array, a nested list or a DataFrame.
        p: coupling probability, in (1/2, 1).
        delta: confidence, in (0, 1); sets the cap on resampling and "theory" exploration.
        coupling: what the pseudo-action is drawn around: "action" (the paper) or
            "greedy" (the runs published by its authors; exploration nearly stops after
            the forced phase).
        exploration: forced uniform rounds: a number, by default 2K, or "theory".
        penalty: of the ridge; p by default, which is also what "theory" means here.
        keep_scale: keep the singular values of rank-deficient features. By default an orthonormal
            basis replaces such features, with a warning if that loses something.
        cap: on resampling: "text", with log(1/(1-p)), or "appendix", with log(1/p).
        imputation: "latest" re-imputes all earlier rounds with the newest estimate (the paper's
            proofs); with "frozen", pseudo-rewards keep the estimate of their round (its equation),
            with "previous" that of the round before (the order of lines in its algorithm box).
        unmatched: what to do with rounds that did not match: "skip" them (the algorithm box) or
            "impute", where the imputation sums over them as well (the equations).
        seed: for this policy's draws.

    >>> policy = RoLFRidge([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], seed=1)
    >>> policy.learn([0], [0.5])  # prior variance of arm 0: (1 + 1/3)/0.6 = 20/9
    >>> policy.estimates().round(3).tolist()  # 20/29 of 0.5, and what is shared with it
    [0.345, 0.086, 0.172]
    """

    name = "rolf-ridge"
    summary = "RoLF with ridge on augmented features (Algorithm 2 of the paper)"
    variants = ({}, {"imputation": "frozen"})

    def __init__(
        self,
        features: Any,
        *,
        p: float = 0.6,
        delta: float = 1e-4,
        coupling: str = "action",
        exploration: float | str | None = None,
        penalty: float | str | None = None,
        keep_scale: bool | None = None,
        cap: str = "text",
        imputation: str = "latest",
        unmatched: str = "skip",
        seed: Seed = None,
    ) -> None:
        arms = Arms.read(features)
        count = arms.count
        model = AugmentedRidge.of(augmentation(arms, keep_scale), rolf_penalty(penalty, p))
        constant = ridge_exploration(count)
        rule = Coupling.checked(
            p, delta, coupling, exploration, cap, arms=count, constant=constant, size=count
        )
        how = reading(imputation, unmatched)
        estimator = model if how is None else PseudoRidge(model, rule.probability, how)
        super().__init__(arms, Params(estimator, rule), seed)
