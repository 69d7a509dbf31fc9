"""The Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

from flambeau import ops
from flambeau.core.shape import Size
from flambeau.distributions import constraints
from flambeau.distributions.distribution import WithProbabilities
from flambeau.distributions.exp_family import ExponentialFamily
from flambeau.distributions.utils import broadcast_all
from flambeau.tensor.creation import arange
from flambeau.tensor.functions_random import bernoulli
from flambeau.tensor.grad_mode import no_grad

__all__ = ["Bernoulli"]


class Bernoulli(WithProbabilities, ExponentialFamily):
    """1 with probability ``probs``, or with log odds ``logits``, else 0.

    >>> import flambeau as torch
    >>> torch.distributions.Bernoulli(torch.tensor(0.5)).entropy()
    tensor(0.6931)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._keep_chances(probs, logits).shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        return (self.probs >= 0.5).to(self.probs.dtype).masked_fill(self.probs == 0.5, math.nan)

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = Size()) -> Any:  # noqa: B008
        with no_grad():
            return bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -ops.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Any:
        return ops.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Any:
        return self._enumerated(arange(2, dtype=self._param.dtype, device=self._param.device), expand)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.probs.logit(),)

    def _log_normalizer(self, x: Any) -> Any:
        return ops.softplus(x)
