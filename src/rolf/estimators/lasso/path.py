"""The lasso from sufficient statistics, solved by following exact paths.

Minimised over m:    m' A m - 2 b' m + l |m|_1.

With c = b - A m, m is optimal if and only if c_j = (l/2) sign(m_j) where m_j is not
zero and |c_j| <= l/2 elsewhere. While b and l move along a straight line, m and c are
piecewise linear: the new optimum is reached from the old one by walking from breakpoint
to breakpoint, adding or dropping one variable at each.

* ``follow`` moves b and l.
* ``absorb`` adds an observation, A += x x', b += y x. The old m is optimal for the new A and the
  target b - (y - x'm) x, so this is a walk from there to b, with a single rank-one change of A.
* ``solve_from_nothing`` starts where l is large enough for m = 0: the usual lasso path.

A breakpoint costs a few products with a K x K matrix, and in a steady run most rounds have none.
Every walk ends with a check of the optimality conditions. If rounding or a degenerate problem broke
it, the path from nothing is tried next, then coordinate descent.
"""

from __future__ import annotations

import numpy as np

from rolf.estimators.lasso.matrices import add_row, product, spread, times
from rolf.estimators.lasso.optimality import descend, settle
from rolf.estimators.lasso.support import Lasso, enter, forget_support, lasso_start, leave
from rolf.kernel import looped, shared
from rolf.types import FloatArray

__all__ = ["Lasso", "absorb", "follow", "lasso_start", "solve_from_nothing"]


@looped
def absorb(lasso: Lasso, row: FloatArray, reward: float) -> None:
    """Add an observation: A += row row', b += reward row."""
    size = row.size
    push = times(lasso.inverse, lasso.signs, row)
    reach = 0.0
    fit = 0.0
    for j in range(size):
        reach += row[j] * push[j]
        fit += row[j] * lasso.coef[j]
    spread(lasso.inverse, -1.0 / (1.0 + reach), push)
    add_row(lasso.gram, row)
    target = np.empty(size)
    slope = (reward - fit) / (1.0 + reach)
    for j in range(size):
        target[j] = lasso.target[j] + reward * row[j]
        lasso.target[j] += fit * row[j]  # the target for which the present m is optimal
        push[j] *= slope  # and the direction in which m starts
    _go(lasso, target, 2.0 * lasso.half[0], push)


@looped
def follow(lasso: Lasso, target: FloatArray, penalty: float) -> None:
    """Move to b = target and l = penalty along a straight line."""
    _go(lasso, target, penalty, np.empty(0))


@looped
def solve_from_nothing(lasso: Lasso) -> None:
    """Solve for the present A, b and l from scratch: the lasso path from m = 0."""
    if not settle(lasso, _from_nothing(lasso)):
        descend(lasso)


@shared
def _go(lasso: Lasso, target: FloatArray, penalty: float, first: FloatArray) -> None:
    """Walk, check, and start over if the check fails."""
    if settle(lasso, _walk(lasso, target, penalty, first)):
        return
    lasso.steps[1] += 1.0
    if not settle(lasso, _from_nothing(lasso)):
        descend(lasso)


@shared
def _from_nothing(lasso: Lasso) -> bool:
    """Walk from m = 0. Returns whether the walk reached its end."""
    penalty = 2.0 * lasso.half[0]
    forget_support(lasso)
    largest = 0.0
    for j in range(lasso.target.size):
        lasso.coef[j] = 0.0
        lasso.corr[j] = lasso.target[j]
        largest = max(largest, abs(lasso.target[j]))
    if largest <= lasso.half[0]:
        return True
    lasso.half[0] = largest
    return _walk(lasso, lasso.target.copy(), penalty, np.empty(0))


@shared
def _walk(lasso: Lasso, target: FloatArray, penalty: float, first: FloatArray) -> bool:
    """Walk from the present optimum to that of another b and l. Returns whether it got there.

    ``first`` is the direction in which m starts, if known.
    """
    size = target.size
    before, half, steps = lasso.target, lasso.half, lasso.steps
    coef, corr, signs = lasso.coef, lasso.corr, lasso.signs
    change = np.empty(size)
    for j in range(size):
        change[j] = target[j] - before[j]
    half_slope = penalty / 2.0 - half[0]
    moved = 0.0
    entered = -1
    left = -1
    arrived = False
    pull = np.empty(size)
    for _ in range(10 * size + 100):
        if first.size > 0 and moved == 0.0 and entered < 0 and left < 0:
            coef_slope = first
        else:
            for j in range(size):
                pull[j] = change[j] - half_slope * signs[j]
            coef_slope = times(lasso.inverse, signs, pull)
        active = 0.0
        for j in range(size):
            active += abs(signs[j])
        corr_slope = change  # not read if every variable is active
        if active < size:
            corr_slope = product(lasso.gram, coef_slope)
            for j in range(size):
                corr_slope[j] = change[j] - corr_slope[j]
        step, stop = _first_crossing(
            lasso, coef_slope, corr_slope, half_slope, 1.0 - moved, entered, left
        )
        moved += step
        half[0] += step * half_slope
        for j in range(size):
            coef[j] += step * coef_slope[j]
            if signs[j] == 0.0:
                corr[j] += step * corr_slope[j]
            else:
                corr[j] = half[0] * signs[j]
        if stop < 0:
            arrived = True
            break
        steps[0] += 1.0
        entered = -1
        left = -1
        if signs[stop] != 0.0:
            leave(lasso, stop)
            left = stop
        elif enter(lasso, stop):
            entered = stop
        else:
            break
    half[0] = penalty / 2.0
    for j in range(size):
        before[j] = target[j]
    return arrived


@shared
def _first_crossing(
    lasso: Lasso,
    coef_slope: FloatArray,
    corr_slope: FloatArray,
    half_slope: float,
    limit: float,
    entered: int,
    left: int,
) -> tuple[float, int]:
    """The length of the next step, at most ``limit``, and the variable that ends it (or -1).

    At the breakpoint where a variable has just entered it cannot leave, and one that has just left
    cannot return.
    """
    half = lasso.half[0]
    coef, corr, signs = lasso.coef, lasso.corr, lasso.signs
    step = limit
    stop = -1
    for i in range(coef_slope.size):
        sign = signs[i]
        if sign != 0.0:
            slope = coef_slope[i]
            if slope * sign < 0.0 and i != entered:
                reach = -coef[i] / slope
                if reach < step:
                    step = max(reach, 0.0)
                    stop = i
        else:
            slope = corr_slope[i]
            up = slope - half_slope
            down = slope + half_slope
            if up > 0.0 and not (i == left and corr[i] > 0.0):
                reach = (half - corr[i]) / up
                if reach < step:
                    step = max(reach, 0.0)
                    stop = i
            if down < 0.0 and not (i == left and corr[i] < 0.0):
                reach = (-half - corr[i]) / down
                if reach < step:
                    step = max(reach, 0.0)
                    stop = i
    return step, stop
