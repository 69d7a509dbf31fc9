"""Tensors between the host and GPUs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from flambeau.core.context import context
from flambeau.core.device import Device, cpu, device_named
from flambeau.core.device import meta as without_elements
from flambeau.core.dtypes import dtype
from flambeau.interp.eager import allocate, report_error
from flambeau.ops.declare import ALL
from flambeau.runtime.cuda.device import Block, PendingError, device_of
from flambeau.runtime.storage import Storage, TensorMeta, meta_of
from flambeau.tensor import dispatch
from flambeau.tensor.base import TensorBase
from flambeau.tensor.numbers import read_number
from flambeau.tensor.tape import Entry

__all__ = ["TransferEntry", "copied_storage", "is_dense", "place", "read_element", "synchronize", "to_device"]


def place(device: object) -> Device:
    """The device meant by a ``device=`` argument. RuntimeError where there is no such GPU."""
    found = device_named(device)
    return device_of(found).device if found.type == "cuda" else found


def synchronize(device: Device) -> None:
    """Wait for the work of a GPU; raises for what its kernels reported."""
    try:
        device_of(device).synchronize()
    except PendingError as pending:
        raise report_error(pending.name, pending.error) from None


def is_dense(meta: TensorMeta) -> bool:
    """Whether the elements fill their memory without gaps or overlap, in whatever order of axes."""
    running = 1
    for stride, size in sorted((s, n) for n, s in zip(meta.shape, meta.strides, strict=True) if n != 1):
        if stride != running:
            return False
        running *= size
    return True


def axes_in_memory(meta: TensorMeta) -> tuple[int, ...] | None:
    """The axes in the order of memory; None where the elements do not fill it, or sizes may change."""
    if meta.contiguous:
        return tuple(range(len(meta.shape)))
    if not all(type(n) is int for n in (*meta.shape, *meta.strides)) or not is_dense(meta):
        return None
    return tuple(sorted(range(len(meta.shape)), key=lambda axis: (-meta.strides[axis], -meta.shape[axis])))


class TransferEntry(Entry):
    """The history of a copy on another device: its gradient goes back to where the original is."""

    __slots__ = ("origin",)
    _title = "ToCopyBackward0"

    def __init__(self, edge: Any, meta: TensorMeta, origin: Device) -> None:
        super().__init__([edge], [meta])
        self.origin = origin

    def apply(self, cotangents: list[TensorBase | None]) -> Sequence[TensorBase | None]:
        (gradient,) = cotangents
        return [None if gradient is None else to_device(gradient, self.origin)]


def to_device(tensor: Any, device: Device) -> Any:
    """The tensor on another device; itself when it is there. Gradients go back."""
    meta = tensor.meta
    if meta.device == device:
        return tensor
    tensor.materialize()
    source = tensor if is_dense(meta) or not meta.numel else ALL["clone"](tensor.detach())
    meta = meta_of(source.meta.shape, source.meta.dtype, source.meta.strides, device)
    memory = allocate(device, meta.nbytes)
    _copy(memory.address, device, source.address, source.meta.device, meta.nbytes)
    out = dispatch.new_tensor(memory, memory.address, meta)
    if context.grad_enabled and dispatch.wants_gradient(tensor):
        out.entry, out.output, out._requires_grad = TransferEntry(dispatch.edge_of(tensor), meta, tensor.meta.device), 0, True
    return out


def _copy(target: int, to: Device, source: int, origin: Device, nbytes: int) -> None:
    if to is without_elements:
        return
    if origin is without_elements:
        raise NotImplementedError(
            "Cannot copy out of meta tensor; no data! Make tensors with elements by torch.empty_like(x, device=...) or Module.to_empty."
        )
    if to is cpu:
        _wait(origin, target, source, nbytes)
    elif origin is cpu:
        device_of(to).copy_in(target, source, nbytes)
    else:
        synchronize(origin)  # each device has a stream of its own
        device_of(to).copy_within(target, source, nbytes)


def _wait(origin: Device, target: int, source: int, nbytes: int) -> None:
    try:
        device_of(origin).copy_out(target, source, nbytes)
    except PendingError as pending:
        raise report_error(pending.name, pending.error) from None


def read_element(address: int, kind: dtype, device: Device) -> Any:
    """The element at an address as a Python number; waits for the device."""
    if device is cpu:
        return read_number(address, kind)
    if device is without_elements:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    buffer = ctypes.c_uint64()
    _wait(device, ctypes.addressof(buffer), address, kind.itemsize)
    return read_number(ctypes.addressof(buffer), kind)


def copied_storage(memory: Storage) -> Storage:
    """New memory of the same device with the same bytes."""
    if isinstance(memory.owner, Block):
        gpu = memory.owner.device
        out = allocate(gpu.device, memory.nbytes)
        gpu.copy_within(out.address, memory.address, memory.nbytes)
        return out
    if memory.owner is without_elements:
        return allocate(without_elements, memory.nbytes)
    out = Storage(memory.nbytes)
    ctypes.memmove(out.address, memory.address, memory.nbytes)
    return out
