"""Native entries of compiled graphs: check what a graph relies on, find its operands, perform its plan."""

from __future__ import annotations

from flambeau.runtime.native.c_api import (
    Py_DecRef,
    Py_IncRef,
    PyCell_Get,
    PyDict_GetItemWithError,
    PyErr_Clear,
    PyList_GetItem,
    PyList_Size,
    PyObject_CallFunctionObjArgs,
    PyObject_GC_Del,
    PyObject_GC_UnTrack,
    PyType_IsSubtype,
)
from flambeau.runtime.native.calls import thread_is_known
from flambeau.runtime.native.keys import MULTIPLIER, is_tensor, item_of, length_of
from flambeau.runtime.native.language import Array, Word, Words, native, stack
from flambeau.runtime.native.launch import UNUSUAL, drop, perform
from flambeau.runtime.native.layouts import Argument, Check, Graph, Holder, Object, Source, Tensor, shared
from flambeau.runtime.native.memory import visit_four
from flambeau.runtime.native.tensors import is_current, is_whole

# Kinds of checks: a list's item, a dictionary's value, a closure's variable.
ITEM, VALUE, CELL = 0, 1, 2


@native
def is_usable(found: Object) -> Word:
    """Whether an object is a tensor whose memory is there."""
    if not found:
        return 0
    if not is_tensor(found) and not PyType_IsSubtype(found.type, shared.tensor_fields):
        return 0
    return is_whole(Tensor.at(found))


@native
def argument_fits(wanted: Argument, found: Object) -> Word:
    if not is_usable(found):
        return 0
    tensor = Tensor.at(found)
    if tensor.meta != wanted.meta or tensor._requires_grad != wanted.marked:
        return 0
    return is_current(tensor)


@native
def arguments_fit(graph: Graph, given: Object) -> Word:
    if length_of(given) != graph.argument_count:
        return 0
    wanted: Array[Argument] = graph.arguments
    for i in range(graph.argument_count):
        if not argument_fits(wanted[i], item_of(given, i)):
            return 0
    return 1


@native
def holds(check: Check) -> Word:
    """Whether what is checked is still the same object."""
    if check.kind == ITEM:
        if PyList_Size(check.container) <= check.key:
            return 0
        return PyList_GetItem(check.container, check.key) == check.value
    if check.kind == VALUE:
        return PyDict_GetItemWithError(check.container, check.key) == check.value
    found = PyCell_Get(check.container)
    Py_DecRef(found)
    return found == check.value


@native
def checks_hold(graph: Graph) -> Word:
    checks: Array[Check] = graph.checks
    for i in range(graph.check_count):
        if not holds(checks[i]):
            PyErr_Clear()
            return 0
    return 1


@native
def find_operands(graph: Graph, given: Object, tensors: Words) -> Word:
    """Put the operands at ``tensors``, borrowed; 0 when one is not there or of other metadata."""
    sources: Array[Source] = graph.sources
    for i in range(graph.source_count):
        source: Source = sources[i]
        found = Object.at(source.tensor)
        if source.argument >= 0:
            found = item_of(given, source.argument)
        elif source.gradient:
            found = Object.at(source.tensor._grad)
        if not is_usable(found) or Tensor.at(found).meta != source.meta:
            return 0
        tensors[i] = found
    return 1


@native
def count_storages(tensors: Words, count: Word) -> Word:
    """How many different storages the tensors have."""
    size = 4
    while size < 2 * count:
        size = size << 1
    table = stack(size)
    for i in range(size):
        table[i] = 0
    different = 0
    for j in range(count):
        memory = Tensor.at(tensors[j]).memory
        at = ((memory * MULTIPLIER) >> 40) & (size - 1)  # type: ignore[operator]
        while table[at] and table[at] != memory:
            at = (at + 1) & (size - 1)
        if not table[at]:
            table[at] = memory
            different += 1
    return different


@native
def read_numbers(graph: Graph, numbers: Words) -> Word:
    """Put what the graph's readers give at ``numbers``, each a reference; how many there are, fewer with an error set."""
    reads: Words = graph.reads
    for i in range(graph.read_count):
        numbers[i] = PyObject_CallFunctionObjArgs(reads[i], 0)
        if not numbers[i]:
            return i
    return graph.read_count


@native
def graph_call(self: Holder, given: Object) -> Word:
    """``entry(tensors)``: a tuple of results, or NotImplemented with nothing done when something is not as it was."""
    graph: Graph = self.address
    result = UNUSUAL
    if thread_is_known() and shared.mode == graph.mode and arguments_fit(graph, given) and checks_hold(graph):
        tensors = stack(graph.source_count)
        if find_operands(graph, given, tensors) and count_storages(tensors, graph.source_count) == graph.storages:
            numbers = stack(graph.read_count)
            count = read_numbers(graph, numbers)
            result = 0
            if count == graph.read_count:
                result = perform(graph.plan, tensors, count, numbers)
            drop(numbers, count)
    if result == UNUSUAL:
        Py_IncRef(shared.not_implemented)
        return shared.not_implemented
    return result


# -- Holder -------------------------------------------------------------------------------------------------
@native
def holder_traverse(self: Holder, visit: Word, argument: Word) -> Word:
    return visit_four(visit, argument, self.type, self.owner, 0, 0)


@native
def holder_clear(self: Holder) -> Word:
    # The address is good only as long as the owner is.
    return 0


@native
def holder_dealloc(self: Holder) -> None:
    PyObject_GC_UnTrack(self)
    Py_DecRef(self.owner)
    kind = self.type
    PyObject_GC_Del(self)
    Py_DecRef(kind)
