"""LinTS: Thompson sampling in a linear model on the observed features.

In each round theta is drawn from N(theta_hat, v^2 M^-1), M = ridge I + sum x x', and the
arm with the largest x_a'theta is played. A square root of M^-1 is updated with each
reward, so that a draw costs O(d^2) and never needs a factorisation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rolf.checks import between, whole
from rolf.estimators.ridge import LinearState, linear_rebuild, linear_start, linear_update
from rolf.kernel import implements
from rolf.linalg import argmax, matvec, normals, pick
from rolf.policies.base import Policy
from rolf.policies.inputs import given, read_features, tuned
from rolf.policies.operations import choose, estimate, rebuild, update
from rolf.types import Choice, FloatArray, Generator, IntArray, Seed

DRAWS = 1000  # for the probability of a decision, when it is read


class Params(NamedTuple):
    features: FloatArray  # (K, d)
    ridge: float
    scale: float  # v


class State(NamedTuple):
    clock: IntArray  # rounds
    ridge: LinearState


def init(params: Params) -> State:
    return State(np.zeros(1, dtype=np.int64), linear_start(params.features, params.ridge))


@implements(choose, Params)
def _choose(
    params: Params, state: State, features: FloatArray, available: IntArray, rng: Generator
) -> Choice:
    state.clock[0] += 1
    step = matvec(state.ridge.root, normals(params.features.shape[1], rng))
    drawn = state.ridge.estimates + params.scale * matvec(params.features, step)
    arm, _, _ = pick(drawn, available, rng)
    return Choice(arm, math.nan, argmax(state.ridge.estimates, available), arm, True)


@implements(update, Params)
def _update(params: Params, state: State, choice: Choice, row: FloatArray, reward: float) -> None:
    linear_update(params.features, state.ridge, choice.arm, reward)


@implements(estimate, Params)
def _estimate(params: Params, state: State, features: FloatArray) -> FloatArray:
    return state.ridge.estimates


@implements(rebuild, Params)
def _rebuild(params: Params, state: State) -> None:
    linear_rebuild(params.features, state.ridge, params.ridge)


class LinTS(Policy):
    """Thompson sampling on the observed features (Agrawal and Goyal 2013).

    The probability of a decision is estimated from 1000 draws when it is first read.

    Args:
        features: (K, d), one row an arm: an array, a nested list or a DataFrame.
        setting: "paper": v = noise sqrt(48 d log(1/delta)); "tuned": v = noise.
            Explicit arguments override either.
        noise: standard deviation of the noise.
        delta: confidence, in (0, 1).
        ridge: penalty of the ridge; 0.6 in both settings.
        scale: v.
        seed: of this policy's own draws.
    """

    name = "lints"
    summary = "Thompson sampling on the observed features (Agrawal and Goyal 2013)"
    totals = ("clock", "ridge.counts", "ridge.sums")

    def __init__(
        self,
        features: Any,
        *,
        setting: str = "paper",
        noise: float = 0.1,
        delta: float = 1e-4,
        ridge: float | None = None,
        scale: float | None = None,
        seed: Seed = None,
    ) -> None:
        options = given(locals())
        arms = read_features(features)
        delta = between("delta", delta, 0.0, 1.0)
        spread = between("noise", noise, 0.0, math.inf)
        if not tuned(setting):
            spread *= math.sqrt(48.0 * arms.features.shape[1] * -math.log(delta))
        params = Params(
            arms.features,
            between("ridge", 0.6 if ridge is None else ridge, 0.0, math.inf),
            between("scale", spread if scale is None else scale, 0.0, math.inf, inclusive=True),
        )
        super().__init__(arms, params, init(params), options, seed)

    def _probabilities(self, features: FloatArray, available: IntArray, draws: int) -> FloatArray:
        draws = whole("draws", draws, 1)
        ridge = self._state.ridge
        return _shares(self.params, ridge.estimates, ridge.root, available, self.rounds, draws)

    def _chance_later(self, available: IntArray) -> Callable[[int], float]:
        params, round = self.params, self.rounds
        estimates, root = self._state.ridge.estimates.copy(), self._state.ridge.root.copy()

        def chance(arm: int) -> float:
            shares = _shares(params, estimates, root, available, round, DRAWS)
            won = shares[np.searchsorted(available, arm)] * DRAWS
            return float((won + 1.0) / (DRAWS + 1.0))  # the decision was one more draw

        return chance


def _shares(
    params: Params,
    estimates: FloatArray,
    root: FloatArray,
    available: IntArray,
    round: int,
    draws: int,
) -> FloatArray:
    """How often each available arm wins among posterior draws of a stream of their own."""
    rng = np.random.default_rng([round, draws])
    rows = params.features[available]
    wins = np.zeros(available.size)
    for start in range(0, draws, 1000):  # in blocks, so that memory stays bounded
        count = min(1000, draws - start)
        steps = root @ rng.standard_normal((root.shape[0], count))
        drawn = estimates[available, None] + params.scale * (rows @ steps)
        best = drawn == drawn.max(axis=0)
        wins += (best / best.sum(axis=0)).sum(axis=1)
    return wins / draws
