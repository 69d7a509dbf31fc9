"""Runs operators whose operands, results and temporaries each end or begin at a page that nobody may touch.

``python -m tests.ops.guard_pages PART PARTS`` runs one part of the operators in ordinary, unchecked kernels. A kernel that reads or
writes past an operand ends the process with SIGSEGV, after the operator's name; what lies around results are canaries.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.ops.declare import ALL, Operator
from flambeau.runtime import allocator, pages
from flambeau.runtime.native import library
from flambeau.runtime.storage import Storage
from flambeau.tensor.tensor import tensor_over
from tests.ops.operator_cases import samples_of
from tests.ops.pipeline_cases import Differentiated, Guarded, Layout, Run, check_equal, convert, describe, expected_of, map_arrays

PAGE = 4096
CANARY, POISON = 0xC5, 0xFF
# Blocks begin at a multiple of this, which kernels rely on.
ALIGNMENT = 64


class GuardedMemory:
    """Bytes with a page on either side that may not be touched; they begin (or end) where one of them ends (begins)."""

    def __init__(self, nbytes: int, at_end: bool, alignment: int = 1) -> None:
        self.extent = pages.round_to_pages(max(nbytes, 1))
        self.start = pages.reserve(self.extent + 2 * PAGE, pages.READ_WRITE)
        assert self.start, "no memory"
        for guard in (self.start, self.start + PAGE + self.extent):
            pages.protect(guard, PAGE, pages.NO_ACCESS)
        self.nbytes = nbytes
        self.before = (self.extent - nbytes) // alignment * alignment if at_end else 0
        self.address = self.start + PAGE + self.before
        ctypes.memset(self.start + PAGE, CANARY, self.extent)

    def outside(self) -> bytes:
        """What lies around the bytes on their pages."""
        whole = ctypes.string_at(self.start + PAGE, self.extent)
        return whole[: self.before] + whole[self.before + self.nbytes :]

    @property
    def whole(self) -> bool:
        """Whether nobody wrote around the bytes."""
        return set(self.outside()) <= {CANARY}

    def close(self) -> None:
        """Give the pages back: from now on nobody may use the bytes."""
        pages.unmap(self.start, self.extent + 2 * PAGE)


class GuardedAllocator:
    """In the place of the allocator: each block has pages of its own, and lies at their end and at their beginning in turn."""

    def __init__(self) -> None:
        self.blocks: dict[int, GuardedMemory] = {}
        self.count = 0
        self.damaged: list[int] = []  # sizes of blocks around which something was written

    def allocate(self, nbytes: int) -> int:
        if not nbytes:
            return 0
        self.count += 1
        memory = GuardedMemory(nbytes, bool(self.count % 2), ALIGNMENT)
        ctypes.memset(memory.address, POISON, nbytes)
        self.blocks[memory.address] = memory
        return memory.address

    def release(self, address: int, nbytes: int) -> None:
        memory = self.blocks.pop(address, None)  # others are from before `install`
        if memory is not None:
            if memory.nbytes != nbytes or not memory.whole:
                self.damaged.append(nbytes)  # an exception would get lost in a finalizer
            memory.close()

    def install(self) -> None:
        allocator.allocate, allocator.release = self.allocate, self.release
        native = library.load()
        if native is None:
            Storage.__del__.__defaults__ = (self.release,)
        else:
            native.set("bins", 0)  # it keeps no released blocks any more
            native.connect_allocator(self.allocate, self.release)


class Paged(Guarded):
    """As `Guarded`, between guard pages."""

    at_end = True

    def __init__(self, array: Any, strides: Sequence[int] | None = None) -> None:
        array = np.asarray(array)
        if strides is None:
            strides = [int(np.prod(array.shape[i + 1 :], dtype=np.int64)) for i in range(array.ndim)]
        extent = sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True)) + 1 if array.size else 0
        self.memory = GuardedMemory(extent * array.itemsize, self.at_end)
        self.buffer = np.frombuffer((ctypes.c_uint8 * (extent * array.itemsize)).from_address(self.memory.address), array.dtype)
        self.buffer.view(np.uint8)[:] = 0xFF if array.dtype.kind in "fV" else 0x01
        self.view = np.lib.stride_tricks.as_strided(self.buffer, array.shape, [s * array.itemsize for s in strides])
        self.view[...] = array
        self._before = self._outside()
        self.tensor = tensor_over(self.view)

    def _outside(self) -> bytes:
        inside = np.zeros(self.buffer.shape, bool)
        mask = np.lib.stride_tricks.as_strided(inside, self.view.shape, [s // self.view.itemsize for s in self.view.strides])
        mask[...] = True
        return self.buffer[~inside].tobytes() + self.memory.outside()

    def __del__(self) -> None:
        self.memory.close()


class PagedAtStart(Paged):
    at_end = False


def layouts(guarded: type[Paged]) -> list[Layout]:
    """Row-major, column-major, and every second element."""

    def ordered(array: Any, step: int, turned: bool) -> Guarded:
        strides, running = [0] * array.ndim, step
        for i in range(array.ndim) if turned else reversed(range(array.ndim)):
            strides[i], running = running, running * max(array.shape[i], 1)
        return guarded(array, strides)

    return [lambda a: ordered(a, 1, False), lambda a: ordered(a, 1, True), lambda a: ordered(a, 2, False)]


def check_call(operator: Operator, call: Any, layout: Layout, plain: bool) -> None:
    """The operator on guarded operands gives what the reference gives; samples that it refuses are for others."""
    run = Run(operator, call, layout)
    try:
        _, expected = expected_of(operator, run.call)
        found = run.eager()
    except (NotImplementedError, ValueError, TypeError, IndexError, RuntimeError):
        return
    if plain or operator.name != "as_strided":
        check_equal(operator, run.call, found, expected)
    run.check_guards()


def check_gradient(operator: Operator, call: Any, layout: Layout) -> None:
    """The derivative on guarded operands gives the bits that it gives on others."""
    found: list[list[Any]] = []
    for chosen in (Guarded, layout):
        case = Differentiated(operator, call, chosen)
        try:
            if not case.leaves or not any(r.requires_grad for r in case.results()):
                return
            found.append(case.gradients())
        except (NotImplementedError, RuntimeError):
            return
        for guard in case.guards:
            guard.check()
    for plain, guarded in zip(*found, strict=True):
        np.testing.assert_allclose(guarded, plain, rtol=1e-12, atol=1e-12, err_msg=f"{operator.name}{describe(call)}")


def check(operator: Operator, kinds: Sequence[dtype]) -> None:
    for number, call in enumerate(samples_of(operator)):
        for guarded in (Paged, PagedAtStart):
            chosen = layouts(guarded)
            converted = convert_call(operator, call, kinds[number % len(kinds)])
            check_call(operator, converted, chosen[0], True)
            if guarded is Paged or number < 2:
                check_call(operator, convert_call(operator, call, dtypes.float32), chosen[1 + number % 2], False)
            if not operator.mutates and (guarded is Paged) == (number % 4 > 0):
                check_gradient(operator, call, chosen[number % len(chosen)])


def convert_call(operator: Operator, call: Any, kind: dtype) -> Any:
    change: Callable[[str, Any], Any] = lambda _, array: convert(array, kind)  # noqa: E731
    return map_arrays(operator, call, change)


def main() -> None:
    faulthandler.enable()
    part, parts = map(int, sys.argv[1:3])
    blocks = GuardedAllocator()
    blocks.install()
    for name in sorted(ALL)[part::parts]:
        print(name, flush=True)
        check(ALL[name], (dtypes.float32, dtypes.float64, dtypes.int64, dtypes.float32, dtypes.bfloat16))
        assert not blocks.damaged, f"something was written around blocks of {blocks.damaged} bytes"
    gc.collect()
    assert not blocks.damaged, f"something was written around blocks of {blocks.damaged} bytes"
    assert blocks.count > 1000, "results did not come from guarded blocks"
    print("all of them")


if __name__ == "__main__":
    main()
