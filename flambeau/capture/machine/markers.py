"""Values and exceptions that only the machine itself uses."""

from __future__ import annotations

from typing import Any

# What a handler may return to the loop: the function returned, a generator yielded, an exception's handler is done.
RETURNED, YIELDED, POPPED = 1, 2, 3


# An unbound variable, or the empty place beside a callable on the stack. A plain object, for gc does not list those.
NULL: Any = object()


class ContextExit:
    """The way out of a ``with`` block, on the stack: tells its call from a call that the program wrote."""

    __slots__ = ("callable",)

    def __init__(self, callable: Any) -> None:
        self.callable = callable


class Interruption(BaseException):
    """Passes through interpreted functions without running their handlers: it belongs to the machine, not to the program."""


class Unsupported(Interruption):
    """A function that the machine cannot run, told before its first instruction; the message names the opcode."""


class StepLimitReached(Interruption):
    """``machine.steps`` went over ``machine.step_limit``."""
