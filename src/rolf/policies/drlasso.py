"""DRLasso: doubly robust lasso on the average of the observed features.

After ``forced`` uniform rounds, round t explores uniformly with probability
lam1 sqrt((log t + log d)/t), else it plays the arm with the largest x_a'beta. The reward is
turned into the average over arms of the doubly robust pseudo-rewards, clipped, and

    beta = argmin (1/t) sum (pseudo-reward - xbar'beta)^2 + lam2 sqrt((log t + log d)/t) |beta|_1

with xbar the average feature vector of the round. For fixed features xbar never changes, so
only its largest entry can carry weight and beta has a closed form; that is why this policy,
made for features that vary, does poorly with fixed ones.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rolf.checks import between
from rolf.estimators.doubly_robust import pseudo_rewards
from rolf.kernel import implements, shared
from rolf.linalg import assign, pick, tie_shares
from rolf.policies.base import Policy
from rolf.policies.inputs import given, read_features, tuned
from rolf.policies.operations import choose, estimate, probabilities, rebuild, update
from rolf.types import Choice, FloatArray, Generator, IntArray, Seed


class Params(NamedTuple):
    arms: int
    column: FloatArray  # (K,) the feature that is largest on average
    average: float  # its average, an entry of xbar
    size: int  # d
    lam1: float
    lam2: float
    forced: float
    clip: float


class State(NamedTuple):
    clock: IntArray  # rounds
    total: FloatArray  # [number, sum] of the pseudo-rewards
    estimates: FloatArray


def init(params: Params) -> State:
    return State(np.zeros(1, dtype=np.int64), np.zeros(2), np.zeros(params.arms))


@shared
def rate(params: Params, round: float) -> float:
    """sqrt((log t + log d)/t), by which exploration and penalty fall."""
    return math.sqrt((math.log(round) + math.log(params.size)) / round)


@shared
def coin(params: Params, round: int) -> float:
    """Chance of a uniform draw in round t."""
    if round <= params.forced:
        return 1.0
    return min(1.0, params.lam1 * rate(params, round))


@shared
def fit(params: Params, state: State) -> None:
    """The closed form: a soft threshold on the one coordinate that can be active."""
    number = state.total[0]
    target = state.total[1] / number * params.average
    size = max(abs(target) - params.lam2 * rate(params, number) / 2.0, 0.0)
    beta = 0.0
    if size > 0.0:
        beta = math.copysign(size, target) / (params.average * params.average)
    assign(state.estimates, params.column * beta)


@implements(choose, Params)
def _choose(
    params: Params, state: State, features: FloatArray, available: IntArray, rng: Generator
) -> Choice:
    state.clock[0] += 1
    explore = coin(params, state.clock[0])
    greedy, ties, cutoff = pick(state.estimates, available, rng)
    arm = greedy
    if rng.random() < explore:
        arm = int(available[int(rng.random() * available.size)])
    probability = explore / available.size
    if state.estimates[arm] >= cutoff:
        probability += (1.0 - explore) / ties
    return Choice(arm, probability, greedy, arm, True)


@implements(update, Params)
def _update(params: Params, state: State, choice: Choice, row: FloatArray, reward: float) -> None:
    pseudo = pseudo_rewards(state.estimates, choice.arm, reward, choice.probability).mean()
    state.total[0] += 1.0
    state.total[1] += min(max(pseudo, -params.clip), params.clip)
    fit(params, state)


@implements(estimate, Params)
def _estimate(params: Params, state: State, features: FloatArray) -> FloatArray:
    return state.estimates


@implements(probabilities, Params)
def _probabilities(
    params: Params, state: State, features: FloatArray, available: IntArray
) -> FloatArray:
    explore = coin(params, int(state.clock[0]) + 1)
    shares = tie_shares(state.estimates[available])
    out: FloatArray = explore / available.size + (1.0 - explore) * shares
    return out


@implements(rebuild, Params)
def _rebuild(params: Params, state: State) -> None:
    if state.total[0] > 0.0:
        fit(params, state)


class DRLasso(Policy):
    """The doubly robust lasso bandit (Kim and Paik 2019).

    Args:
        features: (K, d), one row an arm: an array, a nested list or a DataFrame.
        setting: "paper": lam1 = 1, lam2 = 0.5; "tuned": lam2 = 0.5 noise, as a lasso
            penalty goes with the noise. Explicit arguments override either.
        noise: standard deviation of the noise, used by the tuned setting.
        lam1: of the chance to explore.
        lam2: of the penalty.
        forced: uniform rounds at the start.
        clip: pseudo-rewards are clipped to [-clip, clip].
        seed: of this policy's own draws.
    """

    name = "drlasso"
    summary = "the doubly robust lasso bandit (Kim and Paik 2019)"
    totals = ("clock", "total")

    def __init__(
        self,
        features: Any,
        *,
        setting: str = "paper",
        noise: float = 0.1,
        lam1: float | None = None,
        lam2: float | None = None,
        forced: float = 10,
        clip: float = 3.0,
        seed: Seed = None,
    ) -> None:
        options = given(locals())
        arms = read_features(features)
        average = arms.features.mean(axis=0)
        largest = int(np.argmax(np.abs(average)))
        noise = between("noise", noise, 0.0, math.inf)
        penalty = 0.5 * noise if tuned(setting) else 0.5
        params = Params(
            arms=arms.count,
            column=np.ascontiguousarray(arms.features[:, largest]),
            average=float(average[largest]),
            size=arms.features.shape[1],
            lam1=between("lam1", 1.0 if lam1 is None else lam1, 0.0, math.inf, inclusive=True),
            lam2=between("lam2", penalty if lam2 is None else lam2, 0.0, math.inf, inclusive=True),
            forced=between("forced", forced, 0.0, math.inf, inclusive=True),
            clip=between("clip", clip, 0.0, math.inf),
        )
        super().__init__(arms, params, init(params), options, seed)

    def _learn(
        self, positions: IntArray, rewards: FloatArray, rows: FloatArray, chances: FloatArray
    ) -> None:
        for arm, reward, chance in zip(positions, rewards, chances, strict=True):
            seen = Choice(int(arm), float(chance), int(arm), int(arm), True)
            update(self.params, self._state, seen, rows, float(reward))
