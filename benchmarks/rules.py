"""Other ways to decide from the posterior of RoLF-Bayes, to measure beside its own.

Each is RoLF-Bayes with another choice: the same model, the same scales, the same updates.
(While all rewards were equal they play at random, where RoLF-Bayes takes the least known arm.)
``benchmarks/regret.py --policy NAME`` takes the names of ``RULES``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rolf.estimators.posterior import Grid, mixture
from rolf.estimators.scales import noise_variance
from rolf.kernel import body_of, implements, shared
from rolf.linalg import argmax, normals
from rolf.policies.operations import choose, estimate, probabilities, rebuild, update
from rolf.policies.rolf_bayes import Params, RoLFBayes, State
from rolf.types import Choice, FloatArray, Generator, IntArray, Seed


class Flat(NamedTuple):
    """mean + width deviations for every arm, posterior weights as they are."""

    grid: Grid
    width: float


class Plugged(NamedTuple):
    """The same, from the one component with the largest weight."""

    grid: Grid
    width: float


class Drawn(NamedTuple):
    """Thompson sampling: a component by its weight, then all arms from its joint posterior."""

    grid: Grid
    width: float


class Gain(NamedTuple):
    """mean + what one look (of the best number of rewards) is expected to gain over as many
    rounds again: the knowledge gradient."""

    grid: Grid
    width: float


@shared
def _take(
    score: FloatArray,
    noise: float,
    mean: FloatArray,
    state: State,
    available: IntArray,
    rng: Generator,
) -> Choice:
    """The best score; any arm while all rewards were equal."""
    arm = argmax(score, available)
    if noise < 0.0:
        arm = int(available[int(rng.random() * available.size)])
    state.waiting[arm] += 1.0
    return Choice(arm, 1.0, argmax(mean, available), arm, True)


@implements(choose, Flat)
def _flat(
    params: Flat, state: State, features: FloatArray, available: IntArray, rng: Generator
) -> Choice:
    state.clock[0] += 1
    mean, variance, noise = mixture(state.belief, state.belief.evidence.weights)
    return _take(mean + params.width * np.sqrt(variance), noise, mean, state, available, rng)


@implements(choose, Plugged)
def _plugged(
    params: Plugged, state: State, features: FloatArray, available: IntArray, rng: Generator
) -> Choice:
    state.clock[0] += 1
    evidence = state.belief.evidence
    best = int(np.argmax(evidence.weights))
    mean = state.belief.means[best].copy()
    variance = noise_variance(evidence, best) * np.maximum(state.belief.variances[best], 0.0)
    noise = 1.0 if evidence.errors.max() > 0.0 else -1.0
    return _take(mean + params.width * np.sqrt(variance), noise, mean, state, available, rng)


@implements(choose, Drawn)
def _drawn(
    params: Drawn, state: State, features: FloatArray, available: IntArray, rng: Generator
) -> Choice:
    state.clock[0] += 1
    belief, evidence = state.belief, state.belief.evidence
    left, g = rng.random(), 0
    while g < evidence.weights.size - 1 and left > evidence.weights[g]:
        left -= evidence.weights[g]
        g += 1
    degrees = max(int(evidence.seen[0]) - 1, 1)
    spread = math.sqrt(evidence.errors[g] / (normals(degrees, rng) ** 2).sum())
    size = belief.cov.shape[1]
    root = belief.cov[g].copy()  # Cholesky, row by row
    steps, out = normals(size, rng), np.zeros(size)
    for i in range(size):
        for j in range(i + 1):
            inner = root[i, j]
            for k in range(j):
                inner -= root[i, k] * root[j, k]
            root[i, j] = math.sqrt(max(inner, 1e-18)) if i == j else inner / root[j, j]
            out[i] += root[i, j] * steps[j]
    loose = belief.loose[g]
    common = np.zeros(loose.size)
    for a in range(loose.size):
        for i in range(size):
            common[a] += params.grid.rows[a, i] * out[i]
    alone = np.sqrt(params.grid.latent[g] * loose) * normals(loose.size, rng)
    drawn = belief.means[g] + params.width * spread * (loose * common + alone)
    noise = 1.0 if evidence.errors.max() > 0.0 else -1.0
    return _take(drawn, noise, drawn, state, available, rng)


@implements(choose, Gain)
def _gain(
    params: Gain, state: State, features: FloatArray, available: IntArray, rng: Generator
) -> Choice:
    state.clock[0] += 1
    mean, variance, noise = mixture(state.belief, state.belief.evidence.weights)
    ahead = max(1000.0, float(state.clock[0]))
    top = argmax(mean, available)
    second = -math.inf
    for a in available:
        if a != top:
            second = max(second, mean[a])
    out = mean.copy()
    for a in range(mean.size):
        gap = abs(mean[a] - (second if a == top else mean[top]))
        looks, most = 1.0, 0.0
        while looks < ahead and noise > 0.0:
            step = variance[a] / math.sqrt(variance[a] + noise / looks + 1e-300)
            z = gap / (step + 1e-300)
            density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
            better = step * (density - 0.5 * z * math.erfc(z / math.sqrt(2.0)))
            most = max(most, better * (ahead - looks) / looks)
            looks *= 2.0
        out[a] += params.width * most
    return _take(out, noise, mean, state, available, rng)


class _Rule(RoLFBayes):
    """RoLF-Bayes with another choice."""

    made: type

    def __init__(self, features: Any, *, width: float = 2.5, seed: Seed = None) -> None:
        super().__init__(features, width=width, seed=seed)
        self.params = self.made(self.params.grid, width)
        self._choose = body_of(choose, self.made)


def _rule(made: type) -> type[_Rule]:
    for operation in (update, estimate, probabilities, rebuild):
        implements(operation, made)(body_of(operation, Params))
    return type(made.__name__, (_Rule,), {"made": made})


RULES = {
    "flat": _rule(Flat),
    "plug-in": _rule(Plugged),
    "thompson": _rule(Drawn),
    "knowledge-gradient": _rule(Gain),
}
