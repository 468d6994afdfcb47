"""Policies with many arms: the same decisions as the plain computation, in memory that is linear in
the number of arms."""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtri

import rolf
from rolf.estimators.lasso.basis import Basis, augmented_features
from rolf.linalg import TIE
from rolf.policies import rolf_lasso
from rolf.policies.core.posterior_rules import HOPE, STEADY
from rolf.policies.state.arrays import copy_of
from rolf.policies.state.saving import check_state
from support.helpers import make, play

# --- RoLF-Bayes, component by component and arm by arm ------------------------------------------


def plain_posterior(policy):
    """Mean and variance of every arm and the noise variance, from the totals alone: a posterior per
    component and arm, averaged over the components. None while no scale is known."""
    model, belief = policy.params.model, policy.state.belief
    counts, sums, squares = belief.counts, belief.sums, belief.squares
    seen = counts > 0.0
    averages = np.where(seen, sums / np.maximum(counts, 1.0), 0.0)
    within = np.maximum(squares - counts * averages**2, 0.0).sum()
    total = counts.sum()
    level = averages[seen].mean()
    flat = np.abs(averages[seen] - level).max() <= 1e-12 and within <= 1e-12
    if model.noise == 0.0 and flat:
        return None
    rows, latent = model.rows, model.latent[:, None]
    prior = model.observed[:, None] * model.sizes[1:]
    free = 1.0 / (1.0 + latent * counts)  # (G, K)
    precision = (rows.T * (free * counts)[:, None, :]) @ rows
    inside = np.arange(1, rows.shape[1])
    precision[:, inside, inside] += 1.0 / prior
    cov = np.linalg.inv(precision)
    coef = np.einsum("gij,gj->gi", cov, (free * counts * (averages - level)) @ rows)
    centres = coef @ rows.T
    gaps = np.where(seen, averages - level - centres, 0.0)
    errors = within + (free * counts * gaps**2).sum(axis=1) + (coef[:, 1:] ** 2 / prior).sum(axis=1)
    logdets = np.linalg.slogdet(precision)[1] + np.log(prior).sum(axis=1) - np.log(free).sum(axis=1)
    spread = np.einsum("gki,ki->gk", rows @ cov, rows)
    means, variances = level + centres + (1.0 - free) * gaps, free * (latent + free * spread)
    if model.noise > 0.0:
        misfit, noises = 0.5 * errors / model.noise, np.full(errors.size, model.noise)
    else:
        misfit, noises = 0.5 * (total - 1.0) * np.log(errors), errors / max(total - 3.0, 0.5)
    logs = model.prior - 0.5 * logdets - misfit
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = weights @ means
    variance = weights @ ((means - mean) ** 2 + noises[:, None] * variances)
    return mean, variance, float(weights @ noises)


def plain_bounds(policy, width, horizon):
    """Mean and upper bound of every arm in the next round."""
    plain = plain_posterior(policy)
    if plain is None:
        return None
    mean, variance, noise = plain
    round = policy.rounds + 1
    widest = math.sqrt(width**2 + 2.0 * math.log1p(round / STEADY))
    if horizon and round <= horizon:
        widest = min(widest, -float(ndtri(min(0.5, HOPE / (horizon - round + 1.0)))))
    ratio = variance / noise
    ratio = ratio / (1.0 + policy.state.pending * ratio)
    deviations = widest * (0.55 + 0.45 * ratio / (ratio + 0.1))
    return mean, mean + deviations * np.sqrt(noise * ratio)


def problem(kind, arms, size, seed):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((arms, size))
    if kind == "twins":
        features[arms // 2 :] = features[: arms - arms // 2]
    elif kind == "whole numbers":
        features = rng.integers(0, 3, (arms, size)).astype(float)
    means = 5.0 + 0.5 * features @ rng.standard_normal(size) + 0.5 * rng.standard_normal(arms)
    return features, means, rng


def best_of(values, available):
    """The arms that tie for best."""
    best = values[available].max()
    slack = max(TIE * abs(best), 1e-10)  # two computations of the same number
    return set(available[values[available] >= best - slack].tolist())


KINDS = ["plain", "twins", "whole numbers", "some", "late", "equal"]
CASES = [(kind, {}) for kind in KINDS]
CASES += [(kind, each) for kind in ("plain", "late") for each in ({"noise": 0.4}, {"horizon": 200})]


@pytest.mark.parametrize(("kind", "options"), CASES, ids=str)
@pytest.mark.parametrize(("arms", "size", "rounds"), [(6, 2, 120), (40, 5, 200), (600, 8, 50)])
def test_rolf_bayes_decides_as_the_plain_computation(kind, arms, size, rounds, options):
    features, means, rng = problem(kind, arms, size, seed=arms + rounds)
    policy = rolf.RoLFBayes(features, seed=1, **options)
    waiting, checked, explored = [], 0, 0
    for turn in range(rounds):
        available = np.arange(arms)
        if kind == "some":
            available = np.sort(rng.choice(arms, arms // 2, replace=False))
        rewarded = policy.state.belief.counts.any()
        plain = plain_bounds(policy, 2.75, options.get("horizon")) if rewarded else None
        decision = policy.ask(available=available.tolist())
        if plain is not None:
            mean, upper = plain
            ties = best_of(upper, available)
            assert decision.arm in ties, turn
            assert decision.probability == pytest.approx(1.0 / len(ties))
            assert decision.greedy in best_of(mean, available), turn
            checked += 1
            explored += decision.arm not in best_of(mean, available)
        waiting.append(decision)
        if kind != "late" or len(waiting) > 6:
            told = waiting.pop(0)
            noise = 0.0 if kind == "equal" and turn < 12 else 0.4 * rng.standard_normal()
            mean = 5.0 if kind == "equal" and turn < 12 else means[told.arm]
            policy.tell(told, mean + noise)
    assert checked > 0.6 * rounds
    assert explored > 2 or kind == "equal"
    mean, _, _ = plain_posterior(policy)
    anchor = policy.state.belief.anchor[0]
    # components that were left out, at a weight of 1e-13, may have come back in the meantime
    assert np.allclose(policy.estimates(), mean + anchor, rtol=1e-6)


def test_rolf_bayes_goes_on_alike_after_saving():
    """Which arms have been played, and in which order, is found again in the totals."""
    features, means, rng = problem("plain", 300, 6, seed=2)
    policy = rolf.RoLFBayes(features, seed=1)
    for _ in range(50):
        decision = policy.ask()
        policy.tell(decision, means[decision.arm] + 0.4 * rng.standard_normal())
    again = rolf.Policy.from_dict(policy.to_dict())
    assert np.allclose(again.estimates(), policy.estimates(), rtol=1e-12)
    assert np.allclose(again.intervals(), policy.intervals(), rtol=1e-9)
    for _ in range(50):
        decision, other = policy.ask(), again.ask()
        assert decision.arm == other.arm
        reward = means[decision.arm] + 0.4 * rng.standard_normal()
        policy.tell(decision, reward)
        again.tell(other, reward)


def test_rolf_bayes_decides_alike_after_arms_come_and_go():
    """An experiment whose arms change decides as one that learned the same of the same arms."""
    features, means, rng = problem("plain", 60, 4, seed=5)
    experiment = rolf.open_experiment("memory://many", "arms", features=features[:40])
    totals = {}
    for turn in range(90):
        if turn == 30:
            experiment.add_arms(features[40:])
        if turn == 60:
            experiment.retire_arms([0, 3, 50])
        decision = experiment.ask()
        reward = means[decision.arm] + 0.4 * rng.standard_normal()
        experiment.tell(decision, reward)
        totals.setdefault(decision.arm, []).append(reward)
    fresh = rolf.RoLFBayes(features, seed=0)
    for arm, rewards in totals.items():
        fresh.learn([arm] * len(rewards), rewards)
    assert np.allclose(experiment.estimates(), fresh.estimates(), rtol=1e-8)


# --- the others ----------------------------------------------------------------------------------


def with_operator(monkeypatch, *args, **options):
    """RoLF-Lasso as it is for many arms."""
    with monkeypatch.context() as patch:
        patch.setattr(
            rolf_lasso, "augmented_features", lambda augmented: augmented_features(augmented, 1)
        )
        policy = rolf.RoLFLasso(*args, **options)
    lassos = getattr(policy.params.model, "lassos", policy.params.model)
    assert isinstance(lassos.features, Basis)
    return policy


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"penalty": "theory"}, {"imputation": "frozen"}, {"unmatched": "impute"}],
    ids=str,
)
@pytest.mark.parametrize("kind", ["plain", "twins"])
def test_rolf_lasso_is_the_same_with_an_operator(monkeypatch, kind, options):
    """The same breakpoints and, up to rounding, the same estimates as with K x K matrices."""
    features, means, rng = problem(kind, 40, 5, seed=3)
    means -= 5.0
    plain = rolf.RoLFLasso(features, seed=1, exploration=30, **options)
    policy = with_operator(monkeypatch, features, seed=1, exploration=30, **options)
    for _ in range(200):
        decision, other = plain.ask(), policy.ask()
        assert decision.arm == other.arm
        reward = means[decision.arm] + 0.1 * rng.standard_normal()
        plain.tell(decision, reward)
        policy.tell(other, reward)
        assert np.allclose(plain.estimates(), policy.estimates(), rtol=1e-9, atol=1e-11)
    one, two = (getattr(p.state.belief, "lassos", p.state.belief) for p in (plain, policy))
    assert one.imputation.steps.tolist() == two.imputation.steps.tolist()
    assert one.imputation.steps[0] > (0 if "penalty" in options else 20)
    before = policy.estimates()
    policy.recompute()  # from nothing
    assert np.allclose(policy.estimates(), before, rtol=1e-7, atol=1e-9)
    check_state(policy)
    inverse = two.imputation.inverse
    for array, value in ((inverse.taken, 10**6), (inverse.seats, 7), (inverse.members, -1)):
        first = array[0]
        array[0] = value
        with pytest.raises(ValueError, match=r"seats|members"):
            check_state(policy)
        array[0] = first
    check_state(policy)


@pytest.mark.slow
def test_a_lasso_that_lost_its_way_finds_it_with_an_operator(monkeypatch):
    """The path from nothing, and coordinate descent, where the inverse is wrong."""
    features, means, rng = problem("plain", 30, 4, seed=4)
    policy = with_operator(monkeypatch, features, seed=1, exploration=400)
    plain = rolf.RoLFLasso(features, seed=1, exploration=400)
    for turn in range(300):
        decision, other = plain.ask(), policy.ask()
        reward = means[decision.arm] - 5.0 + 0.1 * rng.standard_normal()
        if turn in (100, 200):
            policy.state.belief.imputation.inverse.triangle[:] = 0.0
        plain.tell(decision, reward)
        policy.tell(other, reward)
    assert policy.state.belief.imputation.steps[1] >= 2.0
    assert np.allclose(plain.estimates(), policy.estimates(), rtol=1e-8, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arms", "most"),
    [("rolf-lasso", 10_000, 450), ("rolf-bayes", 100_000, 600), ("rolf-ridge", 300_000, 700)],
)
def test_memory_is_linear_in_the_number_of_arms(name, arms, most):
    """MiB of a process that plays and learns; three K x K matrices of 10,000 arms have 2300."""
    code = f"""
import numpy as np, rolf
rng = np.random.default_rng(0)
policy = rolf.policy_class({name!r})(rng.standard_normal(({arms}, 20)), seed=0)
for _ in range(30):
    policy.tell(policy.ask(), rng.standard_normal())
policy.learn(list(range(20)), rng.standard_normal(20))
policy.estimates()
for line in open("/proc/self/status"):  # ru_maxrss starts with what the parent had
    if line.startswith("VmHWM"):
        print(int(line.split()[1]) / 1024)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < most


def test_lints_remembers_what_a_draw_depends_on():
    """Decisions whose probability is read late cost no copy of all arms."""
    policy = make("lints")
    play(policy, 20)
    expected = policy.probabilities(draws=1000)
    decision = policy.ask()
    play(policy, 200)
    share = (1000 * expected[decision.arm] + 1.0) / 1001.0
    assert decision.probability == pytest.approx(share, abs=1e-9)
    assert policy.traits.drawn == ("root", "coef")


def test_copies_of_large_arrays_touch_no_memory_of_zeros():
    array = np.zeros((40, 2**17))
    array[3, 5], array[20, 7], array[39, -1] = -0.0, math.nan, 3.0
    copy = copy_of(array)
    assert copy is not array
    assert copy.tobytes() == array.tobytes()


def solved(matrix, right):
    """The solution of linear equations in fractions, exact; the matrix is positive definite."""
    size = len(matrix)
    rows = [[*row, *more] for row, more in zip(matrix, right, strict=True)]
    for column in range(size):
        rows[column] = [each / rows[column][column] for each in rows[column]]
        for other in set(range(size)) - {column}:
            factor = rows[other][column]
            pairs = zip(rows[other], rows[column], strict=True)
            rows[other] = [each - factor * less for each, less in pairs]
    return np.array([row[size:] for row in rows])


@pytest.mark.parametrize(
    ("largest", "error"), [(1e2, 1e-11), (1e4, 5e-8), (1e6, 2e-4), (1e30, math.inf)]
)
def test_rolf_ridge_with_arms_of_very_different_sizes(largest, error):
    """The estimates are the posterior mean of its prior, here in exact arithmetic."""
    rng = np.random.default_rng(6)
    sizes = np.repeat([1.0, math.sqrt(largest), largest], 4)
    features = rng.standard_normal((12, 3)) * sizes[:, None]
    policy = rolf.RoLFRidge(features, seed=1, exploration=200)
    exact = np.array([[Fraction(each) for each in row] for row in features.tolist()])
    projection = exact @ solved(exact.T @ exact, exact.T)
    prior = (exact @ exact.T + np.eye(12, dtype=int) - projection) / Fraction(0.6)
    for _ in range(14):
        policy.tell(policy.ask(), rng.standard_normal())
        belief = policy.state.belief
        played = np.flatnonzero(belief.counts)
        counts = [Fraction(each) for each in belief.counts[played].tolist()]
        sums = [Fraction(each) for each in belief.sums[played].tolist()]
        noise = np.diag([1 / count for count in counts])
        averages = [[total / count] for total, count in zip(sums, counts, strict=True)]
        weights = solved(prior[np.ix_(played, played)] + noise, averages)
        expected = (prior[:, played] @ weights)[:, 0].astype(float)
        found = policy.estimates()
        assert np.isfinite(found).all()
        assert np.abs(found - expected).max() <= error * np.abs(expected).max()
