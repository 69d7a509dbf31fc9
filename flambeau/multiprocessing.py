"""torch.multiprocessing: Python's own module, and processes that are started and watched together.

Tensors go to other processes as copies, but for those that ``share_memory_`` was called on: these are seen by both.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from multiprocessing import (  # noqa: F401 - torch.multiprocessing has them all
    Array,
    AuthenticationError,
    Barrier,
    BoundedSemaphore,
    BufferTooShort,
    Condition,
    Event,
    JoinableQueue,
    Lock,
    Manager,
    Pipe,
    Pool,
    Process,
    ProcessError,
    Queue,
    RawArray,
    RawValue,
    RLock,
    Semaphore,
    SimpleQueue,
    TimeoutError,
    Value,
    active_children,
    allow_connection_pickling,
    cpu_count,
    current_process,
    freeze_support,
    get_all_start_methods,
    get_context,
    get_logger,
    get_start_method,
    log_to_stderr,
    parent_process,
    reducer,
    set_executable,
    set_forkserver_preload,
    set_start_method,
)
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

from flambeau.runtime.shared_block import SharedBlock
from flambeau.runtime.storage import Storage
from flambeau.tensor.storage_view import reduce_storage
from flambeau.tensor.tensor_class import Tensor

__all__ = [
    "Event", "Lock", "Manager", "Pipe", "Pool", "Process", "ProcessContext", "ProcessExitedException", "ProcessRaisedException", "Queue",
    "SpawnContext", "cpu_count", "current_process", "get_all_sharing_strategies", "get_context", "get_sharing_strategy",
    "get_start_method", "set_sharing_strategy", "set_start_method", "spawn", "start_processes",
]  # fmt: skip


def _attach(descriptor: Any, nbytes: int) -> Storage:
    block = SharedBlock(nbytes, descriptor.detach())
    return Storage(nbytes, block.address, block)


def _send(memory: Storage) -> tuple[Any, ...]:
    """What goes to another process for a storage: its file, or its bytes."""
    block = memory.owner
    return (_attach, (DupFd(block.descriptor), memory.nbytes)) if isinstance(block, SharedBlock) else reduce_storage(memory)


def _send_tensor(tensor: Tensor) -> tuple[Any, ...]:
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "a tensor with a history cannot go to another process, where autograd would not find it: send tensor.detach() instead"
        )
    return tensor.__reduce_ex__(2)


ForkingPickler.register(Storage, _send)
ForkingPickler.register(Tensor, _send_tensor)


class ProcessException(Exception):
    """A process failed: which of those started together, and its process id."""

    def __init__(self, message: str, error_index: int, pid: int) -> None:
        super().__init__(message)
        self.msg, self.error_index, self.pid = message, error_index, pid


class ProcessRaisedException(ProcessException):
    """A process raised; the message holds its traceback."""


class ProcessExitedException(ProcessException):
    """A process ended by a signal or with another code than 0."""

    def __init__(self, message: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None) -> None:
        super().__init__(message, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name


def _run(fn: Callable[..., Any], index: int, args: tuple[Any, ...], report: str) -> None:
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        with open(report, "w", encoding="utf-8") as file:
            file.write(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """Processes that were started together."""

    def __init__(self, processes: list[Any], reports: list[str]) -> None:
        self.processes, self._reports = processes, reports
        self.sentinels = {p.sentinel: i for i, p in enumerate(processes)}

    def pids(self) -> list[int]:
        """Their process ids."""
        return [p.pid for p in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until one or more have ended; True when all have. When one has failed the others are ended, and its failure raised."""
        if not self.sentinels:
            return True
        failed = None
        for sentinel in multiprocessing.connection.wait(list(self.sentinels), timeout):
            index = self.sentinels.pop(sentinel)  # type: ignore[arg-type]
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                failed = index
                break
        if failed is None:
            return not self.sentinels
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(grace_period)
            if process.is_alive():
                process.kill()
                process.join()
        self._raise(failed)
        return False

    def _raise(self, index: int) -> None:
        process = self.processes[index]
        with open(self._reports[index], encoding="utf-8") as file:
            text = file.read()
        if text:
            message = f"\n\n-- Process {index} terminated with the following error:\n{text}"
            raise ProcessRaisedException(message, index, process.pid)
        code = process.exitcode
        name = signal.Signals(-code).name if code < 0 else None
        ending = f"terminated with signal {name}" if name else f"terminated with exit code {code}"
        raise ProcessExitedException(f"process {index} {ending}", index, process.pid, code, name)


SpawnContext = ProcessContext


def start_processes(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Run ``fn(i, *args)`` in processes i = 0 .. nprocs - 1; with ``join`` wait for all, else return what watches them.

    ProcessRaisedException or ProcessExitedException when one fails; the others are ended then.
    """
    context: Any = multiprocessing.get_context(start_method)
    processes, reports = [], []
    for index in range(nprocs):
        with tempfile.NamedTemporaryFile(prefix="flambeau-process-", delete=False) as file:
            reports.append(file.name)
        process = context.Process(target=_run, args=(fn, index, args, reports[-1]), daemon=daemon)
        process.start()
        processes.append(process)
    started = ProcessContext(processes, reports)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """`start_processes` with new interpreters."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)


def get_all_sharing_strategies() -> set[str]:
    """How tensors may go to other processes."""
    return {"file_descriptor", "file_system"}


_strategy = ["file_descriptor"]


def get_sharing_strategy() -> str:
    """The strategy that was set; tensors are copied with each."""
    return _strategy[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Accepted: tensors are copied with each strategy."""
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(f"Unknown sharing strategy {new_strategy!r}; use one of {sorted(get_all_sharing_strategies())}")
    _strategy[0] = new_strategy
