"""A graph as something to run on a GPU: scheduled as for the CPU, its kernels printed as Triton and launched in order."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from flambeau.codegen.gpu.kernel_code import MOST_WARPS, Configuration, KernelCode, KernelText
from flambeau.compilation.program import Program, bits_of
from flambeau.compilation.triton_driver import Variant, get_cubin
from flambeau.core import events
from flambeau.core.aval import Aval
from flambeau.core.device import Device
from flambeau.core.dtypes import dtype, int64
from flambeau.core.events import counters
from flambeau.core.source_lines import user_line
from flambeau.core.symbolic import evaluate
from flambeau.ir.graph import Graph, graph_input
from flambeau.ir.kernel import CHECK, Kernel
from flambeau.prims.declare import ALL as PRIMITIVES
from flambeau.runtime.cuda.device import Block, CudaDevice, Record, device_of
from flambeau.runtime.cuda.launch import Arguments, Function
from flambeau.runtime.storage import Storage
from flambeau.schedule.build import BuiltKernel
from flambeau.schedule.complex_parts import split_addresses, split_numbers
from flambeau.schedule.memory import plan_memory
from flambeau.schedule.schedule import Call
from flambeau.schedule.specs import InputSpec, OutputSpec
from flambeau.schedule.split import GPU_PIECES
from flambeau.templates import gpu_rows
from flambeau.templates.gpu_matmul import FACTORS, GpuMatmul

Sizes = Mapping[str, int]

# Registers of one processor of a GPU.
REGISTERS = 1 << 16

_codes: dict[Kernel, KernelCode] = {}
_texts: dict[GpuMatmul, KernelText] = {}
_functions: dict[tuple[int, Variant], Function] = {}


class CudaProgram(Program):
    """A program for a GPU. What has no GPU code yet is done on the host, see `HostStep`."""

    pieces = GPU_PIECES

    def __init__(
        self, graph: Graph, inputs: Sequence[InputSpec], outputs: Sequence[OutputSpec], sizes: Sizes, name: str, device: Device
    ) -> None:  # fmt: skip
        super().__init__(graph, inputs, outputs, sizes, name)
        self.device = device

    def bind(self, sizes: Sizes) -> BoundCudaProgram:  # type: ignore[override]
        """Fix the sizes."""
        steps = [step for call in self.schedule.calls if (step := self._step(call, sizes)) is not None]
        if events.enabled("program_compile"):
            texts = {s.text for s in steps if isinstance(s, Step)}
            events.emit("program_compile", name=self.name, line=user_line(), calls=len(steps), kernels=len(texts))
        return BoundCudaProgram(self, steps, sizes)

    def _step(self, call: Call, sizes: Sizes) -> Step | HostStep | None:
        """The launch of a call; None where nothing is to be done."""
        if call.kind == "matmul":
            return self._matmul(call, sizes)
        if call.kind not in ("loop", "scatter"):
            return _row_step(call, sizes) or HostStep(call, [self.schedule.buffers[b].dtype for b in call.reads], sizes)
        assert call.built is not None
        built = call.built
        code = _codes.get(built.kernel)
        if code is None:
            code = _codes[built.kernel] = KernelCode(built.kernel)
        own = {name: evaluate(value, sizes) for name, value in zip(built.kernel.sizes, built.sizes, strict=True)}
        chosen = code.configure(own, self._most_elements(sizes))
        if not chosen.programs:
            return None
        step = Step(code.text(chosen.form), chosen, dict(code.signature(chosen.index)))
        step.fill_kernel(built, own.values())
        return step

    def _matmul(self, call: Call, sizes: Sizes) -> Step | None:
        operands, built = call.operands, call.built
        assert operands is not None and built is not None
        template = GpuMatmul.of(built.kernel, operands)
        text = _texts.get(template)
        if text is None:
            text = _texts[template] = template.text()
        outer, inner, rows, columns, depth = (
            evaluate(d, sizes) for d in (operands.outer, operands.inner, operands.rows, operands.columns, operands.depth)
        )
        chosen = template.configure(outer * inner, rows, columns, self._most_elements(sizes))
        if not chosen.programs or not outer * inner:
            return None
        step = Step(text, chosen, dict(template.signature(chosen.index)), batches=outer * inner)
        own = [evaluate(value, sizes) for value in built.sizes]
        step.fill_kernel(built, own)
        for name, buffer, offset, kind in zip(FACTORS, operands.buffers, operands.offsets, operands.dtypes, strict=True):
            step.buffers.append((step.at(name), buffer, evaluate(offset, sizes) * kind.itemsize))
        strides = [evaluate(s, sizes) for s in (*operands.strides[0], *operands.strides[1])]
        values = (rows, columns, depth, inner, *strides, *operands.window_numbers(sizes))
        for name, value in zip(template.arguments[len(FACTORS) :], values, strict=True):
            step.values[step.at(name)] = value
        return step

    def _most_elements(self, sizes: Sizes) -> int:
        return max((evaluate(b.numel, sizes) for b in self.schedule.buffers), default=0)


def _row_step(call: Call, sizes: Sizes) -> Step | None:
    """The launch of a scan, or of a sort of short rows of narrow types; None where there is no GPU code."""
    attributes = call.attributes
    if "parts" in attributes:
        return None
    element: dtype = attributes["dtype"]
    shape = [evaluate(d, sizes) for d in attributes["shape"]]
    if call.kind == "random" or not prod(shape):
        return None
    axis = attributes["axis"]
    length, inner = shape[axis], prod(shape[axis + 1 :])
    if call.kind == "scan":
        text, target = gpu_rows.scan_text(attributes["kind"], element), element
    elif call.kind == "argsort" and gpu_rows.can_sort(element, length):
        text, target = gpu_rows.argsort_text(element, attributes["descending"]), int64
    else:
        return None
    lines = prod(shape) // length
    chosen = gpu_rows.configure(lines, length, inner)
    step = Step(text, chosen, dict(gpu_rows.row_signature(element, target, chosen.index)))
    step.buffers += [(1, call.reads[0], 0), (2, call.writes[0], 0)]
    step.values[3:] = [lines, length, inner]
    return step


@dataclass
class Step:
    """One launch for fixed sizes: where in its arguments addresses (argument, buffer, bytes) and numbers go."""

    text: KernelText
    chosen: Configuration
    signature: dict[str, str]
    batches: int = 1
    buffers: list[tuple[int, int, int]] = field(default_factory=list)
    scalars: list[tuple[int, int, dtype]] = field(default_factory=list)
    checks: bool = False

    def __post_init__(self) -> None:
        self.names = list(self.signature)
        self.values = [0] * len(self.names)

    def at(self, name: str) -> int:
        return self.names.index(name)

    def fill_kernel(self, built: BuiltKernel, sizes: Any) -> None:
        """The arguments that a kernel or an epilogue has."""
        kernel, scalars = built.kernel, built.scalars
        places = zip(built.buffers, built.origins, kernel.buffers, strict=True)
        self.buffers += [(1 + i, b, start * p.dtype.itemsize) for i, (b, start, p) in enumerate(places)]
        first = 1 + len(built.buffers)
        for position, value in enumerate(sizes):
            self.values[first + position] = value
        then = first + len(kernel.sizes)
        self.scalars += [(then + i, s, kind) for i, (s, kind) in enumerate(zip(scalars, kernel.scalars, strict=True))]
        self.checks = any(n.op is CHECK for n in kernel.nodes())

    def variant(self, aligned: bool, capability: int) -> Variant:
        """What to compile when all addresses are multiples of 16, or not."""
        names = {n for n, kind in self.signature.items() if kind[0] == "*" and n != "record"} if aligned else set()
        fixed = {position for position, _, _ in self.scalars}
        names |= {
            n for p, (n, kind) in enumerate(self.signature.items())
            if kind in ("i32", "i64") and p not in fixed and self.values[p] % 16 == 0
        }  # fmt: skip
        c = self.chosen
        # Older GPUs have less shared memory.
        stages = c.stages if capability >= 90 else min(c.stages, 3)
        return Variant(self.text, tuple(self.signature.items()), c.constants, c.index, c.warps, frozenset(names), capability, stages)


class HostStep:
    """A call that has no GPU code yet and is done on the CPU: random numbers (from the CPU's generator), sorts of long rows, matrices.

    All but random numbers are told of once, since they wait for the GPU and move all elements twice.
    """

    checks = False

    def __init__(self, call: Call, types: Sequence[dtype], sizes: Sizes) -> None:
        given = dict(call.attributes)
        sources = [given.pop("source")] if "source" in given else []
        sources = given.pop("shapes", sources)
        parts = given.pop("parts", None)
        shapes = [tuple(evaluate(d, sizes) for d in source) for source in sources]
        inputs = tuple(graph_input(f"x{i}", Aval(*pair)) for i, pair in enumerate(zip(shapes, types, strict=True)))
        known = {"shape", "dtype"} if call.reads else set()
        resolve = lambda v: tuple(evaluate(d, sizes) for d in v) if isinstance(v, tuple) else evaluate(v, sizes)  # noqa: E731
        attributes = {k: resolve(v) if k in _SIZES else v for k, v in given.items() if k not in known}
        nodes = tuple(PRIMITIVES[call.kind](*inputs, **attributes | ({"part": i} if "part" in attributes else {})) for i in parts or (0,))
        self.bound = Program(Graph(inputs, nodes), [InputSpec(None)] * len(inputs), [OutputSpec()] * len(nodes), {}, call.kind).bind({})
        self.reads = list(zip(call.reads, (evaluate(i.aval.numel, sizes) * i.dtype.itemsize for i in inputs), strict=True))
        self.writes = list(zip(call.writes, (evaluate(n.aval.numel, sizes) * n.dtype.itemsize for n in nodes), strict=True))
        if call.reads and call.kind not in _told:
            _told.add(call.kind)
            warnings.warn(f"{call.kind} on a GPU is done on the CPU so far, which waits and copies: keep it out of loops", stacklevel=2)

    def run(self, device: CudaDevice, addresses: Sequence[int], generator: int) -> None:
        """Compute on the host and copy the results over."""
        counters["gpu_host_calls"] += 1
        sources, results = ([Storage(max(size, 1)) for _, size in found] for found in (self.reads, self.writes))
        for (buffer, size), source in zip(self.reads, sources, strict=True):
            device.copy_out(source.address, addresses[buffer], size)
        self.bound.run([s.address for s in sources], [], [r.address for r in results], generator)
        for (buffer, size), result in zip(self.writes, results, strict=True):
            device.copy_in(addresses[buffer], result.address, size)


# Attributes of primitives that are sizes.
_SIZES = {"shape", "n", "rows"}
_told: set[str] = set()


class BoundCudaProgram:
    """A program for fixed sizes: give it addresses and numbers, it launches its kernels and does not wait."""

    __slots__ = ("_device", "_offsets", "_record", "_starts", "_steps", "arena_bytes", "program")

    def __init__(self, program: CudaProgram, steps: Sequence[Step | HostStep], sizes: Sizes) -> None:
        self.program = program
        self._device: CudaDevice = device_of(program.device)
        self._offsets, self.arena_bytes = plan_memory(program.schedule, lambda d: evaluate(d, sizes))
        self._starts = [evaluate(b.offset, sizes) * b.dtype.itemsize for b in program.schedule.buffers]
        checked = any(step.checks for step in steps)
        self._record: Record | None = self._device.new_record(program.name) if checked else None
        self._steps = [s if isinstance(s, HostStep) else _Launch(s, self._device, self._record) for s in steps]

    def run(self, inputs: Sequence[int], numbers: Sequence[Any], outputs: Sequence[int], generator: int = 0) -> None:
        """Launch on the addresses of the inputs (any value for numbers) and outputs (any for those written into inputs)."""
        device = self._device
        seen, form = self.program.signature, self.program.form
        numbers = split_numbers(numbers, self.program.numbers)
        inputs = split_addresses(seen.inputs, form.input_counts, inputs)
        outputs = split_addresses(seen.outputs, form.output_counts, outputs)
        device.activate()
        # Whatever is launched later comes later: the arena may go back as soon as everything is launched.
        arena = Block(device, self.arena_bytes) if self.arena_bytes else None
        addresses = self._addresses(inputs, outputs, arena)
        for step in self._steps:
            if isinstance(step, _Launch):
                step.run(addresses, numbers)
            else:
                step.run(device, addresses, generator)
        if self._record is not None:
            device.watch(self._record)

    def _addresses(self, inputs: Sequence[int], outputs: Sequence[int], arena: Block | None) -> list[int]:
        out: list[int] = []
        for number, buffer in enumerate(self.program.schedule.buffers):
            if buffer.role == "part":
                out.append(out[buffer.index] + self._starts[number])
            elif buffer.role == "temporary":  # without an arena none has elements
                out.append(0 if arena is None else arena.address + self._offsets.get(number, 0))
            else:
                out.append((inputs if buffer.role == "input" else outputs)[buffer.index])
        return out

    def sources(self) -> list[str]:
        """The Triton text of each kernel once, with what it was compiled for."""
        found: dict[KernelText, str] = {}
        for launch in self._steps:
            if isinstance(launch, _Launch):
                step = launch.step
                constants = ", ".join(f"{name} = {value}" for name, value in step.chosen.constants)
                found.setdefault(step.text, f"# {constants}, {step.chosen.warps} warps, {step.chosen.programs} programs\n{step.text.text}")
        return list(found.values())

    def draw_from(self, generator: int) -> None:
        """Nothing: no kernel draws random numbers here."""


class _Launch:
    """A step on its device, its code compiled when it is first needed."""

    __slots__ = ("_arguments", "_device", "_functions", "_grid", "step")

    def __init__(self, step: Step, device: CudaDevice, record: Record | None) -> None:
        self.step = step
        self._device = device
        self._grid = (step.chosen.programs, step.batches)
        self._functions: dict[bool, Function] = {}
        self._arguments = Arguments(step.values)
        if record is not None:
            self._arguments.slots[0] = record.address

    def run(self, addresses: Sequence[int], numbers: Sequence[Any]) -> None:
        slots, every = self._arguments.slots, 0
        for position, buffer, offset in self.step.buffers:
            address = addresses[buffer] + offset
            slots[position] = address
            every |= address
        for position, number, kind in self.step.scalars:
            slots[position] = scalar_bits(numbers[number], kind)
        aligned = every & 15 == 0
        function = self._functions.get(aligned)
        if function is None:
            function = self._functions[aligned] = self._load(aligned)
        function.launch(self._grid, self._arguments, self._device.stream)

    def _load(self, aligned: bool) -> Function:
        device = self._device
        major, minor = device.capability
        variant = self.step.variant(aligned, 10 * major + minor)
        key = (device.index, variant)
        found = _functions.get(key)
        if found is None:
            found = _function(device, variant)
            if variant.warps == MOST_WARPS and 2 * MOST_WARPS * 32 * found.registers > REGISTERS:
                # One program at a time would leave the memory idle while it computes.
                found = _function(device, replace(variant, warps=MOST_WARPS // 2))
            _functions[key] = found
        return found


def _function(device: CudaDevice, variant: Variant) -> Function:
    cubin = get_cubin(variant)
    assert not cubin.scratch, "no kernel of ours asks for global scratch"
    return Function(device, cubin.code, cubin.name, cubin.warps, cubin.shared)


def scalar_bits(value: Any, kind: dtype) -> int:
    """The slot of a number: float16 and bfloat16 are passed as float32."""
    return bits_of(value, kind.compute)
