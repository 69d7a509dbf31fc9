"""Turns a group of nodes into one Kernel: pushes the loop axes through views down to loads."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import (
    Dim,
    Expression,
    contiguous_strides,
    is_constant,
    linear_index,
    loaded,
    settle,
    substitute,
)
from flambeau.ir import kernel as k
from flambeau.ir.node import Node
from flambeau.schedule.grouping import Group, reduced_axes
from flambeau.schedule.views import Condition, Coordinates, bounded, reads_of

Reader = Callable[[Node], "Source | None"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a finished node lies: a buffer from element ``offset`` on with strides, or a run-time scalar (``scalar`` >= 0)."""

    buffer: int
    strides: Coordinates
    scalar: int = -1
    offset: int = 0


def part_of(node: Node, reader: Reader, members: Container[Node]) -> Source | None:
    """Where ``node`` lies, be it a part of what does, so that groups that read parts alike are alike; None of what the group makes."""
    source = reader(node)
    if source is not None or node.op is not p.slice_ or node.sources[0] in members:
        return source
    whole = part_of(node.sources[0], reader, members)
    if whole is None or whole.scalar >= 0:
        return None
    start = linear_index(node.attributes["starts"], whole.strides)
    if not isinstance(start, int):
        return None
    strides = tuple(a * b for a, b in zip(whole.strides, node.attributes["steps"], strict=True))
    return Source(whole.buffer, strides, offset=whole.offset + start)


@dataclass
class Parameters:
    """The buffers and scalars that one kernel refers to, in order of first use."""

    buffers: dict[int, int] = field(default_factory=dict)
    scalars: dict[int, int] = field(default_factory=dict)
    written: set[int] = field(default_factory=set)
    read: set[int] = field(default_factory=set)

    def slot(self, buffer: int, write: bool = False) -> int:
        (self.written if write else self.read).add(buffer)
        return self.buffers.setdefault(buffer, len(self.buffers))

    def scalar(self, scalar: int) -> int:
        return self.scalars.setdefault(scalar, len(self.scalars))


class Lowerer:
    """Builds expressions for one group. ``replaced`` maps the group's axes to expressions of the kernel's axes."""

    def __init__(self, group: Group, reader: Reader, replaced: Mapping[str, Dim]) -> None:
        self.group = group
        self.reader = reader
        self.replaced = replaced
        self.parameters = Parameters()
        self.memo: dict[tuple[Node, Coordinates, Node | None], Node] = {}
        self.addresses: list[Dim] = []
        self.positions: list[Dim] = []  # what is computed with places or asked of them, and is no access
        self.loads = 0

    def at(self, coordinates: Coordinates) -> Coordinates:
        """Coordinates in the group's axes, rewritten in the kernel's."""
        return tuple(substitute(c, self.replaced) for c in coordinates)

    def member(self, node: Node) -> Node:
        """The expression of a member at its own coordinates."""
        return self.compute(node, self.at(self.group.members[node]), None)

    def value(self, node: Node, at: Coordinates, valid: Node | None) -> Node:
        """The element of ``node`` at ``at``; loads happen only where ``valid`` holds."""
        key = (node, at, valid)
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = self._value(node, at, valid)
        return found

    def _value(self, node: Node, at: Coordinates, valid: Node | None) -> Node:
        source = self.reader(node)
        if node in self.group.members and node is not self.scattered:
            own = self.at(self.group.members[node])
            # A stored member is read where it is made, though the terms may differ: its buffer is only being written.
            if own == at or source is not None:
                return self.compute(node, own, valid)
        if source is not None:
            return self._load(node, source, at, valid)
        if node.op.family == "view":
            return self._through_view(node, at, valid)
        if node.op.family == "source":
            return self._source(node, at)
        return self.compute(node, at, valid)

    scattered: Node | None = None

    def _load(self, node: Node, source: Source, at: Coordinates, valid: Node | None) -> Node:
        if source.scalar >= 0:
            return k.scalar(self.parameters.scalar(source.scalar), node.dtype)
        index = settle(linear_index(at, source.strides, source.offset))
        self.addresses.append(index)
        return k.load(self.parameters.slot(source.buffer), index, node.dtype, valid)

    def compute(self, node: Node, at: Coordinates, valid: Node | None) -> Node:
        """Apply the node's own operation at ``at``."""
        key = (node, at, valid)
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = self._compute(node, at, valid)
        return found

    def _compute(self, node: Node, at: Coordinates, valid: Node | None) -> Node:
        family = node.op.family
        if family == "matmul":
            return Node(k.RESULT, (), dtype=node.dtype)
        if family == "reduce":
            return self._reduction(node, valid)
        if node.op.name == "take":
            return self._take(node, at, valid)
        operands = tuple(self.value(s, at, valid) for s in node.sources)
        if node.op.name in ("copy", "detach", "attach", "own", "slope", "beside"):
            return operands[0]
        return Node(node.op, operands, **node.attributes)

    def _reduction(self, node: Node, valid: Node | None) -> Node:
        at = self.at(self.group.sources_at[node])
        operand = self.value(node.sources[0], at, valid)
        axes = self.inner_names
        if node.op.name == "reduce":
            return Node(k.REDUCE, (operand,), kind=node.attributes["kind"], axes=axes)
        position = at[reduced_axes(node)[0]]
        self.positions.append(position)
        return Node(k.ARGREDUCE, (operand,), kind=node.attributes["kind"], axes=axes, position=position)

    inner_names: tuple[str, ...] = ()

    def _take(self, node: Node, at: Coordinates, valid: Node | None) -> Node:
        rank = len(node.sources[1].shape)
        x = node.sources[0]
        # taking from a range of one element is how bodies check a divisor
        operator = "division" if x.op is p.iota and is_constant(x.shape[0], 1) else "take"
        positions: list[Dim] = []
        for i, index in enumerate(node.sources[1:]):
            positions.append(self.checked(index, at[:rank], x.shape[i], valid, operator))
        return self.value(x, (*positions, *at[rank:]), valid)

    def checked(self, index: Node, at: Coordinates, size: Dim, valid: Node | None, operator: str) -> Dim:
        """A loaded index as an atom, checked against ``size``; a known index stays an expression."""
        node = self.value(index, at, valid)
        if node.op is k.INDEX:
            return node.attributes["value"]
        check = Node(k.CHECK, (node,) if valid is None else (node, valid), size=size, operator=operator)
        self.loads += 1
        return loaded(f"g{check.serial}", size, check)

    def _source(self, node: Node, at: Coordinates) -> Node:
        attributes = node.attributes
        if node.op.name == "iota":
            return self._index(at[attributes["axis"]], node.dtype)
        value = attributes["value"]
        if isinstance(value, Expression):
            return self._index(value, node.dtype)
        return p.constant(value, (), node.dtype)

    def _index(self, value: Dim, to: dtype) -> Node:
        value = settle(value)
        self.positions.append(value)
        node = k.index_value(value)
        return node if to is dtypes.int64 else Node(p.cast, (node,), to=to)

    def _through_view(self, node: Node, at: Coordinates, valid: Node | None) -> Node:
        reads = reads_of(node, at)
        if node.op.name == "cat":
            out = self.value(node.sources[-1], bounded(node, reads[-1]), self._conditions(reads[-1].conditions, valid))
            for read in reversed(reads[:-1]):
                condition = self._conditions(read.conditions, None)
                inner = self.value(node.sources[read.position], bounded(node, read), self._conditions(read.conditions, valid))
                assert condition is not None
                out = Node(p.where, (condition, inner, out))
            return out
        read = reads[0]
        condition = self._conditions(read.conditions, None)
        inner = self.value(node.sources[0], bounded(node, read), self._conditions(read.conditions, valid))
        if condition is None or (inner.op is k.LOAD and inner.sources and repr(node.attributes["value"]) in ("0", "0.0", "False")):
            return inner  # a load gives 0 where it is not valid
        outside = p.constant(node.attributes["value"], (), node.dtype)
        return Node(p.where, (condition, inner, outside))

    def _conditions(self, conditions: Sequence[Condition], valid: Node | None) -> Node | None:
        for condition in conditions:
            value = settle(condition.value)
            self.positions += [value, condition.lower, condition.upper]
            inside = k.inside(value, condition.lower, condition.upper)
            valid = inside if valid is None else Node(p.bitwise_and, (valid, inside))
        return valid


def scatter_value(lowerer: Lowerer, node: Node) -> tuple[Node, Dim]:
    """The value a scatter stores at the current point, and where."""
    base, values = node.sources[0], node.sources[1]
    at = lowerer.at(lowerer.group.members[node])
    rank = len(node.sources[2].shape)
    positions = [
        lowerer.checked(index, at[:rank], base.shape[i], None, "scatter") for i, index in enumerate(node.sources[2:])
    ]
    target = linear_index((*positions, *at[rank:]), contiguous_strides(base.shape))
    lowerer.addresses.append(target)
    return lowerer.value(values, at, None), target
