"""Special functions: of the normal distribution, of gamma and zeta, Bessel functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flambeau import prims as p
from flambeau.ir.node import Node
from flambeau.ops import samples as s
from flambeau.ops import special_tables as tables
from flambeau.ops.declare import Value, op
from flambeau.ops.pointwise import digamma

Sampler = Callable[[s.SampleMaker], Iterator[s.Call]]


def _special(samples: Sampler) -> Callable[[Callable[..., Any]], Any]:
    return op("pointwise", promote="float", samples=samples)


def _clenshaw(t: Node, coefficients: Sequence[float]) -> Node:
    """The sum of coefficients times Chebyshev polynomials of t in [-1, 1]."""
    twice = p.add(t, t)
    last, before = p.number(0, t), p.number(0, t)
    for c in reversed(coefficients[1:]):
        last, before = p.add(p.sub(p.mul(twice, last), before), p.number(c, t)), last
    return p.add(p.sub(p.mul(t, last), before), p.number(coefficients[0], t))


def _line(x: Node, factor: float, offset: float) -> Node:
    return p.add(p.mul(x, p.number(factor, x)), p.number(offset, x))


def _over(number: float, x: Node) -> Node:
    return p.div(p.number(number, x), x)


# -- of the normal distribution -------------------------------------------------------------------------
@_special(s.within(-3.0, 3.0))
def ndtr(x: Value) -> Node:
    """The area under the normal density up to x."""
    return p.mul(p.erfc(p.mul(x, p.number(-math.sqrt(0.5), x))), p.number(0.5, x))


@_special(s.within(-3.0, 3.0))
def erfcx(x: Value) -> Node:
    """exp(x ** 2) * erfc(x), without overflow or underflow between."""
    a = p.abs_(x)
    scaled = p.sub(p.number(1, a), p.div(p.number(4, a), p.add(a, p.number(2, a))))  # (a - 2) / (a + 2)
    right = p.div(_clenshaw(scaled, tables.ERFCX), _line(a, 2.0, 1.0))
    return p.where(p.lt(x, p.number(0, x)), p.sub(p.mul(p.exp(p.mul(x, x)), p.number(2, x)), right), right)


erfcx.derivative = lambda g, out, arguments: (
    p.mul(g[0], _line(p.mul(arguments[0], out[0]), 2.0, -2 / math.sqrt(math.pi))),
)  # fmt: skip


@_special(s.within(-9.0, 4.0))
def log_ndtr(x: Value) -> Node:
    """log(ndtr(x)), accurate where ndtr vanishes."""
    low = p.lt(x, p.number(-1, x))
    below, above = p.where(low, x, p.number(-1, x)), p.where(low, p.number(0, x), x)
    tail = p.mul(erfcx(p.mul(below, p.number(-math.sqrt(0.5), x))), p.number(0.5, x))
    left = p.sub(p.log(tail), p.mul(p.mul(below, below), p.number(0.5, x)))
    return p.where(low, left, p.log1p(p.mul(p.erfc(p.mul(above, p.number(math.sqrt(0.5), x))), p.number(-0.5, x))))


@_special(s.within(0.01, 0.99))
def ndtri(x: Value) -> Node:
    """The inverse of ndtr: -inf at 0, inf at 1, NaN outside."""
    half, zero, one = p.number(0.5, x), p.number(0, x), p.number(1, x)
    small = p.where(p.lt(half, x), p.sub(one, x), x)
    tail = p.lt(small, p.number(0.02, x))
    inner = p.mul(p.erfinv(p.sub(one, p.add(small, small))), p.number(-math.sqrt(2), x))
    aside = p.where(p.bitwise_and(tail, p.lt(zero, small)), small, p.number(0.01, x))
    y = p.where(tail, _normal_tail(aside), inner)
    y = p.where(p.eq(small, zero), p.number(-math.inf, x), p.where(p.lt(small, zero), p.number(math.nan, x), y))
    return p.where(p.lt(half, x), p.neg(y), y)


def _normal_tail(area: Node) -> Node:
    """Where ndtr is ``area`` < 0.02: its expansion in z = sqrt(-2 log area) begins with log(z) / z - z."""
    z = p.sqrt(p.mul(p.log(area), p.number(-2, area)))
    inverse = _over(1.0, z)
    # Fitted for z from 2.7 to 8 and from 8 to 40.
    near = _clenshaw(_line(inverse, 2 / (1 / 2.7 - 1 / 8), -(1 / 2.7 + 1 / 8) / (1 / 2.7 - 1 / 8)), tables.NDTRI_NEAR)
    far = _clenshaw(_line(inverse, 20.0, -1.5), tables.NDTRI_FAR)
    rest = p.where(p.lt(z, p.number(8, z)), near, far)
    return p.add(p.sub(p.mul(p.log(z), inverse), z), p.mul(rest, inverse))


ndtri.derivative = lambda g, out, arguments: (
    p.mul(g[0], p.mul(p.exp(p.mul(p.mul(out[0], out[0]), p.number(0.5, out[0]))), p.number(math.sqrt(2 * math.pi), out[0]))),
)  # fmt: skip


# -- with logarithms ------------------------------------------------------------------------------------
@_special(s.positive_only)
def entr(x: Value) -> Node:
    """-x * log(x); 0 at 0, -inf below."""
    zero = p.number(0, x)
    inside = p.lt(zero, x)
    value = p.neg(p.mul(x, p.log(p.where(inside, x, p.number(1, x)))))
    return p.where(p.isnan(x), x, p.where(inside, value, p.where(p.eq(x, zero), zero, p.number(-math.inf, x))))


# At 0 it is infinite, as the slope there, and NaN below.
entr.derivative = lambda g, out, arguments: (p.mul(g[0], p.sub(p.number(-1, arguments[0]), p.log(arguments[0]))),)


@_special(s.both_positive)
def xlog1py(x: Value, other: Value) -> Node:
    """x * log1p(other); 0 where x is 0 and ``other`` is not NaN."""
    zero = p.number(0, x)
    far = p.bitwise_or(p.le(other, p.number(-1, x)), p.eq(other, p.number(math.inf, x)))
    nothing = p.bitwise_and(p.eq(x, zero), far)
    return p.where(nothing, zero, p.mul(x, p.log1p(p.where(nothing, zero, other))))


# -- gamma and zeta -------------------------------------------------------------------------------------
def _zeta_samples(make: s.SampleMaker) -> Iterator[s.Call]:
    yield (make.float(5, 3, low=1.2, high=8.0), make.float(3, low=0.2, high=15.0)), {}
    yield (3.0, make.float(4, low=-2.9, high=-2.1)), {}


@_special(_zeta_samples)
def zeta(x: Value, other: Value) -> Node:
    """Hurwitz' zeta function: the sum over k >= 0 of (other + k) ** -x, for x > 1.

    Infinite at x = 1 and at other = 0, -1, ...; NaN for x < 1, and for other < 0 where x is no integer.
    """
    return p.hurwitz_zeta(x, other)


def _without_derivative(name: str) -> Callable[..., Any]:
    def refuse(*_: Any) -> Any:
        raise NotImplementedError(f"derivative for {name} is not implemented; detach() its operands")

    return refuse


zeta.derivative = _without_derivative("zeta")


def _polygamma_samples(make: s.SampleMaker) -> Iterator[s.Call]:
    for n in range(4):
        yield (n, make.float(7, low=0.3, high=12.0)), {}
    yield (1, make.float(3, low=-1.8, high=-1.2)), {}


@_special(_polygamma_samples)
def polygamma(n: int, x: Value) -> Node:
    """The ``n``-th derivative of digamma."""
    if n < 0:
        raise RuntimeError(f"polygamma: polygamma(n, x) does not support negative n, got {n}")
    if n < 2:
        return p.trigamma(x) if n else digamma(x)
    sign = 1.0 if n % 2 else -1.0
    return p.mul(p.hurwitz_zeta(p.number(n + 1, x), x), p.number(sign * math.factorial(n), x))


polygamma.derivative = lambda g, out, arguments: (p.mul(g[0], polygamma(arguments[0] + 1, arguments[1])),)


@_special(lambda make: (((make.float(6, low=2.0, high=9.0), n), {}) for n in (1, 3)))
def mvlgamma(x: Value, p: int) -> Node:
    """The logarithm of the multivariate gamma function of dimension ``p``."""
    if p < 1:
        raise RuntimeError(f"mvlgamma: p has to be greater than or equal to 1, got {p}")
    return _multivariate(x, p)


def _multivariate(x: Node, dimension: int) -> Node:
    total = p.number(dimension * (dimension - 1) / 4 * math.log(math.pi), x)
    for j in range(dimension):
        total = p.add(total, p.lgamma(p.sub(x, p.number(j / 2, x))))
    return total


# -- Bessel functions of imaginary argument -------------------------------------------------------------
def _in_two(x: Node, border: float, near: Callable[[Node], Node], far: Callable[[Node], Node]) -> Node:
    """``near`` up to the border, ``far`` beyond it, each on what it is made for."""
    inside, edge = p.le(x, p.number(border, x)), p.number(border, x)
    return p.where(inside, near(p.where(inside, x, edge)), far(p.where(inside, edge, x)))


def _rooted(x: Node, scale: float, coefficients: Sequence[float]) -> Node:
    """A fit in scale / x - 1, over the root of x."""
    return p.mul(_clenshaw(p.sub(_over(scale, x), p.number(1, x)), coefficients), p.rsqrt(x))


def _scaled_i(a: Node, order: int) -> Node:
    """exp(-a) * I(a) for a >= 0."""
    near, far = (tables.I1_NEAR, tables.I1_FAR) if order else (tables.I0_NEAR, tables.I0_FAR)
    inner = lambda v: _clenshaw(_line(v, 0.25, -1.0), near)  # noqa: E731
    return _in_two(a, 8.0, (lambda v: p.mul(inner(v), v)) if order else inner, lambda v: _rooted(v, 16.0, far))


@_special(s.within(-12.0, 12.0))
def i0e(x: Value) -> Node:
    """exp(-|x|) times the modified Bessel function of the first kind, order 0."""
    return _scaled_i(p.abs_(x), 0)


@_special(s.within(-12.0, 12.0))
def i1e(x: Value) -> Node:
    """exp(-|x|) times the modified Bessel function of the first kind, order 1."""
    return p.copysign(_scaled_i(p.abs_(x), 1), x)


@_special(s.within(-4.0, 4.0))
def i0(x: Value) -> Node:
    """The modified Bessel function of the first kind, order 0."""
    a = p.abs_(x)
    return p.mul(p.exp(a), _scaled_i(a, 0))


@_special(s.within(-4.0, 4.0))
def i1(x: Value) -> Node:
    """The modified Bessel function of the first kind, order 1."""
    a = p.abs_(x)
    return p.copysign(p.mul(p.exp(a), _scaled_i(a, 1)), x)


def _slope_of_first(x: Node, zeroth: Node, first: Node) -> Node:
    """f0(x) - f1(x) / x: the derivative of I1 and of J1."""
    at_zero = p.eq(x, p.number(0, x))
    return p.sub(zeroth, p.where(at_zero, p.number(0.5, x), p.div(first, p.where(at_zero, p.number(1, x), x))))


i0.derivative = lambda g, out, arguments: (p.mul(g[0], i1(arguments[0])),)
i1.derivative = lambda g, out, arguments: (p.mul(g[0], _slope_of_first(arguments[0], i0(arguments[0]), out[0])),)
i0e.derivative = lambda g, out, arguments: (p.mul(g[0], p.sub(i1e(arguments[0]), p.mul(p.sign(arguments[0]), out[0]))),)
i1e.derivative = lambda g, out, arguments: (
    p.mul(g[0], p.sub(_slope_of_first(arguments[0], i0e(arguments[0]), out[0]), p.mul(p.sign(arguments[0]), out[0]))),
)  # fmt: skip


def _k(x: Node, order: int, scaled: bool) -> Node:
    """The modified Bessel function of the second kind, times exp(x) if ``scaled``; inf at 0, NaN below."""

    def near(v: Node) -> Node:
        fit = _clenshaw(_line(p.mul(v, v), 0.5, -1.0), tables.K1_NEAR if order else tables.K0_NEAR)
        log_term = p.mul(p.log(p.mul(v, p.number(0.5, v))), i1(v) if order else i0(v))
        value = p.add(log_term, p.div(fit, v)) if order else p.sub(fit, log_term)
        return p.mul(value, p.exp(v)) if scaled else value

    def far(v: Node) -> Node:
        value = _rooted(v, 4.0, tables.K1_FAR if order else tables.K0_FAR)
        return value if scaled else p.mul(value, p.exp(p.neg(v)))

    value = _in_two(x, 2.0, near, far)
    return p.where(p.eq(x, p.number(0, x)), p.number(math.inf, x), value)


@_special(s.within(0.1, 7.0))
def modified_bessel_k0(x: Value) -> Node:
    """The modified Bessel function of the second kind, order 0."""
    return _k(x, 0, False)


@_special(s.within(0.1, 7.0))
def modified_bessel_k1(x: Value) -> Node:
    """The modified Bessel function of the second kind, order 1."""
    return _k(x, 1, False)


@_special(s.within(0.1, 7.0))
def scaled_modified_bessel_k0(x: Value) -> Node:
    """exp(x) times the modified Bessel function of the second kind, order 0."""
    return _k(x, 0, True)


@_special(s.within(0.1, 7.0))
def scaled_modified_bessel_k1(x: Value) -> Node:
    """exp(x) times the modified Bessel function of the second kind, order 1."""
    return _k(x, 1, True)


modified_bessel_k0.derivative = lambda g, out, arguments: (p.neg(p.mul(g[0], modified_bessel_k1(arguments[0]))),)
modified_bessel_k1.derivative = lambda g, out, arguments: (
    p.neg(p.mul(g[0], p.add(modified_bessel_k0(arguments[0]), p.div(out[0], arguments[0])))),
)  # fmt: skip
scaled_modified_bessel_k0.derivative = lambda g, out, arguments: (p.mul(g[0], p.sub(out[0], scaled_modified_bessel_k1(arguments[0]))),)
scaled_modified_bessel_k1.derivative = lambda g, out, arguments: (
    p.mul(g[0], p.sub(p.sub(out[0], scaled_modified_bessel_k0(arguments[0])), p.div(out[0], arguments[0]))),
)  # fmt: skip


# -- Bessel functions of real argument ------------------------------------------------------------------
def _wave(a: Node, order: int, second: bool) -> Node:
    """J or Y far from 0: sqrt(2 / (pi a)) (P cos(t) - Q sin(t)), for Y with sine and cosine changed, t = a - (2 order + 1) pi / 4."""
    t = p.sub(_over(128.0, p.mul(a, a)), p.number(1, a))
    big = _clenshaw(t, tables.P1_FAR if order else tables.P0_FAR)
    small = p.div(_clenshaw(t, tables.Q1_FAR if order else tables.Q0_FAR), a)
    angle = p.sub(a, p.number((2 * order + 1) * math.pi / 4, a))
    cosine, sine = p.cos(angle), p.sin(angle)
    value = p.add(p.mul(big, sine), p.mul(small, cosine)) if second else p.sub(p.mul(big, cosine), p.mul(small, sine))
    return p.mul(value, p.mul(p.rsqrt(a), p.number(math.sqrt(2 / math.pi), a)))


def _j(x: Node, order: int) -> Node:
    table = tables.J1_NEAR if order else tables.J0_NEAR
    inner = lambda v: _clenshaw(_line(p.mul(v, v), 1 / 32, -1.0), table)  # noqa: E731
    a = p.abs_(x)
    value = _in_two(a, 8.0, (lambda v: p.mul(inner(v), v)) if order else inner, lambda v: _wave(v, order, False))
    return p.where(p.lt(x, p.number(0, x)), p.neg(value), value) if order else value


def _y(x: Node, order: int) -> Node:
    """-inf at 0, NaN below."""

    def near(v: Node) -> Node:
        fit = _clenshaw(_line(p.mul(v, v), 1 / 32, -1.0), tables.Y1_NEAR if order else tables.Y0_NEAR)
        log_term = p.mul(p.log(v), _j(v, order))
        log_term = p.sub(log_term, _over(1.0, v)) if order else log_term
        return p.add(p.mul(fit, v) if order else fit, p.mul(log_term, p.number(2 / math.pi, v)))

    value = _in_two(x, 8.0, near, lambda v: _wave(v, order, True))
    return p.where(p.eq(x, p.number(0, x)), p.number(-math.inf, x), value)


@_special(s.within(-12.0, 12.0))
def bessel_j0(x: Value) -> Node:
    """The Bessel function of the first kind, order 0."""
    return _j(x, 0)


@_special(s.within(-12.0, 12.0))
def bessel_j1(x: Value) -> Node:
    """The Bessel function of the first kind, order 1."""
    return _j(x, 1)


@_special(s.within(0.2, 15.0))
def bessel_y0(x: Value) -> Node:
    """The Bessel function of the second kind, order 0; -inf at 0, NaN below."""
    return _y(x, 0)


@_special(s.within(0.2, 15.0))
def bessel_y1(x: Value) -> Node:
    """The Bessel function of the second kind, order 1; -inf at 0, NaN below."""
    return _y(x, 1)


bessel_j0.derivative = lambda g, out, arguments: (p.neg(p.mul(g[0], bessel_j1(arguments[0]))),)
bessel_j1.derivative = lambda g, out, arguments: (p.mul(g[0], _slope_of_first(arguments[0], bessel_j0(arguments[0]), out[0])),)
bessel_y0.derivative = lambda g, out, arguments: (p.neg(p.mul(g[0], bessel_y1(arguments[0]))),)
bessel_y1.derivative = lambda g, out, arguments: (p.mul(g[0], p.sub(bessel_y0(arguments[0]), p.div(out[0], arguments[0]))),)


@_special(s.within(-9.0, 9.0))
def spherical_bessel_j0(x: Value) -> Node:
    """sin(x) / x, 1 at 0 and 0 at infinity."""
    at_zero, infinite = p.eq(x, p.number(0, x)), p.eq(p.abs_(x), p.number(math.inf, x))
    safe = p.where(p.bitwise_or(at_zero, infinite), p.number(1, x), x)
    return p.where(at_zero, p.number(1, x), p.where(infinite, p.number(0, x), p.div(p.sin(safe), safe)))


# -- Airy's function ------------------------------------------------------------------------------------
@_special(s.within(-9.0, 4.0))
def airy_ai(x: Value) -> Node:
    """Airy's function of the first kind: waves below 0, falling above. It has no derivative here."""
    middle = _clenshaw(_line(p.minimum(p.maximum(x, p.number(-4, x)), p.number(2, x)), 1 / 3, 1 / 3), tables.AIRY_MIDDLE)
    falling = _airy_falling(p.maximum(x, p.number(2, x)))
    waves = _airy_waves(p.maximum(p.neg(x), p.number(4, x)))
    return p.where(p.lt(x, p.number(-4, x)), waves, p.where(p.lt(p.number(2, x), x), falling, middle))


def _airy_phase(a: Node) -> tuple[Node, Node]:
    """2 / 3 * a ** 1.5, and 1 / (sqrt(pi) * a ** 0.25)."""
    root = p.sqrt(a)
    return p.mul(p.mul(a, root), p.number(2 / 3, a)), p.mul(p.rsqrt(root), p.number(1 / math.sqrt(math.pi), a))


def _airy_falling(a: Node) -> Node:
    phase, scale = _airy_phase(a)
    fit = _clenshaw(_line(_over(2 / 3 * 2**1.5, phase), 2.0, -1.0), tables.AIRY_RIGHT)
    return p.mul(p.mul(fit, p.exp(p.neg(phase))), p.mul(scale, p.number(0.5, a)))


def _airy_waves(a: Node) -> Node:
    phase, scale = _airy_phase(a)
    t = _line(_over((2 / 3 * 4**1.5) ** 2, p.mul(phase, phase)), 2.0, -1.0)
    angle = p.add(phase, p.number(math.pi / 4, a))
    sine = p.mul(p.sin(angle), _clenshaw(t, tables.AIRY_SINE))
    cosine = p.mul(p.cos(angle), p.div(_clenshaw(t, tables.AIRY_COSINE), phase))
    return p.mul(p.sub(sine, cosine), scale)


airy_ai.derivative = _without_derivative("airy_ai")
