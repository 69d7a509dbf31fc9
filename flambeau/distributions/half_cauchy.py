"""The half-Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

from flambeau.distributions.cauchy import Cauchy
from flambeau.distributions.half_line import HalfLine
from flambeau.distributions.transforms import AbsTransform

__all__ = ["HalfCauchy"]


class HalfCauchy(HalfLine):
    """Absolute values of `Cauchy` numbers around 0 with that ``scale``."""

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(HalfCauchy, _instance))

    @property
    def mean(self) -> Any:
        return self.base_dist.mean.new_full(self._extended_shape(), math.inf)

    @property
    def variance(self) -> Any:
        return self.base_dist.variance
