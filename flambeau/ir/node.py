"""Node: the one expression type. Immutable and interned, so that equal graphs are the same object."""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

from flambeau.core.aval import Aval
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import Dim
from flambeau.ir.origins import pass_on


class Operation(Protocol):
    """What a node applies: a primitive, or a kernel-level operation."""

    name: str

    def infer(self, sources: tuple[Node, ...], attributes: Mapping[str, Any]) -> Aval: ...


def bits_key(value: object) -> Any:
    """A key that tells constants apart by their bits: 0.0 from -0.0, 1 from True, NaN payloads."""
    kind = type(value)
    if kind is float:
        return ("float", struct.pack("<d", value))
    if kind is bool:
        return ("bool", value)
    if kind is tuple:
        return tuple(bits_key(v) for v in cast(tuple[object, ...], value))
    return value


class Node:
    """``op`` applied to ``sources`` with static ``attributes``; ``aval`` is its shape and dtype.

    Building a node that exists already gives the existing one. Python's operators on nodes build operator calls with
    broadcasting and promotion; equality is identity.
    """

    __slots__ = ("__weakref__", "aval", "attributes", "op", "serial", "sources")

    op: Any
    sources: tuple[Node, ...]
    attributes: Mapping[str, Any]
    aval: Aval
    serial: int

    def __new__(cls, op: Any, sources: tuple[Node, ...] = (), /, **attributes: Any) -> Node:
        key = (op, sources, tuple((k, bits_key(v)) for k, v in attributes.items()))
        reference = _interned.get(key)
        if reference is not None and (found := reference()) is not None:
            return found
        self = object.__new__(cls)
        put = object.__setattr__
        put(self, "op", op)
        put(self, "sources", sources)
        put(self, "attributes", attributes)
        put(self, "aval", op.infer(sources, attributes))
        global _serial
        _serial += 1
        put(self, "serial", _serial)
        _interned[key] = weakref.ref(self, lambda _, key=key: _interned.pop(key, None))
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("Node is immutable; build a new one")

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("nodes are interned in one process; save the printed graph instead")

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> dtype:
        return self.aval.dtype

    @property
    def rank(self) -> int:
        return len(self.aval.shape)

    def __repr__(self) -> str:
        return f"<{self.op.name} {self.aval}>"

    def __bool__(self) -> bool:
        raise TypeError(f"a traced value has no truth value inside an operator's body: {self!r}")

    # Python's operators, bound by the ops package (see ``bind_arithmetic``).
    def __add__(self, other: Any) -> Node:
        return _arithmetic["add"](self, other)

    def __radd__(self, other: Any) -> Node:
        return _arithmetic["add"](other, self)

    def __sub__(self, other: Any) -> Node:
        return _arithmetic["sub"](self, other)

    def __rsub__(self, other: Any) -> Node:
        return _arithmetic["sub"](other, self)

    def __mul__(self, other: Any) -> Node:
        return _arithmetic["mul"](self, other)

    def __rmul__(self, other: Any) -> Node:
        return _arithmetic["mul"](other, self)

    def __truediv__(self, other: Any) -> Node:
        return _arithmetic["div"](self, other)

    def __rtruediv__(self, other: Any) -> Node:
        return _arithmetic["div"](other, self)

    def __pow__(self, other: Any) -> Node:
        return _arithmetic["pow"](self, other)

    def __neg__(self) -> Node:
        return _arithmetic["neg"](self)

    def __and__(self, other: Any) -> Node:
        return _arithmetic["bitwise_and"](self, other)

    def __or__(self, other: Any) -> Node:
        return _arithmetic["bitwise_or"](self, other)

    def __invert__(self) -> Node:
        return _arithmetic["bitwise_not"](self)

    def __lt__(self, other: Any) -> Node:
        return _arithmetic["lt"](self, other)

    def __le__(self, other: Any) -> Node:
        return _arithmetic["le"](self, other)

    def __gt__(self, other: Any) -> Node:
        return _arithmetic["gt"](self, other)

    def __ge__(self, other: Any) -> Node:
        return _arithmetic["ge"](self, other)


_interned: dict[tuple[Any, ...], weakref.ref[Node]] = {}
_serial = 0
_arithmetic: dict[str, Callable[..., Node]] = {}


def bind_arithmetic(operators: Mapping[str, Callable[..., Node]]) -> None:
    """Called once by the ops package: the operators behind ``x + y`` on nodes."""
    _arithmetic.update(operators)


def sources_of(node: Node) -> Sequence[Node]:
    """The operands of a node."""
    return node.sources


def toposort(roots: Iterable[Node], needs: Callable[[Node], Sequence[Node]] = sources_of) -> list[Node]:
    """Every node that ``roots`` depend on, what it ``needs`` first, without recursion."""
    seen: set[Node] = set()
    order: list[Node] = []
    stack: list[tuple[Node, bool]] = [(r, False) for r in reversed(list(roots))]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((s, False) for s in reversed(needs(node)) if s not in seen)
    return order


# What else goes over to a node's copy, by operation; called with both nodes and the arguments of `rebuild`.
carriers: dict[Any, Callable[[Node, Node, Any, dict[Node, Node]], None]] = {}


def rebuild(
    roots: Iterable[Node], replace: Callable[[Node, tuple[Node, ...]], Node | None], known: dict[Node, Node] | None = None
) -> list[Node]:
    """Rewrite a graph bottom-up: ``replace(node, new sources)`` gives a node, or None to keep the operation.

    ``known`` maps nodes to their replacements, is not looked behind, and is extended.
    """
    roots = list(roots)
    known = {} if known is None else known
    for node in toposort(roots, lambda n: () if n in known else n.sources):
        if node in known:
            continue
        sources = tuple(known[s] for s in node.sources)
        new = replace(node, sources)
        if new is None:
            new = node if sources == node.sources else Node(node.op, sources, **node.attributes)
        if new is not node:
            pass_on(node, new)
            if new.op is node.op and new.op in carriers:
                carriers[new.op](node, new, replace, known)
        known[node] = new
    return [known[r] for r in roots]


def walk(roots: Iterable[Node]) -> Iterator[Node]:
    """Every node that ``roots`` depend on, each once, in no particular order."""
    seen: set[Node] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            yield node
            stack.extend(node.sources)
