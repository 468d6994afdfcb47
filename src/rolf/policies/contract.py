"""The part of a policy's contract that experiments check before they rely on a user's class.

``operations.py`` states the contract; ``rolf.testing.check_policy`` checks all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rolf.errors import InvalidArgument, RolfError
from rolf.estimators import contract as estimators
from rolf.kernel import has_body
from rolf.policies.catalogue import CATALOG
from rolf.policies.core.parts import Params
from rolf.policies.policy import Policy
from rolf.policies.registry import policy_name
from rolf.policies.state.arrays import arrays, copied, find
from rolf.types import FloatArray

ROUNDS = 12

_checked: set[type] = set()


def check_choose(cls: type[Policy], features: FloatArray, options: dict[str, Any]) -> None:
    """Check that ``choose`` changes only ``clock`` and ``waiting``, and those as it must.

    The policy is played for a few rounds. Each class is checked once per process; the classes
    of the catalogue are covered by the tests.
    """
    if cls in _checked or policy_name(cls) in CATALOG:
        return
    build: Any = cls
    policy: Policy = build(features, seed=0, **options)
    low, high = policy.reward_range
    rewards = np.clip(np.linspace(-1.0, 1.0, ROUNDS), max(low, -1.0), min(high, 1.0))
    everything = np.arange(policy.arms.count)
    state, rng = policy._state, np.random.default_rng(0)
    for reward in rewards:
        before = copied(state)
        choice = policy._choose(policy.params, state, features, everything, rng)
        for path, step, expected in wrong_steps(before, state, choice.arm):
            name = f"{cls.__module__}.{cls.__qualname__}"
            raise InvalidArgument(f"{name}: choose changes state.{path}", step, expected)
        row = policy._kept_features(policy.params, features, choice.arm)
        policy._update(policy.params, state, choice, row, float(reward))
    _checked.add(cls)


def check_growth(policy: Policy) -> None:
    """Refuse to add arms where what is known of the others cannot be carried over."""
    if isinstance(policy.params, Params):
        model = policy.params.model
        if has_body(estimators.check_growth, type(model)):
            try:
                estimators.check_growth(model)
            except ValueError as error:
                raise RolfError(f"{policy.name} cannot get new arms: {error}") from error


def wrong_steps(before: Any, after: Any, arm: int) -> Iterator[tuple[str, list[Any], str]]:
    """What a choice of ``arm`` must not have changed like this: the path of each such array, how
    it changed, and what was expected."""
    for path, array in arrays(after):
        step = array - find(before, path)
        if path == "clock":
            fine = step[0] == 1 and np.isin(step, (0, 1)).all()
            expected = "an increase by 1 per round"
        elif path == "waiting":
            fine = step[arm] == 1.0 and np.count_nonzero(step) == 1
            expected = "an increase by 1 for the chosen arm"
        else:
            fine, expected = not step.any(), "no change: only update may change it"
        if not fine:
            yield path, step.tolist(), expected
