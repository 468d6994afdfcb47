"""The components of the posterior for real rewards and fixed features.

Only arms with rewards are carried one by one. With the notation of ``fixed.py``, an arm without
any has f = 1, so in each component it has mean z't and variance l + z'C z, where t and C are the
mean and the covariance of the coefficients (c, m). ``arm_moments.py`` takes all of these together.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rolf.estimators.posterior.mixture import MixturePosterior
from rolf.estimators.posterior.regression import Posterior, regress
from rolf.estimators.posterior.scales import Evidence, no_evidence, noise_posterior, weigh
from rolf.kernel import looped, shared
from rolf.types import FloatArray, IntArray

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
def turn(rows: FloatArray, arms: IntArray, out: FloatArray) -> None:
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
        turn(grid.rows, belief.arms[start : start + filled], turned)
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
    """Reach and alone (``mixture.loadings``) of some arms, given the counts of all."""
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
