"""RoLF-V: features vary from round to round, latent parts do not.

The augmented features of arm a in round t are [x_{a,t}, e_a]: the features of the round, and a free
bias per arm that absorbs everything unmeasured about it. As with fixed features, the doubly robust
ridge estimate equals the imputation estimate if all earlier rounds are re-imputed, so the policy is
one ridge regression with penalty p in d + K dimensions. The biases are eliminated; a round costs
O(K d + d^2). With frozen pseudo-rewards, or with unmatched rounds in the imputation, the features
of all arms enter, and a round costs O(K d^2 + d^3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rolf.arms.table import Arms
from rolf.estimators.ridge.pseudo_varying import PseudoVarying
from rolf.estimators.ridge.varying import BiasedRidge
from rolf.policies.core.coupling import Coupling
from rolf.policies.core.parts import Params
from rolf.policies.core.rounds import Context
from rolf.policies.options import reading, rolf_penalty
from rolf.policies.policy import Policy
from rolf.theory import ridge_exploration
from rolf.types import Seed


class RoLFVarying(Policy):
    """RoLF for features that change with every ask.

    Args:
        features: (K, d): the numbers of arms and features and the arms' names; the values come with
            every ``ask``.
        p: coupling probability, in (1/2, 1).
        delta: confidence, in (0, 1).
        coupling: what the pseudo-action is drawn around, "action" or "greedy".
        exploration: forced uniform rounds: a number, by default 2K, or "theory".
        penalty: of the ridge; p by default, which is also what "theory" means here.
        cap: on resampling: "text", with log(1/(1-p)), or "appendix", with log(1/p).
        imputation: "latest" re-imputes all earlier rounds with the newest estimate (the paper's
            proofs); with "frozen", pseudo-rewards keep the estimate of their round (its equation),
            with "previous" that of the round before (the order of lines in its algorithm box).
        unmatched: what to do with rounds that did not match: "skip" them (the algorithm box) or
            "impute", where the imputation sums over them as well (the equations).
        context: names or number of the entries of a context. Every ``ask`` then brings a context
            instead of features, which are derived as the products of (1, context) and the arm's (1,
            features). Entries of size about 1 work best.
        seed: for this policy's draws.

    >>> table = [[1.0], [2.0]]
    >>> policy = RoLFVarying(table, seed=1)
    >>> decision = policy.ask(features=[[0.5], [0.1]])
    >>> policy.tell(decision, 1.0)
    """

    name = "rolf-varying"
    summary = "RoLF for features that vary over time (RoLF-V of the paper)"
    varying = True
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
        cap: str = "text",
        imputation: str = "latest",
        unmatched: str = "skip",
        context: int | Sequence[str] | None = None,
        seed: Seed = None,
    ) -> None:
        arms = Arms.read(features)
        self.context = Context.read(context)
        count, columns = arms.features.shape
        columns = columns if self.context is None else self.context.size(columns)
        size = count + columns
        constant = ridge_exploration(size)
        rule = Coupling.checked(
            p, delta, coupling, exploration, cap, arms=count, constant=constant, size=size
        )
        model = BiasedRidge(columns, rolf_penalty(penalty, p))
        how = reading(imputation, unmatched)
        estimator = model if how is None else PseudoVarying(*model, rule.probability, how)
        super().__init__(arms, Params(estimator, rule), seed)
