"""Closes a recording: its graph becomes a function with a plan, and what somebody can still see gets its memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flambeau.capture.recorder import CaptureEntry, Recorder, StorageState
from flambeau.interp.eager import Result
from flambeau.interp.functions import GraphFunction
from flambeau.ir.graph import Graph
from flambeau.ir.node import Node
from flambeau.tensor.dispatch import CallPlan, ViewReadEntry, edge_of, execute, make_plan


@dataclass(eq=False)
class Segment:
    """The function of a recording. Its tensors are ``inputs``, its numbers are read by ``numbers``; output k of the plan is the
    storage of ``states[k]`` (made inside, seen outside), the remaining outputs are written into inputs."""

    function: GraphFunction
    plan: CallPlan
    inputs: list[Any]
    numbers: list[Any]
    states: list[StorageState]
    dropped: list[int]  # inputs overwritten with something that takes no part in autograd
    risky: list[tuple[str, tuple[Node, ...]]]

    def run(self, tensors: list[Any], numbers: list[Any]) -> list[Any]:
        """Run on these tensors; returns the tensors over the storages made."""
        if any(t.memory.pending is not None for t in tensors):
            raise RuntimeError("compile: an operand was computed by an operator that raised; there is no value to go on with")
        try:
            made = execute(self.plan, tensors, numbers)[: len(self.states)]
        except (IndexError, RuntimeError):
            self.blame(tensors, numbers)
            raise
        for position in self.dropped:
            tensors[position].entry, tensors[position].output, tensors[position]._requires_grad = None, 0, False
        return made

    def blame(self, tensors: list[Any], numbers: list[Any]) -> None:
        """After a run that raised: raise the error of the operator that it comes from, by its name."""
        graph = self.function.graph
        for name, outputs in self.risky:
            alone = GraphFunction(name, Graph(graph.inputs, outputs), self.function.tensors)
            metas = tuple(t.meta for t in tensors)
            execute(make_plan(alone, None, metas, {}, [None] * len(tensors), [(None, None)] * len(outputs), ()), tensors, numbers)

    def run_first(self, recorder: Recorder) -> None:
        """Run on what was recorded: pending tensors get their memory, and all their history outside the recording."""
        for state in recorder.input_states:
            if state.changed and _has_new_history(state):
                state.tensor.entry, state.tensor.output, state.tensor._requires_grad = state.history
        fill_pending(self, self.run(self.inputs, [read() for read in self.numbers]))
        settle_views(recorder)


def settle_views(recorder: Recorder) -> None:
    """Give the views of inputs that were made while recording their history outside of it."""
    for reference in recorder.input_views:
        view: Any = reference()
        if needs_history(view) and isinstance(view.entry, CaptureEntry):
            base = view.view_of.base
            view.entry, view.output = ViewReadEntry(edge_of(base), base.meta, view.meta, view.view_of), 0
            view.seen_version = view.memory.version


def close_segment(recorder: Recorder, name: str) -> Segment:
    """Plan the recording. Storages made inside that no tensor outside refers to are left out."""
    live = [s for s in recorder.states.values() if s.tensor is None and any(v() is not None for v in s.viewers)]
    changed = [s for s in recorder.states.values() if s.tensor is not None and s.changed]
    tensors = [t for t, _ in recorder.inputs]
    inputs = [n for _, n in recorder.inputs] + [n for _, n in recorder.numbers]
    function = GraphFunction(name, Graph(tuple(inputs), tuple(s.node for s in (*live, *changed))), len(tensors))
    into = tuple([None] * len(live) + [s.position for s in changed])
    results: list[Result] = [s.meta for s in (*live, *changed)]
    recorded = [any(needs_history(v()) for v in s.viewers) for s in live] + [_has_new_history(s) for s in changed]
    wanted = tuple(s.tracked for s in recorder.input_states) if any(recorded) else ()
    plan = make_plan(
        function, None, tuple(t.meta for t in tensors), {}, [None] * len(tensors), results, wanted, into if changed else (),
        recorded=recorded,
    )  # fmt: skip
    dropped = [s.position for s in changed if s.history[2] and not s.tensor._requires_grad]
    return Segment(function, plan, tensors, [read for read, _ in recorder.numbers], live, dropped, recorder.risky)


def _has_new_history(state: StorageState) -> bool:
    """Whether an outside tensor was overwritten with something that takes part in autograd."""
    return needs_history(state.tensor) and state.tensor.entry is not state.history[0]


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
