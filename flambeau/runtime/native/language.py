"""The language of native code: functions in a subset of Python over 64-bit words, which `translate` turns into LLVM IR.

A native function is marked with ``@native`` and never runs as Python. Every value is a 64-bit word (an integer, or an address) or a
``Double``; a `Struct` says what lies at an address, so that ``tensor.memory.version`` is two loads. Allowed are ``if``, ``while``,
``for i in range(...)``, assignments, calls of native and outside functions, arithmetic of doubles, and of integers, where ``>>`` shifts
zeros in and comparisons are signed. There is no reference counting but what a function does itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

__all__ = ["Array", "Byte", "Double", "Doubles", "External", "Global", "NativeFunction", "Struct", "Word", "Words", "bit_length",
           "bits_of_double", "bits_of_float", "call", "double", "inline", "native", "single", "size_of", "stack", "text",
           "whole"]  # fmt: skip

# `translate` knows these names. For type checkers a word may be anything: a number, or the address of any struct.
Word = Any
Byte = int
Double = float
Words = Any
Doubles = Any
Array = list

_WIDTHS = {"Byte": 1}
_Struct = TypeVar("_Struct", bound="Struct")


class Struct:
    """What lies at an address: annotated fields in order, each a word, a ``Byte`` or the address of another struct."""

    fields: ClassVar[dict[str, tuple[int, str]]]
    size: ClassVar[int]

    def __init_subclass__(cls) -> None:
        at = 0
        cls.fields = {}
        for name, kind in cls.__annotations__.items():
            width = _WIDTHS.get(kind, 8)
            at = (at + width - 1) & -width
            cls.fields[name] = at, kind
            at += width
        cls.size = (at + 7) & -8

    @classmethod
    def at(cls: type[_Struct], address: Any) -> _Struct:
        """Read the memory at ``address`` as this struct (in native code)."""
        raise TypeError(f"{cls.__name__}.at: only native code can look at address {address}")

    @classmethod
    def offset(cls, field: str) -> int:
        """How many bytes into the struct a field lies."""
        return cls.fields[field][0]

    @classmethod
    def scope(cls) -> dict[str, Any]:
        """Where the names in the annotations are looked up."""
        return vars(sys.modules[cls.__module__])


class Global:
    """One struct that exists for the whole process; ``name`` is its symbol."""

    def __init__(self, name: str, struct: type[Struct]) -> None:
        self.name = name
        self.struct = struct


class External:
    """A function of libc or the Python C API. ``result`` is ``word``, ``int`` (32 bits), ``double`` or ``none``."""

    def __init__(self, name: str, result: str = "word", fixed: int | None = None) -> None:
        self.name = name
        self.result = result
        self.fixed = fixed  # of a variadic function: how many arguments are not

    def __call__(self, *arguments: Any) -> Any:
        raise TypeError(f"{self.name}: only native code can call it")


class NativeFunction:
    """A function of the language; its body is read from the source."""

    def __init__(self, function: Callable[..., Any], inline: bool = False) -> None:
        self.function = function
        self.inline = inline
        self.name = function.__name__
        self.module = function.__module__

    def __call__(self, *arguments: Any) -> Any:
        raise TypeError(f"{self.name}: only native code can call it")


def native(function: Callable[..., Any]) -> NativeFunction:
    """Mark a function as native."""
    return NativeFunction(function)


def inline(function: Callable[..., Any]) -> NativeFunction:
    """Mark a function as native and to be copied into every caller, since nothing behind `translate` does so; it may not recurse."""
    return NativeFunction(function, inline=True)


def _only_native(name: str) -> Callable[..., Any]:
    def refuse(*arguments: Any) -> Any:
        raise TypeError(f"{name}: only native code can use it")

    refuse.__name__ = name
    return refuse


stack = _only_native("stack")
"""``stack(n)``: the address of n words that live until the function returns."""

call = _only_native("call")
"""``call(f, a, ...)``: call the function at address f with words."""

text = _only_native("text")
"""``text("...")``: the address of constant characters with a zero at the end."""

size_of = _only_native("size_of")
"""``size_of(Struct)``: its size in bytes."""

bit_length = _only_native("bit_length")
"""``bit_length(n)``: how many bits a word that is not negative needs."""

bits_of_double = _only_native("bits_of_double")
"""``bits_of_double(x)``: the bits of a double."""

bits_of_float = _only_native("bits_of_float")
"""``bits_of_float(x)``: the bits of a double rounded to single precision."""

double = _only_native("double")
"""``double(n)``: a word as a double."""

whole = _only_native("whole")
"""``whole(x)``: a double as a word, rounded towards zero."""

single = _only_native("single")
"""``single(x)``: a double rounded to single precision."""
