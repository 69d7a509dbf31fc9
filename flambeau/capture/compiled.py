"""compile(): a function is interpreted where its trace tree does not go on, and its residual program runs where it does."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from flambeau.capture.contents import found_by_name
from flambeau.capture.machine import StepLimitReached, Unsupported
from flambeau.capture.replay import NativeProgram, native_program, reasons
from flambeau.capture.report import Explanation
from flambeau.capture.residual import Exit, Residual, generate
from flambeau.capture.segments import Runner
from flambeau.capture.session import NotOneGraph, Session, modes, set_modes
from flambeau.capture.settings import settings
from flambeau.capture.stored import keep, keys_of, revive
from flambeau.capture.stress import stress
from flambeau.capture.tree import Block, Check, End, Tree
from flambeau.capture.words import why
from flambeau.core import events
from flambeau.core.config import config
from flambeau.core.context import context
from flambeau.core.events import counters

MOST_CAPTURES = 8  # captures for each allowed version: a tree that grows beyond that never settles
stance = ["default"]  # what calls of compiled functions do; set by `compiler.set_stance`
living: weakref.WeakSet[CompiledFunction] = weakref.WeakSet()  # all compiled functions
_replays = [0]  # calls that replayed a program
counters.watch("compiled_calls", lambda: _replays[0])


@dataclass(eq=False)
class CompiledFunction:
    """What ``compile`` returns for a function: call it like the function.

    ``explain()`` tells what was compiled, what it relies on, and why calls were compiled again or run eagerly.
    """

    function: Callable[..., Any]
    fullgraph: bool = False
    disabled: bool = False
    recompile_limit: int | None = None
    dynamic: bool | None = None
    backend: Callable[[Any], Any] | None = None
    shadow: bool | None = None
    eager_reason: str | None = None
    not_kept: str | None = None
    history: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        functools.update_wrapper(self, self.function)
        self._torchdynamo_orig_callable = self.function
        living.add(self)
        self.name = getattr(self.function, "__qualname__", type(self.function).__name__)
        self.forget()

    def forget(self) -> None:
        """Drop what was captured."""
        shadow = config.shadow if self.shadow is None else self.shadow
        self.tree = Tree(self.name, self.limit, self.backend, partial(self._note, "shadow") if shadow else None)
        settings = self.recompile_limit, self.dynamic, self.backend, self.shadow
        self.tree.calling_back = CallingBack(partial(CompiledFunction, call_it, False, False, *settings))
        self.residual: Residual | None = None
        self._keys: list[str] = []
        self._revived = False  # the tree comes from another process and no call has gone through it yet
        self.native: NativeProgram | None = None

    @property
    def limit(self) -> int:
        """How many outcomes a check may have."""
        return settings.recompile_limit if self.recompile_limit is None else self.recompile_limit

    @property
    def _dynamic(self) -> bool | None:
        """Whether all sizes, or none, are variables; None where those are that change."""
        return settings.dynamic if self.dynamic is None else self.dynamic

    @property
    def artifacts(self) -> list[Runner]:
        """The segments that were compiled."""
        return self.tree.segments

    @property
    def cuts(self) -> list[str]:
        """Why segments end inside the function."""
        return list(self.tree.cuts)

    def __reduce__(self) -> Any:
        """Copies and pickles are of the function and the settings: what was captured is for the objects that it was captured with."""
        name = getattr(self.function, "__qualname__", "")
        if found_by_name(getattr(self.function, "__module__", None) or "", name) is self:
            return name
        settings = self.fullgraph, self.disabled, self.recompile_limit, self.dynamic, self.backend, self.shadow
        return CompiledFunction, (self.function, *settings)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        native = self.native
        if native is not None and stance[0] != "force_eager" and not settings.disable:
            found = native.call(args, kwargs)
            if type(found) is Exit:
                return self._left(found, args, kwargs)
            if found is not NotImplemented:
                _replays[0] += 1
                return found
        if stance[0] == "force_eager":
            return self.function(*args, **kwargs)
        special = context.capture is not None or context.function_modes or context.operator_modes or context.batching or settings.disable
        if special or self.disabled or self.eager_reason is not None:
            return self.function(*args, **kwargs)
        if self.residual is None:
            self._revive(args, kwargs)
        if self.residual is None:
            return self._interpret(args, kwargs, None)
        reasons["modes"] += native is not None
        start = modes()
        found = self._replay(self.residual, args, kwargs)
        if type(found) is not Exit:
            _replays[0] += 1
            if self._revived:
                self._settle()
            return found
        set_modes(start)
        if self._revived:
            self._revived = False
            if not performed(found):
                self._outdated(why(found, self.tree, (len(args), tuple(kwargs), modes())))
                return self._interpret(args, kwargs, None)
        return self._left(found, args, kwargs)

    def _left(self, found: Exit, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Go on where the program does not."""
        if isinstance(found.at, Block) and isinstance(found.at.end, End) and found.at.end.text == "untouched":
            return self.function(*args, **kwargs)  # nothing was done yet that an eager call would do again
        return self._interpret(args, kwargs, found)

    def _replay(self, residual: Residual, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.tree.leaver.begin()
        try:
            return residual.replay(args, kwargs)
        except Exception as error:
            step, variables = residual.step_of(error)
            if step is None:
                raise
            return Exit(step, variables, error)

    def _interpret(self, args: tuple[Any, ...], kwargs: dict[str, Any], found: Exit | None) -> Any:
        self.tree.most_outcomes, call = self.limit, (len(args), tuple(kwargs), modes())
        fails = stance[0] == "fail_on_recompile" or settings.error_on_recompile
        if (stance[0] != "default" or fails) and (found is None or not performed(found)):
            if stance[0] == "eager_on_recompile":
                return self.function(*args, **kwargs)
            if self.tree.captures and fails:
                raise RuntimeError(
                    "Detected recompile when torch.compile stance is 'fail_on_recompile' or config.error_on_recompile is set: "
                    f"{self.name} met {why(found, self.tree, call) if found else 'a call'} that it is not compiled for; "
                    "set the stance 'default' to compile again"
                )
        if found is not None and not (isinstance(found.at, Block) and isinstance(found.at.end, End)):
            reason = why(found, self.tree, call)
            self._note("recompile", f"compiled again: {reason}")
            if self.tree.captures > MOST_CAPTURES * self.limit:
                self._go_eager(f"it was captured {self.tree.captures} times and still meets something new, last: {reason}")
        before = len(self.tree.segments), self.tree.captures, len(self.tree.left)
        session = Session(self.tree, self.function, found, self.fullgraph, self._dynamic)
        if self.eager_reason is not None:
            session.trace.capped = True
        try:
            return session.run(args, kwargs)
        except NotOneGraph as reason:
            self.forget()
            raise RuntimeError(f"compile(fullgraph=True): {self.name} cannot be compiled as one graph: {reason}") from None
        except (Unsupported, StepLimitReached) as reason:
            if found is not None or session.performed:
                raise
            self.forget()
            self._go_eager(str(reason))
            return self.function(*args, **kwargs)
        finally:
            self._took(before, args, kwargs)
            if self.tree.late is not None:
                self._outdated("state that it uses was not made where it was")

    def _revive(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Take over what an earlier process captured, if it is for such calls as this one."""
        if stance[0] == "default" and self.backend is None and self.tree.shadow is None:
            self._keys = keys_of(self.function, args, kwargs, (self.fullgraph, self._dynamic, self.limit))
        if not self._keys:
            return
        reason = revive(self._keys, self.tree, self.function, args, kwargs)
        if reason:
            self._outdated(reason)
        elif reason is None:
            self._revived = True
            self._print()

    def _outdated(self, reason: str) -> None:
        keys = self._keys
        self.forget()
        self._keys = keys
        self._note("recompile", f"what an earlier process captured is not used: {reason}")

    def _settle(self) -> None:
        """The first call has gone through a revived tree."""
        self._revived = False
        self.history.append("captured by an earlier process")
        events.emit("capture_load", function=self.name, segments=len(self.tree.segments))
        self._make_native()
        for runner in self.tree.segments:
            events.emit("captured", compiled=self, plan=runner.segment.plan)

    def _print(self) -> None:
        self.residual = generate(self.tree)
        scope = self.residual.replay.__globals__

        def changed() -> None:
            scope.update(self.tree.constants)
            if not self._revived:
                self._make_native()

        self.tree.changed = changed

    def _make_native(self) -> None:
        """Make the native form, which holds the constants: all of them have to be there."""
        waits = stress.leave or self.eager_reason is not None or self.tree.late is not None
        self.native = None if waits else native_program(self.tree)

    def _took(self, before: tuple[int, int, int], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """After an interpretation: print the program anew if the tree has grown, and keep it for other processes."""
        segments, captures, left = before
        tree = self.tree
        if tree.captures == captures:
            return
        counters["captures"] += 1
        self._print()
        self._make_native()
        if self._keys:
            self.not_kept = keep(self._keys, tree, self.function, args, kwargs)
            if self.not_kept is not None:
                events.emit("not_kept", function=self.name, note=f"not kept for other processes, because of {self.not_kept}")
        for number, runner in enumerate(tree.segments[segments:], segments):
            events.emit("compile", function=self.name, version=number, operators=runner.operators)
            events.emit("captured", compiled=self, plan=runner.segment.plan)
        for reason in tree.left[left:]:
            self._note("runs_eagerly", f"from here on runs eagerly at every call: {reason}")
            print(f"flambeau.compile: {self.name} runs eagerly from here on: {reason}", file=sys.stderr)

    def reset(self) -> None:
        """Forget what was captured, and why calls ran eagerly."""
        self.forget()
        self.eager_reason, self.history = None, []

    def explain(self) -> Explanation:
        """What was compiled and why: graphs, kernels, guards, memory, recompiles. Print it."""
        return Explanation(self)

    def _note(self, kind: str, text: str) -> None:
        self.history.append(text)
        events.emit(kind, function=self.name, note=text)

    def _go_eager(self, reason: str) -> None:
        if self.fullgraph:
            raise RuntimeError(f"compile(fullgraph=True): {self.name} cannot be compiled as one graph: {reason}")
        self.eager_reason, self.native = reason, None
        self._note("runs_eagerly", f"runs eagerly: {reason}")
        events.emit("captured", compiled=self, plan=None)
        print(f"flambeau.compile: {self.name} runs eagerly: {reason}", file=sys.stderr)


class CallingBack:
    """Calls a function that decides by values, and runs what it is given again and again: that is compiled by itself."""

    __name__ = "calling_back"

    def __init__(self, make: Callable[[], CompiledFunction]) -> None:
        self.make = make
        self.compiled: CompiledFunction | None = None

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(*map(self._compile, args), **{k: self._compile(v) for k, v in kwargs.items()})

    def _compile(self, value: Any) -> Any:
        if type(value) not in (FunctionType, MethodType):
            return value
        self.compiled = self.compiled or self.make()
        return partial(self.compiled, value)


def call_it(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function."""
    return function(*args, **kwargs)


def performed(found: Exit) -> bool:
    """Whether a replay has done more than look before it came to where it does not go on."""
    at = found.at
    block = at if isinstance(at, Block) else at.block if isinstance(at, Check) else at.parent
    return any(step.place is None for above in block.line() for step in above.steps)
