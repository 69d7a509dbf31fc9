"""Reading and writing at positions, masks, search, and results whose size depends on values."""

from __future__ import annotations

import builtins
from typing import Any, NamedTuple

import numpy as np

from flambeau import ops
from flambeau.core import dtypes
from flambeau.ops.declare import broadcast_shapes
from flambeau.tensor.arguments import given, write_out
from flambeau.tensor.base import TensorBase
from flambeau.tensor.creation import from_numpy, tensor

Number = bool | int | float


# -- gathering ------------------------------------------------------------------------------------------
def index_select(input: Any, dim: int, index: Any, *, out: Any = None) -> Any:
    """The slices along ``dim`` that a vector names, in its order."""
    return ops.index_select(input, dim, index) if out is None else write_out(out, ops.index_select(input, dim, index))


def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False, out: Any = None) -> Any:
    """out[i][j][k] = input[i][index[i][j][k]][k] for ``dim`` 1, and so on."""
    result = ops.gather(input, dim, index)
    return result if out is None else write_out(out, result)


def take(input: Any, index: Any, *, out: Any = None) -> Any:
    """The elements of the flattened input at ``index``."""
    return ops.take(input, index) if out is None else write_out(out, ops.take(input, index))


def take_along_dim(input: Any, indices: Any, dim: int | None = None, *, out: Any = None) -> Any:
    """``gather`` with broadcasting; without ``dim``, on the flattened tensors."""
    result = ops.take_along_dim(input, indices, dim)
    return result if out is None else write_out(out, result)


def where(condition: Any, input: Any = None, other: Any = None, *, out: Any = None) -> Any:
    """``input`` where ``condition`` holds, else ``other``; with the condition alone, the positions where it holds.

    >>> import flambeau as torch
    >>> torch.where(torch.tensor([True, False]), 1, torch.tensor([5, 6]))
    tensor([1, 6])
    """
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    result = ops.where(condition, input, other)
    return result if out is None else write_out(out, result)


# -- writing --------------------------------------------------------------------------------------------
def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Number = 1, out: Any = None) -> Any:
    """``input`` with ``alpha * source`` added to the slices that ``index`` names."""
    result = ops.index_add(input, dim, index, source, alpha=alpha)
    return result if out is None else write_out(out, result)


def index_copy(input: Any, dim: int, index: Any, source: Any, *, out: Any = None) -> Any:
    """``input`` with the slices that ``index`` names taken from ``source``."""
    result = ops.index_copy(input, dim, index, source)
    return result if out is None else write_out(out, result)


def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """``input`` with the slices that ``index`` names filled with one value."""
    return ops.index_fill(input, dim, index, value)


def index_reduce(input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True, out: Any = None) -> Any:
    """``input`` with slices of ``source`` combined into the slices that ``index`` names."""
    result = ops.index_reduce(input, dim, index, source, reduce, include_self=include_self)
    return result if out is None else write_out(out, result)


def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """``input`` with ``values`` stored (or added) at input[i0, i1, ...]."""
    return ops.index_put(input, positions(list(indices)), values, accumulate)


def index_put_(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Store (or add) ``values`` at input[i0, i1, ...]."""
    return input.index_put_(indices, values, accumulate)


def positions(indices: list[Any]) -> list[Any]:
    """Index tensors with the positions where masks hold in place of the masks."""
    out: list[Any] = []
    for index in indices:
        if index is not None and index.meta.dtype in (dtypes.bool_, dtypes.uint8):
            out += nonzero(index, as_tuple=True)
        elif index is not None and index.meta.dtype in (dtypes.int16, dtypes.int8):
            out.append(ops.to_dtype(index, dtypes.int64))
        else:
            out.append(index)
    return out


def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """``input`` with ``source`` stored (or added) at positions of the flattened input."""
    return ops.put(input, index, source, accumulate)


def _scatter_source(src: Any, value: Any) -> Any:
    return value if src is None else src


def scatter(input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None, out: Any = None) -> Any:
    """``input`` with out[index[i][j]][j] = src[i][j] for ``dim`` 0, and so on; ``src`` may be a number."""
    result = ops.scatter(input, dim, index, _scatter_source(src, value), reduce=reduce)
    return result if out is None else write_out(out, result)


def scatter_add(input: Any, dim: int, index: Any, src: Any, *, out: Any = None) -> Any:
    """As ``scatter``, adding."""
    result = ops.scatter_add(input, dim, index, src)
    return result if out is None else write_out(out, result)


def scatter_reduce(input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True, out: Any = None) -> Any:
    """As ``scatter``, combining by sum, prod, mean, amax or amin."""
    result = ops.scatter_reduce(input, dim, index, src, reduce, include_self=include_self)
    return result if out is None else write_out(out, result)


def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """``input`` with the elements under ``mask`` replaced by those of ``source`` in order."""
    return ops.masked_scatter(input, mask, source)


def _written_into_view(input: Any, take_view: Any, src: Any) -> Any:
    out = input.clone()
    view = take_view(out)
    if view.meta.shape != src.meta.shape:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.meta.shape)}, slice size = "
            f"{list(view.meta.shape)}"
        )
    view.copy_(src)
    return out


def select_scatter(input: Any, src: Any, dim: int, index: int) -> Any:
    """``input`` with one slice along ``dim`` replaced by ``src``."""
    return _written_into_view(input, lambda x: ops.select(x, dim, index), src)


def slice_scatter(
    input: Any, src: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1, *, out: Any = None
) -> Any:
    """``input`` with input[start:end:step] along ``dim`` replaced by ``src``."""
    return given(out, _written_into_view(input, lambda x: ops.slice_(x, dim, start, end, step), src))


def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """``input`` with its diagonal replaced by ``src``."""
    return _written_into_view(input, lambda x: ops.diagonal(x, offset, dim1, dim2), src)


# -- sizes that depend on values ------------------------------------------------------------------------
def nonzero(input: Any, *, out: Any = None, as_tuple: bool = False) -> Any:
    """The positions of the nonzero elements: int64 [count, dimensions], or one vector for each dimension.

    >>> import flambeau as torch
    >>> torch.nonzero(torch.tensor([[0, 3], [4, 0]]))
    tensor([[0, 1],
            [1, 0]])
    """
    if as_tuple and not input.meta.shape:
        input = ops.reshape(input, (1,))
    found = ops.nonzero_static(input, int(ops.count_nonzero(input).item()))
    if as_tuple:
        return ops.unbind(found, 1)
    return found if out is None else write_out(out, found)


def nonzero_static(input: Any, *, size: int, fill_value: int = -1, out: Any = None) -> Any:
    """Positions of the first ``size`` nonzero elements; rows beyond their number hold ``fill_value``."""
    result = ops.nonzero_static(input, size, fill_value)
    return result if out is None else write_out(out, result)


def argwhere(input: Any) -> Any:
    """The positions of the nonzero elements, int64 [count, dimensions]."""
    return nonzero(input)


def masked_select(input: Any, mask: Any, *, out: Any = None) -> Any:
    """The elements where ``mask`` holds, as a vector."""
    shape = broadcast_shapes(input.meta.shape, mask.meta.shape, operator="masked_select")
    values, chosen = (ops.reshape(ops.expand(x, shape), (-1,)) for x in (input, mask))
    result = ops.compact(values, chosen, int(ops.count_nonzero(chosen).item()))
    return result if out is None else write_out(out, result)


class UniqueResult(NamedTuple):
    """Distinct elements, for each input where it is among them, and how often each occurs."""

    output: Any
    inverse: Any
    counts: Any


def _runs(begins: Any, size: int) -> tuple[Any, Any, Any]:
    """Of flags where runs begin: places of the begins, the run of each place, the lengths."""
    count = int(ops.count_nonzero(begins).item())
    first = ops.compact(ops.arange(0, 1, size), begins, count)
    run = ops.sub(ops.cumsum(begins, 0), 1)
    ends = ops.cat([first[1:], tensor([size])], 0)
    return first, run, ops.sub(ends, first)


def _begins(values: Any) -> Any:
    """Where an element of a vector (or a row) differs from the one before it."""
    size = values.meta.shape[0]
    changed = ops.ne(values[1:], values[: builtins.max(size - 1, 0)])
    if len(changed.meta.shape) > 1:
        changed = ops.any(ops.reshape(changed, (changed.meta.shape[0], -1)), 1)
    return ops.cat([ops.full((builtins.min(size, 1),), True, dtypes.bool_), changed], 0)


def unique(input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    """The distinct elements in order (slices along ``dim``), with the inverse and counts asked for.

    >>> import flambeau as torch
    >>> torch.unique(torch.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    if dim is not None:
        return _chosen_results(_unique_slices(input, dim), return_inverse, return_counts)
    flat = ops.reshape(input, (-1,))
    size = flat.meta.shape[0]
    if not size:
        empty = ops.zeros((0,), dtypes.int64)
        result = UniqueResult(flat, ops.reshape(empty, input.meta.shape), empty)
        return _chosen_results(result, return_inverse, return_counts)
    ordered, order = ops.sort(flat, 0, False, True)
    first, run, counts = _runs(_begins(ordered), size)
    inverse = ops.scatter(ops.zeros((size,), dtypes.int64), 0, order, run)
    result = UniqueResult(ops.index_select(ordered, 0, first), ops.reshape(inverse, input.meta.shape), counts)
    return _chosen_results(result, return_inverse, return_counts)


def _unique_slices(input: Any, dim: int) -> UniqueResult:
    """Slices are compared on the host: their order is that of their elements, one after another."""
    found = np.unique(input.detach().array(), return_inverse=True, return_counts=True, axis=dim)
    values, inverse, counts = (from_numpy(np.ascontiguousarray(part)) for part in found)
    return UniqueResult(values, ops.reshape(inverse, (-1,)), counts)


def unique_consecutive(input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    """Without elements (slices along ``dim``) that equal the one before them."""
    rows = ops.reshape(input, (-1,)) if dim is None else ops.movedim(input, dim, 0)
    first, run, counts = _runs(_begins(rows), rows.meta.shape[0])
    values = ops.index_select(rows, 0, first)
    values = values if dim is None else ops.clone(ops.movedim(values, 0, dim))
    inverse = ops.reshape(run, input.meta.shape) if dim is None else run
    return _chosen_results(UniqueResult(values, inverse, counts), return_inverse, return_counts)


def _chosen_results(result: UniqueResult, return_inverse: bool, return_counts: bool) -> Any:
    if not return_inverse and not return_counts:
        return result.output
    return (result.output, *[result.inverse] * return_inverse, *[result.counts] * return_counts)


# -- search and counts ----------------------------------------------------------------------------------
def searchsorted(
    sorted_sequence: Any, input: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None, sorter: Any = None,
    out: Any = None,
) -> Any:  # fmt: skip
    """Where each value would be inserted into the sorted last dimension: before equal elements, or after them."""
    result = ops.searchsorted(sorted_sequence, input, out_int32=out_int32, right=right, side=side, sorter=sorter)
    return result if out is None else write_out(out, result)


def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False, out: Any = None) -> Any:
    """The bucket of each value: boundaries[i - 1] < value <= boundaries[i], or with ``right`` <= and <."""
    result = ops.bucketize(input, boundaries, out_int32=out_int32, right=right)
    return result if out is None else write_out(out, result)


def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """The coordinates in a tensor of ``shape`` of positions in it flattened; positions past its end begin anew."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if not isinstance(indices, TensorBase) or not (indices.meta.dtype.is_integer):
        raise ValueError(f"unravel_index: expected 'indices' to be an integer tensor, got {getattr(indices, 'dtype', type(indices))}")
    if builtins.any(n < 0 for n in sizes):
        raise ValueError(f"unravel_index: 'shape' cannot have negative values, got {sizes}")
    found: list[Any] = []
    indices = ops.to_dtype(indices, dtypes.int64)
    for size in reversed(sizes):
        found.append(ops.remainder(indices, size))
        indices = ops.floor_divide(indices, size)
    return tuple(reversed(found))


def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each number occurs in a vector of non-negative integers, or the sum of the weights where it does."""
    if minlength < 0:
        raise RuntimeError(f"bincount: minlength should be >= 0, got {minlength}")
    length = minlength
    if input.meta.numel:
        if ops.amin(input, ()).item() < 0:
            raise RuntimeError("bincount: only supports 1-d non-negative integral inputs.")
        length = builtins.max(length, int(ops.amax(input, ()).item()) + 1)
    return ops.bincount(input, weights, length)


def histc(input: Any, bins: int = 100, min: Number = 0, max: Number = 0, *, out: Any = None) -> Any:
    """How many elements lie in each of ``bins`` intervals of equal width from ``min`` to ``max`` (of the input if equal)."""
    if bins <= 0:
        raise RuntimeError(f"histc: bins must be > 0, but got {bins}")
    low, high = min, max
    if low == high and input.meta.numel:
        low, high = ops.amin(input, ()).item(), ops.amax(input, ()).item()
    if low == high:
        low, high = low - 1, high + 1
    if not low < high:
        raise RuntimeError(f"histc: max must be larger than min, got [{min}, {max}]")
    flat = ops.reshape(input, (-1,))
    inside = ops.logical_and(ops.ge(flat, low), ops.le(flat, high))
    span = ops.full((), high - low, input.meta.dtype if input.is_floating_point() else None)
    place = ops.to_dtype(ops.true_divide(ops.mul(ops.sub(flat, low), bins), span), dtypes.int64)
    place = ops.where(inside, ops.clamp(place, 0, bins - 1), bins)
    counts = ops.slice_(ops.bincount(place, None, bins + 1), 0, 0, bins)
    result = ops.to_dtype(counts, input.meta.dtype)
    return result if out is None else write_out(out, result)


def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False, out: Any = None) -> Any:
    """Whether each element is among the test elements."""
    values = elements if isinstance(elements, TensorBase) else tensor(elements)
    tests = test_elements if isinstance(test_elements, TensorBase) else tensor(test_elements)
    ordered, _ = ops.sort(ops.reshape(tests, (-1,)), 0, False, True)
    if not ordered.meta.numel:
        found = ops.zeros(values.meta.shape, dtypes.bool_)
    else:
        place = ops.clamp(ops.searchsorted(ordered, values), None, ordered.meta.numel - 1)
        found = ops.eq(ops.take(ordered, place), values)
    return given(out, ops.logical_not(found) if invert else found)
