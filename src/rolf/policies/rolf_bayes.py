"""RoLF-Bayes: learns from the rewards how much to trust the features.

The augmented model with three unknown scales: of what the features explain, of what is
latent, of the noise (``estimators/scales.py``). An arm's score is its posterior mean plus
``width`` posterior standard deviations, both over all scales: what is not known about the
weights of the features, about the arm's latent part and about the scales counts together.
Decisions that still wait for their reward narrow an arm's deviation as the reward will, so a
batch is spread over the arms.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rolf.checks import between
from rolf.estimators.posterior import Belief, Grid, absorb, make_grid, mixture, refresh, start
from rolf.estimators.ridge import from_history
from rolf.estimators.scales import weigh
from rolf.kernel import implements, shared
from rolf.linalg import argmax, pick, tie_shares
from rolf.policies.beliefs import Believer, Posterior, due, scores
from rolf.policies.inputs import given, read_features
from rolf.policies.operations import choose, estimate, probabilities, rebuild, update
from rolf.types import Choice, FloatArray, Generator, IntArray, Seed


class Params(NamedTuple):
    grid: Grid
    width: float


class State(NamedTuple):
    clock: IntArray  # rounds
    counts: FloatArray
    sums: FloatArray  # of rewards less the anchor
    squares: FloatArray
    anchor: FloatArray  # the first reward, so that a high level costs no digits
    waiting: FloatArray  # decisions without their reward, per arm
    belief: Belief


def init(params: Params) -> State:
    counts, sums, squares, waiting = np.zeros((4, params.grid.rows.shape[0]))
    clock = np.zeros(1, dtype=np.int64)
    return State(clock, counts, sums, squares, np.zeros(1), waiting, start(params.grid))


@shared
def bounds(params: Params, state: State) -> tuple[FloatArray, FloatArray]:
    """Mean and upper confidence bound of every arm, as decisions see them."""
    mean, variance, noise = mixture(state.belief, state.belief.evidence.cautious)
    return mean, scores(mean, variance, noise, state.waiting, params.width)


@implements(choose, Params)
def _choose(
    params: Params, state: State, features: FloatArray, available: IntArray, rng: Generator
) -> Choice:
    state.clock[0] += 1
    mean, score = bounds(params, state)
    arm, ties, _ = pick(score, available, rng)
    state.waiting[arm] += 1.0
    return Choice(arm, 1.0 / ties, argmax(mean, available), arm, True)


@implements(update, Params)
def _update(params: Params, state: State, choice: Choice, row: FloatArray, reward: float) -> None:
    arm = choice.arm
    seen = state.belief.evidence.seen[0]
    if seen == 0.0:
        state.anchor[0] = reward
    value = reward - state.anchor[0]
    state.waiting[arm] -= 1.0
    state.counts[arm] += 1.0
    state.sums[arm] += value
    state.squares[arm] += value * value
    if due(seen + 1.0, state.counts.size):
        refresh(params.grid, state.belief, state.counts, state.sums, state.squares)
    else:
        absorb(params.grid, state.belief, arm, value, 1.0)
        weigh(params.grid.prior, state.belief.evidence)


@implements(estimate, Params)
def _estimate(params: Params, state: State, features: FloatArray) -> FloatArray:
    mean, _, _ = mixture(state.belief, state.belief.evidence.weights)
    out: FloatArray = mean + state.anchor[0]
    return out


@implements(probabilities, Params)
def _probabilities(
    params: Params, state: State, features: FloatArray, available: IntArray
) -> FloatArray:
    return tie_shares(bounds(params, state)[1][available])


@implements(rebuild, Params)
def _rebuild(params: Params, state: State) -> None:
    refresh(params.grid, state.belief, state.counts, state.sums, state.squares)


class RoLFBayes(Believer):
    """RoLF that learns how much to trust the features: the one to start with.

    Nothing has to be set, not even the noise. Rewards may have any scale and any level, and
    features any units: their columns are standardised.

    Args:
        features: (K, d) table, one row an arm.
        width: the bonus of an arm of which little is known, in posterior standard deviations.
        seed: of this policy's own draws, which only break ties.

    >>> policy = RoLFBayes([[0.0], [1.0], [2.0]], seed=1)
    >>> for reward in (40.1, 40.3, 40.2, 40.4):
    ...     policy.tell(policy.ask(), reward)
    >>> policy.scales()["noise"] > 0
    True
    """

    name = "rolf-bayes"
    summary = "learns how much to trust the features; no constants to set"
    totals = ("clock", "counts", "sums", "squares")
    derived = ("belief.means", "belief.variances", "belief.loose", "belief.cov")

    def __init__(self, features: Any, *, width: float = 2.75, seed: Seed = None) -> None:
        options = given(locals())
        arms = read_features(features)
        params = Params(make_grid(arms.features), between("width", width, 0.0, math.inf))
        super().__init__(arms, params, init(params), options, seed)
        self._observed, self._latent = params.grid.observed, params.grid.latent

    def _learn(
        self, positions: IntArray, rewards: FloatArray, rows: FloatArray, chances: FloatArray
    ) -> None:
        state = self._state
        if state.belief.evidence.seen[0] == 0.0:
            state.anchor[0] = rewards[0]
        values = rewards - state.anchor[0]
        counts, sums = from_history(self.arms.count, positions, values)
        state.counts[:] += counts
        state.sums[:] += sums
        state.squares[:] += from_history(self.arms.count, positions, values * values)[1]

    def _posterior(self, features: FloatArray) -> Posterior:
        grid, belief = self.params.grid, self._state.belief
        live = np.flatnonzero(belief.evidence.weights > 0.0)
        loose = belief.loose[live]
        return Posterior(
            belief.evidence.weights[live],
            belief.evidence.errors[live],
            belief.means[live] + self._state.anchor[0],
            np.maximum(belief.variances[live], 0.0),
            loose[:, :, None] * grid.rows,
            grid.latent[live, None] * loose,
            belief.cov[live],
            float(belief.evidence.seen[0]) - 1.0,
        )
