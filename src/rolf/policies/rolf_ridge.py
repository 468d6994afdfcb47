"""RoLF-Ridge (Algorithm 2): ridge on augmented features, coupled draws.

The paper's doubly robust ridge estimator equals its imputation estimator whenever the
rounds that did not match change neither: from the ridge equations b - A m = p m, so

    (n G + I)^-1 (n G m + (b - A m)/p) = (n G + I)^-1 (n G + I) m = m.

RoLF-Ridge is therefore one ridge regression with penalty p. It is carried out in the
space of rewards, in O(K d) a round and without the basis of the complement.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rolf.estimators.ridge import (
    RewardModel,
    RewardState,
    reward_refresh,
    reward_start,
    reward_update,
)
from rolf.kernel import implements
from rolf.policies.base import Policy
from rolf.policies.coupling import (
    Coupling,
    all_chances,
    augmentation,
    draw,
    draw_settings,
    ridge_constant,
    ridge_penalty,
)
from rolf.policies.inputs import given, read_features
from rolf.policies.operations import choose, estimate, probabilities, rebuild, update
from rolf.types import Choice, FloatArray, Generator, IntArray, Seed


class Params(NamedTuple):
    coupling: Coupling
    model: RewardModel
    fragile: bool  # features so large that the first updates would lose many digits


class State(NamedTuple):
    clock: IntArray  # rounds, forced rounds, matched rewards
    ridge: RewardState


def init(params: Params) -> State:
    return State(np.zeros(3, dtype=np.int64), reward_start(params.model))


@implements(choose, Params)
def _choose(
    params: Params, state: State, features: FloatArray, available: IntArray, rng: Generator
) -> Choice:
    return draw(params.coupling, state.clock, state.ridge.estimates, available, rng)


@implements(update, Params)
def _update(params: Params, state: State, choice: Choice, row: FloatArray, reward: float) -> None:
    if not choice.matched:
        return
    reward_update(params.model, state.ridge, choice.arm, reward)
    state.clock[2] += 1
    seen = state.clock[2]
    early = params.fragile and seen <= 2 * state.ridge.counts.size
    if early or seen & (seen - 1) == 0:
        reward_refresh(params.model, state.ridge)  # at each doubling, against rounding


@implements(estimate, Params)
def _estimate(params: Params, state: State, features: FloatArray) -> FloatArray:
    return state.ridge.estimates


@implements(probabilities, Params)
def _probabilities(
    params: Params, state: State, features: FloatArray, available: IntArray
) -> FloatArray:
    return all_chances(params.coupling, state.clock, state.ridge.estimates, available)


@implements(rebuild, Params)
def _rebuild(params: Params, state: State) -> None:
    state.clock[2] = int(state.ridge.counts.sum())
    reward_refresh(params.model, state.ridge)


class RoLFRidge(Policy):
    """RoLF with the ridge estimator.

    Args:
        features: (K, d), one row an arm: an array, a nested list or a DataFrame.
        p: coupling probability, in (1/2, 1).
        delta: confidence, in (0, 1); sets the cap on resampling and "theory" exploration.
        coupling: what the pseudo-action is drawn around: "action" (the paper) or
            "greedy" (the runs published by its authors; exploration nearly stops after
            the forced phase).
        exploration: forced uniform rounds: a number, by default 2K, or "theory".
        penalty: of the ridge; p by default, which is also what "theory" means here.
        keep_scale: keep the singular values of rank-deficient features; by default they are
            replaced by an orthonormal basis, with a warning where that loses something.
        seed: of this policy's own draws.

    >>> policy = RoLFRidge([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], seed=1)
    >>> policy.learn([0], [0.5])  # prior variance of arm 0: (1 + 1/3)/0.6 = 20/9
    >>> policy.estimates().round(3).tolist()  # 20/29 of 0.5, and what is shared with it
    [0.345, 0.086, 0.172]
    """

    name = "rolf-ridge"
    summary = "RoLF with ridge on augmented features (Algorithm 2 of the paper)"
    totals = ("clock", "ridge.counts", "ridge.sums")

    def __init__(
        self,
        features: Any,
        *,
        p: float = 0.6,
        delta: float = 1e-4,
        coupling: str = "action",
        exploration: float | str | None = None,
        penalty: float | str | None = None,
        keep_scale: bool | None = None,
        seed: Seed = None,
    ) -> None:
        options = given(locals())
        arms = read_features(features)
        augmented = augmentation(arms, keep_scale)
        model = RewardModel(
            directions=augmented.directions,
            scales2=augmented.scales**2,
            penalty=ridge_penalty(options),
        )
        draws = draw_settings(
            options, arms.count, constant=ridge_constant(arms.count), size=arms.count
        )
        params = Params(draws, model, bool((model.scales2 > 1e6).any()))
        super().__init__(arms, params, init(params), options, seed)
