"""Shadow mode: beside each compiled segment its operators run one by one, and the first one with another result is reported."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flambeau.core.context import outside_capture
from flambeau.interp.eager import run_program
from flambeau.interp.functions import GraphFunction
from flambeau.ir.graph import INPUT, Graph, graph_input
from flambeau.ir.node import Node, rebuild, toposort
from flambeau.runtime.generator import default_generator
from flambeau.tensor.dispatch import CallPlan, execute, new_tensor
from flambeau.tensor.grad_mode import no_grad
from flambeau.tensor.plans import make_plan

__all__ = ["Operation", "Shadow", "ShadowWarning"]

# How far results may be apart, relative to the largest element: operators that are fused round less often.
TOLERANCE = {"float64": 1e-9, "float32": 3e-4, "float16": 2e-2, "bfloat16": 1e-1}


class ShadowWarning(RuntimeWarning):
    """A compiled segment gave another result than its operators one by one."""


@dataclass(frozen=True)
class Operation:
    """An operator call that was recorded: its name, the user's line, and the nodes of its results."""

    name: str
    line: str
    outputs: tuple[Node, ...]


class Shadow:
    """Makes what runs in place of the program of a plan: the program (or what ``backend`` makes of the plan), and its shadow."""

    def __init__(self, function: str, operations: Sequence[Operation], backend: Any, note: Callable[[str], None]) -> None:
        self.function = function
        self.operations = operations
        self.backend = backend
        self.note = note
        self.told = False

    def __call__(self, plan: CallPlan) -> Callable[..., None]:
        inner = None if self.backend is None else self.backend(plan)

        def run(operands: Sequence[Any], numbers: Sequence[Any], results: Sequence[Any]) -> None:
            tensors = [new_tensor(t.memory, t.address, t.meta) for t in operands]
            with no_grad(), outside_capture():
                before = default_generator.state_bytes()
                inputs = [t.clone() if k in plan.run.into else t for k, t in enumerate(tensors)]  # what will be overwritten
                values = self.values(plan, inputs, list(numbers))
                default_generator.set_state_bytes(before)
                run_program(plan.run, operands, numbers, results) if inner is None else inner(operands, numbers, results)
                if not self.told:
                    self._compare(plan, [new_tensor(r.memory, r.address, r.meta) for r in results], inputs, list(numbers), values)

        return run

    def values(self, plan: CallPlan, inputs: list[Any], numbers: list[Any]) -> dict[Node, Any]:
        """What each operator gives by itself, and the outputs."""
        graph = plan.run.function.graph
        known: dict[Node, Any] = dict(zip(graph.inputs, [*inputs, *numbers], strict=True))
        computed = set(toposort(graph.outputs))
        for outputs in [*[[n for n in o.outputs if n in computed] for o in self.operations], list(graph.outputs)]:
            missing = [n for n in dict.fromkeys(outputs) if n not in known]
            order = toposort(missing, lambda n: () if n in known else n.sources)
            missing += [n for n in order if is_draw(n) and n not in missing]  # what is drawn is drawn once
            if missing:
                known.update(zip(missing, _run(missing, known, plan.sizes), strict=True))
        return known

    def _compare(self, plan: CallPlan, results: list[Any], inputs: list[Any], numbers: list[Any], values: dict[Node, Any]) -> None:
        graph = plan.run.function.graph
        for k, result in enumerate(results):
            distance = apart(result, values[graph.outputs[k]])
            if distance:
                self.told = True
                fault = self._first(plan, inputs, numbers, values)
                operation, found = fault or (self._of(graph.outputs[k]), distance)
                together = "" if fault else ", compiled together with what uses its result"
                text = (
                    f"shadow: {self.function}: {operation.name} ({operation.line}) gives another result compiled than by itself{together}: "
                    f"{found}; the first result of the segment that is apart is number {k}, {result.meta!r}, by {distance}"
                )
                self.note(text)
                warnings.warn(text, ShadowWarning, stacklevel=2)
                return

    def _first(self, plan: CallPlan, inputs: list[Any], numbers: list[Any], values: dict[Node, Any]) -> tuple[Operation, str] | None:
        """The first operator whose result differs when all up to it is compiled as one."""
        given = dict(zip(plan.run.function.graph.inputs, [*inputs, *numbers], strict=True))
        given |= {n: value for n, value in values.items() if is_draw(n)}
        for operation in self.operations:
            for node in operation.outputs:
                if node in values and node not in given:
                    distance = apart(_run([node], given, plan.sizes)[0], values[node])
                    if distance:
                        return operation, distance
        return None

    def _of(self, output: Node) -> Operation:
        """The last operator that an output was computed by."""
        below = set(toposort([output]))
        found = [o for o in self.operations if any(n in below for n in o.outputs)]
        return found[-1] if found else Operation("a copy", "unknown line", ())


def is_draw(node: Node) -> bool:
    """Whether a node is drawn at random."""
    return node.op is not INPUT and node.op.family == "random"


def _run(outputs: Sequence[Node], known: Mapping[Node, Any], sizes: Mapping[str, int]) -> list[Any]:
    """Compute nodes from the values of others, in one program."""
    order = toposort(outputs, lambda n: () if n in known else n.sources)
    given = sorted((n for n in order if n in known), key=lambda n: not hasattr(known[n], "memory"))  # tensors first
    names = {n: graph_input(f"x{i}", n.aval) for i, n in enumerate(given)}
    graph = Graph(tuple(names.values()), tuple(rebuild(outputs, lambda node, sources: None, dict(names))))
    tensors = [known[n] for n in given if hasattr(known[n], "memory")]
    function = GraphFunction("shadow", graph, len(tensors))
    metas = tuple([t.meta for t in tensors])
    plan = make_plan(function, None, metas, dict(sizes), [None] * len(metas), [(None, None)] * len(outputs), ())
    return execute(plan, tensors, [known[n] for n in given[len(tensors) :]])


def apart(one: Any, other: Any) -> str:
    """How far two tensors are apart, in words; empty where they are near enough."""
    kind = one.meta.dtype.name
    a, b = (np.asarray(t.detach().to("cpu").double().numpy() if kind in TOLERANCE else t.detach().to("cpu").numpy()) for t in (one, other))
    if not a.size:
        return ""
    if kind not in TOLERANCE and a.dtype.kind != "c":
        wrong = int((a != b).sum())
        return f"{wrong} of {a.size} elements differ" if wrong else ""
    with np.errstate(invalid="ignore"):
        distance = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    scale = float(np.abs(b[np.isfinite(b)]).max(initial=0.0))
    worst = int(np.nan_to_num(distance, nan=np.inf).argmax())
    if np.nan_to_num(distance.flat[worst], nan=np.inf) <= TOLERANCE.get(kind, 3e-4) * max(scale, 1e-30):
        return ""
    place = list(map(int, np.unravel_index(worst, a.shape)))
    return f"largest difference {distance.flat[worst]:.3g} at {place}: {a.flat[worst]:.7g} compiled, {b.flat[worst]:.7g} by itself"
