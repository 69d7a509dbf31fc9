"""Native backward of one tape entry, for values that have been seen before; whatever is unusual is left to Python."""

from __future__ import annotations

from flambeau.runtime.native.c_api import PyList_GetItem, PyList_Size
from flambeau.runtime.native.calls import count_refusal, thread_is_known
from flambeau.runtime.native.keys import GRADIENTS_OFF, INFERENCE, is_tensor
from flambeau.runtime.native.language import Word, Words, native, stack
from flambeau.runtime.native.launch import ARGUMENTS, MISSED, MODES, NEW, UNUSUAL, drop, perform, refuse
from flambeau.runtime.native.layouts import Backward, Entry, Object, Saved, Tensor, shared
from flambeau.runtime.native.memory import none
from flambeau.runtime.native.tensors import is_whole


@native
def take_tensor(found: Object, meta: Word) -> Word:
    """Whether an object is a tensor with this metadata whose memory is there."""
    if not found or not is_tensor(found) or Tensor.at(found).meta != meta:
        return 0
    return is_whole(Tensor.at(found))


@native
def take_saved(entry: Entry, backward: Backward, tensors: Words) -> Word:
    """Put the saved tensors at ``tensors``, borrowed; 0 when they have been let go, changed, or differ."""
    list = Object.at(entry.saved)
    if not list or list.type != shared.list_type:
        return 0
    for i in range(backward.saved_count):
        place = backward.saved[i]
        if place >= PyList_Size(list):
            return 0
        saved: Saved = PyList_GetItem(list, place)
        if saved.type != shared.saved_type or not take_tensor(Object.at(saved.tensor), backward.metas[i]):
            return 0
        if saved.tensor.memory.version != saved.version:
            return 0
        tensors[i] = saved.tensor
    return 1


@native
def take_cotangents(given: Object, backward: Backward, tensors: Words) -> Word:
    """Put the cotangents that the function takes at ``tensors`` behind the saved ones, borrowed; 0 when one differs."""
    if given.type != shared.list_type:
        return 0
    first = backward.saved_count
    for i in range(backward.cotangent_count):
        place = backward.cotangents[i]
        if place >= PyList_Size(given):
            return 0
        found = PyList_GetItem(given, place)
        if not take_tensor(Object.at(found), backward.metas[first + i]):
            return 0
        tensors[first + i] = found
    for j in range(backward.missing_count):
        absent = backward.missing[j]
        if absent >= PyList_Size(given) or PyList_GetItem(given, absent) != shared.none:
            return 0
    return 1


@native
def take_numbers(entry: Entry, backward: Backward, numbers: Words) -> Word:
    list = Object.at(entry.numbers)
    if not list or list.type != shared.list_type:
        return 0
    for i in range(backward.number_count):
        place = backward.numbers[i]
        if place >= PyList_Size(list):
            return 0
        numbers[i] = PyList_GetItem(list, place)
    return 1


@native
def lay_out(backward: Backward, tensors: Words, made: Words) -> Word:
    """Put copies, which are also put at ``made``, in the places of operands; 0 with an error set, or UNUSUAL with nothing done."""
    for i in range(backward.copy_count):
        copy = backward.copies[i]
        result = perform(copy.plan, tensors + 8 * copy.place, 0, 0)
        if result <= MISSED:
            drop(made, i)
            return result
        made[i] = result
        tensors[copy.place] = result
    return MISSED


@native
def go_back(entry: Entry, backward: Backward, cotangents: Object) -> Word:
    """The gradients by one backward function, as a list; 0 with an error set, or UNUSUAL with nothing done."""
    tensors = stack(backward.saved_count + backward.cotangent_count)
    numbers = stack(backward.number_count)
    if not take_saved(entry, backward, tensors) or not take_cotangents(cotangents, backward, tensors):
        return refuse(ARGUMENTS)
    if not take_numbers(entry, backward, numbers):
        return refuse(ARGUMENTS)
    made = stack(backward.copy_count)
    result = lay_out(backward, tensors, made)
    if result == MISSED:
        result = perform(backward.plan, tensors, backward.number_count, numbers)
        drop(made, backward.copy_count)
    return result


@native
def gradients_of(entry: Entry, cotangents: Object) -> Word:
    """The gradients of an entry for a list of cotangents, as `go_back`."""
    if not thread_is_known() or (shared.mode & ~INFERENCE) != GRADIENTS_OFF:
        return refuse(MODES)
    result = refuse(NEW)
    recording = entry.recording
    backward = Backward.at(0)
    if recording:
        backward = recording.backward
    while backward and result == UNUSUAL:
        result = go_back(entry, backward, cotangents)
        backward = backward.next
    if result > MISSED:
        shared.backwards += 1
    return result


@native
def entry_apply(self: Word, given: Words, count: Word) -> Word:
    """``apply_entry(entry, cotangents)``: the gradients as a list, or None with nothing done."""
    if count != 2 or Object.at(given[0]).type != shared.entry_type:
        return none()
    result = gradients_of(Entry.at(given[0]), Object.at(given[1]))
    if result == UNUSUAL:
        count_refusal(shared.reason)
        return none()
    return result
