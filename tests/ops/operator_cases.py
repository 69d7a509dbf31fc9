"""Checks that tests/ops make from operators' samples: the traced body against numpy, its derivative against differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flambeau import prims
from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import Dim, SizeScope, evaluate, symbol
from flambeau.derivative.differentiate import gradients
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
    parameters: list[str]  # of each input, the operator's parameter that it belongs to

    def run(self) -> list[Any]:
        return run_reference(self.graph, self.arrays, self.sizes)


class _Tracer:
    """Turns sample arguments into graph inputs, with a symbol for each size of at least 2."""

    def __init__(self, float_type: dtype) -> None:
        self.float_type = float_type
        self.inputs: list[Node] = []
        self.arrays: list[Any] = []
        self.sizes: dict[str, int] = {}
        self.parameters: list[str] = []

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
        if not weak and array.dtype == np.complex128:
            array = array.astype(self.float_type.to_complex().numpy)
        aval = Aval(tuple(self.size(n) for n in array.shape), dtypes.BY_NUMPY[array.dtype], weak=weak)
        self.inputs.append(graph_input(f"x{len(self.inputs)}", aval))
        self.arrays.append(array)
        return self.inputs[-1]

    def argument(self, operator: Operator, name: str, role: str, value: Any) -> Any:
        before = len(self.inputs)
        node = self._argument(operator, name, role, value)
        self.parameters += [name] * (len(self.inputs) - before)
        return node

    def _argument(self, operator: Operator, name: str, role: str, value: Any) -> Any:
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
    return Traced(Graph(tuple(tracer.inputs), tuple(outputs)), tracer.arrays, tracer.sizes, scope, structure, tracer.parameters)


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
            assert result.shape == wanted.shape, f"{operator.name}{describe(call)}: shape {result.shape}, expected {wanted.shape}"
            same_kind = (result.dtype.kind in "iub") == (wanted.dtype.kind in "iub")
            assert same_kind, f"{operator.name}{describe(call)}: dtype {result.dtype}, expected like {wanted.dtype}"
            # Integers become float32 by promotion, whatever the float type of the others.
            tolerance = max(loosest, 2e-6) if result.dtype == np.float32 else loosest
            if result.dtype.kind not in "iub":
                result = result.astype(np.complex128 if result.dtype.kind == "c" else np.float64)
            np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance, err_msg=f"{operator.name}{describe(call)}")


def describe(call: Call) -> str:
    def one(value: Any) -> str:
        if isinstance(value, np.ndarray):
            return f"{value.dtype}{list(value.shape)}"
        return "[" + ", ".join(map(one, value)) + "]" if isinstance(value, (list, tuple)) else repr(value)

    return "(" + ", ".join([*map(one, call[0]), *(f"{k}={one(v)}" for k, v in call[1].items())]) + ")"


def check_gradient(
    operator: Operator, seed: int = 0, step: float = 1e-5, tolerance: float = 1e-5, constant: Sequence[str] = ()
) -> int:
    """Derived gradients of a random combination of the float outputs equal central differences; counts the samples.

    ``constant`` names parameters that have no derivative.
    """
    checked = 0
    for call in samples_of(operator, seed):
        traced = trace(operator, call)
        outputs = [o for o in traced.graph.outputs if o.dtype.is_floating_point]
        inputs = zip(traced.graph.inputs, traced.parameters, strict=True)
        wrt = [i for i, (n, name) in enumerate(inputs) if n.dtype is dtypes.float64 and not n.aval.weak and name not in constant]
        if not outputs or not wrt or not any(traced.arrays[i].size for i in wrt):
            continue
        _check_one_gradient(operator, call, traced, outputs, wrt, (step, tolerance))
        checked += 1
    return checked


def _check_one_gradient(
    operator: Operator, call: Call, traced: Traced, outputs: Sequence[Node], wrt: Sequence[int], limits: tuple[float, float]
) -> None:
    step, tolerance = limits
    inputs = [traced.graph.inputs[i] for i in wrt]
    generator = np.random.default_rng(7)
    with SizeScope(traced.sizes):
        cotangents = [graph_input(f"g{i}", o.aval) for i, o in enumerate(outputs)]
        found = gradients(outputs, cotangents, inputs)
        parts = [prims.constant(0, x.shape, x.dtype) if g is None else g for g, x in zip(found, inputs, strict=True)]
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
        message = f"gradient of {operator.name}{describe(call)} by input {position}"
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
            np.testing.assert_allclose(result, wanted, rtol=1e-6, atol=1e-6, err_msg=f"{operator.name}{describe(call)}")


def _drawn(generator: np.random.Generator, node: Node, sizes: dict[str, int]) -> Any:
    shape = tuple(evaluate(d, sizes) for d in node.shape)
    kind = node.attributes["kind"]
    if kind == "word":
        return np.asarray(generator.integers(0, 2**32, shape))
    return np.asarray(generator.normal(size=shape) if kind == "normal" else generator.uniform(size=shape)).astype(node.dtype.numpy)
