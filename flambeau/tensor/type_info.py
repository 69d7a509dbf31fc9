"""Questions about types: ranges, promotion, the default type, what kind a tensor is."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.core.context import context
from flambeau.core.device import Device, cpu, device_named
from flambeau.core.dtypes import dtype
from flambeau.ops.declare import default_float, set_default_float
from flambeau.ops.declare import result_type as common_type
from flambeau.tensor.arguments import need_tensor
from flambeau.tensor.base import TensorBase
from flambeau.tensor.storage_view import UntypedStorage


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The type that two types meet in.

    >>> import flambeau as torch
    >>> torch.promote_types(torch.int64, torch.float16)
    torch.float16
    """
    for name, kind in (("type1", type1), ("type2", type2)):
        if not isinstance(kind, dtype):
            raise TypeError(f"promote_types(): argument '{name}' must be torch.dtype, not {type(kind).__name__}")
    return dtypes.promote(type1, type2)
can_cast = dtypes.can_cast


class finfo:  # noqa: N801 - torch's own name
    """Limits of a floating point type (the default one if none is given): ``max``, ``min``, ``eps``, ``tiny``, ``bits`` and more.

    >>> import flambeau as torch
    >>> torch.finfo(torch.float16).max
    65504.0
    """

    def __init__(self, type: dtype | None = None) -> None:
        kind = default_float() if type is None else type
        if not (kind.is_floating_point or kind.is_complex):
            raise TypeError(f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{kind.name}'")
        limits: Any = ml_dtypes.finfo(kind.to_real().numpy)
        self.dtype = kind.to_real().name
        self.bits = limits.bits
        self.max, self.min = float(limits.max), float(limits.min)
        self.eps, self.resolution = float(limits.eps), 1.0 if kind.is_float8 else float(limits.resolution)
        self.tiny = self.smallest_normal = float(limits.smallest_normal)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo:  # noqa: N801
    """Limits of an integer type: ``max``, ``min`` and ``bits``."""

    def __init__(self, type: dtype) -> None:
        if not type.is_integer:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{type.name}'")
        limits = np.iinfo(type.numpy)
        self.dtype, self.bits, self.max, self.min = type.name, limits.bits, int(limits.max), int(limits.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


class _Operand:
    """A tensor as the promotion rules see it."""

    def __init__(self, tensor: Any) -> None:
        self.aval = Aval(tensor.meta.shape, tensor.meta.dtype)


def result_type(tensor: Any, other: Any) -> dtype:
    """The type that an operation on two tensors or numbers computes in.

    >>> import flambeau as torch
    >>> torch.result_type(torch.tensor([1, 2]), 1.5)
    torch.float32
    """
    return common_type([_Operand(v) if isinstance(v, TensorBase) else v for v in (tensor, other)])


def set_default_dtype(d: dtype) -> None:
    """The type of float numbers and of ``torch.rand`` and friends from now on."""
    set_default_float(d)


def get_default_dtype() -> dtype:
    """The type of float numbers and of ``torch.rand`` and friends."""
    return default_float()


def get_default_device() -> Device:
    """Where new tensors are made.

    >>> import flambeau as torch
    >>> torch.get_default_device()
    device(type='cpu')
    """
    return device_named(None)


def set_default_device(device: Any) -> None:
    """Make new tensors on ``device`` in this thread, where no ``device=`` says otherwise; None for the CPU.

    RuntimeError for a name that is no device's.

    >>> import flambeau as torch
    >>> torch.set_default_device("cpu")
    """
    found = None if device is None else device_named(device)
    context.devices = (None if found is cpu else found, *context.devices[1:])


def is_tensor(obj: Any) -> bool:
    """Whether ``obj`` is a tensor."""
    return isinstance(obj, TensorBase)


def is_storage(obj: Any) -> bool:
    """Whether ``obj`` is a storage."""
    return isinstance(obj, UntypedStorage)


def is_floating_point(input: Any) -> bool:
    """Whether the dtype is a floating point type."""
    need_tensor("is_floating_point", "input", input)
    return input.meta.dtype.is_floating_point


def is_complex(input: Any) -> bool:
    """Whether the dtype is a complex type."""
    need_tensor("is_complex", "input", input)
    return input.meta.dtype.is_complex


def is_signed(input: Any) -> bool:
    """Whether the dtype can hold negative numbers."""
    need_tensor("is_signed", "input", input)
    return input.meta.dtype.is_signed


def is_nonzero(input: Any) -> bool:
    """Whether the only element differs from 0."""
    return bool(input)


def is_same_size(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape."""
    return input.meta.shape == other.meta.shape


def is_vulkan_available() -> bool:
    """False."""
    return False


def is_distributed(input: Any) -> bool:
    """Whether a tensor is spread over processes: never."""
    return False


def is_inference(input: Any) -> bool:
    """Whether the tensor was made in inference mode."""
    return input.is_inference()


def get_device(input: Any) -> int:
    """The number of the tensor's device: -1 on the CPU."""
    return -1


def numel(input: Any) -> int:
    """The number of elements."""
    need_tensor("numel", "input", input)
    return input.meta.numel


def typename(obj: Any) -> str:
    """The name of an object's type; of a tensor with its element type."""
    if isinstance(obj, TensorBase):
        return obj.type()  # type: ignore[attr-defined]
    kind = obj if isinstance(obj, type) else type(obj)
    return kind.__qualname__ if kind.__module__ in ("builtins", "") else f"{kind.__module__}.{kind.__qualname__}"
