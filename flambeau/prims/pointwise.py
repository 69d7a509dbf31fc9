"""Pointwise primitives: one element out of the same element of each operand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import shapes_differ
from flambeau.ir.node import Node
from flambeau.prims.declare import Gradients, Prim, Reference, prim, require, same
from flambeau.prims.structure import constant

SQRT_PI = math.sqrt(math.pi)


def _quiet(function: Reference) -> Reference:
    def reference(*arrays: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*arrays)

    return reference


def _through_math(function: Callable[[float], float]) -> Reference:
    """An oracle for functions that numpy lacks: Python's math in float64, NaN where it has no answer."""

    def one(value: float) -> float:
        try:
            return function(value)
        except (ValueError, OverflowError):
            return math.nan if value != math.inf else math.inf

    def reference(x: Any) -> Any:
        return np.vectorize(one, otypes=[np.float64])(x).astype(x.dtype)

    return reference


def _unary(name: str, reference: Reference, doc: str) -> Prim:
    return prim(name, "pointwise", same, _quiet(reference), doc)


def _float_rule(aval: Aval) -> Aval:
    require(aval.dtype.is_floating_point, "float function", f"needs a floating point operand, got {aval}")
    return same(aval)


def _float_unary(name: str, reference: Reference, doc: str) -> Prim:
    return prim(name, "pointwise", _float_rule, _quiet(reference), doc)


def _predicate(*avals: Aval) -> Aval:
    return Aval(same(*avals).shape, dtypes.bool_)


def _first_of(x: Any, *_: Any, index: int) -> Any:
    return x


def _itself(x: Any) -> Any:
    return x


def _reciprocal_root(x: Any) -> Any:
    return (1 / np.sqrt(x)).astype(x.dtype)


def _erfinv(y: float) -> float:
    if not -1.0 <= y <= 1.0:
        return math.nan
    if abs(y) == 1.0:
        return math.copysign(math.inf, y)
    low, high = -7.0, 7.0
    for _ in range(120):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if math.erf(middle) < y else (low, middle)
    return 0.5 * (low + high)


def _lgamma(x: float) -> float:
    return math.inf if x <= 0.0 and x == math.floor(x) else math.lgamma(x)


def _digamma(x: float) -> float:
    """Reflection, recurrence to x >= 10, then the asymptotic series (Abramowitz and Stegun 6.3.18)."""
    if x == 0.0:
        return -math.copysign(math.inf, x)
    if x < 0.0:
        return math.nan if x == math.floor(x) else _digamma(1.0 - x) - math.pi / math.tan(math.pi * x)
    total = 0.0
    while x < 10.0:
        total -= 1.0 / x
        x += 1.0
    f = 1.0 / (x * x)
    series = f * (1 / 12 - f * (1 / 120 - f * (1 / 252 - f * (1 / 240 - f * (1 / 132)))))
    return total + math.log(x) - 0.5 / x - series


neg = _unary("neg", np.negative, "-x; integers wrap")
abs_ = _unary("abs", np.abs, "|x|")
sign = _unary("sign", np.sign, "-1, 0 or 1; NaN stays")
invert = _unary("invert", np.invert, "bitwise not; logical not of a bool")
exp = _float_unary("exp", np.exp, "e ** x")
exp2 = _float_unary("exp2", np.exp2, "2 ** x")
expm1 = _float_unary("expm1", np.expm1, "e ** x - 1, accurate near 0")
log = _float_unary("log", np.log, "natural logarithm")
log2 = _float_unary("log2", np.log2, "logarithm to base 2")
log10 = _float_unary("log10", np.log10, "logarithm to base 10")
log1p = _float_unary("log1p", np.log1p, "log(1 + x), accurate near 0")
sin = _float_unary("sin", np.sin, "sine of x in radians")
cos = _float_unary("cos", np.cos, "cosine of x in radians")
tan = _float_unary("tan", np.tan, "tangent of x in radians")
asin = _float_unary("asin", np.arcsin, "arc sine in radians")
acos = _float_unary("acos", np.arccos, "arc cosine in radians")
atan = _float_unary("atan", np.arctan, "arc tangent in radians")
sinh = _float_unary("sinh", np.sinh, "hyperbolic sine")
cosh = _float_unary("cosh", np.cosh, "hyperbolic cosine")
tanh = _float_unary("tanh", np.tanh, "hyperbolic tangent")
asinh = _float_unary("asinh", np.arcsinh, "inverse hyperbolic sine")
acosh = _float_unary("acosh", np.arccosh, "inverse hyperbolic cosine")
atanh = _float_unary("atanh", np.arctanh, "inverse hyperbolic tangent")
erf = _float_unary("erf", _through_math(math.erf), "error function")
erfc = _float_unary("erfc", _through_math(math.erfc), "1 - erf(x), accurate for large x")
erfinv = _float_unary("erfinv", _through_math(_erfinv), "inverse of erf")
lgamma = _float_unary("lgamma", _through_math(_lgamma), "log of |gamma(x)|")
digamma = _float_unary("digamma", _through_math(_digamma), "derivative of lgamma")
sqrt = _float_unary("sqrt", np.sqrt, "square root, correctly rounded")
rsqrt = _float_unary("rsqrt", _reciprocal_root, "1 / sqrt(x)")
floor = _float_unary("floor", np.floor, "largest integer <= x")
ceil = _float_unary("ceil", np.ceil, "smallest integer >= x")
trunc = _float_unary("trunc", np.trunc, "x without its fraction")
round_ = _float_unary("round", np.rint, "nearest integer, halves to even")
isnan = prim("isnan", "pointwise", _predicate, np.isnan, "whether x is NaN")

detach = prim("detach", "pointwise", same, _itself, "x, taken as a constant by differentiation")
attach = prim("attach", "pointwise", same, lambda x, history: x, "x, differentiated as if it were ``history``")
own = prim("own", "pointwise", _first_of, _first_of, "x, whose derivative is that of its region, in terms of what stands beside it")
beside = prim("beside", "pointwise", same, lambda x, other: x, "x, computed in the loop that computes ``other`` where one can do both")

add = _unary("add", np.add, "x + y; integers wrap, or of bools")
sub = _unary("sub", np.subtract, "x - y; integers wrap")
mul = _unary("mul", np.multiply, "x * y; integers wrap, and of bools")
div = _unary("div", np.divide, "x / y of floats, correctly rounded")
truncdiv = _unary("truncdiv", lambda x, y: _truncated(x, y), "x / y of integers, rounded toward zero; 0 for y == 0")
rem = _unary("rem", lambda x, y: _remainder(x, y), "remainder with the sign of x (C fmod); 0 for an integer y == 0")
pow_ = _unary("pow", lambda x, y: np.power(x, y), "x ** y; integer exponents >= 0")
atan2 = _unary("atan2", np.arctan2, "angle of the point (y, x) in radians; operands (y, x)")
maximum = _unary("maximum", np.maximum, "the larger; NaN if one is NaN")
minimum = _unary("minimum", np.minimum, "the smaller; NaN if one is NaN")
copysign = _unary("copysign", np.copysign, "|x| with the sign of y")
nextafter = _unary("nextafter", np.nextafter, "the next float after x toward y")
bitwise_and = _unary("bitwise_and", np.bitwise_and, "bits in both")
bitwise_or = _unary("bitwise_or", np.bitwise_or, "bits in either")
bitwise_xor = _unary("bitwise_xor", np.bitwise_xor, "bits in one only")
shift_left = _unary("shift_left", np.left_shift, "x << y")
shift_right = _unary("shift_right", np.right_shift, "x >> y, arithmetic for signed types")
eq = prim("eq", "pointwise", _predicate, np.equal, "x == y")
ne = prim("ne", "pointwise", _predicate, np.not_equal, "x != y")
lt = prim("lt", "pointwise", _predicate, np.less, "x < y")
le = prim("le", "pointwise", _predicate, np.less_equal, "x <= y")


def _only_once(*_: Any, **__: Any) -> Any:
    raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable; leave create_graph out")


def _truncated(x: Any, y: Any) -> Any:
    safe = np.where(y == 0, 1, y).astype(x.dtype)
    quotient = x // safe
    quotient = quotient + ((quotient < 0) & (quotient * safe != x)).astype(x.dtype)
    return np.where(y == 0, 0, quotient).astype(x.dtype)


def _remainder(x: Any, y: Any) -> Any:
    if x.dtype.kind not in "iu":
        return np.fmod(x, y)
    return np.where(y == 0, 0, np.fmod(x, np.where(y == 0, 1, y))).astype(x.dtype)


def _where_rule(condition: Aval, x: Aval, y: Aval) -> Aval:
    out = same(x, y)
    ok = condition.dtype is dtypes.bool_ and not shapes_differ(condition.shape, out.shape)
    require(ok, "where", f"needs a bool condition of shape {out.shape}, got {condition}")
    return out


def _where_reference(condition: NDArray[np.bool_], x: NDArray[Any], y: NDArray[Any]) -> Any:
    return np.where(condition, x, y)


where = prim("where", "pointwise", _where_rule, _where_reference, "x where the condition holds, else y")


def _cast_reference(x: Any, to: dtype) -> Any:
    with np.errstate(all="ignore"):
        if to is dtypes.bool_:
            return x != 0
        if to.is_integer and x.dtype.kind not in "iub" and to.itemsize < 8:
            return x.astype(np.int64).astype(to.numpy)
        return dtypes.converted_array(x, to)


cast = prim("cast", "pointwise", lambda x, to: Aval(x.shape, to), _cast_reference, "convert, rounding to nearest even")
def _bitcast_reference(x: Any, to: dtype) -> Any:
    return x.view(to.numpy)


bitcast = prim(
    "bitcast", "pointwise", lambda x, to: Aval(x.shape, to), _bitcast_reference,
    "the same bits as another type of the same width",
)  # fmt: skip

copy = prim(
    "copy", "pointwise", lambda x, index=0: Aval(x.shape, x.dtype), lambda x, index=0: x.copy(),
    "the same value in memory of its own; ``index`` tells copies apart",
)  # fmt: skip


def number(value: complex | float | int | bool, like: Node) -> Node:
    """A constant of the shape and dtype of ``like``."""
    return constant(value, like.shape, like.dtype)


def converted(x: Node, to: dtype) -> Node:
    """x in another type; x itself when it has that already."""
    if x.dtype is to:
        return x
    dtypes.require_numbers(x.dtype, to)
    return cast(x, to=to)


def in_compute_type(combine: Callable[[Node], Node], x: Node) -> Node:
    """``combine`` of x in the type that bodies compute in, rounded to the type of x."""
    return converted(combine(converted(x, x.dtype.compute)), x.dtype)


def total(x: Node, y: Node) -> Node:
    """x + y, in the type that bodies compute in, rounded to the type of x."""
    wide = x.dtype.compute
    return converted(add(converted(x, wide), converted(y, wide)), x.dtype)


def _pow_derivative(g: Node, out: Node, x: Node, y: Node) -> Gradients:
    zero, one = number(0, x), number(1, x)
    for_x = mul(mul(g, y), pow_(x, sub(y, one)))
    for_x = where(eq(y, zero), zero, for_x)
    log_x = log(where(le(x, zero), one, x))
    for_y = where(eq(x, zero), where(le(zero, y), zero, number(-math.inf, x)), mul(out, log_x))
    for_y = where(lt(x, zero), number(math.nan, x), for_y)
    return for_x, mul(g, for_y)


def _extremum_derivative(g: Node, out: Node, x: Node, y: Node, smaller: Prim) -> Gradients:
    half, zero = mul(g, number(0.5, g)), number(0, g)
    tied = eq(x, y)
    for_x = where(tied, half, where(smaller(x, y), zero, g))
    for_y = where(tied, half, where(smaller(x, y), g, zero))
    return for_x, for_y


add.derivative = lambda g, out, x, y: (g, g)
sub.derivative = lambda g, out, x, y: (g, neg(g))
mul.derivative = lambda g, out, x, y: (mul(g, y), mul(g, x))
div.derivative = lambda g, out, x, y: (div(g, y), neg(div(mul(g, out), y)))
neg.derivative = lambda g, out, x: (neg(g),)
abs_.derivative = lambda g, out, x: (mul(g, sign(x)),)
exp.derivative = lambda g, out, x: (mul(g, out),)
exp2.derivative = lambda g, out, x: (mul(g, mul(out, number(math.log(2), x))),)
expm1.derivative = lambda g, out, x: (mul(g, add(out, number(1, x))),)
log.derivative = lambda g, out, x: (div(g, x),)
log2.derivative = lambda g, out, x: (div(g, mul(x, number(math.log(2), x))),)
log10.derivative = lambda g, out, x: (div(g, mul(x, number(math.log(10), x))),)
log1p.derivative = lambda g, out, x: (div(g, add(x, number(1, x))),)
sin.derivative = lambda g, out, x: (mul(g, cos(x)),)
cos.derivative = lambda g, out, x: (neg(mul(g, sin(x))),)
tan.derivative = lambda g, out, x: (mul(g, add(number(1, x), mul(out, out))),)
asin.derivative = lambda g, out, x: (mul(g, rsqrt(sub(number(1, x), mul(x, x)))),)
acos.derivative = lambda g, out, x: (neg(mul(g, rsqrt(sub(number(1, x), mul(x, x))))),)
atan.derivative = lambda g, out, x: (div(g, add(number(1, x), mul(x, x))),)
sinh.derivative = lambda g, out, x: (mul(g, cosh(x)),)
cosh.derivative = lambda g, out, x: (mul(g, sinh(x)),)
tanh.derivative = lambda g, out, x: (mul(g, sub(number(1, x), mul(out, out))),)
asinh.derivative = lambda g, out, x: (mul(g, rsqrt(add(mul(x, x), number(1, x)))),)
acosh.derivative = lambda g, out, x: (mul(g, rsqrt(sub(mul(x, x), number(1, x)))),)
atanh.derivative = lambda g, out, x: (div(g, sub(number(1, x), mul(x, x))),)
erf.derivative = lambda g, out, x: (mul(g, mul(exp(neg(mul(x, x))), number(2 / SQRT_PI, x))),)
erfc.derivative = lambda g, out, x: (mul(g, mul(exp(neg(mul(x, x))), number(-2 / SQRT_PI, x))),)
erfinv.derivative = lambda g, out, x: (mul(g, mul(exp(mul(out, out)), number(SQRT_PI / 2, x))),)
lgamma.derivative = lambda g, out, x: (mul(g, digamma(x)),)
sqrt.derivative = lambda g, out, x: (div(g, mul(number(2, x), out)),)
rsqrt.derivative = lambda g, out, x: (mul(mul(g, number(-0.5, x)), mul(out, mul(out, out))),)
floor.derivative = lambda g, out, x: (number(0, x),)
ceil.derivative = lambda g, out, x: (number(0, x),)
trunc.derivative = lambda g, out, x: (number(0, x),)
round_.derivative = lambda g, out, x: (number(0, x),)
sign.derivative = lambda g, out, x: (number(0, x),)
rem.derivative = lambda g, out, x, y: (g, neg(mul(g, trunc(div(x, y)))))
pow_.derivative = _pow_derivative
atan2.derivative = lambda g, out, y, x: (
    div(mul(g, x), add(mul(x, x), mul(y, y))),
    neg(div(mul(g, y), add(mul(x, x), mul(y, y)))),
)
maximum.derivative = lambda g, out, x, y: _extremum_derivative(g, out, x, y, lt)
minimum.derivative = lambda g, out, x, y: _extremum_derivative(g, out, x, y, lambda a, b: lt(b, a))  # type: ignore[arg-type]
nextafter.derivative = lambda g, out, x, y: (where(eq(x, y), number(0, g), g), number(0, g))
copysign.derivative = lambda g, out, x, y: (mul(g, mul(sign(x), copysign(number(1, x), y))), number(0, x))
where.derivative = lambda g, out, c, x, y: (None, where(c, g, number(0, g)), where(c, number(0, g), g))
copy.derivative = lambda g, out, x, index=0: (g,)
cast.derivative = lambda g, out, x, to: (cast(g, to=x.dtype) if x.dtype.is_inexact else None,)
detach.derivative = lambda g, out, x: (None,)
own.derivative = _only_once
attach.derivative = lambda g, out, x, history: (None, g)
