"""torch.accelerator: the GPUs of this machine under names that fit any kind of device."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from flambeau import cuda
from flambeau.core.device import Device, device_named

__all__ = [
    "current_accelerator", "current_device_index", "device_count", "empty_cache", "is_available", "memory_allocated", "memory_reserved",
    "max_memory_allocated", "reset_peak_memory_stats", "set_device_index", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Whether there is one."""
    return cuda.is_available()


def device_count() -> int:
    """How many there are."""
    return cuda.device_count()


def current_accelerator(check_available: bool = False) -> Device | None:
    """The kind of device, None where there is none."""
    return device_named("cuda") if cuda.is_available() else None


def current_device_index() -> int:
    """Which one is used."""
    return cuda.current_device()


def set_device_index(device: Any) -> None:
    """Which one to use."""
    cuda.set_device(device)


def synchronize(device: Any = None) -> None:
    """Wait for all work; nothing where there is none."""
    if cuda.is_available():
        cuda.synchronize(device)


def empty_cache() -> None:
    """Give unused memory back."""
    if cuda.is_available():
        cuda.empty_cache()


def memory_allocated(device: Any = None) -> int:
    """Bytes in use."""
    return cuda.memory_allocated(device)


def memory_reserved(device: Any = None) -> int:
    """Bytes held."""
    return cuda.memory_reserved(device)


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that were in use."""
    return cuda.max_memory_allocated(device)


def reset_peak_memory_stats(device: Any = None) -> None:
    """Begin a new maximum."""
    cuda.reset_peak_memory_stats(device)


def get_device_module(device: Any = None) -> Any:
    """``torch.cuda`` or ``torch.cpu``, by the device: that of the accelerator, if there is one, by default.

    >>> import flambeau as torch
    >>> torch.get_device_module("cpu") is torch.cpu
    True
    """
    kind = ("cuda" if is_available() else "cpu") if device is None else Device(device).type
    if kind == "meta":
        raise RuntimeError("Invalid device 'meta': it has no module; use 'cpu' or 'cuda'")
    return import_module(f"flambeau.{kind}")
