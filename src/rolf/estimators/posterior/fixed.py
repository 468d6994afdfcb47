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

Only arms with rewards are carried one by one. An arm without any has f = 1, so in component g it
has mean z't_g and variance s_g (l_g + z'C_g z). Over all components, whose weights are w_g, it has

    mean  z't,    variance  sum_g w_g s_g l_g + z'Q z,

    t = sum_g w_g t_g,    Q = sum_g w_g (s_g C_g + (t_g - t)(t_g - t)'):

one quadratic form, however many components there are. So if n arms have rewards, one more costs
O(n d + d^2) for each component that still has weight, and a decision O(K d^2).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rolf.estimators import contract as op
from rolf.estimators.contract import ArmTotals, History, Observation, arm_totals
from rolf.estimators.posterior.bounds import NORMAL
from rolf.estimators.posterior.contract import loadings, moments, plays, posterior
from rolf.estimators.posterior.mixture import (
    MixturePosterior,
    check_anchored,
    check_components,
    posterior_traits,
)
from rolf.estimators.posterior.regression import Posterior, regress, standard_rows
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
from rolf.kernel import looped, shared
from rolf.types import FloatArray, IntArray

# --- the components, of arms with rewards ---------------------------------------------------------

#: arms at a time, so that what is computed of them stays in the fastest memory
BLOCK = 64


class PlayedComponents(NamedTuple):
    """Per component: mean (G, D) and covariance (G, D, D) of the coefficients, and posterior means
    and variances of the arms with rewards, in the order of their first and in blocks (K/B, G, B):
    memory that no arm needs yet is not touched.

    ``arms`` (K,) are these arms, ``plays`` (K,) the numbers of their rewards, ``places`` (K,) says
    where an arm stands among them, or -1, and ``used`` is [how many there are].
    """

    coef: FloatArray
    cov: FloatArray
    means: FloatArray
    variances: FloatArray
    arms: IntArray
    plays: FloatArray
    places: IntArray
    used: IntArray
    evidence: Evidence


#: all that follows from the totals
DERIVED = ("coef", "cov", "means", "variances", "arms", "plays", "places", "used")


def no_components(grid: Posterior) -> PlayedComponents:
    arms, size = grid.rows.shape
    count, width = grid.latent.size, min(arms, BLOCK)
    blocks = -(-arms // width)
    return PlayedComponents(
        coef=np.zeros((count, size)),
        cov=np.zeros((count, size, size)),
        means=np.zeros((blocks, count, width)),
        variances=np.zeros((blocks, count, width)),
        arms=np.zeros(arms, dtype=np.int64),
        plays=np.zeros(arms),
        places=np.full(arms, -1),
        used=np.zeros(1, dtype=np.int64),
        evidence=no_evidence(grid.prior),
    )


def check_places(belief: PlayedComponents, counts: FloatArray) -> None:
    """Raise ValueError unless the arms with rewards are those with counts, each at its place."""
    used, played = int(belief.used[0]), counts > 0.0
    if used != np.count_nonzero(played) or (belief.places[~played] != -1).any():
        raise ValueError("places are not those of the arms with rewards")
    arms = belief.arms[:used]
    if not ((arms >= 0) & (arms < counts.size)).all():
        raise ValueError("arms are not all among the arms")
    if (belief.places[arms] != np.arange(used)).any():
        raise ValueError("arms do not go with places")
    if (belief.plays[:used] != counts[arms]).any():
        raise ValueError("plays are not the counts")


@shared
def forget_places(belief: PlayedComponents) -> None:
    for place in range(belief.used[0]):
        belief.places[belief.arms[place]] = -1
    belief.used[0] = 0


@shared
def give_place(belief: PlayedComponents, arm: int) -> int:
    """The place of an arm that has none yet."""
    place = int(belief.used[0])
    belief.used[0] += 1
    belief.arms[place], belief.plays[place], belief.places[arm] = arm, 0.0, place
    return place


@shared
def form(matrix: FloatArray, row: FloatArray) -> float:
    """row'matrix row."""
    total = 0.0
    for i in range(row.size):
        inner = 0.0
        for j in range(row.size):
            inner += matrix[i, j] * row[j]
        total += inner * row[i]
    return total


@shared
def inner_product(left: FloatArray, right: FloatArray) -> float:
    total = 0.0
    for i in range(left.size):
        total += left[i] * right[i]
    return total


@shared
def rotate(rows: FloatArray, arms: IntArray, out: FloatArray) -> None:
    """Write the rows of some arms into the columns of ``out`` (D, B)."""
    for b in range(arms.size):
        for i in range(rows.shape[1]):
            out[i, b] = rows[arms[b], i]


@shared
def combine(turned: FloatArray, coef: FloatArray, first: int, filled: int, out: FloatArray) -> None:
    """Write coef'turned, from the entry ``first`` on, for the ``filled`` columns of a block.

    Three rows at a time: reading and writing ``out`` takes the time.
    """
    size = coef.size
    for b in range(filled):
        out[b] = 0.0
    blocks = (size - first) // 3
    for block in range(blocks):
        i = first + 3 * block
        p, q, r = coef[i], coef[i + 1], coef[i + 2]
        for b in range(filled):
            out[b] += p * turned[i, b] + q * turned[i + 1, b] + r * turned[i + 2, b]
    for i in range(first + 3 * blocks, size):
        for b in range(filled):
            out[b] += coef[i] * turned[i, b]


@shared
def fix_level(
    grid: Posterior, belief: PlayedComponents, arm: int, value: float, count: float
) -> None:
    """The first arm to be seen fixes the level: the flat prior of c becomes proper."""
    forget_places(belief)
    place = give_place(belief, arm)
    belief.plays[place] = count
    size = grid.rows.shape[1]
    for g in range(grid.latent.size):
        corner = grid.latent[g] + 1.0 / count
        for i in range(1, size):
            variance = grid.observed[g] * grid.sizes[i]
            corner += variance * grid.rows[arm, i] ** 2
            for j in range(1, size):
                belief.cov[g, i, j] = 0.0
            belief.cov[g, i, i] = variance
            belief.cov[g, 0, i] = belief.cov[g, i, 0] = -variance * grid.rows[arm, i]
            belief.coef[g, i] = 0.0
        belief.cov[g, 0, 0] = corner
        belief.coef[g, 0] = value
        belief.means[0, g, 0] = value
        belief.variances[0, g, 0] = 1.0 / count
        belief.evidence.errors[g] = 0.0
        belief.evidence.logdets[g] = 0.0
        belief.evidence.alive[g] = 1


@looped
def absorb(grid: Posterior, belief: PlayedComponents, arm: int, value: float, count: float) -> None:
    """Take in the mean ``value`` of ``count`` more rewards of an arm."""
    evidence, coef, cov = belief.evidence, belief.coef, belief.cov
    means, variances = belief.means, belief.variances
    evidence.seen[0] += count
    if evidence.seen[0] == count:
        fix_level(grid, belief, arm, value, count)
        return
    row = grid.rows[arm]
    size, width = row.size, means.shape[2]
    live = np.flatnonzero(evidence.alive)
    new = belief.places[arm] < 0
    own = give_place(belief, arm) if new else int(belief.places[arm])
    home, seat = own // width, own % width
    if new:
        for g in live:
            means[home, g, seat] = inner_product(row, coef[g])
            variances[home, g, seat] = grid.latent[g] + form(cov[g], row)
    gains = np.empty((live.size, size))
    steps, shrinks, spreads = np.empty(live.size), np.empty(live.size), np.empty(live.size)
    for j in range(live.size):
        g = live[j]
        spreads[j] = max(variances[home, g, seat], 0.0)
        total = 1.0 / count + spreads[j]
        error = value - means[home, g, seat]
        steps[j], shrinks[j] = error / total, 1.0 / total
        free = 1.0 / (1.0 + grid.latent[g] * belief.plays[own])
        combine(cov[g], row, 0, size, gains[j])
        for i in range(size):
            gains[j, i] *= free
        for i in range(size):
            coef[g, i] += steps[j] * gains[j, i]
        for i in range(size):
            factor = shrinks[j] * gains[j, i]
            for k in range(size):
                cov[g, i, k] -= factor * gains[j, k]
        evidence.errors[g] += error * steps[j]
        evidence.logdets[g] += math.log(count * total)
    turned, pull = np.empty((size, width)), np.empty(width)
    for block in range((belief.used[0] + width - 1) // width):
        start = block * width
        filled = min(width, belief.used[0] - start)
        rotate(grid.rows, belief.arms[start : start + filled], turned)
        for j in range(live.size):
            g = live[j]
            combine(turned, gains[j], 0, filled, pull)
            for b in range(filled):
                pull[b] /= 1.0 + grid.latent[g] * belief.plays[start + b]
            if block == home:
                pull[seat] = spreads[j]
            for b in range(filled):
                means[block, g, b] += steps[j] * pull[b]
                variances[block, g, b] -= shrinks[j] * pull[b] * pull[b]
    belief.plays[own] += count


@looped
def refresh(
    grid: Posterior,
    belief: PlayedComponents,
    counts: FloatArray,
    sums: FloatArray,
    squares: FloatArray,
) -> None:
    """Recompute everything from the counts, sums and sums of squares of all arms."""
    evidence, width = belief.evidence, belief.means.shape[2]
    forget_places(belief)
    evidence.seen[0] = counts.sum()
    if evidence.seen[0] == 0.0:
        return
    played = np.flatnonzero(counts)
    rows, plays = grid.rows[played], counts[played]
    level = sums[played[0]] / plays[0]
    averages = np.empty(played.size)  # less the level: where all rewards are equal, exactly zero
    for place in range(played.size):
        arm = played[place]
        give_place(belief, arm)
        belief.plays[place] = plays[place]
        averages[place] = sums[arm] / counts[arm] - level
    within = 0.0
    for arm in played:
        within += max(squares[arm] - sums[arm] / counts[arm] * sums[arm], 0.0)
    pull, gaps = plays * averages, np.empty(played.size)
    for g in range(grid.latent.size):
        latent, prior = grid.latent[g], grid.observed[g] * grid.sizes
        coef, logdet, error = regress(rows, latent, prior, plays, pull, belief.cov[g])
        for place in range(played.size):
            free = 1.0 / (1.0 + latent * plays[place])
            centre = inner_product(rows[place], coef)
            gaps[place] = averages[place] - centre
            block, b = place // width, place % width
            belief.means[block, g, b] = level + centre + (1.0 - free) * gaps[place]
            spread = form(belief.cov[g], rows[place])
            belief.variances[block, g, b] = free * (latent + free * spread)
        for place in range(played.size):
            weight = 1.0 + latent * plays[place]
            logdet += math.log(weight)
            error += plays[place] / weight * gaps[place] ** 2
        for i in range(coef.size):
            belief.coef[g, i] = coef[i]
        belief.coef[g, 0] += level
        evidence.errors[g] = within + error
        evidence.logdets[g] = logdet
        evidence.alive[g] = 1
    weigh(grid.prior, evidence, grid.noise)


@looped
def component_moments(
    grid: Posterior, belief: PlayedComponents, component: int, arms: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Means and variances (A,) of some arms in one component."""
    means, variances, width = np.empty(arms.size), np.empty(arms.size), belief.means.shape[2]
    for at in range(arms.size):
        arm = arms[at]
        place = belief.places[arm]
        if place >= 0:
            block, b = place // width, place % width
            means[at] = belief.means[block, component, b]
            variances[at] = max(belief.variances[block, component, b], 0.0)
        else:
            means[at] = inner_product(grid.rows[arm], belief.coef[component])
            spread = form(belief.cov[component], grid.rows[arm])
            variances[at] = grid.latent[component] + max(spread, 0.0)
    return means, variances


@looped
def played_loadings(
    rows: FloatArray, counts: FloatArray, latent: float, arms: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Reach and alone (``contract.loadings``) of some arms, given the counts of all."""
    size = rows.shape[1]
    reach, alone = np.empty((size, arms.size)), np.empty(arms.size)
    for place in range(arms.size):
        free = 1.0 / (1.0 + latent * counts[arms[place]])
        alone[place] = latent * free
        for i in range(size):
            reach[i, place] = free * rows[arms[place], i]
    return reach, alone


def played_posterior(
    model: Any, belief: PlayedComponents, counts: FloatArray, anchor: float
) -> MixturePosterior:
    """``mixture.posterior``."""
    evidence, everything = belief.evidence, np.arange(counts.size)
    live = np.flatnonzero(evidence.weights > 0.0)
    moments = [component_moments(model, belief, int(g), everything) for g in live]
    latent, plays = model.latent[live], counts.copy()
    noises, degrees = noise_posterior(evidence, model.noise)
    return MixturePosterior(
        weights=evidence.weights[live],
        noises=noises[live],
        means=np.array([mean for mean, _ in moments]) + anchor,
        variances=np.array([variance for _, variance in moments]),
        cov=belief.cov[live],
        degrees=degrees,
        loadings=lambda g, arms: played_loadings(model.rows, plays, float(latent[g]), arms),
    )


# --- mean and variance of every arm over all components -------------------------------------------


@looped
def arm_moments(grid: Posterior, belief: PlayedComponents) -> tuple[FloatArray, FloatArray, float]:
    """As ``mixture.moments``."""
    arms, evidence = grid.rows.shape[0], belief.evidence
    mean, variance, noise = np.zeros(arms), np.zeros(arms), 0.0
    live = np.flatnonzero(evidence.weights > FAINT)
    weights, noises = evidence.weights, noise_variances(evidence, grid.noise)
    for g in live:
        noise += weights[g] * noises[g]
    if evidence.seen[0] == 0.0:
        return mean, variance, noise
    scales = np.abs(noises)
    average_played(belief, live, scales, mean, variance)
    if belief.used[0] < arms:
        average_others(grid, belief, live, scales, mean, variance)
    return mean, variance, noise


@shared
def average_played(
    belief: PlayedComponents,
    live: IntArray,
    scales: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
) -> None:
    """Write mean and variance of the arms with rewards."""
    weights, width = belief.evidence.weights, belief.means.shape[2]
    middle, spread = np.empty(width), np.empty(width)
    for block in range((belief.used[0] + width - 1) // width):
        start = block * width
        filled = min(width, belief.used[0] - start)
        for b in range(filled):
            middle[b] = spread[b] = 0.0
        for g in live:
            for b in range(filled):
                middle[b] += weights[g] * belief.means[block, g, b]
        for g in live:
            for b in range(filled):
                off = belief.means[block, g, b] - middle[b]
                own = scales[g] * max(belief.variances[block, g, b], 0.0)
                spread[b] += weights[g] * (off * off + own)
        for b in range(filled):
            mean[belief.arms[start + b]] = middle[b]
            variance[belief.arms[start + b]] = spread[b]


@shared
def average_others(
    grid: Posterior,
    belief: PlayedComponents,
    live: IntArray,
    scales: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
) -> None:
    """Write mean and variance of the arms without rewards."""
    arms, size = grid.rows.shape
    centre, folded, alone = common_form(grid, belief, live, scales)
    chosen, block = np.empty(BLOCK, np.int64), np.empty((size, BLOCK))
    middle, spread, inner = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    arm = 0
    while arm < arms:
        count = 0
        while arm < arms and count < BLOCK:
            if belief.places[arm] < 0:
                chosen[count] = arm
                count += 1
            arm += 1
        rotate(grid.rows, chosen[:count], block)
        combine(block, centre, 0, count, middle)
        for b in range(count):
            spread[b] = alone
        for i in range(size):
            combine(block, folded[i], i, count, inner)
            for b in range(count):
                spread[b] += inner[b] * block[i, b]
        for b in range(count):
            mean[chosen[b]] = middle[b]
            variance[chosen[b]] = max(spread[b], alone)


@shared
def common_form(
    grid: Posterior, belief: PlayedComponents, live: IntArray, scales: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """t, the upper half of Q with its other half added to it, and the sum of w s l."""
    size, weights = grid.rows.shape[1], belief.evidence.weights
    centre, folded, off = np.zeros(size), np.zeros((size, size)), np.empty(size)
    alone = 0.0
    for g in live:
        alone += weights[g] * scales[g] * grid.latent[g]
    for g in live:
        for i in range(size):
            centre[i] += weights[g] * belief.coef[g, i]
    for g in live:
        scale = weights[g] * scales[g]
        for i in range(size):
            off[i] = belief.coef[g, i] - centre[i]
        for i in range(size):
            weight = weights[g] * off[i]
            for j in range(size):
                folded[i, j] += scale * belief.cov[g, i, j] + weight * off[j]
    for i in range(size):
        for j in range(i + 1, size):
            folded[i, j] += folded[j, i]
    return centre, folded, alone


# --- the estimator --------------------------------------------------------------------------------


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
