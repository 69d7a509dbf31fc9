"""Reading and writing at computed positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.core.symbolic import Dim
from flambeau.ir.node import Node
from flambeau.ops.cases import Calls, SampleMaker, case
from flambeau.ops.declare import Size, Value, Values, broadcast_shapes, broadcast_to, normalize_dim, op
from flambeau.ops.view import cut


def size_number(size: Dim, like: Node) -> Node:
    """A size as an int64 constant of the shape of ``like``."""
    return p.full(shape=like.shape, value=size, dtype=dtypes.int64)


def positions_from(index: Node, operator: str) -> Node:
    """An index in int64; RuntimeError for other than integer types."""
    if index.dtype not in (dtypes.int64, dtypes.int32) and not index.aval.numel == 0:
        raise IndexError(f"{operator}: expected dtype int32/int64 for index, got {index.dtype}; convert it with .long()")
    return p.converted(index, dtypes.int64)


def wrapped(index: Node, size: Dim) -> Node:
    """Negative positions counted from the end."""
    return p.where(p.lt(index, p.number(0, index)), p.add(index, size_number(size, index)), index)


def axis_first(x: Node, axis: int) -> Node:
    """x with one axis moved to the front."""
    return p.permute(x, axes=(axis, *(i for i in range(x.rank) if i != axis)))


def axis_restored(x: Node, axis: int) -> Node:
    """x with its first axis moved to place ``axis``."""
    return p.permute(x, axes=(*range(1, axis + 1), 0, *range(axis + 1, x.rank)))


def at_least_vector(x: Node) -> Node:
    """A number as a vector of one element."""
    return x if x.rank else p.reshape(x, shape=(1,))


def _vector(index: Node, operator: str) -> Node:
    if index.rank > 1:
        raise IndexError(f"{operator}: Index is supposed to be a vector, got shape {list(index.shape)}")
    return at_least_vector(positions_from(index, operator))


def _same_dtype(operator: str, x: Node, source: Node) -> Node:
    """``source`` in x's dtype; RuntimeError unless it has it already or is a number."""
    if source.dtype is not x.dtype and source.rank:
        raise RuntimeError(
            f"{operator}: expected self.dtype to be equal to src.dtype, got {x.dtype} and {source.dtype}; convert with .to(dtype)"
        )
    return p.converted(source, x.dtype)


def written(x: Node, values: Node, places: Sequence[Node], mode: str) -> Node:
    """x with values stored or combined at the places; combined in the type that bodies compute in."""
    wide = x.dtype if mode == "set" else x.dtype.compute
    return p.converted(p.scatter(p.converted(x, wide), p.converted(values, wide), *places, mode=mode), x.dtype)


def _indices(m: SampleMaker, size: int, *shape: int) -> Any:
    return m.int(*shape, low=0, high=size)


def selected(x: Node, axis: int, index: Node) -> Node:
    """The slices along one axis that a vector names, each row where it was."""
    at = p.expand(p.reshape(index, shape=(*(1,) * axis, index.shape[0])), shape=(*x.shape[:axis], index.shape[0]))
    return p.take(x, *places_along(at, axis))


# -- whole slices -----------------------------------------------------------------------------------------
def _slices_samples(m: SampleMaker) -> Calls:
    return [
        case(m.float(4, 3), 0, _indices(m, 4, 5)), case(m.float(2, 3, 4), -1, _indices(m, 4, 2)),
        case(m.float(2, 3, 4), 1, _indices(m, 3, 6)),
        case(m.float(5), 0, _indices(m, 5, 2)), case(m.float(3, 2), 0, _indices(m, 3, 0)),
    ]  # fmt: skip


@op(samples=_slices_samples)
def index_select(x: Value, dim: int, index: Value) -> Node:
    """The slices along ``dim`` that a vector names, in its order."""
    at = _vector(index, "index_select")
    if not x.rank:
        return p.reshape(p.take(at_least_vector(x), at), shape=())
    axis = normalize_dim(dim, x.rank, "index_select")
    return selected(x, axis, at)


def _write_slices(operator: str, x: Node, dim: int, index: Node, source: Node, mode: str) -> Node:
    axis, at = normalize_dim(dim, x.rank, operator), _vector(index, operator)
    if not x.rank:
        return p.reshape(_write_slices(operator, at_least_vector(x), 0, at, at_least_vector(source), mode), shape=())
    shape = (*x.shape[:axis], at.shape[0], *x.shape[axis + 1 :])
    if source.shape != shape:
        raise RuntimeError(f"{operator}: expected a source of shape {list(shape)}, got {list(source.shape)}")
    rows = axis_first(_same_dtype(operator, x, source), axis)
    return axis_restored(written(axis_first(x, axis), rows, [at], mode), axis)


def _write_slices_samples(m: SampleMaker) -> Calls:
    return [
        case(m.float(4, 3), 0, np.array([2, 0]), m.float(2, 3)), case(m.float(2, 3, 4), 1, np.array([2, 1]), m.float(2, 2, 4)),
        case(m.float(2, 5), -1, np.array([0, 3, 4]), m.float(2, 3)),
    ]  # fmt: skip


@op(samples=lambda m: [*_write_slices_samples(m), case(m.float(3, 2), 0, np.array([1, 1, 1]), m.float(3, 2), alpha=-0.5)])
def index_add(x: Value, dim: int, index: Value, source: Value, *, alpha: Value | int = 1) -> Node:
    """x with ``alpha * source`` added to the slices that ``index`` names, repeated ones repeatedly."""
    if not isinstance(alpha, int):
        wide = p.converted(source, source.dtype.compute)
        source = p.converted(p.mul(wide, broadcast_to(p.converted(alpha, wide.dtype), wide.shape)), source.dtype)
    return _write_slices("index_add", x, dim, index, source, "add")


@op(samples=_write_slices_samples)
def index_copy(x: Value, dim: int, index: Value, source: Value) -> Node:
    """x with the slices that ``index`` names taken from ``source``."""
    return _write_slices("index_copy", x, dim, index, source, "set")


@op(samples=lambda m: [case(m.float(4, 3), 0, np.array([2, -4]), 1.5), case(m.float(2, 3), 1, np.array([1, 1]), m.float())])
def index_fill(x: Value, dim: int, index: Value, value: Value) -> Node:
    """x with the slices that ``index`` names filled with one value."""
    if value.rank:
        raise RuntimeError(f"index_fill: only supports a 0-dimensional value tensor, but got tensor with {value.rank} dimension(s)")
    if not x.rank:
        return p.reshape(index_fill(at_least_vector(x), dim, index, value), shape=())
    axis, at = normalize_dim(dim, x.rank, "index_fill"), _vector(index, "index_fill")
    # A choice, not a scatter: an index that is named twice counts once in the gradient of the value.
    line, hit = p.constant(False, (x.shape[axis],), dtypes.bool_), p.constant(True, at.shape, dtypes.bool_)
    filled = p.scatter(line, hit, wrapped(at, x.shape[axis]), mode="set")
    filled = p.expand(p.reshape(filled, shape=tuple(d if i == axis else 1 for i, d in enumerate(x.shape))), shape=x.shape)
    return p.where(filled, broadcast_to(p.converted(value, x.dtype), x.shape), x)


# -- one element for each index ---------------------------------------------------------------------------
def places_along(index: Node, axis: int) -> list[Node]:
    """One index for each axis: ``index`` along ``axis``, an element's own position along the others."""
    return [index if a == axis else p.iota(shape=index.shape, axis=a, dtype=dtypes.int64) for a in range(index.rank)]


def _check_index(operator: str, x: Node, axis: int, index: Node) -> None:
    if x.rank != index.rank:
        raise RuntimeError(
            f"{operator}: Index tensor must have the same number of dimensions as input tensor, got {index.rank} and {x.rank}"
        )
    if any(a != axis and i > n for a, (i, n) in enumerate(zip(index.shape, x.shape, strict=True))):
        raise RuntimeError(
            f"{operator}: Size does not match, expected index {list(index.shape)} to be no larger than self {list(x.shape)} "
            f"apart from dimension {axis}"
        )


def _gather_samples(m: SampleMaker) -> Calls:
    return [
        case(m.float(4, 3), 0, _indices(m, 4, 2, 3)), case(m.float(4, 3), 1, _indices(m, 3, 2, 5)),
        case(m.float(2, 3, 4), -1, _indices(m, 4, 2, 2, 6)), case(m.float(5), 0, _indices(m, 5, 3)), case(m.float(), 0, np.array(0)),
    ]  # fmt: skip


@op(samples=_gather_samples)
def gather(x: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> Node:
    """out[i][j][k] = x[i][index[i][j][k]][k] for ``dim`` 1, and so on."""
    if sparse_grad:
        raise NotImplementedError("gather: sparse_grad=True is not supported; leave it out")
    at = positions_from(index, "gather")
    x, places = at_least_vector(x), at_least_vector(at)
    axis = normalize_dim(dim, x.rank, "gather")
    if at.aval.numel == 0:
        return p.constant(0, at.shape, x.dtype)
    _check_index("gather", x, axis, places)
    return p.reshape(p.take(x, *places_along(places, axis)), shape=at.shape)


@op(samples=lambda m: [case(m.float(3, 4), m.int(2, 5, low=-12, high=12)), case(m.float(6), np.array(-1))])
def take(x: Value, index: Value) -> Node:
    """The elements of the flattened x at ``index``."""
    numel = x.aval.numel
    return p.take(p.reshape(x, shape=(numel,)), wrapped(positions_from(index, "take"), numel))


def _along_samples(m: SampleMaker) -> Calls:
    return [
        case(m.float(4, 3), m.int(1, 3, low=-4, high=4), 0),
        case(m.float(2, 3), _indices(m, 3, 2, 2), 1),
        case(m.float(2, 3), _indices(m, 6, 4)),
    ]


@op(samples=_along_samples)
def take_along_dim(x: Value, indices: Value, dim: int | None = None) -> Node:
    """``gather`` with broadcasting; without ``dim``, on the flattened tensors."""
    if dim is None:
        x, indices = (p.reshape(v, shape=(v.aval.numel,)) for v in (x, indices))
        dim = 0
    axis = normalize_dim(dim, x.rank, "take_along_dim")
    if x.rank != indices.rank:
        raise RuntimeError(
            f"take_along_dim: input and indices should have the same number of dimensions, but got {x.rank} and {indices.rank}"
        )
    rest = [s.shape[:axis] + (1,) + s.shape[axis + 1 :] for s in (x, indices)]
    shape = broadcast_shapes(*rest, operator="take_along_dim")
    x = broadcast_to(x, (*shape[:axis], x.shape[axis], *shape[axis + 1 :]))
    at = broadcast_to(positions_from(indices, "take_along_dim"), (*shape[:axis], indices.shape[axis], *shape[axis + 1 :]))
    return p.take(x, *places_along(wrapped(at, x.shape[axis]), axis))


# -- advanced indexing ------------------------------------------------------------------------------------
class AdvancedIndex:
    """Index tensors for some axes of ``x``: broadcast, wrapped, and the order of axes that puts theirs first."""

    def __init__(self, x: Node, indices: Sequence[Node | None], operator: str) -> None:
        if len(indices) > x.rank:
            raise IndexError(f"{operator}: too many indices for tensor of dimension {x.rank} (got {len(indices)})")
        axes = [a for a, index in enumerate(indices) if index is not None]
        if not axes:
            raise IndexError(f"{operator}: needs at least one index tensor, got none")
        given = [positions_from(indices[a], operator) for a in axes]  # type: ignore[arg-type]
        try:
            self.shape = broadcast_shapes(*(i.shape for i in given), operator=operator)
        except RuntimeError:
            shapes = ", ".join(str(list(i.shape)) for i in given)
            raise IndexError(f"{operator}: shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}") from None
        self.places = [broadcast_to(wrapped(i, x.shape[a]), self.shape) for a, i in zip(axes, given, strict=True)]
        others = [a for a in range(x.rank) if a not in axes]
        self.order = (*axes, *others)
        self.rest = tuple(x.shape[a] for a in others)
        # The axes of the index go where the indexed ones were, or first when others lie between those.
        self.front = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0

    @property
    def result_order(self) -> tuple[int, ...]:
        """Puts the axes of ``take``'s result (index first, then the rest) in their final order."""
        rank, count = len(self.shape), len(self.rest)
        rest = range(rank, rank + count)
        return (*rest[: self.front], *range(rank), *rest[self.front :])

    @property
    def result_shape(self) -> tuple[Dim, ...]:
        whole = (*self.shape, *self.rest)
        return tuple(whole[a] for a in self.result_order)


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=lambda i: order[i]))


def _index_samples(m: SampleMaker) -> Calls:
    return [
        case(m.float(4, 3), [m.int(5, low=-4, high=4)]), case(m.float(4, 3, 2), [None, m.int(2, 2, low=-3, high=3)]),
        case(m.float(4, 3, 2), [_indices(m, 4, 5), _indices(m, 3, 1)]),
        case(m.float(4, 3, 2), [_indices(m, 4, 3), None, _indices(m, 2, 3)]),
        case(m.float(4, 3, 2), [None, _indices(m, 3), _indices(m, 2, 4)]), case(m.float(3, 2), [_indices(m, 3, 0)]),
    ]  # fmt: skip


@op(samples=_index_samples)
def index(x: Value, indices: Values) -> Node:
    """x[i0, i1, ...]: one integer tensor or None (the whole axis) for each leading axis; negative positions count from the end."""
    plan = AdvancedIndex(x, indices, "index")
    out = p.take(p.permute(x, axes=plan.order), *plan.places)
    return p.permute(out, axes=plan.result_order)


def _index_put_samples(m: SampleMaker) -> Calls:
    return [
        case(m.float(4, 3), [np.array([-1, 1])], m.float(2, 3)), case(m.float(4, 3, 2), [None, np.array([2, 0])], m.float(2)),
        case(m.float(4, 3), [np.array([1, 1, 0])], m.float(3, 3), True),
        case(m.float(4, 3), [np.array([1, 1]), np.array([2, 2])], 1.5, True),
        case(m.float(2, 3, 2), [np.array([1, 0]), None, np.array([0, 1])], m.float(2, 3)),
    ]  # fmt: skip


@op(samples=_index_put_samples)
def index_put(x: Value, indices: Values, values: Value, accumulate: bool = False) -> Node:
    """x with ``values`` stored (or added) at x[i0, i1, ...]; among repeated places the last one stored wins."""
    plan = AdvancedIndex(x, indices, "index_put")
    if values.dtype is not x.dtype and values.rank:
        raise RuntimeError(
            f"index_put: requires the source and destination dtypes match, got {x.dtype} for the destination and {values.dtype} for the "
            "source"
        )
    shape = plan.result_shape
    extra = values.rank - len(shape)
    if extra > 0 and all(d == 1 for d in values.shape[:extra]):
        values = p.reshape(values, shape=values.shape[extra:])
    if values.rank > len(shape) or not all(v == 1 or v == s for v, s in zip(reversed(values.shape), reversed(shape), strict=False)):
        raise RuntimeError(
            f"index_put: shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result of shape "
            f"{list(shape)}"
        )
    spread = p.permute(broadcast_to(p.converted(values, x.dtype), shape), axes=_inverse(plan.result_order))
    out = written(p.permute(x, axes=plan.order), spread, plan.places, "add" if accumulate else "set")
    return p.permute(out, axes=_inverse(plan.order))


@op(samples=lambda m: [case(m.float(3, 4), np.array([0, -1, 5]), m.float(3)), case(m.float(6), np.array([[2], [2]]), m.float(2, 1), True)])
def put(x: Value, index: Value, source: Value, accumulate: bool = False) -> Node:
    """x with ``source`` stored (or added) at positions of the flattened x."""
    flat = p.reshape(x, shape=(x.aval.numel,))
    at = wrapped(positions_from(index, "put"), x.aval.numel)
    if source.aval.numel != at.aval.numel:
        raise RuntimeError(f"put: source and index should have the same number of elements, got {source.aval.numel} and {at.aval.numel}")
    values = p.reshape(_same_dtype("put", x, source), shape=at.shape)
    return p.reshape(written(flat, values, [at], "add" if accumulate else "set"), shape=x.shape)


# -- scatter ----------------------------------------------------------------------------------------------
MODES = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}


def _scattered(operator: str, x: Node, dim: int, index: Node, src: Node, mode: str) -> Node:
    base, places = at_least_vector(x), at_least_vector(positions_from(index, operator))
    axis = normalize_dim(dim, base.rank, operator)
    if index.aval.numel == 0:
        return x
    _check_index(operator, base, axis, places)
    src = _same_dtype(operator, x, src)
    values = broadcast_to(src, places.shape) if not src.rank else src
    if values.rank != places.rank or any(i > n for i, n in zip(places.shape, values.shape, strict=True)):
        raise RuntimeError(f"{operator}: expected index {list(index.shape)} to be no larger in any dimension than src {list(src.shape)}")
    for a, size in enumerate(places.shape):
        if not values.shape[a] == size:
            values = cut(values, a, 0, size)
    return p.reshape(written(base, values, places_along(places, axis), mode), shape=x.shape)


def _distinct(m: SampleMaker, size: int, *shape: int) -> Any:
    """Indices along axis 0 of which no two in a column are equal."""
    return np.argsort(m.random.uniform(size=(size, *shape[1:])), axis=0)[: shape[0]]


def _scatter_samples(m: SampleMaker) -> Calls:
    return [
        case(m.float(4, 3), 0, _distinct(m, 4, 2, 3), m.float(2, 3)), case(m.float(4, 3), 0, _distinct(m, 4, 2, 2), m.float(3, 3)),
        case(m.float(3, 4), 1, _distinct(m, 4, 2, 3).T, m.float(3, 2)), case(m.float(5), -1, _distinct(m, 5, 3), 1.5),
    ]  # fmt: skip


def _scatter_reduce_arg_samples(m: SampleMaker) -> Calls:
    repeated = _indices(m, 4, 5, 3)
    return [*_scatter_samples(m), *(case(m.float(4, 3), 0, repeated, m.float(5, 3), reduce=r) for r in ("add", "multiply"))]


@op(samples=_scatter_reduce_arg_samples)
def scatter(x: Value, dim: int, index: Value, src: Value, *, reduce: str | None = None) -> Node:
    """x with out[index[i][j]][j] = src[i][j] for ``dim`` 0, and so on; ``src`` may be a number."""
    modes = {None: "set", "add": "add", "multiply": "mul"}
    if reduce not in modes:
        raise RuntimeError(f"scatter: reduce argument must be either add or multiply, got {reduce!r}; see scatter_reduce()")
    return _scattered("scatter", x, dim, index, src, modes[reduce])


@op(samples=lambda m: [*_scatter_samples(m)[:3], case(m.float(3), 0, np.array([1, 1, 1, 0]), m.float(4))])
def scatter_add(x: Value, dim: int, index: Value, src: Value) -> Node:
    """As ``scatter``, adding."""
    return _scattered("scatter_add", x, dim, index, src, "add")


def _identity(reduce: str, x: Node) -> float | int:
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if x.dtype.is_floating_point:
        return -math.inf if reduce == "amax" else math.inf
    if x.dtype is dtypes.bool_:
        return reduce == "amin"
    limits = np.iinfo(x.dtype.numpy)
    return int(limits.min if reduce == "amax" else limits.max)


def _divided(total: Node, count: Node) -> Node:
    """total / count, rounded down for integers."""
    if total.dtype.is_floating_point:
        return p.div(total, count)
    quotient = p.truncdiv(total, count)
    below = p.lt(p.rem(total, count), p.number(0, total))
    return p.sub(quotient, p.cast(below, to=total.dtype))


def _scatter_reduce_samples(m: SampleMaker) -> Calls:
    out: Calls = []
    for reduce in MODES:
        for include_self in (True, False):
            out.append(case(m.float(4, 3), 0, _indices(m, 4, 6, 3), m.float(6, 3), reduce, include_self=include_self))
    out.append(case(m.int(3), 0, np.array([0, 0, 2]), m.int(3), "mean"))
    return [*out, case(m.int(3), 0, np.array([0, 2]), m.int(2), "amax", include_self=False)]


@op(promote="same", promoted=("x", "src"), samples=_scatter_reduce_samples)
def scatter_reduce(x: Value, dim: int, index: Value, src: Value, reduce: str, *, include_self: bool = True) -> Node:
    """As ``scatter``, combining by sum, prod, mean, amax or amin; without ``include_self`` x counts only where nothing lands."""
    if reduce not in MODES:
        raise RuntimeError(f"scatter_reduce: reduce argument must be one of {', '.join(MODES)}, got {reduce!r}")
    base = x
    if not include_self:
        base = _scattered("scatter_reduce", x, dim, index, p.constant(_identity(reduce, x), (), x.dtype), "set")
    out = _scattered("scatter_reduce", base, dim, index, src, MODES[reduce])
    if reduce != "mean":
        return out
    first, one = p.number(int(include_self), x), p.constant(1, (), x.dtype)
    count = _scattered("scatter_reduce", first, dim, index, one, "add")
    return _divided(out, p.maximum(count, p.number(1, count)))


def _index_reduce_samples(m: SampleMaker) -> Calls:
    at = np.array([0, 2, 0])
    return [case(m.float(3, 2), 0, at, m.float(3, 2), r, include_self=i) for r in list(MODES)[1:] for i in (True, False)]


@op(promote="same", promoted=("x", "source"), samples=_index_reduce_samples)
def index_reduce(x: Value, dim: int, index: Value, source: Value, reduce: str, *, include_self: bool = True) -> Node:
    """x with slices of ``source`` combined into the slices that ``index`` names, by prod, mean, amax or amin."""
    if not x.rank:
        vectors = at_least_vector(x), at_least_vector(source)
        return p.reshape(index_reduce(vectors[0], dim, index, vectors[1], reduce, include_self=include_self), shape=())
    axis, at = normalize_dim(dim, x.rank, "index_reduce"), _vector(index, "index_reduce")
    if source.shape != (*x.shape[:axis], at.shape[0], *x.shape[axis + 1 :]):
        raise RuntimeError(f"index_reduce: source {list(source.shape)} does not fit self {list(x.shape)} with {at.shape[0]} indices")
    whole = p.expand(p.reshape(at, shape=tuple(d if i == axis else 1 for i, d in enumerate(source.shape))), shape=source.shape)
    return scatter_reduce(x, dim, whole, source, reduce, include_self=include_self)


# -- masks ------------------------------------------------------------------------------------------------
def as_mask(mask: Node, operator: str) -> Node:
    """A bool mask; RuntimeError for another dtype."""
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(f"{operator}: expected a bool mask, got {mask.dtype}; compare it with 0 first")
    return mask


def running_count(mask: Node) -> Node:
    """For each element of the flattened mask how many are true up to it, int64."""
    flat = p.reshape(mask, shape=(mask.aval.numel,))
    return p.scan(p.cast(flat, to=dtypes.int64), kind="sum", axis=0)


@op(samples=lambda m: [case(m.bool(7)), case(m.bool(3, 4)), case(m.bool(0))])
def mask_positions(mask: Value) -> tuple[Node, Node]:
    """The running count of true elements in row-major order (int64, one-dimensional), and their number (0-d)."""
    flat = p.reshape(as_mask(mask, "mask_positions"), shape=(mask.aval.numel,))
    return running_count(mask), p.reduce(p.cast(flat, to=dtypes.int64), kind="sum", axes=(0,))


def _compact_samples(m: SampleMaker) -> Calls:
    mask = np.array([True, False, True, True, False])
    return [case(m.float(5), mask, 3), case(m.float(5, 2), mask, 3), case(m.float(5), mask, 2), case(m.int(5), mask, 3)]


@op(samples=_compact_samples)
def compact(values: Value, mask: Value, count: Size) -> Node:
    """The first ``count`` of the slices ``values[i]`` whose ``mask[i]`` holds, in order; zeros when there are fewer."""
    running = running_count(as_mask(mask, "compact"))
    kept = p.bitwise_and(mask, p.le(running, size_number(count, running)))
    # What is left out lands in one more slice at the end, which is cut off.
    at = p.where(kept, p.sub(running, p.number(1, running)), size_number(count, running))
    room = p.constant(0, (count + 1, *values.shape[1:]), values.dtype)
    return cut(p.scatter(room, values, at, mode="set"), 0, 0, count)


def coordinates(flat: Node, shape: Sequence[Dim]) -> Node:
    """Row-major positions [n] as coordinates [n, len(shape)]."""
    columns: list[Node] = []
    for size in reversed(shape):
        columns.append(p.reshape(p.rem(flat, size_number(size, flat)), shape=(*flat.shape, 1)))
        flat = p.truncdiv(flat, size_number(size, flat))
    return p.cat(*reversed(columns), axis=1) if columns else p.constant(0, (*flat.shape, 0), dtypes.int64)


def _nonzero_samples(m: SampleMaker) -> Calls:
    x = np.array([[0.0, 1.5, 0.0], [2.0, 0.0, -1.0]])
    return [case(x, 3), case(x, 5), case(x, 2), case(x, 4, 9), case(m.bool(6), 6), case(np.array(2), 1)]


@op(promote="same", samples=_nonzero_samples)
def nonzero_static(x: Value, size: Size, fill_value: int = -1) -> Node:
    """Coordinates of the first ``size`` nonzero elements, int64 [size, dimensions]; rows beyond their number hold ``fill_value``."""
    mask = p.reshape(p.ne(x, p.number(0, x)), shape=(x.aval.numel,))
    found = coordinates(compact(p.iota(shape=mask.shape, axis=0, dtype=dtypes.int64), mask, size), x.shape)
    total = p.reduce(p.cast(mask, to=dtypes.int64), kind="sum", axes=(0,))
    row = p.iota(shape=found.shape, axis=0, dtype=dtypes.int64)
    return p.where(p.lt(row, broadcast_to(total, found.shape)), found, p.number(fill_value, found))


@op(samples=lambda m: [case(m.float(3, 4), m.bool(3, 4), m.float(12)), case(m.float(2, 3), m.bool(3), m.float(3, 3))])
def masked_scatter(x: Value, mask: Value, source: Value) -> Node:
    """x with the elements under ``mask`` replaced by those of ``source`` in order."""
    shape = broadcast_shapes(x.shape, as_mask(mask, "masked_scatter").shape, operator="masked_scatter")
    source = _same_dtype("masked_scatter", x, p.reshape(source, shape=(source.aval.numel,)))
    mask = broadcast_to(mask, shape)
    running = p.reshape(running_count(mask), shape=shape)
    at = p.where(mask, p.sub(running, p.number(1, running)), p.number(0, running))
    return p.where(mask, p.take(source, at), broadcast_to(x, shape))


# -- classes, search, counts ------------------------------------------------------------------------------
@op(samples=lambda m: [case(_indices(m, 4, 5), 4), case(_indices(m, 3, 2, 2), 6), case(np.array(1), 3)])
def one_hot(x: Value, num_classes: Size) -> Node:
    """1 at position x of a new last dimension of ``num_classes``, 0 elsewhere; int64. A class out of range raises."""
    line = p.iota(shape=(num_classes,), axis=0, dtype=dtypes.int64)
    checked = p.take(line, positions_from(x, "one_hot"))  # x itself, checked
    shape = (*x.shape, num_classes)
    classes = p.expand(p.reshape(checked, shape=(*x.shape, 1)), shape=shape)
    return p.cast(p.eq(classes, broadcast_to(line, shape)), to=dtypes.int64)


def insertion_points(boundaries: Node, values: Node, right: bool) -> Node:
    """Binary search along the last axis of ``boundaries``: how many are below (``right``: not above) each value.

    ``boundaries`` is a vector, or has the leading axes of ``values``.
    """
    size = boundaries.shape[-1]
    found = p.constant(0, values.shape, dtypes.int64)
    leading = [p.iota(shape=values.shape, axis=a, dtype=dtypes.int64) for a in range(boundaries.rank - 1)]
    steps = [1]
    while 2 * steps[-1] <= size:
        steps.append(2 * steps[-1])
    for step in reversed(steps if size > 0 else []):
        reach = p.add(found, p.number(step, found))
        last = p.sub(p.minimum(reach, size_number(size, reach)), p.number(1, reach))
        at = p.take(boundaries, *leading, last)
        above = p.lt(values, at) if right else p.le(values, at)
        fits = p.bitwise_and(p.le(reach, size_number(size, reach)), p.invert(above))
        found = p.where(fits, reach, found)
    return found


def _search_samples(m: SampleMaker) -> Calls:
    line, lines = np.sort(m.float(9)), np.sort(m.float(2, 5), axis=-1)
    integers = np.array([1, 3, 3, 5])
    return [
        case(line, m.float(3, 4)), case(lines, m.float(2, 7)), case(integers, m.int(8, low=0, high=7)),
        case(integers, m.int(8, low=0, high=7), right=True), case(integers, np.array([3, 4]), out_int32=True, side="right"),
        case(line, 0.25), case(np.array([], np.float64), m.float(3)),
    ]  # fmt: skip


@op(promote="arithmetic", promoted=("sorted_sequence", "x"), samples=_search_samples)
def searchsorted(
    sorted_sequence: Value, x: Value, *, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Value | None = None,
) -> Node:  # fmt: skip
    """Where each value would be inserted into the sorted last dimension: before equal elements, or after them."""
    if side not in (None, "left", "right") or (right and side == "left"):
        raise RuntimeError(
            f"searchsorted: side can only be 'left' or 'right' and must agree with right, got side {side!r} and right {right}"
        )
    if sorted_sequence.rank != 1 and sorted_sequence.shape[:-1] != x.shape[:-1]:
        raise RuntimeError(
            "searchsorted: boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value "
            f"tensor must match, but we got boundaries {list(sorted_sequence.shape)} and input value {list(x.shape)}"
        )
    if sorter is not None:
        sorted_sequence = gather(sorted_sequence, -1, sorter)
    found = insertion_points(sorted_sequence, x, right or side == "right")
    return p.converted(found, dtypes.int32) if out_int32 else found


def _bucketize_samples(m: SampleMaker) -> Calls:
    edges = np.array([1, 3, 5, 7, 9])
    return [
        case(m.int(3, 4, low=0, high=11), edges),
        case(m.int(6, low=0, high=11), edges, right=True),
        case(m.float(5), np.sort(m.float(6))),
    ]


@op(promote="arithmetic", promoted=("x", "boundaries"), samples=_bucketize_samples)
def bucketize(x: Value, boundaries: Value, *, out_int32: bool = False, right: bool = False) -> Node:
    """The bucket of each value: boundaries[i - 1] < value <= boundaries[i], or with ``right`` <= and <."""
    if boundaries.rank != 1:
        raise RuntimeError(f"bucketize: boundaries tensor must be 1 dimension, but got dim({boundaries.rank})")
    found = insertion_points(boundaries, x, right)
    return p.converted(found, dtypes.int32) if out_int32 else found


@op(samples=lambda m: [case(_indices(m, 5, 20), None, 6), case(_indices(m, 4, 9), m.float(9), 4), case(_indices(m, 4, 0), None, 2)])
def bincount(x: Value, weights: Value | None, length: Size) -> Node:
    """How often each number below ``length`` occurs in a vector, or the sum of the weights where it does."""
    if x.rank != 1 or (weights is not None and weights.shape != x.shape):
        raise RuntimeError("bincount: only supports 1-d non-negative integral inputs, and weights of the same shape")
    if weights is None:
        kind = dtypes.int64
    else:
        kind = weights.dtype if weights.dtype is dtypes.float32 else dtypes.float64
    values = p.constant(1, x.shape, kind) if weights is None else p.converted(weights, kind)
    return p.scatter(p.constant(0, (length,), kind), values, p.converted(x, dtypes.int64), mode="add")
