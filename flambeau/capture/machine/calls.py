"""Handlers of calls, returns, generators and the making of functions."""

from __future__ import annotations

from typing import Any

from flambeau.capture.machine.containers import taken
from flambeau.capture.machine.frame import Frame
from flambeau.capture.machine.markers import NULL, RETURNED, YIELDED, ContextExit


def call(frame: Frame, count: int) -> None:
    """A callable with NULL beside it, or with what is its first argument (a decorator's or a comprehension's call)."""
    stack = frame.stack
    first = len(stack) - count - 2
    function, receiver, *args = stack[first:]
    del stack[first:]
    if function is NULL:
        function = receiver
    elif type(function) is ContextExit:  # beside None, or NULL since 3.14
        stack.append(frame.semantics.exit_context(function.callable, None))
        return
    elif receiver is not NULL:
        args.insert(0, receiver)
    stack.append(frame.semantics.call(function, tuple(args), {}))


def call_keywords(frame: Frame, argument: tuple[int, tuple[str, ...]]) -> None:
    count, names = argument
    stack = frame.stack
    first = len(stack) - count - 2
    function, receiver, *args = stack[first:]
    del stack[first:]
    kwargs = dict(zip(names, args[len(args) - len(names) :], strict=True))
    del args[len(args) - len(names) :]
    if function is NULL:
        function = receiver
    elif receiver is not NULL:
        args.insert(0, receiver)
    stack.append(frame.semantics.call(function, tuple(args), kwargs))


def call_starred(frame: Frame, has_keywords: int) -> None:
    """``function(*args, **kwargs)``, the arguments gathered before."""
    stack, semantics = frame.stack, frame.semantics
    kwargs = stack.pop() if has_keywords else NULL
    function, receiver, args = taken(frame, 3)
    if function is NULL:
        function = receiver
    args = semantics.positional_arguments(function, args)
    stack.append(semantics.call(function, args, {} if kwargs is NULL else semantics.keyword_arguments(function, kwargs)))


def make_function(frame: Frame, flags: int) -> None:
    stack = frame.stack
    code = stack.pop()
    closure = stack.pop() if flags & 8 else None
    annotations = stack.pop() if flags & 4 else None
    annotate = stack.pop() if flags & 16 else None
    keyword_defaults = stack.pop() if flags & 2 else None
    defaults = stack.pop() if flags & 1 else None
    function = frame.semantics.make_function(code, frame.globals, code.co_qualname, defaults, keyword_defaults, annotations, closure)
    if annotate is not None:
        function.__annotate__ = annotate
    stack.append(function)


def intrinsic(frame: Frame, argument: tuple[int, int]) -> None:
    """One of CPython's numbered operations, of one or two values."""
    arity, number = argument
    frame.stack.append(frame.semantics.intrinsic(arity, number, *taken(frame, arity)))


def return_value(frame: Frame, _: Any) -> int:
    frame.result = frame.stack.pop()
    return RETURNED


def return_constant(frame: Frame, value: Any) -> int:
    frame.result = frame.semantics.constant(value)
    return RETURNED


def return_generator(frame: Frame, _: Any) -> int:
    frame.result = frame.semantics.make_generator(frame)
    return RETURNED


def yield_value(frame: Frame, _: Any) -> int:
    frame.result = frame.stack.pop()
    return YIELDED


def iterator_to_yield_from(frame: Frame, _: Any) -> None:
    frame.stack[-1] = frame.semantics.iterator_to_yield_from(frame, frame.stack[-1])


def send(frame: Frame, target: int) -> None:
    """Hand the sent value on to the iterator below it; at its end its value takes the place of both."""
    value, finished = frame.semantics.send(frame.stack[-2], frame.stack[-1])
    if finished:
        frame.stack.pop()
        frame.position = target
    frame.stack[-1] = value


def send_and_keep(frame: Frame, target: int) -> None:
    """As ``send``, but the finished iterator stays below its value."""
    frame.stack[-1], finished = frame.semantics.send(frame.stack[-2], frame.stack[-1])
    if finished:
        frame.position = target
