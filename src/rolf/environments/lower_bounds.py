"""The instances behind the paper's two lower bounds.

Two arms: true features (1, 3) and (2, 19/4), of which the first entry is observed, and
theta = (2, -1). Mean rewards are -1 and -3/4, so the second arm is best, but the one observed
coefficient that fits is negative and favours the first. OFUL and LinTS lose at least T/16.

Three arms: two of them look alike; one of the two is the best arm, the other the worst. A policy
that depends on observed features only must play both equally often and loses at least T/6.
"""

from __future__ import annotations

import math

import numpy as np

from rolf.checks import between, whole
from rolf.environments.problem import Problem


def two_arms(*, noise: float = 0.1, scale: float = 1.0) -> Problem:
    """The instance on which the regret of OFUL and LinTS grows linearly; arm 1 is best by scale/4.

    ``noise`` is the standard deviation of the rewards' noise, ``scale`` multiplies theta.

    >>> two_arms().means.tolist()
    [-1.0, -0.75]
    """
    features = np.array([[1.0, 3.0], [2.0, 19.0 / 4.0]])
    means = features @ np.array([2.0, -1.0]) * between("scale", scale, 0.0, math.inf)
    return Problem(features[:, :1], means, noise)


def three_arms(
    *, observed: int = 1, latent: int = 2, noise: float = 0.1, scale: float = 1.0
) -> Problem:
    """The instance on which observed features are never enough; arm 0 is best.

    Args:
        observed: d, the number of observed features.
        latent: d_u, the number of latent features. One arm has equally many 1s and -1s there; if
            d_u is odd, its middle entry is 0.
        noise: standard deviation of the rewards' noise.
        scale: multiplies theta.

    >>> three_arms(observed=4, latent=6).means.round(4).tolist()
    [0.5, -0.8333, 0.1667]
    """
    observed = whole("observed", observed, 1)
    latent = whole("latent", latent, 1)
    seen = np.full((3, observed), -0.5)
    seen[2] = 0.5
    hidden = np.ones((3, latent))
    hidden[1] = -1.0
    hidden[2, : latent // 2] = -1.0
    if latent % 2:
        hidden[2, latent // 2] = 0.0
    theta = np.full(observed, 1.0 / (3 * observed))
    means = seen @ theta + hidden @ np.full(latent, 2.0 / (3 * latent))
    return Problem(seen, means * between("scale", scale, 0.0, math.inf), noise)
