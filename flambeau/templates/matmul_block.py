"""The loops around the register tiles: one block of C over all of K, and the exported function that cuts C into blocks."""

from __future__ import annotations

from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.templates.matmul_pack import Operand, storage_kind
from flambeau.templates.matmul_plan import GRAIN_BITS, Pitches, sliver_bytes, tile_bytes
from flambeau.templates.matmul_tile import (
    SLOTS,
    Context,
    TileShape,
    call_function,
    close_function,
    load_context,
    minimum,
    number,
    open_function,
    tile_name,
)

__all__ = ["emit_block", "emit_entry"]

_NULL = Value("null", "ptr")


def emit_entry(e: Emitter, name: str) -> None:
    """The exported function: chunk number ``chunk`` computes its share of the blocks of C, columns of blocks fastest."""
    e.begin(f"define void @{name}(ptr %slots, i64 %chunk, ptr %scratch) #0")
    slots, chunk, scratch = Value("%slots", "ptr"), Value("%chunk", "i64"), Value("%scratch", "ptr")
    sizes = load_context(e, slots, 0).values
    grain = e.load(e.offset(slots, SLOTS.index("grain"), "i64"), "i64", align=8)
    field = number((1 << GRAIN_BITS) - 1)
    rows = e.binary("and", grain, field)
    columns = e.binary("and", e.binary("lshr", grain, number(GRAIN_BITS)), field)
    share = e.binary("lshr", grain, number(2 * GRAIN_BITS))

    def blocks_of(size: Value, block: Value) -> Value:
        return e.binary("udiv", e.add(size, e.sub(block, number(1))), block)

    across, down = blocks_of(sizes["n"], columns), blocks_of(sizes["m"], rows)
    total = e.mul(sizes["batch"], e.mul(across, down))
    first = e.mul(chunk, share)

    def one_block(index: Value, _: list[Value]) -> list[Value]:
        line = e.binary("udiv", index, across)
        batch = e.binary("udiv", line, down)
        row = e.mul(e.sub(line, e.mul(batch, down)), rows)
        column = e.mul(e.sub(index, e.mul(line, across)), columns)
        height, width = minimum(e, rows, e.sub(sizes["m"], row)), minimum(e, columns, e.sub(sizes["n"], column))
        call_function(e, "block", slots, scratch, batch, row, height, column, width)
        return []

    e.loop(first, minimum(e, e.add(first, share), total), 1, [], one_block, "block")
    close_function(e)


def emit_block(
    e: Emitter, a: Operand, b: Operand, shape: TileShape, kind: str, pitches: Pitches, stores_directly: bool
) -> None:
    """``@block``: ``rows`` by ``columns`` of C from ``row``, ``column``, over blocks of K in ascending order."""
    arguments = open_function(
        e, "block", "ptr slots, ptr scratch, i64 batch, i64 row, i64 rows, i64 column, i64 columns"
    )
    _Block(e, a, b, shape, kind, pitches, stores_directly, arguments).emit()
    close_function(e)


class _Block:
    def __init__(
        self, e: Emitter, a: Operand, b: Operand, shape: TileShape, kind: str, pitches: Pitches, stores_directly: bool,
        arguments: list[Value],
    ) -> None:  # fmt: skip
        self.e, self.a, self.b, self.shape, self.kind, self.pitches = e, a, b, shape, kind, pitches
        self.stores_directly = stores_directly
        self.slots, self.scratch, self.batch, self.row, self.rows, self.column, self.columns = arguments
        self.context: Context = load_context(e, self.slots, 0)
        self.size = self.context.values
        tile, sliver = tile_bytes(shape, pitches.itemsize), sliver_bytes(shape, pitches.itemsize)
        self.tile = self.scratch
        self.sliver = e.offset(self.scratch, tile, "i8")
        sums_or_panels = e.offset(self.scratch, tile + sliver, "i8")
        # The sums between blocks of K come first; without them the packed A takes their place.
        across = e.binary("udiv", e.add(self.columns, number(shape.columns - 1)), number(shape.columns))
        several = e.compare("sgt", self.size["k"], number(shape.depth))
        room = e.select(several, e.mul(self.rows, e.mul(across, number(shape.columns))), number(0))
        self.sums, self.packed_a = sums_or_panels, e.offset(sums_or_panels, room, kind)

    def emit(self) -> None:
        e, size = self.e, self.size
        # Without any K the loop runs once, over nothing, and finishes zeros.
        stop = e.intrinsic("smax", size["k"], number(1))
        e.loop(number(0), stop, self.shape.depth, [], self._depth_block, "depth")

    def _depth_block(self, first: Value, _: list[Value]) -> list[Value]:
        e, shape, size = self.e, self.shape, self.size
        depth = minimum(e, number(shape.depth), e.sub(size["k"], first))
        last = e.compare("sge", e.add(first, number(shape.depth)), size["k"])
        a_start = e.add(e.mul(self.batch, size["a_batch"]), e.mul(self.row, size["a_row"]))
        source = e.offset(size["a"], e.add(a_start, e.mul(first, size["a_column"])), storage_kind(self.a.element))
        packs = self._packs_a()

        def pack() -> None:
            call_function(
                e, "pack_a", source, size["a_row"], size["a_column"], self.rows, depth, self.packed_a,
                self.batch, self.row, first, self.slots,
            )  # fmt: skip

        self._when(packs, pack)
        operand = self._operand_a(packs, source)

        def sliver(start: Value, _: list[Value]) -> list[Value]:
            self._sliver(start, first, depth, last, operand)
            return []

        e.loop(number(0), self.columns, shape.columns, [], sliver, "sliver")
        return []

    def _packs_a(self) -> Value:
        e, size = self.e, self.size
        if self.a.must_pack:
            return e.const(True, "i1")
        stride = size["a_row"] if self.a.layout == "row" else size["a_column"]
        bytes_apart = e.mul(stride, number(self.pitches.itemsize))
        return e.compare("sge", bytes_apart, number(2048))

    def _packs_b(self, width: Value) -> Value:
        e = self.e
        if self.b.layout != "row" or self.b.must_pack:
            return e.const(True, "i1")
        bytes_apart = e.mul(self.size["b_row"], number(self.pitches.itemsize))
        narrow = e.compare("slt", width, number(self.shape.columns))
        return e.binary("or", narrow, e.compare("sge", bytes_apart, number(1024)))

    def _operand_a(self, packs: Value, source: Value) -> tuple[Value, Value, Value, Value]:
        """Pointer, row stride, depth stride and distance of the panels of A as the tiles read it."""
        e, size, shape = self.e, self.size, self.shape
        height = number(shape.heights[0])
        if self.a.layout == "row":
            row = e.select(packs, number(self.pitches.row_pitch), size["a_row"])
            depth, panel = number(1), e.mul(row, height)
        else:
            row, depth = number(1), e.select(packs, number(shape.panel), size["a_column"])
            panel = e.select(packs, number(shape.depth * shape.panel), height)
        return e.select(packs, self.packed_a, source), row, depth, panel

    def _when(self, condition: Value, body: object) -> None:
        e = self.e
        yes, after = e.fresh_label("yes"), e.fresh_label("after")
        e.branch_if(condition, yes, after)
        e.label(yes)
        body()  # type: ignore[operator]
        e.branch(after)
        e.label(after)

    def _sliver(
        self, start: Value, first: Value, depth: Value, last: Value, operand: tuple[Value, Value, Value, Value]
    ) -> None:
        """All rows of the block for ``shape.columns`` columns from ``start`` of the block."""
        e, shape, size = self.e, self.shape, self.size
        width = minimum(e, number(shape.columns), e.sub(self.columns, start))
        column = e.add(self.column, start)
        b_start = e.add(e.mul(self.batch, size["b_batch"]), e.mul(column, size["b_column"]))
        source = e.offset(size["b"], e.add(b_start, e.mul(first, size["b_row"])), storage_kind(self.b.element))
        packs = self._packs_b(width)

        def pack() -> None:
            call_function(
                e, "pack_b", source, size["b_row"], size["b_column"], depth, width, self.sliver,
                self.batch, first, column, self.slots,
            )  # fmt: skip

        self._when(packs, pack)
        b, b_depth = e.select(packs, self.sliver, source), e.select(packs, number(shape.columns), size["b_row"])
        sums = e.offset(self.sums, e.mul(start, self.rows), self.kind)
        added = e.select(e.compare("eq", first, number(0)), _NULL, sums)
        to_c = e.const(False, "i1")
        if self.stores_directly:
            to_c = e.binary("and", last, e.compare("eq", width, number(shape.columns)))
        finishes = e.binary("and", last, e.binary("xor", to_c, e.const(True, "i1")))
        out = e.select(to_c, self.context.output(e, self.batch, self.row, column, self.kind), sums)
        out = e.select(finishes, self.tile, out)
        out_row = e.select(to_c, size["c_row"], number(shape.columns))
        out_step = e.select(finishes, number(0), out_row)

        def one_tile(height: int, row: Value, a: Value) -> None:
            offset = e.mul(row, number(shape.columns))
            here = e.select(e.compare("eq", added, _NULL), _NULL, e.offset(added, offset, self.kind))
            target = e.offset(out, e.mul(row, out_step), self.kind)
            rows = minimum(e, e.sub(self.rows, row), number(height))
            call_function(e, tile_name(height), a, operand[1], operand[2], b, b_depth, depth, here, target, out_row, rows)
            self._when(
                finishes,
                lambda: call_function(e, "finish", target, rows, width, self.batch, e.add(self.row, row), column, self.slots),
            )

        self._rows(operand, one_tile)

    def _rows(self, operand: tuple[Value, Value, Value, Value], one_tile: object) -> None:
        """Tall tiles while they fit, middle ones while more than a low one is left, then a low one."""
        e, heights = self.e, self.shape.heights
        pointer, row_stride, _, panel = operand
        carried = [number(0), pointer]
        stops = [e.sub(self.rows, number(heights[0] - 1)), e.sub(self.rows, number(heights[2])), self.rows]
        for height, stop in zip(heights, stops, strict=True):
            step = panel if height == heights[0] else e.mul(row_stride, number(height))

            def body(row: Value, values: list[Value], height: int = height, step: Value = step) -> list[Value]:
                one_tile(height, row, values[1])  # type: ignore[operator]
                return [e.add(row, number(height)), e.offset(values[1], step, self.kind)]

            carried = e.loop(carried[0], stop, height, carried, body, f"rows{height}.")
