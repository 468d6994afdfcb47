"""The two matrices of a lasso problem: A, and its inverse on the support.

A is a matrix, or follows from the augmented features and the counts of the arms. Its inverse on the
support is either embedded in a full-size matrix of zeros, or packed: only the lower triangle of the
support's variables, in order of entry, so no other memory is touched. Either way a variable enters
or leaves by one rank-one update.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rolf.estimators.lasso.basis import Basis, coefficients_of, rewards_of
from rolf.kernel import implement, kernel, shared
from rolf.linalg import add_outer, matvec
from rolf.types import FloatArray, IntArray

DENSE = 64  # up to this size, skipping zeros costs more than it saves

# --- A -----------------------------------------------------------------------------------------


class ArmGram(NamedTuple):
    """A = [X' B]' diag(counts) [X' B]."""

    features: Basis
    counts: FloatArray


@kernel
def product(gram: Any, vector: FloatArray) -> FloatArray:
    """A vector."""
    raise NotImplementedError


@kernel
def column(gram: Any, index: int) -> FloatArray:
    """A column of A, not to be written to."""
    raise NotImplementedError


@kernel
def add_row(gram: Any, row: FloatArray) -> None:
    """A += row row'. (The counts of an ``ArmGram`` are updated before.)"""
    raise NotImplementedError


def _matrix_product(gram: FloatArray, vector: FloatArray) -> FloatArray:
    return matvec(gram, vector)


def _matrix_column(gram: FloatArray, index: int) -> FloatArray:
    out: FloatArray = gram[index]
    return out


def _matrix_add(gram: FloatArray, row: FloatArray) -> None:
    spread(gram, 1.0, row)


def _arms_product(gram: ArmGram, vector: FloatArray) -> FloatArray:
    return coefficients_of(gram.features, gram.counts * rewards_of(gram.features, vector))


def _arms_column(gram: ArmGram, index: int) -> FloatArray:
    unit = np.zeros(gram.counts.size)
    unit[index] = 1.0
    return product(gram, unit)


def _arms_add(gram: ArmGram, row: FloatArray) -> None:
    pass


implement(np.ndarray, {product: _matrix_product, column: _matrix_column, add_row: _matrix_add})
implement(ArmGram, {product: _arms_product, column: _arms_column, add_row: _arms_add})

# --- its inverse on the support ------------------------------------------------------------------


class Packed(NamedTuple):
    """The lower triangle, row by row, for the variables ``members``; ``seats`` (n,) has the place
    of each variable among them, or -1, and ``taken`` is [number of members]."""

    triangle: FloatArray
    members: IntArray
    seats: IntArray
    taken: IntArray

    @classmethod
    def empty(cls, size: int) -> Packed:
        members, taken = np.zeros(size, dtype=np.int64), np.zeros(1, dtype=np.int64)
        return cls(np.zeros(size * (size + 1) // 2), members, np.full(size, -1), taken)


@kernel
def times(inverse: Any, signs: FloatArray, vector: FloatArray) -> FloatArray:
    """The inverse times a vector, zero off the support."""
    raise NotImplementedError


@kernel
def spread(inverse: Any, factor: float, vector: FloatArray) -> None:
    """inverse += factor vector vector', where the vector is zero off the support."""
    raise NotImplementedError


@kernel
def inverse_column(inverse: Any, index: int) -> FloatArray:
    """A column of the inverse, zero off the support."""
    raise NotImplementedError


@kernel
def let_in(inverse: Any, index: int) -> None:
    """Make room for another variable, filled with zeros."""
    raise NotImplementedError


@kernel
def let_out(inverse: Any, index: int) -> None:
    """Remove a variable, row and column."""
    raise NotImplementedError


@kernel
def clear(inverse: Any) -> None:
    """Remove all variables."""
    raise NotImplementedError


def _matrix_times(inverse: FloatArray, signs: FloatArray, vector: FloatArray) -> FloatArray:
    size = vector.size
    if size <= DENSE:
        return matvec(inverse, vector)
    out = np.zeros(size)
    for i in range(size):
        if signs[i] != 0.0:
            total = 0.0
            for j in range(size):
                total += inverse[i, j] * vector[j]
            out[i] = total
    return out


def _matrix_spread(inverse: FloatArray, factor: float, vector: FloatArray) -> None:
    size = vector.size
    if size <= DENSE:
        add_outer(inverse, factor, vector, vector)
    else:
        for i in range(size):
            weight = factor * vector[i]
            if weight != 0.0:
                for j in range(size):
                    inverse[i, j] += weight * vector[j]


def _matrix_inverse_column(inverse: FloatArray, index: int) -> FloatArray:
    out: FloatArray = inverse[index].copy()
    return out


def _matrix_in(inverse: FloatArray, index: int) -> None:
    pass


def _matrix_out(inverse: FloatArray, index: int) -> None:
    for i in range(inverse.shape[0]):
        inverse[index, i] = 0.0
        inverse[i, index] = 0.0


def _matrix_clear(inverse: FloatArray) -> None:
    for i in range(inverse.shape[0]):
        for j in range(inverse.shape[0]):
            inverse[i, j] = 0.0


@shared
def seated(inverse: Packed, vector: FloatArray) -> FloatArray:
    """The entries of a vector on the support, in the order of the members."""
    out = np.empty(inverse.taken[0])
    for seat in range(out.size):
        out[seat] = vector[inverse.members[seat]]
    return out


def _packed_times(inverse: Packed, signs: FloatArray, vector: FloatArray) -> FloatArray:
    here, out = seated(inverse, vector), np.zeros(vector.size)
    image = np.zeros(here.size)
    for i in range(here.size):
        start = i * (i + 1) // 2
        total = 0.0
        for j in range(i + 1):
            total += inverse.triangle[start + j] * here[j]
        for j in range(i):
            image[j] += inverse.triangle[start + j] * here[i]
        image[i] += total
    for seat in range(here.size):
        out[inverse.members[seat]] = image[seat]
    return out


def _packed_spread(inverse: Packed, factor: float, vector: FloatArray) -> None:
    here = seated(inverse, vector)
    for i in range(here.size):
        start, weight = i * (i + 1) // 2, factor * here[i]
        for j in range(i + 1):
            inverse.triangle[start + j] += weight * here[j]


def _packed_column(inverse: Packed, index: int) -> FloatArray:
    out, seat = np.zeros(inverse.seats.size), inverse.seats[index]
    for j in range(inverse.taken[0]):
        high, low = max(seat, j), min(seat, j)
        out[inverse.members[j]] = inverse.triangle[high * (high + 1) // 2 + low]
    return out


def _packed_in(inverse: Packed, index: int) -> None:
    seat = inverse.taken[0]
    inverse.taken[0] += 1
    inverse.members[seat], inverse.seats[index] = index, seat
    for j in range(seat + 1):
        inverse.triangle[seat * (seat + 1) // 2 + j] = 0.0


def _packed_out(inverse: Packed, index: int) -> None:
    """Remove a variable; the last member takes its seat."""
    last, seat = inverse.taken[0] - 1, inverse.seats[index]
    moved = inverse.members[last]
    values = seated(inverse, inverse_column(inverse, moved))
    inverse.taken[0] = last
    inverse.seats[index] = -1
    if seat < last:
        inverse.members[seat], inverse.seats[moved] = moved, seat
        for j in range(last):
            high, low = max(seat, j), min(seat, j)
            if j != seat:
                inverse.triangle[high * (high + 1) // 2 + low] = values[j]
        inverse.triangle[seat * (seat + 1) // 2 + seat] = values[last]


def _packed_clear(inverse: Packed) -> None:
    for seat in range(inverse.taken[0]):
        inverse.seats[inverse.members[seat]] = -1
    inverse.taken[0] = 0


implement(
    np.ndarray,
    {
        times: _matrix_times,
        spread: _matrix_spread,
        inverse_column: _matrix_inverse_column,
        let_in: _matrix_in,
        let_out: _matrix_out,
        clear: _matrix_clear,
    },
)
implement(
    Packed,
    {
        times: _packed_times,
        spread: _packed_spread,
        inverse_column: _packed_column,
        let_in: _packed_in,
        let_out: _packed_out,
        clear: _packed_clear,
    },
)


def check_seats(inverse: Packed, signs: FloatArray) -> None:
    """Raise ValueError unless the members are the variables with a sign, each in its seat."""
    count, active = int(inverse.taken[0]), signs != 0.0
    if count != np.count_nonzero(active) or (inverse.seats[~active] != -1).any():
        raise ValueError("seats are not those of the support")
    members = inverse.members[:count]
    if not ((members >= 0) & (members < signs.size)).all():
        raise ValueError("members are not all variables")
    if (inverse.seats[members] != np.arange(count)).any():
        raise ValueError("members do not go with seats")
