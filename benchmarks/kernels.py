"""Generated loop nests against a copy of the bytes that they move, interleaved in one run; with code size and compile time.

Run ``python -m benchmarks.kernels [threads] [part of a name]``.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from flambeau.codegen.cpu.kernel_code import KernelCode, emit_kernel
from flambeau.compilation import kernel_cache
from flambeau.compilation.llvm_driver import compile_modules
from flambeau.core import cpu, dtypes
from flambeau.core.symbolic import axis, evaluate, loaded, symbol
from flambeau.ir.kernel import CHECK, REDUCE, BufferParameter, Kernel, KernelAxis, Store, index_value, load
from flambeau.ir.node import Node
from flambeau.prims import pointwise as p
from flambeau.runtime.allocator import Allocator
from flambeau.runtime.launch import TaskArray, run_tasks
from flambeau.runtime.object_loader import link
from flambeau.runtime.object_loader import load as load_images
from flambeau.runtime.thread_pool import set_num_threads

CHUNK_NANOSECONDS = 30_000
F32, I64 = dtypes.float32, dtypes.int64
R, C, N = symbol("r"), symbol("c"), symbol("n")
ROW, COLUMN = axis("i", R), axis("j", C)
PLACE = ROW * C + COLUMN


@dataclass(frozen=True)
class Case:
    """A kernel, its sizes, and the elements of each of its buffers."""

    name: str
    kernel: Kernel
    sizes: dict[str, int]
    elements: tuple[int, ...]


def make(outer: Sequence[KernelAxis], inner: Sequence[KernelAxis], vector: str, accesses: str, stores: Sequence[Store]) -> Kernel:
    """``accesses`` has one letter a buffer: r, w (float32) or i (int64 that is read)."""
    kinds = {"r": BufferParameter(F32, "read"), "w": BufferParameter(F32, "write"), "i": BufferParameter(I64, "read"),
             "u": BufferParameter(F32, "update")}  # fmt: skip
    names = sorted({str(a.size) for a in (*outer, *inner) if not isinstance(a.size, int)})
    return Kernel(tuple(outer), tuple(inner), vector, tuple(kinds[a] for a in accesses), tuple(names), (), tuple(stores))


def reduce(value: Node, kind: str) -> Node:
    return Node(REDUCE, (value,), kind=kind, axes=("j",))


def number(value: float, like: Node) -> Node:
    return p.number(value, like)


def copy() -> Kernel:
    n = axis("n0", N)
    return make([KernelAxis("n0", N)], [], "n0", "rw", [Store(1, n, load(0, n, F32))])


def gelu_chain() -> Kernel:
    """gelu(x + b) * y with the tanh form of gelu."""
    x = p.add(load(0, PLACE, F32), load(1, COLUMN, F32))
    inner = p.mul(number(0.7978845608, x), p.add(x, p.mul(number(0.044715, x), p.mul(x, p.mul(x, x)))))
    gelu = p.mul(p.mul(number(0.5, x), x), p.add(number(1.0, x), p.tanh(inner)))
    return make([KernelAxis("i", R), KernelAxis("j", C)], [], "j", "rrrw", [Store(3, PLACE, p.mul(gelu, load(2, PLACE, F32)))])


def add() -> Kernel:
    n = axis("n0", N)
    return make([KernelAxis("n0", N)], [], "n0", "rrw", [Store(2, n, p.add(load(0, n, F32), load(1, n, F32)))])


def softmax() -> Kernel:
    x = load(0, PLACE, F32)
    e = p.exp(p.sub(x, reduce(x, "max")))
    scale = p.div(number(1.0, x), reduce(e, "sum"))
    return make([KernelAxis("i", R)], [KernelAxis("j", C)], "j", "rw", [Store(1, PLACE, p.mul(e, scale))])


def layer_norm() -> Kernel:
    x = load(0, PLACE, F32)
    count = p.cast(index_value(C), to=F32)
    mean = p.div(reduce(x, "sum"), count)
    centred = p.sub(x, mean)
    rstd = p.rsqrt(p.add(p.div(reduce(p.mul(centred, centred), "sum"), count), number(1e-5, x)))
    out = p.add(p.mul(p.mul(centred, rstd), load(1, COLUMN, F32)), load(2, COLUMN, F32))
    return make([KernelAxis("i", R)], [KernelAxis("j", C)], "j", "rrrw", [Store(3, PLACE, out)])


def row_sums() -> Kernel:
    return make([KernelAxis("i", R)], [KernelAxis("j", C)], "j", "rw", [Store(1, ROW, reduce(load(0, PLACE, F32), "sum"))])


def column_sums() -> Kernel:
    """Over the first axis of (c, r)."""
    return make([KernelAxis("i", R)], [KernelAxis("j", C)], "i", "rw", [Store(1, ROW, reduce(load(0, COLUMN * R + ROW, F32), "sum"))])


def take_rows() -> Kernel:
    row = loaded("row", 30_000, Node(CHECK, (load(1, ROW, I64),), size=30_000, operator="embedding"))
    return make([KernelAxis("i", R), KernelAxis("j", C)], [], "j", "riw", [Store(2, PLACE, load(0, row * C + COLUMN, F32))])


def transpose() -> Kernel:
    return make([KernelAxis("i", R), KernelAxis("j", C)], [], "j", "rw", [Store(1, PLACE, load(0, COLUMN * R + ROW, F32))])


def rows(name: str, kernel: Kernel, r: int, c: int, *elements: int) -> Case:
    return Case(f"{name} {r}x{c}", kernel, {"r": r, "c": c}, elements)


def cases() -> list[Case]:
    square = 4096 * 4096
    return [
        Case("copy 64 MiB", copy(), {"n": square}, (square, square)),
        Case("add 16", add(), {"n": 16}, (16, 16, 16)),
        Case("add 64 MiB", add(), {"n": square}, (square, square, square)),
        rows("gelu(x + b) * y", gelu_chain(), 4096, 4096, square, 4096, square, square),
        rows("gelu(x + b) * y", gelu_chain(), 512, 512, 512 * 512, 512, 512 * 512, 512 * 512),
        rows("softmax", softmax(), 64, 128, 64 * 128, 64 * 128),
        rows("softmax", softmax(), 4096, 1024, square // 4, square // 4),
        rows("softmax", softmax(), 1024, 32768, 2 * square, 2 * square),
        rows("layer norm", layer_norm(), 4096, 1024, square // 4, 1024, 1024, square // 4),
        rows("layer norm", layer_norm(), 4096, 4096, square, 4096, 4096, square),
        rows("row sums", row_sums(), 4096, 4096, square, 4096),
        rows("column sums", column_sums(), 4096, 4096, square, 4096),
        rows("column sums", column_sums(), 768, 8192, 768 * 8192, 768),
        rows("embedding", take_rows(), 8192, 768, 30_000 * 768, 8192, 8192 * 768),
        rows("transpose", transpose(), 2048, 2048, square // 4, square // 4),
        rows("transpose", transpose(), 2000, 2000, 4_000_000, 4_000_000),
        rows("transpose", transpose(), 256, 256, 65536, 65536),
    ]


class Launch:
    """A kernel with buffers of its own, ready to run."""

    def __init__(self, allocator: Allocator, case: Case, threads: int) -> None:
        start = time.perf_counter()
        self.code: KernelCode = emit_kernel(case.kernel, cpu.cpu_features())
        if written_bytes(case) > self.code.stream_above:
            self.code = emit_kernel(case.kernel, cpu.cpu_features(), streaming=True)
        emitted = time.perf_counter()
        image = link(compile_modules([self.code.text])[0])
        self.milliseconds = (1e3 * (emitted - start), 1e3 * (time.perf_counter() - emitted))
        self.code_bytes = image.size
        self.moved = moved_bytes(case)
        addresses: list[int] = []
        for parameter, count in zip(case.kernel.buffers, case.elements, strict=True):
            addresses.append(allocator.allocate(count * parameter.dtype.itemsize))
            view = array_at(addresses[-1], count, parameter.dtype.numpy)
            view[...] = np.random.randint(0, 30_000, count) if parameter.dtype is I64 else np.resize(np.random.randn(4099), count)
        self.tasks = TaskArray(evaluate(self.code.scratch_bytes, case.sizes))
        iterations = evaluate(self.code.iterations, case.sizes)
        grain = max(1, min(-(-iterations // threads), CHUNK_NANOSECONDS // evaluate(self.code.cost, case.sizes)))
        slots = [0, grain, *addresses, *(case.sizes[s] for s in case.kernel.sizes)]
        self.tasks.add(load_images([image])[0][self.code.name], slots, -(-iterations // grain), 0)
        self.chunks = -(-iterations // grain)

    def __call__(self) -> None:
        run_tasks(self.tasks)


def written_bytes(case: Case) -> int:
    """Bytes of the buffers that are only written."""
    pairs = zip(case.kernel.buffers, case.elements, strict=True)
    return sum(count * p.dtype.itemsize for p, count in pairs if p.access == "write")


def moved_bytes(case: Case) -> int:
    """Bytes that the stores write and the loads read, each element of a buffer once (of a table only the rows taken)."""
    return sum(min(count, max(case.elements[-1], 1) if p.dtype is F32 and "embedding" in case.name else count) * p.dtype.itemsize
               for p, count in zip(case.kernel.buffers, case.elements, strict=True))  # fmt: skip


def array_at(address: int, count: int, kind: np.dtype) -> np.ndarray:
    return np.frombuffer((ctypes.c_char * (count * kind.itemsize)).from_address(address), kind)


def measure(calls: Sequence[Callable[[], None]], seconds: float = 0.6) -> list[float]:
    """Median microseconds of each call, taken in turn."""
    for call in calls:
        call()
    start = time.perf_counter()
    calls[0]()
    repeats = max(1, int(2e-4 / max(time.perf_counter() - start, 1e-6)))
    times: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        for call, series in zip(calls, times, strict=True):
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            series.append((time.perf_counter() - start) / repeats * 1e6)
    return [statistics.median(series) for series in times]


def main() -> None:
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    set_num_threads(threads)
    kernel_cache.get_kernels([])  # sets the thread pool up
    print(f"{threads} threads; times in us; copy: the same bytes moved by the copy kernel")
    for case in cases():
        if wanted not in case.name:
            continue
        allocator = Allocator()
        kernel = Launch(allocator, case, threads)
        half = max(kernel.moved // 8, 2)
        reference = Launch(allocator, Case("copy", copy(), {"n": half}, (half, half)), threads)
        ours, plain = measure([kernel, reference])
        emit, compile_ = kernel.milliseconds
        print(
            f"{case.name:26} {ours:10.1f}  copy {plain:10.1f}  {plain / ours:5.2f} of copy speed, {kernel.moved / ours / 1e3:6.1f} GB/s, "
            f"{kernel.chunks} chunks, emit {emit:.1f} ms, compile {compile_:.1f} ms, {kernel.code_bytes} bytes"
        )
        allocator.empty_cache()


if __name__ == "__main__":
    main()
