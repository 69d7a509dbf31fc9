"""Where objects are found from a call: chains of attributes, items, cells and globals, which lead to their like in another process."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Iterator, Set
from functools import partial
from itertools import islice
from typing import Any

from flambeau.capture.places import is_trusted_module
from flambeau.capture.values import ATOMS, MISSING
from flambeau.tensor.base import TensorBase

__all__ = ["Finder", "follow"]

MOST_OBJECTS, MOST_ITEMS = 1 << 17, 1 << 12
KEYS = (str, int, bool, float, type(None))
PARTS = {
    types.MethodType: ("__func__", "__self__"), partial: ("func", "args", "keywords"), types.CellType: ("cell_contents",),
    types.FunctionType: ("__globals__", "__closure__", "__defaults__", "__kwdefaults__"), property: ("fget", "fset"),
    staticmethod: ("__func__",), classmethod: ("__func__",),
}  # fmt: skip


class Finder:
    """Searches breadth first from the roots of a call, only as far as it is asked; goes through globals of these names only."""

    def __init__(self, roots: dict[str, Any], names: Set[str]) -> None:
        self.names = names
        self.roots = {id(v): k for k, v in roots.items()}
        self.table: list[list[Any]] = []  # parent, kind and argument of the places that were asked for, and the class of what is there
        self._objects: list[tuple[int, str, Any, Any]] = []  # parent, kind, argument, object
        self._found: dict[int, int] = {}
        self._waiting: deque[int] = deque()
        self._postponed: list[int] = []  # dictionaries with keys that have no place yet
        self._retried = 0  # how many objects were found when they were last looked into
        self._used: dict[int, int] = {}
        for name, value in roots.items():
            self._add(-1, "root", name, value)

    def _add(self, parent: int, kind: str, argument: Any, value: Any) -> None:
        if id(value) in self._found or type(value) in ATOMS or len(self._objects) >= MOST_OBJECTS:
            return
        self._found[id(value)] = len(self._objects)
        self._waiting.append(len(self._objects))
        self._objects.append((parent, kind, argument, value))

    def place(self, value: Any) -> int | None:
        """The number in `table` of the place of an object, None where it is not found."""
        while id(value) not in self._found and self._advance():
            pass
        return self.known(value)

    def _advance(self) -> bool:
        """Look into one more object; False where there is none left."""
        if not self._waiting and len(self._objects) > self._retried:
            self._retried = len(self._objects)
            self._waiting.extend(self._postponed)
            self._postponed.clear()
        if not self._waiting:
            return False
        number = self._waiting.popleft()
        holder = self._objects[number][3]
        for kind, argument, inner in self._inside(holder):
            self._add(number, kind, argument, inner)
        if isinstance(holder, dict) and len(holder) <= MOST_ITEMS and any(type(k) not in KEYS and id(k) not in self._found for k in holder):
            self._postponed.append(number)
        return True

    def functions(self) -> Iterator[types.FunctionType]:
        """The functions of the program, found by now and further on."""
        number = 0
        while number < len(self._objects) or self._advance():
            while number < len(self._objects):
                value = self._objects[number][3]
                if type(value) is types.FunctionType and not is_trusted_module(value.__globals__.get("__name__")):
                    yield value
                number += 1

    def beside(self, tensor: Any) -> tuple[int, Any] | None:
        """A tensor in the same memory that has a place; after a search."""
        found = next((o[3] for o in self._objects if isinstance(o[3], TensorBase) and o[3].memory is tensor.memory), None)
        return None if found is None else (self._use(self._found[id(found)]), found)

    def known(self, value: Any) -> int | None:
        """As `place`, without a further search."""
        found = self._found.get(id(value))
        return None if found is None else self._use(found)

    def _use(self, number: int) -> int:
        if number not in self._used:
            parent, kind, argument, _ = self._objects[number]
            above = self._use(parent) if parent >= 0 else -1
            if kind == "at":
                argument = self._use(self._found[id(argument)])
            self._used[number] = len(self.table)
            self.table.append([above, kind, argument, kind_of(self._objects[number][3])])
        return self._used[number]

    def _inside(self, value: Any) -> Iterator[tuple[str, Any, Any]]:
        kind = type(value)
        if kind in PARTS:
            trusted = kind is types.FunctionType and is_trusted_module(value.__globals__.get("__name__"))
            for name in PARTS[kind] if not trusted else ("__closure__",):
                inner: Any = getattr(value, name, None) if value != types.CellType() else None
                if name == "__globals__":
                    yield "part", name, inner
                    yield from (("global", n, inner[n]) for n in sorted(self.names & inner.keys()))
                elif name in ("__closure__", "__defaults__", "args"):
                    yield from (("within", (name, i), v) for i, v in enumerate(inner or ()))
                elif inner is not None:
                    yield "part", name, inner
        elif isinstance(value, types.ModuleType):
            if not is_trusted_module(value.__name__):
                yield from (("attribute", n, vars(value)[n]) for n in sorted(self.names & vars(value).keys()))
        elif isinstance(value, dict):
            if "__builtins__" not in value:
                yield from self._items(value)
        elif isinstance(value, (list, tuple)):
            yield from (("item", i, v) for i, v in enumerate(value[:MOST_ITEMS]))
        elif isinstance(value, type):
            if not is_trusted_module(value.__module__):
                yield from (("attribute", n, v) for n, v in vars(value).items() if not n.startswith("__"))
        elif not isinstance(value, TensorBase):
            if not is_trusted_module(kind.__module__):
                yield "class", None, kind
            attributes = getattr(value, "__dict__", None)
            if kind.__module__.startswith("flambeau.capture."):  # what was captured earlier is no part of the program
                inner = getattr(value, "_torchdynamo_orig_callable", None)
                yield from () if inner is None else [("attribute", "_torchdynamo_orig_callable", inner)]
            elif isinstance(attributes, dict):
                yield from (("attribute", n, v) for n, v in attributes.items())

    def _items(self, value: dict[Any, Any]) -> Iterator[tuple[str, Any, Any]]:
        for key, item in list(islice(value.items(), MOST_ITEMS)):
            if type(key) in KEYS:
                yield "item", key, item
            elif id(key) in self._found:
                yield "at", key, item


def follow(table: list[list[Any]], roots: dict[str, Any], absent: Any, before: list[Any] | None = None) -> list[Any]:
    """The objects at the places of a table, ``absent`` where there is none of that class; those ``before`` that are not absent stay."""
    found: list[Any] = []
    for number, (parent, kind, argument, cls) in enumerate(table):
        if before is not None and before[number] is not absent:
            found.append(before[number])
        elif parent >= 0 and found[parent] is absent:
            found.append(absent)
        else:
            try:
                value = roots[argument] if kind == "root" else STEPS[kind](found[parent], found[argument] if kind == "at" else argument)
            except (KeyError, IndexError, AttributeError, TypeError, ValueError):
                value = MISSING
            found.append(absent if value is MISSING or kind_of(value) != cls else value)
    return found


def kind_of(value: Any) -> str:
    """The class of an object, by its name."""
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _part(value: Any, name: str) -> Any:
    return getattr(value, name) if name in PARTS.get(type(value), ()) else MISSING


def _item(value: Any, key: Any) -> Any:
    if isinstance(value, dict):
        return dict.get(value, key, MISSING)
    return list.__getitem__(value, key) if isinstance(value, list) else tuple.__getitem__(value, key)


def _within(value: Any, place: list[Any]) -> Any:
    name, position = place
    return _part(value, name)[position]


# No code of the program runs here.
STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "part": _part,
    "within": _within,
    "global": lambda value, name: _part(value, "__globals__").get(name, MISSING),
    "attribute": lambda value, name: vars(value).get(name, MISSING),
    "class": lambda value, _: type(value),
    "item": _item,
    "at": _item,
}
