"""Views as copies: each is the view of that name, copied."""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.tensor import functions_shape as shapes
from flambeau.tensor.arguments import given


def alias_copy(input: Any, *, out: Any = None) -> Any:
    """A copy."""
    return given(out, ops.clone(input))


def as_strided_copy(input: Any, size: Any, stride: Any, storage_offset: int | None = None, *, out: Any = None) -> Any:
    """The elements of the input's memory seen with the given size and strides, copied."""
    return given(out, ops.clone(shapes.as_strided(input, size, stride, storage_offset)))


def detach_copy(input: Any, *, out: Any = None) -> Any:
    """A copy without history."""
    return given(out, ops.clone(input.detach()))


def diagonal_copy(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1, *, out: Any = None) -> Any:
    """The diagonals of the matrices in two dimensions, copied."""
    return given(out, ops.clone(ops.diagonal(input, offset, dim1, dim2)))


def expand_copy(input: Any, size: Any, *, implicit: bool = False, out: Any = None) -> Any:
    """Dimensions of size 1 repeated, copied."""
    return given(out, ops.clone(ops.expand(input, tuple(size))))


def narrow_copy(input: Any, dim: int, start: Any, length: int, *, out: Any = None) -> Any:
    """``length`` slices along ``dim`` from ``start`` on, copied."""
    return given(out, ops.clone(shapes.narrow(input, dim, start, length)))


def permute_copy(input: Any, dims: Any, *, out: Any = None) -> Any:
    """The dimensions reordered, copied."""
    return given(out, ops.clone(ops.permute(input, tuple(dims))))


def select_copy(input: Any, dim: int, index: int, *, out: Any = None) -> Any:
    """One slice along ``dim``, copied."""
    return given(out, ops.clone(ops.select(input, dim, index)))


def slice_copy(input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1, *, out: Any = None) -> Any:
    """input[start:end:step] along ``dim``, copied."""
    return given(out, ops.clone(ops.slice_(input, dim, start, end, step)))


def split_copy(input: Any, split_size: Any, dim: int = 0, *, out: Any = None) -> tuple[Any, ...]:
    """Parts along ``dim``, copied."""
    return given(out, tuple(ops.clone(part) for part in shapes.split(input, split_size, dim)))


def split_with_sizes_copy(input: Any, split_sizes: Any, dim: int = 0, *, out: Any = None) -> tuple[Any, ...]:
    """Parts of the given sizes along ``dim``, copied."""
    return given(out, tuple(ops.clone(part) for part in shapes.split_with_sizes(input, split_sizes, dim)))


def squeeze_copy(input: Any, dim: Any = None, *, out: Any = None) -> Any:
    """Dimensions of size 1 dropped, copied."""
    return given(out, ops.clone(ops.squeeze(input, dim)))


def t_copy(input: Any, *, out: Any = None) -> Any:
    """The transpose of a matrix, copied."""
    return given(out, ops.clone(ops.t(input)))


def transpose_copy(input: Any, dim0: int, dim1: int, *, out: Any = None) -> Any:
    """Two dimensions swapped, copied."""
    return given(out, ops.clone(ops.transpose(input, dim0, dim1)))


def unbind_copy(input: Any, dim: int = 0, *, out: Any = None) -> tuple[Any, ...]:
    """Every slice along ``dim``, copied."""
    return given(out, tuple(ops.clone(part) for part in ops.unbind(input, dim)))


def unfold_copy(input: Any, dimension: int, size: int, step: int, *, out: Any = None) -> Any:
    """Sliding windows along a dimension, copied."""
    return given(out, ops.clone(ops.unfold(input, dimension, size, step)))


def unsqueeze_copy(input: Any, dim: int, *, out: Any = None) -> Any:
    """A dimension of size 1 inserted, copied."""
    return given(out, ops.clone(ops.unsqueeze(input, dim)))


def view_copy(input: Any, size: Any, *, out: Any = None) -> Any:
    """Another shape, or the same bytes as another type, copied."""
    return given(out, ops.clone(input.view(size)))


def view_as_real_copy(input: Any, *, out: Any = None) -> Any:
    """Complex numbers as pairs of real ones, copied."""
    return given(out, ops.clone(ops.view_as_real(input)))


def view_as_complex_copy(input: Any, *, out: Any = None) -> Any:
    """Pairs of real numbers as complex ones, copied."""
    return given(out, ops.clone(ops.view_as_complex(input)))


def as_strided_scatter(input: Any, src: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """``input`` with the elements that ``as_strided`` shows replaced by ``src``."""
    out = input.clone()
    offset = None if storage_offset is None else storage_offset
    shapes.as_strided(out, size, stride, offset).copy_(src)
    return out
