"""Python types and builtin functions whose code is native, made through the public C API (`PyType_FromSpec` and friends)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import BuiltinMethodType, MethodDescriptorType, MethodType
from typing import Any

from flambeau.runtime.native.language import Struct

__all__ = ["HeapType", "keep", "make_function", "make_method", "make_type", "put_in_front", "python_form"]

_api = ctypes.pythonapi
# By the names of the C headers; these numbers are part of the stable ABI.
_SLOTS = {"tp_call": 50, "tp_clear": 51, "tp_dealloc": 52, "tp_hash": 59, "tp_init": 60, "tp_traverse": 71, "tp_members": 72,
          "tp_getset": 73, "nb_add": 7, "nb_matrix_multiply": 75, "nb_multiply": 29, "nb_negative": 30, "nb_subtract": 36,
          "nb_true_divide": 37}  # fmt: skip
_T_OBJECT, _T_BOOL, _T_OBJECT_EX, _T_LONGLONG, _T_PYSSIZET = 6, 14, 16, 17, 19
_READONLY = 1
_DEFAULT, _BASETYPE, _HAVE_GC = 1 << 18, 1 << 10, 1 << 14
METH_FASTCALL, METH_KEYWORDS, METH_NONE, METH_ONE = 0x80, 0x02, 0x04, 0x08


class _Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("function", ctypes.c_void_p)]


class _Spec(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("basicsize", ctypes.c_int), ("itemsize", ctypes.c_int), ("flags", ctypes.c_uint),
                ("slots", ctypes.c_void_p)]  # fmt: skip


class _Member(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_int), ("offset", ctypes.c_ssize_t), ("flags", ctypes.c_int),
                ("doc", ctypes.c_char_p)]  # fmt: skip


class _GetSet(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("get", ctypes.c_void_p), ("set", ctypes.c_void_p), ("doc", ctypes.c_char_p),
                ("closure", ctypes.c_void_p)]  # fmt: skip


class _Method(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


# Types and functions point into these for ever, that is, also while the interpreter takes its modules apart at the end.
_kept: list[Any] = []
_api.Py_IncRef(ctypes.py_object(_kept))


_methods: dict[str, _Method] = {}


def keep(value: Any) -> None:
    """Keep an object alive until the process ends."""
    _kept.append(value)


@dataclass(frozen=True, slots=True)
class HeapType:
    """A type to make: `required` and `optional` are fields that hold objects (an optional one that holds none reads as None),
    `numbers` 64-bit integers, `flags` bytes that are False or True. `slots` maps names like ``tp_dealloc`` to functions.
    """

    name: str
    struct: type[Struct]
    slots: Mapping[str, int]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    instance_dict: bool = False
    doc: str = field(default="")


def make_type(wanted: HeapType) -> type[Any]:
    """The Python type; it may be subclassed. RuntimeError on a build of Python whose objects begin otherwise."""
    if object.__basicsize__ != 16:
        raise RuntimeError(f"objects of this Python begin with {object.__basicsize__} bytes instead of 16; set FLAMBEAU_NATIVE=0")
    slots = dict(wanted.slots)
    slots["tp_members"] = _keep(_members(wanted))
    if wanted.instance_dict:
        slots["tp_getset"] = _keep(_dict_access())
    table = (_Slot * (len(slots) + 1))(*[_Slot(_SLOTS[name], address) for name, address in slots.items()])
    spec = _Spec(wanted.name.encode(), wanted.struct.size, 0, _DEFAULT | _BASETYPE | _HAVE_GC, _keep(table))
    _kept.append(spec)
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)(("PyType_FromSpec", _api))
    return make(ctypes.addressof(spec))


def _keep(table: Any) -> int:
    _kept.append(table)
    return ctypes.addressof(table)


def _members(wanted: HeapType) -> Any:
    offset = wanted.struct.offset
    kinds = ((wanted.required, _T_OBJECT_EX), (wanted.optional, _T_OBJECT), (wanted.numbers, _T_LONGLONG), (wanted.flags, _T_BOOL))
    members = [_Member(name.encode(), kind, offset(name), 0, None) for names, kind in kinds for name in names]
    if "weakrefs" in wanted.struct.fields:
        members.append(_Member(b"__weaklistoffset__", _T_PYSSIZET, offset("weakrefs"), _READONLY, None))
    if wanted.instance_dict:
        members.append(_Member(b"__dictoffset__", _T_PYSSIZET, offset("dict"), _READONLY, None))
    return (_Member * (len(members) + 1))(*members)


def _dict_access() -> Any:
    get, set_ = (ctypes.cast(getattr(_api, name), ctypes.c_void_p).value for name in ("PyObject_GenericGetDict", "PyObject_GenericSetDict"))
    return (_GetSet * 2)(_GetSet(b"__dict__", get, set_, None, None))


def make_function(name: str, address: int, flags: int, bound: Any = None) -> Any:
    """A builtin function; `flags` are the ``METH_`` ones that say how it takes its arguments, `bound` is what it gets as ``self``."""
    method = _methods.get(name)
    if method is None:
        method = _methods[name] = _Method(name.encode(), address, flags, None)
        keep(method)
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(("PyCFunction_NewEx", _api))
    return make(ctypes.addressof(method), bound, None)


_python_forms: dict[Any, Any] = {}


def python_form(function: Any) -> Any:
    """The method written in Python that a native one stands in front of, bound where that is; any other function as it is."""
    if type(function) is not BuiltinMethodType:
        return _python_forms.get(function, function)
    owner = function.__self__
    native = next((c.__dict__[function.__name__] for c in type(owner).__mro__ if function.__name__ in c.__dict__), None)
    form = _python_forms.get(native) if type(native) is MethodDescriptorType else None
    return function if form is None else MethodType(form, owner)


def put_in_front(owner: type[Any], name: str, address: int, flags: int) -> None:
    """Let a method of `owner` be native; the one written in Python stays its `python_form`."""
    method = make_method(owner, name, address, flags)
    _python_forms[method] = getattr(owner, name)
    setattr(owner, name, method)


def make_method(owner: type[Any], name: str, address: int, flags: int) -> Any:
    """A method descriptor for `owner`, to be set as one of its attributes."""
    # inspect.signature reads what the documentation begins with.
    signature = f"{name}($self, /, *args, **kwargs)\n--\n\n" if flags & METH_KEYWORDS else None
    method = _Method(name.encode(), address, flags, signature and signature.encode())
    _kept.append(method)
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p)(("PyDescr_NewMethod", _api))
    return make(owner, ctypes.addressof(method))
