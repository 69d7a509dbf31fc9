"""Powers, remainders and neighbours of float and double lanes."""

from __future__ import annotations

import math

from flambeau.codegen.cpu.lanes import Lanes, call_library, fma, polynomial, replace_where, select
from flambeau.codegen.cpu.math_exponential import nearest_integer, power_of_two, split_exponent

# For float powers, which are computed in double: (log2(1 + f) - f log2(e)) / f^2 on [sqrt(1/2), sqrt(2)] and
# (2^r - 1) / r for |r| <= 1/2; errors 2^-35.7 and 2^-29.0
LOG2 = (
    0.07730931532366947, -0.14242152293256158, 0.14449157123311873, -0.1432207403502966, 0.1588351010815747,
    -0.18029955019439792, 0.2061693621743391, -0.24045293592331052, 0.28853753862481724, -0.36067368562709745,
    0.4808983572105457, -0.7213475207548863,
)  # fmt: skip
EXP2 = (
    0.00015476341232119074, 0.0013400281003841813, 0.009618003698412474, 0.05550327765296502, 0.24022651348150784,
    0.6931472062505997,
)  # fmt: skip


def pow(x: Lanes, y: Lanes) -> Lanes:  # noqa: A001 - the primitive's name
    """``x ** y`` with the special cases of C's pow."""
    if x.kind == "double":
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
    """2 ** (y log2 a) in double; the conversion to float rounds, overflows and underflows as it must."""
    n, f = split_exponent(a.convert("fpext", "double"))
    logarithm = fma(f * f, polynomial(f, LOG2), fma(f, math.log2(math.e), n))
    logarithm = select(a.equals(0.0), -math.inf, select(a.equals(math.inf), math.inf, logarithm))
    exponent = (y.convert("fpext", "double") * logarithm).at_least(-200.0).at_most(200.0)
    n, shifted = nearest_integer(exponent, 1.0)
    r = exponent - n
    return (fma(polynomial(r, EXP2), r, 1.0) * power_of_two(shifted, "double")).convert("fptrunc", "float")


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
