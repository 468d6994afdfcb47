"""Mean and variance of every arm over all components, without a number per arm and component.

An arm with features z and no rewards has mean z't_g and variance s_g (l_g + z'C_g z) in component
g, whose weight is w_g. Over all of them

    mean  z't,    variance  sum_g w_g s_g l_g + z'Q z,

    t = sum_g w_g t_g,    Q = sum_g w_g (s_g C_g + (t_g - t)(t_g - t)'):

one quadratic form, however many components there are. The others are averaged one by one
(``components.py``).
"""

from __future__ import annotations

import numpy as np

from rolf.estimators.posterior.components import BLOCK, PlayedComponents, combine, turn
from rolf.estimators.posterior.regression import Posterior
from rolf.estimators.posterior.scales import FAINT, noise_variances
from rolf.kernel import looped, shared
from rolf.types import FloatArray, IntArray


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
        turn(grid.rows, chosen[:count], block)
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
