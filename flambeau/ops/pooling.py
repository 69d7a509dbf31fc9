"""Pooling: the maximum or mean of sliding windows, or of as many windows as are asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.core.symbolic import Dim, ceil_divide, product
from flambeau.ir.node import Node
from flambeau.ops.cases import Calls, SampleMaker, case
from flambeau.ops.convolution import Ints, for_each_axis
from flambeau.ops.correlation import padded, windows
from flambeau.ops.declare import Sizes, Value, op
from flambeau.ops.indexing import axis_first, axis_restored, positions_from, size_number
from flambeau.ops.reduce import take_along
from flambeau.ops.view import cut

Samples = Callable[[SampleMaker], Calls]


@dataclass(frozen=True)
class Pool:
    """The settings of a pooling over ``count`` spatial axes, one number for each axis."""

    operator: str
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    ceil_mode: bool

    @property
    def count(self) -> int:
        return len(self.sizes)

    def length(self, axis: int, n: Dim) -> Dim:
        """How many windows an axis of ``n`` elements has; with ``ceil_mode`` the last may reach beyond the end."""
        size, step, pad = self.sizes[axis], self.steps[axis], self.pads[axis]
        room = n + 2 * pad - self.dilations[axis] * (size - 1) - 1
        length = (ceil_divide(room, step) if self.ceil_mode else room // step) + 1
        if self.ceil_mode and (length - 1) * step >= n + pad:
            length = length - 1
        if length < 1:
            raise RuntimeError(f"{self.operator}: Given input size {n} the calculated output size is {length}. Output size is too small")
        return length

    def padding_after(self, axis: int, n: Dim) -> Dim:
        """What the last window needs behind the end (less than nothing: what no window reaches)."""
        reach = (self.length(axis, n) - 1) * self.steps[axis] + self.dilations[axis] * (self.sizes[axis] - 1) + 1
        return reach - n - self.pads[axis]


def _pool(operator: str, count: int, kernel_size: Ints, stride: Ints | None, padding: Ints, dilation: Ints, ceil_mode: bool) -> Pool:
    sizes = for_each_axis(kernel_size, count, operator, "kernel_size")
    given = stride if stride is not None and stride != () else sizes
    settings = [for_each_axis(v, count, operator, n) for v, n in ((given, "stride"), (padding, "padding"), (dilation, "dilation"))]
    pool = Pool(operator, sizes, settings[0], settings[1], settings[2], ceil_mode)
    if any(v <= 0 for v in (*pool.sizes, *pool.steps, *pool.dilations)):
        raise RuntimeError(
            f"{operator}: kernel size, stride and dilation should be greater than zero, got {kernel_size}, {stride}, {dilation}"
        )
    for size, pad, d in zip(pool.sizes, pool.pads, pool.dilations, strict=True):
        if not 0 <= pad <= (d * (size - 1) + 1) // 2:
            raise RuntimeError(
                f"{operator}: pad should be at most half of effective kernel size, but got pad={pad}, kernel_size={size} and dilation={d}"
            )
    return pool


def _batched(operator: str, x: Node, count: int, run: Callable[[Node], Any]) -> Any:
    """``run`` on x [b, c, *n]; x [c, *n] gets a batch of one for its sake."""
    if x.rank == count + 2:
        return run(x)
    if x.rank != count + 1:
        if operator.startswith("adaptive") and count > 1:
            raise ValueError(f"{operator}: Input dimension should be at least {count + 1}, got shape {list(x.shape)}")
        raise RuntimeError(f"{operator}: Expected {count + 1}D or {count + 2}D input, but got shape {list(x.shape)}")
    out = run(p.reshape(x, shape=(1, *x.shape)))
    if isinstance(out, tuple):
        return tuple(p.reshape(o, shape=o.shape[1:]) for o in out)
    return p.reshape(out, shape=out.shape[1:])


# -- the maximum ------------------------------------------------------------------------------------------
def lowest(x: Node) -> float | int:
    """What no element of x's type is below."""
    if x.dtype.is_floating_point:
        return -math.inf
    return False if x.dtype is dtypes.bool_ else int(np.iinfo(x.dtype.numpy).min)


def _first_largest(candidates: Sequence[Sequence[Node]]) -> list[Node]:
    """Of several (value, carried ...), element by element, the one with the largest value, the first of equals; NaN wins.

    Choices, unlike a reduction, give a gradient to that one alone, as torch does.
    """
    best = list(candidates[0])
    for candidate in candidates[1:]:
        better = p.lt(best[0], candidate[0])
        if best[0].dtype.is_floating_point:
            better = p.bitwise_or(better, p.isnan(candidate[0]))
        best = [p.where(better, new, old) for new, old in zip(candidate, best, strict=True)]
    return best


def _position(shape: tuple[Dim, ...], axis: int, step: int, start: int) -> Node:
    """axis index * step + start, int64."""
    along = p.iota(shape=shape, axis=axis, dtype=dtypes.int64)
    return p.add(p.mul(along, p.number(step, along)), p.number(start, along))


def _axis_maximum(pool: Pool, arrays: list[Node], i: int, n: Dim, with_positions: bool) -> list[Node]:
    """Pool one axis of (values, positions of axes done before ...); appends the position along this one."""
    axis, length = 2 + i, pool.length(i, n)
    low, high = pool.pads[i], pool.padding_after(i, n)
    high = 0 if high < 0 else high
    value, *carried = arrays
    arrays = [padded(value, axis, (low,), (high,), lowest(value)), *(padded(c, axis, (low,), (high,)) for c in carried)]
    candidates: list[list[Node]] = []
    for k in range(pool.sizes[i]):
        candidate = [cut(a, axis, k * pool.dilations[i], length, pool.steps[i]) for a in arrays]
        if with_positions:
            candidate.append(_position(candidate[0].shape, axis, pool.steps[i], k * pool.dilations[i] - low))
        candidates.append(candidate)
    return _first_largest(candidates)


def _flat_position(positions: Sequence[Node], lengths: Sequence[Dim]) -> Node:
    """Row-major position of coordinates, given from the last axis to the first."""
    total, scale = positions[0], lengths[-1]
    for position, length in zip(positions[1:], reversed(lengths[:-1]), strict=True):
        total = p.add(total, p.mul(position, size_number(scale, position)))
        scale = scale * length
    return total


def _max_pool(pool: Pool, x: Node, return_indices: bool) -> Any:
    lengths = x.shape[2:]
    if any(n == 0 for n in x.shape[1:]):
        raise RuntimeError(f"{pool.operator}: Expected input's non-batch dimensions to have positive length, but got {list(x.shape)}")
    arrays = [x]
    for i in reversed(range(pool.count)):
        arrays = _axis_maximum(pool, arrays, i, lengths[i], return_indices)
    return (arrays[0], _flat_position(arrays[1:], lengths)) if return_indices else arrays[0]


def _max_samples(count: int) -> Samples:
    n = {1: (9,), 2: (6, 7), 3: (4, 5, 4)}[count]

    def samples(m: SampleMaker) -> Calls:
        x, ties = m.float(2, 3, *n), m.int(2, 3, *n, low=0, high=3)
        out = [case(x, 2), case(x[0], 3, 2, 1), case(ties, 2, 1, 0, 1, False, True), case(x, 2, 2, 0, 1, True, True)]
        return [*out, case(x, 2, 1, 1, 2, False, True)]

    return samples


@op(promote="same", samples=_max_samples(1))
def max_pool1d(
    x: Value, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """The maximum of each window of [b, c, n]; with ``return_indices`` also its place."""
    pool = _pool("max_pool1d", 1, kernel_size, stride, padding, dilation, ceil_mode)
    return _batched("max_pool1d", x, 1, lambda v: _max_pool(pool, v, return_indices))


@op(promote="same", samples=_max_samples(2))
def max_pool2d(
    x: Value, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """The maximum of each window of [b, c, h, w]; with ``return_indices`` also its place in the flattened [h, w]."""
    pool = _pool("max_pool2d", 2, kernel_size, stride, padding, dilation, ceil_mode)
    return _batched("max_pool2d", x, 2, lambda v: _max_pool(pool, v, return_indices))


@op(promote="same", samples=_max_samples(3))
def max_pool3d(
    x: Value, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """As ``max_pool2d`` with three spatial dimensions."""
    pool = _pool("max_pool3d", 3, kernel_size, stride, padding, dilation, ceil_mode)
    return _batched("max_pool3d", x, 3, lambda v: _max_pool(pool, v, return_indices))


def _unpool_samples(m: SampleMaker) -> Calls:
    places = np.stack([np.sort(m.random.permutation(16)[:4]).reshape(2, 2) for _ in range(6)]).reshape(2, 3, 2, 2)
    return [case(m.float(2, 3, 2, 2), places, (4, 4)), case(m.float(3, 4), places[0].reshape(3, 4), (16,))]


@op(samples=_unpool_samples)
def max_unpool(x: Value, indices: Value, output_size: Sizes) -> Node:
    """Zeros [..., *output_size] with each element of x at the flattened place that ``indices`` names."""
    if x.shape != indices.shape:
        raise RuntimeError(f"max_unpool: Expected shape of indices to be {list(x.shape)} as the input's, but got {list(indices.shape)}")
    count = len(output_size)
    lead = x.shape[: x.rank - count]
    line = (*lead, product(x.shape[x.rank - count :]))
    flat, at = p.reshape(x, shape=line), p.reshape(positions_from(indices, "max_unpool"), shape=line)
    places = [p.iota(shape=line, axis=a, dtype=dtypes.int64) for a in range(len(lead))]
    zeros = p.constant(0, (*lead, product(output_size)), x.dtype)
    return p.reshape(p.scatter(zeros, flat, *places, at, mode="set"), shape=(*lead, *output_size))


def _fractional_samples(m: SampleMaker) -> Calls:
    draws = m.float(2, 3, 2, low=0.0, high=1.0)
    return [case(m.float(2, 3, 7, 9), draws, (2, 3), (4, 5), True), case(m.float(3, 6, 5), draws[:1], 2, (3, 1))]


@op(promote="same", promoted=("x",), samples=_fractional_samples)
def fractional_max_pool(x: Value, draws: Value, kernel_size: Ints, output_size: tuple[int, ...], return_indices: bool = False) -> Any:
    """Maxima of windows that ``draws`` [b, c, count] in [0, 1) spread over the last ``count`` axes of [b, c, ...], the last axis first."""
    count = len(output_size)
    sizes = for_each_axis(kernel_size, count, "fractional_max_pool", "kernel_size")
    if not draws.dtype.is_floating_point:
        raise RuntimeError(f"fractional_max_pool: expected random samples of a floating point dtype, got {draws.dtype}")
    draws = p.converted(draws, draws.dtype.compute)

    def run(v: Node) -> Any:
        arrays, lengths = [v], v.shape[2:]
        for i in reversed(range(count)):
            start = _fractional_starts(cut(draws, 2, count - 1 - i, 1), lengths[i], sizes[i], output_size[i])
            arrays = _drawn_maximum(arrays, 2 + i, start, sizes[i], return_indices)
        return (arrays[0], _flat_position(arrays[1:], lengths)) if return_indices else arrays[0]

    return _batched("fractional_max_pool", x, count, run)


def _fractional_starts(draw: Node, n: Dim, size: int, target: int) -> Node:
    """Where ``target`` windows of an axis of n begin, int64 [b, c, target]: trunc((i + draw) a) - trunc(draw a), the last at the end."""
    if target > n - size + 1:
        raise RuntimeError(f"fractional_max_pool: pool size {size} is too large for {target} windows in an axis of {n}")
    shape = (*draw.shape[:2], target)
    place, last = p.iota(shape=shape, axis=2, dtype=dtypes.int64), p.full(shape=shape, value=n - size, dtype=dtypes.int64)
    if target == 1:
        return last
    draw = p.expand(draw, shape=shape)
    step = p.div(p.converted(last, draw.dtype), p.number(target - 1, draw))
    moved, origin = (p.cast(p.mul(v, step), to=dtypes.int64) for v in (p.add(p.converted(place, draw.dtype), draw), draw))
    return p.where(p.eq(place, p.number(target - 1, place)), last, p.sub(moved, origin))


def _drawn_maximum(arrays: list[Node], axis: int, start: Node, size: int, with_positions: bool) -> list[Node]:
    """As ``_axis_maximum`` with the begins [b, c, target] of windows."""
    shape = tuple(start.shape[2] if a == axis else d for a, d in enumerate(arrays[0].shape))
    start = p.reshape(start, shape=(*start.shape[:2], *(start.shape[2] if a == axis else 1 for a in range(2, len(shape)))))
    candidates: list[list[Node]] = []
    for k in range(size):
        place = p.expand(p.add(start, p.number(k, start)), shape=shape)
        candidate = [take_along(a, place, axis) for a in arrays]
        candidates.append([*candidate, place] if with_positions else candidate)
    return _first_largest(candidates)


# -- the mean ---------------------------------------------------------------------------------------------
def _extent(pool: Pool, i: int, n: Dim, length: Dim, count_include_pad: bool) -> Node:
    """How many elements each window of one axis counts, int64 [length]."""
    start = _position((length,), 0, pool.steps[i], -pool.pads[i])
    end = p.minimum(p.add(start, p.number(pool.sizes[i], start)), size_number(n + pool.pads[i], start))
    if not count_include_pad:
        start = p.maximum(start, p.number(0, start))
        end = p.minimum(end, size_number(n, end))
    return p.sub(end, start)


def _divisor(pool: Pool, out: Node, lengths: Sequence[Dim], count_include_pad: bool) -> Node:
    if not pool.ceil_mode and (count_include_pad or not any(pool.pads)):
        return p.number(math.prod(pool.sizes), out)
    total = p.constant(1, out.shape, dtypes.int64)
    for i, n in enumerate(lengths):
        extent = _extent(pool, i, n, out.shape[2 + i], count_include_pad)
        spread = p.expand(p.reshape(extent, shape=tuple(d if a == 2 + i else 1 for a, d in enumerate(out.shape))), shape=out.shape)
        total = p.mul(total, spread)
    return p.converted(total, out.dtype)


def _avg_pool(pool: Pool, x: Node, count_include_pad: bool, divisor_override: int | None) -> Node:
    lengths = x.shape[2:]
    after = [pool.padding_after(i, n) for i, n in enumerate(lengths)]
    view = windows(padded(x, 2, pool.pads, [0 if n < 0 else n for n in after]), 2, pool.sizes, pool.steps, pool.dilations)
    total = p.reduce(view, kind="sum", axes=tuple(range(2 + pool.count, 2 + 2 * pool.count)))
    if divisor_override is not None:
        return _quotient(total, p.number(divisor_override, total))
    return _quotient(total, _divisor(pool, total, lengths, count_include_pad))


def _quotient(total: Node, count: Node) -> Node:
    """total / count, without its fraction for integers."""
    return p.div(total, count) if total.dtype.is_floating_point else p.truncdiv(total, count)


def _mean_pool(
    operator: str, x: Node, count: int, kernel_size: Ints, stride: Ints | None, padding: Ints, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None = None,
) -> Node:  # fmt: skip
    if divisor_override == 0:
        raise RuntimeError(f"{operator}: divisor must be not zero")
    pool = _pool(operator, count, kernel_size, stride, padding, 1, ceil_mode)
    return _batched(operator, x, count, lambda v: _avg_pool(pool, v, count_include_pad, divisor_override))


def _avg_samples(count: int) -> Samples:
    n = {1: (9,), 2: (6, 7), 3: (4, 5, 4)}[count]

    def samples(m: SampleMaker) -> Calls:
        x = m.float(2, 3, *n)
        out = [case(x, 2), case(x[0], 3, 2, 1), case(x, 3, 2, 1, False, False), case(x, 2, 2, 0, True), case(x, 3, 2, 1, True, True)]
        return [*out, case(x, 3, 2, 1, True, False)]

    return samples


@op(promote="same", samples=_avg_samples(1))
def avg_pool1d(
    x: Value, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, ceil_mode: bool = False, count_include_pad: bool = True
) -> Node:
    """The mean of each window of [b, c, n]."""
    return _mean_pool("avg_pool1d", x, 1, kernel_size, stride, padding, ceil_mode, count_include_pad)


@op(promote="same", samples=lambda m: [*_avg_samples(2)(m), case(m.float(1, 2, 4, 4), 2, divisor_override=3)])
def avg_pool2d(
    x: Value, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Node:  # fmt: skip
    """The mean of each window of [b, c, h, w], or its sum over ``divisor_override``."""
    return _mean_pool("avg_pool2d", x, 2, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@op(promote="same", samples=_avg_samples(3))
def avg_pool3d(
    x: Value, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Node:  # fmt: skip
    """As ``avg_pool2d`` with three spatial dimensions."""
    return _mean_pool("avg_pool3d", x, 3, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


# -- as many windows as asked for -------------------------------------------------------------------------
Targets = int | tuple[int | None, ...] | None


def _targets(operator: str, output_size: Targets, x: Node, count: int) -> list[Dim]:
    """The wanted lengths; None keeps an axis as it is."""
    given = (output_size,) * count if output_size is None or isinstance(output_size, int) else tuple(output_size)
    if len(given) != count:
        wanted = "'output_size' should contain one int" if count == 1 else f"output_size must be {count} ints"
        raise RuntimeError(f"{operator}: {wanted}, got {output_size}")
    if any(o is not None and o < 0 for o in given):
        raise RuntimeError(f"{operator}: elements of output_size must be greater than or equal to 0, got {output_size}")
    return [x.shape[2 + i] if o is None else o for i, o in enumerate(given)]


def _mean_to(x: Node, axis: int, target: Dim) -> Node:
    """Means of windows [floor(i n / o), ceil((i + 1) n / o)) of one axis."""
    n = x.shape[axis]
    if n == target:
        return x
    if n % target == 0:
        parts = p.reshape(x, shape=(*x.shape[:axis], target, n // target, *x.shape[axis + 1 :]))
        total = p.reduce(parts, kind="sum", axes=(axis + 1,))
        return p.div(total, p.cast(size_number(n // target, total), to=total.dtype))
    start, end = _adaptive_bounds((target, n), n, target)
    place = p.iota(shape=(target, n), axis=1, dtype=dtypes.int64)
    inside = p.cast(p.bitwise_and(p.le(start, place), p.lt(place, end)), to=x.dtype)
    weights = p.div(inside, p.cast(p.sub(end, start), to=x.dtype))
    rows = axis_first(x, axis)
    flat = p.reshape(rows, shape=(n, rows.aval.numel // n))
    return axis_restored(p.reshape(p.matmul(weights, flat), shape=(target, *rows.shape[1:])), axis)


def _adaptive_bounds(shape: tuple[Dim, ...], n: Dim, target: Dim) -> tuple[Node, Node]:
    """First and one past the last place of window i, i along the first axis of ``shape``."""
    i = p.iota(shape=shape, axis=0, dtype=dtypes.int64)
    scaled = p.mul(i, size_number(n, i))
    end = p.add(scaled, size_number(n + target - 1, i))
    return p.truncdiv(scaled, size_number(target, i)), p.truncdiv(end, size_number(target, i))


def _adaptive_mean(operator: str, x: Node, output_size: Targets, count: int) -> Node:
    def run(v: Node) -> Node:
        for i, target in enumerate(_targets(operator, output_size, v, count)):
            v = _mean_to(v, 2 + i, target)
        return v

    return _batched(operator, x, count, run)


@op(
    promote="same",
    samples=lambda m: [case(m.float(2, 3, 8), 4), case(m.float(3, 7), 3), case(m.float(2, 3, 5), 1), case(m.float(1, 2, 3), 5)],
)
def adaptive_avg_pool1d(x: Value, output_size: Targets) -> Node:
    """Means of ``output_size`` windows that cover [b, c, n]."""
    return _adaptive_mean("adaptive_avg_pool1d", x, output_size, 1)


@op(promote="same", samples=lambda m: [case(m.float(2, 3, 8, 6), 2), case(m.float(2, 3, 7, 5), (3, None)), case(m.float(3, 5, 4), 1)])
def adaptive_avg_pool2d(x: Value, output_size: Targets) -> Node:
    """Means of ``output_size`` windows that cover [b, c, h, w]."""
    return _adaptive_mean("adaptive_avg_pool2d", x, output_size, 2)


@op(promote="same", samples=lambda m: [case(m.float(2, 2, 4, 3, 5), (2, 2, 1))])
def adaptive_avg_pool3d(x: Value, output_size: Targets) -> Node:
    """As ``adaptive_avg_pool2d`` with three spatial dimensions."""
    return _adaptive_mean("adaptive_avg_pool3d", x, output_size, 3)


def _axis_adaptive_maximum(arrays: list[Node], axis: int, target: Dim, with_positions: bool) -> list[Node]:
    """As ``_axis_maximum``: a window that is shorter than the longest sees its last element again."""
    n = arrays[0].shape[axis]
    longest = int(n // target if n % target == 0 else n // target + 2)
    start, end = _adaptive_bounds((target,), n, target)
    rows = [axis_first(a, axis) for a in arrays]
    candidates: list[list[Node]] = []
    for k in range(longest):
        place = p.minimum(p.add(start, p.number(k, start)), p.sub(end, p.number(1, end)))
        candidate = [axis_restored(p.take(r, place), axis) for r in rows]
        if with_positions:
            shape = candidate[0].shape
            candidate.append(p.expand(p.reshape(place, shape=tuple(d if a == axis else 1 for a, d in enumerate(shape))), shape=shape))
        candidates.append(candidate)
    return _first_largest(candidates)


def _adaptive_maximum(operator: str, x: Node, output_size: Targets, count: int, return_indices: bool) -> Any:
    def run(v: Node) -> Any:
        arrays = [v]
        targets = _targets(operator, output_size, v, count)
        for i in reversed(range(count)):
            arrays = _axis_adaptive_maximum(arrays, 2 + i, targets[i], return_indices)
        return (arrays[0], _flat_position(arrays[1:], v.shape[2:])) if return_indices else arrays[0]

    return _batched(operator, x, count, run)


def _adaptive_line_samples(m: SampleMaker) -> Calls:
    return [case(m.float(2, 3, 8), 4, True), case(m.float(3, 7), 3), case(m.int(2, 3, 5, low=0, high=2), 1, True)]


def _adaptive_image_samples(m: SampleMaker) -> Calls:
    return [case(m.float(2, 3, 8, 6), 2, True), case(m.float(2, 3, 7, 5), (3, None), True), case(m.float(3, 5, 4), 1)]


@op(promote="same", samples=_adaptive_line_samples)
def adaptive_max_pool1d(x: Value, output_size: Targets, return_indices: bool = False) -> Any:
    """Maxima of ``output_size`` windows that cover [b, c, n]; with ``return_indices`` also their places."""
    return _adaptive_maximum("adaptive_max_pool1d", x, output_size, 1, return_indices)


@op(promote="same", samples=_adaptive_image_samples)
def adaptive_max_pool2d(x: Value, output_size: Targets, return_indices: bool = False) -> Any:
    """Maxima of ``output_size`` windows that cover [b, c, h, w]; with ``return_indices`` also their places."""
    return _adaptive_maximum("adaptive_max_pool2d", x, output_size, 2, return_indices)


@op(promote="same", samples=lambda m: [case(m.float(2, 2, 4, 3, 5), (2, 2, 1), True)])
def adaptive_max_pool3d(x: Value, output_size: Targets, return_indices: bool = False) -> Any:
    """As ``adaptive_max_pool2d`` with three spatial dimensions."""
    return _adaptive_maximum("adaptive_max_pool3d", x, output_size, 3, return_indices)
