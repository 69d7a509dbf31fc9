"""Activation functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.ir.node import Node
from flambeau.ops import samples as s
from flambeau.ops.declare import Value, broadcast_to, normalize_dim, op
from flambeau.ops.pointwise import matched, require_float, require_inexact, sigmoid
from flambeau.ops.reduce import reduced, restored

SELU_ALPHA = 1.6732632423543772
SELU_SCALE = 1.0507009873554805
GELU_INNER = math.sqrt(2 / math.pi)
GELU_CUBIC = 0.044715


def _activation(samples: s.Sampler = s.unary) -> Callable[[Callable[..., Any]], Any]:
    return op("pointwise", promote="arithmetic", samples=samples)


# -- rectifiers -----------------------------------------------------------------------------------------
@_activation()
def relu(x: Value) -> Node:
    """max(x, 0); the derivative at 0 is 0."""
    if x.dtype is dtypes.bool_:
        raise RuntimeError("relu: a bool tensor is not supported; convert with .float()")
    zero = p.number(0, x)
    return p.where(p.le(x, zero), zero, x)


@_activation(s.within(-9.0, 9.0))
def relu6(x: Value) -> Node:
    """x kept in [0, 6]; the derivative outside the open interval is 0."""
    return hardtanh(x, 0.0, 6.0)


@op("pointwise", promote="arithmetic", promoted=("x",), samples=s.unary)
def hardtanh(x: Value, min_val: Value | float = -1.0, max_val: Value | float = 1.0) -> Node:
    """x kept in [min_val, max_val]; the derivative outside the open interval is 0."""
    if x.dtype is dtypes.bool_:
        raise RuntimeError("hardtanh: Bool inputs not supported for hardtanh; convert with .float()")
    low, high = matched(min_val, x), matched(max_val, x)
    return p.where(p.le(x, low), low, p.where(p.le(high, x), high, x))


@_activation(s.with_number(0.2))
def leaky_relu(x: Value, negative_slope: Value | float = 0.01) -> Node:
    """x where x > 0, else negative_slope * x."""
    require_float("leaky_relu", x)
    return p.where(p.lt(p.number(0, x), x), x, p.mul(x, matched(negative_slope, x)))


@op("general", promote="arithmetic", samples=s.prelu)
def prelu(x: Value, weight: Value) -> Node:
    """x where x > 0, else weight * x; ``weight`` has one element, or one for each index of dimension 1 of x."""
    require_float("prelu", x)
    if not weight.aval.numel == 1:
        channels = x.shape[1] if x.rank > 1 else 1
        if weight.rank != 1 or not weight.shape[0] == channels:
            raise RuntimeError(f"prelu: weight has shape {list(weight.shape)}; needs 1 or {channels} elements, as many as x has channels")
        weight = p.reshape(weight, shape=(channels, *(1,) * (x.rank - 2)))
    else:
        weight = p.reshape(weight, shape=(1,) * x.rank)
    return p.where(p.lt(p.number(0, x), x), x, p.mul(x, broadcast_to(weight, x.shape)))


@_activation(s.threshold)
def threshold(x: Value, threshold: Value, value: Value) -> Node:
    """x where x > threshold, else value."""
    return p.where(p.le(x, threshold), value, x)


@_activation(s.within(-4.0, 4.0))
def hardsigmoid(x: Value) -> Node:
    """(x + 3) / 6 kept in [0, 1]."""
    return relu6(x + 3.0) / 6.0


@_activation(s.within(-4.0, 4.0))
def hardswish(x: Value) -> Node:
    """x * hardsigmoid(x)."""
    return x * relu6(x + 3.0) / 6.0


@_activation(s.with_number(0.4))
def softshrink(x: Value, lambd: Value | float = 0.5) -> Node:
    """x moved toward 0 by ``lambd``, 0 between."""
    limit = matched(lambd, x)
    low = p.where(p.lt(x, p.neg(limit)), p.add(x, limit), p.number(0, x))
    return p.where(p.lt(limit, x), p.sub(x, limit), p.where(p.isnan(x), x, low))


@_activation(s.with_number(0.4))
def hardshrink(x: Value, lambd: Value | float = 0.5) -> Node:
    """0 where -lambd <= x <= lambd, else x."""
    limit = matched(lambd, x)
    return p.where(p.le(p.abs_(x), limit), p.number(0, x), x)


# -- smooth ---------------------------------------------------------------------------------------------
@_activation(s.gelu)
def gelu(x: Value, *, approximate: str = "none") -> Node:
    """x * normal distribution function of x; by erf, or by tanh of a cubic for ``approximate="tanh"``."""
    require_float("gelu", x)
    half = p.mul(x, p.number(0.5, x))
    if approximate == "none":
        inner = p.erf(p.mul(x, p.number(math.sqrt(0.5), x)))
    elif approximate == "tanh":
        inner = p.tanh(_gelu_cubic(x))
    else:
        raise RuntimeError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return p.mul(half, p.add(p.number(1, x), inner))


def _gelu_cubic(x: Node) -> Node:
    cube = p.mul(p.mul(x, x), x)
    return p.mul(p.number(GELU_INNER, x), p.add(x, p.mul(p.number(GELU_CUBIC, x), cube)))


def _gelu_derivative(g: Any, out: Any, arguments: Any) -> tuple[Node]:
    x, approximate = arguments
    one, half = p.number(1, x), p.number(0.5, x)
    square = p.mul(x, x)
    if approximate == "none":
        below = p.mul(half, p.add(one, p.erf(p.mul(x, p.number(math.sqrt(0.5), x)))))
        density = p.mul(p.exp(p.mul(p.number(-0.5, x), square)), p.number(1 / math.sqrt(2 * math.pi), x))
        return (p.mul(g[0], p.add(below, p.mul(x, density))),)
    t = p.tanh(_gelu_cubic(x))
    slope = p.add(p.number(GELU_INNER, x), p.mul(p.number(3 * GELU_INNER * GELU_CUBIC, x), square))
    curve = p.mul(p.mul(p.mul(half, x), p.sub(one, p.mul(t, t))), slope)
    return (p.mul(g[0], p.add(p.mul(half, p.add(one, t)), curve)),)


gelu.derivative = _gelu_derivative


@_activation()
def silu(x: Value) -> Node:
    """x * sigmoid(x)."""
    require_inexact("silu", x)
    return p.mul(x, sigmoid(x))


def _silu_derivative(g: Any, out: Any, arguments: Any) -> tuple[Node]:
    (x,) = arguments
    y, one = sigmoid(x), p.number(1, x)
    return (p.mul(g[0], p.mul(y, p.add(one, p.mul(x, p.sub(one, y))))),)


silu.derivative = _silu_derivative


@_activation()
def mish(x: Value) -> Node:
    """x * tanh(softplus(x))."""
    return x * p.tanh(softplus(x))


@_activation(s.softplus)
def softplus(x: Value, beta: Value | float = 1.0, threshold: Value | float = 20.0) -> Node:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x > threshold."""
    require_float("softplus", x)
    scaled = x if beta == 1.0 else p.mul(x, matched(beta, x))
    large = p.lt(matched(threshold, x), scaled)
    # Where x is returned, exp must not overflow: its derivative would be 0 * inf.
    curve = p.log1p(p.exp(p.where(large, p.number(0, x), scaled)))
    return p.where(large, x, curve if beta == 1.0 else p.div(curve, matched(beta, x)))


@_activation()
def logsigmoid(x: Value) -> Node:
    """log(sigmoid(x)), without overflow."""
    require_float("logsigmoid", x)
    return p.sub(p.minimum(x, p.number(0, x)), p.log1p(p.exp(p.neg(p.abs_(x)))))


@_activation(s.with_number(0.7))
def elu(x: Value, alpha: Value | float = 1.0) -> Node:
    """x where x > 0, else alpha * (exp(x) - 1)."""
    require_float("elu", x)
    curve = _exponential_below(x, x)
    return p.where(p.lt(p.number(0, x), x), x, curve if alpha == 1.0 else p.mul(curve, matched(alpha, x)))


def _exponential_below(x: Node, scaled: Node) -> Node:
    """exp(scaled) - 1 where x <= 0; elsewhere 0, so that neither it nor its derivative overflows."""
    return p.expm1(p.where(p.lt(p.number(0, x), x), p.number(0, x), scaled))


@_activation()
def selu(x: Value) -> Node:
    """The self-normalizing elu: scale * elu(x, alpha), both constants fixed."""
    return elu(x, SELU_ALPHA) * SELU_SCALE


@_activation(s.with_number(0.7))
def celu(x: Value, alpha: Value | float = 1.0) -> Node:
    """x where x > 0, else alpha * (exp(x / alpha) - 1)."""
    require_float("celu", x)
    scale = matched(alpha, x)
    return p.where(p.lt(p.number(0, x), x), x, p.mul(scale, _exponential_below(x, p.div(x, scale))))


@_activation()
def softsign(x: Value) -> Node:
    """x / (1 + |x|)."""
    return x / (p.abs_(x) + 1.0)


@op("pointwise", promote="float", samples=s.unary)
def tanhshrink(x: Value) -> Node:
    """x - tanh(x)."""
    return p.sub(x, p.tanh(x))


# -- along a dimension ----------------------------------------------------------------------------------
@op("general", promote="arithmetic", samples=s.glu)
def glu(x: Value, dim: int = -1) -> Node:
    """The first half of x along ``dim`` times the sigmoid of the second half."""
    require_float("glu", x)
    if x.rank == 0:
        raise RuntimeError("glu: does not support a tensor without dimensions; needs an even dimension to halve")
    axis = normalize_dim(dim, x.rank, "glu")
    if not x.shape[axis] % 2 == 0:
        raise RuntimeError(f"glu: halving dimension must be even, but dimension {axis} is size {x.shape[axis]}; pad it or choose another")
    size = x.shape[axis] // 2
    first, second = (p.slice_(x, **p.select_index(axis, start, size, 1, x.shape)) for start in (0, size))
    return p.mul(first, sigmoid(second))


def _softmax_operand(operator: str, x: Node, dim: int) -> tuple[int, ...]:
    require_float(operator, x)
    return (normalize_dim(dim, x.rank, operator),) if x.rank else ()


@op("general", promote="arithmetic", samples=s.along_dim)
def softmax(x: Value, dim: int, dtype: dtype | None = None) -> Node:
    """exp(x) / sum(exp(x)) along ``dim``, computed after conversion to ``dtype`` if given.

    Floating point in, the same shape and type out. Raises IndexError for a bad ``dim``.
    """
    axes = _softmax_operand("softmax", x, dim)
    e = p.exp(p.sub(x, _row_maximum(x, axes)))
    total = reduced(e, "sum", axes)
    # one division a row: dividing each element costs more than computing it
    return p.mul(e, restored(p.div(p.number(1, total), total), axes, x.shape))


def _row_maximum(x: Node, axes: tuple[int, ...]) -> Node:
    if any(x.shape[a] == 0 for a in axes):
        return x
    return p.detach(restored(reduced(x, "max", axes), axes, x.shape))


def _softmax_derivative(g: Any, out: Any, arguments: Any) -> tuple[Node]:
    axes = _softmax_operand("softmax", arguments[0], arguments[1])
    y = out[0]
    total = restored(reduced(p.mul(g[0], y), "sum", axes), axes, y.shape)
    return (p.mul(p.sub(g[0], total), y),)


softmax.derivative = _softmax_derivative


@op("general", promote="arithmetic", samples=s.along_dim)
def log_softmax(x: Value, dim: int, dtype: dtype | None = None) -> Node:
    """log(softmax(x, dim)), accurate also where softmax underflows."""
    axes = _softmax_operand("log_softmax", x, dim)
    shifted = p.sub(x, _row_maximum(x, axes))
    total = p.log(reduced(p.exp(shifted), "sum", axes))
    return p.sub(shifted, restored(total, axes, x.shape))


def _log_softmax_derivative(g: Any, out: Any, arguments: Any) -> tuple[Node]:
    axes = _softmax_operand("log_softmax", arguments[0], arguments[1])
    total = restored(reduced(g[0], "sum", axes), axes, out[0].shape)
    return (p.sub(g[0], p.mul(p.exp(out[0]), total)),)


log_softmax.derivative = _log_softmax_derivative


@op("general", promote="arithmetic", samples=s.along_dim)
def softmin(x: Value, dim: int, dtype: dtype | None = None) -> Node:
    """softmax(-x, dim)."""
    require_float("softmin", x)
    return softmax(p.neg(x), dim)
