"""How RoLF draws: forced exploration, the coin, and the coupled pseudo-action.

In round t the draw is centred on an arm: a uniform one in the forced phase, else the best by
estimate. Two arms are drawn repeatedly until they match or the cap is reached:

* the action: the centre with probability 1 - t^(-1/2), else another arm, uniformly;
* the pseudo-action: with probability p the action (coupling "action", the paper) or
  the centre (coupling "greedy", the runs published by its authors), else another arm.

Only a reward whose action and pseudo-action match enters the estimators (the imputation may use the
others, too). The cap is rho_t = log((t+1)^2/delta) / log(1/(1-p)): with "action" the probability of
no match is at most delta/(t+1)^2. An appendix of the paper has log(1/p), a larger cap.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from rolf.checks import between, one_of
from rolf.errors import InvalidArgument
from rolf.kernel import shared
from rolf.linalg import pick, tie_shares
from rolf.policies.core.rules import (
    Situation,
    believed_means,
    clocks,
    decide,
    forced_rounds,
    probabilities,
    rule,
)
from rolf.theory import cap_on_draws, capped_probabilities
from rolf.types import Choice, FloatArray, Generator, IntArray


class Coupling(NamedTuple):
    """The rule of RoLF.

    It explores for ``forced`` rounds or, if ``factor`` is positive, while the number of explored
    rounds is at most factor log(2 size t^2/delta).
    """

    probability: float  # p
    delta: float
    greedy: bool
    forced: float
    factor: float
    size: float
    appendix: bool = False  # whether to use the appendix's cap

    @classmethod
    def checked(
        cls,
        p: Any,
        delta: Any,
        coupling: Any,
        exploration: Any,
        cap: Any = "text",
        *,
        arms: int,
        constant: float,
        size: int,
    ) -> Coupling:
        """Check the options that all RoLF policies share.

        ``constant`` and ``size`` belong to "theory" exploration: C_e = constant / (1 - p)^2.
        """
        p = between("p", p, 0.5, 1.0)
        delta = between("delta", delta, 0.0, 1.0)
        greedy = one_of("coupling", coupling, "action", "greedy") == "greedy"
        appendix = one_of("cap", cap, "text", "appendix") == "appendix"
        if exploration == "theory":
            factor = constant / (1.0 - p) ** 2
            return cls(p, delta, greedy, 0.0, factor, float(size), appendix)
        rounds = 2.0 * arms if exploration is None else exploration
        if isinstance(rounds, str):
            raise InvalidArgument("exploration", exploration, 'a number of rounds or "theory"')
        rounds = between("exploration", rounds, 0.0, math.inf, inclusive=True)
        return cls(p, delta, greedy, rounds, 0.0, float(size), appendix)


@shared
def is_forced(rule: Coupling, round: int, explored: int) -> bool:
    """Whether round t explores, given how many earlier rounds did."""
    if rule.factor > 0.0:
        log = math.log(2.0 * rule.size) + 2.0 * math.log(round) - math.log(rule.delta)
        return explored <= rule.factor * log
    return explored < rule.forced


@shared
def trials(rule: Coupling, round: int) -> int:
    """The most draws of action and pseudo-action in round t: floor(rho_t) + 1."""
    base = 1.0 - rule.probability if rule.appendix else rule.probability
    return int(cap_on_draws(round, base, rule.delta)) + 1


@shared
def other(centre: int, available: IntArray, rng: Generator) -> int:
    """An available arm other than ``centre``, uniformly at random; ``available`` is ascending."""
    position = int(rng.random() * (available.size - 1))
    arm = available[position]
    return int(available[position + 1]) if arm >= centre else int(arm)


@shared
def couple(
    rule: Coupling, round: int, centre: int, available: IntArray, rng: Generator
) -> tuple[int, int]:
    """Draw action and pseudo-action until they match, at most ``trials`` times."""
    if available.size == 1:
        return centre, centre
    leave = 1.0 / math.sqrt(round)
    arm = centre
    pseudo = centre
    for _ in range(trials(rule, round)):
        arm = other(centre, available, rng) if rng.random() < leave else centre
        around = centre if rule.greedy else arm
        near = rng.random() < rule.probability
        pseudo = around if near else other(around, available, rng)
        if pseudo == arm:
            break
    return arm, pseudo


@shared
def round_probabilities(rule: Coupling, round: int, arms: int) -> tuple[float, float]:
    """The probabilities of the centre and of each other arm, given the centre."""
    return capped_probabilities(round, arms, rule.probability, rule.greedy, trials(rule, round))


def _clocks(rule: Coupling) -> int:
    return 2  # rounds, and rounds of forced exploration


def _forced_rounds(rule: Coupling, horizon: int) -> float:
    if rule.factor > 0.0:
        return rule.factor * math.log(2.0 * rule.size * horizon**2 / rule.delta)
    return rule.forced


def _decide(rule: Coupling, now: Situation, rng: Generator) -> Choice:
    clock, available, estimates = now.clock, now.available, believed_means(now)
    round = int(clock[0]) + 1
    cutoff = -math.inf
    if is_forced(rule, round, int(clock[1])):
        centre = int(available[int(rng.random() * available.size)])
        share = 1.0 / available.size
        clock[1] += 1
    else:
        centre, ties, cutoff = pick(estimates, available, rng)
        share = 1.0 / ties
    clock[0] = round
    arm, pseudo = couple(rule, round, centre, available, rng)
    if estimates[arm] < cutoff:
        share = 0.0
    near, far = round_probabilities(rule, round, available.size)
    probability = share * near + (1.0 - share) * far
    return Choice(arm, probability, centre, pseudo, pseudo == arm)


def _probabilities(rule: Coupling, now: Situation, draws: int) -> FloatArray:
    round = int(now.clock[0]) + 1
    values = believed_means(now)[now.available]
    if is_forced(rule, round, int(now.clock[1])):
        share = values * 0.0 + 1.0 / now.available.size
    else:
        share = tie_shares(values)
    near, far = round_probabilities(rule, round, now.available.size)
    out: FloatArray = share * near + (1.0 - share) * far
    return out


rule(
    Coupling,
    {
        clocks: _clocks,
        decide: _decide,
        probabilities: _probabilities,
        forced_rounds: _forced_rounds,
    },
)
