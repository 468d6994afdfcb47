"""States that older versions saved: they are read, go on with the same decisions, and merge.

``data/states_v1.json`` was written by the version before states had the same layout for every
policy: per policy a state after 25 rounds with two decisions waiting, the 20 arms that came
next, and the estimates then and after a merge.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas
import pytest

import rolf
from rolf.errors import IncompatibleState

pytestmark = pytest.mark.compiled

SAVED = json.loads((Path(__file__).parents[2] / "data" / "states_v1.json").read_text())


def reward(arm, t):
    return round(0.3 * "abcd".index(arm) - 0.05 * (t % 5), 4)


def features_of(policy):
    table = pandas.DataFrame(policy.arms.features, index=list("abcd"), columns=["x", "y"])
    return {"features": table} if policy.varying else {}


@pytest.mark.parametrize("label", SAVED)
def test_an_old_state_goes_on(label):
    saved = SAVED[label]
    policy = rolf.Policy.from_state(saved["state"])
    more = features_of(policy)
    for place, key in enumerate(policy.waiting):
        policy.tell(key, reward("abcd"[policy._pending[key].choice.arm], place))
    arms = []
    for t in range(20):
        decision = policy.ask(**more)
        arms.append(decision.arm)
        policy.tell(decision, reward(decision.arm, t))
    assert arms == saved["next"]
    assert np.allclose(policy.estimates(**more), saved["estimates"], rtol=1e-12, atol=1e-12)
    again = rolf.Policy.from_state(json.loads(json.dumps(policy.state())))
    assert again.state()["version"] == 2
    assert again.ask(**more).arm == policy.ask(**more).arm


@pytest.mark.parametrize("label", SAVED)
def test_old_states_merge(label):
    saved = SAVED[label]
    merged = rolf.Policy.from_state(rolf.Policy.merge(saved["state"], seed=1))
    assert np.allclose(merged.estimates(**features_of(merged)), saved["merged"], atol=1e-12)
    policy = rolf.Policy.from_state(saved["state"], seed=1)
    both = rolf.Policy.merge(saved["state"], policy.state(), base=saved["state"], seed=1)
    assert rolf.Policy.from_state(both).rounds == policy.rounds


def test_a_damaged_old_state_is_refused():
    good = SAVED["linucb"]["state"]
    without = {path: each for path, each in good["state"].items() if path != "ridge.sums"}
    for state in (without, [], {**good["state"], "ridge.root": [[1.0]]}):
        with pytest.raises(IncompatibleState, match="damaged"):
            rolf.Policy.from_state({**good, "state": state})
