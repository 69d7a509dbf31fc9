"""Builtin functions that look at the frame of their caller, with the meaning that they have for interpreted frames."""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flambeau.capture.machine.frame import Frame, cell_contents
from flambeau.capture.machine.markers import NULL

if TYPE_CHECKING:
    from flambeau.capture.machine.semantics import Semantics

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
        return frames[index - 1].semantics.frame_view(frames[index - 1]) if index else None


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


def _evaluate(function: Callable[..., Any]) -> Callable[..., Any]:
    def evaluate(semantics: Semantics, source: Any, globals: Any = None, locals: Any = None, /, **kwargs: Any) -> Any:
        if globals is None and kwargs.get("globals") is None:
            globals = _globals(semantics)
            if locals is None and kwargs.get("locals") is None:
                locals = _locals(semantics)
        return function(source, globals, locals, **kwargs)

    return evaluate


def _getframe(semantics: Semantics, depth: int = 0, /) -> Any:
    frames = semantics.machine.frames
    if depth >= len(frames):
        return sys._getframe(depth)
    frame = frames[-1 - depth]
    return semantics.frame_view(frame)


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
    builtins.__build_class__: _build_class,
}
