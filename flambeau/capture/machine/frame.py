"""A running function of the machine: its code, variables, stack and position."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

from flambeau.capture.machine.decode import Program, decode
from flambeau.capture.machine.markers import NULL

if TYPE_CHECKING:
    from flambeau.capture.machine.machine import Machine
    from flambeau.capture.machine.semantics import Semantics


class Frame:
    """``fast`` holds locals, then cells, then free variables (cells as ``types.CellType``), NULL where unbound.

    ``names`` is the namespace of a class body or a module (None in functions), ``position`` the next instruction, ``handled``
    the exceptions whose handlers are running (innermost last).
    """

    __slots__ = tuple(
        "builtins code fast function globals handled machine names position program reraising result semantics snapshot stack view".split()
    )

    def __init__(self, machine: Machine, function: types.FunctionType, fast: list[Any], names: Any = None) -> None:
        self.machine = machine
        self.semantics: Semantics = machine.semantics
        self.function = function
        self.code = function.__code__
        self.program: Program = decode(self.code)
        self.globals = function.__globals__
        self.builtins: dict[str, Any] = function.__builtins__
        self.fast = fast
        self.names = names
        self.stack: list[Any] = []
        self.position = 0
        self.handled: list[BaseException] = []
        self.result: Any = None
        self.reraising = False
        # A weak reference to what stands for this frame where the program asks for frame objects.
        self.view: Any = None
        self.snapshot: dict[str, Any] | None = None

    @property
    def line(self) -> int:
        """The source line that runs now."""
        return self.program.line(self.code, self.position - 1)

    def variable_names(self) -> tuple[str, ...]:
        """The names of ``fast``, in order."""
        return self.program.names

    def bound_variables(self) -> dict[str, Any]:
        """The variables that have a value, by name."""
        found = {}
        cells = (*self.code.co_cellvars, *self.code.co_freevars)
        for name, value in zip(self.program.names, self.fast, strict=True):
            if type(value) is types.CellType and name in cells:
                value = cell_contents(value)
            if value is not NULL and not name.startswith("."):
                found[name] = value
        return found

    def locals(self) -> Any:
        """What ``locals()`` means here: the namespace of a class body or module, else the bound variables by name.

        Until 3.12 a function has one such dictionary, brought up to date by every call.
        """
        if self.names is not None:
            return self.names
        found = self.bound_variables()
        if sys.version_info >= (3, 13):
            return found
        if self.snapshot is None:
            self.snapshot = {}
        for name in self.program.names:
            self.snapshot.pop(name, None)
        self.snapshot.update(found)
        return self.snapshot


def cell_contents(cell: types.CellType) -> Any:
    """The value in a cell, NULL where it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return NULL
