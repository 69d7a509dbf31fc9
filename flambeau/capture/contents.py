"""What objects of a program are like, as plain data that is the same in every process: kept captures rely on it."""

from __future__ import annotations

import enum
import hashlib
import importlib
import sys
import types
from functools import partial
from typing import Any

from flambeau.capture.calls import WORLD_MODULES
from flambeau.capture.guards import MODULE_STATE
from flambeau.capture.places import is_module, is_trusted_module
from flambeau.capture.values import ATOMS, MISSING, code_digest, is_ours, value_key
from flambeau.tensor.base import TensorBase
from flambeau.tensor.dispatch import wants_gradient

__all__ = ["Describer", "NotPortable", "is_python_own", "named", "summary"]

FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
             types.ClassMethodDescriptorType, types.MethodWrapperType, type)  # fmt: skip
IGNORED = frozenset(("__module__", "__dict__", "__weakref__", "__doc__", "__annotations__", "__abstractmethods__", "_abc_impl",
                     "__firstlineno__", "__static_attributes__", "__dataclass_fields__", "__dataclass_params__"))  # fmt: skip
HOOKED = frozenset(name for name in MODULE_STATE if name.endswith("_hooks")) | {"forward"}


NATIVE_TYPES = {value: name for name, value in vars(types).items() if isinstance(value, type) and value.__module__ == "builtins"}
# Types of Python that stand in no module under their names.
Unnamed = type("Unnamed", (), {
    kind.__name__: kind
    for value in ((), [], set(), "", b"", range(1), {}, {}.keys(), {}.values(), {}.items())
    for kind in (type(iter(value)), type(value))
})  # fmt: skip


class NotPortable(Exception):
    """Why something cannot be kept for other processes."""


def named(value: Any) -> tuple[str, str] | None:
    """The module and the name in it of a function, class or object that stands there under its own name."""
    if value is MISSING:
        return "flambeau.capture.values", "MISSING"
    if isinstance(value, type) and value in NATIVE_TYPES:
        return "types", NATIVE_TYPES[value]
    if isinstance(value, type) and vars(Unnamed).get(value.__name__) is value:
        return __name__, f"Unnamed.{value.__name__}"
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    owner = getattr(value, "__module__", None) or getattr(getattr(value, "__objclass__", None), "__module__", None)
    if owner is None and isinstance(getattr(value, "__self__", None), types.ModuleType):
        owner = value.__self__.__name__
    if type(value) is types.BuiltinFunctionType and owner is None:  # of an object that its module keeps to itself
        name, owner = value.__name__, type(value.__self__).__module__
    if not isinstance(name, str) or not isinstance(owner, str):
        return None
    return (owner, name) if found_by_name(owner, name) is value else None


def is_python_own(module: str) -> bool:
    """Whether what a module holds depends on the versions of Python, numpy and this package alone."""
    return is_trusted_module(module) or module.partition(".")[0] in sys.stdlib_module_names


def found_by_name(module: str, name: str) -> Any:
    """What stands in a module that is loaded, or one of ours, under a dotted name; None when nothing does."""
    found: Any = sys.modules.get(module)
    if found is None and module.startswith("flambeau."):  # many of ours are loaded at their first use
        found = importlib.import_module(module)
    for part in name.split("."):
        space = getattr(found, "__dict__", None)
        if space is None or part not in space:
            return None
        found = space[part]
    return found


def digest(description: Any) -> str:
    """A description in short."""
    return hashlib.sha256(repr(description).encode()).hexdigest()


class Describer:
    """Describes objects up to what a capture takes for granted of them; an object that comes again is its number."""

    def __init__(self) -> None:
        self.numbers: dict[int, tuple[int, Any]] = {}
        self.codes: set[str] = set()  # the digests of code met
        self.runs_natively = False  # what is described now is called by the library, so that nothing that it reads is checked

    def of(self, value: Any) -> Any:
        """The description; `NotPortable` where there is none."""
        kind: Any = type(value)
        if kind in ATOMS:
            return repr(value_key(value))
        if kind is types.ModuleType:
            return "module", value.__name__
        if kind in (tuple, list, set, frozenset) or hasattr(kind, "_fields"):
            parts = [self.of(v) for v in value]
            return kind.__name__, parts if kind not in (set, frozenset) else sorted(map(repr, parts))
        if id(value) in self.numbers:
            return "again", self.numbers[id(value)][0]
        self.numbers[id(value)] = len(self.numbers), value
        if isinstance(value, dict):
            return kind.__name__, [(self.of(k), self.of(v)) for k, v in value.items()]
        if isinstance(value, TensorBase):
            return "tensor", self._class(kind), repr(value.meta), wants_gradient(value), value.entry is None
        if isinstance(value, FUNCTIONS):
            return self._function(value)
        if kind is types.MethodType:
            return "method", self.of(value.__func__), self.of(value.__self__)
        if kind is partial:
            return "partial", self.of(value.func), self.of(value.args), self.of(value.keywords)
        if isinstance(value, enum.Enum):
            return self._class(kind), value.name
        return self._object(value)

    def _function(self, value: Any) -> Any:
        if isinstance(value, type):
            return self._class(value)
        if type(value) is types.FunctionType and not is_trusted_module(value.__globals__.get("__name__")):
            if self.runs_natively:
                raise NotPortable(f"a function of the program that the library calls ({value.__qualname__})")
            self.codes.add(code_digest(value.__code__))
            return "code", code_digest(value.__code__)
        if type(value) in (types.ClassMethodDescriptorType, types.MethodWrapperType):
            return value.__qualname__
        found = named(value)
        if found is None and type(value) is types.FunctionType:  # made by the library at run time
            return "code", code_digest(value.__code__), [self.of(c.cell_contents) for c in value.__closure__ or ()]
        if found is None:
            raise NotPortable(f"a function without a name of its own ({getattr(value, '__qualname__', value)})")
        return found

    def _class(self, cls: type) -> Any:
        found = named(cls)
        if found is not None and is_python_own(found[0]):
            return found
        if id(cls) not in self.numbers:
            self.numbers[id(cls)] = len(self.numbers), cls
        outer, self.runs_natively = self.runs_natively, False
        bases = [self._class(base) for base in cls.__bases__]
        strict = "_modules" in dir(cls) or any(base.__module__.startswith("flambeau.nn") for base in cls.__mro__)
        members = [(name, self._member(name, value, strict)) for name, value in vars(cls).items() if name not in IGNORED]
        self.runs_natively = outer
        return cls.__module__, cls.__qualname__, bases, members

    def _member(self, name: str, value: Any, strict: bool) -> Any:
        """Something in a class. What is read of it while functions are captured is checked, but for Modules and descriptors."""
        value = getattr(value, "__func__", value)
        if type(value) is property:
            return [None if f is None else self._function(f) for f in (value.fget, value.fset, value.fdel)]
        if type(value) in (types.MemberDescriptorType, types.GetSetDescriptorType):
            return "slot"
        try:
            return self.of(value)
        except NotPortable:
            if strict or hasattr(type(value), "__get__"):
                raise
            return type(value).__qualname__

    def _object(self, value: Any) -> Any:
        kind = type(value)
        attributes = getattr(value, "__dict__", None)
        if not isinstance(attributes, dict):
            raise NotPortable(f"an object of {kind.__module__}.{kind.__qualname__}")
        if is_module(value):
            library = kind.__module__.startswith("flambeau.")
            read = {n: v for n, v in attributes.items() if library or n in MODULE_STATE}
            in_front = [n for n in attributes if n not in read and hasattr(kind, n)]
            return self._class(kind), [self._attribute(n, v, library and n not in HOOKED) for n, v in read.items()], in_front
        if not is_trusted_module(kind.__module__):
            raise NotPortable(f"an object of the program's class {kind.__qualname__}")
        if hasattr(value, "_torchdynamo_orig_callable"):
            return "compiled", self.of(value._torchdynamo_orig_callable)
        if kind.__module__.startswith(WORLD_MODULES):
            return self._class(kind)  # what it does is done anew at every call
        apart = getattr(kind, "read_at_every_call", ())
        return self._class(kind), [self._attribute(n, v, True) for n, v in attributes.items() if n not in apart]

    def _attribute(self, name: str, value: Any, runs_natively: bool) -> Any:
        outer, self.runs_natively = self.runs_natively, runs_natively
        found = name, self.of(value)
        self.runs_natively = outer
        return found


def summary(value: Any, sizes: bool = True, depth: int = 2) -> Any:
    """What tells captures for different uses of one function apart: Modules in full, tensors by their metadata, the rest by type.

    Without ``sizes`` tensors that differ in them alone have the same one.
    """
    kind = type(value)
    if isinstance(value, TensorBase):
        meta = value.meta
        return repr(meta) if sizes else (meta.dtype.name, str(meta.device), len(meta.shape)), wants_gradient(value)
    if is_module(value):
        try:
            return digest(Describer().of(value))
        except NotPortable:
            return kind.__qualname__
    if isinstance(value, types.FunctionType):
        inner = [summary(c.cell_contents, sizes, depth - 1) for c in value.__closure__ or () if c != types.CellType()] if depth else []
        return code_digest(value.__code__), inner
    if kind is types.MethodType:
        return summary(value.__func__, sizes, depth), summary(value.__self__, sizes, depth)
    if depth and kind in (list, tuple, dict):
        items = list(value.items()) if kind is dict else list(value)
        return kind.__name__, len(items), [summary(v, sizes, depth - 1) for v in items[:16]]
    return kind.__module__, kind.__qualname__, is_ours(kind)
