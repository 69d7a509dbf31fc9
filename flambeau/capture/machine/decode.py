"""Turns a code object into the list of (handler, argument) pairs that the machine runs, once per code object."""

from __future__ import annotations

import opcode
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from flambeau.capture.machine.markers import NULL, Unsupported

Handler = Callable[[Any, Any], "int | None"]
Pairs = list[tuple[Handler, Any]]
# Handlers that put variables of comprehensions back, or see to StopIteration.
RESTORING = ("swap", "pop_top", "store_fast", "store_cell", "stop_iteration_error")


class Landing(NamedTuple):
    """One row of an exception table, by instruction: where an exception between start and end goes on."""

    start: int
    end: int
    target: int
    depth: int
    pushes_position: bool


class Target(NamedTuple):
    """A jump's target as a code unit, until the instructions are numbered."""

    unit: int


@dataclass
class Operation:
    """One bytecode with the whole argument: the code units where its EXTENDED_ARGs start, where it is, and behind its caches."""

    name: str
    argument: int
    first: int
    unit: int
    after: int
    decoder: Decoder
    index: int

    def following(self, distance: int = 1) -> Operation | None:
        """The bytecode so many places later."""
        operations = self.decoder.operations
        return operations[self.index + distance] if self.index + distance < len(operations) else None


Translation = Callable[[Operation], Pairs]


class Program:
    """A code object, translated."""

    __slots__ = (
        "__weakref__",
        "_lines",
        "argument_count",
        "callers",
        "instructions",
        "landings",
        "names",
        "offsets",
        "padding",
        "simple",
        "stubs",
    )

    def __init__(self, code: types.CodeType, instructions: Pairs, offsets: list[int], landings: list[Landing]) -> None:
        self.instructions = instructions
        self.offsets = offsets
        self.landings = landings
        self.names = variable_names(code)
        self.argument_count = code.co_argcount
        # Without *args, **kwargs and keyword-only arguments a call with as many positional arguments binds them as they are.
        self.simple = not code.co_kwonlyargcount and not code.co_flags & 0x0C
        self.padding = [NULL] * (len(self.names) - self.argument_count)
        self._lines: list[int] | None = None
        self.callers: dict[int, types.CodeType] = {}
        self.stubs: dict[tuple[int, tuple[str, ...]], types.CodeType] = {}

    def landing(self, index: int) -> Landing | None:
        """Where an exception raised by that instruction goes on in this function."""
        for row in self.landings:
            if row.start <= index < row.end:
                return row
        return None

    def catcher(self, index: int) -> Landing | None:
        """As `landing`, past what the compiler has put around comprehensions and generators, which raises the same again."""
        while row := self.landing(index):
            index = row.target
            while self.instructions[index][0].__name__ in RESTORING:
                index += 1
            if self.instructions[index][0].__name__ != "reraise":
                return row
        return None

    def line(self, code: types.CodeType, index: int) -> int:
        """The source line of an instruction."""
        if self._lines is None:
            self._lines = [line or code.co_firstlineno for *_, line in _lines_of_units(code)]
        unit = self.offsets[max(index, 0)] // 2
        return self._lines[unit] if unit < len(self._lines) else code.co_firstlineno


def _lines_of_units(code: types.CodeType) -> Iterator[tuple[int, int | None]]:
    for start, end, line in code.co_lines():
        for unit in range(start // 2, end // 2):
            yield unit, line


def variable_names(code: types.CodeType) -> tuple[str, ...]:
    """The names of a frame's variables in their order: locals, cells that are no locals, free variables."""
    cells = tuple(name for name in code.co_cellvars if name not in code.co_varnames)
    return code.co_varnames + cells + code.co_freevars


PROGRAMS: dict[int, tuple[weakref.ref[types.CodeType], Program | Unsupported]] = {}


def decode(code: types.CodeType) -> Program:
    """The program of a code object; Unsupported where the tables lack one of its opcodes."""
    key = id(code)
    found = PROGRAMS.get(key)
    if found is None:
        program: Program | Unsupported
        try:
            program = Decoder(code).program()
        except Unsupported as error:
            program = error.with_traceback(None)
        found = PROGRAMS[key] = weakref.ref(code, lambda _: PROGRAMS.pop(key, None)), program
    if isinstance(found[1], Unsupported):
        raise Unsupported(*found[1].args)
    return found[1]


@cache
def table() -> dict[str, Translation]:
    """The meanings of this Python's opcodes."""
    major, minor = sys.version_info[:2]
    try:
        module = import_module(f"flambeau.capture.machine.python_{major}_{minor}")
    except ModuleNotFoundError:
        raise Unsupported(f"there is no table of opcodes for Python {major}.{minor}") from None
    return module.TABLE


class Decoder:
    """The state of one translation."""

    def __init__(self, code: types.CodeType) -> None:
        self.code = code
        self.operations = list(self._operations())
        self.keywords: tuple[str, ...] = ()
        self.skipped = 0

    def _operations(self) -> Iterator[Operation]:
        raw = self.code.co_code
        argument, count, index, first, unit = 0, len(raw) // 2, 0, 0, 0
        while unit < count:
            own, name, argument = unit, opcode.opname[raw[2 * unit]], argument << 8 | raw[2 * unit + 1]
            unit += 1
            if name == "EXTENDED_ARG":
                continue
            while unit < count and raw[2 * unit] == 0:  # inline caches
                unit += 1
            yield Operation(name, argument, first, own, unit, self, index)
            argument, first, index = 0, unit, index + 1

    def program(self) -> Program:
        """Translate every bytecode, then number the jumps' targets."""
        meanings = table()
        pairs: Pairs = []
        offsets: list[int] = []
        numbers: dict[int, int] = {}
        for operation in self.operations:
            translation = meanings.get(operation.name)
            if translation is None:
                raise Unsupported(f"{self.code.co_qualname}: opcode {operation.name}")
            for unit in range(operation.first, operation.after):
                numbers[unit] = len(pairs)
            if self.skipped:
                self.skipped -= 1
                continue
            new = translation(operation)
            offsets.extend([2 * operation.unit] * len(new))
            pairs.extend(new)
        numbers[len(self.code.co_code) // 2] = len(pairs)
        self.operations = []  # they refer to this decoder
        resolved = [(handler, numbers[argument.unit] if type(argument) is Target else argument) for handler, argument in pairs]
        landings = [
            Landing(numbers[start], numbers[end], numbers[target], depth, lasti)
            for start, end, target, depth, lasti in _exception_table(self.code.co_exceptiontable)
        ]
        return Program(self.code, resolved, offsets, landings)


def _exception_table(raw: bytes) -> Iterator[tuple[int, int, int, int, bool]]:
    """The rows of ``co_exceptiontable`` in code units: variable-length numbers of six bits, most significant first."""
    data = iter(raw)

    def number(first: int) -> int:
        value = first & 63
        while first & 64:
            first = next(data)
            value = value << 6 | first & 63
        return value

    for byte in data:
        start = number(byte)
        length, target, depth_and_lasti = (number(next(data)) for _ in range(3))
        yield start, start + length, target, depth_and_lasti >> 1, bool(depth_and_lasti & 1)
