"""Complex operands as pairs of real ones: a number in memory is its real part and, next to it, its imaginary part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau import prims as p
from flambeau.core.aval import Aval
from flambeau.core.symbolic import Dim, contiguous_strides
from flambeau.ir.graph import INPUT, Graph, graph_input
from flambeau.ir.node import Node, rebuild
from flambeau.schedule.specs import InputSpec, OutputSpec, Strides

Split = tuple[Graph, tuple[InputSpec, ...], tuple[OutputSpec, ...]]


def split_complex(graph: Graph, inputs: Sequence[InputSpec], outputs: Sequence[OutputSpec]) -> Split:
    """The same computation over real numbers: each complex input and output is two, which step over each other.

    The imaginary part lies one real number after the real part; `merge_parts` says so of the addresses of both.
    """
    if not any(n.dtype.is_complex for n in (*graph.inputs, *graph.outputs)):
        return graph, tuple(inputs), tuple(outputs)
    nodes: dict[Node, Node] = {}
    real_inputs: list[Node] = []
    real_specs: list[InputSpec] = []
    first: list[int] = []
    for node, spec in zip(graph.inputs, inputs, strict=True):
        first.append(len(real_inputs))
        made = _halves(node) if node.dtype.is_complex else (node,)
        real_inputs += made
        nodes[node] = p.pair(*made) if len(made) == 2 else node
        strides = None if spec.scalar else _doubled(node, spec.strides)
        real_specs += [InputSpec(strides, spec.scalar)] * 2 if len(made) == 2 else [spec]
    found = rebuild(graph.outputs, lambda node, sources: _real(node, sources), nodes)
    real_outputs: list[Node] = []
    out_specs: list[OutputSpec] = []
    for old, new, spec in zip(graph.outputs, found, outputs, strict=True):
        into = [None] * 2 if spec.into is None else [first[spec.into], first[spec.into] + 1]
        if not old.dtype.is_complex:
            real_outputs.append(new)
            out_specs.append(OutputSpec(spec.strides, into[0]))
            continue
        real_outputs += [_steppable(p.part(new, index=k)) for k in (0, 1)]
        out_specs += [OutputSpec(_doubled(old, spec.strides), i) for i in into]
    return Graph(tuple(real_inputs), tuple(real_outputs)), tuple(real_specs), tuple(out_specs)


def _steppable(x: Node) -> Node:
    """``x``, or a copy of what a template writes row by row, which cannot step over the other part."""
    leaf = x
    while leaf.op is not INPUT and leaf.op.family == "view":
        leaf = leaf.sources[0]
    return p.copy(x) if leaf.op is p.scatter or (leaf.op is not INPUT and leaf.op.family in ("row", "random", "join")) else x


def _halves(node: Node) -> tuple[Node, Node]:
    aval = Aval(node.shape, node.dtype.to_real(), node.aval.weak)
    real, imaginary = (graph_input(f"{node.attributes['label']}_{name}", aval) for name in ("real", "imag"))
    return real, imaginary


def _doubled(node: Node, strides: Strides | None) -> Strides:
    steps: Sequence[Dim] = contiguous_strides(node.shape) if strides is None else strides
    return tuple(2 * s for s in steps)


def _real(node: Node, sources: tuple[Node, ...]) -> Node | None:
    if node.op is p.whole:
        return sources[0]
    if any(s.dtype.is_complex for s in sources):
        return node.op(*sources, **node.attributes)
    return p.pair(*(p.part(node.op(*sources, **node.attributes), index=k) for k in (0, 1))) if node.op is p.as_complex else None


def merge_parts(nodes: Sequence[Node], patches: Sequence[list[Any]], make: Any) -> list[list[Any]]:
    """For each of ``nodes`` its patches (slot, offset), from those of the real operands that they were split into."""
    rest = iter(patches)
    return [
        next(rest) + [make(slot, offset + node.dtype.itemsize // 2) for slot, offset in next(rest)] if node.dtype.is_complex else next(rest)
        for node in nodes
    ]


def split_numbers(numbers: Sequence[Any], nodes: Sequence[Node]) -> list[Any]:
    """The parts of complex numbers in place of these."""
    out: list[Any] = []
    for value, node in zip(numbers, nodes, strict=True):
        out += [complex(value).real, complex(value).imag] if node.dtype.is_complex else [value]
    return out


def split_addresses(nodes: Sequence[Node], addresses: Sequence[int]) -> list[int]:
    """The addresses of the parts of complex operands in place of theirs."""
    return [
        a + k * node.dtype.itemsize // 2 for node, a in zip(nodes, addresses, strict=True) for k in range(2 if node.dtype.is_complex else 1)
    ]
