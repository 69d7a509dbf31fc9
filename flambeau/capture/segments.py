"""Segments of a line: the recorder's graph becomes a step that runs it, and every tensor that it computes gets a variable."""

from __future__ import annotations

import operator
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flambeau.capture.recorder import Recorder
from flambeau.capture.regions import same_offset
from flambeau.capture.segment import (
    MOST_PLANS,
    Segment,
    close_segment,
    from_inner_leaves,
    has_new_history,
    needs_history,
    settle_views,
)
from flambeau.capture.sizes import at_hand, expressions
from flambeau.capture.trace import Trace
from flambeau.capture.tree import Check, Tree
from flambeau.core.context import context
from flambeau.runtime.storage import TensorMeta
from flambeau.tensor import dispatch
from flambeau.tensor.dispatch import CallPlan, OperatorEntry, ViewReadEntry, edge_of
from flambeau.tensor.tape import SECOND_BACKWARD, Entry, LostEntry, Packed
from flambeau.tensor.tensor_class import Tensor
from flambeau.tensor.views import View

__all__ = ["ReleasedEntry", "Result", "Runner", "Writer"]


class ReleasedEntry(Entry):
    """The history of a result whose backward ran inside the compiled program."""

    __slots__ = ()
    _title = "CompiledBackward0"

    def apply(self, cotangents: Any) -> Any:
        raise RuntimeError(SECOND_BACKWARD)


@dataclass(frozen=True, slots=True)
class Result:
    """A tensor over storage ``index`` of a segment: where in it, with which metadata, and what its history is."""

    index: int
    offset: Any
    meta: TensorMeta
    stopped: type[Entry] | None  # where its history ends
    steps: Any  # of a view
    history: bool
    leaf: bool  # a leaf that requires gradients
    kind: type

    def is_whole(self, recorded: bool, meta: TensorMeta) -> bool:
        """Whether it is just what the segment makes."""
        plain = self.offset == 0 and self.steps is None and self.stopped is None and not self.leaf and self.kind is Tensor
        return plain and self.history == recorded and self.meta is meta

    def at(self, sizes: dict[str, int]) -> Result:
        """The same for these sizes."""
        return replace(self, offset=at_hand(self.offset, sizes), meta=at_hand(self.meta, sizes), steps=at_hand(self.steps, sizes))

    def of(self, whole: Any, recorded: bool, first: bool = True) -> Any:
        """The tensor, of what the segment made; the ``first`` one over it may be that itself."""
        if first and self.is_whole(recorded, whole.meta):
            return whole
        part = dispatch.new_tensor(whole.memory, whole.address + self.offset, self.meta)
        if self.kind is not Tensor:
            part = Tensor._make_subclass(self.kind, part, False)
        if self.stopped is not None:
            part.entry, part.output, part._requires_grad = self.stopped([], [part.meta]), 0, True
        elif self.steps is not None:
            part.view_of = View(whole, self.steps)
            part.seen_version = part.memory.version
            if self.history:
                part.entry, part.output, part._requires_grad = ViewReadEntry(edge_of(whole), whole.meta, part.meta, part.view_of), 0, True
        elif self.history:
            part.entry, part.output, part._requires_grad = whole.entry, whole.output, True
        elif self.leaf:
            part._requires_grad = True
        return part


def firsts(results: Sequence[Result]) -> list[bool]:
    """Which results are the first ones over their storages."""
    seen: set[int] = set()
    return [not (r.index in seen or seen.add(r.index)) for r in results]


@dataclass(slots=True)
class Shapes:
    """What of a runner depends on sizes."""

    metas: list[tuple[TensorMeta, bool]]
    shared: list[tuple[int, int, Any]]  # this input lies so many bytes after that one
    results: list[Result]

    def at(self, sizes: dict[str, int]) -> Shapes:
        """The same for these sizes."""
        metas = [(at_hand(m, sizes), g) for m, g in self.metas]
        return Shapes(metas, [(a, b, at_hand(n, sizes)) for a, b, n in self.shared], [r.at(sizes) for r in self.results])


@dataclass(eq=False)
class Runner:
    """What the step of a segment calls: ``fits`` tells whether it may run on these tensors, ``run`` gives its results.

    ``sizes`` names the symbols in its shapes, whose values both are given.
    """

    segment: Segment
    metas: list[tuple[TensorMeta, bool]]
    storages: int
    shared: list[tuple[int, int, Any]]
    results: list[Result]
    serials: list[tuple[int, int]]  # of each result: the number of its storage, and of the tensor over it
    operators: int = 0
    names: list[str] = field(default_factory=list)  # of the inputs
    sizes: tuple[str, ...] = ()
    counted: array[int] = field(default_factory=lambda: array("q", [0]))  # how often it ran; native code counts here too
    launches: dict[tuple[int, ...], Any] = field(default_factory=dict)  # by sizes: what native code runs it by
    _shapes: dict[tuple[int, ...], Shapes] = field(default_factory=dict)

    def shapes(self, sizes: tuple[int, ...]) -> Shapes:
        """What depends on sizes, for these."""
        found = self._shapes.get(sizes)
        if found is None:
            if len(self._shapes) >= MOST_PLANS:
                self._shapes.clear()
            values = dict(zip(self.sizes, sizes, strict=True))
            found = self._shapes[sizes] = Shapes(self.metas, self.shared, self.results).at(values)
        return found

    def fits(self, sizes: tuple[int, ...], *tensors: Any) -> bool:
        """Whether the tensors, inputs first and then those that lie in the memory of inputs, are as they were recorded."""
        shapes = self.shapes(sizes)
        inputs = tensors[: len(self.metas)]
        for tensor, (meta, grad) in zip(inputs, shapes.metas, strict=True):
            if tensor.meta is not meta or dispatch.wants_gradient(tensor) is not grad:
                return False
        if len({id(t.memory) for t in inputs}) != self.storages:
            return False
        if not all(tensors[a].memory is tensors[b].memory and tensors[a].address - tensors[b].address == n for a, b, n in shapes.shared):
            return False
        try:
            self.segment.plan_for(self.segment_sizes(sizes))
        except NotImplementedError:
            return False  # it cannot be made for these
        return True

    def segment_sizes(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """The values of the symbols that the segment itself speaks of."""
        segment = self.segment.sizes
        return sizes if segment is self.sizes else tuple([sizes[self.sizes.index(n)] for n in segment])

    def run(self, sizes: tuple[int, ...], tensors: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """Run, and make the tensors that somebody can see afterwards."""
        self.counted[0] += 1
        inner = self.segment_sizes(sizes)
        return self.take(self.segment.plan_for(inner), self.segment.run(list(tensors), list(numbers), inner), self.shapes(sizes).results)

    @property
    def runs(self) -> int:
        """How often the segment ran."""
        return self.counted[0]

    def blame(self, sizes: tuple[int, ...], tensors: Sequence[Any], numbers: Sequence[Any]) -> None:
        """After a run that raised: raise the error of the operator that it comes from."""
        self.segment.blame(list(tensors), list(numbers), self.segment_sizes(sizes))

    @staticmethod
    def take(plan: CallPlan, made: list[Any], results: list[Result]) -> list[Any]:
        """The results, over the storages that a run made."""
        recorded = plan.recorded if plan.derivative is not None else ()
        return [r.of(made[r.index], r.index in recorded, first) for r, first in zip(results, firsts(results), strict=True)]


class Writer:
    """Closes recordings of one trace, and knows the variables of tensors."""

    def __init__(self, trace: Trace, new_recorder: Any, own: dict[int, Any]) -> None:
        self.trace = trace
        self.own = own  # the tape entries of segments, by id
        self.new_recorder = new_recorder
        self.entries: list[tuple[str, Any]] = []  # a variable and the tape entry behind it, of each segment that is differentiable
        self.gradients: dict[int, str] = {}  # the variables of what leaves had as gradients when they were first looked at
        self.name_of: Callable[[Any], str] = repr  # names any value
        self.recorder: Recorder = new_recorder()

    @property
    def recording(self) -> bool:
        """Whether operator calls go to the recorder."""
        return context.capture is self.recorder

    # -- names of tensors -------------------------------------------------------------------------------
    def name(self, tensor: Any) -> str:
        """The variable of a tensor; a pending one is computed now."""
        trace = self.trace
        if tensor.memory.pending is not None:
            self.flush()
        found = trace.known.get(id(tensor))
        if found is not None:
            return found[0]
        if not trace.recording:
            return ""
        if tensor.view_of is not None:
            return self._view(tensor)
        beside = trace.by_memory.get(id(tensor.memory), ())
        for name, known in beside:
            if known.view_of is not None and known.view_of.base is tensor:
                made, value = trace.step(f"{name}.view_of.base", lambda: tensor)
                trace.know(tensor, made)
                trace.know_also(value, made)
                return made
        if trace.was_made(tensor):
            source = self.recorder.sources.get(id(tensor), (None, None))[1]
            alike = [(name, known) for name, known in beside if known.meta.dtype is tensor.meta.dtype]
            alike.sort(key=lambda pair: not same_offset(trace.sizes.offset(pair[1]), trace.sizes.offset(tensor)))
            if alike or source is not None:
                return self._alias(tensor, *(alike[0] if alike else (self.name(source), source)))
        trace.know(tensor, trace.tree.constant(tensor))
        return trace.known[id(tensor)][0]

    def is_foreign(self, tensor: Any) -> bool:
        """Whether a tensor without a name was there before: it shows no other one, and nothing recorded has made it."""
        recorder, made = self.recorder, tensor.memory.pending is not None or tensor.view_of is not None
        return not (made or id(tensor) in recorder._made or id(tensor) in recorder.sources or id(tensor.memory) in self.trace.by_memory)

    def _view(self, tensor: Any) -> str:
        trace, view = self.trace, tensor.view_of
        base, steps = "", view.steps
        for name, known in trace.by_memory.get(id(tensor.memory), ()):  # what it is a view of may be one itself
            shown = known.view_of
            if shown is not None and shown.base is view.base and known is not tensor:
                if all(map(operator.is_, shown.steps, view.steps)) and len(shown.steps) < len(view.steps):
                    base, steps = name, view.steps[len(shown.steps) :]
        name, value = trace.step(self._at_sizes(dispatch.apply_steps, base or self.name(view.base), (steps,)), lambda: tensor)
        trace.know(tensor, name)
        trace.know_also(value, name)
        trace.sizes.liken(value, tensor)
        return name

    def _alias(self, tensor: Any, name: str, known: Any) -> str:
        trace = self.trace
        sizes = trace.sizes
        leaf = tensor._requires_grad and tensor.entry is None
        parts = (sizes.offset(tensor) - sizes.offset(known), sizes.meta(tensor), type(tensor), leaf)
        made, value = trace.step(self._at_sizes(alias, name, parts), lambda: tensor)
        trace.know(tensor, made)
        trace.know_also(value, made)
        sizes.liken(value, tensor)
        return made

    def redo_gradient(self, leaf: Any, gradient: Any) -> None:
        """Once live: the gradient that the replay left, unless it is being recorded anew."""
        if id(leaf) not in self.recorder.gradients_seen:
            leaf._grad = gradient

    def _at_sizes(self, function: Callable[..., Any], name: str, parts: tuple[Any, ...]) -> str:
        """A call of a function of a tensor and parts that may speak of sizes."""
        trace = self.trace
        symbols = {a.name for e in expressions(parts) for a in e.atoms}
        used = [n for n in trace.sizes.names if n in symbols]
        given = ", ".join([name, *[trace.sizes.names[n] for n in used]])
        return f"{trace.tree.constant(AtSizes(function, parts, tuple(used)))}({given})"

    # -- the end of a segment ---------------------------------------------------------------------------
    def flush(self) -> None:
        """Run the recording; the step, the checks that it needs and the effects that waited for it are written."""
        trace, recorder = self.trace, self.recorder
        trace.lasts()
        if not trace.recording:
            trace.deferred = []
            return
        if recorder.calls or recorder.gradients_seen or any(s.tensor is None for s in recorder.states.values()):
            self.recorder = self.new_recorder()
            context.capture = None
            trace.let_go()
            try:
                _Closing(self, recorder).run()
            finally:
                context.capture = self.recorder if trace.recording else None
        elif recorder.inputs and context.capture is recorder:  # what it has read may by now be seen with other marks
            context.capture = self.recorder = self.new_recorder()
        trace.emit_deferred()

    def run_pending(self) -> None:
        """Run the recording, with no step for it."""
        recorder, context.capture = self.recorder, None
        recorder.forget_inner_gradients()
        if recorder.computes():
            with self.trace.sizes.apart():
                close_in(self.trace.tree, recorder).run_first(recorder)

    def stop(self) -> None:
        """Recording has ended: operators run."""
        if not self.trace.recording and context.capture is self.recorder:
            context.capture = None


def close_in(tree: Tree, recorder: Recorder) -> Segment:
    """A segment as the compiled function wants them."""
    return close_segment(recorder, tree.name, tree.backend, tree.shadow)


class _Closing:
    """One flush."""

    def __init__(self, writer: Writer, recorder: Recorder) -> None:
        self.writer = writer
        self.trace = writer.trace
        self.recorder = recorder
        recorder.forget_inner_gradients()
        self.seen = list(recorder.gradients_seen.values())
        self.changed = [(leaf, leaf._grad) for leaf, old, read in self.seen if leaf._grad is not old or not read]

    def run(self) -> None:
        if not self.recorder.computes():
            settle_views(self.recorder)
            self._gradient_steps()
            return
        self.recorder.drop_unused()
        names = [self._input(t) for t, _ in self.recorder.inputs]
        numbers = [read.name for read, _ in self.recorder.numbers]
        inputs = {id(t) for t, _ in self.recorder.inputs}
        self.sharing = list({id(t): t for pair in self.recorder.shared for t in pair if id(t) not in inputs}.values())
        self.sharing_names = [self.writer.name(t) for t in self.sharing]
        rewritten = [s.tensor for s in self.recorder.input_states if s.changed and has_new_history(s)]
        made, runner = self._segment(names, numbers)
        if runner is not None and made is not None:
            self._take(runner, made)
        self._note_rewritten(rewritten)
        self._gradient_steps()

    def _note_rewritten(self, tensors: list[Any]) -> None:
        """As `_note_entries` for inputs that were overwritten, whose entries later segments may put others in place of."""
        trace, start = self.trace, f"{self.trace.tree.constant(operator_entry)}("
        while trace.ghost and trace.index < len(trace.block.steps) and trace.block.steps[trace.index].expression.startswith(start):
            self.writer.entries.append(trace.step(start, lambda: None))
        for tensor in () if trace.ghost else tensors:
            entry = operator_entry(tensor)
            self.writer.entries.append(trace.step(f"{start}{self.writer.name(tensor)})", lambda entry=entry: entry))
        self.writer.own.update((id(e), e) for _, e in self.writer.entries)

    def _input(self, tensor: Any) -> str:
        for span, first in self.recorder.spans:
            if span is tensor:
                trace, constant = self.trace, self.trace.tree.constant
                text = f"{constant(alias)}({self.writer.name(first)}, {span.address - first.address}, {constant(span.meta)})"
                return trace.step(text, lambda span=span: span)[0]
        return self.writer.name(tensor)

    def _segment(self, names: list[str], numbers: list[str]) -> tuple[list[Any] | None, Runner | None]:
        """Find out whether the segment of the tree fits, else add this one; returns the results in the order of the runner's."""
        trace, recorder = self.trace, self.recorder
        given, read = "".join(f"{n}, " for n in names), "".join(f"{n}, " for n in numbers)
        runner: Runner | None = None
        viewers = self._viewers()  # also keeps alive what only the recording held, or a cycle that may be collected any time
        while True:
            trace.sync()
            if trace.ghost:
                assert isinstance(trace.block.end, Check)
                if trace.check("", "same", True):
                    break
                continue
            runner = runner or self._runner()
            looked_at = given + "".join(f"{n}, " for n in self.sharing_names)
            sizes = "".join(f"{trace.sizes.names[n]}, " for n in runner.sizes)
            if trace.check(f"{trace.tree.constant(runner)}.fits(({sizes}), {looked_at})", "same", True):
                break
        if trace.ghost:
            step = trace.next_step()
            while step.segment is None:
                trace.follow(step)
                step = trace.next_step()
            trace.follow(step)
            return [trace.variables[n] for n in step.names], step.segment
        runner = runner or self._runner()
        step_names = [trace.tree.fresh("t") for _ in runner.results]
        for protection in self._protections():
            trace.step(protection, lambda: None, out=False)
        sizes = "".join(f"{trace.sizes.names[n]}, " for n in runner.sizes)
        text = f"{trace.tree.constant(runner)}.run(({sizes}), ({given}), ({read}))"

        def run() -> None:
            with trace.sizes.apart():
                runner.segment.run_first(recorder)

        trace.step(text, run, names=step_names, segment=runner)
        runner.names = names
        trace.tree.segments.append(runner)
        results = [viewers[serial] for serial in runner.serials]
        trace.variables.update(zip(step_names, results, strict=True))
        for name, tensor in zip(step_names, results, strict=True):
            trace.know(tensor, name)
        self._attributes(list(zip(step_names, results, strict=True)))
        self._note_entries(step_names, results)
        return None, runner

    def _note_entries(self, names: list[str], results: Sequence[Any]) -> None:
        """Remember which entries are behind the results, for `_protections` of later segments."""
        behind = {id(e): (n, e) for n, t in zip(names, results, strict=True) if (e := operator_entry(t)) is not None}
        self.writer.own.update((key, e) for key, (_, e) in behind.items())
        self.writer.entries += [(n, e) for n, e in behind.values() if e.saved]

    def _protections(self) -> list[str]:
        """Steps that copy what earlier segments saved for backward and this one overwrites; it is done at once."""
        found: list[str] = []
        for state in self.recorder.input_states:
            for name, entry in self.writer.entries if state.changed else ():
                if protect_entry(entry, state.tensor, state.version):
                    found.append(f"{self.trace.tree.constant(protect)}({name}, {self.writer.name(state.tensor)})")
        return found

    def _attributes(self, tensors: list[tuple[str, Any]]) -> None:
        """What the program has set on tensors made inside."""
        for name, tensor in tensors:
            for key, value in getattr(tensor, "__dict__", {}).items():
                self.trace.step(f"{name}.__dict__[{key!r}] = {self.writer.name_of(value)}", lambda: None, out=False)

    def _viewers(self) -> dict[tuple[int, int], Any]:
        """The tensors over storages made inside that are alive, by the numbers of storage and tensor."""
        found: dict[tuple[int, int], Any] = {}
        for state in [*self.recorder.states.values(), *self.recorder.closed]:
            if state.tensor is None:
                for k, reference in enumerate(state.viewers):
                    tensor = reference()
                    if tensor is not None:
                        found[state.serial, k] = tensor
        return found

    def _runner(self) -> Runner:
        recorder, sizes = self.recorder, self.trace.sizes
        with sizes.apart():
            segment = close_in(self.trace.tree, recorder)
        recorder.closed = list(segment.states)
        lost = {id(t) for t in from_inner_leaves(recorder, segment.states)}
        results: list[Result] = []
        serials: list[tuple[int, int]] = []
        for index, state in enumerate(segment.states):
            for k, reference in enumerate(state.viewers):
                tensor = reference()
                if tensor is None:
                    continue
                history = needs_history(tensor)
                released = ReleasedEntry if tensor.entry is not None and not history else None
                stopped = LostEntry if id(tensor) in lost else released
                steps = None if tensor.view_of is None else tensor.view_of.steps
                leaf = tensor.entry is None and tensor._requires_grad
                offset, meta = sizes.offset(tensor), sizes.meta(tensor)
                results.append(Result(index, offset, meta, stopped, steps, history, leaf, type(tensor)))
                serials.append((state.serial, k))
        places = {id(t): i for i, t in enumerate([*segment.inputs, *self.sharing])}
        shared = [(places[id(part)], places[id(owner)], sizes.offset(part) - sizes.offset(owner)) for part, owner in recorder.shared]
        metas = [(sizes.meta(t), dispatch.wants_gradient(t)) for t in segment.inputs]
        used = {a.name for e in expressions((metas, shared, [(r.offset, r.meta, r.steps) for r in results])) for a in e.atoms}
        names = segment.sizes if used <= {*segment.sizes} else tuple([n for n in sizes.names if n in used or n in segment.sizes])
        storages = len({id(t.memory) for t in segment.inputs})
        return Runner(segment, metas, storages, shared, results, serials, recorder.calls, sizes=names)

    def _take(self, runner: Runner, made: list[Any]) -> None:
        """Give the ghost's tensors what the replay computed."""
        trace, viewers = self.trace, self._viewers()
        shown: list[tuple[str, Any]] = []
        names = trace.block.steps[trace.index - 1].names
        for serial, name, real in zip(runner.serials, names, made, strict=True):
            tensor = viewers.pop(serial, None)
            trace.know(real, name)
            if tensor is not None:
                become(tensor, real)
                trace.sizes.liken(real, tensor)
                trace.twins[id(tensor)], trace.stand_ins[id(real)] = (tensor, real), (real, tensor)
                trace.know(tensor, name)
                shown.append((name, tensor))
        self._attributes(shown)
        self._note_entries(names, made)
        for state in self.recorder.states.values():
            if state.tensor is not None and state.changed:
                state.tensor.memory.version = state.version
                if state.storage() is not None:
                    state.tensor.entry, state.tensor.output, state.tensor._requires_grad = state.history
        settle_views(self.recorder)

    def _gradient_steps(self) -> None:
        trace = self.trace
        for leaf, gradient in self.changed:
            name, old = self.writer.name(leaf), self.writer.gradients[id(leaf)]
            given = "None" if gradient is None else self.writer.name(gradient)

            undo = GradientUndo(name, old, leaf)
            ghost = trace.ghost
            trace.step(f"{trace.tree.constant(set_gradient)}({name}, {given})", lambda: None, out=False, undo=undo)
            if ghost:
                leaf._grad = None if gradient is None else trace.variables.get(given, gradient)


@dataclass(frozen=True)
class GradientUndo:
    """Puts back what a leaf had as its gradient before a step, in the variable ``old``, or none; gives the leaf and what that step, or what
    came after, left there."""

    name: str
    old: str
    leaf: Any

    def __call__(self, variables: dict[str, Any]) -> tuple[Any, Any]:
        leaf = variables.get(self.name, self.leaf)
        last, leaf._grad = leaf._grad, variables[self.old] if self.old else None
        return leaf, last


def become(tensor: Any, real: Any) -> None:
    """Make a pending tensor the same as one that the replay computed."""
    old = tensor.memory
    if old.pending is not None:
        old.pending = None
    tensor.memory, tensor.address, tensor.seen_version = real.memory, real.address, real.seen_version
    tensor.entry, tensor.output, tensor._requires_grad = real.entry, real.output, real._requires_grad


class AtSizes:
    """A function of a tensor and ``parts``, in which sizes are what the symbols ``names`` stand for."""

    def __init__(self, function: Callable[..., Any], parts: tuple[Any, ...], names: tuple[str, ...]) -> None:
        self.function = function
        self.parts = parts
        self.names = names

    def __call__(self, tensor: Any, *sizes: int) -> Any:
        return self.function(tensor, *at_hand(self.parts, dict(zip(self.names, sizes, strict=True))))


def operator_entry(tensor: Any) -> Any:
    """The entry of the call that computed a tensor or what it is a view of; None without one."""
    entry = tensor.entry
    while isinstance(entry, ViewReadEntry):
        entry = entry.edges[0][0] if entry.edges[0] is not None else None
    packed = isinstance(entry, OperatorEntry) and entry.saved and isinstance(entry.saved[0], Packed)
    return entry if isinstance(entry, OperatorEntry) and not packed else None


def protect(result: Any, changed: Any) -> None:
    """Let backward of what computed ``result``, or of that entry, keep copies of what is about to be overwritten where ``changed`` is."""
    entry = result if isinstance(result, OperatorEntry) else operator_entry(result)
    protect_entry(entry, changed, changed.memory.version)


def protect_entry(entry: Any, changed: Any, version: int) -> bool:
    """`protect`, by the tape entry and the memory's version before the change; whether anything had to be copied. Eager operators save
    other values, which nobody overwrites."""
    copied = False
    for saved in (entry.saved or ()) if entry is not None else ():
        tensor = saved.tensor
        leaf = tensor._requires_grad and tensor.entry is None
        if tensor.memory is changed.memory and saved.version == version and not leaf:
            copy = tensor.detach().clone()
            copy.entry, copy.output, copy._requires_grad = tensor.entry, tensor.output, tensor._requires_grad
            saved.tensor, saved.version, copied = copy, copy.memory.version, True
    return copied


def alias(tensor: Any, distance: int, meta: TensorMeta, kind: type = Tensor, leaf: bool = False) -> Any:
    """A tensor without history in the memory of another one, so many bytes after it; a ``leaf`` requires gradients."""
    made = dispatch.new_tensor(tensor.memory, tensor.address + distance, meta)
    made._requires_grad = leaf
    return made if kind is Tensor else Tensor._make_subclass(kind, made, leaf)


def meta_or_none(gradient: Any) -> TensorMeta | None:
    """The metadata of a gradient that may be None."""
    return None if gradient is None else gradient.meta


def set_gradient(leaf: Any, gradient: Any) -> None:
    """Set ``leaf.grad`` to what a segment computed."""
    leaf._grad = gradient
