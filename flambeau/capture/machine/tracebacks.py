"""Tracebacks that show the program's frames, as if Python itself had run them, and none of the machine's."""

from __future__ import annotations

import opcode
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flambeau.capture.machine.frame import Frame

_hidden: list[str] = []
# A variable of this name tells the frames that stand for interpreted ones; no program can write it.
MARK = "<interpreted>"


def hide(folder: str) -> None:
    """Leave the frames of files in a folder out of the tracebacks of interpreted code, and do not interpret their functions."""
    if folder not in _hidden:
        _hidden.append(folder)


def hidden(file: str) -> bool:
    """Whether a file lies in a folder that is left out."""
    return file.startswith(tuple(_hidden))


hide(str(Path(__file__).parent))


def _own_frame(get_frame: object) -> types.FrameType:
    return get_frame()  # type: ignore[operator]


def stub_frame(frame: Frame) -> types.FrameType:
    """A real frame object with the name, file, globals and line table of an interpreted frame."""
    if frame.program.stub is None:
        code, own = frame.code, _own_frame.__code__
        missing = max(0, len(code.co_code) - len(own.co_code)) // 2
        frame.program.stub = own.replace(
            co_code=own.co_code + bytes((opcode.opmap["NOP"], 0)) * missing,
            co_linetable=code.co_linetable,
            co_varnames=(MARK,),
            co_name=code.co_name,
            co_qualname=code.co_qualname,
            co_filename=code.co_filename,
            co_firstlineno=code.co_firstlineno,
        )
    return types.FunctionType(frame.program.stub, frame.globals)(sys._getframe)


def is_stub(code: types.CodeType) -> bool:
    """Whether a code object stands for an interpreted function."""
    return code.co_varnames == (MARK,)


def entry(frame: Frame, following: types.TracebackType | None) -> types.TracebackType:
    """The traceback entry of an interpreted frame at its present instruction."""
    index = max(frame.position - 1, 0)
    return types.TracebackType(following, stub_frame(frame), frame.program.offsets[index], frame.line)


def clean(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """Take the machine's entries off the outer end of a traceback; what lies within the first interpreted frame is clean already."""
    kept = []
    while traceback is not None and not is_stub(traceback.tb_frame.f_code):
        if not hidden(traceback.tb_frame.f_code.co_filename):
            kept.append(traceback)
        traceback = traceback.tb_next
    for outer in reversed(kept):
        outer.tb_next = traceback
        traceback = outer
    return traceback
