"""Single CPython instructions as native functions: operations whose exact meaning Python code could only imitate.

Each is a function whose bytecode loads its arguments, runs the one instruction and returns what it leaves on the stack.
"""

from __future__ import annotations

import builtins
import opcode
import types
from collections.abc import Callable
from functools import cache
from typing import Any


def _template(a: Any, b: Any, c: Any) -> None:
    """Gives the code object that is filled with other bytes."""


def _caches(name: str) -> int:
    entries: Any = opcode._inline_cache_entries  # type: ignore[attr-defined]
    return entries.get(name, 0) if isinstance(entries, dict) else entries[opcode.opmap[name]]


def _bytes(name: str, argument: int = 0) -> bytes:
    out = b""
    for shift in (24, 16, 8):
        if argument >> shift:
            out += bytes((opcode.opmap["EXTENDED_ARG"], argument >> shift & 255))
    return out + bytes((opcode.opmap[name], argument & 255)) + bytes(2 * _caches(name))


@cache
def instruction(
    name: str, argument: int = 0, inputs: int = 1, outputs: int | None = None, names: tuple[str, ...] = ()
) -> Callable[..., Any]:
    """The instruction as a function of ``inputs`` stack values; returns the one it leaves, or a list of ``outputs``, bottom first."""
    body = _bytes("RESUME") + b"".join(_bytes("LOAD_FAST", n) for n in range(inputs)) + _bytes(name, argument)
    if outputs is not None:
        body += _bytes("BUILD_LIST", outputs)
    code = _template.__code__.replace(
        co_code=body + _bytes("RETURN_VALUE"),
        co_argcount=inputs,
        co_nlocals=inputs,
        co_varnames=("a", "b", "c")[:inputs],
        co_names=names,
        co_stacksize=inputs + (outputs or 1) + 4,
        co_name=name.lower(),
    )
    return types.FunctionType(code, {"__builtins__": builtins, "__name__": __name__})


@cache
def returning_none(code: types.CodeType) -> types.CodeType:
    """A code object with the parameters of another that does nothing: a call of it fails where binding the arguments does."""
    empty = _template.__code__
    return empty.replace(
        co_argcount=code.co_argcount,
        co_posonlyargcount=code.co_posonlyargcount,
        co_kwonlyargcount=code.co_kwonlyargcount,
        co_nlocals=code.co_nlocals,
        co_varnames=code.co_varnames,
        co_flags=code.co_flags & 0x0C | empty.co_flags,
        co_name=code.co_name,
        co_qualname=code.co_qualname,
    )
