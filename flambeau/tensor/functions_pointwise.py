"""Element by element: arithmetic, elementary functions, comparison, logic, bits and choices."""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.core.dtypes import bool_
from flambeau.ops.pointwise import STATIC_EXPONENTS
from flambeau.tensor.arguments import need_single, need_some_tensor, need_tensor, write_out
from flambeau.tensor.base import TensorBase

Number = bool | int | float


# -- of one tensor -------------------------------------------------------------------------------------

def abs(input: Any, *, out: Any = None) -> Any:
    """|input|."""
    return ops.abs(input) if out is None else write_out(out, ops.abs(input))


absolute = abs


def acos(input: Any, *, out: Any = None) -> Any:
    """The arc cosine, in radians."""
    return ops.acos(input) if out is None else write_out(out, ops.acos(input))


arccos = acos


def acosh(input: Any, *, out: Any = None) -> Any:
    """The inverse hyperbolic cosine; NaN below 1."""
    return ops.acosh(input) if out is None else write_out(out, ops.acosh(input))


arccosh = acosh


def asin(input: Any, *, out: Any = None) -> Any:
    """The arc sine, in radians."""
    return ops.asin(input) if out is None else write_out(out, ops.asin(input))


arcsin = asin


def asinh(input: Any, *, out: Any = None) -> Any:
    """The inverse hyperbolic sine."""
    return ops.asinh(input) if out is None else write_out(out, ops.asinh(input))


arcsinh = asinh


def atan(input: Any, *, out: Any = None) -> Any:
    """The arc tangent, in radians."""
    return ops.atan(input) if out is None else write_out(out, ops.atan(input))


arctan = atan


def atanh(input: Any, *, out: Any = None) -> Any:
    """The inverse hyperbolic tangent."""
    return ops.atanh(input) if out is None else write_out(out, ops.atanh(input))


arctanh = atanh


def bitwise_not(input: Any, *, out: Any = None) -> Any:
    """All bits flipped; logical not of a bool."""
    return ops.bitwise_not(input) if out is None else write_out(out, ops.bitwise_not(input))


def ceil(input: Any, *, out: Any = None) -> Any:
    """The smallest integer >= input."""
    return ops.ceil(input) if out is None else write_out(out, ops.ceil(input))


def cos(input: Any, *, out: Any = None) -> Any:
    """The cosine of input radians."""
    return ops.cos(input) if out is None else write_out(out, ops.cos(input))


def cosh(input: Any, *, out: Any = None) -> Any:
    """The hyperbolic cosine."""
    return ops.cosh(input) if out is None else write_out(out, ops.cosh(input))


def deg2rad(input: Any, *, out: Any = None) -> Any:
    """Degrees to radians."""
    return ops.deg2rad(input) if out is None else write_out(out, ops.deg2rad(input))


def digamma(input: Any, *, out: Any = None) -> Any:
    """The derivative of lgamma."""
    return ops.digamma(input) if out is None else write_out(out, ops.digamma(input))


def erf(input: Any, *, out: Any = None) -> Any:
    """The error function."""
    return ops.erf(input) if out is None else write_out(out, ops.erf(input))


def erfc(input: Any, *, out: Any = None) -> Any:
    """1 - erf(input), accurate for large input."""
    return ops.erfc(input) if out is None else write_out(out, ops.erfc(input))


def erfinv(input: Any, *, out: Any = None) -> Any:
    """The inverse of erf."""
    return ops.erfinv(input) if out is None else write_out(out, ops.erfinv(input))


def exp(input: Any, *, out: Any = None) -> Any:
    """e ** input."""
    return ops.exp(input) if out is None else write_out(out, ops.exp(input))


def exp2(input: Any, *, out: Any = None) -> Any:
    """2 ** input."""
    return ops.exp2(input) if out is None else write_out(out, ops.exp2(input))


def expm1(input: Any, *, out: Any = None) -> Any:
    """e ** input - 1, accurate near 0."""
    return ops.expm1(input) if out is None else write_out(out, ops.expm1(input))


def floor(input: Any, *, out: Any = None) -> Any:
    """The largest integer <= input."""
    return ops.floor(input) if out is None else write_out(out, ops.floor(input))


def frac(input: Any, *, out: Any = None) -> Any:
    """input - trunc(input), with the sign of input."""
    return ops.frac(input) if out is None else write_out(out, ops.frac(input))


def lgamma(input: Any, *, out: Any = None) -> Any:
    """The logarithm of |gamma(input)|."""
    return ops.lgamma(input) if out is None else write_out(out, ops.lgamma(input))


def log(input: Any, *, out: Any = None) -> Any:
    """The natural logarithm; -inf at 0, NaN below."""
    return ops.log(input) if out is None else write_out(out, ops.log(input))


def log10(input: Any, *, out: Any = None) -> Any:
    """The logarithm to base 10."""
    return ops.log10(input) if out is None else write_out(out, ops.log10(input))


def log1p(input: Any, *, out: Any = None) -> Any:
    """log(1 + input), accurate near 0."""
    return ops.log1p(input) if out is None else write_out(out, ops.log1p(input))


def log2(input: Any, *, out: Any = None) -> Any:
    """The logarithm to base 2."""
    return ops.log2(input) if out is None else write_out(out, ops.log2(input))


def logical_not(input: Any, *, out: Any = None) -> Any:
    """Whether input is zero."""
    return ops.logical_not(input) if out is None else write_out(out, ops.logical_not(input))


def neg(input: Any, *, out: Any = None) -> Any:
    """-input."""
    return ops.neg(input) if out is None else write_out(out, ops.neg(input))


negative = neg


def rad2deg(input: Any, *, out: Any = None) -> Any:
    """Radians to degrees."""
    return ops.rad2deg(input) if out is None else write_out(out, ops.rad2deg(input))


def reciprocal(input: Any, *, out: Any = None) -> Any:
    """1 / input."""
    return ops.reciprocal(input) if out is None else write_out(out, ops.reciprocal(input))


def rsqrt(input: Any, *, out: Any = None) -> Any:
    """1 / sqrt(input)."""
    return ops.rsqrt(input) if out is None else write_out(out, ops.rsqrt(input))


def sigmoid(input: Any, *, out: Any = None) -> Any:
    """1 / (1 + exp(-input)), without overflow on either side."""
    return ops.sigmoid(input) if out is None else write_out(out, ops.sigmoid(input))


def sign(input: Any, *, out: Any = None) -> Any:
    """-1, 0 or 1."""
    return ops.sign(input) if out is None else write_out(out, ops.sign(input))


def sin(input: Any, *, out: Any = None) -> Any:
    """The sine of input radians."""
    return ops.sin(input) if out is None else write_out(out, ops.sin(input))


def sinc(input: Any, *, out: Any = None) -> Any:
    """sin(pi input) / (pi input), 1 at 0."""
    return ops.sinc(input) if out is None else write_out(out, ops.sinc(input))


def sinh(input: Any, *, out: Any = None) -> Any:
    """The hyperbolic sine."""
    return ops.sinh(input) if out is None else write_out(out, ops.sinh(input))


def sqrt(input: Any, *, out: Any = None) -> Any:
    """The square root; NaN below 0."""
    return ops.sqrt(input) if out is None else write_out(out, ops.sqrt(input))


def square(input: Any, *, out: Any = None) -> Any:
    """input * input; of bools as integers."""
    return ops.square(input) if out is None else write_out(out, ops.square(input))


def tan(input: Any, *, out: Any = None) -> Any:
    """The tangent of input radians."""
    return ops.tan(input) if out is None else write_out(out, ops.tan(input))


def tanh(input: Any, *, out: Any = None) -> Any:
    """The hyperbolic tangent."""
    return ops.tanh(input) if out is None else write_out(out, ops.tanh(input))


def trunc(input: Any, *, out: Any = None) -> Any:
    """input without its fraction."""
    return ops.trunc(input) if out is None else write_out(out, ops.trunc(input))


fix = trunc


def i0(input: Any, *, out: Any = None) -> Any:
    """The modified Bessel function of the first kind, order 0."""
    return ops.i0(input) if out is None else write_out(out, ops.i0(input))


def mvlgamma(input: Any, p: int, *, out: Any = None) -> Any:
    """The logarithm of the multivariate gamma function of dimension ``p``."""
    return ops.mvlgamma(input, p) if out is None else write_out(out, ops.mvlgamma(input, p))


def polygamma(n: int, input: Any, *, out: Any = None) -> Any:
    """The ``n``-th derivative of digamma."""
    return ops.polygamma(n, input) if out is None else write_out(out, ops.polygamma(n, input))


def isnan(input: Any) -> Any:
    """Whether input is NaN."""
    return ops.isnan(input)


def isinf(input: Any) -> Any:
    """Whether input is an infinity of either sign."""
    return ops.isinf(input)


def isfinite(input: Any) -> Any:
    """Whether input is neither infinite nor NaN."""
    return ops.isfinite(input)


def isposinf(input: Any, *, out: Any = None) -> Any:
    """Whether input is positive infinity."""
    return ops.isposinf(input) if out is None else write_out(out, ops.isposinf(input))


def isneginf(input: Any, *, out: Any = None) -> Any:
    """Whether input is negative infinity."""
    return ops.isneginf(input) if out is None else write_out(out, ops.isneginf(input))


def signbit(input: Any, *, out: Any = None) -> Any:
    """Whether the sign bit is set: true of negative numbers and of -0.0."""
    return ops.signbit(input) if out is None else write_out(out, ops.signbit(input))


def positive(input: Any) -> Any:
    """input itself."""
    return ops.positive(input)


def relu(input: Any) -> Any:
    """max(input, 0); the derivative at 0 is 0."""
    return ops.relu(input)


def round(input: Any, *, decimals: int = 0, out: Any = None) -> Any:
    """The nearest number with ``decimals`` digits after the point (before it, if negative); halves go to even."""
    return ops.round(input, decimals) if out is None else write_out(out, ops.round(input, decimals))


def logit(input: Any, eps: float | None = None, *, out: Any = None) -> Any:
    """log(input / (1 - input)), with input first kept in [eps, 1 - eps] if ``eps`` is given."""
    return ops.logit(input, eps) if out is None else write_out(out, ops.logit(input, eps))


def nan_to_num(input: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None, *, out: Any = None) -> Any:
    """input with NaN (by 0), inf and -inf (by the largest and smallest finite number of the dtype) replaced."""
    return ops.nan_to_num(input, nan, posinf, neginf) if out is None else write_out(out, ops.nan_to_num(input, nan, posinf, neginf))


# -- arithmetic of two ---------------------------------------------------------------------------------

def add(input: Any, other: Any, *, alpha: Number = 1, out: Any = None) -> Any:
    """input + alpha * other."""
    result = ops.add(input, other) if type(alpha) is int and alpha == 1 else ops.add(input, other, alpha=alpha)
    return result if out is None else write_out(out, result)


def sub(input: Any, other: Any, *, alpha: Number = 1, out: Any = None) -> Any:
    """input - alpha * other."""
    result = ops.sub(input, other) if type(alpha) is int and alpha == 1 else ops.sub(input, other, alpha=alpha)
    return result if out is None else write_out(out, result)


subtract = sub


def rsub(input: Any, other: Any, *, alpha: Number = 1) -> Any:
    """other - alpha * input."""
    need_tensor("rsub", "input", input)
    return ops.sub(other, input, alpha)


def mul(input: Any, other: Any, *, out: Any = None) -> Any:
    """input * other."""
    return ops.mul(input, other) if out is None else write_out(out, ops.mul(input, other))


multiply = mul


def true_divide(input: Any, other: Any, *, out: Any = None) -> Any:
    """input / other in floating point."""
    return ops.true_divide(input, other) if out is None else write_out(out, ops.true_divide(input, other))


def floor_divide(input: Any, other: Any, *, out: Any = None) -> Any:
    """input / other rounded down, exact also where input / other itself would round up to an integer."""
    return ops.floor_divide(input, other) if out is None else write_out(out, ops.floor_divide(input, other))


def remainder(input: Any, other: Any, *, out: Any = None) -> Any:
    """input - other * floor(input / other): the sign is that of ``other``."""
    need_some_tensor("remainder", input, other)
    return ops.remainder(input, other) if out is None else write_out(out, ops.remainder(input, other))


def fmod(input: Any, other: Any, *, out: Any = None) -> Any:
    """input - other * trunc(input / other): the sign is that of input."""
    need_tensor("fmod", "input", input)
    return ops.fmod(input, other) if out is None else write_out(out, ops.fmod(input, other))


def maximum(input: Any, other: Any, *, out: Any = None) -> Any:
    """The larger; NaN if either is NaN."""
    need_tensor("maximum", "input", input)
    need_tensor("maximum", "other", other)
    return ops.maximum(input, other) if out is None else write_out(out, ops.maximum(input, other))


def minimum(input: Any, other: Any, *, out: Any = None) -> Any:
    """The smaller; NaN if either is NaN."""
    need_tensor("minimum", "input", input)
    need_tensor("minimum", "other", other)
    return ops.minimum(input, other) if out is None else write_out(out, ops.minimum(input, other))


def fmax(input: Any, other: Any, *, out: Any = None) -> Any:
    """The larger; NaN only if both are NaN."""
    need_tensor("fmax", "input", input)
    need_tensor("fmax", "other", other)
    return ops.fmax(input, other) if out is None else write_out(out, ops.fmax(input, other))


def fmin(input: Any, other: Any, *, out: Any = None) -> Any:
    """The smaller; NaN only if both are NaN."""
    need_tensor("fmin", "input", input)
    need_tensor("fmin", "other", other)
    return ops.fmin(input, other) if out is None else write_out(out, ops.fmin(input, other))


def copysign(input: Any, other: Any, *, out: Any = None) -> Any:
    """|input| with the sign of ``other``."""
    need_tensor("copysign", "input", input)
    return ops.copysign(input, other) if out is None else write_out(out, ops.copysign(input, other))


def hypot(input: Any, other: Any, *, out: Any = None) -> Any:
    """sqrt(input * input + other * other) without overflow between."""
    need_tensor("hypot", "input", input)
    need_tensor("hypot", "other", other)
    return ops.hypot(input, other) if out is None else write_out(out, ops.hypot(input, other))


def logaddexp(input: Any, other: Any, *, out: Any = None) -> Any:
    """log(exp(input) + exp(other)) without overflow between."""
    need_tensor("logaddexp", "input", input)
    need_tensor("logaddexp", "other", other)
    return ops.logaddexp(input, other) if out is None else write_out(out, ops.logaddexp(input, other))


def logaddexp2(input: Any, other: Any, *, out: Any = None) -> Any:
    """log2(2 ** input + 2 ** other) without overflow between."""
    need_tensor("logaddexp2", "input", input)
    need_tensor("logaddexp2", "other", other)
    return ops.logaddexp2(input, other) if out is None else write_out(out, ops.logaddexp2(input, other))


def xlogy(input: Any, other: Any, *, out: Any = None) -> Any:
    """input * log(other); 0 where input is 0 and ``other`` is not NaN."""
    need_some_tensor("xlogy", input, other)
    return ops.xlogy(input, other) if out is None else write_out(out, ops.xlogy(input, other))


def ldexp(input: Any, other: Any, *, out: Any = None) -> Any:
    """input * 2 ** other."""
    need_tensor("ldexp", "input", input)
    need_tensor("ldexp", "other", other)
    return ops.ldexp(input, other) if out is None else write_out(out, ops.ldexp(input, other))


def gcd(input: Any, other: Any, *, out: Any = None) -> Any:
    """The greatest common divisor of integers, never negative."""
    need_tensor("gcd", "input", input)
    need_tensor("gcd", "other", other)
    return ops.gcd(input, other) if out is None else write_out(out, ops.gcd(input, other))


def lcm(input: Any, other: Any, *, out: Any = None) -> Any:
    """The least common multiple of integers, never negative."""
    need_tensor("lcm", "input", input)
    need_tensor("lcm", "other", other)
    return ops.lcm(input, other) if out is None else write_out(out, ops.lcm(input, other))


def frexp(input: Any, *, out: Any = None) -> Any:
    """(mantissa, exponent) with input = mantissa * 2 ** exponent, the mantissa in [0.5, 1) in size."""
    return ops.frexp(input) if out is None else write_out(out, ops.frexp(input))


def nextafter(input: Any, other: Any, *, out: Any = None) -> Any:
    """The next number after input toward ``other``."""
    need_tensor("nextafter", "input", input)
    need_tensor("nextafter", "other", other)
    return ops.nextafter(input, other) if out is None else write_out(out, ops.nextafter(input, other))


def atan2(input: Any, other: Any, *, out: Any = None) -> Any:
    """The angle of the point (other, input), in radians."""
    need_tensor("atan2", "input", input)
    need_tensor("atan2", "other", other)
    return ops.atan2(input, other) if out is None else write_out(out, ops.atan2(input, other))


arctan2 = atan2


def div(input: Any, other: Any, *, rounding_mode: str | None = None, out: Any = None) -> Any:
    """input / other in floating point; rounded toward zero for "trunc" and down for "floor", keeping integer types."""
    result = ops.true_divide(input, other) if rounding_mode is None else ops.div(input, other, rounding_mode)
    return result if out is None else write_out(out, result)


divide = div


def power(x: Any, exponent: Any) -> tuple[Any, tuple[Any, Any]]:
    """The operator for x ** exponent with its arguments: numbers that multiplication serves have one of their own."""
    if not isinstance(exponent, TensorBase) and isinstance(x, TensorBase):
        if exponent in STATIC_EXPONENTS and not isinstance(exponent, bool) and x.meta.dtype is not bool_:
            return ops.pow_static, (x, exponent)
        if isinstance(exponent, int) and exponent < 0 and not x.meta.dtype.is_inexact:
            raise RuntimeError("pow: integers to negative integer powers are not allowed; convert with .float()")
    need_some_tensor("pow", x, exponent)
    return ops.pow, (x, exponent)


def pow(input: Any, exponent: Any, *, out: Any = None) -> Any:
    """input ** exponent; integers to a negative power give 0, except 1 and -1."""
    operator, operands = power(input, exponent)
    result = operator(*operands)
    return result if out is None else write_out(out, result)


def float_power(input: Any, exponent: Any, *, out: Any = None) -> Any:
    """input ** exponent in float64."""
    need_some_tensor("float_power", input, exponent)
    return ops.float_power(input, exponent) if out is None else write_out(out, ops.float_power(input, exponent))


def heaviside(input: Any, values: Any, *, out: Any = None) -> Any:
    """0 below zero, 1 above, ``values`` at zero."""
    need_tensor("heaviside", "input", input)
    need_tensor("heaviside", "values", values)
    if input.dtype is not values.dtype:
        raise RuntimeError(f"heaviside is not yet implemented for tensors with different dtypes, got {input.dtype} and {values.dtype}")
    return ops.heaviside(input, values) if out is None else write_out(out, ops.heaviside(input, values))


# -- comparison ----------------------------------------------------------------------------------------

def eq(input: Any, other: Any, *, out: Any = None) -> Any:
    """Whether input == other."""
    need_tensor("eq", "input", input)
    return ops.eq(input, other) if out is None else write_out(out, ops.eq(input, other))


def ne(input: Any, other: Any, *, out: Any = None) -> Any:
    """Whether input != other."""
    need_tensor("ne", "input", input)
    return ops.ne(input, other) if out is None else write_out(out, ops.ne(input, other))


not_equal = ne


def lt(input: Any, other: Any, *, out: Any = None) -> Any:
    """Whether input < other."""
    need_tensor("lt", "input", input)
    return ops.lt(input, other) if out is None else write_out(out, ops.lt(input, other))


less = lt


def le(input: Any, other: Any, *, out: Any = None) -> Any:
    """Whether input <= other."""
    need_tensor("le", "input", input)
    return ops.le(input, other) if out is None else write_out(out, ops.le(input, other))


less_equal = le


def gt(input: Any, other: Any, *, out: Any = None) -> Any:
    """Whether input > other."""
    need_tensor("gt", "input", input)
    return ops.gt(input, other) if out is None else write_out(out, ops.gt(input, other))


greater = gt


def ge(input: Any, other: Any, *, out: Any = None) -> Any:
    """Whether input >= other."""
    need_tensor("ge", "input", input)
    return ops.ge(input, other) if out is None else write_out(out, ops.ge(input, other))


greater_equal = ge


def isclose(input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Whether |input - other| <= atol + rtol * |other|; NaN equals NaN if ``equal_nan``."""
    need_tensor("isclose", "input", input)
    need_tensor("isclose", "other", other)
    return ops.isclose(input, other, rtol, atol, equal_nan)


# -- logic and bits ------------------------------------------------------------------------------------

def logical_and(input: Any, other: Any, *, out: Any = None) -> Any:
    """Whether both differ from zero."""
    need_tensor("logical_and", "input", input)
    need_tensor("logical_and", "other", other)
    return ops.logical_and(input, other) if out is None else write_out(out, ops.logical_and(input, other))


def logical_or(input: Any, other: Any, *, out: Any = None) -> Any:
    """Whether either differs from zero."""
    need_tensor("logical_or", "input", input)
    need_tensor("logical_or", "other", other)
    return ops.logical_or(input, other) if out is None else write_out(out, ops.logical_or(input, other))


def logical_xor(input: Any, other: Any, *, out: Any = None) -> Any:
    """Whether exactly one differs from zero."""
    need_tensor("logical_xor", "input", input)
    need_tensor("logical_xor", "other", other)
    return ops.logical_xor(input, other) if out is None else write_out(out, ops.logical_xor(input, other))


def bitwise_and(input: Any, other: Any, *, out: Any = None) -> Any:
    """The bits set in both; logical and of bools."""
    need_some_tensor("bitwise_and", input, other)
    return ops.bitwise_and(input, other) if out is None else write_out(out, ops.bitwise_and(input, other))


def bitwise_or(input: Any, other: Any, *, out: Any = None) -> Any:
    """The bits set in either; logical or of bools."""
    need_some_tensor("bitwise_or", input, other)
    return ops.bitwise_or(input, other) if out is None else write_out(out, ops.bitwise_or(input, other))


def bitwise_xor(input: Any, other: Any, *, out: Any = None) -> Any:
    """The bits set in exactly one; logical exclusive or of bools."""
    need_some_tensor("bitwise_xor", input, other)
    return ops.bitwise_xor(input, other) if out is None else write_out(out, ops.bitwise_xor(input, other))


def bitwise_left_shift(input: Any, other: Any, *, out: Any = None) -> Any:
    """input * 2 ** other, overflow dropped; 0 where ``other`` is negative or the width of the type or more."""
    need_some_tensor("bitwise_left_shift", input, other)
    return ops.bitwise_left_shift(input, other) if out is None else write_out(out, ops.bitwise_left_shift(input, other))


def bitwise_right_shift(input: Any, other: Any, *, out: Any = None) -> Any:
    """input // 2 ** other, keeping the sign; shifts that are negative or too long leave only the sign."""
    need_some_tensor("bitwise_right_shift", input, other)
    return ops.bitwise_right_shift(input, other) if out is None else write_out(out, ops.bitwise_right_shift(input, other))


# -- of three, and choices -----------------------------------------------------------------------------

def lerp(input: Any, end: Any, weight: Any, *, out: Any = None) -> Any:
    """input + weight * (end - input), computed from the nearer end."""
    return ops.lerp(input, end, weight) if out is None else write_out(out, ops.lerp(input, end, weight))


def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Number = 1, out: Any = None) -> Any:
    """input + value * tensor1 * tensor2."""
    return ops.addcmul(input, tensor1, tensor2, value) if out is None else write_out(out, ops.addcmul(input, tensor1, tensor2, value))


def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Number = 1, out: Any = None) -> Any:
    """input + value * tensor1 / tensor2."""
    return ops.addcdiv(input, tensor1, tensor2, value) if out is None else write_out(out, ops.addcdiv(input, tensor1, tensor2, value))


def clamp(input: Any, min: Any = None, max: Any = None, *, out: Any = None) -> Any:
    """input kept in [min, max]; ``max`` wins where min > max, NaN stays. The gradient passes at the bounds."""
    return ops.clamp(input, min, max) if out is None else write_out(out, ops.clamp(input, min, max))


clip = clamp


def clamp_min(input: Any, min: Any, *, out: Any = None) -> Any:
    """input, at least ``min``."""
    need_tensor("clamp_min", "input", input)
    return ops.clamp(input, min, None) if out is None else write_out(out, ops.clamp(input, min, None))


def clamp_max(input: Any, max: Any, *, out: Any = None) -> Any:
    """input, at most ``max``."""
    need_tensor("clamp_max", "input", input)
    return ops.clamp(input, None, max) if out is None else write_out(out, ops.clamp(input, None, max))


def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """input with ``value``, converted to the dtype of input, where ``mask`` holds."""
    need_single("masked_fill", "value", value)
    return ops.masked_fill(input, mask, value)
