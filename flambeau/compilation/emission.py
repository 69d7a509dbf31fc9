"""From a scheduled call to kernel text and the recipe of its launch: which slot holds what, how many chunks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flambeau.codegen.cpu.epilogue import epilogue_of
from flambeau.codegen.cpu.kernel_code import KernelCode, emit_kernel
from flambeau.compilation.kernel_cache import KernelText
from flambeau.core.config import config
from flambeau.core.cpu import cpu_features, vector_bits
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import Dim, evaluate, is_constant
from flambeau.ir.kernel import Kernel
from flambeau.schedule.build import BuiltKernel
from flambeau.schedule.schedule import Call, MatmulOperands, Schedule
from flambeau.templates.matmul import SLOTS as MATMUL_SLOTS
from flambeau.templates.matmul import MatmulKernel, MatmulSpec, matmul_kernel
from flambeau.templates.random_fill import SCRATCH_BYTES, random_fill

# A chunk takes about this many nanoseconds: long against claiming it, short against the whole.
CHUNK_NANOSECONDS = 20_000
FIRST_SLOT = 2

Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: values of all slots from slot 2 on (None: patched later), chunks and nanoseconds of work."""

    grain: int
    chunks: int
    work: int
    arguments: list[int | None]


@dataclass(frozen=True)
class Emitted:
    """The text of one call and its launch recipe. Slot positions count from slot 0."""

    text: KernelText
    wave: int
    scratch_bytes: Callable[[Sizes], int]
    launch: Callable[[Sizes], Launch]
    buffers: list[tuple[int, int, Dim, int]]  # position, buffer, offset in elements, bytes of an element
    scalar_slots: list[tuple[int, int, dtype]] = field(default_factory=list)
    random_slots: list[int] = field(default_factory=list)
    error_slots: list[int] = field(default_factory=list)
    functions: list[tuple[int, KernelText]] = field(default_factory=list)  # positions that hold the address of another kernel

    def buffer_slots(self, sizes: Sizes) -> list[tuple[int, tuple[int, int]]]:
        """Positions of buffer addresses with (buffer, offset in bytes)."""
        return [(p, (b, evaluate(offset, sizes) * size)) for p, b, offset, size in self.buffers]


def emit_call(call: Call, schedule: Schedule) -> Emitted:
    """The text and launch recipe of a scheduled call."""
    if call.kind == "matmul":
        return _emit_matmul(call, schedule)
    if call.kind == "random":
        return _emit_random(call)
    if call.kind in ("loop", "scatter"):
        return _emit_loop(call, schedule)
    return _emit_row(call)


_codes: dict[tuple[Kernel, bool], KernelCode] = {}


def _emit_loop(call: Call, schedule: Schedule) -> Emitted:
    assert call.built is not None
    built = call.built
    code = _codes.get((built.kernel, config.checked))
    if code is None:
        code = _codes[built.kernel, config.checked] = emit_kernel(built.kernel, cpu_features(), config.checked)
    names = built.kernel.sizes
    count = len(built.buffers)

    def kernel_sizes(sizes: Sizes) -> dict[str, int]:
        return {name: evaluate(value, sizes) for name, value in zip(names, built.sizes, strict=True)}

    def launch(sizes: Sizes) -> Launch:
        own = kernel_sizes(sizes)
        iterations, cost = evaluate(code.iterations, own), max(1, evaluate(code.cost, own))
        grain = max(1, CHUNK_NANOSECONDS // cost)
        arguments: list[int | None] = [None] * count + [own[n] for n in names] + [None] * len(built.scalars)
        if config.checked:
            arguments += [evaluate(schedule.buffers[b].numel, sizes) for b in built.buffers]
        return Launch(grain, -(-iterations // grain), iterations * cost, arguments)

    return Emitted(
        KernelText(code.text, code.name), call.wave, lambda sizes: evaluate(code.scratch_bytes, kernel_sizes(sizes)), launch,
        [(FIRST_SLOT + i, b, 0, 1) for i, b in enumerate(built.buffers)],
        _scalar_slots(built, FIRST_SLOT + count + len(names)),
    )  # fmt: skip


def _scalar_slots(built: BuiltKernel, first: int) -> list[tuple[int, int, dtype]]:
    return [(first + i, s, kind) for i, (s, kind) in enumerate(zip(built.scalars, built.kernel.scalars, strict=True))]


# -- matrix products ------------------------------------------------------------------------------------
_matmuls: dict[Any, MatmulKernel] = {}


def _layout(strides: tuple[Dim, Dim, Dim]) -> str:
    return "row" if is_constant(strides[2], 1) else "col" if is_constant(strides[1], 1) else "any"


def _matmul_kernel(operands: MatmulOperands, built: BuiltKernel) -> MatmulKernel:
    left, right = map(_layout, operands.strides)
    key = (operands.dtypes, left, right, built.kernel)
    found = _matmuls.get(key)
    if found is None:
        epilogue = epilogue_of(built.kernel)
        spec = MatmulSpec(*operands.dtypes, left, right, vector_bits(), cpu_features(), epilogue.extra_slots)
        found = _matmuls[key] = matmul_kernel(spec, epilogue)
    return found


def _emit_matmul(call: Call, schedule: Schedule) -> Emitted:
    operands, built = call.operands, call.built
    assert operands is not None and built is not None
    kernel = _matmul_kernel(operands, built)
    fixed = len(MATMUL_SLOTS) + 1  # the epilogue's own slot for the error record comes first
    count = len(built.buffers)

    def dimensions(sizes: Sizes) -> tuple[int, int, int, int]:
        return tuple(evaluate(d, sizes) for d in (operands.batch, operands.rows, operands.columns, operands.depth))  # type: ignore[return-value]

    def launch(sizes: Sizes) -> Launch:
        batch, m, n, k = dimensions(sizes)
        strides = [evaluate(s, sizes) for group in operands.strides for s in group]
        values: list[int | None] = [None, None, 0, batch, m, n, k, *strides, 0, 0, None, *[None] * count]
        values += [evaluate(s, sizes) for s in built.sizes] + [None] * len(built.scalars)
        plan = kernel.plan(batch, m, n, k)
        return Launch(plan.grain, plan.chunks, batch * m * n * k // 50, values)

    a, b = operands.buffers
    itemsizes = [d.itemsize for d in operands.dtypes]
    buffers: list[tuple[int, int, Dim, int]] = [(2, a, operands.offsets[0], itemsizes[0]), (3, b, operands.offsets[1], itemsizes[1])]
    buffers += [(fixed + i, number, 0, 1) for i, number in enumerate(built.buffers)]
    return Emitted(
        KernelText(kernel.text, kernel.name), call.wave, lambda sizes: kernel.scratch_bytes(*dimensions(sizes)), launch, buffers,
        _scalar_slots(built, fixed + count + len(built.sizes)), error_slots=[fixed - 1],
    )  # fmt: skip


# -- other templates ------------------------------------------------------------------------------------
def _emit_random(call: Call) -> Emitted:
    attributes = call.attributes
    fill = random_fill(attributes["kind"], attributes["dtype"], vector_bits(), cpu_features())

    def launch(sizes: Sizes) -> Launch:
        count = _volume(attributes["shape"], sizes)
        return Launch(1, 1 if count else 0, 2 * count, [None, None, count])

    return Emitted(
        KernelText(fill.text, fill.name), call.wave, lambda sizes: SCRATCH_BYTES, launch, [(3, call.writes[0], 0, 1)], random_slots=[2]
    )


def _volume(shape: Sequence[Dim], sizes: Sizes) -> int:
    total = 1
    for dim in shape:
        total *= evaluate(dim, sizes)
    return total


def _emit_row(call: Call) -> Emitted:
    from flambeau.templates.row_scan import row_scan
    from flambeau.templates.row_sort import row_argsort

    attributes = call.attributes
    axis, shape, element = attributes["axis"], attributes["shape"], attributes["dtype"]
    if call.kind == "scan":
        kernel = row_scan(attributes["kind"], element, vector_bits(), cpu_features())
    else:
        kernel = row_argsort(element, attributes["descending"], vector_bits(), cpu_features())

    def dimensions(sizes: Sizes) -> tuple[int, int, int]:
        return _volume(shape[:axis], sizes), evaluate(shape[axis], sizes), _volume(shape[axis + 1 :], sizes)

    def launch(sizes: Sizes) -> Launch:
        outer, n, inner = dimensions(sizes)
        iterations, cost = kernel.iterations(outer, n, inner), max(1, kernel.cost(n, inner))
        grain = max(1, CHUNK_NANOSECONDS // cost)
        return Launch(grain, -(-iterations // grain), iterations * cost, [None, None, outer, n, inner])

    def scratch(sizes: Sizes) -> int:
        _, n, inner = dimensions(sizes)
        return kernel.scratch_bytes(n, inner)

    buffers: list[tuple[int, int, Dim, int]] = [(2, call.reads[0], 0, 1), (3, call.writes[0], 0, 1)]
    return Emitted(KernelText(kernel.text, kernel.name), call.wave, scratch, launch, buffers)
