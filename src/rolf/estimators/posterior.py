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
from rolf.estimators.bounds import NORMAL
from rolf.estimators.components import (
    Components,
    Posterior,
    fixed_loadings,
    fixed_posterior,
    move,
    no_components,
    refresh,
    standard_rows,
)
from rolf.estimators.mixture import (
    Believed,
    MixturePosterior,
    believed,
    check_anchored,
    check_components,
    loadings,
    mixture,
    plays,
    posterior,
    posterior_traits,
)
from rolf.estimators.operations import ArmTotals, History, Observation, arm_totals
from rolf.estimators.scales import (
    TOTALS,
    due,
    forget_evidence,
    noise_variances,
    scale_grid,
    weigh,
)
from rolf.kernel import looped, shared
from rolf.types import FloatArray, IntArray


def make_grid(features: FloatArray, noise: float = 0.0) -> Posterior:
    """The grid for fixed features (K, d); ``noise`` is the noise variance if it is known."""
    return Posterior(*standard_rows(features), *scale_grid(TOTALS), noise)


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
    evidence = belief.evidence
    evidence.seen[0] += count
    if evidence.seen[0] == count:
        fix_level(grid, belief, arm, value, count)
        return
    gain, pull = np.empty(grid.rows.shape[1]), np.empty(grid.rows.shape[0])
    for g in range(grid.latent.size):
        if evidence.alive[g] == 1:
            total = 1.0 / count + max(belief.variances[g, arm], 0.0)
            error = value - belief.means[g, arm]
            step = error / total
            move(grid.rows, belief, g, arm, step, 1.0 / total, gain, pull)
            free = belief.loose[g, arm]
            belief.loose[g, arm] = 1.0 / (1.0 / free + grid.latent[g] * count)
            evidence.errors[g] += error * step
            evidence.logdets[g] += math.log(count * total)


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
        weigh(model.prior, components.evidence, model.noise)


def _means(model: Posterior, belief: PosteriorBelief, features: FloatArray) -> FloatArray:
    mean, _, _ = mixture(believed(model, belief, features))
    out: FloatArray = mean + belief.anchor[0]
    return out


def _believed(model: Posterior, belief: PosteriorBelief, features: FloatArray) -> Believed:
    components, evidence = belief.components, belief.components.evidence
    noises = noise_variances(evidence, model.noise)
    return Believed(evidence.weights, components.means, components.variances, noises)


def _plays(model: Posterior, belief: PosteriorBelief) -> FloatArray:
    return belief.counts


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


def _loadings(
    model: Posterior, belief: PosteriorBelief, features: FloatArray, component: int, arms: IntArray
) -> tuple[FloatArray, FloatArray]:
    return fixed_loadings(model.rows, belief.components.loose, model.latent, component, arms)


def _posterior(model: Posterior, belief: PosteriorBelief, features: FloatArray) -> MixturePosterior:
    return fixed_posterior(model, belief.components, float(belief.anchor[0]))


op.estimator(
    Posterior,
    {
        op.check_totals: check_anchored,
        op.check_rest: check_components,
        op.begin: _begin,
        op.observe: _observe,
        op.means: _means,
        believed: _believed,
        loadings: _loadings,
        plays: _plays,
        **NORMAL,
        op.recompute: _recompute,
        op.learn: _learn,
        op.learn_totals: _learn_totals,
        posterior: _posterior,
    },
    posterior_traits(
        totals=("counts", "sums", "squares"), derived=("means", "variances", "loose", "cov")
    ),
)
