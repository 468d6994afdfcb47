"""How RoLF draws: forced exploration, the coin, and the coupled pseudo-action.

In round t the draw is centred on an arm: uniform in the forced phase, else the best by
estimate. Then, until they match or the cap is reached, two arms are drawn anew:

* the action: the centre with probability 1 - t^(-1/2), else another arm, uniformly;
* the pseudo-action: with probability p the action (coupling "action", the paper) or
  the centre (coupling "greedy", the runs published by its authors), else another arm.

Only a reward whose action and pseudo-action match enters the estimators. The cap is
rho_t = log((t+1)^2/delta) / log(1/(1-p)): with "action" the chance of no match is at most
delta/(t+1)^2.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

from rolf.augment import Augmentation
from rolf.checks import between
from rolf.errors import InvalidArgument, RolfWarning
from rolf.kernel import shared
from rolf.linalg import pick, tie_shares
from rolf.policies.inputs import Arms
from rolf.types import Choice, FloatArray, Generator, IntArray


class Coupling(NamedTuple):
    """The settings of the draw.

    ``forced`` rounds of exploration, or, where ``factor`` is positive, while the number
    of explored rounds is at most factor log(2 size t^2/delta).
    """

    probability: float  # p
    delta: float
    greedy: bool
    forced: float
    factor: float
    size: float


def draw_settings(options: dict[str, Any], arms: int, *, constant: float, size: int) -> Coupling:
    """Check the arguments that all RoLF policies share.

    ``constant`` and ``size`` are of "theory" exploration: C_e = constant / (1 - p)^2.
    """
    p = between("p", options["p"], 0.5, 1.0)
    delta = between("delta", options["delta"], 0.0, 1.0)
    coupling = options["coupling"]
    exploration = options["exploration"]
    if coupling not in ("action", "greedy"):
        raise InvalidArgument("coupling", coupling, '"action" or "greedy"')
    forced = 2.0 * arms if exploration is None else exploration
    if forced == "theory":
        factor = constant / (1.0 - p) ** 2
        return Coupling(p, delta, coupling == "greedy", 0.0, factor, float(size))
    if isinstance(forced, str):
        raise InvalidArgument("exploration", exploration, 'a number of rounds or "theory"')
    rounds = between("exploration", forced, 0.0, math.inf, inclusive=True)
    return Coupling(p, delta, coupling == "greedy", rounds, 0.0, float(size))


def ridge_constant(size: int) -> float:
    """C_e (1 - p)^2 of a RoLF ridge in ``size`` dimensions: 32 size^2."""
    return 32.0 * size**2


def lasso_constant(augmented: Augmentation) -> float:
    """C_e (1 - p)^2 of RoLF-Lasso: (8K)^3 s_max^2/s_min^2."""
    ratio = (augmented.sigma_max / augmented.sigma_min) ** 2
    return float((8.0 * augmented.arms) ** 3 * ratio)


def augmentation(arms: Arms, keep_scale: bool | None) -> Augmentation:
    """Augmented features of a policy's arms, with a word where that loses what they share."""
    out = Augmentation(arms.features, keep_scale=bool(keep_scale))
    columns = arms.features.shape[1]
    if out.reduced and keep_scale is None and columns <= arms.count and out.rank > 0:
        warnings.warn(
            f"the features have rank {out.rank} but {columns} columns: they are replaced by an "
            "orthonormal basis, under which ridge shares nothing between arms. Drop columns that "
            "follow from others (one of each set of dummies), or say keep_scale=True; "
            "keep_scale=False silences this",
            RolfWarning,
            stacklevel=4,
        )
    return out


def ridge_penalty(options: dict[str, Any]) -> float:
    """Penalty of a RoLF ridge: p by default, as in the paper's theory."""
    penalty = options["penalty"]
    if penalty is None or penalty == "theory":
        return between("p", options["p"], 0.5, 1.0)
    return between("penalty", penalty, 0.0, math.inf)


@shared
def is_forced(settings: Coupling, round: int, explored: int) -> bool:
    """Whether round t explores, given how many rounds before it did."""
    if settings.factor > 0.0:
        log = math.log(2.0 * settings.size) + 2.0 * math.log(round) - math.log(settings.delta)
        return explored <= settings.factor * log
    return explored < settings.forced


@shared
def cap(settings: Coupling, round: int) -> float:
    """rho_t = log((t+1)^2/delta) / log(1/(1-p))."""
    log = 2.0 * math.log(round + 1.0) - math.log(settings.delta)
    return log / -math.log(1.0 - settings.probability)


@shared
def trials(settings: Coupling, round: int) -> int:
    """How often action and pseudo-action may be drawn in round t: floor(rho_t) + 1."""
    return int(cap(settings, round)) + 1


@shared
def other(centre: int, available: IntArray, rng: Generator) -> int:
    """An available arm that is not ``centre``, uniformly; ``available`` is ascending."""
    position = int(rng.random() * (available.size - 1))
    arm = available[position]
    return int(available[position + 1]) if arm >= centre else int(arm)


@shared
def couple(
    settings: Coupling, round: int, centre: int, available: IntArray, rng: Generator
) -> tuple[int, int]:
    """Draw action and pseudo-action until they match, at most ``trials`` times."""
    if available.size == 1:
        return centre, centre
    leave = 1.0 / math.sqrt(round)
    arm = centre
    pseudo = centre
    for _ in range(trials(settings, round)):
        arm = other(centre, available, rng) if rng.random() < leave else centre
        around = centre if settings.greedy else arm
        near = rng.random() < settings.probability
        pseudo = around if near else other(around, available, rng)
        if pseudo == arm:
            break
    return arm, pseudo


@shared
def chances(settings: Coupling, round: int, arms: int) -> tuple[float, float]:
    """Chance of the centre, and of each other arm, once a centre is given."""
    if arms == 1:
        return 1.0, 0.0
    leave = 1.0 / math.sqrt(round)
    others = arms - 1.0
    if not settings.greedy:  # a match is as likely for every arm, so it favours none
        return 1.0 - leave, leave / others
    # One trial ends at arm k, matched, with these chances; q is their sum.
    at_centre = (1.0 - leave) * settings.probability
    at_other = leave / others * (1.0 - settings.probability) / others
    q = at_centre + others * at_other
    most = trials(settings, round)
    ends = (1.0 - (1.0 - q) ** most) / q
    last = (1.0 - q) ** (most - 1.0)  # no match before the last trial
    centre = at_centre * ends + last * (1.0 - leave - at_centre)
    return centre, at_other * ends + last * (leave / others - at_other)


@shared
def draw(
    settings: Coupling, clock: IntArray, estimates: FloatArray, available: IntArray, rng: Generator
) -> Choice:
    """One round of RoLF; ``clock`` holds the rounds so far and how many were forced."""
    round = int(clock[0]) + 1
    explore = is_forced(settings, round, int(clock[1]))
    cutoff = -math.inf
    if explore:
        centre = int(available[int(rng.random() * available.size)])
        share = 1.0 / available.size
        clock[1] += 1
    else:
        centre, ties, cutoff = pick(estimates, available, rng)
        share = 1.0 / ties
    clock[0] = round
    arm, pseudo = couple(settings, round, centre, available, rng)
    if estimates[arm] < cutoff:
        share = 0.0
    near, far = chances(settings, round, available.size)
    probability = share * near + (1.0 - share) * far
    return Choice(arm, probability, centre, pseudo, pseudo == arm)


def all_chances(
    settings: Coupling, clock: IntArray, estimates: FloatArray, available: IntArray
) -> FloatArray:
    """Chance of every available arm in the next round, over all that ``draw`` draws."""
    round = int(clock[0]) + 1
    values = estimates[available]
    if is_forced(settings, round, int(clock[1])):
        share = values * 0.0 + 1.0 / available.size
    else:
        share = tie_shares(values)
    near, far = chances(settings, round, available.size)
    out: FloatArray = share * near + (1.0 - share) * far
    return out
