"""Problems beyond the paper's panels, and the Gymnasium view of all of them."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import rolf
from rolf import environments
from rolf.engine import play
from rolf.environments.base import look
from rolf.errors import InvalidArgument, MissingExtra

PROBLEMS = {
    "paper": environments.paper(arms=6, size=8),
    "two": environments.two_arms(),
    "three": environments.three_arms(observed=2, latent=4),
    "varying": environments.varying(arms=5, observed=3),
    "both": environments.varying(arms=5, observed=3, latent="varying"),
    "one": environments.Problem([[1.0], [2.0]], [0.0, 1.0]),
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
    ],
)
def test_varying_needs_sensible_arguments(bad):
    with pytest.raises(InvalidArgument, match=next(iter(bad))):
        environments.varying(**bad)


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


def test_playing_does_not_wear_a_problem_out():
    problem = environments.varying(arms=4, observed=2).draw(0)
    before = problem.bias.copy()
    regrets = []
    for _ in range(2):
        policy = rolf.RoLFVarying(problem.features, seed=0)
        out = np.empty(50)
        rngs = np.random.default_rng(1)
        play(policy.params, policy._state, problem.params, np.arange(4), policy._rng, rngs, out)
        regrets.append(out)
    assert (regrets[0] == regrets[1]).all()
    assert (problem.bias == before).all()


def test_compiled_equals_python_on_varying_problems():
    plan = {"v": "rolf-varying", "l": "linucb-varying"}
    family = environments.varying(arms=5, observed=3)
    fast = rolf.simulate(plan, family, rounds=150, runs=2, seed=0)
    slow = rolf.simulate(plan, family, rounds=150, runs=2, seed=0, compiled=False)
    assert (fast.regret == slow.regret).all() or np.allclose(fast.regret, slow.regret, atol=1e-9)


@pytest.mark.filterwarnings("ignore:.*infinity.*")  # features have no bounds to declare
@pytest.mark.parametrize("name", list(PROBLEMS))
def test_every_problem_is_a_gymnasium_environment(name):
    environment = environments.gymnasium(PROBLEMS[name], rounds=30)
    assert isinstance(environment, gymnasium.Env)
    check_env(environment, skip_render_check=True)
    first, info = environment.reset(seed=3)
    assert environment.observation_space.contains(first)
    assert info == {}
    total = 0.0
    for step in range(30):
        _, reward, terminated, truncated, info = environment.step(step % 2)
        assert isinstance(reward, float)
        assert info["regret"] >= 0
        total += info["regret"]
        assert not terminated
        assert truncated == (step == 29)
    again, _ = environment.reset(seed=3)
    assert (again == first).all()
    with pytest.raises(InvalidArgument, match="action"):
        environment.step(99)


def test_gymnasium_arguments():
    with pytest.raises(InvalidArgument, match="problem"):
        environments.gymnasium([[1.0]])
    with pytest.raises(InvalidArgument, match="rounds"):
        environments.gymnasium(PROBLEMS["two"], rounds=0)


def test_without_gymnasium_there_is_a_hint(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(MissingExtra, match=r"rolf-bandits\[all\]"):
        environments.gymnasium(PROBLEMS["two"])


def test_gymnasium_is_not_imported_with_rolf():
    code = "import rolf, sys; print('gymnasium' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
