"""torch.multiprocessing: Python's module of that name, and `spawn`.

Tensors travel between processes as copies: they are pickled.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing import *  # noqa: F403 - everything that programs look for here
from multiprocessing.connection import wait
from typing import Any

__all__ = [
    *multiprocessing.__all__, "ProcessContext", "ProcessRaisedException", "get_all_sharing_strategies", "get_sharing_strategy",
    "set_sharing_strategy", "spawn", "start_processes",
]  # fmt: skip

_sharing = {"strategy": "file_descriptor"}


class ProcessRaisedException(Exception):
    """A process that `spawn` started raised; the message has its traceback."""


class ProcessContext:
    """Processes that `spawn` started; `join` waits for them."""

    def __init__(self, processes: list[Any], errors: list[Any]) -> None:
        self.processes = processes
        self._errors = errors

    def pids(self) -> list[int]:
        """Their numbers."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for all; whether all have ended. ProcessRaisedException or RuntimeError for one that failed, after ending the others."""
        while running := [process for process in self.processes if process.is_alive()]:
            wait([process.sentinel for process in running], timeout)
            self._raise_faults()
            if timeout is not None:
                return not any(process.is_alive() for process in running)
        self._raise_faults()
        return True

    def _raise_faults(self) -> None:
        for number, process in enumerate(self.processes):
            if process.exitcode not in (None, 0):
                self._stop()
                text = "" if self._errors[number].empty() else self._errors[number].get()
                kind = ProcessRaisedException if text else RuntimeError
                raise kind(f"process {number} terminated with exit code {process.exitcode}\n{text}")

    def _stop(self) -> None:
        for process in self.processes:
            if process.is_alive():
                process.terminate()
            process.join()


def _run(fn: Callable[..., Any], number: int, args: tuple[Any, ...], errors: Any) -> None:
    import traceback  # noqa: PLC0415 - only where something failed

    try:
        fn(number, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        errors.put(traceback.format_exc())
        raise SystemExit(1) from None


def start_processes(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Run ``fn(number, *args)`` in ``nprocs`` processes; with ``join`` until all have ended."""
    context: Any = multiprocessing.get_context(start_method)
    errors = [context.SimpleQueue() for _ in range(nprocs)]
    processes = [context.Process(target=_run, args=(fn, number, args, errors[number]), daemon=daemon) for number in range(nprocs)]
    for process in processes:
        process.start()
    started = ProcessContext(processes, errors)
    if not join:
        return started
    started.join()
    return None


def spawn(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """`start_processes` in fresh interpreters; ``fn`` must be importable."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)


def get_all_sharing_strategies() -> set[str]:
    """The names that `set_sharing_strategy` takes."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """The strategy that was set."""
    return _sharing["strategy"]


def set_sharing_strategy(new_strategy: str) -> None:
    """Accepted: tensors are copied, whatever the strategy."""
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(f"set_sharing_strategy: {new_strategy!r} is not one of {sorted(get_all_sharing_strategies())}")
    _sharing["strategy"] = new_strategy
