"""How much more an experiment earned per decision than a control would have.

The uplift is the mean reward of the decisions as they were made, minus the mean reward they would
have had if all had gone to the control arm, or an equal share to each active arm.

* "posterior": arms have fixed means with a known posterior. The uplift is a weighted sum of the
  means, with shares of decisions as weights. A posterior does not depend on how arms were chosen.
* "ips": features come with every ask, so arms have no fixed means. With the recorded probability p
  of each decision, and the probability q of its arm under the control, the uplift is the mean of
  (reward - c) (1 - q/p), for any c; here c is the mean reward, which keeps errors small. Every arm
  of the control must have had a positive probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rolf.errors import InvalidArgument
from rolf.estimators.posterior.mixture import MixturePosterior
from rolf.experiments.status.timeline import Outcomes
from rolf.types import FloatArray

#: without a closed form: budget of random numbers, and the largest and smallest number of draws
NUMBERS, MOST, LEAST = 2_000_000, 4_000, 500

UNIFORM = "a uniform share"


@dataclass(frozen=True)
class Uplift:
    """The average gain per decision over a control.

    Attributes:
        control: the control arm; None for an equal share of all active arms.
        estimate, low, high: the uplift, and the ends of its interval.
        level: level of the interval.
        baseline: mean reward of the control, by the same estimator.
        estimator: "posterior" or "ips".
        posterior_of: the policy whose posterior was used; None for "ips".
    """

    control: Any
    estimate: float
    low: float
    high: float
    level: float
    baseline: float
    estimator: str
    posterior_of: str | None = None

    @property
    def against(self) -> str:
        return UNIFORM if self.control is None else str(self.control)

    def __str__(self) -> str:
        source = f"posterior of {self.posterior_of}" if self.posterior_of else "inverse propensity"
        return (
            f"{self.estimate:+.4g} per decision against {self.against} "
            f"({100 * self.level:g}% interval {self.low:+.4g} to {self.high:+.4g}; {source})"
        )


def make_uplift(
    control: Any,
    numbers: tuple[float, float, float, float],
    level: float,
    posterior_of: str | None = None,
) -> Uplift:
    estimate, low, high, baseline = numbers
    estimator = "ips" if posterior_of is None else "posterior"
    return Uplift(control, estimate, low, high, level, baseline, estimator, posterior_of)


def control_shares(control: int | None, active: Sequence[bool]) -> FloatArray | None:
    """The share of decisions (K,) each arm would have had; None without arms."""
    shares = np.zeros(len(active))
    if control is not None:
        shares[control] = 1.0
    elif any(active):
        shares[np.array(active)] = 1.0 / sum(active)
    else:
        return None
    return shares


# --- from a posterior ---


def posterior_uplift(
    known: MixturePosterior,
    plays: Sequence[int],
    shares: FloatArray,
    level: float,
    means: FloatArray,
) -> tuple[float, float, float, float]:
    """Estimate, ends of the interval, and the control's mean, from plays and posterior means."""
    weights = np.array(plays, dtype=np.float64) / sum(plays) - shares
    if known.link is np.asarray:
        low, high = _linear(known, weights).interval(level)[0]
    else:
        tails = [0.5 * (1.0 - level), 0.5 * (1.0 + level)]
        low, high = np.quantile(_draws(known, weights), tails)
    return float(weights @ means), float(low), float(high), float(shares @ means)


def _linear(known: MixturePosterior, weights: FloatArray) -> MixturePosterior:
    """The posterior of a weighted sum of the arms, as the posterior of a single arm."""
    arms = np.arange(weights.size)
    variances = np.empty((known.weights.size, 1))
    for g in range(known.weights.size):
        reach, alone = known.loadings(g, arms)
        along = reach @ weights
        variances[g] = max(along @ known.cov[g] @ along, 0.0) + alone @ weights**2
    return known._replace(means=(known.means @ weights)[:, None], variances=variances)


def _draws(known: MixturePosterior, weights: FloatArray) -> FloatArray:
    """Draws of a weighted sum of the arms' mean rewards, the same for the same posterior."""
    arms = np.flatnonzero(weights)
    count = int(np.clip(NUMBERS // max(arms.size, 1), LEAST, MOST))
    rng = np.random.default_rng(count)
    parts = []
    for g, size in enumerate(rng.multinomial(count, known.weights / known.weights.sum())):
        reach, alone = known.loadings(g, arms)
        root, scales = known.spreads(g, size, rng)
        deviations = rng.standard_normal((size, root.shape[1])) @ root.T @ reach
        deviations += np.sqrt(alone) * rng.standard_normal((size, arms.size))
        values = known.means[g, arms] + scales[:, None] * deviations
        parts.append(known.link(values.ravel()).reshape(values.shape) @ weights[arms])
    return np.concatenate(parts)


# --- from logged probabilities ---


def logged_uplift(
    outcomes: Outcomes, control: int | None, level: float
) -> tuple[float, float, float, float] | str:
    """Estimate, ends of the interval, and the control's mean; or the reason why there are none."""
    from scipy.special import stdtrit

    from rolf.evaluation.offpolicy import TINY, check_overlap, expected_variances
    from rolf.evaluation.sums import Overlap

    known = ~np.isnan(outcomes.rewards)
    rewards, probabilities = outcomes.rewards[known], outcomes.probabilities[known]
    if rewards.size < 2:
        return "too few rewards"
    if np.isnan(probabilities).any():
        return "some decisions have no probability on record"
    arms = outcomes.arms[known]
    rule = np.zeros(max(int(arms.max()), control or 0, int(outcomes.actives.max()) - 1) + 1)
    if control is None:
        rule[:] = 1.0 / rule.size
        weights = 1.0 / outcomes.actives[known] / probabilities
    else:
        rule[control] = 1.0
        weights = rule[arms] / probabilities
    variances = expected_variances(rule, arms, probabilities, rule[arms] / probabilities)
    overlap = Overlap.of(weights, int(np.count_nonzero(probabilities >= 1.0)), variances)
    try:
        check_overlap("the control", overlap)
    except InvalidArgument:
        return "some arm of the control did not have a positive probability in every round"
    if overlap.effective < TINY:
        return "the control could have made too few of the decisions"
    centre = float(rewards.mean())
    terms = (rewards - centre) * (1.0 - weights)
    error = float(terms.std(ddof=1)) / math.sqrt(terms.size)
    estimate = float(terms.mean())
    reach = -error * float(stdtrit(terms.size - 1.0, 0.5 * (1.0 - level)))
    return estimate, estimate - reach, estimate + reach, centre - estimate
