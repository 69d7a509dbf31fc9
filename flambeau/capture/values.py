"""What capture knows of values: boxes of numbers that may change, what counts as an atom, and how a check sees a value."""

from __future__ import annotations

import hashlib
import types
from collections.abc import Callable
from typing import Any

from flambeau.core.device import Device
from flambeau.core.dtypes import dtype
from flambeau.core.identity import Same
from flambeau.core.numbers import is_word
from flambeau.core.symbolic import Expression
from flambeau.tensor.base import TensorBase
from flambeau.tensor.dispatch import wants_gradient

ATOMS = frozenset((
    int, bool, str, bytes, complex, float, type(None), type(Ellipsis), type(NotImplemented), slice, range, dtype, Device,
))  # fmt: skip
# Packages whose objects the program does not look into.
SEALED = tuple([f"flambeau.{name}" for name in ("capture", "core", "ops", "runtime", "tensor", "ir", "compiler")])
CLASSES = (type, types.ModuleType, types.BuiltinFunctionType)


def varies(value: Any) -> bool:
    """Whether a value is a number or string that may be another one at the next call."""
    return type(value) is Box or type(value) is Expression


class _Missing:
    """The type of `MISSING`."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()  # what a place holds that holds nothing


class Box:
    """A number or string whose value may be another one at the next call: ``value`` now, in variable ``name`` of the program.

    Boxes live on the interpreter's stack, in locals and in tuples made inside; a value that enters a container or native code
    leaves its box, and a check fixes it.
    """

    __slots__ = ("name", "value")

    def __init__(self, value: Any, name: str) -> None:
        self.value = value
        self.name = name

    def __repr__(self) -> str:
        return f"Box({self.value!r}, {self.name})"


def value_key(value: Any) -> Any:
    """An atom so that equal keys are the same value: 1, 1.0 and True apart, 0.0 and -0.0 too, and NaN equal to itself."""
    kind = type(value)
    if kind is float:
        return kind, value.hex()
    if kind is complex:
        return kind, value.real.hex(), value.imag.hex()
    if kind is slice:
        return kind, value_key(value.start), value_key(value.stop), value_key(value.step)
    if kind is tuple:
        return kind, tuple(map(value_key, value))
    return kind, value


def tensor_key(value: Any) -> Any:
    """What of a tensor a graph is recorded for."""
    if not isinstance(value, TensorBase):
        return type(value)
    view = value.view_of
    shown = None if view is None or view.base.memory is not value.memory else (view.base.meta, value.address - view.base.address)
    return type(value), value.meta, wants_gradient(value), value.entry is None, shown


def widens(key: Any) -> bool:
    """Whether a program may have a variable for a value with this key: a float, or an integer that int64 holds."""
    return key[0] is float or (key[0] is int and is_word(key[1]))


_digests: dict[int, tuple[types.CodeType, str]] = {}


def code_digest(code: types.CodeType) -> str:
    """What a code object does and is called, without where it stands."""
    found = _digests.get(id(code))
    if found is None:
        constants = [_constant_text(c) for c in code.co_consts]
        parts = (
            code.co_qualname, code.co_flags, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_names,
            code.co_varnames, code.co_cellvars, code.co_freevars, code.co_exceptiontable, code.co_code, constants,
        )  # fmt: skip
        found = _digests[id(code)] = code, hashlib.sha256(repr(parts).encode()).hexdigest()
    return found[1]


def _constant_text(value: Any) -> str:
    if isinstance(value, types.CodeType):
        return code_digest(value)
    if isinstance(value, (tuple, frozenset)):
        parts = [_constant_text(v) for v in value]
        return f"{type(value).__name__}({', '.join(parts if isinstance(value, tuple) else sorted(parts))})"
    return repr(value_key(value))


def code_key(value: Any) -> Any:
    """The code of a function by its contents, whichever object carries it."""
    return code_digest(value.__code__) if type(value) is types.FunctionType else type(value)


def frozen(value: Any) -> Any:
    """A value that equal settings of an optimizer have in common."""
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value


LOOKS = {"value": value_key, "tensor": tensor_key, "code": code_key, "type": type, "guard": frozen}


def is_ours(kind: type) -> bool:
    """Whether a class is this package's, or derives from one that is: a Module, an optimizer, a schedule."""
    return any(base.__module__.partition(".")[0] == "flambeau" for base in kind.__mro__)


def written(kind: type, name: str) -> Any:
    """The Python function that a class has under a special name, if the program wrote it, also in a class that derives from one of this
    package's; None without."""
    found = static_lookup(kind, name)
    if type(found) is not types.FunctionType or not is_ours(kind):
        return found if type(found) is types.FunctionType else None
    return None if issubclass(kind, TensorBase) or (found.__module__ or "").partition(".")[0] == "flambeau" else found


def is_sealed(value: Any) -> bool:
    """Whether what an object of this package holds is checked in another way than by reading it, or never changes."""
    kind = type(value)
    if isinstance(value, TensorBase) or (is_ours(kind) and "_modules" in getattr(value, "__dict__", ())):
        return True
    return is_ours(kind) and kind.__module__.startswith(SEALED)


def look_at(value: Any) -> tuple[str, Any]:
    """How a check sees a value from outside: kind and outcome."""
    kind = type(value)
    if kind in ATOMS:
        return "value", value_key(value)
    if isinstance(value, TensorBase):
        return "tensor", tensor_key(value)
    ours = kind is types.FunctionType and str(value.__module__).partition(".")[0] == "flambeau"
    if kind is types.FunctionType and not ours:
        return "code", code_digest(value.__code__)
    if ours or isinstance(value, CLASSES) or is_ours(kind):
        return "is", Same(value)
    return "type", kind


def tuple_like(kind: type, items: Any, beside: dict[str, Any] | None = None) -> Any:
    """A tuple of this class, without running a ``__new__`` written in Python; ``beside`` are attributes of its own."""
    native = type(kind.__new__) is types.BuiltinFunctionType and kind.__new__ is not tuple.__new__
    made = kind(items) if native else tuple.__new__(kind, items)
    if beside:
        made.__dict__.update(beside)
    return made


def each_changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """A tuple of what becomes of the items of one; the same one where they stay."""
    items = [change(v) for v in value]
    same = all(a is b for a, b in zip(items, value, strict=True))
    return value if same else tuple_like(type(value), items, getattr(value, "__dict__", None))


def static_lookup(kind: type, name: str, default: Any = None) -> Any:
    """What the classes of ``kind`` hold under ``name``, without calling descriptors."""
    for base in kind.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return default
