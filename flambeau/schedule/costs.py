"""Rough costs of primitives, in additions an element: what is worth storing and what is worth computing again."""

from __future__ import annotations

from flambeau.ir.node import Node

_EXPENSIVE = {
    "exp": 10, "exp2": 10, "expm1": 16, "log": 12, "log2": 12, "log10": 14, "log1p": 16, "sin": 20, "cos": 20, "tan": 30, "asin": 30,
    "acos": 30, "atan": 25, "sinh": 25, "cosh": 25, "tanh": 18, "asinh": 40, "acosh": 40, "atanh": 30, "erf": 20, "erfc": 40,
    "erfinv": 40, "lgamma": 200, "digamma": 200, "pow": 40, "atan2": 40, "div": 4, "sqrt": 5, "rsqrt": 8, "rem": 30, "truncdiv": 30,
    "take": 6, "nextafter": 8,
}  # fmt: skip


def pointwise_cost(node: Node) -> int:
    """The cost of one element of ``node`` itself, its operands not counted."""
    return _EXPENSIVE.get(node.op.name, 1)


def is_cheap(node: Node) -> bool:
    """Whether computing the node again costs less than loading it."""
    return pointwise_cost(node) <= 1
