"""Running sums and stable sorts of rows against torch.cumsum, torch.cumprod, torch.cummax and torch.sort: best of several runs.

Run ``python -m benchmarks.rows [threads]``; needs torch.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

THREADS = int(sys.argv[1]) if len(sys.argv) > 1 else 2
os.environ["OMP_NUM_THREADS"] = str(THREADS)

import numpy as np  # noqa: E402
import torch  # noqa: E402

from flambeau.compilation.kernel_cache import KernelText, get_kernel  # noqa: E402
from flambeau.core import cpu, dtypes  # noqa: E402
from flambeau.runtime.launch import TaskArray, run_tasks  # noqa: E402
from flambeau.runtime.thread_pool import set_num_threads  # noqa: E402
from flambeau.templates.row_kernel import RowKernel  # noqa: E402
from flambeau.templates.row_scan import row_scan  # noqa: E402
from flambeau.templates.row_sort import row_argsort  # noqa: E402

CHUNK_NANOSECONDS = 20_000
MILLION = 1 << 20
SCANS = (
    ("sum", "float32", (1, MILLION, 1)), ("sum", "float64", (1, MILLION, 1)), ("prod", "float32", (1, MILLION, 1)),
    ("max", "float32", (1, MILLION, 1)), ("sum", "int64", (1, MILLION, 1)), ("sum", "float32", (4096, 1024, 1)),
    ("sum", "float32", (1, 1024, 4096)),
)  # fmt: skip
SORTS = (
    ("float32", (1, MILLION, 1)), ("float64", (1, MILLION, 1)), ("int64", (1, MILLION, 1)), ("float32", (4096, 1024, 1)),
    ("float32", (100_000, 10, 1)), ("float32", (1, 1024, 1024)),
)  # fmt: skip


def milliseconds(call: Callable[[], object], runs: int = 5) -> float:
    call()
    times: list[float] = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def ready(kernel: RowKernel, x: np.ndarray, out: np.ndarray) -> TaskArray:
    """The launch of a kernel; both arrays must live as long as it does."""
    outer, n, inner = x.shape
    iterations = kernel.iterations(outer, n, inner)
    grain = max(1, min(iterations // THREADS, CHUNK_NANOSECONDS // kernel.cost(n, inner)))
    tasks = TaskArray(kernel.scratch_bytes(n, inner))
    address = get_kernel(KernelText(kernel.text, kernel.name)).address
    tasks.add(address, [0, grain, x.ctypes.data, out.ctypes.data, outer, n, inner], chunks=-(-iterations // grain), wave=0)
    return tasks


def report(name: str, tasks: TaskArray, reference: Callable[[], object]) -> None:
    ours, theirs = milliseconds(lambda: run_tasks(tasks)), milliseconds(reference)
    print(f"{name:36} {ours:9.3f} ms   torch {theirs:9.3f} ms   ratio {ours / theirs:5.2f}")


def main() -> None:
    torch.set_num_threads(THREADS)
    set_num_threads(THREADS)
    rng = np.random.default_rng(0)
    width, features = cpu.vector_bits(), cpu.cpu_features()
    for kind, name, shape in SCANS:
        x = (rng.standard_normal(shape) * 1000).astype(name)
        y = torch.from_numpy(x)
        call = {"sum": torch.cumsum, "prod": torch.cumprod, "max": torch.cummax}[kind]
        out = np.empty_like(x)
        tasks = ready(row_scan(kind, dtypes.by_name(name), width, features), x, out)
        report(f"{kind} {name} {shape}", tasks, lambda call=call, y=y: call(y, 1))
    for name, shape in SORTS:
        x = (rng.standard_normal(shape) * 1000).astype(name)
        y = torch.from_numpy(x)
        out = np.empty(shape, np.int64)
        tasks = ready(row_argsort(dtypes.by_name(name), False, width, features), x, out)
        report(f"sort {name} {shape}", tasks, lambda y=y: torch.sort(y, dim=1, stable=True))


if __name__ == "__main__":
    main()
