"""Functions made of several operators: integrals, quantiles, covariances, distances, histograms."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from flambeau import ops
from flambeau.core import dtypes
from flambeau.ops.declare import named_results, normalize_dim
from flambeau.tensor import dispatch
from flambeau.tensor.arguments import numpy_names, write_out
from flambeau.tensor.autocasting import as_one
from flambeau.tensor.base import TensorBase
from flambeau.tensor.creation import linspace, tensor
from flambeau.tensor.functions_complex import adjoint, real
from flambeau.tensor.functions_index import bincount

Number = bool | int | float


# -- differences and integrals --------------------------------------------------------------------------
def _widths(x: Any, dx: Any, like: Any, dim: int) -> Any:
    if x is None:
        return dx
    gaps = ops.sub(ops.slice_(x, -1 if len(x.meta.shape) == 1 else dim, 1), ops.slice_(x, -1 if len(x.meta.shape) == 1 else dim, 0, -1))
    if len(x.meta.shape) == 1:
        trailing = len(like.meta.shape) - 1 - normalize_dim(dim, len(like.meta.shape), "trapezoid")
        gaps = ops.reshape(gaps, (-1, *(1,) * trailing))
    return gaps


def _panels(y: Any, x: Any, dx: Any, dim: int) -> Any:
    """Twice the areas, in the type of y."""
    pairs = ops.add(ops.slice_(y, dim, 1), ops.slice_(y, dim, 0, -1))
    return ops.mul(pairs, _widths(x, dx, y, dim))


def trapezoid(y: Any, x: Any = None, *, dx: Any = 1, dim: int = -1) -> Any:
    """The integral along ``dim`` by the trapezoid rule, at the places ``x`` or ``dx`` apart."""
    if not y.size(dim):
        return ops.sum(y, dim)
    return ops.true_divide(ops.sum(_panels(y, x, dx, dim), dim), 2)


trapz = trapezoid


def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = 1, dim: int = -1) -> Any:
    """The running integral along ``dim`` by the trapezoid rule."""
    return ops.true_divide(ops.cumsum(_panels(y, x, dx, dim), dim), 2)


def gradient(input: Any, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> list[Any]:
    """Estimates of the derivatives along ``dim`` (all for None): central differences inside, one-sided ones at the edges."""
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient: only supports edge_order=1 and edge_order=2, got {edge_order}")
    rank = len(input.meta.shape)
    dims = builtins.range(rank) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = [normalize_dim(d, rank, "gradient") for d in dims]
    if len(set(axes)) != len(axes):
        raise RuntimeError(f"gradient: a dim appears multiple times in the list of dims {list(dims)}")
    if isinstance(spacing, (list, tuple)) and len(spacing) != len(axes):
        raise RuntimeError(f"gradient: expected spacing to be a number or {len(axes)} of them, one for each dim, but got {len(spacing)}")
    spacing = 1 if spacing is None else spacing
    spaced = isinstance(spacing, (list, tuple))
    steps = spacing if spaced else [spacing] * len(axes)
    return [_gradient_along(input, axis, step, edge_order) for axis, step in zip(axes, steps, strict=True)]


def _gradient_along(x: Any, axis: int, spacing: Any, edge_order: int) -> Any:
    size = x.meta.shape[axis]
    if size < edge_order + 1:
        raise RuntimeError("gradient: each dimension size must be at least edge_order+1")
    part = lambda start, end: ops.slice_(x, axis, start, end)  # noqa: E731
    low, high = [part(i, i + 1) for i in (0, 1, 2)[: edge_order + 1]], [part(i, i + 1 or None) for i in (-3, -2, -1)[2 - edge_order :]]
    if not isinstance(spacing, TensorBase):
        inner = (part(2, None) - part(0, -2)) / spacing / 2
        if edge_order == 1:
            return ops.cat([(low[1] - low[0]) / spacing, inner, (high[1] - high[0]) / spacing], axis)
        first, last = low[0] * -1.5 + low[1] * 2 - low[2] * 0.5, high[0] * 0.5 - high[1] * 2 + high[2] * 1.5
        return ops.cat([first / spacing, inner, last / spacing], axis)
    trailing = len(x.meta.shape) - 1 - axis
    gaps = ops.reshape(ops.sub(ops.slice_(spacing, 0, 1), ops.slice_(spacing, 0, 0, -1)), (-1, *(1,) * trailing))
    gap = lambda start, end: ops.slice_(gaps, 0, start, end)  # noqa: E731
    inner = _slope_of_parabola([part(0, -2), part(1, -1), part(2, None)], gap(0, -1), gap(1, None), 1)
    if edge_order == 1:
        return ops.cat([(low[1] - low[0]) / gap(0, 1), inner, (high[1] - high[0]) / gap(-1, None)], axis)
    first, last = _slope_of_parabola(low, gap(0, 1), gap(1, 2), 0), _slope_of_parabola(high, gap(-2, -1), gap(-1, None), 2)
    return ops.cat([first, inner, last], axis)


def _slope_of_parabola(values: list[Any], h: Any, k: Any, at: int) -> Any:
    """The slope, at point number ``at``, of the parabola through three points with gaps ``h`` and ``k`` between them."""
    both = h + k
    weights = [
        (-(2 * h + k) / (h * both), both / (h * k), -h / (k * both)),
        (-k / (h * both), (k - h) / (h * k), h / (k * both)),
        (k / (h * both), -both / (h * k), (2 * k + h) / (k * both)),
    ][at]
    return weights[0] * values[0] + weights[1] * values[1] + weights[2] * values[2]


# -- statistics -----------------------------------------------------------------------------------------
def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """The covariance matrix of variables in rows, observations in columns."""
    if len(input.meta.shape) > 2:
        raise RuntimeError(f"cov: expected input to have two or fewer dimensions but got an input with {len(input.meta.shape)} dimensions")
    x = ops.reshape(input, (1, -1)) if len(input.meta.shape) < 2 else input
    _check_weights(x, fweights, aweights)
    if not x.meta.dtype.is_inexact:
        x = ops.true_divide(x, 1)
    weights = fweights if aweights is None else aweights if fweights is None else ops.mul(fweights, aweights)
    if weights is None:
        count: Any = x.meta.shape[1]
        mean, freedom = ops.mean(x, 1, True), builtins.max(x.meta.shape[1] - correction, 0)
        scaled = ops.sub(x, mean)
        product = ops.matmul(scaled, adjoint(scaled))
    else:
        count = ops.sum(weights)
        mean = ops.true_divide(ops.sum(ops.mul(x, weights), 1, True), count)
        share = 1 if aweights is None else ops.true_divide(ops.sum(ops.mul(weights, aweights)), count)
        freedom = ops.clamp(ops.sub(count, ops.mul(share, correction)) if aweights is not None else ops.sub(count, correction), 0)
        scaled = ops.sub(x, mean)
        product = ops.matmul(scaled, adjoint(ops.to_dtype(ops.mul(scaled, weights), scaled.meta.dtype)))
    result = ops.true_divide(product, freedom)
    return ops.reshape(result, ()) if result.meta.numel == 1 else result


def _check_weights(x: Any, fweights: Any, aweights: Any) -> None:
    for name, weights, floating in (("fweights", fweights, False), ("aweights", aweights, True)):
        if weights is None:
            continue
        meta = weights.meta
        if len(meta.shape) > 1 or meta.numel != x.meta.shape[1]:
            raise RuntimeError(f"cov: {name} must be a vector of {x.meta.shape[1]}, one for each observation; got {list(meta.shape)}")
        if meta.dtype.is_floating_point != floating:
            raise RuntimeError(f"cov: expected {name} to have {'floating point' if floating else 'integral'} dtype but got {meta.dtype}")
        if meta.numel and ops.amin(dispatch.whole(weights), ()).item() < 0:
            raise RuntimeError(f"cov: {name} cannot be negative")


def corrcoef(input: Any) -> Any:
    """The matrix of correlations of variables in rows, observations in columns."""
    found = cov(input)
    if not found.meta.shape:
        return ops.true_divide(found, found)
    deviation = ops.sqrt(real(ops.diagonal(found)))
    scaled = ops.true_divide(ops.true_divide(found, ops.unsqueeze(deviation, 1)), ops.unsqueeze(deviation, 0))
    if scaled.meta.dtype.is_complex:
        return ops.complex(*(ops.clamp(part(scaled), -1, 1) for part in (ops.real, ops.imag)))
    return ops.clamp(scaled, -1, 1)


_BETWEEN = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(operator: str, x: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str, skip_nan: bool) -> Any:
    if interpolation not in _BETWEEN:
        raise RuntimeError(f"{operator}: interpolation must be one of {', '.join(_BETWEEN)}, but got {interpolation}")
    if not x.meta.dtype.is_floating_point:
        raise RuntimeError(f"{operator}: input tensor must be either float or double dtype, got {x.meta.dtype}")
    shares: Any = q if isinstance(q, TensorBase) else tensor(q, dtype=x.meta.dtype)
    if shares.meta.dtype is not x.meta.dtype or len(shares.meta.shape) > 1:
        raise RuntimeError(
            f"{operator}: q must be a scalar or 1D tensor of the input's dtype, got {shares.meta.dtype} {list(shares.meta.shape)}"
        )
    if not isinstance(q, TensorBase) and not 0 <= q <= 1:
        raise RuntimeError(f"{operator}: q values must be in the range [0, 1], got {q}")
    rank = len(x.meta.shape)
    source = (
        ops.reshape(x, (-1,)) if dim is None else ops.movedim(x, normalize_dim(dim, rank, operator), -1) if rank else ops.reshape(x, (1,))
    )
    if not source.meta.shape[-1]:
        raise RuntimeError(f"{operator}: input tensor must be non-empty")
    ordered, _ = ops.sort(source, -1, False, True)
    absent = ops.isnan(ordered)
    size: Any = source.meta.shape[-1]
    count = ops.sub(size, ops.sum(absent, -1, True)) if skip_nan else size
    at = ops.mul(ops.reshape(shares, (-1,)), ops.clamp(ops.sub(count, 1), 0) if skip_nan else size - 1)
    at = ops.expand(at, (*source.meta.shape[:-1], shares.meta.numel))
    result = _between(ordered, at, interpolation)
    if not skip_nan:
        result = ops.where(ops.any(absent, -1, True), float("nan"), result)
    result = ops.movedim(result, -1, 0)
    if not rank or (keepdim and dim is None):
        result = ops.reshape(result, (-1, *(1,) * rank))
    elif keepdim and dim is not None:
        result = ops.unsqueeze(result, normalize_dim(dim, rank, operator) + 1)
    return result if shares.meta.shape else ops.squeeze(result, 0)


def _between(ordered: Any, at: Any, interpolation: str) -> Any:
    """Values at fractional places of the last dimension."""
    if interpolation == "nearest":
        return ops.gather(ordered, -1, ops.to_dtype(ops.round(at), dtypes.int64))
    low, high = ops.to_dtype(ops.floor(at), dtypes.int64), ops.to_dtype(ops.ceil(at), dtypes.int64)
    if interpolation in ("lower", "higher"):
        return ops.gather(ordered, -1, low if interpolation == "lower" else high)
    weight = ops.sub(at, ops.floor(at)) if interpolation == "linear" else ops.mul(ops.to_dtype(ops.ne(low, high), at.meta.dtype), 0.5)
    return ops.lerp(ops.gather(ordered, -1, low), ops.gather(ordered, -1, high), weight)


@as_one
@numpy_names
def quantile(input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear", out: Any = None) -> Any:
    """The ``q``-quantiles along ``dim`` (of all for None); NaN where there is one.

    >>> import flambeau as torch
    >>> torch.quantile(torch.tensor([1., 2., 3., 4.]), 0.5)
    tensor(2.5000)
    """
    result = _quantile("quantile", input, q, dim, keepdim, interpolation, False)
    return result if out is None else write_out(out, result)


@as_one
@numpy_names
def nanquantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear", out: Any = None
) -> Any:
    """The ``q``-quantiles along ``dim`` of the elements that are not NaN."""
    result = _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)
    return result if out is None else write_out(out, result)


@named_results
class MedianResult(NamedTuple):
    """Medians and where they stand."""

    values: Any
    indices: Any


@numpy_names
def nanmedian(input: Any, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The lower of the middle elements that are not NaN, of all or along ``dim`` with its position."""
    source = ops.reshape(input, (-1,)) if dim is None else input
    axis = 0 if dim is None else dim
    if not source.meta.shape:
        result = MedianResult(ops.clone(source), ops.zeros((), dtypes.int64))
        return result if out is None else write_out(out, result)
    if not source.meta.numel and dim is None:
        return ops.full((), float("nan"), source.meta.dtype)
    ordered, order = ops.sort(source, axis, False, True)
    count = ops.sum(ops.logical_not(ops.isnan(source)), axis, True)
    middle = ops.clamp(ops.floor_divide(ops.sub(count, 1), 2), 0)
    found = MedianResult(ops.gather(ordered, axis, middle), ops.gather(order, axis, middle))
    if dim is None:
        return ops.reshape(found.values, ())
    result = found if keepdim else MedianResult(*(ops.squeeze(v, axis) for v in found))
    return result if out is None else write_out(out, result)


# -- distances ------------------------------------------------------------------------------------------
@as_one
def dist(input: Any, other: Any, p: Number = 2) -> Any:
    """The norm of order ``p`` of input - other."""
    return ops.vector_norm(ops.sub(input, other), float(p))


@as_one
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Any:
    """The distance of order ``p`` between every row of x1 [..., n, k] and every row of x2 [..., m, k]: [..., n, m]."""
    if len(x1.meta.shape) < 2 or len(x2.meta.shape) < 2:
        raise RuntimeError(f"cdist only supports at least 2D tensors, got {len(x1.meta.shape)}D and {len(x2.meta.shape)}D")
    if x1.meta.shape[-1] != x2.meta.shape[-1]:
        raise RuntimeError(f"cdist: X1 and X2 must have the same number of columns. X1: {x1.meta.shape[-1]} X2: {x2.meta.shape[-1]}")
    if p < 0:
        raise RuntimeError(f"cdist only supports non-negative p values, got {p}")
    return ops.vector_norm(ops.sub(ops.unsqueeze(x1, -2), ops.unsqueeze(x2, -3)), float(p), -1)


@as_one
def renorm(input: Any, p: Number, dim: int, maxnorm: Number, *, out: Any = None) -> Any:
    """Slices along ``dim`` whose norm of order ``p`` is larger than ``maxnorm`` scaled down to it."""
    if len(input.meta.shape) < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {len(input.meta.shape)} dimensions")
    axis = normalize_dim(dim, len(input.meta.shape), "renorm")
    rest = [i for i in builtins.range(len(input.meta.shape)) if i != axis]
    length = ops.vector_norm(input, float(p), rest, True)
    factor = ops.where(ops.gt(length, maxnorm), ops.true_divide(maxnorm, ops.add(length, 1e-7)), 1.0)
    result = ops.mul(input, factor)
    return result if out is None else write_out(out, result)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:  # noqa: N803 - torch's own name
    """The powers of each element of a vector as rows of a matrix with ``N`` columns."""
    columns = x.meta.shape[0] if N is None else N
    powers = [ops.pow(x, exponent) for exponent in builtins.range(columns)]
    if not columns:
        return (
            ops.reshape(ops.slice_(x, 0, 0, 0), (x.meta.shape[0], 0))
            if not x.meta.shape[0]
            else ops.zeros((x.meta.shape[0], 0), x.meta.dtype)
        )
    return ops.stack(powers if increasing else powers[::-1], 1)


# -- histograms -----------------------------------------------------------------------------------------
@named_results
class Histogram(NamedTuple):
    """Counts and the edges of their intervals."""

    hist: Any
    bin_edges: Any


def histogram(
    input: Any, bins: Any = 100, *, range: Sequence[float] | None = None, weight: Any = None, density: bool = False, out: Any = None
) -> Histogram:
    """How many elements, or how much of their weight, lies in each interval: the last one includes its end."""
    edges, flat = _edges(input, bins, range), ops.reshape(input, (-1,))
    count = edges.meta.shape[0] - 1
    place = _interval(edges, flat)
    place = ops.where(ops.logical_and(ops.ge(place, 0), ops.lt(place, count)), place, count)
    found = bincount(place, None if weight is None else ops.reshape(weight, (-1,)), count + 1)
    hist = ops.to_dtype(ops.slice_(found, 0, 0, count), input.meta.dtype)
    if density:
        widths = ops.sub(ops.slice_(edges, 0, 1), ops.slice_(edges, 0, 0, -1))
        hist = ops.true_divide(ops.true_divide(hist, widths), ops.sum(hist))
    result = Histogram(hist, edges)
    return result if out is None else write_out(out, result)


@named_results
class HistogramDD(NamedTuple):
    """Counts over all dimensions, and the edges along each."""

    hist: Any
    bin_edges: tuple[Any, ...]


def histogramdd(
    input: Any, bins: Any, range: Sequence[float] | None = None, weight: Any = None, density: bool = False
) -> HistogramDD:
    """How many of the points input[..., :] lie in each box: ``bins`` is a number, one for each dimension, or the edges along each."""
    dims = input.meta.shape[-1]
    points = ops.reshape(input, (input.meta.numel // builtins.max(dims, 1), dims))
    bins = [bins] * dims if isinstance(bins, int) else list(bins)
    if len(bins) != dims or (range is not None and len(range) != 2 * dims):
        raise RuntimeError(f"histogramdd: expected bins, and pairs of a range, for {dims} dimensions; got {len(bins)} and range {range}")
    edges = [_edges(ops.select(points, 1, d), bins[d], None if range is None else range[2 * d : 2 * d + 2]) for d in builtins.range(dims)]
    place: Any = 0
    outside: Any = False
    for d, ends in enumerate(edges):
        at = _interval(ends, ops.select(points, 1, d))
        count = ends.meta.shape[0] - 1
        outside = ops.logical_or(ops.logical_or(ops.lt(at, 0), ops.ge(at, count)), outside)
        place = ops.add(ops.mul(at, 1), ops.mul(place, count)) if d else at
    sizes = [e.meta.shape[0] - 1 for e in edges]
    total = math.prod(sizes)
    place = ops.where(outside, total, place)
    found = bincount(place, None if weight is None else ops.reshape(weight, (-1,)), total + 1)
    hist = ops.reshape(ops.to_dtype(ops.slice_(found, 0, 0, total), input.meta.dtype), sizes)
    if density:
        hist = ops.true_divide(hist, ops.sum(hist))
        for d, ends in enumerate(edges):
            widths = ops.sub(ops.slice_(ends, 0, 1), ops.slice_(ends, 0, 0, -1))
            hist = ops.true_divide(hist, ops.reshape(widths, [-1 if i == d else 1 for i in builtins.range(dims)]))
    return HistogramDD(hist, tuple(edges))


def _edges(values: Any, bins: Any, limits: Sequence[float] | None) -> Any:
    """The ends of intervals: as given, or evenly over the limits or the values."""
    if isinstance(bins, TensorBase):
        return bins
    if limits is None:
        limits = (ops.amin(values, ()).item(), ops.amax(values, ()).item()) if values.meta.numel else (0, 1)
    low, high = limits
    low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
    return linspace(low, high, bins + 1, dtype=values.meta.dtype)


def _interval(edges: Any, values: Any) -> Any:
    """The interval of each value, outside [0, count) where there is none; the last one includes its end."""
    place = ops.sub(ops.searchsorted(edges, values, right=True), 1)
    return ops.where(ops.eq(values, edges[-1]), edges.meta.shape[0] - 2, place)


# -- in place, as functions -----------------------------------------------------------------------------
def fill(input: Any, value: Any) -> Any:
    """A tensor like ``input`` with one value everywhere."""
    return ops.assign(input, value)


def fill_(input: Any, value: Any) -> Any:
    """Write one value everywhere."""
    return input.fill_(value)


def zero_(input: Any) -> Any:
    """Write 0 everywhere."""
    return input.zero_()


def resize_as_(input: Any, the_template: Any, *, memory_format: Any = None) -> Any:
    """Change the shape to that of another tensor."""
    return input.resize_as_(the_template, memory_format=memory_format)


def constant_pad_nd(input: Any, pad: Any, value: Number = 0) -> Any:
    """More elements of one value around the input: ``pad`` holds (before, after) for the last dimension, then the one before it."""
    return ops.pad(input, tuple(pad), "constant", value if isinstance(value, complex) else float(value))
