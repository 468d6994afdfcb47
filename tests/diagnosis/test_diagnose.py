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
from rolf.diagnosis import lack_of_fit as parts
from rolf.diagnosis.diagnose import IGNORE, ROLF, TRUST, UNKNOWN
from rolf.diagnosis.evidence import Evidence
from rolf.diagnosis.result import Share
from support.diagnosing import diagnose

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
    """Features, and means of two parts with variance 1, of which the features carry the share."""
    features = rng.standard_normal((arms, size))
    parts = [features @ rng.standard_normal(size), rng.standard_normal(arms)]
    observed, latent = [(part - part.mean()) / part.std(ddof=1) for part in parts]
    return features, np.sqrt(share) * observed + np.sqrt(1 - share) * latent


def p_values(rng, features, means, counts, kind="normal", sets=SETS):
    columns = parts.design(features)
    pairs = []
    for _ in range(sets):
        arms, rewards = draw(rng, means, counts, kind)
        moments = Evidence.of(arms, rewards, len(means), float(rewards.mean())).summary()
        test = parts.lack_of_fit(columns, moments)
        pairs.append((test.p_value, test.robust_p_value))
    return np.array(pairs)


# --- by hand -------------------------------------------------------------------------------------


def test_the_f_test_by_hand():
    """Two rewards per arm, means 1, 3, 2 at x = 0, 1, 2: the line is 1.5 + 0.5 x."""
    diagnosis = diagnose([[0], [1], [2]], [0, 0, 1, 1, 2, 2], [0, 2, 2, 4, 1, 3], randomised=True)
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
    test = diagnose(features, arms, rewards, randomised=True).lack_of_fit
    assert test.statistic == pytest.approx(expected)


def test_with_equal_counts_the_robust_test_has_the_same_ratio():
    """Brown and Forsythe's statistic is F where all variances are equal."""
    arms = np.repeat(np.arange(5), 4)
    rewards = np.tile([-1.0, 1.0, -1.0, 1.0], 5) + np.array([0.0, 1.0, 0.0, 2.0, 1.0])[arms]
    test = diagnose(np.arange(5.0)[:, None], arms, rewards, randomised=True).lack_of_fit
    leverage = 0.2 + np.array([4, 1, 0, 1, 4]) / 10
    df2 = 3 * 3**2 / np.sum((1 - leverage) ** 2)
    assert test.robust_p_value == pytest.approx(stats.f.sf(test.statistic, 3, df2))


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


@pytest.mark.slow
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


# --- verdicts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "counts", "verdict", "least"),
    [
        (1.0, 100, TRUST, 0.9),
        (0.6, 100, ROLF, 0.95),
        (0.0, 100, IGNORE, 0.7),
        (0.6, 2, UNKNOWN, 0.9),
    ],
)
def test_verdicts_in_clear_cases(share, counts, verdict, least):
    """40 arms, 3 features, noise twice the standard deviation of the means, 40 data sets.

    Where the features explain nothing, the rest of the verdicts is "use RoLF".
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
    features = [[0, 0], [0, 0], [1, 0], [0, 1]]
    diagnosis = diagnose(features, arms, clicks, randomised=True)
    assert 0.01 < diagnosis.lack_of_fit.robust_p_value < 0.5


def test_rewards_without_noise():
    arms = np.repeat(np.arange(5), 2)
    line = 40 + 0.1 * np.arange(5.0)
    exact = diagnose(np.arange(5.0)[:, None], arms, line[arms])
    assert exact.verdict == TRUST
    line[2] += 0.2
    bent = diagnose(np.arange(5.0)[:, None], arms, line[arms], randomised=True)
    assert bent.verdict == ROLF
    assert bent.lack_of_fit.p_value < 1e-6


def test_features_that_are_the_same_for_all_arms_explain_nothing():
    rng = np.random.default_rng(4)
    diagnosis = diagnose(np.ones((10, 2)), *draw(rng, rng.standard_normal(10), np.full(10, 50)))
    assert diagnosis.rank == 0
    assert diagnosis.share == Share(0.0, 0.0, 0.0, most=0.0, little=1.0, some=0.0, not_all=1.0)
    assert diagnosis.verdict == IGNORE


def test_the_odd_arm_is_named():
    rng = np.random.default_rng(6)
    features = pandas.DataFrame(rng.standard_normal((12, 2)), index=[f"ad {i}" for i in range(12)])
    means = features.to_numpy() @ [0.5, -0.3]
    means[7] += 2.0
    arms, rewards = draw(rng, means, np.full(12, 40), noise=0.5)
    diagnosis = diagnose(features, features.index[arms], rewards)
    assert diagnosis.deviating[0].arm == "ad 7"
    assert diagnosis.deviating[0].latent == pytest.approx(1.7, abs=0.6)  # some of 2 seems explained
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
    assert diagnosis.arms[5].latent == pytest.approx(0.0, abs=0.1)


# --- results -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def diagnosis():
    rng = np.random.default_rng(8)
    features, means = problem(rng, 30, 4, 0.5)
    names = pandas.DataFrame(features, index=[f"item_{i}" for i in range(30)])
    arms, rewards = draw(rng, 40 + means, np.full(30, 30))
    return diagnose(names, names.index[arms], rewards, randomised=True)


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


def test_a_log_is_pairs_or_columns_and_the_result_has_a_table(tmp_path):
    arms, rewards = [0, 0, 1, 1, 2, 2], [0.0, 2.0, 2.0, 4.0, 1.0, 3.0]
    features = [[0.0], [1.0], [2.0]]
    expected = diagnose(features, arms, rewards)
    found = rolf.diagnose(zip(arms, rewards, strict=True), features)
    assert found.to_dict() == expected.to_dict()
    assert isinstance(found, rolf.Diagnosis)
    assert [row["mean"] for row in found.table().to_dicts()] == [1.0, 3.0, 2.0]
    assert found.save(tmp_path / "d.csv").read_text().startswith("arm,plays,mean")
    assert found.save(tmp_path / "d.json").exists()
