"""compile(): traces a function on its first call, replays the graph afterwards while the guards hold."""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from flambeau.capture import pytree
from flambeau.capture.guards import AmbientGuard, ModuleGuard, OutsideGuard
from flambeau.capture.recorder import Recorder, StorageState
from flambeau.capture.report import Explanation
from flambeau.capture.segment import Segment, close_segment, needs_history
from flambeau.capture.watch import Watch
from flambeau.core import events
from flambeau.core.context import context
from flambeau.core.events import counters
from flambeau.core.source_lines import user_line
from flambeau.tensor import dispatch
from flambeau.tensor.base import TensorBase
from flambeau.tensor.dispatch import ViewReadEntry, edge_of
from flambeau.tensor.native_graph import graph_entry
from flambeau.tensor.tape import SECOND_BACKWARD, Entry
from flambeau.tensor.views import View

RECOMPILE_LIMIT = 8
MISSED: Any = object()
_replays = [0]  # calls that replayed a program
counters.watch("compiled_calls", lambda: _replays[0])


class CannotTrace(Exception):
    """Why a function cannot be replayed as a graph."""


class ReleasedEntry(Entry):
    """The history of a result whose backward ran inside the compiled program."""

    __slots__ = ()
    name = "CompiledBackward0"

    def apply(self, cotangents: Any) -> Any:
        raise RuntimeError(SECOND_BACKWARD)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an input or leaf is found at a call: ``argument`` number, the ``gradient`` of a tensor, or ``held`` itself.

    A ``span`` has the ``meta`` and starts ``offset`` bytes before the argument.
    """

    kind: str
    index: int = -1
    tensor: Any = None
    offset: int = 0
    meta: Any = None

    def find(self, arguments: Sequence[Any]) -> Any:
        if self.kind == "argument":
            return arguments[self.index]
        if self.kind == "span":
            first = arguments[self.index]
            return dispatch.new_tensor(first.memory, first.address - self.offset, self.meta)
        return self.tensor._grad if self.kind == "gradient" else self.tensor


@dataclass(frozen=True, slots=True)
class Output:
    """A tensor that the program gives out: storage ``index`` seen with ``offset`` bytes and ``meta``, input or argument ``index``
    itself, or what ``view_of`` shows of an input."""

    kind: str  # storage, input, argument, view
    index: int
    offset: int = 0
    meta: Any = None
    released: bool = False
    view_of: Any = None
    history: bool = False  # takes part in autograd


@dataclass(eq=False)
class Artifact:
    """One compiled program with its guards."""

    segment: Segment
    description: Any
    metas: list[tuple[Any, bool]]
    origins: list[Origin]
    result: Any
    outputs: list[Output]
    gradients: list[tuple[Origin, int]]  # leaf, position in outputs (-1: None)
    gradient_guards: list[tuple[Origin, Any]]
    guards: list[Any]
    checks: list[tuple[Callable[[], Any], Any]]
    storages: int
    shared: list[tuple[Origin, Origin, int]]  # tensors in the memory of others, so many bytes after those
    runs: int = 0

    def __post_init__(self) -> None:
        self.call = self._quick_call()

    def _quick_call(self) -> Callable[[tuple[Any, ...]], Any] | None:
        """For functions of tensors alone, without effects, that give new tensors: all checks and the run in one short function.

        It gives ``MISSED`` when something is not as expected; `failed` then says what.
        """
        flat = pytree.flat_arguments(self.description)
        whole = all(
            o.kind == "storage" and o.index == i and self._is_whole(o) and o.meta is self.segment.states[i].meta
            for i, o in enumerate(self.outputs)
        ) and not self.segment.dropped
        if flat is None or not whole or self.shared or self.gradients or self.gradient_guards or self.checks or self.segment.numbers:
            return None
        if any(o.kind == "gradient" for o in self.origins):
            return None
        return self._native_call() or self._python_call(len(flat))

    def _native_call(self) -> Callable[[tuple[Any, ...]], Any] | None:
        """The short function with native checks; None where native code is off or cannot make one of the checks."""
        ambient, modules, outside = self.guards
        checks = outside.native_checks()
        if checks is None:
            return None
        sources = [("argument", o.index) if o.kind == "argument" else ("held", o.tensor) for o in self.origins]
        count = len(self.segment.states)
        entry = graph_entry(
            self.segment.plan, self.metas, sources, mode=ambient.bits, storages=self.storages, checks=[*checks, ambient.native_check()],
            returned=count,
        )  # fmt: skip
        if entry is None:
            return None
        result, single, watched = self.result, isinstance(self.result, pytree.Leaf), bool(modules.modules)

        def call(arguments: tuple[Any, ...]) -> Any:
            if watched and modules.failed() is not None:
                return MISSED
            found = entry(arguments)
            if found is NotImplemented:
                return MISSED
            self.runs += 1
            _replays[0] += 1
            return found[0] if single else pytree.put_together(result, found)

        return call

    def _python_call(self, count: int) -> Callable[[tuple[Any, ...]], Any]:
        """The short function for ``count`` tensors in Python."""
        expected = [(meta, grad) for meta, grad in self.metas]
        origins, held = self.origins, [o.tensor for o in self.origins]
        direct = [o.kind == "argument" and o.index == i for i, o in enumerate(origins)] == [True] * count
        plan, result, guards, storages = self.segment.plan, self.result, self.guards, self.storages
        metas, single = [t.meta for t in self.segment.inputs], isinstance(result, pytree.Leaf)

        def call(arguments: tuple[Any, ...]) -> Any:
            if len(arguments) != count or context.__dict__.get("capture") is not None:
                return MISSED
            for tensor, (meta, grad) in zip(arguments, expected, strict=True):
                if not isinstance(tensor, TensorBase) or tensor.meta is not meta or dispatch.wants_gradient(tensor) is not grad:
                    return MISSED
            tensors = list(arguments)
            if not direct:
                tensors = [arguments[o.index] if o.kind == "argument" else t for o, t in zip(origins, held, strict=True)]
                for tensor, meta in zip(tensors, metas, strict=True):
                    if tensor.meta is not meta:
                        return MISSED
            if len({id(t.memory) for t in tensors}) != storages:
                return MISSED
            for guard in guards:
                if guard.failed() is not None:
                    return MISSED
            made = dispatch.execute(plan, tensors, [])
            self.runs += 1
            _replays[0] += 1
            return made[0] if single else pytree.put_together(result, made)

        return call

    def failed(self, description: Any, arguments: list[Any]) -> str | None:
        """The guard that does not hold for this call, or None."""
        if description != self.description:
            given, known = _arguments_text(description), _arguments_text(self.description)
            return f"the arguments are of another kind or value: {given}, compiled for {known}"
        for i, (tensor, (meta, grad)) in enumerate(zip(arguments, self.metas, strict=True)):
            if tensor.meta is not meta:
                return f"argument tensor {i} is {tensor.meta!r}, compiled for {meta!r}"
            if dispatch.wants_gradient(tensor) != grad:
                return f"argument tensor {i} has requires_grad={not grad}, compiled for {grad}"
        for guard in self.guards:
            reason = guard.failed()
            if reason is not None:
                return reason
        for read, value in self.checks:
            if read() != value:
                return f"a setting changed from {value!r} to {read()!r}"
        for origin, meta in self.gradient_guards:
            found = origin.find(arguments)._grad
            if (None if found is None else found.meta) is not meta:
                return ".grad of a leaf is set where it was None, or the other way round"
        tensors = [o.find(arguments) for o in self.origins]
        for tensor, node in zip(tensors, self.segment.inputs, strict=True):
            if tensor is None or tensor.meta is not node.meta:
                return "a tensor that it uses changed its shape, dtype or strides"
        if len({id(t.memory) for t in tensors}) != self.storages:
            return "tensors share memory in another way than at the first call"
        for part, owner, distance in self.shared:
            a, b = part.find(arguments), owner.find(arguments)
            if a.memory is not b.memory or a.address - b.address != distance:
                return "tensors share memory in another way than at the first call"
        return None

    def run(self, arguments: list[Any]) -> Any:
        """Replay."""
        self.runs += 1
        _replays[0] += 1
        tensors = [o.find(arguments) for o in self.origins]
        made = self.segment.run(tensors, [read() for read in self.segment.numbers])
        values = [arguments[o.index] if o.kind == "argument" else self._output(o, made, tensors) for o in self.outputs]
        for origin, position in self.gradients:
            origin.find(arguments)._grad = None if position < 0 else values[position]
        return pytree.put_together(self.result, values)

    def _is_whole(self, output: Output) -> bool:
        """Whether an output is a storage just as the plan gives it."""
        plan = self.segment.plan
        recorded = plan.derivative is not None and output.index in plan.recorded
        return output.offset == 0 and output.view_of is None and not output.released and output.history == recorded

    def _output(self, output: Output, made: list[Any], tensors: list[Any]) -> Any:
        if output.kind == "input":
            return tensors[output.index]
        if output.kind == "view":
            return dispatch.apply_steps(tensors[output.index], output.view_of.steps)
        whole = made[output.index]
        if self._is_whole(output) and output.meta is whole.meta:
            return whole
        part = dispatch.new_tensor(whole.memory, whole.address + output.offset, output.meta)
        if output.released:
            part.entry, part.output, part._requires_grad = ReleasedEntry([], [part.meta]), 0, True
        elif output.view_of is not None:
            part.view_of = View(whole, output.view_of.steps)
            part.seen_version = part.memory.version
            if output.history:
                part.entry, part.output, part._requires_grad = ViewReadEntry(edge_of(whole), whole.meta, part.meta, part.view_of), 0, True
        elif output.history:
            part.entry, part.output, part._requires_grad = whole.entry, whole.output, True
        return part


def _arguments_text(description: Any) -> str:
    text = repr(description)
    return text if len(text) < 100 else text[:97] + "..."


@dataclass(eq=False)
class CompiledFunction:
    """What ``compile`` returns for a function: call it like the function.

    ``explain()`` tells what was compiled, what it relies on, and why calls were compiled again or run eagerly.
    """

    function: Callable[..., Any]
    fullgraph: bool = False
    disabled: bool = False
    recompile_limit: int = RECOMPILE_LIMIT
    artifacts: list[Artifact] = field(default_factory=list)
    eager_reason: str | None = None
    history: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        functools.update_wrapper(self, self.function)
        self._torchdynamo_orig_callable = self.function
        self._quick: Callable[[tuple[Any, ...]], Any] | None = None
        self.name = getattr(self.function, "__qualname__", type(self.function).__name__)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._quick is not None and not kwargs:
            found = self._quick(args)
            if found is not MISSED:
                return found
        if context.capture is not None or self.disabled or self.eager_reason is not None:
            return self.function(*args, **kwargs)
        tensors: list[Any] = []
        description = pytree.take_apart((args, kwargs), tensors)
        reasons: list[str] = []
        for artifact in self.artifacts:
            reason = artifact.failed(description, tensors)
            if reason is None:
                self._quick = artifact.call
                return artifact.run(tensors)
            reasons.append(reason)
        if reasons:
            self._note("recompile", f"compiled again: {reasons[-1]}")
        if len(self.artifacts) >= self.recompile_limit:
            self._go_eager(f"{self.recompile_limit} versions were compiled and none fits; the last guard that failed: {reasons[-1]}")
            return self.function(*args, **kwargs)
        return _Tracing(self, args, kwargs, description, tensors).run()

    def explain(self) -> Explanation:
        """What was compiled and why: graphs, kernels, guards, memory, recompiles. Print it."""
        return Explanation(self)

    def _note(self, kind: str, text: str) -> None:
        self.history.append(text)
        events.emit(kind, function=self.name, note=text)

    def _go_eager(self, reason: str) -> None:
        if self.fullgraph:
            raise RuntimeError(f"compile(fullgraph=True): {self.name} cannot be compiled as one graph: {reason}")
        self.eager_reason = reason
        self._note("runs_eagerly", f"runs eagerly: {reason}")
        events.emit("captured", compiled=self, plan=None)
        print(f"flambeau.compile: {self.name} runs eagerly: {reason}", file=sys.stderr)


class _Tracing:
    """The first run of a function with these arguments."""

    def __init__(self, owner: CompiledFunction, args: Any, kwargs: Any, description: Any, tensors: list[Any]) -> None:
        self.owner = owner
        self.args = args
        self.kwargs = kwargs
        self.description = description
        self.tensors = tensors
        self.recorder = Recorder()
        self.recorder.on_value = self._value_needed
        self.broken: str | None = None

    def run(self) -> Any:
        recorder = self.recorder
        metas = [(t.meta, dispatch.wants_gradient(t)) for t in self.tensors]
        recorder.declare(self.tensors)
        watch = Watch(self.owner.function, (self.args, self.kwargs))
        ambient = AmbientGuard()
        context.capture = recorder
        try:
            with watch:
                result = self.owner.function(*self.args, **self.kwargs)
        except BaseException:
            if context.capture is recorder:
                context.capture = None
                self._run_segment(recorder)
            raise
        if context.capture is recorder:
            context.capture = None
        if self.broken is not None:
            self.owner._go_eager(self.broken)
            return result
        reason = watch.reason
        try:
            reason = reason or ambient.failed()
            if reason is not None:
                raise CannotTrace(reason)
            self._keep(result, metas, watch, ambient)
        except CannotTrace as error:
            self.owner._go_eager(str(error))
            if context.capture is None and any(s.tensor is None for s in recorder.states.values()):
                self._run_segment(recorder)
        return result

    def _value_needed(self, reason: str) -> None:
        """A value is asked for in the middle: run what there is, go on eagerly."""
        self.broken = f"{reason} ({user_line()})"
        context.capture = None
        self._run_segment(self.recorder)

    def _run_segment(self, recorder: Recorder) -> Segment:
        segment = close_segment(recorder, self.owner.name)
        segment.run_first(recorder)
        return segment

    def _keep(self, result: Any, metas: list[tuple[Any, bool]], watch: Watch, ambient: AmbientGuard) -> None:
        """Turn the recording into an artifact, run it for this first call, and give the tensors their memory."""
        recorder, owner = self.recorder, self.owner
        returned: list[Any] = []
        structure = pytree.take_apart(result, returned)
        if not pytree.is_static(structure):
            raise CannotTrace("it returns something other than tensors, numbers, strings, None and containers of them")
        recorder.forget_inner_gradients()
        seen = list(recorder.gradients_seen.values())
        leaves = [(leaf, leaf._grad) for leaf, old, _ in seen if leaf._grad is not old]
        if any(t.entry is None and t._grad is not None and t.memory.pending is not None for t in returned):
            raise CannotTrace("it returns a tensor made inside together with its gradient")
        visible = returned + [g for _, g in leaves if g is not None]
        segment = close_segment(recorder, owner.name)
        self._check_escapes(segment, visible)
        outputs = [self._output(t, segment) for t in visible]
        positions = iter(range(len(returned), len(visible)))
        gradients = [(self._origin(leaf), -1 if g is None else next(positions)) for leaf, g in leaves]
        guards = [(self._origin(leaf), None if old is None else old.meta) for leaf, old, read in seen if read]
        origins = [self._origin(t, seen) for t in segment.inputs]
        artifact = Artifact(
            segment, self.description, metas, origins, structure, outputs, gradients, guards,
            [ambient, ModuleGuard(recorder.modules.values()), OutsideGuard(owner.function, watch.codes, recorder.modules.values())],
            recorder.guards, len({id(t.memory) for t in segment.inputs}), self._shared(),
        )  # fmt: skip
        counters["captures"] += 1
        segment.run_first(recorder)
        owner.artifacts.append(artifact)
        events.emit("compile", function=owner.name, version=len(owner.artifacts) - 1, operators=recorder.calls)
        events.emit("captured", compiled=owner, plan=segment.plan)

    def _shared(self) -> list[tuple[Origin, Origin, int]]:
        """What has to stay where it is relative to another tensor; of two tensors that the function holds it does."""
        places = [(self._origin(part), self._origin(owner), part.address - owner.address) for part, owner in self.recorder.shared]
        return [(a, b, distance) for a, b, distance in places if a.kind != "held" or b.kind != "held"]

    def _origin(self, tensor: Any, seen: Sequence[tuple[Any, Any, bool]] = ()) -> Origin:
        for i, argument in enumerate(self.tensors):
            if argument is tensor:
                return Origin("argument", i)
        for leaf, old, _ in seen:
            if old is tensor:
                return Origin("gradient", tensor=leaf)
        for span, first in self.recorder.spans:
            if span is tensor:
                return Origin("span", self._origin(first).index, offset=first.address - span.address, meta=span.meta)
        return Origin("held", tensor=tensor)

    def _check_escapes(self, segment: Segment, visible: list[Any]) -> None:
        """Every storage made inside that is still alive must be a result or a gradient."""
        known = {id(t.memory) for t in visible}

        def escaped() -> list[StorageState]:
            return [s for s in segment.states if id(s.storage()) not in known and any(v() is not None for v in s.viewers)]

        if escaped() and gc.collect() >= 0 and escaped():
            raise CannotTrace("a tensor computed inside is kept somewhere outside the function (an attribute, a list, a global)")

    def _output(self, tensor: Any, segment: Segment) -> Output:
        for k, state in enumerate(segment.states):
            if state.storage() is tensor.memory:
                released = tensor.entry is not None and not needs_history(tensor)
                return Output("storage", k, tensor.address, tensor.meta, released, tensor.view_of, needs_history(tensor))
        for i, known in enumerate(segment.inputs):
            if known is tensor:
                return Output("input", i)
            if tensor.view_of is not None and tensor.view_of.base is known and tensor.view_of.steps:
                return Output("view", i, view_of=tensor.view_of)
        for i, argument in enumerate(self.tensors):
            if argument is tensor:
                return Output("argument", i)
        raise CannotTrace("it returns a tensor that it neither computes nor was given")
