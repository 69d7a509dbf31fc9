"""A kernel with its arguments laid out: changing one and launching costs little."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from flambeau.runtime.cuda.device import CudaDevice

__all__ = ["Arguments", "Function"]

# Triton's kernels take two more pointers, for scratch and for profiles, which flambeau's never use.
_EXTRA = 2


class Arguments:
    """The 8-byte slots of one call. A kernel reads the low bytes of a slot, as many as its parameter has."""

    __slots__ = ("_pointers", "address", "slots")

    def __init__(self, values: Sequence[int]) -> None:
        count = len(values) + _EXTRA
        self.slots = (ctypes.c_int64 * count)(*values)
        start = ctypes.addressof(self.slots)
        self._pointers = (ctypes.c_void_p * count)(*[start + 8 * i for i in range(count)])
        self.address = ctypes.addressof(self._pointers)


class Function:
    """A kernel in a device's memory."""

    __slots__ = ("_driver", "_launch", "_threads", "handle", "registers", "shared")

    def __init__(self, device: CudaDevice, code: bytes, name: str, warps: int, shared: int) -> None:
        device.activate()
        self._driver = device.driver
        self.handle = device.driver.load_function(code, name, shared)
        self.registers = device.driver.registers(self.handle)
        self._launch = device.driver.launcher()
        self._threads = 32 * warps
        self.shared = shared

    def launch(self, programs: Sequence[int], arguments: Arguments, stream: int) -> None:
        """Start ``programs`` (on up to two axes) in the device's context, which must be that of the thread."""
        x, y = programs
        code = self._launch(self.handle, x, y, 1, self._threads, 1, 1, self.shared, stream, arguments.address, None)
        if code:
            self._driver.check_launch(code)
