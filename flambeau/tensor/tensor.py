"""The Tensor class: autograd state, exchange with Python and numpy; its operators come from the method classes."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from flambeau.core import dtypes
from flambeau.core.context import context
from flambeau.core.device import Device, cpu
from flambeau.core.dtypes import dtype
from flambeau.core.shape import Size
from flambeau.interp.eager import allocate
from flambeau.ops.declare import ALL
from flambeau.runtime.storage import Storage, meta_of
from flambeau.tensor import dispatch, transfer
from flambeau.tensor.autograd import backward as run_autograd
from flambeau.tensor.base import TensorBase
from flambeau.tensor.numbers import read_number
from flambeau.tensor.tape import Entry

_hook_ids = itertools.count()


class HookHandle:
    """Removes a hook again; also a context manager."""

    def __init__(self, hooks: dict[int, Any], key: int) -> None:
        self._hooks = hooks
        self.id = key

    def remove(self) -> None:
        self._hooks.pop(self.id, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class TensorCore(TensorBase):
    """Everything about a tensor that is not an operator."""

    __slots__ = ()

    # -- metadata ---------------------------------------------------------------------------------------
    @property
    def shape(self) -> Size:
        """The sizes of the axes, a ``torch.Size``."""
        return Size(self.meta.shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one axis."""
        if dim is None:
            return Size(self.meta.shape)
        return self.meta.shape[_axis(dim, self.meta.shape)]

    @property
    def dtype(self) -> dtype:
        """The element type."""
        return self.meta.dtype

    @property
    def device(self) -> Device:
        """Where the memory is."""
        return self.meta.device

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.meta.shape)

    def dim(self) -> int:
        """The number of axes."""
        return len(self.meta.shape)

    def numel(self) -> int:
        """The number of elements."""
        return self.meta.numel

    nelement = numel

    def stride(self, dim: int | None = None) -> Any:
        """The strides in elements, or that of one axis."""
        return self.meta.strides if dim is None else self.meta.strides[_axis(dim, self.meta.shape)]

    def storage_offset(self) -> int:
        """How many elements into its storage the tensor starts."""
        return self.storage_offset_elements

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.meta.dtype.itemsize

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.meta.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.meta.nbytes

    def data_ptr(self) -> int:
        """The address of the first element."""
        self.materialize()
        return self.address

    def is_floating_point(self) -> bool:
        """Whether the dtype is a floating point type."""
        return self.meta.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the dtype is a complex type."""
        return self.meta.dtype.is_complex

    @property
    def _version(self) -> int:
        return self.memory.version

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is on a GPU."""
        return self.meta.device.type == "cuda"

    @property
    def is_meta(self) -> bool:
        """Whether there is no memory: the device is ``meta``."""
        return self.meta.device.type == "meta"

    def materialize(self) -> None:
        """Somebody looks at the contents: a capture ends here, since what is done with them cannot be replayed."""
        if context.capture is not None:
            context.capture.look(self)

    # -- autograd ---------------------------------------------------------------------------------------
    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to the tensor."""
        return dispatch.wants_gradient(self)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether gradients flow to a leaf; returns self."""
        if requires_grad and not self.meta.dtype.is_inexact:
            raise RuntimeError(f"only Tensors of floating point and complex dtype can require gradients, got {self.meta.dtype}")
        if self.entry is not None and not requires_grad:
            raise RuntimeError("you can only change requires_grad flags of leaf variables. Use detach() to stop the gradient at a result.")
        self._requires_grad = bool(requires_grad)
        return self

    @property
    def grad(self) -> Any:
        """The gradient that backward accumulated, or None."""
        if context.capture is not None:
            context.capture.gradient_read(self)
        return self._grad

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None:
            if not isinstance(value, TensorBase):
                raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}")
            if value.meta.shape != self.meta.shape:
                raise RuntimeError(
                    f"assigned grad has data of a different size: got {list(value.meta.shape)}, need {list(self.meta.shape)}"
                )
            if value.meta.dtype is not self.meta.dtype:
                raise RuntimeError(f"assigned grad has data of a different type: got {value.meta.dtype}, need {self.meta.dtype}")
        if context.capture is not None:
            context.capture.gradient_written(self)
        self._grad = value

    @property
    def grad_fn(self) -> Entry | None:
        """The tape entry that made the tensor; None for a leaf."""
        dispatch.wants_gradient(self)
        return self.entry

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operator made the tensor."""
        return self.entry is None

    @property
    def output_nr(self) -> int:
        return self.output

    def backward(self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None) -> None:
        """Accumulate the gradients of this tensor into the leaves it was computed from.

        ``gradient`` has the tensor's shape; a one-element tensor needs none. RuntimeError when nothing was recorded.
        """
        targets = None if inputs is None else [inputs] if isinstance(inputs, TensorBase) else list(inputs)
        run_autograd([self], [gradient], retain_graph, create_graph, targets)

    def detach(self) -> Any:
        """The same memory without history."""
        if self.memory.pending is not None:
            return context.capture.alias(self)
        return dispatch.another(self)

    def detach_(self) -> Self:
        """Forget the history, in place."""
        self.entry, self.output, self._requires_grad, self.view_of = None, 0, False, None
        return self

    @property
    def data(self) -> Any:
        """The same memory without history, whose changes backward does not notice; assigning makes this tensor use the other's memory."""
        out = self.detach()
        out.seen_version = -1
        return out

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, TensorBase):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        self.memory, self.address, self.meta = value.memory, value.address, value.meta

    def retain_grad(self) -> None:
        """Keep the gradient of this result in ``.grad`` during backward."""
        if not self.requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if self.entry is not None and not self.retains:
            self.retains = True
            self.register_hook(self._keep_gradient)

    def _keep_gradient(self, gradient: Any) -> None:
        held = self
        if context.capture is not None:
            held = context.capture.ways.session.trace.stand_in(self)
            context.capture.gradient_read(held)
        held._grad = gradient if held._grad is None else held._grad + gradient

    @property
    def retains_grad(self) -> bool:
        """Whether ``retain_grad`` was called on this result."""
        return self.retains

    def register_hook(self, hook: Callable[[Any], Any]) -> HookHandle:
        """Call ``hook(grad)`` whenever the tensor's gradient is computed; what it returns replaces the gradient."""
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if self.entry is not None:
            hooks = self.entry.output_hooks.setdefault(self.output, {})
        else:
            hooks = self.hooks = self.hooks if self.hooks is not None else {}
        key = next(_hook_ids)
        hooks[key] = hook
        return HookHandle(hooks, key)

    # -- Python values ----------------------------------------------------------------------------------
    def item(self) -> Any:
        """The only element as a Python number; RuntimeError for more or fewer elements."""
        if self.meta.numel != 1:
            raise RuntimeError(
                f"a Tensor with {self.meta.numel} elements cannot be converted to Scalar; index it down to one element first"
            )
        self.materialize()
        meta = self.meta
        return read_number(self.address, meta.dtype) if meta.device is cpu else transfer.read_element(self.address, meta.dtype, meta.device)

    def tolist(self) -> Any:
        """Nested lists of Python numbers; a number for a 0-d tensor."""
        array = self.array()
        return (array.astype(np.float32) if self.meta.dtype is dtypes.bfloat16 or self.meta.dtype.is_float8 else array).tolist()

    def array(self) -> Any:
        """A numpy array over the tensor's memory, or of a copy of what is on a GPU, whatever autograd says; bfloat16 in ml_dtypes' type."""
        self.materialize()
        meta = self.meta
        if meta.device is not cpu:
            return transfer.to_device(self.detach(), cpu).array()
        if meta.numel == 0:
            return np.empty(meta.shape, meta.dtype.numpy)
        buffer = (ctypes.c_char * (meta.extent * meta.dtype.itemsize)).from_address(self.address)
        buffer._owner = self.memory  # type: ignore[attr-defined]
        kind = np.dtype(np.uint8) if meta.dtype.is_float8 else meta.dtype.numpy  # numpy takes the others' names apart, and knows no f1
        flat: Any = np.frombuffer(buffer, kind)  # type: ignore[call-overload]
        strides = [s * meta.dtype.itemsize for s in meta.strides]
        strided: Any = np.lib.stride_tricks.as_strided(flat, meta.shape, strides)
        return strided if kind is meta.dtype.numpy else strided.view(meta.dtype.numpy)

    def numpy(self, *, force: bool = False) -> Any:
        """A numpy array that shares the memory; ``force`` detaches first."""
        if self.requires_grad and not force:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        if self.meta.device is not cpu and not force:
            raise TypeError(
                f"can't convert {self.meta.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
            )
        if self.meta.dtype is dtypes.bfloat16 or self.meta.dtype.is_float8:
            name = self.meta.dtype.scalar_name
            raise TypeError(f"Got unsupported ScalarType {name}: numpy has no such type. Use tensor.float().numpy() instead.")
        return self.array()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __bool__(self) -> bool:
        if self.meta.numel != 1:
            kind = "more than one value" if self.meta.numel else "no values"
            raise RuntimeError(f"Boolean value of Tensor with {kind} is ambiguous; use .any() or .all()")
        return bool(self.item())

    def _real_item(self) -> Any:
        """The only element; of a complex tensor its real part, RuntimeError where that is not all."""
        if self.meta.numel != 1:
            raise ValueError(f"only one element tensors can be converted to Python scalars, got shape {list(self.meta.shape)}")
        value = self.item()
        if isinstance(value, complex):
            if value.imag:
                raise RuntimeError(f"value cannot be converted to type double without overflow: {value} is not real")
            return value.real
        return value

    def __int__(self) -> int:
        return int(self._real_item())

    def __float__(self) -> float:
        return float(self._real_item())

    def __index__(self) -> int:
        if self.meta.dtype.is_inexact or self.meta.numel != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __len__(self) -> int:
        if not self.meta.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.meta.shape[0]

    def __hash__(self) -> int:
        return id(self)

    def clone_contiguous(self) -> Any:
        """A row-major copy."""
        return ALL["clone"](self)


def _axis(dim: int, shape: Sequence[int]) -> int:
    rank = max(len(shape), 1)
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    return dim % rank


def empty_tensor(shape: tuple[int, ...], kind: dtype, device: Device = cpu) -> Any:
    """A tensor with undefined contents."""
    if context.capture is not None and context.capture.takes(device):
        return context.capture.zeros(shape, kind, device)
    meta = meta_of(shape, kind, None, device)
    memory = Storage(meta.nbytes) if device is cpu else allocate(device, meta.nbytes)
    return dispatch.new_tensor(memory, memory.address, meta)


def tensor_over(array: Any) -> Any:
    """A tensor that shares a numpy array's memory."""
    if context.capture is not None:
        context.capture.flush()  # the array may hold something else at the next call
    kind = dtypes.BY_NUMPY.get(array.dtype)
    if kind is None:
        raise TypeError(
            f"can't convert np.ndarray of type {array.dtype}. The only supported types are: float64, float32, float16, int64, "
            "int32, int16, "
            "int8, uint8, and bool."
        )
    if any(s < 0 or s % array.itemsize for s in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not supported; .copy() it"
        )
    strides = tuple(s // array.itemsize for s in array.strides)
    meta = meta_of(tuple(array.shape), kind, strides)
    address = array.__array_interface__["data"][0]
    return dispatch.new_tensor(Storage(array.nbytes, address, array), address, meta)
