"""How to decide from a posterior over the scales: by a bound, or by draws.

``PosteriorBound``: an arm's score is its mean plus a number of standard deviations
(``estimators/posterior/bounds.py``); for a little known arm, this number is

    sqrt(width^2 + 2 log(1 + t/STEADY))

in round t. An arm that has not been played after RARE K rounds comes first, as does one played only
once after SELDOM times as many rounds, and so on, so no arm is ever abandoned. If the number of
rounds is known and n are left, including this one, the number of deviations is at most the value
that a standard normal exceeds with probability min(1/2, HOPE/n): a try must still be able to pay
off in the remaining rounds, and at the end the best estimate is played.

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

#: rounds before the bonus starts to grow
STEADY = 300.0
#: rounds per arm after which an unplayed arm comes first, and the factor by which rounds must grow
#: until every arm is due once more
RARE = 100.0
SELDOM = 100.0
#: the probability that an arm is better than its bound, times the remaining rounds
HOPE = 6.0


class PosteriorBound(NamedTuple):
    """The bonus of a little known arm, in deviations, and the number of rounds, 0 if unknown. After
    the last round the policy continues as if the number were unknown."""

    width: float
    horizon: int


@shared
def fewest_plays(round: int, arms: int) -> float:
    """The least number of plays that every arm must have by this round."""
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
    """The number of draws per round."""

    draws: int


def _distribution(
    rule: PosteriorDraws, now: Situation, round: int
) -> tuple[FloatArray, FloatArray]:
    shares = win_shares(now.model, now.belief, now.features, now.available, rule.draws, round)
    return believed_means(now), shares


implement(PosteriorDraws, {distribution: _distribution})
