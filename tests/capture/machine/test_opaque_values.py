"""The machine looks at no value itself: programs run right over boxes that refuse every operation of Python's."""

from __future__ import annotations

from typing import Any

import pytest

from flambeau.capture.machine import Machine, Semantics

from . import programs, suspended_programs

BOXED = (int, float, str)


class Box:
    """Holds a number or text and can do nothing."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def refuse(self, *_: Any) -> Any:
        raise AssertionError("the machine touched a value")

    __bool__ = __eq__ = __hash__ = __iter__ = __len__ = __index__ = __str__ = __repr__ = __getattr__ = refuse  # type: ignore[assignment]


def box(value: Any) -> Any:
    return Box(value) if type(value) in BOXED else value


def plain(value: Any) -> Any:
    if type(value) is Box:
        return value.value
    return tuple(map(plain, value)) if type(value) is tuple else value


def boxing(method: Any) -> Any:
    """The method over plain values, its result boxed; what is built of a list is built of plain items."""
    builds = method.__name__.startswith("build_")

    def wrapped(self: Any, *args: Any) -> Any:
        return box(method(self, *[[plain(v) for v in a] if builds else plain(a) for a in args]))

    return wrapped


def boxing_result(method: Any) -> Any:
    return lambda self, *args: box(method(self, *args))


class Boxing(Semantics):
    """Numbers and texts are boxed on the stack and in variables, and plain within objects and native code."""

    def constant(self, value: Any) -> Any:
        return box(value)

    def call(self, function: Any, args: Any, kwargs: Any) -> Any:
        function = plain(function)
        target = getattr(function, "__func__", function)
        if type(target).__name__ == "function" and self.machine.can_enter(target):
            return super().call(function, args, kwargs)
        return box(super().call(function, plain(args), {k: plain(v) for k, v in kwargs.items()}))

    def truth(self, value: Any) -> bool:
        return super().truth(plain(value))

    def is_same(self, left: Any, right: Any) -> bool:
        return plain(left) is plain(right)

    def store_cell(self, cell: Any, value: Any) -> None:
        super().store_cell(cell, plain(value))

    def make_cell(self, value: Any) -> Any:
        return super().make_cell(plain(value))

    def store_name(self, frame: Any, name: str, value: Any) -> None:
        super().store_name(frame, name, plain(value))

    def store_global(self, frame: Any, name: str, value: Any) -> None:
        super().store_global(frame, name, plain(value))

    def visible_locals(self, frame: Any) -> Any:
        return {name: plain(value) for name, value in super().visible_locals(frame).items()}

    def list_append(self, into: Any, item: Any) -> None:
        into.append(plain(item))

    def map_add(self, into: Any, key: Any, value: Any) -> None:
        into[plain(key)] = plain(value)

    def format_value(self, value: Any, conversion: Any, specification: Any) -> Any:
        return box(super().format_value(plain(value), conversion, plain(specification)))

    def unpack(self, value: Any, count: int) -> list[Any]:
        return [box(item) for item in super().unpack(plain(value), count)]

    def unpack_ex(self, value: Any, before: int, after: int) -> list[Any]:
        return [box(item) for item in super().unpack_ex(plain(value), before, after)]

    def match_mapping(self, subject: Any) -> bool:
        return super().match_mapping(plain(subject))

    def match_sequence(self, subject: Any) -> bool:
        return super().match_sequence(plain(subject))


for _name in (
    "load_attribute store_attribute delete_attribute super_attribute subscript store_subscript delete_subscript binary inplace unary "
    "compare contains iterator advance build_tuple build_list build_set build_map build_string build_slice set_add "
    "list_extend set_update dict_update list_to_tuple exception match_class match_keys length "
    "positional_arguments keyword_arguments dict_merge enter_context"
).split():
    setattr(Boxing, _name, boxing(getattr(Semantics, _name)))
for _name in ("load_global", "load_name", "load_from_mapping", "load_cell", "import_from"):
    setattr(Boxing, _name, boxing_result(getattr(Semantics, _name)))

# Native code takes values from their generators or looks at their variables, or a message names the type of a value.
SEEN_NATIVELY = ("comprehensions", "formatted_traceback", "generators", "init_returns_something", "introspection", "large_function")
CHOSEN = [p for p in programs.PROGRAMS + suspended_programs.PROGRAMS if p.__name__ not in SEEN_NATIVELY]


@pytest.mark.parametrize("function", CHOSEN, ids=lambda function: function.__name__)
def test_over_boxes(function: Any) -> None:
    def outcome(run: Any) -> Any:
        try:
            return "returned", repr(plain(run()))
        except BaseException as error:
            return "raised", type(error), str(error)

    assert outcome(lambda: Machine(Boxing()).call_function(function, (), {})) == outcome(function)
