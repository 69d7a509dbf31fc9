"""torch.profiler: where the time of a program goes, by operator and by named range, over steps of a schedule."""

from __future__ import annotations

import enum
import os
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any, Self

from flambeau.tensor.profiling import EventList, Recorder, in_order
from flambeau.tensor.profiling import record_function as record_function

__all__ = [
    "ProfilerAction", "ProfilerActivity", "kineto_available", "profile", "record_function", "schedule", "supported_activities",
    "tensorboard_trace_handler",
]  # fmt: skip


class ProfilerActivity(enum.Enum):
    """What is looked at; of GPUs the time that launches take."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3


class ProfilerAction(enum.Enum):
    """What a profiler does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def kineto_available() -> bool:
    """False: the times are taken here."""
    return False


def supported_activities() -> set[ProfilerActivity]:
    """What can be looked at."""
    return {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """By the number of a step what to do: after ``skip_first`` steps, ``repeat`` times (0: always) wait, warm up, record.

    >>> import flambeau as torch
    >>> plan = torch.profiler.schedule(wait=1, warmup=0, active=1)
    >>> [plan(step).name for step in range(3)]
    ['NONE', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError("Invalid profiler schedule arguments: wait, warmup, repeat and skip_first must be >= 0, active > 0")

    def action(step: int) -> ProfilerAction:
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        cycle, place = divmod(step, wait + warmup + active)
        if (repeat and cycle >= repeat) or place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == wait + warmup + active - 1 else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False) -> Callable[[profile], None]:
    """For ``on_trace_ready``: writes each trace into a folder."""

    def write(profiler: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        profiler.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}.pt.trace.json"))

    return write


class profile:  # noqa: N801 - torch's own name
    """Takes the times of operators, forward, backward and compiled, and of ranges, in a block or in the steps of a ``schedule``.

    ``on_trace_ready(self)`` is called when a recording ends. Operators go through Python meanwhile, a few microseconds each.

    >>> import flambeau as torch
    >>> with torch.profiler.profile() as prof:
    ...     _ = torch.ones(2, 2) @ torch.ones(2, 2)
    >>> [e.count for e in prof.key_averages() if e.key == "aten::matmul"]
    [1]
    """

    def __init__(
        self, *, activities: Iterable[ProfilerActivity] | None = None, schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None, record_shapes: bool = False, profile_memory: bool = False,
        with_stack: bool = False, with_flops: bool = False, with_modules: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        self.activities = set(activities or supported_activities())
        self.on_trace_ready, self._schedule = on_trace_ready, schedule or (lambda step: ProfilerAction.RECORD)
        self._options = record_shapes, profile_memory
        self._recorder, self._recording = Recorder(*self._options), False
        self.step_num, self.current_action = 0, ProfilerAction.NONE

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with the first step."""
        self._enter(self._schedule(self.step_num))

    def stop(self) -> None:
        """End; a recording that goes on is ready now."""
        if self._recording:
            self._end()

    def step(self) -> None:
        """The next step begins."""
        self.step_num += 1
        if self._recording and self.current_action is ProfilerAction.RECORD_AND_SAVE:
            self._end()
        self._enter(self._schedule(self.step_num))

    def _enter(self, action: ProfilerAction) -> None:
        self.current_action = action
        wanted = action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if wanted and not self._recording:
            self._recorder = Recorder(*self._options)
            self._recorder.on()
        elif self._recording and not wanted:
            self._recorder.off()
        self._recording = wanted

    def _end(self) -> None:
        self._recorder.off()
        self._recording = False
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def events(self) -> EventList:
        """All events of the last recording, by their beginnings."""
        return in_order(self._recorder.events)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """The events of each name together; ``.table(sort_by="cpu_time_total", row_limit=10)`` prints them."""
        return self.events().key_averages(group_by_input_shape)

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for chrome://tracing."""
        self.events().export_chrome_trace(path)

    def add_metadata(self, key: str, value: str) -> None:
        """Accepted: traces carry none."""
