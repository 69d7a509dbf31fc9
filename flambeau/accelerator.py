"""torch.accelerator: the GPUs, without saying of which kind."""

from __future__ import annotations

from typing import Any

from flambeau import cuda
from flambeau.core.device import Device
from flambeau.cuda import empty_cache as empty_cache
from flambeau.cuda import get_device_capability as get_device_capability
from flambeau.cuda import max_memory_allocated as max_memory_allocated
from flambeau.cuda import memory_allocated as memory_allocated
from flambeau.cuda import memory_reserved as memory_reserved
from flambeau.cuda import reset_peak_memory_stats as reset_peak_memory_stats
from flambeau.cuda import synchronize as synchronize

__all__ = ["current_accelerator", "current_device_index", "device_count", "get_memory_info", "is_available", "set_device_index"]


def is_available() -> bool:
    """Whether there is a GPU."""
    return cuda.is_available()


def device_count() -> int:
    """How many GPUs there are."""
    return cuda.device_count()


def current_accelerator(check_available: bool = False) -> Device | None:
    """``torch.device("cuda")``, or None where there is no GPU."""
    return Device("cuda") if cuda.is_available() else None


def current_device_index() -> int:
    """The number of the GPU in use."""
    return cuda.current_device()


def set_device_index(device: Any, /) -> None:
    """Use a GPU from now on."""
    cuda.set_device(device)


def get_memory_info(device_index: Any = None, /) -> tuple[int, int]:
    """Free and all bytes of a GPU."""
    return cuda.mem_get_info(device_index)


current_device_idx, set_device_idx = current_device_index, set_device_index
