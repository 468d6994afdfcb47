"""Checks of what every policy must keep to, for classes that come from outside.

``operations.py`` states the contract. The checks here play a policy for a few rounds; all of them
together, with the tests that hold for every policy, are ``rolf.testing.check_policy``.
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
    """Whether ``choose`` moves only the clock and what waits, and counts as it must.

    Experiments rely on it: they replay decisions by counting these on, and take decisions back
    by counting them back. A class is checked once per process; those of the catalogue are
    checked by their tests.
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
                wanted = "counted on by 1 per round"
            elif path == "waiting":
                fine = step[choice.arm] == 1.0 and np.count_nonzero(step) == 1
                wanted = "counted on by 1 for the chosen arm"
            else:
                fine, wanted = not step.any(), "left as it is: only update may change it"
            if not fine:
                name = f"{cls.__module__}.{cls.__qualname__}"
                raise InvalidArgument(f"{name}: choose changes state.{path}", step.tolist(), wanted)
        row = features[choice.arm]
        policy._update(policy.params, state, choice, row, float(reward))
    _checked.add(cls)
