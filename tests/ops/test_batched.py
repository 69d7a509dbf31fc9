"""Every operator in its batched form against a loop of calls: results, gradients by what is batched, and by what is the same for all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flambeau import prims
from flambeau.ops.declare import ALL, Operator
from flambeau.prims.batching import without_rule
from flambeau.runtime.generator import default_generator
from flambeau.tensor.batching import batched, draws_numbers, unbatched, vmap_level
from flambeau.tensor.gradients import grad
from flambeau.tensor.tensor import tensor_over
from tests.ops.operator_cases import describe, samples_of
from tests.ops.pipeline_cases import NO_SIGN, leaves, map_arrays

SIZE = 3
# Which tensors have a batch: all, only the first, all but the first.
MODES = {"all": lambda k: True, "first": lambda k: k == 0, "rest": lambda k: k != 0}
# Integers that must stay what they are: sorted, or pivots.
ORDERED = frozenset(("searchsorted", "bucketize", "ldl_solve", "lu_solve", "lu_unpack", "embedding_bag"))
# All but attention, whose samples drop nothing out.
RANDOM = sorted(n for n, o in ALL.items() if draws_numbers(o.body.__code__, o.body.__globals__) and n != "scaled_dot_product_attention")
NAMES = sorted(n for n in ALL if n not in RANDOM)
# Derivatives that are one of many as good ones, or of what has none.
NO_GRADIENTS = frozenset((*NO_SIGN, "ldl_factor", "ldl_factor_ex", "geqrf", "zeta", "airy_ai", "nextafter"))


def _variants(name: str, array: Any) -> Any:
    """Different values of the same kind along a new first axis."""
    if array.dtype.kind in "fc":
        return np.stack([array * (1 - 0.04 * k) for k in range(SIZE)])
    if name in ORDERED or not array.ndim:
        return np.stack([array] * SIZE)
    return np.stack([array, np.flip(array, -1), array])


class Case:
    """A call with some of its tensors batched; ``single(k)`` is the call for place k."""

    def __init__(self, operator: Operator, call: Any, mode: str) -> None:
        self.operator = operator
        self.arrays: list[Any] = []
        self.marks: list[bool] = []

        def keep(name: str, array: Any) -> int:
            many = MODES[mode](len(self.arrays))
            self.arrays.append(_variants(operator.name, array) if many else array)
            self.marks.append(many)
            return len(self.arrays) - 1

        self.call = call
        map_arrays(operator, call, keep)
        self.floats = [k for k, a in enumerate(self.arrays) if a.dtype.kind in "fc"]

    def run(self, tensors: list[Any]) -> list[Any]:
        given = iter(tensors)
        args, kwargs = map_arrays(self.operator, self.call, lambda name, array: next(given))
        return list(leaves(self.operator(*args, **kwargs)))

    def single(self, place: int) -> list[Any]:
        return [tensor_over(np.array(a[place] if m else a)) for a, m in zip(self.arrays, self.marks, strict=True)]

    def whole(self) -> list[Any]:
        return [tensor_over(np.array(a)) for a in self.arrays]

    def loop(self) -> list[list[Any]]:
        """The results of each place."""
        return [[r.array().copy() for r in self.run(self.single(k))] for k in range(SIZE)]

    def mapped(self) -> list[Any]:
        with vmap_level(SIZE) as level:
            given = [batched(t, 0 if m else None, level) for t, m in zip(self.whole(), self.marks, strict=True)]
            return [unbatched(r, 0, level, SIZE) for r in self.run(given)]

    def _weighed(self, results: list[Any], inputs: list[Any]) -> list[Any]:
        """The gradients of the results, weighed by fixed numbers."""
        live = [r for r in results if r.meta.dtype.is_inexact and r.requires_grad]
        if not live:
            return [None] * len(inputs)
        random = np.random.default_rng(7)
        weights = [tensor_over(np.asarray(random.uniform(0.5, 1.5, r.meta.shape)).astype(r.meta.dtype.numpy)) for r in live]
        return list(grad(live, inputs, weights, allow_unused=True))

    def loop_gradients(self) -> list[list[Any]]:
        found: list[list[Any]] = []
        for k in range(SIZE):
            tensors = self.single(k)
            inputs = [tensors[i].requires_grad_() for i in self.floats]
            gradients = zip(self._weighed(self.run(tensors), inputs), inputs, strict=True)
            found.append([np.zeros(x.meta.shape) if g is None else g.array().copy() for g, x in gradients])
        return found

    def inner_gradients(self) -> list[Any]:
        """By tensors of the ``vmap``: one gradient for each place also by what is the same for all."""
        with vmap_level(SIZE) as level:
            given = [batched(t, 0 if m else None, level) for t, m in zip(self.whole(), self.marks, strict=True)]
            inputs = [given[i].requires_grad_() for i in self.floats]
            found = self._weighed(self.run(given), inputs)
            return [None if g is None else unbatched(g, 0, level, SIZE).array() for g in found]

    def outer_gradients(self) -> list[Any]:
        """By tensors outside."""
        tensors = self.whole()
        inputs = [tensors[i].requires_grad_() for i in self.floats]
        with vmap_level(SIZE) as level:
            given = [batched(t, 0 if m else None, level) for t, m in zip(tensors, self.marks, strict=True)]
            results = [unbatched(r, 0, level, SIZE) for r in self.run(given) if r.meta.dtype.is_inexact]
        live = [r for r in results if r.requires_grad]
        if not live:
            return [None] * len(inputs)
        random = np.random.default_rng(7)
        weights = []
        for r in live:
            one = np.asarray(random.uniform(0.5, 1.5, r.meta.shape[1:])).astype(r.meta.dtype.numpy)
            weights.append(tensor_over(np.stack([one] * SIZE)))
        return [None if g is None else g.array() for g in grad(live, inputs, weights, allow_unused=True)]


def _equal(found: Any, wanted: Any, what: str, name: str, tolerance: float = 1e-9) -> None:
    assert found.shape == wanted.shape, f"{what}: {found.shape}, expected {wanted.shape}"
    if name in NO_SIGN:
        found, wanted = np.abs(found), np.abs(wanted)
    limit = tolerance if wanted.dtype.itemsize > 4 or wanted.dtype.kind == "c" and wanted.dtype.itemsize > 8 else 3e-5
    np.testing.assert_allclose(found, wanted, rtol=limit, atol=limit, err_msg=what)


def _chosen(operator: Operator, number: int) -> Any:
    calls = samples_of(operator)
    return calls[number % len(calls)]


def check_results(name: str, number: int, mode: str) -> bool:
    operator = ALL[name]
    call = _chosen(operator, number)
    case = Case(operator, call, mode)
    if not case.arrays or not any(case.marks) or (operator.mutates and mode != "all"):
        return False
    what = f"{name}{describe(call)} {mode}"
    try:
        wanted = case.loop()
    except RuntimeError as error:
        assert operator.kind == "view" and "not compatible" in str(error), error
        return False
    for k, found in enumerate(case.mapped()):
        _equal(found.array(), np.stack([w[k] for w in wanted]), what, name)
    return True


def check_gradients(name: str, number: int, mode: str) -> bool:
    operator = ALL[name]
    call = _chosen(operator, number)
    case = Case(operator, call, mode)
    if operator.mutates or name in NO_GRADIENTS or not case.floats or not any(case.marks):
        return False
    what = f"{name}{describe(call)} {mode}"
    try:
        wanted = case.loop_gradients()
    except RuntimeError as error:
        assert operator.kind == "view" and "not compatible" in str(error), error
        return False
    inner, outer = case.inner_gradients(), case.outer_gradients()
    for k, position in enumerate(case.floats):
        each = np.stack([w[k] for w in wanted])
        if inner[k] is not None:
            _equal(inner[k], each, f"{what}: inner gradient {position}", name, 1e-7)
        else:
            assert not each.any(), f"{what}: no inner gradient {position}"
        total = each if case.marks[position] else each.sum(0)
        if outer[k] is not None:
            _equal(outer[k], total, f"{what}: outer gradient {position}", name, 1e-7)
        else:
            assert not total.any(), f"{what}: no outer gradient {position}"
    return True


def test_every_primitive_has_a_rule() -> None:
    assert without_rule() == []
    assert len(prims.ALL) > 80


@pytest.mark.parametrize("name", NAMES)
def test_results(name: str) -> None:
    check_results(name, 0, "all")
    check_results(name, 1, "rest")


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name: str) -> None:
    check_gradients(name, 0, "all")
    check_gradients(name, 1, "first")


@pytest.mark.parametrize("name", RANDOM)
def test_draws(name: str) -> None:
    operator = ALL[name]
    case = Case(operator, samples_of(operator)[0], "all")
    with pytest.raises(RuntimeError, match="randomness error mode"), vmap_level(SIZE, "error") as level:
        case.run([batched(t, 0, level) for t in case.whole()])
    for randomness in ("same", "different"):
        default_generator.manual_seed(3)
        with vmap_level(SIZE, randomness) as level:
            found = case.run([batched(t, 0, level) for t in case.whole()])
            shapes = [f.meta.shape for f in found]
            results = [unbatched(f, 0, level, SIZE) for f in found]
        default_generator.manual_seed(3)
        assert [r.meta.shape for r in case.run(case.single(0))] == shapes
        assert all(r.meta.shape[0] == SIZE for r in results)
