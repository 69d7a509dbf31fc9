"""Native memory: blocks from the allocator's lists of released ones, and Storage, which owns a block."""

from __future__ import annotations

from flambeau.runtime.native.c_api import (
    Py_DecRef,
    Py_IncRef,
    PyArg_ParseTupleAndKeywords,
    PyErr_Fetch,
    PyErr_Occurred,
    PyErr_Restore,
    PyErr_WriteUnraisable,
    PyLong_AsLongLong,
    PyLong_FromLongLong,
    PyObject_CallFunctionObjArgs,
    PyObject_ClearWeakRefs,
    PyObject_GC_Del,
    PyObject_GC_UnTrack,
    PyObject_Vectorcall,
    PyType_GenericAlloc,
)
from flambeau.runtime.native.language import Array, Word, Words, bit_length, call, inline, native, stack, text
from flambeau.runtime.native.layouts import Bin, Storage, shared

# Requests that no bin serves; the allocator refuses them anyway.
BEYOND = 1 << 47
BINS = 8 + 4 * 41
# Blocks from this size on may be lent to smaller requests.
LARGE = 1 << 20
FAILED = -1


@inline
def bin_number(nbytes: Word) -> Word:
    """Which bin serves a request of 0 < nbytes < BEYOND: the classes of `allocator.size_class` in order."""
    if nbytes <= 512:
        return (nbytes + 63) >> 6
    shift = bit_length(nbytes - 1) - 3
    return 8 + (shift - 7) * 4 + ((nbytes - 1) >> shift) - 3


@inline
def pop_block(nbytes: Word) -> Word:
    """A released block for the request, or 0 when there is none."""
    bins: Array[Bin] = shared.bins
    if not bins or nbytes <= 0 or nbytes >= BEYOND:
        return 0
    found: Bin = bins[bin_number(nbytes)]
    block = found.first
    if block:
        found.first = block[0]
    return block


@inline
def push_block(address: Word, nbytes: Word) -> None:
    """Put a block into the list for requests of 0 < nbytes < BEYOND."""
    bins: Array[Bin] = shared.bins
    found: Bin = bins[bin_number(nbytes)]
    block: Words = address
    block[0] = found.first
    found.first = block


@inline
def take_block(nbytes: Word) -> Word:
    """A released block that is in use from now on, or 0 when there is none."""
    block = pop_block(nbytes)
    if block:
        bins: Array[Bin] = shared.bins
        shared.allocations += 1
        shared.allocated += bins[bin_number(nbytes)].size
        if shared.allocated > shared.peak:
            shared.peak = shared.allocated
    return block


@native
def allocate(nbytes: Word) -> Word:
    """A block, 0 for 0 bytes; FAILED with a Python error set when there is no memory."""
    block = take_block(nbytes)
    if block or not nbytes:
        return block
    number = PyLong_FromLongLong(nbytes)
    if not number:
        return FAILED
    made = PyObject_CallFunctionObjArgs(shared.allocate_slowly, number, 0)
    Py_DecRef(number)
    if not made:
        return FAILED
    address = PyLong_AsLongLong(made)
    Py_DecRef(made)
    return address


@native
def release(address: Word, nbytes: Word) -> None:
    """Give a block back. Errors of a checked allocator are reported, not raised."""
    bins: Array[Bin] = shared.bins
    if not bins or nbytes <= 0 or nbytes >= BEYOND:
        release_slowly(address, nbytes)
        return
    size = bins[bin_number(nbytes)].size
    if size >= LARGE and shared.lent:
        release_slowly(address, nbytes)
        return
    push_block(address, nbytes)
    shared.allocated -= size


@native
def release_slowly(address: Word, nbytes: Word) -> None:
    error = stack(3)
    PyErr_Fetch(error, error + 8, error + 16)
    a = PyLong_FromLongLong(address)
    n = PyLong_FromLongLong(nbytes)
    done = 0
    if a and n:
        done = PyObject_CallFunctionObjArgs(shared.release_slowly, a, n, 0)
    if not done:
        PyErr_WriteUnraisable(shared.release_slowly)
    Py_DecRef(done)
    Py_DecRef(a)
    Py_DecRef(n)
    PyErr_Restore(error[0], error[1], error[2])


# -- for Python ---------------------------------------------------------------------------------------------
@native
def allocator_allocate(self: Word, argument: Word) -> Word:
    """``allocate(nbytes)``."""
    nbytes = PyLong_AsLongLong(argument)
    if nbytes == -1 and PyErr_Occurred():
        return 0
    block = take_block(nbytes)
    if block:
        return PyLong_FromLongLong(block)
    return PyObject_CallFunctionObjArgs(shared.allocate_slowly, argument, 0)


@native
def allocator_release(self: Word, arguments: Words, count: Word) -> Word:
    """``release(address, nbytes)``."""
    address = 0
    nbytes = 0
    if count == 2:
        address = PyLong_AsLongLong(arguments[0])
        nbytes = PyLong_AsLongLong(arguments[1])
        if PyErr_Occurred():
            return 0
    if not address or nbytes <= 0 or nbytes >= BEYOND:
        return PyObject_Vectorcall(shared.release_slowly, arguments, count, 0)
    release(address, nbytes)
    return none()


@native
def allocator_pop(self: Word, argument: Word) -> Word:
    """``pop(nbytes)``: a released block, or 0; nothing is counted."""
    nbytes = PyLong_AsLongLong(argument)
    if nbytes == -1 and PyErr_Occurred():
        return 0
    return PyLong_FromLongLong(pop_block(nbytes))


@native
def allocator_push(self: Word, arguments: Words, count: Word) -> Word:
    """``push(address, nbytes)``: put a block into the lists; nothing is counted. The caller sees to the arguments."""
    push_block(PyLong_AsLongLong(arguments[0]), PyLong_AsLongLong(arguments[1]))
    return none()


@native
def none() -> Word:
    """A new reference to None."""
    Py_IncRef(shared.none)
    return shared.none


# -- Storage ------------------------------------------------------------------------------------------------
@inline
def storage_new(nbytes: Word) -> Storage:
    """A storage over a new block; 0 with an error set."""
    made: Storage = PyType_GenericAlloc(shared.storage_type, 0)
    if not made:
        return made
    address = allocate(nbytes)
    if address == FAILED:
        Py_DecRef(made)
        return Storage.at(0)
    made.address = address
    made.nbytes = nbytes
    return made


@native
def storage_init(self: Storage, arguments: Word, keywords: Word) -> Word:
    """``Storage(nbytes, address=None, owner=None)``."""
    given = stack(3)
    given[0] = 0
    given[1] = 0
    given[2] = 0
    if not PyArg_ParseTupleAndKeywords(arguments, keywords, text("n|OO:Storage"), shared.storage_keywords, given, given + 8, given + 16):
        return FAILED
    address = 0
    if not given[1] or given[1] == shared.none:
        address = allocate(given[0])
        if address == FAILED:
            return FAILED
    else:
        address = PyLong_AsLongLong(given[1])
        if address == -1 and PyErr_Occurred():
            return FAILED
    storage_drop_block(self)
    old = self.owner
    self.nbytes = given[0]
    self.address = address
    self.owner = 0
    if given[2] != shared.none:
        Py_IncRef(given[2])
        self.owner = given[2]
    Py_DecRef(old)
    return 0


@inline
def storage_drop_block(self: Storage) -> None:
    """Give the block back unless the memory is foreign."""
    if self.address and (not self.owner or self.owner == shared.none):
        release(self.address, self.nbytes)
    self.address = 0


@native
def storage_traverse(self: Storage, visit: Word, argument: Word) -> Word:
    return visit_four(visit, argument, self.type, self.owner, self.pending, 0)


@native
def storage_clear(self: Storage) -> Word:
    # The owner stays: without one the block would be taken for the allocator's.
    pending = self.pending
    self.pending = 0
    Py_DecRef(pending)
    return 0


@native
def storage_dealloc(self: Storage) -> None:
    PyObject_GC_UnTrack(self)
    if self.weakrefs:
        PyObject_ClearWeakRefs(self)
    storage_drop_block(self)
    Py_DecRef(self.owner)
    Py_DecRef(self.pending)
    kind = self.type
    PyObject_GC_Del(self)
    Py_DecRef(kind)


@native
def visit_four(visit: Word, argument: Word, a: Word, b: Word, c: Word, d: Word) -> Word:
    """Visit up to four objects of a traversal, those that are there."""
    stop = visit_one(visit, argument, a)
    if not stop:
        stop = visit_one(visit, argument, b)
    if not stop:
        stop = visit_one(visit, argument, c)
    if not stop:
        stop = visit_one(visit, argument, d)
    return stop


@inline
def visit_one(visit: Word, argument: Word, found: Word) -> Word:
    if not found:
        return 0
    # The result is 32 bits wide.
    return call(visit, found, argument) & 0xFFFFFFFF
