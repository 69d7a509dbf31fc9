"""Decisions about one kernel before any code: lanes, blocks, unrolling, phases, scratch memory and cost."""

from __future__ import annotations

from functools import cached_property

from flambeau.codegen.cpu import costs
from flambeau.codegen.cpu.accumulate import partial_sums
from flambeau.codegen.cpu.index_forms import IndexForms
from flambeau.codegen.cpu.phases import Phase, dependencies, needed, plan_phases, store_nodes
from flambeau.codegen.cpu.tiles import TILES_ACROSS, Tiling, plan_tiling, scratch_bytes
from flambeau.core.symbolic import Dim, axis, ceil_divide, is_nonnegative, minimum, product
from flambeau.ir.kernel import ARGREDUCE, LOAD, REDUCE, Kernel, axes_in, loaded_nodes
from flambeau.ir.node import Node

# Elements of a pointwise block: enough to make the block's own cost small, few enough for many chunks.
_POINTWISE_BLOCK = 2048
_TILED_BLOCK = 256
# Vector instructions above which a mask costs less than the compilation of a second body without it.
_MASKED_ABOVE = 48
# Vector instructions of 16 lanes that an unrolled loop body may have.
_BODY_BUDGET = 160
# Vectors of a row that is worked on as a whole, and the instructions that this may take.
_ROW_VECTORS = 16
_ROW_BUDGET = 640


class KernelPlan:
    """What the loops of a kernel look like. ``width`` lanes, ``copies`` vectors in an unrolled outer loop."""

    def __init__(self, kernel: Kernel, features: frozenset[str], streaming: bool = False) -> None:
        self.kernel = kernel
        self.streaming = streaming
        # AMD's processors, which alone have sse4a, read ahead well enough: to ask for more cost AdamW and norms 15 percent there.
        self.asks_ahead = "sse4a" not in features
        self.order = kernel.nodes()
        self.free = dependencies(kernel, self.order)
        self.lanes_outside = bool(kernel.outer) and kernel.vector == kernel.outer[-1].name
        self.varying = [n for n in self.order if kernel.vector in self.free[n]]
        self.forms = IndexForms(kernel, self.order, self.free)
        self.width = self.choose_width(features)
        self.phases, self.last_stores = plan_phases(kernel, self.order, self.free)
        self.row_vectors = self.choose_row_vectors()
        vector = kernel.vector if self.lanes_outside else None
        self.parallel = tuple(a for a in kernel.outer if a.parallel and a.name != vector)
        self.serial = tuple(a for a in kernel.outer if not a.parallel and a.name != vector)
        self.tiling = self.choose_tiling()
        self.copies = self.outer_copies() if self.lanes_outside and self.tiling is None else 1
        self.block = self.choose_block()
        self.prefetched = self.choose_prefetches()
        self._places: dict[Phase, Dim] = {}
        self.scratch, self.scratch_bytes = self.place_scratch()

    # -- lanes ----------------------------------------------------------------------------------------------
    def choose_width(self, features: frozenset[str]) -> int:
        if not self.kernel.vector:
            return 1
        values = [n for n in self.varying if n not in self.forms.absorbed and n not in self.forms.comparisons]
        values += [n.sources[0] for n in self.order if n.op is REDUCE or n.op is ARGREDUCE]
        wide = costs.total(n for n in values if n.dtype.itemsize == 8)
        lanes = 16 if 2 * wide <= costs.total(values) else 8
        return lanes if "avx512f" in features else lanes // 2

    def outer_copies(self) -> int:
        """How many vectors of outer points are worked on at once."""
        cost = costs.total(self.varying)
        if not self.phases:
            return self.dividing(4 if cost <= 8 else 2 if cost <= 32 else 1, self.kernel.outer[-1].size)
        registers = max(sum(2 if n.op is ARGREDUCE else 1 for n in p.reductions) for p in self.phases)
        copies = 4 if cost <= 24 else 2 if cost <= 60 else 1
        while copies > 1 and copies * registers > 16:
            copies //= 2
        return copies

    @property
    def masks_all(self) -> bool:
        """Whether a loop without phases has one body, always under a mask."""
        heavy = not self.phases and self.copies == 1 and not self.streaming and costs.total(self.varying) > _MASKED_ABOVE
        return heavy and (self.block_length or 1) % self.width != 0

    def dividing(self, copies: int, size: Dim) -> int:
        """As many copies or fewer, so that a known size leaves no rest, if that is possible."""
        if not isinstance(size, int) or size <= copies * self.width:
            return copies
        return next((c for c in (copies, copies // 2, copies // 4) if c and size % (c * self.width) == 0), copies)

    def phase_copies(self, phase: Phase) -> int:
        """How many vectors of a row are worked on at once in a phase along the vector axis."""
        nodes = [n for n in needed(phase.roots, set(phase.kept)) if self.kernel.vector in self.free[n]]
        cost = costs.total(nodes) + costs.total(phase.reductions)
        partials = max((partial_sums(n) // self.width for n in phase.reductions), default=0)
        if partials:
            return partials if cost * partials * self.width <= 16 * _BODY_BUDGET else 1
        return self.dividing(4 if cost <= 10 else 2 if cost <= 32 else 1, phase.axes[-1].size)

    def choose_row_vectors(self) -> int:
        """How many vectors a row of fixed size has that stays in registers from phase to phase; 0 where there is no such row."""
        inner = self.kernel.inner
        if self.lanes_outside or not self.phases or len(inner) != 1 or not isinstance(inner[0].size, int) or self.width == 1:
            return 0
        vectors = -(-inner[0].size // self.width)
        cost = costs.total(self.varying) + 4 * len(self.kernel.stores)
        return vectors if 0 < vectors <= _ROW_VECTORS and vectors * cost <= _ROW_BUDGET else 0

    def choose_tiling(self) -> Tiling | None:
        if self.phases or not self.lanes_outside or not self.kernel.outer[-1].parallel:
            return None
        return plan_tiling(self.kernel, self.order, self.parallel, self.width)

    # -- iterations ---------------------------------------------------------------------------------------------
    def choose_block(self) -> int:
        """Elements of the vector axis in one iteration; 0 when that axis is not divided."""
        if not self.lanes_outside or not self.kernel.outer[-1].parallel:
            return 0
        block = _TILED_BLOCK if self.tiling is not None else self.copies * self.width if self.phases else _POINTWISE_BLOCK
        return 0 if is_nonnegative(block - self.vector_size) else block

    @property
    def block_length(self) -> int | None:
        """How many elements of the vector axis every iteration has, where that is known and always the same."""
        size = self.vector_size
        if not isinstance(size, int):
            return None
        return size if not self.block else self.block if size % self.block == 0 else None

    @property
    def vector_size(self) -> Dim:
        return self.kernel.outer[-1].size

    @property
    def blocks(self) -> Dim:
        return ceil_divide(self.vector_size, self.block)

    @cached_property
    def extents(self) -> list[Dim]:
        """How many steps each parallel axis is cut into, the vector axis last if it is divided."""
        across = None if self.tiling is None else self.tiling.across
        out = [ceil_divide(a.size, self.width * TILES_ACROSS) if a is across else a.size for a in self.parallel]
        return [*out, self.blocks] if self.block else out

    @cached_property
    def iterations(self) -> Dim:
        return product(self.extents)

    # -- scratch ------------------------------------------------------------------------------------------------
    def place_scratch(self) -> tuple[dict[Node, Dim], Dim]:
        """The offset in bytes of each value that is kept between phases, and the bytes of all."""
        offsets: dict[Node, Dim] = {}
        total: Dim = 0 if self.tiling is None else scratch_bytes(self.tiling, self.width)
        for phase in self.phases:
            for node in phase.keeps if not self.row_vectors else ():
                offsets[node] = total
                count = product(a.size for a in phase.axes)
                if self.lanes_outside:
                    count = count * (self.copies * self.width)
                total = total + ceil_divide(count * node.dtype.itemsize, 64) * 64
        return offsets, total

    def place_in_scratch(self, phase: Phase) -> Dim:
        """The element of a kept value's memory that belongs to the current point of a phase's loops."""
        place = self._places.get(phase)
        if place is None:
            place = 0
            for inner in phase.axes:
                place = place * inner.size + axis(inner.name, inner.size)
            place = self._places[phase] = place * (self.copies * self.width) if self.lanes_outside else place
        return place

    def choose_prefetches(self) -> dict[Phase, list[Node]]:
        """Loads of the first phase along a row that the second phase asks for ahead, for the next outer point."""
        if not self.asks_ahead or len(self.phases) < 2 or self.lanes_outside or self.row_vectors or not self.parallel:
            return {}
        first, second = self.phases[:2]
        if first.axes != second.axes or first.axes[-1].name != self.kernel.vector:
            return {}
        both = {self.kernel.vector, self.parallel[-1].name}
        loads = [n for n in needed(first.roots) if n.op is LOAD and not loaded_nodes(n.attributes["index"])]
        return {second: [n for n in loads if both <= axes_in(n.attributes["index"])]}

    # -- cost -----------------------------------------------------------------------------------------------------
    @cached_property
    def cost(self) -> Dim:
        """Rough nanoseconds of one iteration."""
        points = product(a.size for a in self.serial)
        if self.tiling is not None:
            points = points * minimum(self.width * TILES_ACROSS, self.tiling.across.size)
        if self.block:
            points = points * minimum(self.block, self.vector_size)
        elif self.lanes_outside:
            points = points * self.vector_size
        lanes = self.width if self.lanes_outside else 1
        last = self.picoseconds([n for s in self.last_stores for n in store_nodes(s)], lanes, set())
        total = (last + 100 * len(self.last_stores)) * points
        for phase in self.phases:
            width = self.width if self.kernel.vector in {a.name for a in phase.axes} or self.lanes_outside else 1
            per_point = self.picoseconds(phase.roots, width, set(phase.kept)) + 100 * len(phase.stores)
            total = total + product(a.size for a in phase.axes) * per_point * points
        return ceil_divide(total, 1000) + 10

    def picoseconds(self, roots: list[Node], lanes: int, leaves: set[Node]) -> int:
        """Of one element: a vector instruction takes 0.2 ns, an element that is read or written 0.1 ns."""
        nodes = [n for n in needed(roots, leaves) if self.kernel.vector in self.free[n] or lanes == 1]
        return costs.total(nodes) * 200 // lanes + 100 * sum(n.op is LOAD for n in nodes)
