"""New tensors: constants, ranges, triangles and random numbers.

Numbers given for values arrive exactly (float64 or int64) and are rounded once, to the type of the result.
"""

from __future__ import annotations

import math

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import Dim
from flambeau.ir.node import Node
from flambeau.ops.cases import Calls, SampleMaker, case
from flambeau.ops.declare import Size, Sizes, Value, broadcast_shapes, broadcast_to, default_float, op
from flambeau.ops.indexing import compact, coordinates, insertion_points, size_number
from flambeau.ops.view import cut
from flambeau.prims.random import draw


def _filled(value: Node, shape: tuple[Dim, ...], kind: dtype) -> Node:
    return broadcast_to(p.converted(value, kind), shape)


def _shape_samples(m: SampleMaker) -> Calls:
    return [case((3, 4)), case((), dtype=dtypes.int32), case((0, 2), dtype=dtypes.bool_)]


# -- constants --------------------------------------------------------------------------------------------
@op(samples=_shape_samples)
def zeros(size: Sizes, *, dtype: dtype | None = None) -> Node:
    """Zeros."""
    return p.constant(0, tuple(size), dtype or default_float())


@op(samples=_shape_samples)
def ones(size: Sizes, *, dtype: dtype | None = None) -> Node:
    """Ones."""
    return p.constant(1, tuple(size), dtype or default_float())


@op(samples=lambda m: [case((2, 3), 1.5), case((2,), 7, dtype=dtypes.float64), case((), 2.0), case((3,), True, dtype=dtypes.bool_)])
def full(size: Sizes, fill_value: Value, *, dtype: dtype | None = None) -> Node:
    """One value in every place; a float's dtype is the default one unless given."""
    kind = dtype or fill_value.dtype
    if dtype is None and kind.is_inexact and fill_value.aval.weak:
        kind = default_float().to_complex() if kind.is_complex else default_float()
    return _filled(fill_value, tuple(size), kind)


# -- ranges -----------------------------------------------------------------------------------------------
def _arange_samples(m: SampleMaker) -> Calls:
    return [
        case(0, 1, 5), case(2, 3, 4, dtype=dtypes.int32), case(0.5, 0.1, 6, dtype=dtypes.float64), case(3, -1, 3), case(0, 1, 0),
        case(0, 0.25, 4, dtype=dtypes.float32),
    ]  # fmt: skip


@op(samples=_arange_samples)
def arange(start: Value | int = 0, step: Value | int = 1, count: Size = 0, *, dtype: dtype = dtypes.int64) -> Node:
    """start, start + step, ...: ``count`` numbers, computed in int64 or float64."""
    wide = dtypes.float64 if dtype.is_floating_point else dtypes.int64
    out = p.iota(shape=(count,), axis=0, dtype=wide)
    if not isinstance(step, int):
        out = p.mul(out, _filled(step, (count,), wide))
    if not isinstance(start, int):
        out = p.add(out, _filled(start, (count,), wide))
    return p.converted(out, dtype)


def _between(start: Node, end: Node, steps: Dim, kind: dtype) -> Node:
    """Evenly spaced float64 numbers: from ``start`` up in the first half, from ``end`` down in the second, the step in ``kind``."""
    shape, wide = (steps,), dtypes.complex128 if kind.is_complex else dtypes.float64
    first, last = (_filled(p.converted(v, kind), shape, wide) for v in (start, end))
    if steps == 1:
        return first
    place = p.iota(shape=shape, axis=0, dtype=dtypes.float64)
    intervals, half = (p.converted(size_number(n, place), dtypes.float64) for n in (steps - 1, steps // 2))
    step = p.converted(p.converted(p.div(p.sub(last, first), p.converted(intervals, wide)), kind), wide)
    down = p.sub(last, p.mul(step, p.converted(p.sub(intervals, place), wide)))
    return p.where(p.lt(place, half), p.add(first, p.mul(step, p.converted(place, wide))), down)


def _linspace_samples(m: SampleMaker) -> Calls:
    f64 = dtypes.float64
    return [case(-1.0, 2.0, 7, dtype=f64), case(0.0, 1.0, 1, dtype=f64), case(3, -2, 10, dtype=f64), case(1.0, 2.0, 0, dtype=f64)]


@op(samples=_linspace_samples)
def linspace(start: Value, end: Value, steps: Size, *, dtype: dtype | None = None) -> Node:
    """``steps`` evenly spaced numbers from ``start`` to ``end``, both included."""
    kind = dtype or default_float()
    if dtype is None and (start.dtype.is_complex or end.dtype.is_complex):
        kind = kind.to_complex()
    if not kind.is_inexact:
        start, end = (p.converted(v, kind) for v in (start, end))
    return p.converted(_between(start, end, steps, kind if kind.is_inexact else dtypes.float64), kind)


@op(samples=lambda m: [case(-1.0, 2.0, 7, dtype=dtypes.float64), case(0, 3, 4, 2.0, dtype=dtypes.float64)])
def logspace(start: Value, end: Value, steps: Size, base: Value | float = 10.0, *, dtype: dtype | None = None) -> Node:
    """base ** start to base ** end, evenly spaced in the exponent."""
    kind = dtype or default_float()
    exponent = _between(start, end, steps, kind if kind.is_inexact else dtypes.float64)
    number = base if isinstance(base, Node) else p.constant(base, (), exponent.dtype)
    return p.converted(p.pow_(_filled(number, exponent.shape, exponent.dtype), exponent), kind)


@op(samples=lambda m: [case(3), case(2, 4), case(4, 2, dtype=dtypes.bool_), case(0)])
def eye(n: Size, m: Size | None = None, *, dtype: dtype | None = None) -> Node:
    """Ones on the main diagonal of an [n, m] matrix, zeros elsewhere."""
    shape = (n, n if m is None else m)
    rows, columns = (p.iota(shape=shape, axis=a, dtype=dtypes.int64) for a in (0, 1))
    return p.cast(p.eq(rows, columns), to=dtype or default_float())


# -- triangles --------------------------------------------------------------------------------------------
def below_diagonal(shape: tuple[Dim, ...], diagonal: Dim) -> Node:
    """Where column - row <= diagonal in the last two axes, bool."""
    rank = len(shape)
    rows, columns = (p.iota(shape=shape, axis=rank - 2 + i, dtype=dtypes.int64) for i in (0, 1))
    return p.le(p.sub(columns, rows), size_number(diagonal, rows))


def _triangle(x: Node, operator: str, diagonal: Dim, lower: bool) -> Node:
    if x.rank < 2:
        raise RuntimeError(f"{operator}: input tensor must have at least 2 dimensions, got shape {list(x.shape)}")
    zero = p.number(0, x)
    return p.where(below_diagonal(x.shape, diagonal), x, zero) if lower else p.where(below_diagonal(x.shape, diagonal - 1), zero, x)


def _triangle_samples(m: SampleMaker) -> Calls:
    return [case(m.float(3, 4)), case(m.float(2, 4, 3), 1), case(m.float(4, 4), -2), case(m.bool(3, 3)), case(m.float(2, 3), 5)]


@op(samples=_triangle_samples)
def tril(x: Value, diagonal: Size = 0) -> Node:
    """The elements on and below a diagonal of the last two dimensions, zeros above."""
    return _triangle(x, "tril", diagonal, True)


@op(samples=_triangle_samples)
def triu(x: Value, diagonal: Size = 0) -> Node:
    """The elements on and above a diagonal of the last two dimensions, zeros below."""
    return _triangle(x, "triu", diagonal, False)


def _triangle_indices(inside: Node, count: Dim, kind: dtype) -> Node:
    flat = p.reshape(inside, shape=(inside.aval.numel,))
    found = compact(p.iota(shape=flat.shape, axis=0, dtype=dtypes.int64), flat, count)
    return p.converted(p.permute(coordinates(found, inside.shape), axes=(1, 0)), kind)


@op(samples=lambda m: [case(3, 4, 0, 6), case(4, 2, -1, 5), case(2, 3, 1, 5)])
def tril_indices(row: Size, col: Size, offset: Size, count: Size, *, dtype: dtype = dtypes.int64) -> Node:
    """Rows and columns [2, count] of the ``count`` elements on and below a diagonal, in row-major order."""
    return _triangle_indices(below_diagonal((row, col), offset), count, dtype)


@op(samples=lambda m: [case(3, 4, 0, 9), case(4, 2, -1, 5), case(2, 3, 1, 3)])
def triu_indices(row: Size, col: Size, offset: Size, count: Size, *, dtype: dtype = dtypes.int64) -> Node:
    """Rows and columns [2, count] of the ``count`` elements on and above a diagonal, in row-major order."""
    return _triangle_indices(p.invert(below_diagonal((row, col), offset - 1)), count, dtype)


# -- random numbers, in PyTorch's order -------------------------------------------------------------------
def _drawn(kind: str, shape: tuple[Dim, ...], target: dtype) -> Node:
    """Draws in the type that the stream is made in, rounded to ``target``."""
    if not target.is_inexact:
        raise NotImplementedError(f"{kind}: random numbers of dtype {target} are not supported; draw floats and convert them")
    return p.converted(draw(kind, shape, target.compute), target)


@op(samples=lambda m: [case((3, 4)), case((2,), dtype=dtypes.float64)])
def rand(size: Sizes, *, dtype: dtype | None = None) -> Node:
    """Uniform in [0, 1)."""
    return _drawn("uniform", tuple(size), dtype or default_float())


@op(samples=lambda m: [case((3, 4)), case((20,), dtype=dtypes.float64)])
def randn(size: Sizes, *, dtype: dtype | None = None) -> Node:
    """Normal with mean 0 and variance 1."""
    return _drawn("normal", tuple(size), dtype or default_float())


def _integers(low: Node, high: Node, shape: tuple[Dim, ...], kind: dtype) -> Node:
    """low + word % (high - low): 32 random bits each, so the range must not be wider."""
    start, stop = (_filled(v, shape, dtypes.int64) for v in (low, high))
    word = draw("word", shape, dtypes.int64)
    return p.converted(p.add(start, p.rem(word, p.sub(stop, start))), kind)


@op(samples=lambda m: [case(2, 9, (3, 4)), case(-5, 5, (6,), dtype=dtypes.int32)])
def randint(low: Value, high: Value, size: Sizes, *, dtype: dtype = dtypes.int64) -> Node:
    """Integers in [low, high), for high - low up to 2**32 (the caller checks)."""
    return _integers(low, high, tuple(size), dtype)


@op(samples=lambda m: [case(7), case(2)])
def randperm(n: Size, *, dtype: dtype = dtypes.int64) -> Node:
    """The numbers below n in random order."""
    return p.converted(draw("permutation", (n,), dtypes.int64), dtype)


@op(mutates=("x",), samples=lambda m: [case(m.float(3, 4)), case(m.float(5), -2.5, 4.0)])
def uniform_(x: Value, from_: Value | float = 0.0, to: Value | float = 1.0) -> Node:
    """Fill x with u * (to - from) + from."""
    low, high = (p.converted(v, x.dtype.compute) if isinstance(v, Node) else p.constant(v, (), x.dtype.compute) for v in (from_, to))
    span = broadcast_to(p.sub(high, low), x.shape)
    drawn = draw("uniform", x.shape, x.dtype.compute)
    return p.converted(p.add(p.mul(drawn, span), broadcast_to(low, x.shape)), x.dtype)


@op(mutates=("x",), samples=lambda m: [case(m.float(3, 4)), case(m.float(20), 1.5, 0.5)])
def normal_(x: Value, mean: Value | float = 0.0, std: Value | float = 1.0) -> Node:
    """Fill x with mean + std * normal numbers."""
    drawn = draw("normal", x.shape, x.dtype.compute)
    if isinstance(std, Node):
        drawn = p.mul(drawn, _filled(std, x.shape, drawn.dtype))
    return p.converted(p.add(drawn, _filled(mean, x.shape, drawn.dtype)) if isinstance(mean, Node) else drawn, x.dtype)


@op(samples=lambda m: [case(m.float(3, 4), m.float(3, 4, low=0.5)), case(m.float(5), 2.0), case(0.5, m.float(4, low=0.5))])
def normal(mean: Value, std: Value) -> Node:
    """Normal numbers, each with the mean and standard deviation of its place; one of the two may be a number."""
    tensor = mean if mean.rank else std
    shape = broadcast_shapes(mean.shape, std.shape, operator="normal")
    drawn = draw("normal", shape, tensor.dtype.compute)
    spread = p.mul(drawn, _filled(std, shape, drawn.dtype))
    return p.converted(p.add(spread, _filled(mean, shape, drawn.dtype)), tensor.dtype)


def exponential_draws(shape: tuple[Dim, ...]) -> Node:
    """Exponential numbers of rate 1 in float64, by inversion."""
    return p.neg(p.log1p(p.neg(draw("uniform53", shape, dtypes.float64))))


@op(mutates=("x",), samples=lambda m: [case(m.float(3, 4)), case(m.float(5), 2.0)])
def exponential_(x: Value, lambd: Value | float = 1.0) -> Node:
    """Fill x with exponential numbers of rate ``lambd``."""
    drawn = exponential_draws(x.shape)
    return p.converted(p.div(drawn, _filled(lambd, x.shape, dtypes.float64)) if isinstance(lambd, Node) else drawn, x.dtype)


@op(mutates=("x",), samples=lambda m: [case(m.float(3, 4)), case(m.float(5), 2.0, 0.5)])
def cauchy_(x: Value, median: Value | float = 0.0, sigma: Value | float = 1.0) -> Node:
    """Fill x with Cauchy numbers, by inversion."""
    word = draw("uniform53", x.shape, dtypes.float64)
    turn = p.sub(word, p.number(0.5, word))
    drawn = p.tan(p.mul(turn, p.number(math.pi, turn)))
    if isinstance(sigma, Node):
        drawn = p.mul(drawn, _filled(sigma, x.shape, drawn.dtype))
    return p.converted(p.add(drawn, _filled(median, x.shape, drawn.dtype)) if isinstance(median, Node) else drawn, x.dtype)


@op(mutates=("x",), samples=lambda m: [case(m.float(3, 4), 0.5), case(m.int(5), 0.25)])
def geometric_(x: Value, p_: float) -> Node:
    """Fill x with the number of trials up to the first that hits with probability ``p_``, by inversion."""
    drawn = p.log(draw("uniform53", x.shape, dtypes.float64))
    return p.converted(p.ceil(p.div(drawn, p.number(math.log1p(-p_), drawn))), x.dtype)


@op(mutates=("x",), samples=lambda m: [case(m.float(3, 4)), case(m.bool(5), 0.25)])
def bernoulli_(x: Value, p_: float = 0.5) -> Node:
    """Fill x with ones, each with probability ``p_``, and zeros."""
    if not 0.0 <= p_ <= 1.0:
        raise RuntimeError(f"bernoulli_: expects p to be in [0, 1], but got p={p_}")
    drawn = draw("uniform53", x.shape, dtypes.float64)
    return p.cast(p.lt(drawn, p.number(p_, drawn)), to=x.dtype)


@op(samples=lambda m: [case(m.float(3, 4, low=0.0, high=1.0))])
def bernoulli(x: Value) -> Node:
    """Ones with the probability that x has at their place, and zeros."""
    drawn = draw("uniform", x.shape, x.dtype.compute)
    return p.cast(p.lt(drawn, p.converted(x, drawn.dtype)), to=x.dtype)


@op(mutates=("x",), samples=lambda m: [case(m.int(3, 4), 0, 10), case(m.float(5), -3, 4)])
def random_(x: Value, from_: Value, to: Value) -> Node:
    """Fill x with integers in [from, to), for to - from up to 2**32 (the caller checks)."""
    return _integers(from_, to, x.shape, x.dtype)


def _multinomial_samples(m: SampleMaker) -> Calls:
    weights = m.float(2, 5, low=0.1, high=3.0)
    return [case(weights, 1), case(weights, 3), case(weights, 4, True), case(weights[0], 2), case(weights[0], 6, replacement=True)]


@op(promote="same", samples=_multinomial_samples)
def multinomial(x: Value, num_samples: Size, replacement: bool = False) -> Node:
    """Indices drawn by the weights in the last dimension of x, int64 [..., num_samples].

    Without replacement: the largest of weight / exponential number. With it: the inverse of the cumulative distribution.
    """
    if x.rank not in (1, 2) or not x.dtype.is_floating_point:
        raise RuntimeError(f"multinomial: prob_dist must be a floating point tensor of 1 or 2 dimensions, got {x.dtype} {list(x.shape)}")
    axis = x.rank - 1
    if num_samples <= 0 or (not replacement and num_samples > x.shape[axis]):
        raise RuntimeError(f"multinomial: cannot sample n_sample={num_samples} from {x.shape[axis]} categories, replacement={replacement}")
    if not replacement or num_samples == 1:
        weight = p.div(x, p.converted(exponential_draws(x.shape), x.dtype))
        return cut(p.argsort(weight, axis=axis, descending=True), axis, 0, num_samples)
    shape = (*x.shape[:-1], num_samples)
    running = p.scan(p.converted(x, dtypes.float64), kind="sum", axis=axis)
    total = cut(running, axis, x.shape[axis] - 1, 1)
    # Lookups divide nothing: they compare with the share of the total.
    wanted = p.mul(draw("uniform53", shape, dtypes.float64), p.expand(total, shape=shape))
    return insertion_points(running, wanted, right=False)
