"""Views and in-place changes: what a tensor is a view of, and how a change of the view reaches the base's history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.core.symbolic import product
from flambeau.derivative.differentiate import gradients
from flambeau.interp.functions import GraphFunction
from flambeau.interp.tracing import Template, fill
from flambeau.ir.graph import INPUT, Graph, graph_input
from flambeau.ir.node import Node
from flambeau.ops.declare import Operator
from flambeau.prims.indexing import strided_positions
from flambeau.runtime.native.records import ViewFields
from flambeau.runtime.storage import TensorMeta


@dataclass(frozen=True, slots=True)
class Step:
    """One view operator: applied to a tensor with these arguments it gave output ``output``."""

    operator: Operator
    template: Template
    sizes: tuple[int, ...]
    output: int

    def through(self, node: Node) -> Node:
        """What the step shows of ``node``."""
        result = self.operator.inline(list(fill(self.template, [node], [], self.sizes)))
        return result if isinstance(result, Node) else result[self.output]


class View(ViewFields):
    """``base`` seen through ``steps``."""

    __slots__ = ()
    base: Any
    steps: tuple[Step, ...]

    def __init__(self, base: Any, steps: tuple[Step, ...]) -> None:
        self.base = base
        self.steps = steps


def put(base: Node, view: Node, value: Node) -> Node:
    """``base`` with ``value`` in the place of its elements that ``view`` (views over ``base``) shows."""
    if view is base:
        return value
    source = view.sources[0]
    return put(base, source, _put_step(source, view, value))


def _put_step(source: Node, view: Node, value: Node) -> Node:
    attributes = view.attributes
    match view.op.name:
        case "reshape":
            return p.reshape(value, shape=source.shape)
        case "permute":
            axes = attributes["axes"]
            return p.permute(value, axes=tuple(sorted(range(len(axes)), key=lambda i: axes[i])))
        case "slice":
            return _put_slice(source, view, value)
        case "as_strided":
            flat = p.reshape(value, shape=(product(value.shape),))
            positions = p.reshape(strided_positions(attributes["shape"], attributes["strides"], attributes["offset"]), shape=flat.shape)
            return p.scatter(source, flat, positions, mode="set")
        case "expand" if view.shape == source.shape:
            return value
        case "part":
            index = attributes["index"]
            other = p.part(source, index=1 - index)
            return p.pair(other, value) if index else p.pair(value, other)
        case "as_real":
            return p.as_complex(value)
        case "as_complex":
            return p.as_real(value)
        case "whole":
            return value
        case "diagonal":
            rank = len(source.shape)
            rows, columns = (p.iota(shape=source.shape, axis=rank - 2 + i, dtype=dtypes.int64) for i in range(2))
            spread = p.expand(p.reshape(value, shape=(*value.shape, 1)), shape=source.shape)
            return p.where(p.eq(rows, columns), spread, source)
    raise RuntimeError(
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please "
        "clone() the tensor "
        "before performing the operation."
    )


def _put_slice(source: Node, view: Node, value: Node) -> Node:
    low, high, interior = [], [], []
    attributes = view.attributes
    for axis, (start, size, step, n) in enumerate(
        zip(attributes["starts"], attributes["sizes"], attributes["steps"], source.shape, strict=True)
    ):
        if step < 0:
            value = p.flip(value, axis)
            start, step = start + (size - 1) * step, -step
        low.append(start)
        high.append(n - start - (size - 1) * step - 1)
        interior.append(step - 1)
    shape = {"low": tuple(low), "high": tuple(high), "interior": tuple(interior)}
    inside = p.pad(p.full(shape=value.shape, value=True, dtype=dtypes.bool_), value=False, **shape)
    zero: Any = False if value.dtype is dtypes.bool_ else 0.0 if value.dtype.is_floating_point else 0
    return p.where(inside, p.pad(value, value=zero, **shape), source)


def base_of(node: Node) -> Node:
    """The input that a chain of views starts from."""
    while node.op is not INPUT:
        node = node.sources[0]
    return node


def _shown(base: Node, steps: Sequence[Step]) -> Node:
    for step in steps:
        base = step.through(base)
    return base


@lru_cache(1 << 12)
def read_backward(base: TensorMeta, steps: tuple[Step, ...]) -> GraphFunction:
    """From the gradient of a view to that of its base."""
    source = graph_input("base", Aval(base.shape, base.dtype))
    view = _shown(source, steps)
    gradient = graph_input("gradient", view.aval)
    (part,) = gradients([view], [gradient], [source])
    assert part is not None, "a view depends on what it shows"
    return GraphFunction("view_backward", Graph((gradient,), (part,)), 1)


@lru_cache(1 << 12)
def write_backward(base: TensorMeta, steps: tuple[Step, ...]) -> GraphFunction:
    """From the gradient of an overwritten base to those of the base before and of what was written into the view."""
    gradient = graph_input("gradient", Aval(base.shape, base.dtype))
    view = _shown(gradient, steps)
    rest = put(gradient, view, p.constant(0, view.shape, view.dtype))
    return GraphFunction("view_backward", Graph((gradient,), (rest, view)), 1)
