"""Makes a graph schedulable: outputs are computed, and what templates read lies in memory with plain strides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from flambeau import prims as p
from flambeau.core.symbolic import is_constant
from flambeau.ir.graph import INPUT, Graph
from flambeau.ir.node import Node, rebuild
from flambeau.schedule.operands import readable_factors, strided_operand
from flambeau.schedule.specs import Strides

# A part of a tensor is chosen from so many where it is read; more, and what products read, are put side by side in memory first.
MOST_PARTS = 4
# So many products with one turned matrix, as of the steps of a recurrent layer, are worth a copy of it in the order that they read.
MANY_PRODUCTS = 4


def legalize(
    graph: Graph, layouts: Mapping[Node, Strides], row_major: Sequence[bool] = (), strides: Sequence[Strides | None] = ()
) -> Graph:
    """Insert copies; see the module's sentence. ``layouts`` holds the strides of inputs that are not row-major, ``strides`` those of
    outputs.

    Of outputs in new memory, ``row_major``, only the order of elements counts, not their shape.
    """
    joins = _Joins(graph)
    copied, joined = joins.copied, joins.joined
    readers = Counter(node.sources[1] for node in graph.nodes() if node.op is not INPUT and node.op.name == "matmul")
    known: dict[Node, Node] = {}

    def replace(node: Node, sources: tuple[Node, ...]) -> Node | None:
        if node.op is INPUT:
            return node
        if node.op.name == "cat" and (len(sources) > MOST_PARTS or node in joins.beside):
            return joined(node, sources, node.sources)
        if node.op.name == "matmul":
            if readers[node.sources[1]] >= MANY_PRODUCTS and _is_turned(sources[1], layouts):
                sources = (sources[0], p.copy(sources[1]))
        if node.op.name == "scatter":
            return Node(node.op, (copied(sources[0]), *sources[1:]), **node.attributes)
        return _reading(node, sources, layouts)

    made = rebuild(graph.outputs, replace, known)
    # Whoever else reads a turned product reads what is given out, so that the product is stored once, as its epilogue.
    turned = {node for node in made if _is_turned_product(node)}
    if turned:
        made = rebuild(made, lambda node, sources: copied(Node(node.op, sources, **node.attributes)) if node in turned else None)
    outputs: list[Node] = []
    for node, plain in zip_longest(made, row_major, fillvalue=False):
        assert isinstance(node, Node)
        while plain and node.op is p.reshape and node not in outputs and node.sources[0] not in made:
            node = node.sources[0]
        if node.op is not INPUT and node.op.name == "cat":
            outputs.append(joined(node, node.sources))
            continue
        computed = node.op is not INPUT and node.op.family not in ("view", "source")
        outputs.append(node if computed and node not in outputs else copied(node))
    if any(strides):
        outputs = _read_where_they_lie(outputs, dict(zip(outputs, strides, strict=True)), layouts)
    return Graph(graph.inputs, tuple(outputs))


def _reading(node: Node, sources: tuple[Node, ...], layouts: Mapping[Node, Strides]) -> Node | None:
    """A node that a template computes, or a view of memory, with copies of what it cannot read; None for others."""
    if node.op.name == "matmul":
        return Node(node.op, readable_factors(sources, layouts), **node.attributes)
    if node.op.family in ("row", "factor"):
        return Node(node.op, tuple(s if _lies_in_rows(s, layouts) else p.copy(s) for s in sources), **node.attributes)
    if node.op.name == "as_strided" and strided_operand(sources[0], layouts) is None:
        return Node(node.op, (p.copy(sources[0]), *sources[1:]), **node.attributes)
    return None


def _read_where_they_lie(outputs: list[Node], strides: Mapping[Node, Strides | None], layouts: Mapping[Node, Strides]) -> list[Node]:
    """Outputs may lie in an order of their own, in which other nodes read them."""
    known = dict(layouts)

    def replace(node: Node, sources: tuple[Node, ...]) -> Node | None:
        if node.op is INPUT:
            return node
        made = _reading(node, sources, known)
        if made is None or made.sources == node.sources:
            made = node if sources == node.sources else Node(node.op, sources, **node.attributes)
        lies = strides.get(node)
        if lies is not None:
            known[made] = lies
        return made

    return rebuild(outputs, replace)


def _is_turned(factor: Node, layouts: Mapping[Node, Strides]) -> bool:
    operand = strided_operand(factor, layouts)
    return operand is not None and not is_constant(operand.strides[-1], 1) and is_constant(operand.strides[-2], 1)


def _below_turns(node: Node) -> Node:
    while node.op is not INPUT and node.op.name in ("permute", "reshape"):
        (node,) = node.sources
    return node


class _Joins:
    """The copies that are made, and the nodes joined in memory: ``beside`` of these are few parts that lie side by side nevertheless."""

    def __init__(self, graph: Graph) -> None:
        self.count = 0
        self.outputs = {*graph.outputs}
        self.nested: set[Node] = set()
        nodes = [node for node in graph.nodes() if node.op is not INPUT]
        self.beside = {_below_turns(s) for node in nodes if node.op.name == "matmul" for s in node.sources}
        self.beside |= {s for node in nodes if node.op is p.cat and len(node.sources) > MOST_PARTS for s in node.sources}

    def copied(self, node: Node) -> Node:
        self.count += 1
        return p.copy(node, index=self.count)

    def joined(self, node: Node, sources: Sequence[Node], originals: Sequence[Node] = ()) -> Node:
        """``originals`` are what the sources were made of: those that nobody else gives a place are part of this one's."""
        parts: list[Node] = []
        for source, original in zip_longest(sources, originals):
            inner = source.op is p.join and original is not None and original not in self.outputs and source not in self.nested
            self.nested |= {source} if inner else set()
            parts.append(source if inner else self.copied(source))
        return p.join(*parts, axis=node.attributes["axis"])


def _lies_in_rows(node: Node, layouts: Mapping[Node, Strides]) -> bool:
    """Whether a node is row-major in memory where a template reads it."""
    return node not in layouts and (node.op is INPUT or node.op.family not in ("view", "source"))


def _is_turned_product(node: Node) -> bool:
    core = _below_turns(node)
    return core is not node and core.op is not INPUT and core.op.family == "matmul"
