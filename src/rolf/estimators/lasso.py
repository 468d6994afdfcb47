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

A round needs about one breakpoint, each a few products with a K x K matrix. The inverse
of A on the support is kept embedded in a K x K matrix of zeros. ``settle`` computes the
optimality conditions from A, b and m alone, refines, and where rounding or a degenerate
problem broke the walk falls back to coordinate descent, which always converges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rolf.kernel import looped, shared
from rolf.types import FloatArray

TOLERANCE = 1e-10  # of the optimality conditions, relative to the size of b and l/2
SINGULAR = 1e-11  # a Schur complement below this share of A_jj is zero
SWEEPS = 200_000  # of coordinate descent; reached only if the tolerance cannot be


class Lasso(NamedTuple):
    """One problem and its solution.

    gram A (n, n), target b (n,), half [l/2], coef m (n,), corr c (n,), signs of m on
    the support and 0 elsewhere (n,), inverse of A on the support (n, n), and in steps
    how many breakpoints and how many fallbacks there were.
    """

    gram: FloatArray
    target: FloatArray
    half: FloatArray
    coef: FloatArray
    corr: FloatArray
    signs: FloatArray
    inverse: FloatArray
    steps: FloatArray


def lasso_start(gram: FloatArray, penalty: float) -> Lasso:
    """The problem with b = 0, whose solution is 0."""
    size = gram.shape[0]
    return Lasso(
        gram=gram,
        target=np.zeros(size),
        half=np.array([penalty / 2.0]),
        coef=np.zeros(size),
        corr=np.zeros(size),
        signs=np.zeros(size),
        inverse=np.zeros((size, size)),
        steps=np.zeros(2),
    )


@shared
def _times(matrix: FloatArray, vector: FloatArray) -> FloatArray:
    size = vector.size
    out = np.empty(size)
    for i in range(size):
        total = 0.0
        for j in range(size):
            total += matrix[i, j] * vector[j]
        out[i] = total
    return out


@shared
def _rank_one(matrix: FloatArray, factor: float, vector: FloatArray) -> None:
    """matrix += factor vector vector'; zeros of the vector cost nothing."""
    size = vector.size
    for i in range(size):
        weight = factor * vector[i]
        if weight != 0.0:
            for j in range(size):
                matrix[i, j] += weight * vector[j]


@shared
def _on_support(lasso: Lasso, vector: FloatArray) -> FloatArray:
    """A_SS^-1 vector_S, zero off the support."""
    size = vector.size
    out = np.zeros(size)
    for i in range(size):
        if lasso.signs[i] != 0.0:
            total = 0.0
            for j in range(size):
                total += lasso.inverse[i, j] * vector[j]
            out[i] = total
    return out


@shared
def _enter(lasso: Lasso, index: int, column: FloatArray) -> bool:
    """Add a variable, whose column of A this is; False if A would become singular."""
    pull = _on_support(lasso, column)
    schur = column[index]
    for i in range(column.size):
        schur -= column[i] * pull[i]
    if schur <= SINGULAR * column[index]:
        return False
    pull[index] = -1.0
    _rank_one(lasso.inverse, 1.0 / schur, pull)
    lasso.signs[index] = 1.0 if lasso.corr[index] > 0.0 else -1.0
    return True


@shared
def _leave(lasso: Lasso, index: int) -> None:
    """Drop a variable from the support."""
    column = lasso.inverse[index].copy()
    _rank_one(lasso.inverse, -1.0 / column[index], column)
    for i in range(column.size):
        lasso.inverse[index, i] = 0.0
        lasso.inverse[i, index] = 0.0
    lasso.signs[index] = 0.0
    lasso.coef[index] = 0.0


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
        _leave(lasso, index)
        return True
    column = lasso.gram[index].copy()
    if weight != 0.0:
        for j in range(column.size):
            column[j] += weight * row[index] * row[j]
    return _enter(lasso, index, column)


@looped
def absorb(lasso: Lasso, row: FloatArray, reward: float) -> None:
    """Take in one observation: A += row row', b += reward row."""
    size = row.size
    used = 0.0
    entered = -1
    left = -1
    healthy = True
    for _ in range(10 * size + 100):
        push = _on_support(lasso, row)
        image = _times(lasso.gram, push)
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
        _rank_one(lasso.inverse, -step, push)
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
    _rank_one(lasso.gram, 1.0, row)
    for j in range(size):
        lasso.target[j] += reward * row[j]
    _settle(lasso, healthy)


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
        coef_slope = _on_support(lasso, pull)
        corr_slope = _times(lasso.gram, coef_slope)
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
    _settle(lasso, healthy)


@looped
def solve_from_nothing(lasso: Lasso) -> None:
    """Solve for the present A, b and l with no start: the lasso path from m = 0."""
    penalty = 2.0 * lasso.half[0]
    _forget_support(lasso)
    largest = 0.0
    for j in range(lasso.target.size):
        lasso.coef[j] = 0.0
        lasso.corr[j] = lasso.target[j]
        largest = max(largest, abs(lasso.target[j]))
    if largest > lasso.half[0]:
        lasso.half[0] = largest
        follow(lasso, lasso.target.copy(), penalty)


# --- the optimality conditions, and what to do where they do not hold ---------------------


@shared
def _violation(lasso: Lasso, allowed: float) -> float:
    """Recompute c = b - A m and say how far the conditions are from holding.

    A coefficient that rounding put on the wrong side of zero becomes zero.
    """
    image = _times(lasso.gram, lasso.coef)
    half = lasso.half[0]
    worst = 0.0
    for j in range(image.size):
        lasso.corr[j] = lasso.target[j] - image[j]
        if lasso.signs[j] != 0.0:
            gap = abs(lasso.corr[j] - half * lasso.signs[j])
            if lasso.coef[j] * lasso.signs[j] < 0.0:
                wrong = abs(lasso.coef[j]) * lasso.gram[j, j]
                gap = max(gap, wrong)
                if wrong <= allowed:
                    lasso.coef[j] = 0.0
        else:
            gap = abs(lasso.corr[j]) - half
        worst = max(worst, gap)
    return worst


@shared
def _allowed(lasso: Lasso) -> float:
    size = 0.0
    for j in range(lasso.target.size):
        size = max(size, abs(lasso.target[j]))
    return TOLERANCE * max(size, float(lasso.half[0]))


@shared
def _settle(lasso: Lasso, healthy: bool) -> None:
    """Make sure the conditions hold: as they are, after refinement, or by descent."""
    allowed = _allowed(lasso)
    if healthy:
        for attempt in range(3):
            if _violation(lasso, allowed) <= allowed:
                return
            if attempt < 2:
                _refine(lasso)
    lasso.steps[1] += 1.0
    _descend(lasso, allowed)
    _rebuild_support(lasso)
    for _ in range(3):
        _refine(lasso)
        if _violation(lasso, allowed) <= allowed:
            return
    # The support from descent does not carry an exact solution (coefficients at the
    # edge of zero): descend once more and keep what descent found.
    _descend(lasso, allowed)
    _rebuild_support(lasso)


@shared
def _refine(lasso: Lasso) -> None:
    """One Newton step on the support; c must be up to date."""
    gap = np.zeros(lasso.coef.size)
    for j in range(gap.size):
        if lasso.signs[j] != 0.0:
            gap[j] = lasso.corr[j] - lasso.half[0] * lasso.signs[j]
    move = _on_support(lasso, gap)
    for j in range(gap.size):
        lasso.coef[j] += move[j]


@shared
def _descend(lasso: Lasso, allowed: float) -> None:
    """Coordinate descent from the present m until the conditions hold."""
    size = lasso.coef.size
    half = lasso.half[0]
    for j in range(size):
        if lasso.signs[j] == 0.0:
            lasso.coef[j] = 0.0
    corr = _times(lasso.gram, lasso.coef)
    for j in range(size):
        corr[j] = lasso.target[j] - corr[j]
    for _ in range(SWEEPS):
        worst = 0.0
        for j in range(size):
            old = lasso.coef[j]
            if old != 0.0:
                gap = abs(corr[j] - (half if old > 0.0 else -half))
            else:
                gap = abs(corr[j]) - half
            worst = max(worst, gap)
            scale = lasso.gram[j, j]
            if scale > 0.0:
                pull = corr[j] + scale * old
                new = max(abs(pull) - half, 0.0) / scale
                if pull < 0.0:
                    new = -new
                if new != old:
                    for i in range(size):
                        corr[i] -= lasso.gram[j, i] * (new - old)
                    lasso.coef[j] = new
        if worst <= allowed / 2.0:
            break
    for j in range(size):
        lasso.corr[j] = corr[j]


@shared
def _forget_support(lasso: Lasso) -> None:
    for i in range(lasso.signs.size):
        lasso.signs[i] = 0.0
        for j in range(lasso.signs.size):
            lasso.inverse[i, j] = 0.0


@shared
def _rebuild_support(lasso: Lasso) -> None:
    """Signs and inverse anew from m.

    A variable that would make A singular on the support is moved to zero along the
    null direction, which changes neither the fit nor, at an optimum, the penalty;
    whichever variable reaches zero first leaves.
    """
    size = lasso.coef.size
    _forget_support(lasso)
    for j in range(size):
        while lasso.coef[j] != 0.0:
            lasso.corr[j] = lasso.coef[j]  # only its sign is read
            if _enter(lasso, j, lasso.gram[j].copy()):
                break
            direction = _on_support(lasso, lasso.gram[j])
            direction[j] = -1.0
            way = 1.0 if lasso.coef[j] > 0.0 else -1.0
            step = abs(lasso.coef[j])
            stop = j
            for i in range(size):
                slope = way * direction[i]
                if lasso.signs[i] * slope < 0.0 and -lasso.coef[i] / slope < step:
                    step = -lasso.coef[i] / slope
                    stop = i
            for i in range(size):
                lasso.coef[i] += step * way * direction[i]
            lasso.coef[stop] = 0.0
            if stop != j:
                _leave(lasso, stop)
    _violation(lasso, _allowed(lasso))
