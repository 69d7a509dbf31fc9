"""The fields of tensors, views and tape entries: native types when native code is on, else the same in Python."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from flambeau.runtime.native import library

__all__ = ["EntryFields", "SavedFields", "TensorFields", "ViewFields", "next_sequence"]


class TensorFields:
    """What `tensor.base.TensorBase` is made of."""

    __slots__ = ("__dict__", "__weakref__", "_grad", "_requires_grad", "address", "entry", "hooks", "memory", "meta", "output",
                 "retains", "seen_version", "view_of")  # fmt: skip


class ViewFields:
    """What `tensor.views.View` is made of."""

    __slots__ = ("base", "steps")


class EntryFields:
    """What `tensor.tape.Entry` is made of; the hooks and metadata may be None."""

    __slots__ = ("__weakref__", "_hooks", "_metadata", "_output_hooks", "_pre_hooks", "edges", "metas", "numbers", "plan", "saved",
                 "sequence")  # fmt: skip


class SavedFields:
    """What `tensor.tape.Saved` is made of."""

    __slots__ = ("output", "tensor", "version")


next_sequence: Callable[[], int] = itertools.count(1).__next__

_native = library.load()
if not TYPE_CHECKING and _native is not None:
    TensorFields = _native.tensor_fields
    ViewFields = _native.view_fields
    EntryFields = _native.entry_fields
    SavedFields = _native.saved_fields
    next_sequence = _native.next_sequence
