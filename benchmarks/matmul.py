"""Matrix products against torch.mm and torch.bmm: ratios and the share of the measured FMA peak, all interleaved.

Run ``python -m benchmarks.matmul [threads] [name-part]``; needs torch. With one thread the least CPU time of several blocks is
taken, which busy neighbours change little; with more the median of elapsed times.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

THREADS = int(sys.argv[1]) if len(sys.argv) > 1 else 2
os.environ["OMP_NUM_THREADS"] = str(THREADS)

import numpy as np  # noqa: E402
import torch  # noqa: E402

from benchmarks.ceilings import multiply_adds  # noqa: E402
from flambeau.compilation.kernel_cache import KernelText, get_kernel  # noqa: E402
from flambeau.core import cpu, dtypes  # noqa: E402
from flambeau.runtime.launch import TaskArray, run_tasks  # noqa: E402
from flambeau.runtime.thread_pool import set_num_threads  # noqa: E402
from flambeau.templates.matmul import MatmulSpec, matmul_kernel, vector_kernel  # noqa: E402


@dataclass(frozen=True)
class Case:
    """``batch`` products (m, k) x (k, n); each operand's memory order, and the row stride of padded ones (0: dense)."""

    name: str
    batch: int
    m: int
    n: int
    k: int
    a: str = "row"
    b: str = "row"
    a_pitch: int = 0
    b_pitch: int = 0


CASES = [
    Case("forward qkv", 1, 2048, 384, 128, b="col"),
    Case("forward out", 1, 2048, 128, 128, b="col"),
    Case("forward up", 1, 2048, 512, 128, b="col"),
    Case("forward down", 1, 2048, 128, 512, b="col"),
    Case("forward head", 1, 2048, 256, 128, b="col"),
    Case("row qkv", 1, 2048, 384, 128),
    Case("row down", 1, 2048, 128, 512),
    Case("weights qkv", 1, 128, 384, 2048, a="col"),
    Case("weights qkv t", 1, 384, 128, 2048, a="col"),
    Case("weights out", 1, 128, 128, 2048, a="col"),
    Case("weights up", 1, 512, 128, 2048, a="col"),
    Case("weights down", 1, 128, 512, 2048, a="col"),
    Case("inputs qkv", 1, 2048, 128, 384),
    Case("inputs up", 1, 2048, 128, 512),
    Case("inputs down", 1, 2048, 512, 128),
    Case("scores", 64, 128, 128, 32, b="col", a_pitch=384, b_pitch=384),
    Case("values", 64, 128, 32, 128, b_pitch=384),
    Case("scores grad a", 64, 128, 32, 128, a="col", b_pitch=384),
    Case("values grad p", 64, 128, 128, 32, b="col", a_pitch=128, b_pitch=384),
    Case("square 256", 1, 256, 256, 256),
    Case("square 512", 1, 512, 512, 512),
    Case("square 1024", 1, 1024, 1024, 1024),
    Case("square 1024 nt", 1, 1024, 1024, 1024, b="col"),
    Case("square 1024 tn", 1, 1024, 1024, 1024, a="col"),
    Case("square 2048", 1, 2048, 2048, 2048),
    Case("square 1000", 1, 1000, 1000, 1000),
    Case("small 64", 1, 64, 64, 64),
    Case("mlp", 1, 32, 64, 16, b="col"),
    Case("vector m1 nt", 1, 1, 4096, 4096, b="col"),
    Case("vector m1", 1, 1, 4096, 4096),
    Case("vector n1", 1, 4096, 1, 4096),
    Case("vector n1 t", 1, 4096, 1, 4096, a="col"),
    Case("decode 8", 1, 8, 4096, 4096, b="col"),
]


def operand(batch: int, rows: int, columns: int, order: str, pitch: int) -> torch.Tensor:
    """A random (batch, rows, columns) tensor in that memory order; padded ones come as heads of 32 in wider rows."""
    inner, outer = (columns, rows) if order == "row" else (rows, columns)
    if pitch:
        groups = pitch // inner
        heads = torch.randn(-(-batch // groups), outer, groups, inner).transpose(1, 2).flatten(0, 1) if groups == 1 else None
        whole = torch.randn(-(-batch // groups), outer, pitch) if heads is None else heads
        tensor = torch.stack([whole[i // groups, :, i % groups * inner : (i % groups + 1) * inner] for i in range(batch)])
        strided = torch.empty_strided((batch, outer, inner), (outer * pitch, pitch, 1))
        strided.copy_(tensor)
        tensor = strided
    else:
        tensor = torch.randn(batch, outer, inner)
    return tensor if order == "row" else tensor.transpose(1, 2)


def ours(case: Case, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Callable[[], None]:
    a_layout, b_layout, m, n = case.a, case.b, case.m, case.n
    if n == 1:
        flipped = {"row": "col", "col": "row"}
        a, b, c, m, n = b.transpose(1, 2), a.transpose(1, 2), c.transpose(1, 2), n, m
        a_layout, b_layout = flipped[b_layout], flipped[a_layout]
    spec = MatmulSpec(dtypes.float32, dtypes.float32, a_layout, b_layout, cpu.vector_bits(), cpu.cpu_features())
    kernel = vector_kernel(spec) if m == 1 else matmul_kernel(spec)
    address = get_kernel(KernelText(kernel.text, kernel.name)).address
    plan = kernel.plan(case.batch, m, n, case.k, THREADS)
    slots = [0, plan.grain, a.data_ptr(), b.data_ptr(), c.data_ptr(), 1, case.batch, m, n, case.k]
    tasks = TaskArray(plan.scratch_bytes)
    tasks.add(address, [*slots, 0, *a.stride(), 0, *b.stride(), 0, *c.stride()[:2], 0], chunks=plan.chunks, wave=0)
    return lambda: run_tasks(tasks)


def interleaved(functions: list[Callable[[], None]], rounds: int = 9, block: float = 0.04) -> list[float]:
    """Seconds a call of each function, in an order of their own in each round: what ran before shows in the caches."""
    clock, statistic = (time.process_time, min) if THREADS == 1 else (time.perf_counter, statistics.median)
    counts = []
    for function in functions:
        function()
        started = time.perf_counter()
        function()
        counts.append(max(3, min(5000, int(block / (time.perf_counter() - started + 1e-7)))))
    samples: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds):
        for at in random.sample(range(len(functions)), len(functions)):
            function, count = functions[at], counts[at]
            function()
            started = clock()
            for _ in range(count):
                function()
            samples[at].append((clock() - started) / count)
    return [statistic(found) for found in samples]


def measure(case: Case, peak_rate: float) -> None:
    a = operand(case.batch, case.m, case.k, case.a, case.a_pitch)
    b = operand(case.batch, case.k, case.n, case.b, case.b_pitch)
    c, other = torch.empty(case.batch, case.m, case.n), torch.empty(case.batch, case.m, case.n)
    run = ours(case, a, b, c)
    if case.batch == 1:
        a2, b2, other2 = a[0], b[0], other[0]
        peer = lambda: torch.mm(a2, b2, out=other2)  # noqa: E731
    else:
        peer = lambda: torch.bmm(a, b, out=other)  # noqa: E731
    run()
    expected = a.numpy().astype(np.float64) @ b.numpy().astype(np.float64)
    error = np.abs(c.numpy() - expected).max() / max(np.abs(expected).max(), 1e-30)
    assert error < 1e-5, (case, error)
    mine, theirs = interleaved([run, peer])
    flops = 2 * case.batch * case.m * case.n * case.k
    print(
        f"{case.name:15s} {case.batch:3d} x ({case.m:4d},{case.n:4d},{case.k:4d}) {case.a:3s} {case.b:3s}  ours {mine * 1e6:9.1f} us "
        f"{flops / mine / 1e9:6.1f} GF/s {100 * flops / mine / peak_rate:3.0f} %   "
        f"torch {theirs * 1e6:9.1f} us   ratio {theirs / mine:5.2f}",
        flush=True,
    )


def main() -> None:
    torch.set_num_threads(THREADS)
    torch.set_grad_enabled(False)
    set_num_threads(THREADS)
    chosen = sys.argv[2:] or [""]
    run, operations = multiply_adds(THREADS)
    peak_rate = operations / interleaved([run])[0]
    print(f"{THREADS} threads, measured peak {peak_rate / 1e9:.0f} GF/s; ratio > 1: ours is faster")
    for case in CASES:
        if any(part in case.name for part in chosen):
            measure(case, peak_rate)


if __name__ == "__main__":
    main()
