"""How kernels meet memory: guarded loads without masks, stores around the caches, chunks, and what an index costs."""

from __future__ import annotations

import re

import numpy as np
import pytest

import flambeau as torch
from flambeau.codegen.cpu import costs
from flambeau.codegen.cpu.kernel_code import SHORTEST_STREAM, emit_kernel
from flambeau.compilation import emission
from flambeau.compilation.emission import CHUNK_NANOSECONDS, CHUNKS_PER_THREAD, LONGEST_CHUNK, Launch
from flambeau.core import cpu, dtypes
from flambeau.core.config import config
from flambeau.core.symbolic import axis, symbol
from flambeau.ir.kernel import REDUCE, BufferParameter, Kernel, KernelAxis, Store, inside, load
from flambeau.ir.node import Node
from flambeau.prims import pointwise as p
from tests.unit.kernel_harness import CompiledKernel

F32 = dtypes.float32
N, R, C = symbol("n"), symbol("r"), symbol("c")
READ, WRITE = BufferParameter(F32, "read"), BufferParameter(F32, "write")


def padded_sum(columns: int) -> Kernel:
    """Row by row the sum of r rows, of which the first n elements are there."""
    i, j = axis("i", R), axis("j", columns)
    place = columns * i + j
    value = load(0, place, F32, inside(place, 0, N))
    total = Node(REDUCE, (value,), kind="sum", axes=("j",))
    return Kernel((KernelAxis("i", R),), (KernelAxis("j", columns),), "j", (READ, WRITE), ("n", "r"), (), (Store(1, i, total),))


def shifted(step: int) -> Kernel:
    """Of each row the elements ``step`` further on, zeros where there are none, in an image whose first rows are missing too."""
    i, j = axis("i", R), axis("j", C)
    guard = Node(p.bitwise_and, (inside(i - 2, 0, R), inside(j + step, 0, C)))
    value = load(0, (i - 2) * C + j + step, F32, guard)
    axes = (KernelAxis("i", R), KernelAxis("j", C))
    return Kernel(axes, (), "j", (READ, WRITE), ("c", "r"), (), (Store(1, i * C + j, p.add(value, value)),))


@pytest.mark.parametrize("kernel", [padded_sum(5000), shifted(3)], ids=["sum", "shift"])
def test_guarded_loads_have_a_stretch_without_masks(kernel: Kernel) -> None:
    text = emit_kernel(kernel, cpu.cpu_features()).text
    bodies = re.split(r"^body\d+:$", text, flags=re.MULTILINE)
    plain = [body for body in bodies if re.search(r"load <\d+ x float>, ptr", body)]
    assert plain and all("masked.load" not in body for body in plain)
    assert any("masked.load" in body for body in bodies)


def flipped(reads: bool, padded: bool) -> Kernel:
    """Rows back to front, read or written so; ``padded``: with two zeros before and three behind."""
    i, j = axis("i", R), axis("j", C)
    width = C - 5 if padded else C
    back = i * width + width - 1 - (j - 2 if padded else j)
    value = load(0, back if reads else i * C + j, F32, *([inside(j - 2, 0, width)] if padded else []))
    axes = (KernelAxis("i", R), KernelAxis("j", C))
    return Kernel(axes, (), "j", (READ, WRITE), ("c", "r"), (), (Store(1, i * C + j if reads else back, p.add(value, value)),))


@pytest.mark.parametrize(("reads", "padded"), [(True, False), (False, False), (True, True)])
@pytest.mark.parametrize("columns", [5, 6, 20, 21, 37, 64, 130])
def test_vectors_back_to_front(reads: bool, padded: bool, columns: int) -> None:
    kernel = flipped(reads, padded)
    text = emit_kernel(kernel, cpu.cpu_features()).text
    assert "gather" not in text and "scatter" not in text
    x = np.random.randn(3, columns - 5 if padded else columns).astype(np.float32)
    out = np.full(3 * columns, np.nan, np.float32)
    CompiledKernel(kernel).run([x.reshape(-1), out], {"c": columns, "r": 3}, grain=2)
    want = np.pad(2 * x[:, ::-1], ((0, 0), (2, 3) if padded else (0, 0)))
    assert np.array_equal(out, want.reshape(-1))


@pytest.mark.parametrize("n", [0, 1, 7, 199, 200, 201, 399, 400, 983, 1000])
@pytest.mark.parametrize("columns", [200, 2200])
def test_padded_rows_sum_to_what_is_there(n: int, columns: int) -> None:
    n = n * columns // 200
    x = np.random.randn(max(n, 1)).astype(np.float32)
    out = np.full(5, np.nan, np.float32)
    CompiledKernel(padded_sum(columns)).run([x, out], {"n": n, "r": 5}, grain=2)
    whole = np.concatenate((x[:n], np.zeros(5 * columns - n, np.float32))).reshape(5, columns)
    np.testing.assert_allclose(out, whole.sum(1, dtype=np.float64), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("step", [-70, -9, -1, 0, 3, 16, 41])
@pytest.mark.parametrize("columns", [1, 8, 31, 64, 77, 200])
def test_shifted_rows_have_zeros_where_nothing_is(step: int, columns: int) -> None:
    x = np.random.randn(6, columns).astype(np.float32)
    out = np.full(6 * columns, np.nan, np.float32)
    CompiledKernel(shifted(step)).run([x.ravel(), out], {"r": 6, "c": columns}, grain=1)
    wanted = np.zeros_like(x)
    for j in range(columns):
        if 0 <= j + step < columns:
            wanted[2:, j] = 2 * x[:-2, j + step]
    np.testing.assert_array_equal(out.reshape(x.shape), wanted)


def test_parts_side_by_side_have_no_such_stretch() -> None:
    """Where one part is the other is not."""
    j = axis("j", C)
    first = load(0, j, F32, inside(j, 0, 10))
    second = load(0, j - 10, F32, inside(j - 10, 0, C - 10))
    kernel = Kernel((KernelAxis("j", C),), (), "j", (READ, WRITE), ("c",), (), (Store(1, j, p.add(first, second)),))
    assert not re.search(r"load <\d+ x float>, ptr", emit_kernel(kernel, cpu.cpu_features()).text)


@pytest.mark.parametrize(("columns", "streams"), [(56, False), (64, True), (1024, True), (1027, True)])
def test_only_long_rows_or_whole_lines_go_around_the_caches(monkeypatch: pytest.MonkeyPatch, columns: int, streams: bool) -> None:
    assert SHORTEST_STREAM <= 4 * 1024
    forms: list[bool] = []
    code = emission._code
    monkeypatch.setattr(emission, "_code", lambda kernel, streaming: (forms.append(streaming), code(kernel, streaming))[1])
    x = torch.ones((12 << 20) // columns // 4 + columns % 7, columns)  # a size of its own: nothing kept serves it
    del forms[:]
    with config.override(cache=False):
        torch.cat((x, x), 1)
    assert any(forms) is streams


def test_chunks_are_longer_where_there_are_enough() -> None:
    launch = Launch(grain=3, chunks=1000, work=1000 * CHUNK_NANOSECONDS, arguments=[], iterations=3000)
    enough = 2 * CHUNKS_PER_THREAD * CHUNK_NANOSECONDS
    assert launch.coarser(enough, 2) is launch
    longer = launch.coarser(4 * enough, 2)
    assert (longer.grain, longer.chunks) == (12, 250)
    most = LONGEST_CHUNK // CHUNK_NANOSECONDS
    assert launch.coarser(1000 * enough, 2).grain == 3 * most
    fixed = Launch(grain=3, chunks=1000, work=0, arguments=[])
    assert fixed.coarser(1000 * enough, 2) is fixed


def test_divisions_of_sizes_cost_nothing_inside_a_loop() -> None:
    i = axis("i", N)
    assert costs.instructions(load(0, (N // 8) * 3 + i, F32)) == 1
    assert costs.instructions(load(0, i // 8, F32)) > 20
