"""RoLF over very many rounds: a block of rounds at a time.

For arms whose augmented features are the unit vectors everything that RoLF-Ridge and RoLF-Lasso
know is the number and the sum of each arm's rewards. While the greedy arm stays the same, how often
the other arms are played is a sum of independent coins, and the sum of their rewards is normal. So
a block of rounds can be drawn at once. A block ends before any arm has been played more often than
a small share of its plays so far (or once); the greedy arm is determined again after each block,
not after each round, which is the only approximation. Rounds without a match, of which there are
fewer than 2 delta in expectation, are not simulated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rolf import theory
from rolf.checks import generator, whole
from rolf.types import FloatArray, IntArray

#: how often an arm is played in a block, as a share of its plays before
SHARE = 0.01


class BlockRuns(NamedTuple):
    """After each of some rounds (C,): regret (C, runs), largest error of an estimated reward
    (C, runs), and how often every arm was played (C, runs, K)."""

    rounds: IntArray
    regret: FloatArray
    errors: FloatArray
    plays: FloatArray


class Settings(NamedTuple):
    """What RoLF is told: p, delta, sigma, and how many of the first t rounds are forced, for
    any array of t. The greedy arm is left with probability t^-leave."""

    p: float
    delta: float
    noise: float
    forced: Callable[[FloatArray], FloatArray]
    leave: float = 0.5


def ridge_estimates(
    counts: FloatArray, sums: FloatArray, rounds: FloatArray, settings: Settings
) -> FloatArray:
    """RoLF-Ridge: penalty p."""
    return sums / (counts + settings.p)


def lasso_estimates(
    counts: FloatArray, sums: FloatArray, rounds: FloatArray, settings: Settings
) -> FloatArray:
    """RoLF-Lasso with the penalties of the theory."""
    arms = counts.shape[1]
    logs = math.log(2.0 * arms / settings.delta) + 2.0 * np.log(rounds[:, None])
    growth = np.sqrt(rounds[:, None] * logs)
    first, second = theory.penalty_factors(1.0, settings.noise, settings.p)
    total = counts.sum(axis=1, keepdims=True)
    imputed = _soft(sums, first * growth / 2.0) / np.maximum(counts, 1.0)
    pseudo = total * imputed + (sums - counts * imputed) / settings.p
    out: FloatArray = _soft(pseudo, second * growth / 2.0) / np.maximum(total, 1.0)
    return out


def _soft(values: FloatArray, threshold: FloatArray) -> FloatArray:
    out: FloatArray = np.sign(values) * np.maximum(np.abs(values) - threshold, 0.0)
    return out


def theory_forced(factor: float, arms: int, delta: float) -> Callable[[FloatArray], FloatArray]:
    """How many of the first t rounds are forced by the theory."""

    def forced(rounds: FloatArray) -> FloatArray:
        logs = math.log(2.0 * arms / delta) + 2.0 * np.log(np.maximum(rounds, 1.0))
        out: FloatArray = np.minimum(rounds, np.floor(factor * logs) + 1.0)
        return out

    return forced


def play_blocks(
    means: Sequence[float] | FloatArray,
    rounds: Sequence[int],
    settings: Settings,
    *,
    estimates: Callable[..., FloatArray] = ridge_estimates,
    runs: int = 100,
    seed: Any = 0,
    share: float = SHARE,
) -> BlockRuns:
    """Play RoLF, with coupling around the action, on arms with these means.

    Args:
        means: of the arms, at least two.
        rounds: after which to look, ascending.
        settings: of RoLF.
        estimates: ``ridge_estimates`` or ``lasso_estimates``.
        runs: how many; all are played side by side.
        seed: of all draws.
        share: of an arm's plays by which they may grow in a block.
    """
    truth = np.asarray(means, dtype=np.float64)
    rng, runs = generator(seed), whole("runs", runs, 1)
    gaps = truth.max() - truth
    counts, sums = np.zeros((2, runs, truth.size))
    done = np.zeros(runs)
    regret, errors, plays = [], [], []
    for stop in rounds:
        while (left := np.flatnonzero(done < stop)).size:
            known = estimates(counts[left], sums[left], np.maximum(done[left], 1.0), settings)
            greedy = known.argmax(axis=1)
            size = _sizes(counts[left], done[left], greedy, settings.leave, share)
            size = np.minimum(size, stop - done[left])
            forced = settings.forced(done[left] + size) - settings.forced(done[left])
            probability = _probabilities(done[left], size, settings.leave)
            more = _plays(rng, forced, size - forced, probability, greedy, truth.size)
            counts[left] += more
            noise = settings.noise * np.sqrt(more) * rng.standard_normal(more.shape)
            sums[left] += more * truth + noise
            done[left] += size
        regret.append(counts @ gaps)
        errors.append(np.abs(estimates(counts, sums, done, settings) - truth).max(axis=1))
        plays.append(counts.copy())
    return BlockRuns(np.array(rounds), np.array(regret), np.array(errors), np.array(plays))


def _sizes(
    counts: FloatArray, done: FloatArray, greedy: IntArray, leave: float, share: float
) -> FloatArray:
    """How many rounds the next block of each run has."""
    others = counts.copy()
    rows = np.arange(greedy.size)
    own = counts[rows, greedy]
    others[rows, greedy] = math.inf
    least = np.maximum(share * others.min(axis=1), 1.0)
    until = least * (done + 1.0) ** leave * (counts.shape[1] - 1)
    out: FloatArray = np.floor(np.maximum(1.0, np.minimum(share * own, until)))
    return out


def _probabilities(done: FloatArray, size: FloatArray, leave: float) -> FloatArray:
    """The probability of leaving the greedy arm, averaged over the next rounds: a sum of t^-leave,
    by its integral from half a round before to half a round after."""
    ends = (done + size + 0.5) ** (1.0 - leave) - (done + 0.5) ** (1.0 - leave)
    mean = np.minimum(ends / ((1.0 - leave) * size), 1.0)
    out: FloatArray = np.where(size == 1.0, (done + 1.0) ** -leave, mean)
    return out


def _plays(
    rng: np.random.Generator,
    forced: FloatArray,
    free: FloatArray,
    probability: FloatArray,
    greedy: IntArray,
    arms: int,
) -> FloatArray:
    """How often every arm is played in rounds that are forced and in rounds that are not."""
    out = rng.multinomial(forced.astype(np.int64), np.full(arms, 1.0 / arms)).astype(np.float64)
    departures = rng.binomial(free.astype(np.int64), probability)
    others = rng.multinomial(departures, np.full(arms - 1, 1.0 / (arms - 1)))
    rows = np.arange(greedy.size)
    for step in range(1, arms):
        out[rows, (greedy + step) % arms] += others[:, step - 1]
    out[rows, greedy] += free - departures
    return out
