"""The imputation lasso over all K augmented features, as a matrix or as an operator."""

from __future__ import annotations

from typing import Any

import numpy as np

from rolf.estimators.lasso.basis import Basis
from rolf.estimators.lasso.matrices import ArmGram
from rolf.estimators.lasso.support import Lasso, lasso_start, packed_start
from rolf.kernel import implement, kernel
from rolf.types import FloatArray


@kernel
def arm_count(features: Any) -> int:
    """The number of arms K."""
    raise NotImplementedError


@kernel
def begin_imputation(features: Any, penalty: float) -> Lasso:
    """The lasso in the belief before the first reward. Runs as Python only."""
    raise NotImplementedError


@kernel
def imputation_lasso(features: Any, carried: Lasso, counts: FloatArray) -> Lasso:
    """The lasso in the belief, with its A; without a matrix, A follows from the counts."""
    raise NotImplementedError


def _matrix_count(features: FloatArray) -> int:
    return int(features.shape[0])


def _begin_matrix(features: FloatArray, penalty: float) -> Lasso:
    return lasso_start(np.zeros(features.shape), penalty)


def _with_matrix(features: FloatArray, carried: Lasso, counts: FloatArray) -> Lasso:
    return carried


def _basis_count(features: Basis) -> int:
    return int(features.observed.shape[0])


def _begin_basis(features: Basis, penalty: float) -> Lasso:
    return packed_start(features.observed.shape[0], penalty)


def _with_basis(features: Basis, carried: Lasso, counts: FloatArray) -> Lasso:
    return Lasso(
        ArmGram(features, counts),
        carried.target,
        carried.half,
        carried.coef,
        carried.corr,
        carried.signs,
        carried.inverse,
        carried.steps,
    )


implement(
    np.ndarray,
    {
        arm_count: _matrix_count,
        begin_imputation: _begin_matrix,
        imputation_lasso: _with_matrix,
    },
)
implement(
    Basis,
    {arm_count: _basis_count, begin_imputation: _begin_basis, imputation_lasso: _with_basis},
)
