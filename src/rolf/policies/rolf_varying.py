"""RoLF-V: features that vary from round to round, latent parts that do not.

Augmented features of arm a in round t are [x_{a,t}, e_a]: the features of the round and a
free bias for every arm, which absorbs whatever of it was never measured. As for fixed
features the doubly robust ridge estimate equals the imputation estimate, so the policy is
one ridge regression with penalty p in d + K dimensions. The biases are eliminated; a round
costs O(K d + d^2).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rolf.estimators.ridge import (
    BiasedState,
    biased_estimate,
    biased_rebuild,
    biased_start,
    biased_update,
    from_history,
)
from rolf.kernel import implements
from rolf.policies.base import Policy
from rolf.policies.coupling import (
    Coupling,
    all_chances,
    draw,
    draw_settings,
    ridge_constant,
    ridge_penalty,
)
from rolf.policies.inputs import as_history_rows, given, read_features
from rolf.policies.operations import choose, estimate, probabilities, rebuild, update
from rolf.types import Choice, FloatArray, Generator, IntArray, Seed


class Params(NamedTuple):
    coupling: Coupling
    penalty: float


class State(NamedTuple):
    clock: IntArray  # rounds, forced rounds
    ridge: BiasedState


def init(params: Params, arms: int, size: int) -> State:
    return State(np.zeros(2, dtype=np.int64), biased_start(arms, size, params.penalty))


@implements(choose, Params)
def _choose(
    params: Params, state: State, features: FloatArray, available: IntArray, rng: Generator
) -> Choice:
    estimates = biased_estimate(state.ridge, params.penalty, features)
    return draw(params.coupling, state.clock, estimates, available, rng)


@implements(update, Params)
def _update(params: Params, state: State, choice: Choice, row: FloatArray, reward: float) -> None:
    if choice.matched:
        biased_update(state.ridge, params.penalty, choice.arm, row, reward)


@implements(estimate, Params)
def _estimate(params: Params, state: State, features: FloatArray) -> FloatArray:
    return biased_estimate(state.ridge, params.penalty, features)


@implements(probabilities, Params)
def _probabilities(
    params: Params, state: State, features: FloatArray, available: IntArray
) -> FloatArray:
    estimates = biased_estimate(state.ridge, params.penalty, features)
    return all_chances(params.coupling, state.clock, estimates, available)


@implements(rebuild, Params)
def _rebuild(params: Params, state: State) -> None:
    biased_rebuild(state.ridge, params.penalty)


class RoLFVarying(Policy):
    """RoLF for features that change with every ask.

    Args:
        features: (K, d): how many arms and features there are and how the arms are
            called; the values themselves come with every ``ask``.
        p: coupling probability, in (1/2, 1).
        delta: confidence, in (0, 1).
        coupling: what the pseudo-action is drawn around, "action" or "greedy".
        exploration: forced uniform rounds: a number, by default 2K, or "theory".
        penalty: of the ridge; p by default, which is also what "theory" means here.
        seed: of this policy's own draws.

    >>> table = [[1.0], [2.0]]
    >>> policy = RoLFVarying(table, seed=1)
    >>> decision = policy.ask(features=[[0.5], [0.1]])
    >>> policy.tell(decision, 1.0)
    """

    name = "rolf-varying"
    summary = "RoLF for features that vary over time (RoLF-V of the paper)"
    totals = (
        "clock",
        "ridge.counts",
        "ridge.sums",
        "ridge.feature_sums",
        "ridge.moment",
        "ridge.cross",
    )
    varying = True

    def __init__(
        self,
        features: Any,
        *,
        p: float = 0.6,
        delta: float = 1e-4,
        coupling: str = "action",
        exploration: float | str | None = None,
        penalty: float | str | None = None,
        seed: Seed = None,
    ) -> None:
        options = given(locals())
        arms = read_features(features)
        count, columns = arms.features.shape
        size = count + columns
        draws = draw_settings(options, count, constant=ridge_constant(size), size=size)
        params = Params(draws, ridge_penalty(options))
        super().__init__(arms, params, init(params, count, columns), options, seed)

    def _history_features(self, features: Any, count: int) -> FloatArray:
        return as_history_rows(features, count, self.arms)

    def _learn(
        self, positions: IntArray, rewards: FloatArray, rows: FloatArray, chances: FloatArray
    ) -> None:
        ridge = self._state.ridge
        counts, sums = from_history(self.arms.count, positions, rewards)
        ridge.counts[:] += counts
        ridge.sums[:] += sums
        np.add.at(ridge.feature_sums, positions, rows)
        ridge.moment[:] += rows.T @ rows
        ridge.cross[:] += rows.T @ rewards
