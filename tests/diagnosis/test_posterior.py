"""The posterior of the share: by direct algebra, under any rule of choice, in any units."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

import rolf
from diagnosis.test_diagnose import draw, problem, ranked
from diagnosis.test_lack_of_fit import moments_of
from rolf.diagnosis import posterior as share
from rolf.diagnosis.diagnose import IGNORE, ROLF, TRUST, UNKNOWN
from rolf.diagnosis.lack_of_fit import design, noise_of
from support.diagnosing import diagnose

# --- against direct algebra ----------------------------------------------------------------------


def small(kind):
    rng = np.random.default_rng(3)
    features, means = problem(rng, 7, 2, 0.5)
    counts = np.array([4, 30, 0, 12, 1, 60, 9])
    if kind == "clicks":
        return features, *draw(rng, 1 / (1 + np.exp(1 - means)), counts, "clicks")
    return features, *draw(rng, 40 + means, counts, noise=0.7)


@pytest.mark.parametrize("g", [103, 255, 300])
def test_draws_of_a_component_are_those_of_the_joint_normal(g):
    """(c, m, u) of real rewards, from the normal equations of all of them together."""
    features, arms, rewards = small("normal")
    moments, played = moments_of(arms, rewards, 7), np.unique(arms)
    noises = noise_of(design(features[played]), moments)
    noises[1] *= 3.0  # one arm has other noise
    belief = share.real_belief(features, played, moments, noises)
    rows, sizes = share.standard_rows(features)
    noise = moments.counts.sum() / np.sum(moments.counts / noises)
    both = np.hstack([rows[played], np.eye(7)[played]])
    weights = np.diag(noise / noises * moments.counts)
    totals = np.unique(belief.latent[belief.shares == 0.0])
    total = totals[g // share.SHARES.size]
    observed = max(total * belief.shares[g], share.NOTHING * totals[0])
    latent = max(total * (1 - belief.shares[g]), share.NOTHING * totals[0])
    assert belief.latent[g] == pytest.approx(latent)
    precision = both.T @ weights @ both
    precision += np.diag([0.0, *(1 / (observed * sizes[1:])), *np.full(7, 1 / latent)])
    cov = np.linalg.inv(precision)
    mean = cov @ both.T @ weights @ (moments.means - belief.centre)
    level, moved, hidden = share._draw(belief, g, 200_000, np.random.default_rng(1))
    lines = np.hstack([rows, np.zeros((7, 7))]), np.hstack([np.zeros((7, 3)), np.eye(7)])
    for drawn, line in ((level + moved, lines[0]), (hidden, lines[1])):
        spread = np.sqrt(belief.noises[g] * np.diag(line @ cov @ line.T))
        assert np.abs(drawn.mean(axis=0) - line @ mean) == pytest.approx(0.0, abs=0.01)
        heavy = belief.degrees / (belief.degrees - 2.0)  # Student t
        assert drawn.std(axis=0) == pytest.approx(spread * np.sqrt(heavy), rel=0.02, abs=1e-3)
    joint = np.cov(np.hstack([level + moved, hidden]).T)
    both = np.vstack(lines)
    expected = heavy * belief.noises[g] * both @ cov @ both.T
    assert joint == pytest.approx(expected, abs=0.02 * expected.max())


def test_draws_of_clicks_are_those_at_the_mode():
    """Mode and curvature of the log posterior of (c, m, u), by a general optimiser."""
    features, arms, rewards = small("clicks")
    counts, sums = np.bincount(arms, minlength=7) * 1.0, np.bincount(arms, rewards, 7)
    belief = share.click_belief(features, counts, sums)
    rows, sizes = share.standard_rows(features)
    g = int(np.flatnonzero((belief.shares == 0.5) & (belief.latent > 0.2))[0])
    latent = observed = belief.latent[g]
    both = np.hstack([rows, np.eye(7)])
    prior = np.array([1 / 10.0, *(1 / (observed * sizes[1:])), *np.full(7, 1 / latent)])

    def height(x):
        r = both @ x
        return np.sum(counts * np.logaddexp(0.0, r) - sums * r) + 0.5 * np.sum(prior * x**2)

    mode = optimize.minimize(height, np.zeros(10), tol=1e-12).x
    rates = 1 / (1 + np.exp(-both @ mode))
    cov = np.linalg.inv(both.T @ np.diag(counts * rates * (1 - rates)) @ both + np.diag(prior))
    level, moved, hidden = share._draw(belief, g, 200_000, np.random.default_rng(1))
    lines = np.hstack([rows, np.zeros((7, 7))]), np.hstack([np.zeros((7, 3)), np.eye(7)])
    for drawn, line in ((level + moved, lines[0]), (hidden, lines[1])):
        assert drawn.mean(axis=0) == pytest.approx(line @ mode, abs=0.01)
        assert drawn.std(axis=0) == pytest.approx(np.sqrt(np.diag(line @ cov @ line.T)), rel=0.02)


def test_the_ends_are_exactly_nothing_and_everything():
    features, arms, rewards = small("clicks")
    counts, sums = np.bincount(arms, minlength=7) * 1.0, np.bincount(arms, rewards, 7)
    belief = share.click_belief(features, counts, sums)
    rng = np.random.default_rng(0)
    _, moved, _ = share._draw(belief, int(np.flatnonzero(belief.shares == 0.0)[-1]), 5, rng)
    _, _, hidden = share._draw(belief, int(np.flatnonzero(belief.shares == 1.0)[-1]), 5, rng)
    assert not moved.any()
    assert not hidden.any()
    split = share.split_of(belief)
    assert split.shares.size == share.DRAWS
    assert (split.shares.min(), split.shares.max()) == (0.0, 1.0)
    assert (split.above + split.below < 1.0).all()  # at the end, there is no latent part


# --- whatever chose the arms ---------------------------------------------------------------------


def policy_log(player, means, rounds, seed, noise=None):
    """Arms and rewards of a policy; clicks unless the noise is given."""
    rng = np.random.default_rng(seed)
    arms, rewards = np.empty(rounds, dtype=int), np.empty(rounds)
    for round in range(rounds):
        decision = player.ask()
        mean = means[decision.arm]
        rewards[round] = rng.random() < mean if noise is None else mean + noise * rng.normal()
        arms[round] = decision.arm
        player.tell(decision, rewards[round])
    return arms, rewards


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.02, 0.1])
@pytest.mark.parametrize("kind", ["real", "binary"])
def test_features_that_explain_nothing_are_never_trusted(rate, kind):
    """RoLF-Bayes drops arms after bad luck, so that the means of what it saw little of are low
    whatever their features are: residuals of such logs look as if features told all. (Of 90%
    intervals, one in ten may miss.)"""
    missed = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        features, latent = problem(rng, 60, 5, 0.0)
        means = 1 / (1 + np.exp(-np.log(rate / (1 - rate)) - 0.7 * latent))
        player = rolf.RoLFBayes(features, rewards=kind, seed=seed)
        diagnosis = diagnose(features, *policy_log(player, means, 3000, seed), level=0.9)
        assert diagnosis.verdict != TRUST
        missed += diagnosis.share.low >= 0.05
    assert missed <= 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["clicks", "normal"])
@pytest.mark.parametrize("truth", [0.0, 0.5, 0.9, 1.0])
def test_the_interval_covers_on_logs_of_a_bandit(kind, truth):
    """90% intervals cover in more than 80% of 40 logs of a rule that plays the best mean so far, or
    any arm in a fifth of the rounds; and at most two
    confident verdicts are wrong."""
    covered, said = [], []
    for seed in range(40):
        rng = np.random.default_rng([seed, 7])
        features, parts = problem(rng, 25, 3, truth)
        means = 1 / (1 + np.exp(1.5 - 0.7 * parts)) if kind == "clicks" else 0.5 * parts
        counts, sums = np.ones(25), rng.random(25)
        arms, rewards = [], []
        for _ in range(1500):
            arm = int(np.argmax(sums / counts) if rng.random() < 0.8 else rng.integers(25))
            reward = rng.random() < means[arm] if kind == "clicks" else means[arm] + rng.normal()
            counts[arm] += 1
            sums[arm] += reward
            arms.append(arm)
            rewards.append(float(reward))
        out = diagnose(features, arms, rewards, level=0.9)
        covered.append(out.share.low - 1e-9 <= truth <= out.share.high + 1e-9)
        said.append(out.verdict)
    assert np.mean(covered) >= 0.8
    assert truth >= 0.8 or said.count(TRUST) <= 2
    assert truth <= 0.2 or said.count(IGNORE) <= 2


def test_noise_that_differs_between_arms_is_no_latent_part():
    """Arms with much noise and few rewards lie far from the line; taken for equal noise, they
    would prove a latent part."""
    covered = 0
    for seed in range(20):
        rng = np.random.default_rng([seed, 8])
        features, means = problem(rng, 25, 3, 1.0)
        counts = ranked(means, 20, 400)
        arms = np.repeat(np.arange(25), counts)
        scales = np.where(counts < 100, 4.0, 0.5)
        rewards = means[arms] + scales[arms] * rng.standard_normal(arms.size)
        diagnosis = diagnose(features, arms, rewards)
        covered += diagnosis.share.high == 1.0
        assert diagnosis.verdict in (TRUST, UNKNOWN)
    assert covered >= 18


# --- in any units --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["clicks", "normal"])
def test_units_order_and_repeated_columns_change_nothing(kind):
    """Up to the error of the draws."""
    rng = np.random.default_rng(1)
    features, means = problem(rng, 25, 3, 0.5)
    means = 1 / (1 + np.exp(2 - means)) if kind == "clicks" else means
    arms, rewards = draw(rng, means, np.full(25, 60), kind)
    first = diagnose(features, arms, rewards)
    wide = np.column_stack([features, features[:, 0] + 2 * features[:, 1], np.ones(25)])
    order = rng.permutation(25)
    shift, scale = (0.0, 1.0) if kind == "clicks" else (40.0, 1e4)
    where = np.argsort(order)[arms]
    again = diagnose((1e3 + 1e-3 * wide)[order], where, shift + scale * rewards)
    assert again.rank == first.rank == 3
    assert again.verdict == first.verdict
    for end in ("low", "estimate", "high"):
        assert getattr(again.share, end) == pytest.approx(getattr(first.share, end), abs=0.1)
    place = int(np.flatnonzero(order == 2)[0])
    one, other = first.arms[2], again.arms[place]
    assert other.mean == pytest.approx(shift + scale * one.mean)
    assert other.fit == pytest.approx(shift + scale * one.fit, abs=0.1 * scale)
    assert other.latent == pytest.approx(scale * one.latent, abs=0.1 * scale)
    assert diagnose(features, arms, rewards) == first  # the draws are always the same


def test_shift_and_scale_of_rewards_alone_change_only_the_units():
    """The same draws, but for one or two."""
    rng = np.random.default_rng(2)
    features, means = problem(rng, 15, 3, 0.5)
    arms, rewards = draw(rng, means, np.full(15, 8))
    first, again = (diagnose(features, arms, each) for each in (rewards, 40 + 100 * rewards))
    assert again.share.low == pytest.approx(first.share.low, abs=1e-3)
    assert again.explained == pytest.approx(1e4 * first.explained, rel=1e-3)
    assert again.arms[2].latent == pytest.approx(100 * first.arms[2].latent, rel=1e-2)
    assert again.arms[2].fit == pytest.approx(40 + 100 * first.arms[2].fit, rel=1e-2)


def test_clicks_are_known_by_their_values():
    """0 and 1, also as booleans; anything else is a real number."""
    rng = np.random.default_rng(4)
    features, means = problem(rng, 10, 2, 0.5)
    arms, clicks = draw(rng, 0.3 + 0.1 * means, np.full(10, 50), "clicks")
    assert diagnose(features, arms, clicks).scale == "log-odds"
    assert diagnose(features, arms, clicks.astype(bool)).scale == "log-odds"
    real = diagnose(features, arms, 2 * clicks)
    assert real.scale == "rewards"
    # many rewards per arm, rates that are not extreme: both models say much the same
    assert real.share.estimate == pytest.approx(
        diagnose(features, arms, clicks).share.estimate, abs=0.2
    )


def test_arms_without_rewards_and_more_features_than_arms():
    rng = np.random.default_rng(5)
    features = rng.standard_normal((12, 30))
    for rewards in (rng.standard_normal(60), rng.random(60) < 0.3):
        diagnosis = diagnose(features, np.repeat([0, 3, 4], 20), rewards)
        assert diagnosis.verdict == UNKNOWN
        assert (diagnosis.share.low, diagnosis.share.high) == (0.0, 1.0)
        assert diagnosis.arms[1].latent_stderr > 0.0
        assert diagnosis.arms[1].probability < 0.9


@pytest.mark.parametrize(("truth", "verdict"), [(0.0, IGNORE), (0.5, ROLF), (1.0, TRUST)])
def test_verdicts_on_clear_clicks(truth, verdict):
    said = []
    for seed in range(10):
        rng = np.random.default_rng([seed, 9])
        features, parts = problem(rng, 50, 2, truth)
        means = 1 / (1 + np.exp(2 - parts))
        said.append(diagnose(features, *draw(rng, means, np.full(50, 500), "clicks")).verdict)
    assert said.count(verdict) >= 8
