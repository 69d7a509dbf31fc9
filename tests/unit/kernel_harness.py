"""Runs generated kernels on numpy arrays, with guard bytes around every buffer, and makes random kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flambeau.codegen.cpu.kernel_code import KernelCode, emit_kernel
from flambeau.compilation.llvm_driver import compile_modules
from flambeau.core import cpu
from flambeau.core.symbolic import evaluate
from flambeau.ir.kernel import Kernel
from flambeau.runtime.object_loader import link, load

GUARD = 256
PATTERN = 0xA7


class CompiledKernel:
    """A kernel's code in memory."""

    def __init__(
        self, kernel: Kernel, features: frozenset[str] | None = None, checked: bool = False, streaming: bool = False,
    ) -> None:  # fmt: skip
        self.kernel = kernel
        self.code: KernelCode = emit_kernel(kernel, cpu.cpu_features() if features is None else features, checked, streaming)
        address = load([link(compile_modules([self.code.text])[0])])[0][self.code.name]
        self.function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(address)

    def run(
        self, buffers: Sequence[np.ndarray], sizes: Mapping[str, int], scalars: Sequence[Any] = (), grain: int = 1, backwards: bool = False,
        counts: Sequence[int] | None = None, align: int = 0,
    ) -> list[int]:  # fmt: skip
        """Run all chunks on flat arrays, which are changed in place; returns the error record.

        The kernel works on copies at odd places, or at multiples of ``align``, with guard bytes around them. ``counts`` are the
        element counts of the checked mode.
        """
        copies = [Guarded(b, align) for b in buffers]
        record = (ctypes.c_int64 * 6)()
        slots = [ctypes.addressof(record), grain, *(c.address for c in copies), *(sizes[s] for s in self.kernel.sizes)]
        slots += [slot_of(v, d.numpy) for v, d in zip(scalars, self.kernel.scalars, strict=True)]
        slots += [b.size for b in buffers] if counts is None else counts
        arguments = (ctypes.c_int64 * len(slots))(*slots)
        scratch = Guarded(np.zeros(evaluate(self.code.scratch_bytes, sizes), np.uint8), align=64)
        chunks = range(-(-evaluate(self.code.iterations, sizes) // grain))
        for chunk in reversed(chunks) if backwards else chunks:
            self.function(ctypes.addressof(arguments), chunk, scratch.address)
        scratch.check("scratch")
        for number, (copy, original) in enumerate(zip(copies, buffers, strict=True)):
            copy.check(f"buffer {number}")
            original[...] = copy.inside
        return list(record)


class Guarded:
    """A copy of an array between guard bytes, aligned to its element only unless ``align`` says more."""

    def __init__(self, array: np.ndarray, align: int = 0) -> None:
        self.memory = np.full(array.nbytes + 2 * GUARD + 128, PATTERN, np.uint8)
        start = self.memory.ctypes.data + GUARD
        step = align or array.itemsize
        start = -(-start // step) * step
        if not align:
            start += array.itemsize * 3
        self.address = start
        self.offset = start - self.memory.ctypes.data
        self.inside = self.memory[self.offset : self.offset + array.nbytes].view(array.dtype)
        self.inside[...] = array

    def check(self, name: str) -> None:
        before, after = self.memory[: self.offset], self.memory[self.offset + self.inside.nbytes :]
        assert (before == PATTERN).all() and (after == PATTERN).all(), f"{name} was written outside of its bounds"


def slot_of(value: Any, kind: np.dtype) -> int:
    """A number as the bits of an argument slot."""
    raw = np.zeros(8, np.uint8)
    data = np.asarray(value).astype(kind).reshape(1).view(np.uint8)
    raw[: data.size] = data
    return int(raw.view(np.int64)[0])
