"""Views, other shapes, joining, splitting, rearranging."""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Sequence
from typing import Any

from flambeau import ops
from flambeau.core.context import context
from flambeau.core.dtypes import int64 as _int64
from flambeau.core.shape import Size
from flambeau.ops.declare import broadcast_shapes as common_shape
from flambeau.ops.declare import default_float, normalize_dim
from flambeau.runtime.storage import meta_of
from flambeau.tensor import dispatch
from flambeau.tensor.arguments import TENSORS, given_sizes, numpy_names, write_out
from flambeau.tensor.autocasting import as_one
from flambeau.tensor.base import TensorBase


# -- shape ----------------------------------------------------------------------------------------------
def reshape(input: Any, shape: Any) -> Any:
    """Another shape of as many elements: a view where the strides allow it, else a copy; -1 stands for the size that fits.

    >>> import flambeau as torch
    >>> torch.reshape(torch.arange(6), (2, -1))
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    return ops.reshape(input, given_sizes((shape,)))


def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """The dimensions from ``start_dim`` to ``end_dim`` as one."""
    return ops.flatten(input, start_dim, end_dim)


def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    """One dimension seen as several."""
    return ops.unflatten(input, dim, tuple(sizes))


def ravel(input: Any) -> Any:
    """All elements in one dimension."""
    return ops.ravel(input)


@numpy_names
def squeeze(input: Any, dim: Any = None) -> Any:
    """Drop dimensions of size 1: all, or those of ``dim`` that have that size."""
    return ops.squeeze(input, dim)


@numpy_names
def unsqueeze(input: Any, dim: int) -> Any:
    """Insert a dimension of size 1."""
    return ops.unsqueeze(input, dim)


def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Swap two dimensions."""
    return ops.transpose(input, dim0, dim1)


def swapaxes(input: Any, axis0: int, axis1: int) -> Any:
    """Swap two dimensions."""
    return ops.transpose(input, axis0, axis1)


swapdims = transpose


def t(input: Any) -> Any:
    """The transpose of a matrix; vectors and numbers as they are."""
    return ops.t(input)


def permute(input: Any, dims: Any) -> Any:
    """Reorder the dimensions: dimension i of the result is ``dims[i]`` of the input."""
    return ops.permute(input, tuple(dims))


def movedim(input: Any, source: Any, destination: Any) -> Any:
    """Move dimensions to other places; the rest keep their order."""
    return ops.movedim(input, source, destination)


moveaxis = movedim


def broadcast_to(input: Any, size: Any) -> Any:
    """Repeat dimensions of size 1 without copying, to ``size``."""
    return ops.expand(input, tuple(size))


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that all shapes broadcast to."""
    found = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    if any(n < 0 for shape in found for n in shape):
        raise ValueError(f"broadcast_shapes: needs sizes of 0 or more, got {found}")
    return Size(common_shape(*found))  # type: ignore[arg-type]


def broadcast_tensors(*tensors: Any) -> list[Any]:
    """The tensors expanded to the shape that they broadcast to."""
    many = given_sizes(tensors)
    shape = broadcast_shapes(*[x.meta.shape for x in many])
    return [ops.expand(x, shape) for x in many]


def atleast_1d(*tensors: Any) -> Any:
    """Numbers as vectors of one element; anything else as it is."""
    return _each(ops.atleast_1d, tensors)


def atleast_2d(*tensors: Any) -> Any:
    """Tensors with leading dimensions of size 1 up to two dimensions."""
    return _each(ops.atleast_2d, tensors)


def atleast_3d(*tensors: Any) -> Any:
    """Tensors with dimensions of size 1 up to three."""
    return _each(ops.atleast_3d, tensors)


def _each(operator: Any, tensors: tuple[Any, ...]) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], TensorBase):
        return operator(tensors[0])
    return tuple(operator(x) for x in given_sizes(tensors))


# -- parts ----------------------------------------------------------------------------------------------
def select(input: Any, dim: int, index: int) -> Any:
    """One slice along ``dim``, without that dimension."""
    return ops.select(input, dim, index)


def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """``length`` slices along ``dim`` from ``start`` on."""
    if not input.meta.shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if isinstance(start, TensorBase) and (start.meta.shape or not start.meta.dtype.is_integer):
        raise RuntimeError(f"narrow: start must be an 0-dim integral Tensor, got {start.meta.dtype} {list(start.meta.shape)}")
    return ops.narrow(input, dim, start, length)


def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The diagonals of the matrices in ``dim1`` and ``dim2``, as the last dimension."""
    return ops.diagonal(input, offset, dim1, dim2)


def as_strided(input: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """The elements of the input's memory seen with the given size and strides; ``storage_offset`` counts from the memory's begin."""
    shape, strides = tuple(size), tuple(stride)
    whole = input if input.meta.contiguous or input.view_of is None else input.view_of.base
    offset = input.storage_offset() if storage_offset is None else storage_offset
    reach = builtins.sum((n - 1) * s for n, s in zip(shape, strides, strict=False))
    inside = offset - whole.storage_offset()
    if whole.meta.contiguous and inside >= 0 and inside + reach < whole.meta.numel:
        return ops.as_strided(whole, shape, strides, inside)
    if dispatch.wants_gradient(input):
        raise NotImplementedError("as_strided: gradients need a contiguous tensor that holds all elements of the result; use contiguous()")
    memory = input.memory
    flat = meta_of((memory.nbytes // input.meta.dtype.itemsize,), input.meta.dtype, None, input.meta.device)
    capture = context.capture if memory.pending is not None else None
    over = dispatch.new_tensor(memory, memory.address, flat) if capture is None else capture.over(memory, flat)
    return ops.as_strided(over, shape, strides, offset)


def unbind(input: Any, dim: int = 0) -> tuple[Any, ...]:
    """Every slice along ``dim``, without that dimension."""
    return ops.unbind(input, dim)


@numpy_names
def split(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Parts of one size, or of the given sizes, along ``dim``."""
    if isinstance(split_size_or_sections, int):
        return ops.split(tensor, split_size_or_sections, dim)
    return ops.split_with_sizes(tensor, tuple(split_size_or_sections), dim)


def split_with_sizes(input: Any, split_sizes: Any, dim: int = 0) -> tuple[Any, ...]:
    """Parts of the given sizes along ``dim``."""
    return ops.split_with_sizes(input, tuple(split_sizes), dim)


def unsafe_split(input: Any, split_size: int, dim: int = 0) -> tuple[Any, ...]:
    """As `split`."""
    return split(input, split_size, dim)


unsafe_split_with_sizes = split_with_sizes


def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """At most ``chunks`` parts of equal size along ``dim``; the last one may be smaller."""
    return ops.chunk(input, chunks, dim)


unsafe_chunk = chunk


def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Parts along ``dim``: so many of sizes that differ by at most one, or parts between the given indices."""
    if isinstance(indices_or_sections, TensorBase):
        indices_or_sections = indices_or_sections.tolist()  # type: ignore[attr-defined]
    return ops.tensor_split(input, indices_or_sections, dim)


def _split_along(operator: str, x: Any, indices_or_sections: Any, dim: int) -> tuple[Any, ...]:
    if len(x.meta.shape) <= dim and not (dim == 1 and len(x.meta.shape) == 1):
        raise RuntimeError(
            f"{operator}: requires a tensor with at least {dim + 1} dimension, but got a tensor with {len(x.meta.shape)} dimensions!"
        )
    axis = builtins.min(dim, len(x.meta.shape) - 1)
    if isinstance(indices_or_sections, int) and (indices_or_sections == 0 or x.meta.shape[axis] % indices_or_sections):
        raise RuntimeError(
            f"{operator}: attempted to split along dimension {axis}, but the size of the dimension {x.meta.shape[axis]} is not "
            "divisible by "
            f"the split_size {indices_or_sections}!"
        )
    return tensor_split(x, indices_or_sections, axis)


def hsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Parts side by side: along dimension 1, or 0 of a vector."""
    return _split_along("hsplit", input, indices_or_sections, 1)


def vsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Parts along dimension 0 of a tensor with at least two."""
    if len(input.meta.shape) < 2:
        raise RuntimeError(
            f"vsplit: requires a tensor with at least 2 dimension, but got a tensor with {len(input.meta.shape)} dimensions!"
        )
    return _split_along("vsplit", input, indices_or_sections, 0)


def dsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Parts along dimension 2."""
    return _split_along("dsplit", input, indices_or_sections, 2)


# -- joining --------------------------------------------------------------------------------------------
@numpy_names
def cat(tensors: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Tensors one after another along ``dim``; they agree in their other dimensions.

    >>> import flambeau as torch
    >>> torch.cat([torch.tensor([1, 2]), torch.tensor([3])])
    tensor([1, 2, 3])
    """
    result = ops.cat(_tensors("cat", tensors), dim)
    return result if out is None else write_out(out, result)


concat = concatenate = cat


def _tensors(operator: str, tensors: Any) -> Sequence[Any]:
    if isinstance(tensors, TensorBase):
        raise TypeError(f"{operator}(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor")
    many = list(tensors)
    if not many:
        kind = ValueError if operator == "cat" else RuntimeError
        raise kind(f"{operator}: expected a non-empty list of Tensors")
    for position, x in enumerate(many):
        if not isinstance(x, TENSORS):
            raise TypeError(f"expected Tensor as element {position} in argument 0, but got {type(x).__name__}")
    return many


@numpy_names
def stack(tensors: Any, dim: int = 0, *, out: Any = None) -> Any:
    """Tensors of one shape along a new dimension."""
    result = ops.stack(_tensors("stack", tensors), dim)
    return result if out is None else write_out(out, result)


def hstack(tensors: Any, *, out: Any = None) -> Any:
    """Side by side: along dimension 1, or 0 for vectors."""
    result = ops.hstack(_tensors("hstack", tensors))
    return result if out is None else write_out(out, result)


def vstack(tensors: Any, *, out: Any = None) -> Any:
    """One below another: along dimension 0, vectors as rows."""
    result = ops.vstack(_tensors("vstack", tensors))
    return result if out is None else write_out(out, result)


row_stack = vstack


def dstack(tensors: Any, *, out: Any = None) -> Any:
    """One behind another: along dimension 2."""
    result = ops.dstack(_tensors("dstack", tensors))
    return result if out is None else write_out(out, result)


def column_stack(tensors: Any, *, out: Any = None) -> Any:
    """Side by side, vectors as columns."""
    result = ops.column_stack(_tensors("column_stack", tensors))
    return result if out is None else write_out(out, result)


def block_diag(*tensors: Any) -> Any:
    """Matrices along the diagonal of one matrix, zeros elsewhere."""
    many = list(given_sizes(tensors))
    return ops.block_diag(many) if many else ops.zeros((1, 0), default_float())


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Any, ...]:
    """Vectors spread over the grid that they span, one grid for each; ``xy`` swaps the first two dimensions."""
    many = list(given_sizes(tensors))
    if not many:
        raise RuntimeError("meshgrid: expects a non-empty list of tensors")
    return ops.meshgrid(many, indexing)


def cartesian_prod(*tensors: Any) -> Any:
    """All combinations of one element of each vector, as rows."""
    if len(tensors) == 1:
        return tensors[0]
    return ops.stack([ops.reshape(g, (-1,)) for g in ops.meshgrid(list(tensors), "ij")], 1)


def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """All combinations of ``r`` elements of a vector, as rows."""
    if len(input.meta.shape) != 1:
        raise RuntimeError(f"combinations: expect a 1D vector, but got shape {list(input.meta.shape)}")
    if r < 0:
        raise RuntimeError(f"combinations: expects a non-negative number of elements, got {r}")
    if r == 0:
        return input.new_empty(0)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(builtins.range(input.meta.shape[0]), r))
    positions = input.new_tensor(rows, dtype=_int64).reshape(len(rows), r)
    return ops.take(input, positions)


def detach(input: Any) -> Any:
    """The same memory without history."""
    return input.detach()


# -- copies in another order ----------------------------------------------------------------------------
def clone(input: Any, *, memory_format: Any = None) -> Any:
    """A copy in memory of its own."""
    return input.clone(memory_format=memory_format)


@numpy_names
def flip(input: Any, *dims: Any, **named: Any) -> Any:
    """The given dimensions in reverse order."""
    chosen = named["dims"] if "dims" in named else named["dim"] if "dim" in named else given_sizes(dims)
    return ops.flip(input, (chosen,) if isinstance(chosen, int) else tuple(chosen))


def fliplr(input: Any) -> Any:
    """Columns in reverse order."""
    if len(input.meta.shape) < 2:
        raise RuntimeError("fliplr: Input must be >= 2-d.")
    return ops.flip(input, (1,))


def flipud(input: Any) -> Any:
    """Rows in reverse order."""
    if not input.meta.shape:
        raise RuntimeError("flipud: Input must be >= 1-d.")
    return ops.flip(input, (0,))


def roll(input: Any, shifts: Any, dims: Any = ()) -> Any:
    """Elements moved by ``shifts`` along ``dims``, those pushed out coming in again."""
    if shifts == [] or shifts == ():
        raise RuntimeError("roll: `shifts` required")
    return ops.roll(input, _as_tuple(shifts), _as_tuple(() if dims is None else dims))


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def rot90(input: Any, k: int = 1, dims: Any = (0, 1)) -> Any:
    """Turned by k quarters in the plane of two dimensions."""
    if len(dims) != 2 or len(input.meta.shape) < 2:
        raise RuntimeError(f"rot90: expected total rotation dims == 2 of at least 2, but got dims {list(dims)} of {len(input.meta.shape)}")
    return ops.rot90(input, k, tuple(dims))


def tile(input: Any, *given: Any, dims: Any = None) -> Any:
    """Whole copies: ``dims[i]`` of them along dimension i, missing leading ones being 1."""
    return ops.tile(input, given_sizes(given, dims))


def repeat_interleave(input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None) -> Any:
    """Each element ``repeats`` times in a row along ``dim``; ``repeats`` may be a tensor with one number for each."""
    if not isinstance(repeats, TensorBase) and repeats is not None:
        return ops.repeat_interleave(input, repeats, dim)
    if repeats is None:
        return _positions_repeated(input)
    counts: Any = repeats
    if len(counts.meta.shape) > 1 or counts.meta.dtype.category not in ("signed", "unsigned"):
        raise RuntimeError(
            f"repeat_interleave: repeats must be a 0-dim or 1-dim integer tensor, got {counts.meta.dtype} {list(counts.meta.shape)}"
        )
    source = ops.reshape(input, (-1,)) if dim is None else input
    axis = 0 if dim is None else normalize_dim(dim, len(source.meta.shape), "repeat_interleave")
    size = source.meta.shape[axis] if source.meta.shape else 1
    if counts.meta.numel == 1:
        return ops.repeat_interleave(source, int(counts.item()), axis)
    if counts.meta.shape[0] != size:
        raise RuntimeError(
            f"repeat_interleave: repeats must have the same size as input along dim, but got {counts.meta.shape[0]} and {size}"
        )
    return ops.index_select(source, axis, _positions_repeated(counts))


def _positions_repeated(counts: Any) -> Any:
    """Position i as often as ``counts[i]`` says: the row of each place, found among the running sums."""
    if counts.meta.numel and ops.amin(counts, ()).item() < 0:
        raise RuntimeError("repeat_interleave: repeats can not be negative")
    ends = ops.cumsum(counts, 0)
    total = int(ends[-1].item()) if counts.meta.numel else 0
    return ops.searchsorted(ends, ops.arange(0, 1, total), right=True)


def diag(input: Any, diagonal: int = 0, *, out: Any = None) -> Any:
    """A vector on the diagonal of a matrix, or the diagonal of a matrix as a vector."""
    result = ops.diag(input, diagonal)
    return result if out is None else write_out(out, result)


def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The last dimension on a diagonal of matrices in ``dim1`` and ``dim2`` of the result, zeros elsewhere."""
    return ops.diag_embed(input, offset, dim1, dim2)


def diagflat(input: Any, offset: int = 0) -> Any:
    """The flattened input on a diagonal of a matrix."""
    return ops.diagflat(input, offset)


def tril(input: Any, diagonal: int = 0, *, out: Any = None) -> Any:
    """The elements on and below a diagonal of the last two dimensions, zeros above."""
    result = ops.tril(input, diagonal)
    return result if out is None else write_out(out, result)


def triu(input: Any, diagonal: int = 0, *, out: Any = None) -> Any:
    """The elements on and above a diagonal of the last two dimensions, zeros below."""
    result = ops.triu(input, diagonal)
    return result if out is None else write_out(out, result)


@as_one
def trace(input: Any) -> Any:
    """The sum of a matrix' diagonal."""
    if len(input.meta.shape) != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {len(input.meta.shape)}")
    return ops.sum(ops.diagonal(input))
