"""The binomial distribution."""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.core.shape import Size
from flambeau.distributions import constraints
from flambeau.distributions.distribution import WithProbabilities
from flambeau.distributions.utils import broadcast_all
from flambeau.tensor.creation import arange
from flambeau.tensor.functions_sampling import binomial
from flambeau.tensor.grad_mode import no_grad

__all__ = ["Binomial"]


class Binomial(WithProbabilities):
    """How many of ``total_count`` trials hit with probability ``probs``, or log odds ``logits``."""

    arg_constraints = {"total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval, "logits": constraints.real}
    has_enumerate_support = True

    def __init__(self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        given = self._keep_chances(probs, logits)
        self.total_count, given = broadcast_all(total_count, given)
        self.total_count = self.total_count.type_as(given)
        setattr(self, "probs" if logits is None else "logits", given)
        super().__init__(given.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = Size()) -> Any:  # noqa: B008
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return ways + value * logits - n * ops.softplus(logits)

    def entropy(self) -> Any:
        return -(self.log_prob(self.enumerate_support(False)).exp() * self.log_prob(self.enumerate_support(False))).sum(0)

    def enumerate_support(self, expand: bool = True) -> Any:
        largest = int(self.total_count.max())
        if not self.total_count.min() == largest:
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        return self._enumerated(arange(1 + largest, dtype=self._param.dtype, device=self._param.device), expand)
