"""Simulation: one result for any number of workers, compiled or not, also with users' policies."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest

import rolf
from rolf.errors import InvalidArgument, UnknownPolicy
from rolf.policies.catalogue import CATALOG
from support.helpers import CLICKS

pytestmark = pytest.mark.compiled

FAMILY = rolf.environments.paper(1, 1, arms=8, size=9, observed=4)
CLICKING = rolf.environments.synthetic(arms=8, observed=4, rewards="bernoulli")
POLICIES = {name: name for name in CATALOG if name not in CLICKS}


@pytest.fixture(scope="module")
def result():
    return rolf.simulate(POLICIES, FAMILY, rounds=120, runs=4, seed=3, jobs=2)


def test_shape_and_monotone(result):
    assert result.labels == list(POLICIES)
    assert result.regret.shape == (len(POLICIES), 4, 120)
    assert (np.diff(result.regret, axis=2) >= 0).all()
    assert np.isfinite(result.regret).all()


@pytest.mark.parametrize("jobs", [1, 3])
def test_any_number_of_workers(result, jobs):
    again = rolf.simulate(POLICIES, FAMILY, rounds=120, runs=4, seed=3, jobs=jobs)
    assert (again.regret == result.regret).all()


def test_compiled_or_not(result):
    plain = rolf.simulate(POLICIES, FAMILY, rounds=120, runs=2, seed=3, compiled=False)
    assert (plain.regret == result.regret[:, :2]).all()


def test_a_policy_plays_the_same_beside_any_other_policies(result):
    alone = rolf.simulate({"lints": "lints"}, FAMILY, rounds=120, runs=4, seed=3)
    assert (alone["lints"] == result["lints"]).all()


def test_other_seeds_give_other_results(result):
    other = rolf.simulate({"ucb": "ucb"}, FAMILY, rounds=120, runs=4, seed=4)
    assert (other["ucb"] != result["ucb"]).any()
    assert len(np.unique(result["ucb"][:, -1])) == 4


@pytest.mark.parametrize("name", CLICKS)
def test_policies_for_clicks_play_clicks(name):
    fast = rolf.simulate({name: name}, CLICKING, rounds=400, runs=3, seed=3)
    slow = rolf.simulate({name: name}, CLICKING, rounds=400, runs=3, seed=3, compiled=False)
    assert (fast.regret == slow.regret).all()
    uniform = 400 * np.mean([np.ptp(CLICKING.draw(s).means) for s in range(20)]) / 2
    assert fast.regret[:, :, -1].mean() < 0.5 * uniform  # it learns
    with pytest.warns(rolf.RolfWarning, match=f"{name} takes rewards from 0 to 1"):
        rolf.simulate({name: name}, FAMILY, rounds=50, runs=1, seed=3)


@pytest.mark.parametrize("name", list(POLICIES))
def test_ask_and_tell_make_the_very_same_decisions(name, result):
    """The online path against the engine, for the second run of the simulation."""
    from rolf.simulation.entries import read_policies
    from rolf.simulation.runs import make_policy, stream

    problem = FAMILY.draw(stream(3, 1, 0))
    policy = make_policy(read_policies({name: name})[0], problem, 3, 1)
    noise = np.random.default_rng(stream(3, 1, 1))
    extra = {"features": problem.features} if policy.varying else {}
    total, regret = 0.0, []
    for _ in range(120):
        decision = policy.ask(**extra)
        policy.tell(decision, problem.means[decision.arm] + 0.1 * noise.standard_normal())
        total += problem.means.max() - problem.means[decision.arm]
        regret.append(total)
    assert (np.array(regret) == result[name][1]).all()


class Round:
    """A user's policy that plays arms in turn; ``ask`` returns a plain number."""

    def __init__(self, features, step=1):
        self.arms, self.step, self.turn, self.seen = len(features), step, -1, []

    def ask(self):
        self.turn += 1
        return self.turn * self.step % self.arms

    def tell(self, decision, reward):
        self.seen.append((decision, reward))


class Seeded(Round):
    def __init__(self, features, seed):
        super().__init__(features)
        self.rng = np.random.default_rng(seed)

    def ask(self):
        return int(self.rng.integers(self.arms))


class Wrong(Round):
    def ask(self):
        return 99


class Subclassed(rolf.UCB):
    """A user's variation of a rolf policy keeps the compiled path."""


class Demanding(rolf.UCB):
    """A policy whose constructor requires an option."""

    def __init__(self, features, *, expected, seed=None):
        super().__init__(features, scale=expected, seed=seed)


def test_a_users_class_runs_in_the_same_call(result):
    mixed = rolf.simulate(
        {"mine": Round, "two": (Round, {"step": 2}), "seeded": Seeded, "ucb": "ucb"},
        FAMILY,
        rounds=120,
        runs=4,
        seed=3,
    )
    assert (mixed["ucb"] == result["ucb"]).all()
    problem = FAMILY.draw(rolf.simulation.runs.stream(3, 0, 0))
    gaps = problem.means.max() - problem.means
    assert np.allclose(mixed["mine"][0], np.cumsum(np.tile(gaps, 15)))
    assert len(np.unique(mixed["seeded"][:, -1])) == 4
    again = rolf.simulate({"seeded": Seeded}, FAMILY, rounds=120, runs=4, seed=3)
    assert (again["seeded"] == mixed["seeded"]).all()
    assert mixed.config["policies"]["two"] == {"policy": "Round", "options": {"step": 2}}


def test_a_users_subclass_is_compiled(result):
    ours = rolf.simulate({"ucb": Subclassed}, FAMILY, rounds=120, runs=4, seed=3)
    assert (ours["ucb"] == result["ucb"]).all()


def test_a_subclass_that_overrides_ask_is_played_through_ask():
    class Zero(rolf.UCB):
        def ask(self, n=None, **kwargs):
            return super().ask(available=[0], **kwargs)

    problem = FAMILY.draw(0)
    out = rolf.simulate(
        {"zero": Zero, "demanding": (Demanding, {"expected": 0.1})},
        problem,
        rounds=30,
        runs=1,
        seed=0,
    )
    gap = problem.means.max() - problem.means[0]
    assert out["zero"][0, -1] == pytest.approx(30 * gap)


def test_a_problem_is_described_before_it_is_played():
    class Silent:
        def draw(self, seed=None):
            raise AssertionError("played")

    with pytest.raises(InvalidArgument, match="describe"):
        rolf.simulate({"u": "ucb"}, Silent())


def test_all_policies_of_a_run_see_the_same_noise():
    heard: dict = {}

    class Spy(Round):
        def tell(self, decision, reward):
            heard.setdefault(self.step, []).append(reward - problem.means[decision])

    problem = FAMILY.draw(0)
    spies = {"a": (Spy, {"step": 1}), "b": (Spy, {"step": 3})}
    rolf.simulate(spies, problem, rounds=50, runs=1, backend="threads")
    assert np.allclose(heard[1], heard[3])
    assert np.std(heard[1]) == pytest.approx(0.1, rel=0.4)


def test_one_problem_for_all_runs():
    problem = FAMILY.draw(0)
    fixed = rolf.simulate({"mine": Round}, problem, rounds=8, runs=3, seed=0)
    assert (fixed["mine"] == fixed["mine"][0]).all()
    assert fixed.config["problem"]["means"] == problem.means.tolist()


def test_configuration_is_kept(result):
    config = json.loads(json.dumps(result.config))
    assert config["rounds"] == 120
    assert config["runs"] == 4
    assert config["seed"] == 3
    assert config["problem"]["arms"] == 8
    assert set(config["versions"]) == {"python", "rolf-bandits", "numpy", "numba"}
    drawn = rolf.simulate({"ucb": "ucb"}, FAMILY, rounds=5, runs=1).config["seed"]
    assert isinstance(drawn, int)


def test_a_progress_bar_is_shown_when_asked_for(capsys):
    rolf.simulate({"ucb": "ucb"}, FAMILY, rounds=5, runs=3, seed=0, progress=True)
    shown = capsys.readouterr().err
    assert "3/3" in shown
    assert "left" in shown


@pytest.mark.parametrize("options", [{"exploration": 500}, {"exploration": "theory"}])
def test_exploration_beyond_the_horizon_is_a_warning(options):
    with pytest.warns(rolf.RolfWarning, match="the horizon is 100"):
        out = rolf.simulate({"r": ("rolf-ridge", options)}, FAMILY, rounds=100, runs=1, seed=0)
    assert out.regret[0, 0, -1] > 0


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"policies": {}}, "policies"),
        ({"policies": {"a": ("ucb", {"colour": 1})}}, "colour"),
        ({"policies": {"a": ("ucb", {"seed": 1})}}, "seed"),
        ({"policies": {"a": ("ucb", 3)}}, "policies"),
        ({"policies": {"a": object}}, "ask and tell"),
        ({"policies": {"a": 3}}, "ask and tell"),
        ({"policies": {"a": ("ucb", {"delta": 3})}}, "delta"),
        ({"policies": {"a": Wrong}}, "an arm from 0 to 7"),
        ({"rounds": 0}, "rounds"),
        ({"rounds": 10.5}, "rounds"),
        ({"runs": 0}, "runs"),
        ({"runs": True}, "runs"),
        ({"jobs": 0}, "jobs"),
        ({"seed": -1}, "seed"),
        ({"seed": "x"}, "seed"),
        ({"problem": [[1.0]]}, "problem"),
    ],
)
def test_bad_input_is_named(change, expected):
    call = {"policies": {"u": "ucb"}, "problem": FAMILY, "rounds": 10, "runs": 1, "seed": 0}
    call.update(change)
    with pytest.raises(InvalidArgument, match=expected):
        rolf.simulate(call.pop("policies"), call.pop("problem"), **call)


def test_unknown_policy():
    with pytest.raises(UnknownPolicy, match="drlasso"):
        rolf.simulate({"a": "thompson"}, FAMILY)


def test_an_error_in_a_users_policy_reaches_the_user():
    class Broken(Round):
        def tell(self, decision, reward):
            raise RuntimeError("my own bug")

    with pytest.raises(RuntimeError, match="my own bug"):
        rolf.simulate({"a": Broken, "b": "ucb"}, FAMILY, rounds=50, runs=20)


# --- problems --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scenario", "case", "shape"), [(1, 1, 17), (1, 2, 17), (1, 3, 17), (2, 1, 60), (2, 2, 60)]
)
def test_paper_problems(scenario, case, shape):
    family = rolf.environments.paper(scenario, case)
    problem = family.draw(5)
    assert problem.features.shape == (30, shape)
    assert np.abs(problem.means).max() <= 1.0
    assert problem.noise == 0.1
    assert (family.draw(5).means == problem.means).all()
    assert (family.draw(6).means != problem.means).any()
    small = rolf.environments.paper(scenario, case, bound="theta").draw(5)
    assert np.abs(small.means).max() <= np.abs(problem.means).max()


def test_paper_arguments():
    problem = rolf.environments.paper(1, 2, arms=5, size=6, observed=2, noise=0.5).draw(0)
    assert problem.features.shape == (5, 2)
    assert problem.noise == 0.5
    rng = np.random.default_rng(0)
    draws = [problem.reward(problem.best, rng) for _ in range(4000)]
    # five standard errors of a mean of 4000 draws with deviation 0.5
    assert abs(np.mean(draws) - problem.means.max()) < 5 * 0.5 / math.sqrt(4000)
    for bad in (
        {"scenario": 3},
        {"case": 4},
        {"scenario": 2, "case": 3},
        {"bound": "none"},
        {"arms": 1},
        {"observed": 99},
        {"observed": 0},
        {"noise": -1},
        {"case": 3, "size": 4, "observed": 4},
    ):
        with pytest.raises(InvalidArgument, match=list(bad)[-1]):
            rolf.environments.paper(**bad)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (([1.0], [1.0]), "features"),
        (([[1.0]], [1.0, 2.0]), "means"),
        (([[1.0]], [math.nan]), "means"),
        (([[1.0]], [1.0], -1.0), "noise"),
    ],
)
def test_bad_problems(args, expected):
    with pytest.raises(InvalidArgument, match=expected):
        rolf.environments.Problem(*args)


# --- start-up --------------------------------------------------------------------------------


def python(code, **env):
    import os

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **env}
    )
    assert done.returncode == 0, done.stderr
    return done


def test_importing_rolf_imports_nothing_heavy():
    heavy = ("numba", "scipy", "matplotlib", "pandas", "pyarrow", "rich", "typer")
    code = f"import rolf, sys; print([m for m in {heavy} if m in sys.modules])"
    assert python(code).stdout.strip() == "[]"


def test_ask_and_tell_need_no_numba():
    # (The lasso, the posterior over scales and KL-UCB are scalar loops: compiled online too.)
    code = """
import sys, rolf
for cls in rolf.policy_classes():
    if cls.name not in ("rolf-lasso", "kl-ucb") and "bayes" not in cls.name:
        policy = cls([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], seed=0)
        for _ in range(20):
            extra = {"features": policy.arms.features} if cls.varying else {}
            policy.tell(policy.ask(**extra), 1.0)
print("numba" in sys.modules)
"""
    assert python(code).stdout.strip() == "False"


def test_compiled_code_is_kept_between_processes_and_compiling_is_logged(tmp_path):
    code = """
import rolf
rolf.simulate({"u": "ucb"}, rolf.environments.paper(), rounds=5, runs=1, seed=0)
from rolf.simulation.loop import _loops
print([getattr(loop, "stats", None) for loop in _loops.values()])
"""
    cache = {"ROLF_CACHE_DIR": str(tmp_path)}
    first, second = python(code, **cache), python(code, **cache)
    assert "compiling ucb on fixed features" in first.stderr
    assert second.stderr == ""
    assert "cache_misses=Counter()" in second.stdout.replace("{}", "")
    assert "cache_hits" in second.stdout


def test_an_unwritable_cache_is_no_obstacle(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    code = """
import rolf
r = rolf.simulate({"u": "ucb"}, rolf.environments.paper(), rounds=5, runs=1, seed=0)
print(r.regret.shape)
"""
    done = python(code, ROLF_CACHE_DIR=str(blocked / "under"), TMPDIR=str(tmp_path))
    assert done.stdout.strip() == "(1, 1, 5)"
