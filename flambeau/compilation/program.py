"""A graph as something to run: scheduled, sizes bound, kernels linked, arguments patched in."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from flambeau.compilation.blueprint import Blueprint, blueprint_key, draw_blueprint, keep_blueprint, load_blueprint
from flambeau.compilation.kernel_cache import find_kernels, get_kernels
from flambeau.core import events
from flambeau.core.cpu import vector_bits
from flambeau.core.dtypes import BY_NAME, dtype
from flambeau.core.events import counters
from flambeau.core.source_lines import user_line
from flambeau.ir.difference import report_pass
from flambeau.ir.graph import Graph, as_python
from flambeau.runtime import allocator, lapack
from flambeau.runtime.launch import TaskArray, run_tasks, run_tasks_timed
from flambeau.schedule.complex_parts import merge_parts, split_complex, split_numbers
from flambeau.schedule.specs import InputSpec, OutputSpec
from flambeau.schedule.split import CPU_PIECES, long_reductions, split_reductions

if TYPE_CHECKING:
    from flambeau.compilation.emission import Emitted
    from flambeau.schedule.schedule import Schedule
    from flambeau.templates.fourier_plan import FourierPlan

# Sizes of a program, in the order in which a process meets them, that are kept on disk.
KEPT_SIZES = 16


def bits_of(value: bool | int | float, kind: dtype) -> int:
    """The 8-byte slot of a number passed as ``kind``."""
    if kind.is_floating_point:
        return struct.unpack("<q", struct.pack("<d", value) if kind.itemsize == 8 else struct.pack("<fi", value, 0))[0]
    value = int(value)
    return value if -(1 << 63) <= value < 1 << 63 else (value + (1 << 63)) % (1 << 64) - (1 << 63)


class Program:
    """A compiled graph for all sizes that its predicates admit.

    ``sizes`` decide which long reductions are split; the caller keeps one program for each decision. Scheduling waits until no
    bound program is found on disk.
    """

    pieces = CPU_PIECES

    def __init__(
        self, graph: Graph, inputs: Sequence[InputSpec], outputs: Sequence[OutputSpec], sizes: Mapping[str, int] | None = None,
        name: str = "graph",
    ) -> None:  # fmt: skip
        self.name = name
        # What callers see; the rest of the program knows real numbers only.
        self.signature = graph
        self.numbers = [node for node, spec in zip(graph.inputs, inputs, strict=True) if spec.scalar]
        self.form = split_complex(graph, inputs, outputs)
        self.graph, self.inputs, self.outputs = self.form.graph, self.form.inputs, self.form.outputs
        self._sizes = sizes
        self._bound = 0

    @cached_property
    def schedule(self) -> Schedule:
        """The buffers and calls."""
        from flambeau.schedule.schedule import make_schedule  # noqa: PLC0415 - a warm process does without

        sizes = self._sizes
        split = self.graph
        if events.enabled("graph"):
            events.emit("graph", name=self.name, text=as_python(split))
        started = time.perf_counter()
        if sizes is not None:
            chosen = long_reductions(split, sizes, self.pieces)
            split = report_pass("split", split, split_reductions(split, chosen, sizes, self.pieces))
        counters["schedules"] += 1
        found = make_schedule(split, self.inputs, self.outputs)
        events.emit("timing", stage="schedule", name=self.name, milliseconds=(time.perf_counter() - started) * 1e3)
        return found

    @cached_property
    def emitted(self) -> list[Emitted]:
        """The kernel text and launch recipe of each call."""
        from flambeau.compilation.emission import emit_call  # noqa: PLC0415 - a warm process does without

        schedule = self.schedule
        started = time.perf_counter()
        found = [emit_call(call, schedule) for call in schedule.calls]
        events.emit("timing", stage="emit", name=self.name, milliseconds=(time.perf_counter() - started) * 1e3)
        return found

    def bind(self, sizes: Mapping[str, int]) -> BoundProgram:
        """Fix the sizes and load the kernels, from disk where an earlier process has been here.

        Once the graph has been scheduled, further sizes are quicker to bind than to look up; the first of them are kept on disk,
        for a later process that would have to schedule for want of one.
        """
        self._bound += 1
        scheduled = "schedule" in self.__dict__
        if scheduled and self._bound > KEPT_SIZES:
            return self._draw(sizes, None)
        key = blueprint_key(self.graph, self.inputs, self.outputs, sizes)
        plan = None if scheduled else load_blueprint(key)
        addresses = None if plan is None else find_kernels(plan.kernels)
        if plan is None or addresses is None:
            return self._draw(sizes, key)
        if events.enabled("program_load"):
            events.emit("program_load", name=self.name, line=user_line(), calls=len(plan.tasks))
        return BoundProgram(self, plan, addresses)

    def _draw(self, sizes: Mapping[str, int], key: str | None) -> BoundProgram:
        plan, texts = draw_blueprint(self.schedule, self.emitted, sizes)
        if events.enabled("program_compile"):
            events.emit("program_compile", name=self.name, line=user_line(), calls=len(plan.tasks), kernels=len(texts))
        addresses = [kernel.address for kernel in get_kernels(texts)]
        if key is not None:
            keep_blueprint(key, plan)
        return BoundProgram(self, plan, addresses)


def _place_fourier_plans(tasks: TaskArray, plan: Blueprint) -> list[FourierPlan]:
    from flambeau.templates.fourier_plan import fourier_plan  # noqa: PLC0415 - most processes do without

    made: list[FourierPlan] = []
    for slot, n, kind, norm, real in plan.fourier_plans:
        element = BY_NAME[kind]
        made.append(fourier_plan(n, element, vector_bits() // (8 * element.itemsize), norm, real))
        tasks.slots[slot] = made[-1].address
    return made


class Patch(NamedTuple):
    """Slot ``slot`` holds the address of a buffer plus ``offset`` bytes."""

    slot: int
    offset: int


class BoundProgram:
    """A program for fixed sizes: give it addresses and numbers, it runs."""

    __slots__ = ("_on_times", "arena_bytes", "error_slots", "fourier_plans", "input_patches", "output_patches", "program", "random_slots",
                 "release_gil", "scalar_slots", "tasks", "temporary_patches")  # fmt: skip

    def __init__(self, program: Program, plan: Blueprint, addresses: Sequence[int]) -> None:
        self.program = program
        self._on_times: Callable[[list[float]], None] | None = None
        self.tasks = TaskArray(plan.scratch_bytes)
        for kernel, arguments, chunks, wave in plan.tasks:
            self.tasks.add(addresses[kernel], arguments, chunks, wave)
        for slot, kernel in plan.functions:
            self.tasks.slots[slot] = addresses[kernel]
        for slot, symbol in plan.symbols:
            self.tasks.slots[slot] = lapack.address(symbol)
        seen, form = program.signature, program.form
        self.fourier_plans = _place_fourier_plans(self.tasks, plan) if plan.fourier_plans else []
        read, written = ([[Patch(*p) for p in patches] for patches in found] for found in (plan.inputs, plan.outputs))
        self.input_patches = merge_parts(seen.inputs, form.input_counts, read, Patch)
        self.output_patches = merge_parts(seen.outputs, form.output_counts, written, Patch)
        self.temporary_patches = [(slot, offset) for slot, offset in plan.temporaries]
        self.scalar_slots = [[(slot, BY_NAME[kind]) for slot, kind in slots] for slots in plan.scalars]
        self.random_slots = plan.randoms
        self.error_slots = plan.errors
        self.release_gil = plan.release_gil
        self.arena_bytes = plan.arena_bytes
        self.tasks.seal()
        self._point_to_error_record(self.tasks)

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

    def draw_from(self, generator: int) -> None:
        """Where native code, which sets no generator, takes random numbers from."""
        for slot in self.random_slots:
            self.tasks.slots[slot] = generator

    def _run(self, tasks: TaskArray, inputs: Sequence[int], numbers: Sequence[Any], outputs: Sequence[int], generator: int) -> None:
        slots = tasks.slots
        for address, patches in zip(inputs, self.input_patches, strict=True):
            for slot, offset in patches:
                slots[slot] = address + offset
        for address, patches in zip(outputs, self.output_patches, strict=True):
            for slot, offset in patches:
                slots[slot] = address + offset
        for value, targets in zip(split_numbers(numbers, self.program.numbers), self.scalar_slots, strict=True):
            for slot, kind in targets:
                slots[slot] = bits_of(value, kind)
        for slot in self.random_slots:
            slots[slot] = generator
        if not self.arena_bytes:
            self._launch(tasks)
            return
        arena = allocator.allocate(self.arena_bytes)
        try:
            for slot, offset in self.temporary_patches:
                slots[slot] = arena + offset
            self._launch(tasks)
        finally:
            allocator.release(arena, self.arena_bytes)

    def _launch(self, tasks: TaskArray) -> None:
        if self._on_times is None:
            run_tasks(tasks, self.release_gil)
        else:
            self._on_times(run_tasks_timed(tasks))

    def watch_times(self, report: Callable[[list[float]], None] | None) -> None:
        """Run the calls one after another from now on and report the seconds of each after every run; None ends it."""
        self._on_times = report
        # Only Python measures.
        self.tasks.keep_native_code_out(report is not None)
