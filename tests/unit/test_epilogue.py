"""Epilogues of templates as functions of their own: what they compute, store and refuse."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from flambeau.codegen.cpu.epilogue import emit_epilogue
from flambeau.compilation.kernel_cache import KernelText, get_kernel
from flambeau.core import cpu, dtypes
from flambeau.core.symbolic import axis, symbol
from flambeau.ir.kernel import RESULT, Kernel, KernelAxis, Store, load
from flambeau.ir.node import Node
from flambeau.prims import pointwise as p
from tests.unit.test_codegen_cpu import make, softmax

NAMES = ("o", "i", "m", "n")
SIZES = tuple(symbol(name) for name in ("outer", "inner", "rows", "columns"))
OUTER, INNER, ROW, COLUMN = (axis(name, size) for name, size in zip(NAMES, SIZES, strict=True))
AXES = [KernelAxis(name, size) for name, size in zip(NAMES, SIZES, strict=True)]
PLACE = ((OUTER * SIZES[1] + INNER) * SIZES[2] + ROW) * SIZES[3] + COLUMN
SHAPE = (2, 3, 20, 50)


def call(kernel: Kernel, compute: dtypes.dtype, tile: np.ndarray | None, part: tuple[slice, slice], buffers: list[np.ndarray]) -> None:
    """Hand ``part`` (rows, columns) of batch (1, 2) to the epilogue."""
    code = emit_epilogue(kernel, compute, cpu.vector_bits() // (8 * compute.itemsize), cpu.cpu_features())
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 7, ctypes.c_void_p)(
        get_kernel(KernelText(code.text, code.name)).address
    )
    extent = dict(zip(("outer", "inner", "rows", "columns"), SHAPE, strict=True))
    slots = np.array([0, 0, *(b.ctypes.data for b in buffers), *(extent[name] for name in kernel.sizes)], np.int64)
    rows, columns = part
    address = None if tile is None else tile.ctypes.data
    pitch = 0 if tile is None else tile.shape[1]
    extents = rows.stop - rows.start, columns.stop - columns.start
    function(address, pitch, *extents, 1, 2, rows.start, columns.start, slots.ctypes.data)


@pytest.mark.parametrize("part", [(slice(0, 14), slice(0, 32)), (slice(14, 20), slice(32, 50)), (slice(3, 4), slice(32, 33))])
@pytest.mark.parametrize("compute", [dtypes.float32, dtypes.float64])
def test_two_results_of_a_part(compute: dtypes.dtype, part: tuple[slice, slice]) -> None:
    """relu(result + bias[column]) * scale[row], and a mask of it as a second result; an announcement changes nothing."""
    total = p.add(Node(RESULT, (), dtype=compute), load(0, COLUMN, compute))
    positive = p.lt(p.number(0.0, total), total)
    out = p.mul(p.maximum(total, p.number(0.0, total)), load(1, ROW, compute))
    buffers = f"{compute.name} read, {compute.name} read, {compute.name} write, bool write"
    kernel = make(AXES, [], "n", buffers, [Store(2, PLACE, out), Store(3, PLACE, positive)])
    generator = np.random.default_rng()
    bias, scale = generator.standard_normal(SHAPE[3]).astype(compute.numpy), generator.standard_normal(SHAPE[2]).astype(compute.numpy)
    result, mask = np.full(SHAPE, 7, compute.numpy), np.full(SHAPE, True)
    tile = generator.standard_normal((14, 64)).astype(compute.numpy)
    arguments = [bias, scale, result, mask]
    call(kernel, compute, None, part, arguments)
    assert (result == 7).all() and mask.all()
    call(kernel, compute, tile, part, arguments)
    rows, columns = part
    exact = tile[: rows.stop - rows.start, : columns.stop - columns.start].astype(np.float64) + bias[columns]
    expected, positive_there = np.full(SHAPE, 7.0), np.full(SHAPE, True)
    expected[1, 2, rows, columns] = np.maximum(exact, 0) * scale[rows, None]
    positive_there[1, 2, rows, columns] = exact > 0
    np.testing.assert_allclose(result, expected, rtol=1e-6)
    np.testing.assert_array_equal(mask, positive_there)


def test_update_in_place_reads_each_element_once() -> None:
    stores = [Store(0, PLACE, p.add(load(0, PLACE, dtypes.float32), Node(RESULT, (), dtype=dtypes.float32)))]
    kernel = make(AXES, [], "n", "float32 update", stores)
    generator = np.random.default_rng()
    before = generator.standard_normal(SHAPE).astype(np.float32)
    after, tile = before.copy(), generator.standard_normal((14, 32)).astype(np.float32)
    call(kernel, dtypes.float32, tile, (slice(0, 13), slice(0, 31)), [after])
    expected = before.copy()
    expected[1, 2, :13, :31] += tile[:13, :31]
    np.testing.assert_array_equal(after, expected)


def test_equal_kernels_give_equal_text_and_others_are_refused() -> None:
    kernel = make(AXES, [], "n", "float32 write", [Store(0, PLACE, Node(RESULT, (), dtype=dtypes.float32))])
    first, second = (emit_epilogue(kernel, dtypes.float32, 8, cpu.cpu_features()) for _ in range(2))
    assert first == second and f"@{first.name}(" in first.text
    with pytest.raises(ValueError, match=r"outer axes \(outer, inner, row, column\)"):
        emit_epilogue(softmax(), dtypes.float32, 8, cpu.cpu_features())
