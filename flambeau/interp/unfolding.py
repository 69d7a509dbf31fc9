"""A function of folded operands as one of the operands as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flambeau import prims as p
from flambeau.core.aval import Aval
from flambeau.core.symbolic import product
from flambeau.interp.folding import Folding, Ints
from flambeau.interp.functions import GraphFunction
from flambeau.ir.graph import Graph, graph_input
from flambeau.ir.node import Node, rebuild


def unfolded(
    function: GraphFunction, sizes: Mapping[str, int], shapes: Sequence[Ints], foldings: Sequence[Folding | None],
    results: Sequence[tuple[Folding | None, Ints]],
) -> GraphFunction:  # fmt: skip
    """``function`` for tensors of the given shapes, which it sees through ``foldings``; ``results`` are foldings and shapes of its own."""
    graph = function.at_sizes(sizes)
    known: dict[Node, Node] = {}
    inputs: list[Node] = []
    for k, node in enumerate(graph.inputs):
        if k >= function.tensors:
            inputs.append(node)
            continue
        inputs.append(graph_input(f"unfolded{k}", Aval(shapes[k], node.dtype, node.aval.weak)))
        folding = foldings[k]
        known[node] = inputs[k] if folding is None else _fold(inputs[k], folding)
    outputs = rebuild(graph.outputs, lambda node, sources: None, known)
    made = [o if f is None else _unfold(o, f, shape) for o, (f, shape) in zip(outputs, results, strict=True)]
    return GraphFunction(function.name, Graph(tuple(inputs), tuple(made)), function.tensors)


def _fold(x: Node, folding: Folding) -> Node:
    if not x.shape:
        return x
    lead = len(folding.shape) - x.rank
    aligned = p.reshape(x, shape=(1,) * lead + x.shape)
    ordered = p.permute(aligned, axes=folding.order)
    sizes = tuple(product(aligned.shape[a] for a in group) for group in folding.groups)
    return p.reshape(ordered, shape=sizes or (1,))


def _unfold(x: Node, folding: Folding, shape: Ints) -> Node:
    lead = len(folding.shape) - len(shape)
    aligned = (1,) * lead + tuple(shape)
    ordered = p.reshape(x, shape=tuple(aligned[a] for a in folding.order))
    back = tuple(sorted(range(len(aligned)), key=lambda i: folding.order[i]))
    return p.reshape(p.permute(ordered, axes=back), shape=tuple(shape))
