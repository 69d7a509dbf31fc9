"""Nanoseconds per element of the generated pointwise functions on one thread, beside numpy's.

Run ``python -m benchmarks.cpu_math [name-part]``. The 16,384 elements stay in the second-level cache.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable

import numpy as np

from flambeau.codegen.cpu.emitter import DEFAULT_FEATURES, Emitter, Value
from flambeau.codegen.cpu.pointwise import emit_pointwise
from flambeau.compilation.kernel_cache import KernelText, get_kernel
from flambeau.core import dtypes
from flambeau.core.cpu import cpu_features
from flambeau.core.dtypes import dtype

ELEMENTS = 16384
BLOCKS = 9
BLOCK_SECONDS = 0.004

Range = tuple[float, float]
# operation: one range per operand, and numpy's function where it has one
CASES: dict[str, tuple[tuple[Range, ...], Callable[..., object] | None]] = {
    "add": (((-9, 9), (-9, 9)), np.add),
    "div": (((-9, 9), (1, 9)), np.divide),
    "sqrt": (((0, 9),), np.sqrt),
    "rsqrt": (((1, 9),), None),
    "maximum": (((-9, 9), (-9, 9)), np.maximum),
    "exp": (((-20, 20),), np.exp),
    "exp to 0": (((-400, -200),), np.exp),
    "exp2": (((-20, 20),), np.exp2),
    "expm1": (((-2, 2),), np.expm1),
    "log": (((0, 20),), np.log),
    "log2": (((0, 20),), np.log2),
    "log1p": (((0, 2),), np.log1p),
    "tanh": (((-4, 4),), np.tanh),
    "erf": (((-3, 3),), None),
    "erfc": (((-3, 3),), None),
    "erfinv": (((-1, 1),), None),
    "sin": (((-100, 100),), np.sin),
    "cos": (((-100, 100),), np.cos),
    "tan": (((-100, 100),), np.tan),
    "sin large": (((1e8, 1e9),), np.sin),
    "atan2": (((-9, 9), (-9, 9)), np.arctan2),
    "pow": (((0, 9), (-9, 9)), np.power),
    "rem": (((-99, 99), (1, 9)), np.fmod),
    "lgamma": (((0, 9),), None),
    "digamma": (((0, 9),), None),
}


def kernel(name: str, operand: dtype, operands: int) -> Callable[[int], None]:
    """A loop over ``ELEMENTS`` elements; slot 1 of its arguments is unused, the arrays follow."""
    e = Emitter(DEFAULT_FEATURES & cpu_features())
    width = 64 // operand.itemsize
    e.begin("define void @kernel(ptr %args, i64 %chunk, ptr %scratch) #0")
    slots = Value("%args", "ptr")
    buffers = [e.load(e.offset(slots, 2 + k, "i64"), "ptr", align=8) for k in range(operands + 1)]

    def step(i: Value, _: list[Value]) -> list[Value]:
        values = [e.load(e.offset(pointer, i, operand.llvm), operand.llvm, width) for pointer in buffers[:-1]]
        e.store(emit_pointwise(e, name, operand, values, {}), e.offset(buffers[-1], i, operand.llvm))
        return []

    e.loop(e.const(0, "i64"), e.const(ELEMENTS, "i64"), width, [], step)
    e.emit("ret void")
    e.end()
    text = e.module('nounwind "prefer-vector-width"="512"')
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(
        get_kernel(KernelText(text, "kernel")).address
    )
    return lambda arguments: entry(arguments, 0, None)


def nanoseconds(call: Callable[[], object]) -> float:
    """Time per element in the fastest block."""
    call()
    times = []
    for _ in range(BLOCKS):
        count, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < BLOCK_SECONDS:
            call()
            count += 1
        times.append(elapsed / count / ELEMENTS * 1e9)
    return min(times)


def measure(case: str, operand: dtype) -> tuple[float, float]:
    ranges, peer = CASES[case]
    random = np.random.default_rng(0)
    arrays = [random.uniform(low, high, ELEMENTS).astype(operand.numpy) for low, high in ranges]
    result = np.empty(ELEMENTS, operand.numpy)
    run = kernel(case.split()[0], operand, len(arrays))
    slots = (ctypes.c_int64 * (3 + len(arrays)))(0, 0, *(a.ctypes.data for a in (*arrays, result)))
    address = ctypes.addressof(slots)
    ours = nanoseconds(lambda: run(address))
    return ours, nanoseconds(lambda: peer(*arrays, out=result)) if peer else float("nan")


def main() -> None:
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    print(f"{'':12}{'float32':>9}{'numpy':>8}{'float64':>10}{'numpy':>8}   ns per element")
    for case in CASES:
        if part in case:
            single, double = measure(case, dtypes.float32), measure(case, dtypes.float64)
            print(f"{case:12}{single[0]:9.3f}{single[1]:8.3f}{double[0]:10.3f}{double[1]:8.3f}")


if __name__ == "__main__":
    main()
