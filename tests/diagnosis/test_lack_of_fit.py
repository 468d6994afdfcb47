"""Moments, noise and the tests of a diagnosis, against independent computations."""

from __future__ import annotations

import numpy as np
import pytest

from diagnosis.test_diagnose import draw, problem
from rolf.diagnosis import lack_of_fit as parts
from rolf.diagnosis.evidence import Evidence


def moments_of(arms, rewards, count):
    return Evidence.of(arms, rewards, count, float(rewards.mean())).summary()


def prepared(rng, arms, size, share, counts, kind="normal"):
    features, means = problem(rng, arms, size, share)
    means = 0.1 + 0.02 * means if kind == "clicks" else 40 + means
    columns = parts.design(features)
    moments = moments_of(*draw(rng, means, counts, kind), arms)
    return columns, moments


# --- moments, columns, fit -----------------------------------------------------------------------


def test_moments_by_hand():
    """Arm 1 is never played, arm 2 once; deviations of arm 0 are -2, 0, 2."""
    moments = moments_of(np.array([0, 2, 0, 0]), np.array([1.0, 10.0, 3.0, 5.0]), 3)
    assert moments.counts.tolist() == [3.0, 1.0]
    assert moments.means == pytest.approx([3.0, 10.0])
    assert moments.variances == pytest.approx([4.0, 0.0])
    assert moments.fourths == pytest.approx([32.0, 0.0])
    assert (moments.freedom, moments.pooled) == (2, pytest.approx(4.0))


def test_arms_with_one_reward_stay_without_a_variance_where_nothing_varies():
    """The floor against rounding is for repeated rewards: one alone says nothing about noise."""
    arms = np.array([0, 0, 1, 1, 2, 2, 3])
    moments = moments_of(arms, np.array([1.0, 1.0, 5.0, 5.0, 2.0, 2.0, 7.0]), 4)
    assert (moments.variances[:3] > 0.0).all()
    assert moments.variances[3] == 0.0
    test = parts.lack_of_fit(parts.design(np.arange(4.0)[:, None]), moments)
    assert test.robust_p_value < 1e-6


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6 / 3])
def test_a_constant_column_spans_nothing(value):
    """The mean of ten times 0.1 is not 0.1 in floating point. Nor does it hide other columns."""
    constant = np.full(10, value)
    assert parts.design(np.column_stack([constant, constant])).shape == (10, 1)
    assert parts.design(np.column_stack([constant, np.arange(10.0)])).shape == (10, 2)


def test_the_rank_of_columns_that_follow_from_others():
    rng = np.random.default_rng(0)
    for _ in range(20):
        wide = rng.standard_normal((200, 5)) @ rng.standard_normal((5, 30))
        assert parts.design(wide).shape == (200, 6)


def test_the_fit_is_weighted_by_the_numbers_of_rewards():
    rng = np.random.default_rng(1)
    x, counts = rng.standard_normal(8), rng.integers(1, 30, 8)
    arms = np.repeat(np.arange(8), counts)
    moments = moments_of(arms, 100 + rng.standard_normal(arms.size), 8)
    line = np.polynomial.Polynomial.fit(x, moments.means, 1, w=np.sqrt(counts))
    assert parts.fit_of(parts.design(x[:, None]), moments) == pytest.approx(line(x))


# --- noise ---------------------------------------------------------------------------------------


def credibility(columns, moments):
    """The noise of the arms, formula by formula and arm by arm."""
    freedom = moments.counts - 1
    weight = freedom / freedom.sum()
    pooled = np.average(moments.variances, weights=freedom)
    fourth = moments.fourths.sum() / np.sum(freedom**2 / moments.counts)
    relative = max(fourth / pooled**2, 3) - 1
    fit = parts.fit_of(columns, moments)
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
    return np.array(noise), kept, excess


@pytest.mark.parametrize("kind", ["normal", "student", "clicks"])
def test_noise_is_shrunk_towards_a_line_in_the_fit(kind):
    rng = np.random.default_rng(2)
    shrunk, excesses = [], []
    for _ in range(30):
        counts = rng.integers(1, 40, 12) * (10 if kind == "clicks" else 1)
        columns, moments = prepared(rng, 12, 2, 0.9, counts, kind)
        noise = parts.noise_of(columns, moments)
        expected, kept, excess = credibility(columns, moments)
        assert noise == pytest.approx(expected)
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
    columns = parts.design(x[:, None])
    moments = moments_of(arms, rewards, 6)
    noise = parts.noise_of(columns, moments)
    assert noise == pytest.approx(credibility(columns, moments)[0])
    assert (noise > 0.0).all()
