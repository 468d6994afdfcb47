"""Diagnosis: its formulas by hand, its error rates by simulation, its verdicts and its words.

The bands of the simulations: with 1000 data sets a test at 5% raises between 31 and 71 false
alarms with probability 0.997 (binomial); the seeds are fixed, so they always pass or never do.
"""

from __future__ import annotations

import json

import numpy as np
import pandas
import pytest
from scipy import stats

import rolf
from rolf.diagnosis import shares
from rolf.diagnostics import IGNORE, ROLF, TRUST, UNKNOWN, Share, diagnose

SETS = 1000
LOW, HIGH = stats.binom.ppf([0.0015, 0.9985], SETS, 0.05)


def ranked(values, low, high):
    """Counts that grow with the values, from low to high: how a bandit plays."""
    ranks = stats.rankdata(values) / len(values)
    return (low + (high - low) * ranks**3).astype(int)


def draw(rng, means, counts, kind="normal", noise=1.0):
    arms = np.repeat(np.arange(len(means)), counts)
    if kind == "clicks":
        return arms, (rng.random(arms.size) < means[arms]).astype(float)
    drawn = rng.standard_t(4, arms.size) if kind == "student" else rng.standard_normal(arms.size)
    return arms, means[arms] + noise * drawn


def problem(rng, arms, size, share):
    """Features, and means with variance 1 of which the features carry the share."""
    features = rng.standard_normal((arms, size))
    observed = features @ rng.standard_normal(size)
    observed = (observed - observed.mean()) / observed.std(ddof=1)
    return features, np.sqrt(share) * observed + np.sqrt(1 - share) * rng.standard_normal(arms)


def p_values(rng, features, means, counts, kind="normal", sets=SETS):
    columns = shares.design(features)
    pairs = []
    for _ in range(sets):
        moments = shares.moments_of(*draw(rng, means, counts, kind), len(means))
        test = shares.lack_of_fit(columns, moments)
        pairs.append((test.p_value, test.robust_p_value))
    return np.array(pairs)


# --- by hand -------------------------------------------------------------------------------------


def test_the_f_test_by_hand():
    """Two rewards per arm, means 1, 3, 2 at x = 0, 1, 2: the line is 1.5 + 0.5 x."""
    diagnosis = diagnose([[0], [1], [2]], [0, 0, 1, 1, 2, 2], [0, 2, 2, 4, 1, 3])
    test = diagnosis.lack_of_fit
    residual = 2 * (0.5**2 + 1.0**2 + 0.5**2)  # 3, with one degree of freedom
    within = 6 * 1.0 / 3  # each arm: 1 + 1, over 6 - 3
    assert test.statistic == pytest.approx(residual / within)
    assert (test.df1, test.df2) == (1, 3)
    assert test.p_value == pytest.approx(stats.f.sf(1.5, 1, 3))
    assert diagnosis.noise == pytest.approx(2.0)


def test_the_f_test_is_that_of_two_nested_regressions():
    rng = np.random.default_rng(0)
    features, means = problem(rng, 12, 3, 0.5)
    arms, rewards = draw(rng, means, rng.integers(1, 9, 12))
    full = pandas.get_dummies(pandas.Series(arms)).to_numpy(float)
    small = np.column_stack([np.ones(arms.size), features[arms]])
    sums = [np.linalg.lstsq(design, rewards, rcond=None)[1][0] for design in (small, full)]
    df1, df2 = 12 - 4, arms.size - 12
    expected = (sums[0] - sums[1]) / df1 / (sums[1] / df2)
    assert diagnose(features, arms, rewards).lack_of_fit.statistic == pytest.approx(expected)


def test_with_equal_counts_the_robust_test_has_the_same_ratio():
    """Brown and Forsythe's statistic is F where all variances are equal."""
    arms = np.repeat(np.arange(5), 4)
    rewards = np.tile([-1.0, 1.0, -1.0, 1.0], 5) + np.array([0.0, 1.0, 0.0, 2.0, 1.0])[arms]
    test = diagnose(np.arange(5.0)[:, None], arms, rewards).lack_of_fit
    leverage = 0.2 + np.array([4, 1, 0, 1, 4]) / 10
    df2 = 3 * 3**2 / np.sum((1 - leverage) ** 2)
    assert test.robust_p_value == pytest.approx(stats.f.sf(test.statistic, 3, df2))


def test_without_noise_the_interval_is_that_of_the_noncentral_f():
    rng = np.random.default_rng(3)
    features, means = problem(rng, 20, 3, 0.8)
    arms, rewards = draw(rng, means, np.full(20, 50), noise=1e-4)
    diagnosis = diagnose(features, arms, rewards)
    columns = np.column_stack([np.ones(20), features])
    fit = columns @ np.linalg.lstsq(columns, means, rcond=None)[0]
    ratio = np.sum((fit - fit.mean()) ** 2) / 3 / (np.sum((means - fit) ** 2) / 16)
    for end, chance in ((diagnosis.share.low, 0.975), (diagnosis.share.high, 0.025)):
        centre = 19 * end / (1 - end)
        assert stats.ncf.cdf(ratio, 3, 16, centre) == pytest.approx(chance, abs=0.003)
    adjusted = 1 - np.sum((means - fit) ** 2) / 16 / means.var(ddof=1)
    assert diagnosis.share.estimate == pytest.approx(adjusted, abs=0.01)


def test_latent_parts_are_the_best_linear_predictions():
    """Henderson's equations, solved as they stand, give fit, latent part and its error."""
    rng = np.random.default_rng(5)
    features, means = problem(rng, 9, 2, 0.4)
    arms, rewards = draw(rng, means, rng.integers(2, 12, 9))
    columns = shares.design(features)
    moments = shares.moments_of(arms, rewards, 9)
    noise = shares.noise_of(columns, moments)
    parts = shares.parts_of(shares.Profile(columns, moments, noise), noise, 0.7)
    weights = np.diag(moments.counts / noise.arms)
    both = np.hstack([columns, np.eye(9)])
    system = both.T @ weights @ both
    system[3:, 3:] += np.eye(9) / 0.7
    solved = np.linalg.solve(system, both.T @ weights @ moments.means)
    assert np.allclose(parts.fit, columns @ solved[:3])
    assert np.allclose(parts.latent, solved[3:])
    assert np.allclose(parts.latent_stderr**2, np.diag(np.linalg.inv(system))[3:])
    # an arm's deviation is from a fit that never saw it
    rest = np.arange(9) != 4
    inverse = np.diag(1 / (0.7 + noise.arms / moments.counts))[np.ix_(rest, rest)]
    covariance = np.linalg.inv(columns[rest].T @ inverse @ columns[rest])
    there = columns[4] @ covariance @ columns[rest].T @ inverse @ moments.means[rest]
    assert parts.deviation[4] == pytest.approx(moments.means[4] - there)
    error = noise.arms[4] / moments.counts[4] + columns[4] @ covariance @ columns[4]
    assert parts.deviation_stderr[4] ** 2 == pytest.approx(error)


def test_holm():
    adjusted = shares.holm(np.array([0.01, np.nan, 0.04, 0.03]))
    assert adjusted == pytest.approx([0.03, np.nan, 0.06, 0.06], nan_ok=True)


def test_shift_scale_and_repeated_columns_change_nothing():
    rng = np.random.default_rng(1)
    features, means = problem(rng, 15, 3, 0.5)
    arms, rewards = draw(rng, means, np.full(15, 8))
    first = diagnose(features, arms, rewards)
    wide = np.column_stack([features, features[:, 0] + 2 * features[:, 1], np.ones(15)])
    again = diagnose(1e3 + 10 * wide, arms, 40 + 100 * rewards)
    assert again.rank == first.rank == 3
    assert again.verdict == first.verdict
    assert again.lack_of_fit.p_value == pytest.approx(first.lack_of_fit.p_value)
    assert again.share.low == pytest.approx(first.share.low, abs=1e-6)
    assert again.arms[2].latent == pytest.approx(100 * first.arms[2].latent)
    assert again.arms[2].fit == pytest.approx(40 + 100 * first.arms[2].fit)


# --- error rates ---------------------------------------------------------------------------------


@pytest.mark.parametrize("counts", ["equal", "unequal"])
def test_false_alarms_of_both_tests_for_normal_noise(counts):
    rng = np.random.default_rng(11)
    features, means = problem(rng, 20, 3, 1.0)
    plays = np.full(20, 30) if counts == "equal" else ranked(means, 10, 200)
    alarms = np.sum(p_values(rng, features, 40 + means, plays) <= 0.05, axis=0)
    assert np.all((alarms >= LOW) & (alarms <= HIGH)), alarms


def test_false_alarms_of_the_f_test_are_exact_for_few_rewards():
    """Three rewards per arm: the robust test may raise fewer, never more."""
    rng = np.random.default_rng(12)
    features, means = problem(rng, 20, 3, 1.0)
    plain, robust = np.sum(p_values(rng, features, means, np.full(20, 3)) <= 0.05, axis=0)
    assert LOW <= plain <= HIGH
    assert robust <= HIGH


@pytest.mark.parametrize(("plays", "unsafe"), [("with", False), ("against", True)])
def test_false_alarms_for_clicks_whose_counts_go_with_or_against_the_mean(plays, unsafe):
    """Means from 2% to 20%. The F test raises next to none, or more than 20%: that is why
    the verdict uses the robust test."""
    rng = np.random.default_rng(13)
    features, means = problem(rng, 20, 3, 1.0)
    means = 0.02 + 0.18 * (means - means.min()) / np.ptp(means)
    counts = ranked(means if plays == "with" else -means, 100, 2000)
    plain, robust = np.sum(p_values(rng, features, means, counts, "clicks") <= 0.05, axis=0)
    assert LOW <= robust <= HIGH, robust
    assert plain > 200 if unsafe else plain < LOW


def test_power_for_a_latent_share_of_a_half():
    """20 arms, 3 features, 20 rewards each, standard deviation of the means half the noise:
    both tests find a latent half in more than 90% of 300 data sets."""
    rng = np.random.default_rng(14)
    pairs = []
    for _ in range(300):
        features, means = problem(rng, 20, 3, 0.5)
        pairs.append(p_values(rng, features, 0.5 * means, np.full(20, 20), sets=1)[0])
    assert np.all(np.mean(np.array(pairs) <= 0.05, axis=0) > 0.9)


@pytest.mark.parametrize(
    ("kind", "share"),
    [
        ("few", 0.3),
        *((kind, share) for kind in ("normal", "clicks") for share in (0.0, 0.5, 0.9, 1.0)),
    ],
)
def test_the_interval_covers(kind, share):
    """95% intervals cover in 90% to 99.5% of 200 data sets: shares of 0 and 1 are covered by
    97.5%, few rewards make the interval cautious, and chance adds two standard errors of 0.01."""
    rng = np.random.default_rng(15)
    covered = []
    for _ in range(200):
        if kind == "few":
            features, means = problem(rng, 10, 2, share)
            arms, rewards = draw(rng, 40 + means, rng.integers(2, 7, 10))
        elif kind == "normal":
            features, means = problem(rng, 25, 4, share)
            arms, rewards = draw(rng, 40 + 0.5 * means, ranked(means, 3, 100))
        else:  # the adverse case of the test above: 5% to 15%, most plays where clicks are rare
            features, means = problem(rng, 25, 4, share)
            rates = np.clip(0.1 + 0.025 * means, 0.001, 1.0)
            arms, rewards = draw(rng, rates, ranked(-means, 50, 1000), "clicks")
        out = diagnose(features, arms, rewards).share
        assert out.estimate is None or out.low <= out.estimate <= out.high
        covered.append(out.low - 1e-9 <= share <= out.high + 1e-9)
    assert 0.90 <= np.mean(covered) <= 0.995


def test_false_alarms_over_all_arms_stay_below_five_percent():
    """No arm deviates in 200 data sets; and one arm that does not, among arms that do, is
    named in less than 5%."""
    rng = np.random.default_rng(16)
    named = alone = 0
    for _ in range(200):
        features, means = problem(rng, 15, 2, 1.0)
        named += bool(diagnose(features, *draw(rng, means, np.full(15, 20))).deviating)
        features, means = problem(rng, 15, 2, 0.5)
        observed = np.column_stack([np.ones(15), features])
        others = np.arange(15) != 0
        latent = 0.7 * rng.standard_normal(15) * others
        means = observed @ np.array([0.0, 1.0, -1.0]) + latent
        diagnosis = diagnose(features, *draw(rng, means, np.full(15, 20)))
        alone += diagnosis.arms[0] in diagnosis.deviating
    assert named <= stats.binom.ppf(0.9985, 200, 0.05)
    assert alone <= stats.binom.ppf(0.9985, 200, 0.05)


# --- verdicts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "counts", "verdict", "least"),
    [
        (1.0, 100, TRUST, 0.9),
        (0.6, 100, ROLF, 0.95),
        (0.0, 100, IGNORE, 0.85),
        (0.6, 2, UNKNOWN, 0.9),
    ],
)
def test_verdicts_in_clear_cases(share, counts, verdict, least):
    """40 arms, 3 features, noise twice the standard deviation of the means, 40 data sets.

    Over 1200 data sets two rewards per arm gave no answer in 97.6%, with at least 37 in every 40.
    """
    rng = np.random.default_rng(17)
    said = []
    for _ in range(40):
        features, means = problem(rng, 40, 3, share)
        said.append(diagnose(features, *draw(rng, means, np.full(40, counts), noise=2.0)).verdict)
    assert said.count(verdict) >= least * 40


def test_one_reward_per_arm_is_not_enough():
    diagnosis = diagnose(np.eye(6)[:, :2], range(6), [1, 2, 3, 4, 5, 6])
    assert diagnosis.verdict == UNKNOWN
    assert "two rewards" in diagnosis.reason
    assert diagnosis.lack_of_fit is diagnosis.share is diagnosis.noise is None
    assert diagnosis.arms[0].mean == 1.0
    assert diagnosis.deviating == []


def test_as_many_features_as_arms_is_not_enough():
    diagnosis = diagnose(np.eye(4), [0, 0, 1, 1, 2, 2, 3, 3], [1, 2, 3, 4, 5, 6, 7, 8])
    assert diagnosis.verdict == UNKNOWN
    assert "4 played arms are fitted exactly" in diagnosis.reason
    assert diagnosis.noise == pytest.approx(0.5)


def test_rewards_that_never_differ_and_arms_that_do_not():
    assert "equal" in diagnose([[0], [1], [2]], [0, 0, 1, 1, 2, 2], [0.1] * 6).reason
    rng = np.random.default_rng(2)
    same = diagnose(rng.standard_normal((8, 2)), *draw(rng, np.zeros(8), np.full(8, 10)))
    assert same.verdict == UNKNOWN
    assert "do not differ" in same.reason


def test_arms_whose_rewards_never_vary_are_not_infinitely_sure():
    """Three clicks of three and none of three, at the same features: that happens by chance."""
    arms = [0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]
    clicks = [1, 1, 1, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0, 1]
    diagnosis = diagnose([[0, 0], [0, 0], [1, 0], [0, 1]], arms, clicks)
    assert 0.01 < diagnosis.lack_of_fit.robust_p_value < 0.5


def test_rewards_without_noise():
    arms = np.repeat(np.arange(5), 2)
    line = 40 + 0.1 * np.arange(5.0)
    exact = diagnose(np.arange(5.0)[:, None], arms, line[arms])
    assert exact.verdict == TRUST
    line[2] += 0.2
    bent = diagnose(np.arange(5.0)[:, None], arms, line[arms])
    assert bent.verdict == ROLF
    assert bent.lack_of_fit.p_value < 1e-6


def test_features_that_are_the_same_for_all_arms_explain_nothing():
    rng = np.random.default_rng(4)
    diagnosis = diagnose(np.ones((10, 2)), *draw(rng, rng.standard_normal(10), np.full(10, 50)))
    assert diagnosis.rank == 0
    assert diagnosis.share == Share(0.0, 0.0, 0.0)
    assert diagnosis.verdict == IGNORE


def test_the_odd_arm_is_named():
    rng = np.random.default_rng(6)
    features = pandas.DataFrame(rng.standard_normal((12, 2)), index=[f"ad {i}" for i in range(12)])
    means = features.to_numpy() @ [0.5, -0.3]
    means[7] += 2.0
    arms, rewards = draw(rng, means, np.full(12, 40), noise=0.5)
    diagnosis = diagnose(features, features.index[arms], rewards)
    assert diagnosis.deviating[0].arm == "ad 7"
    assert diagnosis.deviating[0].latent == pytest.approx(2.0, abs=0.6)
    assert 0.9 < diagnosis.arms[7].shrinkage < 1.0
    assert "ad 7" in str(diagnosis)


def test_arms_that_were_never_played():
    features = [[0, 0], [1, 0], [2, 0], [3, 0], [4, 0], [5, 1]]
    rng = np.random.default_rng(7)
    arms = np.repeat([0, 1, 2, 3], 10)
    diagnosis = diagnose(features, arms, arms + 0.1 * rng.standard_normal(40))
    assert diagnosis.played == 4
    assert diagnosis.arms[4].plays == 0
    assert diagnosis.arms[4].mean is None
    assert diagnosis.arms[4].fit == pytest.approx(4.0, abs=0.2)  # on the line of the others
    assert diagnosis.arms[5].fit is None  # in a direction that no played arm has


# --- results -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def diagnosis():
    rng = np.random.default_rng(8)
    features, means = problem(rng, 30, 4, 0.5)
    names = pandas.DataFrame(features, index=[f"item_{i}" for i in range(30)])
    arms, rewards = draw(rng, 40 + means, np.full(30, 30))
    return diagnose(names, names.index[arms], rewards)


def test_words_and_plain_data(diagnosis):
    text = str(diagnosis)
    assert text.startswith("verdict: use RoLF\n")
    assert diagnosis.reason in text
    assert "F(25, 870)" in text
    data = json.loads(json.dumps(diagnosis.to_dict(), allow_nan=False))
    assert data["share"]["low"] == diagnosis.share.low
    assert data["arms"][3]["arm"] == "item_3"
    assert data["deviating"] == [part.arm for part in diagnosis.deviating]
    assert diagnose(np.eye(3), [0], [1.0]).to_dict()["share"] is None


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_pictures(diagnosis, kind, tmp_path):
    figure = diagnosis.plot(tmp_path / "new" / f"picture.{kind}")
    assert (tmp_path / "new" / f"picture.{kind}").stat().st_size > 1000
    assert diagnosis.verdict in figure.get_suptitle()
    assert diagnosis.deviating[0].arm in [text.get_text() for text in figure.axes[0].texts]


def test_pictures_of_little(tmp_path):
    diagnose(np.eye(3), [0], [1.0]).plot(tmp_path / "one.png")
    diagnose(np.ones((4, 1)), [0, 0, 1, 1, 2, 2], [1.0] * 6).plot(tmp_path / "equal.png")
    with pytest.raises(rolf.RolfError, match="path"):
        diagnose(np.eye(3), [0], [1.0]).plot(tmp_path / "one.xyz")
