"""The geometric distribution."""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.core.shape import Size
from flambeau.distributions import constraints
from flambeau.distributions.distribution import WithProbabilities
from flambeau.distributions.utils import broadcast_all
from flambeau.tensor.grad_mode import no_grad
from flambeau.tensor.type_info import finfo

__all__ = ["Geometric"]


class Geometric(WithProbabilities):
    """How many trials miss before the first hits with probability ``probs``, or log odds ``logits``."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        given = self._keep_chances(probs, logits)
        super().__init__(given.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not (given > 0).all():
            invalid = given[given <= 0]
            raise ValueError(
                f"Expected parameter probs ({type(given).__name__} of shape {tuple(given.shape)}) of distribution {self!r} to be positive "
                f"but found invalid values:\n{invalid}"
            )

    @property
    def mean(self) -> Any:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Any:
        return self.probs.new_zeros(self.probs.shape)

    @property
    def variance(self) -> Any:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = Size()) -> Any:  # noqa: B008
        with no_grad():
            u = self.probs.new_empty(self._extended_shape(sample_shape)).uniform_(finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.masked_fill((probs == 1) & (value == 0), 0.0)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Any:
        return ops.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
