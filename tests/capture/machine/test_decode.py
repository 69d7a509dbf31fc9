"""What is decoded agrees with the dis module on the functions of the standard library, and 3.14's rows do what they say."""

from __future__ import annotations

import argparse
import asyncio.tasks
import collections
import contextlib
import dataclasses
import dis
import enum
import functools
import inspect
import logging
import statistics
import string
import textwrap
import traceback
import types
import typing
import unittest.case
from collections.abc import Iterator
from typing import Any

import pytest

from flambeau.capture.machine import NULL, Machine, Semantics, Unsupported
from flambeau.capture.machine.decode import Decoder, Target, decode
from flambeau.capture.machine.frame import Frame
from flambeau.capture.machine.machine import ASYNCHRONOUS

MODULES = (
    argparse, asyncio.tasks, collections, contextlib, dataclasses, enum, functools, inspect, logging, statistics, string, textwrap,
    traceback, typing, unittest.case,
)  # fmt: skip


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def codes_of(module: types.ModuleType) -> list[types.CodeType]:
    source = inspect.getsource(module)
    return list(codes(compile(source, module.__file__ or "?", "exec", dont_inherit=True)))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_as_dis(module: types.ModuleType) -> None:
    for code in codes_of(module):
        expected = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "EXTENDED_ARG")]
        found = Decoder(code).operations
        assert [(op.name, op.argument, 2 * op.unit) for op in found] == [(i.opname, i.arg or 0, i.offset) for i in expected]
        try:
            program = decode(code)
        except Unsupported as error:
            assert code.co_flags & ASYNCHRONOUS, error
            continue
        lines: dict[int, int] = {}
        for start, end, line in code.co_lines():
            lines.update(dict.fromkeys(range(start, end, 2), line or code.co_firstlineno))
        assert [program.line(code, n) for n in range(len(program.offsets))] == [lines[offset] for offset in program.offsets]
        assert not any(type(argument) is Target for _, argument in program.instructions)
        rows = list(dis._parse_exception_table(code))  # type: ignore[attr-defined]
        assert [(row.depth, row.pushes_position) for row in program.landings] == [(row.depth, row.lasti) for row in rows]
        for row, landing in zip(rows, program.landings, strict=True):
            inside = [n for n, offset in enumerate(program.offsets) if row.start <= offset < row.end]
            assert list(range(landing.start, landing.end)) == inside


def test_programs_are_shared_and_let_go() -> None:
    from flambeau.capture.machine.decode import PROGRAMS

    code = compile("1", "?", "eval")
    key, same = id(code), decode(code) is decode(code)
    assert same and key in PROGRAMS
    del code
    assert key not in PROGRAMS


class Writer:
    """A code object's stand-in that only has names and constants."""

    def __init__(self, *operations: tuple[str, int], constants: tuple[Any, ...] = ()) -> None:
        self.operations = operations
        self.constants = constants

    def run(self, stack: list[Any], fast: list[Any]) -> list[Any]:
        """Run the operations by the table of 3.14 on a stack; the stack afterwards."""
        from flambeau.capture.machine.decode import Operation
        from flambeau.capture.machine.python_3_14 import TABLE

        decoder = types.SimpleNamespace(code=types.SimpleNamespace(co_consts=self.constants, co_names=()), keywords=(), skipped=0)
        decoder.operations = [Operation(n, a, i, i, i + 1, decoder, i) for i, (n, a) in enumerate(self.operations)]  # type: ignore[arg-type]
        frame = Frame(Machine(Semantics()), lambda: None, fast)  # type: ignore[arg-type]
        frame.stack = stack
        for operation in decoder.operations:
            if decoder.skipped:
                decoder.skipped -= 1
                continue
            for handler, argument in TABLE[operation.name](operation):
                handler(frame, argument)
        return frame.stack


def test_with_of_3_14() -> None:
    log: list[Any] = []

    class Manager:
        def __enter__(self) -> str:
            log.append("enter")
            return "value"

        def __exit__(self, *error: Any) -> bool:
            log.append(error)
            return True

    start = ("COPY", 1), ("LOAD_SPECIAL", 1), ("SWAP", 2), ("SWAP", 3), ("LOAD_SPECIAL", 0), ("CALL", 0)
    stack = Writer(*start).run([Manager()], [])
    assert stack[1:] == [NULL, "value"] and log == ["enter"]
    stack.pop()
    none = ("LOAD_CONST", 0)
    left = Writer(none, none, none, ("CALL", 3), constants=(None,)).run(list(stack), [])
    assert left == [True] and log[1:] == [(None, None, None)]
    error = ValueError("x")
    left = Writer(("WITH_EXCEPT_START", 0)).run([*stack, 5, NULL, error], [])
    assert left[-2:] == [error, True] and log[2] == (ValueError, error, None)


def test_small_rows_of_3_14() -> None:
    assert Writer(("LOAD_SMALL_INT", 7), ("LOAD_FAST_BORROW", 0), ("BINARY_OP", 0)).run([], [5]) == [12]
    assert Writer(("LOAD_FAST_BORROW_LOAD_FAST_BORROW", 1), ("BINARY_OP", 26)).run([], [[4, 5, 6], 1]) == [5]
    assert Writer(("LOAD_COMMON_CONSTANT", 0), ("LOAD_COMMON_CONSTANT", 3)).run([], []) == [AssertionError, all]
    assert Writer(("CALL_FUNCTION_EX", 0)).run([max, NULL, (1, 2), NULL], []) == [2]
    assert Writer(("CALL_FUNCTION_EX", 0)).run([dict, NULL, (), {"a": 1}], []) == [{"a": 1}]
