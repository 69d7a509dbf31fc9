"""The batched form of a graph: many calls of it along a first axis of its operands, as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flambeau.core.aval import Aval
from flambeau.core.symbolic import Dim, Expression, substitute
from flambeau.ir.graph import graph_input
from flambeau.ir.node import Node, toposort
from flambeau.ops.declare import Region, keep_as_region, map_nodes, region_of
from flambeau.prims.batching import batching_rule, spread
from flambeau.prims.pointwise import in_compute_type
from flambeau.prims.random import random
from flambeau.prims.reduction import reduce

# What a node has become, and whether it has the batch axis.
Known = dict[Node, tuple[Node, bool]]


class Batching:
    """Nodes and what they are with a batch axis of ``size``. ``draws``: random numbers differ from call to call."""

    def __init__(self, known: Known, size: Dim, draws: bool) -> None:
        self.known = known
        self.size = size
        self.draws = draws

    def apply(self, roots: Sequence[Node]) -> list[tuple[Node, bool]]:
        """The batched forms of nodes; a mark tells which do change from call to call."""
        known, regions = self.known, dict[int, Region]()
        for node in toposort(roots, lambda n: () if n in known else n.sources):
            if node not in known:
                known[node] = self._form(node)
                region = region_of(node)
                if region is not None and known[node][0] is not node:
                    regions[id(region)] = region
        for region in regions.values():
            self._keep(region)
        return [known[r] for r in roots]

    def _form(self, node: Node) -> tuple[Node, bool]:
        found = [self.known[n] for n in node.sources]
        marks = [batched for _, batched in found]
        sources = [n for n, _ in found]
        if any(marks) or (self.draws and node.op is random):
            return batching_rule(node.op)(node, sources, marks, self.size), True
        return (node if tuple(sources) == node.sources else node.op(*sources, **node.attributes)), False

    def _keep(self, region: Region) -> None:
        """Let the results of an operator that declares its derivative be such here too."""
        outputs = tuple(o if o in self.known else None for o in region.outputs)
        nodes = nodes_in(region.arguments)
        self.apply(nodes)  # the derivative may read what the results do not depend on
        found = [None if o is None else self.known[o] for o in outputs]
        made = _BatchedRegion(region, outputs, [f is not None and f[1] for f in found], {n: self.known[n][1] for n in nodes}, self.size)
        keep_as_region(moved(region, {n: self.known[n][0] for n in (*nodes, *(o for o in outputs if o is not None))}, made.derivative))


class _BatchedRegion:
    """The derivative of a batched operator: the batched form of its own."""

    def __init__(
        self, region: Region, outputs: Sequence[Node | None], marks: Sequence[bool], batched: Mapping[Node, bool], size: Dim
    ) -> None:  # fmt: skip
        self.region = region
        self.outputs = outputs  # which keeps them alive
        self.marks = marks
        self.batched = batched
        self.size = size

    def derivative(self, cotangents: Sequence[Node | None], outputs: Sequence[Node | None], arguments: Sequence[Any]) -> list[Node | None]:
        known: Known = {}
        given: list[Node | None] = []
        for k, (g, mine, now, mark) in enumerate(zip(cotangents, self.outputs, outputs, self.marks, strict=True)):
            given.append(None if g is None or mine is None else graph_input(f"cotangent{k}", Aval(mine.shape, mine.dtype)))
            if mine is not None and now is not None:
                known[mine] = (now, mark)
            if g is not None and given[k] is not None:
                known[given[k]] = (g, mark)  # type: ignore[index]
        for mine, now in zip(nodes_in(self.region.arguments), nodes_in(arguments), strict=True):
            known[mine] = (now, self.batched[mine])
        parts = self.region.derivative(tuple(given), self.outputs, self.region.arguments)
        found = iter(Batching(known, self.size, False).apply([g for g in parts if g is not None]))
        return [
            None if g is None else self._fitting(*next(found), self.batched.get(o, False))
            for g, o in zip(parts, self.region.operands, strict=True)
        ]

    def _fitting(self, gradient: Node, batched: bool, wanted: bool) -> Node:
        """The gradient of an operand that is the same in all calls is the sum over them."""
        if batched and not wanted:
            return in_compute_type(lambda wide: reduce(wide, kind="sum", axes=(0,)), gradient)
        return spread(gradient, self.size) if wanted and not batched else gradient


def nodes_in(value: Any) -> list[Node]:
    """The nodes in arguments, in order."""
    found: list[Node] = []
    map_nodes(lambda n: found.append(n) or n, list(value))
    return found


def moved(region: Region, known: Mapping[Node, Node], derivative: Any) -> Region:
    """A region over other nodes."""
    arguments = tuple(map_nodes(lambda n: known[n], a) for a in region.arguments)
    operands = tuple(known[o] if isinstance(o, Node) else o for o in region.operands)
    return Region(derivative, arguments, operands, tuple(None if o is None else known.get(o) for o in region.outputs))


def at_sizes(outputs: Sequence[Node], known: dict[Node, Node], sizes: Mapping[str, Dim]) -> list[Node]:
    """A graph over other inputs, ``known``, with other sizes for its symbols; operators keep the derivatives that they declare."""

    def changed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(changed, value))
        return substitute(value, sizes) if isinstance(value, Expression) else value

    regions: dict[int, Region] = {}
    for node in toposort(outputs, lambda n: () if n in known else n.sources):
        if node not in known:
            sources = tuple([known[n] for n in node.sources])
            attributes = {k: changed(v) for k, v in node.attributes.items()}
            known[node] = Node(node.op, sources, **attributes)
            region = region_of(node)
            if region is not None and known[node] is not node:
                regions[id(region)] = region
    for region in regions.values():
        at_sizes(nodes_in(region.arguments), known, sizes)
        keep_as_region(moved(region, known, region.derivative))
    return [known[o] for o in outputs]


def batched_graph(
    inputs: Sequence[Node], outputs: Sequence[Node], values: Sequence[Node], marks: Sequence[bool], sizes: Mapping[str, Dim],
    draws: Dim | None,
) -> list[Node]:  # fmt: skip
    """The outputs of a graph for other ``values`` of its inputs, of which those marked have a batch axis in front.

    ``sizes`` are known of its symbols beside those that the values tell. ``draws``: the batch's size when random numbers differ
    from call to call. With nothing batched the results have no batch axis, else all have one.
    """
    found, placeholders, known = dict(sizes), [], {}
    size = draws
    for k, (node, value, batched) in enumerate(zip(inputs, values, marks, strict=True)):
        shape = value.shape[1:] if batched else value.shape
        size = value.shape[0] if batched and size is None else size
        for dim, now in zip(node.shape, shape, strict=True):
            if not isinstance(dim, int) and len(dim.atoms) == 1 and str(dim).isidentifier():
                found.setdefault(str(dim), now)
            elif isinstance(dim, int) and not dim == now:
                raise RuntimeError(f"vmap: an operand of sizes {shape} where {node.shape} was planned")
        placeholders.append(graph_input(f"batched{k}", Aval(shape, node.dtype, node.aval.weak)))
        known[node] = placeholders[-1]
    single = at_sizes(outputs, known, found)
    if size is None:
        return at_sizes(single, dict(zip(placeholders, values, strict=True)), {})
    batching = Batching(
        {n: (v, m) for n, v, m in zip(placeholders, values, marks, strict=True)}, size, draws is not None
    )
    return [n if batched else spread(n, size) for n, batched in batching.apply(single)]
