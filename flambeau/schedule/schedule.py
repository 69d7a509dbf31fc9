"""From a graph to an ordered list of calls over numbered buffers: what a program runs."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from flambeau import prims as p
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import Dim, atoms_of, axis, contiguous_strides, is_constant, product
from flambeau.ir.difference import report_pass
from flambeau.ir.graph import Graph
from flambeau.ir.node import Node
from flambeau.ir.origins import Origin, origins_of
from flambeau.passes.simplify import simplify
from flambeau.passes.sums import merge_sums
from flambeau.schedule.build import BuiltKernel, KernelBuilder, Target
from flambeau.schedule.grouping import Group, Grouping, Use, group_nodes
from flambeau.schedule.legalize import legalize
from flambeau.schedule.lowering import Source
from flambeau.schedule.operands import MatmulOperands, matmul_operands, runs_along_columns, runs_along_rows
from flambeau.schedule.recompute import recompute
from flambeau.schedule.specs import InputSpec, OutputSpec, Strides
from flambeau.schedule.views import leading_digit


@dataclass(frozen=True, slots=True)
class Buffer:
    """A piece of memory: ``role`` input, output or temporary; ``index`` is its position among inputs or outputs.

    A ``part`` lies in the buffer number ``index``, from element ``offset`` on. ``numel`` counts the elements from the first to the
    last, those that strides step over included.
    """

    role: str
    index: int
    dtype: dtype
    numel: Dim
    offset: Dim = 0


@dataclass(frozen=True)
class Call:
    """One step. ``built`` is the kernel (of a matmul: its epilogue); templates read ``reads`` and ``attributes``.

    ``origins`` are the user's lines that it comes from, where they were kept.
    """

    kind: str  # loop, scatter, matmul, scan, argsort, random, or the name of a factorization
    wave: int
    writes: tuple[int, ...]
    reads: tuple[int, ...]
    built: BuiltKernel | None = None
    operands: MatmulOperands | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    origins: tuple[Origin, ...] = ()


@dataclass(frozen=True)
class Schedule:
    """Buffers and calls; ``outputs[j]`` is the buffer of output j; ``scalars`` are the positions of number inputs."""

    buffers: tuple[Buffer, ...]
    calls: tuple[Call, ...]
    outputs: tuple[int, ...]
    scalars: tuple[int, ...]


def make_schedule(graph: Graph, inputs: Sequence[InputSpec], outputs: Sequence[OutputSpec]) -> Schedule:
    """Legalize, fuse, order and lower ``graph``."""
    return _Scheduler(graph, inputs, outputs).run()


class _Scheduler:
    def __init__(self, graph: Graph, inputs: Sequence[InputSpec], outputs: Sequence[OutputSpec]) -> None:
        self.inputs = inputs
        self.layouts: dict[Node, Strides] = {
            node: spec.strides for node, spec in zip(graph.inputs, inputs, strict=True) if spec.strides is not None
        }
        simple = report_pass("simplify", graph, simplify(graph))
        merged = report_pass("merge_sums", simple, merge_sums(simple))
        plain, strides = [spec == OutputSpec() for spec in outputs], [spec.strides if spec.into is None else None for spec in outputs]
        self.graph = report_pass("legalize", merged, legalize(merged, self.layouts, plain, strides))
        self.specs = dict(zip(self.graph.outputs, outputs, strict=True))
        self.buffers: list[Buffer] = []
        self.sources: dict[Node, Source] = {}
        self.scalar_types: list[dtype] = []
        self.scalars: list[int] = []
        self.targets: dict[Group, list[Target]] = {}
        self.copies: list[tuple[Node, int, int]] = []
        # The parts of joined nodes: into which, and where along its axis.
        self.parts: dict[Node, tuple[Node, Dim]] = {}
        for node in self.graph.nodes():
            start: Dim = 0
            for part in node.sources if node.op is p.join else ():
                self.parts[part] = node, start
                start = start + part.shape[node.attributes["axis"]]

    def run(self) -> Schedule:
        self._add_inputs()
        grouping = group_nodes(self.graph)
        recompute(grouping, self.graph.outputs)
        self._order_random(grouping)
        direct = {o for o in self.graph.outputs if self._may_write_into(o, grouping)}
        order = topological(grouping)
        for group in order:
            for node in reversed(group.members):
                if node in self.parts and node.op is not p.join:
                    self._add_part(node, group)
                elif node in grouping.stored and node.op is not p.join:
                    self._add_target(node, group, direct)
        calls = self._calls(order, grouping)
        outputs = tuple(self._output_buffer(o) for o in self.graph.outputs)
        return Schedule(tuple(self.buffers), tuple(calls), outputs, tuple(self.scalars))

    # -- buffers ----------------------------------------------------------------------------------------
    def _add_inputs(self) -> None:
        for position, (node, spec) in enumerate(zip(self.graph.inputs, self.inputs, strict=True)):
            number = len(self.buffers)
            self.buffers.append(Buffer("input", position, node.dtype, _extent(node.shape, spec.strides)))
            if spec.scalar:
                self.sources[node] = Source(-1, (), len(self.scalars))
                self.scalars.append(position)
                self.scalar_types.append(node.dtype)
            else:
                self.sources[node] = Source(number, spec.strides or contiguous_strides(node.shape))

    def _add_part(self, node: Node, group: Group) -> None:
        memory = self._memory_of_part(node)
        self.targets.setdefault(group, []).append(Target(node, memory.buffer, node.dtype, memory.strides))

    def _memory_of_part(self, node: Node) -> Source:
        """A part of the joined node's memory, which may be a part itself."""
        whole, start = self.parts[node]
        if whole not in self.sources:
            spec = self.specs.get(whole, OutputSpec())
            if whole in self.parts:
                self._memory_of_part(whole)
            elif whole in self.specs and spec.into is None:
                number = self._new("output", self.graph.outputs.index(whole), whole, spec.strides)
                self.sources[whole] = Source(number, spec.strides or contiguous_strides(whole.shape))
            else:
                number = self._new("temporary", len(self.buffers), whole)
                if spec.into is not None:
                    self.copies.append((whole, number, spec.into))
                self.sources[whole] = Source(number, spec.strides or contiguous_strides(whole.shape))
        memory = self.sources[whole]
        offset, number = start * memory.strides[whole.attributes["axis"]], memory.buffer
        outer = self.buffers[number]
        if outer.role == "part":
            number, offset = outer.index, outer.offset + offset
        self.buffers.append(Buffer("part", number, node.dtype, _extent(node.shape, memory.strides), offset))
        self.sources[node] = Source(len(self.buffers) - 1, memory.strides)
        return self.sources[node]

    def _add_target(self, node: Node, group: Group, direct: set[Node]) -> None:
        spec = self.specs.get(node)
        strides: Strides | None = None
        if node.op.name == "scatter":
            base = self.sources[node.sources[0]]
            number, strides = base.buffer, base.strides
            if spec is not None and spec.into is not None:
                self.copies.append((node, number, spec.into))
        elif spec is not None and spec.into is not None:
            target = self.sources[self.graph.inputs[spec.into]]
            if node in direct:
                number, strides = target.buffer, target.strides
            else:
                number = self._new("temporary", len(self.buffers), node)
                self.copies.append((node, number, spec.into))
        else:
            owner = self._scatter_owner(node)
            spec = self.specs.get(owner)
            if spec is not None and spec.into is None:
                strides = spec.strides
                number = self._new("output", self.graph.outputs.index(owner), node, strides)
            else:
                number = self._new("temporary", len(self.buffers), node)
        self.sources[node] = Source(number, strides or contiguous_strides(node.shape))
        self.targets.setdefault(group, []).append(Target(node, number, node.dtype, strides))

    def _scatter_owner(self, node: Node) -> Node:
        """The scatter that updates this copy in place (the last of a chain), or the node itself."""
        found = self._scatters().get(node)
        while found is not None:
            node, found = found, self._scatters().get(found)
        return node

    def _scatters(self) -> dict[Node, Node]:
        if not hasattr(self, "_scatter_of"):
            self._scatter_of = {n.sources[0]: n for n in self.graph.nodes() if n.op is p.scatter}
        return self._scatter_of

    def _new(self, role: str, index: int, node: Node, strides: Strides | None = None) -> int:
        self.buffers.append(Buffer(role, index, node.dtype, _extent(node.shape, strides)))
        return len(self.buffers) - 1

    def _output_buffer(self, node: Node) -> int:
        return self.sources[node].buffer

    # -- writing into inputs ----------------------------------------------------------------------------
    def _may_write_into(self, node: Node, grouping: Grouping) -> bool:
        """Whether the output may be stored over the input while everybody else has read the old value."""
        spec = self.specs[node]
        group = grouping.group_of[node]
        if spec.into is None or group.kind not in ("loop", "matmul"):
            return False
        if group.inner and any(depends_on(i, group.inner) for i in group.members[node]):
            return False  # a later phase may read the old value again
        target = self.graph.inputs[spec.into]
        if self.layouts.get(target) is not None and _may_overlap(self.layouts[target], target.shape):
            return False
        uses = grouping.uses.get(target, [])
        if any(u.group is group and not _same_place(u, group, node) for u in uses):
            return False
        checking = checking_groups(grouping)
        if group in checking:
            return False  # it may find a bad index when it has stored something already
        before = {u.group for u in uses} | checking
        return all(grouping.add_order(g, group) for g in before)

    def _order_random(self, grouping: Grouping) -> None:
        draws = sorted((n for n in grouping.group_of if n.op.family == "random"), key=lambda n: n.attributes["serial"])
        for first, then in zip(draws, draws[1:], strict=False):
            grouping.add_order(grouping.group_of[first], grouping.group_of[then])

    # -- calls ------------------------------------------------------------------------------------------
    def _calls(self, order: list[Group], grouping: Grouping) -> list[Call]:
        waves: dict[int, int] = {}
        calls: list[Call] = []
        for group in order:
            waves[group.number] = max((waves[f] + 1 for f in group.feeders), default=0)
        for group in order:
            if group in self.targets:  # else everything it computes is recomputed by its readers
                calls.append(self._call(group, waves[group.number]))
        calls.sort(key=lambda c: c.wave)
        last = max((c.wave for c in calls), default=-1) + 1
        for node, buffer, into in self.copies:
            calls.append(self._write_back(node, buffer, into, last))
        return calls

    def _call(self, group: Group, wave: int) -> Call:
        targets = self.targets.get(group, [])
        writes = tuple(t.buffer for t in targets)
        if group.kind in ("loop", "scatter", "matmul"):
            operands: MatmulOperands | None = None
            if group.kind == "matmul":
                built, operands = self._matmul(group, targets)
            else:
                built = KernelBuilder(group, targets, self._reader, self._buffer_types(), self.scalar_types).build()
            reads = tuple(b for b in built.buffers if b not in writes or group.kind == "scatter")
            reads += operands.buffers if operands else ()
            return Call(group.kind, wave, writes, reads, built, operands, origins=origins_of(group.members))
        node = next(iter(group.members))
        sources = [self.sources[s] for s in node.sources]
        attributes = {**node.attributes, "shape": node.shape, "dtype": node.sources[0].dtype if node.sources else node.dtype}
        if node.op.family == "factor":
            parts = tuple(t.node.attributes.get("part", 0) for t in targets)
            attributes |= {"parts": parts, "shapes": tuple(s.shape for s in node.sources)}
        if node.sources:
            attributes["source"] = node.sources[0].shape
        return Call(group.kind, wave, writes, tuple(s.buffer for s in sources), attributes=attributes, origins=origins_of(group.members))

    def _buffer_types(self) -> list[dtype]:
        return [b.dtype for b in self.buffers]

    def _reader(self, node: Node) -> Source | None:
        return self.sources.get(node)

    def _matmul(self, group: Group, targets: list[Target]) -> tuple[BuiltKernel, MatmulOperands]:
        """A product and its epilogue, turned over where that makes the stores contiguous."""
        assert group.core is not None
        buffers = {node: source.buffer for node, source in self.sources.items()}
        operands = matmul_operands(group.core, self._strides(), buffers)
        group.inner_batches = operands.inner
        builder = KernelBuilder(group, targets, self._reader, self._buffer_types(), self.scalar_types)
        built = builder.build()
        if operands.windows is not None:
            return self._windows(group, builder, built, operands)
        if not runs_along_rows(built.kernel):
            return built, operands
        group.transposed = True
        return builder.build(), operands.transposed()

    def _windows(
        self, group: Group, builder: KernelBuilder, built: BuiltKernel, operands: MatmulOperands
    ) -> tuple[BuiltKernel, MatmulOperands]:
        """A product with windows: where the first digit of the columns makes their stores part, it numbers inner batches."""
        assert group.core is not None
        if runs_along_columns(built.kernel):
            return built, operands
        first = leading_digit(group.members[group.core][-1], dict(group.axes), group.core.shape[-1])
        if first is None:
            return built, operands
        group.inner_batches = group.column_batches = first
        return builder.build(), operands.with_batched_columns(first)

    def _strides(self) -> dict[Node, Strides]:
        return {node: source.strides for node, source in self.sources.items() if source.buffer >= 0}

    def _write_back(self, node: Node, buffer: int, into: int, wave: int) -> Call:
        """Copy a finished temporary over an input."""
        target = self.graph.inputs[into]
        copy = p.copy(node, index=-1)
        group = Group(-1, "loop")
        at = tuple(0 if n == 1 else _axis(group, i, n) for i, n in enumerate(node.shape))
        group.members[copy] = at
        source, destination = Source(buffer, self.sources[node].strides), self.sources[target]
        reader = {node: source}.get
        built = KernelBuilder(
            group, [Target(copy, destination.buffer, copy.dtype, destination.strides)], reader, self._buffer_types(), self.scalar_types
        ).build()
        return Call("loop", wave, (destination.buffer,), (buffer,), built)


def _extent(shape: tuple[Dim, ...], strides: Strides | None) -> Dim:
    if strides is None or any(is_constant(n, 0) for n in shape):
        return product(shape)
    reach: Dim = 1
    for size, stride in zip(shape, strides, strict=True):
        reach = reach + (size - 1) * stride
    return reach


def _axis(group: Group, position: int, size: Dim) -> Dim:
    group.axes.append((f"w{position}", size))
    return axis(f"w{position}", size)


def _same_place(use: Use, group: Group, node: Node) -> bool:
    return use.exact and not use.conditional and use.at == group.members[node]


def checking_groups(grouping: Grouping) -> set[Group]:
    """Groups that may raise on a value: nothing may be written over before they have run."""
    found = {g for node, g in grouping.group_of.items() if node.op.name in ("take", "scatter") or raises(node)}
    for node in grouping.inlined:
        if node.op.name == "take":
            found |= {u.group for u in grouping.uses.get(node, [])}
    return found


def raises(node: Node) -> bool:
    """Whether a factorization raises where a matrix has none."""
    return node.op.family == "factor" and bool(node.attributes.get("operator"))


def depends_on(index: Dim, axes: tuple[str, ...]) -> bool:
    """Whether an index uses one of the axes."""
    return any(a.name in axes for a in atoms_of(index))


def _may_overlap(strides: Strides, shape: tuple[Dim, ...]) -> bool:
    return any(isinstance(s, int) and s == 0 and not n == 1 for s, n in zip(strides, shape, strict=True))


def topological(grouping: Grouping) -> list[Group]:
    """Groups in an order that respects all dependencies, close to the program's own."""
    remaining = {g.number: len(g.feeders) for g in grouping.groups}
    ready = [-g.number for g in grouping.groups if not g.feeders]
    heapq.heapify(ready)
    out: list[Group] = []
    while ready:
        group = grouping.groups[-heapq.heappop(ready)]
        out.append(group)
        for reader in group.readers:
            remaining[reader] -= 1
            if not remaining[reader]:
                heapq.heappush(ready, -reader)
    if len(out) != len(grouping.groups):
        raise RuntimeError("internal error: the groups of a schedule depend on each other in a circle")
    return out


__all__ = ["Buffer", "Call", "InputSpec", "MatmulOperands", "OutputSpec", "Schedule", "make_schedule", "topological"]
