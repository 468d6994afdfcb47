"""What the components of the posterior for fixed features follow from.

With the notation of ``fixed.py``, N_a rewards of arm a and their average ybar_a, the
coefficients (c, m) of a component have covariance C and mean t,

    C^-1 = sum_a f_a N_a z_a z_a' + diag(0, 1/variances of m),    t = C sum_a f_a N_a z_a ybar_a,

and arm a has mean f_a z_a't + (1 - f_a) ybar_a and variance l f_a + f_a^2 z_a'C z_a: O(K d^2) per
component, however many rewards there were.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rolf.estimators.posterior.mixture import MixturePosterior
from rolf.estimators.posterior.scales import Evidence, no_evidence, noise_posterior
from rolf.kernel import looped, shared
from rolf.linalg import inverse, matvec
from rolf.types import FloatArray, IntArray


class Posterior(NamedTuple):
    """What stays fixed: z_a (K, D) with orthogonal columns, the variance of each coefficient
    in units of the observed scale (D,), per component (G,) observed and latent scale and log
    prior weight, and the noise variance if it is known, otherwise 0."""

    rows: FloatArray
    sizes: FloatArray
    observed: FloatArray
    latent: FloatArray
    prior: FloatArray
    noise: float


class Components(NamedTuple):
    """Of clicks and counts, per component: posterior means, variances and f of all arms (G, K),
    and the covariance of the coefficients (G, D, D). Real rewards: ``fixed.py``."""

    means: FloatArray
    variances: FloatArray
    loose: FloatArray
    cov: FloatArray
    evidence: Evidence


def standard_rows(features: FloatArray) -> tuple[FloatArray, FloatArray]:
    """z_a (K, D) of fixed features (K, d), and the variance of each coefficient (D,).

    Each column is centred and brought to standard deviation 1, so that the units of a
    feature do not matter; the columns are rotated to orthogonal ones; and the whole is scaled
    so that the observed part has variance 1 over the arms at observed scale 1.
    """
    arms = features.shape[0]
    largest = np.abs(features).max(axis=0)
    columns = features / np.where(largest > 0.0, largest, 1.0)  # no overflow, no underflow
    centred = columns - columns.mean(axis=0)
    spread = centred.std(axis=0)
    flat = spread <= 16.0 * float(np.finfo(np.float64).eps)
    left, singular, _ = np.linalg.svd(centred[:, ~flat] / spread[~flat], full_matrices=False)
    floor = max(features.shape) * float(np.finfo(np.float64).eps)
    rank = int(np.count_nonzero(singular > floor * singular[:1]))
    sizes = singular[:rank] ** 2
    sizes *= arms / sizes.sum() if rank else 1.0
    rows = np.hstack([np.ones((arms, 1)), left[:, :rank]])
    return np.ascontiguousarray(rows), np.append(0.0, sizes)


def no_components(grid: Any) -> Components:
    arms, size = grid.rows.shape
    count = grid.latent.size
    return Components(
        means=np.zeros((count, arms)),
        variances=np.zeros((count, arms)),
        loose=np.ones((count, arms)),
        cov=np.zeros((count, size, size)),
        evidence=no_evidence(grid.prior),
    )


@shared
def move(
    rows: FloatArray,
    belief: Components,
    g: int,
    arm: int,
    step: float,
    shrink: float,
    gain: FloatArray,
    pull: FloatArray,
) -> None:
    """Move component g by what was learned about an arm: the means by ``step`` times the
    covariances with that arm, the variances down by ``shrink`` times their squares.

    ``gain`` (D,) and ``pull`` (K,) are room to work in.
    """
    arms, size = rows.shape
    cov, means, variances, loose = belief.cov, belief.means, belief.variances, belief.loose
    own, free = max(variances[g, arm], 0.0), loose[g, arm]
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
    for a in range(arms):
        means[g, a] += step * pull[a]
        variances[g, a] -= shrink * pull[a] * pull[a]
    for i in range(size):
        factor = shrink * gain[i]
        for j in range(size):
            cov[g, i, j] -= factor * gain[j]


@shared
def regress(
    rows: FloatArray,
    latent: float,
    prior: FloatArray,
    curvature: FloatArray,
    pull: FloatArray,
    cov: FloatArray,
) -> tuple[FloatArray, float, float]:
    """The mean t of (c, m), for a log likelihood pull_a r_a - curvature_a r_a^2/2 of every arm.

    ``prior`` (D,) has the variances of the coefficients, 0 for a flat prior; the covariance C is
    written into ``cov``. Returns t, log(det C^-1 times the variances) and the sum of t_i^2 over
    them.
    """
    arms, size = rows.shape
    right, precision = np.zeros(size), np.zeros((size, size))
    for a in range(arms):
        if curvature[a] > 0.0:
            free = 1.0 / (1.0 + latent * curvature[a])
            weight, value = curvature[a] * free, pull[a] * free
            for i in range(size):
                right[i] += rows[a, i] * value
                factor = weight * rows[a, i]
                for j in range(size):
                    precision[i, j] += factor * rows[a, j]
    for i in range(size):
        if prior[i] > 0.0:
            precision[i, i] += 1.0 / prior[i]
    cov[:], logdet = inverse(precision)
    coef, misfit = matvec(cov, right), 0.0
    for i in range(size):
        if prior[i] > 0.0:
            logdet += math.log(prior[i])
            misfit += coef[i] ** 2 / prior[i]
    return coef, logdet, misfit


@shared
def widths(
    rows: FloatArray, latent: float, curvature: FloatArray, belief: Components, g: int
) -> float:
    """Write a component's variances and f of all arms, given its C; returns what the arms add to
    the log determinant."""
    arms, size = rows.shape
    logdet = 0.0
    for a in range(arms):
        spread = 0.0
        for i in range(size):
            inner = 0.0
            for j in range(size):
                inner += belief.cov[g, i, j] * rows[a, j]
            spread += inner * rows[a, i]
        free = 1.0 / (1.0 + latent * curvature[a])
        belief.variances[g, a] = free * (latent + free * spread)
        belief.loose[g, a] = free
        logdet -= math.log(free)
    return logdet


@looped
def fixed_loadings(
    rows: FloatArray, loose: FloatArray, latent: FloatArray, component: int, arms: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Reach and alone (``mixture.loadings``) of some arms."""
    size = rows.shape[1]
    reach, alone = np.empty((size, arms.size)), np.empty(arms.size)
    for place in range(arms.size):
        free = loose[component, arms[place]]
        alone[place] = latent[component] * free
        for i in range(size):
            reach[i, place] = free * rows[arms[place], i]
    return reach, alone


def fixed_posterior(model: Any, belief: Components) -> MixturePosterior:
    """``posterior`` for fixed features."""
    evidence = belief.evidence
    live = np.flatnonzero(evidence.weights > 0.0)
    latent, loose = model.latent[live], belief.loose[live]
    noises, degrees = noise_posterior(evidence, model.noise)
    return MixturePosterior(
        weights=evidence.weights[live],
        noises=noises[live],
        means=belief.means[live],
        variances=np.maximum(belief.variances[live], 0.0),
        cov=belief.cov[live],
        degrees=degrees,
        loadings=lambda g, arms: fixed_loadings(model.rows, loose, latent, g, arms),
    )
