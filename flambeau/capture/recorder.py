"""The recorder: while a function is traced, operator calls grow one graph instead of running.

Tensors made meanwhile are ordinary tensors over pending storages. A storage's contents are a node (its value); reading a
view applies the view's steps to that node, writing through one puts the new value into it. So mutation and aliasing never
reach the graph: what is left at the end is the last value of every storage that somebody can still see.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

from flambeau import prims as p
from flambeau.capture.computed import draws, may_raise, reaching, within
from flambeau.capture.custom import Lasting
from flambeau.capture.entries import CaptureEntry, Edge, gradient_edge, sizes_of
from flambeau.capture.regions import are_apart, is_inside, same_offset, span_of
from flambeau.capture.shadow import Operation
from flambeau.capture.sizes import Sizes, at_hand
from flambeau.capture.stress import stress
from flambeau.core.aval import Aval
from flambeau.core.context import context
from flambeau.core.device import Device, cpu
from flambeau.core.dtypes import dtype
from flambeau.core.numbers import HostInteger, HostNumber
from flambeau.core.source_lines import user_line
from flambeau.core.symbolic import Dim, Expression
from flambeau.interp.folding import make_folding
from flambeau.interp.functions import GraphFunction
from flambeau.interp.layout import view_of
from flambeau.interp.tracing import NUMBER_TYPES, fill, flatten, restructure
from flambeau.ir import origins
from flambeau.ir.graph import graph_input
from flambeau.ir.node import Node, rebuild, toposort
from flambeau.ir.origins import Origin
from flambeau.ops.declare import Operator, map_nodes
from flambeau.runtime.storage import Storage, TensorMeta, meta_of
from flambeau.tensor import dispatch
from flambeau.tensor.base import TensorBase
from flambeau.tensor.dispatch import Call, check_in_place, edge_of, refresh, wants_gradient
from flambeau.tensor.function import FunctionContext
from flambeau.tensor.transfer import axes_in_memory
from flambeau.tensor.views import Step, View, put


class StorageState:
    """A storage during a capture: ``node`` is its value in the shape of ``meta``, starting ``offset`` bytes into it.

    ``tensor`` is the outside tensor that stands for it (None for a storage made inside); ``viewers`` are the tensors made
    over it meanwhile, which get their address when the memory exists. Of an outside tensor, ``history`` is its entry, output and
    whether it requires gradients before the capture, ``tracked`` whether the graph is differentiated by it.
    """

    __slots__ = ("changed", "history", "meta", "node", "offset", "position", "serial", "storage", "tensor", "tracked", "version", "viewers")

    def __init__(self, storage: Storage, meta: TensorMeta, offset: Dim, node: Node, tensor: Any = None, position: int = -1) -> None:
        self.storage: Callable[[], Storage | None] = (lambda: storage) if tensor is not None else weakref.ref(storage)
        self.meta = meta
        self.offset = offset
        self.node = _one_node(node)
        self.tensor: Any = tensor
        self.position = position
        self.changed = False
        self.serial = -1  # of storages made inside, in their order
        self.version = storage.version
        self.viewers: list[weakref.ref[Any]] = []
        self.tracked = tensor is not None and meta.dtype.is_inexact and wants_gradient(tensor)
        self.history = (tensor.entry, tensor.output, tensor._requires_grad) if tensor is not None else (None, 0, False)


def _is_base(tensor: Any) -> bool:
    """Whether views of a tensor are views of it: it shows no other one, or takes part in autograd in another way than that one."""
    if tensor.view_of is None or isinstance(tensor.entry, FunctionContext):
        return True
    return wants_gradient(tensor) and not wants_gradient(tensor.view_of.base)


def _one_node(node: Node) -> Node:
    """A complex value as a node to which gradients go, whatever it shows: what reads a pair, or a view, reads the parts behind it."""
    return p.whole(node) if node.dtype.is_complex else node


class Unfollowed(NotImplementedError):
    """A tensor shows memory of another one that the graph does not hold."""


class Recorder:
    """One capture; set as ``context.capture`` while it records."""

    def __init__(self, sizes: Sizes, shadow: bool = False) -> None:
        self.sizes = sizes
        self.operations: list[Operation] | None = [] if shadow else None
        self.states: dict[int, StorageState] = {}  # by id of the storage
        self.arguments: dict[int, list[Any]] = {}  # of the compiled function, by the ids of their memory
        self.inputs: list[tuple[Any, Node]] = []
        self.numbers: list[tuple[Callable[[], Any], Node]] = []
        self.gradients_seen: dict[int, tuple[Any, Any, bool]] = {}
        self.calls = 0
        self.taped: list[Any] = []  # of calls on the tape: operands, outputs, and the operand that was overwritten
        self._views: dict[tuple[Any, ...], tuple[Node, Node]] = {}
        self.input_states: list[StorageState] = []
        self.input_views: list[weakref.ref[Any]] = []
        # Outside tensors in the memory of another one, which the graph reads at the place that they have in it now.
        self.shared: list[tuple[Any, Any]] = []
        self.spans: list[tuple[Any, Any]] = []  # a tensor over the memory of several arguments, and the first of these
        self.draws: list[Node] = []  # random numbers
        self.sources: dict[int, tuple[Any, Any]] = {}  # by id, tensors made in the place of others, and those
        # By id, tensors over outside memory that the function itself made, and what they show.
        self._made: dict[int, tuple[weakref.ref[Any], StorageState]] = {}
        self.beside: dict[int, list[StorageState]] = {}  # further inputs in the memory of one, by id of the memory: they are apart
        self._active: dict[Node, bool] = {}
        self._copies = 0
        self._device: Device | None = None
        self.serial = 0
        self.trial: int | None = None  # storages up to this serial must not change
        self.unused: list[Any] = []  # inputs that nothing was computed from, to which the tape may lead
        self.closed: list[StorageState] = []  # storages made inside that the segment gives out
        self.ways: Any = None  # knows the entries of earlier segments, and hooks
        self.on_value: Callable[[str], None] | None = None
        self.on_number: Callable[[Any], Any] = lambda number: number.read
        self.on_size: Callable[[Any], Any] = lambda size: int(size)
        self.on_module: Callable[[Any], None] | None = None
        self.on_input: Callable[[Any], None] | None = None  # told of an outside tensor when it is first used
        self.on_gradient: Callable[[Any, bool], None] | None = None  # told when the gradient of a leaf is first read, or written
        self.on_guard: Callable[[Callable[[], Any]], Any] | None = None
        self.risky: list[tuple[str, tuple[Node, ...]]] = []  # operators that may raise on values, and their results
        self.on_risk: Callable[[], bool] | None = None
        self.on_flush: Callable[[], None] | None = None
        self.on_cut: Callable[[str], None] = lambda reason: None
        self.on_look: Callable[[Any], None] | None = None
        self.on_literal: Callable[[Any], None] | None = None
        self.start: Callable[[Callable[[], None]], None] = lambda make: make()  # makes state that outlives the call

    # -- reading ----------------------------------------------------------------------------------------
    def state(self, tensor: Any) -> StorageState:
        """The state of a tensor's storage; an outside storage becomes an input of the graph."""
        found = self.states.get(id(tensor.memory))
        if found is None and id(tensor.memory) in self.arguments:
            self._declare(self.arguments[id(tensor.memory)])
            return self.state(tensor)
        if found is None:
            view = None if _is_base(tensor) else tensor.view_of
            shown = view is not None and view.base.memory is tensor.memory and not self._varies_alone(tensor)
            owner = view.base if view is not None and shown else tensor
            return self._add_input(owner)
        return found if found.tensor is None else self._part(tensor, found)

    def _part(self, tensor: Any, first: StorageState) -> StorageState:
        """The state of the input that a tensor in outside memory shows, of those in this memory, which are apart; it may become one."""
        made, state = self._made.get(id(tensor), (None, first))
        if made is not None and made() is tensor:
            return state
        parts = [first, *self.beside.get(id(tensor.memory), ())]
        with self.sizes.apart():
            known = [s for s in parts if is_inside(tensor, s.tensor)]
            if known or not all(are_apart(tensor, s.tensor) for s in parts):
                return known[0] if known else first
        if id(tensor.memory) not in self.arguments:
            self.shared.append((tensor, first.tensor))
        return self._add_input(tensor)

    def _varies_alone(self, tensor: Any) -> bool:
        """Whether a tensor from outside has variable sizes, which how it was made of its base says nothing about."""
        return self.sizes.is_tracked(tensor) and not self.sizes.trace.was_made(tensor)

    def declare(self, arguments: Sequence[Any]) -> None:
        """Make arguments inputs as they are, also views of something else; later segments do where they first use one."""
        for tensor in arguments:
            self.arguments.setdefault(id(tensor.memory), []).append(tensor)
        for group in self.arguments.values():
            self._declare(group)

    def _declare(self, group: list[Any]) -> None:
        """Make an input of arguments that share memory: they are parts of what they span."""
        owner = group[0]
        if len(group) > 1:
            with self.sizes.apart():
                distinct = all(are_apart(a, b) for a, b in combinations(group, 2))
            if distinct:
                for tensor in group:
                    self._add_input(tensor)
                return
            for tensor in group:
                self.sizes.untrack(tensor)
        apart = len({(t.address, t.meta) for t in group}) > 1
        if apart and len({t.meta.dtype for t in group}) == 1 and not any(map(wants_gradient, group)):
            owner = span_of(group)
            self.spans.append((owner, group[0]))
        self._add_input(owner)
        self.shared += [(t, owner) for t in group if t is not owner]

    def _add_input(self, tensor: Any) -> StorageState:
        if self.on_input is not None:
            self.on_input(tensor)
        node = graph_input(f"x{len(self.inputs)}", Aval(tensor.meta.shape, tensor.meta.dtype))
        state = StorageState(tensor.memory, tensor.meta, self.sizes.offset(tensor), node, tensor, len(self.inputs))
        self._active[node] = state.tracked
        self.inputs.append((tensor, node))
        self.input_states.append(state)
        if id(tensor.memory) in self.states:
            self.beside.setdefault(id(tensor.memory), []).append(state)
        self.states[id(tensor) if id(tensor.memory) in self.states else id(tensor.memory)] = state
        return state

    def active(self, node: Node) -> bool:
        """Whether differentiating the graph would go through ``node`` to an input."""
        known = self._active
        for n in toposort([node], lambda n: () if n in known else n.sources):
            if n not in known:
                sources = n.sources[1:] if n.op is p.attach else n.sources
                known[n] = n.op is not p.detach and n.dtype.is_inexact and any(known.get(s, False) for s in sources)
        return known[node]

    def read(self, tensor: Any) -> Node:
        """The value of a tensor as a node."""
        state = self.state(tensor)
        offset = self.sizes.offset(tensor)
        if tensor.meta is state.meta and same_offset(offset, state.offset):
            return state.node
        key = (id(tensor.memory), offset, tensor.meta)
        cached = self._views.get(key)
        if cached is not None and cached[0] is state.node:
            return cached[1]
        view = self._view_node(tensor, state, state.node)
        if cached is None and state.tensor is not None and id(tensor) not in self._made:
            self.shared.append((tensor, state.tensor))
        self._views[key] = (state.node, view)
        return view

    def _view_node(self, tensor: Any, state: StorageState, base: Node) -> Node:
        """What ``tensor`` shows of a storage whose value is ``base``."""
        view: View | None = None if self._varies_alone(tensor) else tensor.view_of
        steps = () if view is None else view.steps
        if view is not None and not (view.base.meta is state.meta and same_offset(self.sizes.offset(view.base), state.offset)):
            shown = None if state.tensor is None else state.tensor.view_of  # which may be a view itself
            further = shown is not None and shown.base is view.base and all(map(operator.is_, shown.steps, steps))
            steps = steps[len(shown.steps) :] if shown is not None and further else ()
        if steps:
            node = base
            for step in steps:
                node = step.through(node)
            if node.shape == tensor.meta.shape and node.dtype is tensor.meta.dtype:
                return node
        offset = (self.sizes.offset(tensor) - state.offset) // tensor.meta.dtype.itemsize
        inside = offset >= 0 and offset + tensor.meta.extent <= state.meta.numel
        order = axes_in_memory(state.meta)
        if order is None or tensor.meta.dtype is not state.meta.dtype or not inside:
            raise Unfollowed("capture: a tensor shares memory with another in a way that cannot be followed; clone() it first")
        flat = p.reshape(base if state.meta.contiguous else p.permute(base, axes=order), shape=(state.meta.numel,))
        return p.as_strided(flat, shape=tensor.meta.shape, strides=tensor.meta.strides, offset=offset)

    # -- calls ------------------------------------------------------------------------------------------
    def takes(self, device: Device) -> bool:
        """Whether what is on a device belongs into the graph, which is for one device; the capture ends where it does not."""
        if self._device is None:
            self._device = device
        if device == self._device:
            return True
        self.flush("it uses two devices")
        return False

    def _follows(self, tensors: Sequence[Any]) -> bool:
        """Whether the graph differentiates by all that the tape does: what a tensor without history showed first is a constant to it.

        Where it does not, the segment ends, so that the next one begins with the tensors that have a history.
        """
        if not context.grad_enabled:
            return True
        wanted = [t for t in tensors if (edge := gradient_edge(t)) is not None and self._from_outside(edge)]
        fresh = not self.computes() and not self.inputs
        if all(self._has_history_of(t) for t in wanted):
            return True
        if fresh:
            self.flush("it reads memory in which tensors have histories of their own")
        else:
            assert self.on_flush is not None
            self.on_flush()
        return False

    def _from_outside(self, edge: tuple[Any, int]) -> bool:
        """Whether a gradient that goes there leaves the graph."""
        entry = edge[0]
        if isinstance(entry, (dispatch.ViewReadEntry, dispatch.ViewWriteEntry)):
            return any(self._from_outside(e) for e in entry.edges if e is not None)
        return not (isinstance(entry, CaptureEntry) and entry.recorder is self)

    def _has_history_of(self, tensor: Any) -> bool:
        state = self.state(tensor)
        owner = tensor if _is_base(tensor) else tensor.view_of.base
        trace = self.sizes.trace
        twin = trace.twins.get(id(owner), (None, None))[1]  # of a ghost's tensor, whose history is not settled
        shown = state.tensor is None or owner is state.tensor or tensor is state.tensor
        if shown or twin is not None or isinstance(owner.entry, CaptureEntry):
            return state.tensor is None or state.tracked
        if owner.entry is None and trace.was_made(owner) and trace.known.get(id(owner), (None, None))[1] is not owner:
            return True  # a leaf that was made while recording
        return state.tracked and owner.entry is not None and (owner.entry, owner.output) == state.history[:2]

    def _takes_all(self, tensors: Sequence[Any]) -> bool:
        return all(self.takes(device) for device in {t.meta.device for t in tensors} or {cpu})

    def call(self, call: Call) -> Any:
        """Record an operator call; returns pending tensors in the structure of its results."""
        if not self._takes_all(call.tensors):
            return dispatch.run_call(call)
        if not self._follows(call.tensors):
            return dispatch.run_call(call) if context.capture is None else context.capture.call(call)
        try:
            if self.on_risk is not None and self.on_risk() and self._may_raise(call):
                return self._at_once(call)
            made = self._record(call)
            if stress.flush and self.on_flush is not None:
                self.on_flush()
            return made
        except Unfollowed:
            return self._once_more(lambda recorder: recorder._record(call), lambda: dispatch.run_call(call))

    def _once_more(self, record: Callable[[Recorder], Any], run: Callable[[], Any]) -> Any:
        """Record something in a new segment, as in this one a tensor shares memory in a way that the graph does not hold; else run it."""
        assert self.on_flush is not None
        self.on_flush()
        recorder = context.capture
        try:
            return run() if recorder is None else record(recorder)
        except Unfollowed:
            recorder.flush("it reads memory that it shares with another tensor")  # type: ignore[union-attr]
            return run()

    def _may_raise(self, call: Call) -> bool:
        """Whether running an operator may raise because of the values that it meets."""
        nodes = [self.read(t) for t in call.tensors]
        outputs: list[Node] = []
        flatten(call.operator.inline(list(fill(call.template, nodes, call.numbers, call.sizes))), outputs)
        return may_raise(within(outputs, nodes))

    def _at_once(self, call: Call) -> Any:
        """Run an operator in a segment of its own, since somebody waits for the exception that it may raise."""
        assert self.on_flush is not None
        self.on_flush()
        recorder = context.capture
        if recorder is None:
            return dispatch.run_call(call)
        made = recorder._record(call)
        self.on_flush()
        return made

    def _record(self, call: Call) -> Any:
        self.calls += 1
        operator = call.operator
        if operator.kind in ("view", "reshape"):
            # A complex value is one node to the views of it, however it was made.
            nodes = [_one_node(self.read(t)) for t in call.tensors]
            outputs, structure = self._inline(call, nodes)
            views = self._views_of(call, nodes, outputs)
            if views is not None:
                return restructure(structure, views)
            if operator.kind == "view":
                raise RuntimeError(
                    f"{operator.name}: size {list(sizes_of(outputs[0].shape))} is not compatible with input tensor's size "
                    f"{list(call.tensors[0].meta.shape)} and stride {list(call.tensors[0].meta.strides)}. Use .reshape(...) instead."
                )
        nodes = self._read_operands(call)
        outputs, structure = self._inline(call, nodes)
        if operator.mutates:
            return restructure(structure, self._mutate(call, nodes, outputs))
        metas = self._metas(operator, call.tensors, outputs)
        return restructure(structure, self.results(operator.name, self._operands(call, nodes), list(zip(outputs, metas, strict=True))))

    def _inline(self, call: Call, nodes: list[Node]) -> tuple[list[Node], Any]:
        """The nodes of an operator's results and their structure."""
        outputs: list[Node] = []
        result = call.operator.inline(list(fill(call.template, nodes, [self.number(n) for n in call.numbers], call.sizes)))
        structure = flatten(result, outputs)
        self._note(call.operator.name, outputs)
        computed = within(outputs, nodes)
        self.draws += draws(computed, nodes)
        if may_raise(computed):
            self.risky.append((call.operator.name, tuple(outputs)))
        return self._reaching(call, nodes, outputs, computed), structure

    def _note(self, name: str, outputs: Sequence[Node], line: str = "") -> None:
        """Remember which operator made nodes, and where, if somebody wants to know."""
        if origins.wanted() or self.operations is not None:
            line = line or user_line()
            if origins.wanted():
                origins.note_origin(outputs, Origin(line, name))
            if self.operations is not None:
                self.operations.append(Operation(name, line, tuple(outputs)))

    def _read_operands(self, call: Call) -> list[Node]:
        """The values of a call's tensors, all different: where the tape does not go on they are constants to differentiation."""
        nodes: list[Node] = []
        met: set[Node] = set()
        for tensor in call.tensors:
            node = self.read(tensor)
            if not (context.grad_enabled and gradient_edge(tensor) is not None):
                node = p.detach(node) if self.active(node) else node
            nodes.append(self._apart(node, met))
        return nodes

    def _apart(self, node: Node, met: set[Node]) -> Node:
        """The node, or a copy of it where it has been met."""
        node = _one_node(node)
        node = _one_node(p.copy(node, index=self.fresh())) if node in met else node
        met.add(node)
        return node

    def fresh(self) -> int:
        """A number that keeps a node apart from equal ones."""
        self._copies += 1
        return -self._copies

    def stand_in(self, meta: TensorMeta) -> Any:
        """A tensor for a gradient that is not there yet."""
        node = graph_input(f"cotangent{-self.fresh()}", Aval(meta.shape, meta.dtype))
        self._active[node] = True
        tensor = self.pending(node, meta)
        tensor._requires_grad = True
        return tensor

    def forget_since(self, serial: int) -> None:
        """Forget the storages made since then."""
        for key, state in list(self.states.items()):
            if state.tensor is None and state.serial > serial:
                del self.states[key]

    def _metas(self, operator: Operator, tensors: Sequence[Any], outputs: Sequence[Node]) -> list[TensorMeta]:
        if operator.kind == "pointwise" and tensors:
            folding = make_folding([t.meta for t in tensors], operator.name)
            return [meta_of(folding.shape, n.dtype, folding.strides, tensors[0].meta.device) for n in outputs]
        device = tensors[0].meta.device if tensors else cpu
        return [meta_of(sizes_of(n.shape), n.dtype, None, device) for n in outputs]

    def number(self, value: Any) -> Any:
        """A number as the body sees it: a constant, or an input that every call reads again."""
        if not isinstance(value, (HostNumber, HostInteger)):
            return value
        kind = NUMBER_TYPES[float if isinstance(value, float) else int]
        node = graph_input(f"c{len(self.numbers)}", Aval((), kind, True))
        self.numbers.append((self.on_number(value), node))
        return node

    def host_number(self, size: Expression) -> Any:
        """A size as a number that every call reads again."""
        return self.on_size(size)

    def _reaching(self, call: Call, nodes: Sequence[Node], outputs: list[Node], computed: Sequence[Node]) -> list[Node]:
        wanted = [n for n, edge in self._operands(call, nodes) if edge is not None] if context.grad_enabled else []
        return reaching(outputs, computed, wanted)

    @staticmethod
    def _operands(call: Call, nodes: Sequence[Node]) -> list[tuple[Node, Edge]]:
        return [(n, gradient_edge(t)) for t, n in zip(call.tensors, nodes, strict=True)]

    def results(self, title: str, operands: list[tuple[Node, Edge]], outputs: list[tuple[Node, TensorMeta]]) -> list[Any]:
        """Pending tensors for the outputs of a call on ``operands``, recorded on the tape if gradients are wanted."""
        made = [self.pending(node, meta) for node, meta in outputs]
        self._put_on_tape(title, operands, outputs, made)
        return made

    def _put_on_tape(self, title: str, operands: list[tuple[Node, Edge]], outputs: list[tuple[Node, TensorMeta]], made: list[Any]) -> None:
        if not context.grad_enabled or all(edge is None for _, edge in operands):
            return
        entry = self.entry(title, operands, outputs)
        for output, tensor in enumerate(made):
            if tensor.meta.dtype.is_inexact:
                tensor.entry, tensor.output, tensor._requires_grad = entry, output, True

    def entry(
        self, title: str, operands: list[tuple[Node, Edge]], outputs: list[tuple[Node, TensorMeta]], overwritten: Node | None = None
    ) -> CaptureEntry:
        """A call on the tape; of an operand that it overwrites it keeps a copy."""
        self.taped.append((operands, [n for n, _ in outputs], overwritten))
        entry = CaptureEntry(self, title, operands, outputs)
        self.ways.note_use(entry)
        return entry

    def pending(self, node: Node, meta: TensorMeta) -> Any:
        """A tensor over new memory that does not exist yet."""
        storage = Storage(at_hand(meta.nbytes, self.sizes.hints), 0, None)
        state = StorageState(storage, meta, 0, node)
        storage.pending = state
        state.serial = self.serial = self.serial + 1
        key, states = id(storage), self.states
        states[key] = state
        state.storage = weakref.ref(storage, lambda _: states.pop(key, None))
        return self._tensor(storage, 0, meta, state)

    def offset(self, tensor: Any) -> Dim:
        """Where in its memory a tensor begins, in bytes."""
        return self.sizes.offset(tensor)

    def note(self, tensor: Any, source: Any) -> None:
        """A tensor was made in the place of another one."""
        self.sizes.track(tensor, self.sizes.meta(source), self.sizes.offset(source))
        self.sizes.trace.made_tensors[id(tensor)] = weakref.ref(tensor)
        if source.memory.pending is None:
            self.sources[id(tensor)] = tensor, source

    def zeros(self, shape: tuple[int, ...], kind: dtype, device: Device) -> Any:
        """A new tensor of zeros on a device that the graph takes; also what undefined contents are."""
        return self.pending(p.constant(0, shape, kind), meta_of(shape, kind, None, device))

    def constant(self, tensor: Any) -> Any:
        """A new tensor with the contents of one that was made from Python data during the capture."""
        if self.on_literal is not None:
            self.on_literal(tensor)
        return self.pending(p.copy(self.read(tensor)), tensor.meta)

    def _tensor(self, storage: Storage, address: Dim, meta: TensorMeta, state: StorageState) -> Any:
        """``address`` may be an expression plus the address of the storage."""
        tensor = dispatch.new_tensor(storage, at_hand(address, self.sizes.hints), meta)
        self.sizes.track(tensor, meta, address - storage.address)
        self.sizes.trace.made_tensors[id(tensor)] = weakref.ref(tensor)
        if state.tensor is None:
            state.viewers.append(weakref.ref(tensor))
        else:
            self._made[id(tensor)] = weakref.ref(tensor), state
        return tensor

    def over(self, memory: Storage, meta: TensorMeta) -> Any:
        """A tensor over all of a memory that does not exist yet."""
        return self._tensor(memory, memory.address, meta, self.states[id(memory)])

    def alias(self, tensor: Any) -> Any:
        """Another tensor over the same memory, without history: ``detach()``."""
        if gradient_edge(tensor) is not None:
            self.state(tensor)  # as what has a history
        state = self.state(tensor) if id(tensor.memory) in self.states else None
        if state is None:
            made = dispatch.new_tensor(tensor.memory, tensor.address, tensor.meta)
            self.note(made, tensor)
            return made
        return self._tensor(tensor.memory, tensor.memory.address + self.sizes.offset(tensor), tensor.meta, state)

    def _views_of(self, call: Call, nodes: list[Node], outputs: Sequence[Node]) -> list[Any] | None:
        source = call.tensors[0]
        state = self.state(source)
        layout = [(source.meta.shape, source.meta.strides)]
        found = [view_of(n, nodes[:1], layout) for n in outputs]
        if any(v is None for v in found):
            return None
        made: list[Any] = []
        for output, (view, node) in enumerate(zip(found, outputs, strict=True)):
            assert view is not None
            meta = meta_of(view.shape, node.dtype, view.strides, source.meta.device)
            begin = source.memory.address + self.sizes.offset(source)
            tensor = self._tensor(source.memory, begin + view.offset * meta.dtype.itemsize, meta, state)
            step = Step(call.operator, call.template, tuple(call.sizes), output)
            tensor.view_of = View(source, (step,)) if _is_base(source) else View(source.view_of.base, (*source.view_of.steps, step))
            tensor.seen_version = tensor.memory.version
            self._views[id(tensor.memory), self.sizes.offset(tensor), meta] = (state.node, node)
            made.append(tensor)
            if state.tensor is not None:
                self.input_views.append(weakref.ref(tensor))
        self._put_on_tape(call.operator.name, self._operands(call, nodes), [(n, t.meta) for n, t in zip(outputs, made, strict=True)], made)
        return made

    def run_graph(self, function: GraphFunction, operand: Any) -> list[Any]:
        """Record a call of a function of one tensor."""
        if not self.takes(operand.meta.device):
            return dispatch.run_graph(function, operand)
        node = self.read(operand)
        outputs = rebuild(function.graph.outputs, lambda node, sources: None, {function.graph.inputs[0]: node})
        found = [(output, meta_of(sizes_of(output.shape), output.dtype, None, operand.meta.device)) for output in outputs]
        return self.results(function.name, [(node, gradient_edge(operand))], found)

    # -- backward ---------------------------------------------------------------------------------------
    def run_backward(self, entry: Any, derivative: Any, places: Sequence[int], cotangents: Sequence[Any]) -> list[Any]:
        """Record what an entry of an earlier segment gives: a function of what it saved and of the cotangents."""
        saved, numbers = self.ways.saved(entry, places, derivative.saved_numbers)
        nodes = [self.read(t) for t in (*saved, *cotangents)] + [self.number(n) for n in numbers]
        graph, device = derivative.backward.graph, entry.metas[0].device
        outputs = rebuild(graph.outputs, lambda node, sources: None, dict(zip(graph.inputs, nodes, strict=True)))
        self._note(derivative.backward.name, outputs)
        made = iter(self.results("", [], [(n, meta_of(sizes_of(n.shape), n.dtype, None, device)) for n in outputs]))
        return [next(made) if given else None for given in derivative.given]

    # -- changes ----------------------------------------------------------------------------------------
    def write(self, tensor: Any, value: Node, followed: bool = False) -> None:
        """Make ``value`` the contents of what ``tensor`` shows. Unless the tape has ``followed``, the history stays what it was."""
        state = self.state(tensor)
        if self.trial is not None and state.serial <= self.trial:
            raise Lasting
        before = state.node
        if tensor.meta is state.meta and same_offset(self.sizes.offset(tensor), state.offset):
            state.node = value
        else:
            state.node = put(state.node, self._view_node(tensor, state, state.node), value)
        if not followed and self.active(before):
            state.node = p.attach(state.node, before)
        state.node = _one_node(state.node)
        state.changed = True
        tensor.memory.version += 1

    def _mutate(self, call: Call, nodes: list[Node], outputs: list[Node]) -> list[Any]:
        operator = call.operator
        slots = [s for name in operator.mutates for s in dispatch.slots_of(call.template[operator.names.index(name)])]
        made: list[Any] = []
        for slot, node in zip(slots, outputs, strict=False):
            target = call.tensors[slot.index]
            check_in_place(operator.name, target)
            self.write(target, node if node.dtype is target.meta.dtype else p.cast(node, to=target.meta.dtype))
            made.append(target)
        rest = [(n, meta_of(sizes_of(n.shape), n.dtype, None, call.tensors[0].meta.device)) for n in outputs[len(slots) :]]
        return made + self.results(operator.name, self._operands(call, nodes), rest)

    def call_into(self, call: Call, target: Any) -> Any:
        """Record an in-place call or one with ``out=``."""
        if not self._takes_all([*call.tensors, target]):
            return dispatch.run_into(call, target)
        if not self._follows([*call.tensors, target]):
            return dispatch.run_into(call, target) if context.capture is None else context.capture.call_into(call, target)
        try:
            return self._record_into(call, target)
        except Unfollowed:
            return self._once_more(lambda recorder: recorder._record_into(call, target), lambda: dispatch.run_into(call, target))

    def _record_into(self, call: Call, target: Any) -> Any:
        self.calls += 1
        operator = call.operator
        check_in_place(operator.name, target)
        if context.grad_enabled and self._is_outside_view(target) and any(map(wants_gradient, (target, *call.tensors))):
            self.flush("it changes a view that it was given, and with it the history of the tensor that it shows")
            return dispatch.run_into(call, target)
        nodes = self._read_operands(call)
        result = operator.inline(list(fill(call.template, nodes, [self.number(n) for n in call.numbers], call.sizes)))
        kind = target.meta.dtype
        node = map_nodes(lambda n: n if n.dtype is kind else p.cast(n, to=kind), result)
        if not isinstance(node, Node):
            raise NotImplementedError(f"{operator.name}: out= with several results is not supported; copy_() the results instead")
        if sizes_of(node.shape) != target.meta.shape:
            raise RuntimeError(
                f"{operator.name}_: output with shape {list(target.meta.shape)} doesn't match the broadcast shape "
                f"{list(sizes_of(node.shape))}"
            )
        computed = within([node], nodes)
        self.draws += draws(computed, nodes)
        (node,) = self._reaching(call, nodes, [node], computed)
        self._note(operator.name + "_", (node,))
        operands = self._operands(call, nodes)
        entry = None
        if context.grad_enabled and kind.is_inexact and any(edge is not None for _, edge in operands):
            entry = self.entry(operator.name, operands, [(node, target.meta)], self.read(target))
        self.write(target, node, followed=entry is not None or (context.grad_enabled and target._requires_grad))
        if context.grad_enabled:
            self._rebase(target, entry)
        return target

    def _is_outside_view(self, target: Any) -> bool:
        """Whether a tensor lies in the memory of a view of something that the graph does not hold."""
        owner = self.state(target).tensor
        view = None if owner is None else owner.view_of
        return owner is not None and view is not None and view.base.memory is owner.memory and bool(view.steps)

    def _rebase(self, target: Any, entry: CaptureEntry | None) -> None:
        if entry is None and not target._requires_grad:
            return
        target.entry, target.output, target._requires_grad = entry, 0, entry is not None
        view = target.view_of
        if view is not None:
            base = view.base
            base.entry, base.output, base._requires_grad = (
                dispatch.ViewWriteEntry([edge_of(base), edge_of(target)], base.meta, view),
                0,
                True,
            )
            refresh(target)

    # -- gradients of leaves ----------------------------------------------------------------------------
    def gradient_read(self, leaf: Any) -> None:
        """Somebody looks at ``leaf.grad``: what it was when the capture began matters."""
        self._see_gradient(leaf, True)

    def gradient_written(self, leaf: Any) -> None:
        """``leaf.grad`` is being replaced; what it was does not matter unless it was read before."""
        self._see_gradient(leaf, False)

    def _see_gradient(self, leaf: Any, read: bool) -> None:
        if id(leaf) not in self.gradients_seen:
            if self.on_gradient is not None and leaf.memory.pending is None:
                self.on_gradient(leaf, read)
            self.gradients_seen[id(leaf)] = (leaf, leaf._grad, read)

    def forget_inner_gradients(self) -> None:
        """Drop what was seen of leaves made during the capture."""
        for key, (leaf, _, _) in list(self.gradients_seen.items()):
            state = self.states.get(id(leaf.memory))
            if state is not None and state.tensor is None:
                del self.gradients_seen[key]

    # -- what else the trace depends on -----------------------------------------------------------------
    def guard(self, read: Callable[[], Any]) -> Any:
        """What ``read()`` gives; the trace holds only as long as it gives that."""
        return read() if self.on_guard is None else self.on_guard(read)

    def note_module(self, module: Any) -> None:
        """A Module is called: the trace depends on its structure, and on that of the Modules in it."""
        if self.on_module is not None:
            self.on_module(module)

    def drop_unused(self) -> None:
        """Forget inputs that nothing was computed from."""
        used = set(toposort([s.node for s in self.states.values() if s.tensor is None or s.changed]))
        kept = [(pair, s) for pair, s in zip(self.inputs, self.input_states, strict=True) if pair[1] in used or s.changed]
        held = {id(t) for (t, _), _ in kept}
        self.unused += [t for t, _ in self.inputs if id(t) not in held]
        self.inputs, self.input_states = [pair for pair, _ in kept], [s for _, s in kept]
        for position, state in enumerate(self.input_states):
            state.position = position
        present = {id(t) for t, _ in self.inputs}
        self.shared = [(part, owner) for part, owner in self.shared if id(owner) in present]

    def computes(self) -> bool:
        """Whether anything was computed, or written into outside memory."""
        return self.serial > 0 or any(s.changed for s in self.input_states)

    def end_segment(self, reason: str) -> None:
        """Somebody asks for the end of the graph."""
        self.on_cut(reason)
        if self.on_flush is not None:
            self.on_flush()

    def holds_tape(self, outputs: Sequence[Any], inputs: Sequence[Any]) -> bool:
        """Whether all that gradients of outputs by inputs go through was recorded here, or in a ``vmap``, whose operators will be."""
        stops = {edge_of(t) for t in inputs}
        stack, seen = [edge_of(t) for t in outputs], set[int]()
        while stack:
            edge = stack.pop()
            if edge is None or edge in stops or isinstance(edge[0], TensorBase) or id(edge[0]) in seen:
                continue
            seen.add(id(edge[0]))
            if isinstance(edge[0], CaptureEntry) and edge[0].recorder is not self:
                return False
            stack += edge[0].edges
        return True

    def look(self, tensor: Any) -> None:
        """The contents of a tensor are looked at."""
        if self.on_look is not None:
            self.on_look(tensor)
        else:
            self.flush()

    def flush(self, reason: str = "an operator needs the value of a tensor") -> None:
        """Somebody needs values now."""
        assert self.on_value is not None
        self.on_value(reason)

    def left_with(self, tensor: Any, reason: str) -> Any:
        """Record nothing more; the tensor that the program goes on with where this one is the ghost's."""
        self.flush(reason)
        return self.sizes.trace.original(tensor)


__all__ = ["CaptureEntry", "Recorder", "StorageState", "wants_gradient"]
