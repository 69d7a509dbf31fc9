"""The gamma distribution."""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.core.shape import Size
from flambeau.distributions import constraints
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.utils import broadcast_all
from flambeau.tensor.functions_gamma import igamma
from flambeau.tensor.functions_sampling import _standard_gamma
from flambeau.tensor.type_info import finfo

__all__ = ["Gamma"]


class Gamma(ExponentialFamily):
    """Gamma numbers of shape ``concentration`` and ``rate``: sums of that many waiting times."""

    arg_constraints: Any = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self._keep(validate_args, concentration=concentration, rate=rate)

    @property
    def mean(self) -> Any:
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Any:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = Size()) -> Any:  # noqa: B008
        shape = self._extended_shape(sample_shape)
        return (_standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)).clamp(min=finfo(self.rate.dtype).tiny)

    def log_prob(self, value: Any) -> Any:
        (value,) = broadcast_all(value)
        if self._validate_args:
            self._validate_sample(value)
        scaled = ops.xlogy(self.concentration, self.rate) + ops.xlogy(self.concentration - 1, value)
        return scaled - self.rate * value - self.concentration.lgamma()

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return igamma(self.concentration, self.rate * value)

    def entropy(self) -> Any:
        alpha = self.concentration
        return alpha - self.rate.log() + alpha.lgamma() + (1.0 - alpha) * alpha.digamma()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return (x + 1).lgamma() + (x + 1) * (-y.reciprocal()).log()
