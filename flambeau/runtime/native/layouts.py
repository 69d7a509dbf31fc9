"""What lies where: the objects that native code makes and reads, and its own state."""

from __future__ import annotations

from flambeau.runtime.native.language import Array, Byte, Global, Struct, Word, Words

__all__ = ["Bin", "Object", "Shared", "Storage", "Tensor", "shared"]


class Object(Struct):
    """How every Python object begins (the stable ABI of builds with a GIL); `heap_types` checks the size."""

    references: Word
    type: Word


class Storage(Struct):
    """`runtime.storage.Storage`."""

    references: Word
    type: Word
    address: Word
    nbytes: Word
    version: Word
    owner: Word
    pending: Word
    weakrefs: Word


class Tensor(Struct):
    """`runtime.native.records.TensorFields`."""

    references: Word
    type: Word
    memory: Storage
    address: Word
    meta: Word
    entry: Word
    output: Word
    view_of: Word
    hooks: Word
    _grad: Word
    seen_version: Word
    _requires_grad: Byte
    retains: Byte
    dict: Word
    weakrefs: Word


class Bin(Struct):
    """Released blocks of one size; each holds the address of the next in its first word."""

    first: Words
    size: Word


class Shared(Struct):
    """The state of native code in this process. Addresses of Python objects here are kept alive by `library`."""

    none: Word
    # -- memory: no bins means that all requests go to Python
    bins: Array[Bin]
    allocated: Word
    peak: Word
    allocations: Word
    allocate_slowly: Word
    release_slowly: Word
    storage_type: Word
    storage_keywords: Words
    tensor_type: Word


shared: Shared = Global("flambeau_shared", Shared)  # type: ignore[assignment]
