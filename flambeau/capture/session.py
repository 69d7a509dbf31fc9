"""A capture session: one interpretation of a call, with everything that takes part in it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flambeau.capture.calls import Calls
from flambeau.capture.guards import BY_NAME, REGISTERED, UNKNOWN, Entry, ModuleGuard
from flambeau.capture.machine import Interruption, Machine, hide
from flambeau.capture.naming import Namer
from flambeau.capture.operators import NamedRead
from flambeau.capture.recorder import Recorder
from flambeau.capture.regions import loosely, memories
from flambeau.capture.residual import Exit
from flambeau.capture.segments import Writer, meta_or_none, set_gradient
from flambeau.capture.trace import Diverged, Trace, Uncapturable
from flambeau.capture.tree import OTHERWISE, Check, End, Tree
from flambeau.capture.values import Box, each_changed, frozen, is_ours, tensor_key
from flambeau.capture.ways import Ways
from flambeau.capture.words import CHOOSING
from flambeau.core import source_lines
from flambeau.core.context import context, outside_capture
from flambeau.core.events import counters, emit
from flambeau.core.identity import Same
from flambeau.core.numbers import HostInteger
from flambeau.ops.declare import default_float, set_default_float
from flambeau.tensor.base import TensorBase

__all__ = ["NotOneGraph", "Session", "modes", "set_modes"]

hide(str(Path(__file__).parent))
SMALL = 64  # elements of a tensor whose contents may be compared as a whole


def modes() -> tuple[Any, ...]:
    """The modes of the calling thread that what is recorded depends on."""
    return context.grad_enabled, context.inference, default_float(), context.autocast


def set_modes(state: tuple[Any, ...]) -> None:
    """Put modes back."""
    grad, inference, kind, autocast = state
    if context.autocast != autocast:
        context.autocast = autocast
    if context.grad_enabled is not grad:
        context.grad_enabled = grad
    if context.inference is not inference:
        context.inference = inference
    if default_float() is not kind:
        set_default_float(kind)


def contents(tensor: Any) -> bytes:
    """The elements of a small tensor."""
    return tensor.detach().numpy().tobytes()


def code_of(function: Any) -> Any:
    """The code of a function, of a method, or of the forward of a Module; None without any."""
    owner = getattr(function, "__self__", None)
    if owner is not None and hasattr(owner, "_modules"):
        function = owner.forward
    return getattr(function, "__code__", None) or getattr(getattr(function, "func", None), "__code__", None)


def parameters(function: Any) -> tuple[str, ...]:
    """The names of the positional arguments that a call of a compiled function gives."""
    code = code_of(function)
    bound = code is not None and (hasattr(function, "__self__") and "self" in code.co_varnames[:1])
    return () if code is None else code.co_varnames[int(bound) : code.co_argcount]


class CodeGuard:
    """The code of the compiled function itself, which its program was made from."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.code = getattr(function, "__code__", None)

    def failed(self) -> str | None:
        """What changed, or None."""
        return None if getattr(self.function, "__code__", None) is self.code else "its code was replaced"


class NotOneGraph(Interruption):
    """Why a function cannot be one graph."""


class Session:
    """Interprets ``function`` once, growing ``tree``; ``found`` is where a replay of the tree came to its end."""

    def __init__(
        self, tree: Tree, function: Callable[..., Any], found: Exit | None = None, one_graph: bool = False, dynamic: bool | None = None
    ) -> None:
        self.one_graph = one_graph
        self.tree = tree
        self.function = function
        self.trace = Trace(tree, found, dynamic)
        self.trace.line = self.line
        self.noted: list[set[int]] = [set() for _ in (UNKNOWN, REGISTERED, BY_NAME)]
        self.varying: set[Entry] = set()  # tensors of Modules that this line reads where they are used
        self.exported = False  # memory of tensors is seen by other libraries: they may read it at any step
        self.ways = Ways(self)
        self.arguments: dict[int, list[Any]] = {}
        self.writer = Writer(self.trace, self.new_recorder, self.ways.own)
        trace, writer = self.trace, self.writer
        trace.flush, trace.stopped, trace.redo_gradient = self.flush, self.stopped, writer.redo_gradient
        trace.run_pending, trace.on_leave = writer.run_pending, self.leaving
        if trace.ghost:
            trace.prepare()
        self.namer = Namer(self.trace, self.writer)
        self.semantics = Calls(self)
        self.machine = Machine(self.semantics)
        self.modes = modes()

    @property
    def performed(self) -> bool:
        """Whether anything was done that an eager call would do again."""
        return any(step.place is None for block in self.trace.block.line() for step in block.steps)

    def new_recorder(self) -> Recorder:
        """What records from now on."""
        recorder = Recorder(self.trace.sizes, self.tree.shadow is not None)
        recorder.arguments = self.arguments
        recorder.ways, recorder.on_value = self.ways, self.needs_value
        recorder.on_size = self.host_size
        recorder.on_look = self.look
        recorder.on_number, recorder.on_module = self.number, self.note_module
        recorder.on_input, recorder.on_gradient, recorder.on_guard = self.see_input, self.see_gradient, self.see_guard
        recorder.on_risk, recorder.on_flush, recorder.on_cut, recorder.start = self.in_try, self.flush, self.cut, self.see_start
        recorder.on_literal = lambda tensor: self.tree.literals.setdefault(id(tensor), tensor)
        return recorder

    # -- what recording tells ---------------------------------------------------------------------------
    def line(self) -> str:
        """The user's line that is interpreted."""
        for frame in reversed(self.machine.frames):
            name = frame.code.co_filename
            if not name.startswith(source_lines.PACKAGE):
                return f"{name.rpartition('/')[2]}:{frame.line}"
        code = code_of(self.function)
        if code is None or code.co_filename.startswith(source_lines.PACKAGE):
            return source_lines.UNKNOWN
        return f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno}"

    def note_module(self, module: Any, how: int = UNKNOWN) -> None:
        """A Module is used: the line holds as long as it and those in it keep their structure, mode, hooks and tensors.

        Of these the ones that the function replaces are excepted where they are read by name, or not read as they are not registered.
        """
        trace, tree = self.trace, self.tree
        # Where none is excepted every way to read them is covered by the first; by now others may stand there for a while.
        excepts = bool(tree.varying) and not {i for i, _ in tree.varying}.isdisjoint(map(id, module.modules()))
        if any(id(module) in noted for noted in (self.noted[: how + 1] if excepts else self.noted)) or not trace.recording:
            return
        self.noted[how].update(map(id, module.modules()))
        for versions in itertools.count(1):
            trace.sync()
            recorded = trace.block.end if trace.ghost else None
            varying = [e for e in tree.varying if how == BY_NAME or how == REGISTERED and tree.replaced[e]]
            with trace.sizes.apart():
                guard = ModuleGuard([module], varying=varying)
            if trace.check(f"{tree.constant(guard)}.failed() is None", "same", True, guard):
                known = recorded.guard if isinstance(recorded, Check) and recorded.guard is not None else guard
                self.varying |= known.varying
                return
            trace.sync()
            end = trace.block.end
            recorded_no_more = not isinstance(end, Check) or end.guard is None or trace.index < len(trace.block.steps)
            if recorded_no_more if trace.ghost else versions >= tree.most_outcomes:
                kind = type(module).__name__
                trace.leave(f"{kind} changed {versions} times, as many as recompile_limit allows; set its tensors in place")
                return
            if not trace.ghost and isinstance(recorded, Check):
                tree.varying |= recorded.guard.replaced() & tree.replaced.keys()

    def varies_inside(self, module: Any) -> bool:
        """Whether tensors of a Module, or of one in it, are read by name."""
        return bool(self.varying) and not {i for i, _ in self.varying}.isdisjoint(map(id, module.modules()))

    def see_input(self, tensor: Any) -> None:
        """An outside tensor is used that no place was read for: an object of ours holds it."""
        trace = self.trace
        spans = any(tensor is span for span, _ in self.writer.recorder.spans)
        if id(tensor) not in trace.known and trace.recording and not spans and not trace.sizes.is_tracked(tensor):  # shows a known one
            trace.check(self.writer.name(tensor), "look", ("tensor", tensor_key(tensor)))

    def see_gradient(self, leaf: Any, read: bool) -> None:
        """The gradient of a leaf is used: whether there is one, and of what kind, decides how the line goes on.

        One that is replaced unread, before anything that may fail, is dropped right here, as by the program: its memory is free then.
        """
        trace, constant = self.trace, self.tree.constant
        trace.lasts()
        if not trace.recording:
            return
        if not read and not self.writer.recorder.risky:
            trace.step(f"{constant(set_gradient)}({self.writer.name(leaf)}, None)", lambda: set_gradient(leaf, None), out=False)
            leaf._grad = None
            self.writer.gradients[id(leaf)] = ""
            return
        old, ghost = leaf._grad, trace.ghost
        known, value = trace.step(f"{self.writer.name(leaf)}._grad", lambda: old)
        if ghost:
            leaf._grad = value  # something that the replay called may have set it
        if read:
            with trace.sizes.apart():
                meta = meta_or_none(leaf._grad)
            trace.check(f"{constant(meta_or_none)}({known})", "look", ("is", Same(meta)))
        self.writer.gradients[id(leaf)] = known
        for gradient in (old, value):
            if gradient is not None:
                trace.know(gradient, known)

    def see_guard(self, read: Callable[[], Any]) -> Any:
        """The line holds as long as ``read()`` gives what it gives now; what it gave, also where a ghost comes by after it has changed."""
        key = "guard", frozen(read())
        if self.trace.recording:
            outcome = self.trace.check(f"{self.tree.constant(read)}()", "look", key)
            key = key if outcome == OTHERWISE else outcome
        return key[1]

    def see_start(self, make: Callable[[], None]) -> None:
        """State is made that outlives the call: every call sees to it that it is there."""

        def run() -> None:
            with outside_capture(), self.trace.sizes.apart():
                make()

        self.trace.step(f"{self.tree.constant(self.tree)}.started({self.tree.constant(make)})", run, out=False)

    def number(self, value: Any) -> NamedRead:
        """A number that a recorded operator takes: it is read where the program is now."""
        if isinstance(value.read, NamedRead):
            return value.read
        self.trace.lasts()
        read = value.read
        name, found = self.trace.step(f"{self.tree.constant(read)}()", read)
        return NamedRead(name, found)

    def host_size(self, size: Any) -> Any:
        """A size that a recorded operator takes as a number."""
        box = self.semantics.as_box(size)
        return HostInteger.of(NamedRead(box.name, box.value)) if type(box) is Box else box

    def flush(self) -> None:
        """Run what is recorded so far."""
        self.writer.flush()

    def needs_value(self, reason: str) -> None:
        """Native code of ours does something that cannot be recorded: all after it is interpreted at every call."""
        self.cut(reason)
        self.trace.leave(reason)

    def look(self, tensor: Any) -> None:
        """Native code of ours looks at the contents of a tensor: the line holds for these contents."""
        self.cut("an operator needs the contents of a tensor, as an index by a mask does", "; use torch.where(mask, x, 0)")
        self.flush()
        if not self.trace.recording:
            return
        if self.trace.sizes.fixed(tensor.meta.numel) > SMALL:
            self.needs_value("it looks at the contents of a tensor inside a function of the library")
            return
        name = self.namer.name(tensor)
        capture, context.capture = context.capture, None
        try:
            read = self.tree.constant(contents)
            with self.trace.sizes.apart():
                found, value = self.trace.step(f"{read}({name})", lambda: contents(tensor))
            self.trace.check(found, "look", ("value", (bytes, value)))
        finally:
            context.capture = capture if self.trace.recording else None

    def leaving(self, reason: str) -> None:
        """What follows cannot be captured."""
        if self.one_graph:
            raise NotOneGraph(f"{reason} ({self.line()}); take that out of the function, or leave fullgraph=True out")

    def cut(self, why: str, instead: str = "") -> None:
        """Note why the segment ends here; what to do ``instead``. Operators that choose by values are part of what is one graph."""
        if self.machine.frames and self.machine.frames[-1].globals.get("__name__") in CHOOSING:
            return
        reason = f"{why} ({self.line()})"
        if reason not in self.tree.cuts:
            self.tree.cuts[reason] = None
            emit("graph_break", function=self.tree.name, note=reason)
        if self.one_graph:
            raise NotOneGraph(f"{reason}{instead}; {'or ' * bool(instead)}take that out of the function, or leave fullgraph=True out")

    def stopped(self) -> None:
        """Nothing is recorded any more: variables hold the tensors of the replay in place of those that stood for them."""
        self.writer.stop()
        for frame in self.machine.frames if self.trace.twins else ():
            for held in (frame.fast, frame.stack):
                held[:] = [self.trace.settled(value) for value in held]

    # -- modes ------------------------------------------------------------------------------------------
    def sync_modes(self) -> None:
        """Before something outside can see them, the program sets the modes that are on now."""
        now = modes()
        if now != self.modes and self.trace.recording:
            constant = self.tree.constant
            self.trace.step(f"{constant(set_modes)}({constant(self.tree.atoms.setdefault(('modes', now), now))})", lambda: None, out=False)
            self.modes = now

    def read_modes(self) -> None:
        """After unknown code: the line depends on the modes that it left."""
        now = modes()
        if now != self.modes:
            self.trace.check(f"{self.tree.constant(modes)}()", "look", ("guard", now))
            self.modes = now

    # -- the run ----------------------------------------------------------------------------------------
    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Interpret the call; returns what the function returns, or raises what it raises."""
        self.tree.captures += 1
        self.tree.parameters = self.tree.parameters or parameters(self.function)
        context.capture = self.writer.recorder
        outer = source_lines.interpreted_line
        source_lines.interpreted_line = self.line
        try:
            with self.trace.sizes:
                try:
                    result = self._interpret(args, kwargs)
                except (Diverged, Uncapturable):
                    raise
                except Exception as error:
                    self._finish("raise", error)
                    raise
                return self._finish("return", result)
        finally:
            self.trace.sizes.end()
            context.capture = None
            source_lines.interpreted_line = outer
            counters["bytecodes"] += self.machine.steps

    def _interpret(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        trace, constant = self.trace, self.tree.constant
        start = (len(args), tuple(kwargs), modes())
        trace.check(f"(len(args), tuple(kwargs), {constant(modes)}())", "look", ("guard", start))
        tensors: list[Any] = []
        taken = []
        for i, value in enumerate(args):
            taken.append(self._take(f"args[{i}]", value, tensors, i))
        named = {k: self._take(f"kwargs[{k!r}]", v, tensors) for k, v in kwargs.items()}
        if len(tensors) > 1 and (trace.sizes.names or any(t.view_of is not None for t in tensors)):
            names = ", ".join(self.writer.name(t) for t in tensors)
            trace.check(f"{constant(memories)}({names})", "look", self._places_of(tensors))
        if context.capture is not None:
            self.writer.recorder.declare(tensors)
            self.arguments = self.writer.recorder.arguments
        function = self.function
        if not isinstance(function, type) and not hasattr(function, "_modules"):
            trace.known[id(function)] = (constant(function), function)
            guard = CodeGuard(getattr(function, "__func__", function))
            while not trace.check(f"{constant(guard)}.failed() is None", "same", True, guard):
                pass
        return self.semantics.call(function, tuple(taken), named)

    def _places_of(self, tensors: list[Any]) -> tuple[str, Any]:
        """How a check sees where arguments lie in their memory: exactly, but for those that are apart and not always as far."""
        with self.trace.sizes.apart():
            found = memories(*tensors)
        self.trace.sync()
        seen = getattr(self.trace.block.end, "outcomes", ())
        changes = self.trace.sizes.names or any(kind == "apart" or places != found for kind, places in seen)
        return ("apart", loosely(found)) if changes and any(apart for _, _, apart in found) else ("guard", found)

    def _take(self, expression: str, value: Any, tensors: list[Any], index: int = -1) -> Any:
        name, value = self.trace.step(expression, lambda: value, place=("argument", index))
        found = self.trace.adopt(value, name)
        if isinstance(found, TensorBase) and not any(found is t for t in tensors):
            tensors.append(found)
        return found

    def _finish(self, kind: str, value: Any) -> Any:
        trace = self.trace
        self.flush()
        self.sync_modes()
        if trace.recording:
            self.namer.inline = True
            try:
                text = self.namer.name(value) if kind == "return" else ""
            except Uncapturable as reason:
                trace.leave(str(reason))
            else:
                trace.sync()
                if trace.ghost:
                    raise Diverged("capture: the function ended before the point that the replay came to")
                if trace.recording:
                    trace.block.end = End(kind, text)
        if kind == "raise":
            trace.sizes.empty(value)
        for twin, _ in trace.twins.values():  # what the replay let out holds those that they stand for
            trace.original(twin)
        return unboxed(trace, value) if trace.twins or kind == "return" else value

    def in_try(self) -> bool:
        """Whether a handler of the program may catch what is raised now, or an effect may see that it was not raised yet."""
        for frame in self.machine.frames:
            landing = frame.program.catcher(frame.position - 1)
            if landing is not None and not self._only_restores(frame, landing.depth):
                return True
        return False

    @staticmethod
    def _only_restores(frame: Any, depth: int) -> bool:
        """A ``with`` block of a manager of ours puts modes back and lets exceptions pass."""
        leave = frame.stack[depth - 1] if 0 < depth <= len(frame.stack) else None
        manager = getattr(getattr(leave, "callable", None), "__self__", None)
        return manager is not None and is_ours(type(manager))


def unboxed(trace: Trace, value: Any, seen: frozenset[int] = frozenset()) -> Any:
    """A result without boxes, sizes and twins; ``seen`` are the lists and dictionaries that it lies in."""
    if type(value) is Box:
        return value.value
    value = trace.sizes.plain(value)
    if type(value) is tuple:
        return each_changed(value, lambda v: unboxed(trace, v, seen))
    if type(value) in (list, dict) and id(value) not in seen:
        inner = seen | {id(value)}
        for key, item in list(value.items() if type(value) is dict else enumerate(value)):
            value[key] = unboxed(trace, item, inner)
    return trace.original(value)
