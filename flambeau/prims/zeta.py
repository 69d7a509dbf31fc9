"""Hurwitz' zeta function out of primitives: what the derivatives of digamma are."""

from __future__ import annotations

import math

from flambeau.ir.node import Node
from flambeau.prims import pointwise as p

FROM = 10  # the asymptotic series begins there
# Bernoulli numbers B[2], B[4], ... over the factorials of their places.
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330, 854513 / 138)
COEFFICIENTS = tuple(b / math.factorial(2 * j + 2) for j, b in enumerate(BERNOULLI))


def hurwitz_zeta(x: Node, q: Node) -> Node:
    """The sum over k >= 0 of (q + k) ** -x for x > 1; below q = 0, where x has to be whole, the terms there are two sums' difference.

    Infinite at x = 1 and at q = 0, -1, ...; NaN for x < 1, and for q < 0 where x is no integer.
    """
    one, zero = p.number(1, x), p.number(0, x)
    negative, floor = p.lt(q, zero), p.floor(q)
    fraction = p.sub(q, floor)
    below = p.sub(_sum_from(x, p.where(negative, p.sub(one, fraction), one)), _sum_from(x, p.where(negative, p.sub(one, q), one)))
    half = p.mul(x, p.number(0.5, x))
    odd = p.ne(half, p.floor(half))
    value = p.add(_sum_from(x, p.where(negative, fraction, q)), p.where(odd, p.neg(below), below))
    pole = p.bitwise_or(p.eq(x, one), p.bitwise_and(p.le(q, zero), p.eq(q, floor)))
    outside = p.bitwise_or(p.lt(x, one), p.bitwise_and(p.bitwise_and(negative, p.invert(pole)), p.ne(x, p.floor(x))))
    return p.where(outside, p.number(math.nan, x), p.where(pole, p.number(math.inf, x), value))


def _sum_from(x: Node, q: Node) -> Node:
    """The zeta function of positive q, by Euler and Maclaurin: terms up to 10, then the series."""
    one, zero, power = p.number(1, x), p.number(0, x), p.neg(x)
    total, at = zero, q
    for _ in range(FROM + 1):
        below = p.lt(at, p.number(FROM, at))
        total = p.add(total, p.where(below, p.pow_(at, power), zero))
        at = p.where(below, p.add(at, one), at)
    tail = p.pow_(at, power)
    total = p.add(total, p.add(p.div(p.mul(tail, at), p.sub(x, one)), p.mul(tail, p.number(0.5, x))))
    rising, inverse = p.div(p.mul(x, tail), at), p.div(one, p.mul(at, at))
    for j, coefficient in enumerate(COEFFICIENTS):
        total = p.add(total, p.mul(rising, p.number(coefficient, x)))
        rising = p.mul(p.mul(rising, p.add(x, p.number(2 * j + 1, x))), p.mul(p.add(x, p.number(2 * j + 2, x)), inverse))
    return total


def trigamma(x: Node) -> Node:
    """The derivative of digamma; by reflection below 0."""
    negative, one = p.lt(x, p.number(0, x)), p.number(1, x)
    value = _sum_from(p.number(2, x), p.where(negative, p.sub(one, x), x))
    sine = p.sin(p.mul(p.sub(x, p.floor(x)), p.number(math.pi, x)))
    return p.where(negative, p.sub(p.div(p.number(math.pi**2, x), p.mul(sine, sine)), value), value)


p.digamma.derivative = lambda g, out, x: (p.mul(g, trigamma(x)),)
