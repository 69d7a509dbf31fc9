"""torch.cuda: the GPUs of this machine, waiting for them, and their memory."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

from flambeau.core.device import Device, device_named
from flambeau.cuda import amp as amp
from flambeau.runtime.cuda import device as devices
from flambeau.runtime.cuda import driver
from flambeau.runtime.cuda.driver import OutOfMemoryError
from flambeau.tensor import functions_random, transfer
from flambeau.tensor.typed_tensors import CudaBFloat16Tensor as BFloat16Tensor  # noqa: F401 - torch's name for it here
from flambeau.tensor.typed_tensors import CudaBoolTensor as BoolTensor  # noqa: F401 - torch's name for it here
from flambeau.tensor.typed_tensors import CudaByteTensor as ByteTensor  # noqa: F401 - torch's name for it here
from flambeau.tensor.typed_tensors import CudaCharTensor as CharTensor  # noqa: F401 - torch's name for it here
from flambeau.tensor.typed_tensors import CudaDoubleTensor as DoubleTensor  # noqa: F401 - torch's name for it here
from flambeau.tensor.typed_tensors import CudaFloatTensor as FloatTensor  # noqa: F401 - torch's name for it here
from flambeau.tensor.typed_tensors import CudaHalfTensor as HalfTensor  # noqa: F401 - torch's name for it here
from flambeau.tensor.typed_tensors import CudaIntTensor as IntTensor  # noqa: F401 - torch's name for it here
from flambeau.tensor.typed_tensors import CudaLongTensor as LongTensor  # noqa: F401 - torch's name for it here
from flambeau.tensor.typed_tensors import CudaShortTensor as ShortTensor  # noqa: F401 - torch's name for it here

__all__ = [
    "CUDAGraph", "Event", "OutOfMemoryError", "current_device", "device", "device_count", "empty_cache", "get_device_capability",
    "get_device_name", "get_device_properties", "get_rng_state", "get_rng_state_all", "graph", "init", "is_available",
    "is_current_stream_capturing", "is_initialized", "manual_seed", "manual_seed_all", "max_memory_allocated", "mem_get_info",
    "memory_allocated", "memory_reserved", "memory_stats", "reset_peak_memory_stats", "set_device", "set_rng_state",
    "set_rng_state_all", "synchronize",
]  # fmt: skip


def is_current_stream_capturing() -> bool:
    """False: launches are not recorded."""
    return False


def memory_stats(device: Any = None) -> dict[str, int]:
    """The bytes in use and held, by PyTorch's names; empty where there is no GPU."""
    if not is_available():
        return {}
    return {
        "allocated_bytes.all.current": memory_allocated(device), "allocated_bytes.all.peak": max_memory_allocated(device),
        "reserved_bytes.all.current": memory_reserved(device),
    }  # fmt: skip


class CUDAGraph:
    """Recorded launches. NotImplementedError: compiled functions launch their kernels from native code already; call `torch.compile`."""

    def __init__(self, keep_graph: bool = False) -> None:
        raise NotImplementedError("CUDAGraph: launches are not recorded as graphs yet; use torch.compile, which launches from native code")


class graph(CUDAGraph):  # noqa: N801 - torch's own name
    """A context whose launches would be recorded. NotImplementedError, as `CUDAGraph`."""

    def __init__(
        self, cuda_graph: Any, pool: Any = None, stream: Any = None, capture_error_mode: str = "global", enable_annotations: bool = False,
        check_input_liveness: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()


def is_available() -> bool:
    """Whether there is an NVIDIA driver with a GPU.

    >>> import flambeau as torch
    >>> device = "cuda" if torch.cuda.is_available() else "cpu"
    """
    return driver.is_present()


def init() -> None:
    """Look for the driver now. RuntimeError where there is none."""
    driver.load()


def is_initialized() -> bool:
    """Whether the driver is in use."""
    return driver.is_loaded()


def __getattr__(name: str) -> Any:
    """``_initialized``, which programs ask before they keep the states of generators."""
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def device_count() -> int:
    """How many GPUs this process may use."""
    return driver.load().device_count() if driver.is_present() else 0


def current_device() -> int:
    """The number of the GPU that ``"cuda"`` means. RuntimeError where there is none."""
    driver.load()
    return devices.current()


def set_device(device: Any) -> None:
    """Let ``"cuda"`` mean this GPU from now on, in this thread."""
    devices.set_current(_gpu(device).index)


@contextmanager
def device(device: Any) -> Generator[None]:
    """Inside the block, ``"cuda"`` means this GPU."""
    before = devices.current()
    set_device(device)
    try:
        yield
    finally:
        devices.set_current(before)


def _gpu(device: Any = None) -> devices.CudaDevice:
    """The GPU that an argument names, the current one for None."""
    found = Device("cuda") if device is None else device_named(device)
    if found.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {found}")
    return devices.device_of(found)


def get_device_name(device: Any = None) -> str:
    """The name that the maker gave the GPU."""
    return _gpu(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The generation of its instructions, such as (9, 0)."""
    return _gpu(device).capability


class DeviceProperties(NamedTuple):
    """See `get_device_properties`."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int


def get_device_properties(device: Any = None) -> DeviceProperties:
    """Name, generation, bytes of memory and number of multiprocessors."""
    gpu = _gpu(device)
    return DeviceProperties(gpu.name, *gpu.capability, mem_get_info(device)[1], gpu.processors)


def synchronize(device: Any = None) -> None:
    """Wait for all work of a GPU. IndexError or RuntimeError where one of its kernels met a bad index."""
    transfer.synchronize(_gpu(device).device)


# -- memory -----------------------------------------------------------------------------------------------
def memory_allocated(device: Any = None) -> int:
    """Bytes of memory that tensors hold."""
    return _gpu(device).pool.allocated


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors have held."""
    return _gpu(device).pool.peak


def memory_reserved(device: Any = None) -> int:
    """Bytes taken from the driver, those kept for reuse included."""
    return _gpu(device).pool.reserved


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let `max_memory_allocated` count from now on."""
    pool = _gpu(device).pool
    pool.peak = pool.allocated


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and all bytes of a GPU."""
    gpu = _gpu(device)
    gpu.activate()
    return gpu.driver.memory_info()


def empty_cache() -> None:
    """Give memory that no tensor holds back to the driver."""
    if driver.is_loaded():
        gpu = _gpu()
        gpu.activate()
        gpu.pool.empty()


def manual_seed(seed: int) -> None:
    """Nothing: numbers on GPUs come from the CPU's generator, which `torch.manual_seed` seeds."""


def get_rng_state(device: Any = "cuda") -> Any:
    """The state of the generator that GPUs share with the CPU."""
    return functions_random.get_rng_state()


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Go on from a state that `get_rng_state` gave."""
    functions_random.set_rng_state(new_state)


def get_rng_state_all() -> list[Any]:
    """`get_rng_state` for each GPU."""
    return [get_rng_state() for _ in range(device_count())]


def set_rng_state_all(new_states: Any) -> None:
    """Go on from states that `get_rng_state_all` gave."""
    for state in new_states:
        set_rng_state(state)


def manual_seed_all(seed: int) -> None:
    """Nothing: numbers on GPUs come from the CPU's generator, which `torch.manual_seed` seeds."""


class Event:
    """A place in a GPU's work that one can wait for, and measure the time from.

    ``enable_timing`` and the like are accepted; every event takes times.
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False) -> None:
        if interprocess or external:
            raise NotImplementedError("Event: interprocess and external events are not supported; leave these settings out")
        self._gpu = _gpu()
        self._gpu.activate()
        self._event = self._gpu.driver.new_event()

    def record(self, stream: Any = None) -> None:
        """Put the event behind all work so far."""
        self._gpu.activate()
        self._gpu.driver.record(self._event, self._gpu.stream)

    def synchronize(self) -> None:
        """Wait until the work before the event is done."""
        self._gpu.driver.wait(self._event)

    def query(self) -> bool:
        """Whether the work before the event is done."""
        return self._gpu.driver.happened(self._event)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another, both of which must have come."""
        return self._gpu.driver.milliseconds(self._event, end_event._event)

    def __del__(self) -> None:
        if hasattr(self, "_event"):
            self._gpu.driver.destroy_event(self._event)


# -- streams ----------------------------------------------------------------------------------------------
class Stream:
    """The queue of a GPU's work. There is one for each GPU, so that all streams of it are the same, and wait for one another."""

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        self._gpu = _gpu(device)
        self.priority = priority

    @property
    def device(self) -> Device:
        """The GPU."""
        return self._gpu.device

    @property
    def cuda_stream(self) -> int:
        """The driver's handle."""
        return int(self._gpu.stream or 0)

    def synchronize(self) -> None:
        """Wait for all work."""
        synchronize(self.device)

    def query(self) -> bool:
        """Whether all work is done."""
        return self.record_event().query()

    def record_event(self, event: Event | None = None) -> Event:
        """An event behind all work so far."""
        found = event or Event()
        found.record(self)
        return found

    def wait_event(self, event: Any) -> None:
        """Work that is put in later comes after the event anyway."""

    wait_stream = wait_event

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self._gpu is other._gpu

    def __hash__(self) -> int:
        return hash(("stream", self.device))


def current_stream(device: Any = None) -> Stream:
    """The queue of a GPU."""
    return Stream(device)


default_stream = current_stream


@contextmanager
def stream(stream: Stream | None) -> Generator[None]:
    """A ``with`` block whose work goes into the queue of the stream's GPU."""
    if stream is None:
        yield
        return
    with device(stream.device):
        yield


StreamContext = stream


def set_stream(stream: Stream | None) -> None:
    """Use the stream's GPU from now on."""
    if stream is not None:
        set_device(stream.device)


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes taken from the driver, those kept for reuse included: what is reserved now, since little is given back."""
    return memory_reserved(device)


max_memory_cached, memory_cached, reset_max_memory_allocated = max_memory_reserved, memory_reserved, reset_peak_memory_stats


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the GPU computes with bfloat16: from compute capability 8.0 on, or by way of float32."""
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


def is_tf32_supported() -> bool:
    """Whether the GPU has TF32 products."""
    return is_available() and get_device_capability()[0] >= 8


def ipc_collect() -> None:
    """Nothing: no memory is shared with other processes."""


def current_blas_handle() -> int:
    """There is no cuBLAS: 0."""
    return 0
