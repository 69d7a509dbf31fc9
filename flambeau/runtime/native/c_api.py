"""Functions of the Python C API and libc that native code calls: only exported ones, the same in CPython 3.11 to 3.14."""

from __future__ import annotations

from flambeau.runtime.native.language import External

Py_IncRef = External("Py_IncRef", "none")
Py_DecRef = External("Py_DecRef", "none")
PyType_GenericAlloc = External("PyType_GenericAlloc")
PyType_IsSubtype = External("PyType_IsSubtype", "int")
PyObject_GC_UnTrack = External("PyObject_GC_UnTrack", "none")
PyObject_GC_Del = External("PyObject_GC_Del", "none")
PyObject_ClearWeakRefs = External("PyObject_ClearWeakRefs", "none")
PyObject_Vectorcall = External("PyObject_Vectorcall")
PyObject_CallFunctionObjArgs = External("PyObject_CallFunctionObjArgs", fixed=1)
PyArg_ParseTupleAndKeywords = External("PyArg_ParseTupleAndKeywords", "int", fixed=4)
PyErr_Fetch = External("PyErr_Fetch", "none")
PyErr_Restore = External("PyErr_Restore", "none")
PyErr_Occurred = External("PyErr_Occurred")
PyErr_WriteUnraisable = External("PyErr_WriteUnraisable", "none")
PyLong_AsLongLong = External("PyLong_AsLongLong")
PyLong_FromLongLong = External("PyLong_FromLongLong")
