"""The Wishart distribution."""

from __future__ import annotations

import math
import warnings
from typing import Any

from flambeau.core.shape import Size
from flambeau.distributions import constraints
from flambeau.distributions.chi2 import Chi2
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.multivariate_normal import WithScaleMatrix, inverse_of, log_diagonal
from flambeau.tensor import Tensor
from flambeau.tensor.creation import arange, tensor, tril_indices
from flambeau.tensor.functions_random import randn
from flambeau.tensor.functions_shape import broadcast_shapes
from flambeau.tensor.type_info import finfo

__all__ = ["Wishart"]


class Wishart(WithScaleMatrix, ExponentialFamily):
    """Sums of ``df`` outer products of normal vectors with the covariance given [..., n, n]; df > n - 1."""

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self, df: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        number = not isinstance(df, Tensor)
        matrix = self._keep_matrix(
            () if number else df.shape, covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril
        )
        batch, event = broadcast_shapes(matrix.shape[:-2], () if number else df.shape), matrix.shape[-2:]
        self.df = (tensor(df, dtype=matrix.dtype, device=matrix.device) if number else df).expand(batch)
        if self.df.le(event[-1] - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {event[-1] - 1}.")
        super().__init__(batch, event, validate_args=validate_args)
        if self.df.lt(event[-1]).any():
            warnings.warn("Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.", stacklevel=2)
        self._find_factor(matrix)
        self._make_chi2()

    def _make_chi2(self) -> None:
        steps = arange(self._event_shape[-1], dtype=self.df.dtype, device=self.df.device)
        self._chi2 = Chi2(self.df.unsqueeze(-1) - steps)

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {
            "covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky, "df": constraints.greater_than(self._event_shape[-1] - 1),
        }  # fmt: skip

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new._make_chi2()
        return new

    @property
    def mean(self) -> Any:
        return self.df.reshape(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def mode(self) -> Any:
        factor = self.df - self._event_shape[-1] - 1
        return factor.masked_fill(factor <= 0, math.nan).reshape(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        scale, diagonal = self.covariance_matrix, self.covariance_matrix.diagonal(dim1=-2, dim2=-1)
        return self.df.reshape(self._batch_shape + (1, 1)) * (scale.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _bartlett_sampling(self, sample_shape: Any) -> Any:
        """Bartlett's decomposition: a triangle of normal numbers below chi numbers."""
        n = self._event_shape[-1]
        noise = self._chi2.rsample(sample_shape).sqrt().clamp(min=finfo(self.df.dtype).eps).diag_embed()
        rows, columns = tril_indices(n, n, offset=-1, device=noise.device)
        below = randn(Size(sample_shape) + self._batch_shape + (n * (n - 1) // 2,), dtype=noise.dtype, device=noise.device)
        noise[..., rows, columns] = below
        half = self._unbroadcasted_scale_tril @ noise
        return half @ half.mT

    def rsample(self, sample_shape: Any = Size(), max_try_correction: int | None = None) -> Any:  # noqa: B008
        """Samples; those that came out singular are drawn anew, up to ``max_try_correction`` (default 10) times."""
        sample_shape = Size(sample_shape)
        sample = self._bartlett_sampling(sample_shape or (1,))
        # PyTorch's first look draws what is good anew, too, which is as good: so does this, for the same numbers.
        again = self._anywhere(self.support.check(sample))
        for _ in range(10 if max_try_correction is None else max_try_correction):
            if not again.any():
                break
            fresh = self._bartlett_sampling(again[again].shape)
            sample = sample.index_put((again,), fresh)
            again = again.index_put((again,), self._anywhere(~self.support.check(fresh)))
        return sample.reshape(self._extended_shape(sample_shape))

    def _anywhere(self, found: Any) -> Any:
        return found.flatten(found.dim() - len(self._batch_shape)).any(-1) if self._batch_shape else found

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        nu, n, tril = self.df, self._event_shape[-1], self._unbroadcasted_scale_tril
        normalizer = nu * (0.5 * n * math.log(2)) + nu * log_diagonal(tril) + (nu / 2).mvlgamma(n)
        inside = (inverse_of(tril) @ value).diagonal(dim1=-2, dim2=-1).sum(-1)
        return (nu - n - 1) / 2 * value.slogdet().logabsdet - 0.5 * inside - normalizer

    def _mean_log_det(self) -> Any:
        """The mean of log det x / 2 without the scale: the multivariate digamma function, and n log 2, over 2."""
        n = self._event_shape[-1]
        steps = arange(n, dtype=self.df.dtype, device=self.df.device) / 2
        return ((self.df / 2).unsqueeze(-1) - steps).digamma().sum(-1)

    def entropy(self) -> Any:
        nu, n = self.df, self._event_shape[-1]
        scale = (n + 1) * (0.5 * n * math.log(2) + log_diagonal(self._unbroadcasted_scale_tril))
        return scale + (nu / 2).mvlgamma(n) - (nu - n - 1) / 2 * self._mean_log_det() + nu * n / 2

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return 0.5 * self.df, -0.5 * self.precision_matrix

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        n = y.shape[-1]
        return x * (-(-2 * y).slogdet().logabsdet + n * math.log(2)) + x.mvlgamma(n)
