"""Whole pages of memory from the operating system: mapped, protected, advised and given back."""

from __future__ import annotations

import ctypes
import mmap
import os

__all__ = ["advise_huge", "protect", "reserve", "round_to_pages", "unmap"]

READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
READ_EXECUTE = mmap.PROT_READ | mmap.PROT_EXEC
NO_ACCESS = 0
_MADV_HUGEPAGE = 14
_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def round_to_pages(size: int) -> int:
    """`size` rounded up to whole pages."""
    return (size + mmap.PAGESIZE - 1) & -mmap.PAGESIZE


def reserve(size: int, protection: int) -> int:
    """The address of `size` bytes of private zeroed memory, or 0 when the system refuses."""
    address = _libc.mmap(None, size, protection, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    return 0 if address in (None, _FAILED) else address


def unmap(address: int, size: int) -> None:
    """Give `size` bytes back."""
    if size and _libc.munmap(address, size):
        raise RuntimeError(f"cannot unmap {size} bytes at {address:#x}: {os.strerror(ctypes.get_errno())}")


def protect(address: int, size: int, protection: int) -> None:
    """Set what may be done with `size` bytes; raises MemoryError when the system refuses."""
    if size and _libc.mprotect(address, size, protection):
        raise MemoryError(f"the system does not allow the protection {protection} for {size} bytes: {os.strerror(ctypes.get_errno())}")


def advise_huge(address: int, size: int) -> None:
    """Ask for huge pages. Advice only: where the system has none, everything works on small ones."""
    _libc.madvise(address, size, _MADV_HUGEPAGE)
