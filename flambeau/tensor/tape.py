"""The tape: one entry per differentiable call, and the engine that walks it backward."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core.context import context
from flambeau.runtime.native.records import EntryFields, SavedFields, next_sequence
from flambeau.runtime.storage import TensorMeta
from flambeau.tensor.base import TensorBase

SECOND_BACKWARD = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). Saved "
    "intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to "
    "backward through the graph a second time or if you need to access saved tensors after calling backward."
)


class Saved(SavedFields):
    """A tensor kept for backward, with the version it must still have."""

    __slots__ = ()
    tensor: TensorBase
    version: int
    output: int

    def __init__(self, tensor: TensorBase, output: int = -1) -> None:
        self.tensor = tensor
        tensor.count_changes()
        self.version = tensor.memory.version
        self.output = output  # >= 0: it is this output of the entry itself, kept without its entry to avoid a cycle


class Packed:
    """What ``saved_tensors_hooks`` made of a tensor kept for backward."""

    __slots__ = ("edge", "output", "packed", "unpack")

    def __init__(self, saved: Saved, hooks: tuple[Callable[[Any], Any], Callable[[Any], Any]]) -> None:
        pack, self.unpack = hooks
        tensor: Any = saved.tensor
        self.output, self.edge = saved.output, (tensor.entry, tensor.output, tensor._requires_grad)
        before, context.saved_hooks = context.saved_hooks, ()
        recording, context.grad_enabled = context.grad_enabled, False
        try:
            self.packed = pack(tensor.detach())
        finally:
            context.saved_hooks, context.grad_enabled = before, recording

    def unpacked(self) -> TensorBase:
        """The tensor again, with the history that it had where that is needed."""
        found = self.unpack(self.packed)
        if not isinstance(found, TensorBase):
            raise TypeError(f"saved_tensors_hooks: unpack_hook must give a tensor, got {type(found).__name__}")
        tensor: Any = found
        entry, output, requires_grad = self.edge
        if context.grad_enabled and requires_grad:
            if entry is None:
                raise NotImplementedError("saved_tensors_hooks: second derivatives by leaves are not followed; leave out create_graph")
            tensor = tensor.detach()
            tensor.entry, tensor.output, tensor._requires_grad = entry, output, True
        return tensor


def pack_saved(entry: Any) -> None:
    """Send what an entry has saved through the innermost ``saved_tensors_hooks``."""
    entry.saved = [Packed(saved, context.saved_hooks[-1]) for saved in entry.saved]
    entry.pre_hooks.append(lambda _: None)  # with one the walk asks the entry itself


class Entry(EntryFields):
    """One differentiable call. ``edges[i]`` is where gradient i goes: (entry or leaf tensor, which of its outputs), or None.

    ``apply(cotangents)`` gives the gradients; a cotangent is None where nothing came back. ``metas`` describe the outputs. The
    fields ``plan``, ``numbers`` and ``saved`` are for subclasses.
    """

    __slots__ = ()
    edges: list[tuple[Any, int] | None]
    metas: Sequence[TensorMeta]
    plan: Any
    numbers: Any
    saved: Any
    sequence: int
    _hooks: list[Callable[..., Any]] | None
    _pre_hooks: list[Callable[..., Any]] | None
    _output_hooks: dict[int, dict[int, Any]] | None
    _metadata: dict[Any, Any] | None

    _title = "Backward"

    def __init__(self, edges: list[tuple[Any, int] | None], metas: Sequence[TensorMeta]) -> None:
        self.edges = edges
        self.metas = list(metas)
        self.sequence = next_sequence()
        self._hooks = self._pre_hooks = self._output_hooks = self._metadata = None

    @property
    def hooks(self) -> list[Callable[..., Any]]:
        """Called with the gradients after the entry has run."""
        if self._hooks is None:
            self._hooks = []
        return self._hooks

    @property
    def pre_hooks(self) -> list[Callable[..., Any]]:
        """Called with the cotangents before it runs."""
        if self._pre_hooks is None:
            self._pre_hooks = []
        return self._pre_hooks

    @property
    def output_hooks(self) -> dict[int, dict[int, Any]]:
        """The hooks of the tensors that are its outputs."""
        if self._output_hooks is None:
            self._output_hooks = {}
        return self._output_hooks

    @property
    def metadata(self) -> dict[Any, Any]:
        """What the user keeps with the entry."""
        if self._metadata is None:
            self._metadata = {}
        return self._metadata

    def apply(self, cotangents: list[TensorBase | None]) -> Sequence[TensorBase | None]:
        raise NotImplementedError

    def release(self) -> None:
        """Drop what was saved."""

    # -- torch's names ----------------------------------------------------------------------------------
    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        return tuple((None, 0) if e is None else (AccumulateGrad(e[0]), 0) if isinstance(e[0], TensorBase) else e for e in self.edges)

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHook:
        """Call ``hook(grad_inputs, grad_outputs)`` after the entry has run."""
        return RemovableHook(self.hooks, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHook:
        """Call ``hook(grad_outputs)`` before the entry runs."""
        return RemovableHook(self.pre_hooks, hook)

    def name(self) -> str:
        """What it differentiates: MulBackward0."""
        return self._title

    def __repr__(self) -> str:
        return f"<{self._title} object at {id(self):#x}>"


class LostEntry(Entry):
    """The history of a result that leads to a leaf which a recording made: what a segment remembers of it is by its inputs alone."""

    __slots__ = ()
    _title = "LostBackward"

    def apply(self, cotangents: list[TensorBase | None]) -> Sequence[TensorBase | None]:
        raise NotImplementedError(
            "gradients by a leaf that a compiled function itself made (by detach().requires_grad_(), or through torch.func) of what it "
            "computed before a value was needed: take them before, make the leaf outside, or leave the function out of compile()"
        )


class AccumulateGrad:
    """What ``next_functions`` shows for a leaf."""

    def __init__(self, variable: TensorBase) -> None:
        self.variable = variable

    def name(self) -> str:
        """What it is, as torch calls it."""
        return "torch::autograd::AccumulateGrad"


class RemovableHook:
    """Removes a hook again."""

    def __init__(self, hooks: list[Callable[..., Any]], hook: Callable[..., Any]) -> None:
        self._hooks = hooks
        self._hook = hook
        hooks.append(hook)

    def remove(self) -> None:
        if self._hook in self._hooks:
            self._hooks.remove(self._hook)


def check_saved(entry: Entry, saved: Saved | Packed) -> TensorBase:
    """The saved tensor, if nobody changed it; torch's RuntimeError otherwise."""
    if isinstance(saved, Packed):
        return saved.unpacked()
    tensor = saved.tensor
    if tensor.memory.version != saved.version:
        kind = {"float32": "torch.FloatTensor", "float64": "torch.DoubleTensor"}.get(
            tensor.meta.dtype.name, f"torch.{tensor.meta.dtype.name}"
        )
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"[{kind} {list(tensor.meta.shape)}], which is saved by {entry._title}, is at version {tensor.memory.version}; expected "
            f"version {saved.version} instead. Hint: use clone() before the in-place operation, or compute out of place."
        )
    return tensor


def _look_for_nan(entry: Entry, gradients: Sequence[Any]) -> None:
    for position, gradient in enumerate(gradients):
        if gradient is not None and gradient.isnan().any().item():
            raise RuntimeError(f"Function '{entry._title}' returned nan values in its {position}th output.")


# -- the engine -----------------------------------------------------------------------------------------
class _Engine:
    """One walk. ``waiting`` counts the edges that still lead to an entry or leaf; ``pending`` holds what came back so far.

    When only some gradients are wanted, entries that do not lead to them are neither run nor released.
    """

    def __init__(
        self, *, retain_graph: bool, inputs: Sequence[TensorBase] | None, accumulate: Callable[[TensorBase, TensorBase], None],
        add: Callable[[TensorBase, TensorBase, bool], TensorBase],
    ) -> None:  # fmt: skip
        self.retain_graph = retain_graph
        self.wanted = None if inputs is None else {_key(t): id(t) for t in inputs}
        self.accumulate = accumulate
        self.add = add
        self.found: dict[int, TensorBase] = {}
        self.pending: dict[Any, list[TensorBase | None]] = {}
        self.waiting: dict[Any, int] = {}
        self.ready: list[tuple[int, Entry]] = []
        self.summed: set[tuple[Any, int]] = set()  # whose gradient is a sum that nobody else has seen yet
        self.late: list[tuple[TensorBase, TensorBase]] | None = None if context.capture is None else []  # leaves with their gradients

    def run(self, roots: Sequence[tuple[Any, int, TensorBase]]) -> dict[int, TensorBase]:
        self.needed = self._leading_to_wanted([r for r, _, _ in roots])
        self._count_edges([r for r, _, _ in roots])
        for target, output, gradient in roots:
            self._deliver(target, output, gradient)
        for target in dict.fromkeys(r for r, _, _ in roots):
            if not self.waiting.get(target):
                self._make_ready(target)
        while self.ready:
            _, entry = heapq.heappop(self.ready)
            gradients = self._run_entry(entry, self.pending.pop(entry, None))
            if self.needed is not None and entry not in self.needed:
                continue
            for edge, gradient in zip(entry.edges, gradients, strict=True):
                if edge is None:
                    continue
                if gradient is not None:
                    self._deliver(*edge, gradient)
                self.waiting[edge[0]] -= 1
                if not self.waiting[edge[0]]:
                    self._make_ready(edge[0])
        self._finish_late()
        return self.found

    def _finish_late(self) -> None:
        """In a capture a hook of a leaf may end the segment; then no entry of it may be left."""
        late, self.late = self.late, None if self.late is None else []
        for target, gradient in context.capture.ways.in_order(late) if late else ():
            self._finish_leaf(target, gradient)

    def _leading_to_wanted(self, roots: Sequence[Any]) -> set[Any] | None:
        if self.wanted is None:
            return None
        # Edges lead to entries that were made before: what is older than all that is wanted leads to none of it.
        oldest = min((t.sequence if isinstance(t, Entry) else -1 for t, _ in self.wanted), default=-1)
        needed: set[Any] = set()
        seen: set[Any] = set()
        stack: list[tuple[Any, bool]] = [(r, False) for r in roots if isinstance(r, Entry)]
        while stack:
            entry, done = stack.pop()
            if done:
                if any(e is not None and (e in self.wanted or e[0] in needed) for e in entry.edges):
                    needed.add(entry)
            elif entry not in seen and entry.sequence > oldest:
                if isinstance(entry, LostEntry):
                    entry.apply([])
                seen.add(entry)
                stack.append((entry, True))
                stack.extend((e[0], False) for e in entry.edges if e is not None and isinstance(e[0], Entry))
        return needed

    def _count_edges(self, roots: Sequence[Any]) -> None:
        seen: set[Any] = set()
        stack = [r for r in roots if isinstance(r, Entry)]
        while stack:
            entry = stack.pop()
            if entry in seen:
                continue
            seen.add(entry)
            if self.needed is not None and entry not in self.needed:
                continue
            for edge in entry.edges:
                if edge is not None:
                    self.waiting[edge[0]] = self.waiting.get(edge[0], 0) + 1
                    if isinstance(edge[0], Entry):
                        stack.append(edge[0])

    def _deliver(self, target: Any, output: int, gradient: TensorBase) -> None:
        slots = self.pending.setdefault(target, [None] * (1 if isinstance(target, TensorBase) else len(target.metas)))
        known = slots[output]
        if known is None:
            slots[output] = gradient
            return
        slots[output] = self.add(known, gradient, (target, output) in self.summed)
        self.summed.add((target, output))

    def _make_ready(self, target: Any) -> None:
        if isinstance(target, Entry):
            heapq.heappush(self.ready, (-target.sequence, target))
            return
        slots = self.pending.pop(target, None)
        if slots is None or slots[0] is None:
            return
        if self.late is None:
            self._finish_leaf(target, slots[0])
        else:
            self.late.append((target, slots[0]))

    def _finish_leaf(self, target: Any, gradient: TensorBase) -> None:
        gradient = _run_leaf_hooks(target, gradient)
        if self.wanted is None:
            self.accumulate(target, gradient)
        elif (target, 0) in self.wanted:
            self.found[self.wanted[target, 0]] = gradient

    def _run_entry(self, entry: Entry, cotangents: list[TensorBase | None] | None) -> Sequence[TensorBase | None]:
        if cotangents is None:
            return [None] * len(entry.edges)
        if self.late and any(all_hooks(entry)):
            self._finish_late()
        cotangents = _run_hooks_before(entry, cotangents)
        if self.wanted is not None:
            for output, gradient in enumerate(cotangents):
                if (entry, output) in self.wanted and gradient is not None:
                    self.found[self.wanted[entry, output]] = gradient
        if self.needed is not None and entry not in self.needed:
            return [None] * len(entry.edges)
        return _apply(entry, cotangents, self.retain_graph)


def _run_hooks_before(entry: Entry, cotangents: list[TensorBase | None]) -> list[TensorBase | None]:
    """What the hooks of an entry's outputs and its own make of its cotangents."""
    outputs, before, _ = all_hooks(entry)
    for output, hooks in outputs:
        gradient = cotangents[output]
        if gradient is not None:
            cotangents[output] = _run_tensor_hooks(hooks, gradient)
    for hook in before:
        changed = call_hook(hook, tuple(cotangents))
        if changed is not None:
            cotangents = list(changed) if isinstance(changed, (tuple, list)) else [changed]
    return cotangents


def _apply(entry: Entry, cotangents: list[TensorBase | None], retain_graph: bool) -> Sequence[TensorBase | None]:
    """The gradients of an entry, as its hooks leave them."""
    gradients = entry.apply(cotangents)
    if context.anomaly:
        _look_for_nan(entry, gradients)
    if not retain_graph:
        entry.release()
    for hook in all_hooks(entry)[2]:
        changed = call_hook(hook, tuple(gradients), tuple(cotangents))
        if changed is not None:
            gradients = list(changed) if isinstance(changed, (tuple, list)) else [changed]
    return gradients


# -- the native walk ------------------------------------------------------------------------------------
def _run_unusual(entry: Entry, cotangents: list[TensorBase | None], retain_graph: bool) -> list[TensorBase | None]:
    gradients = list(_apply(entry, _run_hooks_before(entry, cotangents), retain_graph))
    if len(gradients) != len(entry.edges):
        raise ValueError(f"{entry._title}: its hooks returned {len(gradients)} gradients, it has {len(entry.edges)}")
    return gradients


def _no_walk(*_: Any) -> Any:
    return NotImplemented


_walk: Callable[..., Any] = _no_walk


def set_walker(walk: Callable[..., Any]) -> None:
    """Called once by native dispatch: what walks the tape to its leaves, or gives NotImplemented (see `runtime.native.walk`)."""
    global _walk
    _walk = walk


def run_backward(
    roots: Sequence[tuple[Any, int, TensorBase]], *, retain_graph: bool, create_graph: bool, inputs: Sequence[TensorBase] | None,
    accumulate: Callable[[TensorBase, TensorBase], None], add: Callable[[TensorBase, TensorBase, bool], TensorBase],
) -> dict[int, TensorBase]:  # fmt: skip
    """Walk the tape from ``roots`` (entry or leaf, output, gradient).

    With ``inputs`` the gradients of exactly these are returned by id (and nothing else is touched); without, leaves
    get theirs through ``accumulate(leaf, gradient)``. ``add(a, b, own)`` adds two gradients; where ``own`` it may write into ``a``.
    """
    previous = context.grad_enabled
    context.grad_enabled = create_graph

    def accumulate_hooked(leaf: TensorBase, gradient: TensorBase) -> None:
        accumulate(leaf, _run_leaf_hooks(leaf, gradient))

    try:
        if inputs is None and _walk(roots, retain_graph, _run_unusual, accumulate_hooked, add) is not NotImplemented:
            return {}
        return _Engine(retain_graph=retain_graph, inputs=inputs, accumulate=accumulate, add=add).run(roots)
    finally:
        context.grad_enabled = previous


def _key(tensor: TensorBase) -> tuple[Any, int]:
    return (tensor, 0) if tensor.entry is None else (tensor.entry, tensor.output)


# -- hooks ----------------------------------------------------------------------------------------------
def hooks_of(owner: Any) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    """Of an entry: (output, hooks) of its outputs, the hooks before and those after it; of a leaf: those before and after adding."""
    if isinstance(owner, TensorBase):
        after = owner.post_accumulate_hooks  # type: ignore[attr-defined]
        return (), tuple(owner.hooks.values()) if owner.hooks else (), tuple(after.values()) if after else ()
    outputs = [(output, tuple(hooks.values())) for output, hooks in owner._output_hooks.items()] if owner._output_hooks else ()
    return tuple(outputs), tuple(owner._pre_hooks or ()), tuple(owner._hooks or ())


def all_hooks(owner: Any) -> tuple[Any, Any, Any]:
    """`hooks_of`; a capture knows what they were when backward began."""
    return hooks_of(owner) if context.capture is None else context.capture.ways.hooks_of(owner)


def call_hook(hook: Callable[..., Any], *args: Any) -> Any:
    """Call a hook; a capture interprets it."""
    return hook(*args) if context.capture is None else context.capture.ways.call_hook(hook, args)


def _run_leaf_hooks(leaf: TensorBase, gradient: TensorBase) -> TensorBase:
    return _run_tensor_hooks(all_hooks(leaf)[1], gradient)


def _run_tensor_hooks(hooks: Sequence[Any], gradient: TensorBase) -> TensorBase:
    for hook in hooks:
        changed = call_hook(hook, gradient)
        if changed is not None:
            gradient = changed
    return gradient
