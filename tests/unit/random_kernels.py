"""Random kernels with fitting buffers, for comparing generated code with the reference interpreter."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import Dim, axis, loaded, symbol
from flambeau.ir import kernel as k
from flambeau.ir.kernel import ARGREDUCE, CHECK, REDUCE, BufferParameter, Kernel, KernelAxis, Store
from flambeau.ir.node import Node
from flambeau.prims import pointwise as p
from flambeau.prims.structure import constant

SIZES = (0, 1, 2, 3, 5, 15, 16, 17, 31, 64, 65, 130, 1000)
ELEMENTS = (dtypes.float32, dtypes.float32, dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64, dtypes.int8, dtypes.uint8,
            dtypes.int16, dtypes.bool_, dtypes.bfloat16, dtypes.float16)  # fmt: skip


@dataclass
class Case:
    """A kernel under construction and the arguments that fit it."""

    chance: random.Random
    extents: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    dims: dict[str, Dim] = field(default_factory=dict)
    parameters: list[BufferParameter] = field(default_factory=list)
    arrays: list[np.ndarray] = field(default_factory=list)
    scalars: list[dtype] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)
    pool: list[tuple[frozenset[str], Node]] = field(default_factory=list)
    kernel: Kernel | None = None

    # -- axes ---------------------------------------------------------------------------------------------------
    def add_axis(self, name: str, most: int, parallel: bool = True) -> KernelAxis:
        size = self.chance.choice([s for s in SIZES if s <= most])
        if size >= 2 and self.chance.random() < 0.5:
            self.sizes[f"n_{name}"] = size
            dim: Dim = symbol(f"n_{name}")
        else:
            dim = size
        self.extents[name], self.dims[name] = size, dim
        return KernelAxis(name, dim, parallel)

    def place(self, name: str) -> Dim:
        return axis(name, self.dims[name])

    # -- buffers --------------------------------------------------------------------------------------------------
    def add_buffer(self, element: dtype, count: int, access: str = "read", numbers: np.ndarray | None = None) -> int:
        rng = np.random.default_rng(self.chance.randrange(1 << 30))
        if numbers is None:
            if element.is_floating_point:
                numbers = rng.uniform(0.9, 1.1, count)
            elif element is dtypes.bool_:
                numbers = rng.random(count) < 0.5
            else:
                numbers = rng.integers(0, 100, count)
        self.parameters.append(BufferParameter(element, access))
        self.arrays.append(numbers.astype(element.numpy))
        return len(self.arrays) - 1

    def linear(self, names: list[str]) -> tuple[Dim, int]:
        """A dense index over these axes, and the elements that it spans."""
        index, count = 0, 1
        for name in names:
            index = index * self.dims[name] + self.place(name)
            count *= self.extents[name]
        return index, count

    def random_index(self, names: list[str]) -> tuple[Dim, int]:
        """An index and how many elements it may reach."""
        chosen = [n for n in names if self.chance.random() < 0.8]
        style = self.chance.random()
        if style < 0.55:
            return self.linear(chosen)
        if style < 0.75:
            self.chance.shuffle(chosen)
            return self.linear(chosen)
        index, most = self.linear(chosen)
        number = self.chance.choice([2, 3, 4, 7, 16])
        if style < 0.85:
            return index * number + 1, most * number + 2
        return (index // number, most // number + 1) if style < 0.93 else (index % number, number)

    # -- values -----------------------------------------------------------------------------------------------------
    def load(self, names: list[str], element: dtype) -> Node:
        index, count = self.random_index(names)
        style = self.chance.random()
        valid = None
        if style < 0.2 and names:
            name = self.chance.choice(names)
            low, high = sorted(self.chance.randrange(self.extents[name] + 3) - 1 for _ in range(2))
            valid = k.inside(self.place(name), low, high)
        elif style < 0.35:
            rows = self.chance.choice([1, 7, 40])
            index, count = self.gathered(names, rows), rows
        node = k.load(self.add_buffer(element, max(count, 1)), index, element, valid)
        return widen(node)

    def gathered(self, names: list[str], rows: int) -> Dim:
        index, count = self.linear([n for n in names if self.chance.random() < 0.8])
        element = self.chance.choice([dtypes.int64, dtypes.int32])
        wrong = self.chance.random() < 0.2
        rng = np.random.default_rng(self.chance.randrange(1 << 30))
        numbers = rng.integers(-3 if wrong else 0, rows + 3 if wrong else rows, max(count, 1))
        where = k.load(self.add_buffer(element, max(count, 1), numbers=numbers), index, element)
        if element is not dtypes.int64:
            where = p.cast(where, to=dtypes.int64)
        checked = Node(CHECK, (where,), size=rows, operator="take")
        return loaded(f"loaded{len(self.arrays)}", rows, checked)

    def scalar(self, element: dtype) -> Node:
        self.scalars.append(element)
        self.numbers.append(self.chance.choice([1, 2, 3]) if not element.is_floating_point else self.chance.uniform(0.9, 1.1))
        return widen(k.scalar(len(self.scalars) - 1, element))

    def value(self, names: list[str], depth: int) -> Node:
        """A random expression over these axes in a type that bodies compute in."""
        again = [node for used, node in self.pool if used <= set(names)]
        if again and self.chance.random() < 0.25:
            return self.chance.choice(again)
        element = self.chance.choice(ELEMENTS)
        if depth == 0 or self.chance.random() < 0.25:
            style = self.chance.random()
            if style < 0.75:
                return self.load(names, element)
            if style < 0.85:
                return self.scalar(element)
            if style < 0.93 or not names:
                return constant(1.25 if element.is_floating_point else 1, (), element.compute)
            return k.index_value(self.random_index(names)[0])
        left, right = self.value(names, depth - 1), self.value(names, depth - 1)
        if self.chance.random() < 0.5:
            right = convert(right, left.dtype)
        else:
            left = convert(left, right.dtype)
        out = self.combine(left, right)
        self.pool.append((frozenset(names), out))
        return out

    def combine(self, left: Node, right: Node) -> Node:
        operations = [p.maximum, p.minimum, p.add] + ([p.mul] if left.dtype.is_floating_point else [p.bitwise_xor, p.mul])
        style = self.chance.random()
        if style < 0.2:
            return p.where(p.lt(left, right), left, right)
        if style < 0.3 and left.dtype.is_floating_point:
            return p.exp(p.minimum(left, p.number(1.0, left)))
        if style < 0.35:
            return p.where(p.isnan(left), left, p.add(left, right))
        return self.chance.choice(operations)(left, right)

    def reduction(self, names: list[str], inner: list[str], depth: int) -> Node:
        value = self.value(names + inner, depth)
        if self.chance.random() < 0.2:
            return Node(ARGREDUCE, (value,), kind=self.chance.choice(["max", "min"]), axes=tuple(inner), position=self.linear(inner)[0])
        kinds = ["any", "all", "max", "min"] if value.dtype is dtypes.bool_ else ["sum", "sum", "prod", "max", "min"]
        return Node(REDUCE, (value,), kind=self.chance.choice(kinds), axes=tuple(inner))

    # -- stores -------------------------------------------------------------------------------------------------------
    def store(self, names: list[str], value: Node) -> Store:
        order = list(names)
        if self.chance.random() < 0.3:
            self.chance.shuffle(order)
        index, count = self.linear(order)
        stride = 1
        style = self.chance.random()
        mode = self.chance.choice(["set", "set", "set", "add", "max", "min"])
        element = value.dtype
        if style < 0.15:
            index, stride = index * 3 + 2, 3
        elif style < 0.3 and names and (mode in ("max", "min") or not element.is_floating_point):
            mode = "add" if mode == "set" else mode
            stride = 1
            index, count = self.gathered(names, 9) + self.place(names[-1]), 9 + self.extents[names[-1]]
        if element is dtypes.float32 and self.chance.random() < 0.2:
            value = p.cast(value, to=self.chance.choice([dtypes.bfloat16, dtypes.float16]))
            element = value.dtype
        valid = None
        if self.chance.random() < 0.2 and names:
            valid = k.inside(self.place(self.chance.choice(names)), 1, self.chance.choice([2, 9, 1000]))
        buffer = self.add_buffer(element, max(count * stride + 3, 1), "write" if mode == "set" else "update")
        return Store(buffer, index, value, mode, valid)


def widen(node: Node) -> Node:
    return p.cast(node, to=node.dtype.compute) if node.dtype.compute is not node.dtype else node


def convert(node: Node, to: dtype) -> Node:
    return node if node.dtype is to else p.cast(node, to=to)


def random_case(seed: int) -> Case:
    """One of: pointwise, row-wise, column-wise or no axes at all."""
    case = Case(random.Random(seed))
    chance = case.chance
    form = chance.choice(["pointwise", "pointwise", "row", "row", "row", "column", "column", "scalar"])
    ranks = {"scalar": [0], "row": [0, 1, 2], "column": [1, 2], "pointwise": [1, 1, 2, 3]}
    outer = [f"i{n}" for n in range(chance.choice(ranks[form]))]
    inner = [f"j{n}" for n in range(chance.choice([1, 1, 2]))] if form in ("row", "column") else []
    budget = 3000
    axes: list[KernelAxis] = []
    for name in reversed(outer + inner):
        axes.insert(0, case.add_axis(name, max(budget, 3), name in inner or chance.random() < 0.85))
        budget //= max(case.extents[name], 1)
    stores: list[Store] = []
    values: list[Node] = []
    for _ in range(chance.choice([0, 1, 2, 3]) if inner else 0):
        value = case.reduction(outer, inner, chance.choice([0, 1, 2]))
        values.append(value)
        if chance.random() < 0.6:
            stores.append(case.store(outer, value))
    for _ in range(chance.choice([1, 1, 2]) if not stores or chance.random() < 0.6 else 0):
        names = outer + (inner if chance.random() < 0.6 else [])
        value = case.value(names, chance.choice([1, 2, 3]))
        for other in values:
            if chance.random() < 0.7 and (value.dtype.is_floating_point or not other.dtype.is_floating_point):
                value = case.combine(value, convert(other, value.dtype))
        stores.append(case.store(names, value))
    vector = {"row": inner, "scalar": []}.get(form, outer)
    case.kernel = Kernel(
        tuple(a for a in axes if a.name in outer), tuple(a for a in axes if a.name in inner), vector[-1] if vector else "",
        tuple(case.parameters), tuple(sorted(case.sizes)), tuple(case.scalars), tuple(stores),
    )  # fmt: skip
    k.verify(case.kernel)
    return case
