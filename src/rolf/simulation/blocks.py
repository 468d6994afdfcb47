"""RoLF over very many rounds: a block of rounds at a time.

For arms whose augmented features are the unit vectors everything that RoLF-Ridge and RoLF-Lasso
know is the number and the sum of each arm's rewards. While the greedy arm stays the same, how often
the other arms are played is a sum of independent coins, and the sum of their rewards is normal. So
a block of rounds can be drawn at once. A block is a small share of the rounds before it; the greedy
arm is determined again after each block, not after each round, which is the only approximation.
Rounds without a match, of which there are fewer than 2 delta in expectation, are not simulated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rolf import theory
from rolf.checks import generator, whole
from rolf.types import FloatArray, IntArray

#: a block as a share of the rounds before it
SHARE = 0.005


class BlockRuns(NamedTuple):
    """After each of some rounds (C,): regret (C, runs), largest error of an estimated reward
    (C, runs), and how often every arm was played (C, runs, K)."""

    rounds: IntArray
    regret: FloatArray
    errors: FloatArray
    plays: FloatArray


class Settings(NamedTuple):
    """What RoLF is told: p, delta, sigma, and how many of its rounds until t are forced."""

    p: float
    delta: float
    noise: float
    forced: Callable[[int], int]


def ridge_estimates(
    counts: FloatArray, sums: FloatArray, round: int, settings: Settings
) -> FloatArray:
    """RoLF-Ridge: penalty p."""
    return sums / (counts + settings.p)


def lasso_estimates(
    counts: FloatArray, sums: FloatArray, round: int, settings: Settings
) -> FloatArray:
    """RoLF-Lasso with the penalties of the theory."""
    first, second = theory.lasso_penalties(
        round,
        counts.shape[1],
        sigma_max=1.0,
        noise=settings.noise,
        p=settings.p,
        delta=settings.delta,
    )
    total = counts.sum(axis=1, keepdims=True)
    imputed = _soft(sums, first / 2.0) / np.maximum(counts, 1.0)
    pseudo = total * imputed + (sums - counts * imputed) / settings.p
    out: FloatArray = _soft(pseudo, second / 2.0) / np.maximum(total, 1.0)
    return out


def _soft(values: FloatArray, threshold: float) -> FloatArray:
    out: FloatArray = np.sign(values) * np.maximum(np.abs(values) - threshold, 0.0)
    return out


def theory_forced(factor: float, arms: int, delta: float) -> Callable[[int], int]:
    """How many of the first t rounds are forced by the theory."""
    return lambda t: theory.exploration_rounds(factor, arms, t, delta=delta) if t else 0


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
        runs: how many; all are played at once.
        seed: of all draws.
        share: of a block in the rounds before it.
    """
    truth = np.asarray(means, dtype=np.float64)
    arms, rng = truth.size, generator(seed)
    runs = whole("runs", runs, 1)
    gaps = truth.max() - truth
    counts, sums = np.zeros((2, runs, arms))
    regret, errors, plays = [], [], []
    done = 0
    for stop in rounds:
        while done < stop:
            size = min(max(1, int(share * done)), stop - done)
            forced = settings.forced(done + size) - settings.forced(done)
            more = rng.multinomial(forced, np.full(arms, 1.0 / arms), size=runs).astype(np.float64)
            free = size - forced
            if free:
                known = estimates(counts, sums, max(done, 1), settings)
                greedy = known.argmax(axis=1)
                leave = rng.binomial(free, _chance(done, size), size=runs)
                others = rng.multinomial(leave, np.full(arms - 1, 1.0 / (arms - 1)))
                places = (greedy[:, None] + np.arange(1, arms)) % arms
                np.put_along_axis(
                    more, places, np.take_along_axis(more, places, axis=1) + others, axis=1
                )
                more[np.arange(runs), greedy] += free - leave
            counts += more
            sums += more * truth
            sums += settings.noise * np.sqrt(more) * rng.standard_normal(more.shape)
            done += size
        regret.append(counts @ gaps)
        known = estimates(counts, sums, done, settings)
        errors.append(np.abs(known - truth).max(axis=1))
        plays.append(counts.copy())
    return BlockRuns(np.array(rounds), np.array(regret), np.array(errors), np.array(plays))


def _chance(done: int, size: int) -> float:
    """The chance to leave the greedy arm, averaged over the next rounds."""
    if size == 1:
        return 1.0 / math.sqrt(done + 1.0)
    # the sum of t^(-1/2) by Euler and Maclaurin; blocks start after many rounds
    first, last = done + 0.5, done + size + 0.5
    return min(1.0, 2.0 * (math.sqrt(last) - math.sqrt(first)) / size)
