"""Estimator: the posterior for features that change every round (``varying_components.py``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rolf.estimators import contract as op
from rolf.estimators.contract import History, Observation, arm_totals
from rolf.estimators.posterior.bounds import NORMAL
from rolf.estimators.posterior.mixture import (
    MixturePosterior,
    check_anchored,
    check_components,
    loadings,
    mixture,
    moments,
    plays,
    posterior,
    posterior_traits,
)
from rolf.estimators.posterior.scales import (
    FAINT,
    TOTALS,
    due,
    forget_evidence,
    noise_posterior,
    scale_grid,
)
from rolf.estimators.posterior.varying_components import (
    Totals,
    VaryingComponents,
    VaryingPosterior,
    no_components,
    no_totals,
    varying_absorb,
    varying_believed,
    varying_loadings,
    varying_refresh,
)
from rolf.linalg import vecmat
from rolf.types import FloatArray, IntArray


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
