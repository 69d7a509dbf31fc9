"""How products are scheduled: which factors are read in place, where results are stored, and that the numbers are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ml_dtypes
import numpy as np
import pytest

from flambeau import prims as p
from flambeau.compilation.program import Program
from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.core.config import config
from flambeau.core.symbolic import Dim, evaluate, symbol
from flambeau.ir.graph import Graph, graph_input
from flambeau.ir.node import Node
from flambeau.schedule.operands import batch_levels
from flambeau.schedule.specs import InputSpec, OutputSpec


def source(name: str, *shape: Dim, dtype: dtypes.dtype = dtypes.float32) -> Node:
    return graph_input(name, Aval(shape, dtype))


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng().standard_normal(shape).astype(np.float32)


def run(
    inputs: Sequence[Node], outputs: Sequence[Node], arrays: Sequence[np.ndarray], into: int | None = None,
    sizes: Mapping[str, int] | None = None,
) -> tuple[Program, list[np.ndarray]]:  # fmt: skip
    """``into``: the input that the only output is written into."""
    sizes = sizes or {}
    specs = [InputSpec(None if a.flags.c_contiguous else tuple(s // a.itemsize for s in a.strides)) for a in arrays]
    program = Program(Graph(tuple(inputs), tuple(outputs)), specs, [OutputSpec(into=into) for _ in outputs])
    results = [np.full([evaluate(n, sizes) for n in o.shape], 7, o.dtype.numpy) for o in outputs]
    program.bind(sizes).run([a.ctypes.data for a in arrays], [], [r.ctypes.data for r in results])
    return program, results


def kinds(program: Program) -> list[str]:
    return [call.kind for call in program.schedule.calls]


def is_plain(program: Program) -> bool:
    """Whether the template stores all results itself."""
    return not any(emitted.functions for emitted in program.emitted)


def transposed(x: Node) -> Node:
    rank = len(x.shape)
    return p.permute(x, axes=(*range(rank - 2), rank - 1, rank - 2))


def heads(x: Node, position: int, count: int, width: int) -> Node:
    """One of the three parts of [batch, time, 3 * count * width], as [batch, count, time, width]."""
    batch, time, _ = x.shape
    part = p.slice_(x, starts=(0, 0, position * count * width), sizes=(batch, time, count * width), steps=(1, 1, 1))
    return p.permute(p.reshape(part, shape=(batch, time, count, width)), axes=(0, 2, 1, 3))


def test_attention_reads_heads_and_stores_them_side_by_side_without_copies() -> None:
    batch, time, count, width = 3, 20, 4, 16
    x = source("x", batch, time, 3 * count * width)
    q, k, v = (heads(x, i, count, width) for i in range(3))
    mixed = p.matmul(p.matmul(q, transposed(k)), v)
    out = p.reshape(p.permute(mixed, axes=(0, 2, 1, 3)), shape=(batch, time, count * width))
    array = random(batch, time, 3 * count * width)
    program, (result,) = run([x], [out], [array])
    assert kinds(program) == ["matmul", "matmul"] and is_plain(program)
    parts = array.astype(np.float64).reshape(batch, time, 3, count, width).transpose(2, 0, 3, 1, 4)
    exact = (parts[0] @ parts[1].swapaxes(-1, -2) @ parts[2]).transpose(0, 2, 1, 3).reshape(result.shape)
    np.testing.assert_allclose(result, exact, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("element", [dtypes.float16, dtypes.bfloat16])
def test_16_bit_factors_are_converted_by_the_template(element: dtypes.dtype) -> None:
    a, b = source("a", 30, 40, dtype=element), source("b", 50, 40, dtype=element)
    out = p.cast(p.matmul(p.cast(a, to=dtypes.float32), transposed(p.cast(b, to=dtypes.float32))), to=element)
    left, right = random(30, 40).astype(element.numpy), random(50, 40).astype(element.numpy)
    program, (result,) = run([a, b], [out], [left, right])
    assert kinds(program) == ["matmul"]
    operands = program.schedule.calls[0].operands
    assert operands is not None and operands.dtypes == (element, element)
    exact = left.astype(np.float64) @ right.astype(np.float64).T
    step = float(ml_dtypes.finfo(element.numpy).eps)
    assert np.abs(result.astype(np.float64) - exact).max() <= 0.51 * step * np.abs(exact).max() + 1e-3


def test_a_conversion_that_is_read_elsewhere_too_is_still_stored() -> None:
    a = source("a", 20, 20, dtype=dtypes.bfloat16)
    wide = p.cast(a, to=dtypes.float32)
    array = random(20, 20).astype(ml_dtypes.bfloat16)
    _, (product, copy) = run([a], [p.matmul(wide, wide), wide], [array])
    np.testing.assert_array_equal(copy, array.astype(np.float32))
    np.testing.assert_allclose(product, copy.astype(np.float64) @ copy, rtol=1e-4, atol=1e-4)


def test_one_copy_serves_two_products() -> None:
    x, y = source("x", 4, 3, 8, 5), source("y", 32, 15)
    rows = p.reshape(p.permute(p.exp(x), axes=(0, 2, 1, 3)), shape=(32, 15))
    a, b = random(4, 3, 8, 5), random(32, 15)
    program, results = run([x, y], [p.matmul(transposed(rows), y), p.matmul(rows, transposed(rows))], [a, b])
    assert kinds(program).count("loop") == 1
    exact = np.exp(a.astype(np.float64)).transpose(0, 2, 1, 3).reshape(32, 15)
    np.testing.assert_allclose(results[0], exact.T @ b, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(results[1], exact @ exact.T, rtol=1e-4)


@pytest.mark.parametrize(("rows", "columns"), [(40, 30), (1, 70), (70, 1), (1, 1)])
def test_a_transposed_result_is_the_product_of_the_transposes(rows: int, columns: int) -> None:
    a, b = source("a", rows, 50), source("b", 50, columns)
    left, right = random(rows, 50), random(50, columns)
    program, (result,) = run([a, b], [transposed(p.matmul(a, b))], [left, right])
    assert kinds(program) == ["matmul"] and is_plain(program)
    np.testing.assert_allclose(result, (left.astype(np.float64) @ right).T, rtol=1e-4, atol=1e-4)


def test_factors_contiguous_along_no_axis_are_copied() -> None:
    a, b = source("a", 30, 80), source("b", 40, 20)
    sparse = p.slice_(a, starts=(0, 0), sizes=(30, 40), steps=(1, 2))
    left, right = random(30, 80), random(20, 80)[:, ::2].T
    program, (result,) = run([a, b], [p.matmul(sparse, b)], [left, right])
    assert sorted(kinds(program)) == ["loop", "loop", "matmul"]
    np.testing.assert_allclose(result, left[:, ::2].astype(np.float64) @ right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_three_batch_axes_in_any_order(order: tuple[int, int, int]) -> None:
    a, b = source("a", 2, 3, 4, 7, 9), source("b", 2, 3, 4, 9, 8)
    out = p.matmul(p.permute(a, axes=(*order, 3, 4)), p.permute(b, axes=(*order, 3, 4)))
    left, right = random(2, 3, 4, 7, 9), random(2, 3, 4, 9, 8)
    _, (result,) = run([a, b], [out], [left, right])
    exact = (left.astype(np.float64) @ right).transpose(*order, 3, 4)
    np.testing.assert_allclose(result, exact, rtol=1e-4, atol=1e-4)


def test_epilogue_of_heads_with_biases_for_sizes_known_late() -> None:
    b, t = symbol("b"), symbol("t")
    x, bias, scale = source("x", b, t, 3 * 32), source("bias", 2, 1, 16), source("scale", b, 1, 1, 1)
    weights = source("weights", 16, 16)
    product = p.matmul(heads(x, 0, 2, 16), p.expand(p.reshape(weights, shape=(1, 1, 16, 16)), shape=(b, 2, 16, 16)))
    shape = product.shape
    shifted = p.add(product, p.expand(p.reshape(bias, shape=(1, 2, 1, 16)), shape=shape))
    out = p.permute(p.mul(shifted, p.expand(scale, shape=shape)), axes=(0, 2, 1, 3))
    arrays = [random(3, 11, 96), random(2, 1, 16), random(3, 1, 1, 1), random(16, 16)]
    program, (result,) = run([x, bias, scale, weights], [out], arrays, sizes={"b": 3, "t": 11})
    assert kinds(program) == ["matmul"]
    q = arrays[0].astype(np.float64)[..., :32].reshape(3, 11, 2, 16).transpose(0, 2, 1, 3)
    exact = ((q @ arrays[3] + arrays[1]) * arrays[2]).transpose(0, 2, 1, 3)
    np.testing.assert_allclose(result, exact, rtol=1e-4, atol=1e-4)


def test_result_added_to_an_input_in_place() -> None:
    a, b, total = source("a", 45, 20), source("b", 20, 70), source("total", 45, 70)
    left, right, sums = random(45, 20), random(20, 70), random(45, 70)
    before = sums.astype(np.float64)
    run([a, b, total], [p.add(total, p.matmul(a, b))], [left, right, sums], into=2)
    np.testing.assert_allclose(sums, before + left.astype(np.float64) @ right, rtol=1e-4, atol=1e-4)


def test_batch_axes_merge_into_two_levels() -> None:
    found = batch_levels((2, 3, 4), [(12, 4, 1), (120, 40, 10)])
    assert found is not None and (found.outer, found.inner) == (6, 4) and found.strides == ((4, 1), (40, 10))
    found = batch_levels((2, 1, 4), [(0, 5, 3), (7, 5, 0)])
    assert found is not None and (found.outer, found.inner) == (2, 4) and found.strides == ((0, 3), (7, 0))
    assert batch_levels((2, 3, 4), [(12, 4, 1), (1, 2, 6)]) is None
    nothing = batch_levels((), [(), ()])
    assert nothing is not None and (nothing.outer, nothing.inner) == (1, 1)


def test_checked_emission_guards_epilogues() -> None:
    a, b, bias = source("a", 20, 30), source("b", 30, 40), source("bias", 40)
    out = p.add(p.matmul(a, b), p.expand(p.reshape(bias, shape=(1, 40)), shape=(20, 40)))
    left, right, row = random(20, 30), random(30, 40), random(40)
    with config.override(checked=True):
        _, (result,) = run([a, b, bias], [out], [left, right, row])
    np.testing.assert_allclose(result, left.astype(np.float64) @ right + row, rtol=1e-4, atol=1e-4)
