"""Posterior for features that change every round, when the scales are not known.

The model of ``scales.py`` with x_{a,t} in place of x_a; the latent part u_a of an arm stays.
Each component carries the posterior mean t of (c, m) and its covariance C in units of s. With
z = (1, x), f_a = 1/(1 + l N_a), and the latent parts eliminated, arm a with features x has

    mean  g't + (1 - f_a) ybar_a,    variance  l f_a + g'C g,    g = z - (1 - f_a) zbar_a,

where zbar_a and ybar_a are the averages over the rounds that played it. A reward at e from
its mean, with variance S = 1 + l f_a + g'C g, moves t by C g e/S and C by -(C g)(C g)'/S.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rolf.estimators.scales import (
    FAINT,
    Evidence,
    components,
    no_evidence,
    noise_variance,
    weigh,
)
from rolf.kernel import looped, shared
from rolf.types import FloatArray


class VaryingGrid(NamedTuple):
    """Prior variance of each coefficient at observed scale 1 (D,), the first one unused, and
    per component (G,) observed and latent scale and log prior weight."""

    sizes: FloatArray
    observed: FloatArray
    latent: FloatArray
    prior: FloatArray


class Totals(NamedTuple):
    """What the rewards add up to: counts (K,), sums (K,), sums of z (K, D), second moment of
    z (D, D), cross moment of z and reward (D,), squares (1,)."""

    counts: FloatArray
    sums: FloatArray
    rows: FloatArray
    moment: FloatArray
    cross: FloatArray
    squares: FloatArray


class VaryingBelief(NamedTuple):
    """Per component: mean (G, D) and covariance (G, D, D) of the coefficients."""

    coef: FloatArray
    cov: FloatArray
    evidence: Evidence


def varying_grid(features: FloatArray) -> VaryingGrid:
    """The grid for features whose units are those of ``features`` (K, d).

    At observed scale 1 the observed part has variance about 1 if the features of a round are
    as large as these; a column of zeros says nothing and counts as of size 1.
    """
    largest = np.abs(features).max(axis=0)
    units = np.where(largest > 0.0, largest, 1.0)
    squares = units**2 * np.mean((features / units) ** 2, axis=0)
    squares = np.where(largest > 0.0, squares, 1.0)
    sizes = np.append(0.0, 1.0 / (features.shape[1] * squares))
    return VaryingGrid(sizes, *components())


def no_totals(arms: int, size: int) -> Totals:
    return Totals(
        np.zeros(arms),
        np.zeros(arms),
        np.zeros((arms, size)),
        np.zeros((size, size)),
        np.zeros(size),
        np.zeros(1),
    )


def varying_start(grid: VaryingGrid) -> VaryingBelief:
    count, size = grid.latent.size, grid.sizes.size
    return VaryingBelief(
        np.zeros((count, size)), np.zeros((count, size, size)), no_evidence(grid.prior)
    )


@shared
def _begin(grid: VaryingGrid, belief: VaryingBelief, row: FloatArray, value: float) -> None:
    """The first reward fixes the level: the flat prior of c becomes proper."""
    size = grid.sizes.size
    for g in range(grid.latent.size):
        corner = 1.0 + grid.latent[g]
        for i in range(1, size):
            variance = grid.observed[g] * grid.sizes[i]
            corner += variance * row[i - 1] ** 2
            belief.coef[g, i] = 0.0
            for j in range(1, size):
                belief.cov[g, i, j] = 0.0
            belief.cov[g, i, i] = variance
            belief.cov[g, 0, i] = belief.cov[g, i, 0] = -variance * row[i - 1]
        belief.cov[g, 0, 0] = corner
        belief.coef[g, 0] = value


@looped
def varying_absorb(
    grid: VaryingGrid,
    belief: VaryingBelief,
    totals: Totals,
    arm: int,
    row: FloatArray,
    value: float,
) -> None:
    """Take in one reward of an arm that had the features ``row`` (d,)."""
    size = grid.sizes.size
    count = totals.counts[arm]
    evidence = belief.evidence
    evidence.seen[0] += 1.0
    if evidence.seen[0] == 1.0:
        _begin(grid, belief, row, value)
    else:
        way = np.empty(size)
        gain = np.empty(size)
        for g in range(grid.latent.size):
            if evidence.alive[g] == 0:
                continue
            free = 1.0 / (1.0 + grid.latent[g] * count)
            held = (1.0 - free) / max(count, 1.0)
            expected = held * totals.sums[arm]
            for i in range(size):
                way[i] = (row[i - 1] if i > 0 else 1.0) - held * totals.rows[arm, i]
                expected += way[i] * belief.coef[g, i]
            total = 1.0 + grid.latent[g] * free
            for i in range(size):
                inner = 0.0
                for j in range(size):
                    inner += belief.cov[g, i, j] * way[j]
                gain[i] = inner
                total += way[i] * inner
            error = value - expected
            step = error / total
            for i in range(size):
                belief.coef[g, i] += step * gain[i]
                factor = gain[i] / total
                for j in range(size):
                    belief.cov[g, i, j] -= factor * gain[j]
            evidence.errors[g] += error * step
            evidence.logdets[g] += math.log(total)
    weigh(grid.prior, evidence)
    totals.counts[arm] += 1.0
    totals.sums[arm] += value
    totals.squares[0] += value * value
    for i in range(size):
        left = row[i - 1] if i > 0 else 1.0
        totals.rows[arm, i] += left
        totals.cross[i] += left * value
        for j in range(size):
            totals.moment[i, j] += left * (row[j - 1] if j > 0 else 1.0)


@looped
def varying_component(
    grid: VaryingGrid,
    belief: VaryingBelief,
    totals: Totals,
    component: int,
    features: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
) -> None:
    """Write one component's mean and variance (in units of s) of all arms, (K,)."""
    arms, size = totals.rows.shape
    way = np.empty(size)
    latent = grid.latent[component]
    for a in range(arms):
        free = 1.0 / (1.0 + latent * totals.counts[a])
        held = (1.0 - free) / max(totals.counts[a], 1.0)
        middle = held * totals.sums[a]
        for i in range(size):
            way[i] = (features[a, i - 1] if i > 0 else 1.0) - held * totals.rows[a, i]
            middle += way[i] * belief.coef[component, i]
        spread = latent * free
        for i in range(size):
            inner = 0.0
            for j in range(size):
                inner += belief.cov[component, i, j] * way[j]
            spread += way[i] * inner
        mean[a] = middle
        variance[a] = max(spread, 0.0)


@looped
def varying_mixture(
    grid: VaryingGrid,
    belief: VaryingBelief,
    totals: Totals,
    features: FloatArray,
    weights: FloatArray,
) -> tuple[FloatArray, FloatArray, float]:
    """Mean and variance of every arm over all components, weighed, and the noise variance,
    given as -1 while all rewards were equal."""
    arms = totals.counts.size
    evidence = belief.evidence
    first, second, mean, variance = np.zeros(arms), np.zeros(arms), np.zeros(arms), np.zeros(arms)
    noise = 0.0
    for g in range(grid.latent.size):
        weight = weights[g]
        if weight > FAINT and evidence.seen[0] > 0.0:
            varying_component(grid, belief, totals, g, features, mean, variance)
            scale = noise_variance(evidence, g)
            noise += weight * scale
            for a in range(arms):
                first[a] += weight * mean[a]
                second[a] += weight * (mean[a] * mean[a] + scale * variance[a])
    for a in range(arms):
        second[a] = max(second[a] - first[a] * first[a], 0.0)
    varied = evidence.errors.max() > 0.0
    return first, second, noise if varied else -1.0


def varying_refresh(grid: VaryingGrid, belief: VaryingBelief, totals: Totals) -> None:
    """Everything anew from the totals."""
    evidence = belief.evidence
    evidence.seen[0] = totals.counts.sum()
    evidence.alive[:] = 1
    if evidence.seen[0] == 0.0:
        return
    seen = totals.counts > 0.0
    held = grid.latent[:, None] / (1.0 + grid.latent[:, None] * totals.counts[seen])  # (G, A)
    rows, sums = totals.rows[seen], totals.sums[seen]
    sizes = grid.observed[:, None] * grid.sizes[1:]
    matrix = totals.moment - np.einsum("ga,ai,aj->gij", held, rows, rows)
    inner = np.arange(1, grid.sizes.size)
    matrix[:, inner, inner] += 1.0 / sizes
    right = totals.cross - (held * sums) @ rows
    belief.cov[:] = np.linalg.inv(matrix)
    belief.coef[:] = np.einsum("gij,gj->gi", belief.cov, right)
    explained = held @ sums**2 + np.einsum("gi,gi->g", right, belief.coef)
    evidence.errors[:] = np.maximum(totals.squares[0] - explained, 0.0)
    evidence.logdets[:] = np.log1p(grid.latent[:, None] * totals.counts[seen]).sum(axis=1)
    evidence.logdets[:] += np.linalg.slogdet(matrix)[1] + np.log(sizes).sum(axis=1)
    weigh(grid.prior, evidence)
