"""Splits long reductions with few results in two, so that all threads work on them, in pieces that only the sizes decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flambeau import prims as p
from flambeau.core.symbolic import Dim, evaluate, is_constant, product
from flambeau.ir.graph import INPUT, Graph
from flambeau.ir.node import Node, rebuild

# Below this many elements one thread is fast enough.
WORTH = 1 << 16
# Columns that are reduced at once.
COLUMNS = 64


@dataclass(frozen=True, slots=True)
class Pieces:
    """How a machine likes reductions cut. A kernel with ``enough`` independent pieces keeps all of it busy as it is. A piece has
    ``short`` rows where many columns are reduced at once, and ``long`` elements of one long row."""

    enough: int
    short: int
    long: int

    def length(self, node: Node, results: int) -> int:
        """The elements of a piece."""
        return self.long if results < COLUMNS or _by_rows(node) else self.short


CPU_PIECES = Pieces(16, 128, 8192)
GPU_PIECES = Pieces(512, 512, 8192)

IDENTITY = {"sum": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf"), "any": False, "all": True}


def long_reductions(graph: Graph, sizes: Mapping[str, int], pieces: Pieces) -> frozenset[int]:
    """Which nodes (by position in ``graph.nodes()``) to split at these sizes: part of the key of a program."""
    found: set[int] = set()
    for position, node in enumerate(graph.nodes()):
        if node.op is p.reduce and node.dtype.name in ("float32", "float64"):
            reduced = evaluate(product(node.sources[0].shape[a] for a in node.attributes["axes"]), sizes)
            results = evaluate(product(node.shape), sizes)
            if reduced * results >= WORTH and reduced >= 2 * pieces.length(node, results) and _few(node, results, pieces.enough):
                found.add(position)
    return frozenset(found)


def _few(node: Node, results: int, enough: int) -> bool:
    """Whether the kernel would have too few pieces: blocks of columns, or rows where the last axis is reduced."""
    return results < enough if _by_rows(node) else results < enough * COLUMNS


def _by_rows(node: Node) -> bool:
    return len(node.sources[0].shape) - 1 in node.attributes["axes"]


def split_reductions(graph: Graph, chosen: frozenset[int], sizes: Mapping[str, int], pieces: Pieces) -> Graph:
    """Reduce each chosen node in pieces first, then the pieces in order."""
    if not chosen:
        return graph
    lengths = {node: pieces.length(node, evaluate(product(node.shape), sizes)) for i, node in enumerate(graph.nodes()) if i in chosen}

    def replace(node: Node, sources: tuple[Node, ...]) -> Node | None:
        if node.op is INPUT:
            return node
        return _in_pieces(sources[0], node, lengths[node]) if node in lengths else None

    return Graph(graph.inputs, tuple(rebuild(graph.outputs, replace)))


def _in_pieces(x: Node, node: Node, length: int) -> Node:
    kind, axes = node.attributes["kind"], node.attributes["axes"]
    kept = tuple(i for i in range(len(x.shape)) if i not in axes)
    outer = tuple(x.shape[i] for i in kept)
    total: Dim = product(x.shape[a] for a in axes)
    rows = p.reshape(p.permute(x, axes=(*kept, *axes)), shape=(*outer, total))
    pieces = (total + length - 1) // length
    rest = pieces * length - total
    rank = len(outer)
    if not is_constant(rest, 0):
        none = (0,) * (rank + 1)
        rows = p.pad(rows, low=none, high=(*(0,) * rank, rest), interior=none, value=IDENTITY[kind])
    # pieces first, so that partial results of neighbouring columns lie side by side
    cut = p.permute(p.reshape(rows, shape=(*outer, pieces, length)), axes=(rank, *range(rank), rank + 1))
    return p.reduce(p.reduce(cut, kind=kind, axes=(rank + 1,)), kind=kind, axes=(0,))
