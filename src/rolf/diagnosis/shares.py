"""How much of the variance between arms do features explain? Estimates from the arms' moments.

The model: mean reward of arm a = c + x_a'm + u_a, with c and m unknown numbers and latent parts
u_a ~ N(0, t); a reward is its arm's mean plus noise of variance s_a. For each played arm the
number N_a of its rewards, their mean y_a and their variance s_a^2 are known.

Lack of fit, t = 0: least squares of y_a on the features with weights N_a leaves
    R = sum N_a (y_a - fit_a)^2 = z'Mz,   z_a = sqrt(N_a) y_a, M a projection of rank df1.
The F test compares R / df1 with the pooled variance, and is exact for equal normal noise. The
robust test divides R by its expectation sum M_aa s_a^2 and matches degrees of freedom (Box;
Brown and Forsythe), so the noise need not be equal.

Share = v / (v + t), with v the variance of x_a'm over the played arms. With weights
1 / (t + s_a / N_a), the residual sum of squares is chi-square with df1 degrees of freedom, and
the sum of squares of the fit is noncentral chi-square with ``rank`` degrees of freedom and
noncentrality proportional to v. Draws of these and of the noise's scale, solved for t and v, are
draws of the share; their quantiles are the interval (generalised pivots; with equal counts and
little noise it is the inversion of the noncentral F distribution). The draws are a fixed set of
Sobol points, so the same data give the same answer.

The noise s_a of an arm is its own variance, shrunk towards a line in the fitted mean as far as
it is itself uncertain (credibility, with the kurtosis of the rewards). Clicks need this: their
variance depends on their mean, and often their counts do, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from rolf.types import FloatArray, IntArray

DRAWS = 1024  # a power of two, for Sobol points
GRID = 48  # positive ratios of latent variance to noise
BATCH = 2_000_000  # numbers in memory at once
#: above this plus five times the squared rank, the noncentral chi-square is approximated by the
#: square of a shifted normal, to within 0.001 in probability; inverting it exactly would be slow
LARGE = 100.0


class Moments(NamedTuple):
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
        """Variance within arms; nan without repeated rewards."""
        freedom = self.freedom
        return float((self.counts - 1.0) @ self.variances) / freedom if freedom else np.nan


@dataclass(frozen=True)
class LackOfFit:
    """The test of whether more than the features moves the arms' means.

    ``p_value`` is the F test's, for equal noise; ``robust_p_value`` allows for unequal noise.
    """

    statistic: float
    df1: int
    df2: int
    p_value: float
    robust_p_value: float


class Noise(NamedTuple):
    """Variance of a reward: per arm (K,), and pooled, with the degrees of freedom that the
    pooled one is worth."""

    arms: FloatArray
    pooled: float
    freedom: float


class Split(NamedTuple):
    """Variance between arms, explained and latent, and the interval of the explained share."""

    explained: float
    latent: float
    low: float
    high: float


class Parts(NamedTuple):
    """Per played arm, (K,): the fit, the latent part, and how far the mean is from what the
    features and all other arms predict, with its standard error if the arm had no latent part."""

    fit: FloatArray
    shrinkage: FloatArray
    latent: FloatArray
    latent_stderr: FloatArray
    deviation: FloatArray  # nan for an arm without which the features lose rank
    deviation_stderr: FloatArray


def moments_of(positions: IntArray, rewards: FloatArray, arms: int) -> Moments:
    """Moments of every arm with a reward, in the order of the arms."""
    counts = np.bincount(positions, minlength=arms).astype(np.float64)
    played = counts > 0.0
    centre = float(rewards.mean())  # rewards far from zero would lose digits
    shifted = rewards - centre
    means = np.bincount(positions, shifted, arms) / np.maximum(counts, 1.0)
    residuals = shifted - means[positions]
    variances = np.bincount(positions, residuals**2, arms) / np.maximum(counts - 1.0, 1.0)
    # Rewards that never vary within an arm still carry rounding; a variance of exactly zero
    # would make every difference infinitely sure.
    digits = max(1e-9 * float(np.abs(shifted).max()), 1e-13 * abs(centre))
    within = float((counts - 1.0)[played] @ variances[played])
    if within <= (counts.sum() - played.sum()) * digits**2:
        variances[counts > 1.0] = digits**2
    fourths = np.asarray(np.bincount(positions, residuals**4, arms), dtype=np.float64)
    return Moments(counts[played], (means + centre)[played], variances[played], fourths[played])


def design(features: FloatArray) -> FloatArray:
    """(K, 1 + rank): an intercept and an orthonormal basis of the centred features."""
    centred = features - features.mean(axis=0)
    spread = np.abs(centred).max(axis=0)
    # the error of rounding, largest in columns far from zero
    digits = float(np.finfo(np.float64).eps) * np.abs(features).max(axis=0)
    constant = spread <= 8.0 * digits
    scale = np.where(constant, 1.0, spread)
    left, singular, _ = np.linalg.svd(np.where(constant, 0.0, centred / scale), full_matrices=False)
    noise = max(8.0 * float((digits / scale)[~constant].max(initial=0.0)), 1e-15)
    rank = int(np.count_nonzero(singular > noise * max(features.shape)))
    return np.column_stack([np.ones(len(features)), left[:, :rank]])


def fit_of(columns: FloatArray, moments: Moments) -> FloatArray:
    """Least squares of the arms' means, weighted by their numbers of rewards."""
    root = np.sqrt(moments.counts)
    centre = float(moments.means.mean())
    targets = root * (moments.means - centre)
    coefficients = np.linalg.lstsq(columns * root[:, None], targets, rcond=None)[0]
    return np.asarray(centre + columns @ coefficients, dtype=np.float64)


def extend_fit(features: FloatArray, played: IntArray, fit: FloatArray) -> FloatArray:
    """The fit of the played arms, extended to all arms; nan where their features do not reach."""
    centred = features - features[played].mean(axis=0)
    spread = np.abs(centred[played]).max(axis=0)
    table = np.column_stack([np.ones(len(features)), centred / np.where(spread > 0.0, spread, 1.0)])
    inverse = np.linalg.pinv(table[played])
    outside = np.abs(table - table @ inverse @ table[played]).max(axis=1)
    out = np.where(outside <= 1e-6 * np.abs(table).max(axis=1), table @ inverse @ fit, np.nan)
    out[played] = fit
    return out


def lack_of_fit(columns: FloatArray, moments: Moments) -> LackOfFit:
    """F test and robust test of a linear model of the arms' means."""
    from scipy.special import fdtrc

    counts, variances = moments.counts, moments.variances
    root = np.sqrt(counts)
    basis = np.linalg.qr(columns * root[:, None])[0]
    scaled = root * (moments.means - moments.means.mean())
    left = scaled - basis @ (basis.T @ scaled)
    df1, df2 = columns.shape[0] - columns.shape[1], moments.freedom
    residual = float(left @ left)
    statistic = residual / df1 / moments.pooled
    diagonal = 1.0 - np.einsum("ab,ab->a", basis, basis)  # of M
    # an arm with one reward, or with the same one each time, says nothing about its noise
    silent = variances <= 1e-12 * moments.pooled
    filled = np.where(silent, moments.pooled, variances)
    expected = float(diagonal @ filled)
    crossed = (basis.T * filled) @ basis
    square = float((1.0 - 2.0 * (1.0 - diagonal)) @ filled**2 + np.sum(crossed**2))
    # the weights of the other arms' variances in the expectation
    freedom = counts[~silent] - 1.0
    weights = diagonal[~silent] + float(diagonal[silent].sum()) * freedom / df2
    uncertainty = float(np.sum((weights * variances[~silent]) ** 2 / freedom))
    robust = fdtrc(expected**2 / square, expected**2 / uncertainty, residual / expected)
    return LackOfFit(statistic, df1, df2, float(fdtrc(df1, df2, statistic)), float(robust))


def noise_of(columns: FloatArray, moments: Moments) -> Noise:
    """The noise of every arm; equal where the data do not say otherwise."""
    counts, variances, pooled = moments.counts, moments.variances, moments.pooled
    freedom = counts - 1.0
    weight = freedom / freedom.sum()
    # 3 for normal rewards, for which it makes the sum of fourth powers unbiased
    kurtosis = float(moments.fourths.sum()) / float((freedom**2 / counts).sum()) / pooled**2
    # relative variance of a variance with one degree of freedom
    uncertainty = max(kurtosis, 3.0) - 1.0
    fit = fit_of(columns, moments) - moments.means.mean()
    along = fit - weight @ fit
    line = np.full(counts.size, pooled)
    if (length := float(weight @ along**2)) > 1e-24 * float(np.abs(fit).max()) ** 2:
        slope = float((weight * along) @ variances) / length
        error = uncertainty * pooled**2 * float(weight @ along**2) / freedom.sum() / length**2
        kept = max(0.0, 1.0 - 2.0 * error / slope**2) if slope else 0.0
        line = np.maximum(pooled + kept * slope * along, 0.1 * pooled)
    sampling = uncertainty / np.maximum(freedom, 1.0) * line**2
    excess = max(0.0, float(weight @ ((variances - line) ** 2 - sampling)))
    trust = np.where(freedom > 0.0, excess / (excess + sampling), 0.0)
    worth = max(2.0 * moments.freedom / uncertainty, 1.0)
    return Noise(line + trust * (variances - line), pooled, worth)


class Profile:
    """Weighted least squares over a grid of ratios: latent variance to pooled noise."""

    def __init__(self, columns: FloatArray, moments: Moments, noise: Noise) -> None:
        self.columns = columns
        self.centre = float(moments.means.mean())
        self.means = moments.means - self.centre
        # variances of the means, in units of noise
        self.errors = noise.arms / noise.pooled / moments.counts
        coefficients = np.linalg.lstsq(columns, self.means, rcond=None)[0]
        left = float(np.sum((self.means - columns @ coefficients) ** 2)) / noise.pooled
        top = max(1e4 * left, 1e4 * float(self.errors.max()))
        self.ratios = np.array([0.0, *np.geomspace(1e-3 * self.errors.min(), top, GRID)])
        step = max(1, BATCH // columns.size)
        batches = [self.ratios[i : i + step] for i in range(0, GRID + 1, step)]
        sums = np.hstack([self._sums(ratios) for ratios in batches])
        self.residuals, self.fits, self.spreads = sums

    def weighted(self, ratios: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """For each ratio: the weights' roots (G, K), an orthonormal basis of the weighted
        columns (G, K, 1 + rank), and the fit (G, K)."""
        root = 1.0 / np.sqrt(ratios[:, None] + self.errors)
        basis = np.linalg.qr(root[:, :, None] * self.columns)[0]
        parts = np.einsum("gab,ga->gb", basis, root * self.means)
        return root, basis, np.einsum("gab,gb->ga", basis, parts) / root

    def _sums(self, ratios: FloatArray) -> FloatArray:
        """Residual sum of squares, sum of squares of the fit, and variance of the fit, (3, G)."""
        root, _, fit = self.weighted(ratios)
        residual = np.sum((root * (self.means - fit)) ** 2, axis=1)
        weights = root**2
        centre = np.sum(weights * fit, axis=1) / np.sum(weights, axis=1)
        explained = np.sum(weights * (fit - centre[:, None]) ** 2, axis=1)
        return np.array([residual, explained, fit.var(axis=1, ddof=1)])

    def solve(self, residual: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Ratio, sum of squares of the fit and variance of the fit, where the residual sum of
        squares equals ``residual``."""
        heights = -np.log(np.maximum(self.residuals, 1e-300))
        place = np.interp(-np.log(np.maximum(residual, 1e-300)), heights, np.arange(GRID + 1.0))
        steps = np.arange(GRID + 1.0)
        logs = np.log(self.ratios[1:])
        ratio = np.where(
            place < 1.0, place * self.ratios[1], np.exp(np.interp(place, steps[1:], logs))
        )
        # the fit falls like 1 / (ratio + error); without that factor it is smooth
        typical = float(np.median(self.errors))
        fit = np.interp(place, steps, self.fits * (self.ratios + typical)) / (ratio + typical)
        return ratio, fit, np.interp(place, steps, self.spreads)


def split_of(profile: Profile, noise: Noise, level: float) -> Split:
    """Variance between arms, explained and latent, and the interval of the explained share."""
    from scipy.special import chdtri

    rank = profile.columns.shape[1] - 1
    df1 = profile.columns.shape[0] - rank - 1
    ratio, fit, spread = profile.solve(np.array([df1 * noise.pooled]))
    latent = float(ratio[0]) * noise.pooled
    sum_of_fit = max(float(fit[0]) / noise.pooled, 1e-300)
    explained = float(spread[0]) * max(0.0, 1.0 - rank / sum_of_fit) if rank else 0.0
    of_noise, of_residual, of_fit = _points().T
    scale = noise.pooled * noise.freedom / chdtri(noise.freedom, of_noise)
    ratio, fit, spread = profile.solve(scale * chdtri(df1, of_residual))
    fit = np.maximum(fit / scale, 1e-300)
    drawn = spread * noncentrality(fit, rank, of_fit) / fit
    total = drawn + ratio * scale
    # where both parts are zero, the share may be anything
    lowest = np.divide(drawn, total, out=np.zeros(DRAWS), where=total > 0.0)
    highest = np.where(total > 0.0, lowest, 1.0)
    tail = 0.5 * (1.0 - level)
    return Split(
        explained, latent, float(np.quantile(lowest, tail)), float(np.quantile(highest, 1.0 - tail))
    )


def parts_of(profile: Profile, noise: Noise, latent: float) -> Parts:
    """Best linear predictions of the latent parts, given their variance."""
    ratio = latent / noise.pooled
    root, basis, fit = (stack[0] for stack in profile.weighted(np.array([ratio])))
    leverage = np.einsum("ab,ab->a", basis, basis)
    left = profile.means - fit
    shrinkage = ratio / (ratio + profile.errors)
    fit_variance = leverage / root**2  # in units of noise
    latent_variance = noise.pooled * (ratio * (1.0 - shrinkage) + shrinkage**2 * fit_variance)
    spare = np.where(leverage < 1.0 - 1e-9, 1.0 - leverage, np.nan)
    deviation_variance = noise.pooled * (profile.errors + fit_variance / spare)
    return Parts(
        fit + profile.centre,
        shrinkage,
        shrinkage * left,
        np.sqrt(latent_variance),
        left / spare,
        np.sqrt(deviation_variance),
    )


def deviation_p_values(parts: Parts, noise: Noise) -> FloatArray:
    """P-values of the test that an arm has no latent part, adjusted by Holm for their number."""
    from scipy.special import stdtr

    return holm(2.0 * stdtr(noise.freedom, -np.abs(parts.deviation / parts.deviation_stderr)))


def holm(p_values: FloatArray) -> FloatArray:
    """Holm's adjusted p-values; nan stays nan and is not counted."""
    order = np.argsort(p_values, kind="stable")[: int(np.count_nonzero(~np.isnan(p_values)))]
    steps = p_values[order] * np.arange(order.size, 0, -1)
    out = np.full(p_values.size, np.nan)
    out[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return out


def noncentrality(values: FloatArray, rank: int, chances: FloatArray) -> FloatArray:
    """The noncentralities for which the values are the quantiles at these chances; zero where
    there is none."""
    from scipy.special import chndtrinc, ndtri

    out = np.zeros(values.size)
    if rank == 0:
        return out
    large = values > LARGE + 5.0 * rank**2
    shifted = np.sqrt(values[large] - rank + 1.0) - ndtri(chances[large])
    out[large] = np.maximum(shifted, 0.0) ** 2
    out[~large] = chndtrinc(values[~large], float(rank), chances[~large])
    return np.where(out > 1e-12, out, 0.0)


@cache
def _points() -> FloatArray:
    """(DRAWS, 3) Sobol points in the unit cube, none on its surface."""
    from scipy.stats import qmc

    points = qmc.Sobol(3, scramble=False).random(DRAWS)
    return np.asarray(points + 0.5 / DRAWS, dtype=np.float64)
