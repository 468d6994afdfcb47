"""Off-policy evaluation, one formula at a time, against independent computations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import rolf
from evaluation.test_replay import EVEN, FEATURES, logged, quiet
from rolf.evaluation.offpolicy import (
    Scorer,
    VaryingTotals,
    check_overlap,
    exact_share,
    expected_variances,
    varying_model,
)
from rolf.evaluation.replay import replay
from rolf.evaluation.sums import Overlap, Spread, Weights, sums_of
from rolf.logs.log import Log
from rolf.logs.rounds import Contexts

# --- reward models and doubly robust values ------------------------------------------------------


def ridge(contexts, played, rewards):
    """Ridge on [x, e_a] with penalty 1, solved as it stands: a function from rounds to means."""
    arms = len(contexts.fixed)
    rows = np.vstack([contexts.table(i)[arm] for i, arm in enumerate(played)])
    columns = np.hstack([rows, np.eye(arms)[played]])
    size, centre = rows.shape[1], rewards.mean()
    system = columns.T @ columns + np.eye(columns.shape[1])
    solved = np.linalg.solve(system, columns.T @ (rewards - centre))
    return lambda i: contexts.table(i) @ solved[:size] + solved[size:] + centre


def varying_log(size, seed=0):
    """Arms that differ by more than their features, and rewards far from zero."""
    rng = np.random.default_rng(seed)
    contexts = Contexts(rng.standard_normal((3, 2)), rng.standard_normal((size, 3, 1)))
    chances = rng.dirichlet([4.0, 4.0, 4.0], size)
    arms = np.array([rng.choice(3, p=row) for row in chances])
    rounds = np.arange(size)
    rewards = 5.0 + np.array([2.0, 0.0, -3.0])[arms] + contexts.moving[rounds, arms, 0]
    rewards += 0.5 * rng.standard_normal(size)
    columns = {f"x_{arm}_size": contexts.moving[:, arm, 0] for arm in range(3)}
    return contexts, Log(arms, chances[rounds, arms], rewards, columns), arms


def test_the_varying_reward_model_is_a_ridge_with_a_bias_per_arm():
    contexts, log, played = varying_log(40)
    predict = ridge(contexts, played[:30], log.rewards[:30])
    at = np.array([5, 31, 39])
    learned = Contexts(contexts.fixed, contexts.moving[:30])
    totals = VaryingTotals.of(learned, played[:30], log.rewards[:30], 2.0)
    model = varying_model(totals, 2.0).means(Contexts(contexts.fixed, contexts.moving[at]))
    assert model == pytest.approx(np.vstack([predict(i) for i in at]))
    biases = model - contexts.moving[at, :, 0]
    assert np.ptp(biases.mean(axis=0)) > 3.0  # features alone would not tell the arms apart


def test_doubly_robust_values_of_varying_features_from_scratch():
    """Chances from a policy taught by hand; the model fitted before each of five blocks."""
    contexts, log, played = varying_log(24)
    policy = rolf.RoLFVarying(np.ones((3, 3)), exploration=0)
    policy.learn(
        played[:12],
        log.rewards[:12],
        features=contexts.rows(np.arange(12), played[:12]),
        probabilities=log.probabilities[:12],
    )
    values = {"ips": [], "dr": []}
    weights = []
    for block in np.array_split(np.arange(12, 24), 5):
        predict = ridge(contexts, played[: block[0]], log.rewards[: block[0]])
        for i in block:
            chances = policy.probabilities(features=contexts.table(i))
            weights.append(chances[played[i]] / log.probabilities[i])
            error = log.rewards[i] - predict(i)[played[i]]
            values["dr"].append(chances @ predict(i) + weights[-1] * error)
            values["ips"].append(weights[-1] * log.rewards[i])
    out = quiet(log, contexts.fixed, ["rolf-varying"], estimators=["ips", "dr"])
    for name, terms in values.items():
        assert out.find("rolf-varying", name).value == pytest.approx(np.mean(terms)), name
    effective = sum(weights) ** 2 / np.sum(np.square(weights))
    assert out.find("rolf-varying", "dr").effective == pytest.approx(effective)


def test_features_of_the_rounds():
    contexts = Contexts(np.array([[1.0], [2.0]]), np.array([[[3.0], [-3.0]], [[4.0], [1.0]]]))
    assert contexts.typical() == pytest.approx(
        np.array([[1.0, math.sqrt(12.5)], [2.0, math.sqrt(5.0)]])
    )
    theta = np.array([10.0, 1.0])
    assert contexts.predictions(np.array([1, 0]), theta).tolist() == [[14.0, 21.0], [13.0, 17.0]]


# --- intervals -----------------------------------------------------------------------------------


def scorer_of(rewards, level=0.95):
    return Scorer(level, Spread.of(rewards))


def ratio(scorer, rewards, *, weights=None, terms=None, scale=None, centre=0.7):
    """The sums of a ratio of terms, about any centre."""
    weights = np.ones(rewards.size) if weights is None else weights
    terms = rewards * weights if terms is None else terms
    x = terms - centre * (1.0 if scale is None else scale)
    return sums_of(centre, x, Weights.of(weights, rewards, scorer.common), scale)


def score(rewards, *, name="replay", level=0.95, **more):
    """The row of one policy, and what is said about it."""
    rewards = np.asarray(rewards, dtype=float)
    scorer = scorer_of(rewards, level)
    row = scorer("p", name, ratio(scorer, rewards, **more))
    return row, scorer.caveats()


def half_length(row):
    assert row.value - row.low == pytest.approx(row.high - row.value)
    return row.high - row.value


def test_the_interval_of_a_mean_is_students():
    rewards = np.random.default_rng(1).standard_normal(60)
    row, caveats = score(rewards, level=0.9)
    assert half_length(row) == pytest.approx(stats.t.ppf(0.95, 59) * stats.sem(rewards))
    assert caveats == []


def test_the_interval_of_a_ratio_is_linearised():
    rng = np.random.default_rng(2)
    rewards, weights = 3.0 + rng.standard_normal(400), rng.exponential(size=400)
    row, _ = score(rewards, name="snips", weights=weights, scale=weights)
    residuals = weights * (rewards - row.value)
    error = math.sqrt(np.sum(residuals**2) * 400 / 399) / weights.sum()
    effective = weights.sum() ** 2 / np.sum(weights**2)
    assert half_length(row) == pytest.approx(stats.t.ppf(0.975, effective - 1) * error)


@pytest.mark.parametrize("count", [0, 1, 4])
@pytest.mark.parametrize("common", [0.0, 1.0])
def test_few_rewards_unlike_the_others_have_an_exact_interval(count, common):
    """Clopper and Pearson's, whether the few lie above or below the common reward."""
    rewards = np.full(100, common)
    rewards[:count] = 1.0 - common
    scorer = scorer_of(np.r_[rewards, 0.0, 1.0])
    row = scorer("p", "replay", ratio(scorer, rewards))
    exact = stats.binomtest(int(rewards.sum()), 100).proportion_ci(0.95, "exact")
    assert (row.low, row.high) == (pytest.approx(exact.low), pytest.approx(exact.high))
    assert scorer.caveats() == [
        f"p: replay rests on too few rewards other than {common:g}: an effective {count}."
    ]


def test_five_rewards_unlike_the_others_are_enough():
    rewards = np.zeros(100)
    rewards[:5] = 1.0
    row, caveats = score(rewards)
    assert half_length(row) == pytest.approx(stats.t.ppf(0.975, 99) * stats.sem(rewards))
    assert caveats == []


def test_rare_rewards_count_by_their_weights():
    """One click among 93 decisions. Weighted by 8 it is 8% of an effective 64, more than five;
    weighted by 4 it is 4.2% of an effective 85, fewer than five."""
    rewards, weights = np.zeros(93), np.ones(93)
    rewards[0], weights[0] = 1.0, 8.0
    assert score(rewards, name="snips", weights=weights, scale=weights)[1] == []
    weights[0] = 4.0
    row, caveats = score(rewards, name="snips", weights=weights, scale=weights)
    effective = 96**2 / (92 + 16)
    low, high = exact_share(4 / 96 * effective, effective, np.array([0.025, 0.975]))
    assert (row.low, row.high) == (pytest.approx(low), pytest.approx(high))
    assert caveats == ["p: snips rests on too few rewards other than 0: an effective 3.6."]


@pytest.mark.parametrize("name", ["ips", "dr"])
def test_values_that_vary_with_more_than_the_share_keep_the_wider_interval(name):
    """Terms that vary widely although only two rewards do: the normal interval is the wider."""
    rewards = np.zeros(100)
    rewards[:2] = 1.0
    terms = np.random.default_rng(3).standard_normal(100)
    row, _ = score(rewards, name=name, terms=terms)
    assert half_length(row) == pytest.approx(stats.t.ppf(0.975, 99) * stats.sem(terms))
    narrow, _ = score(rewards, name="snips", terms=terms)
    assert narrow.high < row.high
    calm, _ = score(rewards, name=name)  # its upper end is the exact one, which is higher
    exact = stats.binomtest(2, 100).proportion_ci(0.95, "exact")
    assert calm.high == pytest.approx(exact.high)
    assert calm.low == pytest.approx(0.02 - stats.t.ppf(0.975, 99) * stats.sem(rewards))


def test_exact_intervals_are_for_rare_rewards_only():
    """Where most rewards differ from the most common one, or none does, nothing is rare."""
    rewards = np.r_[0.0, 0.0, np.arange(1.0, 5.0)]  # four of six
    row, _ = score(rewards)
    assert half_length(row) == pytest.approx(stats.t.ppf(0.975, 5) * stats.sem(rewards))
    assert score(np.ones(100))[1] == []


def test_fewer_than_fifty_effective_decisions_are_a_caveat():
    rewards = np.random.default_rng(4).standard_normal(50)
    assert score(rewards)[1] == []
    assert score(rewards[1:])[1] == [
        "p: replay rests on an effective 49 decisions: do not trust the interval."
    ]
    assert score(rewards[1:], name="mean")[1] == []  # of the log itself: it is what it is
    assert score(np.zeros(100), name="mean")[1] == []
    scorer = scorer_of(np.r_[np.zeros(99), 1.0])
    scorer("as logged", "mean", ratio(scorer, np.zeros(100)))
    assert scorer.caveats() == []


# --- overlap -------------------------------------------------------------------------------------


def test_overlap_is_refused_for_the_reason_that_holds():
    weights = np.r_[np.full(50, 0.2), np.full(50, 0.3)]
    for certain, expected in ((51, "probability 1 for 51%"), (50, "weights of 0.25 on average")):
        with pytest.raises(rolf.RolfError, match=expected):
            check_overlap("p", Overlap.of(weights, certain))


def test_rounded_probabilities_are_no_reason_to_refuse():
    """One third as 0.333333: all weights are the same, and 3e-7 from 1."""
    check_overlap("p", Overlap.of(np.full(100, (1 / 3) / 0.3333332)))
    with pytest.raises(rolf.RolfError, match=r"weights of 1\.01 on average"):
        check_overlap("p", Overlap.of(np.full(100, 1.01)))


def test_the_variance_that_weights_would_have():
    """Of the weights of all arms, each with its chance, by hand."""
    rule, chances = np.array([0.7, 0.2, 0.1]), np.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]])
    played = np.array([0, 2])  # where the other two have the same chance
    weights = rule / chances
    expected = [chances[i] @ weights[i] ** 2 - (chances[i] @ weights[i]) ** 2 for i in (0, 1)]
    logged_chances = chances[[0, 1], played]
    own = weights[[0, 1], played]
    assert expected_variances(rule, played, logged_chances, own) == pytest.approx(expected)
    rules = np.array([rule, rule])
    assert expected_variances(rules, played, logged_chances, own) == pytest.approx(expected)
    certain, own = np.array([1.0, 0.0, 0.0]), np.array([1.0, 0.0])
    assert expected_variances(certain, played, np.ones(2), own).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("seldom", [0, 1])
def test_large_weights_that_did_not_come_up_are_no_reason_to_refuse(seldom):
    """In 40 of 1000 rounds the arm had the chance 0.01 and, as is likely, was never played."""
    arms, chances = np.zeros(1000, dtype=int), np.full(1000, 0.99)
    arms[480:500], arms[700:740] = 1, seldom
    rewards = np.random.default_rng(0).normal(1.0 - 0.9 * arms, 0.1)
    log = Log(arms, chances, rewards)
    row = quiet(log, np.eye(2), {"p": ("ucb", {"scale": 0.0})}, estimators="dr").find("p", "dr")
    assert row.low < 1.0 < row.high


def test_clipping_comes_after_the_check_of_overlap():
    log = logged(0)
    out = quiet(log, FEATURES, {"even": EVEN}, estimators=["ips"], clip=0.5)
    assert out.find("even", "ips").value == pytest.approx(0.5 * log.rewards[400:].mean())


# --- what policies are asked and told -------------------------------------------------------------


def test_refused_decisions_leave_no_trace_and_rules_learn_the_chances():
    policies, lessons = [], []

    class Spy(rolf.RoLFVarying):
        def __init__(self, features, **options):
            super().__init__(features, **options)
            policies.append(self)

        def learn(self, arms, rewards, **options):
            lessons.append(options)
            super().learn(arms, rewards, **options)

    contexts, log, played = varying_log(60)
    out = quiet(log, contexts.fixed, {"p": Spy}, estimators=["replay", "ips"])
    (lesson,) = lessons
    assert lesson["probabilities"].tolist() == log.probabilities[:30].tolist()
    assert lesson["features"][7].tolist() == contexts.table(7)[played[7]].tolist()
    accepted = out.find("p", "replay").effective
    assert 0 < accepted < 60
    _, learner = policies
    assert (learner.rounds, learner.pending) == (accepted, [])
    for policy in policies:  # whose features say in what units those of the rounds come
        assert policy.arms.features == pytest.approx(contexts.typical())


def test_every_label_has_draws_of_its_own():
    """The same policy under two labels takes two paths, whichever others are evaluated."""
    log = logged(0)
    both = quiet(log, FEATURES, {"a": "lints", "b": "lints"}, estimators="replay")
    alone = quiet(log, FEATURES, {"b": "lints"}, estimators="replay")
    assert both.find("a", "replay").value != both.find("b", "replay").value
    assert both.find("b", "replay") == alone.find("b", "replay")


def test_policies_of_others_are_refused():
    class InTurn:
        def __init__(self, features, seed=None):
            pass

        def ask(self):
            pass

        def tell(self, decision, reward):
            pass

    with pytest.raises(rolf.RolfError, match="a policy of rolf"):
        replay(logged(0), FEATURES, {"p": InTurn})


@pytest.mark.parametrize(("split", "cut"), [(0.3, 0), (0.34, 1), (0.67, 2)])
def test_a_log_needs_one_decision_to_learn_from_and_two_after_it(split, cut):
    log = Log([0, 1, 0], [0.5] * 3, [1.0, 2.0, 3.0])
    options = {"estimators": "replay", "split": split}
    if cut == 1:
        assert quiet(log, np.eye(2), ["ucb"], **options)[0].value == 2.5
    else:
        with pytest.raises(rolf.RolfError, match=f"3 decisions, split after {cut}"):
            replay(log, np.eye(2), ["ucb"], **options)
