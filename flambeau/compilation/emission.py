"""From a scheduled call to kernel text and the recipe of its launch: which slot holds what, how many chunks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flambeau.codegen.cpu.epilogue import EpilogueCode, emit_epilogue
from flambeau.codegen.cpu.kernel_code import SHORTEST_STREAM, KernelCode, emit_kernel
from flambeau.compilation.kernel_cache import KernelText
from flambeau.core.config import config
from flambeau.core.cpu import cpu_features, vector_bits
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import Dim, evaluate, is_constant
from flambeau.ir.kernel import Kernel
from flambeau.schedule.build import BuiltKernel
from flambeau.schedule.operands import MatmulOperands, plain_store
from flambeau.schedule.schedule import Call, Schedule
from flambeau.templates.factor_kernel import FUNCTIONS, FactorKernel, FactorSpec
from flambeau.templates.factor_kernel import Sizes as FactorSizes
from flambeau.templates.lane_kernels import lane_kernel
from flambeau.templates.lapack import lapack_kernel
from flambeau.templates.matmul import SLOTS as MATMUL_SLOTS
from flambeau.templates.matmul import MatmulKernel, MatmulSpec, matmul_kernel, vector_kernel
from flambeau.templates.permutation import permutation_kernel
from flambeau.templates.random_fill import SCRATCH_BYTES, random_fill
from flambeau.templates.row_fourier import row_fourier
from flambeau.templates.row_kernel import SLOTS as ROW_SLOTS
from flambeau.templates.row_scan import row_scan
from flambeau.templates.row_sort import row_argsort

# A chunk takes about this many nanoseconds: long against claiming it, short against the whole.
CHUNK_NANOSECONDS = 20_000
LONGEST_CHUNK = 400_000
CHUNKS_PER_THREAD = 32
# Buffers of more bytes than this, changed in place, are not in the nearest caches, and are asked for before they are needed.
PREFETCH_ABOVE = 1 << 20
FIRST_SLOT = 2

Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: values of all slots from slot 2 on (None: patched later), chunks and nanoseconds of work.

    ``text`` is what runs instead of the call's usual text at these sizes. Where ``iterations`` are told, chunks may have more
    than ``grain`` of them.
    """

    grain: int
    chunks: int
    work: int
    arguments: list[int | None]
    text: KernelText | None = None
    iterations: int = 0

    def coarser(self, beside: int, threads: int) -> Launch:
        """With larger chunks, of up to `LONGEST_CHUNK` nanoseconds, where the work of all launches ``beside`` it leaves enough of them
        for every thread: the hardware reads ahead within a chunk, and AdamW over 38 million parameters took 1.2 times as long with
        small ones."""
        factor = min(LONGEST_CHUNK // CHUNK_NANOSECONDS, beside // (threads * CHUNKS_PER_THREAD * CHUNK_NANOSECONDS))
        if not self.iterations or factor < 2:
            return self
        grain = self.grain * factor
        return replace(self, grain=grain, chunks=-(-self.iterations // grain))


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
    symbols: list[tuple[int, str]] = field(default_factory=list)  # positions that hold the address of a function of LAPACK
    plan_slots: list[tuple[int, Dim, dtype, str, bool]] = field(default_factory=list)  # position, length, type, norm, real

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
    return _emit_factor(call) if "parts" in call.attributes else _emit_row(call)


_codes: dict[tuple[Kernel, bool, bool], KernelCode] = {}


def _code(kernel: Kernel, streaming: bool) -> KernelCode:
    key = (kernel, config.checked, streaming)
    code = _codes.get(key)
    if code is None:
        code = _codes[key] = emit_kernel(kernel, cpu_features(), config.checked, streaming)
    return code


def _emit_loop(call: Call, schedule: Schedule) -> Emitted:
    assert call.built is not None
    built = call.built
    code = _code(built.kernel, False)

    def launch(sizes: Sizes) -> Launch:
        own = _kernel_sizes(built, sizes)
        iterations, cost = evaluate(code.iterations, own), max(1, evaluate(code.cost, own))
        grain = max(1, CHUNK_NANOSECONDS // cost)
        text = None
        filled, updated = (_bytes_of(built, schedule, sizes, access) for access in ("write", "update"))
        row = evaluate(code.row_bytes, own)
        streams = filled > code.stream_above and (row >= SHORTEST_STREAM or row % 64 == 0)
        if streams or updated > PREFETCH_ABOVE:
            streaming = _code(built.kernel, True)
            text = KernelText(streaming.text, streaming.name)
        arguments = _kernel_arguments(built, schedule, sizes)
        return Launch(grain, -(-iterations // grain), iterations * cost, arguments, text, iterations)

    return Emitted(
        KernelText(code.text, code.name), call.wave, lambda sizes: evaluate(code.scratch_bytes, _kernel_sizes(built, sizes)), launch,
        *_kernel_slots(built, FIRST_SLOT),
    )  # fmt: skip


def _bytes_of(built: BuiltKernel, schedule: Schedule, sizes: Sizes, access: str) -> int:
    """Bytes of the buffers that a kernel only fills (``write``) or reads and fills (``update``)."""
    chosen = [schedule.buffers[b] for b, p in zip(built.buffers, built.kernel.buffers, strict=True) if p.access == access]
    return sum(evaluate(buffer.numel, sizes) * buffer.dtype.itemsize for buffer in chosen)


def _kernel_sizes(built: BuiltKernel, sizes: Sizes) -> dict[str, int]:
    return {name: evaluate(value, sizes) for name, value in zip(built.kernel.sizes, built.sizes, strict=True)}


def _kernel_arguments(built: BuiltKernel, schedule: Schedule, sizes: Sizes) -> list[int | None]:
    """The slots of a kernel from `FIRST_SLOT` on."""
    pairs = zip(built.buffers, built.origins, strict=True) if config.checked else ()
    counts = [evaluate(schedule.buffers[b].numel, sizes) - origin for b, origin in pairs]
    return [*[None] * len(built.buffers), *_kernel_sizes(built, sizes).values(), *[None] * len(built.scalars), *counts]


def _kernel_slots(built: BuiltKernel, first: int) -> tuple[list[tuple[int, int, Dim, int]], list[tuple[int, int, dtype]]]:
    """Where a kernel whose buffers start at slot ``first`` finds buffers and scalars."""
    places = zip(built.buffers, built.origins, built.kernel.buffers, strict=True)
    buffers: list[tuple[int, int, Dim, int]] = [(first + i, b, start, p.dtype.itemsize) for i, (b, start, p) in enumerate(places)]
    then = first + len(built.buffers) + len(built.sizes)
    return buffers, [(then + i, s, kind) for i, (s, kind) in enumerate(zip(built.scalars, built.kernel.scalars, strict=True))]


# -- matrix products ------------------------------------------------------------------------------------
_matmuls: dict[Any, MatmulKernel] = {}
_epilogues: dict[tuple[Kernel, dtype, bool, bool], EpilogueCode] = {}


def _layout(strides: tuple[Dim, Dim, Dim, Dim]) -> str:
    return "row" if is_constant(strides[3], 1) else "col"


def _matmul_kernel(operands: MatmulOperands) -> MatmulKernel:
    left, right = map(_layout, operands.strides)
    right = "window" if operands.windows is not None else right
    one_row = is_constant(operands.rows, 1) and operands.windows is None
    key = (operands.dtypes, left, right, one_row)
    found = _matmuls.get(key)
    if found is None:
        spec = MatmulSpec(*operands.dtypes, left, right, vector_bits(), cpu_features())
        found = _matmuls[key] = vector_kernel(spec) if one_row else matmul_kernel(spec)
    return found


def _epilogue(kernel: Kernel, spec: MatmulSpec, aligned: bool) -> EpilogueCode:
    key = (kernel, spec.compute, config.checked, aligned)
    found = _epilogues.get(key)
    if found is None:
        found = _epilogues[key] = emit_epilogue(kernel, spec.compute, spec.lanes, spec.features, config.checked, aligned)
    return found


def _emit_matmul(call: Call, schedule: Schedule) -> Emitted:
    operands, built = call.operands, call.built
    assert operands is not None and built is not None
    kernel, store = _matmul_kernel(operands), plain_store(built)
    counts = operands.outer, operands.inner, operands.rows, operands.columns, operands.depth

    def dimensions(sizes: Sizes) -> tuple[int, int, int, int]:
        outer, inner, m, n, k = (evaluate(d, sizes) for d in counts)
        return (outer * inner, m, n, k) if operands.windows is None else (outer, m, inner * n, k)

    def launch(sizes: Sizes) -> Launch:
        batch, m, n, k = dimensions(sizes)
        strides = [*operands.strides[0], *operands.strides[1], *((0, 0, 0) if store is None else store.strides)]
        values: list[int | None] = [None, None, None, *(evaluate(d, sizes) for d in (*counts, *strides))]
        values += [0 if store else None, *operands.window_numbers(sizes)]
        values += [] if store else [None, 0, *_kernel_arguments(built, schedule, sizes)]
        plan = kernel.plan(batch, m, n, k, config.threads)
        return Launch(plan.grain, plan.chunks, batch * m * n * k // 50, values)

    def slot(name: str) -> int:
        return MATMUL_SLOTS.index(name)

    text, factors = KernelText(kernel.text, kernel.name), zip("ab", operands.buffers, operands.offsets, operands.dtypes, strict=True)
    buffers: list[tuple[int, int, Dim, int]] = [(slot(name), b, offset, kind.itemsize) for name, b, offset, kind in factors]
    emitted = Emitted(text, call.wave, lambda sizes: kernel.plan(*dimensions(sizes), config.threads).scratch_bytes, launch, buffers)
    if store is not None:
        buffers.append((slot("c"), store.buffer, store.offset, kernel.spec.compute.itemsize))
        return emitted
    aligned = operands.windows is None or is_constant(operands.inner, 1)
    epilogue, error = _epilogue(built.kernel, kernel.spec, aligned), len(kernel.spec.slots)
    more, scalars = _kernel_slots(built, error + FIRST_SLOT)
    function = slot("epilogue"), KernelText(epilogue.text, epilogue.name)
    return replace(emitted, buffers=buffers + more, scalar_slots=scalars, error_slots=[error], functions=[function])


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


def _emit_factor(call: Call) -> Emitted:
    given = dict(call.attributes)
    shapes, parts, element = given.pop("shapes"), given.pop("parts"), given.pop("dtype")
    rows = given.pop("rows", None)
    if call.kind.startswith("complex_"):  # the last axis is that of the real and imaginary parts
        shapes = tuple(shape[:-1] for shape in shapes)
    static = ("batched", len(shapes[0]) > 2), *((k, v) for k, v in given.items() if k not in ("part", "shape", "source"))
    spec = FactorSpec(call.kind, element, len(shapes), parts, static, vector_bits(), cpu_features())
    usual = permutation_kernel(spec) if call.kind == "permutation" else lapack_kernel(spec)

    def chosen(z: FactorSizes) -> FactorKernel:
        return lane_kernel(spec, z, usual)

    def measure(sizes: Sizes) -> FactorSizes:
        if rows is not None:
            return FactorSizes(_volume(shapes[0][:-1], sizes), evaluate(rows, sizes), evaluate(shapes[0][-1], sizes), 0)
        m, n = (evaluate(d, sizes) for d in shapes[0][-2:])
        return FactorSizes(_volume(shapes[0][:-2], sizes), m, n, evaluate(shapes[1][-1], sizes) if len(shapes) > 1 else 0)

    def launch(sizes: Sizes) -> Launch:
        z = measure(sizes)
        kernel = chosen(z)
        offsets, _ = kernel.piece_offsets(z)
        cost = max(1, round(kernel.nanoseconds(z)))
        grain = -(-max(1, CHUNK_NANOSECONDS // cost) // kernel.block) * kernel.block
        values = [*[None] * FUNCTIONS, z.batch, z.m, z.n, z.k, kernel.work(z), *offsets, *[None] * (len(shapes) + len(parts))]
        text = None if kernel is usual else KernelText(kernel.text, kernel.name)
        return Launch(grain, -(-z.batch // grain), z.batch * cost, values, text)

    def scratch(sizes: Sizes) -> int:
        z = measure(sizes)
        return chosen(z).piece_offsets(z)[1]

    first = len(spec.slots) - len(shapes) - len(parts)
    buffers: list[tuple[int, int, Dim, int]] = [(first + i, b, 0, 1) for i, b in enumerate((*call.reads, *call.writes))]
    symbols = [(FIRST_SLOT + i, symbol) for i, symbol in enumerate(usual.symbols)]
    text = KernelText(usual.text, usual.name)
    return Emitted(text, call.wave, scratch, launch, buffers, symbols=symbols)


def _emit_row(call: Call) -> Emitted:
    attributes = call.attributes
    axis, shape, element = attributes["axis"], attributes["shape"], attributes["dtype"]
    if call.kind.startswith("fourier"):
        return _emit_fourier(call)
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


def _emit_fourier(call: Call) -> Emitted:
    attributes = call.attributes
    element: dtype = attributes["dtype"]
    form = {"fourier_real": "real", "fourier_hermitian": "hermitian"}.get(call.kind, "inverse" if attributes.get("inverse") else "forward")
    kernel = row_fourier(element, form, vector_bits(), cpu_features())
    points: Dim = attributes["shape"][-1] if form == "hermitian" else attributes["source"][attributes["axis"]]
    rows = attributes["source"][: attributes["axis"]]

    def launch(sizes: Sizes) -> Launch:
        outer, n = _volume(rows, sizes), evaluate(points, sizes)
        cost = max(1, kernel.cost(n))
        grain = max(1, CHUNK_NANOSECONDS // cost)
        return Launch(grain, -(-outer // grain) if n else 0, outer * cost, [None, None, outer, n, 1, None])

    buffers: list[tuple[int, int, Dim, int]] = [(2, call.reads[0], 0, 1), (3, call.writes[0], 0, 1)]
    plan = len(ROW_SLOTS), points, element, attributes["norm"], form in ("real", "hermitian")
    scratch = lambda sizes: kernel.scratch_bytes(evaluate(points, sizes), 1)  # noqa: E731
    return Emitted(KernelText(kernel.text, kernel.name), call.wave, scratch, launch, buffers, plan_slots=[plan])
