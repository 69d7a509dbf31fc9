"""Sizes of a capture that may be others at the next call: symbols in the shapes of tensors, and the predicates that the line relies on.

While a line is recorded, tensors with such sizes carry metadata whose sizes are expressions (`core.symbolic`). So every way to look at
a size is seen: a comparison becomes a predicate, and what needs a number fixes it by one. Predicates become checks of the program
before anything else is written to it. Where something runs, all tensors have the sizes of now.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import CellType
from typing import Any

from flambeau.capture.values import each_changed
from flambeau.core.device import Device
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import Dim, Expression, Predicate, SizeScope, atoms_of, evaluate, symbol, without_sizes
from flambeau.ir.node import Node, toposort
from flambeau.runtime.storage import TensorMeta, meta_of
from flambeau.tensor.base import TensorBase
from flambeau.tensor.dispatch import wants_gradient
from flambeau.tensor.views import Step, View

__all__ = ["Pattern", "Sizes", "at_hand", "is_symbolic", "symbols_in"]

_next = [0]  # the number of the next symbol
ORDERING = frozenset(("transpose", "permute", "unsqueeze", "squeeze", "select"))
ARGUMENT = re.compile(r"(args|kwargs)\[[^][]*\]")
SYMBOL = re.compile(r"\bsize\d+\b")
EXPRESSION = re.compile(r"\b(?:\d+\*)?size\d+(?:(?:\*| [+-] )(?:size)?\d+)*\b")


def at_hand(value: Any, sizes: Any) -> Any:
    """A size, a shape, metadata, view steps or a template with expressions replaced by their values."""
    if type(value) is Expression:
        return evaluate(value, sizes)
    if isinstance(value, TensorMeta):
        return meta_of(at_hand(value.shape, sizes), value.dtype, at_hand(value.strides, sizes), value.device)
    if type(value) is Step:
        return Step(value.operator, at_hand(value.template, sizes), at_hand(value.sizes, sizes), value.output)
    if type(value) is tuple:
        return tuple([at_hand(v, sizes) for v in value])
    if type(value) is list:
        return [at_hand(v, sizes) for v in value]
    if type(value) is slice:
        return slice(*at_hand((value.start, value.stop, value.step), sizes))
    return value


def expressions(value: Any) -> Iterator[Expression]:
    """Those in a size, a shape, metadata, view steps or a template."""
    if type(value) is Expression:
        yield value
    elif isinstance(value, TensorMeta):
        yield from expressions(value.shape)
        yield from expressions(value.strides)
    elif type(value) is Step:
        yield from expressions((value.template, value.sizes))
    elif type(value) is slice:
        yield from expressions((value.start, value.stop, value.step))
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from expressions(part)


def is_symbolic(value: Any) -> bool:
    """Whether there is an expression in a value."""
    return next(expressions(value), None) is not None


def symbols_in(nodes: Sequence[Node]) -> set[str]:
    """The symbols that a graph speaks of."""
    found = [e for n in toposort(nodes) for part in (n.shape, *n.attributes.values()) for e in expressions(part)]
    return {a.name for e in found for a in atoms_of(e) if a.kind == "symbol"}


@dataclass(frozen=True)
class Pattern:
    """Tensors that are alike up to some sizes (None, which are 2 or more): how a check sees them. They are dense, and ``order`` names
    the axes as they lie in memory, the last one closest together; or their strides are ``strides``, of which None are 2 or more."""

    kind: type
    dtype: dtype
    device: Device
    dims: tuple[int | None, ...]
    gradient: bool
    leaf: bool
    view: bool
    order: tuple[int, ...] | None
    strides: tuple[int | None, ...] | None = None

    def laid_out(self, shape: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The strides of one of that shape."""
        return self.strides if self.order is None else strides_in(self.order, shape)

    def __repr__(self) -> str:
        gradient, view = " that takes part in autograd" if self.gradient else "", " that is a view" if self.view else ""
        return f"{self.dtype.short}[{', '.join('?' if n is None else str(n) for n in self.dims)}]{gradient}{view}"

    def fits(self, value: Any) -> bool:
        """Whether a value is one of them."""
        if type(value) is not self.kind or not self.takes(value.meta):
            return False
        view = value.view_of
        return (
            wants_gradient(value) is self.gradient and (value.entry is None) is self.leaf
            and (view is not None and view.base.memory is value.memory) is self.view
        )  # fmt: skip

    def takes(self, meta: TensorMeta) -> bool:
        """Whether metadata is that of one of them."""
        if meta.dtype is not self.dtype or len(meta.shape) != len(self.dims) or meta.device != self.device:
            return False
        strides = self.laid_out(meta.shape) or ()
        if any(step != known and (known is not None or step < 2) for step, known in zip(meta.strides, strides, strict=True)):
            return False
        return all(size >= 2 if known is None else size == known for size, known in zip(meta.shape, self.dims, strict=True))


def fits_all_sizes(view: View) -> bool:
    """Whether a view is made of its base in the same way for all sizes of that."""
    return all(step.operator.name in ORDERING for step in view.steps)


def strides_in(order: Sequence[int], shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """The strides of axes that lie in memory in this order."""
    strides: list[Any] = [1] * len(shape)
    running: Any = 1
    for axis in reversed(order):
        strides[axis] = running
        running = running * (shape[axis] if type(shape[axis]) is Expression else max(shape[axis], 1))
    return tuple(strides)


def order_of(meta: TensorMeta) -> tuple[int, ...] | None:
    """The order in which axes lie in memory; None where there are gaps or elements that overlap."""
    order = tuple(range(len(meta.shape)))
    if not meta.contiguous:
        order = tuple(sorted(order, key=lambda k: (-meta.strides[k], -meta.shape[k])))
    return order if meta.strides == strides_in(order, meta.shape) else None


def equal_to(value: int, *others: int) -> int:
    """Which of the others is the same number, -1 for none."""
    return others.index(value) if value in others else -1


def own_name(wanted: str = "size0") -> str:
    """A name for a symbol that none has had in this process, the wanted one if that can be.

    Nodes over symbols of one name are the same nodes, whose making decided about sizes once.
    """
    number = max(int(wanted.removeprefix("size")), _next[0])
    _next[0] = number + 1
    return f"size{number}"


class Sizes(SizeScope):
    """The sizes of one interpretation. ``mode``: as ``compile(dynamic=...)``."""

    def __init__(self, trace: Any, mode: bool | None) -> None:
        super().__init__()
        self.trace = trace
        self.mode = mode
        self.names: dict[str, str] = {}  # of symbols: the variables of the program
        self.waiting: list[Predicate] = []  # what the program does not check yet
        self.ended = False
        self._tensors: dict[int, tuple[Any, TensorMeta, Dim]] = {}  # by id: a reference, metadata, bytes from the begin of the memory
        self._apart = 0
        self._numbers: dict[str, Dim] = {}

    # -- predicates -------------------------------------------------------------------------------------
    def note(self, relation: str, value: Expression, truth: bool) -> None:
        if not self.ended and (relation, value) not in self.predicates:
            self.predicates[relation, value] = truth
            self.waiting.append((relation, value, truth))

    def settle(self) -> None:
        """Check in the program what has been decided since the last step; a ghost goes by the checks that are there."""
        trace, versions = self.trace, 0
        while trace.ghost:
            end = trace.block.end
            if getattr(end, "kind", "") != "sizes" or trace.index < len(trace.block.steps):
                return
            versions += 1
            if trace.check("", "sizes", True):
                self.waiting = []
                return
            if not trace.ghost and (versions >= trace.tree.most_outcomes or trace.capped):
                trace.abandon(f"it has {versions} versions for other sizes")
                return
        if self.waiting and trace.recording:
            waiting, self.waiting = self.waiting, []
            trace.check(" and ".join(self._test(*p) for p in waiting), "sizes", True)

    def _test(self, relation: str, value: Expression, truth: bool) -> str:
        return f"{self.text(value)} {('==' if truth else '!=') if relation == 'eq' else '>=' if truth else '<'} 0"

    def text(self, value: Dim) -> str:
        """An expression over variables of the program."""
        text = SYMBOL.sub(lambda m: self.names[m[0]], str(value))
        return text if text.isidentifier() else f"({text})"

    def fixed(self, value: Any) -> Any:
        """A value with the sizes of now, on which the line relies from here on."""
        for part in expressions(value):
            self.note("eq", part - evaluate(part, self.hints), True)  # type: ignore[arg-type]
        return at_hand(value, self.hints)

    def told(self, text: Any) -> Any:
        """The text of an error with the sizes of now."""
        def at_hand(found: re.Match[str]) -> str:
            numbers = SYMBOL.sub(lambda m: str(self.hints.get(m[0], m[0])), found[0])
            return numbers if SYMBOL.search(numbers) else str(eval(numbers))

        return EXPRESSION.sub(at_hand, text) if isinstance(text, str) else text

    # -- symbols ----------------------------------------------------------------------------------------
    def symbol(self, variable: str, value: int) -> Dim:
        """The symbol for what ``variable`` holds; one of equal value stands for it too, as long as the two are equal."""
        known = list(self.names)
        same = [self.names[n] for n in known]
        if variable in same:
            return symbol(known[same.index(variable)])
        if known:
            constant = self.trace.tree.constant(equal_to)
            at = equal_to(value, *[self.hints[n] for n in known])
            at = self.trace.check(f"{constant}({variable}, {', '.join(same)})", "number", at)
            if at >= 0:
                return symbol(known[at])
        name = own_name()
        self.names[name], self.hints[name] = variable, value
        return symbol(name)

    def of_number(self, name: str, value: Any) -> Any:
        """A number of the program as a size, if it can be one; else the number of now, fixed."""
        if type(value) is int and self.mode is not False and self.trace.recording:
            if name not in self._numbers and self.trace.check(f"{name} >= 2", "truth", value >= 2):
                self._numbers[name] = self.symbol(name, value)
            if name in self._numbers:
                return self._numbers[name]
        return None

    def outcome(self, origin: str, tensor: Any, key: tuple[Any, ...]) -> tuple[str, Any]:
        """How a check sees a tensor that comes from ``origin``: up to the sizes that differ from those seen there before."""
        kind, meta, gradient, leaf, shown = key
        order = order_of(meta)
        free = shown is not None and not gradient  # what it is a view of, and where it begins there, is of no interest
        if self.mode is False or (order is None and not free) or not meta.shape:
            return "tensor", key
        if shown is not None and gradient and (ARGUMENT.fullmatch(origin) is None or not fits_all_sizes(tensor.view_of)):
            return "tensor", key
        now = meta.shape if order is not None else (*meta.shape, *meta.strides)
        rest = (kind, meta.dtype, meta.device, order, len(meta.shape), gradient, leaf, shown is not None)
        seen = self.trace.tree.shapes.setdefault((origin, rest), [])
        marks = getattr(tensor, "__dict__", {})
        static = marks.get("_dynamo_static_indices", ())
        wanted = {*marks.get("_dynamo_dynamic_indices", ()), *marks.get("_dynamo_weak_dynamic_indices", ())}
        if self.mode is True:
            wanted |= set(range(len(meta.shape)))
        wanted |= {k for other in seen for k, n in enumerate(other) if n != now[k] and n >= 2}
        if now not in seen:
            seen.append(now)
        parts = tuple([None if k in wanted and n >= 2 and k not in static else n for k, n in enumerate(now)])
        dims, strides = parts[: len(meta.shape)], parts[len(meta.shape) :] if order is None else None
        if None not in dims and not free:
            return "tensor", key
        return "sizes", Pattern(kind, meta.dtype, meta.device, dims, gradient, leaf, shown is not None, order, strides)

    def open(self, tensor: Any, name: str, pattern: Pattern) -> None:
        """Give a tensor from outside symbols for its sizes."""
        dims: list[Any] = []
        meta = tensor.meta
        for k, (known, size) in enumerate(zip(pattern.dims, meta.shape, strict=True)):
            if known is None:
                dims.append(self._read(name, "shape", k, size))
            else:
                dims.append(size)
        steps: list[Any] | None = None if pattern.strides is None else list(pattern.strides)
        for k, known in enumerate(pattern.strides or ()):
            if known is None and steps is not None:
                steps[k] = self._read(name, "strides", k, meta.strides[k])
        if self.trace.recording:
            strides: Any = None if meta.contiguous else pattern.laid_out(tuple(dims)) if steps is None else tuple(steps)
            self.track(tensor, meta_of(tuple(dims), meta.dtype, strides, meta.device))

    def _read(self, name: str, what: str, axis: int, value: int) -> Dim:
        """The symbol of a size of the tensor in a variable, or of the distance between elements."""
        variable, value = self.trace.step(f"{name}.meta.{what}[{axis}]", lambda: value, place=("size", axis))
        return self.symbol(variable, value)

    # -- tensors ----------------------------------------------------------------------------------------
    def track(self, tensor: Any, meta: TensorMeta, offset: Dim | None = None) -> None:
        """A tensor has these sizes, and lies so many bytes after the begin of its memory."""
        key = id(tensor)
        begin: Dim = tensor.address - tensor.memory.address if offset is None else offset
        self._tensors.pop(key, None)
        if is_symbolic(meta) or is_symbolic(begin):
            self._tensors[key] = (weakref.ref(tensor, lambda _: self._tensors.pop(key, None)), meta, begin)
            if not self._apart:
                tensor.meta = meta

    def liken(self, tensor: Any, twin: Any) -> None:
        """A tensor of the replay is the same as one of this run."""
        if tensor is not twin and id(twin) in self._tensors:
            self.track(tensor, self.meta(twin), self.offset(twin))

    def meta(self, tensor: Any) -> TensorMeta:
        """The metadata of a tensor, with expressions."""
        found = self._tensors.get(id(tensor))
        return tensor.meta if found is None else found[1]

    def offset(self, tensor: Any) -> Dim:
        """Where in its memory a tensor begins, in bytes."""
        found = self._tensors.get(id(tensor))
        return tensor.address - tensor.memory.address if found is None or not is_symbolic(found[2]) else found[2]

    def is_tracked(self, tensor: Any) -> bool:
        """Whether sizes of a tensor, or where it lies, are expressions."""
        return id(tensor) in self._tensors

    def moved(self, tensor: Any) -> bool:
        """Whether where a tensor lies depends on sizes."""
        found = self._tensors.get(id(tensor))
        return found is not None and is_symbolic(found[2])

    def notice(self, value: Any) -> Any:
        """What one of our functions gave: every tensor with such sizes is known."""
        if isinstance(value, TensorBase):
            if id(value) not in self._tensors and is_symbolic(value.meta):
                self.track(value, value.meta)
        elif isinstance(value, (tuple, list)):
            for item in value:
                self.notice(item)
        return value

    def untrack(self, tensor: Any) -> None:
        """The sizes of a tensor are fixed from here on."""
        found = self._tensors.pop(id(tensor), None)
        if found is not None:
            tensor.meta = self.fixed(found[1])

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Something runs: tensors have the sizes of now."""
        self._apart += 1
        views = self._now() if self._apart == 1 else []
        try:
            with without_sizes():
                yield
        finally:
            self._apart -= 1
            if self._apart == 0 and not self.ended:
                for reference, meta, _ in list(self._tensors.values()):
                    tensor = reference()
                    if tensor is not None:
                        tensor.meta = meta
                for tensor, view in views:
                    tensor.view_of = view

    def _now(self) -> list[tuple[Any, View]]:
        views: list[tuple[Any, View]] = []
        for key, (reference, meta, offset) in list(self._tensors.items()):
            tensor = reference()
            if tensor is None:
                continue
            if tensor.meta is not meta:  # something gave it another shape
                meta = tensor.meta
                self._tensors[key] = reference, meta, offset
            tensor.meta = at_hand(meta, self.hints)
            view = tensor.view_of
            if view is not None and is_symbolic(view.steps):
                views.append((tensor, view))
                tensor.view_of = View(view.base, at_hand(view.steps, self.hints))
        return views

    def end(self) -> None:
        """Nothing is recorded any more: tensors keep the sizes of now."""
        if not self.ended:
            self.ended = True
            self._now()
            self._tensors.clear()

    def plain(self, value: Any) -> Any:
        """A value as the rest of the world may see it; lists, dicts and objects made inside are changed in place."""
        if type(value) is Expression:
            return evaluate(value, self.hints)
        if isinstance(value, tuple) and any(type(v) is Expression or isinstance(v, tuple) for v in value):
            return each_changed(value, self.plain)
        if type(value) is slice and is_symbolic(value):
            return at_hand(value, self.hints)
        return value

    def empty(self, obj: Any) -> None:
        """An object made inside is let out: no expressions stay in it."""
        if not self.names:
            return
        if type(obj) is list:
            obj[:] = [self.plain(v) for v in obj]
        elif type(obj) is dict or type(getattr(obj, "__dict__", None)) is dict and not isinstance(obj, (type, TensorBase)):
            items = obj if type(obj) is dict else obj.__dict__
            for key, item in items.items():
                now = self.plain(item)
                if now is not item:
                    items[key] = now
            if isinstance(obj, BaseException):
                obj.args = self.plain(obj.args)
        elif type(obj) is CellType and obj != CellType():
            obj.cell_contents = self.plain(obj.cell_contents)
