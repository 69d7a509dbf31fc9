"""Tells groups that give the same kernel, so that identical layers are lowered once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from flambeau import prims as p
from flambeau.core.symbolic import Dim, Expression
from flambeau.ir.node import Node, bits_key, toposort
from flambeau.schedule.grouping import Group
from flambeau.schedule.lowering import Reader, Source


@dataclass(frozen=True)
class Fingerprint:
    """``key`` is equal for groups with equal kernels; ``sources`` are what the leaves stand for, in order, each buffer from where
    the first of its parts begins."""

    key: Hashable
    sources: tuple[Source, ...]


def fingerprint(group: Group, targets: Sequence[tuple[Node, int, object]], reader: Reader) -> Fingerprint:
    """The structure of a group: its nodes down to what lies in memory, their coordinates, and what is stored.

    ``targets`` are (node, buffer, strides).
    """
    positions = {name: i for i, (name, _) in enumerate(group.axes)}
    written = {buffer: i for i, (_, buffer, _) in enumerate(targets)}
    local: dict[Node, int] = {}
    parts: list[Hashable] = []
    sources: list[Source] = []
    numbers: dict[tuple[int, int], int] = {}
    order = _order(group, [node for node, _, _ in targets], reader)
    leaves = [source for node in order if node not in group.members and (source := reader(node)) is not None]
    first: dict[int, int] = {}
    for source in leaves:
        first[source.buffer] = min(first.get(source.buffer, source.offset), source.offset)
    for node in order:
        source = None if node in group.members else reader(node)
        local[node] = len(parts)
        if source is not None:
            number = numbers.setdefault((source.buffer, source.scalar), len(numbers))
            begin = first[source.buffer]
            if number == len(sources):
                sources.append(replace(source, offset=begin))
            strides = tuple(_dim(s, positions) for s in source.strides)
            parts.append(
                ("leaf", node.dtype, _dims(node.shape, positions), strides, number, source.scalar >= 0, written.get(source.buffer),
                 source.offset - begin)
            )  # fmt: skip
            continue
        # The number of a copy only tells it from others of the same node.
        attributes = () if node.op is p.copy else tuple((k, _attribute(v, positions)) for k, v in node.attributes.items())
        at = group.members.get(node)
        below = group.sources_at.get(node)
        parts.append((
            node.op, attributes, tuple(local[s] for s in node.sources), _dims(node.shape, positions),
            None if at is None else _dims(at, positions), None if below is None else _dims(below, positions),
        ))  # fmt: skip
    axes = tuple((_dim(size, positions), name in group.inner) for name, size in group.axes)
    stored = tuple((local[node], written[buffer], strides) for node, buffer, strides in targets)
    batches = _dims((group.inner_batches, group.column_batches), positions)
    core = None if group.core is None else (local.get(group.core, -1), batches, group.transposed)
    key = (group.kind, axes, tuple(parts), stored, core)
    return Fingerprint(key, tuple(sources))


def _order(group: Group, roots: list[Node], reader: Reader) -> list[Node]:
    """Nodes down to leaves, sources first. A product's operands are the template's business, not the kernel's."""
    return toposort((*group.members, *roots), lambda n: n.sources if n in group.members or reader(n) is None else ())


def _dims(values: Sequence[Dim], positions: dict[str, int]) -> Hashable:
    return tuple(_dim(v, positions) for v in values)


def _dim(value: Dim, positions: dict[str, int]) -> Hashable:
    """An index with the group's axes by position, so that their names do not matter."""
    if not isinstance(value, Expression):
        return value
    return tuple((tuple(_atom(a, positions) for a in monomial), coefficient) for monomial, coefficient in value.terms)


def _atom(atom: object, positions: dict[str, int]) -> Hashable:
    name = atom.name  # type: ignore[attr-defined]
    if name in positions:
        return positions[name]
    arguments = atom.arguments  # type: ignore[attr-defined]
    return (atom.kind, *(_dim(v, positions) for v in arguments)) if arguments else name  # type: ignore[attr-defined]


def _attribute(value: object, positions: dict[str, int]) -> Hashable:
    if isinstance(value, Expression):
        return _dim(value, positions)
    if isinstance(value, tuple):
        return tuple(_attribute(v, positions) for v in value)
    return bits_key(value)
