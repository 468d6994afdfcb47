"""LinUCB for features that vary: a linear model on the features of the round alone.

Score of arm a in round t: x_{a,t}'theta + alpha sqrt(log t) sqrt(x_{a,t}' M^-1 x_{a,t}), with
M = ridge I + sum x x' over the rows that were played. Whatever an arm gives beyond its observed
features is invisible to it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rolf.checks import between
from rolf.kernel import implements, shared
from rolf.linalg import (
    add,
    add_outer,
    argmax,
    dot,
    inverse_root,
    matvec,
    pick,
    root_update,
    tie_shares,
    vecmat,
)
from rolf.policies.base import Policy
from rolf.policies.inputs import as_history_rows, given, read_features
from rolf.policies.linucb import confidence_width
from rolf.policies.operations import choose, estimate, probabilities, rebuild, update
from rolf.types import Choice, FloatArray, Generator, IntArray, Seed


class Params(NamedTuple):
    size: int  # d
    ridge: float
    width: float  # alpha


class State(NamedTuple):
    clock: IntArray  # rounds
    moment: FloatArray  # sum x x' (d, d)
    cross: FloatArray  # sum x y (d,)
    root: FloatArray  # root root' = M^-1
    theta: FloatArray  # M^-1 cross


def init(params: Params) -> State:
    size = params.size
    root = np.eye(size) / math.sqrt(params.ridge)
    clock = np.zeros(1, dtype=np.int64)
    return State(clock, np.zeros((size, size)), np.zeros(size), root, np.zeros(size))


@shared
def scores(
    params: Params, state: State, features: FloatArray, estimates: FloatArray, round: int
) -> FloatArray:
    scale = params.width * math.sqrt(math.log(round))
    out = np.empty(estimates.size)
    for arm in range(estimates.size):
        half = vecmat(features[arm], state.root)
        out[arm] = estimates[arm] + scale * math.sqrt(dot(half, half))
    return out


@implements(choose, Params)
def _choose(
    params: Params, state: State, features: FloatArray, available: IntArray, rng: Generator
) -> Choice:
    state.clock[0] += 1
    estimates = matvec(features, state.theta)
    bounds = scores(params, state, features, estimates, state.clock[0])
    arm, ties, _ = pick(bounds, available, rng)
    return Choice(arm, 1.0 / ties, argmax(estimates, available), arm, True)


@implements(update, Params)
def _update(params: Params, state: State, choice: Choice, row: FloatArray, reward: float) -> None:
    error = reward - dot(row, state.theta)
    gain, size = root_update(state.root, row)
    add(state.theta, error / (1.0 + size), gain)
    add(state.cross, reward, row)
    add_outer(state.moment, 1.0, row, row)


@implements(estimate, Params)
def _estimate(params: Params, state: State, features: FloatArray) -> FloatArray:
    return matvec(features, state.theta)


@implements(probabilities, Params)
def _probabilities(
    params: Params, state: State, features: FloatArray, available: IntArray
) -> FloatArray:
    estimates = matvec(features, state.theta)
    bounds = scores(params, state, features, estimates, int(state.clock[0]) + 1)
    return tie_shares(bounds[available])


@implements(rebuild, Params)
def _rebuild(params: Params, state: State) -> None:
    moment = state.moment + params.ridge * np.eye(params.size)
    state.root[:] = inverse_root(moment, params.ridge)
    state.theta[:] = state.root @ (state.root.T @ state.cross)


class LinUCBVarying(Policy):
    """LinUCB on features that come with every ask.

    Args:
        features: (K, d): how many arms and features there are and how the arms are
            called; the values themselves come with every ``ask``.
        setting: "paper": width alpha = 1 + sqrt(log(2/delta)/2); "tuned": that times the
            noise. Explicit arguments override either.
        noise: standard deviation of the noise, used by the tuned setting.
        delta: confidence, in (0, 1).
        ridge: penalty of the ridge; 0.6 in both settings.
        width: alpha.
        seed: of this policy's own draws, which only break ties.
    """

    name = "linucb-varying"
    summary = "LinUCB on features that vary over time, blind to everything else"
    totals = ("clock", "moment", "cross")
    varying = True

    def __init__(
        self,
        features: Any,
        *,
        setting: str = "paper",
        noise: float = 0.1,
        delta: float = 1e-4,
        ridge: float | None = None,
        width: float | None = None,
        seed: Seed = None,
    ) -> None:
        options = given(locals())
        arms = read_features(features)
        params = Params(
            arms.features.shape[1],
            between("ridge", 0.6 if ridge is None else ridge, 0.0, math.inf),
            confidence_width(setting, noise, delta, width),
        )
        super().__init__(arms, params, init(params), options, seed)

    def _history_features(self, features: Any, count: int) -> FloatArray:
        return as_history_rows(features, count, self.arms)

    def _learn(
        self, positions: IntArray, rewards: FloatArray, rows: FloatArray, chances: FloatArray
    ) -> None:
        self._state.moment[:] += rows.T @ rows
        self._state.cross[:] += rows.T @ rewards
