"""OFUL: optimism over the self-normalised confidence ellipsoid of a linear model.

Score of arm a: x_a'theta + radius_t sqrt(x_a' M^-1 x_a), with M = ridge I + sum x x' and

    radius_t = sigma sqrt(log(det M / ridge^d) + 2 log(1/delta)) + sqrt(ridge) S

by theory (Abbasi-Yadkori et al. 2011), where S bounds the norm of theta, or a constant.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rolf.checks import between
from rolf.errors import InvalidArgument
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
    radius: float  # constant, or negative for the theory's
    noise: float
    delta: float
    bound: float  # S


class State(NamedTuple):
    clock: IntArray  # rounds
    ridge: LinearState
    widths: Widths
    logdet: FloatArray  # [log(det M / ridge^d)]


def init(params: Params) -> State:
    ridge = linear_start(params.features, params.ridge)
    widths = widths_start(params.features, ridge)
    return State(np.zeros(1, dtype=np.int64), ridge, widths, np.zeros(1))


@shared
def scores(params: Params, state: State) -> FloatArray:
    radius = params.radius
    if radius < 0.0:
        spread = state.logdet[0] - 2.0 * math.log(params.delta)
        radius = params.noise * math.sqrt(spread) + math.sqrt(params.ridge) * params.bound
    return state.ridge.estimates + radius * np.sqrt(state.widths.now)


@implements(choose, Params)
def _choose(
    params: Params, state: State, features: FloatArray, available: IntArray, rng: Generator
) -> Choice:
    state.clock[0] += 1
    arm, ties, _ = pick(scores(params, state), available, rng)
    return Choice(arm, 1.0 / ties, argmax(state.ridge.estimates, available), arm, True)


@implements(update, Params)
def _update(params: Params, state: State, choice: Choice, row: FloatArray, reward: float) -> None:
    spread, size = linear_update(params.features, state.ridge, choice.arm, reward)
    narrow(state.widths, params.features, state.ridge.root, spread, size)
    state.logdet[0] += math.log(1.0 + size)


@implements(estimate, Params)
def _estimate(params: Params, state: State, features: FloatArray) -> FloatArray:
    return state.ridge.estimates


@implements(probabilities, Params)
def _probabilities(
    params: Params, state: State, features: FloatArray, available: IntArray
) -> FloatArray:
    return tie_shares(scores(params, state)[available])


@implements(rebuild, Params)
def _rebuild(params: Params, state: State) -> None:
    linear_rebuild(params.features, state.ridge, params.ridge)
    fresh = widths_start(params.features, state.ridge)
    state.widths.now[:] = fresh.now
    state.widths.limits[:] = fresh.limits
    size = params.features.shape[1]
    _, half = np.linalg.slogdet(state.ridge.root)
    state.logdet[0] = -2.0 * half - size * math.log(params.ridge)


class OFUL(Policy):
    """OFUL on the observed features (Abbasi-Yadkori et al. 2011).

    Args:
        features: (K, d), one row an arm: an array, a nested list or a DataFrame.
        setting: "paper": radius 1, as in the paper's lower bound; "tuned": the radius of
            the theory for the given noise. Explicit arguments override either.
        noise: standard deviation of the noise, used by the theory's radius.
        delta: confidence, in (0, 1).
        ridge: penalty of the ridge; 1 in both settings.
        radius: a number, or "theory".
        bound: bound on the norm of theta, in the theory's radius.
        seed: of this policy's own draws, which only break ties.
    """

    name = "oful"
    summary = "OFUL on the observed features (Abbasi-Yadkori et al. 2011)"
    totals = ("clock", "ridge.counts", "ridge.sums")

    def __init__(
        self,
        features: Any,
        *,
        setting: str = "paper",
        noise: float = 0.1,
        delta: float = 1e-4,
        ridge: float | None = None,
        radius: float | str | None = None,
        bound: float = 1.0,
        seed: Seed = None,
    ) -> None:
        options = given(locals())
        arms = read_features(features)
        chosen = radius
        if tuned(setting) and radius is None:
            chosen = "theory"
        if isinstance(chosen, str) and chosen != "theory":
            raise InvalidArgument("radius", radius, 'a number or "theory"')
        constant = -1.0
        if not isinstance(chosen, str):
            constant = 1.0 if chosen is None else chosen
            between("radius", constant, 0.0, math.inf, inclusive=True)
        params = Params(
            arms.features,
            between("ridge", 1.0 if ridge is None else ridge, 0.0, math.inf),
            float(constant),
            between("noise", noise, 0.0, math.inf),
            between("delta", delta, 0.0, 1.0),
            between("bound", bound, 0.0, math.inf, inclusive=True),
        )
        super().__init__(arms, params, init(params), options, seed)
