"""Native replay of residual programs: instructions one after another, each a function; Python decides whatever they are not sure of."""

from __future__ import annotations

from flambeau.runtime.native.c_api import (
    Py_DecRef,
    Py_IncRef,
    PyDict_GetItemWithError,
    PyDict_Next,
    PyDict_Size,
    PyErr_Clear,
    PyErr_Fetch,
    PyErr_NormalizeException,
    PyErr_Occurred,
    PyException_SetTraceback,
    PyFloat_AsDouble,
    PyList_GetItem,
    PyLong_AsLongLong,
    PyLong_FromLongLong,
    PyObject_CallFunctionObjArgs,
    PyObject_GC_Del,
    PyObject_GC_UnTrack,
    PyObject_GetAttr,
    PyObject_GetItem,
    PyObject_IsTrue,
    PyObject_RichCompare,
    PyObject_RichCompareBool,
    PyObject_SetAttr,
    PyObject_SetItem,
    PyObject_Vectorcall,
    PyObject_VectorcallMethod,
    PyTuple_GetItem,
    PyTuple_New,
    PyTuple_SetItem,
    PyTuple_Size,
    PyType_IsSubtype,
)  # fmt: skip
from flambeau.runtime.native.calls import thread_is_known
from flambeau.runtime.native.keys import AUTOCAST, GRADIENTS_OFF, INFERENCE, MULTIPLIER, int_of
from flambeau.runtime.native.language import Array, Word, Words, bits_of_double, call, inline, native, size_of, stack
from flambeau.runtime.native.launch import OWN_GENERATOR, drop, make
from flambeau.runtime.native.layouts import (
    Argument,
    Holder,
    Instruction,
    Launch,
    Object,
    Overlap,
    Program,
    Result,
    Tensor,
    View,
    shared,
)  # fmt: skip
from flambeau.runtime.native.memory import visit_four
from flambeau.runtime.native.tensors import is_current, is_whole

# What an instruction gives: the check does not hold, go on, ask Python, an error is set, the result is there.
NO, YES, UNSURE, RAISED, DONE = 0, 1, 2, 3, 4
# The first variables: the arguments of the call, and its result.
ARGS, KWARGS, RESULT, VARIABLES = 0, 1, 2, 3
# Operands from here on are addresses of objects, below numbers of variables. Executables that are not position-independent, as the
# interpreters of some systems, hold objects from 4 MiB on.
OBJECTS = 1 << 16
# Modes of which only Python knows: captures, modes of functions and of operators, batches, profilers.
SPECIAL = 4 | 32 | 64 | 2048 | 4096


@inline
def value(operand: Word, variables: Words) -> Object:
    """An operand, borrowed."""
    if operand < OBJECTS:
        return variables[operand]
    return operand


@inline
def put(step: Instruction, variables: Words, found: Word) -> Word:
    """Take a new reference as the result of an instruction, 0 for an error."""
    if not found:
        return RAISED
    variables[step.target] = found
    return YES


@inline
def gather(step: Instruction, variables: Words, found: Words) -> None:
    """Put the operands in a list at ``found``, borrowed."""
    for i in range(step.count):
        found[i] = value(step.operands[i], variables)


# -- steps --------------------------------------------------------------------------------------------------
@native
def do_move(step: Instruction, variables: Words) -> Word:
    found = value(step.first, variables)
    Py_IncRef(found)
    return put(step, variables, found)


@native
def do_return(step: Instruction, variables: Words) -> Word:
    variables[RESULT] = value(step.first, variables)
    Py_IncRef(variables[RESULT])
    return DONE


@native
def do_attribute(step: Instruction, variables: Words) -> Word:
    return put(step, variables, PyObject_GetAttr(value(step.first, variables), step.second))


@native
def do_item(step: Instruction, variables: Words) -> Word:
    return put(step, variables, PyObject_GetItem(value(step.first, variables), value(step.second, variables)))


@native
def do_get(step: Instruction, variables: Words) -> Word:
    """``first.get(second, third)``."""
    operands = stack(3)
    operands[0] = value(step.first, variables)
    operands[1] = value(step.second, variables)
    operands[2] = value(step.third, variables)
    if Object.at(operands[0]).type != shared.dict_type:
        return put(step, variables, PyObject_VectorcallMethod(shared.get_name, operands, 3, 0))
    found = PyDict_GetItemWithError(operands[0], operands[1])
    if not found:
        if PyErr_Occurred():
            return RAISED
        found = operands[2]
    Py_IncRef(found)
    return put(step, variables, found)


@native
def do_call(step: Instruction, variables: Words) -> Word:
    operands = stack(step.count)
    gather(step, variables, operands)
    return put(step, variables, PyObject_Vectorcall(value(step.first, variables), operands, step.count, 0))


@native
def do_method(step: Instruction, variables: Words) -> Word:
    operands = stack(step.count)
    gather(step, variables, operands)
    return put(step, variables, PyObject_VectorcallMethod(step.first, operands, step.count, 0))


@native
def do_compare(step: Instruction, variables: Words) -> Word:
    return put(step, variables, PyObject_RichCompare(value(step.first, variables), value(step.second, variables), step.third))


@native
def do_tuple(step: Instruction, variables: Words) -> Word:
    made = PyTuple_New(step.count)
    if made:
        for i in range(step.count):
            item = value(step.operands[i], variables)
            Py_IncRef(item)
            PyTuple_SetItem(made, i, item)
    return put(step, variables, made)


@native
def do_set_attribute(step: Instruction, variables: Words) -> Word:
    if PyObject_SetAttr(value(step.first, variables), step.second, value(step.third, variables)) < 0:
        return RAISED
    return YES


@native
def do_set_item(step: Instruction, variables: Words) -> Word:
    if PyObject_SetItem(value(step.first, variables), value(step.second, variables), value(step.third, variables)) < 0:
        return RAISED
    return YES


@native
def do_set_gradient(step: Instruction, variables: Words) -> Word:
    """``first._grad = second``."""
    leaf = value(step.first, variables)
    if not PyType_IsSubtype(leaf.type, shared.tensor_fields):
        return UNSURE
    before = Tensor.at(leaf)._grad
    gradient = value(step.second, variables)
    Py_IncRef(gradient)
    Tensor.at(leaf)._grad = gradient
    Py_DecRef(before)
    return YES


# -- checks -------------------------------------------------------------------------------------------------
@native
def do_start(step: Instruction, variables: Words) -> Word:
    """Whether the call has the form and the modes of the program: how many arguments, modes, default type, names of keywords."""
    wanted: Words = step.operands
    if PyTuple_Size(variables[ARGS]) != wanted[0] or (shared.mode & (GRADIENTS_OFF | INFERENCE | AUTOCAST)) != wanted[1]:
        return NO
    if PyList_GetItem(wanted[2], 0) != wanted[3] or PyDict_Size(variables[KWARGS]) != PyTuple_Size(wanted[4]):
        return NO
    place = stack(3)
    place[0] = 0
    i = 0
    while PyDict_Next(variables[KWARGS], place, place + 8, place + 16):
        if place[1] != PyTuple_GetItem(wanted[4], i):
            return UNSURE
        i += 1
    return YES


@native
def do_is(step: Instruction, variables: Words) -> Word:
    """Whether ``first`` is ``second``; ``third`` if not."""
    if value(step.first, variables) == value(step.second, variables):
        return YES
    return step.third


@native
def do_type(step: Instruction, variables: Words) -> Word:
    found = value(step.first, variables)
    if found.type == step.second and (step.second != shared.int_type or int_of(found, stack(1))):
        return YES
    return step.third


@native
def do_integer(step: Instruction, variables: Words) -> Word:
    """Whether ``first`` is an int that equals the number ``second``."""
    found = value(step.first, variables)
    number = stack(1)
    return found.type == shared.int_type and int_of(found, number) and number[0] == step.second


@native
def do_float(step: Instruction, variables: Words) -> Word:
    """Whether ``first`` is a float with the bits ``second``; ``third`` if not."""
    found = value(step.first, variables)
    if found.type == shared.float_type and bits_of_double(PyFloat_AsDouble(found)) == step.second:
        return YES
    return step.third


@native
def do_equal_object(step: Instruction, variables: Words) -> Word:
    """Whether ``first`` is of the type of ``second`` and equal to it."""
    found = value(step.first, variables)
    wanted = Object.at(step.second)
    if found == wanted:
        return YES
    if found.type != wanted.type:
        return UNSURE
    equal = PyObject_RichCompareBool(found, wanted, 2)
    if equal < 0:
        return RAISED
    return equal


@native
def do_true(step: Instruction, variables: Words) -> Word:
    """Whether the truth of ``first`` is ``second``."""
    truth = PyObject_IsTrue(value(step.first, variables))
    if truth < 0:
        return RAISED
    return truth == step.second


@native
def do_position(step: Instruction, variables: Words) -> Word:
    """Whether ``first`` is operand ``third``, but none before; with -1 that it is none of them."""
    found = value(step.first, variables)
    for i in range(step.count):
        if value(step.operands[i], variables) == found:
            return step.third == i
    return step.third == -1


@native
def do_equal(step: Instruction, variables: Words) -> Word:
    """As `do_position` for ints that are equal."""
    found = value(step.first, variables)
    numbers = stack(2)
    if found.type != shared.int_type or not int_of(found, numbers):
        return UNSURE
    for i in range(step.count):
        other = value(step.operands[i], variables)
        if other.type != shared.int_type or not int_of(other, numbers + 8):
            return UNSURE
        if numbers[0] == numbers[1]:
            return step.third == i
    return step.third == -1


@native
def do_stamp(step: Instruction, variables: Words) -> Word:
    """Whether the stamp of all Modules is ``second``, or the guard ``first`` finds nothing that matters changed."""
    stamp: Words = step.third
    if stamp[0] == step.second:
        return YES
    operand = stack(1)
    operand[0] = step.first
    found = PyObject_VectorcallMethod(shared.failed_name, operand, 1, 0)
    if not found:
        return RAISED
    Py_DecRef(found)
    if found != shared.none:
        return NO
    step.second = stamp[0]
    return YES


@inline
def view_matches(tensor: Tensor, base_meta: Word, distance: Word) -> Word:
    """Whether a tensor shows another one of that metadata in the same memory so many bytes before, or (0) none."""
    view: View = tensor.view_of
    if not view or view == shared.none:
        return base_meta == 0
    base = Tensor.at(view.base)
    if base.memory != tensor.memory:
        return base_meta == 0
    return base.meta == base_meta and tensor.address - base.address == distance


@inline
def no_entry(tensor: Tensor) -> Word:
    return not tensor.entry or tensor.entry == shared.none


@native
def do_tensor(step: Instruction, variables: Words) -> Word:
    """Whether ``first`` is a tensor of a class, with metadata, that takes part in autograd or not, a leaf or not, and what it shows."""
    tensor = Tensor.at(value(step.first, variables))
    wanted: Words = step.operands
    if tensor.type != wanted[0] or tensor.meta != wanted[1]:
        return NO
    if not is_current(tensor):
        return UNSURE
    return tensor._requires_grad == wanted[2] and no_entry(tensor) == wanted[3] and view_matches(tensor, wanted[4], wanted[5])


@native
def do_pattern(step: Instruction, variables: Words) -> Word:
    """As `do_tensor` up to sizes: ``second`` is a dictionary of metadata that fit or not."""
    tensor = Tensor.at(value(step.first, variables))
    wanted: Words = step.operands
    if tensor.type != wanted[0]:
        return NO
    found = PyDict_GetItemWithError(step.second, tensor.meta)
    if not found or not is_current(tensor):
        return UNSURE
    if found != wanted[4] or tensor._requires_grad != wanted[1] or no_entry(tensor) != wanted[2]:
        return NO
    view: View = tensor.view_of
    if not view or view == shared.none:
        return wanted[3] == 0
    return (Tensor.at(view.base).memory == tensor.memory) == wanted[3]


@native
def do_memories(step: Instruction, variables: Words) -> Word:
    """Whether the operands lie in each other's memory as the pairs at ``second`` say."""
    wanted: Words = step.second
    for i in range(step.count):
        tensor = Tensor.at(value(step.operands[i], variables))
        j = 0
        while Tensor.at(value(step.operands[j], variables)).memory != tensor.memory:
            j += 1
        if j != wanted[2 * i] or tensor.address - Tensor.at(value(step.operands[j], variables)).address != wanted[2 * i + 1]:
            return NO
    return YES


# -- segments -----------------------------------------------------------------------------------------------
@native
def is_usable(found: Object) -> Word:
    """Whether an object is a tensor whose memory is there."""
    if found.type != shared.tensor_type and not PyType_IsSubtype(found.type, shared.tensor_fields):
        return 0
    return is_whole(Tensor.at(found))


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
def find_launch(step: Instruction, variables: Words) -> Holder:
    """What there is for the sizes of now, a new reference; 0 where that is to be made in Python."""
    key = PyTuple_New(step.third)
    if not key:
        PyErr_Clear()
        return Holder.at(0)
    for i in range(step.third):
        size = value(step.operands[i], variables)
        Py_IncRef(size)
        PyTuple_SetItem(key, i, size)
    found = PyDict_GetItemWithError(step.second, key)
    Py_DecRef(key)
    if not found or found == shared.none:
        PyErr_Clear()
        return Holder.at(0)
    Py_IncRef(found)
    return found


@native
def do_fits(step: Instruction, variables: Words) -> Word:
    """Whether the segment may run on the operands: sizes, inputs, and tensors that lie in the memory of inputs."""
    holder = find_launch(step, variables)
    if not holder:
        return UNSURE
    launch: Launch = holder.address
    result = YES
    operands = stack(step.count)
    gather(step, variables, operands)
    tensors: Words = operands + 8 * step.third
    wanted: Array[Argument] = launch.arguments
    for i in range(launch.inputs):
        tensor = Tensor.at(tensors[i])
        if not is_usable(Object.at(tensors[i])) or tensor.meta != wanted[i].meta or tensor._requires_grad != wanted[i].marked:
            result = UNSURE
            break
        if not is_current(tensor):
            result = UNSURE
            break
    overlaps: Array[Overlap] = launch.overlaps
    if result == YES and count_storages(tensors, launch.inputs) != launch.storages:
        result = UNSURE
    for j in range(launch.overlap_count):
        if result == YES:
            part = Tensor.at(tensors[overlaps[j].part])
            owner = Tensor.at(tensors[overlaps[j].owner])
            if part.memory != owner.memory or part.address - owner.address != overlaps[j].distance:
                result = UNSURE
    Py_DecRef(holder)
    return result


@native
def do_run(step: Instruction, variables: Words) -> Word:
    """Run the segment on the operands: sizes, inputs, numbers."""
    if not thread_is_known() or shared.mode & OWN_GENERATOR:
        return UNSURE
    holder = find_launch(step, variables)
    if not holder:
        return UNSURE
    launch: Launch = holder.address
    operands = stack(step.count)
    gather(step, variables, operands)
    tensors: Words = operands + 8 * step.third
    count = launch.inputs
    usable = 1
    for i in range(count):
        usable = usable & is_usable(Object.at(tensors[i]))
    status = UNSURE
    if usable:
        made = stack(launch.plan.made)
        status = make(launch.plan, tensors, step.count - step.third - count, tensors + 8 * count, made)
        if status == 0:
            status = take_results(launch, made, variables + 8 * step.target)
            drop(made, launch.plan.made)
        elif PyErr_Occurred():
            status = RAISED
        else:
            status = UNSURE
    Py_DecRef(holder)
    return status


@native
def take_results(launch: Launch, made: Words, targets: Words) -> Word:
    """Put the tensors that somebody sees afterwards at ``targets``."""
    results: Array[Result] = launch.results
    launch.runs[0] = launch.runs[0] + 1
    for i in range(launch.result_count):
        found = made[results[i].index]
        if results[i].make:
            found = PyObject_CallFunctionObjArgs(results[i].make, found, 0)
            if not found:
                return RAISED
        else:
            Py_IncRef(found)
        targets[i] = found
    return YES


# -- the way out --------------------------------------------------------------------------------------------
@native
def values_of(program: Program, variables: Words) -> Word:
    """The variables as a tuple, 0 with an error set."""
    made = PyTuple_New(program.variables)
    if made:
        for i in range(program.variables):
            found = variables[i]
            if not found:
                found = program.unset
            Py_IncRef(found)
            PyTuple_SetItem(made, i, found)
    return made


@native
def ask(program: Program, function: Word, step: Instruction, variables: Words, error: Word) -> Word:
    """What Python says to this instruction: ``function(place, variables, error)``."""
    values = values_of(program, variables)
    place = PyLong_FromLongLong(step.place)
    found = 0
    if values and place:
        found = PyObject_CallFunctionObjArgs(function, place, values, error, 0)
    Py_DecRef(place)
    Py_DecRef(values)
    return found


@native
def do_leave(step: Instruction, variables: Words) -> Word:
    """The program does not go on here."""
    program: Program = step.second
    variables[RESULT] = ask(program, program.leave, step, variables, shared.none)
    if variables[RESULT]:
        return DONE
    return RAISED


@native
def decide(program: Program, step: Instruction, variables: Words) -> Instruction:
    """Python performs the line of an instruction; where it goes on, 0 with an error set."""
    found = ask(program, program.decide, step, variables, shared.none)
    if not found:
        return Instruction.at(0)
    onward: Instruction = step.onward
    if step.results < 0:  # a check
        if found == shared.none:
            onward = step.otherwise
        Py_DecRef(found)
        return onward
    if step.results == 1:
        variables[step.into] = found
        return onward
    for i in range(step.results - 2):
        variables[step.into + i] = PyList_GetItem(found, i)
        Py_IncRef(variables[step.into + i])
    Py_DecRef(found)
    return onward


@native
def recover(program: Program, step: Instruction, variables: Words) -> Instruction:
    """After an error: where the program goes on; 0 with an error set, or with what Python says as the result."""
    error = stack(3)
    PyErr_Fetch(error, error + 8, error + 16)
    PyErr_NormalizeException(error, error + 8, error + 16)
    if error[2]:
        PyException_SetTraceback(error[1], error[2])
    found = Object.at(ask(program, program.recover, step, variables, error[1]))
    onward = Instruction.at(0)
    if found:
        if found.type == shared.tuple_type:
            raised = PyTuple_GetItem(found, 2)
            Py_IncRef(raised)
            variables[PyLong_AsLongLong(PyTuple_GetItem(found, 1))] = raised
            onward = Instruction.at(PyLong_AsLongLong(PyTuple_GetItem(found, 0)))
            Py_DecRef(found)
        else:
            variables[RESULT] = found
    drop(error, 3)
    return onward


@native
def replay(self: Holder, given: Words, count: Word) -> Word:
    """``replay(args, kwargs)``: what the program returns, or where it was left; NotImplemented in modes that only Python knows."""
    program: Program = self.address
    if count != 2 or not thread_is_known() or shared.mode & SPECIAL:
        Py_IncRef(shared.not_implemented)
        return shared.not_implemented
    variables = stack(program.variables)
    for i in range(program.variables):
        variables[i] = 0
    for j in range(2):
        variables[j] = given[j]
        Py_IncRef(given[j])
    step: Instruction = program.first
    while step:
        status = call(step.function, step, variables)
        if status == YES:
            step = Instruction.at(step + size_of(Instruction))
        elif status == NO:
            step = step.otherwise
        elif status == DONE:
            step = Instruction.at(0)
        else:
            if status == UNSURE:
                following = decide(program, step, variables)
            else:
                following = Instruction.at(0)
            if not following:
                following = recover(program, step, variables)
            step = following
    result = variables[RESULT]
    variables[RESULT] = 0
    drop(variables, program.variables)
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
