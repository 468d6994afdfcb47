"""Quantiles of mixtures of Student t distributions that share their degrees of freedom.

The tail P(T > x), x >= 0, is tabulated once per number of degrees: a polynomial in each cell of
u = x/(1 + x), good to about 1e-15. The quantiles of all arms are then a loop over the components
without a special function in it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rolf.kernel import looped, shared
from rolf.types import FloatArray

#: cells of u in [0, 1), and coefficients of the polynomial in each
CELLS = 512
COEFFICIENTS = 8
#: evaluations of the mixture per arm, at most; about five are needed
EVALUATIONS = 200
#: error of the probability, relative to it, from which one more step is enough
CLOSE = 1e-8


def tail_table(degrees: float) -> FloatArray:
    """Coefficients of P(T > x) in each cell, the highest power first, (CELLS, COEFFICIENTS).

    The argument of a polynomial goes from -1 to 1 over its cell. In each cell it is the integral of
    the polynomial through the density at Chebyshev's nodes; all of them together make 1/2.
    """
    nodes = np.polynomial.chebyshev.chebpts1(COEFFICIENTS - 1)
    rest = 1.0 - (np.arange(CELLS)[:, None] + 0.5 * (nodes + 1.0)) / CELLS  # 1/(1 + x)
    squares = (1.0 / rest - 1.0) ** 2
    if math.isfinite(degrees):
        logs = -0.5 * (degrees + 1.0) * np.log1p(squares / degrees)
    else:
        logs = -0.5 * squares
    density = np.exp(logs - 2.0 * np.log(rest))  # of u, up to a factor
    slopes: Any = np.linalg.solve(np.vander(nodes), density.T).T
    powers = np.arange(COEFFICIENTS - 1, 0, -1)
    table = np.column_stack([-slopes / powers, np.zeros(CELLS)])
    table[:, -1] = -table.sum(axis=1)  # each is 0 at the right end of its cell
    left = table @ (-1.0) ** np.arange(COEFFICIENTS - 1, -1, -1)
    table[:, -1] += np.append(np.cumsum(left[::-1])[-2::-1], 0.0)
    return np.ascontiguousarray(table * (0.5 / left.sum()))


def low_quantile(table: FloatArray, probability: float) -> float:
    """The ``probability`` quantile of T, at most the median."""
    low, high = -1.0, 0.0  # of -u
    while True:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            return middle / (1.0 + middle)
        if below(table, middle / (1.0 + middle))[0] < probability:
            low = middle
        else:
            high = middle


@shared
def below(table: FloatArray, x: float) -> tuple[float, float]:
    """P(T < x), and its derivative."""
    rest = 1.0 / (1.0 + abs(x))
    place = CELLS * (1.0 - rest)
    cell = min(int(place), CELLS - 1)
    at = 2.0 * (place - cell) - 1.0
    tail = table[cell, 0]
    slope = 0.0
    for power in range(1, COEFFICIENTS):
        slope = slope * at + tail
        tail = tail * at + table[cell, power]
    density = -slope * 2.0 * CELLS * rest * rest
    return (tail if x < 0.0 else 1.0 - tail), density


@looped
def low_quantiles(
    table: FloatArray,
    weights: FloatArray,
    means: FloatArray,
    spreads: FloatArray,
    probability: float,
    one: float,
) -> FloatArray:
    """The ``probability`` quantile, at most the median, of every arm's mixture, (K,).

    Component g of arm a is means[a, g] + spreads[a, g] T; ``one`` is the quantile of T. Newton's
    method between the quantiles of the components; where it does not halve its step, bisection.
    """
    arms, count = means.shape
    out = np.empty(arms)
    scales = np.empty(count)
    for a in range(arms):
        low, high, x, total = math.inf, -math.inf, 0.0, 0.0
        for g in range(count):
            each = means[a, g] + spreads[a, g] * one
            low = min(low, each)
            high = max(high, each)
            x += weights[g] * each
            total += weights[g]
        for g in range(count):
            scales[g] = 1.0 / max(spreads[a, g], 1e-300)
        wanted = probability * total
        x = min(max(x / total, low), high)
        before = last = high - low
        for _ in range(EVALUATIONS):
            mass = density = 0.0
            for g in range(count):
                share, rate = below(table, (x - means[a, g]) * scales[g])
                mass += weights[g] * share
                density += weights[g] * rate * scales[g]
            excess = mass - wanted
            if excess < 0.0:
                low = x
            else:
                high = x
            new = x - excess / density if density > 0.0 else math.inf
            newton = low < new < high and 2.0 * abs(new - x) <= before
            if not newton:
                new = 0.5 * (low + high)
            before, last = last, abs(new - x)
            x = new
            # near the end a step of Newton's squares the error
            if last == 0.0 or (newton and abs(excess) <= CLOSE * wanted):
                break
        out[a] = x
    return out
