"""Arithmetic, rounding, the elementary functions and element-wise choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.ir.node import Node, bind_arithmetic
from flambeau.ops import samples as s
from flambeau.ops.comparison import (
    bitwise_and,
    bitwise_not,
    bitwise_or,
    ge,
    gt,
    le,
    lt,
)
from flambeau.ops.declare import Value, broadcast_to, default_float, op


def converted(x: Node, kind: dtype) -> Node:
    """x in another dtype; x itself if it has it."""
    return x if x.dtype is kind else p.cast(x, to=kind)


def matched(value: Node | float, like: Node) -> Node:
    """A number or a node that broadcasts, in the shape and dtype of ``like``; RuntimeError for a complex one where that is real."""
    if isinstance(value, Node) and value.dtype.is_complex and not like.dtype.is_complex:
        raise RuntimeError(f"a complex number cannot be converted to {like.dtype} without overflow; give its real part")
    return broadcast_to(converted(value, like.dtype), like.shape) if isinstance(value, Node) else p.number(value, like)


def require_float(operator: str, x: Node) -> None:
    """NotImplementedError as torch's for the integer types that ``operator`` has no meaning for."""
    if not x.dtype.is_floating_point:
        raise NotImplementedError(f"{operator}: not implemented for {x.dtype}; needs a floating point tensor, convert with .float()")


def require_inexact(operator: str, x: Node) -> None:
    """As `require_float`, for what has a meaning for complex numbers too."""
    if not x.dtype.is_complex:
        require_float(operator, x)


def _require_no_bool(operator: str, x: Node, instead: str) -> None:
    if x.dtype is dtypes.bool_:
        raise RuntimeError(f"{operator}: a bool tensor is not supported; {instead}")


def _require_number(operator: str, x: Node) -> None:
    if x.dtype is dtypes.bool_:
        raise NotImplementedError(f"{operator}: not implemented for torch.bool; convert with .to(torch.int64)")


def _alpha(operator: str, alpha: Node | float, x: Node) -> Node:
    fractional = alpha.dtype.is_inexact if isinstance(alpha, Node) else isinstance(alpha, (float, complex))
    if fractional and not x.dtype.is_inexact:
        raise RuntimeError(f"{operator}: for integer tensors alpha must not be a floating point number; give an int")
    return matched(alpha, x)


# -- arithmetic -----------------------------------------------------------------------------------------
@op("pointwise", promote="arithmetic", promoted=("x", "other"), samples=s.scaled)
def add(x: Value, other: Value, *, alpha: Value | float = 1) -> Node:
    """x + alpha * other."""
    return p.add(x, other if alpha == 1 else p.mul(other, _alpha("add", alpha, x)))


@op("pointwise", promote="arithmetic", promoted=("x", "other"), samples=s.scaled)
def sub(x: Value, other: Value, *, alpha: Value | float = 1) -> Node:
    """x - alpha * other."""
    return p.sub(x, other if alpha == 1 else p.mul(other, _alpha("sub", alpha, x)))


def _refuse_bools(arguments: Mapping[str, Any]) -> None:
    for value in (arguments["x"], arguments["other"]):
        if isinstance(value, bool) or (isinstance(value, Node) and value.dtype is dtypes.bool_):
            raise RuntimeError(
                "sub: Subtraction, the `-` operator, with a bool tensor is not supported; to invert a mask use `~` or logical_not(), "
                "for two of them `^` or logical_xor()"
            )


sub.check = _refuse_bools


@op("pointwise", promote="arithmetic", samples=s.binary)
def mul(x: Value, other: Value) -> Node:
    """x * other."""
    return p.mul(x, other)


@op("pointwise", promote="float", samples=s.divisor)
def true_divide(x: Value, other: Value) -> Node:
    """x / other in floating point."""
    return p.div(x, other)


@op("pointwise", promote="arithmetic", samples=s.division)
def div(x: Value, other: Value, *, rounding_mode: str | None = None) -> Node:
    """x / other in floating point; rounded toward zero for "trunc" and down for "floor", keeping integer types."""
    if rounding_mode is None:
        return p.div(x, other) if x.dtype.is_inexact else true_divide(x, other)
    if rounding_mode == "floor":
        return floor_divide(x, other)
    if rounding_mode != "trunc":
        raise RuntimeError(f"div: rounding_mode must be None, 'trunc' or 'floor', got {rounding_mode!r}")
    return p.trunc(p.div(x, other)) if x.dtype.is_floating_point else p.truncdiv(x, nonzero(other))


def nonzero(divisor: Node) -> Node:
    """An integer divisor, checked not to be 0: the kernel reports it as an index outside of one element."""
    if divisor.dtype.is_floating_point:
        return divisor
    bad = p.where(p.eq(divisor, p.number(0, divisor)), *(p.constant(v, divisor.shape, dtypes.int64) for v in (1, 0)))
    return p.add(divisor, p.converted(p.take(p.iota(shape=(1,), axis=0, dtype=dtypes.int64), bad), divisor.dtype))


@op("pointwise", promote="arithmetic", samples=s.quotients)
def floor_divide(x: Value, other: Value) -> Node:
    """x / other rounded down, exact also where x / other itself would round up to an integer."""
    other = nonzero(other)
    rest = p.rem(x, other)
    zero, one = p.number(0, x), p.number(1, x)
    below = p.ne(rest, zero) & p.ne(p.lt(rest, zero), p.lt(other, zero))
    if not x.dtype.is_floating_point:
        quotient = p.truncdiv(x, other)
        return p.where(below, p.sub(quotient, one), quotient) if x.dtype.is_signed else quotient
    # The remainder is exact, so (x - rest) / other is near an integer; take the nearest one.
    near = p.div(p.sub(x, rest), other)
    near = p.where(below, p.sub(near, one), near)
    down = p.floor(near)
    down = p.where(p.lt(p.number(0.5, x), p.sub(near, down)), p.add(down, one), down)
    ratio = p.div(x, other)
    down = p.where(p.eq(near, zero), p.copysign(zero, ratio), down)
    return p.where(p.eq(other, zero), p.detach(ratio), down)


@op("pointwise", promote="arithmetic", samples=s.quotients)
def remainder(x: Value, other: Value) -> Node:
    """x - other * floor(x / other): the sign is that of ``other``."""
    other = nonzero(other)
    rest = p.rem(x, other)
    if not x.dtype.is_signed:
        return rest
    zero = p.number(0, x)
    below = p.ne(rest, zero) & p.ne(p.lt(rest, zero), p.lt(other, zero))
    return p.where(below, p.add(rest, other), rest)


@op("pointwise", promote="arithmetic", samples=s.quotients)
def fmod(x: Value, other: Value) -> Node:
    """x - other * trunc(x / other): the sign is that of x."""
    return p.rem(x, nonzero(other))


@op("pointwise", promote="arithmetic", samples=s.unary)
def neg(x: Value) -> Node:
    """-x."""
    _require_no_bool("neg", x, "use logical_not() or the ~ operator")
    return p.neg(x)


@op("pointwise", promote="arithmetic", samples=s.unary)
def abs(x: Value) -> Node:
    """|x|."""
    if x.dtype is dtypes.bool_:
        raise NotImplementedError("abs: not implemented for torch.bool; it would return its argument")
    return p.abs_(x) if x.dtype.is_signed else x


@op("pointwise", promote="arithmetic", samples=s.unary)
def sign(x: Value) -> Node:
    """-1, 0 or 1."""
    return x if x.dtype is dtypes.bool_ else p.sign(x)


@op("pointwise", promote="arithmetic", samples=s.unary)
def positive(x: Value) -> Node:
    """x itself."""
    _require_no_bool("positive", x, "it would return its argument")
    return x


@op("pointwise", promote="float", samples=s.positive_only)
def reciprocal(x: Value) -> Node:
    """1 / x."""
    return p.div(p.number(1, x), x)


@op("pointwise", promote="arithmetic", samples=s.unary)
def square(x: Value) -> Node:
    """x * x; of bools as integers."""
    x = p.cast(x, to=dtypes.int64) if x.dtype is dtypes.bool_ else x
    return p.mul(x, x)


@op("pointwise", promote="arithmetic", samples=s.powers)
def pow(x: Value, exponent: Value) -> Node:
    """x ** exponent; integers to a negative power give 0, except 1 and -1."""
    if x.dtype is dtypes.bool_:
        raise NotImplementedError("pow: not implemented for torch.bool; convert with .to(torch.int64)")
    if x.dtype.is_inexact or not x.dtype.is_signed:
        return p.pow_(x, exponent)
    zero, one = p.number(0, x), p.number(1, x)
    odd = p.bitwise_and(exponent, one)
    inverse = p.where(p.eq(x, one), one, p.where(p.eq(x, p.neg(one)), p.sub(one, p.add(odd, odd)), zero))
    return p.where(p.lt(exponent, zero), inverse, p.pow_(x, p.maximum(exponent, zero)))


# Exponents with a form that is cheaper than pow, and as exact.
_POWERS: dict[float, Callable[[Node], Node]] = {
    -2: lambda x: p.div(p.number(1, x), p.mul(x, x)),
    -1: lambda x: p.div(p.number(1, x), x),
    -0.5: p.rsqrt,
    0.5: p.sqrt,
    1: lambda x: x,
    2: lambda x: p.mul(x, x),
    3: lambda x: p.mul(p.mul(x, x), x),
    4: lambda x: p.mul(p.mul(x, x), p.mul(x, x)),
}
STATIC_EXPONENTS = frozenset(_POWERS)


@op("pointwise", promote="arithmetic", samples=s.static_powers)
def pow_static(x: Value, exponent: float) -> Node:
    """x ** exponent for an exponent of ``STATIC_EXPONENTS``, by multiplication, division and square root."""
    if x.dtype is dtypes.bool_:
        raise NotImplementedError("pow: not implemented for torch.bool; convert with .to(torch.int64)")
    if not x.dtype.is_inexact:
        if not isinstance(exponent, float) and exponent < 0:
            raise RuntimeError("pow: integers to negative integer powers are not allowed; convert with .float()")
        x = p.cast(x, to=default_float()) if isinstance(exponent, float) else x
    return _POWERS[exponent](x)


@op("pointwise", promote="float", samples=s.positive_only)
def sqrt(x: Value) -> Node:
    """The square root; NaN below 0."""
    return p.sqrt(x)


@op("pointwise", promote="float", samples=s.positive_only)
def rsqrt(x: Value) -> Node:
    """1 / sqrt(x)."""
    return p.rsqrt(x)


@op("pointwise", samples=s.powers)
def float_power(x: Value, exponent: Value) -> Node:
    """x ** exponent in float64, or complex128."""
    wide = dtypes.complex128 if x.dtype.is_complex or exponent.dtype.is_complex else dtypes.float64
    return p.pow_(converted(x, wide), converted(exponent, wide))


# -- rounding -------------------------------------------------------------------------------------------
@op("pointwise", promote="arithmetic", samples=s.unary)
def floor(x: Value) -> Node:
    """The largest integer <= x."""
    _require_number("floor", x)
    return p.floor(x) if x.dtype.is_inexact else x


@op("pointwise", promote="arithmetic", samples=s.unary)
def ceil(x: Value) -> Node:
    """The smallest integer >= x."""
    _require_number("ceil", x)
    return p.ceil(x) if x.dtype.is_inexact else x


@op("pointwise", promote="arithmetic", samples=s.unary)
def trunc(x: Value) -> Node:
    """x without its fraction."""
    _require_number("trunc", x)
    return p.trunc(x) if x.dtype.is_inexact else x


@op("pointwise", promote="arithmetic", samples=s.unary)
def frac(x: Value) -> Node:
    """x - trunc(x), with the sign of x."""
    require_float("frac", x)
    return p.sub(x, p.trunc(x))


@op("pointwise", promote="arithmetic", samples=s.roundings)
def round(x: Value, *, decimals: int = 0) -> Node:
    """The nearest number with ``decimals`` digits after the point (before it, if negative); halves go to even."""
    if decimals:
        require_float("round", x)
        ten = p.number(10.0 ** max(decimals, -decimals), x)
        return p.div(p.round_(p.mul(x, ten)), ten) if decimals > 0 else p.mul(p.round_(p.div(x, ten)), ten)
    _require_number("round", x)
    return p.round_(x) if x.dtype.is_inexact else x


# -- elementary functions -------------------------------------------------------------------------------
@op("pointwise", promote="float", samples=s.unary)
def exp(x: Value) -> Node:
    """e ** x."""
    return p.exp(x)


@op("pointwise", promote="float", samples=s.unary)
def exp2(x: Value) -> Node:
    """2 ** x."""
    return p.exp2(x)


@op("pointwise", promote="float", samples=s.unary)
def expm1(x: Value) -> Node:
    """e ** x - 1, accurate near 0."""
    return p.expm1(x)


@op("pointwise", promote="float", samples=s.positive_only)
def log(x: Value) -> Node:
    """The natural logarithm; -inf at 0, NaN below."""
    return p.log(x)


@op("pointwise", promote="float", samples=s.positive_only)
def log2(x: Value) -> Node:
    """The logarithm to base 2."""
    return p.log2(x)


@op("pointwise", promote="float", samples=s.positive_only)
def log10(x: Value) -> Node:
    """The logarithm to base 10."""
    return p.log10(x)


@op("pointwise", promote="float", samples=s.unit)
def log1p(x: Value) -> Node:
    """log(1 + x), accurate near 0."""
    return p.log1p(x)


@op("pointwise", promote="float", samples=s.unary)
def sin(x: Value) -> Node:
    """The sine of x radians."""
    return p.sin(x)


@op("pointwise", promote="float", samples=s.unary)
def cos(x: Value) -> Node:
    """The cosine of x radians."""
    return p.cos(x)


@op("pointwise", promote="float", samples=s.unit)
def tan(x: Value) -> Node:
    """The tangent of x radians."""
    return p.tan(x)


@op("pointwise", promote="float", samples=s.unit)
def asin(x: Value) -> Node:
    """The arc sine, in radians."""
    return p.asin(x)


@op("pointwise", promote="float", samples=s.unit)
def acos(x: Value) -> Node:
    """The arc cosine, in radians."""
    return p.acos(x)


@op("pointwise", promote="float", samples=s.unary)
def atan(x: Value) -> Node:
    """The arc tangent, in radians."""
    return p.atan(x)


@op("pointwise", promote="float", samples=s.divisor)
def atan2(x: Value, other: Value) -> Node:
    """The angle of the point (other, x), in radians."""
    return p.atan2(x, other)


@op("pointwise", promote="float", samples=s.unary)
def sinh(x: Value) -> Node:
    """The hyperbolic sine."""
    return p.sinh(x)


@op("pointwise", promote="float", samples=s.unary)
def cosh(x: Value) -> Node:
    """The hyperbolic cosine."""
    return p.cosh(x)


@op("pointwise", promote="float", samples=s.unary)
def tanh(x: Value) -> Node:
    """The hyperbolic tangent."""
    return p.tanh(x)


@op("pointwise", promote="float", samples=s.unary)
def asinh(x: Value) -> Node:
    """The inverse hyperbolic sine."""
    return p.asinh(x)


@op("pointwise", promote="float", samples=s.within(1.2, 4.0))
def acosh(x: Value) -> Node:
    """The inverse hyperbolic cosine; NaN below 1."""
    return p.acosh(x)


@op("pointwise", promote="float", samples=s.unit)
def atanh(x: Value) -> Node:
    """The inverse hyperbolic tangent."""
    return p.atanh(x)


@op("pointwise", promote="float", samples=s.unary)
def erf(x: Value) -> Node:
    """The error function."""
    return p.erf(x)


@op("pointwise", promote="float", samples=s.unary)
def erfc(x: Value) -> Node:
    """1 - erf(x), accurate for large x."""
    return p.erfc(x)


@op("pointwise", promote="float", samples=s.unit)
def erfinv(x: Value) -> Node:
    """The inverse of erf."""
    return p.erfinv(x)


@op("pointwise", promote="float", samples=s.positive_only)
def lgamma(x: Value) -> Node:
    """The logarithm of |gamma(x)|."""
    return p.lgamma(x)


@op("pointwise", promote="float", samples=s.positive_only)
def digamma(x: Value) -> Node:
    """The derivative of lgamma."""
    return p.digamma(x)


@op("pointwise", promote="float", samples=s.unary)
def sigmoid(x: Value) -> Node:
    """1 / (1 + exp(-x)), without overflow on either side."""
    one = p.number(1, x)
    if x.dtype.is_complex:
        return p.div(one, p.add(one, p.exp(p.neg(x))))
    negative = p.lt(x, p.number(0, x))
    e = p.exp(p.where(negative, x, p.neg(x)))
    return p.div(p.where(negative, e, one), p.add(one, e))


sigmoid.derivative = lambda g, out, arguments: (p.mul(g[0], p.mul(out[0], p.sub(p.number(1, out[0]), out[0]))),)


@op("pointwise", promote="float", samples=s.within(0.05, 0.95))
def logit(x: Value, eps: Value | None = None) -> Node:
    """log(x / (1 - x)), with x first kept in [eps, 1 - eps] if ``eps`` is given."""
    if eps is not None:
        x = clamp(x, eps, 1 - eps)
    return p.log(p.div(x, p.sub(p.number(1, x), x)))


@op("pointwise", promote="float", samples=s.unary)
def deg2rad(x: Value) -> Node:
    """Degrees to radians."""
    return p.mul(x, p.number(math.pi / 180, x))


@op("pointwise", promote="float", samples=s.unary)
def rad2deg(x: Value) -> Node:
    """Radians to degrees."""
    return p.mul(x, p.number(180 / math.pi, x))


@op("pointwise", promote="float", samples=s.unary)
def sinc(x: Value) -> Node:
    """sin(pi x) / (pi x), 1 at 0."""
    angle = p.mul(x, p.number(math.pi, x))
    at_zero = p.eq(angle, p.number(0, x))
    angle = p.where(at_zero, p.number(1, x), angle)
    return p.where(at_zero, p.number(1, x), p.div(p.sin(angle), angle))


# -- two operands ---------------------------------------------------------------------------------------
@op("pointwise", promote="arithmetic", samples=s.binary)
def maximum(x: Value, other: Value) -> Node:
    """The larger; NaN if either is NaN."""
    return p.maximum(x, other)


@op("pointwise", promote="arithmetic", samples=s.binary)
def minimum(x: Value, other: Value) -> Node:
    """The smaller; NaN if either is NaN."""
    return p.minimum(x, other)


@op("pointwise", promote="arithmetic", samples=s.binary)
def fmax(x: Value, other: Value) -> Node:
    """The larger; NaN only if both are NaN."""
    largest = p.maximum(x, other)
    return p.where(p.isnan(x), other, p.where(p.isnan(other), x, largest)) if x.dtype.is_floating_point else largest


@op("pointwise", promote="arithmetic", samples=s.binary)
def fmin(x: Value, other: Value) -> Node:
    """The smaller; NaN only if both are NaN."""
    smallest = p.minimum(x, other)
    return p.where(p.isnan(x), other, p.where(p.isnan(other), x, smallest)) if x.dtype.is_floating_point else smallest


@op("pointwise", promote="float", samples=s.divisor)
def copysign(x: Value, other: Value) -> Node:
    """|x| with the sign of ``other``."""
    return p.copysign(x, other)


@op("pointwise", promote="arithmetic", samples=s.divisor)
def hypot(x: Value, other: Value) -> Node:
    """sqrt(x * x + other * other) without overflow between."""
    require_float("hypot", x)
    a, b = p.abs_(x), p.abs_(other)
    large, small = p.maximum(a, b), p.minimum(a, b)
    infinite = p.eq(a, p.number(math.inf, x)) | p.eq(b, p.number(math.inf, x))
    one = p.number(1, x)
    ratio = p.div(small, p.where(p.eq(large, p.number(0, x)) | infinite, one, large))
    return p.where(infinite, p.number(math.inf, x), p.mul(large, p.sqrt(p.add(one, p.mul(ratio, ratio)))))


hypot.derivative = lambda g, out, arguments: tuple(p.mul(g[0], p.div(a, out[0])) for a in arguments)


def _log_of_sum(x: Node, other: Node, base: str) -> Node:
    if x.dtype.is_complex:
        return _complex_log_of_sum(x, other, base)
    require_float("logaddexp" if base == "e" else "logaddexp2", x)
    large, zero = p.maximum(x, other), p.number(0, x)
    infinite = p.eq(x, other) & p.eq(p.abs_(x), p.number(math.inf, x))
    gap = p.neg(p.abs_(p.where(infinite, zero, p.sub(x, other))))
    if base == "e":
        extra = p.log1p(p.exp(gap))
    else:
        extra = p.mul(p.log1p(p.exp2(gap)), p.number(1 / math.log(2), x))
    return p.where(infinite, x, p.add(large, extra))


def _complex_log_of_sum(x: Node, other: Node, base: str) -> Node:
    """From the operand with the larger real part; equal infinities are their own logarithm."""
    if base != "e":
        raise NotImplementedError(f'"logaddexp2" not implemented for {x.dtype}; use logaddexp')
    a, b = p.part(x, index=0), p.part(other, index=0)
    infinite, swap = p.eq(x, other) & p.eq(p.abs_(a), p.number(math.inf, a)), p.lt(a, b)
    large, small = p.where(swap, other, x), p.where(swap, x, other)
    gap = p.where(infinite, p.number(0, x), p.sub(small, large))
    return p.where(infinite, x, p.add(large, p.log1p(p.exp(gap))))


@op("pointwise", promote="arithmetic", samples=s.binary)
def logaddexp(x: Value, other: Value) -> Node:
    """log(exp(x) + exp(other)) without overflow between."""
    return _log_of_sum(x, other, "e")


@op("pointwise", promote="arithmetic", samples=s.binary)
def logaddexp2(x: Value, other: Value) -> Node:
    """log2(2 ** x + 2 ** other) without overflow between."""
    return _log_of_sum(x, other, "2")


def _log_of_sum_derivative(g: Node, x: Node, y: Node, scale: float) -> tuple[Node, Node]:
    """sigmoid(x - y) and sigmoid(y - x), of equal infinities 1/2: smooth at x = y, where the larger of both is not."""
    infinite = p.eq(x, y) & p.eq(p.abs_(x), p.number(math.inf, x))
    gap = p.mul(p.where(infinite, p.number(0, x), p.sub(x, y)), p.number(scale, x))
    return p.mul(g, sigmoid(gap)), p.mul(g, sigmoid(p.neg(gap)))


logaddexp.derivative = lambda g, out, arguments: _log_of_sum_derivative(g[0], arguments[0], arguments[1], 1.0)
logaddexp2.derivative = lambda g, out, arguments: _log_of_sum_derivative(g[0], arguments[0], arguments[1], math.log(2))


@op("pointwise", promote="float", samples=s.both_positive)
def xlogy(x: Value, other: Value) -> Node:
    """x * log(other); 0 where x is 0 and ``other`` is not NaN. Its slope by x is log(other), where that is finite at x = 0, else 0."""
    zero = p.number(0, x)
    nothing = p.eq(x, zero) & (p.le(other, zero) | p.eq(other, p.number(math.inf, x)))
    return p.where(nothing, zero, p.mul(x, p.log(p.where(nothing, p.number(1, x), other))))


@op("pointwise", promote="arithmetic", samples=s.binary)
def heaviside(x: Value, values: Value) -> Node:
    """0 below zero, 1 above, ``values`` at zero."""
    zero = p.number(0, x)
    return p.where(p.eq(x, zero), values, p.where(p.lt(zero, x), p.number(1, x), zero))


@op("pointwise", promote="float", samples=s.binary)
def ldexp(x: Value, other: Value) -> Node:
    """x * 2 ** other."""
    return p.mul(x, p.exp2(other))


@op("pointwise", promote="arithmetic", samples=s.binary)
def nextafter(x: Value, other: Value) -> Node:
    """The next number after x toward ``other``."""
    require_float("nextafter", x)
    return p.nextafter(x, other)


# -- three operands and choices -------------------------------------------------------------------------
@op("pointwise", promote="arithmetic", promoted=("x", "end"), samples=s.interpolation)
def lerp(x: Value, end: Value, weight: Value) -> Node:
    """x + weight * (end - x), computed from the nearer end."""
    require_inexact("lerp", x)
    weight = matched(weight, x)
    size = p.abs_(weight) if x.dtype.is_complex else weight
    near_start = p.lt(size, p.number(0.5, size))
    start = p.where(near_start, x, end)
    step = p.where(near_start, weight, p.sub(weight, p.number(1, x)))
    return p.add(start, p.mul(step, p.sub(end, x)))


lerp.derivative = lambda g, out, arguments: _lerp_derivative(g[0], *arguments)


def _lerp_derivative(g: Node, x: Node, end: Node, weight: Node) -> tuple[Node, ...]:
    wide = matched(weight, x)
    return p.mul(g, p.sub(p.number(1, wide), wide)), p.mul(g, wide), converted(p.mul(g, p.sub(end, x)), weight.dtype)


@op("pointwise", promote="arithmetic", promoted=("x", "tensor1", "tensor2"), samples=s.ternary_with_value)
def addcmul(x: Value, tensor1: Value, tensor2: Value, *, value: Value | float = 1) -> Node:
    """x + value * tensor1 * tensor2."""
    scaled = tensor1 if value == 1 else p.mul(matched(value, x), tensor1)
    return p.add(x, p.mul(scaled, tensor2))


@op("pointwise", promote="arithmetic", promoted=("x", "tensor1", "tensor2"), samples=s.ternary_with_value)
def addcdiv(x: Value, tensor1: Value, tensor2: Value, *, value: Value | float = 1) -> Node:
    """x + value * tensor1 / tensor2."""
    if not x.dtype.is_inexact:
        raise RuntimeError("addcdiv: integer division is not supported; use x + value * torch.trunc(tensor1 / tensor2)")
    scaled = tensor1 if value == 1 else p.mul(matched(value, x), tensor1)
    return p.add(x, p.div(scaled, tensor2))


@op("pointwise", promote="arithmetic", samples=s.bounds)
def clamp(x: Value, min: Value | None = None, max: Value | None = None) -> Node:
    """x kept in [min, max]; ``max`` wins where min > max, NaN stays. The gradient passes at the bounds."""
    if min is None and max is None:
        raise RuntimeError("clamp: at least one of min and max must be given")
    if min is not None:
        x = p.where(p.lt(x, min), min, x)
    return x if max is None else p.where(p.lt(max, x), max, x)


@op("pointwise", promote="arithmetic", promoted=("x", "other"), samples=s.choices)
def where(condition: Value, x: Value, other: Value) -> Node:
    """x where ``condition`` holds, else ``other``."""
    if condition.dtype is dtypes.uint8:
        condition = p.ne(condition, p.number(0, condition))
    if condition.dtype is not dtypes.bool_:
        raise RuntimeError(f"where: expected condition to be a bool tensor, got {condition.dtype}; compare it with 0 first")
    return p.where(condition, x, other)


@op("pointwise", promote="arithmetic", promoted=("x",), samples=s.fills)
def masked_fill(x: Value, mask: Value, value: Value) -> Node:
    """x with ``value``, converted to the dtype of x, where ``mask`` holds."""
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(f"masked_fill: expected a bool mask, got {mask.dtype}; compare it with 0 first")
    return p.where(mask, matched(value, x), x)


@op("pointwise", samples=s.replacements)
def nan_to_num(x: Value, nan: Value | None = None, posinf: Value | None = None, neginf: Value | None = None) -> Node:
    """x with NaN (by 0), inf and -inf (by the largest and smallest finite number of the dtype) replaced."""
    if x.dtype.is_complex:
        return p.pair(*(nan_to_num(p.part(x, index=k), nan, posinf, neginf) for k in (0, 1)))
    if not x.dtype.is_floating_point:
        return x
    limit = float(ml_dtypes.finfo(x.dtype.numpy).max)
    wide = converted(x, x.dtype.compute)
    out = p.where(p.isnan(wide), matched(0.0 if nan is None else nan, wide), wide)
    out = p.where(p.eq(wide, p.number(math.inf, wide)), matched(limit if posinf is None else posinf, wide), out)
    out = p.where(p.eq(wide, p.number(-math.inf, wide)), matched(-limit if neginf is None else neginf, wide), out)
    return converted(out, x.dtype)


@op("pointwise", samples=lambda make: ((call[0], {"dtype": dtypes.float32}) for call in s.unary(make)))
def to_dtype(x: Value, dtype: dtype) -> Node:
    """x converted to ``dtype``: to integers toward zero, to bool by being nonzero."""
    return converted(x, dtype)


def _power(x: Any, exponent: Any) -> Node:
    static = isinstance(exponent, (int, float)) and exponent in STATIC_EXPONENTS
    return pow_static(x, exponent) if static else pow(x, exponent)


bind_arithmetic({
    "add": add, "sub": sub, "mul": mul, "div": true_divide, "neg": neg, "pow": _power, "lt": lt, "le": le, "gt": gt, "ge": ge,
    "bitwise_and": bitwise_and, "bitwise_or": bitwise_or, "bitwise_not": bitwise_not,
})  # fmt: skip
