"""The part of a policy's contract that experiments check before they rely on a user's class.

``core/parts.py`` and ``core/rules.py`` state it; ``rolf.testing.check_policy`` checks all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rolf.errors import InvalidArgument, RolfError
from rolf.estimators import contract as estimators
from rolf.policies.catalogue import CATALOG
from rolf.policies.core.rounds import Round
from rolf.policies.policy import Policy
from rolf.policies.registry import policy_name
from rolf.policies.state.arrays import arrays, copied, find
from rolf.types import FloatArray

ROUNDS = 12

_checked: set[type] = set()


def check_decide(cls: type[Policy], features: FloatArray, options: dict[str, Any]) -> None:
    """Check that ``decide`` changes only ``clock`` and ``pending``, and changes them correctly.

    The policy is played for a few rounds. Each class is checked once per process; tests cover the
    classes of the catalogue.
    """
    if cls in _checked or policy_name(cls) in CATALOG:
        return
    build: Any = cls
    policy: Policy = build(features, seed=0, **options)
    low, high = policy.reward_range
    rewards = np.clip(np.linspace(-1.0, 1.0, ROUNDS), max(low, -1.0), min(high, 1.0))
    round = Round(np.arange(policy.arms.count), features)
    rng = np.random.default_rng(0)
    for reward in rewards:
        before = copied(policy.state)
        choice, _ = policy.decide(round, rng)
        for path, step, expected in wrong_steps(before, policy.state, choice.arm):
            name = f"{cls.__module__}.{cls.__qualname__}"
            raise InvalidArgument(f"{name}: decide changes state.{path}", step, expected)
        policy.observe(choice, policy.keep(features, choice.arm), float(reward))
    _checked.add(cls)


def check_replaceable(policy: Policy) -> None:
    """Refuse default rewards for a policy whose totals do not add up: late rewards replace them."""
    if policy.traits.additive is not True:
        name = policy.name or type(policy).__name__
        expected = f"nothing: {name} cannot undo a reward ({policy.traits.additive})"
        raise InvalidArgument("default_reward", "a number", expected)


def check_growth(policy: Policy) -> None:
    """Refuse new arms for a policy that cannot carry over what it knows about the others."""
    try:
        estimators.check_growth(policy.params.model)
    except ValueError as error:
        raise RolfError(f"{policy.name} cannot get new arms: {error}") from error


def wrong_steps(before: Any, after: Any, arm: int) -> Iterator[tuple[str, list[Any], str]]:
    """The arrays that a choice of ``arm`` changed wrongly: path, change, and expected change."""
    for path, array in arrays(after):
        step = array - find(before, path)
        if path == "clock":
            fine = step[0] == 1 and np.isin(step, (0, 1)).all()
            expected = "an increase by 1 per round"
        elif path == "pending":
            fine = step[arm] == 1.0 and np.count_nonzero(step) == 1
            expected = "an increase by 1 for the chosen arm"
        else:
            fine, expected = not step.any(), "no change: only observe may change it"
        if not fine:
            yield path, step.tolist(), expected
