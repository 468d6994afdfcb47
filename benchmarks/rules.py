"""Other ways to decide from the posterior of RoLF-Bayes, to be measured beside its own.

Each is RoLF-Bayes with another rule: the same model, the same scales, the same updates. (While
all rewards are equal they play at random, where RoLF-Bayes plays the arm it knows least about.)
``benchmarks/regret.py --policy NAME`` takes the names in ``RULES``. The rules are for simulation
only: they have no ``chances``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rolf.estimators.posterior import mixture
from rolf.estimators.scales import noise_variance
from rolf.kernel import implement, shared
from rolf.linalg import argmax, normal_matrix
from rolf.policies.composition import Params
from rolf.policies.rolf_bayes import RoLFBayes
from rolf.policies.rules import Situation, decide
from rolf.types import Choice, FloatArray, Generator, Seed


class Flat(NamedTuple):
    """mean + width deviations for every arm, posterior weights as they are."""

    width: float


class PlugIn(NamedTuple):
    """The same, from the one component with the largest weight."""

    width: float


class Thompson(NamedTuple):
    """Thompson sampling: a component by its weight, then all arms from its joint posterior."""

    width: float


class KnowledgeGradient(NamedTuple):
    """mean + what trying the arm (the best number of times) is expected to gain over as many
    rounds again."""

    width: float


@shared
def _play(
    score: FloatArray, noise: float, mean: FloatArray, now: Situation, rng: Generator
) -> Choice:
    """The best score; any arm while all rewards are equal."""
    arm = argmax(score, now.available)
    if noise < 0.0:
        arm = int(now.available[int(rng.random() * now.available.size)])
    return Choice(arm, 1.0, argmax(mean, now.available), arm, True)


def _flat(rule: Flat, now: Situation, rng: Generator) -> Choice:
    now.clock[0] += 1
    components = now.belief.components
    mean, variance, noise = mixture(components, components.evidence.weights)
    return _play(mean + rule.width * np.sqrt(variance), noise, mean, now, rng)


def _plug_in(rule: PlugIn, now: Situation, rng: Generator) -> Choice:
    now.clock[0] += 1
    components = now.belief.components
    evidence = components.evidence
    best = int(np.argmax(evidence.weights))
    mean = components.means[best].copy()
    variance = noise_variance(evidence, best) * np.maximum(components.variances[best], 0.0)
    noise = 1.0 if evidence.errors.max() > 0.0 else -1.0
    return _play(mean + rule.width * np.sqrt(variance), noise, mean, now, rng)


def _thompson(rule: Thompson, now: Situation, rng: Generator) -> Choice:
    now.clock[0] += 1
    components = now.belief.components
    evidence = components.evidence
    left, g = rng.random(), 0
    while g < evidence.weights.size - 1 and left > evidence.weights[g]:
        left -= evidence.weights[g]
        g += 1
    degrees = max(int(evidence.seen[0]) - 1, 1)
    spread = math.sqrt(evidence.errors[g] / (normal_matrix(1, degrees, rng)[0] ** 2).sum())
    size = components.cov.shape[1]
    root = components.cov[g].copy()  # Cholesky, row by row
    steps, out = normal_matrix(1, size, rng)[0], np.zeros(size)
    for i in range(size):
        for j in range(i + 1):
            inner = root[i, j]
            for k in range(j):
                inner -= root[i, k] * root[j, k]
            root[i, j] = math.sqrt(max(inner, 1e-18)) if i == j else inner / root[j, j]
            out[i] += root[i, j] * steps[j]
    loose = components.loose[g]
    common = np.zeros(loose.size)
    for a in range(loose.size):
        for i in range(size):
            common[a] += now.model.rows[a, i] * out[i]
    alone = np.sqrt(now.model.latent[g] * loose) * normal_matrix(1, loose.size, rng)[0]
    drawn = components.means[g] + rule.width * spread * (loose * common + alone)
    noise = 1.0 if evidence.errors.max() > 0.0 else -1.0
    return _play(drawn, noise, drawn, now, rng)


def _knowledge_gradient(rule: KnowledgeGradient, now: Situation, rng: Generator) -> Choice:
    now.clock[0] += 1
    components = now.belief.components
    mean, variance, noise = mixture(components, components.evidence.weights)
    ahead = max(1000.0, float(now.clock[0]))
    top = argmax(mean, now.available)
    second = -math.inf
    for a in now.available:
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
        out[a] += rule.width * most
    return _play(out, noise, mean, now, rng)


implement(Flat, {decide: _flat})
implement(PlugIn, {decide: _plug_in})
implement(Thompson, {decide: _thompson})
implement(KnowledgeGradient, {decide: _knowledge_gradient})


class _OtherRule(RoLFBayes):
    """RoLF-Bayes with another rule."""

    rule: type

    def __init__(self, features: Any, *, width: float = 2.5, seed: Seed = None) -> None:
        super().__init__(features, width=width, seed=seed)
        self.params = Params(self.params.model, self.rule(width))


def _with_rule(rule: type) -> type[_OtherRule]:
    return type(rule.__name__, (_OtherRule,), {"rule": rule})


RULES = {
    "flat": _with_rule(Flat),
    "plug-in": _with_rule(PlugIn),
    "thompson": _with_rule(Thompson),
    "knowledge-gradient": _with_rule(KnowledgeGradient),
}
