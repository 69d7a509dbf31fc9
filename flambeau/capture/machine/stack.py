"""Handlers that move values on the stack and in a frame's own variables."""

from __future__ import annotations

from typing import Any

from flambeau.capture.machine.frame import Frame
from flambeau.capture.machine.markers import NULL


def pop_top(frame: Frame, _: Any) -> None:
    frame.stack.pop()


def push_null(frame: Frame, _: Any) -> None:
    frame.stack.append(NULL)


def copy(frame: Frame, depth: int) -> None:
    frame.stack.append(frame.stack[-depth])


def swap(frame: Frame, depth: int) -> None:
    stack = frame.stack
    stack[-1], stack[-depth] = stack[-depth], stack[-1]


def pop_below_top(frame: Frame, _: Any) -> None:
    del frame.stack[-2]


def load_constant(frame: Frame, value: Any) -> None:
    frame.stack.append(frame.semantics.constant(value))


def load_fast(frame: Frame, index: int) -> None:
    value = frame.fast[index]
    if value is NULL:
        raise unbound_local(frame, index)
    frame.stack.append(value)


def load_fast_unchecked(frame: Frame, index: int) -> None:
    frame.stack.append(frame.fast[index])


def load_fast_and_clear(frame: Frame, index: int) -> None:
    frame.stack.append(frame.fast[index])
    frame.fast[index] = NULL


def store_fast(frame: Frame, index: int) -> None:
    frame.fast[index] = frame.stack.pop()


def delete_fast(frame: Frame, index: int) -> None:
    if frame.fast[index] is NULL:
        raise unbound_local(frame, index)
    frame.fast[index] = NULL


def unbound_local(frame: Frame, index: int) -> UnboundLocalError:
    """The error of a local variable that has no value."""
    name = frame.program.names[index]
    return UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")
