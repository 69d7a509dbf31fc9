"""Closes a recording: its graph becomes a function with a plan, and what somebody can still see gets its memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flambeau.capture.recorder import CaptureEntry, Recorder, StorageState
from flambeau.interp.eager import Result
from flambeau.interp.functions import GraphFunction
from flambeau.ir.graph import Graph
from flambeau.tensor.dispatch import CallPlan, ViewReadEntry, edge_of, execute, make_plan, wants_gradient


@dataclass(eq=False)
class Segment:
    """The function of a recording. Its tensors are ``inputs``, its numbers are read by ``numbers``; output k of the plan is the
    storage of ``states[k]`` (made inside, seen outside), the remaining outputs are written into inputs."""

    function: GraphFunction
    plan: CallPlan
    inputs: list[Any]
    numbers: list[Any]
    states: list[StorageState]

    def run(self, tensors: list[Any], numbers: list[Any]) -> list[Any]:
        """Run on these tensors; returns the tensors over the storages made."""
        return execute(self.plan, tensors, numbers)[: len(self.states)]


def close_segment(recorder: Recorder, name: str) -> Segment:
    """Plan the recording. Storages made inside that no tensor outside refers to are left out."""
    live = [s for s in recorder.states.values() if s.tensor is None and any(v() is not None for v in s.viewers)]
    changed = [s for s in recorder.states.values() if s.tensor is not None and s.changed]
    tensors = [t for t, _ in recorder.inputs]
    inputs = [n for _, n in recorder.inputs] + [n for _, n in recorder.numbers]
    function = GraphFunction(name, Graph(tuple(inputs), tuple(s.node for s in (*live, *changed))), len(tensors))
    into = tuple([None] * len(live) + [s.position for s in changed])
    results: list[Result] = [s.meta for s in (*live, *changed)]
    wanted: tuple[bool, ...] = ()
    if any(needs_history(v()) for s in live for v in s.viewers):
        wanted = tuple(t.meta.dtype.is_floating_point and wants_gradient(t) for t in tensors)
    plan = make_plan(
        function, None, tuple(t.meta for t in tensors), {}, [None] * len(tensors), results, wanted, into if changed else ()
    )
    return Segment(function, plan, tensors, [read for read, _ in recorder.numbers], live)


def needs_history(tensor: Any) -> bool:
    """Whether a tensor can still be differentiated: it was recorded, and backward has not been through it for good."""
    if tensor is None or tensor.entry is None:
        return False
    return not (isinstance(tensor.entry, CaptureEntry) and tensor.entry.released)


def fill_pending(segment: Segment, made: list[Any]) -> None:
    """Give the tensors over pending storages the memory that the run made, and their history."""
    for state, result in zip(segment.states, made, strict=True):
        old = state.storage()
        if old is not None:
            result.memory.version = old.version
            old.pending = None
        for reference in state.viewers:
            tensor = reference()
            if tensor is None:
                continue
            tensor.memory = result.memory
            tensor.address += result.address
            tensor.seen_version = result.memory.version
            if not needs_history(tensor):
                continue
            if tensor.meta is result.meta and tensor.address == result.address:
                tensor.entry, tensor.output = result.entry, result.output
            elif tensor.view_of is not None and result.entry is not None:
                tensor.entry, tensor.output = ViewReadEntry(edge_of(result), result.meta, tensor.meta, tensor.view_of), 0
