"""Runs plans: makes the outputs, fills in the kernels' arguments, runs, and wraps the results."""

from __future__ import annotations

from flambeau.runtime.native.c_api import (
    Py_DecRef,
    Py_IncRef,
    PyErr_Clear,
    PyErr_Occurred,
    PyEval_RestoreThread,
    PyEval_SaveThread,
    PyFloat_AsDouble,
    PyList_GetItem,
    PyList_New,
    PyList_SetItem,
    PyList_Size,
    PyLong_AsDouble,
    PyLong_FromLongLong,
    PyObject_CallFunctionObjArgs,
    PyObject_Vectorcall,
    PySequence_Concat,
    PyThreadState_Get,
    PyThreadState_GetID,
    PyTuple_New,
    PyTuple_SetItem,
    PyTuple_Size,
    PyType_GenericAlloc,
    PyType_IsSubtype,
)
from flambeau.runtime.native.keys import int_of
from flambeau.runtime.native.language import Array, Word, Words, bits_of_double, bits_of_float, call, inline, native, stack
from flambeau.runtime.native.layouts import Object, Output, Patch, Plan, Scalar, Storage, Tensor, View, shared
from flambeau.runtime.native.memory import FAILED, allocate, none, release, storage_new
from flambeau.runtime.native.tape import record
from flambeau.runtime.native.tensors import is_whole, tensor_new, uncounted

# Kinds of plans: left to Python, kernels to run, results that share operands' memory.
PYTHON, RUN, VIEWS = 0, 1, 2
# Parts of a structure of results, three words each: kind, how many parts follow (or which result it is), a class to call with them.
SINGLE, TUPLE, LIST, CLASS, NOTHING = 0, 1, 2, 3, 4
AS_INT, AS_FLOAT, AS_DOUBLE = 0, 1, 2
# What stands in for a result that has to come from Python.
UNUSUAL, MISSED = 1, 2
# Why a call is left to Python, in the order of `REASONS`.
MODES, ARGUMENTS, PLAN, STATE, NEW = 0, 1, 2, 3, 4
REASONS = ("modes", "arguments", "plan", "state", "new")
ERROR_IN_KERNEL = 4
OWN_GENERATOR = 8
ALL_EXPONENT = 0x7F800000
ALL_EXPONENT_DOUBLE = 0x7FF0000000000000


@inline
def refuse(reason: Word) -> Word:
    """UNUSUAL, with the reason."""
    shared.reason = reason
    return UNUSUAL


@native
def scalar_bits(number: Object, kind: Word, result: Words) -> Word:
    """Put a number in the form that a kernel takes at ``result``; 0 when only Python knows how."""
    is_int = number.type == shared.int_type or number.type == shared.bool_type
    if kind == AS_INT:
        return is_int and int_of(number, result)
    if number.type == shared.float_type:
        value = PyFloat_AsDouble(number)
    elif not is_int:
        return 0
    else:
        value = PyLong_AsDouble(number)
        if PyErr_Occurred():
            PyErr_Clear()
            return 0
    if kind == AS_DOUBLE:
        result[0] = bits_of_double(value)
        return 1
    bits = bits_of_float(value)
    result[0] = bits
    # A double that no float holds is an error that Python words.
    finite = (bits & ALL_EXPONENT) != ALL_EXPONENT
    if finite or (bits_of_double(value) & ALL_EXPONENT_DOUBLE) == ALL_EXPONENT_DOUBLE:
        return 1
    return 0


@native
def drop(objects: Words, count: Word) -> None:
    """Let go of new objects."""
    for i in range(count):
        Py_DecRef(objects[i])


@inline
def make_outputs(plan: Plan, tensors: Words, made: Words) -> Word:
    """Put the plan's outputs at ``made``, each a reference; FAILED with an error set."""
    outputs: Array[Output] = plan.outputs
    for k in range(plan.made):
        output: Output = outputs[k]
        if output.target >= 0:
            made[k] = tensors[output.target]
            Py_IncRef(made[k])
        else:
            memory = storage_new(output.nbytes)
            tensor = Tensor.at(0)
            if memory:
                tensor = tensor_new(memory, memory.address, output.meta)
            if not tensor:
                drop(made, k)
                return FAILED
            made[k] = tensor
    return 0


@inline
def fill_patches(patches: Array[Patch], count: Word, inputs: Word, tensors: Words, made: Words) -> None:
    for i in range(count):
        patch: Patch = patches[i]
        source = patch.source
        tensor = Tensor.at(0)
        if source < inputs:
            tensor = Tensor.at(tensors[source])
        else:
            tensor = Tensor.at(made[source - inputs])
        patch.slot[0] = tensor.address + patch.offset


@inline
def run_kernels(plan: Plan, tensors: Words) -> Word:
    """Run the plan's kernels with the arguments that are in place; the status of `thread_pool`'s ``pool_run_program``."""
    status = 0
    if plan.function:
        call(plan.function, plan.arguments, 0, 0)
        if plan.error[0]:
            status = ERROR_IN_KERNEL
    elif plan.releases:
        # Another thread may give an operand other memory meanwhile.
        memories = stack(plan.inputs)
        for i in range(plan.inputs):
            memories[i] = Tensor.at(tensors[i]).memory
            Py_IncRef(memories[i])
        plan.busy[0] = 1
        thread = PyEval_SaveThread()
        status = call(shared.run_program, plan.program)
        PyEval_RestoreThread(thread)
        plan.busy[0] = 0
        drop(memories, plan.inputs)
    else:
        status = call(shared.run_program, plan.program)
    return status


@native
def launch(plan: Plan, tensors: Words, numbers: Words, made: Words) -> Word:
    """Make the outputs and run. 0, FAILED with an error set, or UNUSUAL with nothing done."""
    bits = stack(plan.scalar_count)
    scalars: Array[Scalar] = plan.scalars
    for i in range(plan.scalar_count):
        if not scalar_bits(Object.at(numbers[scalars[i].number]), scalars[i].kind, bits + 8 * i):
            return UNUSUAL
    if make_outputs(plan, tensors, made) == FAILED:
        return FAILED
    arena = 0
    if plan.arena_bytes:
        arena = allocate(plan.arena_bytes)
        if arena == FAILED:
            drop(made, plan.made)
            return FAILED
    # From here to the run nothing else may use the plan: no Python code runs, and another thread may only be inside with the GIL released.
    if plan.busy[0]:
        drop(made, plan.made)
        if arena:
            release(arena, plan.arena_bytes)
        return UNUSUAL
    fill_patches(plan.patches, plan.patch_count, plan.inputs, tensors, made)
    for j in range(plan.scalar_count):
        scalars[j].slot[0] = bits[j]
    temporaries: Array[Patch] = plan.temporaries
    for k in range(plan.temporary_count):
        temporaries[k].slot[0] = arena + temporaries[k].offset
    status = run_kernels(plan, tensors)
    if arena:
        release(arena, plan.arena_bytes)
    if status:
        return report(plan, status, made)
    return 0


@native
def report(plan: Plan, status: Word, made: Words) -> Word:
    """Let Python tell about a status that is not 0: FAILED when it raises."""
    number = PyLong_FromLongLong(status)
    told = 0
    if number:
        told = PyObject_CallFunctionObjArgs(shared.failed, plan.owner, number, 0)
    Py_DecRef(number)
    Py_DecRef(told)
    if told:
        return 0
    drop(made, plan.made)
    return FAILED


@native
def make_views(plan: Plan, tensors: Words, made: Words) -> Word:
    """Put the plan's views at ``made``; FAILED with an error set."""
    outputs: Array[Output] = plan.outputs
    for k in range(plan.made):
        output: Output = outputs[k]
        source = Tensor.at(tensors[output.target])
        Py_IncRef(source.memory)
        view = tensor_new(source.memory, source.address + output.offset, output.meta)
        if view and output.steps and mark_view(view, source, output.steps) == FAILED:
            Py_DecRef(view)
            view = Tensor.at(0)
        if not view:
            drop(made, k)
            return FAILED
        made[k] = view
    return 0


@native
def mark_view(view: Tensor, source: Tensor, steps: Word) -> Word:
    """Say what a new tensor is a view of: ``source`` seen through ``steps``, which follow those of ``source`` if there are any."""
    made: View = PyType_GenericAlloc(shared.view_type, 0)
    if not made:
        return FAILED
    before: View = source.view_of
    if not before or before == shared.none or not PyTuple_Size(steps):
        Py_IncRef(source)
        made.base = source
        Py_IncRef(steps)
        made.steps = steps
    else:
        Py_IncRef(before.base)
        made.base = before.base
        made.steps = PySequence_Concat(before.steps, steps)
    view.view_of = made
    view.seen_version = view.memory.version
    if not made.steps:
        return FAILED
    return 0


@native
def build(cursor: Words, made: Words) -> Word:
    """The part of a result whose description is at the address in ``cursor``, which is moved behind it; 0 with an error set."""
    part: Words = cursor[0]
    cursor[0] = cursor[0] + 24
    kind = part[0]
    count = part[1]
    if kind == NOTHING:
        return none()
    if kind == SINGLE:
        Py_IncRef(made[count])
        return made[count]
    parts = stack(count)
    for i in range(count):
        parts[i] = build(cursor, made)
        if not parts[i]:
            drop(parts, i)
            return 0
    result = 0
    if kind == CLASS:
        result = PyObject_Vectorcall(part[2], parts, count, 0)
    elif kind == TUPLE:
        result = PyTuple_New(count)
    else:
        result = PyList_New(count)
    if kind == CLASS or not result:
        drop(parts, count)
        return result
    for j in range(count):
        if kind == TUPLE:
            PyTuple_SetItem(result, j, parts[j])
        else:
            PyList_SetItem(result, j, parts[j])
    return result


@native
def collect(plan: Plan, made: Words) -> Word:
    """The result of a call from its outputs, whose references it takes; 0 with an error set."""
    structure = plan.structure
    if structure[0] == SINGLE and plan.made == 1:
        return made[0]
    cursor = stack(1)
    cursor[0] = structure
    result = build(cursor, made)
    drop(made, plan.made)
    return result


@native
def make(plan: Plan, tensors: Words, number_count: Word, numbers: Words, made: Words) -> Word:
    """Run a plan and put its outputs at ``made``, each a reference: 0, FAILED with an error set, or UNUSUAL with nothing done."""
    owner = plan.owner
    Py_IncRef(owner)
    status = 0
    if plan.kind == VIEWS:
        status = make_views(plan, tensors, made)
    else:
        status = launch(plan, tensors, numbers, made)
    if status == 0 and plan.writes:
        bump_versions(plan, made)
    if status == 0 and plan.recording and record(plan, tensors, number_count, numbers, made) == FAILED:
        drop(made, plan.made)
        status = FAILED
    Py_DecRef(owner)
    return status


@native
def perform(plan: Plan, tensors: Words, number_count: Word, numbers: Words) -> Word:
    """The result of a call by its plan; 0 with an error set, or UNUSUAL with nothing done."""
    if plan.kind == PYTHON:
        return refuse(PLAN)
    made = stack(plan.made)
    owner = plan.owner
    Py_IncRef(owner)
    status = make(plan, tensors, number_count, numbers, made)
    result = 0
    if status == 0:
        result = collect(plan, made)
    elif status == UNUSUAL:
        result = refuse(STATE)
    Py_DecRef(owner)
    return result


@native
def perform_plan(self: Word, given: Words, count: Word) -> Word:
    """``perform(address, tensors, numbers)``: the results as the plan there has it, or None with nothing done. Both are lists."""
    place = stack(1)
    if count != 3 or not int_of(given[0], place) or not generator_is_default():
        return none()
    plan: Plan = place[0]
    if Object.at(given[1]).type != shared.list_type or Object.at(given[2]).type != shared.list_type:
        return none()
    tensor_count = PyList_Size(given[1])
    number_count = PyList_Size(given[2])
    if tensor_count != plan.inputs or number_count < plan.number_count:
        return none()
    tensors = stack(tensor_count)
    for i in range(tensor_count):
        tensors[i] = PyList_GetItem(given[1], i)
        if not PyType_IsSubtype(Object.at(tensors[i]).type, shared.tensor_fields) or not is_whole(Tensor.at(tensors[i])):
            return none()
    numbers = stack(number_count)
    for j in range(number_count):
        numbers[j] = PyList_GetItem(given[2], j)
    result = perform(plan, tensors, number_count, numbers)
    if result == UNUSUAL:
        return none()
    return result


@native
def generator_is_default() -> Word:
    """Whether this thread is known to draw from the default generator."""
    if not shared.enabled or PyThreadState_GetID(PyThreadState_Get()) != shared.mode_thread:
        return 0
    return (shared.mode & OWN_GENERATOR) == 0


@native
def new_tensor(self: Word, given: Words, count: Word) -> Word:
    """``new_tensor(memory, address, meta)``: a tensor without history."""
    address = stack(1)
    if count != 3 or Object.at(given[0]).type != shared.storage_type or Object.at(given[2]).type != shared.meta_type:
        return PyObject_Vectorcall(shared.new_slowly, given, count, 0)
    if Object.at(given[1]).type != shared.int_type or not int_of(given[1], address):
        return PyObject_Vectorcall(shared.new_slowly, given, count, 0)
    Py_IncRef(given[0])
    return tensor_new(Storage.at(given[0]), address[0], given[2])


@native
def bump_versions(plan: Plan, made: Words) -> None:
    """Count the change of every operand that was written into."""
    outputs: Array[Output] = plan.outputs
    for k in range(plan.made):
        if outputs[k].target >= 0:
            changed = Tensor.at(made[k])
            if not uncounted(changed):
                memory = changed.memory
                memory.version += 1
