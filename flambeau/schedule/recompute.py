"""Recomputation: pointwise values that other kernels can make again from one stored operand are not stored."""

from __future__ import annotations

from flambeau.core.symbolic import is_constant, product
from flambeau.ir.graph import INPUT
from flambeau.ir.node import Node, toposort
from flambeau.schedule.costs import pointwise_cost
from flambeau.schedule.grouping import Group, Grouping, Use, connect

# Additions an element that one store and one load are worth.
WORTH = 45


def recompute(grouping: Grouping, outputs: tuple[Node, ...]) -> None:
    """Take nodes out of ``grouping.stored`` where computing them again costs less than storing and loading them."""
    kept = set(outputs)
    for node in toposort(outputs):
        if node in kept or node not in grouping.stored or node.op is INPUT or node.op.family != "pointwise":
            continue
        group = grouping.group_of[node]
        readers = [u for u in grouping.uses.get(node, []) if u.group is not group]
        if group.kind not in ("loop", "matmul") or not all(_reads_each_once(u, node) for u in readers):
            continue
        leaves = _leaves(node, grouping)
        if leaves is None:
            continue
        grouping.stored.discard(node)
        for reader in {u.group for u in readers}:
            for leaf in leaves:
                _read_also(grouping, leaf, reader)


def _reads_each_once(use: Use, node: Node) -> bool:
    if use.opaque or use.conditional or not use.exact or use.group.kind not in ("loop", "matmul"):
        return False
    return is_constant(product(size for _, size in use.group.axes) - product(node.shape), 0)


def _leaves(node: Node, grouping: Grouping) -> set[Node] | None:
    """The stored values and inputs that ``node`` follows from, if it is cheap and needs only one of its own size."""
    leaves: set[Node] = set()
    cost = 0
    whole = 0
    seen = {node}
    stack = [node]
    while stack:
        current = stack.pop()
        if current is not node and (current.op is INPUT or current in grouping.stored):
            leaves.add(current)
            if is_constant(product(current.shape) - product(node.shape), 0):
                whole += 1
                if current.dtype.itemsize > node.dtype.itemsize:
                    return None
            continue
        family = current.op.family
        if family not in ("pointwise", "view", "source") or current.op.name in ("pad", "cat", "as_strided"):
            return None
        cost += pointwise_cost(current) if family == "pointwise" else 0
        if cost > WORTH or whole > 1:
            return None
        for source in current.sources:
            if source not in seen:
                seen.add(source)
                stack.append(source)
    return leaves if whole <= 1 else None


def _read_also(grouping: Grouping, leaf: Node, reader: Group) -> None:
    grouping.uses.setdefault(leaf, []).append(Use(reader, (), False))
    if leaf.op is not INPUT and grouping.group_of[leaf] is not reader:
        connect(grouping.groups, grouping.group_of[leaf], reader)
