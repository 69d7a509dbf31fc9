"""The matrix product template against float64 numpy: sizes, layouts, types, fused code, and memory around the buffers."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.compilation.kernel_cache import KernelText, get_kernel
from flambeau.core import cpu, dtypes
from flambeau.core.dtypes import dtype
from flambeau.runtime.launch import TaskArray, run_tasks
from flambeau.templates.matmul import Context, MatmulKernel, MatmulSpec, StoreEpilogue, matmul_kernel, vector_kernel

CANARY = 64
LAYOUTS = ("row", "col", "any")
SIZES = [
    (1, 1, 1, 1), (2, 5, 7, 3), (1, 14, 32, 16), (3, 31, 33, 300), (1, 129, 97, 500), (1, 3, 70, 0), (2, 13, 1, 65), (1, 1, 130, 19),
    (1, 27, 64, 1024), (5, 9, 16, 32), (1, 300, 40, 17),
]  # fmt: skip


class Buffer:
    """A strided (batch, rows, columns) array inside a larger one, whose other elements hold a canary."""

    def __init__(self, values: np.ndarray, layout: str, padding: int = 0, broadcast: bool = False, shift: int = 0) -> None:
        batch, rows, columns = values.shape
        inner, outer = (rows, columns) if layout == "col" else (columns, rows)
        step = 2 if layout == "any" else 1
        pitch = inner * step + padding
        strides = {"row": (pitch, 1), "col": (1, pitch), "any": (pitch, step)}[layout]
        each = outer * pitch
        size = each * (1 if broadcast else batch) + 2 * CANARY + shift
        self.memory = np.full(size, 77, values.dtype)
        self.strides = (0 if broadcast else each, *strides)
        start = self.memory[CANARY + shift :]
        itemsize = values.itemsize
        self.view = np.lib.stride_tricks.as_strided(start, values.shape, [s * itemsize for s in self.strides])
        self.view[...] = values[:1] if broadcast else values
        self.address = start.ctypes.data
        self.before = self.memory.copy()

    def untouched(self) -> bool:
        return self.memory.tobytes() == self.before.tobytes()

    def outside_untouched(self) -> bool:
        """Whether nothing but the view's own elements has changed."""
        inside = np.zeros(self.memory.size, np.uint8)
        offset = (self.address - self.memory.ctypes.data) // self.memory.itemsize
        np.lib.stride_tricks.as_strided(inside[offset:], self.view.shape, self.strides)[...] = 1
        kept = inside == 0
        return self.memory[kept].tobytes() == self.before[kept].tobytes()


def spec_for(a: dtype, b: dtype, layouts: tuple[str, str], bits: int = 0, extra_slots: int = 0) -> MatmulSpec:
    return MatmulSpec(a, b, *layouts, bits or cpu.vector_bits(), cpu.cpu_features(), extra_slots)


def run(kernel: MatmulKernel, a: Buffer, b: Buffer, c: Buffer, extra: tuple[int, ...] = ()) -> None:
    batch, m, n = c.view.shape
    k = a.view.shape[2]
    sizes = (batch, m, n, k)
    address = get_kernel(KernelText(kernel.text, kernel.name)).address
    tasks = TaskArray(kernel.scratch_bytes(*sizes))
    slots = [0, kernel.grain(*sizes), a.address, b.address, c.address, *sizes, *a.strides, *b.strides, *c.strides[:2], *extra]
    assert len(slots) == len(kernel.slots)
    tasks.add(address, slots, chunks=kernel.chunks(*sizes), wave=0)
    run_tasks(tasks)


def random(shape: tuple[int, ...], element: dtype) -> np.ndarray:
    return np.random.default_rng().standard_normal(shape).astype(element.numpy)


def check(kernel: MatmulKernel, a: Buffer, b: Buffer, c: Buffer, expected: np.ndarray, tolerance: float) -> None:
    assert np.abs(c.view.astype(np.float64) - expected).max(initial=0.0) <= tolerance
    assert a.untouched() and b.untouched()
    assert c.outside_untouched()


def product(a: Buffer, b: Buffer) -> np.ndarray:
    return a.view.astype(np.float64) @ b.view.astype(np.float64)


@pytest.mark.parametrize("b_layout", LAYOUTS)
@pytest.mark.parametrize("a_layout", LAYOUTS)
def test_float32_sizes_and_padded_strides(a_layout: str, b_layout: str) -> None:
    kernel = matmul_kernel(spec_for(dtypes.float32, dtypes.float32, (a_layout, b_layout)))
    for index, (batch, m, n, k) in enumerate(SIZES):
        a = Buffer(random((batch, m, k), dtypes.float32), a_layout, padding=index % 3)
        b = Buffer(random((batch, k, n), dtypes.float32), b_layout, padding=index % 2, shift=index % 3)
        c = Buffer(random((batch, m, n), dtypes.float32), "row", padding=index % 4)
        run(kernel, a, b, c)
        check(kernel, a, b, c, product(a, b), 2e-6 * (k + 1))


@pytest.mark.parametrize("layouts", [("row", "col"), ("col", "row"), ("any", "row")])
def test_random_sizes(layouts: tuple[str, str]) -> None:
    generator = np.random.default_rng()
    kernel = matmul_kernel(spec_for(dtypes.float32, dtypes.float32, layouts))
    for _ in range(12):
        batch, m, n, k = (int(generator.integers(0, top)) for top in (4, 150, 150, 900))
        a = Buffer(random((batch, m, k), dtypes.float32), layouts[0], padding=int(generator.integers(0, 40)))
        b = Buffer(random((batch, k, n), dtypes.float32), layouts[1], padding=int(generator.integers(0, 40)))
        c = Buffer(random((batch, m, n), dtypes.float32), "row", padding=int(generator.integers(0, 40)))
        run(kernel, a, b, c)
        check(kernel, a, b, c, product(a, b), 2e-6 * (k + 1))


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("element", [dtypes.float32, dtypes.float64])
def test_vector_widths(element: dtype, bits: int) -> None:
    if bits > cpu.vector_bits():
        pytest.skip("this machine has no vectors of that width")
    for layouts in (("row", "col"), ("col", "row")):
        kernel = matmul_kernel(spec_for(element, element, layouts, bits))
        for batch, m, n, k in SIZES:
            a, b = Buffer(random((batch, m, k), element), layouts[0]), Buffer(random((batch, k, n), element), layouts[1])
            c = Buffer(random((batch, m, n), element), "row", padding=3)
            run(kernel, a, b, c)
            check(kernel, a, b, c, product(a, b), (2e-6 if element is dtypes.float32 else 1e-14) * (k + 1))


def test_page_sized_strides_are_packed_and_right() -> None:
    for layouts in (("row", "row"), ("col", "row"), ("row", "col"), ("col", "col")):
        kernel = matmul_kernel(spec_for(dtypes.float32, dtypes.float32, layouts))
        a, b = Buffer(random((1, 1024, 450), dtypes.float32), layouts[0]), Buffer(random((1, 450, 1024), dtypes.float32), layouts[1])
        a = Buffer(a.view, layouts[0], padding=1024 - 450) if layouts[0] == "row" else a
        c = Buffer(random((1, 1024, 1024), dtypes.float32), "row")
        run(kernel, a, b, c)
        check(kernel, a, b, c, product(a, b), 1e-3)


def test_broadcast_batches() -> None:
    kernel = matmul_kernel(spec_for(dtypes.float32, dtypes.float32, ("row", "col")))
    for a_once, b_once in ((True, False), (False, True)):
        a = Buffer(random((7, 20, 30), dtypes.float32), "row", broadcast=a_once)
        b = Buffer(random((7, 30, 40), dtypes.float32), "col", broadcast=b_once)
        c = Buffer(random((7, 20, 40), dtypes.float32), "row")
        run(kernel, a, b, c)
        check(kernel, a, b, c, product(a, b), 1e-4)


def test_interleaved_heads() -> None:
    """Batch stride below the row stride: attention heads that lie side by side in wider rows."""
    kernel = matmul_kernel(spec_for(dtypes.float32, dtypes.float32, ("row", "row")))
    wide = random((50, 4 * 32), dtypes.float32)
    b = random((4, 32, 24), dtypes.float32)
    c = np.empty((4, 50, 24), np.float32)
    plan = kernel.plan(4, 50, 24, 32)
    tasks = TaskArray(plan.scratch_bytes)
    slots = [0, plan.grain, wide.ctypes.data, b.ctypes.data, c.ctypes.data, 4, 50, 24, 32, 32, 128, 1, 32 * 24, 24, 1, 50 * 24, 24]
    tasks.add(get_kernel(KernelText(kernel.text, kernel.name)).address, slots, plan.chunks, 0)
    run_tasks(tasks)
    heads = wide.reshape(50, 4, 32).transpose(1, 0, 2).astype(np.float64)
    assert np.abs(c - heads @ b.astype(np.float64)).max() < 1e-4


@pytest.mark.parametrize("element", [dtypes.float16, dtypes.bfloat16])
@pytest.mark.parametrize("layouts", [("row", "col"), ("col", "row"), ("any", "any")])
def test_half_types_accumulate_in_float32(element: dtype, layouts: tuple[str, str]) -> None:
    kernel = matmul_kernel(spec_for(element, element, layouts), StoreEpilogue(element))
    for batch, m, n, k in SIZES:
        a, b = Buffer(random((batch, m, k), element), layouts[0]), Buffer(random((batch, k, n), element), layouts[1])
        c = Buffer(random((batch, m, n), element), "row", padding=1)
        run(kernel, a, b, c)
        expected = product(a, b)
        step = float(ml_dtypes.finfo(element.numpy).eps)
        check(kernel, a, b, c, expected, (0.51 * step + 1e-6) * np.abs(expected).max(initial=0.0) + 2e-6 * (k + 1))


def test_mixed_operand_types() -> None:
    kernel = matmul_kernel(spec_for(dtypes.float32, dtypes.bfloat16, ("row", "col")))
    a, b = Buffer(random((1, 20, 100), dtypes.float32), "row"), Buffer(random((1, 100, 50), dtypes.bfloat16), "col")
    c = Buffer(random((1, 20, 50), dtypes.float32), "row")
    run(kernel, a, b, c)
    check(kernel, a, b, c, product(a, b), 2e-4)


def test_nan_and_infinity_are_not_skipped() -> None:
    kernel = matmul_kernel(spec_for(dtypes.float32, dtypes.float32, ("row", "row")))
    values = np.zeros((1, 33, 40), np.float32)
    weights = random((1, 40, 35), dtypes.float32)
    weights[0, 3, 5], weights[0, 4, 6] = np.nan, np.inf
    c = Buffer(random((1, 33, 35), dtypes.float32), "row")
    run(kernel, Buffer(values, "row"), Buffer(weights, "row"), c)
    expected = np.zeros((33, 35))
    expected[:, 5:7] = np.nan
    np.testing.assert_array_equal(c.view[0], expected)


@dataclass(frozen=True)
class ScaleAndBias:
    """``C * scale[row] + bias[column] + batch``, with the addresses of both in extra slots."""

    def emit(self, e: Emitter, context: Context, value: Value, batch: Value, row: Value, column: Value, mask: Value | None) -> None:
        scale_row, bias_row = (e.convert("inttoptr", context.slot(i), "ptr") for i in range(2))
        scale = e.load(e.offset(scale_row, row, "float"), "float")
        address = e.offset(bias_row, column, "float")
        bias = e.load(address, "float", value.width) if mask is None else e.masked_load(address, "float", mask)
        result = e.add(e.add(e.mul(value, scale), bias), e.convert("sitofp", batch, "float"))
        StoreEpilogue(dtypes.float32).emit(e, context, result, batch, row, column, mask)


def test_epilogue_sees_every_element_once_with_its_position() -> None:
    kernel = matmul_kernel(spec_for(dtypes.float32, dtypes.float32, ("row", "col"), extra_slots=2), ScaleAndBias())
    for batch, m, n, k in SIZES:
        a, b = Buffer(random((batch, m, k), dtypes.float32), "row"), Buffer(random((batch, k, n), dtypes.float32), "col")
        c = Buffer(random((batch, m, n), dtypes.float32), "row")
        scale, bias = random((m,), dtypes.float32), random((n,), dtypes.float32)
        run(kernel, a, b, c, (scale.ctypes.data, bias.ctypes.data))
        expected = product(a, b) * scale[:, None] + bias + np.arange(batch)[:, None, None]
        check(kernel, a, b, c, expected, 1e-5 * (k + 1))


@dataclass(frozen=True)
class PositionPrologue:
    """``value + row + 2 * column + 4 * batch``."""

    def emit(
        self, e: Emitter, context: Context, value: Value, batch: Value, row: Value, column: Value, axis: str, mask: Value | None
    ) -> Value:
        start = e.add(e.add(row, e.mul(column, e.const(2, "i64"))), e.mul(batch, e.const(4, "i64")))
        steps = e.lanes("i64", value.width, 1 if axis == "row" else 2)
        return e.add(value, e.convert("sitofp", e.add(e.splat(start, value.width), steps), value.kind))


def with_positions(values: np.ndarray) -> np.ndarray:
    each, rows, columns = np.ogrid[: values.shape[0], : values.shape[1], : values.shape[2]]
    return (values + (rows + 2 * columns + 4 * each)).astype(np.float64)


@pytest.mark.parametrize("a_layout", LAYOUTS)
@pytest.mark.parametrize("b_layout", LAYOUTS)
def test_prologues_know_their_positions(a_layout: str, b_layout: str) -> None:
    kernel = matmul_kernel(spec_for(dtypes.float32, dtypes.float32, (a_layout, b_layout)), None, PositionPrologue(), PositionPrologue())
    batch, m, n, k = 2, 33, 41, 400
    a, b = Buffer(random((batch, m, k), dtypes.float32), a_layout), Buffer(random((batch, k, n), dtypes.float32), b_layout)
    c = Buffer(random((batch, m, n), dtypes.float32), "row")
    run(kernel, a, b, c)
    expected = with_positions(a.view) @ with_positions(b.view)
    assert np.abs(c.view / expected - 1).max() < 1e-5


VECTOR_SIZES = [(1, 1, 1), (2, 130, 19), (3, 7, 900), (1, 128, 64), (2, 300, 0), (40, 16, 33), (1, 257, 1000)]


@pytest.mark.parametrize("b_layout", ["row", "col"])
@pytest.mark.parametrize("element", [dtypes.float32, dtypes.float64, dtypes.bfloat16])
def test_vector_kernel(element: dtype, b_layout: str) -> None:
    compute = element.compute
    for a_layout in LAYOUTS:
        kernel = vector_kernel(spec_for(element, element, (a_layout, b_layout)))
        for batch, n, k in VECTOR_SIZES:
            a = Buffer(random((batch, 1, k), element), a_layout, padding=2)
            b = Buffer(random((batch, k, n), element), b_layout, padding=1, broadcast=batch == 3)
            c = Buffer(random((batch, 1, n), compute), "row", padding=5)
            run(kernel, a, b, c)
            check(kernel, a, b, c, product(a, b), (2e-6 if compute is dtypes.float32 else 1e-14) * (k + 1))


@pytest.mark.parametrize("b_layout", ["row", "col"])
def test_vector_kernel_with_prologues_and_epilogue(b_layout: str) -> None:
    spec = spec_for(dtypes.float32, dtypes.float32, ("row", b_layout), extra_slots=2)
    kernel = vector_kernel(spec, ScaleAndBias(), PositionPrologue(), PositionPrologue())
    batch, n, k = 2, 150, 70
    a, b = Buffer(random((batch, 1, k), dtypes.float32), "row"), Buffer(random((batch, k, n), dtypes.float32), b_layout)
    c = Buffer(random((batch, 1, n), dtypes.float32), "row")
    scale, bias = random((1,), dtypes.float32), random((n,), dtypes.float32)
    run(kernel, a, b, c, (scale.ctypes.data, bias.ctypes.data))
    expected = with_positions(a.view) @ with_positions(b.view) * scale[0] + bias + np.arange(batch)[:, None, None]
    assert np.abs(c.view - expected).max() < 1e-5 * np.abs(expected).max()


def test_vector_kernel_refuses_what_it_cannot_do() -> None:
    with pytest.raises(NotImplementedError, match="contiguous along one axis; use matmul_kernel"):
        vector_kernel(spec_for(dtypes.float32, dtypes.float32, ("row", "any")))
    kernel = vector_kernel(spec_for(dtypes.float32, dtypes.float32, ("row", "col")))
    with pytest.raises(ValueError, match="was given 2 rows; use a general kernel"):
        kernel.plan(1, 2, 3, 4)


def test_result_does_not_depend_on_the_cut_or_the_epilogue() -> None:
    """An element's bits depend on its row of A, its column of B and K alone."""
    plain = matmul_kernel(spec_for(dtypes.float32, dtypes.float32, ("row", "row")))
    fused = matmul_kernel(spec_for(dtypes.float32, dtypes.float32, ("row", "row")), StoreEpilogue(dtypes.float32))
    a, b = random((1, 200, 900), dtypes.float32), random((1, 900, 300), dtypes.float32)
    whole, part, other = (Buffer(np.zeros((1, rows, 300), np.float32), "row") for rows in (200, 3, 200))
    run(plain, Buffer(a, "row"), Buffer(b, "row"), whole)
    run(plain, Buffer(a[:, 50:53], "row"), Buffer(b, "row"), part)
    run(fused, Buffer(a, "row"), Buffer(b, "row"), other)
    assert whole.view[:, 50:53].tobytes() == part.view.tobytes()
    assert whole.view.tobytes() == other.view.tobytes()


def test_empty_outputs_have_no_chunks() -> None:
    kernel = matmul_kernel(spec_for(dtypes.float32, dtypes.float32, ("row", "row")))
    assert [kernel.chunks(*sizes) for sizes in ((0, 3, 3, 3), (2, 0, 3, 3), (2, 3, 0, 3))] == [0, 0, 0]
    assert kernel.chunks(2, 3, 3, 0) == 1


def test_large_products_have_several_chunks_and_tiny_ones_share() -> None:
    kernel = matmul_kernel(spec_for(dtypes.float32, dtypes.float32, ("col", "row")))
    assert kernel.chunks(1, 128, 384, 2048) >= 4
    assert kernel.chunks(10_000, 4, 4, 4) < 100


def test_unsupported_types_are_named() -> None:
    with pytest.raises(NotImplementedError, match=r"torch\.int32 times torch\.int32; .* Convert the operands first"):
        spec_for(dtypes.int32, dtypes.int32, ("row", "row"))
    with pytest.raises(ValueError, match="layouts are 'row', 'col' or 'any', got 'diagonal'"):
        spec_for(dtypes.float32, dtypes.float32, ("diagonal", "row"))
