"""The arithmetic of off-policy evaluation: intervals, the check of overlap, reward models."""

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

TINY = 50.0  # effective decisions below which an interval is not to be trusted
RARE = 5  # rewards unlike the most common one, below which the same holds
FAR = 6.0  # standard errors of the mean weight from 1 that no luck explains
PENALTY = 1.0  # of the reward models
RESAMPLES = 1000
UNCERTAIN = (
    "overlap, chances of other arms too: after a policy that is certain of its arm, such as ucb "
    "and rolf-bayes, only the estimator replay can be used (--estimator replay)"
)


class Scorer:
    """Values with confidence intervals.

    Every estimator is a ratio v = sum of t_i / sum of s_i. Its standard error is the root of
    sum (t_i - v s_i)^2 over sum s_i; the quantile is Student's with as many degrees of freedom
    as effective decisions. The bootstrap resamples decisions and takes percentiles.

    Neither knows of rewards that are too rare to have been seen. Where fewer than ``RARE``
    effective decisions have another reward than the most common one, clicks for example, the
    interval is that of Clopper and Pearson for their share.
    """

    def __init__(self, level: float, interval: str, rng: Generator, rewards: FloatArray) -> None:
        self.level = level
        self.tails = np.array([0.5 * (1.0 - level), 0.5 * (1.0 + level)])
        self.bootstrap = interval == "bootstrap"
        self.rng = rng
        found, counts = np.unique(rewards, return_counts=True)
        self.common = float(found[counts.argmax()])
        self.below = self.common - float(found[0])
        self.above = float(found[-1]) - self.common
        self._doubts: dict[tuple[str, str], list[str]] = {}

    def __call__(
        self,
        label: str,
        name: str,
        terms: FloatArray,
        scale: FloatArray,
        weights: FloatArray,
        rewards: FloatArray,
    ) -> Value:
        """The value of ``terms`` (n,) over ``scale`` (n,); weights and rewards say how sure."""
        if terms.size == 0:
            self._doubt(label, name, "no decision at all: none of the log was accepted")
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
            loose = name in ("ips", "dr")  # their values move with more than the share
            low, high = (min(low, ends[0]), max(high, ends[1])) if loose else ends
        if name != "mean" and effective < TINY:
            text = f"an effective {effective:.0f} decisions: the interval is not to be trusted"
            self._doubt(label, name, text)
        elif name != "mean" and rare:
            count = f"{effective * share:.1f}".removesuffix(".0")
            text = f"effectively {count} rewards other than {self.common:g}, which is too few"
            self._doubt(label, name, text)
        return Value(label, name, value, low, high, effective)

    def _interval(
        self, value: float, terms: FloatArray, scale: FloatArray, effective: float
    ) -> tuple[float, float]:
        from scipy.special import stdtrit

        size = terms.size
        if size < 2:
            return -math.inf, math.inf
        if self.bootstrap:
            drawn = np.empty(RESAMPLES)
            for place in range(RESAMPLES):
                rows = self.rng.integers(size, size=size)
                total = scale[rows].sum()
                drawn[place] = terms[rows].sum() / total if total > 0.0 else value
            low, high = np.quantile(drawn, self.tails)
            return float(low), float(high)
        squares = float(((terms - value * scale) ** 2).sum()) * size / (size - 1.0)
        error = math.sqrt(squares) / float(scale.sum())
        low, high = value + error * stdtrit(max(effective - 1.0, 1.0), self.tails)
        return float(low), float(high)

    def _doubt(self, label: str, name: str, text: str) -> None:
        self._doubts.setdefault((label, text), []).append(name)

    def doubts(self) -> list[str]:
        """What is shaky about the values so far, one sentence a policy and reason."""
        return [
            f"{label}: {', '.join(names)} {'rests' if len(names) == 1 else 'rest'} on {text}."
            for (label, text), names in self._doubts.items()
        ]


def exact_share(count: float, size: float, tails: FloatArray) -> tuple[float, float]:
    """Clopper and Pearson's interval of a share, also for counts that are not whole.

    >>> low, high = exact_share(0.0, 100.0, np.array([0.025, 0.975]))
    >>> low, round(high, 4)
    (0.0, 0.0362)
    """
    from scipy.special import betaincinv

    low = betaincinv(count, size - count + 1.0, tails[0]) if count > 0.0 else 0.0
    return float(low), float(betaincinv(count + 1.0, size - count, tails[1]))


def effective_size(weights: FloatArray) -> float:
    """(sum w)^2 / sum w^2: how many decisions with equal weights would say as much.

    >>> effective_size(np.array([1.0, 1.0, 1.0, 3.0]))
    3.0
    """
    return float(weights.sum() ** 2 / (weights**2).sum())


def check_overlap(label: str, weights: FloatArray, chances: FloatArray | None = None) -> None:
    """Importance weights average 1 where the log gave every arm of the rule a chance.

    The chances with which the log's arms were chosen help to say why not.
    """
    mean = float(weights.mean())
    slack = FAR * float(weights.std()) / math.sqrt(weights.size) + 1e-6
    wrong = mean == 0.0 or abs(mean - 1.0) > slack
    certain = 0.0 if chances is None else float(np.mean(chances >= 1.0))
    if wrong and certain > 0.5:
        got = f"probability 1 for {certain:.0%} of the decisions, and others than {label} takes"
        raise InvalidArgument("log", got, UNCERTAIN)
    if mean == 0.0:
        raise InvalidArgument(
            "log",
            f"none of the decisions that {label} would take",
            "overlap: each arm that a policy plays, logged with a chance above 0",
        )
    if wrong:
        raise InvalidArgument(
            "log",
            f"probabilities that give {label} weights of {mean:.3g} on average",
            "overlap and the true chances, which give 1: arms that it plays never had a "
            "chance, or the probabilities are not those the log was made with",
        )


def fixed_model(augmented: Augmentation, played: IntArray, rewards: FloatArray) -> FloatArray:
    """Mean rewards (K,): ridge regression on augmented features, around the overall mean."""
    model = AugmentedRidge.of(augmented, PENALTY)
    centre = float(rewards.mean())
    belief = _learned(model, augmented.arms, played, rewards - centre, np.zeros((0, 0)))
    return means(model, belief, augmented.observed) + centre


def varying_model(
    contexts: Contexts, played: IntArray, rewards: FloatArray, at: IntArray
) -> FloatArray:
    """Mean rewards (n, K) in the rounds ``at``, learned from the first rounds of the log.

    Ridge regression on the features of the round and a bias for every arm.
    """
    centre = float(rewards.mean())
    seen = contexts.rows(np.arange(played.size), played)
    arms = contexts.fixed.shape[0]
    model = BiasedRidge(seen.shape[1], PENALTY)
    belief = _learned(model, arms, played, rewards - centre, seen)
    bias = means(model, belief, np.zeros((arms, seen.shape[1])))
    return contexts.times(at, belief.theta) + bias + centre


def _learned(model: Any, arms: int, played: IntArray, rewards: FloatArray, rows: FloatArray) -> Any:
    """What an estimator believes after a history."""
    belief = begin(model, arms)
    learn(model, belief, History(played, rewards, rows, np.ones(played.size)))
    recompute(model, belief, played.size)
    return belief
