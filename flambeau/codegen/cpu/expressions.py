"""Evaluates a kernel's expression nodes: each once, in the outermost loop where it is known."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping

import numpy as np

from flambeau.codegen.cpu import errors
from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.codegen.cpu.index_forms import Comparison, IndexForms
from flambeau.codegen.cpu.indexing import Indexing
from flambeau.codegen.cpu.lane_steps import LaneSteps
from flambeau.codegen.cpu.lanes import Lanes, any_lane
from flambeau.codegen.cpu.memory import Memory, memory_kind
from flambeau.codegen.cpu.nest import Nest
from flambeau.codegen.cpu.phases import index_dims, operands
from flambeau.codegen.cpu.pointwise import emit_pointwise
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import Dim, is_nonnegative
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
    loaded_nodes,
)  # fmt: skip
from flambeau.ir.node import Node

FIRST_BUFFER_SLOT = 2
# No lane of an unrolled body is further from lane 0 than this.
MOST_STEPS = 1 << 24


class ExpressionEmitter:
    """Turns the nodes of ``kernel`` into instructions at the open loops of ``nest``, whose levels bind the axes.

    ``slots(i)`` gives argument i as i64; ``free`` names for each node the axes that it depends on. Nodes that depend on the
    vector axis have ``width`` lanes and one value for each unrolled copy; other values are scalars. ``masks`` says which lanes
    of a copy are within the vector axis (not there: all), ``whole`` whether all are if that is known only at run time;
    ``certain`` are the tests of places that hold in every lane of the loop that is open.
    ``reduce`` is called for a reduction that has no value yet.
    """

    def __init__(
        self, nest: Nest, kernel: Kernel, free: Mapping[Node, frozenset[str]], width: int, slots: Callable[[int], Value],
        forms: IndexForms, checked: bool = False, aligned: bool = False,
    ) -> None:  # fmt: skip
        self.nest = nest
        self.e: Emitter = nest.e
        self.kernel = kernel
        self.free = free
        self.width = width
        self.vector = kernel.vector if width > 1 else ""
        self.slots = slots
        self.checked = checked
        self.masks: dict[int, Value] = {}
        self.whole: Value | None = None
        self.certain: Container[Node] = ()
        self.forms = forms
        self.reduce: Callable[[Node, int], None] | None = None
        self.steps = LaneSteps(self.vector, width, self.varies, aligned)
        self.indexing = Indexing(nest, self.steps, self.found, self.size)
        self.memory = Memory(nest, self.indexing, self.buffer)
        self.written = {s.buffer for s in kernel.stores}
        self.serial = [a.name for a in kernel.outer if not a.parallel]

    # -- arguments ------------------------------------------------------------------------------------------
    def slot(self, index: int) -> Value:
        return self.nest.keep(("slot", index), 0, lambda: self.slots(index))

    def buffer(self, number: int) -> Value:
        slot = self.slot(FIRST_BUFFER_SLOT + number)
        return self.nest.keep(("buffer", number), 0, lambda: self.e.convert("inttoptr", slot, "ptr"))

    def size(self, name: str) -> Value:
        return self.slot(FIRST_BUFFER_SLOT + len(self.kernel.buffers) + self.kernel.sizes.index(name))

    def elements(self, buffer: int) -> Value:
        """In checked mode: how many elements the buffer has."""
        kernel = self.kernel
        return self.slot(FIRST_BUFFER_SLOT + len(kernel.buffers) + len(kernel.sizes) + len(kernel.scalars) + buffer)

    def number(self, slot: int, element: dtype) -> Value:
        """A scalar argument in its register kind."""
        bits = self.slot(FIRST_BUFFER_SLOT + len(self.kernel.buffers) + len(self.kernel.sizes) + slot)
        if element is dtypes.bool_:
            return self.e.compare("ne", bits, self.e.const(0, "i64"))
        if element.itemsize < 8:
            bits = self.e.convert("trunc", bits, f"i{8 * element.itemsize}")
        return bits if element.llvm == bits.kind else self.e.convert("bitcast", bits, element.llvm)

    # -- values -----------------------------------------------------------------------------------------------
    def varies(self, node: Node) -> bool:
        """Whether the node differs from lane to lane."""
        return self.vector in self.free[node]

    def key(self, node: Node, copy: int) -> object:
        return (node, copy) if self.varies(node) else node

    def found(self, node: Node, copy: int) -> tuple[Value, int]:
        """The value of an evaluated node and the depth that holds it."""
        found = self.nest.find(self.key(node, copy))
        assert found is not None, node
        return found

    def value(self, node: Node, copy: int) -> Value:
        return self.found(node, copy)[0]

    def lanes(self, node: Node, copy: int) -> Value:
        """The value of an evaluated node in all lanes."""
        value, depth = self.found(node, copy)
        if value.width == self.width:
            return value
        return self.nest.keep(("splat", self.key(node, copy)), depth, lambda: self.e.splat(value, self.width))

    def preset(self, node: Node, copy: int, value: Value) -> None:
        """Give a node its value at the innermost level."""
        self.nest.put(self.key(node, copy), value)

    def evaluate(self, order: Iterable[Node], copy: int = 0) -> None:
        """Write every node of a topological order that has no value yet."""
        for node in order:
            key = self.key(node, copy)
            if node in self.forms.absorbed or self.nest.find(key) is not None:
                continue
            if node.op is REDUCE or node.op is ARGREDUCE:
                assert self.reduce is not None
                self.reduce(node, copy)
            else:
                self.nest.write(key, self.depth(node, copy), lambda node=node: self.emit(node, copy))

    def depth(self, node: Node, copy: int) -> int:
        """The depth of the outermost level where all that the node needs is known."""
        comparison = self.forms.comparisons.get(node)
        if comparison is not None:
            depth = self.indexing.depth(comparison.place, copy)
            return depth if comparison.other is None else max(depth, self.found(comparison.other, copy)[1])
        depths = [self.found(operand, copy)[1] for operand in operands(node)]
        depths += [self.indexing.depth(dim, copy) for dim in index_dims(node)]
        if node.op is LOAD and node.attributes["buffer"] in self.written:
            depths += [self.nest.axis(name)[1] for name in self.serial]
        return max(depths, default=0)

    def emit(self, node: Node, copy: int) -> Value:
        comparison = self.forms.comparisons.get(node)
        if comparison is not None:
            return self.compare(comparison, copy)
        rule = _RULES.get(node.op)
        if rule is not None:
            return rule(self, node, copy)
        if node.op.name == "full":
            return self.constant(node.attributes["value"], node.dtype)
        values = [self.value(source, copy) for source in node.sources]
        if any(value.width > 1 for value in values):
            values = [self.lanes(source, copy) for source in node.sources]
        return emit_pointwise(self.e, node.op.name, node.sources[-1].dtype, values, node.attributes)

    def constant(self, value: float, element: dtype) -> Value:
        with np.errstate(over="ignore"):
            exact = dtypes.converted_array(np.asarray(value), element)
        if element is dtypes.bfloat16 or element.is_float8:  # held as the integer of their bits
            return self.e.const(int(exact.view(f"i{element.itemsize}")), element.llvm)
        memory_kind(element)  # Refuses complex numbers.
        return self.e.const(exact.item(), element.llvm)

    # -- one kind of node each ----------------------------------------------------------------------------------
    def load(self, node: Node, copy: int) -> Value:
        buffer, index, element = (node.attributes[k] for k in ("buffer", "index", "dtype"))
        valid = node.sources[0] if node.sources else None
        if valid is not None and self.steps.varies(index):
            valid = self.uncertain(valid)
        if self.never_inside(index):
            return self.e.const(0, element.llvm, self.width if self.varies(node) else 1)
        allowed = None if valid is None else self.value(valid, copy)
        if not self.steps.varies(index) and (allowed is None or allowed.width == 1):
            return self.memory.load_one(buffer, index, element, self.access_condition(buffer, index, valid, copy), copy)
        if allowed is None or allowed.width > 1:
            return self.memory.load_lanes(buffer, index, element, self.access_mask(buffer, index, valid, copy), copy)
        # All lanes or none.
        zero = self.e.const(0, "i1" if element is dtypes.bool_ else element.llvm, self.width)

        def read() -> Value:
            return self.memory.load_lanes(buffer, index, element, self.access_mask(buffer, index, None, copy), copy)

        return self.nest.choose(allowed, read, zero)

    def uncertain(self, test: Node) -> Node | None:
        """What is left to be tested where those of ``certain`` hold."""
        if test in self.certain:
            return None
        if test.op.name != "bitwise_and":
            return test
        first, second = map(self.uncertain, test.sources)
        return second if first is None else first if second is None else test

    def scalar(self, node: Node, copy: int) -> Value:
        return self.number(node.attributes["slot"], node.dtype)

    def index(self, node: Node, copy: int) -> Value:
        return self.index_value(node.attributes["value"], copy)

    def index_value(self, dim: Dim, copy: int) -> Value:
        return self.indexing.lanes(dim, copy) if self.steps.varies(dim) else self.indexing.scalar(dim, copy)

    def inside(self, node: Node, copy: int) -> Value:
        value, lower, upper = (node.attributes[k] for k in ("value", "lower", "upper"))
        tests = [d for d in (value - lower, upper - 1 - value) if not is_nonnegative(d)]
        out: Value | None = None
        for test in tests:
            holds = self.compare(Comparison("sge", test, None), copy)
            out = holds if out is None else self.e.binary("and", out, holds)
        return out if out is not None else self.e.const(True, "i1")

    def compare(self, comparison: Comparison, copy: int) -> Value:
        """A comparison of places, in lanes where they differ."""
        predicate, place, other = comparison
        e = self.e
        bound = e.const(0, "i64") if other is None else self.value(other, copy)
        if not self.steps.varies(place):
            return e.compare(predicate, self.indexing.scalar(place, copy), bound)
        step = self.steps.constant_step(place)
        if step is None:
            number = self.indexing.lanes(place, copy)
            return e.compare(predicate, number, e.splat(bound, self.width))
        # Compared with the distance of lane 0, which is cut to a range that no lane leaves.
        at = 0 if self.steps.is_even(place) else copy
        depth = max(self.indexing.depth(place, copy), 0 if other is None else self.found(other, copy)[1])
        distance = self.nest.keep(("distance", place, other, at), depth, lambda: self.distance(place, bound, at))
        first = step * self.width * (copy - at)
        lanes = Value("<" + ", ".join(f"i32 {first + lane * step}" for lane in range(self.width)) + ">", "i32", self.width)
        return e.compare(predicate, lanes, distance)

    def distance(self, place: Dim, bound: Value, copy: int) -> Value:
        """``bound - place`` in lane 0 of the copy, cut to 32 bits, in all lanes."""
        e = self.e
        distance = e.intrinsic("ssub.sat", bound, self.indexing.scalar(place, copy))
        most, least = e.const(MOST_STEPS, "i64"), e.const(-MOST_STEPS, "i64")
        return e.splat(e.convert("trunc", e.intrinsic("smax", e.intrinsic("smin", distance, most), least), "i32"), self.width)

    def check(self, node: Node, copy: int) -> Value:
        e, size = self.e, node.attributes["size"]
        varies = self.varies(node)
        read = self.lanes if varies else self.value
        index = read(node.sources[0], copy)
        bound = e.splat(self.index_value(size, copy), index.width)
        bad = e.compare("uge", index, bound)
        if len(node.sources) > 1:
            bad = e.binary("and", bad, read(node.sources[1], copy))
        if varies and copy in self.masks:
            bad = e.binary("and", bad, self.masks[copy])
        self.report(errors.INDEX_OUT_OF_RANGE, str(node.attributes["operator"]), bad, index, bound, copy)
        last = e.sub(bound, e.like(1, bound))
        return e.intrinsic("smax", e.intrinsic("smin", index, last), e.like(0, index))

    def result(self, node: Node, copy: int) -> Value:
        raise NotImplementedError("the result of a template exists only inside its epilogue")

    # -- where accesses are allowed ----------------------------------------------------------------------------
    def checked_sizes(self, index: Dim) -> list[Dim]:
        """The sizes against which the index was checked that may be 0, so that no place is right."""
        sizes = [n.attributes["size"] for n in loaded_nodes(index) if n.op is CHECK]
        return [size for size in sizes if not is_nonnegative(size - 1)]

    def never_inside(self, index: Dim) -> bool:
        return any(isinstance(size, int) for size in self.checked_sizes(index))

    def and_nonempty(self, allowed: Value | None, index: Dim, width: int) -> Value | None:
        for size in self.checked_sizes(index):
            some = self.e.splat(self.e.compare("sgt", self.indexing.scalar(size), self.e.const(0, "i64")), width)
            allowed = some if allowed is None else self.e.binary("and", allowed, some)
        return allowed

    def access_mask(self, buffer: int, index: Dim, valid: Node | None, copy: int) -> Value | None:
        """The lanes that may access ``buffer[index]``; None means all."""
        mask = self.masks.get(copy)
        if valid is not None:
            allowed = self.lanes(valid, copy)
            mask = allowed if mask is None else self.e.binary("and", mask, allowed)
        mask = self.and_nonempty(mask, index, self.width)
        if self.checked:
            mask = self.checked_access(buffer, self.indexing.lanes(index, copy), mask, copy)
        return mask

    def access_condition(self, buffer: int, index: Dim, valid: Node | None, copy: int) -> Value | None:
        """Whether ``buffer[index]`` may be accessed; None means yes."""
        allowed = self.and_nonempty(None if valid is None else self.value(valid, copy), index, 1)
        if self.checked:
            allowed = self.checked_access(buffer, self.indexing.scalar(index, copy), allowed, copy)
        return allowed

    def checked_access(self, buffer: int, index: Value, allowed: Value | None, copy: int) -> Value:
        bound = self.e.splat(self.elements(buffer), index.width)
        outside = self.e.compare("uge", index, bound)
        inside = self.e.compare("ult", index, bound)
        if allowed is not None:
            outside, inside = self.e.binary("and", outside, allowed), self.e.binary("and", inside, allowed)
        self.report(errors.ACCESS_OUTSIDE_BUFFER, f"buffer {buffer}", outside, index, bound, copy)
        return inside

    def report(self, kind: int, operator: str, bad: Value, index: Value, bound: Value, copy: int) -> None:
        """Where a lane of ``bad`` is set, report the first of those lanes."""
        e, number = self.e, errors.operator_number(operator)
        record = self.nest.keep("error record", 0, lambda: e.convert("inttoptr", self.slot(0), "ptr"))

        def write() -> None:
            lane = self.first_lane(bad)
            errors.emit_report(
                e, record, kind, number, self.position(lane, copy, bad.width > 1), extract_at(e, index, lane), extract_at(e, bound, lane)
            )

        self.nest.when(any_lane(Lanes(e, bad)), write)

    def first_lane(self, mask: Value) -> Value:
        if mask.width == 1:
            return self.e.const(0, "i64")
        bits = Value(self.e.fresh(), f"i{mask.width}")
        self.e.emit(f"{bits.text} = bitcast {mask} to {bits.kind}")
        first = self.e.intrinsic("cttz", bits, Value("true", "i1"))
        return self.e.convert("zext", first, "i64") if mask.width < 64 else first

    def position(self, lane: Value, copy: int, in_lanes: bool) -> Value:
        """The place in the loops that are open here, counted in row-major order, that of the lanes only where they differ."""
        total = self.e.const(0, "i64")
        for axis in (*self.kernel.outer, *self.kernel.inner):
            if not self.nest.binds(axis.name) or (axis.name == self.vector and not in_lanes):
                continue
            here = self.nest.axis(axis.name)[0]
            if axis.name == self.vector:
                here = self.e.add(self.e.add(here, lane), self.e.const(copy * self.width, "i64"))
            total = self.e.add(self.e.mul(total, self.indexing.scalar(axis.size)), here)
        return total


def conjuncts(test: Node) -> list[Node]:
    """The tests that must all hold for ``test`` to hold."""
    return [test] if test.op.name != "bitwise_and" else [part for source in test.sources for part in conjuncts(source)]


def extract_at(e: Emitter, value: Value, lane: Value) -> Value:
    """One lane of a vector, chosen at run time; a scalar is returned unchanged."""
    if value.width == 1:
        return value
    out = e.fresh()
    e.emit(f"{out} = extractelement {value}, {lane}")
    return Value(out, value.kind)


_RULES: dict[object, Callable[[ExpressionEmitter, Node, int], Value]] = {
    LOAD: ExpressionEmitter.load,
    SCALAR: ExpressionEmitter.scalar,
    INDEX: ExpressionEmitter.index,
    INSIDE: ExpressionEmitter.inside,
    CHECK: ExpressionEmitter.check,
    RESULT: ExpressionEmitter.result,
}
