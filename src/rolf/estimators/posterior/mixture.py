"""What a posterior over the scales says: intervals, the probability of being best, merging.

The posterior of all arms is a mixture of multivariate Student t distributions, one per component
of ``scales.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rolf.checks import MAX_FEATURE, MAX_REWARD
from rolf.estimators.contract import Traits, check_counts, check_moments, check_sums
from rolf.estimators.posterior.contract import posterior
from rolf.estimators.posterior.scales import FAINT, check_evidence, evidence_agrees
from rolf.estimators.posterior.student import low_quantile, low_quantiles, tail_table
from rolf.estimators.posterior.winners import count_wins
from rolf.kernel import looped
from rolf.types import FloatArray, Generator, IntArray

#: probability that the best arm of a draw is left out, far below the error of the shares
NEVER = 1e-6


class Believed(NamedTuple):
    """What is believed of the arms, component by component.

    Weights (G,); means (G, K), relative to the belief's anchor; variances (G, K) in units of the
    noise variances (G,), which are all -1 while no scale is known.
    """

    weights: FloatArray
    means: FloatArray
    variances: FloatArray
    noises: FloatArray


@looped
def mixture(known: Believed) -> tuple[FloatArray, FloatArray, float]:
    """``moments``, from what is believed component by component."""
    count, arms = known.means.shape
    mean = np.zeros(arms)
    variance = np.zeros(arms)
    noise = 0.0
    for g in range(count):
        weight = known.weights[g]
        if weight > FAINT:
            noise += weight * known.noises[g]
            for a in range(arms):
                mean[a] += weight * known.means[g, a]
    for g in range(count):
        weight = known.weights[g]
        if weight > FAINT:
            scale = abs(known.noises[g])
            for a in range(arms):
                off = known.means[g, a] - mean[a]
                variance[a] += weight * (off * off + scale * max(known.variances[g, a], 0.0))
    return mean, variance, noise


class MixturePosterior(NamedTuple):
    """The posterior of all arms, component by component; nothing in it changes any more.

    Given a component's noise variance s, the arms are as ``loadings`` says; s is inverse gamma with
    the errors, or known, which is infinitely many degrees of freedom.
    """

    weights: FloatArray  # (L,)
    noises: FloatArray  # (L,): errors over degrees of freedom
    means: FloatArray  # (L, K)
    variances: FloatArray  # (L, K), in units of s
    cov: FloatArray  # (L, D, D)
    degrees: float  # of freedom: rewards less one, or infinitely many
    #: reach and alone of a component and some arms
    loadings: Callable[[int, IntArray], tuple[FloatArray, FloatArray]]
    #: from what is normal to rewards
    link: Callable[[FloatArray], FloatArray] = np.asarray

    def interval(self, level: float) -> FloatArray:
        """Interval of every arm, (K, 2), with half of 1 - ``level`` below it and half above."""
        tail, table = 0.5 * (1.0 - level), tail_table(self.degrees)
        one, means = low_quantile(table, tail), np.ascontiguousarray(self.means.T)
        spreads = np.sqrt(np.ascontiguousarray(self.variances.T) * self.noises)
        ends = [
            low_quantiles(table, self.weights, sign * means, spreads, tail, one)
            for sign in (1.0, -1.0)
        ]
        return np.column_stack([self.link(ends[0]), self.link(-ends[1])])

    def best(self, arms: IntArray, draws: int) -> FloatArray:
        """How often each arm (K,) is the best of ``arms`` in draws from the joint posterior."""
        wins = np.zeros(self.means.shape[1])
        far = -low_quantile(tail_table(self.degrees), 0.5 * NEVER / arms.size)
        rng = np.random.default_rng([int(min(self.degrees, 2.0**53)), draws])
        shares = rng.multinomial(draws, self.weights / self.weights.sum())
        for g in np.flatnonzero(shares):
            rivals = self._rivals(int(g), arms, far)
            reach, alone = self.loadings(int(g), rivals)
            root, scales = self.spreads(int(g), int(shares[g]), rng)
            won = np.zeros(rivals.size)
            means, sds = self.means[g, rivals], np.sqrt(alone)
            count_wins(means, reach, root, sds, scales, rng, won)
            wins[rivals] += won
        return wins / draws

    def spreads(self, component: int, draws: int, rng: Generator) -> tuple[FloatArray, FloatArray]:
        """The L (D, D) of ``loadings``, and draws of sqrt(s)."""
        values, vectors = np.linalg.eigh(self.cov[component])
        squares = np.full(draws, self.noises[component])
        if math.isfinite(self.degrees):
            squares *= self.degrees / rng.chisquare(self.degrees, draws)
        return vectors * np.sqrt(np.maximum(values, 0.0)), np.sqrt(squares)

    def _rivals(self, component: int, arms: IntArray, far: float) -> IntArray:
        """Some arms, less those that together are the best with a probability below NEVER;
        ``far`` is how many deviations away an arm is when it may be one of them."""
        spread = self.noises[component] * self.variances[component, arms]
        means, reach = self.means[component, arms], far * np.sqrt(spread)
        rivals: IntArray = arms[means + reach >= (means - reach).max()]
        return rivals


def known_posterior(model: Any, belief: Any, features: FloatArray) -> MixturePosterior | None:
    """The posterior, or None while no scale is known: all rewards so far were equal."""
    if model.noise == 0.0 and float(belief.components.evidence.errors.max()) <= 0.0:
        return None
    known: MixturePosterior = posterior(model, belief, features)
    return known


def intervals(known: MixturePosterior | None, arms: int, level: float) -> FloatArray:
    """Of every arm (K, 2); unbounded while no scale is known."""
    if known is None:
        return np.tile([-math.inf, math.inf], (arms, 1))
    return known.interval(level)


def probabilities_of_best(
    known: MixturePosterior | None, arms: int, available: IntArray, draws: int
) -> FloatArray:
    """Of every arm (K,) to be the best available one; equal while no scale is known."""
    if known is not None:
        return known.best(available, draws)
    equal = np.zeros(arms)
    equal[available] = 1.0 / available.size
    return equal


def posterior_traits(totals: tuple[str, ...], derived: tuple[str, ...]) -> Traits:
    """What saving and merging have to know of a belief with an anchor and components."""
    paths = tuple(f"components.{name}" for name in derived)
    return Traits(
        totals,
        ("anchor",),
        paths,
        align=align_levels,
        agrees=components_agree,
    )


def check_anchored(model: Any, belief: Any, rounds: int) -> None:
    """``check_totals`` for a belief with an anchor."""
    totals = getattr(belief, "totals", belief)
    check_counts(totals.counts)
    check_sums(totals.counts, totals.sums, 2.0 * MAX_REWARD)  # both sides of the anchor
    rewards = totals.counts if totals.squares.size > 1 else totals.counts.sum()
    check_sums(rewards, totals.squares, (2.0 * MAX_REWARD) ** 2)
    if abs(belief.anchor[0]) > MAX_REWARD:
        raise ValueError("anchor is no reward")
    if hasattr(totals, "moment"):  # features vary
        _check_moments(totals)


def check_components(model: Any, belief: Any, rounds: int) -> None:
    """``check_rest`` for a belief with components."""
    counts = getattr(belief, "totals", belief).counts
    evidence = belief.components.evidence
    check_evidence(evidence, counts)
    if model.noise == 0.0 and (evidence.errors < 0.0).any():
        raise ValueError("errors are below 0")
    loose = getattr(belief.components, "loose", None)
    if loose is not None and (loose <= 0.0).any():
        raise ValueError("loose is not above 0")


def _check_moments(totals: Any) -> None:
    """Raise ValueError if rows with these sums per arm cannot have these second moments."""
    check_moments(totals.moment, totals.cross, int(totals.counts.sum()))
    check_sums(totals.counts[:, None], totals.rows, 2.0 * MAX_FEATURE)
    averages = totals.rows / np.maximum(totals.counts, 1.0)[:, None]
    within = np.linalg.eigvalsh(totals.moment - averages.T @ totals.rows)
    if within[0] < -1e-6 * np.trace(totals.moment):
        raise ValueError("moment does not go with the rows")
    # Cauchy and Schwarz, with much room for what rounding leaves of small squares
    most = np.diag(totals.moment) * np.abs(totals.squares[0])
    if (totals.cross**2 > 1e12 * most).any():
        raise ValueError("cross does not go with moment and squares")


def components_agree(saved: Any, recomputed: Any) -> bool:
    return evidence_agrees(saved.components.evidence, recomputed.components.evidence)


def align_levels(beliefs: list[dict[str, FloatArray]]) -> list[dict[str, FloatArray]]:
    """Beliefs, as totals by name, with sums taken from the level of the first with rewards."""
    prefix = "" if "counts" in beliefs[0] else "totals."
    levels = [each["anchor"][0] for each in beliefs if each[f"{prefix}counts"].any()]
    level = float(levels[0]) if levels else 0.0
    return [_at_level(each, level, prefix) for each in beliefs]


def _at_level(belief: dict[str, FloatArray], level: float, prefix: str) -> dict[str, FloatArray]:
    counts, sums, squares = (belief[prefix + name] for name in ("counts", "sums", "squares"))
    step = belief["anchor"][0] - level
    growth = 2.0 * step * sums + counts * step * step
    out = {
        **belief,
        "anchor": np.array([level]),
        f"{prefix}sums": sums + counts * step,
        # of every arm, or of all of them together
        f"{prefix}squares": squares + (growth if squares.size > 1 else growth.sum()),
    }
    if f"{prefix}cross" in belief:
        rows = belief[f"{prefix}rows"]
        out[f"{prefix}cross"] = belief[f"{prefix}cross"] + step * rows.sum(0)
    return out
