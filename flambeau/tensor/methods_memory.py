"""Methods about types, copies and memory: conversion, filling, new tensors alike, pickling, exchange with other libraries."""

from __future__ import annotations

import ctypes
import math
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

from flambeau import ops
from flambeau.core import dtypes
from flambeau.core.context import context
from flambeau.core.device import Device, cpu
from flambeau.core.dtypes import dtype, dtype_of
from flambeau.core.layout import channels_last, contiguous_format, memory_order, preserve_format
from flambeau.ops.declare import default_float
from flambeau.runtime.shared_block import SharedBlock
from flambeau.runtime.storage import Storage, TensorMeta, contiguous_strides, meta_of
from flambeau.tensor import creation, dispatch, dlpack, functions_random, printing, transfer
from flambeau.tensor.arguments import given_sizes
from flambeau.tensor.base import TensorBase, from_memory
from flambeau.tensor.dispatch import call_into
from flambeau.tensor.storage_view import UntypedStorage
from flambeau.tensor.transfer import is_dense
from flambeau.tensor.typed_tensors import CudaTensorType, TensorType

if TYPE_CHECKING:
    from flambeau.tensor.tensor_class import Tensor

_TYPE_NAMES = {
    "float32": "FloatTensor", "float64": "DoubleTensor", "float16": "HalfTensor", "bfloat16": "BFloat16Tensor", "int64": "LongTensor",
    "int32": "IntTensor", "int16": "ShortTensor", "int8": "CharTensor", "uint8": "ByteTensor", "bool": "BoolTensor",
    "complex64": "ComplexFloatTensor", "complex128": "ComplexDoubleTensor",
}  # fmt: skip
_TYPES_BY_NAME = {f"torch.{text}": dtypes.by_name(name) for name, text in _TYPE_NAMES.items()}


class MemoryMethods(TensorBase):
    """Methods of Tensor about types, copies and memory."""

    __slots__ = ()

    # -- conversion -------------------------------------------------------------------------------------
    def to(
        self, *args: Any, device: Any = None, dtype: dtype | None = None, non_blocking: bool = False, copy: bool = False,
        memory_format: Any = None,
    ) -> Tensor:  # fmt: skip
        """The tensor with another dtype, or itself when nothing changes: ``to(dtype)``, ``to(device)``, ``to(other)``.

        ``copy`` asks for a copy in any case.
        """
        wanted, target, copy = _conversion(args, device, dtype, copy)
        out: Any = self
        if target is not None and target != self.meta.device:
            out, copy = transfer.to_device(self, target), False
        if wanted is not None and wanted is not self.meta.dtype:
            out, copy = ops.to_dtype(self, wanted), False
        if memory_format is not None:
            laid = _in_order(out, memory_order("to", memory_format, len(self.meta.shape)), memory_format)
            out, copy = laid, copy and laid is out
        return out.clone() if copy else out

    def float(self, memory_format: Any = preserve_format) -> Tensor:
        return _cast(self, dtypes.float32, memory_format)

    def double(self, memory_format: Any = preserve_format) -> Tensor:
        return _cast(self, dtypes.float64, memory_format)

    def cfloat(self, memory_format: Any = preserve_format) -> Tensor:
        return _cast(self, dtypes.complex64, memory_format)

    def cdouble(self, memory_format: Any = preserve_format) -> Tensor:
        return _cast(self, dtypes.complex128, memory_format)

    def half(self, memory_format: Any = preserve_format) -> Tensor:
        return _cast(self, dtypes.float16, memory_format)

    def bfloat16(self, memory_format: Any = preserve_format) -> Tensor:
        return _cast(self, dtypes.bfloat16, memory_format)

    def long(self, memory_format: Any = preserve_format) -> Tensor:
        return _cast(self, dtypes.int64, memory_format)

    def int(self, memory_format: Any = preserve_format) -> Tensor:
        return _cast(self, dtypes.int32, memory_format)

    def short(self, memory_format: Any = preserve_format) -> Tensor:
        return _cast(self, dtypes.int16, memory_format)

    def char(self, memory_format: Any = preserve_format) -> Tensor:
        return _cast(self, dtypes.int8, memory_format)

    def byte(self, memory_format: Any = preserve_format) -> Tensor:
        return _cast(self, dtypes.uint8, memory_format)

    def bool(self, memory_format: Any = preserve_format) -> Tensor:
        return _cast(self, dtypes.bool_, memory_format)

    def type(self, dtype: dtype | TensorType | str | None = None, non_blocking: Any = False) -> Any:
        """The name of the tensor's type, such as "torch.FloatTensor"; with ``dtype`` the tensor converted."""
        if dtype is None:
            return f"torch.{_TYPE_NAMES[self.meta.dtype.name]}"
        if isinstance(dtype, str):
            if dtype not in _TYPES_BY_NAME:
                raise ValueError(f"type: invalid type: '{dtype}'; needs one of {', '.join(_TYPES_BY_NAME)}")
            dtype = _TYPES_BY_NAME[dtype]
        if isinstance(dtype, CudaTensorType):
            return self.to(Device("cuda"), dtype.kind)
        return self.to(dtype.kind if isinstance(dtype, TensorType) else dtype)

    def type_as(self, other: Tensor) -> Tensor:
        return self.to(other.meta.dtype)

    def cpu(self, memory_format: Any = preserve_format) -> Tensor:
        return self.to(cpu, memory_format=memory_format)

    def cuda(self, device: Any = None, non_blocking: Any = False, memory_format: Any = preserve_format) -> Tensor:
        return self.to(Device("cuda") if device is None else device, memory_format=memory_format)

    def pin_memory(self, device: Any = None) -> Tensor:
        raise RuntimeError("pin_memory: there is no accelerator to pin memory for; use the tensor as it is")

    # -- copies -----------------------------------------------------------------------------------------
    def contiguous(self, memory_format: Any = contiguous_format) -> Tensor:
        """The tensor itself if its elements lie row-major (or in the order of ``memory_format``), else a copy that does."""
        return _in_order(self, memory_order("contiguous", memory_format, len(self.meta.shape)), contiguous_format)

    def is_contiguous(self, memory_format: Any = contiguous_format) -> Any:
        """Whether the elements lie row-major (or in the order of ``memory_format``) without gaps."""
        if memory_format is None or memory_format is contiguous_format:
            return self.meta.contiguous
        if len(self.meta.shape) != (4 if memory_format is channels_last else 5):
            return False
        order = memory_order("is_contiguous", memory_format, len(self.meta.shape))
        return order is not None and _lies_in(self.meta, order)

    def clone(self, *, memory_format: Any = None) -> Tensor:
        """A copy in memory of its own, with the strides of a tensor that has no gaps."""
        order = None if memory_format is None else memory_order("clone", memory_format, len(self.meta.shape))
        if order is not None:
            return _laid_out(self, order)
        row_major = self.meta.contiguous or not is_dense(self.meta) or memory_format is contiguous_format
        return ops.clone(self) if row_major else ops.to_dtype(self, self.meta.dtype)

    def copy_(self, other: Any, non_blocking: Any = False) -> Self:
        """Write ``other``, converted and broadcast, into this tensor."""
        if isinstance(other, TensorBase) and other.meta.device != self.meta.device:
            other = transfer.to_device(other, self.meta.device)
        return call_into(ops.assign, self, (self, other), {})

    def fill_(self, value: Any) -> Self:
        if isinstance(value, TensorBase) and value.meta.shape:
            raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {len(value.meta.shape)} dimensions.")
        if isinstance(value, complex) and not self.meta.dtype.is_complex:
            raise RuntimeError(f"fill_: a complex number cannot be converted to {self.meta.dtype} without overflow; give its real part")
        return call_into(ops.assign, self, (self, value), {})

    def zero_(self) -> Self:
        return call_into(ops.assign, self, (self, 0), {})

    def resize_(self, *given: Any, size: Any = None, memory_format: Any = None) -> Self:
        """Change the shape, with new memory where the old does not suffice; new elements are undefined."""
        if context.grad_enabled and self._requires_grad:
            raise RuntimeError("cannot resize variables that require grad")
        if self.meta.device is not cpu:
            raise NotImplementedError(f"resize_: a tensor on {self.meta.device} cannot be resized; make a new one and copy_() into it")
        shape = tuple(int(n) for n in given_sizes(given, size))
        if any(n < 0 for n in shape):
            raise RuntimeError(f"resize_: needs sizes of 0 or more, got {list(shape)}")
        wanted = meta_of(shape, self.meta.dtype)
        if context.capture is not None and (real := context.capture.left_with(self, "resize_() gives a tensor other memory")) is not self:
            real.resize_(wanted.shape)
            self.memory, self.address, self.meta = real.memory, real.address, real.meta
            return self
        offset = self.address - self.memory.address
        if offset + wanted.nbytes > self.memory.nbytes:
            memory = Storage(offset + wanted.nbytes)
            ctypes.memmove(memory.address, self.memory.address, self.memory.nbytes)
            self.memory, self.address = memory, memory.address + offset
        self.meta = wanted
        return self

    def resize(self, *sizes: Any) -> Tensor:
        """Deprecated: the same elements in another shape, as ``reshape``."""
        warnings.warn("non-inplace resize is deprecated", FutureWarning, stacklevel=2)
        shape = given_sizes(sizes)
        if math.prod(shape) != self.meta.numel:
            raise RuntimeError(f"resize: the shape {list(shape)} does not hold the {self.meta.numel} elements of the tensor")
        return self.reshape(shape)  # type: ignore[attr-defined]

    def resize_as(self, tensor: Tensor) -> Tensor:
        """Deprecated: the same elements in the shape of another tensor."""
        return self.resize(*tensor.meta.shape)

    def resize_as_(self, the_template: Tensor, *, memory_format: Any = None) -> Self:
        return self.resize_(the_template.meta.shape)

    def set_(self, source: Any = None, storage_offset: Any = 0, size: Any = None, stride: Any = None) -> Self:
        """Use the memory of ``source``, a tensor or a storage."""
        if isinstance(source, UntypedStorage):
            count = source.nbytes() // self.meta.dtype.itemsize
            shape = (count,) if size is None else tuple(size)
            strides = contiguous_strides(shape) if stride is None else tuple(stride)
            if len(shape) != len(strides) or min((*shape, *strides, storage_offset), default=0) < 0:
                raise RuntimeError(f"set_: needs sizes, strides and an offset of 0 or more, got {shape}, {strides}, {storage_offset}")
            meta = meta_of(shape, self.meta.dtype, strides, source.device)
            if meta.numel and storage_offset + meta.extent > count:
                raise NotImplementedError(
                    f"set_: size {shape}, stride {strides} and offset {storage_offset} reach beyond the {count} elements of the storage, "
                    "which does not grow; make a larger one"
                )
            self.memory, self.meta = source.memory, meta
            self.address = source.memory.address + storage_offset * meta.dtype.itemsize
            return self
        source = creation.empty(0, dtype=self.meta.dtype, device=self.meta.device) if source is None else source
        if source.meta.dtype is not self.meta.dtype:
            raise RuntimeError(f"set_: could not set tensor of type {source.meta.dtype} to a tensor of type {self.meta.dtype}")
        self.memory, self.address, self.meta = source.memory, source.address, source.meta
        return self

    # -- new tensors alike ------------------------------------------------------------------------------
    def new_tensor(
        self, data: Any, *, dtype: dtype | None = None, device: Any = None, requires_grad: Any = False
    ) -> Tensor:
        return creation.tensor(data, **self._like(dtype, device), requires_grad=requires_grad)

    def _like(self, kind: Any, device: Any) -> dict[str, Any]:
        """The dtype and device of a new tensor, which are this one's where none are given."""
        return {"dtype": dtype_of(kind) or self.meta.dtype, "device": device or self.meta.device}

    def new_empty(self, *size: Any, dtype: dtype | None = None, device: Any = None, requires_grad: Any = False, **options: Any) -> Tensor:
        return creation.empty(
            given_sizes(size), **self._like(dtype, device), requires_grad=requires_grad, **options
        )  # fmt: skip

    def new_empty_strided(
        self, size: Any, stride: Any, dtype: dtype | None = None, device: Any = None, requires_grad: Any = False, **options: Any
    ) -> Tensor:
        return creation.empty_strided(
            size, stride, **self._like(dtype, device), requires_grad=requires_grad, **options
        )  # fmt: skip

    def new_zeros(self, *size: Any, dtype: dtype | None = None, device: Any = None, requires_grad: Any = False, **options: Any) -> Tensor:
        return creation.zeros(
            given_sizes(size), **self._like(dtype, device), requires_grad=requires_grad, **options
        )  # fmt: skip

    def new_ones(self, *size: Any, dtype: dtype | None = None, device: Any = None, requires_grad: Any = False, **options: Any) -> Tensor:
        return creation.ones(
            given_sizes(size), **self._like(dtype, device), requires_grad=requires_grad, **options
        )  # fmt: skip

    def new_full(
        self, size: Any, fill_value: Any, *, dtype: dtype | None = None, device: Any = None, requires_grad: Any = False, **options: Any
    ) -> Tensor:
        return creation.full(
            size, fill_value, **self._like(dtype, device), requires_grad=requires_grad, **options
        )  # fmt: skip

    def new(self, *args: Any) -> Tensor:
        return creation.legacy_tensor(args, self.meta.dtype)

    # -- random numbers ---------------------------------------------------------------------------------
    def uniform_(self, from_: Any = 0.0, to: Any = 1.0, *, generator: Any = None, **names: Any) -> Self:
        """Fill with uniform numbers in [from, to)."""
        low = names.pop("from", from_)
        if names:
            raise TypeError(f"uniform_() got an unexpected keyword argument '{next(iter(names))}'")
        if not low <= to:
            raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low} > to={to}")
        if self.meta.dtype.is_complex:
            ops.view_as_real(self).uniform_(low, to, generator=generator)
            return self
        return functions_random.drawn(generator, ops.uniform_, self, low, to)

    def normal_(self, mean: Any = 0.0, std: Any = 1.0, *, generator: Any = None) -> Self:
        """Fill with normal numbers."""
        if std < 0:
            raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
        if self.meta.dtype.is_complex:
            ops.view_as_real(self).normal_(mean, std * math.sqrt(0.5), generator=generator)
            return self
        return functions_random.drawn(generator, ops.normal_, self, mean, std)

    def exponential_(self, lambd: Any = 1.0, *, generator: Any = None) -> Self:
        """Fill with exponential numbers of rate ``lambd``."""
        if lambd <= 0:
            raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
        self._need_continuous("Exponential")
        return functions_random.drawn(generator, ops.exponential_, self, lambd)

    def _need_continuous(self, name: str) -> None:
        if not self.meta.dtype.is_floating_point:
            raise RuntimeError(
                f"{name} distribution is a continuous probability distribution. dtype must be a floating point but you specified "
                f"{self.meta.dtype}"
            )

    def cauchy_(self, median: Any = 0.0, sigma: Any = 1.0, *, generator: Any = None) -> Self:
        """Fill with Cauchy numbers around ``median``, half of which lie within ``sigma`` of it."""
        if sigma <= 0:
            raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
        self._need_continuous("Cauchy")
        return functions_random.drawn(generator, ops.cauchy_, self, median, sigma)

    def geometric_(self, p: Any, *, generator: Any = None) -> Self:
        """Fill with the number of trials up to the first that hits with probability ``p``."""
        if not 0 < p < 1:
            raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
        return functions_random.drawn(generator, ops.geometric_, self, p)

    def log_normal_(self, mean: Any = 1.0, std: Any = 2.0, *, generator: Any = None) -> Self:
        """Fill with numbers whose logarithms are normal with that mean and standard deviation."""
        from flambeau.tensor import functions_sampling  # noqa: PLC0415 - it holds Functions, which need this class

        return functions_sampling.log_normal_(self, mean, std, generator=generator)

    def bernoulli_(self, p: Any = 0.5, *, generator: Any = None) -> Self:
        """Fill with ones, each with the probability ``p`` (a number, or a tensor of one for each), and zeros."""
        if isinstance(p, TensorBase):
            return self.copy_(functions_random.bernoulli(p.expand(self.meta.shape), generator=generator))  # type: ignore[attr-defined]
        return functions_random.drawn(generator, ops.bernoulli_, self, p)

    def bernoulli(self, p: Any = None, *, generator: Any = None) -> Tensor:
        return functions_random.bernoulli(self, p, generator=generator)

    def random_(self, *bounds: Any, generator: Any = None) -> Self:
        """Fill with integers: of the whole range of the type, below ``to``, or in [from, to)."""
        low, high = functions_random.integer_range(self.meta.dtype, bounds)
        return functions_random.drawn(generator, ops.random_, self, low, high)

    def multinomial(self, num_samples: Any, replacement: Any = False, *, generator: Any = None) -> Tensor:
        return functions_random.multinomial(self, num_samples, replacement, generator=generator)

    # -- memory -----------------------------------------------------------------------------------------
    def untyped_storage(self) -> UntypedStorage:
        """The memory that the tensor is a part of."""
        return UntypedStorage(self.memory)

    def storage(self) -> UntypedStorage:
        return UntypedStorage(self.memory)

    def share_memory_(self) -> Self:
        """Move the elements into memory that processes started from now on, and those that get the tensor, see as well.

        Other tensors over the old memory stay there; RuntimeError for a view.
        """
        if self.is_shared() or self.meta.device is not cpu:
            return self
        if self.view_of is not None:
            raise RuntimeError("share_memory_: a view cannot be moved; share the tensor that it is a view of, or a clone() of it")
        self.materialize()  # type: ignore[attr-defined]
        block, offset = SharedBlock(self.memory.nbytes), self.address - self.memory.address
        ctypes.memmove(block.address, self.memory.address, self.memory.nbytes)
        self.memory = Storage(self.memory.nbytes, block.address, block)
        self.address = block.address + offset
        return self

    def is_shared(self) -> bool:
        """Whether other processes may see the elements."""
        return self.meta.device is not cpu or isinstance(self.memory.owner, SharedBlock)

    def record_stream(self, s: Any) -> None:
        pass  # a device has one queue of work, in whose order memory is given back

    def is_pinned(self, device: Any = None) -> Any:
        return False

    def get_device(self) -> Any:
        return -1 if self.meta.device is cpu else self.meta.device.index

    @property
    def layout(self) -> Any:
        """``torch.strided``."""
        return creation.strided

    # -- other libraries --------------------------------------------------------------------------------
    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None) -> object:
        if dispatch.wants_gradient(self):
            raise BufferError("__dlpack__: can't export tensors that require gradient, use tensor.detach()")
        if self.meta.device is not cpu:
            raise BufferError(f"__dlpack__: tensors on {self.meta.device} are not exported yet; use tensor.cpu()")
        if dl_device is not None and tuple(dl_device) != dlpack.CPU:
            raise BufferError(f"__dlpack__: the tensor is on the CPU {dlpack.CPU}, asked for device {dl_device}")
        source: Any = self.clone() if copy else self
        source.materialize()
        meta = source.meta
        return dlpack.make_capsule(
            source.address, meta.shape, meta.strides, meta.dtype, source.memory, max_version=max_version, is_copied=copy is True
        )

    def __dlpack_device__(self) -> tuple[Any, Any]:
        return dlpack.CPU if self.meta.device is cpu else (dlpack.CUDA, self.meta.device.index)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Pickle the storage's bytes once however many tensors show them, and where in it this one lies; without history."""
        self.materialize()  # type: ignore[attr-defined]
        meta = self.meta
        if meta.device is not cpu:
            state = self.detach().cpu(), str(meta.device), dispatch.wants_gradient(self)  # type: ignore[attr-defined]
            return rebuild_on_device, (type(self), *state, dict(self.__dict__))
        state = (self.memory, self.address - self.memory.address, meta.shape, meta.strides, meta.dtype, dispatch.wants_gradient(self))
        return rebuild_tensor, (type(self), *state, dict(self.__dict__))

    def __deepcopy__(self, memo: dict[Any, Any]) -> Tensor:
        if id(self) in memo:
            return memo[id(self)]
        if self.entry is not None:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment: use detach() to "
                "stop the gradient at the tensor, or clone() it."
            )
        self.materialize()  # type: ignore[attr-defined]
        memory = memo.get(id(self.memory))
        if memory is None:
            memory = memo[id(self.memory)] = transfer.copied_storage(self.memory)
        out = from_memory(memory, memory.address + self.address - self.memory.address, self.meta, type(self))
        out._requires_grad = self._requires_grad
        memo[id(self)] = out
        if self._grad is not None:
            out._grad = self._grad.__deepcopy__(memo)
        out.__dict__.update(self.__dict__)
        return out

    # -- text and iteration -----------------------------------------------------------------------------
    def __repr__(self, *, tensor_contents: Any = None) -> str:
        name = None if self.entry is None else self.entry.name()
        requires = dispatch.wants_gradient(self)
        if self.is_meta:  # type: ignore[attr-defined]
            kind = "" if self.meta.dtype is default_float() else f", dtype={self.meta.dtype}"
            return f"tensor(..., device='meta', size={tuple(self.meta.shape)}{kind}{', requires_grad=True' if requires else ''})"
        array = self.array()  # type: ignore[attr-defined]
        device = None if self.meta.device is cpu else str(self.meta.device)
        return printing.tensor_text(
            array, self.meta.dtype, requires_grad=requires, grad_fn_name=name, default_dtype=default_float(), device=device
        )

    def __format__(self, spec: str) -> str:
        if not self.meta.shape:
            return format(self.item(), spec)  # type: ignore[attr-defined]
        return object.__format__(self, spec)

    def __iter__(self) -> Iterator[Any]:
        if not self.meta.shape:
            raise TypeError("iteration over a 0-d tensor")
        return iter(ops.unbind(self, 0))

    def __reversed__(self) -> Tensor:
        return ops.flip(self, (0,)) if self.meta.shape else self  # type: ignore[return-value]

    def __contains__(self, element: Any) -> Any:
        if not isinstance(element, (TensorBase, int, float, complex)):
            raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")
        return ops.any(ops.eq(self, element)).item()

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: Any = False) -> Tensor:
        return creation.from_numpy(array)

    def __complex__(self) -> complex:
        if self.meta.numel != 1:
            raise ValueError(f"only one element tensors can be converted to Python scalars, got shape {list(self.meta.shape)}")
        return complex(self.item())  # type: ignore[attr-defined]


def _lies_in(meta: TensorMeta, order: tuple[int, ...]) -> bool:
    """Whether the elements fill their memory with the dimensions in ``order``."""
    running = 1
    for axis in reversed(order):
        if meta.shape[axis] != 1 and meta.strides[axis] != running:
            return False
        running *= max(meta.shape[axis], 1)
    return True


def _in_order(x: Any, order: tuple[int, ...] | None, memory_format: Any) -> Any:
    """``x`` itself, or a copy whose dimensions lie in ``order`` (None: as they are, row-major for ``contiguous_format``)."""
    if order is None:
        return x if x.meta.contiguous or memory_format is not contiguous_format else ops.clone(x)
    return x if _lies_in(x.meta, order) else _laid_out(x, order)


def _laid_out(x: Any, order: tuple[int, ...]) -> Any:
    """A copy whose dimensions lie in ``order``."""
    back = sorted(range(len(order)), key=lambda axis: order[axis])
    return ops.permute(ops.clone(ops.permute(x, order)), tuple(back))


def _cast(x: Any, kind: dtype, memory_format: Any) -> Any:
    if memory_format is not preserve_format:
        return x.to(kind, memory_format=memory_format)
    return x if x.meta.dtype is kind else ops.to_dtype(x, kind)


def _conversion(args: tuple[Any, ...], device: Any, kind: Any, copy: Any) -> tuple[Any, Any, Any]:
    """The dtype and the device that ``to`` was asked for, None where it is to stay, and whether to copy."""
    kind = dtype_of(kind)
    for position, given in enumerate(args):
        value = dtype_of(given)
        if isinstance(value, dtype):
            kind = value
        elif isinstance(value, TensorBase):
            kind, device = value.meta.dtype, value.meta.device
        elif isinstance(value, bool):
            copy = value if position == len(args) - 1 and position > 1 else copy
        elif value is not None:
            device = value
    return kind, None if device is None else transfer.place(device), copy


def rebuild_on_device(tensor_class: Any, values: Any, device: Any, requires_grad: Any, attributes: dict[str, Any]) -> Any:
    """What unpickling a tensor of a GPU calls."""
    out = values.to(device).as_subclass(tensor_class)
    out._requires_grad = requires_grad
    out.__dict__.update(attributes)
    return out


def rebuild_tensor(
    tensor_class: Any, memory: Storage, offset: Any, shape: Any, strides: Any, kind: dtype, requires_grad: Any, attributes: dict[str, Any]
) -> Any:
    """What unpickling a tensor calls."""
    out = from_memory(memory, memory.address + offset, meta_of(shape, kind, strides), tensor_class)
    out._requires_grad = requires_grad
    out.__dict__.update(attributes)
    return out
