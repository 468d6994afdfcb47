"""The estimates behind a diagnosis, one at a time, against independent computations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rolf.diagnosis import shares
from test_diagnostics import draw, problem, ranked


def prepared(rng, arms, size, share, counts, kind="normal"):
    features, means = problem(rng, arms, size, share)
    means = 0.1 + 0.02 * means if kind == "clicks" else 40 + means
    columns = shares.design(features)
    moments = shares.moments_of(*draw(rng, means, counts, kind), arms)
    return columns, moments


# --- moments, columns, fit -----------------------------------------------------------------------


def test_moments_by_hand():
    """Arm 1 is never played, arm 2 once; deviations of arm 0 are -2, 0, 2."""
    moments = shares.moments_of(np.array([0, 2, 0, 0]), np.array([1.0, 10.0, 3.0, 5.0]), 3)
    assert moments.counts.tolist() == [3.0, 1.0]
    assert moments.means == pytest.approx([3.0, 10.0])
    assert moments.variances == pytest.approx([4.0, 0.0])
    assert moments.fourths == pytest.approx([32.0, 0.0])
    assert (moments.freedom, moments.pooled) == (2, pytest.approx(4.0))


def test_arms_with_one_reward_stay_without_a_variance_where_nothing_varies():
    """The floor against rounding is for repeated rewards: one alone says nothing about noise."""
    arms = np.array([0, 0, 1, 1, 2, 2, 3])
    moments = shares.moments_of(arms, np.array([1.0, 1.0, 5.0, 5.0, 2.0, 2.0, 7.0]), 4)
    assert (moments.variances[:3] > 0.0).all()
    assert moments.variances[3] == 0.0
    test = shares.lack_of_fit(shares.design(np.arange(4.0)[:, None]), moments)
    assert test.robust_p_value < 1e-6


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6 / 3])
def test_a_constant_column_spans_nothing(value):
    """The mean of ten times 0.1 is not 0.1 in floating point. Nor does it hide other columns."""
    constant = np.full(10, value)
    assert shares.design(np.column_stack([constant, constant])).shape == (10, 1)
    assert shares.design(np.column_stack([constant, np.arange(10.0)])).shape == (10, 2)


def test_the_rank_of_columns_that_follow_from_others():
    rng = np.random.default_rng(0)
    for _ in range(20):
        wide = rng.standard_normal((200, 5)) @ rng.standard_normal((5, 30))
        assert shares.design(wide).shape == (200, 6)


def test_the_fit_is_weighted_by_the_numbers_of_rewards():
    rng = np.random.default_rng(1)
    x, counts = rng.standard_normal(8), rng.integers(1, 30, 8)
    arms = np.repeat(np.arange(8), counts)
    moments = shares.moments_of(arms, 100 + rng.standard_normal(arms.size), 8)
    line = np.polynomial.Polynomial.fit(x, moments.means, 1, w=np.sqrt(counts))
    assert shares.fit_of(shares.design(x[:, None]), moments) == pytest.approx(line(x))


# --- noise ---------------------------------------------------------------------------------------


def credibility(columns, moments):
    """The noise of the arms, formula by formula and arm by arm."""
    freedom = moments.counts - 1
    weight = freedom / freedom.sum()
    pooled = np.average(moments.variances, weights=freedom)
    fourth = moments.fourths.sum() / np.sum(freedom**2 / moments.counts)
    relative = max(fourth / pooled**2, 3) - 1
    fit = shares.fit_of(columns, moments)
    slope, middle = np.polyfit(fit, moments.variances, 1, w=np.sqrt(weight))
    error = relative * pooled**2 / freedom.sum() / np.cov(fit, aweights=weight, ddof=0)
    kept = max(0, 1 - 2 * error / slope**2)
    height = middle + slope * (weight @ fit)
    line = np.maximum(height + kept * slope * (fit - weight @ fit), 0.1 * pooled)
    sampling = np.array([relative / max(n, 1) for n in freedom]) * line**2
    excess = max(0, weight @ ((moments.variances - line) ** 2 - sampling))
    noise = []
    for own, towards, variance, n in zip(moments.variances, line, sampling, freedom, strict=True):
        trust = excess / (excess + variance) if n else 0
        noise.append(towards + trust * (own - towards))
    return np.array(noise), kept, excess, 2 * freedom.sum() / relative


@pytest.mark.parametrize("kind", ["normal", "student", "clicks"])
def test_noise_is_shrunk_towards_a_line_in_the_fit(kind):
    rng = np.random.default_rng(2)
    shrunk, excesses = [], []
    for _ in range(30):
        counts = rng.integers(1, 40, 12) * (10 if kind == "clicks" else 1)
        columns, moments = prepared(rng, 12, 2, 0.9, counts, kind)
        noise = shares.noise_of(columns, moments)
        expected, kept, excess, freedom = credibility(columns, moments)
        assert noise.arms == pytest.approx(expected)
        assert noise.freedom == pytest.approx(freedom)
        shrunk.append(kept)
        excesses.append(excess)
    assert min(shrunk) == 0.0 < max(shrunk) < 1.0  # the data sets reach all cases
    assert min(excesses) == 0.0 < max(excesses)


def test_noise_never_falls_below_a_tenth_of_the_pooled_one():
    """A line through variances that grow steeply with the mean would fall below zero."""
    rng = np.random.default_rng(3)
    x = np.arange(6.0)
    arms = np.repeat(np.arange(6), 200)
    scales = np.array([0.1, 0.1, 0.1, 0.1, 0.1, 9.0])
    rewards = 10 * x[arms] + scales[arms] * rng.standard_normal(1200)
    columns = shares.design(x[:, None])
    moments = shares.moments_of(arms, rewards, 6)
    noise = shares.noise_of(columns, moments)
    assert noise.arms == pytest.approx(credibility(columns, moments)[0])
    assert (noise.arms > 0.0).all()


# --- the profile and the split -------------------------------------------------------------------


def test_the_profile_is_solved_for_the_ratio():
    """Between the points of the grid, below its first positive ratio, and beyond the end."""
    rng = np.random.default_rng(4)
    columns, moments = prepared(rng, 15, 3, 0.5, ranked(rng.random(15), 3, 100))
    profile = shares.Profile(columns, moments, shares.noise_of(columns, moments))
    tiny = profile.ratios[1]
    ratios = np.array([0.3 * tiny, 0.7 * tiny, 2 * tiny, 1e-2, 0.1, 0.37, 1.0, 5.0])
    root, _, fit = profile.weighted(ratios)
    residuals = np.sum((root * (profile.means - fit)) ** 2, axis=1)
    centres = np.average(fit.T, axis=0, weights=root.T**2)
    sums = np.sum((root * (fit - centres[:, None])) ** 2, axis=1)
    solved, fits, spreads = profile.solve(residuals)
    assert solved == pytest.approx(ratios, rel=0.03)
    assert fits == pytest.approx(sums, rel=0.01)
    assert spreads == pytest.approx(fit.var(axis=1, ddof=1), rel=0.01)
    assert profile.solve(np.array([1.01, 2.0]) * profile.residuals[0])[0].tolist() == [0.0, 0.0]


def test_the_split_of_equal_counts_and_known_noise():
    """Moments: the residual mean square is t + s/N, that of the fit adds the explained variance."""
    rng = np.random.default_rng(5)
    columns, moments = prepared(rng, 30, 4, 0.5, np.full(30, 20))
    noise = shares.Noise(np.full(30, 1.0), 1.0, 1e9)
    split = shares.split_of(shares.Profile(columns, moments, noise), noise, 0.95)
    fit = shares.fit_of(columns, moments)
    residual = np.sum((moments.means - fit) ** 2) / 25
    assert split.latent == pytest.approx(residual - 1 / 20, rel=0.02)
    explained = (np.sum((fit - fit.mean()) ** 2) - 4 * residual) / 29
    assert split.explained == pytest.approx(explained, rel=0.02)


def test_a_share_of_nothing_may_be_anything():
    """Means much closer than the noise explains: no draw has an explained or a latent part."""
    columns = shares.design(np.arange(6.0)[:, None])
    means = np.array([0.0, 1e-3, 0.0, -1e-3, 0.0, 1e-3])
    moments = shares.Moments(np.full(6, 10.0), means, np.full(6, 1.0), np.full(6, 27.0))
    noise = shares.noise_of(columns, moments)
    split = shares.split_of(shares.Profile(columns, moments, noise), noise, 0.95)
    assert (split.explained, split.latent, split.low, split.high) == (0.0, 0.0, 0.0, 1.0)


@pytest.mark.parametrize("rank", [1, 4, 12])
@pytest.mark.parametrize("size", [1.5, 20.0, 300.0, 5000.0])
def test_noncentralities_solve_the_distribution(rank, size):
    """Exactly for small values, to 0.001 in probability for large ones; zero if there is none."""
    values = np.full(5, size * rank)
    chances = np.array([0.01, 0.3, 0.5, 0.7, 0.99])
    centres = shares.noncentrality(values, rank, chances)
    for value, chance, centre in zip(values, chances, centres, strict=True):
        if centre > 0.0:
            assert stats.ncx2.cdf(value, rank, centre) == pytest.approx(chance, abs=0.001)
        else:
            assert stats.chi2.cdf(value, rank) <= chance + 1e-9
    assert shares.noncentrality(values, 0, chances).tolist() == [0.0] * 5


def test_an_arm_that_alone_has_a_feature_does_not_deviate():
    """Without it the features lose rank, so nothing predicts it."""
    rng = np.random.default_rng(6)
    features = np.column_stack([rng.standard_normal(8), np.arange(8) == 3])
    columns = shares.design(features)
    moments = shares.moments_of(*draw(rng, rng.standard_normal(8), np.full(8, 10)), 8)
    noise = shares.noise_of(columns, moments)
    parts = shares.parts_of(shares.Profile(columns, moments, noise), noise, 0.5)
    assert np.flatnonzero(np.isnan(parts.deviation)).tolist() == [3]
    p_values = shares.deviation_p_values(parts, noise)
    assert np.isnan(p_values[3])
    raw = 2 * stats.t.sf(np.abs(parts.deviation / parts.deviation_stderr), noise.freedom)
    assert np.nanmin(p_values) == pytest.approx(min(7 * np.nanmin(raw), 1.0))  # seven tests
