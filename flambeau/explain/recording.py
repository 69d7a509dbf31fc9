"""Collects what happens while a program runs: captures, compiles, their reasons and times."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from flambeau.capture.compiled import CompiledFunction
from flambeau.compilation.program import BoundProgram
from flambeau.core import events
from flambeau.core.events import Event, counters
from flambeau.explain import report
from flambeau.ir.origins import keep_origins
from flambeau.tensor.dispatch import CallPlan

__all__ = ["OperatorProgram", "Recording", "Version", "recording"]

KINDS = (
    "compile", "recompile", "runs_eagerly", "captured", "program_compile", "program_load", "kernel_compile", "kernel_load", "timing",
)  # fmt: skip


@dataclass
class Version:
    """One compiled version of a function and the seconds that each of its calls took, run by run."""

    function: CompiledFunction
    number: int
    plan: CallPlan
    seconds: list[list[float]] = field(default_factory=list)

    @property
    def bound(self) -> BoundProgram:
        """The program."""
        assert isinstance(self.plan.run.bound, BoundProgram)
        return self.plan.run.bound

    def watch(self) -> None:
        """Note the times of every run from now on. Only the Python way of running measures them."""
        self.plan.address = 0
        self.bound.watch_times(self.seconds.append)

    def release(self) -> None:
        """Watch no longer."""
        self.plan.address = -1
        self.bound.watch_times(None)


@dataclass(frozen=True)
class OperatorProgram:
    """A program made or loaded for an operator or a derivative; ``line`` is the user's line that first needed it."""

    name: str
    line: str
    calls: int
    compiled: bool


class Recording:
    """What was seen so far. ``report()`` tells it briefly, ``report(full=True)`` with every graph and all source."""

    def __init__(self) -> None:
        self.functions: list[CompiledFunction] = []
        self.versions: list[Version] = []
        self.programs: list[OperatorProgram] = []
        self.notes: list[str] = []
        self.milliseconds: dict[str, float] = {}
        self.kernels = {"compiled": 0, "loaded": 0}
        self._before = counters.snapshot()

    def report(self, full: bool = False) -> str:
        """The report as text. With ``full`` it holds the graphs and the source of every kernel, else of the costliest ones."""
        return report.text_of(self, full)

    def counts(self) -> dict[str, int]:
        """How much each counter went up since the recording began."""
        return {name: n - self._before.get(name, 0) for name, n in counters.snapshot().items() if n != self._before.get(name, 0)}

    def see(self, kind: str, fields: Event) -> None:
        """Take in one event."""
        match kind:
            case "captured":
                self._captured(fields["compiled"], fields["plan"])
            case "compile" | "recompile" | "runs_eagerly":
                self.notes.append(_note(kind, fields))
            case "program_compile" | "program_load":
                self.programs.append(OperatorProgram(fields["name"], fields["line"], fields["calls"], kind == "program_compile"))
            case "kernel_compile" | "kernel_load":
                done = "compiled" if kind == "kernel_compile" else "loaded"
                self.kernels[done] += fields["kernels"]
                self._spent(f"kernels {done}", fields["milliseconds"])
            case _:
                self._spent(fields["stage"], fields["milliseconds"])

    def _spent(self, stage: str, milliseconds: float) -> None:
        self.milliseconds[stage] = self.milliseconds.get(stage, 0.0) + milliseconds

    def _captured(self, function: CompiledFunction, plan: CallPlan | None) -> None:
        if function not in self.functions:
            self.functions.append(function)
        if plan is None or not isinstance(plan.run.bound, BoundProgram):
            return
        version = Version(function, sum(v.function is function for v in self.versions), plan)
        version.watch()
        self.versions.append(version)


def _note(kind: str, fields: dict[str, Any]) -> str:
    if kind == "compile":
        return f"{fields['function']}: version {fields['version']} was compiled from {fields['operators']} operator calls"
    return f"{fields['function']}: {fields['note']}"


@contextmanager
def recording() -> Generator[Recording]:
    """Record everything that happens inside the block.

    >>> import flambeau as torch
    >>> from flambeau.explain import recording
    >>> double = torch.compile(lambda x: x + x)
    >>> with recording() as seen:
    ...     _ = double(torch.ones(3))
    >>> len(seen.versions), "prims.add" in seen.report(full=True)
    (1, True)
    """
    seen = Recording()
    unsubscribe = events.subscribe(seen.see, *KINDS)
    try:
        with keep_origins():
            yield seen
    finally:
        unsubscribe()
        for version in seen.versions:
            version.release()
