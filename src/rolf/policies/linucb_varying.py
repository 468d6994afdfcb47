"""LinUCB for features that vary: a linear model on the features of the round alone.

Score of arm a in round t: x_{a,t}'theta + alpha sqrt(log t) sqrt(x_{a,t}' M^-1 x_{a,t}), with
M = ridge I + sum x x' over the rows that were played. Whatever an arm gives beyond its observed
features is invisible to it.
"""

from __future__ import annotations

from typing import Any

from rolf.estimators.varying_ridge import VaryingRidge
from rolf.policies.linucb import LinUCB
from rolf.types import FloatArray


class LinUCBVarying(LinUCB):
    """LinUCB on features that come with every ask. Its options are those of ``LinUCB``.

    Args:
        features: (K, d): how many arms and features there are and how the arms are
            called; the values themselves come with every ``ask``.
    """

    name = "linucb-varying"
    summary = "LinUCB on features that vary over time, blind to everything else"
    varying = True

    @staticmethod
    def _model(features: FloatArray, penalty: float) -> Any:
        return VaryingRidge(features.shape[1], penalty)
