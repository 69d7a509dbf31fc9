"""The machine: runs Python functions bytecode by bytecode, on real objects, asking its semantics for every operation."""

from __future__ import annotations

import types
from typing import Any, NoReturn

from flambeau.capture.machine import tracebacks
from flambeau.capture.machine.binding import bind
from flambeau.capture.machine.control import push_exception
from flambeau.capture.machine.decode import PROGRAMS, Program, decode
from flambeau.capture.machine.frame import Frame
from flambeau.capture.machine.markers import NULL, POPPED, Interruption, Unsupported
from flambeau.capture.machine.semantics import Semantics

# Coroutines, coroutines of generators, asynchronous generators.
ASYNCHRONOUS = 0x80 | 0x100 | 0x200


class Machine:
    """Runs functions under a semantics; ``frames`` are the running ones, innermost last, ``steps`` the bytecodes run so far.

    >>> Machine(Semantics()).call_function(lambda a, b: a + b, (1,), {"b": 2})
    3
    """

    def __init__(self, semantics: Semantics) -> None:
        self.semantics = semantics
        semantics.machine = self
        self.frames: list[Frame] = []
        self.steps = 0
        self.step_limit: int | None = None
        self.depth_limit = 160

    def can_enter(self, function: types.FunctionType) -> bool:
        """Whether a call of this function is interpreted: it is not asynchronous, every opcode of it is known, and it is not hidden.

        Deeper than ``depth_limit`` none is: an interpreted frame takes four of Python's from its recursion limit.
        """
        if len(self.frames) >= self.depth_limit:
            return False
        code = function.__code__
        known = PROGRAMS.get(id(code))
        if known is not None:
            return type(known[1]) is Program
        if code.co_flags & ASYNCHRONOUS or tracebacks.hidden(code.co_filename):
            return False
        try:
            decode(code)
        except Unsupported:
            return False
        return True

    def call_function(self, function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any], names: Any = None) -> Any:
        """Call a Python function; Unsupported before its first step where it cannot be run. ``names``: a class body's namespace."""
        if function.__code__.co_flags & ASYNCHRONOUS:
            raise Unsupported(f"{function.__qualname__}: asynchronous functions are not interpreted")
        frame = Frame(self, function, bind(self.semantics, function, decode(function.__code__), args, kwargs), names)
        frames = self.frames
        frames.append(frame)
        try:
            self.run(frame)
        except BaseException as error:
            if len(frames) == 1:
                error.__traceback__ = tracebacks.clean(error.__traceback__)
            raise
        finally:
            frames.pop()
        return frame.result

    def run(self, frame: Frame, thrown: BaseException | None = None) -> int:
        """Run a frame until it returns or yields, or until the exception handler that it is in is done.

        A handler runs inside a real ``except`` clause: so ``raise`` alone, contexts and ``sys.exc_info()`` mean in interpreted code,
        and in what it calls, what they mean in Python.
        """
        instructions = frame.program.instructions
        while True:
            try:
                if thrown is not None:
                    throw(frame, thrown)
                while True:
                    handler, argument = instructions[frame.position]
                    frame.position += 1
                    self.steps += 1
                    outcome = handler(frame, argument)
                    if outcome is not None:
                        return outcome
            except Interruption:
                raise
            except BaseException as error:
                thrown = None
                if not land(frame, error):
                    raise
                if instructions[frame.position][0] is push_exception:
                    frame.position += 1
                    frame.stack[-1:] = NULL, error
                    frame.handled.append(error)
                    outcome = self.run(frame)
                    if outcome != POPPED:
                        return outcome
                    frame.handled.pop()

    def resume(self, frame: Frame, thrown: BaseException | None = None, level: int = 0) -> int:
        """Run a suspended frame on, inside the handlers that it was suspended in, or raise an exception there."""
        if level == len(frame.handled):
            return self.run(frame, thrown)
        error = frame.handled[level]
        context, traceback = error.__context__, error.__traceback__
        try:
            raise error
        except BaseException:
            error.__context__, error.__traceback__ = context, traceback
            outcome = self.resume(frame, thrown, level + 1)
            if outcome != POPPED:
                return outcome
            frame.handled.pop()
        return self.run(frame)


def throw(frame: Frame, error: BaseException) -> NoReturn:
    """Raise an exception from outside in a suspended frame: its context is what the frame handles, not what its caller does."""
    context = error.__context__
    try:
        raise error
    finally:
        if not frame.handled:
            error.__context__ = context


def land(frame: Frame, error: BaseException) -> bool:
    """Give an exception this frame's traceback entry and move to its handler; False where the frame has none."""
    traceback = tracebacks.clean(error.__traceback__)
    if frame.reraising:
        frame.reraising = False
    else:
        traceback = tracebacks.entry(frame, traceback)
    error.__traceback__ = traceback
    # The entry's frame refers to this one as its caller, which must not refer to the entry in turn.
    del traceback
    index = frame.position - 1
    landing = frame.program.landing(index)
    if landing is None:
        del error
        return False
    stack = frame.stack
    del stack[landing.depth :]
    if landing.pushes_position:
        stack.append(index)
    stack.append(error)
    del error
    frame.position = landing.target
    return True
