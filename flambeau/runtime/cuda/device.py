"""One GPU: its context, stream, memory pool, and the reports that kernels leave."""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from functools import cache

from flambeau.core.device import Device
from flambeau.runtime.allocator import size_class
from flambeau.runtime.cuda import driver
from flambeau.runtime.cuda.driver import OutOfMemoryError
from flambeau.runtime.launch import KernelError
from flambeau.runtime.storage import Storage

__all__ = ["CudaDevice", "Pool", "PendingError", "Record", "current", "device_of", "new_storage", "set_current"]

_SMALLEST = 512
RECORD_WORDS = 8
_RECORDS = 512


class Pool:
    """Memory of one device, kept for reuse. A block may be taken again while kernels that used it still run: all work of a
    device goes through one stream, in order."""

    def __init__(self, of: driver.Driver) -> None:
        self._driver = of
        self._free: dict[int, list[int]] = {}
        # The garbage collector may release blocks, and finalizers of a program take some, in the midst of everything below.
        self._lock = threading.RLock()
        self._returned: deque[tuple[int, int]] = deque()
        self._taken = 0
        self.reserved = 0
        self.peak = 0
        self.peak_reserved = 0

    def take(self, nbytes: int) -> tuple[int, int]:
        """The address and true size of a block; `OutOfMemoryError` when there is none even with all that was kept given back."""
        size = max(_SMALLEST, size_class(max(nbytes, 1)))
        with self._lock:
            self._settle()
            kept = self._free.get(size)
            address = kept.pop() if kept else self._allocate(size)
            self._taken += size
            self.peak = max(self.peak, self.allocated)
        return address, size

    def _allocate(self, size: int) -> int:
        try:
            address = self._driver.allocate(size)
        except OutOfMemoryError:
            self._give_back()
            try:
                address = self._driver.allocate(size)
            except OutOfMemoryError as error:
                free, total = self._driver.memory_info()
                raise OutOfMemoryError(
                    f"{error} The GPU has a total capacity of {total / 2**30:.2f} GiB of which {free / 2**30:.2f} GiB is free, and "
                    f"tensors of this process hold {self.allocated / 2**30:.2f} GiB. Free tensors or use smaller batches."
                ) from None
        self.reserved += size
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return address

    def release(self, address: int, size: int) -> None:
        """Put a block back."""
        self._returned.append((address, size))

    @property
    def allocated(self) -> int:
        """The bytes of the blocks that are taken."""
        with self._lock:
            self._settle()
            return self._taken

    def _settle(self) -> None:
        """Keep what was put back."""
        while self._returned:
            address, size = self._returned.popleft()
            self._taken -= size
            self._free.setdefault(size, []).append(address)

    def _give_back(self) -> None:
        self._settle()
        while self._free:
            size, blocks = self._free.popitem()
            for address in blocks:
                self._driver.free(address)
                self.reserved -= size

    def empty(self) -> None:
        """Give the kept blocks back to the driver, which waits for the work that uses them."""
        with self._lock:
            self._give_back()


class Block:
    """A piece of device memory that goes back to its pool when nobody refers to it."""

    __slots__ = ("address", "device", "size")

    def __init__(self, device: CudaDevice, nbytes: int) -> None:
        self.device = device
        self.address, self.size = device.pool.take(nbytes)

    def __del__(self) -> None:
        if hasattr(self, "address"):
            self.device.pool.release(self.address, self.size)


class PendingError(Exception):
    """What a kernel launched earlier reported, found when somebody waited for the device; ``name`` is its operator."""

    def __init__(self, name: str, error: KernelError) -> None:
        super().__init__(f"{name}: {error}")
        self.name = name
        self.error = error


class Record:
    """Words of host memory in which kernels of one program leave the first bad index."""

    def __init__(self, address: int, name: str) -> None:
        self.address = address
        self.name = name
        self.words = (ctypes.c_int64 * RECORD_WORDS).from_address(address)

    def take(self) -> KernelError | None:
        """The report, which is forgotten."""
        if not self.words[0]:
            return None
        _, kind, operator, position, value, bound = self.words[:6]
        self.words[0] = 0
        return KernelError(kind, operator, position, value, bound)


class CudaDevice:
    """One GPU. All its work goes through one stream."""

    def __init__(self, index: int) -> None:
        self.driver = driver.load()
        count = self.driver.device_count()
        if not 0 <= index < count:
            raise RuntimeError(f"CUDA error: invalid device ordinal {index}: this machine has {count} GPUs")
        self.index = index
        self.device = Device("cuda", index)
        self.name = self.driver.device_name(index)
        self.capability = self.driver.capability(index)
        self.processors = self.driver.processors(index)
        self._context = self.driver.retain_context(index)
        self.activate()
        self.stream = self.driver.new_stream()
        self.pool = Pool(self.driver)
        self._records: list[int] = []
        self._waiting: dict[int, Record] = {}

    def activate(self) -> None:
        """Make the device that of the calling thread, which every other call needs."""
        if getattr(_thread, "context", None) != (self.driver, self._context):
            self.driver.set_context(self._context)
            _thread.context = (self.driver, self._context)

    # -- waiting --------------------------------------------------------------------------------------------
    def new_record(self, name: str) -> Record:
        """A record for the kernels of a program."""
        if not self._records:
            self.activate()
            start = self.driver.allocate_host(8 * RECORD_WORDS * _RECORDS)
            ctypes.memset(start, 0, 8 * RECORD_WORDS * _RECORDS)
            self._records = [start + 8 * RECORD_WORDS * i for i in range(_RECORDS)]
        return Record(self._records.pop(), name)

    def watch(self, record: Record) -> None:
        """Look into a record when the device is waited for next."""
        self._waiting[record.address] = record

    def synchronize(self) -> None:
        """Wait for all work. Raises `PendingError` for the first report that kernels left meanwhile."""
        self.activate()
        self.driver.synchronize(self.stream)
        waiting, self._waiting = self._waiting, {}
        found = [(record.name, error) for record in waiting.values() if (error := record.take()) is not None]
        if found:
            raise PendingError(*found[0])

    # -- memory -----------------------------------------------------------------------------------------------
    def copy_in(self, target: int, source: int, nbytes: int) -> None:
        """From the host."""
        if nbytes:
            self.activate()
            self.driver.copy_in(target, source, nbytes, self.stream)

    def copy_out(self, target: int, source: int, nbytes: int) -> None:
        """To the host; waits. Raises `PendingError` as `synchronize` does."""
        if nbytes:
            self.activate()
            self.driver.copy_out(target, source, nbytes, self.stream)
        self.synchronize()

    def copy_within(self, target: int, source: int, nbytes: int) -> None:
        """Between places of the device."""
        if nbytes:
            self.activate()
            self.driver.copy_within(target, source, nbytes, self.stream)

    def fill(self, target: int, value: int, nbytes: int) -> None:
        """Set bytes."""
        if nbytes:
            self.activate()
            self.driver.fill(target, value, nbytes, self.stream)


_thread = threading.local()
_current = threading.local()


@cache
def _device(index: int) -> CudaDevice:
    return CudaDevice(index)


def current() -> int:
    """The number of the device that ``"cuda"`` without a number means in this thread."""
    return getattr(_current, "index", 0)


def set_current(index: int) -> None:
    """Change what ``"cuda"`` without a number means."""
    _device(index)
    _current.index = index


def device_of(device: Device) -> CudaDevice:
    """The GPU that a device names. RuntimeError where there is none."""
    return _device(current() if device.index is None else device.index)


def forget_devices() -> None:
    """Start anew; for tests that put another driver in place."""
    _device.cache_clear()
    _thread.__dict__.clear()


def new_storage(device: Device, nbytes: int) -> Storage:
    """A storage of undefined bytes on a GPU."""
    gpu = device_of(device)
    gpu.activate()
    block = Block(gpu, nbytes)
    return Storage(nbytes, block.address, block)
