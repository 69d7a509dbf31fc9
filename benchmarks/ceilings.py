"""What this machine can do at most: fused multiply-adds a second and copied bytes a second, on all threads of the pool."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.codegen.cpu.kernel_code import emit_kernel
from flambeau.compilation.kernel_cache import KernelText, get_kernel
from flambeau.core import cpu, dtypes
from flambeau.core.symbolic import axis, evaluate, symbol
from flambeau.ir.kernel import BufferParameter, Kernel, KernelAxis, Store, load
from flambeau.runtime.allocator import Allocator
from flambeau.runtime.launch import TaskArray, run_tasks

_STEPS = 20_000
_TOTALS = 12  # enough for the latency of two units, few enough for sixteen registers


def multiply_adds(threads: int) -> tuple[Callable[[], None], int]:
    """A run of nothing but independent fused multiply-adds, and how many float32 operations it makes."""
    e = Emitter()
    e.begin("define void @peak(ptr %args, i64 %chunk, ptr %scratch) #0")
    lanes = cpu.vector_bits() // 32
    factor = e.splat(e.convert("sitofp", Value("%chunk", "i64"), "float"), lanes)

    def step(_: Value, totals: list[Value]) -> list[Value]:
        return [e.fma(factor, factor, total) for total in totals]

    totals = e.loop(Value("0", "i64"), Value(str(_STEPS), "i64"), 1, [e.const(0.0, "float", lanes)] * _TOTALS, step)
    result = totals[0]
    for total in totals[1:]:
        result = e.add(result, total)
    e.store(result, Value("%scratch", "ptr"))
    e.emit("ret void")
    e.end()
    tasks = TaskArray(4096)
    tasks.add(get_kernel(KernelText(e.module("nounwind"), "peak")).address, [0, 1], chunks=threads, wave=0)
    return lambda: run_tasks(tasks), _STEPS * _TOTALS * lanes * 2 * threads


def peak_flops(threads: int) -> float:
    """Float32 operations a second of that run."""
    run, operations = multiply_adds(threads)
    return operations / _quietest(run)


def copy_bandwidth(mebibytes: int) -> float:
    """Bytes read and written a second by a copy of that size between memory that stays, past the caches."""
    count = mebibytes << 18
    place = axis("a0", symbol("n"))
    buffers = (BufferParameter(dtypes.float32, "read"), BufferParameter(dtypes.float32, "write"))
    stores = (Store(1, place, load(0, place, dtypes.float32)),)
    code = emit_kernel(Kernel((KernelAxis("a0", symbol("n")),), (), "a0", buffers, ("n",), (), stores), cpu.cpu_features(), streaming=True)
    allocator = Allocator()
    addresses = [allocator.allocate(4 * count) for _ in range(2)]
    iterations = evaluate(code.iterations, {"n": count})
    grain = max(1, iterations // 256)
    tasks = TaskArray()
    tasks.add(get_kernel(KernelText(code.text, code.name)).address, [0, grain, *addresses, count], -(-iterations // grain), 0)
    rate = 8 * count / _quietest(lambda: run_tasks(tasks))
    for address in addresses:
        allocator.release(address, 4 * count)
    allocator.empty_cache()
    return rate


def _quietest(call: Callable[[], None], runs: int = 15) -> float:
    """Seconds of the quicker half of several calls, in the middle."""
    times: list[float] = []
    for _ in range(runs):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(sorted(times)[: runs // 2])
