"""The storage of a tensor as Python sees it."""

from __future__ import annotations

import copyreg
import ctypes
import os
from typing import Any

import numpy as np

from flambeau.core.device import Device, cpu
from flambeau.core.dtypes import uint8
from flambeau.runtime.cuda.device import Block
from flambeau.runtime.storage import Storage
from flambeau.tensor import transfer


class UntypedStorage:
    """The bytes that one or more tensors show; two are equal when they are the same memory.

    >>> import flambeau as torch
    >>> torch.zeros(3).untyped_storage().nbytes()
    12
    """

    __slots__ = ("memory",)

    def __init__(self, memory: Storage) -> None:
        self.memory = memory

    @staticmethod
    def from_file(filename: str | os.PathLike[str], shared: bool = False, nbytes: int | None = None) -> UntypedStorage:
        """The first ``nbytes`` of a file (all of it by default); ``shared`` writes changes to it, else it stays as it is."""
        size = os.path.getsize(filename) if nbytes is None and not shared else nbytes or 0
        if not size:
            return UntypedStorage(Storage(0))
        if shared and (not os.path.exists(filename) or os.path.getsize(filename) < size):
            with open(filename, "ab") as file:
                file.truncate(size)
        array = np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(size,))
        return UntypedStorage(Storage(size, array.ctypes.data, array))

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return self.memory.address

    def nbytes(self) -> int:
        """How many bytes there are."""
        return self.memory.nbytes

    def size(self) -> int:
        """How many bytes there are."""
        return self.memory.nbytes

    def __len__(self) -> int:
        return self.memory.nbytes

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                raise RuntimeError(f"a storage is sliced in steps of 1, got {step}")
            return UntypedStorage(Storage(max(stop - start, 0), self.memory.address + start, self.memory))
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range for a storage of {len(self)} bytes")
        return transfer.read_element(self.memory.address + index % len(self), uint8, self.device)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and self.memory is other.memory

    def __hash__(self) -> int:
        return id(self.memory)

    @property
    def device(self) -> Device:
        """Where the memory is."""
        owner = self.memory.owner
        return owner.device.device if isinstance(owner, Block) else cpu

    def untyped(self) -> UntypedStorage:
        """Itself."""
        return self


def _storage_of(data: bytes) -> Storage:
    memory = Storage(len(data))
    ctypes.memmove(memory.address, data, len(data))
    return memory


def reduce_storage(memory: Storage) -> tuple[Any, ...]:
    """How a storage is pickled."""
    if isinstance(memory.owner, Block):
        raise NotImplementedError("a storage on a GPU cannot be pickled by itself; pickle the tensor, or its .cpu()")
    return _storage_of, (ctypes.string_at(memory.address, memory.nbytes),)


copyreg.pickle(Storage, reduce_storage)  # type: ignore[arg-type]
