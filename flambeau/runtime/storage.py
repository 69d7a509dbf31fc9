"""Memory and metadata of tensors: Storage holds bytes and the version counter, TensorMeta says how they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flambeau.core.device import Device, cpu
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import Expression
from flambeau.runtime import allocator
from flambeau.runtime.native import library


class Storage:
    """A block of memory. ``owner`` keeps foreign memory alive (a numpy array, a DLPack capsule); without one the block
    goes back to the allocator when the storage dies. ``version`` counts in-place changes. ``pending`` is set while a
    capture has not yet computed the contents."""

    __slots__ = ("__weakref__", "address", "nbytes", "owner", "pending", "version")

    def __init__(self, nbytes: int, address: int | None = None, owner: object = None) -> None:
        self.nbytes = nbytes
        self.owner = owner
        self.version = 0
        self.pending: object = None
        self.address = 0
        self.address = allocator.allocate(nbytes) if address is None else address

    def __del__(self, release: Callable[[int, int], None] = allocator.release) -> None:
        # A default argument is still there when the interpreter takes its modules apart.
        if self.owner is None and self.address:
            release(self.address, self.nbytes)


if not TYPE_CHECKING and (_native := library.load()) is not None:
    Storage = _native.storage


class TensorMeta:
    """Shape, strides (in elements), dtype and device; interned, so that equal metadata is the same object.

    ``classes`` describes it up to what programs are specialised for: per axis the size class (0, 1 or 2 for more) and,
    unless row-major, the stride class (0, 1 or 2 for another). While a function is captured, sizes may be expressions.
    """

    __slots__ = ("classes", "contiguous", "device", "dtype", "nbytes", "numel", "shape", "strides")

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: dtype, device: Device = cpu) -> None:
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.device = device
        self.numel = 1
        self.contiguous = True
        running = 1
        for size, stride in zip(reversed(shape), reversed(strides), strict=True):
            if size != 1:
                self.contiguous &= stride == running
            running *= size
            self.numel *= size
        self.contiguous |= self.numel == 0
        self.nbytes = self.numel * dtype.itemsize
        if type(self.numel) is Expression:  # sizes of a capture: nothing runs on it
            self.classes = None
            return
        if self.nbytes >= 1 << 63:
            raise RuntimeError(
                f"Storage size calculation overflowed with sizes={list(shape)}: at most {(1 << 63) - 1} bytes can be addressed"
            )
        sizes = tuple(min(n, 2) for n in shape)
        self.classes = (dtype, sizes, None if self.contiguous else tuple(s if s < 2 else 2 for s in strides))

    @property
    def extent(self) -> int:
        """Elements of memory from the first to the last, those that strides step over included."""
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)) if self.numel else 0

    def __repr__(self) -> str:
        strides = "" if self.contiguous else f" strides {list(self.strides)}"
        return f"{self.dtype.short}{list(self.shape)}{strides}" + ("" if self.device is cpu else f" on {self.device}")


_metas: dict[tuple[object, ...], TensorMeta] = {}
_LIMIT = 1 << 16


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides; as torch's, an axis of size 0 counts as 1."""
    out = []
    running = 1
    for size in reversed(shape):
        out.append(running)
        running *= max(size, 1)
    return tuple(reversed(out))


def meta_of(shape: tuple[int, ...], dtype: dtype, strides: tuple[int, ...] | None = None, device: Device = cpu) -> TensorMeta:
    """The one TensorMeta with these values; ``strides`` None means row-major."""
    key = (shape, strides, dtype) if device is cpu else (shape, strides, dtype, device)
    found = _metas.get(key)
    if found is None:
        if strides is None:
            found = meta_of(shape, dtype, contiguous_strides(shape), device)
        else:
            found = TensorMeta(shape, strides, dtype, device)
        if len(_metas) > _LIMIT:
            _metas.clear()
        found = _metas.setdefault(key, found)
    return found
