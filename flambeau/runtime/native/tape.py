"""Native tape entries: what an operator call leaves for its backward."""

from __future__ import annotations

from flambeau.runtime.native.c_api import (
    Py_DecRef,
    Py_IncRef,
    PyList_New,
    PyList_SetItem,
    PyLong_FromLongLong,
    PyObject_ClearWeakRefs,
    PyObject_GC_Del,
    PyObject_GC_UnTrack,
    PyTuple_New,
    PyTuple_SetItem,
    PyType_GenericAlloc,
)
from flambeau.runtime.native.language import Array, Word, Words, native
from flambeau.runtime.native.layouts import Entry, Plan, Recording, Save, Saved, Tensor, shared
from flambeau.runtime.native.memory import FAILED, visit_four
from flambeau.runtime.native.tensors import tensor_new, uncounted


@native
def next_sequence(self: Word, nothing: Word) -> Word:
    """``next_sequence()``: the number of a new entry."""
    shared.sequence += 1
    return PyLong_FromLongLong(shared.sequence)


@native
def make_edge(tensor: Tensor) -> Word:
    """Where a gradient of the tensor goes, as `dispatch.edge_of` for one that takes part in autograd; 0 with an error set."""
    edge = PyTuple_New(2)
    if not edge:
        return 0
    target = tensor.entry
    output = tensor.output
    if not target or target == shared.none:
        target = tensor
        output = 0
    number = PyLong_FromLongLong(output)
    if not number:
        Py_DecRef(edge)
        return 0
    Py_IncRef(target)
    PyTuple_SetItem(edge, 0, target)
    PyTuple_SetItem(edge, 1, number)
    return edge


@native
def make_edges(recording: Recording, tensors: Words) -> Word:
    """The list of edges; 0 with an error set."""
    count = recording.edge_count
    edges = PyList_New(count)
    if not edges:
        return 0
    for i in range(count):
        edge = make_edge(Tensor.at(tensors[recording.edges[i]]))
        if not edge:
            Py_DecRef(edges)
            return 0
        PyList_SetItem(edges, i, edge)
    return edges


@native
def make_saved(save: Save, tensors: Words, made: Words) -> Word:
    """One saved value; 0 with an error set. Of an output another tensor is kept, so that no cycle arises."""
    source = Tensor.at(tensors[save.index])
    if save.made:
        source = Tensor.at(made[save.index])
    data = uncounted(source)
    if data:
        data.seen_version = 0
    kept = source
    if save.made:
        Py_IncRef(source.memory)
        kept = tensor_new(source.memory, source.address, source.meta)
    else:
        Py_IncRef(kept)
    if not kept:
        return 0
    saved: Saved = PyType_GenericAlloc(shared.saved_type, 0)
    if not saved:
        Py_DecRef(kept)
        return 0
    saved.tensor = kept
    saved.version = kept.memory.version - save.written
    saved.output = save.output
    return saved


@native
def make_saves(recording: Recording, tensors: Words, made: Words) -> Word:
    """The list of saved values; 0 with an error set."""
    count = recording.save_count
    saves: Array[Save] = recording.saves
    list = PyList_New(count)
    if not list:
        return 0
    for i in range(count):
        saved = make_saved(saves[i], tensors, made)
        if not saved:
            Py_DecRef(list)
            return 0
        PyList_SetItem(list, i, saved)
    return list


@native
def make_numbers(count: Word, numbers: Words) -> Word:
    """The numbers of a call as a list; 0 with an error set."""
    list = PyList_New(count)
    if not list:
        return 0
    for i in range(count):
        Py_IncRef(numbers[i])
        PyList_SetItem(list, i, numbers[i])
    return list


@native
def record(plan: Plan, tensors: Words, number_count: Word, numbers: Words, made: Words) -> Word:
    """Put an entry on the tape and make the results refer to it, as `dispatch.record`; FAILED with an error set."""
    recording = plan.recording
    entry: Entry = PyType_GenericAlloc(shared.entry_type, 0)
    if not entry:
        return FAILED
    shared.sequence += 1
    entry.sequence = shared.sequence
    entry.recording = recording
    entry.plan = recording.call_plan
    Py_IncRef(entry.plan)
    entry.metas = recording.metas
    Py_IncRef(entry.metas)
    entry.edges = make_edges(recording, tensors)
    if entry.edges:
        entry.saved = make_saves(recording, tensors, made)
    if entry.saved:
        entry.numbers = make_numbers(number_count, numbers)
    if not entry.numbers:
        Py_DecRef(entry)
        return FAILED
    for i in range(recording.result_count):
        output = recording.results[i]
        result = Tensor.at(made[output])
        before = result.entry
        Py_IncRef(entry)
        result.entry = entry
        result.output = output
        result._requires_grad = 1
        Py_DecRef(before)
    Py_DecRef(entry)
    return 0


# -- Entry --------------------------------------------------------------------------------------------------
@native
def entry_traverse(self: Entry, visit: Word, argument: Word) -> Word:
    stop = visit_four(visit, argument, self.type, self.edges, self.metas, self.plan)
    if not stop:
        stop = visit_four(visit, argument, self.numbers, self.saved, self._hooks, self._pre_hooks)
    if not stop:
        stop = visit_four(visit, argument, self._output_hooks, self._metadata, 0, 0)
    return stop


@native
def entry_clear(self: Entry) -> Word:
    edges = self.edges
    saved = self.saved
    hooks = self._hooks
    pre_hooks = self._pre_hooks
    output_hooks = self._output_hooks
    metadata = self._metadata
    self.edges = 0
    self.saved = 0
    self._hooks = 0
    self._pre_hooks = 0
    self._output_hooks = 0
    self._metadata = 0
    Py_DecRef(edges)
    Py_DecRef(saved)
    Py_DecRef(hooks)
    Py_DecRef(pre_hooks)
    Py_DecRef(output_hooks)
    Py_DecRef(metadata)
    return 0


@native
def entry_dealloc(self: Entry) -> None:
    PyObject_GC_UnTrack(self)
    if self.weakrefs:
        PyObject_ClearWeakRefs(self)
    entry_clear(self)
    Py_DecRef(self.metas)
    Py_DecRef(self.plan)
    Py_DecRef(self.numbers)
    kind = self.type
    PyObject_GC_Del(self)
    Py_DecRef(kind)


# -- Saved --------------------------------------------------------------------------------------------------
@native
def saved_traverse(self: Saved, visit: Word, argument: Word) -> Word:
    return visit_four(visit, argument, self.type, self.tensor, 0, 0)


@native
def saved_clear(self: Saved) -> Word:
    tensor = self.tensor
    self.tensor = Tensor.at(0)
    Py_DecRef(tensor)
    return 0


@native
def saved_dealloc(self: Saved) -> None:
    PyObject_GC_UnTrack(self)
    Py_DecRef(self.tensor)
    kind = self.type
    PyObject_GC_Del(self)
    Py_DecRef(kind)
