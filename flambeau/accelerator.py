"""torch.accelerator: the GPUs of this machine under names that fit any kind of device."""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

from flambeau import cuda
from flambeau.core.device import Device, device_named

__all__ = [
    "Event", "Stream", "current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count",
    "device_index", "empty_cache", "is_available", "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved",
    "reset_peak_memory_stats", "set_device_idx", "set_device_index", "set_stream", "synchronize",
]  # fmt: skip


class Event:
    """A place in the work of a device: of a GPU a `torch.cuda.Event`, else a time, as the CPU does at once what it is asked to do."""

    def __new__(cls, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Any:
        if device_named(device or "cpu").type == "cuda":
            return cuda.Event(enable_timing, blocking, interprocess)
        return super().__new__(cls)

    def __init__(self, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self.device, self._time = device_named(device or "cpu"), 0.0

    def record(self, stream: Any = None) -> None:
        """Take the time."""
        self._time = time.perf_counter()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to a later one; RuntimeError where either was not recorded."""
        if not (self._time and end_event._time):
            raise RuntimeError("Event.elapsed_time: both events must be recorded before calculating elapsed time")
        return 1e3 * (end_event._time - self._time)

    def query(self) -> bool:
        """True: the work before it is done."""
        return True

    def synchronize(self) -> None:
        """Nothing: the work before it is done."""

    def wait(self, stream: Any = None) -> None:
        """Nothing: the work before it is done."""


class Stream:
    """The queue of a device's work: of a GPU a `torch.cuda.Stream`, else the CPU's, which is always empty."""

    def __new__(cls, device: Any = None, *, priority: int = 0) -> Any:
        if device_named(device or "cpu").type == "cuda":
            return cuda.Stream(device, priority)
        return super().__new__(cls)

    def __init__(self, device: Any = None, *, priority: int = 0) -> None:
        self.device, self.priority = device_named(device or "cpu"), priority

    def query(self) -> bool:
        """True: all work is done."""
        return True

    def synchronize(self) -> None:
        """Nothing: all work is done."""

    def wait_event(self, event: Any) -> None:
        """Nothing: the CPU has done what comes before the event."""

    def wait_stream(self, stream: Any) -> None:
        """Nothing: all work is done."""

    def record_event(self, event: Any = None) -> Any:
        """An event behind all work so far."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass


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


current_device_idx, set_device_idx = current_device_index, set_device_index


class device_index:  # noqa: N801 - torch's own name
    """A block that uses another one; None changes nothing."""

    def __init__(self, device: int | None, /) -> None:
        self._wanted, self._before = device, 0

    def __enter__(self) -> None:
        if self._wanted is not None:
            self._before = current_device_index()
            set_device_index(self._wanted)

    def __exit__(self, *_: object) -> None:
        if self._wanted is not None:
            set_device_index(self._before)


def current_stream(device: Any = None, /) -> Any:
    """Its queue of work."""
    return cuda.current_stream(device)


def set_stream(stream: Any) -> None:
    """Use the stream's device from now on."""
    cuda.set_stream(stream)


def max_memory_reserved(device_index: Any = None, /) -> int:
    """The most bytes that were held."""
    return cuda.max_memory_reserved(device_index)


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
