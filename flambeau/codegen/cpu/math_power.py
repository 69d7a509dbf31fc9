"""Powers, remainders and neighbours of float and double lanes."""

from __future__ import annotations

import math
from typing import NamedTuple

from flambeau.codegen.cpu.lanes import Lanes, call_library, fma, polynomial, replace_where, select
from flambeau.codegen.cpu.math_exponential import EXP2, nearest_integer, power_of_two, scale, split_exponent

# For float powers, which are computed in double: (log2(1 + f) - f log2(e)) / f^2 on [sqrt(1/2), sqrt(2)] and
# (2^r - 1) / r for |r| <= 1/2; errors 2^-35.7 and 2^-29.0
FLOAT_LOG2 = (
    0.07730931532366947, -0.14242152293256158, 0.14449157123311873, -0.1432207403502966, 0.1588351010815747,
    -0.18029955019439792, 0.2061693621743391, -0.24045293592331052, 0.28853753862481724, -0.36067368562709745,
    0.4808983572105457, -0.7213475207548863,
)  # fmt: skip
FLOAT_EXP2 = (
    0.00015476341232119074, 0.0013400281003841813, 0.009618003698412474, 0.05550327765296502, 0.24022651348150784,
    0.6931472062505997,
)  # fmt: skip
# For double powers: (atanh(s) / s - 1 - z / 3) / z^2 with z = s^2 for |s| <= 3 - 2 sqrt(2); error of atanh 2^-66
ATANH = (
    0.06598261185060376, 0.0662839860656764, 0.07693379099446808, 0.09090892174293076, 0.11111111260065748,
    0.1428571428504921, 0.20000000000001128,
)  # fmt: skip
THIRD = (1 / 3, 1.850371707708594e-17)
TWO_OVER_LN2 = (2.8853900817779268, 4.0710547481862066e-17)
LARGEST_EXPONENT = 1100.0


def pow(x: Lanes, y: Lanes) -> Lanes:  # noqa: A001 - the primitive's name
    """``x ** y`` with the special cases of C's pow."""
    if x.kind == "double" and "fma" not in x.e.features:  # exact products are too dear there
        return call_library("pow", x, y)
    a = x.absolute()
    magnitude = select(a.equals(1.0) | y.equals(0.0), 1.0, _power_of_positive(a, y))
    half = y * 0.5
    whole = y.intrinsic("trunc").equals(y)
    odd = whole & half.intrinsic("trunc").compare("ne", half)
    negative = x.bits() < 0
    signed = select(negative & odd, -magnitude, magnitude)
    undefined = (x < 0.0) & (x > -math.inf) & (whole ^ whole.like(True))
    unordered = Lanes(x.e, x.e.compare("uno", x.value, y.value))
    result = select(undefined | unordered, math.nan, signed)
    return select(x.equals(1.0) | y.equals(0.0), 1.0, result)


def _power_of_positive(a: Lanes, y: Lanes) -> Lanes:
    return _float_power(a, y) if a.kind == "float" else _double_power(a, y)


def _float_power(a: Lanes, y: Lanes) -> Lanes:
    """2 ** (y log2 a) in double; the conversion to float rounds, overflows and underflows as it must."""
    n, f = (part.convert("fpext", "double") for part in split_exponent(a))
    logarithm = fma(f * f, polynomial(f, FLOAT_LOG2), fma(f, math.log2(math.e), n))
    logarithm = select(a.equals(0.0), -math.inf, select(a.equals(math.inf), math.inf, logarithm))
    exponent = (y.convert("fpext", "double") * logarithm).at_least(-200.0).at_most(200.0)
    n, shifted = nearest_integer(exponent, 1.0)
    r = exponent - n
    return (fma(polynomial(r, FLOAT_EXP2), r, 1.0) * power_of_two(shifted, "double")).convert("fptrunc", "float")


class Pair(NamedTuple):
    """An unevaluated sum of two doubles, the second far below the first."""

    high: Lanes
    low: Lanes


def _product(a: Lanes, b: Lanes | float) -> Pair:
    """The exact product, by a fused multiply-add."""
    high = a * b
    return Pair(high, fma(a, b, -high))


def _sum(larger: Lanes, smaller: Lanes) -> Pair:
    """The exact sum of two doubles in order of magnitude."""
    high = larger + smaller
    return Pair(high, (larger - high) + smaller)


def _double_power(a: Lanes, y: Lanes) -> Lanes:
    """2 ** (y log2 a), with the logarithm and its product in pairs of doubles."""
    logarithm = _log2_pair(a)
    infinite = select(a.equals(0.0), -math.inf, select(a.equals(math.inf), math.inf, logarithm.high))
    exponent = y * infinite
    rest = fma(y, infinite, -exponent) + y * logarithm.low
    inside = exponent.absolute() < LARGEST_EXPONENT
    exponent = exponent.at_least(-LARGEST_EXPONENT).at_most(LARGEST_EXPONENT)
    n, shifted = nearest_integer(exponent, 1.0)
    r = (exponent - n) + select(inside, rest, 0.0)
    return scale(fma(polynomial(r, EXP2["double"]), r, 1.0), n, shifted)


def _log2_pair(a: Lanes) -> Pair:
    """log2(2^n (1 + f)) = n + 2 atanh(s) / ln 2 with s = f / (2 + f), to about 2^-64 of its size."""
    n, f = split_exponent(a)
    below = _sum(f.like(2.0), f)
    reciprocal = 1.0 / below.high
    s = f * reciprocal
    s_low = fma(-s, below.low, fma(-s, below.high, f)) * reciprocal
    z = s * s
    tail = z * polynomial(z, ATANH)
    factor = _sum(z.like(THIRD[0]), tail)
    cube = _product(s, z)
    cube_low = cube.low + s * (fma(s, s, -z) + (s + s) * s_low) + s_low * z
    term = _product(cube.high, factor.high)
    term_low = term.low + cube.high * (factor.low + THIRD[1]) + cube_low * factor.high
    half = _sum(s, term.high)
    half_low = half.low + (s_low + term_low)
    product = _product(half.high, TWO_OVER_LN2[0])
    product_low = product.low + half.high * TWO_OVER_LN2[1] + half_low * TWO_OVER_LN2[0]
    total = _sum(n, product.high)  # n is 0 or larger than the other
    return Pair(total.high, total.low + product_low)


def rem(x: Lanes, y: Lanes) -> Lanes:
    """C's fmod, exactly: ``x - trunc(x / y) * y`` is a float whenever the quotient is exact enough to be cut."""
    quotient = (x / y).intrinsic("trunc")
    rest = fma(-quotient, y, x)
    # rounding may have lifted the quotient to the next integer
    opposite = ((rest.bits() ^ x.bits()) < 0) & rest.compare("ne", 0.0)
    rest = select(opposite, rest + y.absolute().with_sign_of(x), rest)
    rest = select(quotient.equals(0.0), x, rest).with_sign_of(x)
    # without a fused multiply-add only the remainder of a zero quotient is sure
    exact = quotient.absolute() < 2.0 ** (x.format.mantissa if "fma" in x.e.features else 0)
    inexact = exact ^ exact.like(True)
    return replace_where(inexact, rest, lambda: call_library("fmod", x, y))


def nextafter(x: Lanes, y: Lanes) -> Lanes:
    """The next float from ``x`` toward ``y``."""
    bits = x.bits()
    outward = (x < y) ^ (x < 0.0)
    stepped = (bits + select(outward, bits.like(1), -1)).as_float(x.format)
    smallest = bits.like(1).as_float(x.format).with_sign_of(y)
    moved = select(x.equals(0.0), smallest, stepped)
    unordered = Lanes(x.e, x.e.compare("uno", x.value, y.value))
    return select(unordered, math.nan, select(x.equals(y), y, moved))
