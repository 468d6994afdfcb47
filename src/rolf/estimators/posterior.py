"""Posterior of all arms for fixed features, when the scales are not known.

Each component of ``scales.py`` carries the covariance C of (c, m) in units of s, (D, D), and
for every arm its posterior mean, its variance v_a in units of s and f_a = 1/(1 + l N_a), the
share of its latent part that is still unknown. Given m the arms are independent, so the
covariance of two arms is f_a f_b z_a'C z_b with z = (1, x), plus l f_a if they are one. The
mean of n more rewards of arm a, at e from what was expected with variance S = 1/n + v_a,
moves

    r  by  k e / S,    v  by  -k^2 / S,    C  by  -f_a^2 (C z_a)(C z_a)' / S,

with k the covariances of all arms with arm a, and adds e^2/S to the squared error and log(n S)
to the log determinant. A single reward is n = 1. A round costs O(K d + d^2) for each component
that still has weight.

How the components follow from the totals is in ``components.py``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rolf.estimators import operations as op
from rolf.estimators.components import Components, Posterior, make_grid, no_components, refresh
from rolf.estimators.mixture import (
    MixturePosterior,
    believed,
    check_anchored,
    check_components,
    posterior,
    posterior_traits,
)
from rolf.estimators.operations import ArmTotals, History, Observation, arm_totals
from rolf.estimators.scales import FAINT, due, forget_evidence, noise_variance, weigh
from rolf.kernel import looped, shared
from rolf.types import FloatArray, IntArray

__all__ = ["Components", "Posterior", "absorb", "make_grid", "mixture", "refresh"]


@shared
def fix_level(grid: Posterior, belief: Components, arm: int, value: float, count: float) -> None:
    """The first arm to be seen fixes the level: the flat prior of c becomes proper."""
    arms, size = grid.rows.shape
    for g in range(grid.latent.size):
        latent = grid.latent[g]
        level = latent + 1.0 / count
        corner = level
        for i in range(1, size):
            variance = grid.observed[g] * grid.sizes[i]
            corner += variance * grid.rows[arm, i] ** 2
            for j in range(1, size):
                belief.cov[g, i, j] = 0.0
            belief.cov[g, i, i] = variance
            belief.cov[g, 0, i] = belief.cov[g, i, 0] = -variance * grid.rows[arm, i]
        belief.cov[g, 0, 0] = corner
        for a in range(arms):
            distance = 0.0
            for i in range(1, size):
                step = grid.rows[a, i] - grid.rows[arm, i]
                distance += grid.sizes[i] * step * step
            belief.means[g, a] = value
            belief.variances[g, a] = level + latent + grid.observed[g] * distance
            belief.loose[g, a] = 1.0
        belief.variances[g, arm] = 1.0 / count
        belief.loose[g, arm] = 1.0 / (1.0 + latent * count)
        belief.evidence.errors[g] = 0.0
        belief.evidence.logdets[g] = 0.0
        belief.evidence.alive[g] = 1


@looped
def absorb(grid: Posterior, belief: Components, arm: int, value: float, count: float) -> None:
    """Take in the mean ``value`` of ``count`` more rewards of an arm."""
    belief.evidence.seen[0] += count
    if belief.evidence.seen[0] == count:
        fix_level(grid, belief, arm, value, count)
        return
    arms, size = grid.rows.shape
    gain = np.empty(size)
    pull = np.empty(arms)
    rows, cov = grid.rows, belief.cov
    means, variances, loose = belief.means, belief.variances, belief.loose
    for g in range(grid.latent.size):
        if belief.evidence.alive[g] == 0:
            continue
        own = max(variances[g, arm], 0.0)
        total = 1.0 / count + own
        error = value - means[g, arm]
        free = loose[g, arm]
        for i in range(size):
            inner = 0.0
            for j in range(size):
                inner += cov[g, i, j] * rows[arm, j]
            gain[i] = free * inner
        for a in range(arms):
            inner = 0.0
            for i in range(size):
                inner += rows[a, i] * gain[i]
            pull[a] = loose[g, a] * inner
        pull[arm] = own
        step = error / total
        shrink = 1.0 / total
        for a in range(arms):
            means[g, a] += step * pull[a]
            variances[g, a] -= shrink * pull[a] * pull[a]
        for i in range(size):
            factor = shrink * gain[i]
            for j in range(size):
                cov[g, i, j] -= factor * gain[j]
        loose[g, arm] = 1.0 / (1.0 / free + grid.latent[g] * count)
        belief.evidence.errors[g] += error * step
        belief.evidence.logdets[g] += math.log(count * total)


@looped
def mixture(belief: Components, weights: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Mean and variance of every arm over all components, weighed, and the noise variance.

    While all rewards were equal the variances are in units of the noise, and the noise
    variance is given as -1.
    """
    count, arms = belief.means.shape
    mean = np.zeros(arms)
    variance = np.zeros(arms)
    noise = 0.0
    for g in range(count):
        weight = weights[g]
        if weight > FAINT:
            for a in range(arms):
                mean[a] += weight * belief.means[g, a]
    for g in range(count):
        weight = weights[g]
        if weight > FAINT:
            scale = noise_variance(belief.evidence, g)
            noise += weight * scale
            for a in range(arms):
                off = belief.means[g, a] - mean[a]
                variance[a] += weight * (off * off + scale * max(belief.variances[g, a], 0.0))
    varied = belief.evidence.errors.max() > 0.0
    return mean, variance, noise if varied else -1.0


# --- as an estimator ---------------------------------------------------------------------------


class PosteriorBelief(NamedTuple):
    """Per arm (K,) the number of rewards and their sum and sum of squares, less the anchor: the
    first reward, so that a high level costs no digits. The components follow from them."""

    counts: FloatArray
    sums: FloatArray
    squares: FloatArray
    anchor: FloatArray
    components: Components


def _begin(model: Posterior, arms: int) -> PosteriorBelief:
    counts, sums, squares = np.zeros((3, arms))
    return PosteriorBelief(counts, sums, squares, np.zeros(1), no_components(model))


def _observe(model: Posterior, belief: PosteriorBelief, seen: Observation) -> None:
    arm = seen.arm
    components = belief.components
    count = components.evidence.seen[0]
    if count == 0.0:
        belief.anchor[0] = seen.reward
    value = seen.reward - belief.anchor[0]
    belief.counts[arm] += 1.0
    belief.sums[arm] += value
    belief.squares[arm] += value * value
    if due(count + 1.0, belief.counts.size):
        refresh(model, components, belief.counts, belief.sums, belief.squares)
    else:
        absorb(model, components, arm, value, 1.0)
        weigh(model.prior, components.evidence)


def _means(model: Posterior, belief: PosteriorBelief, features: FloatArray) -> FloatArray:
    mean, _, _ = mixture(belief.components, belief.components.evidence.weights)
    out: FloatArray = mean + belief.anchor[0]
    return out


def _believed(
    model: Posterior, belief: PosteriorBelief, features: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    return mixture(belief.components, belief.components.evidence.cautious)


def _recompute(model: Posterior, belief: PosteriorBelief, round: int) -> None:
    forget_evidence(model.prior, belief.components.evidence)
    refresh(model, belief.components, belief.counts, belief.sums, belief.squares)


def _learn(model: Posterior, belief: PosteriorBelief, history: History) -> None:
    seen = belief.components.evidence.seen[0] > 0.0
    level = float(belief.anchor[0]) if seen else float(history.rewards[0])
    _learn_totals(model, belief, arm_totals(belief.counts.size, history, level))


def _learn_totals(model: Posterior, belief: PosteriorBelief, totals: ArmTotals) -> None:
    if belief.components.evidence.seen[0] == 0.0:
        belief.anchor[0] = totals.level
    step = totals.level - belief.anchor[0]
    belief.counts[:] += totals.counts
    belief.sums[:] += totals.sums + step * totals.counts
    belief.squares[:] += totals.squares + step * (2.0 * totals.sums + step * totals.counts)


def _posterior(model: Posterior, belief: PosteriorBelief, features: FloatArray) -> MixturePosterior:
    components, evidence = belief.components, belief.components.evidence
    live = np.flatnonzero(evidence.weights > 0.0)
    latent, counts, rows = model.latent[live], belief.counts.copy(), model.rows.T.copy()

    def loadings(component: int, arms: IntArray) -> tuple[FloatArray, FloatArray]:
        loose = 1.0 / (1.0 + latent[component] * counts[arms])
        return loose * rows.take(arms, axis=1), latent[component] * loose

    return MixturePosterior(
        weights=evidence.weights[live],
        errors=evidence.errors[live],
        means=components.means[live] + belief.anchor[0],
        variances=np.maximum(components.variances[live], 0.0),
        cov=components.cov[live],
        degrees=float(evidence.seen[0]) - 1.0,
        loadings=loadings,
    )


op.estimator(
    Posterior,
    {
        op.check_totals: check_anchored,
        op.check_rest: check_components,
        op.begin: _begin,
        op.observe: _observe,
        op.means: _means,
        believed: _believed,
        op.recompute: _recompute,
        op.learn: _learn,
        op.learn_totals: _learn_totals,
        posterior: _posterior,
    },
    posterior_traits(
        totals=("counts", "sums", "squares"), derived=("means", "variances", "loose", "cov")
    ),
)
