"""The rules of a verdict at their borders, and what a diagnosis says, lists and draws."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from scipy import stats

import rolf
from rolf.diagnosis.diagnose import IGNORE, ROLF, TRUST, UNKNOWN, verdict_of, wilson
from rolf.diagnosis.evidence import ProbabilityRange
from rolf.diagnosis.lack_of_fit import LackOfFit
from rolf.diagnosis.result import ArmDiagnosis, Diagnosis, Share
from support.diagnosing import diagnose


@pytest.mark.parametrize(
    ("chances", "verdict", "words"),
    [
        ({"some": 0.95, "not_all": 0.95}, ROLF, r"interval: 20% to 70%\); something"),
        ({"some": 0.95, "not_all": 0.94}, UNKNOWN, "too wide to decide"),
        ({"some": 0.94, "not_all": 0.95}, ROLF, "whether they help at all is open"),
        ({"some": 1.0, "not_all": 0.94, "most": 0.95}, TRUST, "no other effect is visible"),
        ({"some": 1.0, "not_all": 0.95, "most": 0.95}, ROLF, "moves the arms, too"),
        ({"some": 1.0, "not_all": 0.5, "most": 0.94}, UNKNOWN, "too wide to decide"),
        ({"some": 0.94, "not_all": 1.0, "little": 0.95}, IGNORE, "next to nothing"),
        ({"some": 0.95, "not_all": 1.0, "little": 0.95}, ROLF, "moves the arms, too"),
    ],
)
def test_the_rules_at_their_borders(chances, verdict, words):
    share = Share(0.5, 0.201, 0.699, **{"most": 0.0, "little": 0.0, **chances})
    said, reason = verdict_of(share, 0.95, 0.95)
    assert said == verdict
    assert re.search(words, reason)
    assert verdict_of(share, 1.0, 0.99)[0] in (UNKNOWN, verdict_of(share, 1.0, 0.96)[0])


def test_arms_that_do_not_differ_are_the_reason():
    share = Share(0.9, 0.85, 1.0, most=1.0, little=0.0, some=1.0, not_all=0.5)
    assert verdict_of(share, 0.95, 0.95)[0] == TRUST
    said, reason = verdict_of(share, 0.94, 0.95)
    assert said == UNKNOWN
    assert "do not differ" in reason


# --- tests only of random choice -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("arms", "chances", "random"),
    [
        ([0, 1, 1, 2], [0.2, 0.2, 0.2, 0.2], True),
        ([0, 1, 1, 2], [0.5, 0.3, 0.3, 0.2], True),
        ([0, 1, 1, 2], [0.5, 0.3, 0.2, 0.2], False),  # the chance of arm 1 changed
        ([0, 1, 1, 2], [1.0, 1.0, 1.0, 1.0], False),  # a policy that is sure of every choice
        ([0, 1, 1, 2], [0.5, 0.3, 0.3, 0.21], False),
    ],
)
def test_what_chances_say_about_how_arms_were_chosen(arms, chances, random):
    assert ProbabilityRange.of(np.array(arms), np.array(chances), 3).at_random is random
    rewards = [1.0, 2.5, 3.0, 4.0]
    diagnosis = diagnose([[0.0], [1.0], [2.0]], arms, rewards, probabilities=chances)
    assert diagnosis.randomised is random
    assert (diagnosis.lack_of_fit is not None) is random
    assert (diagnosis.differ_p_value is not None) is random
    assert ("chosen at random" in str(diagnosis)) is not random


@pytest.mark.parametrize("chances", [[0.0, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, 1.5], [0.5], "x"])
def test_wrong_chances(chances):
    with pytest.raises(rolf.RolfError, match=r"^probabilities: "):
        diagnose([[0.0], [1.0]], [0, 1, 1, 0], [1.0, 2.0, 3.0, 4.0], probabilities=chances)
    with pytest.raises(rolf.RolfError, match=r"^randomised: "):
        diagnose([[0.0], [1.0]], [0, 1, 1, 0], [1.0, 2.0, 3.0, 4.0], randomised=1)


def test_the_test_of_equal_means_ignores_the_features():
    """Means on a line: the features leave no lack of fit, yet the arms differ."""
    rng = np.random.default_rng(0)
    arms = np.repeat(np.arange(6), 20)
    rewards = arms + rng.standard_normal(120)
    diagnosis = diagnose(np.arange(6.0)[:, None], arms, rewards, randomised=True)
    assert diagnosis.lack_of_fit.robust_p_value > 0.05
    assert diagnosis.differ_p_value < 1e-6
    assert isinstance(diagnosis.lack_of_fit, LackOfFit)


def test_features_that_fit_exactly_leave_nothing_to_test():
    arms, rewards = [0, 0, 1, 1, 2, 2], [1.0, 1.5, 4.0, 4.2, 9.0, 8.0]
    diagnosis = diagnose([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], arms, rewards, randomised=True)
    assert diagnosis.lack_of_fit is diagnosis.differ_p_value is None


# --- means ---------------------------------------------------------------------------------------


def test_intervals_of_rates_stay_between_0_and_1():
    """Wilson's: where p is as far from the rate as chance allows, measured by p's own error."""
    for rate, plays in ((0.0, 5), (1.0, 5), (0.2, 10), (0.37, 1000)):
        low, high = wilson(rate, plays, 1.96)
        assert 0.0 <= low <= rate <= high <= 1.0
        for end in {low, high} - {0.0, 1.0, rate}:
            assert abs(rate - end) == pytest.approx(1.96 * math.sqrt(end * (1 - end) / plays))
    clicks = diagnose(np.eye(3), [0, 0, 0, 1, 1, 2, 2], [0, 0, 0, 1, 1, 1, 0], level=0.9)
    assert clicks.scale == "log-odds"
    assert clicks.arms[0].mean_low == 0.0
    assert clicks.arms[0].mean_high == pytest.approx(wilson(0.0, 3, stats.norm.ppf(0.95))[1])
    assert clicks.arms[1].mean_high == 1.0
    assert all(0.0 < part.fit < 1.0 for part in clicks.arms)


def test_standard_errors_of_the_means():
    """From the noise of each arm where it is known to differ, from the pooled one otherwise."""
    rng = np.random.default_rng(1)
    scales = np.array([1.0, 1.0, 1.0, 20.0, 1.0, 1.0])
    arms = np.repeat(np.arange(6), 400)
    rewards = scales[arms] * rng.standard_normal(2400)
    diagnosis = diagnose(rng.standard_normal((6, 1)), arms, rewards)
    assert diagnosis.arms[3].mean_stderr == pytest.approx(20 / math.sqrt(400), rel=0.1)
    assert diagnosis.arms[2].mean_stderr < 0.2
    exact = diagnose(np.eye(3), [0, 0, 0, 0, 1, 1, 2], [1.0, 3.0, 1.0, 3.0, 5.0, 7.0, 0.0])
    assert exact.verdict == UNKNOWN
    assert exact.noise == pytest.approx(6 / 4)
    errors = [part.mean_stderr for part in exact.arms]
    assert errors == pytest.approx([math.sqrt(1.5 / 4), math.sqrt(1.5 / 2), math.sqrt(1.5)])


# --- words, data, pictures -----------------------------------------------------------------------


def diagnosis_of(parts, level=0.95, **numbers):
    return Diagnosis(ROLF, "because", level, 100, len(parts), 2, parts, **numbers)


def part(arm, latent=0.75, stderr=0.25, chance=0.99):
    return ArmDiagnosis(arm, 10, 2.0, 0.5, 1.0, 3.0, 1.0, latent, stderr, 0.9, chance)


def test_deviating_arms_are_those_of_the_level_and_the_surest_come_first():
    parts = [
        part("a", 3.0, 1.0),
        part("b", -8.0, 2.0),
        part("c", 2.0, 1.0, 0.976),
        part("d", 2.5, 1),
    ]
    parts += [part("e", 99.0, 1.0, 0.97), part("f", 1.0, 1.0, None)]
    names = [[part.arm for part in diagnosis_of(parts, level).deviating] for level in (0.95, 0.98)]
    assert names == [["b", "a", "d", "c"], ["b", "a", "d"]]


def test_at_most_ten_deviating_arms_are_listed():
    ten = str(diagnosis_of([part(f"arm-{i}") for i in range(10)])).splitlines()
    assert ten[-11:-9] == [
        "arm    plays  mean  fit  latent  stderr  probability",
        "arm-0     10     2    1    0.75    0.25         0.99",
    ]
    assert ten[-12] == "arms that deviate from the features:"
    eleven = str(diagnosis_of([part(f"arm-{i}") for i in range(11)])).splitlines()
    assert eleven[-12] == "arms that deviate from the features (the surest 10 of 11):"
    assert "arm-9" in eleven[-1]


def test_intervals_are_rounded_outwards_and_variances_shown_as_deviations():
    numbers = {"explained": 4.0, "latent": 9.0, "noise": 0.25}
    share = Share(0.308, 0.107, 0.601, 0.0, 0.1, 0.9, 1.0)
    text = str(diagnosis_of([part("a")], share=share, **numbers))
    assert "share that the features explain: 31% (95% interval: 10% to 61%)" in text
    assert "standard deviations of the arms: features 2, latent 3; noise of a reward 0.5" in text
    clicks = str(diagnosis_of([part("a")], share=share, scale="log-odds", **numbers))
    assert "standard deviations of the log-odds of the arms: features 2, latent 3" in clicks


def test_names_that_json_does_not_know_become_text():
    data = json.loads(json.dumps(diagnosis_of([part(("x", 1)), part(7)]).to_dict()))
    assert [arm["arm"] for arm in data["arms"]] == ["('x', 1)", 7]
    assert data["deviating"] == ["('x', 1)", 7]


def test_error_bars_are_intervals_of_the_mean():
    figure = diagnosis_of([part("a"), part("b", chance=0.5)]).plot()
    for container in figure.axes[0].containers:
        ((low, high),) = [segment[:, 1] for segment in container[2][0].get_segments()]
        assert (low, high) == pytest.approx((1.0, 3.0))
