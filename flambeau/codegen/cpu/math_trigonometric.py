"""Trigonometric functions of float and double lanes: reduction by quarter turns, then polynomials.

Each coefficient list is a minimax fit in the square of the argument, highest power first.
"""

from __future__ import annotations

import math

from flambeau.codegen.cpu.lanes import Lanes, call_library, fma, polynomial, replace_where, select
from flambeau.codegen.cpu.math_exponential import nearest_integer

# pi / 2 in three parts. With a fused multiply-add every part is a full float; otherwise the first two have so few
# bits that their products with the number of quarter turns are exact.
HALF_PI = {
    "float": (1.57079637, -4.37113883e-08, -1.71512451e-15),
    "double": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}
HALF_PI_SHORT = {
    "float": (1.5703125, 4.837512969970703e-4, 7.549789954891882e-8),
    "double": (1.57079632673412561417, 6.07710050630396597660e-11, 2.02226624879595063154e-21),
}
# Up to here the reduction is exact enough; beyond it the C library's function is called, in double.
LARGEST = {"float": 1.0e4, "double": 1.0e6}
LARGEST_SHORT = {"float": 1.0e3, "double": 1.0e5}

# (sin r - r) / r^3 and (cos r - 1 + r^2 / 2) / r^4 for |r| <= pi / 4
SIN = {
    "float": (2.71810723e-06, -0.000198393114, 0.00833332911, -0.166666672),
    "double": (
        1.589616499575599e-10, -2.505074667146865e-08, 2.7557313614636293e-06, -0.0001984126982957076,
        0.008333333333322096, -0.1666666666666663,
    ),
}  # fmt: skip
COS = {
    "float": (2.44383082e-05, -0.00138873665, 0.0416666456),
    "double": (
        -1.1359627210328232e-11, 2.087572290381837e-09, -2.755731434986606e-07, 2.4801587289474724e-05,
        -0.0013888888888874114, 0.0416666666666666,
    ),
}  # fmt: skip
# (tan r - r) / r^3 for |r| <= pi / 4
TAN = {
    "float": (0.0043784501, 8.52347366e-05, 0.0108391177, 0.0212809481, 0.0540601499, 0.13332662, 0.333333492),
    "double": (
        9.720569230959318e-06, -2.392233321569069e-05, 4.792825489366387e-05, -2.478869882596044e-05,
        6.655585692130463e-05, 8.392352695051121e-05, 0.0002436090271094686, 0.0005889042624909107,
        0.0014560376450632327, 0.0035921019845943022, 0.00886323781760543, 0.02186948840573839,
        0.05396825397267046, 0.13333333333325767, 0.3333333333333338,
    ),
}  # fmt: skip


def turn(x: Lanes) -> tuple[Lanes, Lanes]:
    """``(r, quarters)``: x less the nearest multiple of pi / 2, and that multiple in the low bits of an integer."""
    parts = (HALF_PI if "fma" in x.e.features else HALF_PI_SHORT)[x.kind]
    n, quarters = nearest_integer(x, 2.0 / math.pi)
    r = x
    for part in parts:
        r = fma(n, -part, r)
    return r, quarters


def sin_and_cos(r: Lanes) -> tuple[Lanes, Lanes]:
    """Both for |r| <= pi / 4."""
    square = r * r
    sin = fma(polynomial(square, SIN[r.kind]), square * r, r)
    return sin, fma(polynomial(square, COS[r.kind]), square * square, fma(square, -0.5, 1.0))


def with_large_arguments(name: str, x: Lanes, result: Lanes) -> Lanes:
    limit = (LARGEST if "fma" in x.e.features else LARGEST_SHORT)[x.kind]
    return replace_where(x.absolute() > limit, result, lambda: call_library(name, x))


def flip_sign(x: Lanes, bits: Lanes) -> Lanes:
    """Negate where the top bit is set."""
    sign = -(1 << (8 * (4 if x.kind == "float" else 8) - 1))
    return (x.bits() ^ (bits & sign)).as_float(x.format)


def bit_to_sign(quarters: Lanes, bit: int) -> Lanes:
    """Move a low bit to the top."""
    return quarters.shift_left((31 if quarters.kind == "i32" else 63) - bit)


def sin(x: Lanes) -> Lanes:
    """At most 2 units in the last place for every finite x."""
    return with_large_arguments("sin", x, moderate_sin(x))


def moderate_sin(x: Lanes) -> Lanes:
    """sin without the detour for large arguments."""
    r, quarters = turn(x.absolute())  # the sign of x goes on last: -0 stays
    even, odd = sin_and_cos(r)
    value = select((quarters & 1).equals(0), even, odd)
    return flip_sign(value, x.bits() ^ bit_to_sign(quarters, 1))


def cos(x: Lanes) -> Lanes:
    """At most 2 units in the last place for every finite x."""
    r, quarters = turn(x)
    odd, even = sin_and_cos(r)
    value = select((quarters & 1).equals(0), even, odd)
    return with_large_arguments("cos", x, flip_sign(value, bit_to_sign(quarters + 1, 1)))


def tan(x: Lanes) -> Lanes:
    """At most 3 units in the last place for every finite x."""
    return with_large_arguments("tan", x, moderate_tan(x))


def moderate_tan(x: Lanes) -> Lanes:
    """tan without the detour for large arguments."""
    r, quarters = turn(x.absolute())
    square = r * r
    tangent = fma(polynomial(square, TAN[x.kind]), square * r, r)
    value = select((quarters & 1).equals(0), tangent, 1.0 / tangent)
    return flip_sign(value, x.bits() ^ bit_to_sign(quarters, 0))


# (asin x - x) / x^3 for |x| <= 1/2; relative errors 2^-27.6 and 2^-60
ASIN = {
    "float": (0.042176947, 0.0241740029, 0.0454713255, 0.0749529153, 0.166667521),
    "double": (
        0.032653977513580984, -0.021038609561175516, 0.021734674652217043, 0.0036955200833807354, 0.010783053497740388,
        0.011398427596941301, 0.013980877874783948, 0.017351607396894706, 0.02237221523499788, 0.030381942699366837,
        0.0446428571747793, 0.07499999999970633, 0.1666666666666676,
    ),
}  # fmt: skip
# (atan x - x) / x^3 for |x| <= tan(pi / 8); relative errors 2^-30.5 and 2^-59.4
ATAN = {
    "float": (-0.0607775971, 0.105936401, -0.142435119, 0.199984699, -0.333333164),
    "double": (
        -0.017902029467096715, 0.038059454687802564, -0.050390874625248064, 0.05847837088770835, -0.06663096257035807,
        0.0769205946835095, -0.09090897711903036, 0.11111110781717158, -0.14285714280158418, 0.19999999999953175,
        -0.333333333333332,
    ),
}  # fmt: skip
TAN_EIGHTH_PI = math.sqrt(2.0) - 1.0


def half_pi(x: Lanes) -> tuple[float, float]:
    return HALF_PI[x.kind][:2]


def _asin_parts(x: Lanes) -> tuple[Lanes, Lanes]:
    """``(large, y)``: y is asin|x|, or where ``large`` (|x| > 1/2) half of acos|x|."""
    a = x.absolute()
    large = a > 0.5
    square = select(large, fma(a, -0.5, 0.5), a * a)
    root = select(large, square.square_root(), a)
    return large, fma(polynomial(square, ASIN[x.kind]), square * root, root)


def asin(x: Lanes) -> Lanes:
    high, low = half_pi(x)
    large, y = _asin_parts(x)
    return select(large, (low - (y + y)) + high, y).with_sign_of(x)


def acos(x: Lanes) -> Lanes:
    high, low = half_pi(x)
    large, y = _asin_parts(x)
    twice = y + y
    outer = select(x < 0.0, (2.0 * low - twice) + 2.0 * high, twice)
    return select(large, outer, (low - y.with_sign_of(x)) + high)


def atan(x: Lanes) -> Lanes:
    return _atan_of_positive(x.absolute()).with_sign_of(x)


def _atan_of_positive(a: Lanes) -> Lanes:
    """Brings a to |t| <= tan(pi / 8) by atan a = pi/4 + atan((a - 1) / (a + 1)) or pi/2 + atan(-1 / a)."""
    high, low = half_pi(a)
    middle, large = a > TAN_EIGHTH_PI, a > 1.0 / TAN_EIGHTH_PI
    above = select(large, -1.0, select(middle, a - 1.0, a))
    below = select(large, a, select(middle, a + 1.0, 1.0))
    t = above / below
    square = t * t
    y = fma(polynomial(square, ATAN[a.kind]), square * t, t)
    zero = a.like(0.0)
    base = select(large, high, select(middle, high / 2.0, zero))
    return (y + select(large, low, select(middle, low / 2.0, zero))) + base


def atan2(y: Lanes, x: Lanes) -> Lanes:
    """The angle of (x, y), in [-pi, pi]; signed zeros and infinities as in C."""
    high, low = half_pi(x)
    tall, wide = y.absolute(), x.absolute()
    steep = tall > wide
    smaller, larger = select(steep, wide, tall), select(steep, tall, wide)
    ratio = select(larger.equals(0.0), 0.0, select(smaller.equals(larger), 1.0, smaller / larger))
    angle = _atan_of_positive(ratio)
    angle = select(steep, high - (angle - low), angle)
    angle = select(x.bits() < 0, 2.0 * high - (angle - 2.0 * low), angle)
    unordered = Lanes(x.e, x.e.compare("uno", y.value, x.value))
    return select(unordered, y + x, angle.with_sign_of(y))
