"""LinUCB for features that vary: a linear model on the features of the round alone.

Score of arm a in round t: x_{a,t}'theta + alpha sqrt(log t) sqrt(x_{a,t}' M^-1 x_{a,t}), with
M = ridge I + sum x x' over the rows that were played. It cannot see what an arm gives beyond its
observed features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rolf.estimators.ridge.varying import VaryingRidge
from rolf.policies.core.rounds import Context
from rolf.policies.rivals.linucb import LinUCB
from rolf.types import FloatArray, Seed


class LinUCBVarying(LinUCB):
    """LinUCB on features that come with every ask. Its other options are those of ``LinUCB``.

    Args:
        features: (K, d): the numbers of arms and features and the arms' names; the values come with
            every ``ask``.
        context: names or number of the entries of a context. Every ``ask`` then brings a context
            instead of features, which are derived as the products of (1, context) and the arm's (1,
            features). Entries of size about 1 work best.
    """

    name = "linucb-varying"
    summary = "LinUCB on features that vary over time, blind to everything else"
    varying = True

    def __init__(
        self,
        features: Any,
        *,
        setting: str = "paper",
        noise: float = 0.1,
        delta: float = 1e-4,
        ridge: float | None = None,
        width: float | None = None,
        context: int | Sequence[str] | None = None,
        seed: Seed = None,
    ) -> None:
        self.context = Context.read(context)
        options: dict[str, Any] = {"ridge": ridge, "width": width, "seed": seed}
        super().__init__(features, setting=setting, noise=noise, delta=delta, **options)

    def _model(self, features: FloatArray, penalty: float) -> Any:
        columns = features.shape[1]
        size = columns if self.context is None else self.context.size(columns)
        return VaryingRidge(size, penalty)
