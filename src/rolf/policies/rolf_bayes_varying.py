"""RoLF-Bayes for features that change with every ask.

The latent part of an arm stays, its observed features are those of the round; the three
scales are learned as for fixed features (``estimators/varying_posterior.py``). The score of an
arm is its posterior mean plus ``width`` posterior standard deviations, over all scales.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rolf.checks import between
from rolf.errors import InvalidArgument
from rolf.estimators.ridge import from_history
from rolf.estimators.varying_posterior import (
    Totals,
    VaryingBelief,
    VaryingGrid,
    no_totals,
    varying_absorb,
    varying_component,
    varying_grid,
    varying_mixture,
    varying_refresh,
    varying_start,
)
from rolf.kernel import implements, shared
from rolf.linalg import argmax, pick, tie_shares
from rolf.policies.beliefs import Believer, Posterior, due, scores
from rolf.policies.inputs import as_history_rows, given, read_features
from rolf.policies.operations import choose, estimate, probabilities, rebuild, update
from rolf.types import Choice, FloatArray, Generator, IntArray, Seed


class Params(NamedTuple):
    grid: VaryingGrid
    width: float


class State(NamedTuple):
    clock: IntArray  # rounds
    totals: Totals  # of rewards less the anchor
    anchor: FloatArray  # the first reward, so that a high level costs no digits
    waiting: FloatArray  # decisions without their reward, per arm
    belief: VaryingBelief


def init(params: Params, arms: int) -> State:
    totals = no_totals(arms, params.grid.sizes.size)
    clock = np.zeros(1, dtype=np.int64)
    return State(clock, totals, np.zeros(1), np.zeros(arms), varying_start(params.grid))


@shared
def bounds(params: Params, state: State, features: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and upper confidence bound of every arm, as decisions see them."""
    grid, belief = params.grid, state.belief
    rows, weights = features - grid.centre, belief.evidence.cautious
    mean, variance, noise = varying_mixture(grid, belief, state.totals, rows, weights)
    return mean, scores(mean, variance, noise, state.waiting, params.width)


@implements(choose, Params)
def _choose(
    params: Params, state: State, features: FloatArray, available: IntArray, rng: Generator
) -> Choice:
    state.clock[0] += 1
    mean, score = bounds(params, state, features)
    arm, ties, _ = pick(score, available, rng)
    state.waiting[arm] += 1.0
    return Choice(arm, 1.0 / ties, argmax(mean, available), arm, True)


@implements(update, Params)
def _update(params: Params, state: State, choice: Choice, row: FloatArray, reward: float) -> None:
    if state.belief.evidence.seen[0] == 0.0:
        state.anchor[0] = reward
    state.waiting[choice.arm] -= 1.0
    value = reward - state.anchor[0]
    shifted = row - params.grid.centre
    varying_absorb(params.grid, state.belief, state.totals, choice.arm, shifted, value)
    if due(state.belief.evidence.seen[0], state.waiting.size):
        varying_refresh(params.grid, state.belief, state.totals)


@implements(estimate, Params)
def _estimate(params: Params, state: State, features: FloatArray) -> FloatArray:
    belief = state.belief
    weights = belief.evidence.weights
    rows = features - params.grid.centre
    mean, _, _ = varying_mixture(params.grid, belief, state.totals, rows, weights)
    out: FloatArray = mean + state.anchor[0]
    return out


@implements(probabilities, Params)
def _probabilities(
    params: Params, state: State, features: FloatArray, available: IntArray
) -> FloatArray:
    return tie_shares(bounds(params, state, features)[1][available])


@implements(rebuild, Params)
def _rebuild(params: Params, state: State) -> None:
    varying_refresh(params.grid, state.belief, state.totals)


class RoLFBayesVarying(Believer):
    """RoLF-Bayes for features that change with every ask.

    Args:
        features: (K, d): how many arms and features there are, how the arms are called, and
            in what units the features will come; the values come with every ``ask``.
        width: the bonus of an arm of which little is known, in posterior standard deviations.
        seed: of this policy's own draws, which only break ties.

    >>> policy = RoLFBayesVarying([[1.0], [2.0]], seed=1)
    >>> decision = policy.ask(features=[[0.5], [0.1]])
    >>> policy.tell(decision, 1.0)
    """

    name = "rolf-bayes-varying"
    summary = "RoLF-Bayes for features that vary over time"
    totals = (
        "clock",
        "totals.counts",
        "totals.sums",
        "totals.rows",
        "totals.moment",
        "totals.cross",
        "totals.squares",
    )
    derived = ("belief.coef", "belief.cov")
    varying = True

    def __init__(self, features: Any, *, width: float = 2.75, seed: Seed = None) -> None:
        options = given(locals())
        arms = read_features(features)
        sizes = np.abs(arms.features).max(axis=0)
        if ((sizes > 1e100) | ((sizes > 0.0) & (sizes < 1e-100))).any():
            raise InvalidArgument("features", features, "numbers of size 1e-100 to 1e100")
        params = Params(varying_grid(arms.features), between("width", width, 0.0, math.inf))
        super().__init__(arms, params, init(params, arms.count), options, seed)
        self._observed, self._latent = params.grid.observed, params.grid.latent

    def _history_features(self, features: Any, count: int) -> FloatArray:
        return as_history_rows(features, count, self.arms)

    def _learn(
        self, positions: IntArray, rewards: FloatArray, rows: FloatArray, chances: FloatArray
    ) -> None:
        state = self._state
        totals = state.totals
        if state.belief.evidence.seen[0] == 0.0:
            state.anchor[0] = rewards[0]
        values = rewards - state.anchor[0]
        full = np.column_stack([np.ones(values.size), rows - self.params.grid.centre])
        counts, sums = from_history(self.arms.count, positions, values)
        totals.counts[:] += counts
        totals.sums[:] += sums
        np.add.at(totals.rows, positions, full)
        totals.moment[:] += full.T @ full
        totals.cross[:] += full.T @ values
        totals.squares[:] += values @ values

    def _posterior(self, features: FloatArray) -> Posterior:
        grid, belief, totals = self.params.grid, self._state.belief, self._state.totals
        features = features - grid.centre
        live = np.flatnonzero(belief.evidence.weights > 0.0)
        means, variances = np.zeros((2, live.size, self.arms.count))
        for place, g in enumerate(live):
            varying_component(
                grid, belief, totals, int(g), features, means[place], variances[place]
            )
        loose = 1.0 / (1.0 + grid.latent[live, None] * totals.counts)
        held = (1.0 - loose) / np.maximum(totals.counts, 1.0)
        rows = np.column_stack([np.ones(self.arms.count), features])
        return Posterior(
            belief.evidence.weights[live],
            belief.evidence.errors[live],
            means + self._state.anchor[0],
            variances,
            rows - held[:, :, None] * totals.rows,
            grid.latent[live, None] * loose,
            belief.cov[live],
            float(belief.evidence.seen[0]) - 1.0,
        )
