"""RoLF's draw: distribution of action, pseudo-action and match, the cap, the forced phase.

Frequencies are compared with exact probabilities by a chi-squared test at a level of one
in 100,000 per test, with fixed seeds.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import rolf
from rolf.estimators.means import ArmMeans, ArmMeansBelief
from rolf.policies.core.coupling import Coupling, couple, is_forced, round_probabilities, trials
from rolf.policies.core.rules import Situation, decide, forced_rounds, probabilities

pytestmark = pytest.mark.compiled

FALSE_ALARM = 1e-5


def settings(p=0.6, delta=1e-4, greedy=False, forced=0.0, factor=0.0, size=5.0, appendix=False):
    return Coupling(p, delta, greedy, forced, factor, size, appendix)


def situation(clock, estimates, available):
    """What the rule sees: these estimates of the arms, whatever they rest on."""
    zeros = np.zeros(len(estimates))
    belief = ArmMeansBelief(zeros, zeros, np.array(estimates, dtype=float))
    features = zeros.reshape(-1, 1)
    return Situation(ArmMeans(len(estimates)), belief, zeros, clock, features, available)


def joint(drawn, round, arms, centre):
    """Exact distribution of (action, pseudo-action), by enumeration of one trial."""
    leave = round**-0.5
    action = np.full(arms, leave / (arms - 1))
    action[centre] = 1 - leave
    one = np.zeros((arms, arms))
    for a in range(arms):
        around = centre if drawn.greedy else a
        pseudo = np.full(arms, (1 - drawn.probability) / (arms - 1))
        pseudo[around] = drawn.probability
        one[a] = action[a] * pseudo
    same = np.eye(arms, dtype=bool)
    miss = one[~same].sum()
    most = trials(drawn, round)
    out = np.where(same, one * sum(miss**k for k in range(most)), one * miss ** (most - 1))
    assert out.sum() == pytest.approx(1.0)
    return out


def agrees(counts, probabilities):
    """Chi-squared test; cells that cannot happen must be empty."""
    counts, expected = np.ravel(counts), np.ravel(probabilities) * np.sum(counts)
    assert (counts[expected == 0] == 0).all()
    counts, expected = counts[expected > 0], expected[expected > 0]
    small = expected < 5
    if small.any():
        counts = np.append(counts[~small], counts[small].sum())
        expected = np.append(expected[~small], expected[small].sum())
    if counts.size < 2:
        return True
    return stats.chisquare(counts, expected).pvalue > FALSE_ALARM


@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize("round", [1, 2, 10, 400])
@pytest.mark.parametrize("p", [0.51, 0.6, 0.95])
@pytest.mark.parametrize("appendix", [False, True])
def test_action_pseudo_action_and_match_follow_the_paper(greedy, round, p, appendix):
    # a large delta keeps unmatched rounds common
    drawn = settings(p=p, delta=0.9, greedy=greedy, appendix=appendix)
    rng = np.random.default_rng([round, int(p * 100), greedy])
    counts = np.zeros((5, 5))
    for _ in range(20_000):
        arm, pseudo = couple(drawn, round, 2, np.arange(5), rng)
        counts[arm, pseudo] += 1
    exact = joint(drawn, round, 5, 2)
    assert agrees(counts, exact)
    near, far = round_probabilities(drawn, round, 5)
    marginal = exact.sum(axis=1)
    assert near == pytest.approx(marginal[2])
    assert far == pytest.approx(marginal[0])
    if not greedy:  # a match favours no arm: the action keeps its own distribution
        assert near == pytest.approx(1 - round**-0.5)


def test_in_the_first_round_the_greedy_arm_has_probability_zero():
    rng = np.random.default_rng(0)
    arms = [couple(settings(), 1, 3, np.arange(5), rng)[0] for _ in range(2000)]
    assert 3 not in arms
    assert set(arms) == {0, 1, 2, 4}


@pytest.mark.parametrize("p", [0.51, 0.6, 0.9, 0.99])
@pytest.mark.parametrize("delta", [1e-4, 0.1, 0.99])
def test_the_cap_bounds_the_chance_of_no_match(p, delta):
    drawn = settings(p=p, delta=delta)
    for round in [*range(1, 50), 1000, 10**6]:
        rho = math.log((round + 1) ** 2 / delta) / math.log(1 / (1 - p))
        most = trials(drawn, round)
        assert most == math.floor(rho) + 1  # "while count <= rho", counted from 0
        assert (1 - p) ** most <= delta / (round + 1) ** 2


@pytest.mark.parametrize("name", ["rolf-lasso", "rolf-ridge", "rolf-varying"])
@pytest.mark.parametrize("p", [0.51, 0.6, 0.9, 0.99])
def test_the_cap_of_the_appendix(name, p):
    features = np.random.default_rng(0).standard_normal((4, 2))
    text, appendix = (
        rolf.policy_class(name)(features, p=p, delta=0.01, cap=cap).params.rule
        for cap in ("text", "appendix")
    )
    for round in (1, 2, 50, 1000, 10**6):
        rho = math.log((round + 1) ** 2 / 0.01) / math.log(1 / p)
        assert trials(appendix, round) == math.floor(rho) + 1
        assert trials(appendix, round) >= trials(text, round)  # for p is above 1/2


def test_unmatched_rounds_are_as_rare_as_they_should_be():
    drawn = settings(p=0.6, delta=0.5)
    rng = np.random.default_rng(1)
    number = 40_000
    misses = sum(a != b for a, b in (couple(drawn, 2, 0, np.arange(4), rng) for _ in range(number)))
    exact = 0.4 ** trials(drawn, 2)
    assert stats.binomtest(misses, number, exact).pvalue > FALSE_ALARM
    assert exact <= 0.5 / 9


def test_only_available_arms_are_drawn():
    rng = np.random.default_rng(2)
    available = np.array([1, 3, 4])
    counts = np.zeros((5, 5))
    for _ in range(9000):
        arm, pseudo = couple(settings(delta=0.9), 4, 3, available, rng)
        counts[arm, pseudo] += 1
    small = counts[np.ix_(available, available)]
    assert small.sum() == counts.sum()
    assert agrees(small, joint(settings(delta=0.9), 4, 3, 1))
    assert couple(settings(), 1, 4, np.array([4]), rng) == (4, 4)


@pytest.mark.parametrize("name", ["rolf-lasso", "rolf-ridge", "rolf-varying"])
def test_theory_exploration_follows_the_bound_exactly(name):
    features = np.random.default_rng(0).standard_normal((3, 2))
    policy = rolf.policy_class(name)(features, exploration="theory", p=0.6, delta=0.01)
    augmented = rolf.Augmentation(features)
    constant, size = {
        "rolf-lasso": ((8 * 3) ** 3 * (augmented.sigma_max / augmented.sigma_min) ** 2, 3),
        "rolf-ridge": (32 * 3**2, 3),
        "rolf-varying": (32 * 5**2, 5),
    }[name]
    drawn = policy.params.rule
    factor = constant / 0.4**2
    assert drawn.factor == pytest.approx(factor)
    for round in (1, 7, 1000, 10**7):
        bound = factor * math.log(2 * size * round**2 / 0.01)
        assert is_forced(drawn, round, math.floor(bound))
        assert not is_forced(drawn, round, math.floor(bound) + 1)


def test_theory_exploration_round_by_round():
    # A factor small enough to see the phase end and, as the bound grows, come back.
    drawn = settings(delta=0.5, factor=0.9, size=4.0)
    clock = np.zeros(2, dtype=np.int64)
    rng = np.random.default_rng(0)
    explored = 0
    resumed = False
    for round in range(1, 3000):
        forced = explored <= 0.9 * math.log(2 * 4 * round**2 / 0.5)
        decide(drawn, situation(clock, np.zeros(4), np.arange(4)), rng)
        resumed |= forced and round > explored + 1
        explored += forced
        assert clock[1] == explored
        assert clock[0] == round
    assert explored < 30
    assert resumed


@pytest.mark.parametrize("number", [0, 1, 7, 7.5])
def test_numeric_exploration(number):
    policy = rolf.RoLFRidge(np.eye(4), exploration=number, seed=0)
    policy.ask_many(30)
    assert policy.state.clock[1] == math.ceil(number)


def test_forced_rounds_are_uniform():
    drawn = settings(forced=1e9)
    rng = np.random.default_rng(3)
    clock = np.zeros(2, dtype=np.int64)
    counts = np.zeros(5)
    for _ in range(10_000):
        now = situation(clock, [9.0, 0, 0, 0, 0], np.arange(5))
        choice = decide(drawn, now, rng)
        counts[choice.arm] += 1
        assert choice.probability == pytest.approx(0.2)
    assert agrees(counts, np.full(5, 0.2))


@pytest.mark.parametrize("greedy", [False, True])
def test_probabilities_are_what_happens_ties_included(greedy):
    drawn = settings(delta=0.9, greedy=greedy)
    estimates = np.array([0.5, 1.0, 1.0, 0.0])
    available = np.array([0, 1, 2])
    rng = np.random.default_rng([4, greedy])
    counts = np.zeros(4)
    exact = np.zeros(4)
    exact[available] = probabilities(drawn, situation(np.array([6, 0]), estimates, available), 0)
    assert exact.sum() == pytest.approx(1.0)
    for _ in range(20_000):
        choice = decide(drawn, situation(np.array([6, 0]), estimates, available), rng)
        counts[choice.arm] += 1
        assert choice.probability == pytest.approx(exact[choice.arm])
        assert choice.greedy in (1, 2)
    assert agrees(counts, exact)


@pytest.mark.parametrize("coupling", ["action", "greedy"])
def test_departures_from_the_greedy_arm(coupling):
    # Around the action the chance is t^(-1/2), not t^(-1/2)/(K-1): about 54 in rounds 61 to
    # 1200. Around the greedy arm it is about 1.3.
    drawn = settings(greedy=coupling == "greedy")
    expected = sum((30 - 1) * round_probabilities(drawn, t, 30)[1] for t in range(61, 1201))
    assert expected == pytest.approx(53.7 if coupling == "action" else 1.3, rel=0.05)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("p", 0.5),
        ("p", 1.0),
        ("p", "half"),
        ("delta", 0.0),
        ("delta", 1.0),
        ("coupling", "both"),
        ("exploration", -1),
        ("exploration", math.nan),
        ("exploration", "long"),
        ("penalty", 0.0),
        ("penalty", "small"),
    ],
)
@pytest.mark.parametrize("policy", ["rolf-lasso", "rolf-ridge", "rolf-varying"])
def test_bad_settings_are_named(policy, name, value):
    with pytest.raises(rolf.RolfError) as caught:
        rolf.policy_class(policy)(np.eye(3), **{name: value})
    assert caught.value.argument == name


def test_exploration_is_twice_the_arms_by_default():
    rule = Coupling.checked(0.6, 0.1, "action", None, arms=4, constant=1.0, size=4)
    assert rule.forced == forced_rounds(rule, 10**6) == 8.0
