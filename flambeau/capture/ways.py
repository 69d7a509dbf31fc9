"""Backward through segments that are closed: steps read what they saved, and hooks on the way are interpreted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.capture.entries import CaptureEntry
from flambeau.capture.operators import NamedRead
from flambeau.core.context import context
from flambeau.core.numbers import HostInteger, HostNumber
from flambeau.tensor.base import TensorBase
from flambeau.tensor.dispatch import ViewReadEntry, ViewWriteEntry, edge_of
from flambeau.tensor.tape import SECOND_BACKWARD, Entry, check_saved, hooks_of

__all__ = ["Ways"]

VIEWS = (ViewReadEntry, ViewWriteEntry)


class Ways:
    """The ways that a call of backward takes, from its roots to leaves."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.own: dict[int, Entry] = {}  # entries that steps of this call made, by id
        self.hooked = False  # such entries may have hooks
        self._paths: dict[int, str] = {}  # expressions for entries that are not of the open segment, by id
        self._hooks: dict[int, tuple[Any, Any, Any]] = {}  # of leaves and entries, by id
        self._names: dict[int, str] = {}
        self._used: dict[int, int] = {}  # by id of a leaf, the sequence number of the first entry that leads to it

    # -- before backward --------------------------------------------------------------------------------
    def lead_inside(self, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether all that backward goes through was recorded by this call, in this segment or in earlier ones."""
        roots = [owner] if isinstance(owner, TensorBase) else [*args[:1], *([kwargs[k] for k in ("tensors", "outputs") if k in kwargs])]
        roots = [v for root in roots for v in (root if isinstance(root, (list, tuple)) else [root]) if isinstance(v, TensorBase)]
        wanted = kwargs.get("inputs", args[1] if len(args) > 1 and owner is None else ())
        ends = [v for v in (wanted if isinstance(wanted, (list, tuple)) else [wanted]) if isinstance(v, TensorBase)]
        stops = {id(edge[0]) for v in ends if (edge := edge_of(v)) is not None}  # backward goes no further
        again = any(kwargs.get(k) for k in ("create_graph", "is_grads_batched")) or len(args) > (3 if owner is None else 2)
        self._paths, self._hooks, self._names = {}, {}, {}
        leaves = self._walk(roots, stops, closed=not (again or context.anomaly or self.session.trace.sizes.names))
        if leaves is None:
            return False
        for leaf in leaves:
            self._read_hooks(leaf)
        return True

    def _walk(self, roots: list[Any], stops: set[int], closed: bool) -> list[Any] | None:
        """The leaves that backward comes to; None where it goes through something unknown. ``closed``: other segments are known."""
        writer, leaves, seen = self.session.writer, [], set[int]()
        waiting = [(edge[0], self._root(t)) for t in roots if (edge := edge_of(t)) is not None]
        before = {id(s.history[0]): s.tensor for s in writer.recorder.input_states if s.history[0] is not None}
        while waiting:
            entry, path = waiting.pop()
            if id(entry) in seen or id(entry) in stops:
                continue
            seen.add(id(entry))
            if isinstance(entry, TensorBase):
                leaves.append(entry)
                continue
            inside = isinstance(entry, VIEWS) or (isinstance(entry, CaptureEntry) and entry.recorder is writer.recorder)
            if not inside and closed and id(entry) in self.own:
                if not path and id(entry) in before:
                    path = f"{writer.name(before[id(entry)])}.entry"
                inside = bool(path)
                self._paths[id(entry)] = path
            if not inside and (not stops or leads_to(entry, stops)):
                return None
            if inside and self.hooked and isinstance(entry, VIEWS):
                return None
            edges = enumerate(entry.edges) if inside else ()
            waiting += [(edge[0], path and f"{path}.edges[{k}][0]") for k, edge in edges if edge is not None]
        return leaves

    def _root(self, tensor: Any) -> str:
        return "" if tensor.memory.pending is not None else f"{self.session.writer.name(tensor)}.entry"

    def _read_hooks(self, leaf: Any) -> None:
        """Find out which hooks a leaf from outside has."""
        if leaf.memory.pending is not None:
            return
        trace, name = self.session.trace, self.session.writer.name(leaf)
        places = [(kind, f"{name}.{kind}") for kind in ("hooks", "post_accumulate_hooks")]
        found = [trace.read((id(leaf), kind), text, lambda kind=kind: getattr(leaf, kind)) for kind, text in places]
        if any(f is not None for f in found):
            self._hooks[id(leaf)] = self._listed(name, leaf)

    def _listed(self, name: str, owner: Any) -> tuple[Any, Any, Any]:
        """The hooks of a leaf or an entry, which are looked at like other functions from outside."""
        trace, items = self.session.trace, self.session.semantics._items
        found, value = trace.step(f"{trace.tree.constant(hooks_of)}({name})", lambda: hooks_of(owner))
        outputs, before, after = [list(items(part)) for part in items(trace.adopt(value, found))]
        return [(trace.fix(output), list(items(hooks))) for output, hooks in map(items, outputs)], before, after

    # -- while backward runs ----------------------------------------------------------------------------
    def hooks_of(self, owner: Any) -> tuple[Any, Any, Any]:
        """Of a leaf or an entry: hooks of its outputs, those before and those after it."""
        if id(owner) in self._paths and self.hooked and id(owner) not in self._hooks:
            self._hooks[id(owner)] = self._listed(self._name(owner), owner)
        outside = id(owner) in self._paths or (isinstance(owner, TensorBase) and owner.memory.pending is None)
        return self._hooks.get(id(owner), ((), (), ())) if outside else hooks_of(owner)

    def note_use(self, entry: Entry) -> None:
        """An entry is put on the tape."""
        for edge in entry.edges:
            if edge is not None and isinstance(edge[0], TensorBase):
                self._used.setdefault(id(edge[0]), entry.sequence)

    def in_order(self, leaves: list[Any]) -> list[Any]:
        """Leaves and their gradients in the order in which entries of single operators come to them."""
        if self._paths:
            leaves.sort(key=lambda pair: -self._used.get(id(pair[0]), 0))
        for leaf, _ in leaves:
            self._used.pop(id(leaf), None)
        return leaves

    def call_hook(self, hook: Any, args: tuple[Any, ...]) -> Any:
        """Interpret a hook."""
        return self.session.semantics.entered(hook)(*args)

    def holds(self, entry: Any) -> bool:
        """Whether an entry is that of a segment which is closed."""
        return id(entry) in self._paths

    def _name(self, entry: Any) -> str:
        if id(entry) not in self._names:
            self._names[id(entry)], _ = self.session.trace.step(self._paths[id(entry)], lambda: entry)
        return self._names[id(entry)]

    def saved(self, entry: Any, places: Sequence[int], numbers: Sequence[int]) -> tuple[list[Any], list[Any]]:
        """The tensors and numbers that an entry saved."""
        trace, name, tensors = self.session.trace, self._name(entry), []
        text = f"{trace.tree.constant(saved_by)}({name}, {(*places,)})"
        held, values = trace.step(text, lambda: saved_by(entry, places)) if places else ("", ())
        for k, tensor in enumerate(values):
            part, tensor = trace.step(f"{held}[{k}]", lambda tensor=tensor: tensor)
            trace.know_also(tensor, part)
            tensors.append(tensor)
        return tensors, [self._number(f"{name}.numbers[{j}]", entry.numbers[j]) for j in numbers]

    def _number(self, text: str, value: Any) -> Any:
        name, value = self.session.trace.step(text, lambda: value)
        return (HostNumber if isinstance(value, float) else HostInteger).of(NamedRead(name, value))

    def release(self, entry: Any) -> None:
        """Drop what an entry saved."""
        trace = self.session.trace
        trace.step(f"{trace.tree.constant(release)}({self._name(entry)})", lambda: release(entry), out=False)


def saved_by(entry: Any, places: Sequence[int]) -> list[Any]:
    """The tensors that an entry saved in these places."""
    if entry.saved is None:
        raise RuntimeError(SECOND_BACKWARD)
    return [check_saved(entry, entry.saved[k]) for k in places]


def release(entry: Any) -> None:
    """Drop what an entry saved."""
    if entry.saved:
        entry.saved = None


def leads_to(entry: Any, stops: set[int]) -> bool:
    """Whether backward from a tape entry comes to one of these."""
    waiting, seen = [entry], set()
    while waiting:
        one = waiting.pop()
        if id(one) in stops:
            return True
        if id(one) not in seen and not isinstance(one, TensorBase):
            seen.add(id(one))
            waiting += [edge[0] for edge in one.edges if edge is not None]
    return False
