"""Arithmetic, comparison and the elementary functions."""

from __future__ import annotations

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.ir.node import Node, bind_arithmetic
from flambeau.ops.declare import Value, op
from flambeau.ops.samples import binary, positive, unary


@op("pointwise", promote="arithmetic", samples=binary)
def add(x: Value, y: Value, *, alpha: Value = 1) -> Node:
    """x + alpha * y."""
    return p.add(x, y if alpha == 1 else p.mul(y, alpha))


@op("pointwise", promote="arithmetic", samples=binary)
def sub(x: Value, y: Value, *, alpha: Value = 1) -> Node:
    """x - alpha * y."""
    if x.dtype is dtypes.bool_:
        raise RuntimeError("sub: subtraction of bool tensors is not supported; use logical_xor() or bitwise_xor()")
    return p.sub(x, y if alpha == 1 else p.mul(y, alpha))


@op("pointwise", promote="arithmetic", samples=binary)
def mul(x: Value, y: Value) -> Node:
    """x * y."""
    return p.mul(x, y)


@op("pointwise", promote="float", samples=binary)
def true_divide(x: Value, y: Value) -> Node:
    """x / y in floating point."""
    return p.div(x, y)


@op("pointwise", promote="arithmetic", samples=unary)
def neg(x: Value) -> Node:
    """-x."""
    if x.dtype is dtypes.bool_:
        raise RuntimeError("neg: negation of a bool tensor is not supported; use logical_not() or ~x")
    return p.neg(x)


@op("pointwise", promote="float", samples=unary)
def exp(x: Value) -> Node:
    """e ** x."""
    return p.exp(x)


@op("pointwise", promote="float", samples=positive)
def log(x: Value) -> Node:
    """The natural logarithm."""
    return p.log(x)


@op("pointwise", promote="arithmetic", samples=binary)
def lt(x: Value, y: Value) -> Node:
    """Whether x < y."""
    return p.lt(x, y)


bind_arithmetic({"add": add, "sub": sub, "mul": mul, "div": true_divide, "neg": neg, "lt": lt})
