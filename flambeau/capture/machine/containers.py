"""Handlers of operators, comparisons, subscripts and the building and taking apart of containers and strings."""

from __future__ import annotations

from typing import Any

from flambeau.capture.machine.frame import Frame
from flambeau.capture.machine.markers import NULL


def taken(frame: Frame, count: int) -> list[Any]:
    """The topmost values, off the stack, lowest first."""
    if not count:
        return []
    stack = frame.stack
    items = stack[-count:]
    del stack[-count:]
    return items


def binary(frame: Frame, name: str) -> None:
    stack = frame.stack
    right = stack.pop()
    stack[-1] = frame.semantics.binary(name, stack[-1], right)


def inplace(frame: Frame, name: str) -> None:
    stack = frame.stack
    right = stack.pop()
    stack[-1] = frame.semantics.inplace(name, stack[-1], right)


def unary(frame: Frame, name: str) -> None:
    stack = frame.stack
    stack[-1] = frame.semantics.unary(name, stack[-1])


def compare(frame: Frame, name: str) -> None:
    stack = frame.stack
    right = stack.pop()
    stack[-1] = frame.semantics.compare(name, stack[-1], right)


def is_same(frame: Frame, inverted: int) -> None:
    stack = frame.stack
    right = stack.pop()
    stack[-1] = frame.semantics.is_same(stack[-1], right) is not bool(inverted)


def contains(frame: Frame, inverted: int) -> None:
    stack = frame.stack
    container = stack.pop()
    found = frame.semantics.contains(container, stack[-1])
    stack[-1] = frame.semantics.unary("not_", found) if inverted else found


def to_bool(frame: Frame, _: Any) -> None:
    frame.stack[-1] = frame.semantics.truth(frame.stack[-1])


def subscript(frame: Frame, _: Any) -> None:
    stack = frame.stack
    key = stack.pop()
    stack[-1] = frame.semantics.subscript(stack[-1], key)


def store_subscript(frame: Frame, _: Any) -> None:
    value, holder, key = taken(frame, 3)
    frame.semantics.store_subscript(holder, key, value)


def delete_subscript(frame: Frame, _: Any) -> None:
    holder, key = taken(frame, 2)
    frame.semantics.delete_subscript(holder, key)


def load_slice(frame: Frame, _: Any) -> None:
    holder, start, stop = taken(frame, 3)
    semantics = frame.semantics
    frame.stack.append(semantics.subscript(holder, semantics.build_slice([start, stop])))


def store_slice(frame: Frame, _: Any) -> None:
    value, holder, start, stop = taken(frame, 4)
    semantics = frame.semantics
    semantics.store_subscript(holder, semantics.build_slice([start, stop]), value)


def build_tuple(frame: Frame, count: int) -> None:
    frame.stack.append(frame.semantics.build_tuple(taken(frame, count)))


def build_list(frame: Frame, count: int) -> None:
    frame.stack.append(frame.semantics.build_list(taken(frame, count)))


def build_set(frame: Frame, count: int) -> None:
    frame.stack.append(frame.semantics.build_set(taken(frame, count)))


def build_map(frame: Frame, count: int) -> None:
    items = taken(frame, 2 * count)
    frame.stack.append(frame.semantics.build_map(items[::2], items[1::2]))


def build_map_of_keys(frame: Frame, count: int) -> None:
    keys = frame.stack.pop()
    frame.stack.append(frame.semantics.build_map(list(keys), taken(frame, count)))


def build_slice(frame: Frame, count: int) -> None:
    frame.stack.append(frame.semantics.build_slice(taken(frame, count)))


def build_string(frame: Frame, count: int) -> None:
    frame.stack.append(frame.semantics.build_string(taken(frame, count)))


def format_value(frame: Frame, argument: tuple[str | None, bool]) -> None:
    """The conversion of an f-string's field and whether its format specification lies on the stack."""
    conversion, specified = argument
    specification = frame.stack.pop() if specified else ""
    frame.stack[-1] = frame.semantics.format_value(frame.stack[-1], conversion, specification)


def convert_value(frame: Frame, conversion: str) -> None:
    frame.stack[-1] = frame.semantics.format_value(frame.stack[-1], conversion, "")


def build_interpolation(frame: Frame, flags: int) -> None:
    parts = taken(frame, 2 + (flags & 1))
    frame.stack.append(frame.semantics.build_interpolation(parts, flags))


def build_template(frame: Frame, _: Any) -> None:
    strings, interpolations = taken(frame, 2)
    frame.stack.append(frame.semantics.build_template(strings, interpolations))


def list_append(frame: Frame, depth: int) -> None:
    item = frame.stack.pop()
    frame.semantics.list_append(frame.stack[-depth], item)


def set_add(frame: Frame, depth: int) -> None:
    item = frame.stack.pop()
    frame.semantics.set_add(frame.stack[-depth], item)


def map_add(frame: Frame, depth: int) -> None:
    key, value = taken(frame, 2)
    frame.semantics.map_add(frame.stack[-depth], key, value)


def list_extend(frame: Frame, depth: int) -> None:
    items = frame.stack.pop()
    frame.semantics.list_extend(frame.stack[-depth], items)


def set_update(frame: Frame, depth: int) -> None:
    items = frame.stack.pop()
    frame.semantics.set_update(frame.stack[-depth], items)


def dict_update(frame: Frame, depth: int) -> None:
    other = frame.stack.pop()
    frame.semantics.dict_update(frame.stack[-depth], other)


def dict_merge(frame: Frame, depth: int) -> None:
    """Keyword arguments joined; the called function, for the message, lies below the positional ones, NULL on either side."""
    stack = frame.stack
    other = stack.pop()
    function = stack[-depth - 2] if stack[-depth - 2] is not NULL else stack[-depth - 3]
    frame.semantics.dict_merge(stack[-depth], other, function)


def list_to_tuple(frame: Frame, _: Any) -> None:
    frame.stack[-1] = frame.semantics.list_to_tuple(frame.stack[-1])


def unpack(frame: Frame, count: int) -> None:
    items = frame.semantics.unpack(frame.stack.pop(), count)
    frame.stack.extend(reversed(items))


def unpack_ex(frame: Frame, argument: tuple[int, int]) -> None:
    items = frame.semantics.unpack_ex(frame.stack.pop(), *argument)
    frame.stack.extend(reversed(items))
