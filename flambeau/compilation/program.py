"""A scheduled graph as something to run: kernels linked, sizes bound, memory planned, arguments patched in."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flambeau.compilation.emission import Emitted, emit_call
from flambeau.compilation.kernel_cache import get_kernels
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import Dim, evaluate
from flambeau.ir.graph import Graph
from flambeau.runtime import allocator
from flambeau.runtime.launch import TaskArray, run_tasks
from flambeau.schedule.schedule import InputSpec, OutputSpec, Schedule, make_schedule
from flambeau.schedule.split import long_reductions, split_reductions

# Nanoseconds of work above which other Python threads may run meanwhile.
RELEASE_GIL_ABOVE = 30_000


def bits_of(value: bool | int | float, kind: dtype) -> int:
    """The 8-byte slot of a number passed as ``kind``."""
    if kind.is_floating_point:
        return struct.unpack("<q", struct.pack("<d", value) if kind.itemsize == 8 else struct.pack("<fi", value, 0))[0]
    value = int(value)
    return value if -(1 << 63) <= value < 1 << 63 else (value + (1 << 63)) % (1 << 64) - (1 << 63)


class Program:
    """A compiled graph for all sizes that its predicates admit."""

    def __init__(
        self, graph: Graph, inputs: Sequence[InputSpec], outputs: Sequence[OutputSpec], sizes: Mapping[str, int] | None = None
    ) -> None:
        self.graph = graph
        split = split_reductions(graph, long_reductions(graph, sizes), sizes) if sizes is not None else graph
        self.schedule: Schedule = make_schedule(split, inputs, outputs)
        self.emitted: list[Emitted] = [emit_call(call, self.schedule) for call in self.schedule.calls]
        self._addresses: list[int] | None = None

    def link(self) -> None:
        """Load the kernels, compiling those that no cache holds."""
        if self._addresses is None:
            self._addresses = [kernel.address for kernel in get_kernels([e.text for e in self.emitted])]

    def bind(self, sizes: Mapping[str, int]) -> BoundProgram:
        """Fix the sizes."""
        self.link()
        assert self._addresses is not None
        return BoundProgram(self, self._addresses, sizes)


@dataclass(frozen=True, slots=True)
class Patch:
    """Slot ``slot`` holds the address of a buffer plus ``offset`` bytes."""

    slot: int
    offset: int


class BoundProgram:
    """A program for fixed sizes: give it addresses and numbers, it runs."""

    __slots__ = ("arena_bytes", "error_slots", "input_patches", "operators", "output_patches", "program", "random_slots", "release_gil",
                 "scalar_slots", "tasks", "temporary_patches")  # fmt: skip

    def __init__(self, program: Program, addresses: Sequence[int], sizes: Mapping[str, int]) -> None:
        schedule = program.schedule
        self.program = program
        resolve: Callable[[Dim], int] = lambda d: d if isinstance(d, int) else evaluate(d, sizes)  # noqa: E731
        self.tasks = TaskArray(max((resolve(e.scratch_bytes(sizes)) for e in program.emitted), default=0))
        slots: list[list[Patch]] = [[] for _ in schedule.buffers]
        self.scalar_slots: list[list[tuple[int, dtype]]] = [[] for _ in schedule.scalars]
        self.random_slots: list[int] = []
        self.error_slots: list[tuple[int, int]] = []
        work = 0
        for emitted, address in zip(program.emitted, addresses, strict=True):
            launch = emitted.launch(sizes)
            start = self.tasks.add(address, [0, launch.grain, *(0 if a is None else a for a in launch.arguments)], launch.chunks, emitted.wave)
            for position, (buffer, offset) in emitted.buffer_slots(sizes):
                slots[buffer].append(Patch(start + position, offset))
            for position, scalar, kind in emitted.scalar_slots:
                self.scalar_slots[scalar].append((start + position, kind))
            self.random_slots += [start + position for position in emitted.random_slots]
            self.error_slots += [(start + position, start) for position in emitted.error_slots]
            work += launch.work
        self.tasks.seal()
        self._point_to_error_record(self.tasks)
        self.release_gil = work > RELEASE_GIL_ABOVE
        self._place(schedule, slots, resolve)

    def _place(self, schedule: Schedule, slots: list[list[Patch]], resolve: Callable[[Dim], int]) -> None:
        from flambeau.schedule.memory import plan_memory

        inputs = sum(1 for b in schedule.buffers if b.role == "input")
        self.input_patches: list[list[Patch]] = [[] for _ in range(inputs)]
        self.output_patches: list[list[Patch]] = [[] for _ in schedule.outputs]
        for buffer, patches in zip(schedule.buffers, slots, strict=True):
            if buffer.role == "input":
                self.input_patches[buffer.index] = patches
            elif buffer.role == "output":
                self.output_patches[buffer.index] = patches
        offsets, self.arena_bytes = plan_memory(schedule, resolve)
        self.temporary_patches = [(p.slot, p.offset + offset) for number, offset in offsets.items() for p in slots[number]]

    def _point_to_error_record(self, tasks: TaskArray) -> None:
        for slot, first in self.error_slots:
            tasks.slots[slot] = tasks.slots[first]

    def run(self, inputs: Sequence[int], numbers: Sequence[Any], outputs: Sequence[int], generator: int = 0) -> None:
        """Run on the addresses of the inputs (any value for numbers) and outputs (any for those written into inputs)."""
        if not self.release_gil:
            self._run(self.tasks, inputs, numbers, outputs, generator)
            return
        # Another thread may come here before the run has ended.
        tasks = self.tasks.take()
        self._point_to_error_record(tasks)
        try:
            self._run(tasks, inputs, numbers, outputs, generator)
        finally:
            self.tasks.put_back(tasks)

    def _run(self, tasks: TaskArray, inputs: Sequence[int], numbers: Sequence[Any], outputs: Sequence[int], generator: int) -> None:
        slots = tasks.slots
        for address, patches in zip(inputs, self.input_patches, strict=True):
            for patch in patches:
                slots[patch.slot] = address + patch.offset
        for address, patches in zip(outputs, self.output_patches, strict=True):
            for patch in patches:
                slots[patch.slot] = address + patch.offset
        for value, targets in zip(numbers, self.scalar_slots, strict=True):
            for slot, kind in targets:
                slots[slot] = bits_of(value, kind)
        for slot in self.random_slots:
            slots[slot] = generator
        if not self.arena_bytes:
            run_tasks(tasks, self.release_gil)
            return
        arena = allocator.allocate(self.arena_bytes)
        try:
            for slot, offset in self.temporary_patches:
                slots[slot] = arena + offset
            run_tasks(tasks, self.release_gil)
        finally:
            allocator.release(arena, self.arena_bytes)
