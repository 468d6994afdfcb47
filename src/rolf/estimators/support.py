"""A lasso problem with its solution, and the linear algebra on its support.

The inverse of A on the support is kept embedded in a full-size matrix of zeros, so that a
variable enters or leaves by one rank-one update.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rolf.kernel import shared
from rolf.linalg import add_outer, matvec
from rolf.types import FloatArray

DENSE = 64  # up to this size skipping what is zero costs more than it saves
SINGULAR = 1e-11  # a Schur complement below this share of A_jj is zero


class Lasso(NamedTuple):
    """One problem and its solution.

    gram A (n, n), target b (n,), half [l/2], coef m (n,), corr c (n,), signs of m on
    the support and 0 elsewhere (n,), inverse of A on the support (n, n), and in steps how
    many breakpoints there were, walks that started over, and problems left short of the tolerance.
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
        steps=np.zeros(3),
    )


def check_lasso(lasso: Lasso) -> None:
    """Raise ValueError if this is no lasso problem: the solver might search for very long."""
    if not np.isin(lasso.signs, (-1.0, 0.0, 1.0)).all():
        raise ValueError("signs are not all -1, 0 or 1")
    if lasso.half[0] < 0.0:
        raise ValueError("half is below 0")


def check_gram(gram: FloatArray, rows: FloatArray, counts: FloatArray) -> None:
    """Raise ValueError unless ``gram`` is rows' diag(counts) rows, up to rounding.

    Both are multiplied by one random vector (Freivalds): O(K^2), and another matrix passes with
    probability zero.
    """
    vector = np.random.default_rng().standard_normal(gram.shape[0])
    expected = rows.T @ (counts * (rows @ vector))
    size = np.abs(rows).T @ (counts * (np.abs(rows) @ np.abs(vector)))
    if (np.abs(gram @ vector - expected) > 1e-6 * size).any():
        raise ValueError("gram does not follow from the counts")


@shared
def rank_one(matrix: FloatArray, factor: float, vector: FloatArray) -> None:
    """matrix += factor vector vector'."""
    size = vector.size
    if size <= DENSE:
        add_outer(matrix, factor, vector, vector)
    else:
        for i in range(size):
            weight = factor * vector[i]
            if weight != 0.0:
                for j in range(size):
                    matrix[i, j] += weight * vector[j]


@shared
def on_support(lasso: Lasso, vector: FloatArray) -> FloatArray:
    """A_SS^-1 vector_S, zero off the support, where the inverse has zeros."""
    size = vector.size
    if size <= DENSE:
        return matvec(lasso.inverse, vector)
    out = np.zeros(size)
    for i in range(size):
        if lasso.signs[i] != 0.0:
            total = 0.0
            for j in range(size):
                total += lasso.inverse[i, j] * vector[j]
            out[i] = total
    return out


@shared
def enter(lasso: Lasso, index: int) -> bool:
    """Add a variable, with the sign of its c; False if A would become singular."""
    column = lasso.gram[index]
    pull = on_support(lasso, column)
    schur = column[index]
    for i in range(column.size):
        schur -= column[i] * pull[i]
    if schur <= SINGULAR * column[index]:
        return False
    pull[index] = -1.0
    rank_one(lasso.inverse, 1.0 / schur, pull)
    lasso.signs[index] = 1.0 if lasso.corr[index] > 0.0 else -1.0
    return True


@shared
def leave(lasso: Lasso, index: int) -> None:
    """Drop a variable from the support."""
    column = lasso.inverse[index].copy()
    rank_one(lasso.inverse, -1.0 / column[index], column)
    for i in range(column.size):
        lasso.inverse[index, i] = 0.0
        lasso.inverse[i, index] = 0.0
    lasso.signs[index] = 0.0
    lasso.coef[index] = 0.0


@shared
def forget_support(lasso: Lasso) -> None:
    for i in range(lasso.signs.size):
        lasso.signs[i] = 0.0
        for j in range(lasso.signs.size):
            lasso.inverse[i, j] = 0.0
