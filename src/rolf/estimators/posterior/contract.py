"""What every posterior over the scales answers, besides the operations of an estimator."""

from __future__ import annotations

from typing import Any

from rolf.kernel import kernel
from rolf.types import FloatArray, IntArray


@kernel
def moments(model: Any, belief: Any, features: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Mean, relative to the belief's anchor, and variance of arms with these features (K, d) over
    all components, (K,) each, and the noise variance.

    While all rewards were equal the variances are in units of the noise, and the noise variance
    is -1.
    """
    raise NotImplementedError


@kernel
def plays(model: Any, belief: Any) -> FloatArray:
    """The number of rewards of every arm (K,)."""
    raise NotImplementedError


@kernel
def loadings(
    model: Any, belief: Any, features: FloatArray, component: int, arms: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Means (A,), reach (D, A) and alone (A,) of some arms: given the noise variance s of a
    component, they are means + sqrt(s) (reach'L e + sqrt(alone) e') with L L' = cov and e, e'
    standard normal."""
    raise NotImplementedError


@kernel
def reward_variance(model: Any, belief: Any, unit: float) -> float:
    """The variance of a reward around its mean, given that of the noise. Runs as Python only."""
    raise NotImplementedError


@kernel
def posterior(model: Any, belief: Any, features: FloatArray) -> Any:
    """The posterior of all arms, a ``MixturePosterior``. Runs as Python only."""
    raise NotImplementedError
