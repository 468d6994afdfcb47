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

from rolf.estimators import contract as op
from rolf.estimators.contract import History, Observation, arm_totals
from rolf.estimators.posterior.bounds import NORMAL
from rolf.estimators.posterior.contract import loadings, moments, plays, posterior
from rolf.estimators.posterior.mixture import (
    Believed,
    MixturePosterior,
    check_anchored,
    check_components,
    mixture,
    posterior_traits,
)
from rolf.estimators.posterior.scales import (
    FAINT,
    TOTALS,
    Evidence,
    due,
    forget_evidence,
    no_evidence,
    noise_posterior,
    noise_variances,
    scale_grid,
    weigh,
)
from rolf.kernel import borrowed, looped, shared
from rolf.linalg import inverse, vecmat
from rolf.types import FloatArray, IntArray

# --- the components -------------------------------------------------------------------------------


class VaryingPosterior(NamedTuple):
    """What is taken off the features (d,), prior variance of each coefficient at observed scale 1
    (D,), the first one unused, per component (G,) observed and latent scale and log prior
    weight, and the noise variance if it is known, otherwise 0."""

    centre: FloatArray
    sizes: FloatArray
    observed: FloatArray
    latent: FloatArray
    prior: FloatArray
    noise: float


class Totals(NamedTuple):
    """What the rewards add up to: counts (K,), sums (K,), sums of z (K, D), second moment of
    z (D, D), cross moment of z and reward (D,), squares (1,)."""

    counts: FloatArray
    sums: FloatArray
    rows: FloatArray
    moment: FloatArray
    cross: FloatArray
    squares: FloatArray


class VaryingComponents(NamedTuple):
    """Per component: mean (G, D) and covariance (G, D, D) of the coefficients."""

    coef: FloatArray
    cov: FloatArray
    evidence: Evidence


def no_totals(arms: int, size: int) -> Totals:
    return Totals(
        np.zeros(arms),
        np.zeros(arms),
        np.zeros((arms, size)),
        np.zeros((size, size)),
        np.zeros(size),
        np.zeros(1),
    )


def no_components(grid: VaryingPosterior) -> VaryingComponents:
    count, size = grid.latent.size, grid.sizes.size
    return VaryingComponents(
        np.zeros((count, size)), np.zeros((count, size, size)), no_evidence(grid.prior)
    )


@shared
def fix_level(
    grid: VaryingPosterior, belief: VaryingComponents, row: FloatArray, value: float
) -> None:
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
    grid: VaryingPosterior,
    belief: VaryingComponents,
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
        fix_level(grid, belief, row, value)
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
            for i in range(size):
                expected += way[i] * belief.coef[g, i]
            total = 1.0 + grid.latent[g] * free
            for i in range(size):
                inner = 0.0
                for j in range(size):
                    inner += belief.cov[g, i, j] * way[j]
                gain[i] = inner
                total += way[i] * inner
            total = max(total, 1.0)  # below 1 only by rounding, where features are far off
            error = value - expected
            step = error / total
            for i in range(size):
                belief.coef[g, i] += step * gain[i]
                factor = gain[i] / total
                for j in range(size):
                    belief.cov[g, i, j] -= factor * gain[j]
            evidence.errors[g] += error * step
            evidence.logdets[g] += math.log(total)
    weigh(grid.prior, evidence, grid.noise)
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
def varying_believed(
    grid: VaryingPosterior,
    belief: VaryingComponents,
    totals: Totals,
    features: FloatArray,
    least: float,
) -> Believed:
    """What is believed of the arms, for all components with more than the least weight."""
    arms, size = totals.rows.shape
    weights = belief.evidence.weights
    evidence = borrowed(belief.evidence)
    coef, cov = borrowed(belief.coef), borrowed(belief.cov)
    totals, features = borrowed(totals), borrowed(features)
    means, variances = np.zeros((grid.latent.size, arms)), np.zeros((grid.latent.size, arms))
    way = np.empty(size)
    for g in range(grid.latent.size):
        if weights[g] <= least or evidence.seen[0] == 0.0:
            continue
        latent = grid.latent[g]
        for a in range(arms):
            free = 1.0 / (1.0 + latent * totals.counts[a])
            held = (1.0 - free) / max(totals.counts[a], 1.0)
            middle = held * totals.sums[a]
            way[0] = 1.0 - held * totals.rows[a, 0]
            for i in range(1, size):
                way[i] = features[a, i - 1] - held * totals.rows[a, i]
            for i in range(size):
                middle += way[i] * coef[g, i]
            spread = latent * free
            for i in range(size):
                inner = 0.0
                for j in range(size):
                    inner += cov[g, i, j] * way[j]
                spread += way[i] * inner
            means[g, a] = middle
            variances[g, a] = max(spread, 0.0)
    return Believed(weights, means, variances, noise_variances(evidence, grid.noise))


@looped
def varying_loadings(
    latents: FloatArray, totals: Totals, features: FloatArray, component: int, arms: IntArray
) -> tuple[FloatArray, FloatArray]:
    """``loadings`` for features that vary."""
    size = totals.rows.shape[1]
    reach, alone = np.empty((size, arms.size)), np.empty(arms.size)
    for place in range(arms.size):
        arm = arms[place]
        free = 1.0 / (1.0 + latents[component] * totals.counts[arm])
        held = (1.0 - free) / max(totals.counts[arm], 1.0)
        alone[place] = latents[component] * free
        for i in range(size):
            own = features[arm, i - 1] if i > 0 else 1.0
            reach[i, place] = own - held * totals.rows[arm, i]
    return reach, alone


@looped
def varying_refresh(grid: VaryingPosterior, belief: VaryingComponents, totals: Totals) -> None:
    """Recompute everything from the totals."""
    evidence = belief.evidence
    arms, size = totals.rows.shape
    evidence.seen[0] = totals.counts.sum()
    if evidence.seen[0] == 0.0:
        return
    matrix, right = np.empty((size, size)), np.empty(size)
    for g in range(grid.latent.size):
        evidence.alive[g] = 1
        logdet = 0.0
        explained = 0.0
        for i in range(size):
            right[i] = totals.cross[i]
            for j in range(size):
                matrix[i, j] = totals.moment[i, j]
        for a in range(arms):
            held = grid.latent[g] / (1.0 + grid.latent[g] * totals.counts[a])
            logdet += math.log(1.0 + grid.latent[g] * totals.counts[a])
            explained += held * totals.sums[a] ** 2
            for i in range(size):
                factor = held * totals.rows[a, i]
                right[i] -= factor * totals.sums[a]
                for j in range(size):
                    matrix[i, j] -= factor * totals.rows[a, j]
        for i in range(1, size):
            variance = grid.observed[g] * grid.sizes[i]
            matrix[i, i] += 1.0 / variance
        for i in range(1, size):
            logdet += math.log(grid.observed[g] * grid.sizes[i])
        inverted, more = inverse(matrix)
        for i in range(size):
            inner = 0.0
            for j in range(size):
                inner += inverted[i, j] * right[j]
            for j in range(size):
                belief.cov[g, i, j] = inverted[i, j]
            belief.coef[g, i] = inner
            explained += inner * right[i]
        evidence.errors[g] = max(totals.squares[0] - explained, 0.0)
        evidence.logdets[g] = logdet + more
    weigh(grid.prior, evidence, grid.noise)


# --- the estimator --------------------------------------------------------------------------------


def varying_grid(features: FloatArray, noise: float = 0.0) -> VaryingPosterior:
    """The grid for features like ``features`` (K, d); ``noise`` is its variance if it is known.

    Their means over the arms are taken off, and at observed scale 1 the observed part has
    variance about 1 for features that vary as these do. A column that is the same for all
    arms says how large its values are; a column of zeros counts as of size 1.
    """
    centre = features.mean(axis=0)
    largest = np.abs(features).max(axis=0)
    units = np.where(largest > 0.0, largest, 1.0)
    spread = (features / units).std(axis=0)
    flat = spread <= 16.0 * float(np.finfo(np.float64).eps)
    spread = units * np.where(flat, 1.0, spread)
    centre = np.where(flat, 0.0, centre)
    sizes = np.append(0.0, 1.0 / (features.shape[1] * spread**2))
    return VaryingPosterior(centre, sizes, *scale_grid(TOTALS), noise)


class VaryingPosteriorBelief(NamedTuple):
    """Totals of rewards less the anchor, which is the first reward, so that a high level costs
    no digits; the components follow from them."""

    totals: Totals
    anchor: FloatArray
    components: VaryingComponents


def _begin(model: VaryingPosterior, arms: int) -> VaryingPosteriorBelief:
    totals = no_totals(arms, model.sizes.size)
    return VaryingPosteriorBelief(totals, np.zeros(1), no_components(model))


def _observe(model: VaryingPosterior, belief: VaryingPosteriorBelief, seen: Observation) -> None:
    components, totals = belief.components, belief.totals
    if components.evidence.seen[0] == 0.0:
        belief.anchor[0] = seen.reward
    value = seen.reward - belief.anchor[0]
    varying_absorb(model, components, totals, seen.arm, seen.row - model.centre, value)
    if due(components.evidence.seen[0], totals.counts.size):
        varying_refresh(model, components, totals)


def _means(
    model: VaryingPosterior, belief: VaryingPosteriorBelief, features: FloatArray
) -> FloatArray:
    mean, _, _ = moments(model, belief, features)
    out: FloatArray = mean + belief.anchor[0]
    return out


def _moments(
    model: VaryingPosterior, belief: VaryingPosteriorBelief, features: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    rows = features - model.centre
    return mixture(varying_believed(model, belief.components, belief.totals, rows, FAINT))


def _loadings(
    model: VaryingPosterior,
    belief: VaryingPosteriorBelief,
    features: FloatArray,
    component: int,
    arms: IntArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    rows, coef = features - model.centre, belief.components.coef[component]
    reach, alone = varying_loadings(model.latent, belief.totals, rows, component, arms)
    totals, latent = belief.totals, model.latent[component]
    held = latent / (1.0 + latent * totals.counts[arms])
    return held * totals.sums[arms] + vecmat(coef, reach), reach, alone


def _plays(model: VaryingPosterior, belief: VaryingPosteriorBelief) -> FloatArray:
    return belief.totals.counts


def _recompute(model: VaryingPosterior, belief: VaryingPosteriorBelief, round: int) -> None:
    forget_evidence(model.prior, belief.components.evidence)
    varying_refresh(model, belief.components, belief.totals)


def _learn(model: VaryingPosterior, belief: VaryingPosteriorBelief, history: History) -> None:
    totals = belief.totals
    if belief.components.evidence.seen[0] == 0.0:
        belief.anchor[0] = history.rewards[0]
    more = arm_totals(totals.counts.size, history, float(belief.anchor[0]))
    values = history.rewards - belief.anchor[0]
    rows = np.column_stack([np.ones(values.size), history.rows - model.centre])
    totals.counts[:] += more.counts
    totals.sums[:] += more.sums
    np.add.at(totals.rows, history.positions, rows)
    totals.moment[:] += rows.T @ rows
    totals.cross[:] += rows.T @ values
    totals.squares[:] += values @ values


def _posterior(
    model: VaryingPosterior, belief: VaryingPosteriorBelief, features: FloatArray
) -> MixturePosterior:
    evidence, rows = belief.components.evidence, features - model.centre
    known = varying_believed(model, belief.components, belief.totals, rows, 0.0)
    live = np.flatnonzero(evidence.weights > 0.0)
    latents = model.latent[live]
    totals = Totals(*(each.copy() for each in belief.totals))
    noises, degrees = noise_posterior(evidence, model.noise)
    return MixturePosterior(
        weights=evidence.weights[live],
        noises=noises[live],
        means=known.means[live] + belief.anchor[0],
        variances=known.variances[live],
        cov=belief.components.cov[live],
        degrees=degrees,
        loadings=lambda g, arms: varying_loadings(latents, totals, rows, g, arms),
    )


op.estimator(
    VaryingPosterior,
    {
        op.check_totals: check_anchored,
        op.check_rest: check_components,
        op.begin: _begin,
        op.observe: _observe,
        op.means: _means,
        moments: _moments,
        loadings: _loadings,
        plays: _plays,
        **NORMAL,
        op.recompute: _recompute,
        op.learn: _learn,
        posterior: _posterior,
    },
    posterior_traits(
        totals=tuple(f"totals.{name}" for name in Totals._fields), derived=("coef", "cov")
    ),
)
