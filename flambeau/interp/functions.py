"""GraphFunction: a traced computation that holds for many sizes, its programs by memory layout and its derivatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flambeau.compilation.program import Program
from flambeau.core.aval import Aval
from flambeau.core.device import Device, cpu
from flambeau.core.symbolic import Dim, Expression, Predicate, SizeScope, compiled, evaluate, symbol, symbols_of
from flambeau.derivative.partition import Partition, partition
from flambeau.ir.graph import INPUT, Graph, graph_input
from flambeau.ir.node import Node, rebuild
from flambeau.schedule.specs import InputSpec, OutputSpec
from flambeau.schedule.split import CPU_PIECES, GPU_PIECES, long_reductions

Ints = tuple[int, ...]
Layout = tuple[int, ...] | None  # stride classes, None for row-major
_Holds = Callable[[Mapping[str, int]], bool] | None


class GraphFunction:
    """A graph whose first ``tensors`` inputs are tensors and whose other inputs are numbers.

    ``predicates`` say for which sizes it holds. Calls choose a program by the layouts of the tensors; the program is
    scheduled and compiled once for each.
    """

    def __init__(self, name: str, graph: Graph, tensors: int, predicates: Sequence[Predicate] = ()) -> None:
        self.name = name
        self.graph = graph
        self.tensors = tensors
        self.predicates = tuple(predicates)
        self.symbols = tuple(symbols_of(d for i in graph.inputs for d in i.shape))
        self._programs: dict[Any, Program] = {}
        self._derivatives: dict[Any, list[tuple[_Holds, Derivative | None]]] = {}
        self._holds = _predicate_function(self.predicates)

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether the trace is valid for these sizes."""
        return self._holds is None or self._holds(sizes)

    def sizes(self, shapes: Sequence[Ints]) -> dict[str, int] | None:
        """The value of each size symbol when the tensors have these shapes; None when they cannot have them."""
        found: dict[str, int] = {}
        for node, shape in zip(self.graph.inputs, shapes, strict=False):
            for dim, size in zip(node.shape, shape, strict=True):
                if (found.setdefault(str(dim), size) if isinstance(dim, Expression) else dim) != size:
                    return None
        return found

    def program(
        self, layouts: tuple[Layout, ...], outputs: tuple[OutputSpec, ...], sizes: Mapping[str, int], device: Device = cpu
    ) -> Program:
        """The program for tensors with these stride classes, and for sizes at which the same reductions are split."""
        pieces = CPU_PIECES if device is cpu else GPU_PIECES
        key = (layouts, outputs, long_reductions(self.graph, sizes, pieces), device)
        found = self._programs.get(key)
        if found is None:
            inputs = [InputSpec(None if layout is None else stride_dims(i, layout)) for i, layout in enumerate(layouts)]
            inputs += [InputSpec(None, scalar=True)] * (len(self.graph.inputs) - self.tensors)
            found = self._programs[key] = self._new_program(inputs, outputs, sizes, device)
        return found

    def _new_program(
        self, inputs: Sequence[InputSpec], outputs: tuple[OutputSpec, ...], sizes: Mapping[str, int], device: Device
    ) -> Program:
        if device is cpu:
            return Program(self.graph, inputs, outputs, sizes, self.name)
        from flambeau.compilation.cuda_program import CudaProgram  # noqa: PLC0415 - a process without GPUs does without

        return CudaProgram(self.graph, inputs, outputs, sizes, self.name, device)

    def _value(self, number: int) -> Node:
        return self.graph.inputs[number] if number >= 0 else self.graph.outputs[~number]

    def at_sizes(self, sizes: Mapping[str, int]) -> Graph:
        """The graph with every size an int."""
        known: dict[Node, Node] = {}

        def concrete(value: Any) -> Any:
            if isinstance(value, Expression):
                return evaluate(value, sizes)
            return tuple(concrete(v) for v in value) if isinstance(value, tuple) else value

        def replace(node: Node, sources: tuple[Node, ...]) -> Node:
            if node.op is INPUT:
                aval = node.aval
                return graph_input(node.attributes["label"], Aval(concrete(aval.shape), aval.dtype, aval.weak))
            return Node(node.op, sources, **{k: concrete(v) for k, v in node.attributes.items()})

        nodes = rebuild((*self.graph.inputs, *self.graph.outputs), replace, known)
        count = len(self.graph.inputs)
        return Graph(tuple(nodes[:count]), tuple(nodes[count:]))

    def output_shapes(self, sizes: Mapping[str, int]) -> list[Ints]:
        return [tuple(evaluate(d, sizes) for d in o.shape) for o in self.graph.outputs]

    def derivative(
        self, wanted: tuple[bool, ...], present: tuple[bool, ...], sizes: Mapping[str, int], extra: frozenset[Node] | None = None,
        overwritten: frozenset[int] = frozenset(),
    ) -> Derivative | None:  # fmt: skip
        """Forward and backward functions for gradients of the marked tensors; None when no output depends on them.

        Differentiating compares sizes too, so there may be one for some sizes and another for others. ``extra`` values of the
        graph are all that is saved beside inputs and outputs when it is given. Of the tensors numbered in ``overwritten``, and the outputs
        numbered ~k there, copies are saved.
        """
        variants = self._derivatives.setdefault((wanted, present, extra, overwritten), [])
        for holds, found in variants:
            if holds is None or holds(sizes):
                return found
        inputs = [n for n, w in zip(self.graph.inputs, wanted, strict=False) if w]
        with SizeScope(sizes) as scope:
            split = partition(self.graph, inputs, present, extra, frozenset(self._value(k) for k in overwritten))
            derivative = Derivative(self, split, overwritten) if any(split.given) else None
        known = {(r, e) for r, e, _ in self.predicates}
        new = [(r, e, truth) for (r, e), truth in scope.predicates.items() if (r, e) not in known]
        variants.append((_predicate_function(new), derivative))
        return derivative


def stride_dims(position: int, layout: tuple[int, ...]) -> tuple[Dim, ...]:
    """Strides as a program sees them: 0 and 1 are known, others are symbols."""
    return tuple(c if c < 2 else symbol(f"t{position}_{axis}") for axis, c in enumerate(layout))


def layout_of(shape: Ints, strides: Ints) -> Layout:
    """The stride classes of a tensor; None when it is row-major."""
    running = 1
    contiguous = True
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1:
            contiguous &= stride == running
        running *= size
    return None if contiguous or running == 0 else tuple(s if 0 <= s < 2 else 2 for s in strides)


def stride_sizes(position: int, strides: Ints, layout: Layout) -> dict[str, int]:
    """The values of the stride symbols of tensor ``position``."""
    if layout is None:
        return {}
    return {f"t{position}_{axis}": s for axis, (s, c) in enumerate(zip(strides, layout, strict=True)) if c == 2}


def _predicate_function(predicates: Sequence[Predicate]) -> _Holds:
    if not predicates:
        return None
    names = tuple(symbols_of(e for _, e, _ in predicates))
    values = compiled([e for _, e, _ in predicates], names)
    tests = [(r == "eq", truth) for r, _, truth in predicates]

    def holds(sizes: Mapping[str, int]) -> bool:
        try:
            found = values(*(sizes[n] for n in names))
        except KeyError:
            return False
        return all(((v == 0) if equal else (v >= 0)) is truth for v, (equal, truth) in zip(found, tests, strict=True))

    return holds


@dataclass(eq=False)
class Derivative:
    """How to differentiate a function: run ``forward`` (outputs, then extra saved values), later ``backward``.

    ``saved`` says where each saved value of the backward function comes from: ("input", i), ("number", j), ("output", k) or
    ("extra", k). Backward's tensors are the saved tensors, then the cotangents of the outputs marked present. ``kept`` adds
    what only a second derivative needs.
    """

    function: GraphFunction
    split: Partition
    overwritten: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        original, split = self.function, self.split
        self.forward = GraphFunction(original.name, split.forward, original.tensors, original.predicates)
        tensors = [n for n in split.saved if n.op is not INPUT or original.graph.inputs.index(n) < original.tensors]
        numbers = [n for n in split.saved if n not in tensors]
        placeholders = dict(zip(split.saved, split.backward.inputs, strict=False))
        cotangents = split.backward.inputs[len(split.saved) :]
        inputs = (*(placeholders[n] for n in tensors), *cotangents, *(placeholders[n] for n in numbers))
        self.saved = [self._origin(n) for n in tensors]
        origins = [n for n in split.origins if n not in tensors and original.graph.inputs.index(n) < original.tensors]
        self.kept = self.saved + [self._origin(n) for n in origins]
        self.saved_numbers = [original.graph.inputs.index(n) - original.tensors for n in numbers]
        graph = Graph(inputs, split.backward.outputs)
        self.backward = GraphFunction(original.name + "_backward", graph, len(tensors) + len(cotangents))
        self.given = split.given

    def _origin(self, node: Node) -> tuple[str, int]:
        graph = self.function.graph
        if node.op is INPUT:
            return "input", graph.inputs.index(node)
        if node in graph.outputs:
            return "output", graph.outputs.index(node)
        return "extra", self.split.extra.index(node)
