"""The small linear algebra that kernels are written in.

Online each function is one or two NumPy calls; compiled it is the loop beside it, which at the
sizes of a bandit is faster than a call into BLAS and compiles in a fraction of the time. Nothing
here knows about arms or rewards, except ``pick``.
"""

from __future__ import annotations

import math

import numpy as np

from rolf.kernel import primitive, shared
from rolf.types import FloatArray, Generator, IntArray

# Scores this close, relative to the best one, are a tie: far above rounding, far
# below any difference that matters. It also keeps the compiled and the NumPy form
# from disagreeing about scores that are equal on paper.
TIE = 1e-12


def _matvec(matrix: FloatArray, vector: FloatArray) -> FloatArray:
    # Four rows at a time: twice as fast as one at the sizes of a bandit.
    rows, columns = matrix.shape
    out = np.empty(rows)
    blocks = rows // 4
    for block in range(blocks):
        i = 4 * block
        a = b = c = d = 0.0
        for j in range(columns):
            value = vector[j]
            a += matrix[i, j] * value
            b += matrix[i + 1, j] * value
            c += matrix[i + 2, j] * value
            d += matrix[i + 3, j] * value
        out[i] = a
        out[i + 1] = b
        out[i + 2] = c
        out[i + 3] = d
    for i in range(4 * blocks, rows):
        total = 0.0
        for j in range(columns):
            total += matrix[i, j] * vector[j]
        out[i] = total
    return out


@primitive(_matvec)
def matvec(matrix: FloatArray, vector: FloatArray) -> FloatArray:
    """``matrix @ vector`` for a matrix (n, m) and a vector (m,)."""
    out: FloatArray = matrix @ vector
    return out


def _matmat(matrix: FloatArray, columns: FloatArray) -> FloatArray:
    out = np.empty((matrix.shape[0], columns.shape[1]))
    for j in range(columns.shape[1]):
        product = matvec(matrix, columns[:, j].copy())
        for i in range(product.size):
            out[i, j] = product[i]
    return out


@primitive(_matmat)
def matmat(matrix: FloatArray, columns: FloatArray) -> FloatArray:
    """``matrix @ columns`` for a matrix (n, m) and columns (m, c)."""
    out: FloatArray = matrix @ columns
    return out


def _vecmat(vector: FloatArray, matrix: FloatArray) -> FloatArray:
    rows, columns = matrix.shape
    out = np.zeros(columns)
    for i in range(rows):
        weight = vector[i]
        for j in range(columns):
            out[j] += weight * matrix[i, j]
    return out


@primitive(_vecmat)
def vecmat(vector: FloatArray, matrix: FloatArray) -> FloatArray:
    """``vector @ matrix`` for a vector (n,) and a matrix (n, m)."""
    out: FloatArray = vector @ matrix
    return out


def _dot(left: FloatArray, right: FloatArray) -> float:
    total = 0.0
    for i in range(left.size):
        total += left[i] * right[i]
    return total


@primitive(_dot)
def dot(left: FloatArray, right: FloatArray) -> float:
    """Inner product of two vectors."""
    return float(left @ right)


def _squared_norms(rows: FloatArray) -> FloatArray:
    out = np.empty(rows.shape[0])
    for i in range(rows.shape[0]):
        total = 0.0
        for j in range(rows.shape[1]):
            total += rows[i, j] * rows[i, j]
        out[i] = total
    return out


@primitive(_squared_norms)
def squared_norms(rows: FloatArray) -> FloatArray:
    """The squared length of every row (n,) of a matrix (n, m)."""
    out: FloatArray = np.einsum("ij,ij->i", rows, rows)
    return out


def _add_outer(matrix: FloatArray, factor: float, left: FloatArray, right: FloatArray) -> None:
    rows, columns = matrix.shape
    for i in range(rows):
        weight = factor * left[i]
        for j in range(columns):
            matrix[i, j] += weight * right[j]


@primitive(_add_outer)
def add_outer(matrix: FloatArray, factor: float, left: FloatArray, right: FloatArray) -> None:
    """``matrix += factor left right'``, in place."""
    matrix += (factor * left)[:, None] * right


def _add(target: FloatArray, factor: float, vector: FloatArray) -> None:
    for i in range(vector.size):
        target[i] += factor * vector[i]


@primitive(_add)
def add(target: FloatArray, factor: float, vector: FloatArray) -> None:
    """``target += factor vector``, in place."""
    target += factor * vector


def _assign(target: FloatArray, values: FloatArray) -> None:
    for i in range(values.size):
        target[i] = values[i]


@primitive(_assign)
def assign(target: FloatArray, values: FloatArray) -> None:
    """``target[:] = values`` for vectors. (Numba takes seconds to compile the slice.)"""
    target[:] = values


def _weighted_gram(rows: FloatArray, weights: FloatArray) -> FloatArray:
    count, size = rows.shape
    out = np.zeros((size, size))
    for k in range(count):
        for i in range(size):
            scale = weights[k] * rows[k, i]
            for j in range(size):
                out[i, j] += scale * rows[k, j]
    return out


@primitive(_weighted_gram)
def weighted_gram(rows: FloatArray, weights: FloatArray) -> FloatArray:
    """``rows' diag(weights) rows`` for rows (n, m) and weights (n,)."""
    out: FloatArray = (rows.T * weights) @ rows
    return out


def _solve(matrix: FloatArray, right: FloatArray) -> FloatArray:
    size = matrix.shape[0]
    left = matrix.copy()
    out = right.copy()
    for column in range(size):
        best = column
        for row in range(column + 1, size):
            if abs(left[row, column]) > abs(left[best, column]):
                best = row
        if best != column:
            for j in range(size):
                left[column, j], left[best, j] = left[best, j], left[column, j]
            for j in range(out.shape[1]):
                out[column, j], out[best, j] = out[best, j], out[column, j]
        for row in range(size):
            if row != column:
                factor = left[row, column] / left[column, column]
                for j in range(column, size):
                    left[row, j] -= factor * left[column, j]
                for j in range(out.shape[1]):
                    out[row, j] -= factor * out[column, j]
    for row in range(size):
        for j in range(out.shape[1]):
            out[row, j] /= left[row, row]
    return out


@primitive(_solve)
def solve(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """``matrix^-1 right`` for a matrix (n, n) and right-hand sides (n, m)."""
    return np.asarray(np.linalg.solve(matrix, right), dtype=np.float64)


def _inverse(matrix: FloatArray) -> tuple[FloatArray, float]:
    # Gauss-Jordan without pivoting, in place: the matrix is positive definite.
    size = matrix.shape[0]
    out = matrix.copy()
    logdet = 0.0
    for k in range(size):
        pivot = out[k, k]
        logdet += math.log(pivot)
        out[k, k] = 1.0
        for j in range(size):
            out[k, j] /= pivot
        for i in range(size):
            if i != k:
                factor = out[i, k]
                out[i, k] = 0.0
                for j in range(size):
                    out[i, j] -= factor * out[k, j]
    return out, logdet


@primitive(_inverse)
def inverse(matrix: FloatArray) -> tuple[FloatArray, float]:
    """Inverse and log determinant of a positive definite matrix."""
    return np.asarray(np.linalg.inv(matrix)), float(np.linalg.slogdet(matrix)[1])


@shared
def root_update(root: FloatArray, vector: FloatArray) -> tuple[FloatArray, float]:
    """Update a square root of the inverse of M for ``M += vector vector'``.

    ``root`` (n, n) satisfies ``root root' = M^-1`` before and after (Potter's form:
    one factor is kept, so the inverse can be sampled from and never loses symmetry
    or sign to rounding). Returns ``gain = M^-1 vector`` and ``size = vector' gain``,
    both for M before the update.
    """
    inner = vecmat(vector, root)
    gain = matvec(root, inner)
    size = dot(inner, inner)
    if size > 0.0:
        # (1 - 1/sqrt(1 + s)) / s, in a form that is exact for small s
        shrink = 1.0 / (1.0 + size + math.sqrt(1.0 + size))
        add_outer(root, -shrink, gain, inner)
    return gain, size


@shared
def cholesky(matrix: FloatArray) -> FloatArray:
    """A lower triangular root of a matrix that may be only barely positive definite."""
    size = matrix.shape[0]
    out = np.zeros((size, size))
    for i in range(size):
        for j in range(i + 1):
            inner = matrix[i, j]
            for k in range(j):
                inner -= out[i, k] * out[j, k]
            if i == j:
                out[i, i] = math.sqrt(max(inner, 0.0))
            elif out[j, j] > 0.0:
                out[i, j] = inner / out[j, j]
    return out


def inverse_root(moment: FloatArray, penalty: float) -> FloatArray:
    """A square root of (M + l I)^-1, for a positive semidefinite matrix M and a penalty l."""
    values, vectors = np.linalg.eigh(moment + penalty * np.eye(moment.shape[0]))
    root: FloatArray = vectors / np.sqrt(np.maximum(values, penalty))
    return root


def _pick(scores: FloatArray, available: IntArray, rng: Generator) -> tuple[int, int, float]:
    best = scores[available[0]]
    for position in range(1, available.size):
        if scores[available[position]] > best:
            best = scores[available[position]]
    cutoff = best - TIE * abs(best)
    ties = 0
    arm = available[0]
    for position in range(available.size - 1, -1, -1):
        if scores[available[position]] >= cutoff:
            ties += 1
            arm = available[position]
    if ties > 1:
        left = int(rng.random() * ties)
        for position in range(available.size):
            if scores[available[position]] >= cutoff:
                if left == 0:
                    arm = available[position]
                    break
                left -= 1
    return arm, ties, cutoff


@primitive(_pick)
def pick(scores: FloatArray, available: IntArray, rng: Generator) -> tuple[int, int, float]:
    """The best available arm, ties broken uniformly at random.

    Returns the arm, the number of arms that tie for best, and the lowest score that counts as a
    tie. Draws from ``rng`` only if there is one.
    """
    everything = available.size == scores.size
    values = scores if everything else scores[available]
    position = int(values.argmax())
    best = float(values[position])
    cutoff = best - TIE * abs(best)
    tied = values >= cutoff
    ties = int(np.count_nonzero(tied))
    if ties > 1:
        position = int(np.flatnonzero(tied)[int(rng.random() * ties)])
    arm = position if everything else int(available[position])
    return arm, ties, cutoff


def _tie_shares(values: FloatArray) -> FloatArray:
    best = values.max()
    cutoff = best - TIE * abs(best)
    ties = 0.0
    for i in range(values.size):
        ties += 1.0 if values[i] >= cutoff else 0.0
    out = np.zeros(values.size)
    for i in range(values.size):
        if values[i] >= cutoff:
            out[i] = 1.0 / ties
    return out


@primitive(_tie_shares)
def tie_shares(values: FloatArray) -> FloatArray:
    """The probability of each entry to be picked by ``pick``."""
    best = values.max()
    tied = values >= best - TIE * abs(best)
    shares: FloatArray = tied / tied.sum()
    return shares


def _argmax(values: FloatArray, available: IntArray) -> int:
    best = int(available[0])
    for position in range(1, available.size):
        if values[available[position]] > values[best]:
            best = int(available[position])
    return best


@primitive(_argmax)
def argmax(values: FloatArray, available: IntArray) -> int:
    """The first available arm with the largest value."""
    if available.size == values.size:
        return int(values.argmax())
    return int(available[values[available].argmax()])


def _normal_matrix(rows: int, columns: int, rng: Generator) -> FloatArray:
    out = np.empty((rows, columns))
    for i in range(rows):
        for j in range(columns):
            out[i, j] = rng.standard_normal()
    return out


@primitive(_normal_matrix)
def normal_matrix(rows: int, columns: int, rng: Generator) -> FloatArray:
    """Standard normal draws, (rows, columns)."""
    return rng.standard_normal((rows, columns))
