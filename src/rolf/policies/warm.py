"""Compile what a policy will need, before anybody waits for it."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Any

import numpy as np

from rolf.errors import RolfError, RolfWarning
from rolf.policies.arrays import copied
from rolf.policies.base import Policy
from rolf.policies.operations import estimate, probabilities, rebuild

_warm: set[Any] = set()


def warm(policy: Policy) -> None:
    """Compile, or load, all that ``ask`` and ``tell`` call, so that neither has to wait for it.

    The policy itself does not change. Once done for a kind of policy, it takes microseconds.
    """
    kind = _kind_of(policy)
    if kind in _warm:
        return
    small = _small_copy(policy)
    if small is not None and _kind_of(small) == kind:
        _rehearse(small, small._state)
    else:  # compiled code depends on what the arrays look like, so nothing but its own will do
        _rehearse(policy, copied(policy._state))
    _warm.add(kind)


def warm_posterior() -> None:
    """Compile what intervals and the chances of being best need, of any policy's arms, and what a
    diagnosis needs."""
    from rolf.policies.rolf_bayes import RoLFBayes

    for rewards in ("real", "binary"):
        policy = RoLFBayes([[0.0], [1.0]], rewards=rewards, seed=0)
        policy.learn([0, 1], [0.0, 1.0])
        policy.intervals()
        policy.best(draws=2)


def _small_copy(policy: Policy) -> Policy | None:
    """A policy of the same kind with few arms and no experience; None if there is none."""
    arms, size = policy.arms.features.shape
    features = np.random.default_rng(0).standard_normal((min(arms, size + 2), size))
    cls: Any = type(policy)
    with warnings.catch_warnings(), suppress(RolfError):
        warnings.simplefilter("ignore", RolfWarning)
        small: Policy = cls(features, seed=0, **policy.options)
        return small
    return None


def _rehearse(policy: Policy, state: Any) -> None:
    """Decide and learn twice per arm, and rebuild."""
    params, features = policy.params, policy.arms.features
    everything, rng = np.arange(policy.arms.count), np.random.default_rng(0)
    for round in range(2 * min(policy.arms.count, 10)):
        choice = policy._choose(params, state, features, everything, rng)
        reward = float(round % 2)
        row = policy._kept_features(params, features, choice.arm)
        policy._update(params, state, choice._replace(matched=True), row, reward)
    estimate(params, state, features)
    probabilities(params, state, features, everything, 2)
    rebuild(params, state)


def _kind_of(policy: Policy) -> Any:
    """Equal for policies that call the same compiled code."""
    return type(policy), _layout(policy.params), _layout(policy._state)


def _layout(part: Any) -> Any:
    """What compiled code depends on: classes, and types and layouts of arrays, not their sizes."""
    if isinstance(part, np.ndarray):
        flags = part.flags
        order = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        return part.dtype.str, part.ndim, order, flags.writeable
    if hasattr(part, "_fields"):
        return (type(part), *map(_layout, part))
    return type(part)
