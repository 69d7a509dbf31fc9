"""The CUDA driver (libcuda) through ctypes: no package is needed, and the library is not looked for before somebody asks.

`load` gives the one `Driver`; tests put another in its place with `use`.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

__all__ = ["CudaError", "Driver", "OutOfMemoryError", "is_loaded", "is_present", "load", "use"]

NO_DRIVER = (
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from "
    "http://www.nvidia.com/Download/index.aspx"
)
_OUT_OF_MEMORY, _NOT_READY = 2, 600
_MAJOR, _MINOR, _PROCESSORS, _DYNAMIC_SHARED, _REGISTERS = 75, 76, 16, 8, 4
_MAPPED = 2  # CU_MEMHOSTALLOC_DEVICEMAP
_NON_BLOCKING = 1

Handle = int


class CudaError(RuntimeError):
    """The driver refused a call; ``code`` is its number for the reason."""

    def __init__(self, call: str, code: int, text: str) -> None:
        super().__init__(f"CUDA error: {text} ({call} returned {code})")
        self.code = code


class OutOfMemoryError(RuntimeError):
    """There is not enough memory on the GPU."""


class Driver:
    """The calls that flambeau makes, with checked results. Addresses and handles are ints; counts are bytes."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._call("cuInit", 0)

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(code, ctypes.byref(text))
            raise CudaError(name, code, (text.value or b"unknown error").decode())

    def _handle(self, name: str, *arguments: Any) -> int:
        """A call whose first argument receives a pointer."""
        out = ctypes.c_void_p()
        self._call(name, ctypes.byref(out), *arguments)
        return out.value or 0

    def _number(self, name: str, *arguments: Any) -> int:
        out = ctypes.c_int()
        self._call(name, ctypes.byref(out), *arguments)
        return out.value

    # -- devices --------------------------------------------------------------------------------------------
    def device_count(self) -> int:
        """How many GPUs this process may use."""
        return self._number("cuDeviceGetCount")

    def device_name(self, device: int) -> str:
        """The name that the maker gave it."""
        text = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", text, 256, device)
        return text.value.decode()

    def capability(self, device: int) -> tuple[int, int]:
        """The generation of its instructions, such as (9, 0)."""
        return self._number("cuDeviceGetAttribute", _MAJOR, device), self._number("cuDeviceGetAttribute", _MINOR, device)

    def processors(self, device: int) -> int:
        """How many multiprocessors it has."""
        return self._number("cuDeviceGetAttribute", _PROCESSORS, device)

    def retain_context(self, device: int) -> Handle:
        """The context that all libraries of the process share."""
        return self._handle("cuDevicePrimaryCtxRetain", device)

    def set_context(self, context: Handle) -> None:
        """Make a context that of the calling thread."""
        self._call("cuCtxSetCurrent", ctypes.c_void_p(context))

    def memory_info(self) -> tuple[int, int]:
        """Free and all memory of the current context's device."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    # -- memory -----------------------------------------------------------------------------------------------
    def _copy(self, name: str, target: int, source: int, nbytes: int, stream: Handle) -> None:
        places = ctypes.c_uint64(target), ctypes.c_uint64(source)
        self._call(name, *places, ctypes.c_size_t(nbytes), ctypes.c_void_p(stream))

    def allocate(self, nbytes: int) -> int:
        """The address of new memory; `OutOfMemoryError` when there is not enough."""
        try:
            return self._handle("cuMemAlloc_v2", ctypes.c_size_t(nbytes))
        except CudaError as error:
            if error.code == _OUT_OF_MEMORY:
                raise OutOfMemoryError(f"CUDA out of memory. Tried to allocate {nbytes / 2**20:.2f} MiB.") from None
            raise

    def free(self, address: int) -> None:
        """Give memory back."""
        self._call("cuMemFree_v2", ctypes.c_uint64(address))

    def allocate_host(self, nbytes: int) -> int:
        """Memory of the host that kernels can write to at the same address."""
        return self._handle("cuMemHostAlloc", ctypes.c_size_t(nbytes), _MAPPED)

    def copy_in(self, target: int, source: int, nbytes: int, stream: Handle) -> None:
        """From the host; the source may be changed when the call is back."""
        self._copy("cuMemcpyHtoDAsync_v2", target, source, nbytes, stream)

    def copy_out(self, target: int, source: int, nbytes: int, stream: Handle) -> None:
        """To the host; done when the stream has come here."""
        self._copy("cuMemcpyDtoHAsync_v2", target, source, nbytes, stream)

    def copy_within(self, target: int, source: int, nbytes: int, stream: Handle) -> None:
        """From device to device, or between devices."""
        self._copy("cuMemcpyAsync", target, source, nbytes, stream)

    def fill(self, target: int, value: int, nbytes: int, stream: Handle) -> None:
        """Set bytes."""
        self._call("cuMemsetD8Async", ctypes.c_uint64(target), ctypes.c_ubyte(value), ctypes.c_size_t(nbytes), ctypes.c_void_p(stream))

    # -- streams and events -----------------------------------------------------------------------------------
    def new_stream(self) -> Handle:
        """A stream that does not wait for others."""
        return self._handle("cuStreamCreate", _NON_BLOCKING)

    def synchronize(self, stream: Handle) -> None:
        """Wait for all work of a stream."""
        self._call("cuStreamSynchronize", ctypes.c_void_p(stream))

    def new_event(self) -> Handle:
        """An event that takes times."""
        return self._handle("cuEventCreate", 0)

    def record(self, event: Handle, stream: Handle) -> None:
        """Let the event happen when the stream comes here."""
        self._call("cuEventRecord", ctypes.c_void_p(event), ctypes.c_void_p(stream))

    def wait(self, event: Handle) -> None:
        """Wait for an event."""
        self._call("cuEventSynchronize", ctypes.c_void_p(event))

    def happened(self, event: Handle) -> bool:
        """Whether the event has come."""
        try:
            self._call("cuEventQuery", ctypes.c_void_p(event))
        except CudaError as error:
            if error.code == _NOT_READY:
                return False
            raise
        return True

    def milliseconds(self, first: Handle, then: Handle) -> float:
        """The time between two events that have come."""
        out = ctypes.c_float()
        self._call("cuEventElapsedTime", ctypes.byref(out), ctypes.c_void_p(first), ctypes.c_void_p(then))
        return out.value

    def destroy_event(self, event: Handle) -> None:
        """Give an event back."""
        self._call("cuEventDestroy_v2", ctypes.c_void_p(event))

    # -- kernels ------------------------------------------------------------------------------------------------
    def load_function(self, code: bytes, name: str, shared: int) -> Handle:
        """The function of a cubin, which may use ``shared`` bytes of shared memory."""
        module = self._handle("cuModuleLoadData", code)
        function = self._handle("cuModuleGetFunction", ctypes.c_void_p(module), name.encode())
        if shared > 48 << 10:
            self._call("cuFuncSetAttribute", ctypes.c_void_p(function), _DYNAMIC_SHARED, shared)
        return function

    def registers(self, function: Handle) -> int:
        """How many registers each thread of a function takes."""
        count = ctypes.c_int()
        self._call("cuFuncGetAttribute", ctypes.byref(count), _REGISTERS, ctypes.c_void_p(function))
        return count.value

    def launcher(self) -> Callable[..., int]:
        """``cuLaunchKernel``: function, three grid sizes, three block sizes, shared bytes, stream, parameters, 0; gives a code."""
        launch = self._library.cuLaunchKernel
        launch.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        return launch

    def check_launch(self, code: int) -> None:
        """Raise for what a launch returned."""
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(code, ctypes.byref(text))
            raise CudaError("cuLaunchKernel", code, (text.value or b"unknown error").decode())


_driver: Driver | None = None
_forked = False


def _after_fork() -> None:
    global _forked
    _forked = _driver is not None


os.register_at_fork(after_in_child=_after_fork)


def load() -> Driver:
    """The driver. RuntimeError without one, without a GPU, and in a child of a process that has used it."""
    global _driver
    if _forked:
        raise RuntimeError(
            "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method"
        )
    if _driver is None:
        try:
            library = ctypes.CDLL("libcuda.so.1")
        except OSError:
            raise RuntimeError(NO_DRIVER) from None
        try:
            driver = Driver(library)
        except CudaError as error:
            raise RuntimeError(f"No CUDA GPUs are available: {error}") from None
        if not driver.device_count():
            raise RuntimeError("No CUDA GPUs are available")
        _driver = driver
    return _driver


def is_present() -> bool:
    """Whether there is a driver with a GPU."""
    try:
        load()
    except RuntimeError:
        return False
    return True


def is_loaded() -> bool:
    """Whether the driver is in use."""
    return _driver is not None


def use(driver: Any) -> Any:
    """Put another driver (None: none yet) in place; returns the one before."""
    global _driver
    before, _driver = _driver, driver
    return before
