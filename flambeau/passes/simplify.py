"""Exact simplifications of a graph, one pass from inputs to outputs: nothing here changes a single bit of a result."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau import prims as p
from flambeau.core.symbolic import is_constant
from flambeau.ir.graph import INPUT, Graph
from flambeau.ir.node import Node, rebuild

# What a reduction of no elements gives, where that is not an error.
_OF_NOTHING = {"sum": 0, "prod": 1, "any": False, "all": True}

Rule = Callable[[Node, tuple[Node, ...]], Node | None]


def simplify(graph: Graph) -> Graph:
    """Drop conversions, views and reductions that do nothing, merge chains of views, and compute with constants."""

    def replace(node: Node, sources: tuple[Node, ...]) -> Node | None:
        if node.op is INPUT:
            return node
        folded = _fold(node, sources)
        if folded is not None:
            return folded
        rule = RULES.get(node.op.name)
        return rule(node, sources) if rule is not None else None

    return Graph(graph.inputs, tuple(rebuild(graph.outputs, replace)))


def _cast(node: Node, sources: tuple[Node, ...]) -> Node | None:
    (x,) = sources
    to = node.attributes["to"]
    if x.dtype is to:
        return x
    if x.op is p.full:
        return p.constant(x.attributes["value"], x.shape, to) if _converts_exactly(x, to) else None
    if x.op is p.cast and x.sources[0].dtype is to and holds_all(to, x.dtype):
        return x.sources[0]  # there and back through a type that holds every value
    return None


def _converts_exactly(x: Node, to: object) -> bool:
    value = x.attributes["value"]
    if not isinstance(value, (bool, int, float)):
        return False
    name = getattr(to, "name", "")
    if isinstance(value, float):
        return name == "float64" or (name == "float32" and x.dtype.name in ("float16", "bfloat16", "float32"))
    return abs(value) < {"float64": 1 << 53, "int64": 1 << 53, "float32": 1 << 24}.get(name, 0)


# Rounded once, by every machine alike.
_EXACT: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt,
}  # fmt: skip


def _fold(node: Node, sources: tuple[Node, ...]) -> Node | None:
    """The constant that an operation on constants gives."""
    compute = _EXACT.get(node.op.name)
    if compute is None or node.dtype.name not in ("float32", "float64") or not all(s.op is p.full for s in sources):
        return None
    values = [s.attributes["value"] for s in sources]
    if not all(isinstance(v, (bool, int, float)) and s.dtype is node.dtype for v, s in zip(values, sources, strict=True)):
        return None
    with np.errstate(all="ignore"):
        result = compute(*(np.asarray(v).astype(node.dtype.numpy) for v in values)).item()
    return p.constant(result, node.shape, node.dtype) if math.isfinite(result) else None


_HOLDS = {
    ("bfloat16", "float32"), ("bfloat16", "float64"), ("float16", "float32"), ("float16", "float64"), ("float32", "float64"),
    ("int8", "int32"), ("int8", "int64"), ("uint8", "int32"), ("uint8", "int64"), ("int16", "int32"), ("int16", "int64"),
    ("int32", "int64"), ("int32", "float64"), ("int16", "float32"), ("int8", "float32"), ("uint8", "float32"), ("bool", "float32"),
    ("bool", "int64"),
}  # fmt: skip


def holds_all(small: object, large: object) -> bool:
    """Whether every value of one dtype is a value of the other."""
    return (getattr(small, "name", ""), getattr(large, "name", "")) in _HOLDS


def _detach(node: Node, sources: tuple[Node, ...]) -> Node | None:
    return sources[0]


def _reshape(node: Node, sources: tuple[Node, ...]) -> Node | None:
    (x,) = sources
    shape = node.attributes["shape"]
    if _same_shape(x.shape, shape):
        return x
    if x.op is p.reshape:
        return p.reshape(x.sources[0], shape=shape) if not _same_shape(x.sources[0].shape, shape) else x.sources[0]
    if x.op is p.full:
        return p.full(shape=shape, value=x.attributes["value"], dtype=x.dtype)
    return None


def _expand(node: Node, sources: tuple[Node, ...]) -> Node | None:
    (x,) = sources
    shape = node.attributes["shape"]
    if _same_shape(x.shape, shape):
        return x
    if x.op is p.full:
        return p.full(shape=shape, value=x.attributes["value"], dtype=x.dtype)
    return p.expand(x.sources[0], shape=shape) if x.op is p.expand else None


def _permute(node: Node, sources: tuple[Node, ...]) -> Node | None:
    (x,) = sources
    axes = node.attributes["axes"]
    if x.op is p.permute:
        inner = x.attributes["axes"]
        axes, x = tuple(inner[a] for a in axes), x.sources[0]
    if axes == tuple(range(len(axes))):
        return x
    return p.permute(x, axes=axes)


def _slice(node: Node, sources: tuple[Node, ...]) -> Node | None:
    a = node.attributes
    whole = all(is_constant(s, 0) for s in a["starts"]) and all(s == 1 for s in a["steps"])
    return sources[0] if whole and _same_shape(sources[0].shape, node.shape) else None


def _reduce(node: Node, sources: tuple[Node, ...]) -> Node | None:
    (x,) = sources
    reduced = [n for axis, n in enumerate(x.shape) if axis in node.attributes["axes"]]
    if any(is_constant(n, 0) for n in reduced) and node.attributes["kind"] in _OF_NOTHING:
        # No kernel may read even the first element of what is empty.
        return p.constant(_OF_NOTHING[node.attributes["kind"]], node.shape, node.dtype)
    if all(is_constant(n, 1) for n in reduced):
        return p.reshape(x, shape=node.shape) if not _same_shape(x.shape, node.shape) else x
    return None


def _argreduce(node: Node, sources: tuple[Node, ...]) -> Node | None:
    axis: int = node.attributes["axis"]
    if is_constant(sources[0].shape[axis], 1):
        return p.constant(0, node.shape, node.dtype)
    return None


def _cat(node: Node, sources: tuple[Node, ...]) -> Node | None:
    return sources[0] if len(sources) == 1 else None


def _mul(node: Node, sources: tuple[Node, ...]) -> Node | None:
    for x, other in (sources, sources[::-1]):
        if other.op is p.full and isinstance(other.attributes["value"], (int, float)) and other.attributes["value"] == 1:
            return x
    return None


def _div(node: Node, sources: tuple[Node, ...]) -> Node | None:
    x, other = sources
    return x if other.op is p.full and other.attributes["value"] == 1 else None


def _same_shape(a: tuple[object, ...], b: tuple[object, ...]) -> bool:
    pairs = zip(a, b, strict=False)
    return len(a) == len(b) and all(m is n or (isinstance(m, int) and isinstance(n, int) and m == n) for m, n in pairs)


RULES: dict[str, Rule] = {
    "cast": _cast, "detach": _detach, "attach": _detach, "own": _detach, "slope": _detach, "reshape": _reshape, "expand": _expand,
    "permute": _permute, "slice": _slice, "reduce": _reduce, "argreduce": _argreduce, "cat": _cat, "mul": _mul, "div": _div,
}  # fmt: skip
