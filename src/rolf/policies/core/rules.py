"""How a policy decides, given what is believed: optimistic, sampled, exploring, drawn, coupled.

A rule is a NamedTuple with a body for ``decide`` and ``chances``. Four rules are completed by
one formula each, which the policy's file gives:

* ``Optimistic(bound)`` plays the largest upper bound; ``bounds`` is the formula.
* ``Sampled(sampler)`` plays the largest of values drawn per arm; ``draw`` is the formula.
* ``Exploring(schedule)`` plays the best estimate, or any arm with a probability; ``share`` is
  the formula.
* ``Drawn(rule, explore)`` draws an arm from the chances that another rule gives, or any arm with
  a probability; ``odds`` is the formula.

The fifth, RoLF's ``Coupling``, has a file of its own.
"""

from __future__ import annotations

import math
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
    """What a decision rests on: the estimator's model and belief, the number of decisions per
    arm without their reward, [rounds, forced rounds], the round's features (K, d) and the
    available arms, ascending."""

    model: Any
    belief: Any
    waiting: FloatArray
    clock: IntArray
    features: FloatArray
    available: IntArray


@kernel
def decide(rule: Any, now: Situation, rng: Generator) -> Choice:
    """Count the round and choose an arm."""
    raise NotImplementedError


@kernel
def chances(rule: Any, now: Situation, draws: int) -> FloatArray:
    """Chance of every available arm in the next round. Runs as Python only."""
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
def odds(rule: Any, now: Situation, round: int) -> tuple[FloatArray, FloatArray]:
    """Estimate of every arm, (K,), and the chance of every available arm, (n,), in round t."""
    raise NotImplementedError


@kernel
def share(schedule: Any, round: int) -> float:
    """Chance of a uniform draw in round t."""
    raise NotImplementedError


@shared
def believed_means(now: Situation) -> FloatArray:
    """Estimated mean reward of every arm, (K,)."""
    return means(now.model, now.belief, now.features)


@shared
def unseen_first(counts: FloatArray, upper: FloatArray) -> FloatArray:
    """Upper bounds by which an arm without rewards comes before all others."""
    return np.where(counts > 0.0, upper, UNSEEN)


def _next_chances(rule: Any, now: Situation, draws: int) -> FloatArray:
    """``chances`` of a rule whose odds are known."""
    return odds(rule, now, int(now.clock[0]) + 1)[1]


# --- the largest upper bound -------------------------------------------------------------------


class Optimistic(NamedTuple):
    """Play the arm with the largest upper bound."""

    bound: Any


def _decide_optimistic(rule: Optimistic, now: Situation, rng: Generator) -> Choice:
    now.clock[0] += 1
    estimates, upper = bounds(rule.bound, now, now.clock[0])
    arm, ties, _ = pick(upper, now.available, rng)
    return Choice(arm, 1.0 / ties, argmax(estimates, now.available), arm, True)


def _optimistic_odds(rule: Optimistic, now: Situation, round: int) -> tuple[FloatArray, FloatArray]:
    estimates, upper = bounds(rule.bound, now, round)
    return estimates, tie_shares(upper[now.available])


implement(Optimistic, {decide: _decide_optimistic, chances: _next_chances, odds: _optimistic_odds})

# --- the largest draw --------------------------------------------------------------------------


class Sampled(NamedTuple):
    """Play the arm with the largest value of one draw (Thompson sampling)."""

    sampler: Any


def _decide_sampled(rule: Sampled, now: Situation, rng: Generator) -> Choice:
    now.clock[0] += 1
    drawn = draw(rule.sampler, now, 1, rng)[:, 0].copy()
    arm, _, _ = pick(drawn, now.available, rng)
    return Choice(arm, math.nan, argmax(believed_means(now), now.available), arm, True)


def _sampled_chances(rule: Sampled, now: Situation, draws: int) -> FloatArray:
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


implement(Sampled, {decide: _decide_sampled, chances: _sampled_chances})

# --- the best estimate, or any arm -------------------------------------------------------------


class Exploring(NamedTuple):
    """Play the best estimate; with a probability that the schedule gives, any arm."""

    schedule: Any


def _decide_exploring(rule: Exploring, now: Situation, rng: Generator) -> Choice:
    now.clock[0] += 1
    explore = share(rule.schedule, now.clock[0])
    estimates, available = believed_means(now), now.available
    greedy, ties, cutoff = pick(estimates, available, rng)
    arm = greedy
    if rng.random() < explore:
        arm = int(available[int(rng.random() * available.size)])
    probability = explore / available.size
    if estimates[arm] >= cutoff:
        probability += (1.0 - explore) / ties
    return Choice(arm, probability, greedy, arm, True)


def _exploring_chances(rule: Exploring, now: Situation, draws: int) -> FloatArray:
    explore = share(rule.schedule, int(now.clock[0]) + 1)
    best = tie_shares(believed_means(now)[now.available])
    out: FloatArray = explore / now.available.size + (1.0 - explore) * best
    return out


implement(Exploring, {decide: _decide_exploring, chances: _exploring_chances})

# --- from another rule's chances, or any arm ---------------------------------------------------


class Drawn(NamedTuple):
    """Draw from the chances that a rule gives; with probability ``explore``, any arm."""

    rule: Any
    explore: float


def _drawn_odds(rule: Drawn, now: Situation, round: int) -> tuple[FloatArray, FloatArray]:
    estimates, known = odds(rule.rule, now, round)
    return estimates, rule.explore / known.size + (1.0 - rule.explore) * known


def _decide_drawn(rule: Drawn, now: Situation, rng: Generator) -> Choice:
    now.clock[0] += 1
    estimates, known = odds(rule, now, now.clock[0])
    left = rng.random() * known.sum()
    place = 0
    while place < known.size - 1 and left >= known[place]:
        left -= known[place]
        place += 1
    while known[place] == 0.0:  # rounding left something over
        place -= 1
    arm = int(now.available[place])
    return Choice(arm, known[place], argmax(estimates, now.available), arm, True)


implement(Drawn, {decide: _decide_drawn, chances: _next_chances, odds: _drawn_odds})
