"""RoLF-Lasso (Algorithm 1): doubly robust lasso on augmented features, coupled draws.

Imputation:  min_m  sum over matched rounds (y - x_a'm)^2 + l1 |m|_1
Main:        min_u  sum over matched rounds and all arms (pseudo-reward - x_a'u)^2 + l2 |u|_1

Both depend on the past through the counts and sums of each arm only; see
``estimators/doubly_robust.py``. Penalties by "theory" are

    l1 = 2 s_max sigma sqrt(2 p t log(2 K t^2/delta)),
    l2 = (4 s_max sigma/p) sqrt(2 t log(2 K t^2/delta)),

with s_max^2 the largest diagonal entry of the augmented Gram matrix.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rolf.checks import between
from rolf.errors import InvalidArgument
from rolf.estimators.doubly_robust import (
    RobustModel,
    RobustState,
    robust_rebuild,
    robust_start,
    robust_update,
)
from rolf.kernel import implements, shared
from rolf.policies.base import Policy
from rolf.policies.coupling import (
    Coupling,
    all_chances,
    augmentation,
    draw,
    draw_settings,
    lasso_constant,
)
from rolf.policies.inputs import given, read_features
from rolf.policies.operations import choose, estimate, probabilities, rebuild, update
from rolf.types import Choice, FloatArray, Generator, IntArray, Seed


class Penalties(NamedTuple):
    """l1 and l2; by "theory" they are these times sqrt(t log(2 K t^2/delta))."""

    imputation: float
    main: float
    theory: bool


class Params(NamedTuple):
    coupling: Coupling
    penalties: Penalties
    model: RobustModel
    gram: FloatArray  # X X' (d, d)


class State(NamedTuple):
    clock: IntArray  # rounds, forced rounds
    last: IntArray  # [round of the last update], whose penalties the estimates have
    lasso: RobustState


def init(params: Params) -> State:
    start = robust_start(params.model, params.gram, params.penalties.imputation)
    return State(np.zeros(2, dtype=np.int64), np.zeros(1, dtype=np.int64), start)


@shared
def growth(params: Params, round: int) -> float:
    """What the penalties are multiplied with in round t."""
    if not params.penalties.theory:
        return 1.0
    return theory_growth(params.model.matrix.shape[0], params.coupling.delta, round)


@shared
def theory_growth(arms: int, delta: float, round: int) -> float:
    """sqrt(t log(2 K t^2/delta))."""
    log = math.log(2.0 * arms) + 2.0 * math.log(round) - math.log(delta)
    return math.sqrt(round * log)


@implements(choose, Params)
def _choose(
    params: Params, state: State, features: FloatArray, available: IntArray, rng: Generator
) -> Choice:
    return draw(params.coupling, state.clock, state.lasso.estimates, available, rng)


@implements(update, Params)
def _update(params: Params, state: State, choice: Choice, row: FloatArray, reward: float) -> None:
    if not choice.matched:
        return
    state.last[0] = state.clock[0]
    grown = growth(params, state.clock[0])
    robust_update(
        params.model,
        state.lasso,
        choice.arm,
        reward,
        params.penalties.imputation * grown,
        params.penalties.main * grown,
    )


@implements(estimate, Params)
def _estimate(params: Params, state: State, features: FloatArray) -> FloatArray:
    return state.lasso.estimates


@implements(probabilities, Params)
def _probabilities(
    params: Params, state: State, features: FloatArray, available: IntArray
) -> FloatArray:
    return all_chances(params.coupling, state.clock, state.lasso.estimates, available)


@implements(rebuild, Params)
def _rebuild(params: Params, state: State) -> None:
    if state.last[0] == 0:  # merged or learned: as of now
        state.last[0] = state.clock[0]
    grown = growth(params, max(int(state.last[0]), 1))
    robust_rebuild(
        params.model,
        state.lasso,
        params.penalties.imputation * grown,
        params.penalties.main * grown,
    )


class RoLFLasso(Policy):
    """RoLF with the doubly robust lasso.

    Args:
        features: (K, d), one row an arm: an array, a nested list or a DataFrame.
        p: coupling probability, in (1/2, 1).
        delta: confidence, in (0, 1).
        coupling: what the pseudo-action is drawn around: "action" (the paper) or
            "greedy" (the runs published by its authors; exploration nearly stops after
            the forced phase).
        exploration: forced uniform rounds: a number, by default 2K, or "theory".
        penalty: "theory", or a number for both lassos, or a pair (l1, l2); p by default,
            as in the runs published by the paper's authors.
        noise: standard deviation of the noise (sigma); used by penalty="theory" only.
        keep_scale: keep the singular values of rank-deficient features; by default they are
            replaced by an orthonormal basis, with a warning where that loses something.
        seed: of this policy's own draws.
    """

    name = "rolf-lasso"
    summary = "RoLF with the doubly robust lasso (Algorithm 1 of the paper)"
    totals = ("clock", "lasso.counts", "lasso.sums")
    derived = ("lasso.imputation", "lasso.main", "lasso.coef", "lasso.estimates")

    def __init__(
        self,
        features: Any,
        *,
        p: float = 0.6,
        delta: float = 1e-4,
        coupling: str = "action",
        exploration: float | str | None = None,
        penalty: float | str | tuple[float, float] | None = None,
        noise: float = 0.1,
        keep_scale: bool | None = None,
        seed: Seed = None,
    ) -> None:
        options = given(locals())
        arms = read_features(features)
        augmented = augmentation(arms, keep_scale)
        draws = draw_settings(
            options, arms.count, constant=lasso_constant(augmented), size=arms.count
        )
        params = Params(
            draws,
            penalties(
                options["penalty"],
                draws.probability,
                between("noise", noise, 0.0, math.inf),
                augmented.sigma_max,
            ),
            RobustModel(augmented.matrix, augmented.rank, draws.probability),
            augmented.gram,
        )
        super().__init__(arms, params, init(params), options, seed)

    def _learn(
        self, positions: IntArray, rewards: FloatArray, rows: FloatArray, chances: FloatArray
    ) -> None:
        super()._learn(positions, rewards, rows, chances)
        self._state.last[0] = 0


def penalties(penalty: Any, p: float, noise: float, largest: float) -> Penalties:
    """Check the penalty argument."""
    if penalty == "theory":
        imputation = 2.0 * largest * noise * math.sqrt(2.0 * p)
        return Penalties(imputation, 4.0 * largest * noise * math.sqrt(2.0) / p, True)
    pair: Any = p if penalty is None else penalty
    if isinstance(pair, str) or (np.ndim(pair) and np.shape(pair) != (2,)):
        raise InvalidArgument("penalty", penalty, '"theory", a number, or a pair of numbers')
    first, second = pair if np.ndim(pair) else (pair, pair)
    return Penalties(
        between("penalty", first, 0.0, math.inf), between("penalty", second, 0.0, math.inf), False
    )
