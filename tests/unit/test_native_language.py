"""The language of native code: what its functions compute, and what it refuses."""

from __future__ import annotations

import ctypes
import importlib.util
import struct
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from flambeau.compilation.kernel_cache import get_symbols
from flambeau.runtime.native.language import native, stack
from flambeau.runtime.native.translate import translate


def load_programs(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


programs = load_programs("native_programs", Path(__file__).with_name("native_programs.py"))


@pytest.fixture(scope="module")
def symbols() -> Mapping[str, int]:
    return get_symbols(translate([programs]))


def function(symbols: Mapping[str, int], name: str, *types: Any) -> Callable[..., int]:
    return ctypes.PYFUNCTYPE(ctypes.c_int64, *(types or (ctypes.c_int64, ctypes.c_int64)))(symbols[name])


def wrapped(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def test_arithmetic_wraps_and_shifts_zeros_in(symbols):
    run = function(symbols, "arithmetic")
    random = np.random.default_rng()
    for a, b in random.integers(-(1 << 62), 1 << 62, (50, 2)).tolist():
        expected = (wrapped(wrapped(a * 3) - b + 5) & ~b | wrapped(a << 2)) ^ ((b % (1 << 64)) >> 1)
        assert run(a, b) == wrapped(expected)


def test_conditions(symbols):
    run = function(symbols, "compare")
    for a in range(-2, 12):
        for b in range(-2, 12):
            expected = 1 if (a < b and not a == 3) or b == 10 else 2 if a > 0 or b < 0 else 3
            assert run(a, b) == expected


def test_conditions_as_values(symbols):
    run = function(symbols, "between")
    for a in range(-2, 9):
        for b in range(-2, 9):
            assert run(a, b) == (a > 0 and not b < a) + 2 * (a == b or a == 7)


def test_doubles(symbols):
    run = function(symbols, "mix_doubles")
    numbers = np.random.default_rng().uniform(-9, 9, 5)
    expected = 0.0
    for i, number in enumerate(numbers):
        expected -= (-number * 0.5 + i) / 3.0
    expected = abs(expected)
    assert run(numbers.ctypes.data, 5) == int(expected)
    assert numbers[0] == expected and numbers[1] == np.float32(expected) and numbers[2] == pytest.approx(np.exp(expected), rel=1e-15)


def test_loops(symbols):
    even = function(symbols, "sum_even", ctypes.c_int64)
    assert [even(n) for n in (0, 1, 5, 20, 100)] == [0, 0, 6, 90, 90]
    steps = function(symbols, "collatz", ctypes.c_int64)
    assert [steps(n) for n in (1, 7, 27)] == [0, 16, 111]
    totals = (ctypes.c_int64 * 2).from_address(symbols["test_totals"])
    assert list(totals) == [127, 111]
    matrix = function(symbols, "matrix", ctypes.c_int64)
    assert matrix(9) == 36 * 36
    assert function(symbols, "factorial", ctypes.c_int64)(10) == 3628800


def test_inlined_functions(symbols):
    run = function(symbols, "halves", ctypes.c_int64)
    assert [run(n) for n in (1, 7, 27)] == [0, 16016, 111111]
    assert "halve" not in symbols and "count_call" not in symbols


def test_stack_of_a_size_known_when_it_runs(symbols):
    assert function(symbols, "on_the_stack", ctypes.c_int64)(1000) == 999


def test_structs(symbols):
    memory = (ctypes.c_int64 * 9)()
    start = ctypes.addressof(memory)
    for index in range(3):
        memory[3 * index:3 * index + 3] = [(index & 1) << 8 | (index + 2), 100 + index, start + 24 * (index + 1) if index < 2 else 0]
    assert function(symbols, "walk", ctypes.c_void_p)(start) == 3 * 101
    assert [memory[3 * index] & 0xFF for index in range(3)] == [7, 7, 7]
    assert memory[3] >> 8 == 1
    assert function(symbols, "third", ctypes.c_void_p)(start) == 102
    assert memory[4] == 24


def test_numbers(symbols):
    double, single = (function(symbols, name, ctypes.c_double) for name in ("double_bits", "float_bits"))
    for value in (0.0, -0.0, 1.5, -3.25e10, 0.1, float("inf")):
        assert double(value) == struct.unpack("<q", struct.pack("<d", value))[0]
        assert single(value) == struct.unpack("<I", struct.pack("<f", value))[0]
    bits = function(symbols, "bits_needed", ctypes.c_int64)
    assert [bits(n) for n in (0, 1, 2, 255, 256, (1 << 62) + 1)] == [int(n).bit_length() for n in (0, 1, 2, 255, 256, (1 << 62) + 1)]


REFUSED = {
    "no result on one way": "def f(a: Word) -> Word:\n    if a:\n        return 1\n",
    "a name set on one way only": "def f(a: Word) -> Word:\n    if a:\n        b = 1\n    return b\n",
    "a name nobody knows": "def f(a: Word) -> Word:\n    return g(a)\n",
    "a parameter without a type": "def f(a) -> Word:\n    return 1\n",
    "a field that is not there": "def f(a: Word) -> Word:\n    return a.value\n",
    "division": "def f(a: Word) -> Word:\n    return a // 2\n",
    "what follows a return": "def f(a: Word) -> Word:\n    return 1\n    a = 2\n",
    "a comprehension": "def f(a: Word) -> Word:\n    return [a for _ in a]\n",
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_says_where(tmp_path, case):
    name = f"refused_{abs(hash(case))}"
    path = tmp_path / f"{name}.py"
    head = "from __future__ import annotations\nfrom flambeau.runtime.native.language import Word, native\n\n@native\n"
    path.write_text(head + REFUSED[case])
    module = load_programs(name, path)
    with pytest.raises(SyntaxError, match=name):
        translate([module])


def test_native_functions_do_not_run_in_python():
    @native
    def nothing() -> None:
        pass

    with pytest.raises(TypeError, match="only native code can call it"):
        nothing()
    with pytest.raises(TypeError, match="only native code can use it"):
        stack(3)
