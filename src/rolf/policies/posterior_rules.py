"""How to decide from a posterior over the scales: by a bound, by what is left to gain, by chance.

``PosteriorBound``: the score of an arm is its mean plus a number of standard deviations that grows
with the rounds t,

    sqrt(width^2 + 2 log(1 + t/STEADY)),

less for arms that are well known (``estimators/bounds.py``). As it grows without end, every arm is
tried again for ever.

``PosteriorGain``: the score of an arm is its mean plus what looking at it gains over the rounds
that are left. n more rewards move the mean of an arm by a normal amount; what is gained is how far
it is then expected to be above the best mean of the others (or, for the best arm itself, the
others above it), for the rest of the rounds, per look, with the n of 1 to 64 that gains most.
The expectation is the larger one of two: over the mixture as one normal distribution with
``SPARE`` times its variance, and over the components one by one, in which an arm may be far better
than on average.

``PosteriorDraws``: an arm's chance is the share of draws from the posterior in which it is best.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rolf.estimators.bounds import upper_bounds
from rolf.estimators.chances import win_shares
from rolf.estimators.mixture import Believed, believed, in_rewards, mixture
from rolf.kernel import implement, looped, shared
from rolf.linalg import argmax
from rolf.policies.rules import Situation, bounds, odds
from rolf.types import FloatArray, IntArray

#: rounds after which the bonus starts to grow
STEADY = 300.0
#: looks at an arm that are considered: 1, 2, 4, ..., 64; in single components every third of them
LOOKS = 7
#: by how much the variance is taken to be larger than it is believed to be
SPARE = 1.5
#: weight from which a component counts, and deviations beyond which nothing is to be gained
COUNTS = 1e-3
FAR = 5.0


class PosteriorBound(NamedTuple):
    """The bonus of an arm of which little is known, in posterior standard deviations."""

    width: float


def _bounds(bound: PosteriorBound, now: Situation, round: int) -> tuple[FloatArray, FloatArray]:
    mean, variance, noise = mixture(believed(now.model, now.belief, now.features))
    width = math.sqrt(bound.width**2 + 2.0 * math.log1p(round / STEADY))
    upper = upper_bounds(now.model, now.belief, mean, variance, noise, now.waiting, width)
    return mean, upper


implement(PosteriorBound, {bounds: _bounds})


class PosteriorGain(NamedTuple):
    """The number of rounds, and the bound for what comes after them."""

    horizon: float
    later: PosteriorBound


def _gain_bounds(rule: PosteriorGain, now: Situation, round: int) -> tuple[FloatArray, FloatArray]:
    left = rule.horizon - round
    known = in_rewards(now.model, believed(now.model, now.belief, now.features))
    mean, variance, noise = mixture(known)
    if left < 0.0 or noise < 0.0:
        return bounds(rule.later, now, round)
    gains = expected_gains(known, mean, variance, noise, now.waiting, now.available, left)
    return mean, mean + gains


implement(PosteriorGain, {bounds: _gain_bounds})


@shared
def excess(gap: float, deviation: float) -> float:
    """What a normal variable with mean ``gap`` is expected to be above zero, where it is."""
    if gap > -FAR * deviation and deviation > 0.0:
        z = gap / deviation
        density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        return deviation * density + 0.5 * gap * math.erfc(-z / math.sqrt(2.0))
    return max(gap, 0.0)


@shared
def moved(variance: float, noise: float) -> float:
    """By how much a mean with this variance moves when something with this noise is seen."""
    return variance / math.sqrt(variance + noise) if variance > 0.0 else 0.0


@looped
def expected_gains(
    known: Believed,
    mean: FloatArray,
    variance: FloatArray,
    noise: float,
    waiting: FloatArray,
    available: IntArray,
    left: float,
) -> FloatArray:
    """What looking at each available arm is expected to gain per look while ``left`` rounds
    follow; (K,)."""
    top = argmax(mean, available)
    runner = -1
    for a in available:
        if a != top and (runner < 0 or mean[a] > mean[runner]):
            runner = a
    out = np.zeros(mean.size)
    if runner < 0:
        return out
    gains = np.empty(LOOKS)
    for a in available:
        # the arm that it may overtake, or that may turn out to be better than the best
        rival = runner if a == top else top
        sign = -1.0 if a == top else 1.0
        for k in range(LOOKS):
            gains[k] = 0.0
        for g in range(known.weights.size):
            if known.weights[g] > COUNTS:
                ratio = max(known.variances[g, a], 0.0)
                spread = known.noises[g] * ratio / (1.0 + waiting[a] * ratio)
                gap = sign * (known.means[g, a] - known.means[g, rival])
                if gap > -FAR * math.sqrt(spread):
                    for k in range(0, LOOKS, 3):
                        step = moved(spread, known.noises[g] / 2.0**k)
                        gains[k] += known.weights[g] * excess(gap, step)
        spread = variance[a] / (1.0 + waiting[a] * variance[a] / noise)
        gap = sign * (mean[a] - mean[rival])
        for k in range(LOOKS):
            step = moved(SPARE * spread, noise / 2.0**k)
            gain = max(gains[k], excess(gap, step))
            out[a] = max(out[a], gain * (left / 2.0**k - 1.0))
    return out


class PosteriorDraws(NamedTuple):
    """How many draws are taken in a round."""

    draws: int


def _odds(rule: PosteriorDraws, now: Situation, round: int) -> tuple[FloatArray, FloatArray]:
    known = believed(now.model, now.belief, now.features)
    mean, _, _ = mixture(known)
    shares = win_shares(
        now.model, now.belief, known, now.features, now.available, rule.draws, round
    )
    return mean, shares


implement(PosteriorDraws, {odds: _odds})
