"""``warm``: after it, nothing is compiled while somebody waits."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from numba.core import event

import rolf
from rolf.policies import warm as module
from rolf.policies.state.arrays import arrays
from rolf.policies.warm import warm
from support.diagnosing import diagnose
from support.helpers import every_policy, extra, make


def bits(policy):
    state = {path: array.tobytes() for path, array in arrays(policy.state)}
    return state, repr(policy.rng.bit_generator.state), policy.decisions.issued, policy.pending


@every_policy
def test_warming_changes_nothing(name, monkeypatch):
    monkeypatch.setattr(module, "_warm", set())
    policy = make(name)
    policy.tell(policy.ask(**extra(policy)), 1.0)
    policy.ask(**extra(policy))
    before = bits(policy)
    warm(policy)
    assert bits(policy) == before
    assert len(module._warm) == 1
    monkeypatch.setattr(module, "_small_copy", lambda policy: None)  # and with its own arrays
    module._warm.clear()
    warm(policy)
    assert bits(policy) == before


AFTERWARDS = """
import sys
import numpy as np
import rolf
from numba.core.dispatcher import Dispatcher
from rolf.policies.warm import warm

calls = []
ready = Dispatcher.compile
Dispatcher.compile = lambda self, types: calls.append(self) or ready(self, types)

name, arms = sys.argv[1], int(sys.argv[2])
features = np.random.default_rng(1).random((arms, 3))
policy = rolf.policy_class(name)(features, seed=0)
warm(policy)
before = len(calls)
extra = {"features": features} if policy.varying else {}
for round in range(4 * arms):
    decision = policy.ask(**extra)
    decision.probability
    policy.tell(decision, float(round % 2))
policy.estimates(**extra)
policy.recompute()
print(before > 0, len(calls) - before)
"""


@pytest.mark.parametrize("arms", [2, 12])
@pytest.mark.parametrize("name", ["rolf-bayes", "rolf-bayes-varying", "rolf-lasso", "kl-ucb"])
def test_nothing_is_compiled_or_loaded_afterwards(name, arms):
    """The policies that run compiled code online, each in a new process."""
    command = [sys.executable, "-c", AFTERWARDS, name, str(arms)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "0"]


def test_a_second_policy_of_the_kind_is_warm_already(monkeypatch):
    policy = make("rolf-bayes")
    warm(policy)
    monkeypatch.setattr(module, "_rehearse", lambda *_: pytest.fail("rehearsed again"))
    warm(policy)
    warm(make("rolf-bayes", np.random.default_rng(0).random((40, 7))))


def test_arrays_that_look_different_are_rehearsed_themselves(monkeypatch):
    """A layout that the small policy does not have would be compiled at the first ask."""
    monkeypatch.setattr(module, "_warm", set())
    policy = make("kl-ucb")
    readonly = policy.state.belief._replace(counts=policy.state.belief.counts.copy())
    readonly.counts.flags.writeable = False
    assert module._layout(readonly) != module._layout(policy.state.belief)
    rehearsed = []
    monkeypatch.setattr(module, "_small_copy", lambda policy: make("ucb"))
    monkeypatch.setattr(module, "_rehearse", lambda policy, state: rehearsed.append(policy))
    warm(policy)
    assert rehearsed == [policy]


def test_a_policy_that_refuses_few_arms_is_rehearsed_itself(monkeypatch):
    class Choosy(rolf.UCB):
        def __init__(self, features, *, seed=None):
            if len(features) < 6:
                raise rolf.RolfError("too few arms")
            super().__init__(features, seed=seed)

    policy = Choosy(np.ones((6, 1)), seed=0)
    before = bits(policy)
    warm(policy)
    assert bits(policy) == before


def test_the_posterior_of_any_policy_is_warmed():
    module.warm_posterior()
    policy = make("rolf-bayes")
    policy.learn([0, 1], [0.0, 1.0])
    with event.install_recorder("numba:compile") as compiled:
        policy.intervals()
        policy.probability_best()
        policy.recompute()
        for rewards in ([0.5, 1.5, 1.0], [0, 1, 1]):
            diagnose([[0.0], [1.0]], [0, 1, 1], rewards)
    assert not compiled.buffer
