"""How to decide from a posterior over the scales: by a bound, or by draws.

``PosteriorBound``: the score of an arm is its mean plus a number of standard deviations
(``estimators/posterior/bounds.py``), for an arm of which little is known

    sqrt(width^2 + 2 log(1 + t/STEADY))

in round t. An arm that has not been played after RARE K rounds comes first, and so does one that
has been played only once after SELDOM times as many, and so on. So every arm is tried again for
ever. If the number of rounds is known and n of them are left, this one included, the number of
deviations is at most what a normal number exceeds with probability min(1/2, HOPE/n): an arm is
worth a look if it may well be better for the rest, and in the end the best estimate is played.

``PosteriorDraws``: an arm's probability is the share of posterior draws in which it is best.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rolf.estimators.posterior.bounds import Bonus, deviations_of, upper_bounds
from rolf.estimators.posterior.contract import plays
from rolf.estimators.posterior.winners import win_shares
from rolf.kernel import implement, shared
from rolf.policies.core.rules import UNSEEN, Situation, believed_means, bounds, distribution
from rolf.types import FloatArray

#: rounds after which the bonus starts to grow
STEADY = 300.0
#: rounds per arm after which an arm that was never played comes first, and the factor by which the
#: rounds have to grow for every arm to be due once more
RARE = 100.0
SELDOM = 100.0
#: the probability that an arm is better than its bound, times the rounds that are left
HOPE = 6.0


class PosteriorBound(NamedTuple):
    """The bonus of an arm of which little is known, in deviations, and the number of rounds, 0 if
    it is not known; after the last one the policy goes on as if it were not."""

    width: float
    horizon: int


@shared
def fewest_plays(round: int, arms: int) -> float:
    """How often every arm must have been played by a round."""
    per_arm = round / (RARE * arms)
    return 1.0 + math.floor(math.log(per_arm) / math.log(SELDOM)) if per_arm >= 1.0 else 0.0


def _bounds(bound: PosteriorBound, now: Situation, round: int) -> tuple[FloatArray, FloatArray]:
    limit, least = math.inf, 0.0
    if round <= bound.horizon:
        limit = deviations_of(min(0.5, HOPE / (bound.horizon - round + 1.0)))
    else:
        least = fewest_plays(round, now.pending.size)
    bonus = Bonus(bound.width, math.log1p(round / STEADY), limit)
    mean, upper = upper_bounds(now.model, now.belief, now.features, now.pending, bonus)
    if least > 0.0:
        played = plays(now.model, now.belief) + now.pending
        upper = np.where(played < least, UNSEEN, upper)
    return mean, upper


implement(PosteriorBound, {bounds: _bounds})


class PosteriorDraws(NamedTuple):
    """How many draws are taken in a round."""

    draws: int


def _distribution(
    rule: PosteriorDraws, now: Situation, round: int
) -> tuple[FloatArray, FloatArray]:
    shares = win_shares(now.model, now.belief, now.features, now.available, rule.draws, round)
    return believed_means(now), shares


implement(PosteriorDraws, {distribution: _distribution})
