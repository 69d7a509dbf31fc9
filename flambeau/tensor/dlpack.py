"""Memory shared with other libraries through DLPack capsules, without a copy."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from flambeau.compilation.kernel_cache import get_symbols
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype

__all__ = ["CPU", "SharedMemory", "import_capsule", "import_shared", "make_capsule"]

# Device types of the specification that have memory on the host: plain, and pinned for CUDA or ROCm.
CPU = (1, 0)
CUDA = 2
_VERSION = (1, 0)
_READ_ONLY, _IS_COPIED = 1, 2

_CODES = {"signed": 0, "unsigned": 1, "float": 2, "complex": 5, "bool": 6}
_BFLOAT = 4
_ELEMENTS = {(_BFLOAT if d is dtypes.bfloat16 else _CODES[d.category], 8 * d.itemsize): d for d in dtypes.ALL if not d.is_float8}
_ELEMENT_CODES = {element: code for code, element in _ELEMENTS.items()}


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("owner", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _VersionedManaged(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("owner", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    ]  # fmt: skip


# What the other side calls is native: it may come without the interpreter's lock, or while an exception is on its way.
_TEXT = """
@{name}_text = internal constant [{length} x i8] c"{name}\\00"

; The deleter: let go of the owner, free the structure.
define void @release_{name}(ptr %managed) {{
entry:
  %type = alloca ptr
  %value = alloca ptr
  %trace = alloca ptr
  %alive = call i32 @Py_IsInitialized()
  %ended = icmp eq i32 %alive, 0
  br i1 %ended, label %done, label %release
release:
  %state = call i32 @PyGILState_Ensure()
  call void @PyErr_Fetch(ptr %type, ptr %value, ptr %trace)
  %owner.at = getelementptr i8, ptr %managed, i64 {owner}
  %owner = load ptr, ptr %owner.at
  call void @Py_DecRef(ptr %owner)
  %type.now = load ptr, ptr %type
  %value.now = load ptr, ptr %value
  %trace.now = load ptr, ptr %trace
  call void @PyErr_Restore(ptr %type.now, ptr %value.now, ptr %trace.now)
  call void @PyGILState_Release(i32 %state)
  call void @PyMem_RawFree(ptr %managed)
  br label %done
done:
  ret void
}}

; The capsule's destructor: nobody took what is in it unless it was renamed.
define void @destroy_{name}(ptr %capsule) {{
entry:
  %valid = call i32 @PyCapsule_IsValid(ptr %capsule, ptr @{name}_text)
  %taken = icmp eq i32 %valid, 0
  br i1 %taken, label %done, label %destroy
destroy:
  %managed = call ptr @PyCapsule_GetPointer(ptr %capsule, ptr @{name}_text)
  call void @release_{name}(ptr %managed)
  br label %done
done:
  ret void
}}
"""
_DECLARATIONS = """
declare i32 @Py_IsInitialized()
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)
declare void @Py_DecRef(ptr)
declare void @PyMem_RawFree(ptr)
declare i32 @PyCapsule_IsValid(ptr, ptr)
declare ptr @PyCapsule_GetPointer(ptr, ptr)
"""


@dataclass(frozen=True)
class _Layout:
    """One of the two forms that a capsule can have."""

    name: bytes
    used_name: bytes
    structure: type[_Managed] | type[_VersionedManaged]

    def text(self) -> str:
        owner = self.structure.owner.offset
        return _TEXT.format(name=self.name.decode(), length=len(self.name) + 1, owner=owner)


_PLAIN = _Layout(b"dltensor", b"used_dltensor", _Managed)
_VERSIONED = _Layout(b"dltensor_versioned", b"used_dltensor_versioned", _VersionedManaged)


class _Interpreter:
    """The C-API functions that are needed, with their types set on objects of our own."""

    def __init__(self) -> None:
        library = ctypes.PyDLL(None)
        self.allocate = library.PyMem_RawMalloc
        self.allocate.argtypes, self.allocate.restype = (ctypes.c_size_t,), ctypes.c_void_p
        self.keep = library.Py_IncRef
        self.keep.argtypes, self.keep.restype = (ctypes.py_object,), None
        self.new_capsule = library.PyCapsule_New
        self.new_capsule.argtypes, self.new_capsule.restype = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p), ctypes.py_object
        self.is_valid = library.PyCapsule_IsValid
        self.is_valid.argtypes, self.is_valid.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_int
        self.pointer = library.PyCapsule_GetPointer
        self.pointer.argtypes, self.pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
        self.rename = library.PyCapsule_SetName
        self.rename.argtypes, self.rename.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_int
        # A capsule only points to its name, and may live longer than this module.
        for layout in (_PLAIN, _VERSIONED):
            self.keep(layout.name)
            self.keep(layout.used_name)


_python = _Interpreter()


@cache
def _native() -> dict[str, int]:
    """The addresses of the deleters and destructors."""
    return dict(get_symbols(_DECLARATIONS + _PLAIN.text() + _VERSIONED.text()))


def make_capsule(
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    element: dtype,
    owner: object,
    *,
    device: tuple[int, int] = CPU,
    read_only: bool = False,
    is_copied: bool = False,
    max_version: tuple[int, int] | None = None,
) -> object:
    """A capsule with the memory at ``address``, for a ``__dlpack__`` method to return; ``strides`` count elements.

    ``owner`` is kept alive until whoever takes the capsule is done, or until the capsule is dropped untaken. ``max_version`` is
    the newest version that the other side knows: from (1, 0) on it gets ``dltensor_versioned``, else ``dltensor``, which cannot
    tell that memory is read-only (BufferError).

    >>> import numpy as np
    >>> from flambeau.core import dtypes
    >>> x = np.zeros((2, 3), np.float32)
    >>> capsule = make_capsule(x.ctypes.data, x.shape, (3, 1), dtypes.float32, x)
    >>> import_capsule(capsule).shape
    (2, 3)
    """
    versioned = max_version is not None and max_version >= _VERSION
    if read_only and not versioned:
        raise BufferError("__dlpack__: the tensor is read-only, which only DLPack 1.0 can tell; pass max_version=(1, 0) or copy it.")
    layout = _VERSIONED if versioned else _PLAIN
    size, rank = ctypes.sizeof(layout.structure), len(shape)
    code, bits = _ELEMENT_CODES[element]
    deleter, destructor = (_native()[f"{step}_{layout.name.decode()}"] for step in ("release", "destroy"))
    place = _python.allocate(size + 16 * rank)
    if not place:
        raise MemoryError(f"__dlpack__: no memory for a capsule of {size + 16 * rank} bytes")
    managed = layout.structure.from_address(place)
    ctypes.memset(place, 0, size)
    numbers = (ctypes.c_int64 * (2 * rank)).from_address(place + size)
    numbers[:] = [*shape, *strides]
    fields = (address, *device, rank, code, bits, 1, ctypes.cast(place + size, ctypes.POINTER(ctypes.c_int64)),
              ctypes.cast(place + size + 8 * rank, ctypes.POINTER(ctypes.c_int64)), 0)  # fmt: skip
    managed.tensor = _Tensor(*fields)
    managed.owner, managed.deleter = id(owner), deleter
    if isinstance(managed, _VersionedManaged):
        managed.major, managed.minor = _VERSION
        managed.flags = _READ_ONLY * read_only | _IS_COPIED * is_copied
    _python.keep(owner)
    return _python.new_capsule(place, layout.name, destructor)


class _Owner:
    """Holds another library's memory; calls its deleter when dropped."""

    __slots__ = ("_deleter", "_place")

    def __init__(self, place: int, deleter: Callable[[int], None] | None) -> None:
        self._place = place
        self._deleter = deleter

    def __del__(self) -> None:
        if self._deleter is not None:
            self._deleter(self._place)


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@dataclass(frozen=True)
class SharedMemory:
    """Another library's tensor: the address of its first element, strides in elements, and the object that keeps it alive.

    ``device`` is the specification's pair of type and number; (1, 0) is the CPU.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element: dtype
    device: tuple[int, int]
    read_only: bool
    owner: object


def import_shared(source: object) -> SharedMemory:
    """Take the tensor of a capsule, or of an object with ``__dlpack__``; the memory is shared, not copied.

    Raises TypeError for other objects and BufferError for elements or versions that are not known.

    >>> import numpy as np
    >>> shared = import_shared(np.arange(6.0).reshape(2, 3))
    >>> shared.shape, shared.strides, shared.element
    ((2, 3), (3, 1), torch.float64)
    """
    if type(source).__name__ == "PyCapsule":
        return import_capsule(source)
    export: Any = getattr(source, "__dlpack__", None)
    if export is None:
        raise TypeError(f"from_dlpack: needs a DLPack capsule or an object with __dlpack__, got {type(source).__name__}")
    try:
        capsule = export(max_version=_VERSION)
    except TypeError:  # a producer from before DLPack 1.0
        capsule = export()
    return import_capsule(capsule)


def import_capsule(capsule: object) -> SharedMemory:
    """Take the tensor out of a capsule, which can be done once."""
    for layout in (_VERSIONED, _PLAIN):
        if _python.is_valid(capsule, layout.name):
            break
    else:
        raise TypeError("from_dlpack: needs a DLPack capsule that has not been taken yet; call __dlpack__ again for a new one.")
    place = _python.pointer(capsule, layout.name)
    managed = layout.structure.from_address(place)
    read_only = False
    if isinstance(managed, _VersionedManaged):
        if managed.major > _VERSION[0]:
            got = f"{managed.major}.{managed.minor}"
            raise BufferError(f"from_dlpack: the capsule has DLPack version {got}, known is 1; ask for max_version=(1, 0)")
        read_only = bool(managed.flags & _READ_ONLY)
    tensor = managed.tensor
    element = _element_of(tensor)
    shape = tuple(tensor.shape[:tensor.rank])
    # Compact tensors may leave their strides out.
    strides = tuple(tensor.strides[:tensor.rank]) if tensor.strides else tuple(math.prod(shape[i + 1:]) for i in range(len(shape)))
    address, device = (tensor.data or 0) + tensor.byte_offset, (tensor.device_type, tensor.device_id)
    owner = _Owner(place, _Deleter(managed.deleter) if managed.deleter else None)
    _python.rename(capsule, layout.used_name)
    return SharedMemory(address, shape, strides, element, device, read_only, owner)


def _element_of(tensor: _Tensor) -> dtype:
    element = _ELEMENTS.get((tensor.code, tensor.bits))
    if element is None or tensor.lanes != 1:
        kinds = {code: name for name, code in _CODES.items()} | {_BFLOAT: "bfloat"}
        got = f"{kinds.get(tensor.code, f'type code {tensor.code}')} of {tensor.bits} bits in {tensor.lanes} lanes"
        raise BufferError(f"from_dlpack: no dtype for {got}; convert the elements to one of {', '.join(d.name for d in dtypes.ALL)} first.")
    return element
