"""A policy is an estimator (what to believe) and a rule (how to decide), composed here.

The estimator's operations are in ``estimators/contract.py``, the rule's in ``rules.py``. The
functions below compose them for every policy. Beyond the contract of rules, they guarantee:

1. ``decide`` changes nothing but ``clock`` and ``pending``.
2. Everything else changes in ``observe``, which also removes the decision from ``pending`` and
   draws no random numbers.
3. The totals (``Traits.totals``) add up unless ``Traits.additive`` says why not: the totals of two
   workers that started empty sum to those of one worker with all their rewards. ``recompute``
   computes everything else from the totals, up to rounding. Late rewards, merging and changes of
   arms rely on this.

``rolf.testing.check_policy(MyPolicy)`` checks all of it. Online these functions run as Python;
simulations compile the same ``decide``, ``keep`` and ``observe``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from rolf.estimators import contract as estimators
from rolf.estimators.contract import ArmTotals, History, Observation
from rolf.kernel import shared
from rolf.policies.core import rules
from rolf.policies.core.rules import Situation
from rolf.types import Choice, FloatArray, Generator, IntArray


class Params(NamedTuple):
    """The fixed part of a policy: the estimator's model and the rule."""

    model: Any
    rule: Any


class State(NamedTuple):
    """What changes from round to round: the clock [rounds, ...], the number of pending decisions
    per arm, and the belief."""

    clock: IntArray
    pending: FloatArray
    belief: Any


def begin(params: Params, arms: int) -> State:
    """The state before the first round."""
    clock = np.zeros(rules.clocks(params.rule), dtype=np.int64)
    return State(clock, np.zeros(arms), estimators.begin(params.model, arms))


@shared
def decide(
    params: Params, state: State, features: FloatArray, available: IntArray, rng: Generator
) -> Choice:
    """Choose an arm for the next round, whose features are ``features`` (K, d)."""
    now = Situation(params.model, state.belief, state.pending, state.clock, features, available)
    choice = rules.decide(params.rule, now, rng)
    state.pending[choice.arm] += 1.0
    return choice


@shared
def keep(params: Params, features: FloatArray, arm: int) -> FloatArray:
    """The part of the round's features that ``observe`` will need, as a vector."""
    return estimators.keep(params.model, features, arm)


@shared
def observe(params: Params, state: State, choice: Choice, row: FloatArray, reward: float) -> None:
    """Learn the reward of an earlier choice; ``row`` is what ``keep`` returned in its round."""
    state.pending[choice.arm] -= 1.0
    seen = Observation(choice.arm, reward, row, state.clock[0], choice.probability)
    if choice.matched:
        estimators.observe(params.model, state.belief, seen)
    else:
        estimators.set_aside(params.model, state.belief, seen)


def means(params: Params, state: State, features: FloatArray) -> FloatArray:
    """Estimated mean reward of every arm, (K,)."""
    return np.array(estimators.means(params.model, state.belief, features))


def probabilities(
    params: Params, state: State, features: FloatArray, available: IntArray, draws: int
) -> FloatArray:
    """The probability of every available arm in the next round, (n,)."""
    now = Situation(params.model, state.belief, state.pending, state.clock, features, available)
    return rules.probabilities(params.rule, now, draws)


def recompute(params: Params, state: State) -> None:
    """Recompute everything that follows from the totals."""
    estimators.recompute(params.model, state.belief, int(state.clock[0]))


def learn(params: Params, state: State, history: History) -> None:
    """Add a history to the totals; call ``recompute`` afterwards."""
    estimators.learn(params.model, state.belief, history)


def learn_totals(params: Params, state: State, totals: ArmTotals) -> None:
    """Add totals per arm to the totals; call ``recompute`` afterwards."""
    estimators.learn_totals(params.model, state.belief, totals)


def part_classes(part: Any) -> Iterator[type]:
    """The classes of a NamedTuple and of all NamedTuples in it."""
    if hasattr(part, "_fields"):
        yield type(part)
        for each in part:
            yield from part_classes(each)
