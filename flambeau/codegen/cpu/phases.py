"""Divides a kernel's inner loops into phases: what must be finished before what, and what is kept in between."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from flambeau.codegen.cpu.costs import STASH_ABOVE, instructions
from flambeau.core.symbolic import atoms_of
from flambeau.ir.kernel import (
    ARGREDUCE,
    LOAD,
    REDUCE,
    RESULT,
    Kernel,
    KernelAxis,
    Store,
    axes_in,
    loaded_nodes,
)
from flambeau.ir.kernel import index_dims as kernel_index_dims
from flambeau.ir.kernel import operands as kernel_operands  # fmt: skip
from flambeau.ir.node import Node, toposort

Free = Mapping[Node, frozenset[str]]

# Asked for each node again and again while one kernel is written.
operands = lru_cache(1 << 12)(kernel_operands)
index_dims = lru_cache(1 << 12)(kernel_index_dims)


@dataclass(eq=False)
class Phase:
    """One pass over ``axes`` (the last is the innermost): the reductions and stores that share its loops.

    ``keeps`` are values written to scratch for later phases, ``kept`` those that this one reads back.
    """

    number: int
    axes: tuple[KernelAxis, ...]
    reductions: list[Node] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    keeps: list[Node] = field(default_factory=list)
    kept: list[Node] = field(default_factory=list)

    @property
    def roots(self) -> list[Node]:
        """What the loops compute: operands of the reductions and whatever the stores name."""
        out: list[Node] = []
        for reduction in self.reductions:
            out += operands(reduction)
        for store in self.stores:
            out += store_nodes(store)
        return out


def store_nodes(store: Store) -> list[Node]:
    """The nodes that a store needs."""
    out = [store.value, *loaded_nodes(store.index)]
    return out if store.valid is None else [*out, store.valid]


def dependencies(kernel: Kernel, order: Iterable[Node]) -> dict[Node, frozenset[str]]:
    """For each node the axes it depends on; a template's result depends on all outer axes."""
    every = frozenset(a.name for a in kernel.outer)
    free: dict[Node, frozenset[str]] = {}
    for node in order:
        names = {name for dim in index_dims(node) for name in axes_in(dim)}
        for operand in operands(node):
            names |= free[operand]
        if node.op is REDUCE or node.op is ARGREDUCE:
            names -= set(node.attributes["axes"])
        free[node] = every if node.op is RESULT else frozenset(names)
    return free


def store_axes(store: Store, free: Free) -> frozenset[str]:
    names = set(axes_in(store.index))
    for node in store_nodes(store):
        names |= free[node]
    return frozenset(names)


def needed(roots: Iterable[Node], leaves: Container[Node] = ()) -> list[Node]:
    """Everything the roots need, sources first; reductions and ``leaves`` are not looked into."""
    return toposort(roots, lambda n: () if n.op is REDUCE or n.op is ARGREDUCE or n in leaves else operands(n))


def plan_phases(kernel: Kernel, order: list[Node], free: Free) -> tuple[list[Phase], list[Store]]:
    """The phases in order, and the stores that come after them, once for each outer point."""
    inner = frozenset(a.name for a in kernel.inner)
    ready: dict[Node, int] = {}
    phases: dict[tuple[int, tuple[KernelAxis, ...]], Phase] = {}

    def phase_of(number: int, axes: tuple[KernelAxis, ...]) -> Phase:
        return phases.setdefault((number, axes), Phase(number, axes))

    for node in order:
        ready[node] = max((ready[operand] for operand in operands(node)), default=0)
        if (node.op is REDUCE or node.op is ARGREDUCE) and not free[node] & inner:
            phase_of(ready[node], tuple(a for a in kernel.inner if a.name in node.attributes["axes"])).reductions.append(node)
            ready[node] += 1
    axes_of = {store: tuple(a for a in kernel.inner if a.name in store_axes(store, free)) for store in kernel.stores}
    first = {store: max(ready[node] for node in store_nodes(store)) for store in kernel.stores}
    for store in kernel.stores:
        axes, number = axes_of[store], first[store]
        if not axes:
            continue
        later = [n for n, other in phases if other == axes and n >= number]
        if kernel.buffers[store.buffer].access == "update":
            # Whatever reads the buffer's old contents must do so before they are replaced.
            number = max([number, *later, *(first[s] for s in kernel.stores if axes_of[s] == axes)])
        elif later:
            number = min(later)
        phase_of(number, axes).stores.append(store)
    ordered = sorted(phases.values(), key=lambda p: p.number)
    plan_stashes(ordered, free, inner, kernel.vector)
    return ordered, [store for store in kernel.stores if not axes_of[store]]


def plan_stashes(phases: list[Phase], free: Free, inner: frozenset[str], vector: str) -> None:
    """Choose the values that are cheaper to keep than to compute again in a later phase over the same axes."""
    computed: dict[tuple[Node, tuple[KernelAxis, ...]], Phase] = {}
    costs: dict[Node, int] = {}
    for phase in phases:
        seen: set[Node] = set()
        stack = list(reversed(phase.roots))
        while stack:
            node = stack.pop()
            if node in seen or not free[node] & inner or node.op is REDUCE or node.op is ARGREDUCE:
                continue
            seen.add(node)
            earlier = computed.setdefault((node, phase.axes), phase)
            if earlier is not phase and vector in free[node] and cost_again(node, free, inner, costs) > STASH_ABOVE:
                phase.kept.append(node)
                if node not in earlier.keeps:
                    earlier.keeps.append(node)
                continue
            stack.extend(reversed(operands(node)))


def cost_again(root: Node, free: Free, inner: frozenset[str], costs: dict[Node, int]) -> int:
    """The instructions that computing a node again takes; plain loads are free, as reading it back is no cheaper."""
    for node in needed([root], costs):
        if node in costs:
            continue
        if not free[node] & inner or node.op is REDUCE or node.op is ARGREDUCE:
            costs[node] = 0
            continue
        own = instructions(node)
        if node.op is LOAD and not any(a.kind != "symbol" and a.kind != "axis" for a in atoms_of(node.attributes["index"])):
            own = 0
        costs[node] = min(own + sum(costs[operand] for operand in operands(node)), 1000)
    return costs[root]
