"""Every operator's graph is well formed after each pass, and so are its derivative and its kernels."""

from __future__ import annotations

from typing import Any

import pytest

from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.core.symbolic import SizeScope
from flambeau.derivative.partition import partition
from flambeau.ir import kernel as k
from flambeau.ir.graph import Graph, graph_input
from flambeau.ir.node import Node
from flambeau.ir.verify import verify_graph, verify_schedulable
from flambeau.ops.declare import ALL
from flambeau.passes.simplify import simplify
from flambeau.prims.pointwise import add, cast
from flambeau.schedule.complex_parts import split_complex
from flambeau.schedule.legalize import legalize
from flambeau.schedule.schedule import make_schedule
from flambeau.schedule.specs import InputSpec, OutputSpec
from tests.ops.operator_cases import samples_of, trace
from tests.ops.test_pipeline_gradient import DIFFERENTIABLE


def _check(graph: Graph) -> None:
    """Verify after every pass down to the kernels."""
    verify_graph(graph)
    form = split_complex(graph, [InputSpec(None, scalar=n.aval.weak) for n in graph.inputs], [OutputSpec()] * len(graph.outputs))
    verify_graph(form.graph)
    simple = simplify(form.graph)
    verify_graph(simple)
    verify_schedulable(legalize(simple, {}))
    for call in make_schedule(form.graph, form.inputs, form.outputs).calls:
        if call.built is not None:
            k.verify(call.built.kernel)
            assert len(call.built.buffers) == len(call.built.kernel.buffers)


@pytest.mark.parametrize("name", sorted(ALL))
def test_passes(name: str) -> None:
    operator = ALL[name]
    call = samples_of(operator)[-1]
    traced = trace(operator, call, dtypes.float32)
    _check(traced.graph)
    wanted = [n for n in traced.graph.inputs if n.dtype in (dtypes.float32, dtypes.complex64) and not n.aval.weak]
    if name not in DIFFERENTIABLE or not wanted:
        return
    with SizeScope(traced.sizes):
        split = partition(traced.graph, wanted, [o.dtype.is_inexact for o in traced.graph.outputs])
    _check(split.forward)
    if split.backward.outputs:
        _check(split.backward)


X = graph_input("x", Aval((4,), dtypes.float32))


def _broken(kind: str) -> Graph:
    y = graph_input("y", Aval((4,), dtypes.float32))
    if kind == "unlisted":
        return Graph((X,), (add(X, y),))
    if kind == "same name":
        return Graph((X, graph_input("x", Aval((5,), dtypes.float32))), (X,))
    if kind == "kernel":
        return Graph((X,), (k.load(0, 0, dtypes.float32),))
    node: Any = object.__new__(Node)
    for name, value in {"op": cast, "sources": (X,), "attributes": {"to": dtypes.int32}, "aval": X.aval, "serial": 0}.items():
        object.__setattr__(node, name, value)
    return Graph((X,), (node,))


@pytest.mark.parametrize("kind", ["unlisted", "same name", "kernel", "type"])
def test_broken_graphs_are_found(kind: str) -> None:
    with pytest.raises(ValueError, match="not listed|not distinct|inside kernels|should be"):
        verify_graph(_broken(kind))


@pytest.mark.parametrize("outputs", [(X,), (add(X, X), add(X, X))])
def test_unschedulable_graphs_are_found(outputs: tuple[Node, ...]) -> None:
    with pytest.raises(ValueError, match="copy"):
        verify_schedulable(Graph((X,), outputs))
