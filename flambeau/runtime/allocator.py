"""Memory of CPU tensors: blocks of a few sizes, kept for reuse, large ones on huge pages.

Sizes are rounded up to classes, four to each power of two, so that at most a quarter of a block is unused (blocks under 512
bytes: to multiples of 64). Blocks of 1 MiB and more are mapped on their own at a multiple of 2 MiB, with huge pages asked for;
smaller ones are carved from slabs. A released block goes to its class's list, from which the next request is served: that saves
the page faults which otherwise cost more than the kernel that fills the block. Where a program keeps many released blocks, a large
one is lent to a request of a smaller class before more memory is mapped, and goes back to its own list.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from flambeau.core.config import config
from flambeau.runtime import pages
from flambeau.runtime.native import library
from flambeau.runtime.native.library import Library
from flambeau.runtime.native.memory import BEYOND, LARGE

__all__ = ["Allocator", "CheckedAllocator", "MemoryStats", "allocate", "empty_cache", "out_of_memory", "release", "size_class", "stats"]

_HUGE_PAGE = 2 << 20
_SLAB = 8 << 20
# Released large blocks are given back to the system when what is reserved passes 1.5 times the peak in use plus this.
_SPARE = 256 << 20
# A released block is lent to requests of down to a third of it when what is reserved would pass 1.25 times the peak in use. Less
# often it is wanted elsewhere before it is back: in training steps of ResNet-18, 666 MB reserved became 568 MB, of 411 MB in use.
_LENT_TO = 3
# Requests whose class is remembered; past this the table starts anew, so that a program with ever new sizes does not fill it.
_REMEMBERED = 1 << 16


def out_of_memory(nbytes: int) -> RuntimeError:
    """The error for a request of `nbytes` that the system cannot fill."""
    return RuntimeError(
        f"[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate {nbytes} bytes. "
        "Free tensors you no longer need, or use smaller batches."
    )


def size_class(nbytes: int) -> int:
    """The size of the block that serves a request of `nbytes` > 0.

    >>> from flambeau.runtime.allocator import size_class
    >>> [size_class(n) for n in (1, 64, 65, 513, 1 << 20)]
    [64, 64, 128, 640, 1048576]
    """
    if nbytes <= 512:
        return (nbytes + 63) & ~63
    shift = (nbytes - 1).bit_length() - 3
    return (((nbytes - 1) >> shift) + 1) << shift


def _memory_limit() -> int:
    """Physical memory plus swap, in bytes: no request beyond it can be filled."""
    limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("SwapTotal:"):
                limit += int(line.split()[1]) * 1024
    return limit


def map_blocks(size: int) -> int:
    """The address, a multiple of 2 MiB, of `size` zeroed bytes (whole pages); 0 when the system refuses."""
    extent = size + _HUGE_PAGE
    start = pages.reserve(extent, pages.READ_WRITE)
    if not start:
        return 0
    aligned = (start + _HUGE_PAGE - 1) & -_HUGE_PAGE
    pages.unmap(start, aligned - start)
    pages.unmap(aligned + size, start + extent - aligned - size)
    pages.advise_huge(aligned, size)
    return aligned


class _Blocks(Protocol):
    """Released blocks of one class; ``pop`` raises IndexError when there is none."""

    def pop(self) -> int: ...

    def append(self, address: int, /) -> None: ...


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Bytes in use (in whole blocks), bytes taken from the system, the most ever in use, and counts."""

    allocated: int
    reserved: int
    peak: int
    allocations: int
    mappings: int


class Allocator:
    """A caching allocator; any thread may call it, and a forked child goes on with its own copy of all blocks."""

    __slots__ = ("_free", "_lent", "_limit", "_lock", "_mappings", "_requests", "_reserved", "_slab_end", "_slab_next",
                 "allocated", "allocations", "peak")

    def __init__(self, limit: int | None = None) -> None:
        self._limit = _memory_limit() if limit is None else limit
        # Released blocks by class, and for each size asked for: the class and its list.
        self._free: dict[int, _Blocks] = {}
        self._requests: dict[int, tuple[int, _Blocks]] = {}
        # The classes of lent blocks, by address.
        self._lent: dict[int, int] = {}
        self._slab_next = self._slab_end = 0
        self._reserved = 0
        self._mappings = 0
        self.allocated = 0
        self.peak = 0
        self.allocations = 0
        self.make_lock()

    def make_lock(self) -> None:
        """Take a new lock: in a forked child another thread of the parent may hold the old one."""
        # Reentrant: a finalizer that allocates may run in the middle of a mapping.
        self._lock = threading.RLock()

    def allocate(self, nbytes: int) -> int:
        """The address of a block of at least `nbytes` bytes with undefined contents, aligned to 64 bytes; 0 for 0 bytes.

        Raises RuntimeError when there is not enough memory.
        """
        try:
            size, blocks = self._requests[nbytes]
            address = blocks.pop()
        except (KeyError, IndexError):
            return self._allocate_new(nbytes)
        self.allocations += 1
        self.allocated = allocated = self.allocated + size
        if allocated > self.peak:
            self.peak = allocated
        return address

    def release(self, address: int, nbytes: int) -> None:
        """Give back the block at `address` that was allocated for `nbytes` bytes."""
        if not address:
            return
        size, blocks = self._requests.get(nbytes) or self._remember(nbytes)
        own = self._lent.pop(address, 0) if size >= LARGE else 0
        (self._blocks(own) if own else blocks).append(address)
        self.allocated -= size

    def stats(self) -> MemoryStats:
        """How much memory is in use and reserved now."""
        return MemoryStats(self.allocated, self._reserved, self.peak, self.allocations, self._mappings)

    def empty_cache(self) -> None:
        """Give released large blocks back to the system; small ones stay in their slabs."""
        with self._lock:
            self._trim(0)

    def _blocks(self, size: int) -> _Blocks:
        """The released blocks of a class."""
        return self._free.setdefault(size, [])

    def _remember(self, nbytes: int) -> tuple[int, _Blocks]:
        with self._lock:
            if len(self._requests) >= _REMEMBERED:
                self._requests.clear()
            size = size_class(nbytes)
            entry = self._requests[nbytes] = (size, self._blocks(size))
            return entry

    def _allocate_new(self, nbytes: int) -> int:
        if nbytes <= 0:
            if nbytes < 0:
                raise ValueError(f"allocate: needs a size of 0 or more bytes, got {nbytes}")
            return 0
        if nbytes > self._limit:
            raise out_of_memory(nbytes)
        size, blocks = self._remember(nbytes)
        try:
            # Another request of the same class may have left a block.
            address = blocks.pop()
        except IndexError:
            with self._lock:
                address = self._carve(size) if size < LARGE else self._borrow(size) or self._map_large(size)
            if not address:
                raise out_of_memory(nbytes) from None
        self.allocations += 1
        self.allocated += size
        self.peak = max(self.peak, self.allocated)
        return address

    def _borrow(self, size: int) -> int:
        """A released block of a larger class, once there is enough memory; 0 where there is none."""
        if (self._reserved + size) * 4 <= max(self.peak, self.allocated + size) * 5:
            return 0
        larger = size
        while (larger := size_class(larger + 1)) <= _LENT_TO * size:
            try:
                address = self._blocks(larger).pop()
            except IndexError:
                continue
            self._lent[address] = larger
            return address
        return 0

    def _map_large(self, size: int) -> int:
        allowed = max(self.peak, self.allocated + size) * 3 // 2 + _SPARE
        if self._reserved + size > allowed:
            self._trim(allowed - size)
        address = self._map(size)
        if not address:
            self._trim(0)
            address = self._map(size)
        return address

    def _map(self, size: int) -> int:
        address = map_blocks(size)
        if address:
            self._reserved += size
            self._mappings += 1
        return address

    def _trim(self, target: int) -> None:
        """Unmap released large blocks, largest first, until at most `target` bytes are reserved or none is left."""
        for size in sorted(self._free, reverse=True):
            if size < LARGE:
                return
            blocks = self._free[size]
            while self._reserved > target:
                try:
                    address = blocks.pop()
                except IndexError:
                    break
                pages.unmap(address, size)
                self._reserved -= size

    def _carve(self, size: int) -> int:
        address = self._slab_next
        if address + size > self._slab_end:
            rest, rest_end = self._slab_next, self._slab_end
            slab = _SLAB if self._mappings else _HUGE_PAGE
            address = self._map(slab)
            if not address:
                self._trim(0)
                address = self._map(slab)
                if not address:
                    return 0
            self._slab_end = address + slab
            self._give_rest(rest, rest_end - rest)
        self._slab_next = address + size
        return address

    def _give_rest(self, address: int, size: int) -> None:
        """Put the unused end of a slab into the lists, as the largest blocks that fit."""
        while size >= 64:
            part = _largest_class_within(size)
            self._blocks(part).append(address)
            address += part
            size -= part


def _largest_class_within(size: int) -> int:
    if size <= 512:
        return size & ~63
    shift = size.bit_length() - 3
    return size >> shift << shift


_CANARY = 64
_CANARY_BYTE = 0xC5
_POISON_BYTE = 0xFF


class CheckedAllocator(Allocator):
    """An allocator that finds faults: marked bytes round every block are looked at when it is released, contents are poisoned.

    Fresh and released memory is filled with 0xFF (NaN as a float, -1 as an integer), and releasing a block that is not in use,
    or with another size, is an error.
    """

    __slots__ = ("_live",)

    def __init__(self, limit: int | None = None) -> None:
        super().__init__(limit)
        self._live: dict[int, int] = {}

    def allocate(self, nbytes: int) -> int:
        if nbytes == 0:
            return 0
        start = super().allocate(nbytes + 2 * _CANARY)
        address = start + _CANARY
        ctypes.memset(start, _CANARY_BYTE, _CANARY)
        ctypes.memset(address, _POISON_BYTE, nbytes)
        ctypes.memset(address + nbytes, _CANARY_BYTE, _CANARY)
        self._live[address] = nbytes
        return address

    def release(self, address: int, nbytes: int) -> None:
        if not address or _CANARY is None:  # while the interpreter ends, names of modules are gone before the last tensors
            return
        live = self._live.pop(address, None)
        if live is None:
            raise RuntimeError(f"release: the block at {address:#x} ({nbytes} bytes) is not in use: released twice, or never allocated")
        if live != nbytes:
            raise RuntimeError(f"release: the block at {address:#x} was allocated with {live} bytes and released with {nbytes}")
        for start, side in ((address - _CANARY, "before"), (address + nbytes, "after")):
            found = ctypes.string_at(start, _CANARY)
            if found != bytes([_CANARY_BYTE]) * _CANARY:
                first = next(index for index, byte in enumerate(found) if byte != _CANARY_BYTE)
                raise RuntimeError(f"release: a kernel wrote outside the block at {address:#x} ({nbytes} bytes): the {_CANARY} bytes "
                                   f"{side} it are damaged from byte {start + first - address} on: {found.hex()}")
        ctypes.memset(address, _POISON_BYTE, nbytes)
        super().release(address - _CANARY, nbytes + 2 * _CANARY)


class _NativeBlocks:
    """Released blocks of one class in the lists of native code."""

    __slots__ = ("_native", "_size")

    def __init__(self, native: Library, size: int) -> None:
        self._native = native
        self._size = size

    def pop(self) -> int:
        address = self._native.pop_block(self._size)
        if not address:
            raise IndexError("no block is left")
        return address

    def append(self, address: int) -> None:
        self._native.push_block(address, self._size)


class NativeAllocator(Allocator):
    """The allocator that native code shares: it keeps the lists and takes from them; the rest is done here. One to a process."""

    __slots__ = ("_native", "allocate", "release")

    def __init__(self, native: Library) -> None:
        self._native = native
        native.make_bins(size_class)
        super().__init__()
        native.connect_allocator(self._allocate_new, self._release_slowly)
        # In the places of the methods.
        self.allocate = native.allocate  # type: ignore[method-assign]
        self.release = native.release  # type: ignore[method-assign]

    def _blocks(self, size: int) -> _Blocks:
        return self._free.setdefault(size, _NativeBlocks(self._native, size))

    def _borrow(self, size: int) -> int:
        address = super()._borrow(size)
        self._native.set("lent", len(self._lent))
        return address

    def _release_slowly(self, address: int, nbytes: int) -> None:
        """For native code: while blocks are lent, large ones are released here."""
        if address and not 0 < nbytes < BEYOND:
            raise ValueError(f"release: the block at {address:#x} cannot have {nbytes} bytes")
        Allocator.release(self, address, nbytes)
        self._native.set("lent", len(self._lent))

    @property
    def allocated(self) -> int:
        return self._native.get("allocated")

    @allocated.setter
    def allocated(self, value: int) -> None:
        self._native.set("allocated", value)

    @property
    def allocations(self) -> int:
        return self._native.get("allocations")

    @allocations.setter
    def allocations(self, value: int) -> None:
        self._native.set("allocations", value)

    @property
    def peak(self) -> int:
        return self._native.get("peak")

    @peak.setter
    def peak(self, value: int) -> None:
        self._native.set("peak", value)


def _make_default() -> Allocator:
    native = library.load()
    if native is None:
        return CheckedAllocator() if config.checked else Allocator()
    if not config.checked:
        return NativeAllocator(native)
    made = CheckedAllocator()
    native.connect_allocator(made.allocate, made.release)
    return made


_default = _make_default()
os.register_at_fork(after_in_child=_default.make_lock)
allocate: Callable[[int], int] = _default.allocate
release: Callable[[int, int], None] = _default.release
stats: Callable[[], MemoryStats] = _default.stats
empty_cache: Callable[[], None] = _default.empty_cache
