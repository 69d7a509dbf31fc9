"""torch.autograd.profiler: times of operators and of named ranges."""

from __future__ import annotations

from typing import Any, Self

from flambeau.tensor.profiling import EventList, Recorder, in_order
from flambeau.tensor.profiling import FunctionEvent as FunctionEvent
from flambeau.tensor.profiling import FunctionEventAvg as FunctionEventAvg
from flambeau.tensor.profiling import record_function as record_function

__all__ = ["profile", "record_function"]


class profile:  # noqa: N801 - torch's own name
    """A context manager whose ``key_averages()`` and ``table()`` tell what ran inside."""

    def __init__(self, enabled: bool = True, *, record_shapes: bool = False, profile_memory: bool = False, **options: Any) -> None:
        self._recorder = Recorder(record_shapes, profile_memory) if enabled else None

    def __enter__(self) -> Self:
        if self._recorder is not None:
            self._recorder.on()
        return self

    def __exit__(self, *_: object) -> None:
        if self._recorder is not None:
            self._recorder.off()

    @property
    def function_events(self) -> EventList:
        """All events, by their beginnings."""
        return in_order(self._recorder.events if self._recorder is not None else ())

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """The events of each name together."""
        return self.function_events.key_averages(group_by_input_shape)

    def total_average(self) -> FunctionEventAvg:
        """All events together."""
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events together."""
        return self.function_events.self_cpu_time_total

    def table(self, *args: Any, **options: Any) -> str:
        """All events as text."""
        return self.function_events.table(*args, **options)

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for chrome://tracing."""
        self.function_events.export_chrome_trace(path)
