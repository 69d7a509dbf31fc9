"""How values are written in the residual program: literals, variables, and objects that are made when they are let out."""

from __future__ import annotations

import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from flambeau.capture.segments import Writer
from flambeau.capture.trace import Trace, Uncapturable, contents_of, refill
from flambeau.capture.values import ATOMS, CLASSES, Box, tuple_like, value_key, varies
from flambeau.core.symbolic import Expression
from flambeau.tensor.base import TensorBase

__all__ = ["Namer", "carries", "holds_pending"]

DEEPEST = 4
CONTAINERS = (tuple, list, dict, set, frozenset, deque)
LITERALS = (int, bool, str, type(None))
SMALL = range(-5, 257)  # integers that CPython keeps one object of


def members(value: Any) -> Sequence[Any]:
    """What a plain container holds."""
    return [*value.keys(), *value.values()] if isinstance(value, dict) else list(value)


def holds_pending(value: Any, depth: int = DEEPEST) -> bool:
    """Whether a value is, or holds, a tensor that is not computed yet."""
    if isinstance(value, TensorBase):
        return value.memory.pending is not None
    if depth and type(value) in CONTAINERS:
        return any(holds_pending(v, depth - 1) for v in members(value))
    if depth and isinstance(value, types.FunctionType):
        return any(holds_pending(c.cell_contents, depth - 1) for c in value.__closure__ or () if _filled(c))
    attributes = getattr(value, "__dict__", None)
    if depth and type(attributes) is dict and not isinstance(value, CLASSES) and type(value) not in ATOMS:
        return any(holds_pending(v, depth - 1) for v in list(attributes.values()))
    return False


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty cell raises
    except ValueError:
        return False
    return True


def carries(value: Any, known: dict[int, tuple[str, Any]], depth: int = DEEPEST) -> bool:
    """Whether a value is, or holds, a number that may differ in the next call."""
    kind = type(value)
    if varies(value):
        return True
    if kind in (float, int):
        return id(value) in known
    if depth and (kind in CONTAINERS or isinstance(value, tuple)) and id(value) not in known:
        return any(carries(v, known, depth - 1) for v in members(value))
    return False


class Namer:
    """Names values; what was made inside comes into being in the program at the moment that its name is asked for."""

    def __init__(self, trace: Trace, writer: Writer) -> None:
        self.trace = trace
        self.writer = writer
        writer.name_of = self.name
        self.inline = False  # tuples are written where they are used, not kept for a second use
        self.cells: dict[int, tuple[Any, str]] = {}  # of outside functions: the cell and the expression for it

    def name(self, value: Any) -> str:
        """An expression for a value over variables and constants of the program."""
        trace = self.trace
        kind = type(value)
        if not trace.recording:
            return ""
        if kind is Box:
            return value.name
        if kind is Expression:
            return trace.sizes.text(value)
        found = trace.known.get(id(value))
        if found is not None and found[1] is value and not isinstance(value, TensorBase):
            return found[0]
        if isinstance(value, TensorBase):
            return self.writer.name(value)
        if kind in LITERALS and len(repr(value)) < 60:
            return repr(value)
        plain = kind in ATOMS and (kind is not slice or {type(v) for v in (value.start, value.stop, value.step)} <= ATOMS)
        if plain or (isinstance(value, CLASSES) and kind is not types.BuiltinFunctionType):
            return trace.tree.constant(_shared_atom(trace, value))
        maker = MAKERS.get(kind)
        if maker is not None:
            return maker(self, value)
        if isinstance(value, tuple) and kind is not tuple:
            beside = ", ".join(f"{k!r}: {self.name(v)}" for k, v in getattr(value, "__dict__", {}).items())
            constant, items = trace.tree.constant, self.listed(value) + "," * bool(value)
            text = f"{constant(tuple_like)}({constant(kind)}, ({items}), {{{beside}}})"
            return text if self.inline else self.born(value, text)
        if isinstance(value, BaseException):
            return self._exception(value)
        if id(value) in trace.inside:
            return self._of_container(value) if isinstance(value, (dict, list, set)) else self._instance(value)
        running = isinstance(value, (types.CoroutineType, types.AsyncGeneratorType)) or hasattr(value, "__next__")
        if kind in PLAIN_CONSTANTS or not (isinstance(value, CONTAINERS) or running):
            return trace.tree.constant(value)  # neither made inside nor read from a place that may change
        raise Uncapturable(f"{kind.__name__} object made inside is let out")

    def refuse(self, value: Any, seen: set[int] | None = None) -> None:
        """Raise Uncapturable for a value that cannot be named, before the steps that would make a part of it are written."""
        seen, kind = set() if seen is None else seen, type(value)
        found = self.trace.known.get(id(value))
        if id(value) in seen or kind in ATOMS or isinstance(value, (TensorBase, *CLASSES)) or (found is not None and found[1] is value):
            return
        seen.add(id(value))
        parts: list[Any] = []
        if isinstance(value, CONTAINERS):
            parts = list(contents_of(value).values()) if isinstance(value, dict) else [*value]
        elif kind is types.MethodType:
            parts = [value.__self__, value.__func__]
        elif kind is partial:
            parts = [value.func, *value.args, *value.keywords.values()]
        elif kind is types.FunctionType and self.trace.numbers_of.get(id(value)):
            parts = [*(c.cell_contents for c in value.__closure__ or () if _filled(c)), *(value.__defaults__ or ())]
        elif id(value) in self.trace.inside and type(getattr(value, "__dict__", None)) is dict:
            parts = list(value.__dict__.values())
        elif hasattr(value, "__next__") or isinstance(value, (types.CoroutineType, types.AsyncGeneratorType)):
            raise Uncapturable(f"{kind.__name__} object made inside is let out")
        for part in parts:
            self.refuse(part, seen)

    def listed(self, values: Sequence[Any]) -> str:
        """Names with commas between."""
        return ", ".join([self.name(v) for v in values])

    def call_text(self, function: str, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
        """A call of ``function``."""
        parts = [self.name(a) for a in args]
        if all(k.isidentifier() for k in kwargs):
            parts += [f"{k}={self.name(v)}" for k, v in kwargs.items()]
        elif kwargs:
            parts.append(f"**{{{', '.join(f'{k!r}: {self.name(v)}' for k, v in kwargs.items())}}}")
        return f"{function}({', '.join(parts)})"

    def born(self, value: Any, expression: str) -> str:
        """Let an object made inside out: a step makes it."""
        trace = self.trace
        self.refuse(value)
        trace.sizes.empty(value)
        name, real = trace.step(expression, lambda: value, birth=trace.numbers_of.get(id(value)))
        trace.know(value, name)
        if real is not value:
            trace.know_also(real, name)
            if isinstance(value, (list, dict, set)):  # what the replay did to its own since then
                trace.contents.append((value, contents_of(real)))
        return name

    # -- by type ----------------------------------------------------------------------------------------
    def _tuple(self, value: tuple[Any, ...]) -> str:
        text = f"({self.listed(value)},)" if value else "()"
        if self.inline or all(type(v) in ATOMS or type(v) is Expression for v in value):
            return text
        return self.born(value, text)

    def _list(self, value: list[Any]) -> str:
        if not any(isinstance(v, CONTAINERS) or id(v) in self.trace.inside for v in value):
            return self.born(value, f"[{self.listed(value)}]")
        items = list(value)
        name = self.born(value, "[]")
        self.trace.step(f"{name}.extend([{self.listed(items)}])", lambda: None, out=False)
        return name

    def _dict(self, value: dict[Any, Any]) -> str:
        items = list(value.items())
        name = self.born(value, "{}")
        for key, item in items:
            self.trace.step(f"{name}[{self.name(key)}] = {self.name(item)}", lambda: None, out=False)
        return name

    def _deque(self, value: deque[Any]) -> str:
        return self.born(value, f"{self.trace.tree.constant(deque)}([{self.listed(list(value))}], {value.maxlen})")

    def _set(self, value: set[Any]) -> str:
        return self.born(value, f"{{{self.listed(self._in_order(value))}}}" if value else "set()")

    def _frozenset(self, value: frozenset[Any]) -> str:
        return f"frozenset([{self.listed(self._in_order(value))}])"

    def _in_order(self, members: Any) -> list[Any]:
        """The members of a set in an order that does not hang on where objects lie in memory, so that it is met again."""
        known = self.trace.known
        return sorted(members, key=lambda m: repr(m) if type(m) in ATOMS else str(known.get(id(m), ("",))[0]))

    def _function(self, value: types.FunctionType) -> str:
        trace, constant = self.trace, self.trace.tree.constant
        if not trace.numbers_of.get(id(value)):
            return constant(value)
        cells = [self.cell(c) for c in value.__closure__ or ()]
        closure = f"({', '.join(cells)},)" if cells else "None"
        defaults, named = self.name(value.__defaults__), self.name(value.__kwdefaults__)
        text = (
            f"{constant(make_function)}({constant(value.__code__)}, {constant(value.__globals__)}, {value.__name__!r}, {defaults}, "
            f"{named}, {closure}, {value.__qualname__!r}, {self.name(value.__dict__) if value.__dict__ else None})"
        )
        return self.born(value, text)

    def cell(self, cell: Any) -> str:
        """An expression for a cell."""
        trace = self.trace
        found = trace.known.get(id(cell))
        if found is not None:
            return found[0]
        if id(cell) in self.cells:
            return self.cells[id(cell)][1]
        if id(cell) not in trace.inside:
            return trace.tree.constant(cell)
        filled = _filled(cell)
        contents = cell.cell_contents if filled else None
        name = self.born(cell, f"{trace.tree.constant(types.CellType)}()")
        if filled:
            trace.step(f"{name}.cell_contents = {self.name(contents)}", lambda: None, out=False)
        return name

    def _method(self, value: types.MethodType) -> str:
        return f"{self.trace.tree.constant(types.MethodType)}({self.name(value.__func__)}, {self.name(value.__self__)})"

    def _native_method(self, value: Any) -> str:
        owner = value.__self__
        if owner is None or isinstance(owner, (types.ModuleType, type)):
            return self.trace.tree.constant(value)
        return f"{self.name(owner)}.{value.__name__}"

    def _partial(self, value: Any) -> str:
        return self.call_text(self.trace.tree.constant(partial), (value.func, *value.args), value.keywords)

    def _slice(self, value: slice) -> str:
        return f"slice({self.name(value.start)}, {self.name(value.stop)}, {self.name(value.step)})"

    def _of_container(self, value: Any) -> str:
        """An object of a class that derives from dict, list or set."""
        constant, kind = self.trace.tree.constant, type(value)
        items = contents_of(value)
        name = self.born(value, f"{constant(kind.__new__)}({constant(kind)})")
        held = dict(items) if isinstance(value, dict) else list(items)
        self.trace.step(f"{constant(refill)}({name}, {self.name(held)})", lambda: None, out=False)
        if isinstance(value, defaultdict):
            self.trace.step(f"{name}.default_factory = {self.name(value.default_factory)}", lambda: None, out=False)
        for key, item in list(getattr(value, "__dict__", {}).items()):
            self.trace.step(f"{name}.__dict__[{key!r}] = {self.name(item)}", lambda: None, out=False)
        return name

    def _instance(self, value: Any) -> str:
        constant, kind = self.trace.tree.constant, type(value)
        attributes = getattr(value, "__dict__", {} if kind is object else None)
        if not isinstance(attributes, dict) or isinstance(value, CONTAINERS) or getattr(kind, "__slots__", None):
            raise Uncapturable(f"{kind.__name__} object made inside is let out")
        items = list(attributes.items())
        native: Any = types.SimpleNamespace if isinstance(value, types.SimpleNamespace) else object
        name = self.born(value, f"{constant(native.__new__)}({constant(kind)})")
        for key, item in items:
            self.trace.step(f"{name}.__dict__[{key!r}] = {self.name(item)}", lambda: None, out=False)
        return name

    def _exception(self, value: BaseException) -> str:
        kind = type(value)
        if any(type(a) not in (*ATOMS, Box, Expression) for a in value.args):
            raise Uncapturable(f"{kind.__name__} made inside is let out")
        name = self.born(value, f"{self.trace.tree.constant(kind)}({self.listed(value.args)})")
        return name


def _shared_atom(trace: Trace, value: Any) -> Any:
    """One object for all equal atoms, so that the program has one constant of them."""
    if isinstance(value, CLASSES):
        return value
    return trace.tree.atoms.setdefault(value_key(value) if type(value) in ATOMS else id(value), value)


def make_function(
    code: types.CodeType, namespace: dict[str, Any], name: str, defaults: Any, named: Any, closure: Any, qualified: str, attributes: Any
) -> types.FunctionType:
    """A function as ``def`` makes it."""
    function = types.FunctionType(code, namespace, name, defaults, closure)
    function.__kwdefaults__ = named
    function.__qualname__ = qualified
    if attributes:
        function.__dict__.update(attributes)
    return function


PLAIN_CONSTANTS = (types.CodeType, property, staticmethod, classmethod, types.MethodWrapperType, types.WrapperDescriptorType)
MAKERS: dict[type, Callable[[Namer, Any], str]] = {
    tuple: Namer._tuple, list: Namer._list, dict: Namer._dict, set: Namer._set, frozenset: Namer._frozenset, deque: Namer._deque,
    types.FunctionType: Namer._function, types.CellType: Namer.cell, types.MethodType: Namer._method, partial: Namer._partial,
    types.BuiltinMethodType: Namer._native_method, types.MethodWrapperType: Namer._native_method, slice: Namer._slice,
    OrderedDict: Namer._of_container,
}  # fmt: skip
