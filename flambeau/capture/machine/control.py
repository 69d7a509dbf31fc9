"""Handlers of jumps, loops, exceptions and ``with``."""

from __future__ import annotations

import sys
from typing import Any

from flambeau.capture.machine.containers import taken
from flambeau.capture.machine.frame import Frame
from flambeau.capture.machine.markers import NULL, POPPED, ContextExit, StepLimitReached


def jump(frame: Frame, target: int) -> None:
    frame.position = target


def check_steps(frame: Frame, _: Any) -> None:
    """StepLimitReached once the machine has run more bytecodes than it may."""
    machine = frame.machine
    if machine.step_limit is not None and machine.steps > machine.step_limit:
        raise StepLimitReached(f"{machine.steps} bytecodes were run, the limit is {machine.step_limit}")


def jump_if_false(frame: Frame, target: int) -> None:
    if not frame.semantics.truth(frame.stack.pop()):
        frame.position = target


def jump_if_true(frame: Frame, target: int) -> None:
    if frame.semantics.truth(frame.stack.pop()):
        frame.position = target


def jump_if_none(frame: Frame, target: int) -> None:
    if frame.semantics.is_same(frame.stack.pop(), None):
        frame.position = target


def jump_if_not_none(frame: Frame, target: int) -> None:
    if not frame.semantics.is_same(frame.stack.pop(), None):
        frame.position = target


def jump_if_false_or_pop(frame: Frame, target: int) -> None:
    if frame.semantics.truth(frame.stack[-1]):
        frame.stack.pop()
    else:
        frame.position = target


def jump_if_true_or_pop(frame: Frame, target: int) -> None:
    if frame.semantics.truth(frame.stack[-1]):
        frame.position = target
    else:
        frame.stack.pop()


def get_iterator(frame: Frame, _: Any) -> None:
    frame.stack[-1] = frame.semantics.iterator(frame.stack[-1])


def for_iterator(frame: Frame, target: int) -> None:
    """The next item on the stack; at the end the iterator goes and the loop is left."""
    try:
        item = frame.semantics.advance(frame.stack[-1])
    except StopIteration:
        frame.stack.pop()
        frame.position = target
    else:
        frame.stack.append(item)


def push_exception(frame: Frame, _: Any) -> None:
    """Stands at the start of a handler; the loop itself runs it (see ``Machine.run``)."""
    raise AssertionError("a handler was entered without an exception")


def pop_exception(frame: Frame, _: Any) -> int:
    frame.stack.pop()
    return POPPED


def match_exception(frame: Frame, _: Any) -> None:
    kind = frame.stack.pop()
    frame.stack.append(frame.semantics.exception_matches(frame.stack[-1], kind))


def match_exception_group(frame: Frame, _: Any) -> None:
    """Part the group in the rest and what matches, which is from now on the exception that is handled."""
    group, kind = taken(frame, 2)
    rest, matched = frame.semantics.split_exception_group(group, kind)
    if matched is not None:
        frame.handled[-1] = matched
    frame.stack += rest, matched


def join_exception_group(frame: Frame, _: Any) -> None:
    """What ``except*`` raises at its end: what was raised in its clauses, and the rest."""
    group, raised = taken(frame, 2)
    frame.stack.append(frame.semantics.join_exception_group(group, raised))


def raise_value(frame: Frame, count: int) -> None:
    if count == 0:
        raise_again(frame)
    semantics = frame.semantics
    cause = frame.stack.pop() if count == 2 else NULL
    error = semantics.exception(frame.stack.pop())
    if cause is NULL:
        raise error
    raise error from (None if cause is None else semantics.exception(cause))


def reraise(frame: Frame, _: Any) -> None:
    """Goes on raising: neither the context nor the traceback of the exception changes."""
    error = frame.stack.pop()
    context = error.__context__
    frame.reraising = True
    try:
        raise error
    finally:
        error.__context__ = context


def enter_context(frame: Frame, _: Any) -> None:
    """The way out of the context, and the value that was entered."""
    leave, value = frame.semantics.enter_context(frame.stack.pop())
    frame.stack += ContextExit(leave), value


def exit_with_exception(frame: Frame, depth: int) -> None:
    stack = frame.stack
    stack.append(frame.semantics.exit_context(stack[-depth].callable, stack[-1]))


def clean_up_throw(frame: Frame, _: Any) -> None:
    """An exception thrown in at ``yield from``: StopIteration ends the iterator, all else goes on."""
    if not isinstance(frame.stack[-1], StopIteration):
        reraise(frame, None)
    error = taken(frame, 3)[-1]
    frame.stack += None, error.value


def stop_iteration_error(frame: Frame, _: Any) -> None:
    frame.stack[-1] = frame.semantics.stop_iteration_error(frame.stack[-1])


def raise_again(frame: Frame) -> None:
    """``raise`` alone: the exception that is handled now, as Python finds it."""
    frame.reraising = sys.exception() is not None
    raise


def print_expression(frame: Frame, _: Any) -> None:
    """The value of an expression statement, at the interactive prompt."""
    frame.semantics.print_expression(frame.stack.pop())


def entered_value(frame: Frame, _: Any) -> None:
    """The way out, the value and the manager become the way out, NULL and the value."""
    stack = frame.stack
    stack[-2:] = NULL, stack[-2]
