"""How a policy decides from its belief: optimistic, sampled, exploring, drawn, coupled.

A rule is a NamedTuple with a body for ``decide`` and ``probabilities``, and its file ends with the
table of its operations, ``rule(Rule, {decide: ..., probabilities: ...})``. ``decide`` and the
formulas below are compiled as well; the others run as Python only.

Experiments replay logged decisions by advancing only ``clock`` and ``pending``, and undo a decision
by resetting both. So every rule must obey this contract:

1. ``clock[0]`` is the number of rounds so far, and ``decide`` increments it. Further entries, if
   ``clocks`` asks for them, may also increase, by at most one per decision.
2. ``decide`` changes nothing else and depends on nothing but its arguments: the same situation and
   the same random numbers give the same choice.
3. A probability is exact, or NaN if only draws can estimate it (Thompson sampling).

Four rules are completed by a formula in the policy's file:

* ``Optimistic(bound)`` plays the largest upper bound; ``bounds`` is the formula.
* ``Sampled(sampler)`` plays the largest of values drawn per arm; ``draw`` is the formula.
* ``Exploring(schedule)`` plays the best estimate, or with some probability any arm; ``exploration``
  is the formula.
* ``Drawn(rule, explore)`` draws an arm from another rule's probabilities, or with some probability
  any arm; ``distribution`` is the formula.

The fifth, RoLF's ``Coupling``, is in ``coupling.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from rolf.estimators.contract import means
from rolf.kernel import implement, kernel, shared
from rolf.linalg import argmax, pick, tie_shares
from rolf.types import Choice, FloatArray, Generator, IntArray

UNSEEN = 1e300  # bound of an arm without rewards; finite, so that ties are well defined
#: the most draws, and the most numbers, held in memory at once
BLOCK, NUMBERS = 1000, 2**22


class Situation(NamedTuple):
    """The inputs of a rule: the estimator's model and belief, the number of pending decisions per
    arm, the clock [rounds, ...], the round's features (K, d) and the available arms, ascending."""

    model: Any
    belief: Any
    pending: FloatArray
    clock: IntArray
    features: FloatArray
    available: IntArray


@kernel
def clocks(rule: Any) -> int:
    """The number of clock entries: 1, unless the rule counts more than rounds."""
    raise NotImplementedError


@kernel
def decide(rule: Any, now: Situation, rng: Generator) -> Choice:
    """Count the round and choose an arm."""
    raise NotImplementedError


@kernel
def probabilities(rule: Any, now: Situation, draws: int) -> FloatArray:
    """The probability of every available arm in the next round, (n,).

    If they can only be estimated, the shares of ``draws`` draws from a separate stream.
    """
    raise NotImplementedError


@kernel
def forced_rounds(rule: Any, horizon: int) -> float:
    """How many rounds up to the horizon explore regardless of what has been learned."""
    raise NotImplementedError


@kernel
def bounds(bound: Any, now: Situation, round: int) -> tuple[FloatArray, FloatArray]:
    """Estimate and upper bound of every arm, (K,) each, in round t."""
    raise NotImplementedError


@kernel
def draw(sampler: Any, now: Situation, count: int, rng: Generator) -> FloatArray:
    """``count`` draws of every arm's value, (K, count)."""
    raise NotImplementedError


@kernel
def distribution(rule: Any, now: Situation, round: int) -> tuple[FloatArray, FloatArray]:
    """Estimate of every arm, (K,), and the probability of every available arm, (n,), in
    round t."""
    raise NotImplementedError


@kernel
def exploration(schedule: Any, round: int) -> float:
    """The probability of a uniform draw in round t."""
    raise NotImplementedError


#: the operations of every rule
REQUIRED = (decide, probabilities)


def rule(cls: type, table: Mapping[Callable[..., Any], Callable[..., Any]]) -> None:
    """Register the operations of a rule of this class."""
    implement(cls, {clocks: _rounds_only, forced_rounds: _none_forced, **table})


def _rounds_only(rule: Any) -> int:
    return 1


def _none_forced(rule: Any, horizon: int) -> float:
    return 0.0


@shared
def believed_means(now: Situation) -> FloatArray:
    """Estimated mean reward of every arm, (K,)."""
    return means(now.model, now.belief, now.features)


@shared
def unseen_first(counts: FloatArray, upper: FloatArray) -> FloatArray:
    """Upper bounds that put arms without rewards before all others."""
    return np.where(counts > 0.0, upper, UNSEEN)


def _next_probabilities(rule: Any, now: Situation, draws: int) -> FloatArray:
    """``probabilities`` of a rule with a ``distribution``."""
    return distribution(rule, now, int(now.clock[0]) + 1)[1]


# --- the largest upper bound -------------------------------------------------------------------


class Optimistic(NamedTuple):
    """Play the arm with the largest upper bound."""

    bound: Any


def _decide_optimistic(rule: Optimistic, now: Situation, rng: Generator) -> Choice:
    now.clock[0] += 1
    estimates, upper = bounds(rule.bound, now, now.clock[0])
    arm, ties, _ = pick(upper, now.available, rng)
    return Choice(arm, 1.0 / ties, argmax(estimates, now.available), arm, True)


def _optimistic_distribution(
    rule: Optimistic, now: Situation, round: int
) -> tuple[FloatArray, FloatArray]:
    estimates, upper = bounds(rule.bound, now, round)
    return estimates, tie_shares(upper[now.available])


rule(
    Optimistic,
    {
        decide: _decide_optimistic,
        probabilities: _next_probabilities,
        distribution: _optimistic_distribution,
    },
)

# --- the largest draw --------------------------------------------------------------------------


class Sampled(NamedTuple):
    """Play the arm with the largest value of one draw (Thompson sampling)."""

    sampler: Any


def _decide_sampled(rule: Sampled, now: Situation, rng: Generator) -> Choice:
    now.clock[0] += 1
    drawn = draw(rule.sampler, now, 1, rng)[:, 0].copy()
    arm, _, _ = pick(drawn, now.available, rng)
    return Choice(arm, math.nan, argmax(believed_means(now), now.available), arm, True)


def _sampled_probabilities(rule: Sampled, now: Situation, draws: int) -> FloatArray:
    """How often each available arm wins among draws from a separate stream."""
    rng = np.random.default_rng([int(now.clock[0]), draws])
    wins = np.zeros(now.available.size)
    block = max(1, min(BLOCK, NUMBERS // now.features.shape[0]))
    for start in range(0, draws, block):
        drawn = draw(rule.sampler, now, min(block, draws - start), rng)[now.available]
        winners, draw_of = np.nonzero(drawn == drawn.max(axis=0))
        shares = 1.0 / np.bincount(draw_of)
        wins += np.bincount(winners, shares[draw_of], wins.size)
    return wins / draws


rule(Sampled, {decide: _decide_sampled, probabilities: _sampled_probabilities})

# --- the best estimate, or any arm -------------------------------------------------------------


class Exploring(NamedTuple):
    """Play the best estimate; with the schedule's probability, any arm."""

    schedule: Any


def _decide_exploring(rule: Exploring, now: Situation, rng: Generator) -> Choice:
    now.clock[0] += 1
    explore = exploration(rule.schedule, now.clock[0])
    estimates, available = believed_means(now), now.available
    greedy, ties, cutoff = pick(estimates, available, rng)
    arm = greedy
    if rng.random() < explore:
        arm = int(available[int(rng.random() * available.size)])
    probability = explore / available.size
    if estimates[arm] >= cutoff:
        probability += (1.0 - explore) / ties
    return Choice(arm, probability, greedy, arm, True)


def _exploring_probabilities(rule: Exploring, now: Situation, draws: int) -> FloatArray:
    explore = exploration(rule.schedule, int(now.clock[0]) + 1)
    best = tie_shares(believed_means(now)[now.available])
    out: FloatArray = explore / now.available.size + (1.0 - explore) * best
    return out


rule(Exploring, {decide: _decide_exploring, probabilities: _exploring_probabilities})

# --- from another rule's probabilities, or any arm ---------------------------------------------


class Drawn(NamedTuple):
    """Draw from another rule's probabilities; with probability ``explore``, any arm."""

    rule: Any
    explore: float


def _drawn_distribution(rule: Drawn, now: Situation, round: int) -> tuple[FloatArray, FloatArray]:
    estimates, shares = distribution(rule.rule, now, round)
    return estimates, rule.explore / shares.size + (1.0 - rule.explore) * shares


def _decide_drawn(rule: Drawn, now: Situation, rng: Generator) -> Choice:
    now.clock[0] += 1
    estimates, shares = distribution(rule, now, now.clock[0])
    left = rng.random() * shares.sum()
    place = 0
    while place < shares.size - 1 and left >= shares[place]:
        left -= shares[place]
        place += 1
    while shares[place] == 0.0:  # rounding errors carried it too far
        place -= 1
    arm = int(now.available[place])
    return Choice(arm, shares[place], argmax(estimates, now.available), arm, True)


rule(
    Drawn,
    {decide: _decide_drawn, probabilities: _next_probabilities, distribution: _drawn_distribution},
)
