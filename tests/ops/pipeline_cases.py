"""Runs operators' samples through the whole pipeline, on tensors of any dtype and layout, beside the reference interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from flambeau import prims
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import SizeScope, evaluate
from flambeau.interp.eager import plan_function, run_plan
from flambeau.interp.functions import GraphFunction
from flambeau.interp.reference import run_reference
from flambeau.ir.graph import Graph, graph_input
from flambeau.ir.node import Node, rebuild
from flambeau.ops.declare import ALL, Operator
from flambeau.ops.samples import Call
from flambeau.runtime.generator import default_generator
from flambeau.tensor import tensor_class
from flambeau.tensor.base import from_memory
from flambeau.tensor.grad_mode import no_grad
from flambeau.tensor.gradients import grad
from flambeau.tensor.tensor import tensor_over
from tests.ops.operator_cases import Traced, describe, trace

Tensor = tensor_class.Tensor
Layout = Callable[[Any], Any]

# Largest error allowed, absolute and relative: results of a whole operator against the same graph in numpy.
TOLERANCES = {"float64": 1e-9, "float32": 3e-5, "float16": 4e-3, "bfloat16": 3e-2, "complex128": 1e-9, "complex64": 3e-5}
NO_SIGN = ("eig", "eigh", "svd")  # vectors that are as good with the other sign
GUARD = 64  # elements of canary on both sides of every buffer


# -- layouts --------------------------------------------------------------------------------------------
class Guarded:
    """A tensor with the given strides order over a buffer whose other elements are a pattern that must not change."""

    def __init__(self, array: Any, strides: Sequence[int] | None = None) -> None:
        array = np.asarray(array)
        if strides is None:
            strides = [int(np.prod(array.shape[i + 1 :], dtype=np.int64)) for i in range(array.ndim)]
        extent = sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True)) + 1 if array.size else 0
        self.buffer = np.empty(extent + 2 * GUARD, array.dtype)
        self.buffer.view(np.uint8)[:] = 0xFF if array.dtype.kind in "fV" else 0x01
        self.view = np.lib.stride_tricks.as_strided(self.buffer[GUARD:], array.shape, [s * array.itemsize for s in strides])
        self.view[...] = array
        self._before = self._outside()
        self.tensor = tensor_over(self.view)

    def _outside(self) -> bytes:
        inside = np.zeros(self.buffer.shape, bool)
        mask = np.lib.stride_tricks.as_strided(inside[GUARD:], self.view.shape, [s // self.view.itemsize for s in self.view.strides])
        mask[...] = True
        return self.buffer[~inside].tobytes()

    def check(self) -> None:
        """The canary is whole."""
        assert self._outside() == self._before, "memory around a tensor was written to"


def contiguous(array: Any) -> Guarded:
    return Guarded(array)


def transposed(array: Any) -> Guarded:
    """Axes in memory in reverse order."""
    strides, running = [0] * array.ndim, 1
    for i, n in enumerate(array.shape):
        strides[i], running = running, running * max(n, 1)
    return Guarded(array, strides)


def stepped(array: Any) -> Guarded:
    """Every axis walks over elements that do not belong to it."""
    strides, running = [0] * array.ndim, 2
    for i in reversed(range(array.ndim)):
        strides[i], running = running, running * array.shape[i] + 3
    return Guarded(array, strides)


def expanded(array: Any) -> Guarded:
    """The first axis of more than one element repeats its first: the values are changed to that."""
    axis = next((i for i, n in enumerate(array.shape) if n > 1), None)
    if axis is None:
        return Guarded(array)
    first = np.take(array, [0], axis)
    whole = np.broadcast_to(first, array.shape)
    strides, running = [0] * array.ndim, 1
    for i in reversed(range(array.ndim)):
        if i != axis:
            strides[i], running = running, running * max(array.shape[i], 1)
    return Guarded(whole, strides)


LAYOUTS = {"contiguous": contiguous, "transposed": transposed, "stepped": stepped, "expanded": expanded}


def layouts_for(name: str, *names: str) -> tuple[str, ...]:
    """The layouts without the one that makes matrices singular, where the operator factors them."""
    factors = ALL[name].body.__module__ in ("flambeau.ops.factor", "flambeau.ops.spectral")
    return tuple(n for n in names if n != "expanded") if factors else names


# -- calls ----------------------------------------------------------------------------------------------
def convert(array: Any, kind: dtype) -> Any:
    """A sample's float64 array in ``kind``: integers keep the sign and spread the values."""
    if isinstance(array, np.ndarray) and array.dtype == np.complex128:
        return array.astype(kind.to_complex().numpy)
    if not isinstance(array, np.ndarray) or array.dtype != np.float64:
        return array
    if kind.is_floating_point:
        return array.astype(kind.numpy)
    if kind is dtypes.bool_:
        return np.asarray(array > 0)
    whole = np.rint(np.nan_to_num(array, posinf=5, neginf=-5) * 3)
    return np.asarray(np.abs(whole) if kind.category == "unsigned" else whole).astype(kind.numpy)


def map_arrays(operator: Operator, call: Call, change: Callable[[str, Any], Any]) -> Call:
    """The call with ``change(parameter, array)`` in place of each array that stands for a tensor."""
    roles = dict(zip(operator.names, operator.roles, strict=True))

    def one(name: str, value: Any) -> Any:
        if isinstance(value, np.ndarray) and roles[name] in ("value", "values"):
            return change(name, value)
        if roles[name] == "values" and isinstance(value, (list, tuple)):
            return type(value)(one(name, v) for v in value)
        return value

    args = tuple(one(name, v) for name, v in zip(operator.names, call[0], strict=False))
    return args, {name: one(name, v) for name, v in call[1].items()}


class Run:
    """One call of an operator on tensors; ``guards`` are the buffers of its tensor arguments, in order."""

    def __init__(self, operator: Operator, call: Call, layout: Layout = contiguous) -> None:
        self.operator = operator
        self.guards: list[Guarded] = []

        def tensor(name: str, array: Any) -> Any:
            self.guards.append((contiguous if name in operator.mutates else layout)(array))
            return self.guards[-1].tensor

        self.tensors = map_arrays(operator, call, tensor)
        values = iter([g.view.copy() for g in self.guards])
        self.call = map_arrays(operator, call, lambda name, array: next(values))

    def eager(self) -> list[Any]:
        """The tensors that the operator returns."""
        return list(leaves(self.operator(*self.tensors[0], **self.tensors[1])))

    def check_guards(self) -> None:
        for guard in self.guards:
            guard.check()


def leaves(value: Any) -> Iterator[Any]:
    """The tensors of a result, in order."""
    if isinstance(value, (tuple, list)):
        for v in value:
            yield from leaves(v)
    elif value is not None:
        yield value


def expected_of(operator: Operator, call: Call) -> tuple[Traced, list[Any]]:
    """The trace of a call and what the reference interpreter computes, with the draws that the default generator makes now."""
    traced = trace(operator, call, dtypes.float64)
    draws = sorted((n for n in traced.graph.nodes() if n.op is prims.ALL["random"]), key=lambda n: n.attributes["serial"])
    if not draws:
        return traced, traced.run()
    stands = {n: graph_input(f"draw{i}", n.aval) for i, n in enumerate(draws)}
    with SizeScope(traced.sizes):
        outputs = rebuild(traced.graph.outputs, lambda node, sources: None, dict(stands))
    graph = Graph((*traced.graph.inputs, *stands.values()), tuple(outputs))
    return traced, run_reference(graph, [*traced.arrays, *_drawn(draws, traced.sizes)], traced.sizes)


def _drawn(draws: Sequence[Node], sizes: dict[str, int]) -> list[Any]:
    """What the draws give next, made by a program that does nothing else; the generator stays where it was."""
    nodes = [Node(n.op, (), **{**n.attributes, "shape": tuple(evaluate(d, sizes) for d in n.shape)}) for n in draws]
    state = default_generator.clone_state()
    plan = plan_function(GraphFunction("draws", Graph((), tuple(nodes)), 0), (), {}, (), [(None, None)] * len(nodes))
    arrays = [from_memory(o.memory, o.address, o.meta, Tensor).array().copy() for o in run_plan(plan, (), ())]
    default_generator.assign(state)
    return arrays


def arrays_of(tensors: Sequence[Any]) -> list[Any]:
    return [t.array() for t in tensors]


def check_equal(operator: Operator, call: Call, found: Sequence[Any], expected: Sequence[Any], tolerance: float | None = None) -> None:
    """Tensors equal arrays in number, shape, dtype and value."""
    what = f"{operator.name}{describe(call)}"
    assert len(found) == len(expected), f"{what}: {len(found)} results, expected {len(expected)}"
    for tensor, wanted in zip(found, expected, strict=True):
        assert tensor.meta.shape == wanted.shape, f"{what}: shape {tensor.meta.shape}, expected {wanted.shape}"
        assert tensor.meta.dtype.numpy == wanted.dtype, f"{what}: dtype {tensor.meta.dtype}, expected {wanted.dtype}"
        array = tensor.array()
        if operator.name in NO_SIGN:
            array, wanted = np.abs(array), np.abs(wanted)
        compare(array, wanted, what, tolerance)


def compare(found: Any, wanted: Any, what: str, tolerance: float | None = None) -> None:
    """Arrays are equal: exactly for integers and bools, within the dtype's tolerance else."""
    name = dtypes.BY_NUMPY[wanted.dtype].name
    if name in TOLERANCES:
        limit = TOLERANCES[name] if tolerance is None else tolerance
        wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(found.astype(wide), wanted.astype(wide), rtol=limit, atol=limit, err_msg=what)
    else:
        np.testing.assert_array_equal(found, wanted, err_msg=what)


# -- gradients ------------------------------------------------------------------------------------------
class Differentiated:
    """A call in float64 whose float tensors want gradients, and a random combination of its float results as the loss."""

    def __init__(self, operator: Operator, call: Call, layout: Layout = contiguous, constant: Sequence[str] = ()) -> None:
        self.operator = operator
        self.layout = layout
        self.random = np.random.default_rng(7)
        self.weights: list[Any] = []
        self.leaves: list[Any] = []
        self.guards: list[Guarded] = []

        def tensor(name: str, array: Any) -> Any:
            guard = layout(array)
            self.guards.append(guard)
            if array.dtype in (np.float64, np.complex128) and name not in constant:
                self.leaves.append(guard)
                guard.tensor.requires_grad_(True)
            return guard.tensor

        self.call = map_arrays(operator, call, tensor)

    def results(self, function: Callable[..., Any] | None = None) -> list[Any]:
        """The float results of the operator (or of ``function``), not yet weighed."""
        default_generator.manual_seed(3)
        out = (function or self.operator)(*self.call[0], **self.call[1])
        return [t for t in leaves(out) if t.meta.dtype.is_inexact]

    def _uniform(self, low: float, high: float, shape: tuple[int, ...], like: np.dtype[Any]) -> Any:
        """Random numbers; complex ones have both parts in the range."""
        real = np.asarray(self.random.uniform(low, high, shape))
        return (real + 1j * self.random.uniform(low, high, shape) if like.kind == "c" else real).astype(like)

    def cotangents(self, results: Sequence[Any]) -> list[Any]:
        """The weights of the results in the loss, the same at every call."""
        if not self.weights:
            self.weights = [self._uniform(0.5, 1.5, r.meta.shape, r.meta.dtype.numpy) for r in results]
        return [tensor_over(np.array(w)) for w in self.weights]

    def loss(self) -> float:
        results = self.results()
        self.cotangents(results)
        return float(sum((w.conj() * r.array()).real.sum() for w, r in zip(self.weights, results, strict=True)))

    def gradients(self, function: Callable[..., Any] | None = None) -> list[Any]:
        """Arrays of the gradients by the leaves, zeros where there is none."""
        results = self.results(function)
        given = [(r, c) for r, c in zip(results, self.cotangents(results), strict=True) if r.requires_grad]
        if not given:
            return [np.zeros_like(g.view) for g in self.leaves]
        found = grad([r for r, _ in given], [g.tensor for g in self.leaves], [c for _, c in given], allow_unused=True)
        return [np.zeros_like(g.view) if f is None else f.array() for f, g in zip(found, self.leaves, strict=True)]

    def check(self, found: Sequence[Any], tolerance: float = 2e-5, step: float = 1e-5) -> None:
        """Gradients agree with central differences of the loss along random directions, leaf by leaf."""
        for k, (guard, gradient) in enumerate(zip(self.leaves, found, strict=True)):
            assert gradient.shape == guard.view.shape
            start = guard.view.copy()
            for _ in range(2):
                # Through the same layout, so that elements that share memory move together.
                direction = self.layout(self._uniform(-1, 1, start.shape, start.dtype)).view
                values = []
                for sign in (1, -1):
                    guard.view[...] = start + sign * step * direction
                    with no_grad():
                        values.append(self.loss())
                guard.view[...] = start
                numeric, derived = (values[0] - values[1]) / (2 * step), float((gradient.conj() * direction).real.sum())
                message = f"gradient of {self.operator.name} by leaf {k}"
                np.testing.assert_allclose(derived, numeric, rtol=tolerance, atol=tolerance, err_msg=message)
