"""torch.cpu: the processor as a device. What it is given is done when a function returns, so there is nothing to wait for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = [
    "Stream", "current_device", "current_stream", "device_count", "is_available", "is_initialized", "set_device", "stream", "synchronize",
]  # fmt: skip


class Stream:
    """The one queue of the processor."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """Nothing is to be waited for."""

    def synchronize(self) -> None:
        """Nothing is to be waited for."""


_stream = Stream()


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """The name of the device."""
    return "cpu"


def set_device(device: Any) -> None:
    """There is one device."""


def synchronize(device: Any = None) -> None:
    """Everything is done already."""


def current_stream(device: Any = None) -> Stream:
    """The one queue."""
    return _stream


@contextlib.contextmanager
def stream(stream: Any) -> Iterator[None]:
    """A ``with`` block, without effect."""
    yield
