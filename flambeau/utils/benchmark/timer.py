"""Runs a statement many times on a given number of threads and takes its times."""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable
from typing import Any

from flambeau import cuda
from flambeau.runtime.cuda import driver
from flambeau.runtime.thread_pool import get_num_threads, set_num_threads
from flambeau.utils.benchmark.measurement import Measurement

__all__ = ["Timer", "timer"]


def timer() -> float:
    """Seconds, after all work of GPUs."""
    if driver.is_loaded():
        cuda.synchronize()
    return time.perf_counter()


class Timer:
    """Times ``stmt`` after ``setup``, with the names in ``globals``, on ``num_threads`` threads.

    >>> import flambeau as torch
    >>> from flambeau.utils import benchmark
    >>> found = benchmark.Timer("x + x", globals={"x": torch.ones(2)}).timeit(3)
    >>> found.number_per_run, found.mean > 0
    (3, True)
    """

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "", timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None, label: str | None = None, sub_label: str | None = None, description: str | None = None,
        env: str | None = None, num_threads: int = 1, language: Any = None,
    ) -> None:  # fmt: skip
        if language is not None and "c" in str(getattr(language, "name", language)).lower():
            raise NotImplementedError("Timer: statements in C++ are not supported; pass Python")
        self._timer = timeit.Timer(stmt, setup, timer, dict(globals or {}))
        self._about: dict[str, Any] = {
            "stmt": stmt, "label": label, "sub_label": sub_label, "description": description, "env": env, "num_threads": num_threads,
        }  # fmt: skip

    def _run(self, number: int) -> float:
        before = get_num_threads()
        set_num_threads(self._about["num_threads"])
        try:
            return max(self._timer.timeit(number), 1e-9)
        finally:
            set_num_threads(before)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One run of ``number`` executions, after a few to warm up."""
        self._run(max(number // 100, 2))
        return Measurement(number, [self._run(number)], **self._about)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Not supported: use `blocked_autorange`."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block_size(self, least: float) -> int:
        """How many executions take at least a thousandth of ``least``, so that taking the time costs nothing beside them."""
        number = 1
        while self._run(number) < min(max(1e-3 * least, 2e-4), 0.1) and number < 1 << 30:
            number *= 2
        return number

    def blocked_autorange(self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2) -> Measurement:
        """Runs of equal length for at least ``min_run_time`` seconds."""
        self._run(2)
        number, raw = self._block_size(min_run_time), []
        while sum(raw) < min_run_time:
            raw.append(self._run(number))
            if callback is not None:
                callback(number, raw[-1])
        return Measurement(number, raw, **self._about)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:  # fmt: skip
        """Runs until the middle half of the times lies within ``threshold`` of the median, or ``max_run_time`` seconds are over."""
        self._run(2)
        number, raw = self._block_size(min_run_time), []
        while sum(raw) < max_run_time:
            raw.append(self._run(number))
            if callback is not None:
                callback(number, raw[-1])
            found = Measurement(number, raw, **self._about)
            if sum(raw) >= min_run_time and len(raw) >= 4 and found.iqr <= threshold * found.median:
                break
        return Measurement(number, raw, **self._about)
