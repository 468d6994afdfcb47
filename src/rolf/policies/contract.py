"""The part of a policy's contract that experiments check before they rely on a user's class.

``operations.py`` states the contract; ``rolf.testing.check_policy`` checks all of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rolf.errors import InvalidArgument
from rolf.policies.arrays import arrays
from rolf.policies.base import Policy
from rolf.policies.registry import CATALOG
from rolf.types import FloatArray

ROUNDS = 12

_checked: set[type] = set()


def check_choose(cls: type[Policy], features: FloatArray, options: dict[str, Any]) -> None:
    """Check that ``choose`` changes only ``clock`` and ``waiting``, and those as it must.

    The policy is played for a few rounds. Each class is checked once per process; the classes
    of the catalogue are covered by the tests.
    """
    if cls in _checked or cls.name in CATALOG:
        return
    build: Any = cls
    policy: Policy = build(features, seed=0, **options)
    low, high = policy.reward_range
    rewards = np.clip(np.linspace(-1.0, 1.0, ROUNDS), max(low, -1.0), min(high, 1.0))
    everything = np.arange(policy.arms.count)
    state, rng = policy._state, np.random.default_rng(0)
    for reward in rewards:
        before = {path: array.copy() for path, array in arrays(state)}
        choice = policy._choose(policy.params, state, features, everything, rng)
        for path, array in arrays(state):
            step = array - before[path]
            if path == "clock":
                fine = step[0] == 1 and np.isin(step, (0, 1)).all()
                expected = "an increase by 1 per round"
            elif path == "waiting":
                fine = step[choice.arm] == 1.0 and np.count_nonzero(step) == 1
                expected = "an increase by 1 for the chosen arm"
            else:
                fine, expected = not step.any(), "no change: that is for update to make"
            if not fine:
                name = f"{cls.__module__}.{cls.__qualname__}"
                raise InvalidArgument(
                    f"{name}: choose changes state.{path}", step.tolist(), expected
                )
        row = features[choice.arm]
        policy._update(policy.params, state, choice, row, float(reward))
    _checked.add(cls)
