"""Segments as JSON and back: the graph, how it is planned, and what its results are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flambeau import prims
from flambeau.capture.contents import NotPortable
from flambeau.capture.portable import Decoder, Encoder
from flambeau.capture.segment import PlanLayout, Segment
from flambeau.capture.segments import Runner
from flambeau.core.symbolic import SizeScope
from flambeau.interp.functions import GraphFunction
from flambeau.ir.graph import INPUT, Graph
from flambeau.ir.node import Node, toposort
from flambeau.ops.declare import Region, keep_region, region_of
from flambeau.prims.random import next_serials
from flambeau.runtime.storage import TensorMeta

__all__ = ["pack_runner", "unpack_runner"]


@dataclass(frozen=True)
class Made:
    """What is known of a storage that a kept segment makes."""

    meta: TensorMeta


def pack_nodes(encoder: Encoder, roots: Sequence[Node]) -> tuple[list[Any], dict[Node, int]]:
    """The nodes of a graph in the order in which they were made, which later decisions go by, and their numbers."""
    order = sorted(toposort(roots), key=lambda n: n.serial)
    numbers = {node: i for i, node in enumerate(order)}
    return [
        [n.op.name, [numbers[s] for s in n.sources], {k: encoder.of(v) for k, v in n.attributes.items()}] for n in order
    ], numbers  # fmt: skip


def pack_regions(encoder: Encoder, roots: Sequence[Node]) -> tuple[list[tuple[Any, ...]], list[Node]]:
    """The operators with derivatives of their own in a graph, as records over nodes, and the nodes that these need besides."""
    found: dict[int, Region] = {}
    more, waiting = list(roots), list(roots)
    while waiting:
        regions = {id(r): r for n in toposort(waiting) if (r := region_of(n)) is not None and id(r) not in found}
        found.update(regions)
        waiting = [n for r in regions.values() for v in (*r.arguments, *r.outputs) for n in (v if isinstance(v, (list, tuple)) else [v])]
        waiting = [n for n in waiting if isinstance(n, Node)]
        more += waiting
    if any(r.operator is None for r in found.values()):
        raise NotPortable("a derivative of an operator of complex numbers or of batches")
    return [(r.operator, r.arguments, r.outputs) for r in found.values()], more


def _numbered(encoder: Encoder, value: Any, numbers: dict[Node, int]) -> Any:
    if isinstance(value, Node):
        return ["node", numbers[value]]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *[_numbered(encoder, v, numbers) for v in value]]
    return encoder.of(value)


def unpack_nodes(decoder: Decoder, data: list[Any]) -> list[Node]:
    """The nodes; draws get numbers of their own in this process, in the same order."""
    draws = sorted(attributes["serial"] for _, _, attributes in data if "serial" in attributes)
    renumbered = dict(zip(draws, next_serials(len(draws)), strict=True))
    nodes: list[Node] = []
    for name, sources, attributes in data:
        values = {k: decoder.of(v) for k, v in attributes.items()}
        if "serial" in values:
            values["serial"] = renumbered[values["serial"]]
        nodes.append(Node(INPUT if name == "input" else prims.ALL[name], tuple([nodes[s] for s in sources]), **values))
    return nodes


def pack_runner(encoder: Encoder, runner: Runner) -> dict[str, Any]:
    """A segment as plain data."""
    segment, layout = runner.segment, runner.segment.layout
    graph = segment.function.graph
    risky = [node for _, outputs in segment.risky for node in outputs]
    roots = [*graph.inputs, *graph.outputs, *risky]
    regions, roots = pack_regions(encoder, roots) if any(layout.wanted) else ([], roots)
    nodes, numbers = pack_nodes(encoder, roots)
    return {
        "regions": [[encoder.of(operator), *[_numbered(encoder, v, numbers) for v in rest]] for operator, *rest in regions],
        "nodes": nodes,
        "inputs": [numbers[n] for n in graph.inputs],
        "outputs": [numbers[n] for n in graph.outputs],
        "risky": [[name, [numbers[n] for n in outputs]] for name, outputs in segment.risky],
        "name": segment.function.name,
        "tensors": segment.function.tensors,
        "numbers": len(segment.numbers),
        "states": encoder.all([s.meta for s in segment.states]),
        "dropped": segment.dropped,
        "sizes": list(segment.sizes),
        "fixed": dict(segment.fixed),
        "hints": dict(segment.hints),
        "layout": encoder.all([layout.metas, layout.results, layout.wanted, layout.into, layout.recorded, layout.leaves]),
        "copied": sorted(layout.copied or ()),
        "metas": encoder.of(runner.metas),
        "storages": runner.storages,
        "shared": encoder.of(runner.shared),
        "results": encoder.of(runner.results),
        "serials": encoder.of(runner.serials),
        "operators": runner.operators,
        "names": runner.names,
        "runner sizes": list(runner.sizes),
    }


def unpack_runner(decoder: Decoder, data: dict[str, Any]) -> Runner:
    """The segment in this process, planned anew with kernels from the cache."""
    hints = {decoder.symbol(name): value for name, value in sorted(data["hints"].items(), key=lambda item: int(item[0][4:]))}
    with SizeScope(hints):  # what its nodes decide about sizes was decided before
        nodes = unpack_nodes(decoder, data["nodes"])
        decoder.nodes = nodes
        for operator, arguments, outputs in map(decoder.all, data["regions"]):
            keep_region(operator, dict(zip(operator.names, arguments, strict=True)), outputs, operator.derivative)
        graph = Graph(tuple([nodes[i] for i in data["inputs"]]), tuple([nodes[i] for i in data["outputs"]]))
        metas, results, wanted, into, recorded, leaves = decoder.all(data["layout"])
        layout = PlanLayout(metas, results, wanted, into, recorded, leaves, [], None, frozenset(data["copied"]))
        sizes = tuple([decoder.symbol(n) for n in data["sizes"]])
        function = GraphFunction(data["name"], graph, data["tensors"])
        metas, shared, results, serials = (decoder.of(data[name]) for name in ("metas", "shared", "results", "serials"))
        states: Any = [Made(meta) for meta in decoder.all(data["states"])]
    known = {name: hints[name] for name in sizes}
    plan = layout.plan(function, known)
    segment = Segment(
        function, plan, [], [None] * data["numbers"], states, data["dropped"],
        [(name, tuple([nodes[i] for i in outputs])) for name, outputs in data["risky"]], layout, sizes,
        {decoder.symbol(n): v for n, v in data["fixed"].items()}, hints,
    )  # fmt: skip
    segment.plans[tuple(known.values())] = plan
    runner_sizes = tuple([decoder.symbol(n) for n in data["runner sizes"]])
    return Runner(
        segment, metas, data["storages"], shared, results, serials, data["operators"], data["names"],
        sizes=sizes if runner_sizes == sizes else runner_sizes,
    )  # fmt: skip
