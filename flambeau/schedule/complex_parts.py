"""Complex operands as pairs of real ones: a number in memory is its real part and, next to it, its imaginary part."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flambeau import prims as p
from flambeau.core.aval import Aval
from flambeau.core.symbolic import Dim, contiguous_strides
from flambeau.ir.graph import INPUT, Graph, graph_input
from flambeau.ir.node import Node, rebuild
from flambeau.schedule.specs import InputSpec, OutputSpec, Strides


@dataclass(frozen=True)
class RealForm:
    """A computation over real numbers, and how many real operands stand for each of its inputs and outputs before."""

    graph: Graph
    inputs: tuple[InputSpec, ...]
    outputs: tuple[OutputSpec, ...]
    input_counts: tuple[int, ...]
    output_counts: tuple[int, ...]


def split_complex(graph: Graph, inputs: Sequence[InputSpec], outputs: Sequence[OutputSpec]) -> RealForm:
    """The same computation over real numbers: complex inputs and outputs are two each, which step over each other.

    One that the graph has as real numbers with an axis of size 2 anyway is that.
    """
    if not any(n.dtype.is_complex for n in graph.nodes()):
        ones = (1,) * len(graph.inputs), (1,) * len(graph.outputs)
        return RealForm(graph, tuple(inputs), tuple(outputs), *ones)
    apart = _read_by_parts(graph) | {graph.inputs[spec.into] for spec in outputs if spec.into is not None}
    nodes: dict[Node, Node] = {}
    made = [_split_input(node, spec, node in apart, nodes) for node, spec in zip(graph.inputs, inputs, strict=True)]
    first = list(itertools.accumulate((len(m) for m in made), initial=0))
    roots = [_real_root(node, spec) for node, spec in zip(graph.outputs, outputs, strict=True)]
    results: list[list[tuple[Node, OutputSpec]]] = []
    for old, root, new, spec in zip(graph.outputs, roots, rebuild(roots, _real, nodes), outputs, strict=True):
        at = None if spec.into is None else first[spec.into]
        if not new.dtype.is_complex:
            steps = None if spec.strides is None else _doubled(old, spec.strides)
            strides = spec.strides if root is old else None if steps is None else (*steps, 1)
            results.append([(new, OutputSpec(strides, at))])
            continue
        real, imaginary = (_steppable(p.part(new, index=k)) for k in (0, 1))
        halves = [(real, at), (p.beside(imaginary, real), None if at is None else at + 1)]
        results.append([(half, OutputSpec(_doubled(old, spec.strides), into)) for half, into in halves])
    real_inputs, real_outputs = [i for m in made for i in m], [r for found in results for r in found]
    return RealForm(
        Graph(tuple(n for n, _ in real_inputs), tuple(n for n, _ in real_outputs)), tuple(s for _, s in real_inputs),
        tuple(s for _, s in real_outputs), tuple(map(len, made)), tuple(map(len, results)),
    )  # fmt: skip


def _read_by_parts(graph: Graph) -> set[Node]:
    """The inputs that something reads otherwise than as real numbers with an axis of size 2."""
    return {s for node in graph.nodes() if node.op is not INPUT and node.op is not p.as_real for s in node.sources} | set(graph.outputs)


def _real_root(node: Node, spec: OutputSpec) -> Node:
    while node.op is p.whole:
        node = node.sources[0]
    return node.sources[0] if node.op is p.as_complex and spec.into is None else node


def _split_input(node: Node, spec: InputSpec, apart: bool, nodes: dict[Node, Node]) -> list[tuple[Node, InputSpec]]:
    if not node.dtype.is_complex:
        nodes[node] = node
        return [(node, spec)]
    label, kind = node.attributes["label"], node.dtype.to_real()
    if not apart and not spec.scalar:
        steps = None if spec.strides is None else (*_doubled(node, spec.strides), 1)
        whole = nodes[Node(p.as_real, (node,))] = graph_input(f"{label}_parts", Aval((*node.shape, 2), kind))
        return [(whole, InputSpec(steps))]
    halves = [graph_input(f"{label}_{name}", Aval(node.shape, kind, node.aval.weak)) for name in ("real", "imag")]
    nodes[node] = p.pair(*halves)
    half = InputSpec(None if spec.scalar else _doubled(node, spec.strides), spec.scalar)
    return [(h, half) for h in halves]


def _steppable(x: Node) -> Node:
    """``x``, or a copy of what a template writes row by row, which cannot step over the other part."""
    leaf = x
    while leaf.op is not INPUT and leaf.op.family == "view":
        leaf = leaf.sources[0]
    return p.copy(x) if leaf.op is p.scatter or (leaf.op is not INPUT and leaf.op.family in ("row", "random", "join", "factor")) else x


def _doubled(node: Node, strides: Strides | None) -> Strides:
    steps: Sequence[Dim] = contiguous_strides(node.shape) if strides is None else strides
    return tuple(2 * s for s in steps)


def _real(node: Node, sources: tuple[Node, ...]) -> Node | None:
    if node.op is p.whole:
        return sources[0]
    if any(s.dtype.is_complex for s in sources):
        return node.op(*sources, **node.attributes)
    return p.pair(*(p.part(node.op(*sources, **node.attributes), index=k) for k in (0, 1))) if node.op is p.as_complex else None


def merge_parts(nodes: Sequence[Node], counts: Sequence[int], patches: Sequence[list[Any]], make: Any) -> list[list[Any]]:
    """For each of ``nodes`` its patches (slot, offset), from those of the real operands that stand for it."""
    rest = iter(patches)
    out: list[list[Any]] = []
    for node, count in zip(nodes, counts, strict=True):
        out.append(next(rest))
        if count == 2:
            out[-1] = out[-1] + [make(slot, offset + node.dtype.itemsize // 2) for slot, offset in next(rest)]
    return out


def split_numbers(numbers: Sequence[Any], nodes: Sequence[Node]) -> list[Any]:
    """The parts of complex numbers in place of these."""
    out: list[Any] = []
    for value, node in zip(numbers, nodes, strict=True):
        out += [complex(value).real, complex(value).imag] if node.dtype.is_complex else [value]
    return out


def split_addresses(nodes: Sequence[Node], counts: Sequence[int], addresses: Sequence[int]) -> list[int]:
    """The addresses of the real operands that stand for complex ones."""
    found = zip(nodes, counts, addresses, strict=True)
    return [address + k * node.dtype.itemsize // 2 for node, count, address in found for k in range(count)]
