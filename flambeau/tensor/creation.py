"""New tensors: from data, filled with one value, ranges."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from flambeau import ops
from flambeau.core import dtypes
from flambeau.core.context import context, outside_capture
from flambeau.core.device import cpu
from flambeau.core.dtypes import dtype, dtype_of
from flambeau.core.layout import check_layout, contiguous_format, memory_order, strided
from flambeau.core.symbolic import Expression, as_size
from flambeau.interp.eager import allocate
from flambeau.ops.declare import default_float, number_type
from flambeau.runtime.storage import Storage, meta_of
from flambeau.tensor import dispatch, dlpack, transfer
from flambeau.tensor.arguments import given_sizes, write_out
from flambeau.tensor.base import TensorBase
from flambeau.tensor.numbers import write_number
from flambeau.tensor.python_data import as_array
from flambeau.tensor.storage_view import UntypedStorage
from flambeau.tensor.tensor import empty_tensor, tensor_over

Sizes = Sequence[int]


def finished(
    operator: str, tensor: Any, requires_grad: bool = False, out: Any = None, device: Any = None, layout: Any = strided,
    pin_memory: bool = False,
) -> Any:  # fmt: skip
    """``tensor`` with what a creation function was asked for besides; errors for what there is not."""
    device = device or context.devices[-1]
    if device is not None and device is not tensor.meta.device:
        tensor = transfer.to_device(tensor, transfer.place(device))
    if layout is not strided:
        check_layout(operator, layout)
    if pin_memory:
        raise NotImplementedError(f"{operator}: pin_memory=True is not supported; there is no accelerator to pin memory for")
    if out is not None:
        tensor = write_out(out, tensor)
    return tensor.requires_grad_() if requires_grad else tensor


def chosen_type(operator: str, wanted: dtype | None, options: dict[str, Any], otherwise: dtype | None = None) -> dtype:
    """The type of the elements: the one asked for, that of ``out=``, or the usual one; RuntimeError where the first two differ."""
    out, wanted = options.get("out"), dtype_of(wanted)
    if out is None:
        return wanted or otherwise or default_float()
    if wanted is not None and wanted is not out.dtype:
        raise RuntimeError(f"{operator}: dtype {wanted} does not match dtype of out parameter ({out.dtype})")
    return out.dtype


def _shape(operator: str, size: tuple[Any, ...]) -> tuple[int, ...]:
    shape = given_sizes(size)
    if set(map(type, shape)) - {int}:
        shape = tuple(map(as_size, shape))
    if any(n < 0 for n in shape):
        raise RuntimeError(f"{operator}: Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    return shape


# -- from data ------------------------------------------------------------------------------------------
_PLAIN_NUMBERS = (float, int, bool)
_WRITTEN = (dtypes.float32, dtypes.float64, dtypes.int64, dtypes.bool_)


def _fits(value: Any) -> bool:
    return type(value) is not int or -(1 << 63) <= value < 1 << 63


def tensor(
    data: Any, *, dtype: dtype | None = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Any:
    """A tensor with a copy of ``data``: numbers, nested sequences, a numpy array or a tensor.

    Python floats get the default dtype, ints int64; numpy's types stay.

    >>> import flambeau as torch
    >>> torch.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    dtype = dtype_of(dtype)
    if isinstance(data, TensorBase):
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
            UserWarning, stacklevel=2,
        )  # fmt: skip
        source: Any = data
        out = source.detach().to(dtype, copy=True)
    elif type(data) in _PLAIN_NUMBERS and (dtype is None or dtype is number_type(data)) and _fits(data):
        kind = number_type(data)
        if kind in _WRITTEN and context.capture is None:
            out = empty_tensor((), kind)
            write_number(out.address, kind, data)
        else:
            out = ops.full((), data, kind)
    else:
        array, kind = as_array(data, dtype)
        with outside_capture():
            out = empty_tensor(array.shape, kind)
            out.array()[...] = array
        if context.capture is not None:
            out = context.capture.constant(out)
    return finished("tensor", out, requires_grad, None, device, strided, pin_memory)


def as_tensor(data: Any, dtype: dtype | None = None, device: Any = None) -> Any:
    """``data`` as a tensor, sharing memory with arrays and tensors of the right dtype."""
    target, dtype = transfer.place(device), dtype_of(dtype)
    if isinstance(data, TensorBase):
        return data.to(dtype, device=None if device is None else target)  # type: ignore[attr-defined]
    if isinstance(data, np.ndarray) and data.dtype in dtypes.BY_NUMPY and (dtype is None or dtype.numpy == data.dtype):
        return transfer.to_device(from_numpy(data), target)
    return tensor(data, dtype=dtype, device=target)


def asarray(
    obj: Any, *, dtype: dtype | None = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Any:
    """``obj`` as a tensor; ``copy`` True always copies, False never (ValueError where it would have to)."""
    if isinstance(obj, UntypedStorage):
        meta = meta_of((len(obj),), dtypes.uint8, None, obj.device)
        obj = dispatch.new_tensor(obj.memory, obj.memory.address, meta)
    if not isinstance(obj, (TensorBase, np.ndarray)) and hasattr(obj, "__dlpack__"):
        obj = from_dlpack(obj)
    shareable = isinstance(obj, (TensorBase, np.ndarray))
    if not isinstance(obj, (TensorBase, np.ndarray, list, tuple, int, float, complex)) and _bytes_of(obj) is not None:
        obj = np.frombuffer(obj, (dtype_of(dtype) or default_float()).numpy)
    out = as_tensor(obj, dtype, device)
    shared = shareable and (out is obj or (isinstance(obj, np.ndarray) and out.memory.owner is obj))
    if copy is False and not shared:
        raise ValueError("asarray: can't alias arbitrary sequences or convert without a copy; leave copy=None")
    if copy and shared:
        out = out.clone()
    return out.detach().requires_grad_() if requires_grad else out


def from_numpy(ndarray: Any) -> Any:
    """A tensor that shares the memory of a numpy array.

    >>> import numpy as np, flambeau as torch
    >>> a = np.zeros(2)
    >>> torch.from_numpy(a)[0] = 1
    >>> a
    array([1., 0.])
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    if not ndarray.dtype.isnative:
        raise ValueError(f"from_numpy: the array's numbers are not in the machine's order of bytes ({ndarray.dtype}); use newbyteorder()")
    if not ndarray.flags.writeable:
        warnings.warn(
            "The given NumPy array is not writable, and PyTorch does not support non-writable tensors: copy it first.", stacklevel=2
        )
    return tensor_over(ndarray)


def _bytes_of(value: Any) -> int | None:
    """How many bytes a bytes-like object shows; None for others."""
    try:
        return memoryview(value).nbytes
    except TypeError:
        return None


def frombuffer(buffer: Any, *, dtype: dtype, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Any:
    """A one-dimensional tensor that shares the memory of a bytes-like object."""
    size = _bytes_of(buffer)
    if size is None:
        raise ValueError(f"frombuffer: object does not implement Python buffer protocol: {type(buffer).__name__}")
    if not size or not count:
        raise ValueError(f"frombuffer: both buffer length ({size}) and count ({count}) must not be 0")
    out = tensor_over(np.frombuffer(buffer, dtype_of(dtype).numpy, count, offset))
    return out.requires_grad_() if requires_grad else out


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """A tensor that shares the memory of another library's."""
    if device is not None and transfer.place(device) is not cpu:
        raise NotImplementedError("from_dlpack: only memory of the CPU is shared so far; use .to(device) on the result")
    shared = dlpack.import_shared(ext_tensor)
    if shared.device[0] != dlpack.CPU[0]:
        raise BufferError(f"from_dlpack: memory on device {shared.device} is not supported; move it to the CPU first")
    meta = meta_of(shared.shape, shared.element, shared.strides)
    out = dispatch.new_tensor(Storage(meta.extent * shared.element.itemsize, shared.address, shared.owner), shared.address, meta)
    return out.clone() if copy else out


def legacy_tensor(args: tuple[Any, ...], kind: dtype) -> Any:
    """``torch.Tensor(2, 3)``: undefined elements; ``torch.Tensor([1, 2])``: the data."""
    if len(args) == 1 and isinstance(args[0], TensorBase):
        return args[0].to(kind)  # type: ignore[attr-defined]
    if len(args) == 1 and isinstance(args[0], (list, tuple, np.ndarray)) and not type(args[0]).__name__ == "Size":
        return tensor(args[0], dtype=kind)
    return empty_tensor(_shape("Tensor", args), kind) if args else empty_tensor((0,), kind)


# -- one value ------------------------------------------------------------------------------------------
def empty(*size: Any, dtype: dtype | None = None, requires_grad: bool = False, **options: Any) -> Any:
    """Undefined elements."""
    shape = _named_shape("empty", size, options)
    order = memory_order("empty", options.pop("memory_format"), len(shape)) if "memory_format" in options else None
    if order is not None:
        return empty_permuted(shape, order, dtype=dtype, requires_grad=requires_grad, **options)
    device = options["device"] = transfer.place(options.get("device"))
    return finished("empty", empty_tensor(shape, chosen_type("empty", dtype, options), device), requires_grad, **options)


def zeros(*size: Any, dtype: dtype | None = None, requires_grad: bool = False, **options: Any) -> Any:
    """Zeros.

    >>> import flambeau as torch
    >>> torch.zeros(2, 3, dtype=torch.int64)
    tensor([[0, 0, 0],
            [0, 0, 0]])
    """
    return _filled("zeros", _named_shape("zeros", size, options), 0, chosen_type("zeros", dtype, options), requires_grad, options)


def ones(*size: Any, dtype: dtype | None = None, requires_grad: bool = False, **options: Any) -> Any:
    """Ones."""
    return _filled("ones", _named_shape("ones", size, options), 1, chosen_type("ones", dtype, options), requires_grad, options)


def _filled(operator: str, shape: tuple[int, ...], value: Any, kind: dtype, requires_grad: bool, options: dict[str, Any]) -> Any:
    """``value`` everywhere, written where the tensor is to be."""
    device = options["device"] = transfer.place(options.get("device"))
    out = ops.full(shape, value, kind) if device is cpu else empty_tensor(shape, kind, device).fill_(value)
    return finished(operator, out, requires_grad, **options)


def _named_shape(operator: str, size: tuple[Any, ...], options: dict[str, Any]) -> tuple[int, ...]:
    """The sizes, also when they were given as ``size=``."""
    return _shape(operator, (options.pop("size"),) if "size" in options else size)


def full(size: Any, fill_value: Any, *, dtype: dtype | None = None, requires_grad: bool = False, **options: Any) -> Any:
    """``fill_value`` everywhere; its type decides the dtype unless given."""
    value = fill_value.item() if isinstance(fill_value, TensorBase) else fill_value  # type: ignore[attr-defined]
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"full(): argument 'size' must be tuple of ints, not {type(size).__name__}")
    kind = chosen_type("full", dtype, options, number_type(value))
    value = float(value) if isinstance(value, int) and value >= 1 << 63 and kind.is_inexact else value
    return _filled("full", _shape("full", (size,)), value, kind, requires_grad, options)


def scalar_tensor(s: Any, *, dtype: dtype | None = None, requires_grad: bool = False, **options: Any) -> Any:
    """A 0-d tensor with one number, of the default dtype unless given."""
    return full((), s, dtype=dtype_of(dtype) or default_float(), requires_grad=requires_grad, **options)


def empty_strided(size: Any, stride: Any, *, dtype: dtype | None = None, requires_grad: bool = False, **options: Any) -> Any:
    """Undefined elements with the given strides."""
    device = options["device"] = transfer.place(options.get("device"))
    shape, strides = _shape("empty_strided", (size,)), tuple(int(s) for s in stride)
    if len(shape) != len(strides) or any(s < 0 for s in strides):
        raise RuntimeError(f"empty_strided: needs a stride of 0 or more for each size, got size {list(size)} and stride {list(stride)}")
    meta = meta_of(shape, dtype_of(dtype) or default_float(), strides, device)
    memory = allocate(meta.device, meta.extent * meta.dtype.itemsize)
    return finished("empty_strided", dispatch.new_tensor(memory, memory.address, meta), requires_grad, **options)


def empty_permuted(size: Any, physical_layout: Any, *, dtype: dtype | None = None, requires_grad: bool = False, **options: Any) -> Any:
    """Undefined elements, the dimensions in the order ``physical_layout`` in memory."""
    shape = _shape("empty_permuted", (size,))
    if sorted(physical_layout) != list(range(len(shape))):
        raise RuntimeError(
            f"empty_permuted: physical_layout must be a permutation of the {len(shape)} dimensions, got {list(physical_layout)}"
        )
    return empty_strided(shape, _strides_in_order(shape, physical_layout), dtype=dtype, requires_grad=requires_grad, **options)


def _strides_in_order(shape: Sequence[int], order: Sequence[int]) -> list[int]:
    strides, running = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = running
        running *= max(shape[axis], 1)
    return strides


# -- like another tensor --------------------------------------------------------------------------------
def empty_like(input: Any, *, dtype: dtype | None = None, requires_grad: bool = False, memory_format: Any = None, **options: Any) -> Any:
    """Undefined elements in the shape of ``input``, and in its order of dimensions if it has no gaps."""
    meta = input.meta
    kind = dtype_of(dtype) or meta.dtype
    device = options["device"] = transfer.place(options.get("device") or meta.device)
    wanted = memory_order("empty_like", memory_format, len(meta.shape))
    if wanted is None and (meta.contiguous or memory_format is contiguous_format):
        out = empty_tensor(meta.shape, kind, device)
    else:
        order = wanted or sorted(range(len(meta.shape)), key=lambda i: -meta.strides[i])
        out = empty_strided(meta.shape, _strides_in_order(meta.shape, order), dtype=kind, device=device)
    if dispatch.level_of([input]):
        out = input.alike(out)
    return finished("empty_like", out, requires_grad, **options)


def zeros_like(input: Any, *, dtype: dtype | None = None, requires_grad: bool = False, memory_format: Any = None, **options: Any) -> Any:
    """Zeros in the shape and dtype of ``input``."""
    if input.meta.contiguous and memory_format is None and input.meta.device is cpu and not dispatch.level_of([input]):
        out = ops.zeros(input.meta.shape, dtype_of(dtype) or input.meta.dtype)
        options["device"] = options.get("device") or cpu
        return finished("zeros_like", out, requires_grad, **options)
    out = empty_like(input, dtype=dtype, memory_format=memory_format, **options).zero_()
    return out.requires_grad_() if requires_grad else out


def ones_like(input: Any, *, dtype: dtype | None = None, requires_grad: bool = False, memory_format: Any = None, **options: Any) -> Any:
    """Ones in the shape and dtype of ``input``."""
    out = empty_like(input, dtype=dtype, memory_format=memory_format, **options).fill_(1)
    return out.requires_grad_() if requires_grad else out


def full_like(
    input: Any, fill_value: Any, *, dtype: dtype | None = None, requires_grad: bool = False, memory_format: Any = None, **options: Any
) -> Any:
    """``fill_value`` in the shape and dtype of ``input``."""
    out = empty_like(input, dtype=dtype, memory_format=memory_format, **options).fill_(fill_value)
    return out.requires_grad_() if requires_grad else out


# -- ranges ---------------------------------------------------------------------------------------------
def _number(value: Any) -> Any:
    return value.item() if isinstance(value, (TensorBase, np.generic)) else value  # type: ignore[attr-defined]


def _whole(value: Any) -> Any:
    return value if isinstance(value, Expression) else int(value)


def arange(*bounds: Any, dtype: dtype | None = None, requires_grad: bool = False, **options: Any) -> Any:
    """The numbers from ``start`` (0) up to but not including ``end`` by ``step`` (1): int64 if all are integers.

    >>> import flambeau as torch
    >>> torch.arange(1, 10, 3)
    tensor([1, 4, 7])
    """
    names = ("end",) if len(bounds) == 1 else ("start", "end", "step")
    given = dict(zip(names, bounds, strict=False)) | {n: options.pop(n) for n in ("start", "end", "step") if n in options}
    if "end" not in given:
        raise TypeError("arange(): missing the argument 'end'")
    start, end, step = (_number(given.get(n, d)) for n, d in (("start", 0), ("end", 0), ("step", 1)))
    if not all(isinstance(v, Expression) or math.isfinite(v) for v in (start, end)):
        raise RuntimeError(f"arange: unsupported range: {start} -> {end}")
    if step == 0:
        raise RuntimeError("arange: step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError(f"arange: upper bound and lower bound inconsistent with step sign: {start} to {end} by {step}")
    kind = chosen_type("arange", dtype, options, None if any(isinstance(v, float) for v in (start, end, step)) else dtypes.int64)
    if kind is dtypes.bool_:
        raise NotImplementedError("arange: not implemented for 'Bool'; make int64 numbers and compare them")
    if kind is dtypes.int64:
        start, end, step = _whole(start), _whole(end), _whole(step)
    if step < 0:  # sizes are divided by positive numbers only
        start, end, step = (int(v) if isinstance(v, Expression) else v for v in (start, end, step))
    whole = not any(isinstance(v, float) for v in (start, end, step))
    count = as_size(-((start - end) // step) if whole else math.ceil((end - start) / step))
    if not kind.is_floating_point:  # as in torch, the bounds as given tell how many numbers there are
        start, step = _whole(start), _whole(step)
    return finished("arange", ops.arange(start, step, count, kind), requires_grad, **options)


def range_(start: Any = 0, end: Any = 0, step: Any = 1, *, dtype: dtype | None = None, requires_grad: bool = False, **options: Any) -> Any:
    """The numbers from ``start`` to ``end`` inclusive; deprecated, as in torch, in favour of ``arange``."""
    warnings.warn(
        "torch.range is deprecated because its behavior is inconsistent with Python's range builtin: use torch.arange.", stacklevel=2
    )
    if step == 0 or (end - start) * step < 0:
        raise RuntimeError(f"range: upper bound and lower bound inconsistent with step sign: {start} to {end} by {step}")
    count = int((end - start) / step) + 1
    return finished("range", ops.arange(start, step, count, chosen_type("range", dtype, options)), requires_grad, **options)


def _check_steps(operator: str, start: Any, end: Any, steps: Any) -> None:
    if not isinstance(steps, (int, Expression)):
        raise TypeError(f"{operator}(): argument 'steps' must be int, not {type(steps).__name__}")
    for value in (start, end):
        if isinstance(value, TensorBase) and value.meta.shape:
            raise RuntimeError(f"{operator} only supports 0-dimensional start and end tensors, but got shape {list(value.meta.shape)}")


def linspace(start: Any, end: Any, steps: int, *, dtype: dtype | None = None, requires_grad: bool = False, **options: Any) -> Any:
    """``steps`` evenly spaced numbers from ``start`` to ``end``, both included."""
    _check_steps("linspace", start, end, steps)
    if steps < 0:
        raise RuntimeError(f"linspace: number of steps must be non-negative, got {steps}")
    first, last = _number(start), _number(end)
    kind = chosen_type("linspace", dtype, options, default_float().to_complex() if isinstance(first + last, complex) else None)
    return finished("linspace", ops.linspace(first, last, steps, kind), requires_grad, **options)


def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: dtype | None = None, requires_grad: bool = False, **options: Any
) -> Any:
    """base ** start to base ** end, evenly spaced in the exponent."""
    _check_steps("logspace", start, end, steps)
    if steps < 0:
        raise RuntimeError(f"logspace: number of steps must be non-negative, got {steps}")
    out = ops.logspace(_number(start), _number(end), steps, base, chosen_type("logspace", dtype, options))
    return finished("logspace", out, requires_grad, **options)


def eye(n: int, m: int | None = None, *, dtype: dtype | None = None, requires_grad: bool = False, **options: Any) -> Any:
    """Ones on the main diagonal of an [n, m] matrix."""
    if n < 0 or (m is not None and m < 0):
        raise RuntimeError(f"eye: n and m must be greater or equal to 0, got {n} and {m}")
    return finished("eye", ops.eye(n, m, chosen_type("eye", dtype, options)), requires_grad, **options)


def _triangle_count(rows: int, columns: int, offset: int) -> int:
    """How many elements of a matrix lie on and below a diagonal; RuntimeError where it has fewer than no rows or columns."""
    if rows < 0 or columns < 0:
        raise RuntimeError(f"row and col must be non-negative, got {rows} and {columns}")
    return sum(min(max(row + offset + 1, 0), columns) for row in range(rows))


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: dtype = dtypes.int64, **options: Any) -> Any:
    """Rows and columns [2, n] of the elements on and below a diagonal."""
    return finished("tril_indices", ops.tril_indices(row, col, offset, _triangle_count(row, col, offset), dtype), **options)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: dtype = dtypes.int64, **options: Any) -> Any:
    """Rows and columns [2, n] of the elements on and above a diagonal."""
    count = row * col - _triangle_count(row, col, offset - 1)
    return finished("triu_indices", ops.triu_indices(row, col, offset, count, dtype), **options)


def from_file(
    filename: str, shared: bool | None = None, size: int = 0, *, dtype: dtype | None = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """A vector over the first ``size`` elements of a file; if ``shared`` changes go to the file, which grows as needed."""
    kind = default_float() if dtype is None else dtype_of(dtype)
    length = size * kind.itemsize
    if shared:
        with open(filename, "ab") as file:
            file.truncate(max(length, file.tell()))
    elif os.path.getsize(filename) < length:
        raise RuntimeError(f"from_file: {filename} has {os.path.getsize(filename)} bytes, and {size} elements of {kind} need {length}")
    held = np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(length,)) if length else np.empty(0, np.uint8)
    return finished("from_file", tensor_over(held).view(kind), requires_grad, None, device, strided, pin_memory)
