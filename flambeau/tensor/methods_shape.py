"""Methods that make views, other shapes, parts and rearranged copies. Each is the function of that name with the tensor first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from flambeau import ops
from flambeau.core.context import context
from flambeau.core.dtypes import dtype, dtype_of
from flambeau.runtime.storage import meta_of
from flambeau.tensor import creation, dispatch
from flambeau.tensor import functions_shape as functions
from flambeau.tensor.arguments import given_sizes, numpy_names
from flambeau.tensor.base import TensorBase
from flambeau.tensor.dispatch import call_into

if TYPE_CHECKING:
    from flambeau.tensor.tensor_class import Tensor


class ShapeMethods(TensorBase):
    """Methods of Tensor that make views, other shapes, parts and rearranged copies."""

    __slots__ = ()

    # -- shape ------------------------------------------------------------------------------------------
    def view(self, *shape: Any, size: Any = None, dtype: Any = None) -> Tensor:
        """The same memory in another shape; with a dtype of the same width, in another type."""
        if dtype is not None or (len(shape) == 1 and (hasattr(shape[0], "itemsize") or type(shape[0]) is type)):
            return self._viewed_as(dtype_of(shape[0] if dtype is None else dtype))
        return ops.view(self, given_sizes(shape) if size is None else tuple(size))

    def _viewed_as(self, dtype: dtype) -> Tensor:
        """The same bytes read as another type; the last dimension shrinks or grows with the width."""
        if dispatch.wants_gradient(self):
            raise RuntimeError("view: a tensor that requires grad cannot be viewed as another dtype; use detach()")
        meta, width, wanted = self.meta, self.meta.dtype.itemsize, dtype.itemsize
        if width == wanted:
            return dispatch.new_tensor(self.memory, self.address, meta_of(meta.shape, dtype, meta.strides, meta.device))
        if not meta.numel and meta.shape and not meta.shape[-1] * width % wanted:
            return creation.empty((*meta.shape[:-1], meta.shape[-1] * width // wanted), dtype=dtype, device=meta.device)
        if not meta.shape or meta.strides[-1] != 1 or any(s * width % wanted for s in (meta.shape[-1], *meta.strides[:-1])):
            raise RuntimeError(
                f"view: a tensor of shape {list(meta.shape)}, strides {list(meta.strides)} and {width}-byte elements cannot be "
                f"viewed as {dtype}"
            )
        if (self.address - self.memory.address) % wanted:
            raise RuntimeError(f"view: self.storage_offset() must be divisible by {wanted // width} to view {meta.dtype} as {dtype}")
        shape = (*meta.shape[:-1], meta.shape[-1] * width // wanted)
        strides = (*(s * width // wanted for s in meta.strides[:-1]), 1)
        return dispatch.new_tensor(self.memory, self.address, meta_of(shape, dtype, strides, meta.device))

    def view_as(self, other: Tensor) -> Tensor:
        return ops.view(self, other.meta.shape)

    def reshape(self, *given: Any, shape: Any = None) -> Tensor:
        return ops.reshape(self, given_sizes(given, shape))

    def reshape_as(self, other: Tensor) -> Tensor:
        return ops.reshape(self, other.meta.shape)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        return ops.flatten(self, start_dim, end_dim)

    def unflatten(self, dim: int, sizes: Any) -> Tensor:
        return ops.unflatten(self, dim, tuple(sizes))

    def ravel(self) -> Tensor:
        return ops.ravel(self)

    @numpy_names
    def squeeze(self, *dim: Any, **named: Any) -> Tensor:
        dims = (named["dim"],) if "dim" in named else dim
        return ops.squeeze(self, None if not dims else dims[0] if len(dims) == 1 else dims)

    @numpy_names
    def unsqueeze(self, dim: int) -> Tensor:
        return ops.unsqueeze(self, dim)

    def expand(self, *given: Any, size: Any = None, implicit: bool = False) -> Tensor:
        return ops.expand(self, given_sizes(given, size))

    def expand_as(self, other: Tensor) -> Tensor:
        return ops.expand(self, other.meta.shape)

    def broadcast_to(self, size: Any) -> Tensor:
        return ops.expand(self, tuple(size))

    # -- axes -------------------------------------------------------------------------------------------
    def transpose(self, dim0: int, dim1: int) -> Tensor:
        return ops.transpose(self, dim0, dim1)

    swapdims = transpose

    def swapaxes(self, axis0: int, axis1: int) -> Tensor:
        return ops.transpose(self, axis0, axis1)

    def t(self) -> Tensor:
        return ops.t(self)

    @property
    def T(self) -> Tensor:  # noqa: N802 - torch's own name
        """The dimensions in reverse order."""
        return ops.permute(self, tuple(reversed(range(len(self.meta.shape)))))

    @property
    def mT(self) -> Tensor:  # noqa: N802
        """The last two dimensions swapped."""
        if len(self.meta.shape) < 2:
            raise RuntimeError(f"tensor.mT is only supported on matrices or batches of matrices. Got {len(self.meta.shape)}-D tensor.")
        return ops.transpose(self, -2, -1)

    def permute(self, *given: Any, dims: Any = None) -> Tensor:
        return ops.permute(self, given_sizes(given, dims))

    def movedim(self, source: Any, destination: Any) -> Tensor:
        return ops.movedim(self, source, destination)

    moveaxis = movedim

    # -- parts ------------------------------------------------------------------------------------------
    def select(self, dim: int, index: Any) -> Tensor:
        return ops.select(self, dim, index)

    def narrow(self, dim: int, start: Any, length: int) -> Tensor:
        return ops.narrow(self, dim, start, length)

    def narrow_copy(self, dim: int, start: int, length: int) -> Tensor:
        return ops.clone(ops.narrow(self, dim, start, length))

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        return ops.diagonal(self, offset, dim1, dim2)

    def unfold(self, dimension: int, size: int, step: int) -> Tensor:
        return ops.unfold(self, dimension, size, step)

    def as_strided(self, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
        """The memory from the tensor's first element on, seen with the given size and strides."""
        return functions.as_strided(self, size, stride, storage_offset)

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        return ops.unbind(self, dim)

    def split(self, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
        return functions.split(self, split_size, dim)

    def split_with_sizes(self, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
        return ops.split_with_sizes(self, tuple(split_sizes), dim)

    unsafe_split = split
    unsafe_split_with_sizes = split_with_sizes

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        return ops.chunk(self, chunks, dim)

    unsafe_chunk = chunk

    def tensor_split(self, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
        return functions.tensor_split(self, indices_or_sections, dim)

    def hsplit(self, indices_or_sections: Any) -> tuple[Tensor, ...]:
        return functions.hsplit(self, indices_or_sections)

    def vsplit(self, indices_or_sections: Any) -> tuple[Tensor, ...]:
        return functions.vsplit(self, indices_or_sections)

    def dsplit(self, indices_or_sections: Any) -> tuple[Tensor, ...]:
        return functions.dsplit(self, indices_or_sections)

    # -- copies in another order ------------------------------------------------------------------------
    def flip(self, *given: Any, dims: Any = None) -> Tensor:
        return ops.flip(self, given_sizes(given, dims))

    def fliplr(self) -> Tensor:
        return functions.fliplr(self)

    def flipud(self) -> Tensor:
        return functions.flipud(self)

    def roll(self, shifts: Any, dims: Any = ()) -> Tensor:
        return functions.roll(self, shifts, dims)

    def rot90(self, k: int = 1, dims: Any = (0, 1)) -> Tensor:
        return ops.rot90(self, k, tuple(dims))

    def repeat(self, *given: Any, repeats: Any = None) -> Tensor:
        return ops.repeat(self, given_sizes(given, repeats))

    def tile(self, *given: Any, dims: Any = None) -> Tensor:
        return ops.tile(self, given_sizes(given, dims))

    def repeat_interleave(self, repeats: Any, dim: int | None = None, *, output_size: int | None = None) -> Tensor:
        return functions.repeat_interleave(self, repeats, dim, output_size=output_size)

    def diag(self, diagonal: int = 0) -> Tensor:
        return ops.diag(self, diagonal)

    def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
        return ops.diag_embed(self, offset, dim1, dim2)

    def diagflat(self, offset: int = 0) -> Tensor:
        return ops.diagflat(self, offset)

    def tril(self, diagonal: int = 0) -> Tensor:
        return ops.tril(self, diagonal)

    def tril_(self, diagonal: int = 0) -> Self:
        return call_into(ops.tril, self, (self, diagonal), {})

    def triu(self, diagonal: int = 0) -> Tensor:
        return ops.triu(self, diagonal)

    def triu_(self, diagonal: int = 0) -> Self:
        return call_into(ops.triu, self, (self, diagonal), {})

    def trace(self) -> Tensor:
        return functions.trace(self)

    # -- another shape for this tensor ------------------------------------------------------------------
    def _become(self, view: Any) -> Self:
        """Take over the shape and history of a view of this tensor."""
        dispatch.check_in_place("set_", self)
        if context.capture is not None:
            context.capture.note(self, view)
        self.meta, self.address, self.view_of = view.meta, view.address, None if self.view_of is None else view.view_of
        self.entry, self.output, self._requires_grad, self.seen_version = view.entry, view.output, view._requires_grad, view.seen_version
        return self

    def squeeze_(self, dim: Any = None) -> Self:
        return self._become(ops.squeeze(self, dim))

    def unsqueeze_(self, dim: int) -> Self:
        return self._become(ops.unsqueeze(self, dim))

    def transpose_(self, dim0: int, dim1: int) -> Self:
        return self._become(ops.transpose(self, dim0, dim1))

    swapdims_ = transpose_

    def swapaxes_(self, axis0: int, axis1: int) -> Self:
        return self._become(ops.transpose(self, axis0, axis1))

    def t_(self) -> Self:
        return self._become(ops.t(self))
