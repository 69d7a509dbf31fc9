"""What the runtime itself costs: import, cold and warm kernels, fork-join, launch, memory. Best of several, printed as JSON.

Run ``python -m benchmarks.runtime``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from flambeau.compilation.kernel_cache import KernelText, get_kernel
from flambeau.runtime import allocator
from flambeau.runtime.launch import TaskArray, run_tasks
from flambeau.runtime.thread_pool import get_num_threads

ROOT = Path(__file__).resolve().parent.parent

# A chain of `length` vector operations over the elements of one chunk, of the size that fused pointwise kernels have.
LOAD_MANY = """
import json, sys, time
from flambeau.compilation.kernel_cache import KernelText, get_kernels
from flambeau.core.events import counters
from benchmarks.runtime import chain
texts = [KernelText(chain(20 + number % 60, number), "chain") for number in range(int(sys.argv[1]))]
made = time.perf_counter()
get_kernels(texts)
done = time.perf_counter()
llvm = "libllvmlite" in open("/proc/self/maps").read()
print(json.dumps({"ms": (done - made) * 1e3, "compiles": counters["kernel_compiles"], "llvm": llvm}))
"""

IMPORT = """
import time
start = time.perf_counter()
import flambeau.compilation.kernel_cache, flambeau.runtime.launch
print((time.perf_counter() - start) * 1e3)
"""


def chain(length: int, seed: int) -> str:
    """A kernel ``chain`` of `length` multiplications and additions; `seed` makes its constants its own."""
    lines = [
        f"  %v{step + 1} = {'fmul' if step % 2 else 'fadd'} <16 x float> %v{step}, splat (float {float(seed + step)!r}000000)"
        for step in range(length)
    ]
    return "\n".join(
        ["define void @chain(ptr %args, i64 %chunk, ptr %scratch) {", "entry:",
         "  %grain.at = getelementptr i64, ptr %args, i64 1", "  %grain = load i64, ptr %grain.at",
         "  %x.at = getelementptr i64, ptr %args, i64 2", "  %x = load ptr, ptr %x.at",
         "  %start = mul i64 %chunk, %grain", "  %end = add i64 %start, %grain", "  br label %loop", "loop:",
         "  %i = phi i64 [ %start, %entry ], [ %next, %loop ]", "  %at = getelementptr float, ptr %x, i64 %i",
         "  %v0 = load <16 x float>, ptr %at, align 4", *lines, f"  store <16 x float> %v{length}, ptr %at, align 4",
         "  %next = add i64 %i, 16", "  %more = icmp slt i64 %next, %end", "  br i1 %more, label %loop, label %done", "done:",
         "  ret void", "}", ""]
    )


def nanoseconds(function: Callable[[], object], calls: int) -> float:
    """The best time of one call over five blocks."""
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(calls):
            function()
        best = min(best, (time.perf_counter() - start) / calls)
    return best * 1e9


def in_process(code: str, folder: str, *arguments: str) -> str:
    environment = {**os.environ, "FLAMBEAU_CACHE_DIR": folder, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True, check=True).stdout


def processes() -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        cold = json.loads(in_process(LOAD_MANY, folder + "/cache", "150"))
        warm = [json.loads(in_process(LOAD_MANY, folder + "/cache", "150")) for _ in range(5)]
        one = [json.loads(in_process(LOAD_MANY, f"{folder}/one{number}", "1"))["ms"] for number in range(5)]
        imports = [float(in_process(IMPORT, folder + "/cache")) for _ in range(5)]
    return {
        "import_ms": min(imports), "cold_one_kernel_ms": min(one), "cold_150_kernels_ms": cold["ms"],
        "warm_150_kernels_ms": min(run["ms"] for run in warm), "warm_uses_llvm": any(run["llvm"] for run in warm),
    }


def launches() -> dict[str, object]:
    x = np.zeros(64, dtype=np.float32)
    kernel = get_kernel(KernelText(chain(2, 1), "chain")).address

    def tasks(chunks: int, waves: int = 1) -> TaskArray:
        array = TaskArray()
        for wave in range(waves):
            array.add(kernel, [0, 16, x.ctypes.data], chunks=chunks, wave=wave)
        return array

    single, pair, many = tasks(1), tasks(2), tasks(2, waves=100)
    return {
        "threads": get_num_threads(),
        "run_one_chunk_ns": nanoseconds(lambda: run_tasks(single), 20_000),
        "run_one_chunk_without_gil_ns": nanoseconds(lambda: run_tasks(single, release_gil=True), 20_000),
        "run_two_chunks_ns": nanoseconds(lambda: run_tasks(pair), 20_000),
        "fork_join_back_to_back_ns": nanoseconds(lambda: run_tasks(many), 200) / 100,
    }


def memory() -> dict[str, object]:
    def cycle(size: int) -> Callable[[], None]:
        def run() -> None:
            allocator.release(allocator.allocate(size), size)

        return run

    return {f"allocate_release_{size}_ns": nanoseconds(cycle(size), 20_000) for size in (64, 100_000, 128 << 20)}


def main() -> None:
    print(json.dumps({**processes(), **launches(), **memory()}, indent=2))


if __name__ == "__main__":
    main()
