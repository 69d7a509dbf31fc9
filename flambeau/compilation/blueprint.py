"""A bound program as plain data: what is kept on disk, so that a later process neither schedules nor generates code."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from flambeau.compilation.kernel_cache import KernelText, module_key, toolchain
from flambeau.core.config import config
from flambeau.core.symbolic import Dim, evaluate
from flambeau.ir.graph import Graph, as_python
from flambeau.runtime import disk_cache
from flambeau.runtime.launch import TaskArray
from flambeau.schedule.specs import InputSpec, OutputSpec

if TYPE_CHECKING:
    from flambeau.compilation.emission import Emitted
    from flambeau.schedule.schedule import Schedule

_NAMESPACE = "programs"
# Raise when the fields change.
_FORMAT = 3
# Nanoseconds of work above which other Python threads may run meanwhile.
RELEASE_GIL_ABOVE = 30_000

Slot = tuple[int, int]


@dataclass
class Blueprint:
    """Slots are positions in the array of tasks; addresses of buffers, numbers and kernels are filled in later.

    ``kernels`` are (module key, name); ``tasks`` are (kernel, arguments, chunks, wave). Patches are (slot, offset in bytes) for
    each input, output and temporary; ``scalars`` are (slot, dtype name) for each number; ``errors`` are (slot, slot of the
    error record's address); ``functions`` are (slot, kernel) for kernels called through an argument, ``symbols`` (slot, name) for
    functions of LAPACK, ``fourier_plans`` (slot, length, dtype name, norm, whether real) for the plans of Fourier transforms.
    """

    kernels: list[tuple[str, str]]
    tasks: list[tuple[int, list[int], int, int]]
    inputs: list[list[Slot]]
    outputs: list[list[Slot]]
    temporaries: list[Slot]
    scalars: list[list[tuple[int, str]]]
    randoms: list[int]
    errors: list[Slot]
    functions: list[Slot]
    symbols: list[tuple[int, str]]
    fourier_plans: list[tuple[int, int, str, str, bool]]
    scratch_bytes: int
    arena_bytes: int
    release_gil: bool


def draw_blueprint(schedule: Schedule, emitted: list[Emitted], sizes: Mapping[str, int]) -> tuple[Blueprint, list[KernelText]]:
    """Fix the sizes of a scheduled program; returns its data and the texts of its kernels."""
    texts: dict[KernelText, int] = {}
    slots: list[list[Slot]] = [[] for _ in schedule.buffers]
    plan = Blueprint([], [], [], [[] for _ in schedule.outputs], [], [[] for _ in schedule.scalars], [], [], [], [], [], 0, 0, False)
    layout = TaskArray()
    launches = [call.launch(sizes) for call in emitted]
    work = Counter[int]()
    for call, launch in zip(emitted, launches, strict=True):
        work[call.wave] += launch.work
    for call, launch in zip(emitted, launches, strict=True):
        launch = launch.coarser(work[call.wave], config.threads)  # noqa: PLW2901
        kernel = texts.setdefault(launch.text or call.text, len(texts))
        arguments = [0, launch.grain, *(0 if a is None else a for a in launch.arguments)]
        start = layout.add(0, arguments, launch.chunks, call.wave)
        plan.tasks.append((kernel, arguments, launch.chunks, call.wave))
        for position, (buffer, offset) in call.buffer_slots(sizes):
            slots[buffer].append((start + position, offset))
        for position, scalar, kind in call.scalar_slots:
            plan.scalars[scalar].append((start + position, kind.name))
        plan.randoms += [start + position for position in call.random_slots]
        plan.errors += [(start + position, start) for position in call.error_slots]
        plan.functions += [(start + position, texts.setdefault(text, len(texts))) for position, text in call.functions]
        plan.symbols += [(start + position, symbol) for position, symbol in call.symbols]
        for position, n, kind, norm, real in call.plan_slots:
            plan.fourier_plans.append((start + position, evaluate(n, sizes), kind.name, norm, real))
        plan.scratch_bytes = max(plan.scratch_bytes, call.scratch_bytes(sizes))
    plan.kernels = [(module_key(text.text), text.name) for text in texts]
    plan.release_gil = work.total() > RELEASE_GIL_ABOVE
    _place(plan, schedule, slots, lambda d: evaluate(d, sizes))
    return plan, list(texts)


def _place(plan: Blueprint, schedule: Schedule, slots: list[list[Slot]], resolve: Callable[[Dim], int]) -> None:
    from flambeau.schedule.memory import plan_memory  # noqa: PLC0415 - a warm process does without

    plan.inputs = [[] for b in schedule.buffers if b.role == "input"]
    for number, buffer in enumerate(schedule.buffers):
        if buffer.role == "part":
            start = resolve(buffer.offset) * buffer.dtype.itemsize
            slots[buffer.index] += [(slot, at + start) for slot, at in slots[number]]
    for buffer, patches in zip(schedule.buffers, slots, strict=True):
        if buffer.role == "input":
            plan.inputs[buffer.index] = patches
        elif buffer.role == "output":
            plan.outputs[buffer.index] = patches
    offsets, plan.arena_bytes = plan_memory(schedule, resolve)
    plan.temporaries = [(slot, at + offset) for number, offset in offsets.items() for slot, at in slots[number]]


# -- on disk --------------------------------------------------------------------------------------------
def blueprint_key(graph: Graph, inputs: tuple[InputSpec, ...], outputs: tuple[OutputSpec, ...], sizes: Mapping[str, int]) -> str:
    """The name of a bound program on disk: its graph, layouts and sizes, this package's source, the toolchain and the threads."""
    values = sorted(sizes.items())
    machine = toolchain(), config.threads
    return disk_cache.key(_FORMAT, disk_cache.source_epoch(), *machine, as_python(graph), repr(inputs), repr(outputs), repr(values))


def load_blueprint(key: str) -> Blueprint | None:
    """The data kept under ``key``, or None."""
    data = disk_cache.get(_NAMESPACE, key)
    if data is None:
        return None
    try:
        return Blueprint(**json.loads(data))
    except (ValueError, TypeError):
        disk_cache.discard(_NAMESPACE, key)
        return None


def keep_blueprint(key: str, plan: Blueprint) -> None:
    """Keep the data under ``key``."""
    disk_cache.put(_NAMESPACE, key, json.dumps(asdict(plan), separators=(",", ":")).encode())
