"""The fields of tensors and views: native types when native code is on, else the same in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flambeau.runtime.native import library

__all__ = ["TensorFields", "ViewFields"]


class TensorFields:
    """What `tensor.base.TensorBase` is made of."""

    __slots__ = ("__dict__", "__weakref__", "_grad", "_requires_grad", "address", "entry", "hooks", "memory", "meta", "output",
                 "retains", "seen_version", "view_of")  # fmt: skip


class ViewFields:
    """What `tensor.views.View` is made of."""

    __slots__ = ("base", "steps")


_native = library.load()
if not TYPE_CHECKING and _native is not None:
    TensorFields = _native.tensor_fields
    ViewFields = _native.view_fields
