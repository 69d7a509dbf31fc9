"""Compiles a loop over one pointwise rule and runs it on numpy arrays, for tests of the generated arithmetic."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np

from flambeau.codegen.cpu.emitter import DEFAULT_FEATURES, Emitter, Value
from flambeau.codegen.cpu.pointwise import emit_pointwise
from flambeau.compilation.kernel_cache import KernelText, get_kernel
from flambeau.core import dtypes
from flambeau.core.cpu import cpu_features
from flambeau.core.dtypes import dtype

FEATURES = DEFAULT_FEATURES & cpu_features()
LONGEST = 32  # lengths are multiples of the widest vector

Body = Callable[[Emitter, Sequence[Value]], Value]


def load_element(e: Emitter, pointer: Value, element: dtype, width: int) -> Value:
    if element.category != "bool":
        return e.load(pointer, element.llvm, width)
    byte = e.load(pointer, "i8", width)
    return e.compare("ne", byte, e.like(0, byte))


def store_element(e: Emitter, value: Value, pointer: Value) -> None:
    e.store(e.convert("zext", value, "i8") if value.kind == "i1" else value, pointer)


def kernel_text(body: Body, inputs: Sequence[dtype], output: dtype, width: int, features: frozenset[str]) -> str:
    """The module of ``kernel(args, chunk, scratch)``: slot 1 is the length, then the inputs, then the output."""
    e = Emitter(features)
    e.begin("define void @kernel(ptr %args, i64 %chunk, ptr %scratch) #0")
    slots = Value("%args", "ptr")
    length = e.load(e.offset(slots, 1, "i64"), "i64", align=8)
    buffers = [e.load(e.offset(slots, 2 + k, "i64"), "ptr", align=8) for k in range(len(inputs) + 1)]

    def memory(element: dtype) -> str:
        return "i8" if element.category == "bool" else element.llvm

    def step(i: Value, _: list[Value]) -> list[Value]:
        values = [
            load_element(e, e.offset(pointer, i, memory(element)), element, width)
            for pointer, element in zip(buffers, inputs, strict=False)
        ]
        store_element(e, body(e, values), e.offset(buffers[-1], i, memory(output)))
        return []

    e.loop(e.const(0, "i64"), length, width, [], step)
    e.emit("ret void")
    e.end()
    return e.module('nounwind "prefer-vector-width"="512"')


def compile_kernel(text: str) -> Callable[[Sequence[np.ndarray], int], None]:
    """Machine code of the module: a function of the arrays (inputs, then output) and their length."""
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(
        get_kernel(KernelText(text, "kernel")).address
    )

    def run(arrays: Sequence[np.ndarray], length: int) -> None:
        slots = (ctypes.c_int64 * (2 + len(arrays)))(0, length, *(a.ctypes.data for a in arrays))
        entry(ctypes.addressof(slots), 0, None)

    return run


@cache
def pointwise_kernel(
    name: str,
    operand: dtype,
    inputs: tuple[dtype, ...],
    output: dtype,
    width: int,
    attributes: tuple[tuple[str, object], ...],
    features: frozenset[str],
) -> Callable[[Sequence[np.ndarray], int], None]:
    def body(e: Emitter, values: Sequence[Value]) -> Value:
        return emit_pointwise(e, name, operand, values, dict(attributes))

    return compile_kernel(kernel_text(body, inputs, output, width, features))


def run_pointwise(
    name: str,
    *arrays: np.ndarray,
    output: dtype | None = None,
    width: int = 16,
    attributes: Mapping[str, object] = {},
    features: frozenset[str] = FEATURES,
) -> np.ndarray:
    """``name`` applied to arrays of one shape; the result has dtype ``output`` (default: that of the last array)."""
    inputs = tuple(dtypes.BY_NUMPY[a.dtype] for a in arrays)
    output = output or inputs[-1]
    length = arrays[0].size
    padded = -(-length // LONGEST) * LONGEST
    operands = [np.concatenate([a.ravel(), np.ones(padded - length, a.dtype)]) for a in arrays]
    result = np.empty(padded, output.numpy)
    run = pointwise_kernel(name, inputs[-1], inputs, output, width, tuple(attributes.items()), features)
    run([*operands, result], padded)
    return result[:length].reshape(arrays[0].shape)
