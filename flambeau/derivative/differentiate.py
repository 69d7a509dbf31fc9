"""Reverse-mode derivative of a graph: graph in, graph out."""

from __future__ import annotations

from collections.abc import Sequence

from flambeau.ir.node import Node, toposort
from flambeau.ops.declare import Region, region_of
from flambeau.prims import complex as parted
from flambeau.prims.pointwise import number
from flambeau.prims.pointwise import total as total_of


def gradients(outputs: Sequence[Node], cotangents: Sequence[Node | None], inputs: Sequence[Node]) -> list[Node | None]:
    """For each input the node that computes sum over outputs of cotangent * d(output)/d(input); None where it is zero.

    Cotangents have the shape and dtype of their outputs (None: zero). Only paths from ``inputs`` are followed. Operators
    that declare a derivative of their own are differentiated as a whole.
    """
    wanted = set(inputs)
    order = toposort(outputs, lambda node: () if node in wanted else node.sources)
    active = depends_on(order, inputs)
    total: dict[Node, Node] = {}
    for output, cotangent in zip(outputs, cotangents, strict=True):
        if cotangent is not None and output in active:
            _accumulate(total, output, cotangent)
    place = {node: i for i, node in enumerate(order)}
    for node in reversed(order):
        if node.dtype.is_complex:
            _gather_parts(node, total)
        if node in wanted or node.op is parted.part:
            continue
        region = region_of(node)
        if region is not None:
            # the cotangents of all results in use are known once the first of them is reached
            if node is min((o for o in region.outputs if o in place), key=lambda o: place[o]):
                _through_region(region, total, active)
        elif node in total and any(s in active for s in node.sources):
            _through_node(node, total, active)
    return [total.get(i) for i in inputs]


def _gather_parts(node: Node, total: dict[Node, Node]) -> None:
    """Give a complex node the gradients of its parts, which all their readers have added to by now."""
    found = [total.get(Node(parted.part, (node,), index=k)) for k in (0, 1)]
    known = next((g for g in found if g is not None), None)
    if known is not None:
        _accumulate(total, node, parted.pair(*(number(0, known) if g is None else g for g in found)))


def _through_node(node: Node, total: dict[Node, Node], active: set[Node]) -> None:
    if node.op.derivative is None:
        if not node.dtype.is_inexact:
            return
        raise NotImplementedError(f"derivative for {node.op.name} is not implemented; detach() its operand")
    parts = node.op.derivative(total[node], node, *node.sources, **node.attributes)
    for source, part in zip(node.sources, parts, strict=True):
        if part is not None and source in active and source.dtype.is_inexact:
            _accumulate(total, source, part)


def _through_region(region: Region, total: dict[Node, Node], active: set[Node]) -> None:
    cotangents = tuple(None if o is None else total.get(o) for o in region.outputs)
    if all(c is None for c in cotangents):
        return
    parts = region.derivative(cotangents, region.outputs, region.arguments)
    for operand, part in zip(region.operands, parts, strict=True):
        if part is not None and isinstance(operand, Node) and operand in active and operand.dtype.is_inexact:
            _accumulate(total, operand, part)


def _accumulate(total: dict[Node, Node], node: Node, part: Node) -> None:
    known = total.get(node)
    total[node] = part if known is None else total_of(known, part)


def depends_on(order: Sequence[Node], inputs: Sequence[Node]) -> set[Node]:
    """The nodes of a topological order that change with ``inputs``, these included."""
    active = set(inputs)
    for node in order:
        if any(s in active for s in node.sources):
            active.add(node)
    return active
