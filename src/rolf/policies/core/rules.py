"""How a policy decides from what is believed: optimistic, sampled, exploring, drawn, coupled.

A rule is a NamedTuple with a body for ``decide`` and ``probabilities``, and its file ends with the
table of its operations, ``rule(Rule, {decide: ..., probabilities: ...})``. ``decide`` and the
formulas below are compiled as well; the others run as Python only.

What every rule must keep to, because experiments replay logged decisions by advancing ``clock``
and ``pending`` alone, and undo a decision by setting both back:

1. ``clock[0]`` is the number of rounds so far, and ``decide`` increments it. Further entries, for
   which ``clocks`` makes room, may also go up, by at most one per decision.
2. ``decide`` changes nothing else. It depends on nothing but its arguments: the same situation and
   the same random numbers give the same choice.
3. A probability is exact, or NaN where it can only be estimated by draws (Thompson sampling).

Four rules are completed by one formula each, which the policy's file gives:

* ``Optimistic(bound)`` plays the largest upper bound; ``bounds`` is the formula.
* ``Sampled(sampler)`` plays the largest of values drawn per arm; ``draw`` is the formula.
* ``Exploring(schedule)`` plays the best estimate, or any arm with a probability; ``exploration``
  is the formula.
* ``Drawn(rule, explore)`` draws an arm from the probabilities that another rule gives, or any arm
  with a probability; ``distribution`` is the formula.

The fifth, RoLF's ``Coupling``, has a file of its own.
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

UNSEEN = 1e300  # bound of an arm without rewards; finite, so that ties can be measured
#: draws at once, and numbers that these may take, so that memory stays bounded
BLOCK, NUMBERS = 1000, 2**22


class Situation(NamedTuple):
    """What a decision rests on: the estimator's model and belief, how many decisions per arm
    are pending, the clock [rounds, ...], the round's features (K, d) and the available arms,
    ascending."""

    model: Any
    belief: Any
    pending: FloatArray
    clock: IntArray
    features: FloatArray
    available: IntArray


@kernel
def clocks(rule: Any) -> int:
    """How many entries the clock has: 1, unless the rule counts more than rounds."""
    raise NotImplementedError


@kernel
def decide(rule: Any, now: Situation, rng: Generator) -> Choice:
    """Count the round and choose an arm."""
    raise NotImplementedError


@kernel
def probabilities(rule: Any, now: Situation, draws: int) -> FloatArray:
    """The probability of every available arm in the next round, (n,).

    Where it can only be estimated, the share of ``draws`` draws from a stream of their own.
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


#: what every rule has
REQUIRED = (decide, probabilities)


def rule(cls: type, table: Mapping[Callable[..., Any], Callable[..., Any]]) -> None:
    """The operations of a rule of this class."""
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
    """Upper bounds by which an arm without rewards comes before all others."""
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
    """How often each available arm wins among draws of a stream of their own."""
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
    """Play the best estimate; with a probability that the schedule gives, any arm."""

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
    """Draw from the probabilities that a rule gives; with probability ``explore``, any arm."""

    rule: Any
    explore: float


def _drawn_distribution(rule: Drawn, now: Situation, round: int) -> tuple[FloatArray, FloatArray]:
    estimates, known = distribution(rule.rule, now, round)
    return estimates, rule.explore / known.size + (1.0 - rule.explore) * known


def _decide_drawn(rule: Drawn, now: Situation, rng: Generator) -> Choice:
    now.clock[0] += 1
    estimates, known = distribution(rule, now, now.clock[0])
    left = rng.random() * known.sum()
    place = 0
    while place < known.size - 1 and left >= known[place]:
        left -= known[place]
        place += 1
    while known[place] == 0.0:  # rounding left something over
        place -= 1
    arm = int(now.available[place])
    return Choice(arm, known[place], argmax(estimates, now.available), arm, True)


rule(
    Drawn,
    {decide: _decide_drawn, probabilities: _next_probabilities, distribution: _drawn_distribution},
)
