"""Views: the same elements under another shape, other strides or a part of them."""

from __future__ import annotations

from collections.abc import Sequence

from flambeau import prims as p
from flambeau.core.symbolic import Dim, Expression, ceil_divide, product
from flambeau.ir.node import Node
from flambeau.ops.cases import Calls, SampleMaker, case
from flambeau.ops.declare import Size, Sizes, Value, normalize_dim, op


def as_sizes(value: Size | Sizes) -> tuple[Dim, ...]:
    """A size or a sequence of sizes as a tuple."""
    return (value,) if isinstance(value, (int, Expression)) else tuple(value)


def as_dims(value: int | Sequence[int]) -> tuple[int, ...]:
    """A dimension or a sequence of dimensions as a tuple."""
    return (value,) if isinstance(value, int) else tuple(value)


def cut(x: Node, axis: int, start: Dim, size: Dim, step: int = 1) -> Node:
    """The elements start, start + step, ... along one axis, ``size`` of them."""
    return p.slice_(x, **p.select_index(axis, start, size, step, x.shape))


def without_axis(x: Node, axis: int) -> Node:
    """Drop an axis of size 1."""
    return p.reshape(x, shape=x.shape[:axis] + x.shape[axis + 1 :])


def with_axis(x: Node, axis: int) -> Node:
    """Insert an axis of size 1."""
    return p.reshape(x, shape=(*x.shape[:axis], 1, *x.shape[axis:]))


def resolve_shape(size: Sequence[Dim], numel: Dim, operator: str) -> tuple[Dim, ...]:
    """``size`` with its one -1 worked out; RuntimeError as torch's when it does not hold ``numel`` elements."""
    unknown = [i for i, d in enumerate(size) if isinstance(d, int) and d < 0]
    known = product(d for i, d in enumerate(size) if i not in unknown)
    if len(unknown) > 1:
        raise RuntimeError(f"{operator}: only one dimension can be inferred, got shape {list(size)}")
    if unknown and size[unknown[0]] != -1:
        raise RuntimeError(f"{operator}: invalid shape dimension {size[unknown[0]]} at index {unknown[0]} of shape {list(size)}")
    if unknown and known == 0:
        raise RuntimeError(
            f"{operator}: cannot reshape tensor of {numel} elements into shape {list(size)} because the unspecified dimension "
            "size -1 can be any value and is ambiguous; give every size"
        )
    inferred = numel // known if unknown else 0
    shape = tuple(inferred if i in unknown else d for i, d in enumerate(size))
    if not product(shape) == numel:
        raise RuntimeError(f"{operator}: shape '{list(size)}' is invalid for input of size {numel}")
    return shape


# -- reordering axes --------------------------------------------------------------------------------------
@op("view", samples=lambda m: [case(m.float(3, 4), 0, 1), case(m.float(2, 3, 4), -1, 0), case(m.float(), 0, -1)])
def transpose(x: Value, dim0: int, dim1: int) -> Node:
    """Swap two dimensions."""
    a, b = (normalize_dim(d, x.rank, "transpose") for d in (dim0, dim1))
    order = list(range(x.rank))
    if order:
        order[a], order[b] = b, a
    return p.permute(x, axes=tuple(order))


@op("view", samples=lambda m: [case(m.float(3, 4)), case(m.float(5)), case(m.float())])
def t(x: Value) -> Node:
    """The transpose of a matrix; vectors and numbers as they are."""
    if x.rank > 2:
        raise RuntimeError(f"t: expects a tensor with <= 2 dimensions, but self is {x.rank}D; use transpose() or .mT")
    return p.permute(x, axes=tuple(reversed(range(x.rank))))


@op("view", samples=lambda m: [case(m.float(2, 3, 4), (2, 0, 1)), case(m.float(2, 3), (-1, -2)), case(m.float(), ())])
def permute(x: Value, dims: tuple[int, ...]) -> Node:
    """Reorder the dimensions: dimension i of the result is ``dims[i]`` of x."""
    if len(dims) != x.rank:
        raise RuntimeError(
            "permute: number of dimensions in the tensor input does not match the length of the desired ordering of "
            f"dimensions i.e. input.dim() = {x.rank} is not equal to len(dims) = {len(dims)}"
        )
    axes = tuple(normalize_dim(d, x.rank, "permute") for d in dims)
    if len(set(axes)) != len(axes):
        raise RuntimeError(f"permute: duplicate dims are not allowed, got {tuple(dims)}")
    return p.permute(x, axes=axes)


@op("view", samples=lambda m: [case(m.float(2, 3, 4), 0, -1), case(m.float(2, 3, 4), (0, 1), (1, 2)), case(m.float(2, 3), -2, 1)])
def movedim(x: Value, source: int | tuple[int, ...], destination: int | tuple[int, ...]) -> Node:
    """Move dimensions to other places; the rest keep their order."""
    given, wanted = as_dims(source), as_dims(destination)
    if len(given) != len(wanted):
        raise RuntimeError(f"movedim: source {given} and destination {wanted} must name equally many dimensions")
    place = {normalize_dim(b, x.rank, "movedim"): normalize_dim(a, x.rank, "movedim") for a, b in zip(given, wanted, strict=True)}
    if len(place) != len(given) or len(set(place.values())) != len(given):
        raise RuntimeError(f"movedim: repeated dim in source {given} or destination {wanted}")
    rest = iter(i for i in range(x.rank) if i not in place.values())
    return p.permute(x, axes=tuple(place[i] if i in place else next(rest) for i in range(x.rank)))


# -- adding and dropping axes -----------------------------------------------------------------------------
@op("view", samples=lambda m: [case(m.float(3, 4), 0), case(m.float(3, 4), -1), case(m.float(3), 1), case(m.float(), 0)])
def unsqueeze(x: Value, dim: int) -> Node:
    """Insert a dimension of size 1."""
    return with_axis(x, normalize_dim(dim, x.rank + 1, "unsqueeze"))


def _squeeze_samples(m: SampleMaker) -> Calls:
    x = m.float(1, 3, 1)
    return [case(x), case(x, 0), case(x, 1), case(x, (0, -1)), case(m.float(), 0)]


@op("view", samples=_squeeze_samples)
def squeeze(x: Value, dim: int | tuple[int, ...] | None = None) -> Node:
    """Drop dimensions of size 1: all, or those of ``dim`` that have that size."""
    dims = range(x.rank) if dim is None else [normalize_dim(d, x.rank, "squeeze") for d in as_dims(dim)]
    if len(set(dims)) < len(dims):
        raise RuntimeError(f"squeeze: a dimension appears multiple times in the list of dims {dim}")
    return p.reshape(x, shape=tuple(d for i, d in enumerate(x.shape) if i not in dims or not d == 1))


def _expand_samples(m: SampleMaker) -> Calls:
    return [case(m.float(3, 1), (2, -1, 4)), case(m.float(1, 5), (3, 5)), case(m.float(), (2, 2)), case(m.float(1), (0,))]


@op("view", samples=_expand_samples)
def expand(x: Value, size: Sizes) -> Node:
    """Repeat dimensions of size 1 without copying; -1 keeps a size, new dimensions come first."""
    extra = len(size) - x.rank
    if extra < 0:
        raise RuntimeError(
            f"expand: the number of sizes provided ({len(size)}) must be greater or equal to the number of dimensions in the "
            f"tensor ({x.rank})"
        )
    old = (1,) * extra + x.shape
    shape = tuple(old[i] if isinstance(d, int) and d == -1 and i >= extra else d for i, d in enumerate(size))
    for i, (a, b) in enumerate(zip(old, shape, strict=True)):
        if b < 0:
            raise RuntimeError(f"expand: the expanded size of the tensor ({b}) isn't allowed in a leading, non-existing dimension {i}")
        if not (a == 1 or a == b):
            raise RuntimeError(
                f"expand: the expanded size of the tensor ({b}) must match the existing size ({a}) at non-singleton dimension {i}. "
                f"Target sizes: {list(size)}. Tensor sizes: {list(x.shape)}"
            )
    return p.expand(p.reshape(x, shape=old) if extra else x, shape=shape)


@op("view", samples=lambda m: [case(m.float()), case(m.float(3)), case(m.float(2, 3))])
def atleast_1d(x: Value) -> Node:
    """A number as a vector of one element; anything else as it is."""
    return p.reshape(x, shape=x.shape or (1,))


@op("view", samples=lambda m: [case(m.float()), case(m.float(3)), case(m.float(2, 3))])
def atleast_2d(x: Value) -> Node:
    """x with leading dimensions of size 1 up to two dimensions."""
    return p.reshape(x, shape=(1,) * (2 - x.rank) + x.shape)


@op("view", samples=lambda m: [case(m.float()), case(m.float(3)), case(m.float(2, 3)), case(m.float(2, 3, 4))])
def atleast_3d(x: Value) -> Node:
    """x with dimensions of size 1 up to three: a vector becomes [1, n, 1], a matrix [n, m, 1]."""
    return p.reshape(x, shape=(1, *(x.shape or (1,)), 1) if x.rank < 2 else (*x.shape, 1) if x.rank == 2 else x.shape)


# -- parts ------------------------------------------------------------------------------------------------
@op("view", samples=lambda m: [case(m.float(3, 4), 0, 2), case(m.float(3, 4), 1, -1), case(m.float(5), 0, 0)])
def select(x: Value, dim: int, index: Size) -> Node:
    """One slice along ``dim``, without that dimension."""
    if not x.rank:
        raise IndexError("select: cannot be applied to a 0-dim tensor; use .item()")
    axis = normalize_dim(dim, x.rank, "select")
    size = x.shape[axis]
    if index < -size or index >= size:
        raise IndexError(f"select: index {index} out of range for tensor of size {list(x.shape)} at dimension {axis}")
    return without_axis(cut(x, axis, index + size if index < 0 else index, 1), axis)


@op("view", samples=lambda m: [case(m.float(5, 3), 0, 1, 3), case(m.float(5, 3), -1, -2, 2), case(m.float(4), 0, 4, 0)])
def narrow(x: Value, dim: int, start: Size, length: Size) -> Node:
    """``length`` slices along ``dim`` from ``start`` on."""
    axis = normalize_dim(dim, x.rank, "narrow")
    size = x.shape[axis]
    if length < 0:
        raise RuntimeError(f"narrow: length must be non-negative, got {length}")
    if start < -size or start > size:
        raise IndexError(f"narrow: start out of range (expected to be in range of [{-size}, {size}], but got {start})")
    first = start + size if start < 0 else start
    if first + length > size:
        raise RuntimeError(f"narrow: start ({first}) + length ({length}) exceeds dimension size ({size})")
    return cut(x, axis, first, length)


def _clamped(position: Dim, size: Dim) -> Dim:
    """A slice's bound as Python reads it, in [0, size]."""
    if position < 0:
        position = position + size
    return 0 if position < 0 else size if position > size else position


def _slice_samples(m: SampleMaker) -> Calls:
    return [
        case(m.float(7, 3), 0, 1, 5), case(m.float(3, 7), 1, None, -1, 2), case(m.float(7), 0, -3), case(m.float(4), 0, 9, 12),
        case(m.float(7), 0, 2, 100, 3), case(m.float(5), 0, 3, 1), case(m.float(5, 2)), case(m.float(5), 0, -9, 4),
    ]  # fmt: skip


@op("view", samples=_slice_samples)
def slice_(x: Value, dim: int = 0, start: Size | None = None, end: Size | None = None, step: int = 1) -> Node:
    """x[start:end:step] along ``dim``, with Python's rules for bounds; ValueError unless step > 0."""
    axis = normalize_dim(dim, x.rank, "slice")
    if step <= 0:
        raise ValueError(f"slice: step must be greater than zero, got {step}; use flip() to reverse a dimension")
    size = x.shape[axis]
    first = 0 if start is None else _clamped(start, size)
    last = size if end is None else _clamped(end, size)
    return cut(x, axis, first, ceil_divide(last - first, step) if last > first else 0, step)


def square_diagonals(x: Node, offset: int, dim1: int, dim2: int, operator: str) -> Node:
    """Diagonals of the matrices in two dimensions, as a new last axis."""
    a, b = normalize_dim(dim1, x.rank, operator), normalize_dim(dim2, x.rank, operator)
    if a == b:
        raise RuntimeError(f"{operator}: diagonal dimensions cannot be identical {dim1}, {dim2}")
    x = p.permute(x, axes=(*(i for i in range(x.rank) if i not in (a, b)), a, b))
    row, column = (-offset, 0) if offset < 0 else (0, offset)
    height, width = x.shape[-2] - row, x.shape[-1] - column
    length = height if height <= width else width
    length = 0 if length < 0 else length
    return p.diagonal(cut(cut(x, x.rank - 2, row if length else 0, length), x.rank - 1, column if length else 0, length))


def _diagonal_samples(m: SampleMaker) -> Calls:
    return [
        case(m.float(3, 4)), case(m.float(4, 3), 1), case(m.float(4, 3), -2), case(m.float(2, 3, 4), 0, 0, 2),
        case(m.float(2, 3, 4), -1, -1, 1), case(m.float(3, 3), 5),
    ]  # fmt: skip


@op("view", samples=_diagonal_samples)
def diagonal(x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Node:
    """The diagonals of the matrices in ``dim1`` and ``dim2``, as the last dimension."""
    return square_diagonals(x, offset, dim1, dim2, "diagonal")


def _unfold_samples(m: SampleMaker) -> Calls:
    return [case(m.float(7), 0, 3, 2), case(m.float(2, 6), 1, 2, 1), case(m.float(6, 2), 0, 3, 3), case(m.float(), 0, 1, 1)]


@op("view", samples=_unfold_samples)
def unfold(x: Value, dimension: int, size: int, step: int) -> Node:
    """Sliding windows of ``size`` elements along a dimension, one each ``step``, in a new last dimension."""
    axis, number = normalize_dim(dimension, x.rank, "unfold"), not x.rank
    x = p.reshape(x, shape=(1,)) if number else x
    if size < 0 or step <= 0:
        raise RuntimeError(f"unfold: needs size >= 0 and step > 0, got size {size} and step {step}")
    if x.shape[axis] < size:
        raise RuntimeError(f"unfold: maximum size for tensor at dimension {axis} is {x.shape[axis]} but size is {size}")
    windows = p.window(x, axis=axis, size=size, step=step, dilation=1)
    return p.reshape(windows, shape=(size,)) if number else windows


def _as_strided_samples(m: SampleMaker) -> Calls:
    return [case(m.float(12), (3, 4), (4, 1)), case(m.float(3, 4), (2, 3), (1, 2), 3), case(m.float(6), (2, 2, 2), (1, 1, 1), 1)]


@op("view", samples=_as_strided_samples)
def as_strided(x: Value, size: Sizes, stride: Sizes, storage_offset: Size = 0) -> Node:
    """Element (i, j, ...) is element storage_offset + i * stride[0] + j * stride[1] + ... of x in memory, x contiguous."""
    if len(size) != len(stride):
        raise RuntimeError(f"as_strided: mismatch in length of strides and shape, got {list(stride)} and {list(size)}")
    if any(d < 0 for d in stride):
        raise RuntimeError(f"as_strided: negative strides are not supported at the moment, got strides: {list(stride)}")
    if any(n < 0 for n in size) or storage_offset < 0:
        raise RuntimeError(f"as_strided: needs sizes and an offset of 0 or more, got sizes {list(size)}, storage offset {storage_offset}")
    reach = storage_offset + 1
    for n, step in zip(size, stride, strict=True):
        reach = reach + (n - 1) * step
    if not any(n == 0 for n in size) and reach > x.aval.numel:
        raise RuntimeError(
            f"as_strided: setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {storage_offset} need {reach} "
            f"elements, which are out of bounds for storage of size {x.aval.numel}"
        )
    flat = p.reshape(x, shape=(x.aval.numel,))
    return p.as_strided(flat, shape=tuple(size), strides=tuple(stride), offset=storage_offset)


def require_dimension(operator: str, x: Node) -> None:
    """RuntimeError as torch's for a tensor without dimensions."""
    if not x.rank:
        raise RuntimeError(f"{operator}: expects at least a 1-dimensional tensor, got one without dimensions; use reshape(1)")


# -- several views ----------------------------------------------------------------------------------------
def pieces(x: Node, axis: int, sizes: Sequence[Dim]) -> tuple[Node, ...]:
    """Consecutive parts of the given sizes along an axis."""
    out, start = [], 0
    for size in sizes:
        out.append(cut(x, axis, start, size))
        start = start + size
    return tuple(out)


@op("view", samples=lambda m: [case(m.float(6, 2), 2), case(m.float(2, 7), 3, 1), case(m.float(2, 7), 9, -1), case(m.float(0, 3), 2)])
def split(x: Value, split_size: Size, dim: int = 0) -> tuple[Node, ...]:
    """Parts of ``split_size`` along ``dim``; the last one may be smaller."""
    require_dimension("split", x)
    axis = normalize_dim(dim, x.rank, "split")
    size = x.shape[axis]
    if split_size < 0 or (split_size == 0 and not size == 0):
        raise RuntimeError(f"split: split_size must be positive for dimension size {size}, got {split_size}")
    count = 1 if size == 0 else int(ceil_divide(size, split_size))
    return pieces(x, axis, [split_size] * (count - 1) + [size - split_size * (count - 1)])


@op("view", samples=lambda m: [case(m.float(6, 2), (1, 2, 3)), case(m.float(2, 5), (5, 0), 1)])
def split_with_sizes(x: Value, split_sizes: Sizes, dim: int = 0) -> tuple[Node, ...]:
    """Parts of the given sizes along ``dim``, which must add up to its size."""
    axis = normalize_dim(dim, x.rank, "split_with_sizes")
    if any(n < 0 for n in split_sizes):
        raise RuntimeError(f"split_with_sizes: expects split_sizes have only non-negative entries, but got split_sizes={list(split_sizes)}")
    total: Dim = 0
    for n in split_sizes:
        total = total + n
    if not total == x.shape[axis]:
        raise RuntimeError(
            f"split_with_sizes: expects split_sizes to sum exactly to {x.shape[axis]} (input tensor's size at dimension {axis}), "
            f"but got split_sizes={list(split_sizes)}"
        )
    return pieces(x, axis, split_sizes)


@op("view", samples=lambda m: [case(m.float(6, 2), 3), case(m.float(2, 7), 3, 1), case(m.float(5), 4), case(m.float(0, 2), 3)])
def chunk(x: Value, chunks: int, dim: int = 0) -> tuple[Node, ...]:
    """At most ``chunks`` parts of equal size along ``dim``; the last one may be smaller."""
    if not x.rank or chunks <= 0:
        raise RuntimeError(f"chunk: needs at least one dimension and chunks > 0, got {x.rank} dimensions and chunks {chunks}")
    axis = normalize_dim(dim, x.rank, "chunk")
    if x.shape[axis] == 0:
        return pieces(x, axis, [0] * chunks)
    return split(x, ceil_divide(x.shape[axis], chunks), axis)


@op("view", samples=lambda m: [case(m.float(7, 2), 3), case(m.float(2, 7), (2, 5), 1), case(m.float(6), (1, 9)), case(m.float(6), (-2,))])
def tensor_split(x: Value, indices_or_sections: int | tuple[int, ...], dim: int = 0) -> tuple[Node, ...]:
    """Parts along ``dim``: so many of sizes that differ by at most one, or parts between the given indices."""
    require_dimension("tensor_split", x)
    axis = normalize_dim(dim, x.rank, "tensor_split")
    size = x.shape[axis]
    if isinstance(indices_or_sections, int):
        if indices_or_sections <= 0:
            raise RuntimeError(f"tensor_split: number of sections must be larger than 0, got {indices_or_sections}")
        longer = int(size % indices_or_sections)
        least = size // indices_or_sections
        return pieces(x, axis, [least + int(i < longer) for i in range(indices_or_sections)])
    bounds = (None, *indices_or_sections, None)
    return tuple(slice_(x, axis, a, b) for a, b in zip(bounds, bounds[1:], strict=False))


@op("view", samples=lambda m: [case(m.float(3, 2)), case(m.float(2, 3), 1), case(m.float(2, 3, 2), -2)])
def unbind(x: Value, dim: int = 0) -> tuple[Node, ...]:
    """Every slice along ``dim``, without that dimension."""
    if not x.rank:
        raise IndexError("unbind: dimension specified as 0 but tensor has no dimensions")
    axis = normalize_dim(dim, x.rank, "unbind")
    return tuple(without_axis(cut(x, axis, i, 1), axis) for i in range(int(x.shape[axis])))


# -- another shape ----------------------------------------------------------------------------------------
def _view_samples(m: SampleMaker) -> Calls:
    return [case(m.float(4, 6), (2, 12)), case(m.float(4, 6), (-1, 3)), case(m.float(), (1, 1)), case(m.float(0, 3), (3, 0))]


@op("view", samples=_view_samples)
def view(x: Value, size: Sizes) -> Node:
    """The same memory with another shape; -1 stands for the size that fits."""
    return p.reshape(x, shape=resolve_shape(size, x.aval.numel, "view"))


@op("view", samples=lambda m: [case(m.float(2, 12), 1, (3, 4)), case(m.float(6, 2), 0, (-1, 3)), case(m.float(2, 6), -1, (6, 1))])
def unflatten(x: Value, dim: int, sizes: Sizes) -> Node:
    """One dimension seen as several."""
    axis = normalize_dim(dim, x.rank, "unflatten")
    if len(sizes) == 0:
        raise RuntimeError("unflatten: sizes must be non-empty")
    return p.reshape(x, shape=(*x.shape[:axis], *resolve_shape(sizes, x.shape[axis], "unflatten"), *x.shape[axis + 1 :]))


@op("reshape", samples=_view_samples)
def reshape(x: Value, shape: Sizes) -> Node:
    """Another shape of as many elements: a view where the strides allow it, else a copy."""
    return p.reshape(x, shape=resolve_shape(shape, x.aval.numel, "reshape"))


@op("reshape", samples=lambda m: [case(m.float(2, 3, 4)), case(m.float(2, 3, 4), 1), case(m.float(2, 3, 4), 0, -2), case(m.float())])
def flatten(x: Value, start_dim: int = 0, end_dim: int = -1) -> Node:
    """The dimensions from ``start_dim`` to ``end_dim`` as one."""
    first, last = normalize_dim(start_dim, x.rank, "flatten"), normalize_dim(end_dim, x.rank, "flatten")
    if first > last:
        raise RuntimeError(f"flatten: start_dim cannot come after end_dim, got {start_dim} and {end_dim}")
    merged = product(x.shape[first : last + 1])
    return p.reshape(x, shape=(*x.shape[:first], merged, *x.shape[last + 1 :]))


@op("reshape", samples=lambda m: [case(m.float(2, 3)), case(m.float()), case(m.float(0, 3))])
def ravel(x: Value) -> Node:
    """All elements in one dimension."""
    return p.reshape(x, shape=(x.aval.numel,))
