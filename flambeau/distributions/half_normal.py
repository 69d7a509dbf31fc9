"""The half-Normal distribution."""

from __future__ import annotations

import math
from typing import Any

from flambeau.distributions.half_line import HalfLine
from flambeau.distributions.normal import Normal
from flambeau.distributions.transforms import AbsTransform

__all__ = ["HalfNormal"]


class HalfNormal(HalfLine):
    """Absolute values of `Normal` numbers around 0 with that ``scale``."""

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(HalfNormal, _instance))

    @property
    def mean(self) -> Any:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        return self.scale.pow(2) * (1 - 2 / math.pi)
