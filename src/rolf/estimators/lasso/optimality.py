"""The optimality conditions of the lasso, and repairs if they fail.

They are computed from A, b and m alone. If a walk along a path ends off the optimum, because of
rounding or a degenerate problem, one or two Newton steps on the support usually repair it.
Coordinate descent is the last resort.
"""

from __future__ import annotations

import numpy as np

from rolf.estimators.lasso.matrices import column, product, times
from rolf.estimators.lasso.support import Lasso, enter, forget_support, leave
from rolf.kernel import shared

TOLERANCE = 1e-10  # of the conditions, relative to l/2,
ROUNDING = 1e-14  # and what rounding may add to them, relative to b
SWEEPS = 200_000  # of coordinate descent; reached only if the tolerance is not


@shared
def _violation(lasso: Lasso, allowed: float) -> float:
    """Recompute c = b - A m, and return how far the conditions are from holding.

    A coefficient that rounding put on the wrong side of zero becomes zero.
    """
    image = product(lasso.gram, lasso.coef)
    half = lasso.half[0]
    coef, corr, signs = lasso.coef, lasso.corr, lasso.signs
    worst = 0.0
    for j in range(image.size):
        corr[j] = lasso.target[j] - image[j]
        if signs[j] != 0.0:
            gap = abs(corr[j] - half * signs[j])
            if coef[j] * signs[j] < 0.0:
                wrong = abs(coef[j]) * column(lasso.gram, j)[j]
                gap = max(gap, wrong)
                if wrong <= allowed:
                    coef[j] = 0.0
        else:
            gap = abs(corr[j]) - half
        worst = max(worst, gap)
    return worst


@shared
def _allowed(lasso: Lasso) -> float:
    size = 0.0
    for j in range(lasso.target.size):
        size = max(size, abs(lasso.target[j]))
    return TOLERANCE * float(lasso.half[0]) + ROUNDING * size * lasso.target.size


@shared
def settle(lasso: Lasso, arrived: bool) -> bool:
    """Whether the conditions hold, if necessary after a few Newton steps on the support."""
    if not arrived:
        return False
    allowed = _allowed(lasso)
    for _ in range(4):
        if _violation(lasso, allowed) <= allowed:
            return True
        _refine(lasso)
    return _violation(lasso, allowed) <= allowed


@shared
def descend(lasso: Lasso) -> None:
    """The last resort: coordinate descent, then an exact solution on the support it finds.

    Sweeps stop at a tenth of a percent of l/2, or after SWEEPS of them. The third entry of
    ``steps`` counts problems that still miss the tolerance.
    """
    allowed = _allowed(lasso)
    for share in (1e-3, 1e-6):
        _sweep(lasso, max(allowed, share * lasso.half[0]))
        _rebuild_support(lasso)
        if settle(lasso, True):
            return
    lasso.steps[2] += 1.0


@shared
def _refine(lasso: Lasso) -> None:
    """One Newton step on the support; c must be up to date."""
    gap = np.zeros(lasso.coef.size)
    for j in range(gap.size):
        if lasso.signs[j] != 0.0:
            gap[j] = lasso.corr[j] - lasso.half[0] * lasso.signs[j]
    move = times(lasso.inverse, lasso.signs, gap)
    for j in range(gap.size):
        lasso.coef[j] += move[j]


@shared
def _sweep(lasso: Lasso, allowed: float) -> None:
    """Coordinate descent from the present m until the conditions hold."""
    size = lasso.coef.size
    half = lasso.half[0]
    for j in range(size):
        if lasso.signs[j] == 0.0:
            lasso.coef[j] = 0.0
    corr = product(lasso.gram, lasso.coef)
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
            if old == 0.0 and gap <= 0.0:
                continue
            entries = column(lasso.gram, j)
            scale = entries[j]
            if scale > 0.0:
                pull = corr[j] + scale * old
                new = max(abs(pull) - half, 0.0) / scale
                if pull < 0.0:
                    new = -new
                if new != old:
                    for i in range(size):
                        corr[i] -= entries[i] * (new - old)
                    lasso.coef[j] = new
        if worst <= allowed / 2.0:
            break
    for j in range(size):
        lasso.corr[j] = corr[j]


@shared
def _rebuild_support(lasso: Lasso) -> None:
    """Recompute signs and inverse from m.

    A variable that would make A singular on the support is moved to zero along the
    null direction, which changes neither the fit nor, at an optimum, the penalty;
    whichever variable reaches zero first leaves.
    """
    size = lasso.coef.size
    forget_support(lasso)
    for j in range(size):
        while lasso.coef[j] != 0.0:
            lasso.corr[j] = lasso.coef[j]  # only its sign is read
            if enter(lasso, j):
                break
            direction = times(lasso.inverse, lasso.signs, column(lasso.gram, j))
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
                leave(lasso, stop)
    _violation(lasso, _allowed(lasso))
