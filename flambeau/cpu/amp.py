"""Automatic mixed precision for the CPU: `torch.amp` with the device given."""

from __future__ import annotations

from flambeau import amp
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype as dtype_type


class autocast(amp.autocast):  # noqa: N801 - torch's own name
    """`torch.autocast` for the CPU."""

    def __init__(self, enabled: bool = True, dtype: dtype_type = dtypes.bfloat16, cache_enabled: bool = True) -> None:
        super().__init__("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(amp.GradScaler):
    """`torch.amp.GradScaler` for the CPU."""

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5, growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:  # fmt: skip
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
