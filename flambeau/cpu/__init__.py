"""torch.cpu: the processor as a device; there is one, and what it is asked to do is done at once."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from flambeau.cpu import amp as amp

__all__ = [
    "Event", "Stream", "StreamContext", "current_device", "current_stream", "device_count", "is_available",
    "is_initialized", "set_device", "stream", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """``"cpu"``."""
    return "cpu"


def set_device(device: Any) -> None:
    """Nothing: there is one."""


def synchronize(device: Any = None) -> None:
    """Nothing: all work is done."""


class Stream:
    """The one order of work of the processor."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """Nothing: all work is done."""


_stream = Stream()


def current_stream(device: Any = None) -> Stream:
    """The one stream."""
    return _stream


@contextmanager
def stream(stream: Any) -> Generator[None]:
    """Nothing changes inside."""
    yield


StreamContext = stream


class Event:
    """A place in the processor's work, which is done."""

    def query(self) -> bool:
        """True."""
        return True

    def record(self, stream: Any = None) -> None:
        """Nothing: all work is done."""

    def synchronize(self) -> None:
        """Nothing: all work is done."""

    def wait(self, stream: Any = None) -> None:
        """Nothing: all work is done."""


def is_initialized() -> bool:
    """True."""
    return True
