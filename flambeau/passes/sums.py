"""Sums that are better written as one thing: parts side by side, and thin matrix products.

Gradients of the parts of a tensor come back each padded with zeros: their sum is the parts joined. And ``A1 B1 + A2 B2 + ...``, the
weight gradient of a recurrent layer, is ``[A1 A2 ...] [B1; B2; ...]``: each product by itself writes a whole result for the sum to
read again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flambeau import prims as p
from flambeau.core.symbolic import Dim, is_constant, is_nonnegative
from flambeau.ir.graph import INPUT, Graph
from flambeau.ir.node import Node, rebuild

# Fewer products are not worth the copies of their operands.
FEWEST_PRODUCTS = 3

Key = tuple[Any, ...]
Known = dict[Node, Node]


@dataclass(frozen=True)
class Merger:
    """``leaves`` of a sum that become one; ``make`` builds it from what nodes were rebuilt as."""

    leaves: tuple[Node, ...]
    make: Callable[[Known], Node]


def merge_sums(graph: Graph) -> Graph:
    """Join padded parts, and products where copying their operands costs less than writing and reading their results."""
    uses = Counter(source for node in graph.nodes() for source in node.sources)
    uses.update(graph.outputs)
    sums = {root: _leaves(root, uses) for root in graph.nodes() if _is_sum(root)}
    inner = {s for root in sums for s in root.sources if _is_sum(s) and uses[s] == 1}
    found = {root: _mergers(leaves, uses) for root, leaves in sums.items() if root not in inner}
    known: Known = {}

    def replace(node: Node, _: tuple[Node, ...]) -> Node | None:
        if node.op is INPUT:
            return node
        return _rebuilt(sums[node], found[node], known) if found.get(node) else None

    return Graph(graph.inputs, tuple(rebuild(graph.outputs, replace, known))) if any(found.values()) else graph


def _is_sum(node: Node) -> bool:
    return node.op is p.add and node.dtype.is_floating_point


def _leaves(root: Node, uses: Counter[Node]) -> list[Node]:
    """What a sum adds up, from left to right, through sums that nothing else reads."""
    out: list[Node] = []
    stack = list(reversed(root.sources))
    while stack:
        node = stack.pop()
        if _is_sum(node) and uses[node] == 1:
            stack.extend(reversed(node.sources))
        else:
            out.append(node)
    return out


def _mergers(leaves: list[Node], uses: Counter[Node]) -> list[Merger]:
    products: dict[Key, list[Node]] = {}
    padded: dict[int, list[Node]] = {}
    for leaf in leaves:
        axis = _padded_axis(leaf)
        if axis is not None:
            padded.setdefault(axis, []).append(leaf)
        elif (key := _product_key(leaf, uses)) is not None:
            products.setdefault(key, []).append(leaf)
    out = [Merger(tuple(group), lambda known, group=group: _product(group, known)) for group in products.values()
           if len(group) >= FEWEST_PRODUCTS]  # fmt: skip
    for axis, group in padded.items():
        pieces = _side_by_side(group, axis) if len(group) > 1 else None
        if pieces is not None:
            out.append(Merger(tuple(group), lambda known, pieces=pieces, axis=axis: _joined(pieces, axis, known)))
    return out


def _rebuilt(leaves: list[Node], mergers: list[Merger], known: Known) -> Node:
    """The sum again, each merger in the place of its first leaf."""
    merger_of = {leaf: merger for merger in mergers for leaf in merger.leaves}
    total: Node | None = None
    for leaf in leaves:
        merger = merger_of.get(leaf)
        if merger is None or leaf is merger.leaves[0]:
            part = known[leaf] if merger is None else merger.make(known)
            total = part if total is None else p.add(total, part)
    assert total is not None
    return total


# -- padded parts -----------------------------------------------------------------------------------------
def _padded_axis(leaf: Node) -> int | None:
    """The only axis that a leaf is padded along, with zeros."""
    if leaf.op is not p.pad or leaf.attributes["value"] != 0 or any(leaf.attributes["interior"]):
        return None
    axes = [
        i for i, (low, high) in enumerate(zip(leaf.attributes["low"], leaf.attributes["high"], strict=True))
        if not (is_constant(low, 0) and is_constant(high, 0))
    ]  # fmt: skip
    return axes[0] if len(axes) == 1 else None


def _side_by_side(group: Sequence[Node], axis: int) -> list[Node | Dim] | None:
    """The leaves in the order in which they lie, sizes of gaps between them; None where they overlap or no order is known."""
    waiting = list(group)
    out: list[Node | Dim] = []
    place: Dim = 0
    while waiting:
        found = next((leaf for leaf in waiting if is_constant(leaf.attributes["low"][axis] - place, 0)), None)
        if found is None:
            found = min(waiting, key=_start(axis), default=None) if all(isinstance(_start(axis)(leaf), int) for leaf in waiting) else None
            if found is None or not is_nonnegative(_start(axis)(found) - place):
                return None
            out.append(_start(axis)(found) - place)
        waiting.remove(found)
        out.append(found)
        place = _start(axis)(found) + found.sources[0].shape[axis]
    rest = group[0].shape[axis] - place
    return out if is_constant(rest, 0) else [*out, rest]


def _start(axis: int) -> Callable[[Node], Any]:
    return lambda leaf: leaf.attributes["low"][axis]


def _joined(pieces: Sequence[Node | Dim], axis: int, known: Known) -> Node:
    first = next(piece for piece in pieces if isinstance(piece, Node))
    out: list[Node] = []
    for piece in pieces:
        if isinstance(piece, Node):
            out.append(known[piece.sources[0]])
        else:
            out.append(p.constant(0.0, tuple(piece if i == axis else n for i, n in enumerate(first.shape)), first.dtype))
    return p.cat(*out, axis=axis)


# -- products ---------------------------------------------------------------------------------------------
def _product_key(leaf: Node, uses: Counter[Node]) -> Key | None:
    """What products must have in common to be joined: shapes, types, and the views that the sum sees them through."""
    views: list[Key] = []
    node = leaf
    while node.op is p.permute or node.op is p.reshape:
        if uses[node] != 1:
            return None
        views.append((node.op, tuple(node.attributes.values())))
        node = node.sources[0]
    if node.op is not p.matmul or uses[node] != 1:
        return None
    a, b = node.sources
    rows, depth, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    if a.shape[:-2] != b.shape[:-2] or not is_nonnegative(rows * columns - depth * (rows + columns)):
        return None
    return (tuple(views), a.shape[:-1], b.shape[:-2], columns, a.dtype, b.dtype)


def _product(group: Sequence[Node], known: Known) -> Node:
    products: list[Node] = []
    for node in group:
        while node.op is not p.matmul:
            node = node.sources[0]
        products.append(node)
    products.reverse()  # gradients of steps come last step first: theirs are joined in the order of the steps elsewhere too
    rank = len(products[0].shape)
    a = _cat([known[m.sources[0]] for m in products], rank - 1)
    b = _cat([known[m.sources[1]] for m in products], rank - 2)
    return _seen_through(group[0], Node(products[0].op, (a, b), **products[0].attributes))


def _cat(nodes: Sequence[Node], axis: int) -> Node:
    """Nodes joined; of what is turned, what it is turned from."""
    first = nodes[0]
    if first.op is p.permute and all(n.op is p.permute and n.attributes == first.attributes for n in nodes):
        whole = _cat([n.sources[0] for n in nodes], first.attributes["axes"][axis])
        return Node(p.permute, (whole,), **first.attributes)
    return p.cat(*nodes, axis=axis)


def _seen_through(leaf: Node, product: Node) -> Node:
    if leaf.op is p.matmul:
        return product
    return Node(leaf.op, (_seen_through(leaf.sources[0], product),), **leaf.attributes)
