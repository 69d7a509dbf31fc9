"""What a kernel means, in numpy: the oracle for code generators. Slow and plain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from flambeau.core.symbolic import Atom, Dim, evaluate, terms_of
from flambeau.ir.kernel import (
    ARGREDUCE,
    CHECK,
    INDEX,
    INSIDE,
    LOAD,
    REDUCE,
    RESULT,
    SCALAR,
    Kernel,
    KernelAxis,
    Store,
    axes_in,
    free_axes,
    loaded_nodes,
)  # fmt: skip
from flambeau.ir.node import Node

Array = Any  # an array with one dimension for each axis of the kernel, of size 1 where the value does not depend on it

_STEPS: dict[str, Any] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "any": np.logical_or, "all": np.logical_and,
}  # fmt: skip
_MODES: dict[str, Any] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def run_kernel(kernel: Kernel, buffers: Sequence[Array], sizes: Mapping[str, int], scalars: Sequence[float]) -> list[tuple[str, int, int]]:
    """Run a kernel on flat arrays, which it changes in place; returns (operator, value, bound) of every index out of range.

    Float sums and products are accumulated in float64. The outer axes that are not parallel run one after another.
    """
    serial = [a for a in kernel.outer if not a.parallel]
    reports: list[tuple[str, int, int]] = []
    for point in product(*(range(evaluate(a.size, sizes)) for a in serial)):
        fixed = {a.name: place for a, place in zip(serial, point, strict=True)}
        _Step(kernel, buffers, sizes, scalars, fixed, reports).run()
    return reports


class _Step:
    """One point of the serial axes, with all other axes at once."""

    def __init__(
        self, kernel: Kernel, buffers: Sequence[Array], sizes: Mapping[str, int], scalars: Sequence[float], fixed: Mapping[str, int],
        reports: list[tuple[str, int, int]],
    ) -> None:  # fmt: skip
        self.kernel = kernel
        self.buffers = buffers
        self.sizes = sizes
        self.scalars = scalars
        self.reports = reports
        self.values: dict[Node, Array] = {}
        self.axes: tuple[KernelAxis, ...] = (*kernel.outer, *kernel.inner)
        self.extent = {a.name: 1 if a.name in fixed else evaluate(a.size, sizes) for a in self.axes}
        self.places: dict[str, Array] = {}
        for number, a in enumerate(self.axes):
            line = np.array([fixed[a.name]]) if a.name in fixed else np.arange(self.extent[a.name])
            self.places[a.name] = line.reshape([-1 if i == number else 1 for i in range(len(self.axes))])

    def run(self) -> None:
        order = self.kernel.nodes()
        self.free = free_axes(order)
        if any(not self.extent[a.name] for a in self.kernel.outer):
            return
        for node in order:
            self.values[node] = self.node(node)
        for store in self.kernel.stores:
            self.store(store)

    # -- index arithmetic -----------------------------------------------------------------------------------
    def dim(self, value: Dim) -> Array:
        total: Array = np.zeros([1] * len(self.axes), np.int64)
        for monomial, coefficient in terms_of(value):
            part: Array = np.int64(coefficient)
            for a in monomial:
                part = part * self.atom(a)
            total = total + part
        return total

    def atom(self, a: Atom) -> Array:
        if a.kind == "axis":
            return self.places[a.name]
        if a.kind == "symbol":
            return self.sizes[a.name]
        if a.kind == "loaded":
            return self.values[a.payload].astype(np.int64)  # type: ignore[index]
        x, y = (self.dim(argument) for argument in a.arguments)
        return {"floordiv": np.floor_divide, "mod": np.mod, "min": np.minimum}[a.kind](x, y)

    # -- nodes --------------------------------------------------------------------------------------------------
    def node(self, node: Node) -> Array:
        sources = [self.values[s] for s in node.sources]
        rules = {LOAD: self.load, INDEX: self.index, INSIDE: self.inside, CHECK: self.check, SCALAR: self.scalar, REDUCE: self.reduce,
                 ARGREDUCE: self.argreduce}  # fmt: skip
        if node.op is RESULT:
            raise NotImplementedError("a kernel with a template's result has no meaning of its own; give the template's element by a load")
        if node.op in rules:
            return rules[node.op](node, *sources)
        if node.op.name == "full":
            return self.number(node.attributes["value"], node)
        return node.op.reference(*sources, **node.attributes)

    def load(self, node: Node, valid: Array = True) -> Array:
        memory = self.buffers[node.attributes["buffer"]]
        index, valid = np.broadcast_arrays(self.dim(node.attributes["index"]), valid & self.can_be_inside(node.attributes["index"]))
        out = np.zeros(index.shape, node.dtype.numpy)
        out[valid] = memory[index[valid]]
        return out

    def can_be_inside(self, index: Dim) -> bool:
        checks = [n for n in loaded_nodes(index) if n.op is CHECK]
        return all(evaluate(n.attributes["size"], self.sizes) > 0 for n in checks)

    def index(self, node: Node) -> Array:
        return self.dim(node.attributes["value"])

    def inside(self, node: Node) -> Array:
        value, lower, upper = (self.dim(node.attributes[k]) for k in ("value", "lower", "upper"))
        return (lower <= value) & (value < upper)

    def check(self, node: Node, index: Array, valid: Array = True) -> Array:
        size = self.dim(node.attributes["size"])
        bad, where, bound = np.broadcast_arrays(((index < 0) | (index >= size)) & valid, index, size)
        self.reports += [(node.attributes["operator"], int(i), int(s)) for i, s in zip(where[bad], bound[bad], strict=True)]
        return np.clip(index, 0, np.maximum(size - 1, 0))

    def scalar(self, node: Node) -> Array:
        return self.number(self.scalars[int(node.attributes["slot"])], node)

    def number(self, value: float, node: Node) -> Array:
        return np.asarray(value).astype(node.dtype.numpy).reshape([1] * len(self.axes))

    def spread(self, value: Array, names: Sequence[str]) -> Array:
        """The value repeated along these axes."""
        shape = [self.extent[a.name] if a.name in names else old for a, old in zip(self.axes, value.shape, strict=True)]
        return np.broadcast_to(value, shape)

    def reduce(self, node: Node, value: Array) -> Array:
        names, step = node.attributes["axes"], _STEPS[node.attributes["kind"]]
        numbers = tuple(i for i, a in enumerate(self.axes) if a.name in names)
        wide = np.float64 if node.dtype.is_floating_point and step in (np.add, np.multiply) else node.dtype.numpy
        start = {"max": _least(node), "min": _greatest(node)}.get(node.attributes["kind"])
        with np.errstate(all="ignore"):
            keywords = {} if start is None else {"initial": start}
            return step.reduce(self.spread(value, names).astype(wide), axis=numbers, keepdims=True, **keywords).astype(node.dtype.numpy)

    def argreduce(self, node: Node, value: Array) -> Array:
        names = node.attributes["axes"]
        numbers = [i for i, a in enumerate(self.axes) if a.name in names]
        value, position = np.broadcast_arrays(self.spread(value, names), self.dim(node.attributes["position"]))
        value = np.moveaxis(value, numbers, range(-len(numbers), 0)).reshape(*_kept(value.shape, numbers), -1)
        position = np.moveaxis(position, numbers, range(-len(numbers), 0)).reshape(value.shape)
        if not value.shape[-1]:
            return np.full(np.expand_dims(value[..., :0].sum(-1), numbers).shape, np.iinfo(np.int64).max)
        best = (np.max if node.attributes["kind"] == "max" else np.min)(value, axis=-1, keepdims=True)
        hit = (value == best) | ((value != value) & (best != best))
        out = np.where(hit, position, np.iinfo(np.int64).max).min(axis=-1)
        return np.expand_dims(out, numbers)

    # -- stores -------------------------------------------------------------------------------------------------
    def store(self, store: Store) -> None:
        if not self.can_be_inside(store.index):
            return
        names = [a.name for a in self.kernel.outer]
        nodes = [store.value, *loaded_nodes(store.index), *([] if store.valid is None else [store.valid])]
        used = set(axes_in(store.index)).union(*(self.free[n] for n in nodes))
        names += [a.name for a in self.kernel.inner if a.name in used]
        index = self.spread(self.dim(store.index), names)
        valid = self.values[store.valid] if store.valid is not None else np.bool_(True)
        index, value, valid = np.broadcast_arrays(index, self.values[store.value], valid)
        memory, index, value = self.buffers[store.buffer], index[valid], value[valid]
        if store.mode == "set":
            memory[index] = value
            return
        for place, new in zip(index, value, strict=True):
            with np.errstate(all="ignore"):
                memory[place] = _MODES[store.mode](memory[place], new)


def _kept(shape: Sequence[int], numbers: Sequence[int]) -> list[int]:
    return [size for i, size in enumerate(shape) if i not in numbers]


def _least(node: Node) -> Any:
    kind = node.dtype.numpy
    return -np.inf if node.dtype.is_floating_point else False if node.dtype.category == "bool" else np.iinfo(kind).min


def _greatest(node: Node) -> Any:
    kind = node.dtype.numpy
    return np.inf if node.dtype.is_floating_point else True if node.dtype.category == "bool" else np.iinfo(kind).max


