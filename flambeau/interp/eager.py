"""The eager interpreter: finds the plan of an operator call and runs it on memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flambeau.codegen.cpu.errors import NO_FACTORIZATION, operator_number
from flambeau.compilation.program import BoundProgram
from flambeau.core.context import context
from flambeau.core.device import Device, cpu
from flambeau.core.device import meta as without_elements
from flambeau.core.dtypes import dtype
from flambeau.core.events import counters
from flambeau.core.linear_algebra_errors import OPERATORS, linear_algebra_error
from flambeau.core.symbolic import evaluate
from flambeau.interp.folding import Folding, make_folding
from flambeau.interp.functions import GraphFunction, layout_of, stride_sizes
from flambeau.interp.layout import ViewOf, views_of
from flambeau.interp.tracing import Template, Traced, trace_operator
from flambeau.ir.graph import INPUT
from flambeau.ops.declare import Operator, forget_with_default_float
from flambeau.runtime.cuda.device import device_of, new_storage
from flambeau.runtime.generator import default_generator
from flambeau.runtime.launch import KernelError
from flambeau.runtime.storage import Storage, TensorMeta, contiguous_strides, meta_of
from flambeau.schedule.specs import OutputSpec

if TYPE_CHECKING:
    from flambeau.compilation.cuda_program import BoundCudaProgram

Ints = tuple[int, ...]


@dataclass(slots=True)
class Operand:
    """A tensor as the interpreter sees it: memory, where in it (bytes), and metadata."""

    memory: Storage
    address: int
    meta: TensorMeta


# How an output is unfolded, and to which shape (None: the folding's own); or its whole metadata.
Result = tuple[Folding | None, Ints | None] | TensorMeta


class Nothing:
    """What runs on tensors without elements."""

    def run(self, *operands: Any) -> None:
        """Nothing."""


NOTHING = Nothing()


@dataclass(slots=True, eq=False)
class RunPlan:
    """Everything decided for one function on operands of exactly these metas. ``views``: the outputs are views, nothing runs."""

    function: GraphFunction
    bound: BoundProgram | BoundCudaProgram | Nothing | None
    outputs: list[TensorMeta]
    views: list[ViewOf] | None = None
    into: tuple[int | None, ...] = ()
    call: Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], None] | None = None  # runs in place of the program


def plan_function(
    function: GraphFunction, metas: Sequence[TensorMeta], sizes: Mapping[str, int], foldings: Sequence[Folding | None],
    results: Sequence[Result], into: tuple[int | None, ...] = (), views: str = "never",
) -> RunPlan:  # fmt: skip
    """Bind ``function`` for operands with these metas, each seen through its folding.

    ``sizes`` holds the function's size symbols, in which results may be, too. ``into`` gives for each output the operand whose memory
    it is written to.
    ``views``: whether outputs that only rearrange operands share their memory: never, maybe, or only (no program is made then,
    and the plan has neither views nor a program when strides cannot express them).
    """
    device = common_device([*metas, *(r for r in results if isinstance(r, TensorMeta))])
    seen = [_seen(m, f) for m, f in zip(metas, foldings, strict=True)]
    layouts = tuple(layout_of(shape, strides) for shape, strides in seen)
    values = dict(sizes)
    into = into or (None,) * len(function.graph.outputs)
    outputs = _output_metas(function, values, results, metas, into)
    if views != "never" and all(not isinstance(r, TensorMeta) and r[0] is None for r in results):
        found = _as_views(function, seen, values)
        if found is not None:
            shown = [meta_of(v.shape, m.dtype, v.strides, device) for v, m in zip(found, outputs, strict=True)]
            return RunPlan(function, None, shown, found)
        if views == "only":
            return RunPlan(function, None, outputs)
    if device is without_elements:
        return RunPlan(function, NOTHING, outputs, None, into, NOTHING.run)
    for position, ((_, strides), layout) in enumerate(zip(seen, layouts, strict=True)):
        values |= stride_sizes(position, strides, layout)
    specs = tuple(
        OutputSpec(r.strides if isinstance(r, TensorMeta) and not r.contiguous else None, i)
        for i, r in zip(into, [*results, *[(None, None)] * (len(into) - len(results))], strict=True)
    )
    program = function.program(layouts, specs, values, device)
    counters["plans"] += 1
    try:
        bound = program.bind(values)
    except NotImplementedError as error:
        raise NotImplementedError(f"{function.name}: {error}") from None
    return RunPlan(function, bound, outputs, None, into)


def unbound_plan(
    function: GraphFunction, metas: Sequence[TensorMeta], sizes: Mapping[str, int], results: Sequence[Result],
    into: tuple[int | None, ...] = (),
) -> RunPlan:  # fmt: skip
    """What a function gives for operands with these metas, without a program: for calls that run in another form."""
    into = into or (None,) * len(function.graph.outputs)
    return RunPlan(function, None, _output_metas(function, dict(sizes), results, metas, into), None, into)


def _seen(meta: TensorMeta, folding: Folding | None) -> tuple[Ints, Ints]:
    if folding is None:
        return meta.shape, meta.strides
    folded = folding.fold(meta.shape, meta.strides)
    assert folded is not None, "operands that do not fold are copied before"
    return folded


def _output_metas(
    function: GraphFunction, sizes: Mapping[str, int], results: Sequence[Result], metas: Sequence[TensorMeta], into: tuple[int | None, ...]
) -> list[TensorMeta]:
    out: list[TensorMeta] = []
    found = function.output_shapes(sizes)
    device = metas[0].device if metas else cpu
    for k, node in enumerate(function.graph.outputs):
        target = into[k]
        result = results[k] if k < len(results) else (None, None)
        if target is not None or isinstance(result, TensorMeta):
            out.append(metas[target] if target is not None else meta_at(result, sizes))  # type: ignore[arg-type]
            continue
        folding, shape = result
        if folding is None:
            out.append(meta_of(found[k] if shape is None else shape, node.dtype, None, device))
        else:
            out.append(unfolded_meta(folding, shape, node.dtype, device))
    return out


def meta_at(meta: TensorMeta, sizes: Mapping[str, int]) -> TensorMeta:
    """Metadata with symbols of sizes replaced by their values."""
    if type(meta.numel) is int:
        return meta
    shape, strides = (tuple([evaluate(n, sizes) for n in part]) for part in (meta.shape, meta.strides))
    return meta_of(shape, meta.dtype, strides, meta.device)


def common_device(metas: Sequence[TensorMeta]) -> Device:
    """Where all operands are; the CPU when there are none. RuntimeError where they are apart."""
    device = metas[0].device if metas else cpu
    for meta in metas:
        if meta.device is not device and meta.device != device:
            both = f"{device} and {meta.device}" if meta.device is cpu else f"{meta.device} and {device}"
            raise RuntimeError(f"Expected all tensors to be on the same device, but found at least two devices, {both}!")
    return device


def allocate(device: Device, nbytes: int) -> Storage:
    """A storage of undefined bytes."""
    if device is without_elements:
        return Storage(nbytes, 0, without_elements)
    return Storage(nbytes) if device is cpu else new_storage(device, nbytes)


def fill_bytes(memory: Storage, value: int, device: Device) -> None:
    """Set all bytes of a storage."""
    if device is cpu:
        ctypes.memset(memory.address, value, memory.nbytes)
    elif device is not without_elements:
        device_of(device).fill(memory.address, value, memory.nbytes)


def unfolded_meta(folding: Folding, shape: Ints | None, kind: dtype, device: Device) -> TensorMeta:
    """The metadata of a result that the folded program wrote row-major: ``shape`` broadcasts to the folding's."""
    if shape is None or shape == folding.shape:
        return meta_of(folding.shape, kind, folding.strides, device)
    if folding.order == tuple(range(len(folding.order))):
        return meta_of(shape, kind, contiguous_strides(shape), device)
    lead = len(folding.shape) - len(shape)
    strides = [0] * len(shape)
    running = 1
    for axis in reversed(folding.order):
        if axis >= lead:
            strides[axis - lead] = running
            running *= max(shape[axis - lead], 1)
    return meta_of(shape, kind, tuple(strides), device)


def _as_views(function: GraphFunction, seen: Sequence[tuple[Ints, Ints]], sizes: Mapping[str, int]) -> list[ViewOf] | None:
    if any(o.op is not INPUT and o.op.family != "view" for o in function.graph.outputs):
        return None
    return views_of(function.at_sizes(sizes), seen)


def run_plan(plan: RunPlan, operands: Sequence[Any], numbers: Sequence[Any]) -> list[Operand]:
    """Run on ``operands`` (anything with memory, address and meta); returns the outputs, those written into operands included."""
    if plan.views is not None:
        out: list[Operand] = []
        for view, meta in zip(plan.views, plan.outputs, strict=True):
            source = operands[view.position]
            out.append(Operand(source.memory, source.address + view.offset * meta.dtype.itemsize, meta))
        return out
    results: list[Operand] = []
    for meta, target in zip(plan.outputs, plan.into, strict=True):
        if target is None:
            storage = allocate(meta.device, meta.nbytes)
            results.append(Operand(storage, storage.address, meta))
        else:
            results.append(operands[target])
    pending = next((o.memory.pending for o in operands if o.memory.pending is not None), None)
    if pending is not None:
        reason = getattr(pending, "reason", "an operand was never computed: the call that it was recorded in raised")
        raise RuntimeError(f"{plan.function.name}: {reason}")
    if plan.call is None:
        run_program(plan, operands, numbers, results)
    else:
        plan.call(operands, numbers, results)
    return results


def run_program(plan: RunPlan, operands: Sequence[Any], numbers: Sequence[Any], results: Sequence[Any]) -> None:
    """Run the program of a plan on operands, into results."""
    bound = plan.bound
    assert bound is not None and not isinstance(bound, Nothing)
    try:
        generator = context.generator or default_generator
        bound.run([o.address for o in operands] + [0] * len(numbers), numbers, [r.address for r in results], generator.address)
    except KernelError as error:
        raise report_error(plan.function.name, error) from None
    finally:
        if context.generator is not None:
            bound.draw_from(default_generator.address)


DIVISION = operator_number("division")
_FACTORING = {operator_number(name): name for name in OPERATORS}
# torch raises RuntimeError for a bad index of these, IndexError for others.
RAISE_RUNTIME_ERROR = frozenset(("gather", "scatter", "scatter_add", "scatter_reduce", "take_along_dim"))


def report_error(name: str, error: KernelError) -> Exception:
    """The exception for what a kernel of operator ``name`` reported."""
    if error.kind == 1 and error.operator == DIVISION:
        return RuntimeError(f"ZeroDivisionError: {name}: integer division by zero (at element {error.position}); mask the divisor first")
    if error.kind == 1:
        text = f"{name}: index {error.value} is out of bounds for dimension with size {error.bound} (at element {error.position})"
        return RuntimeError(text) if name in RAISE_RUNTIME_ERROR else IndexError(text)
    if error.kind == NO_FACTORIZATION:
        return linear_algebra_error(_FACTORING[error.operator], error.value, error.position if error.bound else None)
    return RuntimeError(f"{name}: internal error: a kernel left its buffers ({error})")


# -- operators ------------------------------------------------------------------------------------------
class OperatorPrograms:
    """The traces of operators, by everything except the sizes.

    Views to a given shape are traced for exactly their sizes: they run no kernel, so nothing is compiled for them.
    """

    def __init__(self) -> None:
        self._variants: dict[Any, list[Traced]] = {}
        forget_with_default_float(self._variants.clear)

    def find(
        self, operator: Operator, template: Template, metas: Sequence[TensorMeta], weak: Sequence[bool], numbers: Sequence[type],
        sizes: Sequence[int], folding: Folding | None, cast_to: dtype | None = None, mutated: tuple[int, ...] = (),
    ) -> tuple[Traced, dict[str, int]]:  # fmt: skip
        """The trace that holds for these operands (made now if there is none), with the values of its symbols."""
        seen = [_seen(m, folding) for m in metas]
        concrete = operator.kind in ("view", "reshape") and "sizes" in operator.roles
        classes = tuple(
            (m.dtype, shape if concrete else tuple(min(n, 2) for n in shape)) for m, (shape, _) in zip(metas, seen, strict=True)
        )
        size_classes = tuple(sizes) if concrete else tuple(min(n, 2) if n >= 0 else n for n in sizes)
        key = (
            operator,
            template,
            tuple(map(type, template)),
            classes,
            tuple(weak),
            tuple(numbers),
            size_classes,
            folding is not None,
            cast_to,
        )
        shapes = [shape for shape, _ in seen]
        variants = self._variants.setdefault(key, [])
        for traced in variants:
            values = _values(traced, shapes, sizes)
            if values is not None and traced.function.holds(values):
                return traced, values
        avals = [(shape, m.dtype, w) for shape, m, w in zip(shapes, metas, weak, strict=True)]
        shared = None if folding is None else [tuple(f"d{k}" for k in range(len(shape))) for shape in shapes]
        if "values" in operator.roles:  # lists of many tensors: sizes that are equal now are taken for one
            shared = [tuple(f"s{n}" for n in shape) for shape in shapes]
        found = _trace_or_error(operator, template, avals, numbers, sizes, shared, cast_to, mutated, concrete)
        if isinstance(found, Exception):
            # The same error again, now with numbers for the sizes that it speaks of.
            trace_operator(operator, template, avals, numbers, sizes, None, cast_to, mutated, concrete=True)
            raise found
        traced = found
        counters["traces"] += 1
        variants.append(traced)
        values = _values(traced, shapes, sizes)
        assert values is not None, "a trace holds for the sizes that it was made with"
        return traced, values


def _trace_or_error(*args: Any) -> Traced | Exception:
    try:
        return trace_operator(*args)
    except Exception as error:
        return error


def _values(traced: Traced, shapes: Sequence[Ints], sizes: Sequence[int]) -> dict[str, int] | None:
    """The value of each symbol of a trace; None when they cannot have them."""
    values = traced.function.sizes(shapes)
    if values is None:
        return None
    for name, size in zip(traced.size_symbols, sizes, strict=True):
        if (values.setdefault(name, size) if isinstance(name, str) else name) != size:
            return None
    return values


programs = OperatorPrograms()


def fold_operands(operator: Operator, metas: Sequence[TensorMeta]) -> Folding | None:
    """The folding of a pointwise call; None for other operators."""
    return make_folding(metas, operator.name) if operator.kind == "pointwise" and metas else None
