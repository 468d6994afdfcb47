"""Posterior of all arms for clicks and counts, from the counts and sums of the arms alone.

The model of ``scales.py`` behind a link h:

    mean reward of arm a = h(r_a),    r_a = c + x_a'm + u_a,
    c ~ N(0, LEVEL),  m ~ N(0, o I),  u_a ~ N(0, l).

    clicks:  reward 0 or 1,        h(x) = 1/(1 + exp(-x))
    counts:  reward 0, 1, 2, ...,  h(x) = exp(x)

n rewards with sum s have the log likelihood s x - n A(x), up to a constant, with A' = h. The noise
follows from the mean, so there are two scales, o and l, in units of r. Within a
component the posterior of r is approximated by the normal distribution at its mode (Laplace).
With W_a = N_a h'(r_a), each step towards the mode is the posterior of normal rewards with W_a in
place of the number of rewards (``regression.py``), and the marginal likelihood is

    det^(-1/2) exp(-E/2),    E = -2 log likelihood + squared distance from the prior's mean.

This is done whenever the number of rewards has grown by ``GROWTH``, or an arm has moved by
``MOVED`` from its mode. In between, the log likelihood of a reward is the parabola that touches it
at the last mode, so that rewards can be taken in one by one, at the cost of normal ones.

Upper bounds are in units of r. What is believed of an arm without its own rewards is taken to be
normal; the likelihood of its own rewards is not. With a bonus of w deviations, the bound is where
the two together are exp(-w^2/2) of their largest value: for an arm without rewards w deviations
above the mean, for an arm with many what KL-UCB has.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rolf.estimators import contract as op
from rolf.estimators.contract import Observation
from rolf.estimators.posterior.bounds import Bonus, deviations, upper_bounds
from rolf.estimators.posterior.contract import loadings, moments, plays, posterior, reward_variance
from rolf.estimators.posterior.mixture import (
    Believed,
    MixturePosterior,
    check_components,
    components_agree,
    mixture,
)
from rolf.estimators.posterior.regression import (
    Components,
    fixed_loadings,
    fixed_posterior,
    move,
    no_components,
    regress,
    standard_rows,
    widths,
)
from rolf.estimators.posterior.scales import due, forget_evidence, scale_grid, weigh
from rolf.kernel import looped, shared
from rolf.linalg import matvec
from rolf.types import FloatArray, IntArray

# --- the links ------------------------------------------------------------------------------------

CLICKS, COUNTS = 0, 1
#: the largest change of x in one step of Newton's method, and the change after which the next one
#: would be negligible: it squares the error
LONGEST = 3.0
CLOSE = 1e-6
STEPS = 100


@shared
def response(link: int, x: float) -> tuple[float, float, float]:
    """h(x), its derivative, and A(x)."""
    if link == COUNTS:
        mean = math.exp(min(x, 300.0))
        return mean, mean, mean
    small = math.exp(-abs(x))
    rest = small / (1.0 + small)
    mean = rest if x < 0.0 else 1.0 - rest
    return mean, rest * (1.0 - rest), max(x, 0.0) + math.log1p(small)


@shared
def limited(step: float) -> float:
    return min(max(step, -LONGEST), LONGEST)


@looped
def averaged(
    link: int, weights: FloatArray, means: FloatArray, variances: FloatArray
) -> FloatArray:
    """h of every arm (K,) over normal components: its mean for clicks, and for counts, where a
    wide distribution has a mean far above everything probable, h of the mean."""
    count, arms = means.shape
    out = np.zeros(arms)
    for g in range(count):
        for a in range(arms):
            x = means[g, a]
            if link == CLICKS:
                # a logistic function averaged over a normal distribution is about another one
                x /= math.sqrt(1.0 + math.pi / 8.0 * max(variances[g, a], 0.0))
                out[a] += weights[g] * response(link, x)[0]
            else:
                out[a] += weights[g] * x
    if link == COUNTS:
        for a in range(arms):
            out[a] = response(link, out[a])[0]
    return out


@looped
def linked(link: int, values: FloatArray) -> FloatArray:
    """h of every value (n,)."""
    out = np.empty(values.size)
    for i in range(values.size):
        out[i] = response(link, values[i])[0]
    return out


# --- upper bounds ---------------------------------------------------------------------------------


@looped
def linked_bounds(
    link: int,
    counts: FloatArray,
    sums: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    pending: FloatArray,
    bonus: Bonus,
) -> FloatArray:
    """Upper bounds of all arms, given the number and the sum of each one's rewards."""
    out = np.empty(mean.size)
    for a in range(mean.size):
        expected, slope, base = response(link, mean[a])
        ratio = variance[a] * slope
        spread = variance[a] / (1.0 + pending[a] * ratio)
        ratio /= 1.0 + pending[a] * ratio
        reach = deviations(bonus, ratio)
        count = counts[a] + pending[a]
        force = sums[a] - counts[a] * expected  # pending rewards are taken to be the mean
        total = sums[a] + pending[a] * expected
        # precision and place of what is believed without the arm's own rewards
        rest = max(1.0 / spread - count * slope, 1e-3 / spread)
        centre = mean[a] - force / rest
        floor = 0.5 * rest * (mean[a] - centre) ** 2 - total * mean[a] + count * base
        x = mean[a] + reach * math.sqrt(spread)
        for _ in range(STEPS):  # convex: from above, Newton's method never passes the solution
            expected, _, partition = response(link, x)
            height = 0.5 * rest * (x - centre) ** 2 - total * x + count * partition - floor
            gradient = rest * (x - centre) - total + count * expected
            excess = height - 0.5 * reach * reach
            if gradient <= 0.0 or abs(excess) < 1e-9 * (1.0 + reach * reach):
                break
            x -= max(excess / gradient, -1.0)
        out[a] = x
    return out


# --- the estimator --------------------------------------------------------------------------------

#: variance of the level c
LEVEL = 10.0
#: variance of r between arms, log-uniform
TOTALS = np.logspace(-2.0, 1.0, 7)
#: rewards up to which everything is computed again with each, and growth afterwards
FIRST = 32.0
GROWTH = 1.05
#: distance from the mode in units of r, over all components, from which parabolas do not count
MOVED = 0.2


class LinkedPosterior(NamedTuple):
    """What stays fixed: as for ``Posterior``, with noise variance 1, and the link."""

    rows: FloatArray
    sizes: FloatArray
    observed: FloatArray
    latent: FloatArray
    prior: FloatArray
    noise: float
    link: int


class LinkedBelief(NamedTuple):
    """Per arm (K,) the number of rewards and their sum, now and when the modes were last found;
    the modes (G, K); and the components, which follow from all of them."""

    counts: FloatArray
    sums: FloatArray
    counts_then: FloatArray
    sums_then: FloatArray
    modes: FloatArray
    components: Components


def linked_grid(features: FloatArray, link: int) -> LinkedPosterior:
    """The grid for fixed features (K, d)."""
    return LinkedPosterior(*standard_rows(features), *scale_grid(TOTALS), 1.0, link)


def no_modes(model: LinkedPosterior, counts: FloatArray, sums: FloatArray) -> LinkedBelief:
    """The belief in counts and sums (K,) whose modes are still to be found."""
    counts_then, sums_then = np.zeros((2, counts.size))
    modes = np.zeros((model.latent.size, counts.size))
    return LinkedBelief(counts, sums, counts_then, sums_then, modes, no_components(model))


@looped
def refresh_linked(grid: LinkedPosterior, belief: LinkedBelief, dead: bool) -> None:
    """Find the modes for the counts and sums of now; components that were left out come back if
    ``dead``."""
    components, evidence = belief.components, belief.components.evidence
    evidence.seen[0] = belief.counts.sum()
    for a in range(belief.counts.size):
        belief.counts_then[a] = belief.counts[a]
        belief.sums_then[a] = belief.sums[a]
    for g in range(grid.latent.size):
        if evidence.alive[g] == 1 or dead:
            evidence.alive[g] = 1
            find_mode(grid, components, g, belief.counts, belief.sums)
            for a in range(belief.counts.size):
                belief.modes[g, a] = components.means[g, a]
    weigh(grid.prior, evidence, 1.0)


@shared
def find_mode(
    grid: LinkedPosterior, belief: Components, g: int, counts: FloatArray, sums: FloatArray
) -> None:
    """Newton's method for r in component g, from where it is; then all that follows from it."""
    arms = counts.size
    rows, latent, r = grid.rows, grid.latent[g], belief.means
    prior = grid.observed[g] * grid.sizes
    prior[0] = LEVEL
    curvature, pull, centres = np.zeros(arms), np.zeros(arms), np.zeros(arms)
    logdet = misfit = 0.0
    for _ in range(STEPS):
        for a in range(arms):
            expected, slope, _ = response(grid.link, r[g, a])
            curvature[a] = counts[a] * slope
            pull[a] = curvature[a] * r[g, a] + sums[a] - counts[a] * expected
        coef, logdet, misfit = regress(rows, latent, prior, curvature, pull, belief.cov[g])
        centres = matvec(rows, coef)
        farthest = 0.0
        for a in range(arms):
            own = latent * (pull[a] - curvature[a] * centres[a])
            step = centres[a] + own / (1.0 + latent * curvature[a]) - r[g, a]
            r[g, a] += limited(step)
            farthest = max(farthest, abs(step))
        if farthest < CLOSE:
            break
    for a in range(arms):
        if counts[a] > 0.0:
            _, _, partition = response(grid.link, r[g, a])
            misfit -= 2.0 * (sums[a] * r[g, a] - counts[a] * partition)
            misfit += (r[g, a] - centres[a]) ** 2 / latent
    belief.evidence.errors[g] = misfit
    belief.evidence.logdets[g] = logdet + widths(rows, latent, curvature, belief, g)


@looped
def absorb_linked(
    grid: LinkedPosterior, belief: LinkedBelief, arm: int, count: float, total: float
) -> None:
    """Take in ``count`` more rewards of an arm that add up to ``total``."""
    components, evidence = belief.components, belief.components.evidence
    evidence.seen[0] += count
    gain, pull = np.empty(grid.rows.shape[1]), np.empty(grid.rows.shape[0])
    for g in range(grid.latent.size):
        if evidence.alive[g] == 1:
            origin = belief.modes[g, arm]
            expected, slope, partition = response(grid.link, origin)
            curvature, force = count * slope, total - count * expected
            spread = max(components.variances[g, arm], 0.0)
            off = origin - components.means[g, arm]
            more = 1.0 + spread * curvature
            step = (curvature * off + force) / more
            move(grid.rows, components, g, arm, step, curvature / more, gain, pull)
            free = components.loose[g, arm]
            components.loose[g, arm] = 1.0 / (1.0 / free + grid.latent[g] * curvature)
            height = total * origin - count * partition
            parabola = (curvature * off + 2.0 * force) * off - spread * force * force
            evidence.errors[g] += parabola / more - 2.0 * height
            evidence.logdets[g] += math.log(more)


@shared
def recompute_due(seen: float) -> bool:
    if seen <= FIRST:
        return True
    rate = 1.0 / math.log(GROWTH)
    return int(rate * math.log(seen)) > int(rate * math.log(seen - 1.0))


@looped
def outdated(belief: LinkedBelief) -> bool:
    """Whether an arm with rewards has moved too far from where its modes were found."""
    components, weights = belief.components, belief.components.evidence.weights
    for a in range(belief.counts.size):
        if belief.counts[a] > 0.0:
            distance = 0.0
            for g in range(weights.size):
                distance += weights[g] * (components.means[g, a] - belief.modes[g, a]) ** 2
            if distance > MOVED * MOVED:
                return True
    return False


# --- as an estimator ---------------------------------------------------------------------------


def _begin(model: LinkedPosterior, arms: int) -> LinkedBelief:
    belief = no_modes(model, np.zeros(arms), np.zeros(arms))
    refresh_linked(model, belief, True)
    return belief


def _observe(model: LinkedPosterior, belief: LinkedBelief, seen: Observation) -> None:
    belief.counts[seen.arm] += 1.0
    belief.sums[seen.arm] += seen.reward
    count = belief.components.evidence.seen[0] + 1.0
    if recompute_due(count):
        refresh_linked(model, belief, count <= FIRST or due(count, belief.counts.size))
    else:
        absorb_linked(model, belief, seen.arm, 1.0, seen.reward)
        weigh(model.prior, belief.components.evidence, 1.0)
        if outdated(belief):
            refresh_linked(model, belief, False)


def _means(model: LinkedPosterior, belief: LinkedBelief, features: FloatArray) -> FloatArray:
    components = belief.components
    weights = components.evidence.weights
    return averaged(model.link, weights, components.means, components.variances)


def _moments(
    model: LinkedPosterior, belief: LinkedBelief, features: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    components = belief.components
    weights = components.evidence.weights
    ones = np.ones(weights.size)
    return mixture(Believed(weights, components.means, components.variances, ones))


def _variance(model: LinkedPosterior, belief: LinkedBelief, unit: float) -> float:
    """Of an average reward so far."""
    rates = _means(model, belief, model.rows)
    variances = rates * (1.0 - rates) if model.link == CLICKS else rates
    return float(belief.counts @ variances / belief.counts.sum())


def _bounds(
    model: LinkedPosterior,
    belief: LinkedBelief,
    features: FloatArray,
    pending: FloatArray,
    bonus: Bonus,
) -> tuple[FloatArray, FloatArray]:
    mean, variance, _ = moments(model, belief, features)
    counts, sums = belief.counts, belief.sums
    return mean, linked_bounds(model.link, counts, sums, mean, variance, pending, bonus)


def _plays(model: LinkedPosterior, belief: LinkedBelief) -> FloatArray:
    return belief.counts


def _recompute(model: LinkedPosterior, belief: LinkedBelief, round: int) -> None:
    """From the modes that were found last, unless they are too old for the totals."""
    counts, sums = belief.counts.copy(), belief.sums.copy()
    then = belief.counts_then.sum()
    fresh = counts.sum() <= 1.0 + GROWTH * then and (belief.counts_then <= counts).all()
    if fresh and then > FIRST:
        belief.counts[:], belief.sums[:] = belief.counts_then, belief.sums_then
    forget_evidence(model.prior, belief.components.evidence)
    refresh_linked(model, belief, True)
    more, total = counts - belief.counts, sums - belief.sums
    belief.counts[:], belief.sums[:] = counts, sums
    for arm in np.flatnonzero(more):
        absorb_linked(model, belief, int(arm), float(more[arm]), float(total[arm]))
    weigh(model.prior, belief.components.evidence, 1.0)
    if outdated(belief):
        refresh_linked(model, belief, True)


def _loadings(
    model: LinkedPosterior,
    belief: LinkedBelief,
    features: FloatArray,
    component: int,
    arms: IntArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    components = belief.components
    reach, alone = fixed_loadings(model.rows, components.loose, model.latent, component, arms)
    return components.means[component][arms], reach, alone


def _posterior(
    model: LinkedPosterior, belief: LinkedBelief, features: FloatArray
) -> MixturePosterior:
    return fixed_posterior(model, belief.components)._replace(
        link=lambda values: linked(model.link, values)
    )


op.arm_estimator(
    LinkedPosterior,
    {
        op.check_rest: check_components,
        op.begin: _begin,
        op.observe: _observe,
        op.means: _means,
        op.recompute: _recompute,
        moments: _moments,
        loadings: _loadings,
        plays: _plays,
        upper_bounds: _bounds,
        reward_variance: _variance,
        posterior: _posterior,
    },
    derived=("modes", *(f"components.{name}" for name in ("means", "variances", "loose", "cov"))),
    agrees=components_agree,
)
