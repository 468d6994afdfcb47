"""One registry: names, entry points, references and classes, in every call that takes a policy."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from typing import NamedTuple

import numpy as np
import pytest

import rolf
from rolf.arms.table import Arms
from rolf.errors import ExperimentError, IncompatibleState, InvalidArgument, UnknownPolicy
from rolf.estimators.ridge.varying import VaryingRidge
from rolf.kernel import implement
from rolf.policies import registry
from rolf.policies.contract import check_decide
from rolf.policies.core.parts import Params
from rolf.policies.core.rules import Sampled, believed_means, draw
from rolf.policies.registry import find_policy, policy_class, policy_name
from support.helpers import FEATURES

MODULE = '''
"""A policy of a user's."""

from rolf.arms.table import Arms
from rolf.estimators.means import ArmMeans
from rolf.policies.policy import Policy
from rolf.policies.core.parts import Params
from rolf.policies.core.rules import Optimistic
from rolf.policies.rivals.ucb1 import GrowingBound


class Mine(Policy):
    def __init__(self, features, *, scale=0.5, seed=None):
        arms = Arms.read(features)
        rule = Optimistic(GrowingBound(scale))
        super().__init__(arms, Params(ArmMeans(arms.count), rule), seed)


class Plain:
    def __init__(self, features):
        self.turn = 0

    def ask(self):
        self.turn += 1
        return self.turn % 2

    def tell(self, decision, reward):
        pass


number = 3
'''


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A module that can be imported, with a policy called Mine."""
    (tmp_path / "elsewhere.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("elsewhere", None)


def test_a_reference_works_in_every_call(mine, tmp_path):
    reference = "elsewhere:Mine"
    cls = policy_class(reference)
    assert cls.__name__ == "Mine"
    assert policy_name(cls) == reference
    assert policy_class(cls) is cls
    family = rolf.environments.paper(arms=6, size=8)
    plan = {"m": (reference, {"scale": 0.2}), "plain": "elsewhere:Plain"}
    result = rolf.simulate(plan, family, rounds=40, runs=2, seed=0)
    assert result.config["policies"]["m"] == {"policy": reference, "options": {"scale": 0.2}}
    slow = rolf.simulate(plan, family, rounds=40, runs=2, seed=0, compiled=False)
    assert (slow.regret == result.regret).all()
    policy = cls(FEATURES, seed=0)
    policy.tell_many(zip(policy.ask_many(6), np.arange(6.0), strict=True))
    state = json.loads(json.dumps(policy.to_dict()))
    assert state["policy"] == reference
    assert rolf.Policy.from_dict(state).ask().arm == policy.ask().arm
    url = f"sqlite:///{tmp_path}/x.db"
    with rolf.open_experiment(url, "one", features=FEATURES, policy=cls, seed=1) as experiment:
        for decision in experiment.ask_many(20):
            experiment.tell(decision, float(decision.arm))
        assert experiment.policy == reference
        experiment.export(tmp_path / "log.parquet")
    with rolf.open_experiment(url, "one", policy=reference) as experiment:
        experiment.ask()
    log = rolf.Log([str(d) for d in [0, 1, 2, 3, 4, 5] * 80], np.full(480, 1 / 6), np.ones(480))
    values = rolf.replay(log, FEATURES, {"m": reference}, estimators=["replay", "ips"], seed=0)
    assert values.find("m", "replay").value == 1.0


def test_what_was_opened_with_a_users_class_says_what_to_import(mine, tmp_path):
    url = f"sqlite:///{tmp_path}/x.db"
    rolf.open_experiment(url, "one", features=FEATURES, policy="elsewhere:Mine").close()
    state = policy_class("elsewhere:Mine")(FEATURES).to_dict()
    code = f"""
        import json, rolf
        for call in (lambda: rolf.open_experiment({url!r}, "one"),
                     lambda: rolf.Policy.from_dict(json.loads({json.dumps(state)!r}))):
            try:
                call()
            except rolf.RolfError as error:
                print(type(error).__name__, error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    first, second = done.stdout.splitlines()
    assert first.startswith(ExperimentError.__name__)
    assert second.startswith(IncompatibleState.__name__)
    for line in (first, second):
        assert "'elsewhere:Mine'" in line
        assert "No module named 'elsewhere'" in line
    assert "put the module elsewhere on the path" in first


def test_an_entry_point_is_a_name(mine, monkeypatch):
    from importlib.metadata import EntryPoint

    entry = EntryPoint("mine", "elsewhere:Mine", registry.GROUP)
    broken = EntryPoint("broken", "nowhere:Mine", registry.GROUP)
    monkeypatch.setattr(registry, "_entry_points", lambda: [entry, broken])
    cls = policy_class("mine")
    assert cls.__name__ == "Mine"
    assert policy_name(cls) == "mine"
    assert rolf.Policy.from_dict(cls(FEATURES).to_dict()).rounds == 0
    with pytest.raises(UnknownPolicy, match="No module named 'nowhere'"):
        policy_class("broken")
    with pytest.raises(UnknownPolicy, match="mine, broken"):
        policy_class("other")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("rolf-laso", "did you mean 'rolf-lasso'"),
        ("nowhere:Mine", "No module named 'nowhere'"),
        ("elsewhere:Gone", "Gone"),
        ("elsewhere:number", "subclass of rolf.Policy"),
        ("elsewhere:Plain", "subclass of rolf.Policy"),
        (":", "imported"),
        (3, "subclass of rolf.Policy"),
    ],
)
def test_wrong_names_say_what_is_wrong(mine, name, said):
    with pytest.raises(UnknownPolicy, match=said):
        policy_class(name)
    with pytest.raises(InvalidArgument):
        rolf.simulate({"a": find_policy(name) if name == 3 else name + "!"}, None)


class Harmful(rolf.UCB):
    """Its choice does harm to its state."""

    def __init__(self, features, *, seed=None):
        super().__init__(features, seed=seed)

    def decide(self, round, rng=None):
        choice, probability = super().decide(round, rng)
        self.harm(self.state, choice.arm)
        return choice, probability


class Forgetful(Harmful):
    """Its choice changes what is believed."""

    def harm(self, state, arm):
        state.belief.counts[arm] += 1.0


class Uncounted(Harmful):
    """Its choice counts no round."""

    def harm(self, state, arm):
        state.clock[0] -= 1


@pytest.mark.parametrize(("cls", "path"), [(Forgetful, "belief.counts"), (Uncounted, "clock")])
def test_a_class_that_breaks_the_contract_is_refused(cls, path):
    with pytest.raises(InvalidArgument, match=f"decide changes state.{path}"):
        check_decide(cls, FEATURES, {})
    with pytest.raises(AssertionError, match="decide"):
        rolf.testing.check_policy(cls)
    with pytest.raises(InvalidArgument, match=path):
        rolf.open_experiment("memory://", cls.__name__, features=FEATURES, policy=cls)


def test_learning_from_totals_is_learning_from_their_history():
    rng = np.random.default_rng(0)
    arms = rng.integers(6, size=200)
    rewards = 1e6 + FEATURES[arms, 0] + 0.1 * rng.standard_normal(200)
    counts = np.bincount(arms, minlength=6)
    shifted = rewards - 1e6
    sums = np.bincount(arms, shifted, minlength=6)
    squares = np.bincount(arms, shifted**2, minlength=6)
    for name in ("rolf-bayes", "rolf-ridge", "rolf-lasso", "linucb", "lints", "oful", "ucb"):
        one, two = (policy_class(name)(FEATURES, seed=0) for _ in range(2))
        one.learn(arms, rewards)
        two.learn_totals(counts, sums, squares, level=1e6)
        assert two.rounds == one.rounds == 200
        assert np.allclose(one.estimates(), two.estimates(), rtol=1e-9)
    assert two.ask().arm == one.ask().arm
    # also on top of what it knows, and from another level
    twice, added = (rolf.RoLFBayes(FEATURES, seed=0) for _ in range(2))
    twice.learn(np.tile(arms, 2), np.tile(rewards - 1e6, 2))
    added.learn_totals(counts, sums, squares)
    shifted = (sums - 5.0 * counts, squares - 10.0 * sums + 25.0 * counts)
    added.learn_totals(counts, *shifted, level=5.0)
    assert added.rounds == 400
    assert np.allclose(added.estimates(), twice.estimates(), atol=1e-9)
    assert added.scales() == pytest.approx(twice.scales())


def test_arms_without_rewards_have_totals_of_zero():
    policy = rolf.RoLFBayes(FEATURES, seed=0)
    policy.learn_totals([3, 0, 0, 2, 0, 0], [3.0, 0, 0, 1.0, 0, 0], [3.5, 0, 0, 0.6, 0, 0])
    assert policy.rounds == 5
    assert policy.estimates()[0] > policy.estimates()[3]


def test_totals_that_cannot_be_learned_change_nothing():
    policy = rolf.RoLFBayes(FEATURES, seed=0)
    before = policy.to_dict()
    ones = np.ones(6)
    for arguments, named in [
        ((ones, ones), "squares"),
        ((ones[:3], ones, ones), "counts"),
        ((-ones, ones, ones), "counts"),
        ((0.5 * ones, ones, ones), "counts"),
        ((ones, ones * np.nan, ones), "sums"),
        ((ones, "x", ones), "sums"),
    ]:
        with pytest.raises(InvalidArgument, match=named):
            policy.learn_totals(*arguments)
    with pytest.raises(InvalidArgument, match="number"):
        policy.learn_totals(ones, ones, ones, level=np.inf)
    assert policy.to_dict() == before
    for name in ("rolf-varying", "linucb-varying", "rolf-bayes-varying", "drlasso"):
        with pytest.raises(rolf.RolfError, match=f"{name} cannot learn from totals"):
            policy_class(name)(FEATURES).learn_totals(ones, ones, ones)


def test_star_import_leaves_the_builtin_open_alone():
    space = {}
    exec("from rolf import *", space)
    assert "open" not in space
    assert space["open_experiment"] is rolf.open_experiment
    for name in ("read_arms", "Log", "Status"):
        assert name in space
    assert set(rolf.__all__) - {"__version__"} <= set(rolf._HOMES)


def test_no_module_is_hidden_by_a_function_of_its_name():
    import importlib
    import pkgutil
    import types

    for package in [rolf, *map(importlib.import_module, _packages())]:
        for module in pkgutil.iter_modules(package.__path__):
            if module.name in vars(package):
                here = f"{package.__name__}.{module.name}"
                assert isinstance(vars(package)[module.name], types.ModuleType), here


def _packages():
    import pkgutil

    walk = pkgutil.walk_packages(rolf.__path__, "rolf.", onerror=lambda name: None)
    return [module.name for module in walk if module.ispkg]


class VaryingSampler(NamedTuple):
    """Thompson sampling without any noise: the best arm of the round, for certain."""

    nothing: float


def _draw_estimates(sampler, now, count, rng):
    return np.repeat(believed_means(now)[:, None], count, axis=1)


implement(VaryingSampler, {draw: _draw_estimates})


class SampledVarying(rolf.Policy):
    varying = True

    def __init__(self, features, *, seed=None):
        arms = Arms.read(features)
        model = VaryingRidge(arms.features.shape[1], 0.1)
        super().__init__(arms, Params(model, Sampled(VaryingSampler(0.0))), seed)


def test_sampled_probabilities_are_those_of_the_round():
    policy = SampledVarying(FEATURES, seed=0)
    policy.learn([0] * 20, np.tile([1.0, -1.0], 10), features=np.tile([[1.0], [-1.0]], (10, 3)))
    turned = FEATURES[::-1].copy()
    decision = policy.ask(features=turned)
    assert decision.arm == 5 - policy.rank(1, features=FEATURES)[0]
    turned[:] = 0.0  # what was asked with is remembered
    assert decision.probability == 1.0
    with rolf.open_experiment("memory://", "v", features=FEATURES, policy=SampledVarying) as one:
        assert 0.0 < one.ask(features=FEATURES).probability < 1.0  # all arms tie: nothing is known


def test_a_users_class_cannot_take_a_name_of_the_catalogue():
    code = """
        import rolf
        try:
            class Mine(rolf.Policy):
                name = "linucb"
        except rolf.RolfError as error:
            print(error)
        print(rolf.LinUCB.name)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    first, second = done.stdout.splitlines()
    assert "not in the catalogue" in first
    assert second == "linucb"


def test_impossible_totals_are_refused():
    with pytest.raises(InvalidArgument, match="sums of rewards from 0 to 1"):
        rolf.BetaTS(np.zeros((2, 1))).learn_totals([2, 2], [5, -3])
    with pytest.raises(InvalidArgument, match="0 where counts are 0"):
        rolf.UCB(np.zeros((2, 1))).learn_totals([2, 0], [5, 1])
    with pytest.raises(InvalidArgument, match="at least sums"):
        rolf.RoLFBayes(np.zeros((2, 1))).learn_totals([2, 2], [5, 5], [1, 1])
    policy = rolf.BetaTS(np.zeros((2, 1)))
    policy.learn_totals([4, 10], [-1, 0], level=0.5)
    assert policy.estimates().tolist() == [0.25, 0.5]
