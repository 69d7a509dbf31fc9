"""The loops of a kernel: parallel iterations, serial outer axes, lanes with their remainder, and the phases inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flambeau.codegen.cpu.accumulate import ROW_PARTIALS, Accumulator, partial_sums
from flambeau.codegen.cpu.certain import Condition, certain_stretch, lane_guards
from flambeau.codegen.cpu.costs import instructions
from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.codegen.cpu.expressions import ExpressionEmitter
from flambeau.codegen.cpu.memory import memory_kind
from flambeau.codegen.cpu.nest import Nest
from flambeau.codegen.cpu.phases import Phase, needed, store_nodes
from flambeau.codegen.cpu.plan import KernelPlan
from flambeau.codegen.cpu.stores import emit_store, goes_past_caches, store_past_caches
from flambeau.codegen.cpu.tiles import TILES_ACROSS, TileEmitter, Tiling
from flambeau.core.symbolic import Dim, axis, is_nonnegative, product, substitute
from flambeau.ir.kernel import LOAD, KernelAxis, Store
from flambeau.ir.node import Node

Carried = list[Value]
Body = Callable[[Value, Carried], Carried]
Stretch = Callable[[Carried, Callable[[Carried], Carried]], Carried]

# After so many steps of a float sum a new partial sum begins, so that rounding errors stay small in long sums.
STRETCH = 256
# Registers that a reduction whose order does not matter is spread over.
MOST_COPIES = 4
# Instructions of a vector that is computed even where a row has no more elements for it, for the sake of one step instead of several.
MOST_TOGETHER = 16
# Bytes of the longest row that is asked for ahead of its turn.
LONGEST_PREFETCH = 1 << 18
# How many bytes ahead of its loads a pointwise kernel asks for more.
AHEAD = 2048


class LoopEmitter:
    """Writes the body of a kernel function: from the chunk's range of iterations down to stores."""

    def __init__(self, e: Emitter, plan: KernelPlan, slots: Callable[[int], Value], checked: bool) -> None:
        self.e = e
        self.plan = plan
        self.kernel = plan.kernel
        self.nest = Nest(e)
        self.x = ExpressionEmitter(self.nest, plan.kernel, plan.free, plan.width, slots, plan.forms, checked, aligned=True)
        self.x.reduce = self.reduce_now
        self.order = plan.order  # what the body of the loop along the lanes computes
        self.copies: Sequence[int] = (0,)
        self.together = False
        self.looping = True

    @property
    def in_lanes(self) -> bool:
        """Whether a loop over the vector axis is open."""
        return any(self.x.vector in level.axes for level in self.nest.levels)

    def index(self, value: Dim) -> Value:
        return self.x.indexing.scalar(value)

    def zero(self) -> Value:
        return self.e.const(0, "i64")

    # -- outer loops ------------------------------------------------------------------------------------------
    def emit_chunk(self, chunk: Value) -> None:
        """Iterations [chunk * grain, min((chunk + 1) * grain, iterations))."""
        grain = self.x.slot(1)
        begin = self.e.mul(chunk, grain)
        end = self.e.intrinsic("smin", self.e.add(begin, grain), self.index(self.plan.iterations))
        self.nest.when(self.e.compare("slt", begin, end), lambda: self.emit_iterations(begin, end))

    def emit_iterations(self, begin: Value, end: Value) -> None:
        sizes = self.plan.extents
        if not sizes:
            self.emit_iteration([])
        elif len(sizes) == 1:
            self.nest.loop(None, begin, end, 1, [], lambda i, _: self.emit_iteration([i]))
        else:
            self.emit_rows(begin, end, [self.index(size) for size in sizes])

    def emit_rows(self, begin: Value, end: Value, extents: list[Value]) -> None:
        """Iterations along the last axis in a loop of their own, so that what the others decide is computed outside of it."""
        e, extent = self.e, extents[-1]
        last = e.sub(end, e.const(1, "i64"))
        first_row, last_row = e.binary("udiv", begin, extent), e.binary("udiv", last, extent)
        first_start = e.sub(begin, e.mul(first_row, extent))
        last_stop = e.sub(end, e.mul(last_row, extent))

        def row(number: Value, at: Carried) -> Carried:
            start = e.select(e.compare("eq", number, first_row), first_start, self.zero())
            stop = e.select(e.compare("eq", number, last_row), last_stop, extent)
            self.nest.loop(None, start, stop, 1, [], lambda i, _: self.emit_iteration([*at, i]))
            return self.following(at, extents[:-1])

        first = self.coordinates(first_row, extents[:-1])
        self.nest.loop(None, first_row, e.add(last_row, e.const(1, "i64")), 1, first, row)

    def coordinates(self, linear: Value, extents: list[Value]) -> Carried:
        out: Carried = []
        for extent in reversed(extents[1:]):
            out.append(self.e.binary("urem", linear, extent))
            linear = self.e.binary("udiv", linear, extent)
        return [linear, *reversed(out)]

    def following(self, at: Carried, extents: list[Value]) -> Carried:
        """The coordinates one further, the last the fastest, without dividing."""
        carry, out = self.e.const(1, "i64"), []
        for place, extent in zip(reversed(at[1:]), reversed(extents[1:]), strict=True):
            place = self.e.add(place, carry)
            full = self.e.compare("eq", place, extent)
            out.append(self.e.select(full, self.zero(), place))
            carry = self.e.convert("zext", full, "i64")
        return [self.e.add(at[0], carry), *reversed(out)]

    def emit_iteration(self, at: Carried) -> Carried:
        self.nest.bind({a.name: value for a, value in zip(self.plan.parallel, at, strict=False)})
        if not self.plan.block:
            self.emit_serial(self.plan.serial, (self.zero(), self.index(self.plan.vector_size)) if self.plan.lanes_outside else None)
            return []
        start = self.e.mul(at[-1], self.e.const(self.plan.block, "i64"))
        stop = self.e.add(start, self.e.const(self.plan.block, "i64"))
        if self.plan.block_length is None:
            stop = self.e.intrinsic("smin", stop, self.index(self.plan.vector_size))
        self.emit_serial(self.plan.serial, (start, stop))
        return []

    def emit_serial(self, axes: Sequence[KernelAxis], bounds: tuple[Value, Value] | None) -> None:
        """The outer axes whose order matters, then the lanes if they run along an outer axis."""
        if axes and axes[0].name != self.x.vector:
            self.nest.loop(axes[0].name, self.zero(), self.index(axes[0].size), 1, [], lambda i, c: self.serial_body(axes[1:], bounds))
        elif self.plan.lanes_outside:
            assert bounds is not None
            start, stop = bounds
            if self.plan.tiling is None:
                self.loop_lanes(start, stop, self.plan.block_length, self.plan.copies, [], self.point_body)
            else:
                self.loop_tiles(self.plan.tiling, start, stop)
        else:
            self.emit_point()

    def serial_body(self, axes: Sequence[KernelAxis], bounds: tuple[Value, Value] | None) -> Carried:
        self.emit_serial(axes, bounds)
        return []

    def point_body(self, index: Value, carried: Carried) -> Carried:
        self.emit_point()
        return carried

    def loop_lanes(
        self, start: Value, stop: Value, length: int | None, copies: int, carried: Carried, body: Body, together: bool = False
    ) -> Carried:
        """Along the vector axis: ``copies`` whole vectors at a time, then one vector at a time under a mask, or the rest ``together``.

        ``length`` is that from ``start`` to ``stop`` where it is known: what never runs is not written.
        """
        if length is not None and length <= copies * self.x.width:
            return self.all_at_once(start, length, carried, body)
        e, x, width = self.e, self.x, self.x.width
        outside = (self.copies, x.masks)
        count = copies if together and not self.plan.masks_all else 1

        def whole(index: Value, values: Carried) -> Carried:
            self.copies, x.masks = range(copies), {}
            return body(index, values)

        def rest(index: Value, values: Carried) -> Carried:
            self.copies = range(count)
            left = e.sub(stop, index)
            lefts = [e.convert("trunc", e.sub(left, e.const(k * width, "i64")) if k else left, "i32") for k in range(count)]
            x.masks = {k: e.compare("slt", e.lanes("i32", width), left) for k, left in enumerate(lefts)}
            return body(index, values)

        if self.plan.masks_all:
            _, carried = self.loop_vectors((start, stop, stop), width, carried, rest, whole)
        else:
            last = e.sub(stop, e.const(copies * width - 1, "i64"))
            reached, carried = self.loop_vectors((start, last, stop), copies * width, carried, whole, whole)
            if length is None or length % (copies * width):
                _, carried = self.nest.loop(x.vector, reached, stop, count * width, carried, rest)
        self.copies, x.masks = outside
        return carried

    def loop_vectors(
        self, bounds: tuple[Value, Value, Value], step: int, carried: Carried, body: Body, certain: Body
    ) -> tuple[Value, Carried]:
        """From ``bounds[0]`` to below ``bounds[1]`` in steps of whole vectors, whose lanes end before ``bounds[2]``. Where loads are
        guarded in lanes, ``certain`` is the body of a stretch in the middle in which all tests hold."""
        (start, last, end), x, guards = bounds, self.x, self.lane_guards()
        if not guards:
            return self.nest.loop(x.vector, start, last, step, carried, body)
        e, zero, vectors = self.e, self.zero(), self.e.const(step, "i64")
        first, after = certain_stretch(x, [c for conditions in guards.values() for c in conditions], start, end)
        steps = e.binary("udiv", e.add(e.sub(first, start), e.const(step - 1, "i64")), vectors)
        first = e.intrinsic("smin", e.add(start, e.mul(steps, vectors)), last)
        certain_last = e.sub(after, e.const(step - 1, "i64"))

        def certain_body(index: Value, values: Carried) -> Carried:
            for node in guards:
                for copy in range(step // x.width) if x.varies(node) else (0,):
                    x.preset(node, copy, e.const(True, "i1", x.width if x.varies(node) else 1))
            outside, x.certain = x.certain, guards
            out = certain(index, values)
            x.certain = outside
            return out

        def turn(number: Value, values: Carried) -> Carried:
            before = e.compare("eq", number, zero)
            index, out = self.nest.loop(x.vector, values[0], e.select(before, first, last), step, values[1:], body)
            index, out = self.nest.loop(x.vector, index, e.select(before, certain_last, zero), step, out, certain_body)
            return [index, *out]

        _, (reached, *out) = self.nest.loop(None, zero, e.const(2, "i64"), 1, [start, *carried], turn)
        return reached, out

    def lane_guards(self) -> dict[Node, list[Condition]]:
        return lane_guards(self.x, self.order, {a.name: a.size for a in (*self.kernel.outer, *self.kernel.inner)})

    def all_at_once(self, start: Value, length: int, carried: Carried, body: Body) -> Carried:
        """The vectors of ``length`` elements without a loop: what one phase has computed is there in the next."""
        x, axes, count = self.x, self.nest.levels[-1].axes, -(-length // self.x.width)
        if not count:
            return carried
        outside = (self.copies, x.masks)
        rest = length - (count - 1) * x.width
        self.copies, x.masks = range(count), {}
        if rest < x.width:
            x.masks[count - 1] = self.nest.keep(("first lanes", rest), 0, lambda: self.e.first_lanes(rest, x.width))
        axes[x.vector] = start
        self.looping = False
        carried = body(start, carried)
        self.looping = True
        del axes[x.vector]
        self.copies, x.masks = outside
        return carried

    def loop_tiles(self, tiling: Tiling, start: Value, stop: Value) -> None:
        """One tile after another along the vector axis, and in each its rows."""
        e, x, width, name = self.e, self.x, self.x.width, tiling.across.name
        tiles = TileEmitter(x, tiling)
        rows = TILES_ACROSS * width
        first = e.mul(self.nest.axis(name)[0], e.const(rows, "i64"))
        end = e.intrinsic("smin", e.add(first, e.const(rows, "i64")), self.index(tiling.across.size))

        def tile(index: Value, _: Carried) -> Carried:
            left = e.sub(stop, index)
            x.masks = {0: e.compare("slt", e.lanes("i32", width), e.convert("trunc", left, "i32"))}
            x.whole = e.compare("sge", left, e.const(width, "i64"))
            self.nest.loop(None, first, end, width, [], lambda start, _: part(start, left))
            x.masks, x.whole = {}, None
            return []

        def part(start: Value, lanes: Value) -> Carried:
            tiles.fill(start, lanes, e.sub(end, start))
            stop = e.intrinsic("smin", e.add(start, e.const(width, "i64")), end)
            self.nest.loop(name, start, stop, 1, [], lambda index, _: row(e.sub(index, start)))
            return []

        def row(number: Value) -> Carried:
            tiles.read(number)
            self.emit_point()
            return []

        self.nest.loop(x.vector, start, stop, width, [], tile)

    # -- one outer point (or one vector of them) ----------------------------------------------------------------
    def emit_point(self) -> None:
        for phase in self.plan.phases:
            self.emit_phase(phase)
        self.emit_stores(self.plan.last_stores, needed([n for s in self.plan.last_stores for n in store_nodes(s)]))

    def emit_stores(self, stores: Sequence[Store], order: list[Node]) -> None:
        copies = self.copies if self.in_lanes else (0,)
        for copy in copies:
            self.x.evaluate(order, copy)
            if self.plan.streaming and self.plan.asks_ahead and self.in_lanes and not self.plan.phases:
                self.prefetch_further(order, copy)
        for store in stores:
            if self.plan.streaming and self.in_lanes and goes_past_caches(self.x, store, copies):
                store_past_caches(self.x, store, copies)
                continue
            for copy in copies:
                emit_store(self.x, store, copy, self.in_lanes)

    def reduce_now(self, node: Node, copy: int) -> None:
        """A reduction whose value is wanted inside other inner loops: its loops come where its free axes are bound."""
        depth = max((self.nest.axis(name)[1] for name in self.x.free[node]), default=0)
        axes = tuple(a for a in self.kernel.inner if a.name in node.attributes["axes"])

        def emit() -> Value:
            self.emit_phase(Phase(0, axes, [node]))
            return self.zero()

        self.nest.at(depth, emit)

    def emit_phase(self, phase: Phase) -> None:
        """The loops of a phase; the results of its reductions are known afterwards."""
        fold = self.folds_lanes(phase)
        copies = self.plan.row_vectors or (self.plan.phase_copies(phase) if fold else 1)
        running = [(node, copy, self.accumulator(node, fold, copies)) for node in phase.reductions for copy in self.result_copies(node)]
        carried = [value for _, _, accumulator in running for value in accumulator.start()]
        order = needed(phase.roots, set(phase.kept))

        def body(index: Value, values: Carried) -> Carried:
            self.evaluate_phase(phase, order)
            out: Carried = []
            for node, copy, accumulator in running:
                count = len(accumulator.start())
                out += self.accumulate(accumulator, node, copy, fold, index, values[len(out): len(out) + count])
            self.emit_stores(phase.stores, [])
            return out

        def stretch(totals: Carried, run: Callable[[Carried], Carried]) -> Carried:
            values, out = run(carried), list[Value]()
            for _, _, accumulator in running:
                part = slice(len(out), len(out) + len(accumulator.start()))
                out += accumulator.merge(totals[part], values[part])
            return out

        ordered = any(partial_sums(node) > 1 for node in phase.reductions)
        # The rest of a row by single vectors has to find out which partial sum each belongs to.
        self.together = ordered and sum(map(instructions, order)) <= MOST_TOGETHER
        outside, self.order = self.order, order
        values = self.loop_inner(phase.axes, copies, carried, body, stretch if ordered else None)
        self.order = outside
        for node, copy, accumulator in running:
            count = len(accumulator.start())
            self.x.preset(node, copy, accumulator.finish(values[:count], fold))
            values = values[count:]

    def folds_lanes(self, phase: Phase) -> bool:
        """Whether the phase's innermost loop runs along the vector axis."""
        return phase.axes[-1].name == self.x.vector

    def result_copies(self, node: Node) -> Sequence[int]:
        return self.copies if self.in_lanes and self.x.varies(node) else (0,)

    def accumulator(self, node: Node, fold: bool, copies: int) -> Accumulator:
        width = self.x.width if fold or self.x.varies(node) else 1
        partials = partial_sums(node) // self.x.width
        return Accumulator(self.e, node, width, (max(partials, 1) if partials else min(copies, MOST_COPIES)) if fold else 1)

    def accumulate(self, accumulator: Accumulator, node: Node, copy: int, fold: bool, index: Value, values: Carried) -> Carried:
        read = self.x.lanes if accumulator.width > 1 else self.x.value
        if not fold:
            position = self.position(node, copy, accumulator.width)
            return accumulator.step(values, 0, read(node.sources[0], copy), position, None)
        masks = self.x.masks
        ordered = partial_sums(node) > 1
        if ordered and len(self.copies) % accumulator.count and self.looping:
            vector = self.e.binary("lshr", index, self.e.const(self.x.width.bit_length() - 1, "i64"))
            ordinal = self.e.binary("and", vector, self.e.const(accumulator.count - 1, "i64"))
            return accumulator.step_at(values, ordinal, read(node.sources[0], 0), masks.get(0))
        for k in self.copies:
            position = self.position(node, k, accumulator.width)
            values = accumulator.step(values, k % accumulator.count, read(node.sources[0], k), position, masks.get(k))
        return values

    def position(self, node: Node, copy: int, width: int) -> Value | None:
        where = node.attributes.get("position")
        if where is None:
            return None
        return self.x.indexing.lanes(where, copy) if width > 1 else self.x.indexing.scalar(where)

    def loop_inner(self, axes: Sequence[KernelAxis], copies: int, carried: Carried, body: Body, stretch: Stretch | None) -> Carried:
        """The loops over inner axes. With ``stretch`` parts of the last one get accumulators of their own, merged in order."""
        size, name = self.index(axes[0].size), axes[0].name
        if len(axes) > 1:
            return self.nest.loop(name, self.zero(), size, 1, carried, lambda _, c: self.loop_inner(axes[1:], copies, c, body, stretch))[1]
        length = STRETCH * (ROW_PARTIALS if name == self.x.vector else 1)
        whole = axes[0].size if isinstance(axes[0].size, int) else None
        if stretch is None or is_nonnegative(length - axes[0].size):
            return self.loop_last(name, (self.zero(), size, whole), copies, carried, body)
        exact = length if whole is not None and whole % length == 0 else None

        def part(start: Value, totals: Carried) -> Carried:
            stop = self.e.add(start, self.e.const(length, "i64"))
            stop = stop if exact else self.e.intrinsic("smin", stop, size)
            return stretch(totals, lambda fresh: self.loop_last(name, (start, stop, exact), copies, fresh, body))

        return self.nest.loop(None, self.zero(), size, length, carried, part)[1]

    def loop_last(self, name: str, bounds: tuple[Value, Value, int | None], copies: int, carried: Carried, body: Body) -> Carried:
        if name == self.x.vector:
            return self.loop_lanes(*bounds, copies, carried, body, self.together)
        return self.nest.loop(name, bounds[0], bounds[1], 1, carried, body)[1]

    # -- what phases hand on --------------------------------------------------------------------------------------
    def evaluate_phase(self, phase: Phase, order: list[Node]) -> None:
        for copy in self.copies if self.in_lanes else (0,):
            if self.plan.row_vectors:
                self.x.evaluate(order, copy)
                continue
            for node in phase.kept:
                kept = self.x.memory.load_vector(self.scratch(node, phase, copy), node.dtype, self.x.masks.get(copy))
                self.x.preset(node, copy, kept)
            self.x.evaluate(order, copy)
            for node in self.plan.prefetched.get(phase, ()):
                self.prefetch_next(node, copy, phase)
            for node in phase.keeps:
                value = self.x.lanes(node, copy)
                self.x.memory.store_vector(self.scratch(node, phase, copy), node.dtype, value, self.x.masks.get(copy))

    def prefetch_next(self, node: Node, copy: int, phase: Phase) -> None:
        """Ask for what a load will read at the next outer point, while this one still computes."""
        e, x, outer = self.e, self.x, self.plan.parallel[-1]
        index, kind = node.attributes["index"], memory_kind(node.dtype)
        if not x.steps.is_contiguous(index):
            return
        pointer = x.memory.address(node.attributes["buffer"], index, kind, copy)
        further = substitute(index, {outer.name: axis(outer.name, outer.size) + 1}) - index
        count = product(a.size for a in phase.axes)

        def distance() -> Value:
            # A long row is gone from the cache before its turn comes.
            fits = e.compare("slt", self.index(count), e.const(LONGEST_PREFETCH // node.dtype.itemsize, "i64"))
            return e.select(fits, x.indexing.scalar(further), self.zero())

        depth = x.indexing.depth(further, 0)
        x.memory.prefetch(e.offset(pointer, self.nest.keep(("distance", further, count), depth, distance), kind))

    def prefetch_further(self, order: Sequence[Node], copy: int) -> None:
        """Ask for what the loads of a pointwise kernel will read a little later."""
        x = self.x
        for node in order:
            if node.op is LOAD and x.varies(node) and x.steps.is_contiguous(node.attributes["index"]):
                kind = memory_kind(node.dtype)
                pointer = x.memory.address(node.attributes["buffer"], node.attributes["index"], kind, copy)
                x.memory.prefetch(self.e.offset(pointer, AHEAD // node.dtype.itemsize, kind))

    def scratch(self, node: Node, phase: Phase, copy: int) -> Value:
        """Where a kept value lies for the current point of the inner loops."""
        offset = self.index(self.plan.scratch[node])
        base = self.nest.keep(("scratch", node), 0, lambda: self.e.offset(Value("%scratch", "ptr"), offset, "i8"))
        return self.x.memory.address_from(base, ("scratch", node), self.plan.place_in_scratch(phase), memory_kind(node.dtype), copy)


