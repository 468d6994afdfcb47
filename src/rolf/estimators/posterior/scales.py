"""Three unknown scales: of what the features explain, of what is latent, of the noise.

    reward of arm a = r_a + noise,        noise ~ N(0, s)
    r_a = c + x_a'm + u_a,                c flat, m ~ N(0, s o I), u_a ~ N(0, s l)

o and l are the variances of the observed and the latent part in units of the noise variance
s. They live on a grid, each point of which is a component. Within a component everything is
conjugate: r is Gaussian given s, s is inverse gamma (prior 1/s), so r is Student t. The
weight of a component after n rewards is its prior weight times its marginal likelihood

    det^(-1/2) E^(-(n - 1)/2),

with E the sum of the squared prediction errors, each over its variance in units of s, and det
the product of those variances. Nothing is plugged in: every answer is an average over the
components. n - 1, because the flat c takes one reward to be known at all. Where s is known, the
second factor is exp(-E/(2 s)).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rolf.kernel import looped, shared
from rolf.types import FloatArray, IntArray

#: weight below which a component is ignored in decisions
FAINT = 1e-9
#: log weight, against the best, below which a component is left out until the next refresh: a
#: weight of 1e-13
LOST = -30.0

#: share of the latent part in the variance between arms and its prior weight: the arcsine
#: law Beta(1/2, 1/2), which has room for "nothing is latent" and for "everything is"
SHARES = np.array([0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 0.97])
SHARE_WEIGHTS = np.array([0.04, 0.05, 0.115, 0.185, 0.22, 0.19, 0.2])
#: variance between arms in units of the noise variance, log-uniform
TOTALS = np.logspace(-2.0, 5.0, 17)


class Evidence(NamedTuple):
    """Per component (G,): squared error, log determinant, posterior weight, whether it is still
    followed; and the number of rewards taken in (1,)."""

    errors: FloatArray
    logdets: FloatArray
    weights: FloatArray
    alive: IntArray
    seen: FloatArray


def scale_grid(
    totals: FloatArray, shares: FloatArray = SHARES, weights: FloatArray = SHARE_WEIGHTS
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Observed scale, latent scale and log prior weight of every component: each total with each
    share of the latent part, which have prior weights."""
    total = np.repeat(totals, shares.size)
    share = np.tile(shares, totals.size)
    prior = np.log(np.tile(weights, totals.size) / totals.size)
    return total * (1.0 - share), total * share, prior


def noise_posterior(evidence: Evidence, noise: float) -> tuple[FloatArray, float]:
    """The scale of the noise variance in every component (G,), and its degrees of freedom:
    infinitely many where it is known."""
    if noise > 0.0:
        return np.full(evidence.errors.size, noise), math.inf
    degrees = float(evidence.seen[0]) - 1.0
    return evidence.errors / degrees, degrees


def no_evidence(prior: FloatArray) -> Evidence:
    errors, logdets = np.zeros((2, prior.size))
    alive = np.ones(prior.size, dtype=np.int64)
    return Evidence(errors, logdets, np.exp(prior), alive, np.zeros(1))


def forget_evidence(prior: FloatArray, evidence: Evidence) -> None:
    """As before the first reward."""
    for array, values in zip(evidence, no_evidence(prior), strict=True):
        array[:] = values


def check_evidence(evidence: Evidence, counts: FloatArray) -> None:
    """Raise ValueError if no rewards of these counts lead to this evidence."""
    if not np.isin(evidence.alive, (0, 1)).all() or not evidence.alive.any():
        raise ValueError("alive is not 0 or 1 everywhere, and 1 somewhere")
    if (evidence.weights < 0.0).any() or abs(evidence.weights.sum() - 1.0) > 1e-6:
        raise ValueError("weights do not add up to 1")
    if evidence.seen[0] != counts.sum():
        raise ValueError("seen is not the sum of the counts")


def evidence_agrees(saved: Evidence, recomputed: Evidence) -> bool:
    """Whether two are the same up to rounding, but for components that one has left out."""
    try:
        check_evidence(saved, recomputed.seen)
    except ValueError:
        return False
    live = (saved.alive == 1) & (recomputed.alive == 1)
    errors, logdets = recomputed.errors[live], recomputed.logdets[live]
    limit = 1e-6 * float(np.abs(recomputed.errors).max())
    return bool(
        (np.abs(saved.errors[live] - errors) <= limit).all()
        and (np.abs(saved.logdets[live] - logdets) <= 1e-6 * (1.0 + np.abs(logdets))).all()
        and (np.abs(saved.weights - recomputed.weights) <= 1e-2).all()
    )


@looped
def weigh(prior: FloatArray, evidence: Evidence, noise: float) -> None:
    """The weights of the components, and which of them are still worth following.

    ``noise`` is the noise variance if it is known, otherwise 0.
    """
    if noise == 0.0 and evidence.errors.max() <= 0.0:
        return  # all rewards were equal: nothing speaks for any scale
    power = 0.5 * (evidence.seen[0] - 1.0)
    weights, alive = evidence.weights, evidence.alive
    best = -math.inf
    for g in range(prior.size):
        if alive[g] == 1:
            if noise > 0.0:
                misfit = 0.5 * evidence.errors[g] / noise
            else:
                misfit = power * math.log(max(evidence.errors[g], 1e-300))
            weights[g] = prior[g] - 0.5 * evidence.logdets[g] - misfit
            best = max(best, weights[g])
    total = 0.0
    for g in range(prior.size):
        if alive[g] == 1 and weights[g] - best < LOST:
            alive[g] = 0
        weights[g] = math.exp(weights[g] - best) if alive[g] == 1 else 0.0
    for g in range(prior.size):
        total += weights[g]
    for g in range(prior.size):
        weights[g] /= total


@shared
def due(seen: float, arms: int) -> bool:
    """Whether to start again from the totals: at powers of four, from 4K on. It brings back
    components that were left out too early, and removes accumulated rounding."""
    return bool(seen >= 4.0 * arms and seen == 4.0 ** round(math.log(seen) / math.log(4.0)))


@looped
def noise_variances(evidence: Evidence, noise: float) -> FloatArray:
    """The noise variance in every component (G,): as known, or the posterior mean of s; where
    there is none yet, generously large. All -1 while all rewards were equal and there is no scale:
    variances are then in units of the noise."""
    out = np.empty(evidence.errors.size)
    known = noise > 0.0 or evidence.errors.max() > 0.0
    for g in range(out.size):
        if not known:
            out[g] = -1.0
        elif noise > 0.0:
            out[g] = noise
        elif evidence.errors[g] > 0.0:
            out[g] = evidence.errors[g] / max(evidence.seen[0] - 3.0, 0.5)
        else:
            out[g] = 1.0
    return out
