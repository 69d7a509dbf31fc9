"""Devices: where memory is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, cast

from flambeau.core.context import context

# Devices that programs name and compare with, and that PyTorch has on other machines.
ELSEWHERE = ("mps", "xpu", "xla", "hpu", "mtia", "vulkan", "ipu", "privateuseone")


class Device:
    """A device: ``type`` ("cpu", "cuda" or "meta", whose tensors have no elements in memory) and ``index`` (None where there is only one).

    As a context, or around a function, it is where tensors are made that no ``device=`` is given for.

    >>> import flambeau as torch
    >>> torch.device("cuda:1").index
    1
    >>> with torch.device("cpu"):
    ...     print(torch.ones(2).device)
    cpu
    """

    __slots__ = ("index", "type")
    index: int | None
    type: str

    def __init__(self, type: str | Device = "cpu", index: int | None = None) -> None:  # noqa: A002 - torch's name
        if isinstance(type, Device):
            type, index = type.type, type.index
        kind = cast(object, type)
        if not isinstance(kind, str):
            raise TypeError(f"device(): argument 'type' must be str, not {kind.__class__.__name__}")
        name, _, number = kind.partition(":")
        if name not in ("cpu", "cuda", "meta", *ELSEWHERE):
            raise RuntimeError(f"Expected one of cpu, cuda, meta device type at start of device string: {name}")
        if number and not number.isdigit():
            raise RuntimeError(f"Invalid device string: '{type}'")
        self.type = name
        self.index = int(number) if number else index

    def __repr__(self) -> str:
        return f"device(type='{self.type}'" + (")" if self.index is None else f", index={self.index})")

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __enter__(self) -> Device:
        context.devices = (*context.devices, self)
        return self

    def __exit__(self, *_: object) -> None:
        context.devices = context.devices[:-1]

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def placed(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return placed

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Device, (str(self),)


cpu = Device("cpu")
# Tensors that have shapes and types only: nothing runs on them.
meta = Device("meta")


def device_named(device: object) -> Device:
    """The device that a ``device=`` argument names, of whatever number; a number alone is that of a GPU. None is the default device."""
    if device is None:
        device = context.devices[-1] or cpu
    if isinstance(device, int) and not isinstance(device, bool):
        return Device("cuda", device)
    found = device if isinstance(device, Device) else Device(device)  # type: ignore[arg-type]
    if found.type in ELSEWHERE:
        raise RuntimeError(f"flambeau is not linked with support for {found.type} devices; use 'cpu' or 'cuda'")
    return found if found.type == "cuda" else cpu if found.type == "cpu" else meta
