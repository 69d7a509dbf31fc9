"""Automatic mixed precision for GPUs: `torch.amp` with the device given."""

from __future__ import annotations

from typing import Any

from flambeau import amp
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype as dtype_type


class autocast(amp.autocast):  # noqa: N801 - torch's own name
    """`torch.autocast` for GPUs."""

    def __init__(self, enabled: bool = True, dtype: dtype_type = dtypes.float16, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(amp.GradScaler):
    """`torch.amp.GradScaler` for GPUs."""

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5, growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:  # fmt: skip
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(fwd: Any = None, *, cast_inputs: dtype_type | None = None) -> Any:
    """`torch.amp.custom_fwd` for GPUs."""
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any = None) -> Any:
    """`torch.amp.custom_bwd` for GPUs."""
    return amp.custom_bwd(bwd, device_type="cuda")
