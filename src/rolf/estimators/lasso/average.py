"""The doubly robust lasso on the average of the observed features.

Each reward becomes the clipped average of its doubly robust pseudo-rewards over the arms, and

    beta = argmin (1/t) sum (pseudo-reward - xbar'beta)^2 + lam2 sqrt((log t + log d)/t) |beta|_1

with xbar the average feature vector. For fixed features xbar never changes, so only its largest
entry can carry weight, and beta has a closed form.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rolf.estimators import contract as op
from rolf.estimators.contract import History, Observation, Traits
from rolf.estimators.lasso.doubly_robust import pseudo_rewards
from rolf.kernel import shared
from rolf.linalg import assign
from rolf.types import FloatArray


class AverageLasso(NamedTuple):
    """The feature that is largest on average (K,), its average, the number of features d, the
    factor lam2 of the penalty and where pseudo-rewards are clipped."""

    column: FloatArray
    average: float
    size: int
    penalty: float
    clip: float

    @classmethod
    def of(cls, features: FloatArray, penalty: float, clip: float) -> AverageLasso:
        average = features.mean(axis=0)
        largest = int(np.argmax(np.abs(average)))
        column = np.ascontiguousarray(features[:, largest])
        return cls(column, float(average[largest]), features.shape[1], penalty, clip)


class AverageBelief(NamedTuple):
    """[number, sum] of the pseudo-rewards, and the estimated rewards (K,)."""

    total: FloatArray
    estimates: FloatArray


@shared
def decay(size: int, round: float) -> float:
    """sqrt((log t + log d)/t), the decay of exploration and penalty."""
    return math.sqrt((math.log(round) + math.log(size)) / round)


@shared
def fit(model: AverageLasso, belief: AverageBelief) -> None:
    """The closed form: a soft threshold on the one coordinate that can be active."""
    number = belief.total[0]
    target = belief.total[1] / number * model.average
    size = max(abs(target) - model.penalty * decay(model.size, number) / 2.0, 0.0)
    beta = 0.0
    if size > 0.0:
        beta = math.copysign(size, target) / (model.average * model.average)
    assign(belief.estimates, model.column * beta)


def _begin(model: AverageLasso, arms: int) -> AverageBelief:
    return AverageBelief(np.zeros(2), np.zeros(arms))


def _observe(model: AverageLasso, belief: AverageBelief, seen: Observation) -> None:
    pseudo = pseudo_rewards(belief.estimates, seen.arm, seen.reward, seen.probability).mean()
    belief.total[0] += 1.0
    belief.total[1] += min(max(pseudo, -model.clip), model.clip)
    fit(model, belief)


def _means(model: AverageLasso, belief: AverageBelief, features: FloatArray) -> FloatArray:
    return belief.estimates


def _recompute(model: AverageLasso, belief: AverageBelief, round: int) -> None:
    belief.estimates[:] = 0.0
    if belief.total[0] > 0.0:
        fit(model, belief)


def _learn(model: AverageLasso, belief: AverageBelief, history: History) -> None:
    for arm, reward, probability in zip(
        history.positions, history.rewards, history.probabilities, strict=True
    ):
        seen = Observation(int(arm), float(reward), history.rows[0], 0, float(probability))
        _observe(model, belief, seen)


def _check_totals(model: AverageLasso, belief: AverageBelief, rounds: int) -> None:
    op.check_counts(belief.total[:1])
    op.check_sums(belief.total[:1], belief.total[1:], model.clip)


op.estimator(
    AverageLasso,
    {
        op.check_totals: _check_totals,
        op.begin: _begin,
        op.observe: _observe,
        op.means: _means,
        op.recompute: _recompute,
        op.learn: _learn,
    },
    Traits(totals=("total",), weighs=True, sequential=True),
)
