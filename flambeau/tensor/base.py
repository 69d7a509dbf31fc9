"""TensorBase: what every tensor is made of, before it has methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau.core.context import context
from flambeau.core.dtypes import dtype
from flambeau.runtime.native.records import TensorFields
from flambeau.runtime.storage import Storage, TensorMeta

if TYPE_CHECKING:
    from flambeau.tensor.tape import Entry
    from flambeau.tensor.views import View


class TensorBase(TensorFields):
    """Memory, where in it, and metadata; for autograd the tape entry that made it, for views what they are views of.

    ``memory`` is the storage, ``address`` the first element's address, ``meta`` shape, strides and dtype. ``entry`` is the tape
    entry and ``output`` which of its results this is; a leaf has none. ``view_of`` is set on views. ``seen_version`` is the
    storage's version at which ``entry`` was right. On a tensor from ``.data`` it is -1: changes in place through it do not count,
    until something saves it for backward.
    """

    __slots__ = ()

    memory: Storage
    address: int
    meta: TensorMeta
    entry: Entry | None
    output: int
    view_of: View | None
    hooks: dict[int, Any] | None
    _grad: Any
    _requires_grad: bool
    retains: bool
    seen_version: int

    @property
    def storage_offset_elements(self) -> int:
        if context.capture is not None:
            return context.capture.offset(self) // self.meta.dtype.itemsize
        return (self.address - self.memory.address) // self.meta.dtype.itemsize

    def uncounted(self) -> TensorBase | None:
        """The tensor from ``.data``, which is this or which this shows, whose changes in place do not count; None for others."""
        base = self if self.view_of is None else self.view_of.base
        return base if base.seen_version == -1 else None

    def count_changes(self) -> None:
        """Count changes in place from here on also where this comes from ``.data``."""
        if (data := self.uncounted()) is not None:
            data.seen_version = 0

    @property
    def kind(self) -> dtype:
        return self.meta.dtype


def fill_base(tensor: TensorBase, memory: Storage, address: int, meta: TensorMeta) -> None:
    """Set the fields of a new tensor that takes no part in autograd."""
    tensor.memory = memory
    tensor.address = address
    tensor.meta = meta
    tensor.entry = None
    tensor.output = 0
    tensor.view_of = None
    tensor.hooks = None
    tensor._grad = None
    tensor._requires_grad = False
    tensor.retains = False
    tensor.seen_version = 0


def from_memory(memory: Storage, address: int, meta: TensorMeta, tensor_class: type[Any]) -> Any:
    """A tensor of ``tensor_class`` over given memory."""
    tensor = object.__new__(tensor_class)
    fill_base(tensor, memory, address, meta)
    return tensor
