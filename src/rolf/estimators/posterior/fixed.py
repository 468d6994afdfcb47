"""Posterior of all arms for fixed features, when the scales are not known.

Each component of ``scales.py`` carries the mean t and the covariance C, in units of s, of (c, m),
(D,) and (D, D). With f_a = 1/(1 + l N_a), the share of an arm's latent part that is still unknown,
and z = (1, x), an arm with rewards has a posterior mean and a variance v_a in units of s. Given m
the arms are independent, so the covariance of two arms is f_a f_b z_a'C z_b, plus l f_a if they are
one. The mean of n more rewards of arm a, at e from what was expected with variance S = 1/n + v_a,
moves

    r  by  k e / S,                v  by  -k^2 / S,
    t  by  f_a C z_a e / S,        C  by  -f_a^2 (C z_a)(C z_a)' / S,

with k the covariances of arms with arm a, and adds e^2/S to the squared error and log(n S) to the
log determinant. A single reward is n = 1.

Arms without rewards need nothing of their own (``components.py``, ``arm_moments.py``): if n arms
have rewards, one more costs O(n d + d^2) for each component that still has weight, and a decision
O(K d^2), however many components there are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rolf.estimators import contract as op
from rolf.estimators.contract import ArmTotals, History, Observation, arm_totals
from rolf.estimators.posterior.arm_moments import arm_moments
from rolf.estimators.posterior.bounds import NORMAL
from rolf.estimators.posterior.components import (
    DERIVED,
    PlayedComponents,
    absorb,
    check_places,
    component_moments,
    no_components,
    played_loadings,
    played_posterior,
    refresh,
)
from rolf.estimators.posterior.mixture import (
    MixturePosterior,
    check_anchored,
    check_components,
    loadings,
    moments,
    plays,
    posterior,
    posterior_traits,
)
from rolf.estimators.posterior.regression import Posterior, standard_rows
from rolf.estimators.posterior.scales import TOTALS, due, forget_evidence, scale_grid, weigh
from rolf.types import FloatArray, IntArray


def make_grid(features: FloatArray, noise: float = 0.0) -> Posterior:
    """The grid for fixed features (K, d); ``noise`` is the noise variance if it is known."""
    return Posterior(*standard_rows(features), *scale_grid(TOTALS), noise)


# --- as an estimator ---------------------------------------------------------------------------


class PosteriorBelief(NamedTuple):
    """Per arm (K,) the number of rewards and their sum and sum of squares, less the anchor: the
    first reward, so that a high level costs no digits. The components follow from them."""

    counts: FloatArray
    sums: FloatArray
    squares: FloatArray
    anchor: FloatArray
    components: PlayedComponents


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
    mean, _, _ = moments(model, belief, features)
    out: FloatArray = mean + belief.anchor[0]
    return out


def _moments(
    model: Posterior, belief: PosteriorBelief, features: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    return arm_moments(model, belief.components)


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
) -> tuple[FloatArray, FloatArray, FloatArray]:
    means, _ = component_moments(model, belief.components, component, arms)
    latent = model.latent[component]
    reach, alone = played_loadings(model.rows, belief.counts, latent, arms)
    return means, reach, alone


def _posterior(model: Posterior, belief: PosteriorBelief, features: FloatArray) -> MixturePosterior:
    return played_posterior(model, belief.components, belief.counts, float(belief.anchor[0]))


def _check_rest(model: Posterior, belief: PosteriorBelief, rounds: int) -> None:
    check_components(model, belief, rounds)
    check_places(belief.components, belief.counts)


op.estimator(
    Posterior,
    {
        op.check_totals: check_anchored,
        op.check_rest: _check_rest,
        op.begin: _begin,
        op.observe: _observe,
        op.means: _means,
        moments: _moments,
        loadings: _loadings,
        plays: _plays,
        **NORMAL,
        op.recompute: _recompute,
        op.learn: _learn,
        op.learn_totals: _learn_totals,
        posterior: _posterior,
    },
    posterior_traits(totals=("counts", "sums", "squares"), derived=DERIVED),
)
