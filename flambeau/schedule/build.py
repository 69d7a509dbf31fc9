"""Builds kernels from groups: lowers, merges axes, lowers again on the merged ones, and names everything canonically."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import (
    Dim,
    constant_term,
    contiguous_strides,
    is_nonnegative,
    linear_index,
    recombine,
    substitute,
    symbol,
)
from flambeau.ir import kernel as k
from flambeau.ir.node import Node
from flambeau.schedule.axes import Axes, merge_axes, order_axes, prefer_rows
from flambeau.schedule.fingerprint import fingerprint
from flambeau.schedule.grouping import Group, core_axes, product_axes
from flambeau.schedule.lowering import Lowerer, Reader, part_of, scatter_value


@dataclass(frozen=True)
class BuiltKernel:
    """A kernel with the program's buffers, scalars and sizes that its parameters stand for.

    A kernel sees each buffer from the element ``origins`` of it on.
    """

    kernel: k.Kernel
    buffers: tuple[int, ...]
    scalars: tuple[int, ...]
    sizes: tuple[Dim, ...]
    origins: tuple[int, ...]


@dataclass(frozen=True)
class Target:
    """A member that must be stored: ``buffer`` in row-major order, or with ``strides``."""

    node: Node
    buffer: int
    dtype: dtype
    strides: tuple[Dim, ...] | None = None


_built: dict[object, BuiltKernel] = {}
# Kernels of equal groups that are remembered.
MEMORY = 10_000


class KernelBuilder:
    """Builds the kernel of one group."""

    def __init__(
        self, group: Group, targets: Sequence[Target], reader: Reader, buffer_types: Sequence[dtype], scalar_types: Sequence[dtype]
    ) -> None:
        self.group = group
        self.targets = targets
        self.reader = partial(part_of, reader=reader, members=group.members)
        self.buffer_types = buffer_types
        self.scalar_types = scalar_types

    def build(self) -> BuiltKernel:
        """The kernel, taken from an equal group where there was one."""
        mark = fingerprint(self.group, [(t.node, t.buffer, (t.dtype, t.strides)) for t in self.targets], self.reader)
        key = (mark.key, tuple(t.dtype for t in self.targets))
        found = _built.get(key)
        places = [s.buffer for s in mark.sources] + [t.buffer for t in self.targets]
        scalars = [s.scalar for s in mark.sources]
        begins = [s.offset for s in mark.sources] + [0 for _ in self.targets]
        if found is None:
            built = self._build()
            buffers = tuple(places.index(b) for b in built.buffers)
            origins = tuple(origin - begins[b] for origin, b in zip(built.origins, buffers, strict=True))
            found = _built[key] = replace(built, buffers=buffers, scalars=tuple(scalars.index(s) for s in built.scalars), origins=origins)
            if len(_built) > MEMORY:
                _built.clear()
        origins = tuple(origin + begins[b] for origin, b in zip(found.origins, found.buffers, strict=True))
        buffers = tuple(places[b] for b in found.buffers)
        return replace(found, buffers=buffers, scalars=tuple(scalars[s] for s in found.scalars), origins=origins)

    def _build(self) -> BuiltKernel:
        outer, inner, replaced, vector = self._choose_axes()
        lowerer, stores = self._lower(replaced, tuple(name for name, _ in inner))
        return self._finish(lowerer, stores, outer, inner, vector)

    def _lower(self, replaced: dict[str, Dim], inner_names: tuple[str, ...]) -> tuple[Lowerer, list[k.Store]]:
        lowerer = Lowerer(self.group, self.reader, replaced)
        lowerer.inner_names = inner_names
        if self.group.kind == "scatter":
            (target,) = self.targets
            lowerer.scattered = target.node
            value, index = scatter_value(lowerer, target.node)
            slot = lowerer.parameters.slot(target.buffer, write=True)
            lowerer.parameters.read.add(target.buffer)
            return lowerer, [k.Store(slot, index, value, target.node.attributes["mode"])]
        for node in reversed(self.group.members):
            lowerer.member(node)
        stores: list[k.Store] = []
        for target in self.targets:
            node = target.node
            at = lowerer.at(self.group.members[node])
            index = linear_index(at, target.strides or contiguous_strides(node.shape))
            lowerer.addresses.append(index)
            slot = lowerer.parameters.slot(target.buffer, write=True)
            stores.append(k.Store(slot, index, lowerer.member(node)))
        return lowerer, stores

    # -- axes -------------------------------------------------------------------------------------------
    def _choose_axes(self) -> tuple[Axes, Axes, dict[str, Dim], str]:
        group = self.group
        if group.kind == "matmul":
            return self._matmul_axes()
        lowerer, stores = self._lower({}, group.inner)
        accesses = [s.index for s in stores] + lowerer.addresses
        indices = accesses + lowerer.positions
        outer = [(n, s) for n, s in group.axes if n not in group.inner]
        inner = [(n, s) for n, s in group.axes if n in group.inner]
        if group.kind == "scatter":
            return self._scatter_axes(outer, indices)
        outer, outer_map = merge_axes(order_axes(outer, accesses), indices, "a")
        inner, inner_map = merge_axes(order_axes(inner, accesses), indices, "r")
        replaced = {**outer_map, **inner_map}
        vector = self._vector(outer, inner, [recombine(substitute(i, replaced)) for i in accesses])
        return outer, inner, replaced, vector

    def _vector(self, outer: Axes, inner: Axes, accesses: Sequence[Dim]) -> str:
        if not inner:
            return outer[-1][0] if outer else ""
        if not outer:
            return inner[-1][0]
        sizes = dict(outer + inner)
        return inner[-1][0] if prefer_rows(inner[-1][0], outer[-1][0], sizes, accesses) else outer[-1][0]

    def _scatter_axes(self, axes: Axes, indices: Sequence[Dim]) -> tuple[Axes, Axes, dict[str, Dim], str]:
        """Index axes stay in order (their writes may meet); the others come last and may be divided."""
        (target,) = self.targets
        at = self.group.members[target.node]
        count = len(target.node.sources[2].shape)
        serial_names = {str(i) for i in at[:count]}
        serial, serial_map = merge_axes([a for a in axes if a[0] in serial_names], indices, "q")
        free, free_map = merge_axes([a for a in axes if a[0] not in serial_names], indices, "a")
        chosen = serial + free
        return chosen, [], {**serial_map, **free_map}, chosen[-1][0] if chosen else ""

    def _matmul_axes(self) -> tuple[Axes, Axes, dict[str, Dim], str]:
        """Exactly the product's own, whatever the axes of the group were; the last runs along contiguous elements of its result."""
        core, batches = self.group.core, (self.group.inner_batches, self.group.column_batches)
        assert core is not None
        replaced = core_axes(core, self.group.members[core], dict(self.group.axes), *batches)
        assert replaced is not None, "checked when the product joined"
        axes = product_axes(core, *batches)
        if self.group.transposed:
            axes = [*axes[:2], axes[3], axes[2]]
        return axes, [], replaced, axes[-1][0]

    # -- naming -----------------------------------------------------------------------------------------
    def _finish(self, lowerer: Lowerer, stores: list[k.Store], outer: Axes, inner: Axes, vector: str) -> BuiltKernel:
        parameters = lowerer.parameters
        accesses = [
            k.BufferParameter(
                self.buffer_types[b],
                "update" if b in parameters.written and b in parameters.read else "write" if b in parameters.written else "read",
            )
            for b in parameters.buffers
        ]
        scalars = tuple(self.scalar_types[s] for s in parameters.scalars)
        serial = self.group.kind == "scatter"
        kernel = k.Kernel(
            outer=tuple(k.KernelAxis(n, s, not (serial and n.startswith("q"))) for n, s in outer),
            inner=tuple(k.KernelAxis(n, s) for n, s in inner),
            vector=vector, buffers=tuple(accesses), sizes=(), scalars=scalars, stores=tuple(stores),
        )  # fmt: skip
        kernel, sizes, origins = canonical(kernel)
        return BuiltKernel(kernel, tuple(parameters.buffers), tuple(parameters.scalars), sizes, origins)


def canonical(kernel: k.Kernel) -> tuple[k.Kernel, tuple[Dim, ...], tuple[int, ...]]:
    """Name the size symbols n0, n1, ... and let each buffer begin where it is first read or written, so that equal kernels of
    different programs, and those of equal steps over parts of one buffer, are one. Returns also the sizes and the beginnings."""
    dims: list[Dim] = [a.size for a in (*kernel.outer, *kernel.inner)] + [s.index for s in kernel.stores]
    accesses: list[list[Dim]] = [[] for _ in kernel.buffers]
    for store in kernel.stores:
        accesses[store.buffer].append(store.index)
    for node in kernel.nodes():
        dims += k.index_dims(node)
        if node.op is k.LOAD:
            accesses[node.attributes["buffer"]].append(node.attributes["index"])
    names = k.symbols_in(dims)
    renaming: dict[str, Dim] = {name: symbol(f"n{i}") for i, name in enumerate(names)}
    origins = tuple(map(_origin, accesses))
    renamed = k.substitute_kernel(kernel, renaming, origins)
    return _with_sizes(renamed, tuple(f"n{i}" for i in range(len(names)))), tuple(symbol(n) for n in names), origins


def _origin(accesses: Sequence[Dim]) -> int:
    """The first element that the accesses of a buffer reach as far as numbers tell it."""
    first = min((constant_term(index) for index in accesses), default=0)
    return first if first > 0 and all(is_nonnegative(index - first) for index in accesses) else 0


def _with_sizes(kernel: k.Kernel, names: tuple[str, ...]) -> k.Kernel:
    return k.Kernel(kernel.outer, kernel.inner, kernel.vector, kernel.buffers, names, kernel.scalars, kernel.stores)
