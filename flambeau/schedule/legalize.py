"""Makes a graph schedulable: outputs are computed, and what templates read lies in memory with plain strides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flambeau import prims as p
from flambeau.core.symbolic import Dim, axis, contiguous_strides, is_constant, linear_index
from flambeau.ir.graph import INPUT, Graph
from flambeau.ir.node import Node, rebuild
from flambeau.schedule.views import coefficient_of, reads_of

Strides = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class StridedOperand:
    """``leaf`` (an input or computed node) read at ``offset + sum of coordinate * stride``."""

    leaf: Node
    offset: Dim
    strides: Strides


def strided_operand(node: Node, layouts: Mapping[Node, Strides]) -> StridedOperand | None:
    """The node as a strided view of a buffer; None when it needs more than strides (padding, joins, splits)."""
    names = [f"k{i}" for i in range(len(node.shape))]
    coordinates = tuple(
        0 if is_constant(n, 1) else axis(name, n) for name, n in zip(names, node.shape, strict=True)
    )
    at = coordinates
    leaf = node
    while leaf.op is not INPUT and leaf.op.family == "view":
        reads = reads_of(leaf, at)
        if len(reads) != 1 or reads[0].conditions:
            return None
        leaf, at = leaf.sources[reads[0].position], reads[0].coordinates
    if leaf.op is not INPUT and leaf.op.family == "source":
        return None
    rest = linear_index(at, layouts.get(leaf) or contiguous_strides(leaf.shape))
    strides: list[Dim] = []
    for coordinate in coordinates:
        if is_constant(coordinate, 0):
            strides.append(0)
            continue
        factor = coefficient_of(rest, coordinate)
        if factor is None:
            return None
        strides.append(factor)
        rest = rest - factor * coordinate
    return StridedOperand(leaf, rest, tuple(strides))


def batch_stride(shape: tuple[Dim, ...], strides: Strides) -> Dim | None:
    """One stride for all batch axes of a [..., M, K] operand, or None when they do not merge."""
    merged: Dim | None = None
    reach: Dim = 0
    for size, stride in zip(reversed(shape[:-2]), reversed(strides[:-2]), strict=True):
        if is_constant(size, 1):
            continue
        if merged is None:
            merged, reach = stride, stride * size
        elif is_constant(stride - reach, 0):
            reach = stride * size
        else:
            return None
    return 0 if merged is None else merged


def legalize(graph: Graph, layouts: Mapping[Node, Strides]) -> Graph:
    """Insert copies; see the module's sentence. ``layouts`` holds the strides of inputs that are not row-major."""
    count = 0

    def copied(node: Node) -> Node:
        nonlocal count
        count += 1
        return p.copy(node, index=count)

    known: dict[Node, Node] = {}

    def replace(node: Node, sources: tuple[Node, ...]) -> Node | None:
        if node.op is INPUT:
            return node
        if node.op.name == "matmul":
            return Node(node.op, tuple(_matmul_operand(s, layouts) for s in sources), **node.attributes)
        if node.op.family == "row":
            ready = tuple(s if s.op is not INPUT and s.op.family not in ("view", "source") else p.copy(s) for s in sources)
            return Node(node.op, ready, **node.attributes)
        if node.op.name == "scatter":
            return Node(node.op, (copied(sources[0]), *sources[1:]), **node.attributes)
        if node.op.name == "as_strided" and strided_operand(sources[0], layouts) is None:
            return Node(node.op, (p.copy(sources[0]), *sources[1:]), **node.attributes)
        return None

    outputs: list[Node] = []
    for node in rebuild(graph.outputs, replace, known):
        computed = node.op is not INPUT and node.op.family not in ("view", "source")
        outputs.append(node if computed and node not in outputs else copied(node))
    return Graph(graph.inputs, tuple(outputs))


def _matmul_operand(node: Node, layouts: Mapping[Node, Strides]) -> Node:
    operand = strided_operand(node, layouts)
    if operand is not None and batch_stride(node.shape, operand.strides) is not None:
        return node
    return p.copy(node)
