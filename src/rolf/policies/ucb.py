"""UCB(delta): a multi-armed bandit that ignores the features.

Score of arm a after n_a rewards: mean + scale sqrt(2 log(1/delta)/n_a); an arm without
rewards comes before all others.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rolf.checks import between
from rolf.kernel import implements, shared
from rolf.linalg import argmax, pick, tie_shares
from rolf.policies.base import Policy
from rolf.policies.inputs import given, read_features, tuned
from rolf.policies.operations import choose, estimate, probabilities, rebuild, update
from rolf.types import Choice, FloatArray, Generator, IntArray, Seed

UNSEEN = 1e300  # score of an arm without rewards; finite, so that ties can be measured


class Params(NamedTuple):
    arms: int
    width: float  # scale sqrt(2 log(1/delta))


class State(NamedTuple):
    clock: IntArray  # rounds
    counts: FloatArray
    sums: FloatArray
    estimates: FloatArray
    scores: FloatArray


def init(params: Params) -> State:
    counts, sums, estimates = np.zeros((3, params.arms))
    scores = np.full(params.arms, UNSEEN)
    return State(np.zeros(1, dtype=np.int64), counts, sums, estimates, scores)


@shared
def rescore(params: Params, state: State, arm: int) -> None:
    """Only the arm that was told changes: its width does not depend on the round."""
    count = state.counts[arm]
    state.estimates[arm] = state.sums[arm] / count
    state.scores[arm] = state.estimates[arm] + params.width / math.sqrt(count)


@implements(choose, Params)
def _choose(
    params: Params, state: State, features: FloatArray, available: IntArray, rng: Generator
) -> Choice:
    state.clock[0] += 1
    arm, ties, _ = pick(state.scores, available, rng)
    return Choice(arm, 1.0 / ties, argmax(state.estimates, available), arm, True)


@implements(update, Params)
def _update(params: Params, state: State, choice: Choice, row: FloatArray, reward: float) -> None:
    state.counts[choice.arm] += 1.0
    state.sums[choice.arm] += reward
    rescore(params, state, choice.arm)


@implements(estimate, Params)
def _estimate(params: Params, state: State, features: FloatArray) -> FloatArray:
    return state.estimates


@implements(probabilities, Params)
def _probabilities(
    params: Params, state: State, features: FloatArray, available: IntArray
) -> FloatArray:
    return tie_shares(state.scores[available])


@implements(rebuild, Params)
def _rebuild(params: Params, state: State) -> None:
    for arm in np.flatnonzero(state.counts):
        rescore(params, state, int(arm))


class UCB(Policy):
    """UCB(delta), which sees no features (Lattimore and Szepesvari 2020).

    Args:
        features: (K, d); only the number and the names of the arms are used.
        setting: "paper": scale 1; "tuned": scale = noise. An explicit scale overrides.
        noise: standard deviation of the noise, used by the tuned setting.
        delta: confidence, in (0, 1).
        scale: of the width; rewards are taken to be sub-Gaussian with this scale.
        seed: of this policy's own draws, which only break ties.
    """

    name = "ucb"
    summary = "UCB(delta), a multi-armed bandit that ignores features"
    totals = ("clock", "counts", "sums")

    def __init__(
        self,
        features: Any,
        *,
        setting: str = "paper",
        noise: float = 0.1,
        delta: float = 1e-4,
        scale: float | None = None,
        seed: Seed = None,
    ) -> None:
        options = given(locals())
        arms = read_features(features)
        delta = between("delta", delta, 0.0, 1.0)
        noise = between("noise", noise, 0.0, math.inf)
        known = noise if tuned(setting) else 1.0
        factor = between("scale", known if scale is None else scale, 0.0, math.inf, inclusive=True)
        params = Params(arms.count, factor * math.sqrt(-2.0 * math.log(delta)))
        super().__init__(arms, params, init(params), options, seed)
