"""Binds the arguments of a call to a frame's variables, as CPython does."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, NoReturn

from flambeau.capture.machine.decode import Program
from flambeau.capture.machine.markers import NULL
from flambeau.capture.machine.native import returning_none

if TYPE_CHECKING:
    from flambeau.capture.machine.semantics import Semantics

VARIADIC, KEYWORDS = 0x04, 0x08


def bind(semantics: Semantics, function: types.FunctionType, program: Program, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The variables of a call; TypeError with CPython's message where the arguments do not fit."""
    if program.simple and not kwargs and len(args) == program.argument_count:
        return [*args, *program.padding]
    fast = _bind(semantics, function, program, args, kwargs)
    return _fail(function, args, kwargs) if fast is None else fast


def _bind(
    semantics: Semantics, function: types.FunctionType, program: Program, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[Any] | None:
    code = function.__code__
    count, keyword_only = code.co_argcount, code.co_kwonlyargcount
    fast: list[Any] = [NULL] * len(program.names)
    given = min(count, len(args))
    fast[:given] = args[:given]
    place = count + keyword_only
    if code.co_flags & VARIADIC:
        fast[place] = semantics.build_tuple(list(args[count:]))
        place += 1
    elif len(args) > count:
        return None
    if kwargs and not _bind_keywords(semantics, code, fast, kwargs, place):
        return None
    if code.co_flags & KEYWORDS and fast[place] is NULL:
        fast[place] = semantics.build_map([], [])
    return fast if _fill_defaults(function, fast, given) else None


def _bind_keywords(semantics: Semantics, code: types.CodeType, fast: list[Any], kwargs: dict[str, Any], place: int) -> bool:
    names = code.co_varnames
    rest: dict[str, Any] | None = semantics.build_map([], []) if code.co_flags & KEYWORDS else None
    places = {name: n for n, name in enumerate(names[: code.co_argcount + code.co_kwonlyargcount]) if n >= code.co_posonlyargcount}
    for name, value in kwargs.items():
        if not isinstance(name, str):
            return False
        index = places.get(name)
        if index is not None:
            if fast[index] is not NULL:
                return False
            fast[index] = value
        elif rest is None:
            return False
        else:
            rest[name] = value
    if rest is not None:
        fast[place] = semantics.build_map(list(rest), list(rest.values()))
    return True


def _fill_defaults(function: types.FunctionType, fast: list[Any], given: int) -> bool:
    code = function.__code__
    count = code.co_argcount
    defaults, keyword_defaults = function.__defaults__ or (), function.__kwdefaults__ or {}
    for n in range(given, count):
        if fast[n] is NULL:
            if n < count - len(defaults):
                return False
            fast[n] = defaults[n - count + len(defaults)]
    for n in range(count, count + code.co_kwonlyargcount):
        if fast[n] is NULL:
            if code.co_varnames[n] not in keyword_defaults:
                return False
            fast[n] = keyword_defaults[code.co_varnames[n]]
    return True


def _fail(function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NoReturn:
    """Let CPython itself say what does not fit."""
    twin = types.FunctionType(returning_none(function.__code__), {"__builtins__": {}}, None, function.__defaults__)
    twin.__kwdefaults__ = function.__kwdefaults__
    twin.__qualname__ = function.__qualname__
    twin(*args, **kwargs)
    raise AssertionError(f"the machine could not bind the arguments of {function.__qualname__}, which CPython binds")
