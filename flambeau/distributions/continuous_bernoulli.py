"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

from flambeau import ops
from flambeau.core.shape import Size
from flambeau.distributions import constraints
from flambeau.distributions.distribution import WithProbabilities
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.utils import broadcast_all, clamp_probs
from flambeau.tensor.functions_random import rand
from flambeau.tensor.grad_mode import no_grad

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(WithProbabilities, ExponentialFamily):
    """Numbers in [0, 1] with density proportional to probs ** x * (1 - probs) ** (1 - x).

    Where ``probs`` is within ``lims``, near 0.5, formulas that divide by 1 - 2 probs give way to their Taylor series. Loaiza-Ganem and
    Cunningham, The continuous Bernoulli (2019).
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _carried = ("_lims",)

    def __init__(
        self, probs: Any = None, logits: Any = None, lims: tuple[float, float] = (0.499, 0.501), validate_args: bool | None = None
    ) -> None:
        given, self._lims = self._keep_chances(probs, logits), lims
        super().__init__(given.shape, validate_args=validate_args)
        if probs is not None:
            self.probs = clamp_probs(self.probs)

    def _far(self) -> Any:
        """Where ``probs`` is not near 0.5."""
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut(self) -> Any:
        """``probs``, moved away from 0.5."""
        return ops.where(self._far(), self.probs, self._lims[0])

    def _cont_bern_log_norm(self) -> Any:
        """log of 2 atanh(1 - 2 p) / (1 - 2 p)."""
        p, away = self._cut(), self.probs - 0.5
        exact = ((-p).log1p() - p.log()).abs().log() - ops.where(p <= 0.5, (-2.0 * p).log1p(), (2.0 * p.clamp(min=0.5) - 1.0).log())
        square = away.square()
        return ops.where(self._far(), exact, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * square) * square)

    @property
    def mean(self) -> Any:
        p, away = self._cut(), self.probs - 0.5
        exact = p / (2.0 * p - 1.0) + 1.0 / ((-p).log1p() - p.log())
        return ops.where(self._far(), exact, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * away.square()) * away)

    @property
    def stddev(self) -> Any:
        return self.variance.sqrt()

    @property
    def variance(self) -> Any:
        p, square = self._cut(), (self.probs - 0.5).square()
        exact = p * (p - 1.0) / (1.0 - 2.0 * p).square() + 1.0 / ((-p).log1p() - p.log()).square()
        return ops.where(self._far(), exact, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * square) * square)

    def rsample(self, sample_shape: Any = Size()) -> Any:  # noqa: B008
        return self.icdf(rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device))

    def sample(self, sample_shape: Any = Size()) -> Any:  # noqa: B008
        with no_grad():
            return self.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -ops.binary_cross_entropy_with_logits(logits, value, reduction="none") + self._cont_bern_log_norm()

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        p = self._cut()
        exact = (p.pow(value) * (1.0 - p).pow(1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        inside = ops.where(self._far(), exact, value)
        return ops.where(value <= 0.0, 0.0, ops.where(value >= 1.0, 1.0, inside))

    def icdf(self, value: Any) -> Any:
        p = self._cut()
        exact = ((-p + value * (2.0 * p - 1.0)).log1p() - (-p).log1p()) / (p.log() - (-p).log1p())
        return ops.where(self._far(), exact, value)

    def entropy(self) -> Any:
        return self.mean * ((-self.probs).log1p() - self.probs.log()) - self._cont_bern_log_norm() - (-self.probs).log1p()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Any) -> Any:
        far = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = ops.where(far, x, self._lims[0] - 0.5)
        exact = cut.expm1().abs().log() - cut.abs().log()
        return ops.where(far, exact, 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0)
