"""Reductions along dimensions, running reductions and what is made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import Dim, product
from flambeau.ir.node import Node
from flambeau.ops import samples as s
from flambeau.ops.comparison import truth
from flambeau.ops.declare import Value, named_results, normalize_dim, normalize_dims, op
from flambeau.ops.pointwise import converted, logaddexp, require_inexact

Dims = int | Sequence[int] | None


@named_results
class ValuesIndices(NamedTuple):
    """Selected values and where along the dimension they stand (int64)."""

    values: Node
    indices: Node


# -- helpers for bodies ---------------------------------------------------------------------------------
def reduced(x: Node, kind: str, axes: tuple[int, ...]) -> Node:
    """x combined along ``axes``, which are dropped; one element alone is its own sum, product or extreme."""
    several = tuple(a for a in axes if not x.shape[a] == 1)
    out = p.reduce(x, kind=kind, axes=several) if several else x
    return out if several == axes else p.reshape(out, shape=_dropped(x.shape, axes))


def position_along(x: Node, kind: str, axis: int) -> Node:
    """The first position of the max or min along ``axis``, which is dropped."""
    if x.shape[axis] == 1:
        return p.constant(0, _dropped(x.shape, (axis,)), dtypes.int64)
    return p.argreduce(x, kind=kind, axis=axis)


def _dropped(shape: tuple[Dim, ...], axes: tuple[int, ...]) -> tuple[Dim, ...]:
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def restored(x: Node, axes: tuple[int, ...], shape: tuple[Dim, ...]) -> Node:
    """The reduced ``x`` repeated along ``axes`` to ``shape``."""
    return p.restore(x, axes, shape) if axes else x


def kept(x: Node, axes: tuple[int, ...], shape: tuple[Dim, ...], keepdim: bool) -> Node:
    """The reduced ``x`` with ``axes`` back at size 1 if ``keepdim``."""
    return p.reshape(x, shape=tuple(1 if i in axes else d for i, d in enumerate(shape))) if keepdim and axes else x


def axes_of(x: Node, dim: Dims, operator: str) -> tuple[int, ...]:
    """The axes that ``dim`` names, sorted; all for None; none of a 0-d x."""
    axes = normalize_dims(dim, x.rank, operator)
    return axes if x.rank else ()


def axis_of(x: Node, dim: int, operator: str) -> int:
    """The one axis that ``dim`` names."""
    return normalize_dim(dim, x.rank, operator)


def count_along(x: Node, axes: tuple[int, ...]) -> Dim:
    """How many elements are combined into one."""
    return product(x.shape[a] for a in axes)


def size_number(size: Dim, like: Node) -> Node:
    """A size as a number in the shape and dtype of ``like``."""
    if isinstance(size, int):
        return p.number(size, like)
    return p.cast(p.full(shape=like.shape, value=size, dtype=dtypes.int64), to=like.dtype)


def mean_along(x: Node, axes: tuple[int, ...]) -> Node:
    """The mean along ``axes``, which are dropped."""
    total = reduced(x, "sum", axes)
    return p.div(total, size_number(count_along(x, axes), total)) if axes else total


def safe_sqrt(x: Node) -> Node:
    """The square root, with derivative 0 instead of inf at 0: what torch gives for norms and deviations."""
    zero = p.number(0, x)
    at_zero = p.eq(x, zero)
    return p.where(at_zero, zero, p.sqrt(p.where(at_zero, p.number(1, x), x)))


def _widened(x: Node, wanted: dtype | None) -> Node:
    """Integers and bools as int64, unless the caller named a type."""
    return converted(x, dtypes.int64) if wanted is None and not x.dtype.is_inexact else x


def _require_elements(operator: str, x: Node, axes: tuple[int, ...], dim: Dims) -> None:
    for a in axes:
        if x.shape[a] == 0:
            if dim is None:
                raise RuntimeError(f"{operator}: expected reduction dim to be specified for input.numel() == 0; give the dim argument")
            raise IndexError(f"{operator}: expected reduction dim {a} to have non-zero size; got shape {list(x.shape)}")


def _flat(x: Node) -> Node:
    return p.reshape(x, shape=(x.aval.numel,)) if x.rank != 1 else x


# -- sums and means -------------------------------------------------------------------------------------
@op("general", promote="arithmetic", samples=s.reduction)
def sum(x: Value, dim: Dims = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Node:
    """The sum along ``dim`` (an int, several, or all for None); integers are summed in int64."""
    axes = axes_of(x, dim, "sum")
    return kept(reduced(_widened(x, dtype), "sum", axes), axes, x.shape, keepdim)


@op("general", promote="arithmetic", samples=s.reduction)
def mean(x: Value, dim: Dims = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Node:
    """The mean along ``dim`` (an int, several, or all for None) of a floating point tensor; NaN of nothing."""
    if not x.dtype.is_inexact:
        raise RuntimeError(f"mean: could not infer output dtype; needs a floating point or complex tensor or dtype=, got {x.dtype}")
    axes = axes_of(x, dim, "mean")
    return kept(mean_along(x, axes), axes, x.shape, keepdim)


@op("general", promote="arithmetic", samples=s.one_reduction)
def prod(x: Value, dim: int | None = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Node:
    """The product along ``dim`` (all for None); integers are multiplied in int64."""
    axes = axes_of(x, dim, "prod")
    return kept(reduced(_widened(x, dtype), "prod", axes), axes, x.shape, keepdim)


@op("general", promote="arithmetic", samples=s.reduction_with_nan)
def nansum(x: Value, dim: Dims = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Node:
    """The sum along ``dim``, NaN counting as 0."""
    x = p.where(p.isnan(x), p.number(0, x), x) if x.dtype.is_floating_point else _widened(x, dtype)
    axes = axes_of(x, dim, "nansum")
    return kept(reduced(x, "sum", axes), axes, x.shape, keepdim)


@op("general", promote="arithmetic", samples=s.reduction_with_nan)
def nanmean(x: Value, dim: Dims = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Node:
    """The mean along ``dim`` of the elements that are not NaN."""
    if not x.dtype.is_inexact:
        raise RuntimeError(f"nanmean: needs a floating point tensor, got {x.dtype}; convert with .float()")
    axes = axes_of(x, dim, "nanmean")
    absent = p.isnan(x)
    total = reduced(p.where(absent, p.number(0, x), x), "sum", axes)
    count = reduced(p.cast(p.invert(absent), to=x.dtype), "sum", axes)
    return kept(p.div(total, count), axes, x.shape, keepdim)


@op("general", promote="arithmetic", samples=s.reduction_of_zeros)
def count_nonzero(x: Value, dim: Dims = None) -> Node:
    """How many elements along ``dim`` differ from 0, int64."""
    return reduced(p.cast(truth(x), to=dtypes.int64), "sum", axes_of(x, dim, "count_nonzero"))


# -- logic ----------------------------------------------------------------------------------------------
def _logical(operator: str, x: Node, dim: Dims, keepdim: bool) -> Node:
    axes = axes_of(x, dim, operator)
    out = kept(reduced(truth(x), operator, axes), axes, x.shape, keepdim)
    return p.cast(out, to=dtypes.uint8) if x.dtype is dtypes.uint8 else out


@op("general", promote="arithmetic", samples=s.reduction_of_zeros)
def all(x: Value, dim: Dims = None, keepdim: bool = False) -> Node:
    """Whether every element along ``dim`` differs from 0; true of nothing."""
    return _logical("all", x, dim, keepdim)


@op("general", promote="arithmetic", samples=s.reduction_of_zeros)
def any(x: Value, dim: Dims = None, keepdim: bool = False) -> Node:
    """Whether an element along ``dim`` differs from 0; false of nothing."""
    return _logical("any", x, dim, keepdim)


# -- extremes -------------------------------------------------------------------------------------------
def _extreme(operator: str, x: Node, kind: str, dim: Dims, keepdim: bool = False) -> Node:
    axes = axes_of(x, dim, operator)
    _require_elements(operator, x, axes, dim if dim is None or isinstance(dim, int) or len(dim) else None)
    if x.dtype is dtypes.bool_:
        kind = {"max": "any", "min": "all"}[kind]
    return kept(reduced(x, kind, axes), axes, x.shape, keepdim)


@op("general", promote="arithmetic", samples=s.reduction)
def amax(x: Value, dim: Dims = (), keepdim: bool = False) -> Node:
    """The largest element along ``dim``; the gradient is shared evenly by equal ones."""
    return _extreme("amax", x, "max", dim, keepdim)


@op("general", promote="arithmetic", samples=s.reduction)
def amin(x: Value, dim: Dims = (), keepdim: bool = False) -> Node:
    """The smallest element along ``dim``; the gradient is shared evenly by equal ones."""
    return _extreme("amin", x, "min", dim, keepdim)


def _argument_extreme(operator: str, x: Node, kind: str, dim: int | None, keepdim: bool) -> Node:
    x = p.cast(x, to=dtypes.uint8) if x.dtype is dtypes.bool_ else x
    axes = axes_of(x, dim, operator)
    _require_elements(operator, x, axes, dim)
    if not axes:
        return p.constant(0, (), dtypes.int64)
    out = position_along(_flat(x), kind, 0) if dim is None else position_along(x, kind, axes[0])
    return kept(out, axes, x.shape, keepdim)


@op("general", promote="arithmetic", samples=s.one_reduction)
def argmax(x: Value, dim: int | None = None, keepdim: bool = False) -> Node:
    """The position along ``dim`` of the largest element (None: in the flattened x), int64; the first of equal ones."""
    return _argument_extreme("argmax", x, "max", dim, keepdim)


@op("general", promote="arithmetic", samples=s.one_reduction)
def argmin(x: Value, dim: int | None = None, keepdim: bool = False) -> Node:
    """The position along ``dim`` of the smallest element (None: in the flattened x), int64; the first of equal ones."""
    return _argument_extreme("argmin", x, "min", dim, keepdim)


@op("general", promote="arithmetic", samples=s.optional_dim)
def max(x: Value, dim: int | None = None, keepdim: bool = False) -> Node | ValuesIndices:
    """The largest element of all, or along ``dim`` with its position; NaN counts as largest."""
    return _extreme("max", x, "max", None) if dim is None else _selected_extreme("max", x, "max", dim, keepdim)


@op("general", promote="arithmetic", samples=s.optional_dim)
def min(x: Value, dim: int | None = None, keepdim: bool = False) -> Node | ValuesIndices:
    """The smallest element of all, or along ``dim`` with its position; NaN counts as smallest."""
    return _extreme("min", x, "min", None) if dim is None else _selected_extreme("min", x, "min", dim, keepdim)


def _selected_extreme(operator: str, x: Node, kind: str, dim: int, keepdim: bool) -> ValuesIndices:
    """The extreme and its position; the element there alone has a gradient, ties or not."""
    indices = _argument_extreme(operator, x, kind, dim, False)
    return _selected(x, indices, axes_of(x, dim, operator), keepdim)


def _selected(x: Node, indices: Node, axes: tuple[int, ...], keepdim: bool) -> ValuesIndices:
    """One element of each row, as a sum in which it is the only one: a gradient without a scatter."""
    if not axes:
        return ValuesIndices(x, indices)
    here = p.iota(shape=x.shape, axis=axes[0], dtype=dtypes.int64)
    alone = p.where(p.eq(here, restored(indices, axes, x.shape)), x, p.number(0, x))
    values = reduced(alone, "any" if x.dtype is dtypes.bool_ else "sum", axes)
    return ValuesIndices(*(kept(v, axes, x.shape, keepdim) for v in (values, indices)))


@op("general", promote="arithmetic", samples=s.optional_dim)
def median(x: Value, dim: int | None = None, keepdim: bool = False) -> Node | ValuesIndices:
    """The lower of the middle elements of all, or along ``dim`` with its position; NaN if there is one."""
    axes = axes_of(x, dim, "median")
    _require_elements("median", x, axes, dim)
    if dim is None:
        line = _flat(x)
        return _selected(line, _middle_position(line, 0), (0,), False).values
    indices = _middle_position(x, axes[0]) if axes else p.constant(0, (), dtypes.int64)
    return _selected(x, indices, axes, keepdim)


def _middle_position(x: Node, axis: int) -> Node:
    """Where along ``axis`` the lower middle element stands, or the first NaN; the axis is dropped."""
    order = p.argsort(x, axis=axis, descending=False)
    middle = p.slice_(order, **p.select_index(axis, (x.shape[axis] - 1) // 2, 1, 1, x.shape))
    middle = p.reshape(middle, shape=_dropped(x.shape, (axis,)))
    if not x.dtype.is_floating_point:
        return middle
    absent = p.isnan(x)
    first = position_along(p.cast(absent, to=dtypes.uint8), "max", axis)
    return p.where(reduced(absent, "any", (axis,)), first, middle)


def take_along(x: Node, index: Node, axis: int) -> Node:
    """Element (..., i, ...) is x[..., index[..., i, ...], ...]; ``index`` has the shape of x except along ``axis``."""
    places = [index if a == axis else p.iota(shape=index.shape, axis=a, dtype=dtypes.int64) for a in range(x.rank)]
    return p.take(x, *places)


def squared(x: Node) -> Node:
    """|x| ** 2, which of complex numbers is real."""
    if not x.dtype.is_complex:
        return p.mul(x, x)
    return p.add(*(p.mul(v, v) for v in (p.part(x, index=0), p.part(x, index=1))))


# -- spread ---------------------------------------------------------------------------------------------
def _variance(operator: str, x: Node, dim: Dims, correction: float) -> tuple[Node, Node, tuple[int, ...]]:
    """Variance and mean along the axes, dropped: the mean first, then the mean of squared deviations."""
    if not x.dtype.is_inexact:
        raise RuntimeError(f"{operator}: only supports floating point tensors, got {x.dtype}; convert with .float()")
    axes = axes_of(x, dim, operator)
    average = mean_along(x, axes)
    deviation = p.sub(x, restored(average, axes, x.shape))
    total = reduced(squared(deviation), "sum", axes)
    freedom = p.sub(size_number(count_along(x, axes), total), p.number(correction, total))
    return p.div(total, p.maximum(freedom, p.number(0, total))), average, axes


@op("general", promote="arithmetic", samples=s.spread)
def var(x: Value, dim: Dims = None, *, correction: float = 1, keepdim: bool = False) -> Node:
    """The variance along ``dim``: squared deviations from the mean over N - correction."""
    variance, _, axes = _variance("var", x, dim, correction)
    return kept(variance, axes, x.shape, keepdim)


@op("general", promote="arithmetic", samples=s.spread)
def std(x: Value, dim: Dims = None, *, correction: float = 1, keepdim: bool = False) -> Node:
    """The standard deviation along ``dim``: the square root of ``var``."""
    variance, _, axes = _variance("std", x, dim, correction)
    return kept(safe_sqrt(variance), axes, x.shape, keepdim)


@op("general", promote="arithmetic", samples=s.spread)
def var_mean(x: Value, dim: Dims = None, *, correction: float = 1, keepdim: bool = False) -> tuple[Node, Node]:
    """The variance and the mean along ``dim``."""
    variance, average, axes = _variance("var_mean", x, dim, correction)
    return kept(variance, axes, x.shape, keepdim), kept(average, axes, x.shape, keepdim)


@op("general", promote="arithmetic", samples=s.spread)
def std_mean(x: Value, dim: Dims = None, *, correction: float = 1, keepdim: bool = False) -> tuple[Node, Node]:
    """The standard deviation and the mean along ``dim``."""
    variance, average, axes = _variance("std_mean", x, dim, correction)
    return kept(safe_sqrt(variance), axes, x.shape, keepdim), kept(average, axes, x.shape, keepdim)


# -- norms ----------------------------------------------------------------------------------------------
@op("general", promote="float", samples=s.reduction_with_required_dim)
def logsumexp(x: Value, dim: int | Sequence[int], keepdim: bool = False) -> Node:
    """log(sum(exp(x))) along ``dim`` without overflow."""
    axes = axes_of(x, dim, "logsumexp")
    if count_along(x, axes) == 0:
        return kept(p.log(reduced(p.exp(x), "sum", axes)), axes, x.shape, keepdim)
    top = p.detach(reduced(p.part(x, index=0) if x.dtype.is_complex else x, "max", axes))
    # A row of -inf (or with +inf) would give inf - inf.
    top = p.converted(p.where(p.eq(p.abs_(top), p.number(math.inf, top)), p.number(0, top), top), x.dtype)
    total = reduced(p.exp(p.sub(x, restored(top, axes, x.shape))), "sum", axes)
    return kept(p.add(p.log(total), top), axes, x.shape, keepdim)


_NORMS: dict[float, Callable[[Node, tuple[int, ...]], Node]] = {
    0: lambda x, axes: reduced(p.cast(truth(x), to=x.dtype), "sum", axes),
    1: lambda x, axes: reduced(p.abs_(x), "sum", axes),
    2: lambda x, axes: safe_sqrt(reduced(p.mul(x, x), "sum", axes)),
    math.inf: lambda x, axes: reduced(p.abs_(x), "max", axes),
    -math.inf: lambda x, axes: reduced(p.abs_(x), "min", axes),
}


def _power(x: Node, ord: float) -> Node:
    """|x| ** ord, with a derivative of 0 where x is 0."""
    zero = p.eq(x, p.number(0, x))
    away = p.pow_(p.where(zero, p.number(1, x), p.abs_(x)), p.number(ord, x))
    return p.where(zero, p.number(0.0 if ord > 0 else math.inf, x), away)


@op("general", promote="arithmetic", samples=s.norms)
def vector_norm(x: Value, ord: float = 2, dim: Dims = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Node:
    """(sum |x| ** ord) ** (1 / ord) along ``dim``; the largest for inf, the smallest for -inf, the count of nonzeros for 0."""
    x = p.abs_(x) if x.dtype.is_complex else x
    if not x.dtype.is_floating_point:
        raise RuntimeError(f"vector_norm: expected a floating point tensor, got {x.dtype}; convert with .float()")
    axes = axes_of(x, dim, "vector_norm")
    if ord in _NORMS:
        out = _NORMS[ord](x, axes)
    else:
        total = reduced(_power(x, ord), "sum", axes)
        at_zero = p.eq(total, p.number(0, total))
        root = p.pow_(p.where(at_zero, p.number(1, total), total), p.number(1 / ord, total))
        out = p.where(at_zero, p.number(0, total), root)
    return kept(out, axes, x.shape, keepdim)


# -- running reductions ---------------------------------------------------------------------------------
def _scanned(operator: str, x: Node, kind: str, dim: int, wanted: dtype | None) -> Node:
    axis = axis_of(x, dim, operator)
    x = _widened(x, wanted)
    return p.scan(x, kind=kind, axis=axis) if x.rank else x


@op("general", promote="arithmetic", samples=s.scans)
def cumsum(x: Value, dim: int, *, dtype: dtype | None = None) -> Node:
    """Running sums along ``dim``; integers are summed in int64."""
    return _scanned("cumsum", x, "sum", dim, dtype)


@op("general", promote="arithmetic", samples=s.scans)
def cumprod(x: Value, dim: int, *, dtype: dtype | None = None) -> Node:
    """Running products along ``dim``; integers are multiplied in int64."""
    return _scanned("cumprod", x, "prod", dim, dtype)


@op("general", promote="arithmetic", samples=lambda make: (c for c in s.scans(make) if c[0][0].dtype.kind == "f"))
def logcumsumexp(x: Value, dim: int) -> Node:
    """log(cumsum(exp(x))) along ``dim`` without overflow: in each of log2(n) steps with the sums twice as far back."""
    require_inexact("logcumsumexp", x)
    axis = axis_of(x, dim, "logcumsumexp")
    reach = 1
    while x.rank and x.shape[axis] > reach:
        low = tuple(reach if a == axis else 0 for a in range(x.rank))
        moved = p.pad(x, low=low, high=(0,) * x.rank, interior=(0,) * x.rank, value=-math.inf)
        x = logaddexp(x, p.slice_(moved, starts=(0,) * x.rank, sizes=x.shape, steps=(1,) * x.rank))
        reach *= 2
    return x


def _running_extreme(operator: str, x: Node, kind: str, dim: int) -> ValuesIndices:
    """The last position where the running extreme stands, and x there, which makes it differentiable."""
    axis = axis_of(x, dim, operator)
    if not x.rank:
        return ValuesIndices(x, p.constant(0, (), dtypes.int64))
    line = p.cast(x, to=dtypes.uint8) if x.dtype is dtypes.bool_ else x
    running = p.cast(p.scan(line, kind=kind, axis=axis), to=x.dtype)
    here = p.iota(shape=x.shape, axis=axis, dtype=dtypes.int64)
    attained = p.eq(x, running) | p.isnan(x) if x.dtype.is_floating_point else p.eq(x, running)
    indices = p.scan(p.where(attained, here, p.number(0, here)), kind="max", axis=axis)
    return ValuesIndices(take_along(x, indices, axis), indices)


@op("general", promote="arithmetic", samples=s.scans)
def cummax(x: Value, dim: int) -> ValuesIndices:
    """The largest element so far along ``dim``, and the last position where it stands."""
    return _running_extreme("cummax", x, "max", dim)


@op("general", promote="arithmetic", samples=s.scans)
def cummin(x: Value, dim: int) -> ValuesIndices:
    """The smallest element so far along ``dim``, and the last position where it stands."""
    return _running_extreme("cummin", x, "min", dim)
