"""The arithmetic of off-policy evaluation: intervals, a check of overlap, reward models."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rolf.augment import Augmentation
from rolf.errors import InvalidArgument
from rolf.estimators.augmented_ridge import AugmentedRidge
from rolf.estimators.operations import History, begin, learn, means, recompute
from rolf.estimators.varying_ridge import BiasedRidge
from rolf.evaluation.logs import Contexts
from rolf.evaluation.result import Value
from rolf.types import FloatArray, Generator, IntArray

TINY = 50.0  # effective decisions below which an interval is unreliable
RARE = 5  # effective rewards other than the most common one below which it is, too
FAR = 6.0  # standard errors between the mean weight and 1 beyond which chance is ruled out
PENALTY = 1.0  # of the reward models
RESAMPLES = 1000
NEEDS_OVERLAP = (
    "overlap: other arms must have had a chance, too; on the log of a policy that is certain of "
    'its arm, such as ucb, or rolf-bayes without explore, only the estimator "replay" can be used'
)


class Scorer:
    """Values with confidence intervals.

    Every estimator is a ratio v = sum of t_i / sum of s_i. Its standard error is the root of
    sum (t_i - v s_i)^2, divided by sum s_i, and the quantile is Student's, with one degree of
    freedom less than effective decisions. The bootstrap resamples decisions and takes percentiles.

    Neither can account for rewards too rare to have been seen. Where fewer than ``RARE``
    effective decisions have a reward other than the most common one, for example with clicks,
    the interval is that of Clopper and Pearson for their share.
    """

    def __init__(self, level: float, interval: str, rng: Generator, rewards: FloatArray) -> None:
        self.tails = np.array([0.5 * (1.0 - level), 0.5 * (1.0 + level)])
        self.bootstrap = interval == "bootstrap"
        self.rng = rng
        distinct, counts = np.unique(rewards, return_counts=True)
        self.common = float(distinct[counts.argmax()])
        self.below = self.common - float(distinct[0])
        self.above = float(distinct[-1]) - self.common
        self._caveats: dict[tuple[str, str], list[str]] = {}

    def __call__(
        self,
        label: str,
        name: str,
        terms: FloatArray,
        scale: FloatArray,
        weights: FloatArray,
        rewards: FloatArray,
    ) -> Value:
        """The value of ``terms`` (n,) over ``scale`` (n,), and its interval, which also depends
        on the weights and rewards."""
        if terms.size == 0:
            self._warn(label, name, "no decisions at all: none of the log was accepted")
            return Value(label, name, math.nan, -math.inf, math.inf, 0.0)
        value = float(terms.sum() / scale.sum())
        effective = effective_size(weights)
        share = float(weights @ (rewards != self.common) / weights.sum())
        low, high = self._interval(value, terms, scale, effective)
        rare = share < 0.5 and effective * share < RARE and self.below + self.above > 0.0
        if rare:
            least, most = exact_share(effective * share, effective, self.tails)
            fewer, more = share - least, most - share
            ends = (
                value - self.above * fewer - self.below * more,
                value + self.above * more + self.below * fewer,
            )
            if name in ("ips", "dr"):  # their values vary with more than the share
                ends = min(low, ends[0]), max(high, ends[1])
            low, high = ends
        if name != "mean" and effective < TINY:
            text = f"an effective {effective:.0f} decisions: do not trust the interval"
            self._warn(label, name, text)
        elif name != "mean" and rare:
            count = f"{effective * share:.1f}".removesuffix(".0")
            text = f"too few rewards other than {self.common:g}: an effective {count}"
            self._warn(label, name, text)
        return Value(label, name, value, low, high, effective)

    def _interval(
        self, value: float, terms: FloatArray, scale: FloatArray, effective: float
    ) -> tuple[float, float]:
        from scipy.special import stdtrit

        size = terms.size
        if size < 2:
            return -math.inf, math.inf
        if self.bootstrap:
            values = np.empty(RESAMPLES)
            for resample in range(RESAMPLES):
                rows = self.rng.integers(size, size=size)
                total = scale[rows].sum()
                values[resample] = terms[rows].sum() / total if total > 0.0 else value
            low, high = np.quantile(values, self.tails)
            return float(low), float(high)
        squares = float(((terms - value * scale) ** 2).sum()) * size / (size - 1.0)
        error = math.sqrt(squares) / float(scale.sum())
        low, high = value + error * stdtrit(max(effective - 1.0, 1.0), self.tails)
        return float(low), float(high)

    def _warn(self, label: str, name: str, text: str) -> None:
        self._caveats.setdefault((label, text), []).append(name)

    def caveats(self) -> list[str]:
        """What is unreliable about the values so far, one sentence per policy and reason."""
        return [
            f"{label}: {', '.join(names)} {'rests' if len(names) == 1 else 'rest'} on {text}."
            for (label, text), names in self._caveats.items()
        ]


def exact_share(count: float, size: float, tails: FloatArray) -> tuple[float, float]:
    """Clopper and Pearson's interval of a share; the count need not be whole.

    >>> low, high = exact_share(0.0, 100.0, np.array([0.025, 0.975]))
    >>> low, round(high, 4)
    (0.0, 0.0362)
    """
    from scipy.special import betaincinv

    low = betaincinv(count, size - count + 1.0, tails[0]) if count > 0.0 else 0.0
    return float(low), float(betaincinv(count + 1.0, size - count, tails[1]))


def effective_size(weights: FloatArray) -> float:
    """(sum w)^2 / sum w^2: how many decisions with equal weights would tell as much.

    >>> effective_size(np.array([1.0, 1.0, 1.0, 3.0]))
    3.0
    """
    return float(weights.sum() ** 2 / (weights**2).sum())


def expected_variance(rule: FloatArray, played: IntArray, chances: FloatArray) -> float:
    """The variance of importance weights, on average over the decisions, if the arms that were
    not played shared the rest of the chance equally.

    Large weights that are rare may not have come up: what came up would then vary too little. The
    rule's chances are (K,) or (n, K); what is certain had no rest to share.
    """
    own = rule[played] if rule.ndim == 1 else rule[np.arange(played.size), played]
    others = np.maximum((rule**2).sum(axis=-1) - own**2, 0.0)
    rest = (1.0 - chances) / (rule.shape[-1] - 1)
    squares = own**2 / chances + np.divide(others, rest, out=np.zeros(own.size), where=rest > 0.0)
    return float(np.maximum(squares - 1.0, 0.0).mean())


def check_overlap(
    label: str, weights: FloatArray, chances: FloatArray | None = None, variance: float = 0.0
) -> None:
    """Refuse importance weights whose mean is not 1, as it is if the log gave every arm of the
    rule a chance.

    ``chances``, with which the log's arms were chosen, help to say why; ``variance`` is what the
    weights have at least.
    """
    mean = float(weights.mean())
    slack = FAR * math.sqrt(max(float(weights.var()), variance) / weights.size) + 1e-6
    wrong = mean == 0.0 or abs(mean - 1.0) > slack
    certain = 0.0 if chances is None else float(np.mean(chances >= 1.0))
    if wrong and certain > 0.5:
        got = f"probability 1 for {certain:.0%} of the decisions, not those that {label} takes"
        raise InvalidArgument("log", got, NEEDS_OVERLAP)
    if mean == 0.0:
        raise InvalidArgument(
            "log",
            f"none of the decisions that {label} would take",
            "overlap: every arm that a policy plays, logged with a chance above 0",
        )
    if wrong:
        raise InvalidArgument(
            "log",
            f"probabilities that give {label} weights of {mean:.3g} on average",
            "an average of 1: either arms that it plays never had a chance, or the log was "
            "not made with these probabilities",
        )


def fixed_model(augmented: Augmentation, played: IntArray, rewards: FloatArray) -> FloatArray:
    """Mean rewards (K,): ridge regression on augmented features, around the overall mean."""
    model = AugmentedRidge.of(augmented, PENALTY)
    centre = float(rewards.mean())
    belief = _belief(model, augmented.arms, played, rewards - centre, np.zeros((0, 0)))
    return means(model, belief, augmented.observed) + centre


def varying_model(
    contexts: Contexts, played: IntArray, rewards: FloatArray, at: IntArray
) -> FloatArray:
    """Mean rewards (n, K) in the rounds ``at``, learned from the first rounds of the log.

    Ridge regression on the features of the round and a bias per arm, around the overall mean.
    """
    centre = float(rewards.mean())
    rows = contexts.rows(np.arange(played.size), played)
    arms, size = contexts.fixed.shape[0], rows.shape[1]
    model = BiasedRidge(size, PENALTY)
    belief = _belief(model, arms, played, rewards - centre, rows)
    bias = means(model, belief, np.zeros((arms, size)))
    return contexts.predictions(at, belief.theta) + bias + centre


def _belief(model: Any, arms: int, played: IntArray, rewards: FloatArray, rows: FloatArray) -> Any:
    """An estimator's belief after a history."""
    belief = begin(model, arms)
    learn(model, belief, History(played, rewards, rows, np.ones(played.size)))
    recompute(model, belief, played.size)
    return belief
