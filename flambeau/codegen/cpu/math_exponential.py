"""Exponentials, logarithms and hyperbolic functions of float and double lanes, as polynomials without tables.

Each coefficient list is a minimax fit (Remez exchange on the reduced interval, weighted for relative error),
highest power first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flambeau.codegen.cpu import math_tables
from flambeau.codegen.cpu.emitter import Value
from flambeau.codegen.cpu.lanes import Lanes, by_parts, fma, polynomial, replace_where, select

# ln 2 in two parts: the first has so few bits that its product with an exponent is exact.
LN2 = {
    "float": (0.693359375, -2.12194440e-4),
    "double": (0.693147180369123816490, 1.90821492927058770002e-10),
}
# (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2; the error of e^r is 2^-28.3 and 2^-58.0
EXP = {
    "float": (0.00139504904, 0.0083688898, 0.041666206, 0.166665182, 0.5),
    "double": (
        2.511786155022282e-08, 2.763128051033404e-07, 2.755721630105511e-06, 2.4801489941654364e-05,
        0.00019841269917380902, 0.001388888894701655, 0.008333333333307208, 0.04166666666651542,
        0.166666666666667, 0.5000000000000012,
    ),
}  # fmt: skip
# the same, fitted for the relative error of e^r - 1: 2^-26.2 and 2^-61.7
EXPM1 = {
    "float": (0.00139464228, 0.00836658105, 0.0416662805, 0.166665435, 0.5),
    "double": (
        2.092443930638661e-09, 2.5109045137912615e-08, 2.7557242774927866e-07, 2.755724418118152e-06,
        2.480158736053516e-05, 0.00019841269886159305, 0.001388888888886685, 0.008333333333321615,
        0.0416666666666667, 0.16666666666666677, 0.5,
    ),
}  # fmt: skip
# (2^r - 1) / r for |r| <= 1/2; errors 2^-29.0 and 2^-58.0
EXP2 = {
    "float": (0.000154763417, 0.00134002813, 0.00961800385, 0.055503279, 0.240226507, 0.693147182),
    "double": (
        4.4573836243988377e-10, 7.073860906095364e-09, 1.017804648666713e-07, 1.3215434812951974e-06,
        1.5252733867476656e-05, 0.0001540353045808692, 0.0013333558146379108, 0.009618129107593326,
        0.05550410866482174, 0.24022650695910133, 0.6931471805599453,
    ),
}  # fmt: skip
# (log(1 + f) - f) / f^2 for 1 + f in [sqrt(1/2), sqrt(2)]; relative errors of the logarithm 2^-27.9 and 2^-56.8
LOG = {
    "float": (
        -0.0762177557, 0.129044399, -0.132429928, 0.14181824, -0.166090816, 0.200019732, -0.250015825, 0.333333254,
        -0.499999881,
    ),
    "double": (
        0.026175295828311396, -0.06006273511517875, 0.06529556274016583, -0.05678058257168456, 0.056589503165770265,
        -0.0619437169327588, 0.06685938808374395, -0.07149937076827546, 0.07691432703942794, -0.08332864105775743,
        0.09090927469111618, -0.10000017938003644, 0.1111111109812166, -0.12499999604530732, 0.14285714279637268,
        -0.16666666671354852, 0.20000000000085036, -0.24999999999974928, 0.33333333333333026, -0.5000000000000003,
    ),
}  # fmt: skip
SQRT_HALF_BITS = {"float": 0x3F3504F3, "double": 0x3FE6A09E667F3BCD}
# where the results have vanished to zero and overflowed to infinity
EXP_RANGE = {"float": (-104.0, 89.0), "double": (-746.0, 710.0)}
# up to here from zero the results are normal numbers, whose exponent is added to
EXP_IS_NORMAL = {"float": 87.3, "double": 708.0}
EXP2_RANGE = {"float": (-151.0, 129.0), "double": (-1076.0, 1025.0)}
EXPM1_RANGE = {"float": (-18.0, 89.0), "double": (-38.0, 710.0)}


def nearest_integer(x: Lanes, factor: float) -> tuple[Lanes, Lanes]:
    """The integer next to ``x * factor``, as a float and as an integer plus ``magic_bits``."""
    magic = x.format.magic
    shifted = fma(x, factor, magic)
    return shifted - magic, shifted.bits()


def power_of_two(shifted: Lanes, number_kind: str, exponent_shift: int = 0) -> Lanes:
    """``2 ** (n + exponent_shift)`` from the integer plus ``magic_bits``; the result must be normal."""
    x = Lanes(shifted.e, Value("0", number_kind, shifted.width)).format
    return (shifted.shift_left(x.mantissa) + ((x.bias + exponent_shift) << x.mantissa)).as_float(x)


def scale(y: Lanes, n: Lanes, shifted: Lanes) -> Lanes:
    """``y * 2 ** n`` for |y| near 1, rounded once also where the result is denormal, and infinite on overflow."""
    if scales_by_instruction(y):
        return by_parts((y, n), min(y.width, lanes_of_register(y)), _scale_by_instruction)
    number = y.format
    exponent = shifted - number.magic_bits
    half = exponent.shift_right(1)
    for part in (half, exponent - half):
        y = y * (part.shift_left(number.mantissa) + number.one_bits).as_float(number)
    return y


def lanes_of_register(x: Lanes) -> int:
    return 64 // (4 if x.kind == "float" else 8)


def scales_by_instruction(x: Lanes) -> bool:
    """Whether the machine can multiply by powers of two, in lanes that a mask leaves out as fast as in the others."""
    return {"avx512f", "avx512vl"} <= x.e.features and x.width >= lanes_of_register(x) // 4


def _scale_by_instruction(y: Lanes, n: Lanes) -> Lanes:
    e, value = y.e, y.value
    bits = value.width * (32 if y.kind == "float" else 64)
    name = f"llvm.x86.avx512.mask.scalef.{'ps' if y.kind == 'float' else 'pd'}.{bits}"
    mask, rounding = ("i16", ", i32") if bits == 512 and value.width == 16 else ("i8", ", i32" if bits == 512 else "")
    e.declare(f"declare {value.type} @{name}({value.type}, {value.type}, {value.type}, {mask}{rounding})")
    out = Value(e.fresh(), value.kind, value.width)
    current = ", i32 4" if rounding else ""  # 4: round as the control register says
    e.emit(
        f"{out.text} = call {out.type} @{name}({value}, {n.value}, {out.type} zeroinitializer, {mask} -1{current})"
    )
    return Lanes(e, out)


def reduce_exp(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """``(r, n, shifted)`` with x = n ln 2 + r and |r| <= ln(2) / 2."""
    high, low = LN2[x.kind]
    n, shifted = nearest_integer(x, math.log2(math.e))
    return fma(n, -low, fma(n, -high, x)), n, shifted


def expm1_near_zero(r: Lanes, coefficients: Mapping[str, Sequence[float]]) -> Lanes:
    """exp(r) - 1 for |r| <= ln(2) / 2."""
    return fma(polynomial(r, coefficients[r.kind]), r * r, r)


def exp(x: Lanes) -> Lanes:
    """At most 1.1 units in the last place; denormal results are right, exp(-inf) is 0."""
    if scales_by_instruction(x):
        return _exp_anywhere(x)
    r, _, shifted = reduce_exp(x)
    y = polynomial(r, (*EXP[x.kind], 1.0, 1.0))
    usual = (y.bits() + shifted.shift_left(x.format.mantissa)).as_float(x.format)
    is_other = (x.absolute() <= EXP_IS_NORMAL[x.kind]) ^ True  # NaN too

    def otherwise() -> Lanes:  # masked softmaxes are full of exp(-inf): those alone have a short way too
        is_rare = is_other & ((x < EXP_RANGE[x.kind][0]) ^ True)
        return replace_where(is_rare, x.like(0.0), lambda: _exp_anywhere(x))

    return replace_where(is_other, usual, otherwise)


def _exp_anywhere(x: Lanes) -> Lanes:
    lowest, highest = EXP_RANGE[x.kind]
    # Not left to underflow, which takes the processor over a hundred cycles: masked softmaxes are full of exp(-inf).
    vanishes = x < lowest
    inside = x if scales_by_instruction(x) else select(vanishes, 0.0, x)
    r, n, shifted = reduce_exp(inside.at_most(highest))
    return select(vanishes, 0.0, scale(polynomial(r, (*EXP[x.kind], 1.0, 1.0)), n, shifted))


def exp2(x: Lanes) -> Lanes:
    """At most 1.1 units in the last place; denormal results are right."""
    lowest, highest = EXP2_RANGE[x.kind]
    vanishes = x < lowest
    x = select(vanishes, 0.0, x).at_most(highest)
    n, shifted = nearest_integer(x, 1.0)
    r = x - n
    return select(vanishes, 0.0, scale(fma(polynomial(r, EXP2[x.kind]), r, 1.0), n, shifted))


def expm1(x: Lanes) -> Lanes:
    lowest, highest = EXPM1_RANGE[x.kind]
    r, _, shifted = reduce_exp(x.at_least(lowest).at_most(highest))
    p = expm1_near_zero(r, EXPM1)
    half = power_of_two(shifted, x.kind, -1)  # 2^n itself overflows before the result does
    result = fma(half, p, half - 0.5) * 2.0
    # Keeps -0 and denormals, of which a half has lost a bit.
    return select(x.absolute() < 2.0 ** -(x.format.mantissa + 3), x, result)


# (tanh x - x) / x^3 for |x| <= 0.61 and (sinh x - x) / x^3 for |x| <= 1, in x^2; errors 2^-28.2 and better
TANH = {
    "float": (-0.00581908273, 0.0207347497, -0.0537670441, 0.133317456, -0.333332926),
    "double": (
        -1.6731583343446792e-05, 7.845823292040821e-05, -0.00022969188895975357, 0.0005868614901597839,
        -0.0014551216603040488, 0.0035920202287009666, -0.008863224777601314, 0.021869487858881424,
        -0.053968253943389756, 0.133333333332877, -0.33333333333333043,
    ),
}  # fmt: skip
SINH = {
    "float": (2.81695156e-06, 0.000198361595, 0.0083333496, 0.166666672),
    "double": (
        7.758749007105691e-13, 1.6057259763393844e-10, 2.5052123136763675e-08, 2.755731915707189e-06,
        0.0001984126984143187, 0.008333333333333148, 0.16666666666666669,
    ),
}  # fmt: skip
TANH_IS_ONE = {"float": 9.1, "double": 19.1}


def tanh(x: Lanes) -> Lanes:
    """An odd polynomial near zero, else 1 - 2 / (1 + exp(2|x|)); at most 2 units in the last place."""
    if math_tables.has_tables(x):
        return math_tables.tanh(x)
    a = x.absolute()
    r, _, shifted = reduce_exp(a.at_most(TANH_IS_ONE[x.kind]) * 2.0)
    p = expm1_near_zero(r, EXP)
    s = power_of_two(shifted, x.kind)
    square = a * a
    inner = fma(polynomial(square, TANH[x.kind]), square * a, a)
    return select(a < 0.6, inner, 1.0 - 2.0 / fma(s, p, s + 1.0)).with_sign_of(x)


def half_exp(a: Lanes) -> Lanes:
    """exp(a) / 2 for a >= 0, which overflows only where cosh does."""
    r, n, shifted = reduce_exp(a.at_most(EXP_RANGE[a.kind][1] + 1.0))
    return scale(expm1_near_zero(r, EXP) + 1.0, n - 1.0, shifted - 1)


def sinh(x: Lanes) -> Lanes:
    a = x.absolute()
    half = half_exp(a)
    square = x * x
    inner = fma(polynomial(square, SINH[x.kind]), square * x, x)
    return select(a < 1.0, inner, (half - 0.25 / half).with_sign_of(x))


def cosh(x: Lanes) -> Lanes:
    half = half_exp(x.absolute())
    return half + 0.25 / half


def asinh(x: Lanes) -> Lanes:
    """log(a + sqrt(a^2 + 1)) = log1p(a + a^2 / (1 + sqrt(a^2 + 1))) for a = |x|."""
    a = x.absolute()
    square = a * a
    return _log1p_or_twice(a, a + square / ((square + 1.0).square_root() + 1.0)).with_sign_of(x)


def acosh(x: Lanes) -> Lanes:
    """log(x + sqrt(x^2 - 1)) = log1p(t + sqrt(2 t + t^2)) for t = x - 1; NaN below 1."""
    t = x - 1.0
    result = _log1p_or_twice(x, t + fma(t, t, t + t).square_root())
    return select(x < 1.0, math.nan, result)


def _log1p_or_twice(a: Lanes, rest: Lanes) -> Lanes:
    """log1p(rest), or log(2 a) where a is so large that its square may overflow."""
    large = a > 2.0 ** (a.format.mantissa + 5)
    return log1p(select(large, a, rest)) + select(large, a.like(math.log(2.0)), 0.0)


def atanh(x: Lanes) -> Lanes:
    """log((1 + a) / (1 - a)) / 2 = log1p(2 a / (1 - a)) / 2 for a = |x|."""
    a = x.absolute()
    return (log1p((a + a) / (1.0 - a)) * 0.5).with_sign_of(x)


class Base(NamedTuple):
    """A base of logarithms: 1 / ln(base) and log_base(2), both in two parts."""

    scale: tuple[float, float]
    two: tuple[float, float]


BASE_2 = {
    "float": Base((1.44269502, 1.92596299e-08), (1.0, 0.0)),
    "double": Base((1.4426950408889634, 2.0355273740931033e-17), (1.0, 0.0)),
}
BASE_10 = {
    "float": Base((0.434294492, -1.01030501e-08), (0.301025390625, 4.60503898e-06)),
    "double": Base((0.4342944819032518, 1.098319650216765e-17), (0.301029995663157, 8.241712586023572e-13)),
}


def split_exponent(x: Lanes) -> tuple[Lanes, Lanes]:
    """``(n, f)`` with x = 2^n (1 + f) and 1 + f in [sqrt(1/2), sqrt(2)), for positive finite x (denormals too)."""
    number = x.format
    small = x < number.smallest_normal
    shift = float(number.mantissa + 1)
    bits = select(small, x * 2.0**shift, x).bits()
    offset = bits - SQRT_HALF_BITS[x.kind]
    exponent = offset.shift_right(number.mantissa)
    m = (bits - exponent.shift_left(number.mantissa)).as_float(number)
    n = integer_to_float(exponent, x.kind)
    return select(small, n - shift, n), m - 1.0


def integer_to_float(n: Lanes, kind: str) -> Lanes:
    """A small integer as a float of that kind."""
    if kind == "float":
        return n.convert("sitofp", kind)
    # i64 to double is no vector instruction before AVX-512DQ
    number = Lanes(n.e, Value("0", kind, n.width)).format
    return (n + number.magic_bits).as_float(number) - number.magic


def finish_log(x: Lanes, result: Lanes) -> Lanes:
    """The result of a logarithm with its special values: log(0) = -inf, log(inf) = inf, NaN below zero and for NaN."""
    low = select(x.equals(0.0), x.like(-math.inf), math.nan)
    return select(x > 0.0, select(x.equals(math.inf), x, result), low)


def log(x: Lanes) -> Lanes:
    """At most 1.1 units in the last place."""
    n, f = split_exponent(x)
    return finish_log(x, log_of_parts(n, f))


def log_of_parts(n: Lanes, f: Lanes) -> Lanes:
    """``n ln 2 + log(1 + f)``."""
    high, low = LN2[f.kind]
    return fma(n, high, fma(f * f, polynomial(f, LOG[f.kind]), n * low) + f)


def _log_in_base(x: Lanes, base: Base) -> Lanes:
    n, f = split_exponent(x)
    high, low = base.scale
    tail = f * f * polynomial(f, [c * high for c in LOG[x.kind]])
    if base.two[1]:
        tail = fma(n, base.two[1], tail)
    return finish_log(x, fma(n, base.two[0], fma(f, high, fma(f, low, tail))))


def log2(x: Lanes) -> Lanes:
    return _log_in_base(x, BASE_2[x.kind])


def log10(x: Lanes) -> Lanes:
    return _log_in_base(x, BASE_10[x.kind])


def log1p(x: Lanes) -> Lanes:
    """log(1 + x) by scaling x itself, f = x / 2^n + (1 / 2^n - 1), which rounds once however small x is."""
    number = x.format
    u = x + 1.0
    offset = u.bits() - SQRT_HALF_BITS[x.kind]
    exponent = offset.shift_right(number.mantissa)
    # 2^(2 - n), then a quarter of it: 2^-n of the largest n is denormal
    larger_scale = (((number.bias + 2) << number.mantissa) - exponent.shift_left(number.mantissa)).as_float(number)
    s = larger_scale * 0.25
    result = log_of_parts(integer_to_float(exponent, x.kind), fma(x, s, s - 1.0))
    result = select(x.absolute() < 2.0 ** -(number.mantissa + 3), x, result)
    result = select(x.equals(-1.0), -math.inf, select(x < -1.0, math.nan, result))
    return select(x.equals(math.inf), x, result)
