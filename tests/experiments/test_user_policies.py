"""Experiments with policies that are not in the catalogue: classes of users."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rolf
from rolf.errors import DifferentExperiment, ExperimentError, InvalidArgument
from rolf.experiments.database import Database
from rolf.policies.rivals.ucb import UCB
from rolf.testing.experiments import rows_of
from rolf.testing.storage import FEATURES, create_experiment, current_state, folded_state, play
from support.stores import make_url, quick_folder

pytestmark = pytest.mark.compiled

MODULE = '''
"""Policies of a user."""

from typing import Any, NamedTuple

import numpy as np

import rolf
from rolf.arms.table import Arms
from rolf.estimators.contract import Traits, begin, estimator, means, observe, recompute
from rolf.policies.core.parts import Params
from rolf.policies.core.rules import clocks, decide, probabilities, rule
from rolf.types import Choice


class Wide(rolf.UCB):
    """UCB with another default."""

    def __init__(self, features, *, scale=2.0, seed=None):
        super().__init__(features, scale=scale, seed=seed)


class Counter(NamedTuple):
    arms: int


class Counted(NamedTuple):
    last: Any
    counts: Any


def _begin(model, arms):
    return Counted(np.zeros(1), np.zeros(arms))


def _observe(model, belief, seen):
    belief.counts[seen.arm] += 1.0


def _means(model, belief, features):
    return belief.counts.copy()


def _recompute(model, belief, round):
    pass


estimator(
    Counter,
    {begin: _begin, observe: _observe, means: _means, recompute: _recompute},
    Traits(("counts",)),
)


class InTurn(NamedTuple):
    remembers: bool


def _clocks(rule):
    return 3


def _decide(rule, now, rng):
    arm = now.available[now.clock[0] % now.available.size]
    now.clock[0] += 1
    if arm == 2:
        now.clock[2] += 1
    if rule.remembers:
        now.belief.last[0] = arm + 1
    return Choice(arm, 1.0, arm, arm, True)


def _probabilities(rule, now, draws):
    out = np.zeros(now.available.size)
    out[now.clock[0] % now.available.size] = 1.0
    return out


rule(InTurn, {clocks: _clocks, decide: _decide, probabilities: _probabilities})


class RoundRobin(rolf.Policy):
    """Every arm in turn."""

    def __init__(self, features, *, seed=None):
        arms = Arms.read(features)
        super().__init__(arms, Params(Counter(arms.count), InTurn(False)), seed)


class Forgetful(rolf.Policy):
    """Every arm in turn; ``decide`` writes down its arm, which no log records."""

    def __init__(self, features, *, seed=None):
        arms = Arms.read(features)
        super().__init__(arms, Params(Counter(arms.count), InTurn(True)), seed)
'''

WORK = """
import sys, numpy as np, rolf
url, name, *policy = sys.argv[1:]
arguments = {}
if policy:
    module, _, cls = policy[0].partition(":")
    arguments = {"features": np.eye(4), "policy": getattr(__import__(module), cls), "seed": 1}
with rolf.open_experiment(url, name, **arguments) as experiment:
    for _ in range(5):
        experiment.tell(experiment.ask(), 0.5)
    print(experiment.policy, experiment.status().told)
"""


@pytest.fixture(scope="module")
def folder():
    path = quick_folder("rolf-user")
    (path / "user_policies.py").write_text(MODULE)
    return path


@pytest.fixture
def policies(folder, monkeypatch):
    """The user's module, importable in this process."""
    monkeypatch.syspath_prepend(str(folder))
    import user_policies

    return user_policies


def run_python(*words, path=()):
    """Run Python in a process of its own, with these folders on the path."""
    source = str(Path(rolf.__file__).parents[1])
    paths = os.pathsep.join([*map(str, path), source])
    environment = {**os.environ, "PYTHONPATH": paths}
    return subprocess.run(
        [sys.executable, *map(str, words)], env=environment, capture_output=True, text=True
    )


@pytest.mark.parametrize("name", ["Wide", "RoundRobin"])
def test_another_process_imports_the_class(folder, policies, name):
    url = make_url("sqlite")
    reference = f"user_policies:{name}"
    created = run_python("-c", WORK, url, "one", reference, path=[folder])
    assert created.stdout == f"{reference} 5\n", created.stderr
    continued = run_python("-c", WORK, url, "one", path=[folder])
    assert continued.stdout == f"{reference} 10\n", continued.stderr
    for policy in (None, reference, getattr(policies, name)):
        with rolf.open_experiment(url, "one", policy=policy) as experiment:
            assert experiment.status().told == 10
            assert current_state(experiment) == folded_state(experiment)
    with pytest.raises(DifferentExperiment, match=f"'{reference}' there, 'ucb' here"):
        rolf.open_experiment(url, "one", policy="ucb")


def test_a_class_that_cannot_be_imported_is_named(folder):
    url = make_url("sqlite")
    created = run_python("-c", WORK, url, "one", "user_policies:Wide", path=[folder])
    assert created.returncode == 0, created.stderr
    elsewhere = run_python("-c", WORK, url, "one")
    assert elsewhere.returncode != 0
    message = elsewhere.stderr.splitlines()[-1]
    assert message.startswith("rolf.errors.ExperimentError: experiment 'one' was created with")
    assert "'user_policies:Wide', which cannot be imported here" in message
    assert "put the module user_policies on the path" in message
    assert message.endswith("(No module named 'user_policies')")
    assert Database(url).names() == ["one"]


def test_a_class_of_a_script_is_found_by_that_script_only(folder):
    url = make_url("sqlite")
    script = folder / "script.py"
    script.write_text(
        "import sys, numpy, rolf\n"
        "class Own(rolf.UCB):\n"
        "    def __init__(self, features, *, seed=None):\n"
        "        super().__init__(features, seed=seed)\n"
        "with rolf.open_experiment(sys.argv[1], 'one', features=numpy.eye(3), policy=Own) as it:\n"
        "    it.ask()\n"
        "    print(it.policy, it.counts().asked)\n"
    )
    for asked in (1, 2):
        done = run_python(script, url)
        assert done.stdout == f"__main__:Own {asked}\n", done.stderr
    with pytest.raises(ExperimentError, match="defined in a script: run that script, or define"):
        rolf.open_experiment(url, "one")


def test_user_classes_are_folded_exactly(url, policies):
    for cls in (policies.Wide, policies.RoundRobin):
        experiment = create_experiment(url, cls.__name__, policy=cls)
        play(experiment, 20)
        experiment.snapshot()
        play(experiment, 3)
        experiment.add_arms([[1.0, 2.0, 3.0]])
        again = rolf.open_experiment(url, cls.__name__)
        assert type(again.synced.replica.policy) is cls
        assert current_state(again) == current_state(experiment) == folded_state(experiment)


def test_every_entry_of_the_clock_is_recorded(policies):
    url = make_url("memory")
    experiment = create_experiment(url, policy=policies.RoundRobin)
    arms = play(experiment, 20)
    assert experiment.synced.replica.state.clock.tolist() == [20, 0, arms.count(2)]


def test_a_choice_that_changes_more_of_the_state_is_refused(url, policies):
    words = (
        r"user_policies.Forgetful: decide changes state\.belief\.last: .*only observe may change it"
    )
    with pytest.raises(InvalidArgument, match=words):
        create_experiment(url, policy=policies.Forgetful)
    assert Database(url).names() == []


def test_a_class_that_has_become_unfit_is_refused(policies, monkeypatch):
    url = make_url("sqlite")
    with create_experiment(url, policy=policies.RoundRobin) as experiment:
        play(experiment, 3)
        experiment.snapshot()
    monkeypatch.setattr(policies, "RoundRobin", policies.Forgetful)
    with pytest.raises(InvalidArgument, match=r"decide changes state\.belief\.last"):
        rolf.open_experiment(url, "one")


def test_classes_that_nobody_can_import_are_refused():
    class Local(UCB):
        def __init__(self, features, *, seed=None):
            super().__init__(features, seed=seed)

    url = make_url("memory")
    with pytest.raises(InvalidArgument, match="at the top level of a module"):
        create_experiment(url, policy=Local)
    assert Database(url).names() == []


class Callback(UCB):
    """An option that no database can hold."""

    def __init__(self, features, *, notify=None, seed=None):
        super().__init__(features, seed=seed)


class Small(UCB):
    """Takes six arms at most."""

    def __init__(self, features, *, seed=None):
        if len(features) > 6:
            raise InvalidArgument("features", len(features), "six arms at most")
        super().__init__(features, seed=seed)


def test_a_change_that_the_policy_rejects_is_not_recorded(url):
    experiment = create_experiment(url, policy=Small)
    with pytest.raises(InvalidArgument, match="six arms at most"):
        experiment.add_arms([[1.0, 2.0, 3.0]])
    assert rows_of(experiment) == []
    experiment.retire_arms([0])
    experiment.ask()


def test_options_must_be_plain_data():
    url = make_url("memory")
    with pytest.raises(InvalidArgument, match="JSON"):
        create_experiment(url, policy=Callback, options={"notify": print})
    for same in ([1, 2], np.array([1, 2]), (1, 2)):
        create_experiment(url, policy=Callback, options={"notify": same}).ask()
    for other in ([1, 3], np.array([1, 3]), print):
        with pytest.raises(DifferentExperiment, match="options: notify"):
            create_experiment(url, policy=Callback, options={"notify": other})


def test_any_policy_is_opened_without_naming_it(url):
    for name in ("lints", "beta-ts", "rolf-lasso"):
        create_experiment(url, name, policy=name).close()
        with rolf.open_experiment(url, name, features=FEATURES) as experiment:
            assert experiment.policy == name
    assert rolf.open_experiment(url, "default", features=FEATURES).policy == "rolf-bayes"
