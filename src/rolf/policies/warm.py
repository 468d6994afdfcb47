"""Compile what a policy needs ahead of time, so that no call has to wait for it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from rolf.arms.table import Arms
from rolf.errors import InvalidArgument, RolfError, RolfWarning
from rolf.policies.policy import Policy
from rolf.policies.posterior_policy import PosteriorPolicy
from rolf.policies.registry import check_options, policy_class
from rolf.policies.state.arrays import copied
from rolf.policies.state.pending import Pending

#: features of two arms: compiled code does not depend on the number of arms
SMALL = [[0.0], [1.0]]

_warm: set[Any] = set()


def warm_up(policy: Any, *, options: Mapping[str, Any] | None = None) -> None:
    """Compile or load what a policy calls, so that no ``ask``, ``tell`` or status waits for it.

    Call it when a process starts. ``rolf compile`` does the same for all later processes.

    Args:
        policy: a policy, which is left unchanged, or a name as in ``rolf.open_experiment``.
        options: of the named policy.

    >>> warm_up("ucb")
    """
    if isinstance(policy, Policy):
        if options is not None:
            raise InvalidArgument("options", options, "nothing: this policy has its options")
        warm(policy)
    else:
        cls: Any = policy_class(policy)
        check_options(cls, options or {})
        warm(cls(SMALL, seed=0, **(options or {})))
    warm_posterior()


def warm(policy: Policy) -> None:
    """Compile or load everything that ``ask`` and ``tell`` call, so that neither has to wait.

    The policy itself is left unchanged. After the first call for a kind of policy, this takes
    microseconds.
    """
    kind = _kind_of(policy)
    if kind in _warm:
        return
    small = _small_copy(policy)
    if small is not None and _kind_of(small) == kind:
        _rehearse(small, small.state)
    else:  # compiled code depends on the layout of arrays, so only its own state will do
        _rehearse(policy, copied(policy.state))
    _warm.add(kind)


def warm_posterior() -> None:
    """Compile what intervals, probabilities of being best and diagnoses need, for any policy."""
    from rolf.policies.rolf_bayes import RoLFBayes

    for rewards in ("real", "binary"):
        warm(RoLFBayes(SMALL, rewards=rewards, seed=0))


def _small_copy(policy: Policy) -> Policy | None:
    """A policy of the same kind with few arms and no experience; None if that is impossible."""
    arms, size = policy.arms.features.shape
    features = np.random.default_rng(0).standard_normal((min(arms, size + 2), size))
    cls: Any = type(policy)
    with warnings.catch_warnings(), suppress(RolfError):
        warnings.simplefilter("ignore", RolfWarning)
        small: Policy = cls(features, seed=0, **policy.options)
        return small
    return None


def _rehearse(policy: Policy, state: Any) -> None:
    """Call everything that a user may call, on a double of the policy with this state."""
    double = policy.double(state)
    table: dict[str, Any] = {}
    if policy.varying:  # also if a context gives the features
        table = {"features": policy.typical_features()}
        double = policy.double(state, context=None, arms=Arms(table["features"], None))
    low, high = policy.reward_range
    for round in range(2 * min(policy.arms.count, 10)):
        decision = Policy.ask(double, **table)
        choice, row = double.decisions.by_id[decision.id]
        double.decisions.by_id[decision.id] = Pending(choice._replace(matched=True), row)
        Policy.tell(double, decision, min(max(float(round % 2), low), high))
    with suppress(RolfError):  # not every policy can
        rows = {name: rows[:2] for name, rows in table.items()}
        Policy.learn(double, double.arms.labels[:2], [max(low, 0.0), min(high, 1.0)], **rows)
    Policy.estimates(double, **table)
    Policy.probabilities(double, **table, draws=2)
    double.recompute()
    if isinstance(double, PosteriorPolicy):
        double.intervals(**table)
        double.probability_best(**table, draws=2)


def _kind_of(policy: Policy) -> Any:
    """A key that is equal for policies that call the same compiled code."""
    return type(policy), _layout(policy.params), _layout(policy.state)


def _layout(part: Any) -> Any:
    """What compiled code depends on: classes, and the types and layouts of arrays, not their
    sizes."""
    if isinstance(part, np.ndarray):
        flags = part.flags
        order = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        return part.dtype.str, part.ndim, order, flags.writeable
    if hasattr(part, "_fields"):
        return (type(part), *map(_layout, part))
    return type(part)
