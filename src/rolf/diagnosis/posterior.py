"""The posterior of the share: how much of the variance between arms the features explain.

The model is RoLF-Bayes's: the mean reward of arm a is c + x_a'm + u_a, where the scales of the
observed part x_a'm, of the latent part u_a and of the noise are unknown
(``estimators/posterior/scales.py``). With rewards of 0 and 1, the log-odds of a reward of 1 take
the place of the mean (``estimators/posterior/clicks.py``). How the arms were chosen does not
matter: the likelihood of the observed rewards is the same for every rule that decides from what it
has seen.

Every component of the posterior has a variance between arms and the observed part's share of it;
both ends, "nothing" and "everything", have separate prior weights. The answer is about *these*
arms, V / (V + T) with V and T the variances of x_a'm and u_a over the arms, not about all arms that
could exist. Given a component, c and m are normal with mean t and covariance C, and given those the
latent parts are independent:

    t = C Z'(f b),    u_a ~ N(l f_a (b_a - W_a z_a'(c, m)), l f_a),    f_a = 1/(1 + l W_a),

in the notation of ``estimators/posterior/regression.py``, with W_a = N_a and b_a the sum of the
rewards; for 0 and 1, W_a = N_a h'(r_a) and b_a = W_a r_a + sum - N_a h(r_a) at the mode r. Drawing
these, always from the same streams, gives draws of the share.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rolf.diagnosis.lack_of_fit import ArmSummary
from rolf.estimators.posterior.clicks import CLICKS, LinkedPosterior, no_modes, refresh_linked
from rolf.estimators.posterior.fixed import no_components, refresh
from rolf.estimators.posterior.regression import Posterior, standard_rows
from rolf.estimators.posterior.scales import scale_grid
from rolf.types import FloatArray, IntArray

DRAWS = 4096
#: shares of the observed part, and their prior weights
SHARES = np.array([0.0, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97, 1.0])
WEIGHTS = np.array([0.15, 0.07, 0.07, 0.08, 0.09, 0.08, 0.09, 0.08, 0.07, 0.07, 0.15])
#: size that stands for "nothing", relative to the grid's smallest variance between arms
NOTHING = 1e-6
#: steps of the variance between arms, as a factor; 2 is too coarse if 200 arms determine it well
STEP = 1.4


class Belief(NamedTuple):
    """The posterior of the arms, component by component, in the notation above.

    ``degrees`` of freedom of the noise are infinite for rewards of 0 and 1; ``differ`` is the
    probability that the arms differ at all, from a prior of one half; ``centre`` was subtracted
    from all rewards.
    """

    weights: FloatArray  # (G,)
    noises: FloatArray  # (G,)
    degrees: float
    cov: FloatArray  # C (G, D, D)
    rows: FloatArray  # Z (K, D)
    latent: FloatArray  # l (G,)
    loose: FloatArray  # f (G, K)
    curvature: FloatArray  # W (G, K)
    pull: FloatArray  # b (G, K)
    shares: FloatArray  # (G,)
    differ: float
    centre: float


class Split(NamedTuple):
    """Draws (DRAWS,) of the explained and the latent variance over the arms; and per arm (K,), in
    units of rewards: the part from its features, its latent part with its standard deviation, the
    probabilities that this is above and below zero, and how much of the observed latent part is
    believed."""

    explained: FloatArray
    latent: FloatArray
    fit: FloatArray
    parts: FloatArray
    stderr: FloatArray
    above: FloatArray
    below: FloatArray
    shrinkage: FloatArray
    differ: float

    @property
    def shares(self) -> FloatArray:
        """Draws of the share; zero where nothing varies."""
        total = self.explained + self.latent
        return np.divide(self.explained, total, out=np.zeros(total.size), where=total > 0.0)


def real_belief(
    features: FloatArray, played: IntArray, summary: ArmSummary, noises: FloatArray
) -> Belief:
    """The posterior for rewards with normal noise, given its variance in every played arm.

    Rewards are weighted so that all have the same noise; the weights add up to the number of
    rewards.
    """
    noise = summary.counts.sum() / (summary.counts / noises).sum()
    weights = noise / noises
    centre = float(summary.means.mean())
    means = summary.means - centre
    within = weights * (summary.counts - 1.0) * summary.variances
    counts, sums, squares = np.zeros((3, features.shape[0]))
    counts[played] = weights * summary.counts
    sums[played] = counts[played] * means
    squares[played] = within + sums[played] * means
    # from a variance between arms too small to be seen to one larger than was seen
    most = 30.0 * max(float(means.var()) / noise, 1.0 / counts.max())
    least = max(0.1 / (counts.max() * np.sqrt(played.size)), 3e-9 * most)
    grid = Posterior(*standard_rows(features), *_grid(least, most), 0.0)
    components = no_components(grid)
    refresh(grid, components, counts, sums, squares)
    degrees = float(counts.sum()) - 1.0
    loose = 1.0 / (1.0 + grid.latent[:, None] * counts)
    return _belief(grid, components, loose, degrees, counts, sums, centre)


def click_belief(features: FloatArray, counts: FloatArray, sums: FloatArray) -> Belief:
    """The posterior for rewards of 0 and 1, from the counts and sums of all arms (K,)."""
    grid = LinkedPosterior(*standard_rows(features), *_grid(3e-4, 20.0), 1.0, CLICKS)
    belief = no_modes(grid, counts, sums)
    refresh_linked(grid, belief, True)
    rates = _rates(belief.modes)
    curvature = counts * rates * (1.0 - rates)
    pull = curvature * belief.modes + sums - counts * rates
    components = belief.components
    return _belief(grid, components, components.loose, math.inf, curvature, pull, 0.0)


def _grid(least: float, most: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Observed and latent scale and log prior weight: variances between arms from ``least`` to
    ``most``, log-uniform, times all shares."""
    steps = int(np.ceil(np.log(most / least) / np.log(STEP))) + 1
    totals = np.geomspace(least, most, steps)
    observed, latent, prior = scale_grid(totals, 1.0 - SHARES, WEIGHTS)
    nothing = NOTHING * least
    return np.maximum(observed, nothing), np.maximum(latent, nothing), prior


def _belief(
    grid: Any,
    components: Any,
    loose: FloatArray,
    degrees: float,
    curvature: FloatArray,
    pull: FloatArray,
    centre: float,
) -> Belief:
    evidence = components.evidence
    noises = evidence.errors / degrees if math.isfinite(degrees) else np.ones(grid.latent.size)
    least = slice(0, SHARES.size)  # components in which arms hardly differ
    odds = evidence.weights[least].sum() / np.exp(grid.prior[least]).sum()
    return Belief(
        evidence.weights,
        noises,
        degrees,
        components.cov,
        grid.rows,
        grid.latent,
        loose,
        np.broadcast_to(curvature, loose.shape),
        np.broadcast_to(pull, loose.shape),
        np.tile(SHARES, grid.latent.size // SHARES.size),
        1.0 / (1.0 + float(odds)),
        centre,
    )


def _rates(log_odds: FloatArray) -> FloatArray:
    from scipy.special import expit

    rates: FloatArray = expit(log_odds)
    return rates


def split_of(belief: Belief) -> Split:
    """Draw from the joint posterior of the observed and the latent part of all arms."""
    arms = belief.rows.shape[0]
    explained, latent, fit, parts, squares, above, below = [], [], *np.zeros((5, arms))
    cumulated = np.cumsum(belief.weights) / belief.weights.sum()
    numbers = np.diff(np.round(DRAWS * cumulated), prepend=0.0).astype(int)
    for g in np.flatnonzero(numbers):
        # one stream per component, so that rounding in one leaves the others alone
        level, moved, hidden = _draw(belief, int(g), int(numbers[g]), np.random.default_rng(g))
        observed = level + moved
        explained.append(moved.var(axis=1))
        latent.append(hidden.var(axis=1))
        above += (hidden > 0.0).sum(axis=0)
        below += (hidden < 0.0).sum(axis=0)
        if math.isinf(belief.degrees):  # from log-odds to rates
            hidden = _rates(observed + hidden)
            observed = _rates(observed)
            hidden -= observed
        fit += observed.sum(axis=0)
        parts += hidden.sum(axis=0)
        squares += (hidden**2).sum(axis=0)
    parts /= DRAWS
    return Split(
        np.concatenate(explained),
        np.concatenate(latent),
        fit / DRAWS + belief.centre,
        parts,
        np.sqrt(np.maximum(squares / DRAWS - parts**2, 0.0)),
        above / DRAWS,
        below / DRAWS,
        belief.weights @ (1.0 - belief.loose),
        belief.differ,
    )


def _draw(
    belief: Belief, g: int, number: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Draws of c (number, 1), x_a'm and u_a (number, K) in a component."""
    rows, loose, latent = belief.rows, belief.loose[g], belief.latent[g]
    scale = np.full((number, 1), np.sqrt(belief.noises[g]))
    if math.isfinite(belief.degrees):
        scale *= np.sqrt(belief.degrees / rng.chisquare(belief.degrees, (number, 1)))
    values, vectors = np.linalg.eigh(belief.cov[g])
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T  # symmetric, so unique
    coef = belief.cov[g] @ (rows.T @ (loose * belief.pull[g]))
    coefs = coef + scale * (rng.standard_normal((number, coef.size)) @ root)
    if belief.shares[g] == 0.0:
        coefs[:, 1:] = 0.0
    level, moved = coefs[:, :1], coefs[:, 1:] @ rows[:, 1:].T
    hidden = latent * loose * (belief.pull[g] - belief.curvature[g] * (level + moved))
    hidden += scale * np.sqrt(latent * loose) * rng.standard_normal(hidden.shape)
    if belief.shares[g] == 1.0:
        hidden[:] = 0.0
    return level, moved, hidden
