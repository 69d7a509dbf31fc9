"""The multivariate normal distribution with a covariance of low rank and a diagonal."""

from __future__ import annotations

import math
from typing import Any

from flambeau import linalg
from flambeau.core.shape import Size
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.multivariate_normal import _batch_mahalanobis, _batch_mv, inverse_of, log_diagonal
from flambeau.distributions.utils import _standard_normal, lazy_property
from flambeau.tensor.creation import eye
from flambeau.tensor.functions_shape import broadcast_shapes

__all__ = ["LowRankMultivariateNormal"]


class LowRankMultivariateNormal(Distribution):
    """Normal vectors of mean ``loc`` [..., n] and covariance W W^T + diag(D), with W ``cov_factor`` [..., n, m], D ``cov_diag`` [..., n].

    Inverses and determinants go through the m x m matrix I + W^T D^-1 W (Woodbury's identity, the matrix determinant lemma).
    """

    arg_constraints = {
        "loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }  # fmt: skip
    support = constraints.real_vector
    has_rsample = True
    _carried = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event[0]} x m")
        if cov_diag.shape[-1:] != event:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event}")
        try:
            batch = broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.loc, self.cov_diag = loc.expand(batch + event), cov_diag.expand(batch + event)
        self.cov_factor = cov_factor.expand(batch + cov_factor.shape[-2:])
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        inner = (cov_factor / cov_diag.unsqueeze(-1)).mT @ cov_factor
        self._capacitance_tril = linalg.cholesky(inner + eye(inner.shape[-1], dtype=inner.dtype, device=inner.device))
        super().__init__(batch, event, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @lazy_property
    def variance(self) -> Any:
        """The diagonal of the covariance."""
        whole = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return whole.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        factor = self._unbroadcasted_cov_factor
        whole = factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed()
        return whole.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariance."""
        return linalg.cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        diag = self._unbroadcasted_cov_diag
        scaled = self._unbroadcasted_cov_factor / diag.unsqueeze(-1)
        whole = diag.reciprocal().diag_embed() - scaled @ inverse_of(self._capacitance_tril) @ scaled.mT
        return whole.expand(self._batch_shape + self._event_shape + self._event_shape)

    def rsample(self, sample_shape: Any = Size()) -> Any:  # noqa: B008
        shape = self._extended_shape(sample_shape)
        factors = _standard_normal(shape[:-1] + self.cov_factor.shape[-1:], self.loc.dtype, self.loc.device)
        own = _standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_cov_factor, factors) + self._unbroadcasted_cov_diag.sqrt() * own

    def _log_det(self) -> Any:
        return 2 * log_diagonal(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def _distance(self, away: Any) -> Any:
        scaled = self._unbroadcasted_cov_factor / self._unbroadcasted_cov_diag.unsqueeze(-1)
        direct = (away.pow(2) / self._unbroadcasted_cov_diag).sum(-1)
        return direct - _batch_mahalanobis(self._capacitance_tril, _batch_mv(scaled.mT, away))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n = self._event_shape[0]
        return -0.5 * (n * math.log(2 * math.pi) + self._log_det() + self._distance(value - self.loc))

    def entropy(self) -> Any:
        n = self._event_shape[0]
        return (0.5 * (n * (1.0 + math.log(2 * math.pi)) + self._log_det())).expand(self._batch_shape)
