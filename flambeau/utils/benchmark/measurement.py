"""The times of one statement, and what they say."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Measurement", "in_words"]


def in_words(seconds: float) -> str:
    """A time in the unit that fits it."""
    unit, scale = next(((u, s) for u, s in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)) if seconds >= s), ("ns", 1e-9))
    return f"{seconds / scale:.2f} {unit}"


@dataclass
class Measurement:
    """Runs of a statement: each of ``raw_times`` is the seconds of ``number_per_run`` executions."""

    number_per_run: int
    raw_times: list[float]
    stmt: str
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def times(self) -> list[float]:
        """Seconds of one execution, by run."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def mean(self) -> float:
        """The mean of the times."""
        return statistics.fmean(self.times)

    @property
    def median(self) -> float:
        """The median of the times."""
        return statistics.median(self.times)

    @property
    def iqr(self) -> float:
        """How far the middle half of the times spreads."""
        if len(self.times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    @property
    def title(self) -> str:
        """Label and sub-label, or the statement."""
        return ": ".join(filter(None, (self.label or self.stmt, self.sub_label)))

    def __repr__(self) -> str:
        lines = [f"<{type(self).__module__}.{type(self).__name__} object at {id(self):#x}>", self.title, *filter(None, [self.description])]
        spread = f"  IQR:    {in_words(self.iqr)}" if len(self.times) > 1 else ""
        runs = f"{len(self.times)} measurement{'s' * (len(self.times) != 1)}, {self.number_per_run} runs per measurement"
        lines += [f"  Median: {in_words(self.median)}", *filter(None, [spread]), f"  {runs}, {self.num_threads} thread(s)"]
        return "\n".join(lines)
