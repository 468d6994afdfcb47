"""ucb1, kl-ucb and beta-ts against their formulas, recomputed from the history by plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats

import rolf
from rolf.errors import InvalidArgument

pytestmark = pytest.mark.compiled

ARMS = 5
FEATURES = np.zeros((ARMS, 1))
RATES = np.array([0.05, 0.3, 0.5, 0.02, 0.9])


def rounds(policy, number, reward, seed=2):
    """Play, giving (round, decision, rewards of every arm before it)."""
    rng = np.random.default_rng(seed)
    seen = [[] for _ in range(ARMS)]
    for t in range(1, number + 1):
        decision = policy.ask()
        yield t, decision, seen
        value = reward(decision.arm, rng)
        policy.tell(decision, value)
        seen[decision.arm].append(value)


def click(arm, rng):
    return float(rng.random() < RATES[arm])


def gaussian(arm, rng):
    return 10.0 * RATES[arm] + 2.0 * rng.standard_normal()


def check(policy, number, reward, index):
    """Each decision has the largest index; arms without rewards come first."""
    for t, decision, seen in rounds(policy, number, reward):
        unseen = [arm for arm in range(ARMS) if not seen[arm]]
        if unseen:
            assert decision.arm in unseen
            assert decision.probability == pytest.approx(1 / len(unseen))
            continue
        scores = [index(np.mean(each), len(each), t) for each in seen]
        assert scores[decision.arm] == pytest.approx(max(scores), abs=1e-9)
        means = [np.mean(each) for each in seen]
        assert np.allclose(policy.estimates(), means)
        assert means[decision.greedy] == pytest.approx(max(means))
    assert len(seen[int(RATES.argmax())]) > number / 3  # it learns


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_ucb1(scale):
    def index(mean, count, t):
        return mean + scale * math.sqrt(2.0 * math.log(t) / count)

    check(rolf.UCB1(FEATURES, scale=scale, seed=0), 400, click, index)


@pytest.mark.parametrize("c", [0.0, 3.0])
def test_kl_ucb_for_clicks(c):
    def index(mean, count, t):
        room = (math.log(t) + c * math.log(math.log(t))) / count

        def divergence(q):
            first = mean * math.log(mean / q) if mean > 0 else 0.0
            second = (1 - mean) * math.log((1 - mean) / (1 - q)) if mean < 1 else 0.0
            return first + second - room

        if mean == 1.0:
            return 1.0
        top = 1 - 1e-15
        return optimize.brentq(divergence, max(mean, 1e-15), top, xtol=1e-14)

    policy = rolf.KLUCB(FEATURES, c=c, seed=0)
    # a scalar root finder beside a bisection: equal to 1e-9, so near-ties may go either way
    for t, decision, seen in rounds(policy, 300, click):
        if all(seen) and t > 5:
            scores = [index(np.mean(each), len(each), t) for each in seen]
            assert scores[decision.arm] == pytest.approx(max(scores), abs=1e-8)
    assert len(seen[4]) > 100


def test_kl_ucb_for_gaussian_rewards():
    def index(mean, count, t):
        return mean + 2.0 * math.sqrt(2.0 * math.log(t) / count)

    policy = rolf.KLUCB(FEATURES, rewards="real", noise=2.0, seed=0)
    check(policy, 300, gaussian, index)


def test_kl_ucb_at_the_ends_by_hand():
    policy = rolf.KLUCB(np.zeros((2, 1)), seed=0)
    policy.learn([0] * 10 + [1] * 10, [0.0] * 10 + [1.0] * 10)
    now_round, room = 21, math.log(21) / 10
    # all zeros: kl(0, q) = -log(1 - q); all ones: the bound is 1
    from rolf.policies.rivals.divergence import largest_rate

    assert largest_rate(0.0, room) == pytest.approx(1 - math.exp(-room))
    assert largest_rate(1.0, room) == 1.0
    assert policy.rounds + 1 == now_round
    assert policy.ask().arm == 1


def test_beta_ts_draws_from_its_posterior():
    policy = rolf.BetaTS(FEATURES, prior=0.5, seed=0)
    for _ in rounds(policy, 25, click):
        pass
    counts, sums = policy.state.belief.counts, policy.state.belief.sums
    rng = np.random.default_rng(3)
    drawn = [
        stats.beta(0.5 + s, 0.5 + n - s).rvs(20_000, random_state=rng)
        for n, s in zip(counts, sums, strict=True)
    ]
    expected = np.bincount(np.argmax(drawn, axis=0), minlength=ARMS) / 20_000
    asked = np.bincount([policy.ask().arm for _ in range(5000)], minlength=ARMS) / 5000
    # five standard deviations of the difference of two shares: once in 250,000 tests
    spread = np.sqrt(expected * (1 - expected) * (1 / 5000 + 1 / 20_000)) + 1e-3
    assert (np.abs(asked - expected) < 5 * spread).all()
    assert (np.abs(policy.probabilities(draws=20_000) - expected) < 5 * spread).all()
    assert expected.max() < 0.99  # or this would show nothing


def test_beta_ts_counts_shares_of_a_click():
    policy = rolf.BetaTS(np.zeros((2, 1)), seed=0)
    policy.learn([0, 0, 1], [0.25, 0.5, 1.0])
    assert policy.state.belief.sums.tolist() == [0.75, 1.0]
    assert policy.estimates().tolist() == [0.375, 1.0]


@pytest.mark.parametrize("cls", [rolf.BetaTS, rolf.KLUCB])
def test_rewards_beyond_zero_and_one_are_refused(cls):
    policy = cls(FEATURES, seed=0)
    decision = policy.ask()
    for reward in (-0.1, 1.1, 2):
        with pytest.raises(InvalidArgument, match="from 0 to 1"):
            policy.tell(decision, reward)
    with pytest.raises(InvalidArgument, match="from 0 to 1"):
        policy.learn([0], [3.0])
    policy.tell(decision, 1)
    rolf.KLUCB(FEATURES, rewards="real", seed=0).learn([0], [3.0])


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (rolf.UCB1, {"scale": -1}),
        (rolf.KLUCB, {"rewards": "counts"}),
        (rolf.KLUCB, {"noise": 0}),
        (rolf.KLUCB, {"c": -1}),
        (rolf.BetaTS, {"prior": 0}),
    ],
)
def test_bad_options_are_named(cls, options):
    with pytest.raises(InvalidArgument, match=next(iter(options))):
        cls(FEATURES, **options)
