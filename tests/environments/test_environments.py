"""Problems beyond the paper's panels."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import scipy.stats
from scipy import stats

import rolf
from rolf import environments
from rolf.environments.problem import look
from rolf.errors import InvalidArgument
from rolf.simulation.loop import play_policy

pytestmark = pytest.mark.compiled

PROBLEMS = {
    "paper": environments.paper(arms=6, size=8),
    "two": environments.two_arms(),
    "three": environments.three_arms(observed=2, latent=4),
    "varying": environments.varying(arms=5, observed=3),
    "both": environments.varying(arms=5, observed=3, latent="varying"),
    "one": environments.Problem([[1.0], [2.0]], [0.0, 1.0]),
    "synthetic": environments.synthetic(arms=5, observed=2, rewards="student"),
    "bernoulli": environments.synthetic(arms=5, observed=2, rewards="bernoulli"),
    "categories": environments.synthetic(arms=5, observed=2, features="categories"),
}


def test_lower_bound_instances_by_hand():
    two = environments.two_arms(noise=0.3)
    assert two.features.tolist() == [[1.0], [2.0]]
    assert two.means.tolist() == [-1.0, -0.75]
    assert two.noise == 0.3
    assert environments.two_arms(scale=2.0).means.tolist() == [-2.0, -1.5]
    for observed, latent in [(1, 2), (5, 2), (3, 10), (2, 1), (1, 5)]:
        three = environments.three_arms(observed=observed, latent=latent)
        assert three.features.shape == (3, observed)
        assert (three.features[0] == three.features[1]).all()
        assert np.allclose(three.means, [1 / 2, -5 / 6, 1 / 6])


@pytest.mark.parametrize("bad", [{"observed": 0}, {"latent": 0}, {"latent": 1.5}, {"scale": 0}])
def test_three_arms_needs_sensible_sizes(bad):
    with pytest.raises(InvalidArgument, match=next(iter(bad))):
        environments.three_arms(**bad)


@pytest.mark.parametrize(
    "bad",
    [
        {"arms": 1},
        {"observed": 0},
        {"latent": "both"},
        {"share": 0.0},
        {"share": 1.5},
        {"arms": "x"},
        {"observed": 2.5},
        {"noise": -1.0},
        {"scale": 0.0},
        {"scale": 0.5, "bounded": True, "observed": 17},
        {"bounded": "yes"},
        {"bounded": 1},
    ],
)
def test_varying_needs_sensible_arguments(bad):
    with pytest.raises(InvalidArgument, match=next(iter(bad))):
        environments.varying(**bad)


def drawn_rewards(problem, arm, number=20_000):
    rng = np.random.default_rng(0)
    return np.array([problem.reward(arm, rng) for _ in range(number)])


def test_gaussian_rewards_keep_their_stream():
    problem = environments.Problem([[1.0], [2.0]], [0.25, 1.0], 0.5)
    normals = np.random.default_rng(0).standard_normal(100)
    assert (drawn_rewards(problem, 0, 100) == 0.25 + 0.5 * normals).all()
    assert problem.describe()["rewards"] == "gaussian"


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ("gaussian", scipy.stats.norm(0.25, 0.5)),
        ("student", scipy.stats.t(3, 0.25, 0.5 / math.sqrt(3.0))),  # of standard deviation 0.5
    ],
)
def test_how_rewards_scatter(rewards, expected):
    problem = environments.Problem([[1.0], [2.0]], [0.25, 1.0], 0.5, rewards=rewards)
    assert expected.std() == pytest.approx(0.5)
    assert problem.noise == 0.5
    # false alarms: 1e-6 for the distribution, 6e-7 (five standard errors) for the mean
    seen = drawn_rewards(problem, 0)
    assert scipy.stats.kstest(seen, expected.cdf).pvalue > 1e-6
    assert abs(seen.mean() - 0.25) < 5 * 0.5 / math.sqrt(seen.size)


def test_bernoulli_rewards():
    problem = environments.Problem(np.eye(4), [0.0, 0.3, 0.5, 1.0], 77.0, rewards="bernoulli")
    assert problem.noise == pytest.approx(math.sqrt((0.21 + 0.25) / 4))
    assert problem.describe()["rewards"] == "bernoulli"
    assert set(drawn_rewards(problem, 0)) == {0.0}
    assert set(drawn_rewards(problem, 3)) == {1.0}
    for arm in (1, 2):
        seen, mean = drawn_rewards(problem, arm), problem.means[arm]
        assert set(seen) == {0.0, 1.0}
        # five standard errors: a false alarm in 6e-7
        assert abs(seen.mean() - mean) < 5 * math.sqrt(mean * (1 - mean) / seen.size)


@pytest.mark.parametrize("means", [[-0.01, 0.5], [0.5, 1.01]])
def test_bernoulli_means_are_probabilities(means):
    with pytest.raises(InvalidArgument, match="means"):
        environments.Problem([[1.0], [2.0]], means, rewards="bernoulli")


@pytest.mark.parametrize("rewards", ["poisson", None, 1, ["gaussian"]])
def test_rewards_are_named(rewards):
    with pytest.raises(InvalidArgument, match="rewards"):
        environments.Problem([[1.0], [2.0]], [0.5, 0.5], rewards=rewards)
    with pytest.raises(InvalidArgument, match="rewards"):
        environments.synthetic(rewards=rewards)


@pytest.mark.parametrize(
    "bad",
    [
        {"arms": 1},
        {"observed": 0},
        {"latent": "none"},
        {"share": -0.1},
        {"share": 1.1},
        {"noise": -1.0},
        {"spread": 0.0},
        {"scale": 0.0},
        {"shift": math.nan},
        {"shift": math.inf},
        {"rewards": "bernoulli", "shift": 1.0},
        {"rewards": "bernoulli", "scale": 2.0},
        {"features": "ordinal"},
        {"features": None},
        {"features": "categories", "observed": 1},
        {"features": "categories", "arms": 5, "observed": 6},
    ],
)
def test_synthetic_needs_sensible_arguments(bad):
    with pytest.raises(InvalidArgument, match=list(bad)[-1]):
        environments.synthetic(**bad)


def unexplained(problem):
    """The residual of the means after a linear fit on the features."""
    fitted = problem.features @ np.linalg.lstsq(problem.features, problem.means)[0]
    return problem.means - fitted


@pytest.mark.parametrize("latent", ["dense", "sparse"])
def test_the_share_of_the_features(latent):
    whole, none, half = (
        environments.synthetic(share=share, latent=latent, spread=0.7).draw(4)
        for share in (1.0, 0.0, 0.5)
    )
    assert whole.features.shape == (30, 8)
    assert np.abs(unexplained(whole)).max() < 1e-12
    assert (none.features == whole.features).all()  # the same draw with other weights
    assert np.allclose(half.means, math.sqrt(0.5) * (whole.means + none.means))
    for problem in (whole, none):
        assert problem.means.std() == pytest.approx(0.7)
    count = 30 if latent == "dense" else 6
    assert (none.means != 0.0).sum() == count


@pytest.mark.parametrize(("arms", "count"), [(2, 1), (4, 1), (5, 1), (10, 2), (30, 6), (34, 6)])
def test_a_fifth_of_the_arms_is_special(arms, count):
    for seed in range(20):
        family = environments.synthetic(arms=arms, observed=1, share=0.0, latent="sparse")
        sizes = np.abs(family.draw(seed).means)
        sizes = sizes[sizes > 0.0]
        assert sizes.size == count
        assert sizes.max() <= 2.0 * sizes.min()


def test_shift_and_scale_only_change_origin_and_unit():
    base = environments.synthetic(noise=0.3).draw(2)
    moved = environments.synthetic(noise=0.3, shift=40.0, scale=1000.0).draw(2)
    assert (moved.means == 40.0 + 1000.0 * base.means).all()
    assert moved.noise == 0.3 * 1000.0
    assert (moved.features == base.features).all()


@pytest.mark.parametrize("observed", [2, 7, 20])
def test_categories_are_dummy_columns_and_none_is_empty(observed):
    family = environments.synthetic(
        arms=20, observed=observed, share=1.0, spread=0.7, features="categories"
    )
    for seed in range(20):
        problem = family.draw(seed)
        assert problem.features.shape == (20, observed)
        assert set(problem.features.ravel()) == {0.0, 1.0}
        assert (problem.features.sum(axis=1) == 1.0).all()
        assert (problem.features.sum(axis=0) >= 1.0).all()
        assert np.abs(unexplained(problem)).max() < 1e-12
        assert problem.means.std() == pytest.approx(0.7)
        assert np.unique(problem.means.round(9)).size == observed


def test_synthetic_bernoulli_means():
    base = environments.synthetic(arms=200, spread=0.5).draw(3)
    coins = environments.synthetic(arms=200, noise=9.0, spread=7.0, rewards="bernoulli").draw(3)
    assert np.allclose(coins.means, np.clip(0.5 + 0.5 * base.means, 0.02, 0.98))
    assert {coins.means.min(), coins.means.max()} == {0.02, 0.98}
    assert coins.noise == pytest.approx(math.sqrt(np.mean(coins.means * (1.0 - coins.means))))
    description = environments.synthetic(rewards="bernoulli").describe()
    assert description["problem"] == "synthetic"
    assert json.loads(json.dumps(description)) == description


@pytest.mark.parametrize("rewards", ["gaussian", "student", "bernoulli"])
def test_compiled_equals_python_for_every_kind_of_rewards(rewards):
    family = environments.synthetic(arms=6, observed=2, rewards=rewards)
    options = {"rounds": 200, "runs": 3, "seed": 0}
    fast = rolf.simulate({"u": "ucb"}, family, **options)
    slow = rolf.simulate({"u": "ucb"}, family, compiled=False, **options)
    assert np.allclose(fast.regret, slow.regret, rtol=0.0, atol=1e-9)


def rounds_of(problem, number, seed=0):
    rng = np.random.default_rng(seed)
    params = problem.params
    for round in range(number):
        features, means, best = look(params, round, rng)
        yield features.copy(), means.copy(), best


@pytest.mark.parametrize("latent", ["fixed", "varying"])
def test_varying_features(latent):
    family = environments.varying(arms=4, observed=3, latent=latent, share=0.5)
    problem = family.draw(1)
    seen = list(rounds_of(problem, 400))
    for features, means, best in seen:
        bias = means - features @ problem.theta
        assert best == means.max()
        if latent == "fixed":
            assert np.allclose(bias, problem.bias)
    biases = np.array([means - features @ problem.theta for features, means, _ in seen])
    assert (biases.std(axis=0) > 0.1).all() == (latent == "varying")
    assert (seen[0][0] != seen[1][0]).any()
    again = list(rounds_of(problem, 2))
    assert (again[1][0] == seen[1][0]).all()  # same seed, same features
    # half of the variance of the means is observed: 1/4 of 1/2 in all
    parts = np.array([features @ problem.theta for features, _, _ in seen])
    assert parts.var() == pytest.approx(0.125, rel=0.25)


@pytest.mark.parametrize("latent", ["fixed", "varying"])
@pytest.mark.parametrize(("observed", "share"), [(1, 0.5), (3, 0.2), (17, 0.5), (4, 1.0)])
def test_bounded_features_and_means(latent, observed, share):
    family = environments.varying(
        arms=6, observed=observed, share=share, latent=latent, bounded=True
    )
    seen = [each for seed in range(5) for each in rounds_of(family.draw(seed), 200, seed)]
    norms = np.linalg.norm([features for features, _, _ in seen], axis=2)
    assert norms.max() <= 1.0
    # uniform in the ball: P(norm <= r) = r^d, so norm^d is uniform
    assert stats.kstest((norms**observed).ravel(), "uniform").pvalue > 1e-4
    means = np.array([means for _, means, _ in seen])
    assert np.abs(means).max() <= 1.0
    for seed in range(5):  # and no features in the ball can exceed 1
        problem = family.draw(seed)
        largest = np.abs(problem.bias).max() if latent == "fixed" else problem.spread
        assert np.linalg.norm(problem.theta) + largest <= 1.0 + 1e-12
    assert means.std() == pytest.approx(family.scale, rel=0.25)
    problem = family.draw(0)
    assert problem.describe()["bounded"]
    features, means, _ = next(rounds_of(problem, 1))
    if latent == "fixed":
        assert np.allclose(means, features @ problem.theta + problem.bias)


def test_bounded_problems_may_be_smaller():
    family = environments.varying(observed=3, scale=0.1, bounded=True)
    assert family.scale == 0.1
    assert not environments.varying().bounded
    assert environments.varying().scale == 0.5
    fast = rolf.simulate({"v": "rolf-varying"}, family, rounds=80, runs=2, seed=0)
    slow = rolf.simulate({"v": "rolf-varying"}, family, rounds=80, runs=2, seed=0, compiled=False)
    assert np.allclose(fast.regret, slow.regret, atol=1e-9)


def test_playing_leaves_a_problem_unchanged():
    problem = environments.varying(arms=4, observed=2).draw(0)
    before = problem.bias.copy()
    regrets = []
    for _ in range(2):
        policy = rolf.RoLFVarying(problem.features, seed=0)
        out = np.empty(50)
        play_policy(policy, problem, np.random.default_rng(1), out)
        regrets.append(out)
    assert (regrets[0] == regrets[1]).all()
    assert (problem.bias == before).all()


def test_compiled_equals_python_on_varying_problems():
    plan = {"v": "rolf-varying", "l": "linucb-varying"}
    family = environments.varying(arms=5, observed=3)
    fast = rolf.simulate(plan, family, rounds=150, runs=2, seed=0)
    slow = rolf.simulate(plan, family, rounds=150, runs=2, seed=0, compiled=False)
    assert (fast.regret == slow.regret).all() or np.allclose(fast.regret, slow.regret, atol=1e-9)


@pytest.mark.parametrize(
    ("field", "value"),
    [("means", np.zeros(2)), ("means", [0.0] * 6), ("features", np.zeros((2, 3)))],
)
def test_a_problem_with_arrays_of_another_shape_is_refused(field, value):
    problem = environments.Problem(np.eye(6, 3), np.zeros(6))
    setattr(problem, field, value)
    with pytest.raises(InvalidArgument, match=f"{field}: .*shape"):
        rolf.simulate({"u": "ucb"}, problem, rounds=5, runs=1, seed=0)
    with pytest.raises(InvalidArgument, match=field):
        problem.reward(0, np.random.default_rng(0))


def test_varying_problems_with_arrays_of_another_shape_are_refused():
    for field, size in (("theta", 1), ("bias", 2)):
        problem = environments.varying(arms=4, observed=3).draw(0)
        setattr(problem, field, np.zeros(size))
        with pytest.raises(InvalidArgument, match=field):
            rolf.simulate({"u": "linucb-varying"}, problem, rounds=5, runs=1, seed=0)
