"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.core.shape import Size
from flambeau.distributions import constraints
from flambeau.distributions.distribution import WithProbabilities
from flambeau.distributions.gamma import Gamma
from flambeau.distributions.utils import broadcast_all, lazy_property
from flambeau.tensor.functions_sampling import poisson
from flambeau.tensor.grad_mode import no_grad

__all__ = ["NegativeBinomial"]


class NegativeBinomial(WithProbabilities):
    """How many trials hit with probability ``probs``, or log odds ``logits``, before ``total_count`` have missed."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0), "probs": constraints.half_open_interval(0.0, 1.0), "logits": constraints.real,
    }  # fmt: skip
    support = constraints.nonnegative_integer

    def __init__(self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        given = self._keep_chances(probs, logits)
        self.total_count, given = broadcast_all(total_count, given)
        self.total_count = self.total_count.type_as(given)
        setattr(self, "probs" if logits is None else "logits", given)
        super().__init__(given.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Any:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Any:
        return self.mean / (-self.logits).sigmoid()

    @lazy_property
    def _gamma(self) -> Gamma:
        return Gamma(self.total_count, (-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape: Any = Size()) -> Any:  # noqa: B008
        with no_grad():
            return poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        chance = n * ops.logsigmoid(-self.logits) + value * ops.logsigmoid(self.logits)
        ways = (n + value).lgamma() - (1.0 + value).lgamma() - n.lgamma()
        return chance + ways.masked_fill(n + value == 0.0, 0.0)
