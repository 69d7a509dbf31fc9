"""Primitives that read and write at computed positions, with the derivatives of views that need them."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.core.symbolic import Dim, product, shapes_differ
from flambeau.ir.node import Node
from flambeau.prims import pointwise as p
from flambeau.prims import structure as s
from flambeau.prims.declare import Gradients, prim, require
from flambeau.prims.reduction import reduce

MOST_SHIFTS = 32  # windows up to this length are folded as a sum of shifted arrays
MODES = {"set": None, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _take_rule(x: Aval, *indices: Aval) -> Aval:
    require(0 < len(indices) <= len(x.shape), "take", f"{len(indices)} indices for {x}")
    for index in indices:
        fits = index.dtype is dtypes.int64 and not shapes_differ(index.shape, indices[0].shape)
        require(fits, "take", f"index {index}, first {indices[0]}")
    return Aval((*indices[0].shape, *x.shape[len(indices) :]), x.dtype)


def _take_reference(x: Any, *indices: Any) -> Any:
    return x[indices]


take = prim("take", "index", _take_rule, _take_reference, "x at the places that one index for each leading axis names")


def _scatter_rule(x: Aval, values: Aval, *indices: Aval, mode: str) -> Aval:
    shape = (*indices[0].shape, *x.shape[len(indices) :])
    ok = not shapes_differ(values.shape, shape) and values.dtype is x.dtype and mode in MODES
    require(ok, "scatter", f"mode {mode!r}, needs values {x.dtype.short}{shape}, got {values}")
    return x


def _scatter_reference(x: Any, values: Any, *indices: Any, mode: str) -> Any:
    out = x.copy()
    if mode == "set":
        flat = [i.reshape(-1) for i in indices]
        rows = values.reshape(-1, *x.shape[len(indices) :])
        for k in range(len(flat[0])):
            out[tuple(i[k] for i in flat)] = rows[k]
    else:
        MODES[mode].at(out, indices, values)  # type: ignore[union-attr]
    return out


scatter = prim("scatter", "index", _scatter_rule, _scatter_reference, "x with values stored or combined at the named places, in order")


def added_at(g: Node, shape: tuple[Dim, ...], *indices: Node) -> Node:
    """Zeros of ``shape`` with ``g`` added at the named places."""
    return p.in_compute_type(lambda wide: scatter(s.constant(0, shape, wide.dtype), wide, *indices, mode="add"), g)


@take.differentiate
def _take_derivative(g: Node, out: Node, x: Node, *indices: Node) -> Gradients:
    return (added_at(g, x.shape, *indices), *(None for _ in indices))


@scatter.differentiate
def _scatter_derivative(g: Node, out: Node, x: Node, values: Node, *indices: Node, mode: str) -> Gradients:
    rest = (None,) * len(indices)
    if mode == "add":
        return (g, take(g, *indices), *rest)
    if mode == "set":
        zeros = s.constant(0, values.shape, values.dtype)
        return (scatter(g, zeros, *indices, mode="set"), take(g, *indices), *rest)
    if mode == "mul":
        return (*_product_derivative(g, out, x, values, indices), *rest)
    hit = p.cast(p.eq(values, take(out, *indices)), to=x.dtype)
    kept = p.cast(p.eq(x, out), to=x.dtype)
    count = scatter(kept, hit, *indices, mode="add")
    share = p.div(g, p.maximum(count, p.number(1, count)))
    return (p.mul(share, kept), p.mul(take(share, *indices), hit), *rest)


def _product_derivative(g: Node, out: Node, x: Node, values: Node, indices: tuple[Node, ...]) -> tuple[Node, Node]:
    """Of x and the values multiplied into it: each the product of the others, which needs no division where it is zero."""
    whole, lone = p.eq(x, p.number(0, x)), p.eq(values, p.number(0, values))
    others = scatter(p.where(whole, p.number(1, x), x), values, *indices, mode="mul")
    for_x = p.mul(g, p.where(whole, others, p.div(out, p.where(whole, p.number(1, x), x))))
    count = scatter(s.constant(0, x.shape, x.dtype), p.cast(lone, to=x.dtype), *indices, mode="add")
    single, one = p.bitwise_and(lone, p.eq(take(count, *indices), p.number(1, values))), p.number(1, values)
    beside = take(p.mul(g, scatter(x, p.where(single, one, values), *indices, mode="mul")), *indices)
    through = p.div(take(p.mul(g, out), *indices), p.where(lone, one, values))
    return for_x, p.where(single, beside, through)


def unexpand(g: Node, shape: tuple[Dim, ...]) -> Node:
    """Sum ``g`` over the axes in which ``shape`` has size 1 and g has not."""
    axes = tuple(i for i, (a, b) in enumerate(zip(shape, g.shape, strict=True)) if a == 1 and not b == 1)
    if not axes:
        return g
    return s.reshape(p.in_compute_type(lambda wide: reduce(wide, kind="sum", axes=axes), g), shape=shape)


def _pad_derivative(g: Node, out: Node, x: Node, low: Any, high: Any, interior: Any, value: Any) -> Gradients:
    return (s.slice_(g, starts=low, sizes=x.shape, steps=tuple(i + 1 for i in interior)),)


def _slice_derivative(g: Node, out: Node, x: Node, starts: Any, sizes: Any, steps: Any) -> Gradients:
    low: list[Dim] = []
    high: list[Dim] = []
    for axis, (start, size, step, n) in enumerate(zip(starts, sizes, steps, x.shape, strict=True)):
        if step < 0:
            g = s.slice_(g, **s.select_index(axis, size - 1, size, -1, g.shape))
            start, step = start + (size - 1) * step, -step
        low.append(start)
        high.append(n - start - (size - 1) * step - 1)
    interior = tuple(abs(step) - 1 for step in steps)
    return (s.pad(g, low=tuple(low), high=tuple(high), interior=interior, value=0.0),)


def _cat_derivative(g: Node, out: Node, *xs: Node, axis: int) -> Gradients:
    parts: list[Node] = []
    start: Dim = 0
    for x in xs:
        parts.append(s.slice_(g, **s.select_index(axis, start, x.shape[axis], 1, g.shape)))
        start = start + x.shape[axis]
    return tuple(parts)


def strided_positions(shape: tuple[Dim, ...], strides: tuple[Dim, ...], offset: Dim) -> Node:
    """The flat position of each element of a strided view, int64."""
    position = s.constant(0, shape, dtypes.int64)
    for axis, stride in enumerate(strides):
        along = s.iota(shape=shape, axis=axis, dtype=dtypes.int64)
        position = p.add(position, p.mul(along, s.full(shape=shape, value=stride, dtype=dtypes.int64)))
    return p.add(position, s.full(shape=shape, value=offset, dtype=dtypes.int64))


def _as_strided_derivative(g: Node, out: Node, x: Node, shape: Any, strides: Any, offset: Any) -> Gradients:
    positions = s.reshape(strided_positions(shape, strides, offset), shape=(product(shape),))
    return (added_at(s.reshape(g, shape=(product(shape),)), x.shape, positions),)


def _summed_shifts(g: Node, axis: int, n: Dim, size: int, step: int, dilation: int) -> Node:
    total: Node | None = None
    for k in range(size):
        part = s.slice_(g, **s.select_index(len(g.shape) - 1, k, 1, 1, g.shape))
        part = s.reshape(part, shape=g.shape[:-1])
        rank = len(part.shape)
        end = k * dilation + (part.shape[axis] - 1) * step + 1
        part = s.pad(
            part,
            low=tuple(k * dilation if i == axis else 0 for i in range(rank)),
            high=tuple(n - end if i == axis else 0 for i in range(rank)),
            interior=tuple(step - 1 if i == axis else 0 for i in range(rank)),
            value=0.0 if g.dtype.is_floating_point else 0,
        )
        total = part if total is None else p.add(total, part)
    return s.constant(0, (*g.shape[:axis], n, *g.shape[axis + 1 : -1]), g.dtype) if total is None else total


def _side_by_side(g: Node, axis: int, n: Dim, size: int, step: int) -> Node:
    """Windows with what lies between them, one after another."""
    rank = len(g.shape)
    value = 0.0 if g.dtype.is_floating_point else 0

    def longer(x: Node, along: int, amount: Dim) -> Node:
        none = (0,) * len(x.shape)
        return s.pad(x, low=none, high=tuple(amount if i == along else 0 for i in range(len(x.shape))), interior=none, value=value)

    g = longer(g, rank - 1, step - size) if size < step else g
    g = s.permute(g, axes=(*range(axis + 1), rank - 1, *range(axis + 1, rank - 1)))
    total = g.shape[axis] * step
    g = s.reshape(g, shape=(*g.shape[:axis], total, *g.shape[axis + 2 :]))
    return longer(g, axis, n - total) if n >= total else s.slice_(g, **s.select_index(axis, 0, n, 1, g.shape))


def fold_windows(g: Node, axis: int, n: Dim, size: Dim, step: int, dilation: int) -> Node:
    """Add windows (as ``window`` makes them) back into an axis of ``n`` elements: the transpose of ``window``.

    Windows that do not meet are laid side by side. A short window is a sum of shifted arrays, which fuses; a long one is scattered.
    """
    if isinstance(size, int) and size <= step and dilation == 1:
        return _side_by_side(g, axis, n, size, step)
    if isinstance(size, int) and size <= MOST_SHIFTS:
        return p.in_compute_type(lambda wide: _summed_shifts(wide, axis, n, size, step, dilation), g)
    rank = len(g.shape)
    order = (axis, rank - 1, *(i for i in range(rank - 1) if i != axis))
    g = s.permute(g, axes=order)
    line = g.shape[:2]
    starts = p.mul(s.iota(shape=line, axis=0, dtype=dtypes.int64), s.full(shape=line, value=step, dtype=dtypes.int64))
    inside = p.mul(s.iota(shape=line, axis=1, dtype=dtypes.int64), s.full(shape=line, value=dilation, dtype=dtypes.int64))
    total = added_at(g, (n, *g.shape[2:]), p.add(starts, inside))
    return s.permute(total, axes=tuple(0 if i == axis else i + (i < axis) for i in range(rank - 1)))


def _diagonal_derivative(g: Node, out: Node, x: Node) -> Gradients:
    rank = len(x.shape)
    rows, columns = (s.iota(shape=x.shape, axis=rank - 2 + i, dtype=dtypes.int64) for i in range(2))
    spread = s.expand(s.reshape(g, shape=(*g.shape, 1)), shape=x.shape)
    return (p.where(p.eq(rows, columns), spread, p.number(0, spread)),)


def _window_derivative(g: Node, out: Node, x: Node, axis: int, size: Dim, step: int, dilation: int) -> Gradients:
    return (fold_windows(g, axis, x.shape[axis], size, step, dilation),)


def _inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(axes)), key=lambda i: axes[i]))


s.expand.derivative = lambda g, out, x, shape: (unexpand(g, x.shape),)
s.reshape.derivative = lambda g, out, x, shape: (s.reshape(g, shape=x.shape),)
s.permute.derivative = lambda g, out, x, axes: (s.permute(g, axes=_inverse(axes)),)
s.slice_.derivative = _slice_derivative
s.pad.derivative = _pad_derivative
s.cat.derivative = _cat_derivative
s.as_strided.derivative = _as_strided_derivative
s.diagonal.derivative = _diagonal_derivative
s.window.derivative = _window_derivative
