"""The verifier of graphs: what every pass may rely on; run after each pass in tests (kernels have their own in `ir.kernel`)."""

from __future__ import annotations

from flambeau.core.symbolic import Dim, shapes_differ
from flambeau.ir.graph import INPUT, Graph
from flambeau.ir.kernel import KernelOperation
from flambeau.ir.node import Node

__all__ = ["verify_graph", "verify_schedulable"]


def verify_graph(graph: Graph) -> None:
    """Raise ValueError when the graph breaks a rule.

    Inputs are distinct, have names of their own, and include every input that an output follows from. Operations are
    primitives, and the type of every node is what its operation makes of its operands. There are no circles to look for: a
    node is built from nodes that exist.
    """
    labels = [n.attributes["label"] for n in graph.inputs if n.op is INPUT]
    if len(labels) != len(graph.inputs) or len(set(labels)) != len(labels):
        raise ValueError(f"the inputs {[str(n) for n in graph.inputs]} are not distinct inputs")
    known = set(graph.inputs)
    for node in graph.nodes():
        if node.op is INPUT:
            if node not in known:
                raise ValueError(f"input {node.attributes['label']!r} is used but not listed")
            continue
        if isinstance(node.op, KernelOperation):
            raise ValueError(f"{node!r} exists only inside kernels")
        _verify_type(node)


def _verify_type(node: Node) -> None:
    found = node.op.infer(node.sources, node.attributes)
    if found.dtype is not node.dtype or _shape_differs(found.shape, node.shape):
        raise ValueError(f"{node!r} should be {found}")


def _shape_differs(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    return len(a) != len(b) or shapes_differ(a, b)


def verify_schedulable(graph: Graph) -> None:
    """`verify_graph`, and what legalization adds: every output is computed, each by a node of its own."""
    verify_graph(graph)
    if len(set(graph.outputs)) != len(graph.outputs):
        raise ValueError("two outputs are the same node; copy one")
    for node in graph.outputs:
        if node.op is INPUT or node.op.family in ("view", "source"):
            raise ValueError(f"output {node!r} is not computed; copy it")
