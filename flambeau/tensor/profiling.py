"""What a profiler sees: every program that runs, forward and backward, and named ranges of the user's, with their times."""

from __future__ import annotations

import functools
import json
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from flambeau.core.context import context
from flambeau.ops.declare import ALL

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Recorder", "record_function"]


@dataclass
class FunctionEvent:
    """One run of an operator or range: ``start`` and ``end`` in nanoseconds, ``children`` the time of those inside it."""

    name: str
    start: int
    depth: int
    is_user_annotation: bool = False
    end: int = 0
    children: int = 0
    input_shapes: Any = ()
    cpu_memory_usage: int = 0
    thread: int = field(default_factory=threading.get_ident)

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    @property
    def cpu_time_total(self) -> float:
        """Microseconds from beginning to end."""
        return (self.end - self.start) / 1e3

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds that no event inside it took."""
        return (self.end - self.start - self.children) / 1e3

    cpu_time = cpu_time_total


@dataclass
class FunctionEventAvg:
    """Events of one name, and where asked of one shape, together; times in microseconds."""

    key: str
    input_shapes: Any = ()
    count: int = 0
    cpu_time_total: float = 0.0
    self_cpu_time_total: float = 0.0
    cpu_memory_usage: int = 0
    device_time_total: float = 0.0
    self_device_time_total: float = 0.0

    @property
    def cpu_time(self) -> float:
        """The mean time of an event."""
        return self.cpu_time_total / max(self.count, 1)

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes of results; those of events inside are not counted to their ranges."""
        return self.cpu_memory_usage

    cuda_time_total = property(lambda self: self.device_time_total)
    self_cuda_time_total = property(lambda self: self.self_device_time_total)

    def add(self, event: FunctionEvent) -> None:
        """Count an event in."""
        self.count += 1
        self.cpu_time_total += event.cpu_time_total
        self.self_cpu_time_total += event.self_cpu_time_total
        self.cpu_memory_usage += event.cpu_memory_usage


class EventList(list[Any]):
    """Events, or sums of them, that print as a table."""

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events together."""
        return sum(e.self_cpu_time_total for e in self)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """The events of each name together."""
        found: dict[Any, FunctionEventAvg] = {}
        for event in self:
            shapes = event.input_shapes if group_by_input_shape else ()
            found.setdefault((event.name, str(shapes)), FunctionEventAvg(event.name, shapes)).add(event)
        return EventList(found.values())

    def total_average(self) -> FunctionEventAvg:
        """All events together."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.add(event)
        return total

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75, max_name_column_width: int = 55,
        max_shapes_column_width: int = 80, header: str | None = None, top_level_events_only: bool = False,
    ) -> str:  # fmt: skip
        """The events as text, the largest by ``sort_by`` (such as "cpu_time_total") first."""
        rows = [e for e in self if not (top_level_events_only and getattr(e, "depth", 0))]
        if sort_by is not None:
            rows.sort(key=lambda e: getattr(e, sort_by.replace("cuda", "device")), reverse=True)
        total = self.self_cpu_time_total or 1.0
        titles = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"]
        more = [t for t, name in (("CPU Mem", "cpu_memory_usage"), ("Input Shapes", "input_shapes")) if any(getattr(e, name) for e in rows)]
        cells = [[*titles, *more]]
        for e in rows[: row_limit if row_limit >= 0 else None]:
            name = e.key if len(e.key) <= max_name_column_width else e.key[: max_name_column_width - 3] + "..."
            shares = [f"{100 * e.self_cpu_time_total / total:.2f}%", _time(e.self_cpu_time_total), f"{100 * e.cpu_time_total / total:.2f}%"]
            values = {"CPU Mem": _size(e.cpu_memory_usage), "Input Shapes": str(e.input_shapes)[:max_shapes_column_width]}
            count = str(getattr(e, "count", 1))
            cells.append([name, *shares, _time(e.cpu_time_total), _time(e.cpu_time), count, *[values[m] for m in more]])
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        rule = "  ".join("-" * w for w in widths)
        lines = ["  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
        foot = f"Self CPU time total: {_time(self.self_cpu_time_total)}"
        return "\n".join([*([header] if header else []), rule, lines[0], rule, *lines[1:], rule, foot, ""])

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for chrome://tracing."""
        events = [
            {
                "ph": "X", "cat": "user_annotation" if e.is_user_annotation else "cpu_op", "name": e.name, "pid": os.getpid(),
                "tid": e.thread, "ts": e.start / 1e3, "dur": e.cpu_time_total, "args": {"Input Dims": e.input_shapes},
            }
            for e in self
        ]  # fmt: skip
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"schemaVersion": 1, "traceEvents": events}, file)

    def __str__(self) -> str:
        return self.table()


def _time(microseconds: float) -> str:
    for unit, scale in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= scale:
            return f"{microseconds / scale:.3f}{unit}"
    return f"{microseconds:.3f}us"


def _size(count: int) -> str:
    for unit, scale in (("Gb", 1 << 30), ("Mb", 1 << 20), ("Kb", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.2f} {unit}"
    return f"{count} b"


class Recorder:
    """Takes the times of everything that its thread runs while it is ``on``."""

    def __init__(self, shapes: bool = False, memory: bool = False) -> None:
        self.events = EventList()
        self._shapes, self._memory = shapes, memory
        self._open: list[FunctionEvent] = []
        self._before: list[Any] = []

    def on(self) -> None:
        """Begin."""
        self._before.append(context.profiler)
        context.profiler = self

    def off(self) -> None:
        """End."""
        context.profiler = self._before.pop()
        while self._open:
            self.end(self._open[-1])

    def begin(self, name: str, user: bool = False) -> FunctionEvent:
        """Something begins."""
        event = FunctionEvent(name, time.perf_counter_ns(), len(self._open), user)
        self._open.append(event)
        return event

    def end(self, event: FunctionEvent) -> None:
        """It ends."""
        event.end = time.perf_counter_ns()
        if event in self._open:
            del self._open[self._open.index(event) :]
            if self._open:
                self._open[-1].children += event.end - event.start
            self.events.append(event)

    def run(self, plan: Any, tensors: Any, numbers: Any, execute: Callable[..., Any]) -> Any:
        """Run a plan, and note it."""
        name = plan.run.function.name
        event = self.begin(f"aten::{name}" if name in ALL else name)
        try:
            results = execute(plan, tensors, numbers)
        finally:
            self.end(event)
        if self._shapes:
            event.input_shapes = [list(t.meta.shape) for t in tensors]
        if self._memory and plan.run.views is None:
            event.cpu_memory_usage = sum(r.meta.nbytes for r in results if all(r is not t for t in tensors))
        return results


class record_function:  # noqa: N801 - torch's own name
    """A named range of the program for the profiler; nothing without one, and inside compiled functions. Also a decorator.

    >>> import flambeau as torch
    >>> with torch.profiler.profile() as prof, torch.profiler.record_function("mine"):
    ...     _ = torch.ones(2) + 1
    >>> [e.key for e in prof.key_averages() if e.key == "mine"]
    ['mine']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._open: list[tuple[Recorder, FunctionEvent] | None] = []

    def __enter__(self) -> Self:
        recorder = None if context.capture is not None else context.profiler
        self._open.append(None if recorder is None else (recorder, recorder.begin(self.name, True)))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        found = self._open.pop()
        if found is not None:
            found[0].end(found[1])

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return named


def in_order(events: Iterable[FunctionEvent]) -> EventList:
    """Events by their beginnings."""
    return EventList(sorted(events, key=lambda e: (e.start, e.depth)))
