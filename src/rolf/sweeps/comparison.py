"""Settings against the best of them, where which one is best is not known either.

All settings play the same runs, so differences are paired. With b the truly best setting and c the
quantile of Student's t for a level of alpha / m on both sides together, where m is the number of
comparisons,

    |difference of the means of j and b, minus the true one| <= c * its standard error

holds for all j at once with probability 1 - alpha (Bonferroni), and then

* b is among the settings k with mean(k) - mean(j) <= c * se(k, j) for all j: the candidates;
* what i truly lies behind b is between the least and the greatest of
  mean(i) - mean(k) -+ c * se(i, k) over the candidates k (Edwards and Hsu, 1983).

Settings for which this interval reaches down to 0 cannot be told from the best.

Only comparisons with b enter the probability, so m is one less than the number of settings, and for
several problems the sum of these. That the best was picked by looking at the means costs nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rolf.extras import require
from rolf.types import FloatArray


class Standing(NamedTuple):
    """For each setting, arrays: how far its mean is behind the least mean; bounds on how far it
    truly is behind the truly best; and whether it cannot be told from that one."""

    behind: FloatArray
    low: FloatArray
    high: FloatArray
    tied: np.ndarray[tuple[int], np.dtype[np.bool_]]


def compare_with_best(
    mean: FloatArray, covariance: FloatArray, runs: int, comparisons: int, level: float
) -> Standing:
    """How settings stand against the best, the one of the least mean regret.

    Args:
        mean: of each setting, over the same runs.
        covariance: of the settings over the runs.
        runs: how many.
        comparisons: that are to hold at the same time, here and elsewhere.
        level: of confidence, in all of them at once.
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
    # below this the variance of a difference is rounding
    spread[spread <= 1e-14 * (variance[:, None] + variance[None, :])] = 0.0
    margin = quantile * np.sqrt(spread / runs)
    differences = mean[:, None] - mean[None, :]
    candidates = (differences <= margin).all(axis=1)
    low = np.maximum((differences - margin)[:, candidates].min(axis=1), 0.0)
    high = np.maximum((differences + margin)[:, candidates].max(axis=1), 0.0)
    return Standing(behind, low, high, low == 0.0)
