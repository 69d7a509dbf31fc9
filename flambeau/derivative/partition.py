"""Splits a computation and its derivative in two: what the forward part keeps, what the backward part computes again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flambeau.core.aval import Aval
from flambeau.derivative.differentiate import depends_on, gradients
from flambeau.ir.graph import INPUT, Graph, graph_input
from flambeau.ir.node import Node, rebuild, toposort
from flambeau.prims import copy
from flambeau.prims.complex import halves_of, part


@dataclass(frozen=True)
class Partition:
    """``forward`` computes the outputs and then ``extra`` saved values.

    ``saved`` lists the forward nodes that ``backward`` takes as its first inputs (inputs, outputs and extra ones); its
    remaining inputs are the cotangents of the outputs marked in ``present``. Its outputs are the gradients of the
    inputs marked in ``given``, in order.

    The extra values among ``constants`` do not change with the inputs differentiated by. The others would be taken for constants
    too when ``backward`` itself is differentiated; that has to start from the inputs ``origins`` instead.
    """

    forward: Graph
    extra: tuple[Node, ...]
    saved: tuple[Node, ...]
    backward: Graph
    present: tuple[bool, ...]
    given: tuple[bool, ...]
    constants: frozenset[Node]
    origins: tuple[Node, ...]


def partition(
    graph: Graph, wanted: Sequence[Node], present: Sequence[bool], extra: frozenset[Node] | None = None,
    overwritten: frozenset[Node] = frozenset(),
) -> Partition:  # fmt: skip
    """Differentiate ``graph`` by the inputs ``wanted``, given cotangents of the outputs marked in ``present``.

    Only ``extra`` values are saved beside inputs and outputs when it is given; else those that are worth it. Of inputs that are
    ``overwritten`` with the outputs copies are saved.
    """
    cotangent, value = _unused(graph, "g"), _unused(graph, "v")
    cotangents = [
        graph_input(f"{cotangent}{i}", Aval(o.shape, o.dtype)) if here else None
        for i, (o, here) in enumerate(zip(graph.outputs, present, strict=True))
    ]
    parts = gradients(graph.outputs, cotangents, wanted)
    found = [g for g in parts if g is not None]
    copies = {n: copy(n, index=0) for n in overwritten}
    saved = tuple(copies.get(n, n) for n in _saved(graph, found, extra))
    kept = [n for n in saved if n.op is not INPUT and n not in graph.outputs]
    varying = [n for n in kept if n.dtype.is_inexact and n in depends_on(toposort(kept), wanted)]
    names: dict[Node, Node] = {
        node: graph_input(f"{value}{i}", Aval(node.shape, node.dtype, node.aval.weak)) for i, node in enumerate(saved)
    }
    known = dict(names) | {n: names[c] for n, c in copies.items() if c in names}
    for half, (output, index) in halves_of(graph.outputs).items():
        if output in names:
            known.setdefault(half, part(names[output], index=index))
    given = [g for g in cotangents if g is not None]
    outputs = rebuild(found, lambda node, sources: None, {**known, **{g: g for g in given}})
    return Partition(
        Graph(graph.inputs, (*graph.outputs, *kept)), tuple(kept), saved, Graph((*names.values(), *given), tuple(outputs)),
        tuple(present), tuple(g is not None for g in parts), frozenset(kept).difference(varying),
        tuple(n for n in toposort(varying) if n.op is INPUT),
    )  # fmt: skip


def _unused(graph: Graph, stem: str) -> str:
    """A stem of names that no input has: inputs are told apart by name."""
    labels = {n.attributes["label"] for n in graph.inputs}
    while any(label.startswith(stem) for label in labels):
        stem += stem[0]
    return stem


def _saved(graph: Graph, roots: Sequence[Node], extra: frozenset[Node] | None) -> tuple[Node, ...]:
    """Forward values that the backward part starts from: inputs and outputs as they are, results of reductions,
    products and draws (or just ``extra``); pointwise work and views in between are done again."""
    forward = set(toposort(graph.outputs)) | set(graph.inputs)
    outputs = set(graph.outputs)
    halves = halves_of(graph.outputs)
    seen: set[Node] = set()
    saved: dict[Node, None] = {}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        node = halves[node][0] if node in halves else node
        if node in forward and (node.op is INPUT or node in outputs or (_worth_saving(node) if extra is None else node in extra)):
            if node.op is INPUT or node.op.family != "source":
                saved[node] = None
                continue
        stack.extend(node.sources)
    return tuple(sorted(saved, key=lambda n: n.serial))


def keeps(operands: Sequence[tuple[Node, object]], outputs: Sequence[Node], value: Node, overwritten: Node | None = None) -> bool:
    """Whether a call saves ``value`` for its own backward, as it is or as a view; gradients are wanted of operands with an edge.

    Of an operand that it overwrites a call saves a copy.
    """
    ends = {n for n in (*(n for n, _ in operands), *outputs) if n is not overwritten and _shows(n, value)}
    if not ends:
        return False
    cotangents = [graph_input(f"g{i}", o.aval) if o.dtype.is_inexact else None for i, o in enumerate(outputs)]
    stops = {*(n for n, _ in operands), *outputs}
    inner = set(toposort(outputs, lambda n: () if n in stops and n not in outputs else n.sources))
    waiting = [g for g in gradients(outputs, cotangents, [n for n, edge in operands if edge is not None]) if g is not None]
    seen: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node in ends:
            return True
        if node not in seen and node not in stops and not (node in inner and _worth_saving(node)):
            seen.add(node)
            waiting.extend(node.sources)
    return False


def _shows(node: Node, value: Node) -> bool:
    while node is not value and node.op is not INPUT and (node.op.family == "view" or node.op.name in ("detach", "copy", "attach")):
        node = node.sources[0]
    return node is value


def _worth_saving(node: Node) -> bool:
    if node.op is INPUT:  # a number
        return False
    if node.op.family in ("reduce", "matmul", "row", "random", "factor") or node.op.name == "scatter":
        return True
    # a mask made of random numbers is smaller than the numbers
    return node.dtype.itemsize == 1 and any(s.op is not INPUT and s.op.family == "random" for s in node.sources)
