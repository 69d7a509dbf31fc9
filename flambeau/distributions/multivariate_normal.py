"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any

from flambeau import linalg
from flambeau.core.shape import Size
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.utils import _standard_normal, lazy_property
from flambeau.tensor.creation import eye
from flambeau.tensor.functions_shape import broadcast_shapes

__all__ = ["MultivariateNormal"]


def _batch_mv(matrix: Any, vector: Any) -> Any:
    """A matrix times a vector, over batches."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(tril: Any, x: Any) -> Any:
    """x^T M^-1 x for M = tril tril^T, over batches that broadcast."""
    batch = broadcast_shapes(tril.shape[:-2], x.shape[:-1])
    factor = tril.expand(batch + tril.shape[-2:])
    solved = linalg.solve_triangular(factor, x.expand(batch + x.shape[-1:]).unsqueeze(-1), upper=False)
    return solved.squeeze(-1).pow(2).sum(-1)


def log_diagonal(tril: Any) -> Any:
    """The sum of the logarithms of the diagonal: half the log determinant of tril tril^T."""
    return tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _precision_to_scale_tril(precision: Any) -> Any:
    """The Cholesky factor of a matrix's inverse: with everything turned round, P = U U^T has upper triangular factors."""
    upper = linalg.cholesky(precision.flip(-2, -1)).flip(-2, -1)
    one = eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return linalg.solve_triangular(upper.mT, one.expand(precision.shape), upper=False)


def inverse_of(tril: Any) -> Any:
    """The inverse of tril tril^T."""
    half = linalg.solve_triangular(tril, eye(tril.shape[-1], dtype=tril.dtype, device=tril.device).expand(tril.shape), upper=False)
    return half.mT @ half


class WithScaleMatrix(Distribution):
    """Distributions given by one of ``covariance_matrix``, ``precision_matrix`` and ``scale_tril``, a Cholesky factor of the first."""

    _unbroadcasted_scale_tril: Any

    def _keep_matrix(self, batch: Any, **given: Any) -> Any:
        """Keep the matrix that is given, expanded to a batch; returns it as it was."""
        found = {k: v for k, v in given.items() if v is not None}
        if len(found) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = found.items()
        if matrix.dim() < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        setattr(self, name, matrix.expand(broadcast_shapes(matrix.shape[:-2], batch) + matrix.shape[-2:]))
        return matrix

    def _find_factor(self, matrix: Any) -> None:
        """The Cholesky factor of the covariance, once parameters are known to be good."""
        factor = {"scale_tril": lambda m: m, "covariance_matrix": linalg.cholesky, "precision_matrix": _precision_to_scale_tril}
        self._unbroadcasted_scale_tril = next(f for name, f in factor.items() if name in vars(self))(matrix)

    _carried = ("_unbroadcasted_scale_tril",)

    def _square(self) -> Any:
        return self._batch_shape + self._unbroadcasted_scale_tril.shape[-2:]

    @lazy_property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril.expand(self._square())

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        return (self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT).expand(self._square())

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        return inverse_of(self._unbroadcasted_scale_tril).expand(self._square())


class MultivariateNormal(WithScaleMatrix):
    """Normal vectors of mean ``loc`` [..., n] and a covariance given by itself, its inverse, or its Cholesky factor [..., n, n].

    >>> import flambeau as torch
    >>> torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2)).log_prob(torch.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {
        "loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky,
    }  # fmt: skip
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        matrix = self._keep_matrix(
            loc.shape[:-1], covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril
        )
        batch = broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand(batch + loc.shape[-1:])
        super().__init__(batch, loc.shape[-1:], validate_args=validate_args)
        self._find_factor(matrix)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = Size()) -> Any:  # noqa: B008
        drawn = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, drawn)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - log_diagonal(self._unbroadcasted_scale_tril)

    def entropy(self) -> Any:
        n = self._event_shape[0]
        return (0.5 * n * (1.0 + math.log(2 * math.pi)) + log_diagonal(self._unbroadcasted_scale_tril)).expand(self._batch_shape)
