"""torch.cuda: says that there is no CUDA device, so that programs take the CPU."""

from typing import Any

__all__ = [
    "current_device", "device_count", "empty_cache", "get_device_name", "is_available", "is_initialized", "manual_seed", "manual_seed_all",
    "synchronize",
]  # fmt: skip

_MISSING = "Torch not compiled with CUDA enabled: flambeau runs on the CPU so far. Ask torch.cuda.is_available() first."


def is_available() -> bool:
    """False: tensors are on the CPU.

    >>> import flambeau as torch
    >>> "cuda" if torch.cuda.is_available() else "cpu"
    'cpu'
    """
    return False


def is_initialized() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def current_device() -> int:
    """Raises: there is none."""
    raise AssertionError(_MISSING)


def get_device_name(device: Any = None) -> str:
    """Raises: there is none."""
    raise AssertionError(_MISSING)


def synchronize(device: Any = None) -> None:
    """Raises: there is nothing to wait for."""
    raise AssertionError(_MISSING)


def empty_cache() -> None:
    """Nothing: no memory is kept on devices."""


def manual_seed(seed: int) -> None:
    """Nothing, as in PyTorch without CUDA: there are no generators on devices."""


def manual_seed_all(seed: int) -> None:
    """Nothing, as in PyTorch without CUDA: there are no generators on devices."""
