"""Loads whose neighbours in memory lie along another axis than the lanes: square tiles are read by rows and turned in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.codegen.cpu.expressions import ExpressionEmitter
from flambeau.codegen.cpu.lane_steps import LaneSteps
from flambeau.codegen.cpu.memory import memory_kind
from flambeau.core.symbolic import Dim, atoms_of, axis, is_constant, substitute
from flambeau.ir.kernel import LOAD, Kernel, KernelAxis
from flambeau.ir.node import Node

# Fewer points than this along the other axis are gathered.
_LEAST = 8
# So many tiles side by side are turned before the next lanes, as their memory is neighbouring.
TILES_ACROSS = 4


@dataclass(frozen=True)
class Tiling:
    """The axis along which the loads ``nodes`` are contiguous; it is walked in steps of the number of lanes."""

    across: KernelAxis
    nodes: tuple[Node, ...]


def plan_tiling(kernel: Kernel, order: Sequence[Node], axes: Sequence[KernelAxis], width: int) -> Tiling | None:
    """The tiling of a pointwise kernel along one of the parallel ``axes``, if some load needs one."""
    vector = kernel.outer[-1]
    written = {s.buffer for s in kernel.stores}
    along = LaneSteps(vector.name, width, lambda _: True, aligned=True)
    for across in reversed(axes):
        rows = LaneSteps(across.name, width, lambda _: True, aligned=True)
        if any(isinstance(a.size, int) and a.size < _LEAST for a in (across, vector)):
            continue
        nodes = [n for n in order if n.op is LOAD and not n.sources and n.attributes["buffer"] not in written]
        nodes = [n for n in nodes if lies_across(n.attributes["index"], along, rows)]
        if nodes:
            return Tiling(across, tuple(nodes))
    return None


def lies_across(index: Dim, along: LaneSteps, rows: LaneSteps) -> bool:
    """Whether the index grows by one from row to row and by the same distance from lane to lane, which is not one."""
    if any(a.kind == "loaded" for a in atoms_of(index)) or not along.varies(index) or rows.constant_step(index) != 1:
        return False
    distance = along.distance(index)
    return distance is not None and not is_constant(distance, 1)


class TileEmitter:
    """Fills scratch memory with turned tiles, and reads their rows back as values of the loads."""

    def __init__(self, x: ExpressionEmitter, tiling: Tiling) -> None:
        self.x = x
        self.tiling = tiling
        # A name of its own: what is computed for the tile's first row must not be taken for that of another row.
        self.first_row = f"{tiling.across.name} of the tile"

    def fill(self, start: Value, lanes: Value, rows: Value) -> None:
        """Read the tiles at the current lanes (``lanes`` of them exist) whose first row is ``start`` and that have ``rows`` rows."""
        e, x = self.x.e, self.x
        x.nest.bind({self.first_row: start})
        mask = e.compare("slt", e.lanes("i32", x.width), e.convert("trunc", rows, "i32"))
        for number, node in enumerate(self.tiling.nodes):
            index: Dim = node.attributes["index"]
            origin = substitute(index, {self.tiling.across.name: axis(self.first_row, self.tiling.across.size)})
            step = x.steps.distance(index)
            assert step is not None
            distance = x.indexing.scalar(step)
            kind = memory_kind(node.dtype)
            pointer = x.memory.address(node.attributes["buffer"], origin, kind)
            vectors: list[Value] = []
            for lane_number in range(x.width):
                if lane_number:
                    exists = e.compare("slt", e.const(lane_number, "i64"), lanes)
                    pointer = e.offset(pointer, e.select(exists, distance, e.const(0, "i64")), kind)
                vectors.append(e.masked_load(pointer, kind, mask))
            for row, vector in enumerate(transpose(e, vectors)):
                e.store(vector, e.offset(self.tile(number), row * x.width, kind))

    def tile(self, number: int) -> Value:
        offset = number * self.x.width * self.x.width * 8
        return self.x.nest.keep(("tile", number), 0, lambda: self.x.e.offset(Value("%scratch", "ptr"), offset, "i8"))

    def read(self, row: Value) -> None:
        """Give the loads their values at the current point, which is ``row`` of the tiles."""
        e, x = self.x.e, self.x
        for number, node in enumerate(self.tiling.nodes):
            place = e.offset(self.tile(number), e.mul(row, e.const(x.width, "i64")), memory_kind(node.dtype))
            x.preset(node, 0, x.memory.load_vector(place, node.dtype, None))


def scratch_bytes(tiling: Tiling, width: int) -> int:
    return len(tiling.nodes) * width * width * 8


def transpose(e: Emitter, rows: Sequence[Value]) -> list[Value]:
    """Turn a square of vectors, exchanging ever larger blocks."""
    out, size = list(rows), len(rows)
    step = 1
    while step < size:
        # LLVM spends most of a kernel's compile time on looking for better ways to do several exchanges at once.
        out = [e.opaque(row) for row in out]
        low = [k if not k & step else size + k - step for k in range(size)]
        high = [k + step if not k & step else size + k for k in range(size)]
        for i in range(size):
            if not i & step:
                a, b = out[i], out[i + step]
                out[i], out[i + step] = e.shuffle(a, b, low), e.shuffle(a, b, high)
        step *= 2
    return out
