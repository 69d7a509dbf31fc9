"""Watches a tracing run for what a graph cannot repeat: effects on outside objects and calls of unknown functions.

Python reports every call of a Python or C function to a profile function. User code (anything outside this package) must
not store into objects, and may call only C functions that are known to be pure, or that change a container made during the
run. What is found ends up in ``reason``; the function then runs eagerly.
"""

from __future__ import annotations

import dis
import gc
import itertools
import math
import operator
import os
import sys
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from flambeau.core.source_lines import PACKAGE
from flambeau.tensor.base import TensorBase

LIBRARIES = tuple(os.path.dirname(os.path.abspath(str(m.__file__))) + os.sep for m in (dis, np, ml_dtypes))

STORES = frozenset(("STORE_ATTR", "DELETE_ATTR", "STORE_GLOBAL", "DELETE_GLOBAL", "STORE_NAME", "IMPORT_STAR"))

# Stores that tensors take part in themselves: the recorder sees them.
TENSOR_ATTRIBUTES = frozenset(("grad",))

PURE_BUILTINS = frozenset(
    id(f)
    for f in (
        abs, all, any, callable, chr, divmod, format, getattr, hasattr, hash, id, isinstance, issubclass, iter, len, max, min, next, ord,
        pow, repr, round, sorted, sum, vars, dir, sys.getrefcount, object.__init__,
    )
)  # fmt: skip
PURE_MODULES = (math, operator, itertools)
CONTAINERS = (list, dict, set)
MUTATORS = frozenset((
    "append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "update", "setdefault", "popitem", "add", "discard",
    "__setitem__", "__delitem__", "__iadd__",
))  # fmt: skip


class Watch:
    """Use as ``with Watch(function, args, kwargs) as watch: ...``; afterwards ``watch.reason`` tells why the run cannot be repeated."""

    def __init__(self, function: Callable[..., Any], args: Iterable[Any]) -> None:
        self.reason: str | None = None
        self.codes: dict[CodeType, Any] = {}
        self.outside: dict[int, Any] = {}
        for root in (function, *args):
            collect(root, self.outside, 4)
        self._contents = [(c, contents_of(c)) for c in self.outside.values()]
        self._previous: Any = None
        self._collecting = False

    def __enter__(self) -> Watch:
        # What a collection calls (finalizers, hooks of other libraries) is not the function's doing.
        self._collecting = gc.isenabled()
        gc.disable()
        self._previous = sys.getprofile()
        sys.setprofile(self._observe)
        return self

    def __exit__(self, *_: object) -> None:
        if self._previous is None or callable(self._previous):
            sys.setprofile(self._previous)
        else:
            self._previous.enable()  # a profiler of cProfile, which sys.setprofile does not take back
        if self._collecting:
            gc.enable()
        changed = next((c for c, before in self._contents if contents_of(c) != before), None)
        if self.reason is None and changed is not None:
            self.reason = f"it changes a {type(changed).__name__} that was made outside"

    def _observe(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if self.reason is not None or is_trusted(frame):
            return
        if event == "call":
            if code not in self.codes and not code.co_filename.startswith("<frozen"):
                self.codes[code] = frame.f_globals
                self._scan(code)
        elif event == "c_call":
            self._check_c_call(frame, argument)

    def _scan(self, code: CodeType) -> None:
        for instruction in dis.get_instructions(code):
            if instruction.opname in STORES and instruction.argval not in TENSOR_ATTRIBUTES:
                line = instruction.positions.lineno if instruction.positions else code.co_firstlineno
                self._refuse(f"it stores {instruction.argval!r} outside the function", code, line)

    def _check_c_call(self, frame: FrameType, function: Any) -> None:
        if id(function) in PURE_BUILTINS:
            return
        owner = getattr(function, "__self__", None)
        if isinstance(owner, ModuleType):
            if owner in PURE_MODULES or (owner.__name__ == "builtins" and function.__name__ in ("__build_class__", "locals", "globals")):
                return
        elif isinstance(owner, CONTAINERS):
            if function.__name__ not in MUTATORS or id(owner) not in self.outside:
                return
        elif owner is not None and type(owner).__module__ in ("builtins", "enum", "collections"):
            return
        elif type(owner).__module__.startswith("flambeau") or getattr(function, "__module__", None) in ("math", "_operator", "itertools"):
            return
        self._refuse(f"it calls {describe(function)}, which may have effects", frame.f_code, frame.f_lineno)

    def _refuse(self, what: str, code: CodeType, line: int | None) -> None:
        self.reason = f"{what} ({os.path.basename(code.co_filename)}:{line})"


def is_trusted(frame: FrameType | None) -> bool:
    """Whether the frame is this package's own code, or a library that works for it."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(PACKAGE):
            return True
        if name[:1] == "<" and str(frame.f_globals.get("__name__")).startswith("flambeau"):
            return True  # made by dataclasses and the like
        library = name.startswith(("<frozen", *LIBRARIES)) and ("site-packages" not in name or name.startswith(LIBRARIES[1:]))
        if not library:
            return False
        frame = frame.f_back
    return False


def describe(function: Any) -> str:
    """A C function's name for messages."""
    owner = getattr(function, "__self__", None)
    if isinstance(function, BuiltinFunctionType) and owner is not None and not isinstance(owner, ModuleType):
        return f"{type(owner).__name__}.{function.__name__}()"
    module = getattr(function, "__module__", None)
    return f"{module}.{function.__name__}()" if module and module != "builtins" else f"{getattr(function, '__name__', function)}()"


def is_own(value: Any) -> bool:
    """Whether a function or class belongs to this package."""
    return str(getattr(value, "__module__", "")).partition(".")[0] == "flambeau"


def contents_of(container: Any) -> list[Any]:
    """What a container holds, by identity."""
    items = container.items() if isinstance(container, dict) else ((None, v) for v in container)
    return [(k, id(v)) for k, v in items]


def collect(value: Any, found: dict[int, Any], depth: int) -> None:
    """The containers that can be reached from ``value`` through containers, attributes and closures, by id.

    Modules and optimizers are left out: they tell the recorder themselves what they change. So is what is this package's own.
    """
    if depth == 0 or id(value) in found or isinstance(value, (str, bytes, int, float, type(None), ModuleType, type, TensorBase)):
        return
    if isinstance(value, MethodType):
        collect(value.__self__, found, depth)
        value = value.__func__
    if isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            try:
                collect(cell.cell_contents, found, depth - 1)
            except ValueError:
                continue
        for name in () if is_own(value) else value.__code__.co_names:
            if name in value.__globals__:
                collect(value.__globals__[name], found, depth - 1)
        return
    if isinstance(value, (list, tuple, set, frozenset, dict)):
        if isinstance(value, CONTAINERS):
            found[id(value)] = value
        for item in list(value.values()) if isinstance(value, dict) else value:
            collect(item, found, depth - 1)
        return
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict) and not hasattr(value, "_modules") and not hasattr(value, "param_groups") and not is_own(type(value)):
        found[id(attributes)] = attributes
        for item in list(attributes.values()):
            collect(item, found, depth - 1)
