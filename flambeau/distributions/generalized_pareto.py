"""The generalized Pareto distribution."""

from __future__ import annotations

import math
from typing import Any

from flambeau import ops
from flambeau.core.shape import Size
from flambeau.distributions import constraints
from flambeau.distributions.distribution import Distribution
from flambeau.tensor.functions_random import rand

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """What lies above a high threshold ``loc``: survival function (1 + concentration * z) ** (-1 / concentration), z = (x - loc) / scale.

    With ``concentration`` 0 it is exponential, with a negative one it ends at loc - scale / concentration.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._keep(validate_args, loc=loc, scale=scale, concentration=concentration)

    def _shape(self) -> tuple[Any, Any]:
        """Where the concentration is nearly 0, and the concentration with 1 there."""
        near = self.concentration.isclose(self.concentration.new_zeros(()))
        return near, ops.where(near, 1.0, self.concentration)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        top = ops.where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, top) if (self.concentration < 0).any() else constraints.greater_than_eq(self.loc)

    def _z(self, x: Any) -> Any:
        return (x - self.loc) / self.scale

    def rsample(self, sample_shape: Any = Size()) -> Any:  # noqa: B008
        return self.icdf(rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        z, (near, k) = self._z(value), self._shape()
        return -self.scale.log() - ops.where(near, z, (1 + 1 / k) * (k * z).log1p())

    def log_survival_function(self, value: Any) -> Any:
        """The logarithm of the probability of more than ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        z, (near, k) = self._z(value), self._shape()
        return ops.where(near, -z, -(k * z).log1p() / k)

    def log_cdf(self, value: Any) -> Any:
        """The logarithm of `cdf`."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Any) -> Any:
        return self.log_cdf(value).exp()

    def icdf(self, value: Any) -> Any:
        near, k = self._shape()
        log_left = (-value).log1p()
        return self.loc + self.scale * ops.where(near, -log_left, (-k * log_left).expm1() / k)

    @property
    def mean(self) -> Any:
        k = self.concentration
        return ops.where(k < 1, self.loc + self.scale / (1 - k), math.inf)

    @property
    def variance(self) -> Any:
        k = self.concentration
        return ops.where(k < 0.5, self.scale.pow(2) / ((1 - k).pow(2) * (1 - 2 * k)), math.inf)

    def entropy(self) -> Any:
        return self.scale.log() + self.concentration + 1

    @property
    def mode(self) -> Any:
        return self.loc
