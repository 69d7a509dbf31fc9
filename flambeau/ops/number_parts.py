"""Greatest common divisors, and floating point numbers taken apart."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.ir.node import Node
from flambeau.ops import samples as s
from flambeau.ops.declare import Value, named_results, op

# The most steps of Euclid's algorithm that numbers of so many bits need: Fibonacci numbers are the worst.
STEPS = {8: 12, 16: 24, 32: 46, 64: 92}


def _integers(make: s.SampleMaker) -> Iterator[s.Call]:
    yield (make.int(5, 1, low=-60, high=60), make.int(4, low=-60, high=60)), {}
    yield (make.int(6, low=0, high=2), make.int(6, low=0, high=2)), {}


def _fibonacci(make: s.SampleMaker) -> Iterator[s.Call]:
    yield from _integers(make)
    yield (make.int(2, low=1, high=2) * 4660046610375530309, 2880067194370816120), {}


def _divisor(operator: str, x: Node, other: Node) -> Node:
    if not x.dtype.is_integer:
        raise NotImplementedError(f"{operator}: not implemented for {x.dtype}; needs integer tensors, convert with .to(torch.int64)")
    a, b = x, other
    for _ in range(STEPS[8 * x.dtype.itemsize]):
        done = p.eq(b, p.number(0, b))
        a, b = p.where(done, a, b), p.rem(a, b)  # the remainder of a division by 0 is 0
    return p.abs_(a) if x.dtype.is_signed else a


@op("pointwise", promote="arithmetic", samples=_fibonacci)
def gcd(x: Value, other: Value) -> Node:
    """The greatest common divisor, never negative; gcd(0, 0) is 0."""
    return _divisor("gcd", x, other)


@op("pointwise", promote="arithmetic", samples=_integers)
def lcm(x: Value, other: Value) -> Node:
    """The least common multiple, never negative; 0 where either is 0."""
    product = p.mul(p.truncdiv(x, _divisor("lcm", x, other)), other)
    return p.abs_(product) if x.dtype.is_signed else product


@named_results
class Parts(NamedTuple):
    """A number as mantissa * 2 ** exponent, the mantissa in [0.5, 1) in size."""

    mantissa: Node
    exponent: Node


def _parted(make: s.SampleMaker) -> Iterator[s.Call]:
    yield (make.float(6, 5),), {}
    yield (make.float(8, low=-1.0, high=1.0) * 2.0 ** make.int(8, low=-60, high=60),), {}
    yield (make.float(4) * 1e-40,), {}


@op("pointwise", promote="arithmetic", samples=_parted)
def frexp(x: Value) -> Parts:
    """(mantissa, exponent int32) with x = mantissa * 2 ** exponent; 0, infinities and NaN are their own mantissa."""
    if not x.dtype.is_floating_point:
        raise RuntimeError(f"frexp: only supports floating-point dtypes, got {x.dtype}; convert with .float()")
    wide, digits, bias = (dtypes.int32, 23, 126) if x.dtype is dtypes.float32 else (dtypes.int64, 52, 1022)
    special = p.bitwise_or(p.eq(x, p.number(0, x)), p.invert(p.lt(p.abs_(x), p.number(math.inf, x))))
    # Numbers without a leading one get it by multiplication.
    small = p.lt(p.abs_(x), p.number(2.0 ** (1 - bias), x))
    bits = p.bitcast(p.where(small, p.mul(x, p.number(2.0 ** (digits + 1), x)), x), to=wide)
    stored = p.bitwise_and(p.shift_right(bits, p.number(digits, bits)), p.number(2 * bias + 3, bits))
    exponent = p.sub(stored, p.where(small, p.number(bias + digits + 1, bits), p.number(bias, bits)))
    exponent = p.where(special, p.number(0, bits), exponent)
    field = p.number((2 * bias + 3) << digits, bits)
    of_half = p.bitwise_or(p.bitwise_and(bits, p.invert(field)), p.number(bias << digits, bits))
    mantissa = p.where(special, x, p.bitcast(of_half, to=x.dtype))
    scaled = p.mul(x, p.exp2(p.neg(p.cast(exponent, to=x.dtype))))
    return Parts(p.attach(mantissa, scaled), p.converted(exponent, dtypes.int32))
