"""The native walk of the tape: `tape._Engine` for a backward that ends in leaves, without a Python frame for what is usual.

What has hooks, or a gradient that native code cannot compute, is left to the Python functions that the caller gives.
"""

from __future__ import annotations

from flambeau.runtime.native.backward import gradients_of
from flambeau.runtime.native.c_api import (
    Py_DecRef,
    Py_IncRef,
    PyDict_GetItemWithError,
    PyErr_Clear,
    PyErr_NoMemory,
    PyList_GetItem,
    PyList_New,
    PyList_SetItem,
    PyList_Size,
    PyLong_AsLongLong,
    PyLong_FromLongLong,
    PyMem_RawFree,
    PyMem_RawMalloc,
    PyObject_CallFunctionObjArgs,
    PyObject_GetAttr,
    PyObject_IsTrue,
    PyTuple_GetItem,
    PyType_IsSubtype,
)
from flambeau.runtime.native.calls import thread_is_known
from flambeau.runtime.native.keys import GRADIENTS_OFF, INFERENCE, MULTIPLIER, item_of, length_of
from flambeau.runtime.native.language import Word, Words, native, stack
from flambeau.runtime.native.launch import UNUSUAL
from flambeau.runtime.native.layouts import Entry, Object, Stop, Tensor, Walk, shared
from flambeau.runtime.native.memory import FAILED, none

WALK_WORDS, STOP_WORDS = Walk.size // 8, Stop.size // 8
FIRST_STOPS = 64


@native
def is_something(found: Word) -> Word:
    """Whether a field that holds an object holds one."""
    return found != 0 and found != shared.none


# -- the stops of a walk ------------------------------------------------------------------------------------
@native
def reserve(walk: Walk, capacity: Word) -> Word:
    """Make room for that many stops; FAILED with an error set."""
    words: Words = PyMem_RawMalloc(8 * capacity * (STOP_WORDS + 3))
    if not words:
        PyErr_NoMemory()
        return FAILED
    old: Words = walk.stops
    for i in range(walk.count * STOP_WORDS):
        words[i] = old[i]
    ready: Words = words + 8 * capacity * STOP_WORDS
    for r in range(walk.ready_count):
        ready[r] = walk.ready[r]
    PyMem_RawFree(old)
    walk.stops = words
    walk.capacity = capacity
    walk.ready = ready
    walk.places = walk.ready + 8 * capacity
    for j in range(2 * capacity):
        walk.places[j] = 0
    for k in range(walk.count):
        walk.places[place_of(walk, walk.stops[k].target)] = k + 1
    return 0


@native
def place_of(walk: Walk, target: Word) -> Word:
    """Where in the hash table a target is, or belongs."""
    mask = 2 * walk.capacity - 1
    at = ((target * MULTIPLIER) >> 40) & mask  # type: ignore[operator]
    while walk.places[at] and walk.stops[walk.places[at] - 1].target != target:
        at = (at + 1) & mask
    return at


@native
def stop_at(walk: Walk, target: Object) -> Word:
    """The number of an entry's or leaf's stop, made if it is new; FAILED with an error set."""
    at = place_of(walk, target)
    if walk.places[at]:
        return walk.places[at] - 1
    if walk.count == walk.capacity:
        if reserve(walk, 2 * walk.capacity) == FAILED:
            return FAILED
        at = place_of(walk, target)
    number = walk.count
    walk.count = number + 1
    walk.places[at] = number + 1
    stop = walk.stops[number]
    Py_IncRef(target)
    stop.target = target
    stop.is_leaf = PyType_IsSubtype(target.type, shared.tensor_fields)
    stop.waiting = 0
    stop.gradients = 0
    stop.summed = 0
    return number


@native
def count_edges(walk: Walk) -> Word:
    """Find all stops behind the first ones, and how many edges lead to each; FAILED with an error set."""
    i = 0
    while i < walk.count:
        if not walk.stops[i].is_leaf:
            edges = Object.at(Entry.at(walk.stops[i].target).edges)
            for k in range(length_of(edges)):
                edge = item_of(edges, k)
                if edge != shared.none:
                    number = stop_at(walk, Object.at(PyTuple_GetItem(edge, 0)))
                    if number == FAILED:
                        return FAILED
                    walk.stops[number].waiting += 1
        i += 1
    return 0


# -- entries that are ready, the latest first: a heap -------------------------------------------------------
@native
def sequence_at(walk: Walk, place: Word) -> Word:
    return Entry.at(walk.stops[walk.ready[place]].target).sequence


@native
def swap(walk: Walk, a: Word, b: Word) -> None:
    kept = walk.ready[a]
    walk.ready[a] = walk.ready[b]
    walk.ready[b] = kept


@native
def push(walk: Walk, number: Word) -> None:
    at = walk.ready_count
    walk.ready[at] = number
    walk.ready_count = at + 1
    while at > 0 and sequence_at(walk, (at - 1) >> 1) < sequence_at(walk, at):
        swap(walk, at, (at - 1) >> 1)
        at = (at - 1) >> 1


@native
def pop(walk: Walk) -> Word:
    found = walk.ready[0]
    count = walk.ready_count - 1
    walk.ready_count = count
    walk.ready[0] = walk.ready[count]
    at = 0
    while 2 * at + 1 < count:
        child = 2 * at + 1
        if child + 1 < count and sequence_at(walk, child) < sequence_at(walk, child + 1):
            child += 1
        if sequence_at(walk, child) <= sequence_at(walk, at):
            break
        swap(walk, at, child)
        at = child
    return found


# -- gradients ----------------------------------------------------------------------------------------------
@native
def sum_of(walk: Walk, stop: Stop, output: Word, known: Word, gradient: Word) -> Word:
    """The sum of two gradients; 0 with an error set."""
    bit = 0
    if output < 63:
        bit = 1 << output
    own = PyLong_FromLongLong((stop.summed & bit) != 0)
    if not own:
        return 0
    stop.summed = stop.summed | bit
    total = PyObject_CallFunctionObjArgs(walk.add, known, gradient, own, 0)
    Py_DecRef(own)
    return total


@native
def deliver(walk: Walk, stop: Stop, output: Word, gradient: Word) -> Word:
    """Add a gradient (borrowed) to what has come to a stop; FAILED with an error set."""
    if stop.is_leaf:
        if not stop.gradients:
            Py_IncRef(gradient)
            stop.gradients = gradient
            return 0
        known = stop.gradients
        total = sum_of(walk, stop, 0, known, gradient)
        if not total:
            return FAILED
        stop.gradients = total
        Py_DecRef(known)
        return 0
    if not stop.gradients:
        count = length_of(Object.at(Entry.at(stop.target).metas))
        stop.gradients = PyList_New(count)
        if not stop.gradients:
            return FAILED
        for i in range(count):
            PyList_SetItem(stop.gradients, i, none())
    found = PyList_GetItem(stop.gradients, output)
    if not found:
        return FAILED
    if found == shared.none:
        Py_IncRef(gradient)
        PyList_SetItem(stop.gradients, output, gradient)
        return 0
    summed = sum_of(walk, stop, output, found, gradient)
    if not summed:
        return FAILED
    PyList_SetItem(stop.gradients, output, summed)
    return 0


@native
def keeps_plainly(leaf: Tensor, gradient: Tensor) -> Word:
    """Whether a gradient just becomes a leaf's: the first one, nobody waits for it, and nobody else may see its memory."""
    if is_something(leaf.hooks) or is_something(leaf._grad) or is_something(gradient.view_of):
        return 0
    if leaf.dict:
        if PyDict_GetItemWithError(leaf.dict, shared.hooks_name):
            return 0
        PyErr_Clear()
    contiguous = PyObject_GetAttr(gradient.meta, shared.contiguous_name)
    if not contiguous:
        PyErr_Clear()
        return 0
    Py_DecRef(contiguous)
    return PyObject_IsTrue(contiguous)


@native
def finish_leaf(walk: Walk, stop: Stop) -> Word:
    """Everything for a leaf has arrived: accumulate it. FAILED with an error set."""
    gradient = stop.gradients
    if not gradient:
        return 0
    stop.gradients = 0
    leaf = Tensor.at(stop.target)
    if keeps_plainly(leaf, Tensor.at(gradient)):
        Py_DecRef(leaf._grad)
        leaf._grad = gradient
        return 0
    told = PyObject_CallFunctionObjArgs(walk.accumulate, leaf, gradient, 0)
    Py_DecRef(gradient)
    if not told:
        return FAILED
    Py_DecRef(told)
    return 0


@native
def arrive(walk: Walk, number: Word) -> Word:
    """Nothing more will come to a stop. FAILED with an error set."""
    stop = walk.stops[number]
    if stop.is_leaf:
        return finish_leaf(walk, stop)
    push(walk, number)
    return 0


# -- entries ------------------------------------------------------------------------------------------------
@native
def has_hooks(entry: Entry) -> Word:
    return is_something(entry._hooks) or is_something(entry._pre_hooks) or is_something(entry._output_hooks)


@native
def release_saved(entry: Entry) -> None:
    """As `OperatorEntry.release`."""
    saved = entry.saved
    if is_something(saved) and PyList_Size(saved) > 0:
        entry.saved = none()
        Py_DecRef(saved)


@native
def run_entry(walk: Walk, entry: Entry, cotangents: Word) -> Word:
    """The gradients of an entry as a list; 0 with an error set."""
    result = UNUSUAL
    if entry.type == shared.entry_type and not has_hooks(entry):
        result = gradients_of(entry, Object.at(cotangents))
    if result == UNUSUAL:
        return PyObject_CallFunctionObjArgs(walk.run, entry, cotangents, walk.retain, 0)
    if result and not walk.retains:
        release_saved(entry)
    return result


@native
def pass_on(walk: Walk, entry: Entry, gradients: Object) -> Word:
    """Send gradients (none, where there is no list) along the edges of an entry; FAILED with an error set."""
    edges = Object.at(entry.edges)
    for i in range(length_of(edges)):
        edge = item_of(edges, i)
        if edge != shared.none:
            number = stop_at(walk, Object.at(PyTuple_GetItem(edge, 0)))
            stop = walk.stops[number]
            if gradients:
                gradient = PyList_GetItem(gradients, i)
                if not gradient:
                    return FAILED
                output = PyLong_AsLongLong(PyTuple_GetItem(edge, 1))
                if gradient != shared.none and deliver(walk, stop, output, gradient) == FAILED:
                    return FAILED
            stop.waiting -= 1
            if stop.waiting == 0 and arrive(walk, number) == FAILED:
                return FAILED
    return 0


@native
def go(walk: Walk) -> Word:
    """Go through all entries; FAILED with an error set."""
    while walk.ready_count > 0:
        stop = walk.stops[pop(walk)]
        entry = Entry.at(stop.target)
        cotangents = stop.gradients
        gradients = Object.at(0)
        stop.gradients = 0
        if cotangents:
            gradients = Object.at(run_entry(walk, entry, cotangents))
            Py_DecRef(cotangents)
            if not gradients:
                return FAILED
        status = pass_on(walk, entry, gradients)
        Py_DecRef(gradients)
        if status == FAILED:
            return FAILED
    return 0


@native
def enter(walk: Walk, roots: Object) -> Word:
    """Find the stops, give the roots their gradients, and begin. FAILED with an error set."""
    for i in range(length_of(roots)):
        if stop_at(walk, Object.at(PyTuple_GetItem(item_of(roots, i), 0))) == FAILED:
            return FAILED
    starts = walk.count
    if count_edges(walk) == FAILED:
        return FAILED
    for j in range(length_of(roots)):
        root = item_of(roots, j)
        number = stop_at(walk, Object.at(PyTuple_GetItem(root, 0)))
        if deliver(walk, walk.stops[number], PyLong_AsLongLong(PyTuple_GetItem(root, 1)), PyTuple_GetItem(root, 2)) == FAILED:
            return FAILED
    for k in range(starts):
        if not walk.stops[k].waiting and arrive(walk, k) == FAILED:
            return FAILED
    return go(walk)


@native
def walk_tape(self: Word, given: Words, count: Word) -> Word:
    """``walk_tape(roots, retain_graph, run, accumulate, add)``: None when done; NotImplemented, with nothing done, in unusual modes.

    ``roots`` is a list of (entry or leaf, output, gradient). ``run(entry, cotangents, retain_graph)`` gives a list with a gradient
    or None for each edge, ``accumulate(leaf, gradient)`` adds to a leaf's, ``add(a, b, own)`` adds two.
    """
    if count != 5 or not thread_is_known() or (shared.mode & ~INFERENCE) != GRADIENTS_OFF:
        Py_IncRef(shared.not_implemented)
        return shared.not_implemented
    walk: Walk = stack(WALK_WORDS)
    walk.count = 0
    walk.stops = 0  # type: ignore[assignment]
    walk.ready_count = 0
    walk.retain = given[1]
    walk.retains = PyObject_IsTrue(given[1])
    walk.run = given[2]
    walk.accumulate = given[3]
    walk.add = given[4]
    status = reserve(walk, FIRST_STOPS)
    if status != FAILED:
        status = enter(walk, Object.at(given[0]))
    for i in range(walk.count):
        Py_DecRef(walk.stops[i].gradients)
        Py_DecRef(walk.stops[i].target)
    PyMem_RawFree(walk.stops)
    if status == FAILED:
        return 0
    return none()
