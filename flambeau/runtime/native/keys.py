"""Keys of operator calls: what a plan depends on, as a row of words that is compared instead of Python objects.

Every parameter adds words that begin with a tag (even, below 64) or, for a tensor, are its metadata's address with the low bits set:
`TENSOR`, and `MARK` when it takes part in autograd. So no row is the beginning of another's meaning. Numbers in the place of values
are not part of a key, only their types. A call that has anything else to say is unusual and left to Python.
"""

from __future__ import annotations

from flambeau.runtime.native.c_api import (
    PyFloat_AsDouble,
    PyList_GetItem,
    PyList_Size,
    PyLong_AsLongLongAndOverflow,
    PyTuple_GetItem,
    PyTuple_Size,
)
from flambeau.runtime.native.language import Word, Words, bits_of_double, inline, native, stack
from flambeau.runtime.native.layouts import Arguments, Object, Signature, Tensor, shared
from flambeau.runtime.native.tensors import is_current, is_whole

# Roles of parameters, in the order of `ROLES`.
VALUE, VALUES, SIZE, SIZES, STATIC = 0, 1, 2, 3, 4
ROLES = ("value", "values", "size", "sizes", "static")

TENSOR, MARK = 1, 2
NONE, DEFAULT, FLOAT_NUMBER, INT_NUMBER, BOOL_NUMBER, SEQUENCE, INT, FLOAT, OBJECT, AGAIN, INTO = 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22

MAX_PARAMETERS = 16
MAX_WORDS = 96
MAX_TENSORS = 16
MAX_NUMBERS = 8
# Tensors in lists, beyond MAX_TENSORS.
MAX_LISTED = 4096
# Bits of the modes, as in `core.context`.
GRADIENTS_OFF, INFERENCE, AUTOCAST = 1, 16, 128 | 256 | 512 | 1024
MULTIPLIER = -7046029254386353131  # the golden ratio, as in Fibonacci hashing


@inline
def add_word(arguments: Arguments, word: Word) -> None:
    """Add a word to the key; one too many is counted but not kept."""
    if arguments.words < arguments.most_words:
        arguments.key[arguments.words] = word
    arguments.words += 1
    mixed = (arguments.hash ^ word) * MULTIPLIER
    arguments.hash = mixed ^ (mixed >> 29)


@inline
def is_tensor(found: Object) -> Word:
    """Whether an object is of a class whose instances all operators treat alike."""
    kind = found.type
    if kind == shared.tensor_type:
        return 1
    accepted: Words = shared.accepted
    for i in range(shared.accepted_count):
        if accepted[i] == kind:
            return 1
    return 0


@native
def take_place(arguments: Arguments, tensor: Word) -> Word:
    """Where a tensor is among those found so far, or -1, with its place in the hash table taken, for a new one."""
    places = arguments.places
    at = ((tensor * MULTIPLIER) >> 40) & arguments.mask
    while places[at]:
        if arguments.tensors[places[at] - 1] == tensor:
            return places[at] - 1
        at = (at + 1) & arguments.mask
    places[at] = arguments.tensor_count + 1
    return -1


@inline
def position_of(arguments: Arguments, tensor: Word) -> Word:
    """Where a tensor is among those found so far; -1 for a new one."""
    if arguments.places:
        return take_place(arguments, tensor)
    for i in range(arguments.tensor_count):
        if arguments.tensors[i] == tensor:
            return i
    return -1


@inline
def add_tensor(arguments: Arguments, tensor: Tensor) -> Word:
    """Add a tensor; 0 when it is unusual."""
    count = arguments.tensor_count
    position = position_of(arguments, tensor)
    if position >= 0:
        add_word(arguments, AGAIN)
        add_word(arguments, position)
        return 1
    if count == arguments.most_tensors or not is_whole(tensor):
        return 0
    word = tensor.meta | TENSOR
    if not shared.mode & GRADIENTS_OFF:
        if not is_current(tensor):
            return 0
        if tensor._requires_grad:
            word = word | MARK
            arguments.marked = 1
    arguments.tensors[count] = tensor
    arguments.tensor_count = count + 1
    add_word(arguments, word)
    return 1


@native
def int_of(number: Word, result: Words) -> Word:
    """Put an int's value at ``result``; 0 when it has more than 64 bits."""
    overflow = stack(1)
    overflow[0] = 0
    result[0] = PyLong_AsLongLongAndOverflow(number, overflow)
    return overflow[0] == 0


@inline
def add_number(arguments: Arguments, number: Object, default: Object) -> Word:
    """Add a number in the place of a value: only its type, unless it is the default."""
    kind = number.type
    tag = 0
    same = 0
    if number == default:
        same = 1
    if kind == shared.float_type:
        tag = FLOAT_NUMBER
        if default and default.type == kind and PyFloat_AsDouble(number) == PyFloat_AsDouble(default):
            same = 1
    elif kind == shared.int_type:
        tag = INT_NUMBER
        values = stack(2)
        if default and default.type == kind and int_of(number, values) and int_of(default, values + 8) and values[0] == values[1]:
            same = 1
    elif kind == shared.bool_type:
        tag = BOOL_NUMBER
    else:
        return 0
    if same:
        add_word(arguments, DEFAULT)
        return 1
    if arguments.number_count == MAX_NUMBERS:
        return 0
    arguments.numbers[arguments.number_count] = number
    arguments.number_count += 1
    add_word(arguments, tag)
    return 1


@native
def length_of(sequence: Object) -> Word:
    """The length of a tuple, list or Size; -1 for anything else."""
    kind = sequence.type
    if kind == shared.tuple_type or kind == shared.size_type:
        return PyTuple_Size(sequence)
    if kind == shared.list_type:
        return PyList_Size(sequence)
    return -1


@native
def item_of(sequence: Object, position: Word) -> Object:
    """An item of what `length_of` knows, borrowed."""
    if sequence.type == shared.list_type:
        return Object.at(PyList_GetItem(sequence, position))
    return Object.at(PyTuple_GetItem(sequence, position))


@native
def add_tensors(arguments: Arguments, sequence: Object) -> Word:
    length = length_of(sequence)
    if length < 0:
        return 0
    add_word(arguments, SEQUENCE)
    add_word(arguments, length)
    for i in range(length):
        item = item_of(sequence, i)
        if item == shared.none:
            add_word(arguments, NONE)
        elif not is_tensor(item) or not add_tensor(arguments, Tensor.at(item)):
            return 0
    return 1


@native
def add_ints(arguments: Arguments, sequence: Object) -> Word:
    length = length_of(sequence)
    if length < 0 or length > MAX_WORDS:
        return 0
    add_word(arguments, SEQUENCE)
    add_word(arguments, length)
    value = stack(1)
    for i in range(length):
        item = item_of(sequence, i)
        if item.type != shared.int_type or not int_of(item, value):
            return 0
        add_word(arguments, value[0])
    return 1


@native
def add_size(arguments: Arguments, size: Object) -> Word:
    value = stack(1)
    if size.type != shared.int_type or not int_of(size, value):
        return 0
    add_word(arguments, INT)
    add_word(arguments, value[0])
    return 1


@native
def add_static(arguments: Arguments, found: Object) -> Word:
    """Add a static argument: by value a number or what is in a tuple, list or Size, by identity what cannot change."""
    kind = found.type
    if found == shared.none:
        add_word(arguments, NONE)
        return 1
    if kind == shared.int_type:
        return add_size(arguments, found)
    if kind == shared.float_type:
        add_word(arguments, FLOAT)
        add_word(arguments, bits_of_double(PyFloat_AsDouble(found)))
        return 1
    if kind == shared.bool_type or kind == shared.str_type:
        add_word(arguments, OBJECT)
        add_word(arguments, found)
        return 1
    constants: Words = shared.constants
    for i in range(shared.constant_count):
        if constants[i] == kind:
            add_word(arguments, OBJECT)
            add_word(arguments, found)
            return 1
    length = length_of(found)
    # A list may hold itself.
    if length < 0 or arguments.words > arguments.most_words:
        return 0
    add_word(arguments, SEQUENCE)
    add_word(arguments, length)
    for j in range(length):
        if not add_static(arguments, item_of(found, j)):
            return 0
    return 1


@inline
def add_argument(arguments: Arguments, role: Word, found: Object, default: Object) -> Word:
    """Add one argument; 0 when it is unusual."""
    if found == shared.none:
        add_word(arguments, NONE)
        return 1
    if role == VALUE:
        if is_tensor(found):
            return add_tensor(arguments, Tensor.at(found))
        return add_number(arguments, found, default)
    if role == STATIC:
        return add_static(arguments, found)
    if role == SIZE:
        return add_size(arguments, found)
    if role == VALUES:
        return add_tensors(arguments, found)
    if found.type == shared.int_type:
        return add_size(arguments, found)
    return add_ints(arguments, found)


@native
def make_key(arguments: Arguments, signature: Signature, values: Words) -> Word:
    """The key of a call with these arguments, one for each parameter; 0 for one that is not given. 0 when the call is unusual."""
    arguments.hash = signature.operator
    arguments.words = 0
    arguments.tensor_count = 0
    arguments.number_count = 0
    arguments.marked = 0
    defaults: Words = signature.defaults
    roles: Words = signature.roles
    for i in range(signature.parameters):
        default = defaults[i]
        found = values[i]
        if not found:
            found = default
            if not found:
                return 0
        if not add_argument(arguments, roles[i], Object.at(found), Object.at(default)):
            return 0
    return arguments.words <= arguments.most_words


@native
def listed(signature: Signature, values: Words) -> Word:
    """How many items the lists of tensors among the arguments have; 0, which is not enough for them, beyond MAX_LISTED."""
    total = 0
    roles: Words = signature.roles
    for i in range(signature.parameters):
        if roles[i] == VALUES and values[i]:
            length = length_of(Object.at(values[i]))
            if length > 0:
                total += length
    if total > MAX_LISTED:
        return 0
    return total


@inline
def begin(arguments: Arguments, room: Word) -> None:
    """Make room, on the caller's stack, for a key of the usual length with ``room`` tensors more."""
    arguments.most_words = MAX_WORDS + 2 * room
    arguments.most_tensors = MAX_TENSORS + room
    arguments.key = stack(MAX_WORDS + 2 * room)
    arguments.tensors = stack(MAX_TENSORS + room)
    arguments.numbers = stack(MAX_NUMBERS)
    arguments.places = 0
    if room > MAX_TENSORS:
        size = 64
        while size < 2 * (MAX_TENSORS + room):
            size = size << 1
        arguments.places = stack(size)
        arguments.mask = size - 1
        for i in range(size):
            arguments.places[i] = 0
