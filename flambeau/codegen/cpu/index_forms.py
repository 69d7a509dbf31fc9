"""Integer nodes that are index arithmetic: their comparisons become tests of one expression, without 64-bit lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flambeau.core import dtypes
from flambeau.core.symbolic import Dim
from flambeau.ir.kernel import INDEX, Kernel
from flambeau.ir.kernel import operands as kernel_operands
from flambeau.ir.node import Node

_COMPARISONS = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle"}
_SWAPPED = {"eq": "eq", "ne": "ne", "slt": "sgt", "sle": "sge"}


class Comparison(NamedTuple):
    """``place predicate other``, where ``other`` is a node that is the same in every lane, or None for 0."""

    predicate: str
    place: Dim
    other: Node | None


class IndexForms:
    """What the integer nodes of a kernel are as index expressions.

    ``comparisons`` are the nodes that compare a place with another or with a value that is the same in every lane;
    ``absorbed`` the nodes that nothing else needs, so that they need no code.
    """

    def __init__(self, kernel: Kernel, order: Sequence[Node], free: Mapping[Node, frozenset[str]]) -> None:
        self.places: dict[Node, Dim] = {}
        self.comparisons: dict[Node, Comparison] = {}
        for node in order:
            place = self.place(node)
            if place is not None:
                self.places[node] = place
        for node in order:
            found = self.comparison(node, kernel.vector, free)
            if found is not None:
                self.comparisons[node] = found
        self.absorbed = self.find_absorbed(kernel, order)

    def place(self, node: Node) -> Dim | None:
        """The node as an index expression, if it is one."""
        if node.dtype is not dtypes.int64:
            return None
        if node.op is INDEX:
            return node.attributes["value"]
        if node.op.name == "full":
            return int(node.attributes["value"])
        parts = [self.places.get(s) for s in node.sources]
        if node.op.name not in ("add", "sub", "mul", "neg") or any(p is None for p in parts):
            return None
        if node.op.name == "neg":
            return -parts[0]  # type: ignore[operator]
        a, b = parts
        assert a is not None and b is not None
        if node.op.name == "mul":
            return a * b if isinstance(a, int) or isinstance(b, int) else None
        return a + b if node.op.name == "add" else a - b

    def comparison(self, node: Node, vector: str, free: Mapping[Node, frozenset[str]]) -> Comparison | None:
        predicate = _COMPARISONS.get(node.op.name)
        if predicate is None or node.sources[0].dtype is not dtypes.int64 or not free[node]:
            return None
        a, b = node.sources
        x, y = self.places.get(a), self.places.get(b)
        if x is not None and y is not None:
            return Comparison(predicate, x - y, None)
        if x is not None and vector not in free[b]:
            return Comparison(predicate, x, b)
        if y is not None and vector not in free[a]:
            return Comparison(_SWAPPED[predicate], y, a)
        return None

    def find_absorbed(self, kernel: Kernel, order: Sequence[Node]) -> set[Node]:
        used = set(kernel.roots)
        for node in reversed(order):
            if node in self.comparisons:
                other = self.comparisons[node].other
                used.update(() if other is None else (other,))
            elif node not in self.places or node in used:
                used.update(kernel_operands(node))
        return {node for node in order if node in self.places and node not in used}
