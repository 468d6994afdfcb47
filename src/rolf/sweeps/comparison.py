"""Compare settings with the best one, when which one is best is uncertain too.

All settings play the same runs, so differences are paired. Let b be the truly best setting and c
the two-sided quantile of Student's t at level alpha / m, for m comparisons. Then

    |difference of the means of j and b, minus the true one| <= c * its standard error

holds for all j at once with probability 1 - alpha (Bonferroni), and therefore

* b is among the settings k with mean(k) - mean(j) <= c * se(k, j) for all j: the candidates;
* the true distance of i behind b is between the smallest and the largest of
  mean(i) - mean(k) -+ c * se(i, k) over the candidates k (Edwards and Hsu, 1983).

Settings whose interval reaches 0 cannot be told from the best.

Only comparisons with b enter the probability, so m is the number of settings minus one, summed over
problems. Picking the best by looking at the means costs no confidence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rolf.extras import require
from rolf.types import FloatArray


class Standing(NamedTuple):
    """One entry per setting: how far its mean is behind the smallest mean, bounds on how far it
    truly is behind the truly best setting, and whether the two cannot be told apart."""

    behind: FloatArray
    low: FloatArray
    high: FloatArray
    tied: np.ndarray[tuple[int], np.dtype[np.bool_]]


def compare_with_best(
    mean: FloatArray, covariance: FloatArray, runs: int, comparisons: int, level: float
) -> Standing:
    """Compare settings with the best one, which has the smallest mean regret.

    Args:
        mean: mean regret of each setting, over the same runs.
        covariance: covariance of the settings over the runs.
        runs: number of runs.
        comparisons: number of comparisons that hold simultaneously, including those of other calls.
        level: joint confidence of all of them.
    """
    behind = mean - mean.min()
    if runs < 2:
        unknown = np.full(mean.size, np.inf)
        return Standing(behind, np.zeros(mean.size), unknown, np.ones(mean.size, dtype=bool))
    require("scipy", "confidence intervals")
    from scipy.special import stdtrit

    quantile = stdtrit(runs - 1, 1.0 - (1.0 - level) / (2.0 * max(comparisons, 1)))
    variance = np.diag(covariance)
    spread = np.maximum(variance[:, None] + variance[None, :] - 2.0 * covariance, 0.0)
    # below this, the variance of a difference is rounding error
    spread[spread <= 1e-14 * (variance[:, None] + variance[None, :])] = 0.0
    margin = quantile * np.sqrt(spread / runs)
    differences = mean[:, None] - mean[None, :]
    candidates = (differences <= margin).all(axis=1)
    low = np.maximum((differences - margin)[:, candidates].min(axis=1), 0.0)
    high = np.maximum((differences + margin)[:, candidates].max(axis=1), 0.0)
    return Standing(behind, low, high, low == 0.0)
