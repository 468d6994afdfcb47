"""The augmented features [X' B] of all arms: as a matrix, or as an operator that never forms B.

If B is a product of Householder reflections (``augment.py``), a product with [X' B] or its
transpose takes O(K d) operations and no K x K matrix. The operator is used beyond ``LARGE`` arms.
If d is so close to K that B is a matrix, the features are about as large.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rolf.augment import Augmentation, Columns
from rolf.kernel import implement, kernel
from rolf.linalg import add, dot, matvec, vecmat
from rolf.types import FloatArray

#: up to this many arms a K x K matrix is faster, and small
LARGE = 2000


class Basis(NamedTuple):
    """X' (K, d), and the reflections I - f v v' whose product gives B: v (d, K), f (d,)."""

    observed: FloatArray
    reflectors: FloatArray
    factors: FloatArray


def augmented_features(augmented: Augmentation, large: int = LARGE) -> Any:
    """[X' B] as a matrix (K, K) or, for more than ``large`` arms, as a ``Basis``."""
    if augmented.arms <= large or isinstance(augmented.latent, Columns):
        return augmented.matrix
    return Basis(augmented.observed, *augmented.latent)


@kernel
def augmented_row(features: Any, arm: int) -> FloatArray:
    """The augmented features of an arm, (K,)."""
    raise NotImplementedError


@kernel
def rewards_of(features: Any, coef: FloatArray) -> FloatArray:
    """[X' B] coef."""
    raise NotImplementedError


@kernel
def coefficients_of(features: Any, rewards: FloatArray) -> FloatArray:
    """[X' B]' rewards."""
    raise NotImplementedError


def _matrix_row(features: FloatArray, arm: int) -> FloatArray:
    row: FloatArray = features[arm]
    return row


def _basis_row(features: Basis, arm: int) -> FloatArray:
    unit = np.zeros(features.observed.shape[0])
    unit[arm] = 1.0
    return coefficients_of(features, unit)


def _basis_rewards(features: Basis, coef: FloatArray) -> FloatArray:
    rank = features.observed.shape[1]
    out = coef.copy()
    for i in range(rank):
        out[i] = 0.0
    for step in range(rank):
        k = rank - 1 - step
        reflector = features.reflectors[k]
        add(out, -features.factors[k] * dot(reflector, out), reflector)
    add(out, 1.0, matvec(features.observed, coef[:rank]))
    return out


def _basis_coefficients(features: Basis, rewards: FloatArray) -> FloatArray:
    rank = features.observed.shape[1]
    out = rewards.copy()
    for k in range(rank):
        reflector = features.reflectors[k]
        add(out, -features.factors[k] * dot(reflector, out), reflector)
    observed = vecmat(rewards, features.observed)
    for i in range(rank):
        out[i] = observed[i]
    return out


def _matrix_rewards(features: FloatArray, coef: FloatArray) -> FloatArray:
    return matvec(features, coef)


def _matrix_coefficients(features: FloatArray, rewards: FloatArray) -> FloatArray:
    return vecmat(rewards, features)


implement(
    np.ndarray,
    {
        augmented_row: _matrix_row,
        rewards_of: _matrix_rewards,
        coefficients_of: _matrix_coefficients,
    },
)
implement(
    Basis,
    {
        augmented_row: _basis_row,
        rewards_of: _basis_rewards,
        coefficients_of: _basis_coefficients,
    },
)
