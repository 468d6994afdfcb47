"""A lasso problem with its solution, and how variables enter and leave its support."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rolf.estimators.lasso.matrices import (
    Packed,
    check_seats,
    clear,
    column,
    inverse_column,
    let_in,
    let_out,
    spread,
    times,
)
from rolf.kernel import shared
from rolf.types import FloatArray

SINGULAR = 1e-11  # a Schur complement below this share of A_jj is zero


class Lasso(NamedTuple):
    """A problem and its solution.

    gram A (n, n), target b (n,), half [l/2], coef m (n,), corr c (n,), signs of m on
    the support and 0 elsewhere (n,), inverse of A on the support (``matrices.py``), and in
    steps the numbers of breakpoints, of walks that started over, and of problems that missed the
    tolerance.
    """

    gram: Any
    target: FloatArray
    half: FloatArray
    coef: FloatArray
    corr: FloatArray
    signs: FloatArray
    inverse: Any
    steps: FloatArray


def lasso_start(gram: FloatArray, penalty: float) -> Lasso:
    """The problem with b = 0, whose solution is 0."""
    size = gram.shape[0]
    return _start(gram, np.zeros((size, size)), size, penalty)


def packed_start(size: int, penalty: float) -> Lasso:
    """The same for many variables: A is passed with each call, and the inverse is packed."""
    return _start(np.zeros((0, 0)), Packed.empty(size), size, penalty)


def _start(gram: FloatArray, inverse: Any, size: int, penalty: float) -> Lasso:
    return Lasso(
        gram=gram,
        target=np.zeros(size),
        half=np.array([penalty / 2.0]),
        coef=np.zeros(size),
        corr=np.zeros(size),
        signs=np.zeros(size),
        inverse=inverse,
        steps=np.zeros(3),
    )


def check_lasso(lasso: Lasso) -> None:
    """Raise ValueError unless this is a lasso problem; otherwise the solver might run for very
    long."""
    if not np.isin(lasso.signs, (-1.0, 0.0, 1.0)).all():
        raise ValueError("signs are not all -1, 0 or 1")
    if lasso.half[0] < 0.0:
        raise ValueError("half is below 0")
    if isinstance(lasso.inverse, Packed):
        check_seats(lasso.inverse, lasso.signs)


def check_gram(gram: FloatArray, rows: FloatArray, counts: FloatArray) -> None:
    """Raise ValueError unless ``gram`` is rows' diag(counts) rows, up to rounding.

    Both are multiplied by one random vector (Freivalds) in O(K^2); a wrong matrix passes with
    probability zero.
    """
    vector = np.random.default_rng().standard_normal(gram.shape[0])
    expected = rows.T @ (counts * (rows @ vector))
    size = np.abs(rows).T @ (counts * (np.abs(rows) @ np.abs(vector)))
    if (np.abs(gram @ vector - expected) > 1e-6 * size).any():
        raise ValueError("gram does not follow from the counts")


@shared
def enter(lasso: Lasso, index: int) -> bool:
    """Add a variable, with the sign of its c; False if A would become singular."""
    entries = column(lasso.gram, index)
    pull = times(lasso.inverse, lasso.signs, entries)
    schur = entries[index]
    for i in range(entries.size):
        schur -= entries[i] * pull[i]
    if schur <= SINGULAR * entries[index]:
        return False
    pull[index] = -1.0
    let_in(lasso.inverse, index)
    spread(lasso.inverse, 1.0 / schur, pull)
    lasso.signs[index] = 1.0 if lasso.corr[index] > 0.0 else -1.0
    return True


@shared
def leave(lasso: Lasso, index: int) -> None:
    """Drop a variable from the support."""
    entries = inverse_column(lasso.inverse, index)
    spread(lasso.inverse, -1.0 / entries[index], entries)
    let_out(lasso.inverse, index)
    lasso.signs[index] = 0.0
    lasso.coef[index] = 0.0


@shared
def forget_support(lasso: Lasso) -> None:
    clear(lasso.inverse)
    for i in range(lasso.signs.size):
        lasso.signs[i] = 0.0
