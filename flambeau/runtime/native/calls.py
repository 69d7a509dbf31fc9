"""Native entries of operator calls: find the plan by its key and perform it; what is unusual or new goes to Python."""

from __future__ import annotations

from flambeau.runtime.native.c_api import (
    Py_DecRef,
    Py_IncRef,
    PyBytes_FromStringAndSize,
    PyDict_Next,
    PyDict_Size,
    PyErr_Clear,
    PyObject_CallFunctionObjArgs,
    PyObject_IsTrue,
    PyObject_Vectorcall,
    PyThreadState_Get,
    PyThreadState_GetID,
    PyTuple_GetItem,
    PyTuple_Size,
    PyType_IsSubtype,
    memcmp,
)
from flambeau.runtime.native.keys import (
    INTO,
    MAX_PARAMETERS,
    MULTIPLIER,
    add_word,
    begin,
    int_of,
    is_tensor,
    listed,
    make_key,
)
from flambeau.runtime.native.language import Word, Words, inline, native, stack
from flambeau.runtime.native.launch import ARGUMENTS, MISSED, MODES, NEW, UNUSUAL, perform, refuse
from flambeau.runtime.native.layouts import Arguments, Binary, Object, Plan, Signature, Tensor, shared
from flambeau.runtime.native.memory import none

ARGUMENTS_WORDS = Arguments.size // 8



@inline
def thread_is_known() -> Word:
    """Make the modes of this thread the known ones; 0 when that cannot be done."""
    if not shared.enabled:
        return 0
    if PyThreadState_GetID(PyThreadState_Get()) != shared.mode_thread:
        told = PyObject_CallFunctionObjArgs(shared.refresh_mode, 0)
        if not told:
            PyErr_Clear()
            return 0
        Py_DecRef(told)
    return 1


@inline
def modes_allow(signature: Signature) -> Word:
    """Whether this thread is in no mode in which only Python can call the operator."""
    if not thread_is_known():
        return 0
    return (shared.mode & ~signature.modes) == 0


@native
def find_signature(operator: Word) -> Signature:
    """The signature of an operator that has been called before; 0 for another."""
    table: Words = shared.signatures
    mask = table[0]
    at = ((operator * MULTIPLIER) >> 40) & mask
    while table[1 + at]:
        found: Signature = table[1 + at]
        if found.operator == operator:
            return found
        at = (at + 1) & mask
    return Signature.at(0)


@native
def signature_of(operator: Object) -> Signature:
    """The signature of an operator, asked for at its first call; 0 when native code is not in use."""
    if not shared.enabled:
        return Signature.at(0)
    found = find_signature(operator)
    if not found and operator.type == shared.operator_type:
        learned = PyObject_CallFunctionObjArgs(shared.learn, operator, 0)
        if not learned:
            PyErr_Clear()
            return Signature.at(0)
        Py_DecRef(learned)
        found = find_signature(operator)
    return found


@inline
def plan_of(arguments: Arguments, operator: Word) -> Plan:
    """The plan with a key; 0 when there is none yet."""
    table: Words = shared.plans
    mask = table[0]
    hash = arguments.hash
    words = arguments.words
    at = (hash >> 20) & mask
    while table[1 + at]:
        found: Plan = table[1 + at]
        if found.hash == hash and found.operator == operator and found.words == words and memcmp(found.key, arguments.key, 8 * words) == 0:
            return found
        at = (at + 1) & mask
    return Plan.at(0)


@inline
def perform_counted(plan: Plan, arguments: Arguments) -> Word:
    result = perform(plan, arguments.tensors, arguments.number_count, arguments.numbers)
    if result > MISSED:
        shared.calls += 1
    return result


@native
def attempt(arguments: Arguments, signature: Signature, values: Words) -> Word:
    """The result of a call; 0 with an error set, UNUSUAL, or MISSED with the key in ``arguments``."""
    if not modes_allow(signature):
        return refuse(MODES)
    if not make_key(arguments, signature, values):
        return refuse(ARGUMENTS)
    plan = plan_of(arguments, signature.operator)
    if not plan:
        return MISSED
    return perform_counted(plan, arguments)


@inline
def may_be_positional(signature: Signature, count: Word, named: Word) -> Word:
    """Whether so many arguments may be positional; as `Operator.bind`, all of them also where some are keyword-only."""
    if count == signature.parameters and not named:
        return 1
    return count <= signature.positional


@native
def place_keywords(signature: Signature, values: Words, names: Word, given: Words) -> Word:
    """Put keyword arguments in the places of their parameters; 0 when one is unknown or given twice."""
    for j in range(PyTuple_Size(names)):
        if not place_keyword(signature, values, PyTuple_GetItem(names, j), given[j]):
            return 0
    return 1


@native
def place_keyword(signature: Signature, values: Words, name: Word, value: Word) -> Word:
    wanted: Words = signature.names
    for i in range(signature.parameters):
        if wanted[i] == name:
            if values[i]:
                return 0
            values[i] = value
            return 1
    return 0


@native
def count_refusal(reason: Word) -> None:
    """Count a call that goes to Python."""
    if shared.enabled:
        counts: Words = shared.refusals
        counts[reason] += 1


@native
def call_with(function: Word, first: Word, second: Word, given: Words, count: Word, names: Word) -> Word:
    """Call ``function(first?, second, *given)`` with the keywords ``names`` at the end of ``given``."""
    total = count
    if names:
        total += PyTuple_Size(names)
    all = stack(total + 2)
    lead = 1
    if first:
        all[0] = first
        lead = 2
    all[lead - 1] = second
    for i in range(total):
        all[lead + i] = given[i]
    return PyObject_Vectorcall(function, all, count + lead, names)


@native
def operator_call(operator: Object, given: Words, count: Word, names: Word) -> Word:
    """``Operator.__call__``."""
    signature = signature_of(operator)
    arguments: Arguments = stack(ARGUMENTS_WORDS)
    result = refuse(ARGUMENTS)
    if signature and may_be_positional(signature, count, names):
        values = stack(MAX_PARAMETERS)
        for i in range(count):
            values[i] = given[i]
        for j in range(count, signature.parameters):
            values[j] = 0
        fits = 1
        if names:
            fits = place_keywords(signature, values, names, given + 8 * count)
        if fits:
            room = 0
            if signature.lists:
                room = listed(signature, values)
            begin(arguments, room)
            result = attempt(arguments, signature, values)
    if result == UNUSUAL:
        count_refusal(shared.reason)
        return call_with(shared.call_python, 0, operator, given, count, names)
    if result == MISSED:
        count_refusal(NEW)
        bytes = PyBytes_FromStringAndSize(arguments.key, 8 * arguments.words)
        if not bytes:
            return 0
        result = call_with(shared.missed, bytes, operator, given, count, names)
        Py_DecRef(bytes)
    return result


@native
def binary(a: Object, b: Object, operation: Binary) -> Word:
    """A Python operator on two operands, one of which is a tensor."""
    if not operation:
        Py_IncRef(shared.not_implemented)
        return shared.not_implemented
    signature = operation.signature
    if signature:
        values = stack(MAX_PARAMETERS)
        values[0] = a
        values[1] = b
        for i in range(2, signature.parameters):
            values[i] = 0
        arguments: Arguments = stack(ARGUMENTS_WORDS)
        begin(arguments, 0)
        result = attempt(arguments, signature, values)
        if result != UNUSUAL and result != MISSED:
            return result
    operands = stack(2)
    if operation.forward and PyType_IsSubtype(a.type, shared.tensor_fields):
        operands[0] = a
        operands[1] = b
        return PyObject_Vectorcall(operation.forward, operands, 2, 0)
    if operation.reflected and PyType_IsSubtype(b.type, shared.tensor_fields):
        operands[0] = b
        operands[1] = a
        return PyObject_Vectorcall(operation.reflected, operands, 2, 0)
    Py_IncRef(shared.not_implemented)
    return shared.not_implemented


@native
def number_add(a: Object, b: Object) -> Word:
    return binary(a, b, shared.add)


@native
def number_subtract(a: Object, b: Object) -> Word:
    return binary(a, b, shared.subtract)


@native
def number_multiply(a: Object, b: Object) -> Word:
    return binary(a, b, shared.multiply)


@native
def number_true_divide(a: Object, b: Object) -> Word:
    return binary(a, b, shared.divide)


@native
def number_matrix_multiply(a: Object, b: Object) -> Word:
    return binary(a, b, shared.matrix_multiply)


@native
def number_negative(a: Object) -> Word:
    operation = shared.negate
    if not operation:
        Py_IncRef(shared.not_implemented)
        return shared.not_implemented
    values = stack(MAX_PARAMETERS)
    values[0] = a
    signature = operation.signature
    if signature:
        for i in range(1, signature.parameters):
            values[i] = 0
        arguments: Arguments = stack(ARGUMENTS_WORDS)
        begin(arguments, 0)
        result = attempt(arguments, signature, values)
        if result != UNUSUAL and result != MISSED:
            return result
    return PyObject_Vectorcall(operation.forward, values, 1, 0)


# -- in place -----------------------------------------------------------------------------------------------
@native
def attempt_into(arguments: Arguments, signature: Signature, values: Words, target: Word) -> Word:
    """As `attempt`, with the result written into ``target``, one of the operands."""
    if not modes_allow(signature):
        return refuse(MODES)
    if not is_tensor(Object.at(target)) or not make_key(arguments, signature, values) or arguments.marked:
        return refuse(ARGUMENTS)
    place = -1
    for i in range(arguments.tensor_count):
        if arguments.tensors[i] == target:
            place = i
        elif Tensor.at(arguments.tensors[i]).memory == Tensor.at(target).memory:
            return refuse(ARGUMENTS)
    if place < 0:
        return refuse(ARGUMENTS)
    add_word(arguments, INTO)
    add_word(arguments, place)
    if arguments.words > arguments.most_words:
        return refuse(ARGUMENTS)
    plan = plan_of(arguments, signature.operator)
    if not plan:
        return MISSED
    return perform_counted(plan, arguments)


@native
def place_all(signature: Signature, values: Words, given: Object, named: Object) -> Word:
    """Put the arguments of a tuple and a dictionary in the places of their parameters; 0 when that does not work."""
    if given.type != shared.tuple_type or named.type != shared.dict_type:
        return 0
    count = PyTuple_Size(given)
    named_count = PyDict_Size(named)
    if not may_be_positional(signature, count, named_count):
        return 0
    for i in range(count):
        values[i] = PyTuple_GetItem(given, i)
    for j in range(count, signature.parameters):
        values[j] = 0
    state = stack(3)
    state[0] = 0
    if named_count > 0:
        while PyDict_Next(named, state, state + 8, state + 16):
            if not place_keyword(signature, values, state[1], state[2]):
                return 0
    return 1


@native
def operator_into(self: Word, given: Words, count: Word) -> Word:
    """``call_into(operator, target, args, kwargs)``."""
    result = refuse(ARGUMENTS)
    arguments: Arguments = stack(ARGUMENTS_WORDS)
    if count == 4:
        signature = signature_of(Object.at(given[0]))
        values = stack(MAX_PARAMETERS)
        if signature and place_all(signature, values, Object.at(given[2]), Object.at(given[3])):
            begin(arguments, 0)
            result = attempt_into(arguments, signature, values, given[1])
    if result == UNUSUAL:
        count_refusal(shared.reason)
        return PyObject_Vectorcall(shared.into_python, given, count, 0)
    if result == MISSED:
        count_refusal(NEW)
        bytes = PyBytes_FromStringAndSize(arguments.key, 8 * arguments.words)
        if not bytes:
            return 0
        result = PyObject_CallFunctionObjArgs(shared.into_missed, bytes, given[0], given[1], given[2], given[3], 0)
        Py_DecRef(bytes)
    return result


# -- for Python ---------------------------------------------------------------------------------------------
@native
def set_modes(self: Word, bits: Object) -> Word:
    """``set_modes(bits)``: the modes of the calling thread, from now on the one whose modes are known."""
    value = stack(1)
    if not int_of(bits, value):
        value[0] = -1
    shared.mode = value[0]
    shared.mode_thread = PyThreadState_GetID(PyThreadState_Get())
    return none()


@native
def change_mode(self: Word, given: Words, count: Word) -> Word:
    """``change_mode(bit, on)``: a mode of the calling thread has changed; what is not known of another thread is asked for later."""
    bit = stack(1)
    if count == 2 and int_of(given[0], bit) and PyThreadState_GetID(PyThreadState_Get()) == shared.mode_thread:
        shared.mode = shared.mode & ~bit[0]
        if PyObject_IsTrue(given[1]):
            shared.mode = shared.mode | bit[0]
    return none()
