"""Native entries of Modules: the call of one without hooks, and the search for its parts."""

from __future__ import annotations

from flambeau.runtime.native.c_api import (
    Py_DecRef,
    Py_IncRef,
    PyDict_GetItemWithError,
    PyDict_Size,
    PyErr_Clear,
    PyObject_GenericGetDict,
    PyObject_Vectorcall,
    PyObject_VectorcallMethod,
    PyTuple_Size,
)
from flambeau.runtime.native.calls import call_with, thread_is_known
from flambeau.runtime.native.language import Word, Words, native, stack
from flambeau.runtime.native.layouts import Object, shared

CAPTURING = 4


@native
def has_no_hooks(module: Object) -> Word:
    """Whether a call of a Module is nothing but a call of its forward."""
    everywhere: Words = shared.global_hooks
    i = 0
    while everywhere[i]:
        if PyDict_Size(everywhere[i]) != 0:
            return 0
        i += 1
    own = PyObject_GenericGetDict(module, 0)
    if not own:
        PyErr_Clear()
        return 0
    names: Words = shared.hook_names
    plain = PyDict_GetItemWithError(own, shared.compiled_name) == 0
    j = 0
    while plain and names[j]:
        hooks = PyDict_GetItemWithError(own, names[j])
        plain = hooks != 0 and PyDict_Size(hooks) == 0
        j += 1
    Py_DecRef(own)
    if not plain:
        PyErr_Clear()
    return plain


@native
def module_call(module: Object, given: Words, count: Word, names: Word) -> Word:
    """``Module.__call__``."""
    if not thread_is_known() or shared.mode & CAPTURING or not has_no_hooks(module):
        return call_with(shared.call_module, 0, module, given, count, names)
    total = count
    if names:
        total += PyTuple_Size(names)
    all = stack(total + 1)
    all[0] = module
    for i in range(total):
        all[1 + i] = given[i]
    return PyObject_VectorcallMethod(shared.forward_name, all, count + 1, names)


@native
def module_getattr(module: Object, name: Object) -> Word:
    """``Module.__getattr__``: a parameter, buffer or child; what is none of them is told by Python."""
    own = PyObject_GenericGetDict(module, 0)
    if own:
        registries: Words = shared.registry_names
        i = 0
        while registries[i]:
            registry = PyDict_GetItemWithError(own, registries[i])
            if registry:
                found = PyDict_GetItemWithError(registry, name)
                if found:
                    Py_IncRef(found)
                    Py_DecRef(own)
                    return found
            i += 1
        Py_DecRef(own)
    PyErr_Clear()
    operands = stack(2)
    operands[0] = module
    operands[1] = name
    return PyObject_Vectorcall(shared.no_such_part, operands, 2, 0)
