"""The error functions and the logarithmic gamma function with its derivative, for float and double lanes.

Each coefficient list is a minimax fit weighted for relative error, highest power first.
"""

from __future__ import annotations

import math

from flambeau.codegen.cpu import math_tables
from flambeau.codegen.cpu.lanes import Lanes, call_library, fma, polynomial, select
from flambeau.codegen.cpu.math_exponential import EXP, exp, expm1_near_zero, log, power_of_two, reduce_exp, scale
from flambeau.codegen.cpu.math_trigonometric import moderate_sin, moderate_tan

# erf(x) / x - 1 in x^2 for |x| <= 1; errors 2^-29.6 and 2^-62.7
ERF_INNER = {
    "float": (
        7.85384982e-05, -0.000801020244, 0.00518833054, -0.0268538147, 0.112835854, -0.37612626, 0.128379166,
    ),
    "double": (
        5.945261070420991e-11, -1.1365665549352247e-09, 1.4657879733255431e-08, -1.6350025206215847e-07,
        1.646097281545626e-06, -1.492559350679061e-05, 0.00012055331036895284, -0.0008548326978742073,
        0.005223977624780864, -0.026866170645072896, 0.11283791670954857, -0.3761263890318375, 0.1283791670955126,
    ),
}  # fmt: skip
# log(erfc(x)) from 1 to where erf is 1, weighted by erfc(x) / erf(x); errors of erf 2^-35.5 and 2^-59.5
ERF_OUTER = {
    "float": (
        -2.16976114e-05, 0.000441472628, -0.00420528464, 0.0252103396, -0.108422101, -0.633216381, -1.12958026,
        0.000188468097,
    ),
    "double": (
        1.0496577689967584e-12, -4.796176622094249e-11, 1.0257250130962727e-09, -1.3626958472917465e-08,
        1.257067987480811e-07, -8.505842876122366e-07, 4.3270863510951055e-06, -1.651410409666959e-05,
        4.50378906704841e-05, -7.036792142770981e-05, -4.481994988688892e-05, 0.0006411688566148557,
        -0.0017689960137997648, 0.0002804841973856021, 0.01907815895223939, -0.10274725418958584, -0.6366284881833177,
        -1.128377329424907, -1.7960385353958807e-07,
    ),
}  # fmt: skip
ERF_IS_ONE = {"float": 4.0, "double": 6.0}
# erfc(a) exp(a^2) (1 + 2 a) in t = (a - k) / (a + k) for k of the next table; errors 2^-26.7 and 2^-56.3
ERFC = {
    "float": (
        2.77580511e-05, -0.000362012797, -0.00125306437, 0.00127120258, 0.00863755401, -0.00804401282, -0.0542048588,
        0.164053097, -0.16603139, -0.0927638933, 1.27697837,
    ),
    "double": (
        -1.7762317172029204e-09, -1.3572982701449721e-08, -7.821896365078295e-09, 1.1498755749676827e-07,
        6.274041870155857e-08, -8.346173924262176e-07, 3.014728998945052e-07, 5.71744351293429e-06,
        -1.1224955024990715e-05, -2.4402952323333335e-05, 0.00015062234217632256, -0.00019925557365663648,
        -0.0007577733737715516, 0.0050319697684757395, -0.016197734052946697, 0.03716751556104255,
        -0.06633036581218557, 0.09373283499688803, -0.10103906603631735, 0.06809705425473443, 0.015379652102620036,
        -0.13962111684056286, 1.2329951186255526,
    ),
}  # fmt: skip
ERFC_CENTRE = {"float": 2.0, "double": 4.0}
ERFC_IS_ZERO = {"float": 10.2, "double": 27.3}
UPPER_HALF = {"float": -(1 << 12), "double": -(1 << 27)}
# erfinv(x) / x with w = -log(1 - x^2): in w - 2.5 for w <= 5, error 2^-27.4
ERFINV_INNER = (
    -8.79047413e-09, 2.32338735e-08, 4.66162646e-07, -3.46272077e-06, -4.96331222e-06, 0.000218344503, -0.0012527419,
    -0.00417738687, 0.24664028, 1.50140941,
)  # fmt: skip
# ... and in sqrt(w) - 3.125 above; error 2^-26.3, and 2^-20.4 where a step of Halley's follows
ERFINV_OUTER = {
    "float": (
        0.000110582805, -0.000180447634, -0.000292001496, 0.00132084556, -0.00253798626, 0.00377690769, -0.0052977032,
        0.00704973796, 1.0037185, 2.95832014,
    ),
    "double": (
        -1.60256127e-06, 3.20747022e-05, -0.000247449265, 0.000999587239, -0.00241143513, 0.00393138407, -0.0053888103,
        0.00702174334, 1.00373149, 2.95832133,
    ),
}  # fmt: skip
# B(2k) / (2k (2k - 1)) of Stirling's series and B(2k) / (2k) of its derivative, for k = 7 .. 1
STIRLING = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
DIGAMMA = (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)
ASYMPTOTIC_FROM = 10


def erf(x: Lanes) -> Lanes:
    """At most 2 units in the last place."""
    if math_tables.has_tables(x):
        return math_tables.erf(x)
    a = x.absolute()
    inner = fma(polynomial(a * a, ERF_INNER[x.kind]), a, a)
    r, _, shifted = reduce_exp(polynomial(a.at_most(ERF_IS_ONE[x.kind]), ERF_OUTER[x.kind]))
    p = expm1_near_zero(r, EXP)
    s = power_of_two(shifted, x.kind)
    return select(a < 1.0, inner, fma(-s, p, 1.0 - s)).with_sign_of(x)


def erfc(x: Lanes) -> Lanes:
    """1 - erf(x) near zero; exp(-a^2) R((a - k) / (a + k)) / (1 + 2 a) for a = |x|, and 2 less that below -1/2."""
    vanishes = x > ERFC_IS_ZERO[x.kind]
    a = select(vanishes, 0.0, x.absolute().at_most(ERFC_IS_ZERO[x.kind]))
    centre = ERFC_CENTRE[x.kind]
    ratio = polynomial((a - centre) / (a + centre), ERFC[x.kind]) / fma(a, 2.0, 1.0)
    square = a * a
    high = (a.bits() & UPPER_HALF[x.kind]).as_float(x.format)
    low = a - high
    lost = fma(low, low, fma(high + high, low, high * high - square))  # a^2 = square + lost
    r, n, shifted = reduce_exp(-square)
    tail = scale((expm1_near_zero(r - lost, EXP) + 1.0) * ratio, n, shifted)
    outer = select(vanishes, 0.0, select(x < 0.0, 2.0 - tail, tail))
    inner = 1.0 - fma(polynomial(x * x, ERF_INNER[x.kind]), x, x)
    return select(x.absolute() < 0.5, inner, outer)


def erfinv(x: Lanes) -> Lanes:
    """A fit in -log(1 - x^2); for double one step of Halley's method on erf or erfc follows."""
    a = x.absolute()
    w = -log((1.0 - a) * (a + 1.0))
    inner = polynomial(w - 2.5, ERFINV_INNER)
    outer = polynomial(w.square_root() - 3.125, ERFINV_OUTER[x.kind])
    y = select(w < 5.0, inner, outer) * a
    if x.kind == "double":
        residual = select(a < 0.5, erf(y) - a, (1.0 - a) - erfc(y))
        newton = residual / (exp(-(y * y)) * (2.0 / math.sqrt(math.pi)))
        y = y - newton / fma(y, newton, 1.0)
    return select(a.equals(1.0), math.inf, y).with_sign_of(x)


def lgamma(x: Lanes) -> Lanes:
    """log|gamma(x)|. Float goes through double: reflection below zero, upward recurrence to 10, Stirling's series."""
    if x.kind == "double":  # near its zeros the formula loses digits that double has not to spare
        return call_library("lgamma", x)
    wide = x.convert("fpext", "double")
    negative = wide < 0.0
    z = select(negative, 1.0 - wide, wide)
    product = z.like(1.0)
    for _ in range(ASYMPTOTIC_FROM):
        below = z < ASYMPTOTIC_FROM
        product = select(below, product * z, product)
        z = select(below, z + 1.0, z)
    reciprocal = 1.0 / z
    series = fma(z - 0.5, log(z), math.log(2.0 * math.pi) / 2.0) - z
    value = series + polynomial(reciprocal * reciprocal, STIRLING) * reciprocal - log(product)
    sine = moderate_sin(distance_to_integer(wide) * math.pi).absolute()
    result = select(negative, math.log(math.pi) - log(sine) - value, value).convert("fptrunc", "float")
    return select(x.absolute().equals(math.inf), math.inf, result)


def digamma(x: Lanes) -> Lanes:
    """In double: reflection below zero, upward recurrence to 10, then the asymptotic series."""
    if x.kind == "float":
        return digamma(x.convert("fpext", "double")).convert("fptrunc", "float")
    negative = x < 0.0
    z = select(negative, 1.0 - x, x)
    # the sum of 1 / (z + k) over the steps below 10, as one fraction
    numerator, denominator = z.like(0.0), z.like(1.0)
    for _ in range(ASYMPTOTIC_FROM):
        below = z < ASYMPTOTIC_FROM
        numerator = select(below, fma(numerator, z, denominator), numerator)
        denominator = select(below, denominator * z, denominator)
        z = select(below, z + 1.0, z)
    reciprocal = 1.0 / z
    square = reciprocal * reciprocal
    value = log(z) - reciprocal * 0.5 - polynomial(square, DIGAMMA) * square - numerator / denominator
    fraction = distance_to_integer(x)
    reflected = value - math.pi / moderate_tan(fraction * math.pi)
    result = select(negative, select(fraction.equals(0.0), math.nan, reflected), value)
    return select(x.equals(0.0), x.like(math.inf).with_sign_of(-x), result)


def distance_to_integer(x: Lanes) -> Lanes:
    """x less the nearest integer, exactly; NaN for infinities."""
    return x - x.intrinsic("roundeven")
