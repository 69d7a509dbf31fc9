"""Generated CPU kernels: what each construct means, how errors are reported, and that texts are stable."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from flambeau.codegen.cpu.errors import ACCESS_OUTSIDE_BUFFER, INDEX_OUT_OF_RANGE, operator_number
from flambeau.codegen.cpu.kernel_code import emit_kernel
from flambeau.core import cpu, dtypes
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import Dim, axis, evaluate, loaded, symbol
from flambeau.ir.kernel import (
    ARGREDUCE,
    CHECK,
    REDUCE,
    BufferParameter,
    Kernel,
    KernelAxis,
    Store,
    index_value,
    inside,
    load,
    scalar,
    substitute_kernel,
    symbols_in,
)  # fmt: skip
from flambeau.ir.node import Node
from flambeau.prims import pointwise as p
from tests.unit.kernel_harness import CompiledKernel

F32, F64, I64, BOOL = dtypes.float32, dtypes.float64, dtypes.int64, dtypes.bool_
R, C = symbol("r"), symbol("c")
ROOT = Path(__file__).resolve().parents[2]
LENGTHS = [2, 3, 15, 16, 17, 63, 64, 65, 127, 128, 200, 1000, 4097]


def make(
    outer: list[KernelAxis], inner: list[KernelAxis], vector: str, buffers: str, stores: list[Store], scalars: tuple[dtype, ...] = ()
) -> Kernel:
    """``buffers`` reads like ``"float32 read, int64 write"``."""
    parameters = tuple(BufferParameter(dtypes.by_name(part.split()[0]), part.split()[1]) for part in buffers.split(", "))
    sizes = symbols_in([a.size for a in (*outer, *inner)])
    return Kernel(tuple(outer), tuple(inner), vector, parameters, tuple(sizes), scalars, tuple(stores))


def reduce(value: Node, kind: str, *axes: str) -> Node:
    return Node(REDUCE, (value,), kind=kind, axes=axes)


def softmax(row_wise: bool = True) -> Kernel:
    """Along the last axis of (r, c), or along the first of (c, r)."""
    i, j = axis("i", R), axis("j", C)
    place = i * C + j if row_wise else j * R + i
    x = load(0, place, F32)
    e = p.exp(p.sub(x, reduce(x, "max", "j")))
    stores = [Store(1, place, p.div(e, reduce(e, "sum", "j")))]
    return make([KernelAxis("i", R)], [KernelAxis("j", C)], "j" if row_wise else "i", "float32 read, float32 write", stores)


def exact_softmax(x: np.ndarray, dim: int) -> np.ndarray:
    e = np.exp(x.astype(np.float64) - x.max(dim, keepdims=True))
    return e / e.sum(dim, keepdims=True)


@pytest.mark.parametrize("columns", LENGTHS)
def test_softmax_along_rows(columns: int) -> None:
    x, out = np.random.randn(5, columns).astype(np.float32), np.zeros(5 * columns, np.float32)
    CompiledKernel(softmax()).run([x.ravel(), out], {"r": 5, "c": columns}, grain=2)
    np.testing.assert_allclose(out.reshape(x.shape), exact_softmax(x, 1), rtol=3e-6)


@pytest.mark.parametrize("columns", LENGTHS)
def test_softmax_along_columns(columns: int) -> None:
    x, out = np.random.randn(7, columns).astype(np.float32), np.zeros(7 * columns, np.float32)
    CompiledKernel(softmax(row_wise=False)).run([x.ravel(), out], {"r": columns, "c": 7})
    np.testing.assert_allclose(out.reshape(x.shape), exact_softmax(x, 0), rtol=3e-6)


def test_expensive_values_are_kept_in_scratch_memory() -> None:
    code = emit_kernel(softmax(), cpu.cpu_features())
    assert evaluate(code.scratch_bytes, {"r": 3, "c": 1000}) == 4032
    assert emit_kernel(layer_norm(), cpu.cpu_features()).scratch_bytes == 0


def layer_norm() -> Kernel:
    i, j = axis("i", R), axis("j", C)
    x, gain, bias = load(0, i * C + j, F32), load(1, j, F32), load(2, j, F32)
    count = p.cast(index_value(C), to=F32)
    mean = p.div(reduce(x, "sum", "j"), count)
    centred = p.sub(x, mean)
    rstd = p.rsqrt(p.add(p.div(reduce(p.mul(centred, centred), "sum", "j"), count), scalar(0, F32)))
    out = p.add(p.mul(p.mul(centred, rstd), gain), bias)
    stores = [Store(3, i * C + j, out), Store(4, i, mean), Store(5, i, rstd)]
    buffers = "float32 read, float32 read, float32 read, float32 write, float32 write, float32 write"
    return make([KernelAxis("i", R)], [KernelAxis("j", C)], "j", buffers, stores, (F32,))


@pytest.mark.parametrize("columns", [2, 16, 100, 1027])
def test_layer_norm_with_statistics(columns: int) -> None:
    x, gain, bias = (np.random.randn(n).astype(np.float32) for n in (6 * columns, columns, columns))
    out, mean, rstd = (np.zeros(n, np.float32) for n in (6 * columns, 6, 6))
    CompiledKernel(layer_norm()).run([x, gain, bias, out, mean, rstd], {"r": 6, "c": columns}, [1e-5])
    rows = x.astype(np.float64).reshape(6, columns)
    exact = 1 / np.sqrt(rows.var(1) + 1e-5)
    np.testing.assert_allclose(mean, rows.mean(1), atol=1e-6)
    np.testing.assert_allclose(rstd, exact, rtol=1e-5)
    wanted = (rows - rows.mean(1, keepdims=True)) * exact[:, None] * gain + bias
    np.testing.assert_allclose(out.reshape(6, columns), wanted, rtol=1e-4, atol=1e-5)


def test_replaced_contents_are_read_before() -> None:
    """x = exp(x) in place, beside y = x / sum(x)."""
    i, j = axis("i", R), axis("j", C)
    x = load(0, i * C + j, F32)
    stores = [Store(0, i * C + j, p.exp(x)), Store(1, i * C + j, p.div(x, reduce(x, "sum", "j")))]
    kernel = make([KernelAxis("i", R)], [KernelAxis("j", C)], "j", "float32 update, float32 write", stores)
    old = np.random.rand(5, 77).astype(np.float32)
    new, share = old.copy().ravel(), np.zeros(5 * 77, np.float32)
    CompiledKernel(kernel).run([new, share], {"r": 5, "c": 77})
    np.testing.assert_allclose(new.reshape(5, 77), np.exp(old), rtol=1e-6)
    np.testing.assert_allclose(share.reshape(5, 77), old / old.sum(1, keepdims=True), rtol=1e-5)


def test_axes_without_lanes() -> None:
    i, j = axis("i", R), axis("j", C)
    kernel = make([KernelAxis("i", R)], [KernelAxis("j", C)], "", "float32 read, float32 write", [
        Store(1, i, reduce(load(0, i * C + j, F32), "max", "j"))])  # fmt: skip
    x, out = np.random.randn(5, 9).astype(np.float32), np.zeros(5, np.float32)
    CompiledKernel(kernel).run([x.ravel(), out], {"r": 5, "c": 9}, grain=2)
    np.testing.assert_array_equal(out, x.max(1))


def test_float_sums_do_not_depend_on_the_number_of_lanes() -> None:
    i, j = axis("i", R), axis("j", C)
    total = reduce(load(0, i * C + j, F32), "sum", "j")
    plain = make([KernelAxis("i", R)], [KernelAxis("j", C)], "j", "float32 read, float32 write", [Store(1, i, total)])
    beside = reduce(p.cast(load(0, i * C + j, F32), to=F64), "max", "j")
    stores = [Store(1, i, total), Store(2, i, beside)]
    wide = make([KernelAxis("i", R)], [KernelAxis("j", C)], "j", "float32 read, float32 write, float64 write", stores)
    x = np.random.randn(3 * 40000).astype(np.float32)
    first, second, most = np.zeros(3, np.float32), np.zeros(3, np.float32), np.zeros(3)
    CompiledKernel(plain).run([x, first], {"r": 3, "c": 40000})
    CompiledKernel(wide).run([x, second, most], {"r": 3, "c": 40000})
    assert first.tobytes() == second.tobytes()
    np.testing.assert_allclose(first, x.astype(np.float64).reshape(3, -1).sum(1), atol=2e-4)
    half = frozenset(("avx2", "fma"))
    CompiledKernel(plain, features=half).run([x, second], {"r": 3, "c": 40000})
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("columns", LENGTHS)
def test_sum_of_an_expensive_body(columns: int) -> None:
    """Too much code to repeat it for each partial sum."""
    i, j = axis("i", R), axis("j", C)
    x = p.exp(p.tanh(p.exp(p.neg(p.exp(load(0, i * C + j, F32))))))
    kernel = make([KernelAxis("i", R)], [KernelAxis("j", C)], "j", "float32 read, float32 write", [Store(1, i, reduce(x, "sum", "j"))])
    data, out = np.random.randn(3, columns).astype(np.float32), np.zeros(3, np.float32)
    CompiledKernel(kernel).run([data.ravel(), out], {"r": 3, "c": columns})
    np.testing.assert_allclose(out, np.exp(np.tanh(np.exp(-np.exp(data.astype(np.float64))))).sum(1), rtol=2e-6)


@pytest.mark.parametrize("vector", ["i", "j"])
def test_long_sums_stay_exact(vector: str) -> None:
    i, j = axis("i", 2), axis("j", C)
    total = reduce(load(0, j * 2 + i, F32), "sum", "j")
    kernel = make([KernelAxis("i", 2)], [KernelAxis("j", C)], vector, "float32 read, float32 write", [Store(1, i, total)])
    x, out = np.full(600_000, 1.1, np.float32), np.zeros(2, np.float32)
    CompiledKernel(kernel).run([x, out], {"c": 300_000})
    np.testing.assert_allclose(out, 300_000 * np.float64(np.float32(1.1)), rtol=2e-5)


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("vector", ["i", "j"])
def test_argreduce_takes_the_first_extremum_and_nan(kind: str, vector: str) -> None:
    i, j = axis("i", R), axis("j", C)
    where = Node(ARGREDUCE, (load(0, i * C + j, F32),), kind=kind, axes=("j",), position=j)
    kernel = make([KernelAxis("i", R)], [KernelAxis("j", C)], vector, "float32 read, int64 write", [Store(1, i, where)])
    x = np.random.randint(0, 4, (40, 101)).astype(np.float32)
    x[3, 50:60] = np.nan
    x[4] = np.inf if kind == "min" else -np.inf
    out = np.zeros(40, np.int64)
    CompiledKernel(kernel).run([x.ravel(), out], {"r": 40, "c": 101}, grain=3)
    np.testing.assert_array_equal(out, (np.argmax if kind == "max" else np.argmin)(x, axis=1))


@pytest.mark.parametrize("vector", ["i", "j", "k"])
def test_reduction_inside_another_inner_loop(vector: str) -> None:
    """The largest row sum of each matrix."""
    i, j, k = axis("i", R), axis("j", C), axis("k", 19)
    sums = reduce(load(0, (i * C + j) * 19 + k, F32), "sum", "k")
    axes = [KernelAxis("i", R)], [KernelAxis("j", C), KernelAxis("k", 19)]
    if vector == "j":
        sums = reduce(load(0, (i * C + axis("k", C)) * 19 + axis("j", 19), F32), "sum", "j")
        axes = [KernelAxis("i", R)], [KernelAxis("k", C), KernelAxis("j", 19)]
    most = reduce(sums, "max", "k" if vector == "j" else "j")
    kernel = make(*axes, vector, "float32 read, float32 write", [Store(1, i, most)])
    x, out = np.random.randn(21, 33, 19).astype(np.float32), np.zeros(21, np.float32)
    CompiledKernel(kernel).run([x.ravel(), out], {"r": 21, "c": 33})
    np.testing.assert_allclose(out, x.astype(np.float64).sum(2).max(1), rtol=1e-5)


def gather(size: Dim = 8, operator: str = "index_select") -> Kernel:
    i, j = axis("i", C), axis("j", 20)
    row = loaded("row", size, Node(CHECK, (load(1, i, I64),), size=size, operator=operator))
    store = Store(2, i * 20 + j, load(0, row * 20 + j, F32))
    return make([KernelAxis("i", C), KernelAxis("j", 20)], [], "j", "float32 read, int64 read, float32 write", [store])


def test_bad_index_is_reported_and_clamped() -> None:
    table, out = np.random.randn(8, 20).astype(np.float32), np.zeros(3 * 20, np.float32)
    kernel = CompiledKernel(gather(8))
    assert kernel.code.operators == ("index_select",)
    assert kernel.run([table.ravel(), np.array([1, 7, 0]), out], {"c": 3}) == [0] * 6
    np.testing.assert_array_equal(out.reshape(3, 20), table[[1, 7, 0]])
    record = kernel.run([table.ravel(), np.array([2, -5, 9]), out], {"c": 3})
    assert record == [1, INDEX_OUT_OF_RANGE, operator_number("index_select"), 1, -5, 8]
    np.testing.assert_array_equal(out.reshape(3, 20), table[[2, 0, 7]])


def test_bad_index_in_a_lane_names_its_place() -> None:
    i = axis("i", C)
    place = loaded("place", 10, Node(CHECK, (load(1, i, I64),), size=10, operator="take"))
    kernel = CompiledKernel(make([KernelAxis("i", C)], [], "i", "int32 read, int64 read, int32 write",
                                 [Store(2, i, load(0, place, dtypes.int32))]))  # fmt: skip
    index, out = np.arange(301) % 10, np.zeros(301, np.int32)
    index[[170, 300]] = (10, 11)
    record = kernel.run([np.arange(10, dtype=np.int32), index, out], {"c": 301})
    assert record == [1, INDEX_OUT_OF_RANGE, operator_number("take"), 170, 10, 10]
    np.testing.assert_array_equal(out, np.minimum(index, 9))


def test_index_into_nothing_reads_nothing() -> None:
    out = np.ones(3 * 20, np.float32)
    record = CompiledKernel(gather(0)).run([np.zeros(0, np.float32), np.array([0, 0, 0]), out], {"c": 3})
    assert record[0] == 1 and record[5] == 0
    assert not out.any()


def test_scatter_add_keeps_the_order_of_a_serial_axis() -> None:
    i, j = axis("i", C), axis("j", R)
    row = loaded("row", 5, Node(CHECK, (load(1, i, I64),), size=5, operator="index_add"))
    store = Store(2, row * R + j, load(0, i * R + j, F32), "add")
    axes = [KernelAxis("i", C, False), KernelAxis("j", R)]
    kernel = CompiledKernel(make(axes, [], "j", "float32 read, int64 read, float32 update", [store]))
    x, index = np.random.randn(90, 33).astype(np.float32), np.random.randint(0, 5, 90)
    wanted = np.zeros((5, 33), np.float32)
    np.add.at(wanted, index, x)
    out = np.zeros(5 * 33, np.float32)
    kernel.run([x.ravel(), index, out], {"c": 90, "r": 33})
    assert out.tobytes() == wanted.tobytes()


def test_lanes_that_meet_at_one_place_all_count() -> None:
    i = axis("i", C)
    place = loaded("place", 3, Node(CHECK, (load(1, i, I64),), size=3, operator="bincount"))
    valid = inside(i, 4, 1000)
    store = Store(2, place, load(0, i, F32), "add", valid)
    kernel = CompiledKernel(make([KernelAxis("i", C, False)], [], "i", "float32 read, int64 read, float32 update", [store]))
    x, index, out = np.random.randn(77).astype(np.float32), np.random.randint(0, 3, 77), np.zeros(3, np.float32)
    wanted = np.zeros(3, np.float32)
    np.add.at(wanted, index[4:], x[4:])
    kernel.run([x, index, out], {"c": 77})
    assert out.tobytes() == wanted.tobytes()


def test_kernel_without_axes() -> None:
    kernel = make([], [], "", "float32 read, float32 write", [Store(1, 0, p.mul(load(0, 0, F32), scalar(0, F32)))], (F32,))
    out = np.zeros(1, np.float32)
    CompiledKernel(kernel).run([np.array([3.0], np.float32), out], {}, [2.5])
    assert out[0] == 7.5


def test_padding_reads_only_inside() -> None:
    i, j = axis("i", R), axis("j", C)
    valid = p.bitwise_and(inside(j - 2, 0, 11), inside(i, 1, 4))
    x = p.where(valid, load(0, (i - 1) * 11 + j - 2, F32, valid), p.number(9.0, load(0, 0, F32)))
    kernel = make([KernelAxis("i", R), KernelAxis("j", C)], [], "j", "float32 read, float32 write", [Store(1, i * C + j, x)])
    data, out = np.random.randn(3, 11).astype(np.float32), np.zeros(5 * 20, np.float32)
    CompiledKernel(kernel).run([data.ravel(), out], {"r": 5, "c": 20})
    np.testing.assert_array_equal(out.reshape(5, 20), np.pad(data, ((1, 1), (2, 7)), constant_values=9))


def test_checked_mode_reports_accesses_outside_a_buffer() -> None:
    i = axis("i", C)
    kernel = make([KernelAxis("i", C)], [], "i", "float32 read, float32 write", [Store(1, i, load(0, i + 3, F32))])
    x, out = np.arange(100, dtype=np.float32), np.full(100, -1, np.float32)
    record = CompiledKernel(kernel, checked=True).run([x, out], {"c": 100})
    assert record == [1, ACCESS_OUTSIDE_BUFFER, operator_number("buffer 0"), 97, 100, 100]
    np.testing.assert_array_equal(out, [*range(3, 100), 0, 0, 0])
    out[:] = -1
    record = CompiledKernel(kernel, checked=True).run([x, out], {"c": 97}, counts=[100, 50])
    assert record == [1, ACCESS_OUTSIDE_BUFFER, operator_number("buffer 1"), 50, 50, 50]
    np.testing.assert_array_equal(out, [*range(3, 53), *[-1] * 50])


def test_text_is_the_same_in_every_process_and_names_itself() -> None:
    script = (
        "from tests.unit.test_codegen_cpu import softmax, gather, layer_norm, emit_kernel\n"
        "import hashlib\n"
        "texts = [emit_kernel(k, frozenset(('fma', 'avx512f'))) for k in (softmax(), softmax(False), gather(), layer_norm())]\n"
        "print([(t.name, hashlib.sha256(t.text.encode()).hexdigest()) for t in texts])"
    )
    answers = {
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT,
                       env={**os.environ, "PYTHONHASHSEED": seed}).stdout
        for seed in ("1", "2")
    }
    assert len(answers) == 1
    code = emit_kernel(softmax(), cpu.cpu_features())
    assert code.name.startswith("k_") and len(code.name) == 18 and f"@{code.name}(" in code.text


def test_bfloat16_reduction_asks_for_a_cast() -> None:
    i, j = axis("i", R), axis("j", C)
    total = reduce(load(0, i * C + j, dtypes.bfloat16), "sum", "j")
    kernel = make([KernelAxis("i", R)], [KernelAxis("j", C)], "j", "bfloat16 read, bfloat16 write", [Store(1, i, total)])
    with pytest.raises(NotImplementedError, match="float32 first"):
        emit_kernel(kernel, cpu.cpu_features())


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int16, np.bool_])
@pytest.mark.parametrize("shape", [(2, 8), (16, 16), (17, 33), (40, 300)])
def test_transpose_reads_tiles(shape: tuple[int, int], kind: type) -> None:
    """The sum (or other) of a matrix and the transpose of another one."""
    element = dtypes.BY_NUMPY[np.dtype(kind)]
    i, j = axis("i", R), axis("j", C)
    value = p.bitwise_xor(load(0, j * R + i, element), load(1, i * C + j, element)) if element in (BOOL, dtypes.int16) else p.add(
        load(0, j * R + i, element), load(1, i * C + j, element))  # fmt: skip
    buffers = f"{element.name} read, {element.name} read, {element.name} write"
    kernel = CompiledKernel(make([KernelAxis("i", R), KernelAxis("j", C)], [], "j", buffers, [Store(2, i * C + j, value)]))
    x, y = ((np.random.randn(*s) * 3).astype(kind) for s in (shape[::-1], shape))
    out = np.zeros(shape[0] * shape[1], kind)
    assert evaluate(kernel.code.scratch_bytes, {}) > 0
    for grain in (1, 1000):
        kernel.run([x.ravel(), y.ravel(), out], {"r": shape[0], "c": shape[1]}, grain=grain)
        np.testing.assert_array_equal(out.reshape(shape), x.T ^ y if element in (BOOL, dtypes.int16) else x.T + y)


@pytest.mark.parametrize("align", [0, 64])
@pytest.mark.parametrize("columns", [64, 130, 1024])
def test_streaming_form_gives_the_same_bytes(columns: int, align: int) -> None:
    x, gain, bias = (np.random.randn(n).astype(np.float32) for n in (6 * columns, columns, columns))
    results = []
    for streaming in (False, True):
        out, mean, rstd = (np.zeros(n, np.float32) for n in (6 * columns, 6, 6))
        kernel = CompiledKernel(layer_norm(), streaming=streaming)
        kernel.run([x, gain, bias, out, mean, rstd], {"r": 6, "c": columns}, [1e-5], align=align)
        assert ("nontemporal" in kernel.code.text) is streaming
        results.append(out.tobytes() + mean.tobytes() + rstd.tobytes())
    assert results[0] == results[1]


@pytest.mark.parametrize("columns", [1, 7, 16, 17, 100, 128, 256])
def test_rows_of_known_size_give_the_bytes_of_any_size(columns: int) -> None:
    """Rows of at most 16 vectors stay in registers; their sums are those of the loops."""
    whole = substitute_kernel(softmax(), {"r": 5, "c": columns})
    known = Kernel(whole.outer, whole.inner, whole.vector, whole.buffers, (), whole.scalars, whole.stores)
    x = (np.random.randn(5 * columns) * 4).astype(np.float32)
    first, second = np.zeros_like(x), np.zeros_like(x)
    CompiledKernel(softmax()).run([x, first], {"r": 5, "c": columns})
    kernel = CompiledKernel(known)
    kernel.run([x, second], {}, grain=2)
    assert (kernel.code.scratch_bytes == 0) is (columns <= 16 * (16 if "avx512f" in cpu.cpu_features() else 8))
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("place", [0, 5, 16, 40, 99, -3, 1 << 62, -(1 << 62)])
def test_places_are_compared_with_numbers_of_any_size(place: int) -> None:
    """Where j equals, or is below, a number that is loaded for each row."""
    i, j = axis("i", R), axis("j", C)
    wanted = load(0, i, I64)
    equal, below = p.eq(index_value(j), wanted), p.lt(index_value(j), p.sub(wanted, index_value(i)))
    outputs = "bool write, bool write"
    kernel = make([KernelAxis("i", R), KernelAxis("j", C)], [], "j", f"int64 read, {outputs}", [
        Store(1, i * C + j, equal), Store(2, i * C + j, below)])  # fmt: skip
    numbers = np.array([place, 7, place + 1])
    first, second = np.zeros(300, np.bool_), np.zeros(300, np.bool_)
    CompiledKernel(kernel).run([numbers, first, second], {"r": 3, "c": 100})
    columns = np.arange(100)
    np.testing.assert_array_equal(first.reshape(3, 100), columns == numbers[:, None])
    np.testing.assert_array_equal(second.reshape(3, 100), columns < (numbers - np.arange(3))[:, None])


@pytest.mark.parametrize("heads", [16, 32, 48, 20])
def test_quotients_that_a_vector_shares(heads: int) -> None:
    """Rows are put together from pieces of ``heads`` elements; a condition on the piece decides what is read."""
    pieces = 6
    i, j = axis("i", R), axis("j", pieces * heads)
    piece = j // heads
    source = (piece * R + i) * heads + j % heads
    kept = inside(piece, 1, pieces - 1)
    x = load(0, source, F32, kept)
    kernel = make([KernelAxis("i", R), KernelAxis("j", pieces * heads)], [], "j", "float32 read, float32 write", [
        Store(1, i * (pieces * heads) + j, x)])  # fmt: skip
    data, out = np.random.randn(pieces, 9, heads).astype(np.float32), np.ones(9 * pieces * heads, np.float32)
    CompiledKernel(kernel).run([data.ravel(), out], {"r": 9}, grain=4)
    data[[0, -1]] = 0
    np.testing.assert_array_equal(out.reshape(9, pieces, heads), data.transpose(1, 0, 2))


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.float16, np.bool_, np.float64])
@pytest.mark.parametrize("size", [1, 3, 16, 17, 33, 47])
def test_known_size_writes_nothing_beyond(size: int, kind: type) -> None:
    element = dtypes.BY_NUMPY[np.dtype(kind)]
    i = axis("i", size)
    kernel = make([KernelAxis("i", size)], [], "i", f"{element.name} read, {element.name} write", [Store(1, i, load(0, i, element))])
    x, out = (np.random.randn(size) * 9).astype(kind), np.zeros(size, kind)
    CompiledKernel(kernel).run([x, out], {})
    assert out.tobytes() == x.tobytes()
