"""What a log says without a prior: the arms' rewards and noise, and a test of lack of fit.

Each played arm has N_a rewards with mean y_a and variance s_a^2.

Lack of fit asks whether more than the features moves the means. Least squares of y_a on the
features, with weights N_a, leaves R = sum N_a (y_a - fit_a)^2 = z'Mz, z_a = sqrt(N_a) y_a, M a
projection of rank df1. The F test compares R / df1 with the pooled variance, and is exact for equal
normal noise. The robust test divides R by its expectation sum M_aa s_a^2 and matches degrees of
freedom (Box; Brown and Forsythe), so the noise need not be equal. Both hold only where arms were
chosen without
regard to rewards: a policy leaves an arm after bad luck and stays after good, which moves y_a.

The noise of an arm is its variance s_a^2, shrunk towards a line in the fitted mean, the more the
less certain it is (credibility, with the kurtosis of the rewards).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rolf.types import FloatArray


class ArmSummary(NamedTuple):
    """Per played arm, (K,): number of rewards, their mean, variance and sum of fourth powers."""

    counts: FloatArray
    means: FloatArray
    variances: FloatArray  # zero for arms with one reward
    fourths: FloatArray  # of deviations from the arm's mean

    @property
    def freedom(self) -> int:
        """Degrees of freedom within arms."""
        return int(self.counts.sum()) - self.counts.size

    @property
    def pooled(self) -> float:
        """Variance within arms; NaN without repeated rewards."""
        freedom = self.freedom
        return float((self.counts - 1.0) @ self.variances) / freedom if freedom else np.nan


@dataclass(frozen=True)
class LackOfFit:
    """A test of whether more than the features moves the arms' means.

    ``p_value`` is that of the F test, for equal noise; ``robust_p_value`` allows for unequal noise.
    """

    statistic: float
    df1: int
    df2: int
    p_value: float
    robust_p_value: float


def design(features: FloatArray) -> FloatArray:
    """(K, 1 + rank): an intercept and an orthonormal basis of the centred features."""
    centred = features - features.mean(axis=0)
    spread = np.abs(centred).max(axis=0)
    # the rounding error, largest in columns far from zero
    digits = float(np.finfo(np.float64).eps) * np.abs(features).max(axis=0)
    constant = spread <= 8.0 * digits
    scale = np.where(constant, 1.0, spread)
    left, singular, _ = np.linalg.svd(np.where(constant, 0.0, centred / scale), full_matrices=False)
    noise = max(8.0 * float((digits / scale)[~constant].max(initial=0.0)), 1e-15)
    rank = int(np.count_nonzero(singular > noise * max(features.shape)))
    return np.column_stack([np.ones(len(features)), left[:, :rank]])


def fit_of(columns: FloatArray, summary: ArmSummary) -> FloatArray:
    """Least squares of the arms' means, weighted by their numbers of rewards."""
    root = np.sqrt(summary.counts)
    centre = float(summary.means.mean())
    targets = root * (summary.means - centre)
    coefficients = np.linalg.lstsq(columns * root[:, None], targets, rcond=None)[0]
    return np.asarray(centre + columns @ coefficients, dtype=np.float64)


def lack_of_fit(columns: FloatArray, summary: ArmSummary) -> LackOfFit:
    """F test and robust test of a linear model of the arms' means."""
    from scipy.special import fdtrc

    counts, variances = summary.counts, summary.variances
    root = np.sqrt(counts)
    basis = np.linalg.qr(columns * root[:, None])[0]
    scaled = root * (summary.means - summary.means.mean())
    left = scaled - basis @ (basis.T @ scaled)
    df1, df2 = columns.shape[0] - columns.shape[1], summary.freedom
    residual = float(left @ left)
    statistic = residual / df1 / summary.pooled
    diagonal = 1.0 - np.einsum("ab,ab->a", basis, basis)  # of M
    # an arm with one reward, or always the same one, says nothing about its noise
    silent = variances <= 1e-12 * summary.pooled
    filled = np.where(silent, summary.pooled, variances)
    expected = float(diagonal @ filled)
    crossed = (basis.T * filled) @ basis
    square = float((1.0 - 2.0 * (1.0 - diagonal)) @ filled**2 + np.sum(crossed**2))
    # the weights of the other arms' variances in the expectation
    freedom = counts[~silent] - 1.0
    weights = diagonal[~silent] + float(diagonal[silent].sum()) * freedom / df2
    uncertainty = float(np.sum((weights * variances[~silent]) ** 2 / freedom))
    robust = fdtrc(expected**2 / square, expected**2 / uncertainty, residual / expected)
    return LackOfFit(statistic, df1, df2, float(fdtrc(df1, df2, statistic)), float(robust))


def noise_of(columns: FloatArray, summary: ArmSummary) -> FloatArray:
    """The variance of one reward, per arm (K,); equal unless the data say otherwise."""
    counts, variances, pooled = summary.counts, summary.variances, summary.pooled
    freedom = counts - 1.0
    weight = freedom / freedom.sum()
    # 3 for normal rewards, for which it makes the sum of fourth powers unbiased
    kurtosis = float(summary.fourths.sum()) / float((freedom**2 / counts).sum()) / pooled**2
    # relative variance of a variance with one degree of freedom
    uncertainty = max(kurtosis, 3.0) - 1.0
    fit = fit_of(columns, summary) - summary.means.mean()
    along = fit - weight @ fit
    line = np.full(counts.size, pooled)
    if (length := float(weight @ along**2)) > 1e-24 * float(np.abs(fit).max()) ** 2:
        along /= math.sqrt(length)  # so squares below are of the variances' size
        slope = float((weight * along) @ variances)
        error = uncertainty * pooled**2 / freedom.sum()
        kept = max(0.0, 1.0 - 2.0 * error / slope**2) if slope**2 else 0.0
        line = np.maximum(pooled + kept * slope * along, 0.1 * pooled)
    sampling = uncertainty / np.maximum(freedom, 1.0) * line**2
    excess = max(0.0, float(weight @ ((variances - line) ** 2 - sampling)))
    trust = np.where(freedom > 0.0, excess / (excess + sampling), 0.0)
    return np.asarray(line + trust * (variances - line), dtype=np.float64)
