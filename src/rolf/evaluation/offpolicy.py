"""The arithmetic of off-policy evaluation: intervals, a check of overlap, reward models."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rolf.augment import Augmentation
from rolf.errors import InvalidArgument
from rolf.estimators.contract import (
    ArmTotals,
    History,
    begin,
    learn,
    learn_totals,
    means,
    recompute,
)
from rolf.estimators.ridge.augmented import AugmentedRidge
from rolf.estimators.ridge.varying import BiasedRidge
from rolf.evaluation.result import Value
from rolf.evaluation.sums import Overlap, Spread, Sums
from rolf.logs.rounds import Contexts
from rolf.types import FloatArray, IntArray

TINY = 50.0  # fewer effective decisions make an interval unreliable
RARE = 5  # so do fewer effective rewards other than the most common one
FAR = 6.0  # a mean weight more standard errors than this from 1 cannot be bad luck
PENALTY = 1.0  # of the reward models
NEEDS_OVERLAP = (
    "overlap: other arms must have been possible, too; on the log of a policy that is certain of "
    'its arm, such as ucb, or rolf-bayes without explore, only the estimator "replay" can be used'
)


class Scorer:
    """Values with confidence intervals.

    Every estimator is a ratio v = sum t_i / sum s_i. Its standard error is the root of sum (t_i - v
    s_i)^2, divided by sum s_i; the quantile is Student's, with one degree of freedom fewer than
    there are effective decisions.

    This cannot account for rewards too rare to have been seen. If fewer than ``RARE`` effective
    decisions have a reward other than the most common one, as with rare clicks, the interval is
    Clopper and Pearson's for the share of those decisions.
    """

    def __init__(self, level: float, spread: Spread) -> None:
        self.tails = np.array([0.5 * (1.0 - level), 0.5 * (1.0 + level)])
        self.common = spread.common
        middle = spread.low if self.common is None else self.common
        self.below, self.above = middle - spread.low, spread.high - middle
        self._caveats: dict[tuple[str, str], list[str]] = {}

    def __call__(self, label: str, name: str, sums: Sums) -> Value:
        """The value of an estimator, with its interval."""
        if sums.size == 0:
            self._warn(label, name, "no decisions: the policy accepted none of the log")
            return Value(label, name, math.nan, -math.inf, math.inf, 0.0)
        value, effective, share = sums.value, sums.effective, sums.odd / sums.w
        low, high = self._interval(sums)
        rare = share < 0.5 and effective * share < RARE and self.below + self.above > 0.0
        if rare:
            least, most = exact_share(effective * share, effective, self.tails)
            fewer, more = share - least, most - share
            ends = (
                value - self.above * fewer - self.below * more,
                value + self.above * more + self.below * fewer,
            )
            if name in ("ips", "dr"):  # their values depend on more than the share
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

    def _interval(self, sums: Sums) -> tuple[float, float]:
        from scipy.special import stdtrit

        size, value = sums.size, sums.value
        if size < 2:
            return -math.inf, math.inf
        error = math.sqrt(sums.residual * size / (size - 1.0)) / sums.s
        low, high = value + error * stdtrit(max(sums.effective - 1.0, 1.0), self.tails)
        return float(low), float(high)

    def _warn(self, label: str, name: str, text: str) -> None:
        self._caveats.setdefault((label, text), []).append(name)

    def caveats(self) -> list[str]:
        """Warnings about the values so far, one sentence per policy and reason."""
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


def expected_variances(
    rule: FloatArray, played: IntArray, probabilities: FloatArray, weights: FloatArray
) -> FloatArray:
    """The variance of every decision's importance weight (n,), if the arms not played shared the
    remaining probability equally.

    Rare large weights may be missing from the log, and the weights in it then vary too little. The
    rule's probabilities are (K,) or (n, K); a certain decision leaves no probability to share.
    """
    squares = weights * weights
    squares *= probabilities  # the square of the rule's probability, over the log's
    if rule.ndim == 1:
        others = np.maximum((rule * rule).sum() - rule * rule, 0.0) * (rule.size - 1)
        others = others.take(played)
    else:
        others = (rule**2).sum(axis=1) - squares * probabilities
        others = np.maximum(others, 0.0) * (rule.shape[1] - 1)
    rest = 1.0 - probabilities
    if rest.min(initial=1.0) <= 0.0:
        certain = rest <= 0.0
        rest[certain], others[certain] = 1.0, 0.0
    others /= rest
    squares += others
    squares -= 1.0
    return np.asarray(np.maximum(squares, 0.0, out=squares))


def check_overlap(label: str, seen: Overlap) -> None:
    """Refuse importance weights with a mean other than 1: the log did not give every arm of the
    rule a probability."""
    mean = seen.w / seen.size
    spread = max(seen.ww / seen.size - mean * mean, 0.0)
    slack = FAR * math.sqrt(max(spread, seen.variance / seen.size) / seen.size) + 1e-6
    wrong = mean == 0.0 or abs(mean - 1.0) > slack
    certain = seen.certain / seen.size
    if wrong and certain > 0.5:
        got = f"probability 1 for {certain:.0%} of the decisions, not those that {label} takes"
        raise InvalidArgument("log", got, NEEDS_OVERLAP)
    if mean == 0.0:
        raise InvalidArgument(
            "log",
            f"none of the decisions that {label} would take",
            "overlap: every arm that a policy plays, logged with a probability above 0",
        )
    if wrong:
        raise InvalidArgument(
            "log",
            f"probabilities that give {label} weights of {mean:.3g} on average",
            "an average of 1: either arms that it plays never had a probability, or the log was "
            "not made with these probabilities",
        )


# --- reward models -----------------------------------------------------------------------------


def fixed_model(augmented: Augmentation, totals: ArmTotals) -> FloatArray:
    """Mean rewards (K,): ridge regression on augmented features, around the overall mean."""
    model = AugmentedRidge.of(augmented, PENALTY)
    step = _mean(totals.counts, totals.sums)
    belief = begin(model, augmented.arms)
    learn_totals(model, belief, totals._replace(level=-step))
    recompute(model, belief, int(totals.counts.sum()))
    return means(model, belief, augmented.observed) + totals.level + step


class VaryingTotals(NamedTuple):
    """The totals behind a ridge regression on the features of the round and a bias per arm: those
    of a ``BiasedRidge``, of rewards less a level."""

    counts: FloatArray
    sums: FloatArray
    feature_sums: FloatArray
    moment: FloatArray
    cross: FloatArray

    @classmethod
    def of(
        cls, contexts: Contexts, played: IntArray, rewards: FloatArray, level: float
    ) -> VaryingTotals:
        """The totals of rounds with these features, arms and rewards."""
        rows = contexts.rows(np.arange(played.size), played)
        model = BiasedRidge(rows.shape[1], PENALTY)
        belief = begin(model, contexts.fixed.shape[0])
        learn(model, belief, History(played, rewards - level, rows, np.ones(played.size)))
        return cls(*belief[:5])

    def plus(self, other: VaryingTotals) -> VaryingTotals:
        return VaryingTotals(*(mine + more for mine, more in zip(self, other, strict=True)))


class VaryingModel(NamedTuple):
    """Mean rewards: coefficients of the features of the round, and a bias per arm."""

    theta: FloatArray
    bias: FloatArray

    def means(self, contexts: Contexts) -> FloatArray:
        """(n, K), of rounds with these features."""
        rounds = np.arange(contexts.moving.shape[0])
        return contexts.predictions(rounds, self.theta) + self.bias


def varying_model(totals: VaryingTotals, level: float) -> VaryingModel:
    """Ridge regression on the features of the round and a bias per arm, around the overall mean;
    the totals are those of rewards less a level."""
    step = _mean(totals.counts, totals.sums)
    arms, size = totals.feature_sums.shape
    model = BiasedRidge(size, PENALTY)
    belief = begin(model, arms)
    centred = totals._replace(
        sums=totals.sums - step * totals.counts,
        cross=totals.cross - step * totals.feature_sums.sum(axis=0),
    )
    for target, values in zip(belief, centred, strict=False):
        target[:] = values
    recompute(model, belief, int(totals.counts.sum()))
    bias = means(model, belief, np.zeros((arms, size)))
    return VaryingModel(belief.theta, bias + level + step)


def _mean(counts: FloatArray, sums: FloatArray) -> float:
    return float(sums.sum() / counts.sum())
