"""What distributions of absolute values of numbers symmetric around 0 have in common."""

from __future__ import annotations

import math
from typing import Any

from flambeau import ops
from flambeau.distributions import constraints
from flambeau.distributions.transformed_distribution import TransformedDistribution

__all__ = ["HalfLine"]


class HalfLine(TransformedDistribution):
    """Absolute values of numbers from a symmetric base distribution with that ``scale``, whose density they double."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True  # type: ignore[assignment]

    @property
    def scale(self) -> Any:
        """The scale of the whole distribution."""
        return self.base_dist.scale

    @property
    def mode(self) -> Any:
        return self.scale.new_zeros(self.scale.shape)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return ops.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Any) -> Any:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Any:
        return self.base_dist.entropy() - math.log(2)
