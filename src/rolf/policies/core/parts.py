"""A policy composed of an estimator (what is believed) and a rule (how it decides).

The estimator's operations are in ``estimators/contract.py``, the rule's in ``rules.py``. Here
they become the operations of a policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from rolf.estimators import contract as estimators
from rolf.estimators.contract import (
    ArmTotals,
    History,
    Observation,
    begin,
    means,
    observe,
    recompute,
    set_aside,
)
from rolf.estimators.contract import kept_features as model_kept_features
from rolf.kernel import has_body, implement
from rolf.policies.core.rules import Situation, chances, decide
from rolf.policies.operations import (
    choose,
    estimate,
    init,
    kept_features,
    learn,
    learn_totals,
    probabilities,
    rebuild,
    update,
)
from rolf.types import Choice, FloatArray, Generator, IntArray


class Params(NamedTuple):
    """What stays fixed: the estimator's model and the rule."""

    model: Any
    rule: Any


class State(NamedTuple):
    """What is carried: [rounds, forced rounds], decisions without their reward per arm, and
    what is believed."""

    clock: IntArray
    waiting: FloatArray
    belief: Any


def _init(params: Params, arms: int) -> State:
    return State(np.zeros(2, dtype=np.int64), np.zeros(arms), begin(params.model, arms))


def _choose(
    params: Params, state: State, features: FloatArray, available: IntArray, rng: Generator
) -> Choice:
    now = Situation(params.model, state.belief, state.waiting, state.clock, features, available)
    choice = decide(params.rule, now, rng)
    state.waiting[choice.arm] += 1.0
    return choice


def _update(params: Params, state: State, choice: Choice, row: FloatArray, reward: float) -> None:
    state.waiting[choice.arm] -= 1.0
    seen = Observation(choice.arm, reward, row, state.clock[0], choice.probability)
    if choice.matched:
        observe(params.model, state.belief, seen)
    else:
        set_aside(params.model, state.belief, seen)


def _kept_features(params: Params, features: FloatArray, arm: int) -> FloatArray:
    return model_kept_features(params.model, features, arm)


def _estimate(params: Params, state: State, features: FloatArray) -> FloatArray:
    return means(params.model, state.belief, features)


def _probabilities(
    params: Params, state: State, features: FloatArray, available: IntArray, draws: int
) -> FloatArray:
    now = Situation(params.model, state.belief, state.waiting, state.clock, features, available)
    return chances(params.rule, now, draws)


def _rebuild(params: Params, state: State) -> None:
    recompute(params.model, state.belief, int(state.clock[0]))


def _learn(params: Params, state: State, history: History) -> None:
    estimators.learn(params.model, state.belief, history)


def _learn_totals(params: Params, state: State, totals: ArmTotals) -> None:
    estimators.learn_totals(params.model, state.belief, totals)


implement(
    Params,
    {
        init: _init,
        choose: _choose,
        kept_features: _kept_features,
        update: _update,
        estimate: _estimate,
        probabilities: _probabilities,
        rebuild: _rebuild,
        learn: _learn,
        learn_totals: _learn_totals,
    },
)


def part_classes(part: Any) -> Iterator[type]:
    """The classes of a NamedTuple and of all NamedTuples in it."""
    if hasattr(part, "_fields"):
        yield type(part)
        for each in part:
            yield from part_classes(each)


def can_learn(operation: Callable[..., None], params: Any) -> bool:
    """Whether a policy has a body for ``learn`` or ``learn_totals``; if composed, its estimator."""
    if isinstance(params, Params):
        return has_body(getattr(estimators, operation.__name__), type(params.model))
    return has_body(operation, type(params))
