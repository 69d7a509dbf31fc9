"""The matrix product template against float64 numpy: sizes, layouts, types, fused code, and memory around the buffers."""

from __future__ import annotations

import numpy as np
import pytest

from flambeau.codegen.cpu.epilogue import emit_epilogue
from flambeau.compilation.kernel_cache import KernelText, get_kernel
from flambeau.core import cpu, dtypes
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import axis, symbol
from flambeau.ir.kernel import RESULT, BufferParameter, Kernel, KernelAxis, Store, load
from flambeau.ir.node import Node
from flambeau.prims import pointwise as p
from flambeau.runtime.launch import TaskArray, run_tasks
from flambeau.templates.matmul import MatmulKernel, MatmulSpec, matmul_kernel, vector_kernel

CANARY = 64
LAYOUTS = ("row", "col")
SIZES = [
    (1, 1, 1, 1), (2, 5, 7, 3), (1, 14, 32, 16), (3, 31, 33, 300), (1, 129, 97, 500), (1, 3, 70, 0), (2, 13, 1, 65), (1, 1, 130, 19),
    (1, 27, 64, 1024), (5, 9, 16, 32), (1, 300, 40, 17), (1, 15, 64, 400), (2, 30, 33, 20),
]  # fmt: skip


class Buffer:
    """A strided (batch, rows, columns) array inside a larger one, whose other elements hold a canary."""

    def __init__(self, values: np.ndarray, layout: str, padding: int = 0, broadcast: bool = False, shift: int = 0) -> None:
        batch, rows, columns = values.shape
        inner, outer = (rows, columns) if layout == "col" else (columns, rows)
        pitch = inner + padding
        strides = {"row": (pitch, 1), "col": (1, pitch)}[layout]
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


def spec_for(a: dtype, b: dtype, layouts: tuple[str, str], bits: int = 0) -> MatmulSpec:
    return MatmulSpec(a, b, *layouts, bits or cpu.vector_bits(), cpu.cpu_features())


def address_of(text: str, name: str) -> int:
    return get_kernel(KernelText(text, name)).address


def run(kernel: MatmulKernel, a: Buffer, b: Buffer, c: Buffer, epilogue: tuple[int, ...] = (0,), threads: int = 1) -> None:
    """``epilogue``: the address of one, and its slots. Cut as for so many threads."""
    batch, m, n = c.view.shape
    k = a.view.shape[2]
    sizes = (batch, m, n, k)
    plan = kernel.plan(*sizes, threads)
    tasks = TaskArray(plan.scratch_bytes)
    slots = [0, plan.grain, a.address, b.address, c.address, 1, *sizes, 0, *a.strides, 0, *b.strides, 0, *c.strides[:2]]
    tasks.add(address_of(kernel.text, kernel.name), [*slots, *epilogue], chunks=plan.chunks, wave=0)
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


@pytest.mark.parametrize("layouts", [("row", "col"), ("col", "row"), ("row", "row")])
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


@pytest.mark.parametrize("inner_strides", [(32, 32 * 24, 24), (0, 32 * 24, 24), (32, 0, 24)])
def test_two_levels_of_batches(inner_strides: tuple[int, int, int]) -> None:
    """Attention heads that lie side by side in wider rows of several sequences, and results that do so too."""
    kernel = matmul_kernel(spec_for(dtypes.float32, dtypes.float32, ("row", "row")))
    sequences, heads, m, n, k = 3, 4, 50, 24, 32
    a, b = random((sequences, m, heads, k), dtypes.float32), random((sequences, heads, k, n), dtypes.float32)
    c = np.full((sequences, m, heads, n), np.nan, np.float32)
    plan = kernel.plan(sequences * heads, m, n, k)
    a_inner, b_inner, c_inner = inner_strides
    slots = [0, plan.grain, a.ctypes.data, b.ctypes.data, c.ctypes.data, sequences, heads, m, n, k,
             m * heads * k, a_inner, heads * k, 1, heads * k * n, b_inner, n, 1, m * heads * n, c_inner, heads * n, 0]  # fmt: skip
    tasks = TaskArray(plan.scratch_bytes)
    tasks.add(address_of(kernel.text, kernel.name), slots, plan.chunks, 0)
    run_tasks(tasks)
    left, right = a.transpose(0, 2, 1, 3).astype(np.float64), b.astype(np.float64)
    left = left if a_inner else left[:, :1]
    right = right if b_inner else right[:, :1]
    assert np.abs(c.transpose(0, 2, 1, 3) - left @ right).max() < 1e-4


@pytest.mark.parametrize("element", [dtypes.float16, dtypes.bfloat16])
@pytest.mark.parametrize("layouts", [("row", "col"), ("col", "row"), ("row", "row")])
def test_half_types_accumulate_in_float32(element: dtype, layouts: tuple[str, str]) -> None:
    kernel = matmul_kernel(spec_for(element, element, layouts))
    for batch, m, n, k in SIZES:
        a, b = Buffer(random((batch, m, k), element), layouts[0]), Buffer(random((batch, k, n), element), layouts[1])
        c = Buffer(random((batch, m, n), dtypes.float32), "row", padding=1)
        run(kernel, a, b, c)
        check(kernel, a, b, c, product(a, b), 2e-6 * (k + 1))


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


def scale_and_bias() -> tuple[str, str]:
    """``C * scale[row] + bias[column] + inner batch``: buffers scale, bias, c; sizes m, n."""
    names, sizes = ("o", "i", "m", "n"), (1, symbol("b"), symbol("rows"), symbol("columns"))
    _, inner, row, column = (axis(name, size) for name, size in zip(names, sizes, strict=True))
    total = Node(RESULT, (), dtype=dtypes.float32)
    scaled = p.mul(total, load(0, row, dtypes.float32))
    batch = load(3, inner, dtypes.float32)
    store = Store(2, (inner * sizes[2] + row) * sizes[3] + column, p.add(p.add(scaled, load(1, column, dtypes.float32)), batch))
    buffers = tuple(BufferParameter(dtypes.float32, access) for access in ("read", "read", "write", "read"))
    axes = tuple(KernelAxis(name, size) for name, size in zip(names, sizes, strict=True))
    kernel = Kernel(axes, (), "n", buffers, ("rows", "columns"), (), (store,))
    code = emit_epilogue(kernel, dtypes.float32, cpu.vector_bits() // 32, cpu.cpu_features())
    return code.text, code.name


def run_with_epilogue(kernel: MatmulKernel, a: Buffer, b: Buffer, c: Buffer, tolerance: float) -> None:
    batch, m, n = c.view.shape
    scale, bias, numbers = random((m,), dtypes.float32), random((n,), dtypes.float32), random((batch,), dtypes.float32)
    buffers = (scale.ctypes.data, bias.ctypes.data, c.address, numbers.ctypes.data)
    run(kernel, a, b, c, (address_of(*scale_and_bias()), 0, 0, *buffers, m, n))
    expected = product(a, b) * scale[:, None] + bias + numbers[:, None, None]
    check(kernel, a, b, c, expected, tolerance)


def test_epilogue_sees_every_element_once_with_its_position() -> None:
    kernel = matmul_kernel(spec_for(dtypes.float32, dtypes.float32, ("row", "col")))
    for batch, m, n, k in SIZES:
        a, b = Buffer(random((batch, m, k), dtypes.float32), "row"), Buffer(random((batch, k, n), dtypes.float32), "col")
        run_with_epilogue(kernel, a, b, Buffer(random((batch, m, n), dtypes.float32), "row"), 1e-5 * (k + 1))


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
def test_vector_kernel_with_epilogue(b_layout: str) -> None:
    kernel = vector_kernel(spec_for(dtypes.float32, dtypes.float32, ("row", b_layout)))
    for batch, n, k in VECTOR_SIZES:
        a, b = Buffer(random((batch, 1, k), dtypes.float32), "row"), Buffer(random((batch, k, n), dtypes.float32), b_layout)
        run_with_epilogue(kernel, a, b, Buffer(random((batch, 1, n), dtypes.float32), "row"), 1e-5 * (k + 1))


def test_vector_kernel_refuses_what_it_cannot_do() -> None:
    kernel = vector_kernel(spec_for(dtypes.float32, dtypes.float32, ("row", "col")))
    with pytest.raises(ValueError, match="was given 2 rows; use a general kernel"):
        kernel.plan(1, 2, 3, 4)


def test_result_does_not_depend_on_the_cut_or_the_epilogue() -> None:
    """An element's bits depend on its row of A, its column of B and K alone."""
    kernel = matmul_kernel(spec_for(dtypes.float32, dtypes.float32, ("row", "row")))
    a, b = random((1, 200, 900), dtypes.float32), random((1, 900, 300), dtypes.float32)
    whole, part, many, fused = (Buffer(np.zeros((1, rows, 300), np.float32), "row") for rows in (200, 3, 200, 200))
    run(kernel, Buffer(a, "row"), Buffer(b, "row"), whole)
    run(kernel, Buffer(a[:, 50:53], "row"), Buffer(b, "row"), part)
    run(kernel, Buffer(a, "row"), Buffer(b, "row"), many, threads=64)
    ones, zeros = np.ones(300, np.float32), np.zeros(300, np.float32)
    buffers = (ones.ctypes.data, zeros.ctypes.data, fused.address, zeros.ctypes.data)
    run(kernel, Buffer(a, "row"), Buffer(b, "row"), fused, (address_of(*scale_and_bias()), 0, 0, *buffers, 200, 300))
    assert whole.view[:, 50:53].tobytes() == part.view.tobytes()
    assert whole.view.tobytes() == fused.view.tobytes() == many.view.tobytes()


def test_empty_outputs_have_no_chunks() -> None:
    kernel = matmul_kernel(spec_for(dtypes.float32, dtypes.float32, ("row", "row")))
    assert [kernel.plan(*sizes).chunks for sizes in ((0, 3, 3, 3), (2, 0, 3, 3), (2, 3, 0, 3))] == [0, 0, 0]
    assert kernel.plan(2, 3, 3, 0).chunks == 1


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("element", [dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16])
def test_windows_of_images(element: dtype, bits: int) -> None:
    """B's rows are (channel, kernel row, kernel column) and its columns (image, row, column), whose results lie image by image."""
    if bits > cpu.vector_bits():
        pytest.skip("this machine has no such vectors")
    kernel = matmul_kernel(spec_for(element.compute, element, ("row", "window"), bits))
    cases = (3, 5, 9, 31, 3, 1, 30), (2, 60, 7, 8, 3, 1, 70), (4, 2, 12, 9, 4, 2, 3), (5, 3, 2, 2, 2, 1, 17)
    for batch, channels, height, width, size, step, m in cases:
        images = Buffer(random((batch, channels, height * width), element), "row")
        pixels = images.view.reshape(batch, channels, height, width).astype(np.float64)
        down, across, k = (height - size) // step + 1, (width - size) // step + 1, channels * size * size
        a = Buffer(random((1, m, k), element.compute), "row", padding=3)
        c = Buffer(random((batch, m, down * across), element.compute), "row", padding=2)
        plan = kernel.plan(1, m, batch * down * across, k)
        slots = [0, plan.grain, a.address, images.address, c.address, 1, batch, m, down * across, k, 0, 0, *a.strides[1:], 0, 0, 0, 0, 0]
        rows, columns = [channels, size, size, 0, height * width, width, 1], [batch, down, across, 0, channels * height * width]
        tasks = TaskArray(plan.scratch_bytes)
        slots += [*c.strides[:2], 0, *rows, *columns, step * width, step]
        tasks.add(address_of(kernel.text, kernel.name), slots, chunks=plan.chunks, wave=0)
        run_tasks(tasks)
        seen = np.lib.stride_tricks.sliding_window_view(pixels, (size, size), (2, 3))[:, :, ::step, ::step]
        matrix = seen.transpose(0, 1, 4, 5, 2, 3).reshape(batch, k, down * across)
        check(kernel, a, images, c, a.view.astype(np.float64) @ matrix, (1e-14 if element is dtypes.float64 else 2e-6) * (k + 1))


def test_large_products_have_several_chunks_and_tiny_ones_share() -> None:
    kernel = matmul_kernel(spec_for(dtypes.float32, dtypes.float32, ("col", "row")))
    assert kernel.plan(1, 128, 384, 2048).chunks >= 4
    assert kernel.plan(1, 128, 384, 2048, threads=16).chunks >= 16
    assert kernel.plan(10_000, 4, 4, 4, threads=16).chunks < 100


def test_unsupported_types_are_named() -> None:
    with pytest.raises(NotImplementedError, match=r"torch\.int32 times torch\.int32; .* Convert the operands first"):
        spec_for(dtypes.int32, dtypes.int32, ("row", "row"))
    with pytest.raises(ValueError, match=r"layouts are 'row' or 'col' .*, got 'diagonal'"):
        spec_for(dtypes.float32, dtypes.float32, ("diagonal", "row"))
