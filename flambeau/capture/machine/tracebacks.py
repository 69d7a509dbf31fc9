"""Tracebacks that show the program's frames, as if Python itself had run them, and none of the machine's."""

from __future__ import annotations

import opcode
import types
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flambeau.capture.machine.frame import Frame

_hidden: list[str] = []
# A variable of this name tells the frames that stand for interpreted ones; no program can write it.
MARK = "<interpreted>"
# The first variable of code that calls native functions on behalf of an interpreted frame.
CALLER = "<caller>"


def hide(folder: str) -> None:
    """Leave the frames of files in a folder out of the tracebacks of interpreted code, and do not interpret their functions."""
    if folder not in _hidden:
        _hidden.append(folder)


def hidden(file: str) -> bool:
    """Whether a file lies in a folder that is left out."""
    return file.startswith(tuple(_hidden))


hide(str(Path(__file__).parent))


def _nothing() -> None:
    """Gives the code object that is filled with other bytes."""


def _stub(code: types.CodeType, unit: int, variables: tuple[str, ...]) -> types.CodeType:
    """Code that takes some variables, fails at one code unit and has the name, file and line table of another code."""
    names = opcode.opmap
    # A frame counts from its RESUME on: nothing can fail at the first unit.
    unit = max(unit, 1)
    start, nop = [names["RESUME"], 0], [names["NOP"], 0]
    distance = unit - 4
    if distance >= 0:  # without the jump, a tracing tool would count the lines before as run
        extended = names["EXTENDED_ARG"]
        start += [extended, distance >> 16 & 255, extended, distance >> 8 & 255, names["JUMP_FORWARD"], distance & 255]
    start += nop * (unit - len(start) // 2)
    start += [names["EXTENDED_ARG"], len(variables) >> 8] if len(variables) > 255 else []
    rest = [names["DELETE_FAST"], len(variables) & 255, *nop * (len(code.co_code) // 2 - unit - 1)]
    return _nothing.__code__.replace(
        co_code=bytes(start + rest),
        co_linetable=code.co_linetable,
        co_argcount=len(variables),
        co_nlocals=len(variables) + 1,
        co_varnames=(*variables, MARK),
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_filename=code.co_filename,
        co_firstlineno=code.co_firstlineno,
    )


def _prepared(frame: Frame) -> tuple[types.FunctionType, Iterable[Any]]:
    """The stub of a frame at its present instruction, and the variables to call it with."""
    offset, variables = frame.program.offsets[max(frame.position - 1, 0)], frame.semantics.visible_locals(frame)
    key = offset, tuple(variables)
    stubs = frame.program.stubs
    if key not in stubs:
        stubs[key] = _stub(frame.code, offset // 2, key[1])
    return types.FunctionType(stubs[key], frame.globals), variables.values()


def entry(frame: Frame | None, following: types.TracebackType | None) -> types.TracebackType:
    """The traceback entry of an interpreted frame at its present instruction, with its variables as they are now."""
    assert frame is not None
    stub, values = _prepared(frame)
    made = None
    try:
        stub(*values)
    except UnboundLocalError as error:
        made = error.__traceback__.tb_next  # type: ignore[union-attr]
    assert made is not None
    made.tb_next = following
    # The made frame refers to this one as its caller and would keep everything here alive.
    frame = values = following = None
    try:
        return made
    finally:
        del made


def _call(function: Any, args: Any, kwargs: Any) -> Any:
    return function(*args, **kwargs)


def caller(frame: Frame, flags: int) -> types.CodeType:
    """Code that calls a function as if it stood at the present line of a frame, under some of its code's flags."""
    return _call.__code__.replace(
        co_flags=_call.__code__.co_flags & ~flags | frame.code.co_flags & flags,
        co_filename=frame.code.co_filename,
        co_firstlineno=frame.line - 1,
        co_name=frame.code.co_name,
        co_varnames=(CALLER, "args", "kwargs"),
    )


def is_stub(code: types.CodeType) -> bool:
    """Whether a code object stands for an interpreted function."""
    return code.co_varnames[-1:] == (MARK,)


def clean(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """Take the machine's entries off the outer end of a traceback; what lies within the first interpreted frame is clean already."""
    kept = []
    while traceback is not None and not is_stub(traceback.tb_frame.f_code):
        code = traceback.tb_frame.f_code
        if not hidden(code.co_filename) and code.co_varnames[:1] != (CALLER,):
            kept.append(traceback)
        traceback = traceback.tb_next
    for outer in reversed(kept):
        outer.tb_next = traceback
        traceback = outer
    return traceback
