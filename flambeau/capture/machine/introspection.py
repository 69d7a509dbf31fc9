"""Builtin functions that look at the frame of their caller, with the meaning that they have for interpreted frames."""

from __future__ import annotations
import __future__

import builtins
import functools
import operator
import sys
import types
import typing
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flambeau.capture.machine import tracebacks
from flambeau.capture.machine.frame import Frame, cell_contents
from flambeau.capture.machine.markers import NULL

if TYPE_CHECKING:
    from flambeau.capture.machine.semantics import Semantics

# The compiler's flags that code inherits from the code that compiles it.
FUTURE = functools.reduce(operator.or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names))
# Native classes whose instances take the name of the module that calls them.
NAMED_BY_CALLER = {id(getattr(typing, name, None)) for name in ("TypeVar", "TypeVarTuple", "ParamSpec", "TypeAliasType")}
# Functions for which an interpreted frame cannot stand in.
FRAME_FUNCTIONS = frozenset(("breakpoint", "set_trace", "settrace", "setprofile", "_current_frames", "getouterframes"))


def needs_frame(code: types.CodeType) -> str | None:
    """The name that a function uses which only works in a frame of Python's own, None where there is none."""
    return next((name for name in code.co_names if name in FRAME_FUNCTIONS), None)


class FrameView:
    """An interpreted frame with the attributes of Python's frame objects."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self.f_code, self.f_globals, self.f_builtins = frame.code, frame.globals, frame.builtins
        self.f_trace = None

    @property
    def f_locals(self) -> Any:
        return self._frame.locals()

    @property
    def f_lineno(self) -> int:
        return self._frame.line

    @property
    def f_lasti(self) -> int:
        return self._frame.program.offsets[max(self._frame.position - 1, 0)]

    @property
    def f_back(self) -> Any:
        frames = self._frame.machine.frames
        if self._frame not in frames:
            return None
        index = frames.index(self._frame)
        return frames[index - 1].semantics.frame_view(frames[index - 1]) if index else outside()

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        return types.FrameType

    def clear(self) -> None:
        """A running frame refuses, as Python's do."""
        raise RuntimeError("cannot clear an executing frame")


FrameView.__name__, FrameView.__qualname__, FrameView.__module__ = "frame", "frame", "builtins"


def outside() -> types.FrameType | None:
    """Python's innermost frame outside the machine and what it runs."""
    frame = sys._getframe()
    found = None
    while frame is not None:
        if tracebacks.hidden(frame.f_code.co_filename):
            found = frame.f_back
        frame = frame.f_back
    return found


def zero_argument_super(frame: Frame) -> Any:
    """``super()``: the class in the frame's ``__class__`` cell and the first argument."""
    code = frame.code
    if not code.co_argcount:
        raise RuntimeError("super(): no arguments")
    first = frame.fast[0]
    if code.co_varnames[0] in code.co_cellvars and type(first) is types.CellType:
        first = cell_contents(first)
    if first is NULL:
        raise RuntimeError("super(): arg[0] deleted")
    if "__class__" not in code.co_freevars:
        raise RuntimeError("super(): __class__ cell not found")
    cell = frame.fast[len(frame.fast) - len(code.co_freevars) + code.co_freevars.index("__class__")]
    cls = cell_contents(cell)
    if cls is NULL:
        raise RuntimeError("super(): empty __class__ cell")
    if not isinstance(cls, type):
        raise RuntimeError(f"super(): __class__ is not a type ({type(cls).__name__})")
    return super(cls, first)


def _globals(semantics: Semantics) -> Any:
    return semantics.machine.frames[-1].globals


def _locals(semantics: Semantics) -> Any:
    return semantics.machine.frames[-1].locals()


def _vars(semantics: Semantics, *args: Any) -> Any:
    return vars(*args) if args else _locals(semantics)


def _dir(semantics: Semantics, *args: Any) -> Any:
    return dir(*args) if args else sorted(_locals(semantics))


def call_beside(frame: Frame, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a native function that looks at its caller's globals, line or future flags: these are the interpreted frame's."""
    callers, index = frame.program.callers, frame.position
    if index not in callers:
        callers[index] = tracebacks.caller(frame, FUTURE)
    return types.FunctionType(callers[index], frame.globals)(function, args, kwargs)


def _compile(semantics: Semantics, *args: Any, **kwargs: Any) -> Any:
    return call_beside(semantics.machine.frames[-1], compile, args, kwargs)


def _evaluate(function: Callable[..., Any]) -> Callable[..., Any]:
    def evaluate(semantics: Semantics, source: Any, globals: Any = None, locals: Any = None, /, **kwargs: Any) -> Any:
        frame = semantics.machine.frames[-1]
        if globals is None and kwargs.get("globals") is None:
            globals = frame.globals
            if locals is None and kwargs.get("locals") is None:
                locals = frame.locals()
        given = (source,) if "globals" in kwargs else (source, globals) if "locals" in kwargs else (source, globals, locals)
        return call_beside(frame, function, given, kwargs)

    return evaluate


def _warn(semantics: Semantics, message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **kwargs: Any) -> None:
    """The warning at the line of the interpreted frame so many levels out."""
    frames = semantics.machine.frames
    category = type(message) if isinstance(message, Warning) else UserWarning if category is None else category
    if kwargs or stacklevel > len(frames) or not (isinstance(category, type) and issubclass(category, Warning)):
        warnings.warn(message, category, stacklevel, source, **kwargs)
        return
    frame = frames[-max(stacklevel, 1)]
    name = frame.globals.get("__name__") or "<string>"
    registry = frame.globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, frame.code.co_filename, frame.line, name, registry, frame.globals, source)


def _getframe(semantics: Semantics, depth: int = 0, /) -> Any:
    frames = semantics.machine.frames
    if depth < len(frames):
        return semantics.frame_view(frames[-1 - max(depth, 0)])
    frame = outside()
    for _ in range(depth - len(frames)):
        frame = frame and frame.f_back
    if frame is None:
        raise ValueError("call stack is not deep enough")
    return frame


def _getframemodulename(semantics: Semantics, depth: int = 0) -> Any:
    frames = semantics.machine.frames
    if depth < len(frames):
        return frames[-1 - max(depth, 0)].function.__module__
    try:
        return _getframe(semantics, depth).f_globals.get("__name__")
    except ValueError:
        return None


def _build_class(semantics: Semantics, *args: Any, **kwargs: Any) -> Any:
    return semantics.build_class(*args, **kwargs)


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    globals: _globals,
    locals: _locals,
    vars: _vars,
    dir: _dir,
    eval: _evaluate(eval),
    exec: _evaluate(exec),
    sys._getframe: _getframe,
    getattr(sys, "_getframemodulename", None): _getframemodulename,  # since 3.12
    builtins.__build_class__: _build_class,
    compile: _compile,
    warnings.warn: _warn,
}
