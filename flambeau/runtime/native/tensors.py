"""The native base of Tensor: its fields, found and freed without Python."""

from __future__ import annotations

from flambeau.runtime.native.c_api import (
    Py_DecRef,
    Py_IncRef,
    PyObject_ClearWeakRefs,
    PyObject_GC_Del,
    PyObject_GC_UnTrack,
    PyType_GenericAlloc,
)
from flambeau.runtime.native.language import Word, inline, native
from flambeau.runtime.native.layouts import Storage, Tensor, View, shared
from flambeau.runtime.native.memory import visit_four


@inline
def tensor_new(memory: Storage, address: Word, meta: Word) -> Tensor:
    """A tensor over memory, whose reference it takes (also when it fails: 0 with an error set)."""
    made: Tensor = PyType_GenericAlloc(shared.tensor_type, 0)
    if not made:
        Py_DecRef(memory)
        return made
    made.memory = memory
    made.address = address
    made.meta = meta
    Py_IncRef(meta)
    return made


@inline
def is_whole(tensor: Tensor) -> Word:
    """Whether a tensor has metadata and a storage whose contents are there."""
    memory = tensor.memory
    if not memory or not tensor.meta or memory.type != shared.storage_type:
        return 0
    return not memory.pending or memory.pending == shared.none


@inline
def is_current(tensor: Tensor) -> Word:
    """Whether a tensor is no view, or its base has not been changed in place since its history was right."""
    view: View = tensor.view_of
    if not view or view == shared.none:
        return 1
    return view.type == shared.view_type and tensor.seen_version == tensor.memory.version


@inline
def uncounted(tensor: Tensor) -> Tensor:
    """The tensor from ``.data``, which is this or which this shows, whose changes in place do not count; 0 for others."""
    view: View = tensor.view_of
    if view and view != shared.none:
        tensor = Tensor.at(view.base)
    if tensor.seen_version != -1:
        tensor = Tensor.at(0)
    return tensor


@native
def tensor_traverse(self: Tensor, visit: Word, argument: Word) -> Word:
    stop = visit_four(visit, argument, self.type, self.memory, self.meta, self.entry)
    if not stop:
        stop = visit_four(visit, argument, self.view_of, self.hooks, self._grad, self.dict)
    return stop


@native
def tensor_clear(self: Tensor) -> Word:
    # Memory and metadata stay, so that whoever still finds the tensor finds it whole.
    entry = self.entry
    view = self.view_of
    hooks = self.hooks
    grad = self._grad
    dict = self.dict
    self.entry = 0
    self.view_of = 0
    self.hooks = 0
    self._grad = 0
    self.dict = 0
    Py_DecRef(entry)
    Py_DecRef(view)
    Py_DecRef(hooks)
    Py_DecRef(grad)
    Py_DecRef(dict)
    return 0


@native
def tensor_hash(self: Tensor) -> Word:
    """``Tensor.__hash__``: tensors are told apart by where they are."""
    return self


@native
def tensor_dealloc(self: Tensor) -> None:
    PyObject_GC_UnTrack(self)
    if self.weakrefs:
        PyObject_ClearWeakRefs(self)
    tensor_clear(self)
    Py_DecRef(self.memory)
    Py_DecRef(self.meta)
    kind = self.type
    PyObject_GC_Del(self)
    Py_DecRef(kind)


# -- View ---------------------------------------------------------------------------------------------------
@native
def view_traverse(self: View, visit: Word, argument: Word) -> Word:
    return visit_four(visit, argument, self.type, self.base, self.steps, 0)


@native
def view_clear(self: View) -> Word:
    base = self.base
    self.base = 0
    Py_DecRef(base)
    return 0


@native
def view_dealloc(self: View) -> None:
    PyObject_GC_UnTrack(self)
    Py_DecRef(self.base)
    Py_DecRef(self.steps)
    kind = self.type
    PyObject_GC_Del(self)
    Py_DecRef(kind)
