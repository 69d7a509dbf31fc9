"""Distributions of transformed random variables."""

from __future__ import annotations

from typing import Any

from flambeau.core.shape import Size
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.distributions.independent import Independent
from flambeau.distributions.transforms import ComposeTransform, Transform
from flambeau.distributions.utils import _sum_rightmost
from flambeau.tensor.grad_mode import no_grad

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of y = t(x) for x from ``base_distribution`` and t the ``transforms``, one after the other.

    >>> import flambeau as torch
    >>> base, t = torch.distributions.Normal(0.0, 1.0), torch.distributions.ExpTransform()
    >>> torch.distributions.TransformedDistribution(base, [t]).log_prob(torch.tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints: Any = {}

    def __init__(self, base_distribution: Any, transforms: Any, validate_args: bool | None = None) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(self.transforms, list) or not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        self._fit(base_distribution)
        super().__init__(self._batch_shape, self._event_shape, validate_args=validate_args)

    def _fit(self, base: Any) -> None:
        """Expand the base to what the transforms need, and find the shapes of what comes out."""
        shape, whole = base.batch_shape + base.event_shape, ComposeTransform(self.transforms)
        if len(shape) < whole.domain.event_dim:
            raise ValueError(f"base_distribution needs to have shape with size at least {whole.domain.event_dim}, but got {shape}.")
        out = Size(whole.forward_shape(shape))
        needed = Size(whole.inverse_shape(out))
        if shape != needed:
            base = base.expand(needed[: len(needed) - len(base.event_shape)])
        more = whole.domain.event_dim - len(base.event_shape)
        self.base_dist = Independent(base, more) if more > 0 else base
        rank = whole.codomain.event_dim + max(len(base.event_shape) - whole.domain.event_dim, 0)
        self._batch_shape, self._event_shape = out[: len(out) - rank], out[len(out) - rank :]

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new, batch_shape = self._get_checked_instance(TransformedDistribution, _instance), Size(batch_shape)
        shape = Size(ComposeTransform(self.transforms).inverse_shape(batch_shape + self._event_shape))
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self._event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Any = Size()) -> Any:  # noqa: B008
        with no_grad():
            return ComposeTransform(self.transforms)(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = Size()) -> Any:  # noqa: B008
        return ComposeTransform(self.transforms)(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        result, rank, y = 0.0, len(self._event_shape), value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            rank += transform.domain.event_dim - transform.codomain.event_dim
            result = result - _sum_rightmost(transform.log_abs_det_jacobian(x, y), rank - transform.domain.event_dim)
            y = x
        return result + _sum_rightmost(self.base_dist.log_prob(y), rank - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value: Any) -> Any:
        """The distribution function of x as that of y: mirrored where y falls as x grows."""
        sign = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Any) -> Any:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Any:
        return ComposeTransform(self.transforms)(self.base_dist.icdf(self._monotonize_cdf(value)))
