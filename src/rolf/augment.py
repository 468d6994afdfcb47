"""Observed features -> augmented features.

With X (d x K, one column per arm) every vector of mean rewards r in R^K splits into a
part in the row space of X and a part orthogonal to it,

    r = X' mu_o + B mu_u,

exactly, where the columns of B (K x (K - d)) are an orthonormal basis of the
orthogonal complement of the row space. A linear model on the rows of [X' B] is
therefore never misspecified, whatever was left unmeasured.

Any basis will do; the paper takes that of a singular value decomposition. For K x d features with 6
K >= 11 d, LAPACK's full decomposition starts with a QR, so its complement is that of Householder
QR. This is also an operator, which applies B or B' in O(K d) without forming a K x K matrix. If d
is closer to K, the features are about as large as B, and the decomposition is computed directly.
Only the lasso depends on the basis, and not on its signs.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from rolf.arms.table import number_table
from rolf.checks import one_of
from rolf.errors import InvalidArgument
from rolf.types import FloatArray


class Reflections(NamedTuple):
    """A basis B of the complement: a product of Householder reflections I - f v v', applied to the
    last K - rank unit vectors; v (rank, K), f (rank,)."""

    reflectors: FloatArray
    factors: FloatArray

    def complement(self, coefficients: FloatArray) -> FloatArray:
        rank, arms = self.reflectors.shape
        out = np.zeros((arms, *coefficients.shape[1:]))
        out[rank:] = coefficients
        for reflector, factor in zip(self.reflectors[::-1], self.factors[::-1], strict=True):
            out -= np.multiply.outer(reflector, factor * (reflector @ out))
        return out

    def project(self, rewards: FloatArray) -> FloatArray:
        out = rewards.copy()
        for reflector, factor in zip(self.reflectors, self.factors, strict=True):
            out -= np.multiply.outer(reflector, factor * (reflector @ out))
        return out[self.factors.size :]


class Columns(NamedTuple):
    """A basis of the complement as a matrix (K, K - rank)."""

    columns: FloatArray

    def complement(self, coefficients: FloatArray) -> FloatArray:
        out: FloatArray = self.columns @ coefficients
        return out

    def project(self, rewards: FloatArray) -> FloatArray:
        out: FloatArray = self.columns.T @ rewards
        return out


class Augmentation:
    """The augmented features of K arms.

    Args:
        features: (K, d) finite numbers, one row per arm.
        keep_scale: how to replace rank-deficient features, which they always are for d > K: by an
            orthonormal basis of their row space (False), or by that basis times the singular values
            (True). Full-rank features are kept.
        basis: the basis of the complement: "svd", from LAPACK's full singular value decomposition
            of ``observed``, or "qr", from its Householder QR. The two agree for 6 K >= 11 rank.

    Attributes:
        observed: (K, rank), the observed block X'.
        rank: dimension of the row space of X.
        reduced: whether ``observed`` replaces rank-deficient features.

    >>> Augmentation([[1.0], [2.0], [2.0]]).basis().round(3).tolist()
    [[-0.667, -0.667], [0.667, -0.333], [-0.333, 0.667]]
    """

    def __init__(self, features: object, *, keep_scale: bool = False, basis: str = "svd") -> None:
        values = number_table(features)
        if values.shape[0] < 1:
            raise InvalidArgument("features", f"shape {values.shape}", "at least one row")
        self.arms: int = values.shape[0]
        left, singular, _ = np.linalg.svd(values, full_matrices=False)
        largest = float(singular[0]) if singular.size else 0.0
        tolerance = largest * max(values.shape) * float(np.finfo(np.float64).eps)
        self.rank: int = int(np.count_nonzero(singular > tolerance))
        self.reduced: bool = self.rank < values.shape[1]
        directions = np.ascontiguousarray(left[:, : self.rank])
        scales = singular[: self.rank].copy()
        if not self.reduced:
            self.observed: FloatArray = values
        elif keep_scale:
            self.observed = directions * scales
        else:
            self.observed = directions
            scales = np.ones(self.rank)
        #: (K, rank) orthonormal basis of the row space, and the singular values of
        #: ``observed`` along it.
        self.directions: FloatArray = directions
        self.scales: FloatArray = scales
        reflected = one_of("basis", basis, "svd", "qr") == "qr" or 6 * self.arms >= 11 * self.rank
        #: the basis of the complement, as an operator where that is cheaper
        self.latent: Reflections | Columns = (
            _reflections(self.observed) if reflected else _singular(self.observed)
        )

    # --- the basis of the complement, as an operator ---------------------------------

    def complement(self, coefficients: FloatArray) -> FloatArray:
        """B times ``coefficients`` (K - rank,) or (K - rank, m), in O(K d) per column."""
        values = np.asarray(coefficients, dtype=np.float64)
        if values.shape[:1] != (self.arms - self.rank,):
            raise InvalidArgument("coefficients", values.shape, f"{self.arms - self.rank} rows")
        return self.latent.complement(values)

    def project(self, rewards: FloatArray) -> FloatArray:
        """B' times ``rewards`` (K,) or (K, m): their latent coefficients, in O(K d)."""
        values = np.asarray(rewards, dtype=np.float64)
        if values.shape[:1] != (self.arms,):
            raise InvalidArgument("rewards", values.shape, f"{self.arms} rows, one per arm")
        return self.latent.project(values)

    # --- as matrices ----------------------------------------------------------------

    def basis(self) -> FloatArray:
        """B as a matrix, (K, K - rank)."""
        return self.complement(np.eye(self.arms - self.rank))

    @cached_property
    def matrix(self) -> FloatArray:
        """Augmented features [X' B], (K, K); row a belongs to arm a."""
        return np.ascontiguousarray(np.hstack([self.observed, self.basis()]))

    @cached_property
    def gram(self) -> FloatArray:
        """Gram matrix of the observed block, X X', (rank, rank).

        The Gram matrix of the augmented features is block diagonal: this and I.
        """
        out: FloatArray = self.observed.T @ self.observed
        return out

    # --- quantities of the paper ------------------------------------------------------

    @property
    def sigma_max(self) -> float:
        """Square root of the largest diagonal entry of the augmented Gram matrix."""
        entries = np.diag(self.gram).tolist()
        if self.rank < self.arms:
            entries.append(1.0)
        return float(np.sqrt(max(entries)))

    @property
    def sigma_min(self) -> float:
        """Square root of the smallest eigenvalue of the augmented Gram matrix."""
        values = self.scales.tolist()
        if self.rank < self.arms:
            values.append(1.0)
        return float(min(values))

    def coefficients(self, rewards: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(mu_o, mu_u) with ``rewards = X' mu_o + B mu_u``, exactly."""
        values = np.asarray(rewards, dtype=np.float64)
        latent = self.project(values)
        observed = np.linalg.lstsq(self.observed, values, rcond=None)[0]
        return np.asarray(observed, dtype=np.float64), latent

    def latent_dimension(self, rewards: FloatArray, tolerance: float = 1e-9) -> int:
        """d_h: the number of nonzero latent coefficients for these mean rewards.

        It depends on the basis unless it is 0; ``tolerance`` is relative to the
        largest mean reward.
        """
        latent = self.project(rewards)
        size = float(np.abs(rewards).max(initial=0.0))
        return int(np.count_nonzero(np.abs(latent) > tolerance * size))


def _reflections(columns: FloatArray) -> Reflections:
    """Those of a Householder QR."""
    arms, rank = columns.shape
    if rank == 0:
        return Reflections(np.zeros((0, arms)), np.zeros(0))
    packed, factors = np.linalg.qr(columns, mode="raw")
    reflectors = np.triu(packed[:, :arms], 1)
    reflectors[np.arange(rank), np.arange(rank)] = 1.0
    return Reflections(reflectors, factors)


def _singular(columns: FloatArray) -> Columns:
    """The left singular vectors of a full decomposition beyond the rank."""
    left = np.linalg.svd(columns, full_matrices=True)[0]
    return Columns(np.ascontiguousarray(left[:, columns.shape[1] :]))
