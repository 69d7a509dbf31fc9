"""Closes a recording: its graph becomes a function with a plan, and what somebody can still see gets its memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flambeau.capture.entries import CaptureEntry, sizes_of
from flambeau.capture.recorder import Recorder, StorageState
from flambeau.capture.shadow import Shadow
from flambeau.capture.sizes import Sizes, at_hand, expressions, symbols_in
from flambeau.core.device import cpu
from flambeau.core.numbers import is_word
from flambeau.core.symbolic import SizeScope, symbol
from flambeau.derivative.partition import keeps
from flambeau.interp.functions import GraphFunction
from flambeau.ir.graph import Graph
from flambeau.ir.node import Node, toposort
from flambeau.runtime.storage import Storage, TensorMeta, meta_of
from flambeau.tensor.base import TensorBase
from flambeau.tensor.dispatch import CallPlan, ViewReadEntry, ViewWriteEntry, edge_of, execute, make_plan, wants_gradient
from flambeau.tensor.tape import Entry, LostEntry


@dataclass(eq=False)
class Segment:
    """The function of a recording. Its tensors are ``inputs``, its numbers are read by ``numbers``; output k of the plan is the
    storage of ``states[k]`` (made inside, seen outside), the remaining outputs are written into inputs. ``sizes`` names the symbols of
    its sizes and ``plans`` has a plan for each of their values; the first, ``plan``, is for those that were recorded."""

    function: GraphFunction
    plan: CallPlan
    inputs: list[Any]
    numbers: list[Any]
    states: list[StorageState]
    dropped: list[int]  # inputs overwritten with something that takes no part in autograd
    risky: list[tuple[str, tuple[Node, ...]]]
    layout: PlanLayout
    sizes: tuple[str, ...] = ()
    fixed: Mapping[str, int] = field(default_factory=dict)  # of symbols that the plan is for one value of
    hints: Mapping[str, int] = field(default_factory=dict)  # of all symbols when it was recorded
    plans: dict[tuple[int, ...], CallPlan] = field(default_factory=dict)

    def plan_for(self, sizes: tuple[int, ...]) -> CallPlan:
        """The plan for these sizes, made now if they are new; no kernel is compiled for that."""
        found = self.plan if not sizes else self.plans.get(sizes)
        if found is None:
            if len(self.plans) >= MOST_PLANS:
                self.plans.clear()
            found = self.plans[sizes] = self.layout.plan(self.function, dict(zip(self.sizes, sizes, strict=True)))
        return found

    def run(self, tensors: list[Any], numbers: list[Any], sizes: tuple[int, ...] = ()) -> list[Any]:
        """Run on these tensors; returns the tensors over the storages made."""
        if any(t.memory.pending is not None for t in tensors):
            raise RuntimeError("compile: an operand was computed by an operator that raised; there is no value to go on with")
        if large := [n for n in numbers if isinstance(n, int) and not is_word(n)]:
            raise OverflowError(f"compile: int too big to convert: {large[0]}; give a float")
        try:
            made = execute(self.plan_for(sizes), tensors, numbers)[: len(self.states)]
        except (IndexError, RuntimeError):
            self.blame(tensors, numbers, sizes)
            raise
        for position in self.dropped:
            tensors[position].entry, tensors[position].output, tensors[position]._requires_grad = None, 0, False
        return made

    def blame(self, tensors: list[Any], numbers: list[Any], sizes: tuple[int, ...]) -> None:
        """After a run that raised: raise the error of the operator that it comes from, by its name."""
        graph, values = self.function.graph, {**self.fixed, **dict(zip(self.sizes, sizes, strict=True))}
        for name, outputs in self.risky:
            alone = GraphFunction(name, Graph(graph.inputs, outputs), self.function.tensors)
            metas = tuple(t.meta for t in tensors)
            execute(make_plan(alone, None, metas, values, [None] * len(tensors), [(None, None)] * len(outputs), ()), tensors, numbers)

    def run_first(self, recorder: Recorder) -> None:
        """Run on what was recorded: pending tensors get their memory, and all their history outside the recording."""
        for state in recorder.input_states:
            if state.changed and has_new_history(state):
                state.tensor.entry, state.tensor.output, state.tensor._requires_grad = state.history
        sizes = tuple([recorder.sizes.hints[name] for name in self.sizes])
        lost = from_inner_leaves(recorder, self.states)
        fill_pending(self, self.run(self.inputs, [read() for read in self.numbers], sizes))
        for tensor in lost:
            tensor.entry, tensor.output = LostEntry([], [tensor.meta]), 0
        settle_views(recorder)


def from_inner_leaves(recorder: Recorder, states: Sequence[StorageState]) -> list[Any]:
    """The tensors over pending storages whose tape leads to a leaf made while recording."""
    shared = [t for t, owner in recorder.shared if wants_gradient(owner) or not wants_gradient(t)]  # others are such leaves too
    outside = {id(t) for t in (*shared, *recorder.unused, *(t for t, _ in recorder.inputs))}
    clean: set[int] = set()

    def leads(entry: Entry) -> bool:
        stack, seen = [entry], set[int]()
        while stack:
            one = stack.pop()
            if id(one) in seen or id(one) in clean:
                continue
            seen.add(id(one))
            ends = [edge[0] for edge in one.edges if edge is not None]
            if any(isinstance(e, TensorBase) and id(e) not in outside for e in ends):
                return True
            stack += [e for e in ends if isinstance(e, (CaptureEntry, ViewReadEntry, ViewWriteEntry))]
        clean.update(seen)
        return False

    found: list[Any] = [v for s in states for reference in s.viewers if needs_history(v := reference())]
    return [t for t in found if isinstance(t.entry, CaptureEntry) and leads(t.entry)]


def settle_views(recorder: Recorder) -> None:
    """Give the views of inputs that were made while recording their history outside of it, for the sizes of now."""
    with recorder.sizes.apart():
        for reference in recorder.input_views:
            view: Any = reference()
            if needs_history(view) and isinstance(view.entry, CaptureEntry):
                base = view.view_of.base
                view.entry, view.output = ViewReadEntry(edge_of(base), base.meta, view.meta, view.view_of), 0
                view.seen_version = view.memory.version


MOST_PLANS = 1 << 10
MOST_ENDS = 16  # results of a segment whose ways are looked at one by one


@dataclass(eq=False)
class PlanLayout:
    """What a plan of a recording needs beside the function: ``metas`` of the inputs and ``results`` may hold symbols of sizes."""

    metas: list[TensorMeta]
    results: list[TensorMeta]
    wanted: tuple[bool, ...]
    into: tuple[int | None, ...]
    recorded: list[bool]
    leaves: list[bool]  # inputs that are parameters, which change when backward has been
    calls: list[Any]  # on the tape, see `Recorder.entry`
    backend: Callable[[CallPlan], Any] | None = None  # makes what runs in place of a plan's program
    copied: frozenset[int] | None = None  # inputs, and results (as ~k), of which copies are saved for backward

    def lent(self, function: GraphFunction, sizes: Mapping[str, int]) -> frozenset[int]:
        """What backward would start from although no operator by itself keeps it, so that the program may overwrite it."""
        found: list[tuple[int, Node]] = []
        if any(self.wanted):
            graph, overwritten = function.graph, frozenset(k for k in self.into if k is not None)
            present = tuple(o.dtype.is_inexact and r for o, r in zip(graph.outputs, self.recorded, strict=True))
            derivative = function.derivative(self.wanted, present, sizes, overwritten=overwritten)
            for kind, k in () if derivative is None else derivative.saved:
                if kind == "output":
                    found.append((~k, graph.outputs[k]))
                elif kind == "input" and k not in overwritten and not self.leaves[k]:
                    found.append((k, graph.inputs[k]))
        ends = [o for o, r in zip(function.graph.outputs, self.recorded, strict=True) if r] if found else []
        below = [(o, set(toposort([o]))) for o in ends] if len(ends) <= MOST_ENDS else []
        with SizeScope(sizes):  # derivatives compare sizes, as when they were recorded
            return frozenset(k for k, node in found if not self._kept(node, below))

    def _kept(self, value: Node, below: list[tuple[Node, set[Node]]]) -> bool:
        """Whether on every way from a value to a result there is an operator that keeps it."""
        keepers = [outputs for operands, outputs, written in self.calls if keeps(operands, outputs, value, written)]
        ways = [nodes for end, nodes in below if end is not value and value in nodes]
        return bool(keepers) and all(any(o in nodes for outputs in keepers for o in outputs) for nodes in ways)

    def plan(self, function: GraphFunction, sizes: Mapping[str, int]) -> CallPlan:
        """The plan for these sizes."""
        if self.copied is None:
            self.copied, self.calls = self.lent(function, sizes), []
        metas: tuple[TensorMeta, ...] = at_hand(tuple(self.metas), sizes)
        results: list[Any] = list(self.results)
        plan = make_plan(
            function, None, metas, dict(sizes), [None] * len(metas), results, self.wanted, self.into, recorded=self.recorded,
            copied=self.copied or frozenset(),
        )  # fmt: skip
        if self.backend is not None:
            plan.run.call = self.backend(plan)
        return plan


def close_segment(recorder: Recorder, name: str, backend: Callable[[CallPlan], Any] | None = None, shadow: Any = None) -> Segment:
    """Plan the recording. Storages made inside that no tensor outside refers to are left out."""
    live = [s for s in recorder.states.values() if s.tensor is None and any(v() is not None for v in s.viewers)]
    changed = [s for s in recorder.states.values() if s.tensor is not None and s.changed]
    live += _unread_draws(recorder, [*live, *changed])
    tensors = [t for t, _ in recorder.inputs]
    inputs = [n for _, n in recorder.inputs] + [n for _, n in recorder.numbers]
    function = GraphFunction(name, Graph(tuple(inputs), tuple(s.node for s in (*live, *changed))), len(tensors))
    into = tuple([None] * len(live) + [s.position for s in changed])
    recorded = [any(needs_history(v()) for v in s.viewers) for s in live] + [has_new_history(s) for s in changed]
    wanted = tuple(s.tracked for s in recorder.input_states) if any(recorded) else ()
    metas = [recorder.sizes.meta(t) for t in tensors]
    leaves = [t._requires_grad and t.entry is None for t in tensors]
    if shadow is not None:
        backend = Shadow(name, recorder.operations or (), backend, shadow)
    results, targets = [s.meta for s in (*live, *changed)], into if changed else ()
    layout = PlanLayout(metas, results, wanted, targets, recorded, leaves, recorder.taped, backend)
    dropped = [s.position for s in changed if s.history[2] and not s.tensor._requires_grad]
    plan, names, fixed = _first_plan(function, layout, recorder.sizes)
    segment = Segment(
        function, plan, tensors, [read for read, _ in recorder.numbers], live, dropped, recorder.risky, layout, names, fixed,
        dict(recorder.sizes.hints),
    )  # fmt: skip
    segment.plans[tuple([recorder.sizes.hints[n] for n in names])] = plan
    return segment


def _unread_draws(recorder: Recorder, kept: Sequence[StorageState]) -> list[StorageState]:
    """Random numbers that nothing kept reads, as results that nobody sees: drawn all the same, they leave to the next what is theirs."""
    if not recorder.draws:
        return []
    read = set(toposort([s.node for s in kept]))
    device = kept[0].meta.device if kept else cpu
    unread = [(n, meta_of(sizes_of(n.shape), n.dtype, None, device)) for n in recorder.draws if n not in read]
    return [StorageState(Storage(0, 0, None), meta, 0, node) for node, meta in unread]


def _first_plan(function: GraphFunction, layout: PlanLayout, sizes: Sizes) -> tuple[CallPlan, tuple[str, ...], Mapping[str, int]]:
    """The plan for the sizes at hand and the symbols that it holds for other values of; else those whose values are fixed."""
    used = symbols_in((*function.graph.inputs, *function.graph.outputs)) if sizes.names else set()
    used |= {a.name for e in expressions((layout.metas, layout.results)) for a in e.atoms if a.kind == "symbol"}
    names = tuple([n for n in sizes.names if n in used])
    known = {n: sizes.hints[n] for n in names}
    try:
        return layout.plan(function, known), names, {}
    except Exception:
        if not names:
            raise
        for name in names:
            sizes.fixed(symbol(name))
        return layout.plan(GraphFunction(function.name, function.at_sizes(known), function.tensors), known), (), known


def has_new_history(state: StorageState) -> bool:
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
