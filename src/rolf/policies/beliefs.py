"""What policies with a posterior over scales share, and what they can say about themselves.

Intervals and the chance of being best come from the posterior itself, a mixture of Student t
distributions; ``scales`` says what was learned about the features.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from rolf.checks import between, whole
from rolf.estimators.scales import Evidence
from rolf.kernel import looped, shared
from rolf.policies.base import Policy
from rolf.types import FloatArray

#: the bonus of an arm that is well known, as a share of that of an unknown one, and the
#: variance, in units of the noise's, at which it is half way
SETTLED = 0.55
HALFWAY = 0.1


@looped
def scores(
    mean: FloatArray, variance: FloatArray, noise: float, waiting: FloatArray, width: float
) -> FloatArray:
    """Upper confidence bounds of all arms.

    The bonus is ``width`` standard deviations for an arm of which little is known and falls
    to ``SETTLED`` of that for an arm of which one more reward would teach little. Decisions
    that wait narrow an arm as rewards would. ``noise`` is negative while all rewards were
    equal: the least known arm comes first then.
    """
    out = np.empty(mean.size)
    for a in range(mean.size):
        ratio = variance[a] / abs(noise)
        ratio /= 1.0 + waiting[a] * ratio
        if noise > 0.0:
            reach = width * (SETTLED + (1.0 - SETTLED) * ratio / (ratio + HALFWAY))
            out[a] = mean[a] + reach * math.sqrt(noise * ratio)
        else:
            out[a] = ratio if ratio > 0.0 else -waiting[a]
    return out


@shared
def due(seen: float, arms: int) -> bool:
    """Whether to start afresh from the totals: at powers of four, from 4K on. It takes up
    components that were left out too early, and ends what rounding had piled up."""
    return bool(seen >= 4.0 * arms and seen == 4.0 ** round(math.log(seen) / math.log(4.0)))


class Posterior(NamedTuple):
    """The posterior of all arms, component by component.

    Given a component's noise variance s, the arms are means + sqrt(s) (reach L e + sqrt(alone) e')
    with L L' = cov and e, e' standard normal; s is inverse gamma with the errors.
    """

    weights: FloatArray  # (L,)
    errors: FloatArray  # (L,)
    means: FloatArray  # (L, K)
    variances: FloatArray  # (L, K), in units of s
    reach: FloatArray  # (L, K, D)
    alone: FloatArray  # (L, K)
    cov: FloatArray  # (L, D, D)
    degrees: float  # of freedom: rewards less one


class Believer(Policy):
    """A policy that holds a posterior over the arms and the scales."""

    common = ("anchor",)
    largest = 1e140  # squares of rewards are added up

    #: observed and latent scale of every component, in units of the noise variance
    _observed: FloatArray
    _latent: FloatArray

    def _posterior(self, features: FloatArray) -> Posterior:
        raise NotImplementedError

    @property
    def _evidence(self) -> Evidence:
        evidence: Evidence = self._state.belief.evidence
        return evidence

    def _known(self, features: FloatArray) -> Posterior | None:
        """The posterior, or None while no scale is known: all rewards so far were equal."""
        with self._lock:
            if float(self._evidence.errors.max()) <= 0.0:
                return None
            return self._posterior(features)

    def intervals(self, level: float = 0.9, *, features: Any = None) -> Any:
        """Posterior intervals of the arms' mean rewards.

        Each holds the mean with probability ``level``, as much below as above. An array
        (K, 2), or a table with columns low and high for labelled arms. Unbounded while
        fewer than two different rewards have come.

        Args:
            level: in (0, 1).
            features: (K, d) features of the round, for policies that take them.
        """
        level = between("level", level, 0.0, 1.0)
        table = self._round_features(features)
        ends = np.tile([-math.inf, math.inf], (self.arms.count, 1))
        posterior = self._known(table)
        if posterior is not None:
            tails = (0.5 * (1.0 - level), 0.5 * (1.0 + level))
            ends = np.column_stack([_quantile(posterior, tail) for tail in tails])
        return self.arms.labelled(ends, ("low", "high"))

    def best(
        self, *, available: Iterable[Any] | None = None, features: Any = None, draws: int = 10_000
    ) -> Any:
        """The posterior probability of every arm to be the best one.

        The share of ``draws`` from the joint posterior in which it is. Reading it changes no
        later decision.
        """
        arms = self._everything if available is None else self.arms.subset(available)
        table = self._round_features(features)
        draws = whole("draws", draws, 1)
        wins = np.zeros(self.arms.count)
        posterior = self._known(table)
        if posterior is None:
            wins[arms] = 1.0 / arms.size
            return self.arms.labelled(wins)
        rng = np.random.default_rng([int(posterior.degrees), draws])
        shares = rng.multinomial(draws, posterior.weights / posterior.weights.sum())
        for g in np.flatnonzero(shares):
            values, vectors = np.linalg.eigh(posterior.cov[g])
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            reach = posterior.reach[g][arms] @ root
            for begin in range(0, shares[g], 1000):  # in blocks: memory stays bounded
                count = min(1000, shares[g] - begin)
                steps = rng.standard_normal((count, root.shape[1])) @ reach.T
                steps += np.sqrt(posterior.alone[g][arms]) * rng.standard_normal((count, arms.size))
                steps *= np.sqrt(posterior.errors[g] / rng.chisquare(posterior.degrees, count))[
                    :, None
                ]
                drawn = posterior.means[g][arms] + steps
                wins += np.bincount(arms[drawn.argmax(axis=1)], minlength=wins.size)
        return self.arms.labelled(wins / draws)

    def scales(self) -> dict[str, float]:
        """What was learned about the scales: standard deviations and a share.

        ``noise`` is the standard deviation of a reward around its mean, ``observed`` that of
        the part of the arms' means that features explain, ``latent`` that of the part they do
        not; ``explained`` is the share of the variance between arms that features explain,
        from 0 (ignore them) to 1 (trust them). NaN while nothing is known.
        """
        with self._lock:
            evidence = self._evidence
            degrees = float(evidence.seen[0]) - 1.0
            if float(evidence.errors.max()) <= 0.0:
                return dict.fromkeys(("noise", "observed", "latent", "explained"), math.nan)
            weights, noise = evidence.weights.copy(), evidence.errors / degrees
        observed, latent = self._observed, self._latent
        return {
            "noise": math.sqrt(float(weights @ noise)),
            "observed": math.sqrt(float(weights @ (noise * observed))),
            "latent": math.sqrt(float(weights @ (noise * latent))),
            "explained": float(weights @ (observed / (observed + latent))),
        }

    @classmethod
    def _aligned(cls, states: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The states with their sums taken from the level of the first that has rewards."""
        prefix = "totals." if cls.varying else ""
        seen = [each["state"] for each in states if any(each["state"][f"{prefix}counts"])]
        wanted = seen[0]["anchor"][0] if seen else 0.0
        return [_anchored(each, wanted, prefix) for each in states]

    def _recount(self) -> None:
        waiting = self._state.waiting
        waiting[:] = 0.0
        for pending in self._pending.values():
            waiting[pending.choice.arm] += 1.0


def _quantile(posterior: Posterior, chance: float) -> FloatArray:
    """Of the mixture of Student t distributions, by bisection between its components'."""
    from scipy.special import stdtr, stdtrit

    degrees = posterior.degrees
    spread = np.sqrt(posterior.errors[:, None] / degrees * posterior.variances)
    each = posterior.means + spread * stdtrit(degrees, chance)
    low, high = each.min(axis=0), each.max(axis=0)
    spread = np.maximum(spread, 1e-300)
    for _ in range(60):
        middle = 0.5 * (low + high)
        below = posterior.weights @ stdtr(degrees, (middle - posterior.means) / spread)
        low = np.where(below < chance, middle, low)
        high = np.where(below < chance, high, middle)
    return np.asarray(0.5 * (low + high))


def _anchored(data: dict[str, Any], wanted: float, prefix: str) -> dict[str, Any]:
    state = data["state"]
    names = ("counts", "sums", "squares")
    counts, sums, squares = (np.array(state[prefix + name]) for name in names)
    step = state["anchor"][0] - wanted
    growth = 2.0 * step * sums + counts * step * step
    moved = {
        "anchor": [wanted],
        f"{prefix}sums": (sums + counts * step).tolist(),
        # of every arm, or of all of them together
        f"{prefix}squares": (squares + (growth if squares.size > 1 else growth.sum())).tolist(),
    }
    if f"{prefix}cross" in state:
        rows = np.array(state[f"{prefix}rows"])
        moved[f"{prefix}cross"] = (np.array(state[f"{prefix}cross"]) + step * rows.sum(0)).tolist()
    return {**data, "state": {**state, **moved}}
