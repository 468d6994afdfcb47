"""The rules of a verdict at their borders, and what a diagnosis says, lists and draws."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from scipy import stats

from rolf.diagnosis import IGNORE, ROLF, TRUST, UNKNOWN, ArmPart, Diagnosis, Share, diagnose
from rolf.diagnosis.shares import LackOfFit
from rolf.diagnosis.verdict import verdict_of

SURE, UNSURE = 0.001, 0.4


@pytest.mark.parametrize(
    ("p_value", "low", "high", "verdict", "words"),
    [
        (SURE, 0.3, 0.7, ROLF, r"\(lack of fit: p = 0.001\); the features explain 50%"),
        (0.05, 0.3, 0.7, ROLF, "lack of fit: p = 0.05"),
        (0.051, 0.3, 0.7, UNKNOWN, "too wide to decide"),
        (SURE, 0.95, 0.99, ROLF, "Something"),
        (SURE, 0.0, 0.49, IGNORE, "not provably anything"),
        (SURE, 0.0, 0.5, ROLF, "Whether they help at all is open"),
        (SURE, 0.01, 0.49, ROLF, r"1% to 49%\)\.$"),  # they do help
        (UNSURE, 0.9, 1.0, TRUST, "nothing else shows"),
        (UNSURE, 0.89, 1.0, UNKNOWN, "too wide to decide"),
        (UNSURE, 0.0, 0.3, UNKNOWN, "too wide to decide"),
    ],
)
def test_the_rules_at_their_borders(p_value, low, high, verdict, words):
    """The robust p-value decides; the other one says the opposite here."""
    test = LackOfFit(1.0, 5, 50, 1.0 - p_value, p_value)
    said, reason = verdict_of(test, SURE, Share(0.5, low, high), 0.95)
    assert said == verdict
    assert re.search(words, reason)


def test_arms_that_do_not_differ_are_the_reason():
    test = LackOfFit(1.0, 5, 50, UNSURE, UNSURE)
    assert "do not differ" in verdict_of(test, 0.06, Share(0.5, 0.0, 1.0), 0.95)[1]
    assert "too wide" in verdict_of(test, 0.04, Share(0.5, 0.0, 1.0), 0.95)[1]
    assert "do not differ" in verdict_of(test, 0.04, Share(0.5, 0.0, 1.0), 0.99)[1]


def test_the_test_of_equal_means_ignores_the_features():
    """Means on a line: the features leave no lack of fit, yet the arms differ."""
    rng = np.random.default_rng(0)
    arms = np.repeat(np.arange(6), 20)
    diagnosis = diagnose(np.arange(6.0)[:, None], arms, arms + rng.standard_normal(120))
    assert diagnosis.lack_of_fit.robust_p_value > 0.05
    assert diagnosis.differ_p_value < 1e-6


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


def part(arm, deviation=1.0, stderr=1.0, p_value=0.01):
    return ArmPart(arm, 10, 2.0, 0.5, 1.0, deviation, stderr, p_value, 0.75, 0.25, 0.9)


def test_deviating_arms_are_those_of_the_level_and_the_surest_come_first():
    parts = [part("a", 3.0, 1.0), part("b", -8.0, 2.0), part("c", 9.0, 9.0, 0.04), part("d")]
    parts.append(part("e", 99.0, 1.0, None))
    names = [[part.arm for part in diagnosis_of(parts, level).deviating] for level in (0.95, 0.98)]
    assert names == [["b", "a", "c", "d"], ["b", "a", "d"]]


def test_at_most_ten_deviating_arms_are_listed():
    ten = str(diagnosis_of([part(f"arm-{i}") for i in range(10)])).splitlines()
    assert ten[-11:-9] == [
        "arm    plays  mean  fit  latent  stderr     p",
        "arm-0     10     2    1    0.75    0.25  0.01",
    ]
    assert ten[-12] == "arms that deviate from the features:"
    eleven = str(diagnosis_of([part(f"arm-{i}") for i in range(11)])).splitlines()
    assert eleven[-12] == "arms that deviate from the features (the surest 10 of 11):"
    assert "arm-9" in eleven[-1]


def test_intervals_are_rounded_outwards_and_variances_shown_as_deviations():
    numbers = {"explained": 4.0, "latent": 9.0, "noise": 0.25}
    text = str(diagnosis_of([part("a")], share=Share(0.308, 0.107, 0.601), **numbers))
    assert "share that the features explain: 31% (95% interval: 10% to 61%)" in text
    assert "standard deviations: features 2, latent 3, noise of a reward 0.5" in text


def test_names_that_json_does_not_know_become_text():
    data = json.loads(json.dumps(diagnosis_of([part(("x", 1)), part(7)]).to_dict()))
    assert [arm["arm"] for arm in data["arms"]] == ["('x', 1)", 7]
    assert data["deviating"] == ["('x', 1)", 7]


def test_error_bars_are_intervals_of_the_level():
    figure = diagnosis_of([part("a"), part("b", p_value=0.9)], level=0.9).plot()
    for container in figure.axes[0].containers:
        ((low, high),) = [segment[:, 1] for segment in container[2][0].get_segments()]
        assert (high - low) / 2 == pytest.approx(stats.norm.ppf(0.95) * 0.5)
        assert (high + low) / 2 == pytest.approx(2.0)
