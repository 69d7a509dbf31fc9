"""Reverse-mode derivative of a graph: graph in, graph out."""

from __future__ import annotations

from collections.abc import Sequence

from flambeau import prims as p
from flambeau.ir.node import Node, toposort

def gradients(
    outputs: Sequence[Node], cotangents: Sequence[Node | None], inputs: Sequence[Node]
) -> list[Node | None]:
    """For each input the node that computes sum over outputs of cotangent * d(output)/d(input); None where it is zero.

    Cotangents have the shape and dtype of their outputs (None: zero). Only paths from ``inputs`` are followed.
    """
    order = toposort(outputs)
    active = _depends_on(order, inputs)
    total: dict[Node, Node] = {}
    for output, cotangent in zip(outputs, cotangents, strict=True):
        if cotangent is not None and output in active:
            _accumulate(total, output, cotangent)
    wanted = set(inputs)
    for node in reversed(order):
        g = total.get(node)
        if g is None or node in wanted and not node.sources:
            continue
        if not any(s in active for s in node.sources):
            continue
        if node.op.derivative is None:
            if not node.dtype.is_floating_point:
                continue
            raise NotImplementedError(f"derivative for {node.op.name} is not implemented; detach() its operand")
        for source, part in zip(node.sources, node.op.derivative(g, node, *node.sources, **node.attributes), strict=True):
            if part is not None and source in active and source.dtype.is_floating_point:
                _accumulate(total, source, part)
    return [total.get(i) for i in inputs]

def _accumulate(total: dict[Node, Node], node: Node, part: Node) -> None:
    known = total.get(node)
    total[node] = part if known is None else p.add(known, part)

def _depends_on(order: Sequence[Node], inputs: Sequence[Node]) -> set[Node]:
    active = set(inputs)
    for node in order:
        if any(s in active for s in node.sources):
            active.add(node)
    return active

def zeros_where_missing(parts: Sequence[Node | None], like: Sequence[Node]) -> list[Node]:
    """Explicit zeros in place of None."""
    return [p.constant(0, x.shape, x.dtype) if g is None else g for g, x in zip(parts, like, strict=True)]

