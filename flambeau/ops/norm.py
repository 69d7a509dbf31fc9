"""Normalization: of layers, groups, instances and batches, and of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flambeau import prims as p
from flambeau.ir.node import Node
from flambeau.ops import samples as s
from flambeau.ops.declare import Sizes, Value, broadcast_shapes, broadcast_to, op
from flambeau.ops.pointwise import converted, matched
from flambeau.ops.reduce import axes_of, count_along, mean_along, reduced, restored, size_number, vector_norm

Axes = tuple[int, ...]


def _standardized(x: Node, axes: Axes, eps: float) -> tuple[Node, Node, Node, Node]:
    """(x - mean) / sqrt(variance + eps) along ``axes``; then 1 / sqrt(...) repeated, the mean and the variance dropped.

    Two passes: the mean first, then the mean of squared deviations, which does not cancel.
    """
    mean = mean_along(x, axes)
    deviation = p.sub(x, restored(mean, axes, x.shape))
    variance = mean_along(p.mul(deviation, deviation), axes)
    scale = restored(p.rsqrt(p.add(variance, p.number(eps, variance))), axes, x.shape)
    return p.mul(deviation, scale), scale, mean, variance


def _standardized_derivative(g: Node, normal: Node, scale: Node, axes: Axes) -> Node:
    """The derivative of ``_standardized`` by x: two reductions that do not wait for each other."""
    mean = restored(mean_along(g, axes), axes, g.shape)
    slope = restored(mean_along(p.mul(g, normal), axes), axes, g.shape)
    return p.mul(p.sub(p.sub(g, mean), p.mul(normal, slope)), scale)


def _along(value: Node, x: Node, axes: Axes) -> Node:
    """A weight over ``axes`` of x (one axis, or the last ones), in the type of x and repeated to its shape."""
    shape = tuple(d if i in axes else 1 for i, d in enumerate(x.shape))
    return matched(p.reshape(value, shape=shape), x)


def _scaled(x: Node, weight: Node | None, axes: Axes) -> Node:
    return x if weight is None else p.mul(x, _along(weight, x, axes))


def _affine(x: Node, weight: Node | None, bias: Node | None, axes: Axes) -> Node:
    """x * weight + bias, both over ``axes`` and each optional."""
    out = _scaled(x, weight, axes)
    return out if bias is None else p.add(out, _along(bias, x, axes))


def _summed_to(g: Node, axes: Axes, like: Node | None) -> Node | None:
    """The gradient of a weight over ``axes``: summed over the others, in its own shape and type."""
    if like is None:
        return None
    others = tuple(i for i in range(g.rank) if i not in axes)
    return converted(p.reshape(reduced(g, "sum", others), shape=like.shape), like.dtype)


# -- over the last dimensions ---------------------------------------------------------------------------
def _last_axes(operator: str, x: Node, normalized_shape: Sequence[Any], **affine: Node | None) -> Axes:
    shape = tuple(normalized_shape)
    if not shape or x.rank < len(shape) or not x.shape[x.rank - len(shape) :] == shape:
        expected = ", ".join(["*", *map(str, shape)])
        got = list(x.shape)
        raise RuntimeError(f"{operator}: given normalized_shape={list(shape)}, expected input with shape [{expected}], but got {got}")
    for name, factor in affine.items():
        if factor is not None and factor.shape != x.shape[x.rank - len(shape) :]:
            raise RuntimeError(
                f"{operator}: Expected {name} to be of same shape as normalized_shape, but got {name} of shape {list(factor.shape)} and "
                f"normalized_shape = {list(shape)}"
            )
    return tuple(range(x.rank - len(shape), x.rank))


@op("general", promote="arithmetic", promoted=("x",), samples=s.layer_norm)
def layer_norm(
    x: Value, normalized_shape: Sizes, weight: Value | None = None, bias: Value | None = None, eps: float = 1e-5
) -> Node:
    """(x - mean) / sqrt(variance + eps) * weight + bias, over the last dimensions.

    x is [*, normalized_shape], weight and bias are [normalized_shape] or None; the result has the shape and type of x.
    The variance is the biased one. RuntimeError where the shapes do not fit.
    """
    axes = _last_axes("layer_norm", x, normalized_shape, weight=weight, bias=bias)
    normal = _standardized(x, axes, eps)[0]
    return _affine(normal, weight, bias, axes)


def _layer_norm_derivative(g: Any, out: Any, arguments: Any) -> tuple[Node | None, ...]:
    x, normalized_shape, weight, bias, eps = arguments
    axes = tuple(range(x.rank - len(normalized_shape), x.rank))
    normal, scale, _, _ = _standardized(x, axes, eps)
    weighted = _scaled(g[0], weight, axes)
    for_weight = _summed_to(p.mul(g[0], normal), axes, weight)
    return _standardized_derivative(weighted, normal, scale, axes), for_weight, _summed_to(g[0], axes, bias)


layer_norm.derivative = _layer_norm_derivative


def _root_mean_square(x: Node, axes: Axes, eps: float | None) -> tuple[Node, Node]:
    square = mean_along(p.mul(x, x), axes)
    least = float(np.finfo(x.dtype.numpy).eps) if eps is None else eps
    scale = restored(p.rsqrt(p.add(square, p.number(least, square))), axes, x.shape)
    return p.mul(x, scale), scale


@op("general", promote="arithmetic", promoted=("x",), samples=s.rms_norm)
def rms_norm(x: Value, normalized_shape: Sizes, weight: Value | None = None, eps: float | None = None) -> Node:
    """x / sqrt(mean(x * x) + eps) * weight, over the last dimensions; ``eps`` None is the type's machine epsilon."""
    axes = _last_axes("rms_norm", x, normalized_shape, weight=weight)
    return _scaled(_root_mean_square(x, axes, eps)[0], weight, axes)


def _rms_norm_derivative(g: Any, out: Any, arguments: Any) -> tuple[Node | None, ...]:
    x, normalized_shape, weight, eps = arguments
    axes = tuple(range(x.rank - len(normalized_shape), x.rank))
    normal, scale = _root_mean_square(x, axes, eps)
    weighted = _scaled(g[0], weight, axes)
    slope = restored(mean_along(p.mul(weighted, normal), axes), axes, x.shape)
    for_x = p.mul(p.sub(weighted, p.mul(normal, slope)), scale)
    return for_x, _summed_to(p.mul(g[0], normal), axes, weight)


rms_norm.derivative = _rms_norm_derivative


# -- over groups of channels ----------------------------------------------------------------------------
def _grouped(x: Node, num_groups: int) -> tuple[Node, Axes]:
    """x as [N, groups, channels of a group, *], and the axes to normalize over."""
    if x.rank < 2:
        raise RuntimeError(f"group_norm: expected at least 2 dimensions for input tensor but received {x.rank}")
    if not x.shape[1] % num_groups == 0:
        raise RuntimeError(f"group_norm: expected number of channels to be divisible by num_groups, got {x.shape[1]} and {num_groups}")
    grouped = p.reshape(x, shape=(x.shape[0], num_groups, x.shape[1] // num_groups, *x.shape[2:]))
    return grouped, tuple(range(2, grouped.rank))


@op("general", promote="arithmetic", promoted=("x",), samples=s.group_norm)
def group_norm(
    x: Value, num_groups: int, weight: Value | None = None, bias: Value | None = None, eps: float = 1e-5
) -> Node:
    """Normalize x [N, C, *] over each group of C / num_groups channels; weight and bias are [C] or None."""
    grouped, axes = _grouped(x, num_groups)
    return p.reshape(_affine(_standardized(grouped, axes, eps)[0], weight, bias, (1, 2)), shape=x.shape)


def _group_norm_derivative(g: Any, out: Any, arguments: Any) -> tuple[Node | None, ...]:
    x, num_groups, weight, bias, eps = arguments
    grouped, axes = _grouped(x, num_groups)
    normal, scale, _, _ = _standardized(grouped, axes, eps)
    weighted = _scaled(g[0], weight, (1,))
    for_x = _standardized_derivative(p.reshape(weighted, shape=grouped.shape), normal, scale, axes)
    for_weight = _summed_to(p.mul(g[0], p.reshape(normal, shape=x.shape)), (1,), weight)
    return p.reshape(for_x, shape=x.shape), for_weight, _summed_to(g[0], (1,), bias)


group_norm.derivative = _group_norm_derivative


# -- over batches and instances -------------------------------------------------------------------------
def _moved_toward(running: Node | None, seen: Node, momentum: Node | float) -> Node | None:
    """(1 - momentum) * running + momentum * seen, in the type of ``running``."""
    if running is None:
        return None
    wide = converted(running, running.dtype.compute)
    share = matched(momentum, wide)
    kept_part = p.mul(p.sub(p.number(1, wide), share), wide)
    return converted(p.add(kept_part, p.mul(share, matched(seen, wide))), running.dtype)


def _unbiased(variance: Node, count: Any) -> Node:
    n = size_number(count, variance)
    return p.mul(variance, p.div(n, p.sub(n, p.number(1, n))))


def _batch_axes(x: Node) -> Axes:
    return (0, *range(2, x.rank))


@op("general", promote="arithmetic", promoted=("x",), samples=s.channel_norm)
def channel_norm(x: Value, weight: Value | None, bias: Value | None, axes: Axes, eps: float) -> Node:
    """Normalize x [N, C, *] along ``axes`` by its own mean and variance, then scale and shift each channel."""
    normal = _standardized(x, axes, eps)[0]
    return _affine(normal, weight, bias, (1,))


def _channel_norm_derivative(g: Any, out: Any, arguments: Any) -> tuple[Node | None, ...]:
    x, weight, bias, axes, eps = arguments
    normal, scale, _, _ = _standardized(x, axes, eps)
    weighted = _scaled(g[0], weight, (1,))
    for_x = _standardized_derivative(weighted, normal, scale, axes)
    return for_x, _summed_to(p.mul(g[0], normal), (1,), weight), _summed_to(g[0], (1,), bias)


channel_norm.derivative = _channel_norm_derivative


def _normalized_by(operator: str, x: Node, mean: Node | None, variance: Node | None, eps: float) -> Node:
    """(x - mean) / sqrt(variance + eps) with given numbers for each channel."""
    if mean is None or variance is None:
        raise RuntimeError(f"{operator}: expected running_mean and running_var to be defined when not training; give them or train")
    wide = converted(variance, x.dtype)
    scale, center = _along(p.rsqrt(p.add(wide, p.number(eps, wide))), x, (1,)), _along(mean, x, (1,))
    return p.mul(p.sub(x, center), scale)


@op("general", mutates=("running_mean", "running_var"), samples=s.batch_norm)
def batch_norm(
    x: Value, running_mean: Value | None, running_var: Value | None, weight: Value | None = None, bias: Value | None = None,
    training: bool = False, momentum: Value | float = 0.1, eps: float = 1e-5,
) -> tuple[Node | None, Node | None, Node]:  # fmt: skip
    """Normalize x [N, C, *] over all but the channels: by its own mean and variance in training, else by the running ones.

    Gives the running mean and variance [C] (in training moved by ``momentum`` toward those of x, the variance unbiased), then
    the result. ValueError for a single value per channel in training.
    """
    if x.rank < 2:
        if x.aval.numel == 0:
            return running_mean, running_var, x
        raise RuntimeError(f"batch_norm: expected an input [N, C, ...] of at least 2 dimensions, got shape {list(x.shape)}")
    wide, axes = converted(x, x.dtype.compute), (0, *range(2, x.rank))
    if not training:
        normal = _normalized_by("batch_norm", wide, running_mean, running_var, eps)
        out = _affine(normal, weight, bias, (1,))
        return running_mean, running_var, converted(out, x.dtype)
    count = count_along(x, axes)
    if count == 1:
        raise ValueError(f"batch_norm: expected more than 1 value per channel when training, got input size {list(x.shape)}")
    _, _, mean, variance = _standardized(wide, axes, eps)
    running_mean = _moved_toward(running_mean, mean, momentum)
    running_var = _moved_toward(running_var, _unbiased(variance, count), momentum)
    return running_mean, running_var, converted(channel_norm(wide, weight, bias, axes, eps), x.dtype)


@op("general", mutates=("running_mean", "running_var"), samples=s.instance_norm)
def instance_norm(
    x: Value, running_mean: Value | None = None, running_var: Value | None = None, weight: Value | None = None,
    bias: Value | None = None, use_input_stats: bool = True, momentum: Value | float = 0.1, eps: float = 1e-5,
) -> tuple[Node | None, Node | None, Node]:  # fmt: skip
    """Normalize each channel of each instance of x [N, C, *]; with ``use_input_stats=False`` by the running numbers.

    Gives the running mean and variance (moved toward the averages over the instances, as ``batch_norm``), then the result.
    """
    wide, axes = converted(x, x.dtype.compute), tuple(range(2, x.rank))
    if not use_input_stats:
        normal = _normalized_by("instance_norm", wide, running_mean, running_var, eps)
        out = _affine(normal, weight, bias, (1,))
        return running_mean, running_var, converted(out, x.dtype)
    count = count_along(x, axes)
    if count == 1:
        raise ValueError(f"instance_norm: expected more than 1 spatial element when training, got input size {list(x.shape)}")
    _, _, mean, variance = _standardized(wide, axes, eps)
    running_mean = _moved_toward(running_mean, mean_along(mean, (0,)), momentum)
    running_var = _moved_toward(running_var, mean_along(_unbiased(variance, count), (0,)), momentum)
    return running_mean, running_var, converted(channel_norm(wide, weight, bias, axes, eps), x.dtype)


# -- of vectors -----------------------------------------------------------------------------------------
def _at_least(x: Node, least: float) -> Node:
    bound = p.number(least, x)
    return p.where(p.lt(x, bound), bound, x)


@op("general", promote="arithmetic", samples=s.normalize)
def normalize(x: Value, p: float = 2.0, dim: int | Sequence[int] = 1, eps: float = 1e-12) -> Node:
    """x / max(norm of order ``p`` along ``dim``, eps)."""
    length = _at_least(vector_norm(x, p, dim, True), eps)
    return x / length


@op("general", promote="arithmetic", samples=s.two_vectors)
def cosine_similarity(x1: Value, x2: Value, dim: int = 1, eps: float = 1e-8) -> Node:
    """The cosine of the angle between x1 and x2 along ``dim``, each length taken as at least ``eps``."""
    shape = broadcast_shapes(x1.shape, x2.shape, operator="cosine_similarity")
    x1, x2 = broadcast_to(x1, shape), broadcast_to(x2, shape)
    axes = axes_of(x1, dim, "cosine_similarity")
    first, second = (x / _at_least(vector_norm(x, 2, dim, True), eps) for x in (x1, x2))
    return reduced(p.mul(first, second), "sum", axes)


@op("general", promote="arithmetic", samples=s.pairwise)
def pairwise_distance(x1: Value, x2: Value, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Node:
    """The norm of order ``p`` of x1 - x2 + eps along the last dimension."""
    return vector_norm(x1 - x2 + eps, p, -1, keepdim)
