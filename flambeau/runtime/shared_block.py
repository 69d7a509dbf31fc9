"""Memory that several processes see: a file without a name, mapped into each."""

from __future__ import annotations

import ctypes
import mmap
import os

__all__ = ["SharedBlock"]


class SharedBlock:
    """``size`` bytes at ``address``; ``descriptor`` is the file's, by which another process maps them too.

    >>> import os
    >>> from flambeau.runtime.shared_block import SharedBlock
    >>> block = SharedBlock(8)
    >>> SharedBlock(8, os.dup(block.descriptor)).address != block.address
    True
    """

    def __init__(self, size: int, descriptor: int | None = None) -> None:
        self.size = max(size, 1)
        self.descriptor = os.memfd_create("flambeau") if descriptor is None else descriptor
        if descriptor is None:
            os.ftruncate(self.descriptor, self.size)
        # The map lives as long as what looks into it.
        self._view = (ctypes.c_char * self.size).from_buffer(mmap.mmap(self.descriptor, self.size))
        self.address = ctypes.addressof(self._view)

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)
