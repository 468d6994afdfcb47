"""LinUCB: the best upper confidence bound of a linear model on the observed features.

Score of arm a in round t: x_a'theta + alpha sqrt(log t) sqrt(x_a' M^-1 x_a), with
M = ridge I + sum x x'. The widths are updated with each reward, never recomputed.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rolf.checks import between
from rolf.estimators.ridge import (
    LinearState,
    Widths,
    linear_rebuild,
    linear_start,
    linear_update,
    narrow,
    widths_start,
)
from rolf.kernel import implements, shared
from rolf.linalg import argmax, pick, tie_shares
from rolf.policies.base import Policy
from rolf.policies.inputs import given, read_features, tuned
from rolf.policies.operations import choose, estimate, probabilities, rebuild, update
from rolf.types import Choice, FloatArray, Generator, IntArray, Seed


class Params(NamedTuple):
    features: FloatArray  # (K, d)
    ridge: float
    width: float  # alpha


class State(NamedTuple):
    clock: IntArray  # rounds
    ridge: LinearState
    widths: Widths


def init(params: Params) -> State:
    ridge = linear_start(params.features, params.ridge)
    widths = widths_start(params.features, ridge)
    return State(np.zeros(1, dtype=np.int64), ridge, widths)


@shared
def scores(params: Params, state: State, round: int) -> FloatArray:
    scale = params.width * math.sqrt(math.log(round))
    return state.ridge.estimates + scale * np.sqrt(state.widths.now)


@implements(choose, Params)
def _choose(
    params: Params, state: State, features: FloatArray, available: IntArray, rng: Generator
) -> Choice:
    state.clock[0] += 1
    arm, ties, _ = pick(scores(params, state, state.clock[0]), available, rng)
    return Choice(arm, 1.0 / ties, argmax(state.ridge.estimates, available), arm, True)


@implements(update, Params)
def _update(params: Params, state: State, choice: Choice, row: FloatArray, reward: float) -> None:
    spread, size = linear_update(params.features, state.ridge, choice.arm, reward)
    narrow(state.widths, params.features, state.ridge.root, spread, size)


@implements(estimate, Params)
def _estimate(params: Params, state: State, features: FloatArray) -> FloatArray:
    return state.ridge.estimates


@implements(probabilities, Params)
def _probabilities(
    params: Params, state: State, features: FloatArray, available: IntArray
) -> FloatArray:
    return tie_shares(scores(params, state, int(state.clock[0]) + 1)[available])


@implements(rebuild, Params)
def _rebuild(params: Params, state: State) -> None:
    linear_rebuild(params.features, state.ridge, params.ridge)
    fresh = widths_start(params.features, state.ridge)
    state.widths.now[:] = fresh.now
    state.widths.limits[:] = fresh.limits


def confidence_width(setting: str, noise: float, delta: float, width: float | None) -> float:
    """alpha: as given, or by the setting."""
    log = math.log(2.0) - math.log(between("delta", delta, 0.0, 1.0))
    alpha = 1.0 + math.sqrt(log / 2.0)
    noise = between("noise", noise, 0.0, math.inf)
    if tuned(setting):
        alpha *= noise
    return between("width", alpha if width is None else width, 0.0, math.inf, inclusive=True)


class LinUCB(Policy):
    """LinUCB on the observed features (Li et al. 2010).

    Args:
        features: (K, d), one row an arm: an array, a nested list or a DataFrame.
        setting: "paper": width alpha = 1 + sqrt(log(2/delta)/2); "tuned": that times the
            noise. Explicit arguments override either.
        noise: standard deviation of the noise, used by the tuned setting.
        delta: confidence, in (0, 1).
        ridge: penalty of the ridge; 0.6 in both settings.
        width: alpha.
        seed: of this policy's own draws, which only break ties.
    """

    name = "linucb"
    summary = "LinUCB on the observed features (Li et al. 2010)"
    totals = ("clock", "ridge.counts", "ridge.sums")

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
            arms.features,
            between("ridge", 0.6 if ridge is None else ridge, 0.0, math.inf),
            confidence_width(setting, noise, delta, width),
        )
        super().__init__(arms, params, init(params), options, seed)
