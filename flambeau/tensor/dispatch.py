"""Dispatch: an operator called on tensors finds its plan, runs, and records the tape."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flambeau.core.context import context
from flambeau.core.device import cpu
from flambeau.core.dtypes import can_cast, dtype
from flambeau.core.events import counters
from flambeau.interp.eager import (
    Operand,
    Result,
    RunPlan,
    allocate,
    fill_bytes,
    fold_operands,
    programs,
    run_plan,
    unfolded_meta,
)
from flambeau.interp.folding import Folding
from flambeau.interp.functions import Derivative, GraphFunction
from flambeau.interp.tracing import SizeSlot, TensorSlot, restructure, tensor_slots
from flambeau.interp.unfolding import unfolded
from flambeau.ir.node import Node
from flambeau.ops.declare import ALL, Operator, forget_with_default_float, set_dispatcher
from flambeau.runtime.native import library
from flambeau.runtime.native.heap_types import METH_FASTCALL
from flambeau.runtime.storage import Storage, TensorMeta, meta_of
from flambeau.tensor import autocasting, operator_modes, overriding
from flambeau.tensor.base import TensorBase, from_memory
from flambeau.tensor.call import Call, number_kind, take_apart
from flambeau.tensor.plans import CONSTANT, CallPlan, make_plan
from flambeau.tensor.tape import SECOND_BACKWARD, Entry, Packed, Saved, check_saved, pack_saved
from flambeau.tensor.views import Step, View, read_backward, write_backward

new_tensor: Callable[[Storage, int, TensorMeta], Any]


def set_tensor_class(tensor_class: type[TensorBase]) -> None:
    """Called once by the Tensor class: what results are wrapped in."""
    global new_tensor

    def make(memory: Storage, address: int, meta: TensorMeta) -> TensorBase:
        return from_memory(memory, address, meta, tensor_class)

    new_tensor = make


def another(tensor: Any, tensor_class: type[Any] | None = None) -> Any:
    """A tensor without history in the same place, perhaps of a subclass; one over memory that does not exist yet gets it with the first."""
    if type(tensor) is _batched:
        return tensor.alias()
    memory = tensor.memory
    place = memory, tensor.address, tensor.meta
    out = new_tensor(*place) if tensor_class is None else from_memory(*place, tensor_class)
    if memory.pending is not None:
        memory.pending.viewers.append(weakref.ref(out))
    if context.capture is not None:
        context.capture.note(out, tensor)
    return out


# -- batching -------------------------------------------------------------------------------------------
_batched: type[Any] | None = None
_run_batched: Callable[[CallPlan, Sequence[Any], Sequence[Any], int], list[Any]]
_drawing_level: Callable[[Call], int]


def set_batching(
    kind: type[Any], run: Callable[[CallPlan, Sequence[Any], Sequence[Any], int], list[Any]], drawing_level: Callable[[Call], int]
) -> None:
    """Called once, when ``vmap`` is first used: the class of batched tensors, what runs a plan on them, and whose call draws numbers."""
    global _batched, _run_batched, _drawing_level
    _batched, _run_batched, _drawing_level = kind, run, drawing_level


def level_of(tensors: Sequence[Any]) -> int:
    """The innermost ``vmap`` that one of the tensors belongs to; 0 when all are plain."""
    return 0 if _batched is None else max([t.level for t in tensors if type(t) is _batched], default=0)


def whole(tensor: Any) -> Any:
    """A tensor with all places of the batches that it stands for: for questions whose answer may be the same for all of them."""
    while level_of([tensor]):
        tensor = tensor.value
    return tensor


def _level_of_call(call: Call) -> int:
    """The innermost ``vmap`` that has to run a call."""
    if _batched is None:
        return 0
    return max(level_of(call.tensors), _drawing_level(call) if context.batching else 0)


# -- plans ----------------------------------------------------------------------------------------------
_plans: dict[Any, CallPlan] = {}
forget_with_default_float(_plans.clear)


def wants_gradient(tensor: TensorBase) -> bool:
    """Whether results computed from the tensor take part in autograd."""
    view = tensor.view_of
    if view is not None and tensor.seen_version != tensor.memory.version:
        refresh(tensor)
    return tensor._requires_grad


def wanted_of(tensors: Sequence[TensorBase], level: int = 0) -> tuple[bool, ...]:
    """Which tensors take part in autograd, or () when none does. In a ``vmap`` only what belongs to it does, the rest further outside."""
    if not context.grad_enabled:
        return ()
    marks = tuple([t.meta.dtype.is_inexact and (not level or _belongs(t, level)) and wants_gradient(t) for t in tensors])
    return marks if True in marks else ()


def _belongs(tensor: Any, level: int) -> bool:
    return type(tensor) is _batched and tensor.level == level


def plan_call(
    call: Call, wanted: tuple[bool, ...], into: int | None = None, cast_to: dtype | None = None, bound: bool = True
) -> CallPlan:
    """The plan of an operator call, made now if these metas are new."""
    key = (call.key(), wanted, into, cast_to, bound)
    found = _plans.get(key)
    if found is None:
        if len({t.meta.device for t in call.tensors}) > 1:
            _bring_numbers(call)
            key = (call.key(), wanted, into, cast_to, bound)
        found = _plans[key] = _plans.get(key) or _new_plan(call, wanted, into, cast_to, bound)
    return found


def _bring_numbers(call: Call) -> None:
    """Move 0-d tensors of the CPU to where the other operands are, as torch lets them mix."""
    gpu = next((t.meta.device for t in call.tensors if t.meta.device is not cpu), cpu)
    written = _mutated(call)
    for i, tensor in enumerate(call.tensors):
        if tensor.meta.device is cpu and not tensor.meta.shape and i not in written:
            call.tensors[i] = tensor.to(gpu)


def _new_plan(call: Call, wanted: tuple[bool, ...], into: int | None, cast_to: dtype | None, bound: bool) -> CallPlan:
    operator = call.operator
    metas = tuple(t.meta for t in call.tensors)
    seen = fold_operands(operator, metas)
    folding = seen if bound else None
    mutated = _mutated(call)
    traced, sizes = programs.find(
        operator,
        call.template,
        metas,
        [False] * len(metas),
        [number_kind(n) for n in call.numbers],
        call.sizes,
        folding,
        cast_to,
        mutated,
    )
    count = len(traced.function.graph.outputs)
    graph = traced.function.graph
    # What a body returns as it got it has not changed: batch_norm's running numbers in evaluation.
    changed = [None if graph.outputs[k] is graph.inputs[position] else position for k, position in enumerate(mutated)]
    targets: tuple[int | None, ...] = (into,) * count if into is not None else (*changed, *(None,) * (count - len(mutated)))
    if seen is not None and into is not None and seen.shape != metas[into].shape:
        raise RuntimeError(
            f"{operator.name}_: output with shape {list(metas[into].shape)} doesn't match the broadcast shape {list(seen.shape)}"
        )
    plan = make_plan(
        traced.function, traced.structure, metas, sizes, [folding] * len(metas), [(folding, None)] * count, wanted,
        targets if any(t is not None for t in targets) else (), views="only" if operator.kind in ("view", "reshape") else "never",
        bound=bound,
    )  # fmt: skip
    plan.kind = operator.kind if operator.kind in ("view", "reshape") else "general"
    if operator.kind == "reshape" and plan.run.views is None and bound:  # a row-major copy in the old shape is one in the new shape too
        copy = plan_call(Call(ALL["clone"], tensor_slots(0, 1), call.tensors[:1], [], []), ()).run
        plan.run = RunPlan(plan.run.function, copy.bound, plan.run.outputs, None, copy.into)
    return plan


def _mutated(call: Call) -> tuple[int, ...]:
    """The positions of the tensors that the operator changes in place."""
    operator = call.operator
    return tuple(s.index for name in operator.mutates for s in slots_of(call.template[operator.names.index(name)]))


def slots_of(template: Any) -> list[TensorSlot]:
    """The tensor slots in a template, in order."""
    if isinstance(template, TensorSlot):
        return [template]
    return [s for part in template for s in slots_of(part)] if isinstance(template, tuple) else []


# -- calls ----------------------------------------------------------------------------------------------
def dispatch(operator: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Run ``operator`` on tensors: what ``ops.softmax(x, 1)`` does."""
    if context.operator_modes:
        return operator_modes.ask(operator, args, kwargs)
    if context.autocast:
        args, kwargs = autocasting.cast_operands(operator, args, kwargs)
    try:
        call = take_apart(operator, args, kwargs)
    except overriding.Met as met:
        return met.result
    if context.capture is None or _level_of_call(call):
        return run_call(call)
    return context.capture.call(call)


def _no_view(call: Call) -> RuntimeError:
    """What is raised where the elements do not lie so that the view needs no copy."""
    source = call.tensors[0].meta
    lies = f"input tensor's size {list(source.shape)} and stride {list(source.strides)}"
    sizes = call.template[1] if len(call.template) > 1 else None
    if not isinstance(sizes, tuple):
        return RuntimeError(f"{call.operator.name}: the view is not compatible with {lies}; call contiguous() first")
    asked = [call.sizes[s.index] if isinstance(s, SizeSlot) else s for s in sizes]
    asked = [source.numel // -math.prod(asked) if size == -1 else size for size in asked]
    return RuntimeError(f"{call.operator.name}: size {asked} is not compatible with {lies}. Use .reshape(...) instead.")


def run_call(call: Call) -> Any:
    """Run a call now."""
    operator = call.operator
    level = _level_of_call(call)
    plan = plan_call(call, wanted_of(call.tensors, level), bound=not level)
    if operator.kind == "view" and plan.run.views is None and not level:
        raise _no_view(call)
    if operator.mutates:
        _forbid_overwriting(operator, plan, call)
    results = execute(plan, call.tensors, call.numbers, level)
    if plan.run.views is not None or (level and operator.kind in ("view", "reshape") and results[0].memory is call.tensors[0].memory):
        for output, result in enumerate(results):
            _mark_view(result, call, output)
    counters["eager_calls"] += 1
    return restructure(plan.structure, results)


_perform: Callable[[int, Any, Any], list[Any] | None]
_bind: Callable[[CallPlan], int] | None = None


def set_performer(perform: Callable[[int, Any, Any], list[Any] | None], bind: Callable[[CallPlan], int]) -> None:
    """Called once by native dispatch: what runs a plan by the address of its native form, and makes that."""
    global _perform, _bind
    _perform, _bind = perform, bind


def execute(plan: CallPlan, tensors: Sequence[Any], numbers: Sequence[Any], level: int = 0) -> list[Any]:
    """Run a plan, wrap the results, and record them when the plan says so; in its batched form when ``vmap`` runs it."""
    if level or _is_unbound(plan):
        batched = _run_batched(plan, tensors, numbers, level)
        if plan.derivative is not None:
            record(plan, tensors, numbers, batched)
        return batched[: plan.count]
    return _execute(plan, tensors, numbers) if context.profiler is None else context.profiler.run(plan, tensors, numbers, _execute)


def _execute(plan: CallPlan, tensors: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
    if plan.address < 0:
        plan.address = 0 if _bind is None else _bind(plan)
    if plan.address and not context.saved_hooks:
        found = _perform(plan.address, tensors, numbers)
        if found is not None:
            return found
    into = plan.run.into
    produced = run_plan(plan.run, tensors, numbers)
    results: list[Any] = []
    for k, operand in enumerate(produced):
        target = into[k] if into else None
        if target is None:
            results.append(new_tensor(operand.memory, operand.address, operand.meta))
        else:
            results.append(tensors[target])
            tensors[target].memory.version += tensors[target].uncounted() is None
    if plan.derivative is not None:
        record(plan, tensors, numbers, results)
    return results[: plan.count]


def _is_unbound(plan: CallPlan) -> bool:
    return plan.run.bound is None and plan.run.views is None


def record(plan: CallPlan, tensors: Sequence[Any], numbers: Sequence[Any], results: list[Any]) -> None:
    """Put an entry on the tape and make the results refer to it."""
    make = ConstantEntry if plan.derivative is CONSTANT else OperatorEntry
    entry = make(plan, tensors, numbers, results)
    if context.saved_hooks and make is OperatorEntry:
        pack_saved(entry)
    for output in plan.recorded:
        result = results[output]
        result.entry = entry
        result.output = output
        result._requires_grad = True


def _forbid_overwriting(operator: Operator, plan: CallPlan, call: Call) -> None:
    if not context.grad_enabled:
        return
    for target in plan.run.into:
        if target is not None:
            check_in_place(operator.name, call.tensors[target])


def check_in_place(name: str, target: TensorBase) -> None:
    """torch's errors for in-place changes that autograd cannot follow."""
    if not (context.grad_enabled and target._requires_grad):
        return
    if target.entry is None:
        raise RuntimeError(
            f"{name}: a leaf Variable that requires grad is being used in an in-place operation. Wrap the call in torch.no_grad() to "
            "change parameters, or work on a clone()."
        )
    base = target.view_of.base if target.view_of is not None else None
    if base is not None and base.entry is None and base._requires_grad:
        raise RuntimeError(f"{name}: a view of a leaf Variable that requires grad is being used in an in-place operation.")


def _mark_view(result: Any, call: Call, output: int) -> None:
    source = call.tensors[0]
    step = Step(call.operator, call.template, tuple(call.sizes), output)
    if source.view_of is None:
        result.view_of = View(source, (step,))
    else:
        result.view_of = View(source.view_of.base, (*source.view_of.steps, step))
    result.seen_version = result.memory.version


# -- backward -------------------------------------------------------------------------------------------
class OperatorEntry(Entry):
    """The tape entry of an operator call, or of a backward function that was itself recorded."""

    __slots__ = ()
    plan: CallPlan
    numbers: list[Any]
    saved: list[Saved] | list[Packed] | None

    def __init__(self, plan: CallPlan, tensors: Sequence[Any], numbers: Sequence[Any], results: list[Any]) -> None:
        edges = [edge_of(t) for t, w in zip(tensors, plan.wanted, strict=False) if w]
        super().__init__(edges, [r.meta for r in results[: plan.count]])
        derivative = plan.derivative
        assert isinstance(derivative, Derivative)
        self.plan = plan
        self.numbers = list(numbers)
        self.saved = [self._save(kind, i, plan, tensors, results) for kind, i in derivative.kept]

    @staticmethod
    def _save(kind: str, index: int, plan: CallPlan, tensors: Sequence[Any], results: list[Any]) -> Saved:
        if kind == "input":
            saved = Saved(tensors[index])
            if plan.run.into and index in plan.run.into:
                saved.version -= 1  # it has just been overwritten
            return saved
        result = results[index if kind == "output" else plan.count + index]
        result.count_changes()
        return Saved(_unrecorded(result), index if kind == "output" else -1)

    @property
    def _title(self) -> str:  # type: ignore[override]
        return entry_name(self.plan.run.function.name)

    def tensors(self, places: Sequence[int]) -> list[Any]:
        """The saved tensors in these places, checked; outputs of this entry with their place on the tape."""
        out: list[Any] = []
        for saved in [self.saved[i] for i in places] if self.saved else ():
            tensor = check_saved(self, saved)
            if saved.output >= 0 and context.grad_enabled:
                tensor = _unrecorded(tensor)
                tensor.entry, tensor.output, tensor._requires_grad = self, saved.output, True
            out.append(tensor)
        return out

    def apply(self, cotangents: list[TensorBase | None]) -> Sequence[TensorBase | None]:
        capture = context.capture
        closed = capture is not None and capture.ways.holds(self)
        packed = self.saved and isinstance(self.saved[0], Packed)
        found = None if closed or packed else _apply(self, cotangents)
        if found is not None:
            return found
        counters["eager_backwards"] += 1
        plan = self.plan
        derivative = plan.derivative
        assert isinstance(derivative, Derivative)
        if capture is not None and not closed and not _is_unbound(plan):
            capture.flush()  # what was saved before the capture differs from call to call
        present = [c for c, here in zip(cotangents, derivative.split.present, strict=True) if here]
        again = context.grad_enabled and len(derivative.split.extra) > len(derivative.split.constants)
        places: Sequence[int] = range(len(derivative.saved))
        if again or any(c is None for c in present):
            narrowed = self._narrowed(cotangents, derivative.split.constants if again else None)
            if narrowed is None:
                zero = new_zeros
                given = zip(cotangents, self.metas, derivative.split.present, strict=True)
                present = [zero(m) if c is None else c for c, m, here in given if here]
            else:
                derivative, places = narrowed
                present = [c for c in present if c is not None]
        if capture is not None and closed:
            return capture.run_backward(self, derivative, places, present)
        if self.saved is None and places:
            raise RuntimeError(SECOND_BACKWARD)
        numbers = [self.numbers[j] for j in derivative.saved_numbers]
        gradients = backward_call(plan, derivative, self.tensors(places), present, numbers, places)
        if plan.structure is None or None not in gradients or overwrites(plan):
            return gradients
        # As in torch, operands that the results do not change with have gradients of zeros.
        return [new_zeros(m) if g is None else g for g, m in zip(gradients, wanted_metas(plan), strict=True)]

    def _narrowed(self, cotangents: list[Any], extra: frozenset[Node] | None = None) -> tuple[Derivative, list[int]] | None:
        """The derivative for just the cotangents that came back, and which saved values it takes, if those are enough for it.

        With ``extra`` it starts from nothing else but inputs and outputs, whose own history a second derivative can follow.
        """
        full = self.plan.derivative
        assert isinstance(full, Derivative)
        present = tuple(c is not None for c in cotangents)
        narrow = full.function.derivative(self.plan.wanted, present, self.plan.sizes, extra, full.overwritten)
        if narrow is None or (narrow.given != full.given and extra is None and self.plan.structure is not None):
            return None
        extras = {node: i for i, node in enumerate(full.split.extra)}
        places = {origin: place for place, origin in enumerate(full.kept)}
        chosen: list[int] = []
        for kind, i in narrow.saved:
            origin = (kind, extras.get(narrow.split.extra[i], -1)) if kind == "extra" else (kind, i)
            if origin not in places and extra is not None:
                raise NotImplementedError(f"{self.name}: the second derivative needs values that were not saved; do not use create_graph")
            if origin not in places:
                return None
            chosen.append(places[origin])
        return narrow, chosen

    def release(self) -> None:
        if context.capture is not None and context.capture.ways.holds(self):
            context.capture.ways.release(self)
        elif self.saved:
            self.saved = None


def _unrecorded(tensor: Any) -> Any:
    """A tensor in the same place without history."""
    return tensor.alias() if type(tensor) is _batched else new_tensor(tensor.memory, tensor.address, tensor.meta)


class ConstantEntry(Entry):
    """The tape entry of an operator whose results do not change with its operands."""

    __slots__ = ()
    plan: CallPlan

    def __init__(self, plan: CallPlan, tensors: Sequence[Any], numbers: Sequence[Any], results: list[Any]) -> None:
        super().__init__([edge_of(t) for t, w in zip(tensors, plan.wanted, strict=False) if w], [r.meta for r in results[: plan.count]])
        self.plan = plan

    @property
    def _title(self) -> str:  # type: ignore[override]
        return entry_name(self.plan.run.function.name)

    def apply(self, cotangents: list[TensorBase | None]) -> Sequence[TensorBase | None]:
        return [new_zeros(meta) for meta in wanted_metas(self.plan)]


def overwrites(plan: CallPlan) -> bool:
    """Whether a result is written into an operand."""
    return any(target is not None for target in plan.run.into)


def wanted_metas(plan: CallPlan) -> list[TensorMeta]:
    """The metadata of the operands that gradients are wanted for."""
    return [m for m, w in zip(plan.metas, plan.wanted, strict=True) if w]


def entry_name(function: str) -> str:
    """torch's name for the entry of a function: ``exp`` gives ``ExpBackward0``."""
    words = function.split("_backward")
    stem = "".join(w[:1].upper() + w[1:] for w in words[0].split("_"))
    return stem + "Backward0" * len(words) if len(words) > 1 else stem + "Backward0"


def edge_of(tensor: TensorBase) -> tuple[Any, int] | None:
    """Where a gradient of the tensor goes."""
    if tensor.entry is not None:
        return tensor.entry, tensor.output
    return (tensor, 0) if tensor._requires_grad else None


def _no_native_form(*_: Any) -> None:
    return None


_apply: Callable[[Entry, list[Any]], list[Any] | None] = _no_native_form
_Remember = Callable[[CallPlan, Derivative, CallPlan, Sequence[TensorMeta], Sequence[int], Mapping[int, CallPlan]], None]
_remember: _Remember = _no_native_form


def set_backward(apply: Callable[[Entry, list[Any]], list[Any] | None], remember: _Remember) -> None:
    """Called once by native dispatch: what goes backward through an entry (None: Python has to), and learns how."""
    global _apply, _remember
    _apply, _remember = apply, remember


def backward_call(
    plan: CallPlan, derivative: Derivative, saved: list[Any], cotangents: list[Any], numbers: list[Any], places: Sequence[int]
) -> list[Any]:
    """Run a backward function (recorded like any call when grad mode is on); None where an input has no gradient."""
    outputs = [None if isinstance(r, TensorMeta) else r[0] for r in plan.results]
    foldings = [None if kind == "extra" else plan.foldings[i] if kind == "input" else outputs[i] for kind, i in derivative.saved]
    foldings += [f for f, here in zip(outputs, derivative.split.present, strict=False) if here]
    tensors = [*saved, *cotangents]
    given = tuple([t.meta for t in tensors])
    level = level_of(tensors)
    if level or _is_unbound(plan):
        return _backward_batched(plan, derivative, tensors, numbers, foldings, level)
    copies: dict[int, CallPlan] = {}
    for position, target in _copies(given, foldings).items():
        marks = wanted_of(tensors[position : position + 1])
        copy = copies[position] = plan.backward.get((given[position], target, marks)) or _copy_plan(given[position], target, marks)
        plan.backward[given[position], target, marks] = copy
        tensors[position] = execute(copy, [tensors[position]], [])[0]
    wanted = wanted_of(tensors)
    key = (derivative, given, wanted)
    found = plan.backward.get(key)
    if found is None:
        inputs = [(f, m) for f, m, w in zip(plan.foldings, plan.metas, plan.wanted, strict=True) if w]
        results: list[Result] = [(f, m.shape) for (f, m), given in zip(inputs, derivative.given, strict=True) if given]
        found = plan.backward[key] = make_plan(
            derivative.backward, None, tuple(t.meta for t in tensors), plan.sizes, foldings, results, wanted, views="maybe"
        )
        if not any(wanted):
            _remember(plan, derivative, found, given, places, copies)
    produced = execute(found, tensors, numbers)
    if found.run.views is not None:
        for result, view in zip(produced, found.run.views, strict=True):
            result.view_of = View(tensors[view.position], ())
            result.seen_version = result.memory.version
    gradients = iter(produced)
    return [next(gradients) if given else None for given in derivative.given]


def _backward_batched(
    plan: CallPlan, derivative: Derivative, tensors: list[Any], numbers: list[Any], foldings: Sequence[Folding | None], level: int
) -> list[Any]:
    """`backward_call` where ``vmap`` runs it."""
    # Without a ``vmap`` what runs is recorded further outside.
    wanted, metas = wanted_of(tensors, level) if level else (), tuple([t.meta for t in tensors])
    key = (derivative, metas, wanted, "batched")
    found = plan.backward.get(key)
    if found is None:
        inputs = [(f, m) for f, m, w in zip(plan.foldings, plan.metas, plan.wanted, strict=True) if w]
        results = [(f, m.shape) for (f, m), given in zip(inputs, derivative.given, strict=True) if given]
        function, sizes = derivative.backward, plan.sizes
        if any(f is not None for f in (*foldings, *(f for f, _ in results))):
            function, sizes = unfolded(function, sizes, [m.shape for m in metas], foldings, results), {}
        found = plan.backward[key] = make_plan(
            function, None, metas, sizes, [None] * len(metas), [(None, None)] * len(results), wanted, bound=False
        )
    gradients = iter(execute(found, tensors, numbers, level))
    return [next(gradients) if given else None for given in derivative.given]


def _copies(metas: Sequence[TensorMeta], foldings: Sequence[Folding | None]) -> dict[int, TensorMeta]:
    """By position what does not fold, and how a copy that does is laid out: in the folding's order of axes."""
    found: dict[int, TensorMeta] = {}
    for position, (meta, folding) in enumerate(zip(metas, foldings, strict=True)):
        if folding is not None and folding.fold(meta.shape, meta.strides) is None:
            found[position] = unfolded_meta(folding, meta.shape, meta.dtype, meta.device)
    return found


def _copy_plan(source: TensorMeta, target: TensorMeta, wanted: tuple[bool, ...]) -> CallPlan:
    """The plan of a copy that is laid out like ``target``."""
    traced, sizes = programs.find(ALL["clone"], tensor_slots(0, 1), (source,), [False], [], [], None)
    return make_plan(traced.function, None, (source,), sizes, [None], [target], wanted)


# -- in-place changes -----------------------------------------------------------------------------------
def call_into(operator: Operator, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Run ``operator`` and write its result into ``target``, converted to its type: ``add_`` and ``out=``.

    The target may be an operand. Other operands that share its memory are read before it changes.
    """
    if context.operator_modes:
        return operator_modes.ask_into(call_into, operator, target, args, kwargs)
    try:
        call = take_apart(operator, args, kwargs)
    except overriding.Met as met:
        return met.result
    if context.capture is None or (_level_of_call(call) or level_of([target])):
        return run_into(call, target)
    return context.capture.call_into(call, target)


def run_into(call: Call, target: Any) -> Any:
    """``call_into`` now."""
    operator = call.operator
    check_in_place(operator.name, target)
    check_single_memory(operator.name, target)
    position = next((i for i, t in enumerate(call.tensors) if t is target), None)
    if operator.kind != "pointwise" or position is None:
        result = run_call(call)
        check_target(operator.name, result, target)
        return target if result is target else run_into(take_apart(ALL["assign"], (target, result), {}), target)
    _separate(call, target)
    level = _level_of_call(call)
    plan = plan_call(call, wanted_of(call.tensors, level), position, target.meta.dtype, not level)
    if plan.derivative is not None and ("input", position) in plan.derivative.saved:
        # Backward needs the value that is about to be overwritten: compute from a copy of it.
        tensors = [t if i != position else t.clone_contiguous() for i, t in enumerate(call.tensors)]
        result = run_call(Call(operator, call.template, tensors, call.numbers, call.sizes))
        return run_into(take_apart(ALL["assign"], (target, result), {}), target)
    history = (target.entry, target.output, target._requires_grad)
    execute(plan, call.tensors, call.numbers, level)
    if context.grad_enabled:
        _rebase(plan, target, history)
    counters["eager_calls"] += 1
    return target


def check_target(name: str, result: Any, target: Any) -> None:
    if not isinstance(result, TensorBase):
        raise NotImplementedError(f"{name}: out= with several results is not supported; copy_() the results instead")
    if not can_cast(result.meta.dtype, target.meta.dtype):
        raise RuntimeError(f"{name}: result type {result.meta.dtype} can't be cast to the desired output type {target.meta.dtype}")


def check_single_memory(name: str, target: Any) -> None:
    """torch's error for writing into an expanded tensor."""
    if any(stride == 0 and size > 1 for size, stride in zip(target.meta.shape, target.meta.strides, strict=True)):
        raise RuntimeError(
            f"{name}: unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please "
            "clone() the tensor before performing the operation."
        )


def _separate(call: Call, target: Any) -> None:
    """Copy operands that show the target's memory differently, since it is overwritten while they are read."""
    for i, tensor in enumerate(call.tensors):
        if tensor is target or tensor.memory is not target.memory:
            continue
        if tensor.address != target.address or tensor.meta is not target.meta:
            call.tensors[i] = tensor.clone()


def _rebase(plan: CallPlan, target: Any, history: tuple[Any, int, bool]) -> None:
    """Give an overwritten tensor its new history, and its base (if it is a view) one that goes through it."""
    if plan.derivative is None:
        if not history[2]:
            return
        target.entry, target.output, target._requires_grad = None, 0, False
    view = target.view_of
    if view is None:
        return
    base = view.base
    edges = [edge_of(base), edge_of(target)]
    base.entry, base.output, base._requires_grad = ViewWriteEntry(edges, base.meta, view), 0, True
    refresh(target)


class ViewWriteEntry(Entry):
    """The history of a base after one of its views was overwritten: edges (old base, new value)."""

    __slots__ = ("steps",)
    _title = "CopySlices"

    def __init__(self, edges: list[Any], meta: TensorMeta, view: View) -> None:
        super().__init__(edges, [meta])
        self.steps = view.steps

    def apply(self, cotangents: list[TensorBase | None]) -> Sequence[TensorBase | None]:
        (gradient,) = cotangents
        rest, for_value = run_graph(for_sizes(write_backward)(self.metas[0], self.steps), gradient)
        return rest, for_value if self.edges[1] is not None else None


class ViewReadEntry(Entry):
    """The history of a view of a base that was changed in place: edge (base)."""

    __slots__ = ("meta", "steps")
    _title = "AsStridedBackward0"

    def __init__(self, edge: tuple[Any, int] | None, base_meta: TensorMeta, meta: TensorMeta, view: View) -> None:
        super().__init__([edge], [meta])
        self.steps = view.steps
        self.meta = base_meta

    def apply(self, cotangents: list[TensorBase | None]) -> Sequence[TensorBase | None]:
        (gradient,) = cotangents
        return run_graph(for_sizes(read_backward)(self.meta, self.steps), gradient)


def for_sizes(make: Any) -> Any:
    """A function that makes one of the steps of a view; while sizes are recorded each is made anew, since that may decide about them."""
    return make if context.capture is None else make.__wrapped__


_graph_plans: dict[Any, CallPlan] = {}


def run_graph(function: GraphFunction, operand: Any) -> list[Any]:
    """Call a function of one tensor, of exactly the sizes that it was made for, like an operator."""
    level = level_of([operand])
    if context.capture is not None and not level:
        return context.capture.run_graph(function, operand)
    wanted = wanted_of([operand], level)
    key = (function, operand.meta, wanted, not level)
    plan = _graph_plans.get(key)
    if plan is None:
        results: list[Result] = [(None, None)] * len(function.graph.outputs)
        plan = _graph_plans[key] = make_plan(function, None, (operand.meta,), {}, [None], results, wanted, bound=not level)
    return execute(plan, [operand], [], level)


def run_batched_function(function: GraphFunction, sizes: Mapping[str, int], tensors: Sequence[Any]) -> list[Any]:
    """Call a function of tensors, of which some belong to a ``vmap``, like an operator."""
    level = level_of(tensors)
    metas, wanted = tuple([t.meta for t in tensors]), wanted_of(tensors, level)
    results: list[Result] = [(None, None)] * len(function.graph.outputs)
    plan = make_plan(function, None, metas, dict(sizes), [None] * len(metas), results, wanted, bound=False)
    return execute(plan, tensors, [], level)


def apply_steps(tensor: Any, steps: Sequence[Step]) -> Any:
    """The view of ``tensor`` that the steps make."""
    for step in steps:
        result = run_call(Call(step.operator, step.template, [tensor], [], list(step.sizes)))
        tensor = result if isinstance(result, TensorBase) else result[step.output]
    return tensor


def refresh(tensor: TensorBase) -> None:
    """Make a view's place on the tape right again after its base was changed in place."""
    view = tensor.view_of
    assert view is not None
    tensor.seen_version = tensor.memory.version
    base = view.base
    if view.steps and base.entry is not None and base.meta.dtype.is_inexact:
        tensor.entry = ViewReadEntry(edge_of(base), base.meta, tensor.meta, view)
        tensor.output, tensor._requires_grad = 0, True


def new_zeros(meta: TensorMeta) -> Any:
    """A tensor of zeros, row-major."""
    if context.capture is not None and context.capture.takes(meta.device):
        return context.capture.zeros(meta.shape, meta.dtype, meta.device)
    meta = meta if meta.contiguous else meta_of(meta.shape, meta.dtype, None, meta.device)
    memory = allocate(meta.device, meta.nbytes)
    fill_bytes(memory, 0, meta.device)
    return new_tensor(memory, memory.address, meta)


if not TYPE_CHECKING and (_native := library.load()) is not None:
    _native.hold("into_python", call_into)
    call_into = _native.function("operator_into", METH_FASTCALL)

__all__ = ["Call", "CallPlan", "Operand", "OperatorEntry", "backward_call", "dispatch", "execute", "record", "take_apart"]

set_dispatcher(dispatch)
