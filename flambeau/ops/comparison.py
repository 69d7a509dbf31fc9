"""Comparison, tests of single elements, logical and bitwise operations."""

from __future__ import annotations

import math

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.ir.node import Node
from flambeau.ops.declare import Value, op
from flambeau.ops.samples import bits, logical, ordered, shifts, special, special_pairs


@op("pointwise", promote="arithmetic", samples=ordered)
def eq(x: Value, other: Value) -> Node:
    """Whether x == other."""
    return p.eq(x, other)


@op("pointwise", promote="arithmetic", samples=ordered)
def ne(x: Value, other: Value) -> Node:
    """Whether x != other."""
    return p.ne(x, other)


@op("pointwise", promote="arithmetic", samples=ordered)
def lt(x: Value, other: Value) -> Node:
    """Whether x < other."""
    return p.lt(x, other)


@op("pointwise", promote="arithmetic", samples=ordered)
def le(x: Value, other: Value) -> Node:
    """Whether x <= other."""
    return p.le(x, other)


@op("pointwise", promote="arithmetic", samples=ordered)
def gt(x: Value, other: Value) -> Node:
    """Whether x > other."""
    return p.lt(other, x)


@op("pointwise", promote="arithmetic", samples=ordered)
def ge(x: Value, other: Value) -> Node:
    """Whether x >= other."""
    return p.le(other, x)


@op("pointwise", promote="arithmetic", samples=special)
def isnan(x: Value) -> Node:
    """Whether x is NaN."""
    return p.isnan(x) if x.dtype.is_inexact else p.constant(False, x.shape, dtypes.bool_)


@op("pointwise", promote="arithmetic", samples=special)
def isinf(x: Value) -> Node:
    """Whether x is an infinity of either sign."""
    if x.dtype.is_complex:
        return p.bitwise_or(*(isinf(p.part(x, index=k)) for k in (0, 1)))
    if not x.dtype.is_floating_point:
        return p.constant(False, x.shape, dtypes.bool_)
    return p.eq(p.abs_(x), p.number(math.inf, x))


@op("pointwise", promote="arithmetic", samples=special)
def isfinite(x: Value) -> Node:
    """Whether x is neither infinite nor NaN."""
    if x.dtype.is_complex:
        return p.bitwise_and(*(isfinite(p.part(x, index=k)) for k in (0, 1)))
    if not x.dtype.is_floating_point:
        return p.constant(True, x.shape, dtypes.bool_)
    return p.lt(p.abs_(x), p.number(math.inf, x))


def _require_real(operator: str, x: Node) -> None:
    if x.dtype.is_complex:
        raise RuntimeError(f"{operator} does not support complex inputs; look at .real and .imag")


@op("pointwise", promote="arithmetic", samples=special)
def isposinf(x: Value) -> Node:
    """Whether x is positive infinity."""
    _require_real("isposinf", x)
    return p.eq(x, p.number(math.inf, x)) if x.dtype.is_floating_point else p.constant(False, x.shape, dtypes.bool_)


@op("pointwise", promote="arithmetic", samples=special)
def isneginf(x: Value) -> Node:
    """Whether x is negative infinity."""
    _require_real("isneginf", x)
    return p.eq(x, p.number(-math.inf, x)) if x.dtype.is_floating_point else p.constant(False, x.shape, dtypes.bool_)


@op("pointwise", promote="arithmetic", samples=special)
def signbit(x: Value) -> Node:
    """Whether the sign bit is set: true of negative numbers and of -0.0."""
    if x.dtype is dtypes.bool_:
        return p.number(False, x)
    return p.lt(p.copysign(p.number(1, x), x) if x.dtype.is_floating_point else x, p.number(0, x))


@op("pointwise", promote="same", promoted=("x", "other"), samples=special_pairs)
def isclose(x: Value, other: Value, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Node:
    """Whether |x - other| <= atol + rtol * |other|; NaN equals NaN if ``equal_nan``."""
    if rtol < 0 or atol < 0:
        raise RuntimeError(f"isclose: rtol and atol must be greater than or equal to zero, but got {rtol} and {atol}")
    close = p.eq(x, other)
    if not x.dtype.is_inexact:
        x, other = p.cast(x, to=dtypes.float64), p.cast(other, to=dtypes.float64)
    else:
        close = close | (p.isnan(x) & p.isnan(other)) if equal_nan else close
    allowed = p.abs_(other) * rtol + atol
    distance = p.abs_(x - other)
    return close | (isfinite(distance) & p.le(distance, allowed))


# -- logic ----------------------------------------------------------------------------------------------
def truth(x: Node) -> Node:
    """x as bool: whether it differs from zero."""
    if x.dtype is dtypes.bool_:
        return x
    x = x if x.dtype is x.dtype.compute else p.cast(x, to=x.dtype.compute)
    return p.ne(x, p.number(0, x))


@op("pointwise", samples=logical)
def logical_and(x: Value, other: Value) -> Node:
    """Whether both differ from zero."""
    return p.bitwise_and(truth(x), truth(other))


@op("pointwise", samples=logical)
def logical_or(x: Value, other: Value) -> Node:
    """Whether either differs from zero."""
    return p.bitwise_or(truth(x), truth(other))


@op("pointwise", samples=logical)
def logical_xor(x: Value, other: Value) -> Node:
    """Whether exactly one differs from zero."""
    return p.bitwise_xor(truth(x), truth(other))


@op("pointwise", samples=special)
def logical_not(x: Value) -> Node:
    """Whether x is zero."""
    return p.invert(truth(x))


# -- bits -----------------------------------------------------------------------------------------------
def _require_bits(operator: str, x: Node, *, boolean: bool = True) -> None:
    if not (x.dtype.is_integer or (boolean and x.dtype is dtypes.bool_)):
        needs = "an integer or bool tensor" if boolean else "an integer tensor"
        raise NotImplementedError(f"{operator}: not implemented for {x.dtype}; needs {needs}, convert with .to(torch.int64)")


@op("pointwise", promote="arithmetic", samples=bits)
def bitwise_and(x: Value, other: Value) -> Node:
    """The bits set in both; logical and of bools."""
    _require_bits("bitwise_and", x)
    return p.bitwise_and(x, other)


@op("pointwise", promote="arithmetic", samples=bits)
def bitwise_or(x: Value, other: Value) -> Node:
    """The bits set in either; logical or of bools."""
    _require_bits("bitwise_or", x)
    return p.bitwise_or(x, other)


@op("pointwise", promote="arithmetic", samples=bits)
def bitwise_xor(x: Value, other: Value) -> Node:
    """The bits set in exactly one; logical exclusive or of bools."""
    _require_bits("bitwise_xor", x)
    return p.bitwise_xor(x, other)


@op("pointwise", promote="arithmetic", samples=lambda make: ((call[0][:1], {}) for call in bits(make)))
def bitwise_not(x: Value) -> Node:
    """All bits flipped; logical not of a bool."""
    _require_bits("bitwise_not", x)
    return p.invert(x)


@op("pointwise", promote="arithmetic", samples=shifts)
def bitwise_left_shift(x: Value, other: Value) -> Node:
    """x * 2 ** other, overflow dropped; 0 where ``other`` is negative or the width of the type or more."""
    _require_bits("bitwise_left_shift", x, boolean=False)
    return p.where(_shift_fits(other), p.shift_left(x, other), p.number(0, x))


@op("pointwise", promote="arithmetic", samples=shifts)
def bitwise_right_shift(x: Value, other: Value) -> Node:
    """x // 2 ** other, keeping the sign; shifts that are negative or too long leave only the sign."""
    _require_bits("bitwise_right_shift", x, boolean=False)
    longest = p.number(8 * x.dtype.itemsize - 1, x)
    sign_only = p.shift_right(x, longest) if x.dtype.is_signed else p.number(0, x)
    return p.where(_shift_fits(other), p.shift_right(x, other), sign_only)


def _shift_fits(count: Node) -> Node:
    inside = p.lt(count, p.number(8 * count.dtype.itemsize, count))
    return p.bitwise_and(p.le(p.number(0, count), count), inside)
