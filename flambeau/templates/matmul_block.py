"""The loops around the register tiles: one block of C over all of K, and the exported function that cuts C into blocks."""

from __future__ import annotations

from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.templates.matmul_pack import Operand, storage_kind
from flambeau.templates.matmul_plan import GRAIN_BITS, panel_bytes, tile_bytes
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
    repeat,
    tile_name,
    when,
)

__all__ = ["emit_block", "emit_entry"]

# Lines this far apart need a page each, more than the first-level translation buffer holds: reading them often is slow.
PAGE_BYTES, SET_BYTES = 4096, 192
_NULL, _NO = Value("null", "ptr"), Value("false", "i1")


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

    def one_block(index: Value) -> None:
        line = e.binary("udiv", index, across)
        batch = e.binary("udiv", line, down)
        row = e.mul(e.sub(line, e.mul(batch, down)), rows)
        column = e.mul(e.sub(index, e.mul(line, across)), columns)
        height, width = minimum(e, rows, e.sub(sizes["m"], row)), minimum(e, columns, e.sub(sizes["n"], column))
        call_function(e, "block", slots, scratch, batch, row, height, column, width)

    repeat(e, first, minimum(e, e.add(first, share), total), 1, one_block, "block")
    close_function(e)


def emit_block(e: Emitter, a: Operand, b: Operand, shape: TileShape, kind: str, stores_directly: bool) -> None:
    """``@block``: ``rows`` by ``columns`` of C from ``row``, ``column``, over blocks of K in ascending order."""
    arguments = open_function(e, "block", "ptr slots, ptr scratch, i64 batch, i64 row, i64 rows, i64 column, i64 columns")
    _Block(e, a, b, shape, kind, stores_directly, arguments).emit()
    close_function(e)


class _Block:
    def __init__(
        self, e: Emitter, a: Operand, b: Operand, shape: TileShape, kind: str, stores_directly: bool, arguments: list[Value]
    ) -> None:
        self.e, self.a, self.b, self.shape, self.kind = e, a, b, shape, kind
        self.stores_directly = stores_directly
        self.slots, self.scratch, self.batch, self.row, self.rows, self.column, self.columns = arguments
        self.context: Context = load_context(e, self.slots, 0)
        self.size = self.context.values
        self.tile = self.scratch
        self.panel = e.offset(self.scratch, tile_bytes(shape), "i8")
        self.slivers = e.offset(self.panel, panel_bytes(shape), "i8")
        width = e.mul(e.binary("udiv", e.add(self.columns, number(shape.columns - 1)), number(shape.columns)), number(shape.columns))
        self.sums = e.offset(e.offset(self.slivers, e.mul(width, number(shape.depth)), kind), shape.lanes * shape.columns, kind)
        self.sums_row = e.add(width, number(64 // shape.itemsize))

    def emit(self) -> None:
        # Without any K the loop runs once, over nothing, and finishes zeros.
        stop = self.e.intrinsic("smax", self.size["k"], number(1))
        repeat(self.e, number(0), stop, self.shape.depth, self._depth_block, "depth")

    def _depth_block(self, first: Value) -> None:
        e, shape, size = self.e, self.shape, self.size
        depth = minimum(e, number(shape.depth), e.sub(size["k"], first))
        last = e.compare("sge", e.add(first, number(shape.depth)), size["k"])
        b_start = e.add(e.mul(self.batch, size["b_batch"]), e.mul(self.column, size["b_column"]))
        b_source = e.offset(size["b"], e.add(b_start, e.mul(first, size["b_row"])), storage_kind(self.b.element))
        packs_b = self._packs_b()
        whole = e.mul(e.binary("udiv", self.columns, number(shape.columns)), number(shape.columns))

        def pack_sliver(start: Value) -> None:
            source = e.offset(b_source, e.mul(start, size["b_column"]), storage_kind(self.b.element))
            target = e.offset(self.slivers, e.mul(start, number(shape.depth)), self.kind)
            width = minimum(e, number(shape.columns), e.sub(self.columns, start))
            call_function(
                e, "pack_b", source, size["b_row"], size["b_column"], depth, width, target,
                self.batch, first, e.add(self.column, start), self.slots,
            )  # fmt: skip

        # The tiles read whole vectors, so a sliver at the edge is packed in any case.
        repeat(e, e.select(packs_b, number(0), whole), self.columns, shape.columns, pack_sliver, "pack")
        full = e.binary("udiv", self.rows, number(shape.heights[0]))
        left = e.sub(self.rows, e.mul(full, number(shape.heights[0])))
        more = e.convert("zext", e.compare("sgt", left, number(shape.heights[1])), "i64")
        low = e.add(e.convert("zext", e.compare("sgt", left, number(0)), "i64"), more)

        def panel(index: Value) -> None:
            tall = minimum(e, index, full)
            row = e.add(e.mul(tall, number(shape.heights[0])), e.mul(e.sub(index, tall), number(shape.heights[1])))
            self._panel(row, first, depth, last, packs_b, whole, b_source)

        repeat(e, number(0), e.add(full, low), 1, panel, "panel")

    def _packs_b(self) -> Value:
        """Whether B is packed: it must be, or reading it in place is slow (far or split lines) and enough panels of A need it."""
        e = self.e
        if self.b.layout != "row" or self.b.must_pack:
            return e.const(True, "i1")
        apart = e.mul(self.size["b_row"], number(self.shape.itemsize))
        far = e.compare("sge", apart, number(PAGE_BYTES))
        split = e.binary("and", e.binary("or", apart, e.convert("ptrtoint", self.size["b"], "i64")), number(63))
        slow = e.binary("or", far, e.compare("ne", split, number(0)))
        return e.binary("and", slow, e.compare("sgt", self.rows, number(2 * self.shape.heights[0])))

    def _packs_a(self) -> Value:
        """Whether panels of A are packed: they must be, or reading them in place is slow and enough slivers of B need them."""
        e, size = self.e, self.size
        if self.a.must_pack:
            return e.const(True, "i1")
        if self.a.layout == "col":
            slow = e.compare("sge", e.mul(size["a_column"], number(self.shape.itemsize)), number(PAGE_BYTES))
        else:
            # Rows that are nearly a multiple of a page apart fall into the same few sets of the first-level cache.
            apart = e.add(e.mul(size["a_row"], number(self.shape.itemsize)), number(SET_BYTES))
            slow = e.compare("ule", e.binary("and", apart, number(PAGE_BYTES - 1)), number(2 * SET_BYTES))
        return e.binary("and", slow, e.compare("sgt", self.columns, number(2 * self.shape.columns)))

    def _panel(self, row: Value, first: Value, depth: Value, last: Value, packs_b: Value, whole: Value, b_source: Value) -> None:
        """A few rows of the block, over all its columns."""
        e, shape, size, heights = self.e, self.shape, self.size, self.shape.heights
        left = e.sub(self.rows, row)
        rows = minimum(e, left, number(heights[0]))
        short = e.select(e.compare("sgt", left, number(heights[2])), _function(heights[1]), _function(heights[2]))
        tile = e.select(e.compare("sge", left, number(heights[0])), _function(heights[0]), short)
        rows = e.select(e.compare("sge", left, number(heights[0])), rows, minimum(e, rows, number(heights[1])))
        a_start = e.add(e.mul(self.batch, size["a_batch"]), e.mul(e.add(self.row, row), size["a_row"]))
        source = e.offset(size["a"], e.add(a_start, e.mul(first, size["a_column"])), storage_kind(self.a.element))
        packs = self._packs_a()

        def pack() -> None:
            call_function(
                e, "pack_a", source, size["a_row"], size["a_column"], rows, depth, self.panel,
                self.batch, e.add(self.row, row), first, self.slots,
            )  # fmt: skip

        when(e, packs, pack)
        a = e.select(packs, self.panel, source)
        if self.a.layout == "row":
            a_row, a_depth = e.select(packs, number(shape.row_pitch), size["a_row"]), number(1)
        else:
            a_row, a_depth = number(1), e.select(packs, number(shape.panel), size["a_column"])

        ahead = e.offset(source, e.mul(size["a_row"], number(heights[0])), storage_kind(self.a.element))
        ahead_row = e.mul(size["a_row"], number(self.a.element.itemsize))

        def sliver(start: Value) -> None:
            column = e.add(self.column, start)
            width = minimum(e, number(shape.columns), e.sub(self.columns, start))
            in_place = e.binary("and", e.compare("slt", start, whole), e.binary("xor", packs_b, e.const(True, "i1")))
            packed = e.offset(self.slivers, e.mul(start, number(shape.depth)), self.kind)
            b = e.select(in_place, e.offset(b_source, start, self.kind), packed)
            b_depth = e.select(in_place, size["b_row"], number(shape.columns))
            sums = e.offset(self.sums, e.add(e.mul(row, self.sums_row), start), self.kind)
            added = e.select(e.compare("eq", first, number(0)), _NULL, sums)
            to_c = e.binary("and", last, e.compare("eq", width, number(shape.columns))) if self.stores_directly else _NO
            finishes = e.binary("and", last, e.binary("xor", to_c, e.const(True, "i1")))
            in_c = self.context.output(e, self.batch, e.add(self.row, row), column, self.kind)
            out = e.select(to_c, in_c, e.select(finishes, self.tile, sums))
            out_row = e.select(to_c, size["c_row"], e.select(finishes, number(shape.columns), self.sums_row))
            hinted = e.binary("and", last, e.compare("ne", size["c"], _NULL))
            soon, soon_row = e.select(hinted, in_c, out), e.select(hinted, size["c_row"], out_row)
            operands = [a, a_row, a_depth, b, b_depth, depth, added, self.sums_row, out, out_row, rows, ahead, ahead_row, soon, soon_row]
            e.emit(f"call void {tile.text}({', '.join(map(str, operands))})")
            when(
                e,
                finishes,
                lambda: call_function(e, "finish", self.tile, rows, width, self.batch, e.add(self.row, row), column, self.slots),
            )

        repeat(e, number(0), self.columns, shape.columns, sliver, "sliver")


def _function(height: int) -> Value:
    return Value("@" + tile_name(height), "ptr")
