"""Ridge regression, three times over, each in the cheapest space.

* ``reward_*``: ridge on the augmented features [X' B] without forming B. The estimated
  rewards r of all K arms solve

      (D + l I + l V (S^-2 - I) V') r = sums,     D = diag(counts),

  with X' = V S W' the thin singular value decomposition and l the penalty: a diagonal
  matrix plus one of rank d, so a round costs O(K d).
* ``linear_*``: ridge on the observed features alone, kept as the estimated reward of every
  arm and, where it is needed, its squared width x_a' M^-1 x_a; both are updated in O(K d),
  never recomputed.
* ``biased_*``: ridge on [x_{a,t}, e_a], features of the round beside one free bias for
  every arm. The biases are eliminated, so the state is d x d.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rolf.kernel import shared
from rolf.linalg import (
    add,
    add_outer,
    assign,
    dot,
    inverse_root,
    matvec,
    root_update,
    solve,
    vecmat,
    weighted_gram,
)
from rolf.types import FloatArray, IntArray

LOSS = 1e-2  # a squared width below this share of its last computed value is computed anew

# --- augmented features, fixed -------------------------------------------------------


class RewardModel(NamedTuple):
    """What stays: directions V (K, d), squared scales S^2 (d,), the penalty l."""

    directions: FloatArray
    scales2: FloatArray
    penalty: float


class RewardState(NamedTuple):
    """counts N and sums S are the truth; the rest follows from them.

    With E = D + l I and C = l (S^-2 - I): core = (C^-1 + V' E^-1 V)^-1 (d, d),
    image = V' E^-1 sums (d,), estimates = E^-1 (sums - V core image) (K,).
    """

    counts: FloatArray
    sums: FloatArray
    core: FloatArray
    image: FloatArray
    estimates: FloatArray


def reward_start(model: RewardModel) -> RewardState:
    arms, rank = model.directions.shape
    core = np.diag(model.penalty * (1.0 - model.scales2))
    return RewardState(np.zeros(arms), np.zeros(arms), core, np.zeros(rank), np.zeros(arms))


@shared
def reward_update(model: RewardModel, state: RewardState, arm: int, reward: float) -> None:
    """One more reward of one arm: E changes in one entry, so core by one rank."""
    before = state.counts[arm] + model.penalty
    after = before + 1.0
    change = 1.0 / after - 1.0 / before
    row = model.directions[arm]
    pull = matvec(state.core, row)
    factor = -change / (1.0 + change * dot(row, pull))
    add_outer(state.core, factor, pull, pull)
    old = state.sums[arm]
    state.counts[arm] += 1.0
    state.sums[arm] = old + reward
    add(state.image, state.sums[arm] / after - old / before, row)
    reward_estimate(model, state)


@shared
def reward_estimate(model: RewardModel, state: RewardState) -> None:
    shift = matvec(model.directions, matvec(state.core, state.image))
    assign(state.estimates, (state.sums - shift) / (state.counts + model.penalty))


@shared
def reward_refresh(model: RewardModel, state: RewardState) -> None:
    """Everything anew from counts and sums, in O(K d^2): removes what rounding added."""
    weights = 1.0 / (state.counts + model.penalty)
    prior = model.penalty * (1.0 / model.scales2 - 1.0)
    # (I + C V'E^-1 V) core = C, which also holds where C has zeros on its diagonal
    left = weighted_gram(model.directions, weights)
    right = np.zeros(left.shape)
    for i in range(prior.size):
        for j in range(prior.size):
            left[i, j] *= prior[i]
        left[i, i] += 1.0
        right[i, i] = prior[i]
    core = solve(left, right)
    for i in range(prior.size):
        for j in range(prior.size):
            state.core[i, j] = (core[i, j] + core[j, i]) / 2.0
    assign(state.image, vecmat(state.sums * weights, model.directions))
    reward_estimate(model, state)


# --- observed features, fixed --------------------------------------------------------


class LinearState(NamedTuple):
    """counts and sums are the truth.

    root root' = M^-1 with M = l I + sum_a N_a x_a x_a'; estimates = X M^-1 b (K,).
    """

    counts: FloatArray
    sums: FloatArray
    root: FloatArray
    estimates: FloatArray


def linear_start(features: FloatArray, penalty: float) -> LinearState:
    arms, size = features.shape
    root = np.eye(size) / np.sqrt(penalty)
    return LinearState(np.zeros(arms), np.zeros(arms), root, np.zeros(arms))


@shared
def linear_update(
    features: FloatArray, state: LinearState, arm: int, reward: float
) -> tuple[FloatArray, float]:
    """One more reward. Returns X M^-1 x_a (K,) and x_a' M^-1 x_a, both from before it."""
    gain, size = root_update(state.root, features[arm])
    spread = matvec(features, gain)
    error = reward - state.estimates[arm]
    state.counts[arm] += 1.0
    state.sums[arm] += reward
    add(state.estimates, error / (1.0 + size), spread)
    return spread, size


class Widths(NamedTuple):
    """Squared widths x_a' M^-1 x_a (K,), and below what they are computed anew from the root."""

    now: FloatArray
    limits: FloatArray


def widths_start(features: FloatArray, state: LinearState) -> Widths:
    half = features @ state.root
    now: FloatArray = np.einsum("ij,ij->i", half, half)
    return Widths(now, LOSS * now)


@shared
def narrow(
    widths: Widths, features: FloatArray, root: FloatArray, spread: FloatArray, size: float
) -> None:
    """The squared widths after one more reward, in O(K).

    Subtraction leaves rounding behind. A width that has lost most of what it was is computed
    anew from the root, which keeps its accuracy: two or three times for an arm in a long run.
    """
    assign(widths.now, widths.now - spread * spread * (1.0 / (1.0 + size)))
    lost = widths.now < widths.limits
    if np.count_nonzero(lost) > 0:
        for arm in np.flatnonzero(lost):
            half = vecmat(features[arm], root)
            widths.now[arm] = dot(half, half)
            widths.limits[arm] = LOSS * widths.now[arm]


def linear_rebuild(features: FloatArray, state: LinearState, penalty: float) -> None:
    """Everything anew from counts and sums."""
    moment = weighted_gram(features, state.counts)
    moment[np.diag_indices_from(moment)] += penalty
    state.root[:] = inverse_root(moment, penalty)
    half = features @ state.root
    state.estimates[:] = half @ (half.T @ state.sums)


# --- features of the round and a bias for every arm ------------------------------------


class BiasedState(NamedTuple):
    """Additive totals first: counts, sums, feature sums (K, d), second moment (d, d) and
    cross moment (d,). Then root root' = M^-1 and theta = M^-1 q, with

        M = l I + sum x x' - sum_a c_a c_a' / (N_a + l)
        q =       sum x y  - sum_a c_a S_a  / (N_a + l),   c_a the feature sum of arm a.
    """

    counts: FloatArray
    sums: FloatArray
    feature_sums: FloatArray
    moment: FloatArray
    cross: FloatArray
    root: FloatArray
    theta: FloatArray


def biased_start(arms: int, size: int, penalty: float) -> BiasedState:
    return BiasedState(
        counts=np.zeros(arms),
        sums=np.zeros(arms),
        feature_sums=np.zeros((arms, size)),
        moment=np.zeros((size, size)),
        cross=np.zeros(size),
        root=np.eye(size) / np.sqrt(penalty),
        theta=np.zeros(size),
    )


@shared
def biased_update(
    state: BiasedState, penalty: float, arm: int, row: FloatArray, reward: float
) -> None:
    """One more reward. M grows by w z z' with z = x - c_a/(N_a + l), w = 1 - 1/(N_a + l + 1)."""
    total = state.counts[arm] + penalty
    weight = total / (total + 1.0)
    centred = row - state.feature_sums[arm] / total
    scaled = centred * np.sqrt(weight)
    bias = (state.sums[arm] - dot(state.feature_sums[arm], state.theta)) / total
    error = reward - dot(row, state.theta) - bias
    gain, size = root_update(state.root, scaled)
    add(state.theta, np.sqrt(weight) * error / (1.0 + size), gain)
    state.counts[arm] += 1.0
    state.sums[arm] += reward
    add(state.feature_sums[arm], 1.0, row)
    add(state.cross, reward, row)
    add_outer(state.moment, 1.0, row, row)


@shared
def biased_estimate(state: BiasedState, penalty: float, features: FloatArray) -> FloatArray:
    """Estimated rewards of all arms for these features (K, d)."""
    bias = (state.sums - matvec(state.feature_sums, state.theta)) / (state.counts + penalty)
    return matvec(features, state.theta) + bias


def biased_rebuild(state: BiasedState, penalty: float) -> None:
    """Root and theta anew from the totals."""
    weights = 1.0 / (state.counts + penalty)
    moment = state.moment - weighted_gram(state.feature_sums, weights)
    moment[np.diag_indices_from(moment)] += penalty
    state.root[:] = inverse_root(moment, penalty)
    cross = state.cross - state.feature_sums.T @ (state.sums * weights)
    state.theta[:] = state.root @ (state.root.T @ cross)


def from_history(
    arms: int, positions: IntArray, rewards: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Counts and sums of a history of (arm, reward)."""
    counts = np.bincount(positions, minlength=arms).astype(np.float64)
    sums = np.bincount(positions, weights=rewards, minlength=arms)
    return counts, sums.astype(np.float64)
