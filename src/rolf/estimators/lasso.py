"""The lasso from sufficient statistics, followed along exact paths.

Minimised over m:    m' A m - 2 b' m + l |m|_1.

With c = b - A m, m is optimal if and only if c_j = (l/2) sign(m_j) where m_j is not
zero and |c_j| <= l/2 elsewhere. Between two changes of the support, m and c are linear
in whatever moves the problem, so the new optimum is reached from the old one by
walking from breakpoint to breakpoint, adding or dropping one variable at each:

* ``absorb`` follows one more observation, A += x x', b += y x, as its weight goes from
  0 to 1. With u = A_SS^-1 x_S, e = y - x'm and theta = w / (1 + w x'u) for a weight w,
  both m_S and c move linearly in theta: m_S + theta e u and c + theta e (x - A u).
* ``follow`` moves b and l along a straight line; from l large enough for m = 0 it is
  the usual lasso path, which is how a problem is solved from nothing.

A breakpoint costs a few products with a K x K matrix, and in a steady run most rounds have
none. Every walk ends with ``settle``, which checks the optimality conditions and mends
what rounding broke.
"""

from __future__ import annotations

import numpy as np

from rolf.estimators.optimality import settle
from rolf.estimators.support import (
    Lasso,
    enter,
    forget_support,
    lasso_start,
    leave,
    on_support,
    rank_one,
    times,
)
from rolf.kernel import looped, shared
from rolf.types import FloatArray

__all__ = ["Lasso", "absorb", "follow", "lasso_start", "solve_from_nothing"]


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
    """How far one can go, at most ``limit``, and the variable that stops it (or -1).

    The variable that has just entered cannot leave, and the one that has just left
    cannot come back, at the very point where it happened.
    """
    half = lasso.half[0]
    step = limit
    stop = -1
    for i in range(coef_slope.size):
        sign = lasso.signs[i]
        if sign != 0.0:
            slope = coef_slope[i]
            if slope * sign < 0.0 and i != entered:
                reach = -lasso.coef[i] / slope
                if reach < step:
                    step = max(reach, 0.0)
                    stop = i
        else:
            slope = corr_slope[i]
            up = slope - half_slope
            down = slope + half_slope
            if up > 0.0 and not (i == left and lasso.corr[i] > 0.0):
                reach = (half - lasso.corr[i]) / up
                if reach < step:
                    step = max(reach, 0.0)
                    stop = i
            if down < 0.0 and not (i == left and lasso.corr[i] < 0.0):
                reach = (-half - lasso.corr[i]) / down
                if reach < step:
                    step = max(reach, 0.0)
                    stop = i
    return step, stop


@shared
def _cross(lasso: Lasso, index: int, row: FloatArray, weight: float) -> bool:
    """Change the support at a breakpoint; the Gram matrix is A + weight row row'."""
    lasso.steps[0] += 1.0
    if lasso.signs[index] != 0.0:
        lasso.corr[index] = lasso.signs[index] * lasso.half[0]
        leave(lasso, index)
        return True
    column = lasso.gram[index].copy()
    if weight != 0.0:
        for j in range(column.size):
            column[j] += weight * row[index] * row[j]
    return enter(lasso, index, column)


@looped
def absorb(lasso: Lasso, row: FloatArray, reward: float) -> None:
    """Take in one observation: A += row row', b += reward row."""
    size = row.size
    used = 0.0
    entered = -1
    left = -1
    healthy = True
    for _ in range(10 * size + 100):
        push = on_support(lasso, row)
        image = times(lasso.gram, push)
        reach = 0.0
        fit = 0.0
        for j in range(size):
            reach += row[j] * push[j]
            fit += row[j] * lasso.coef[j]
        error = reward - fit
        coef_slope = np.empty(size)
        corr_slope = np.empty(size)
        for j in range(size):
            coef_slope[j] = push[j] * error
            corr_slope[j] = error * (row[j] * (1.0 - used * reach) - image[j])
        remaining = 1.0 - used
        end = remaining / (1.0 + remaining * reach)
        step, stop = _first_crossing(lasso, coef_slope, corr_slope, 0.0, end, entered, left)
        for j in range(size):
            lasso.coef[j] += step * coef_slope[j]
            if lasso.signs[j] == 0.0:
                lasso.corr[j] += step * corr_slope[j]
        rank_one(lasso.inverse, -step, push)
        if stop < 0:
            used = 1.0
            break
        used += step / (1.0 - step * reach)
        was_active = lasso.signs[stop] != 0.0
        if not _cross(lasso, stop, row, used):
            healthy = False
            break
        entered = -1 if was_active else stop
        left = stop if was_active else -1
    else:
        healthy = False
    rank_one(lasso.gram, 1.0, row)
    for j in range(size):
        lasso.target[j] += reward * row[j]
    settle(lasso, healthy)


@looped
def follow(lasso: Lasso, target: FloatArray, penalty: float) -> None:
    """Move to b = target and l = penalty along a straight line."""
    size = target.size
    change = np.empty(size)
    for j in range(size):
        change[j] = target[j] - lasso.target[j]
    half_slope = penalty / 2.0 - lasso.half[0]
    moved = 0.0
    entered = -1
    left = -1
    healthy = True
    for _ in range(10 * size + 100):
        pull = np.empty(size)
        for j in range(size):
            pull[j] = change[j] - half_slope * lasso.signs[j]
        coef_slope = on_support(lasso, pull)
        corr_slope = times(lasso.gram, coef_slope)
        for j in range(size):
            corr_slope[j] = change[j] - corr_slope[j]
        step, stop = _first_crossing(
            lasso, coef_slope, corr_slope, half_slope, 1.0 - moved, entered, left
        )
        moved += step
        lasso.half[0] += step * half_slope
        for j in range(size):
            lasso.coef[j] += step * coef_slope[j]
            if lasso.signs[j] == 0.0:
                lasso.corr[j] += step * corr_slope[j]
            else:
                lasso.corr[j] = lasso.half[0] * lasso.signs[j]
        if stop < 0:
            break
        was_active = lasso.signs[stop] != 0.0
        if not _cross(lasso, stop, target, 0.0):
            healthy = False
            break
        entered = -1 if was_active else stop
        left = stop if was_active else -1
    else:
        healthy = False
    lasso.half[0] = penalty / 2.0
    for j in range(size):
        lasso.target[j] = target[j]
    settle(lasso, healthy)


@looped
def solve_from_nothing(lasso: Lasso) -> None:
    """Solve for the present A, b and l with no start: the lasso path from m = 0."""
    penalty = 2.0 * lasso.half[0]
    forget_support(lasso)
    largest = 0.0
    for j in range(lasso.target.size):
        lasso.coef[j] = 0.0
        lasso.corr[j] = lasso.target[j]
        largest = max(largest, abs(lasso.target[j]))
    if largest > lasso.half[0]:
        lasso.half[0] = largest
        follow(lasso, lasso.target.copy(), penalty)
