"""Checks that tests/ops make from operators' samples: the traced body against numpy, its derivative against differences."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flambeau import prims
from flambeau.autograd.differentiate import gradients, zeros_where_missing
from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import Dim, SizeScope, evaluate, symbol
from flambeau.interp.reference import run_reference
from flambeau.ir.graph import Graph, graph_input
from flambeau.ir.node import Node, rebuild
from flambeau.ops.declare import ALL, Operator, exact_type, map_nodes
from flambeau.ops.samples import Call, SampleMaker


@dataclass
class Traced:
    """A body traced on symbolic sizes, with the arrays and sizes that it was traced for."""

    graph: Graph
    arrays: list[Any]
    sizes: dict[str, int]
    scope: SizeScope
    structure: Any

    def run(self) -> list[Any]:
        return run_reference(self.graph, self.arrays, self.sizes)


class _Tracer:
    """Turns sample arguments into graph inputs, with a symbol for each size of at least 2."""

    def __init__(self, float_type: dtype) -> None:
        self.float_type = float_type
        self.inputs: list[Node] = []
        self.arrays: list[Any] = []
        self.sizes: dict[str, int] = {}

    def size(self, value: Any) -> Dim:
        if not isinstance(value, int) or isinstance(value, bool) or value < 2:
            return value
        name = f"s{len(self.sizes)}"
        self.sizes[name] = value
        return symbol(name)

    def value(self, value: Any) -> Any:
        if value is None:
            return None
        weak = isinstance(value, (bool, int, float))
        array = np.asarray(value, exact_type(value).numpy) if weak else value
        if not weak and array.dtype == np.float64:
            array = array.astype(self.float_type.numpy)
        aval = Aval(tuple(self.size(n) for n in array.shape), dtypes.BY_NUMPY[array.dtype], weak=weak)
        self.inputs.append(graph_input(f"x{len(self.inputs)}", aval))
        self.arrays.append(array)
        return self.inputs[-1]

    def argument(self, operator: Operator, name: str, role: str, value: Any) -> Any:
        if name in operator.defaults and type(value) is type(operator.defaults[name]) and value == operator.defaults[name]:
            return value
        if role == "value":
            return self.value(value)
        if role == "values" and value is not None:
            return [self.value(v) for v in value]
        if role == "size":
            return self.size(value)
        if role == "sizes" and isinstance(value, (list, tuple)):
            return tuple(self.size(v) for v in value)
        return value


def trace(operator: Operator, call: Call, float_type: dtype = dtypes.float64) -> Traced:
    """The operator's graph for one sample; float64 arrays become ``float_type``."""
    tracer = _Tracer(float_type)
    arguments = operator.bind(*call)
    nodes = [tracer.argument(operator, n, r, v) for n, r, v in zip(operator.names, operator.roles, arguments, strict=True)]
    outputs: list[Node] = []
    with SizeScope(tracer.sizes) as scope:
        structure = operator.inline(nodes)
        map_nodes(lambda n: outputs.append(n) or n, structure)
    return Traced(Graph(tuple(tracer.inputs), tuple(outputs)), tracer.arrays, tracer.sizes, scope, structure)


def operators_of(module: str) -> list[Operator]:
    """The operators that ``flambeau.ops.<module>`` declares."""
    return [o for o in ALL.values() if o.body.__module__ == f"flambeau.ops.{module}"]


def samples_of(operator: Operator, seed: int = 0) -> list[Call]:
    """The operator's samples, freshly drawn; an operator without any fails the test."""
    assert operator.samples is not None, f"{operator.name} has no samples"
    return list(operator.samples(SampleMaker(seed)))


def flatten(value: Any) -> Iterator[Any]:
    """The arrays of an oracle's answer, in order."""
    if isinstance(value, (tuple, list)):
        for v in value:
            yield from flatten(v)
    else:
        yield value


def check_against(operator: Operator, oracle: Callable[..., Any], float_type: dtype = dtypes.float64, seed: int = 0) -> None:
    """The traced body on every sample equals ``oracle`` called on the same (float64) arrays, in shape and value."""
    loosest = 1e-9 if float_type is dtypes.float64 else 2e-5 if float_type is dtypes.float32 else 3e-2
    for call in samples_of(operator, seed):
        results = trace(operator, call, float_type).run()
        expected = list(flatten(oracle(*call[0], **call[1])))
        assert len(results) == len(expected), f"{operator.name}: {len(results)} results, expected {len(expected)}"
        for result, wanted in zip(results, expected, strict=True):
            wanted = np.asarray(wanted)
            assert result.shape == wanted.shape, f"{operator.name}{_describe(call)}: shape {result.shape}, expected {wanted.shape}"
            same_kind = (result.dtype.kind in "iub") == (wanted.dtype.kind in "iub")
            assert same_kind, f"{operator.name}{_describe(call)}: dtype {result.dtype}, expected like {wanted.dtype}"
            # Integers become float32 by promotion, whatever the float type of the others.
            tolerance = max(loosest, 2e-6) if result.dtype == np.float32 else loosest
            if result.dtype.kind not in "iub":
                result = result.astype(np.float64)
            np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance, err_msg=f"{operator.name}{_describe(call)}")


def _describe(call: Call) -> str:
    def one(value: Any) -> str:
        if isinstance(value, np.ndarray):
            return f"{value.dtype}{list(value.shape)}"
        return "[" + ", ".join(map(one, value)) + "]" if isinstance(value, (list, tuple)) else repr(value)

    return "(" + ", ".join([*map(one, call[0]), *(f"{k}={one(v)}" for k, v in call[1].items())]) + ")"


def check_gradient(
    operator: Operator, seed: int = 0, step: float = 1e-5, tolerance: float = 1e-5, derive: Derive | None = None
) -> int:
    """Derived gradients of a random combination of the float outputs equal central differences; counts the samples."""
    checked = 0
    for call in samples_of(operator, seed):
        traced = trace(operator, call)
        outputs = [o for o in traced.graph.outputs if o.dtype.is_floating_point]
        wrt = [i for i, n in enumerate(traced.graph.inputs) if n.dtype is dtypes.float64 and not n.aval.weak]
        if not outputs or not wrt or not any(traced.arrays[i].size for i in wrt):
            continue
        _check_one_gradient(operator, call, traced, outputs, wrt, (step, tolerance), derive or _derived)
        checked += 1
    return checked


def check_derivative(operator: Operator, seed: int = 0, step: float = 1e-5, tolerance: float = 1e-5) -> int:
    """As ``check_gradient`` for the derivative that the operator declares itself."""
    return check_gradient(operator, seed, step, tolerance, derive=lambda *given: _declared(operator, *given))


Derive = Callable[[Call, Sequence[Node], Sequence[Node], Sequence[Node]], list["Node | None"]]


def _derived(call: Call, outputs: Sequence[Node], cotangents: Sequence[Node], inputs: Sequence[Node]) -> list[Node | None]:
    return gradients(outputs, cotangents, inputs)


def _declared(
    operator: Operator, call: Call, outputs: Sequence[Node], cotangents: Sequence[Node], inputs: Sequence[Node]
) -> list[Node | None]:
    """The declared derivative by what the body gets, then through the promotion and broadcasting before it."""
    arguments: list[Any] = []
    results: list[Node] = []

    def watching(*args: Any, **kwargs: Any) -> Any:
        out = operator.body(*args, **kwargs)
        arguments.extend((*args, *kwargs.values()))
        map_nodes(lambda n: results.append(n) or n, out)
        return out

    watched = copy.copy(operator)
    watched.body = watching
    trace(watched, call)
    given = [dict(zip(outputs, cotangents, strict=True)).get(r) for r in results]
    assert operator.derivative is not None
    parts = operator.derivative(tuple(given), tuple(results), tuple(arguments))
    operands = [a for a, role in zip(arguments, operator.roles, strict=True) if role == "value"]
    assert len(parts) == len(operands), f"{operator.name}: {len(parts)} gradients for {len(operands)} operands"
    pairs = [(a, g) for a, g in zip(operands, parts, strict=True) if g is not None and isinstance(a, Node)]
    for operand, part in pairs:
        assert (part.shape, part.dtype) == (operand.shape, operand.dtype), f"{operator.name}: gradient {part.aval} of {operand.aval}"
    return gradients([a for a, _ in pairs], [g for _, g in pairs], inputs)


def _check_one_gradient(
    operator: Operator, call: Call, traced: Traced, outputs: Sequence[Node], wrt: Sequence[int], limits: tuple[float, float],
    derive: Derive,
) -> None:  # fmt: skip
    step, tolerance = limits
    inputs = [traced.graph.inputs[i] for i in wrt]
    generator = np.random.default_rng(7)
    with SizeScope(traced.sizes):
        cotangents = [graph_input(f"g{i}", o.aval) for i, o in enumerate(outputs)]
        parts = zeros_where_missing(derive(call, outputs, cotangents, inputs), inputs)
    forward = Graph(traced.graph.inputs, tuple(outputs))
    weights = [np.asarray(generator.uniform(0.5, 1.5, r.shape)) for r in run_reference(forward, traced.arrays, traced.sizes)]
    whole = Graph((*traced.graph.inputs, *cotangents), tuple(parts))
    derived = run_reference(whole, [*traced.arrays, *weights], traced.sizes)

    def loss(arrays: Sequence[Any]) -> float:
        results = run_reference(forward, arrays, traced.sizes)
        return float(sum((w * r).sum() for w, r in zip(weights, results, strict=True)))

    for position, result in zip(wrt, derived, strict=True):
        numeric = np.zeros(traced.arrays[position].shape)
        for index in np.ndindex(numeric.shape):
            values = []
            for sign in (1, -1):
                arrays = list(traced.arrays)
                arrays[position] = arrays[position].copy()
                arrays[position][index] += sign * step
                values.append(loss(arrays))
            numeric[index] = (values[0] - values[1]) / (2 * step)
        message = f"gradient of {operator.name}{_describe(call)} by input {position}"
        np.testing.assert_allclose(result, numeric, rtol=tolerance, atol=tolerance, err_msg=message)


def check_random(operator: Operator, oracle: Callable[..., Any], seed: int = 0) -> None:
    """As ``check_against`` for an operator that draws: ``oracle(draws, *args, **kwargs)`` gets what was drawn, in order."""
    generator = np.random.default_rng(seed)
    for call in samples_of(operator, seed):
        traced = trace(operator, call)
        draws = sorted((n for n in traced.graph.nodes() if n.op is prims.ALL["random"]), key=lambda n: n.attributes["serial"])
        stands = {n: graph_input(f"draw{i}", n.aval) for i, n in enumerate(draws)}
        arrays = [_drawn(generator, n, traced.sizes) for n in draws]
        with SizeScope(traced.sizes):
            outputs = rebuild(traced.graph.outputs, lambda node, sources: None, dict(stands))
        graph = Graph((*traced.graph.inputs, *stands.values()), tuple(outputs))
        results = run_reference(graph, [*traced.arrays, *arrays], traced.sizes)
        expected = list(flatten(oracle(arrays, *call[0], **call[1])))
        for result, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, wanted, rtol=1e-6, atol=1e-6, err_msg=f"{operator.name}{_describe(call)}")


def _drawn(generator: np.random.Generator, node: Node, sizes: dict[str, int]) -> Any:
    shape = tuple(evaluate(d, sizes) for d in node.shape)
    kind = node.attributes["kind"]
    if kind == "word":
        return np.asarray(generator.integers(0, 2**32, shape))
    return np.asarray(generator.normal(size=shape) if kind == "normal" else generator.uniform(size=shape)).astype(node.dtype.numpy)
