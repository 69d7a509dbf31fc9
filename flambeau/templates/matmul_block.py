"""The loops around the register tiles: one block of C over all of K, and the exported function that cuts C into blocks."""

from __future__ import annotations

from collections.abc import Callable

from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.templates.matmul_pack import Operand, storage_kind
from flambeau.templates.matmul_plan import FEW_SETS_BYTES, GRAIN_BITS, panel_bytes, tile_bytes
from flambeau.templates.matmul_tile import (
    LINE_BYTES,
    SLOTS,
    STORE,
    WINDOW_SLOTS,
    TileShape,
    call_function,
    close_function,
    divided,
    load_slots,
    minimum,
    number,
    open_function,
    repeat,
    tile_name,
    when,
)
from flambeau.templates.matmul_window import fill_offsets

__all__ = ["emit_block", "emit_entry"]

# Lines this far apart need a page each, more than the first-level translation buffer holds: reading them often is slow.
PAGE_BYTES, SET_BYTES = 4096, 192
# The tallest tile asks for lines ahead at each step of K, along rows for so many rows in turn.
LINES_AHEAD = 16
_NULL = Value("null", "ptr")


def emit_entry(e: Emitter, name: str, b: Operand) -> None:
    """The exported function: chunk number ``chunk`` computes its share of the blocks of C, columns of blocks fastest."""
    e.begin(f"define void @{name}(ptr %slots, i64 %chunk, ptr %scratch) #0")
    slots, chunk, scratch = Value("%slots", "ptr"), Value("%chunk", "i64"), Value("%scratch", "ptr")
    size = load_slots(e, slots, ("grain", "outer", "inner", "m", "n"))
    if b.windowed:  # the inner batches are columns
        size |= {"n": e.mul(size["inner"], size["n"]), "inner": number(1)}
    field = number((1 << GRAIN_BITS) - 1)
    rows = e.binary("and", size["grain"], field)
    columns = e.binary("and", e.binary("lshr", size["grain"], number(GRAIN_BITS)), field)
    share = e.binary("lshr", size["grain"], number(2 * GRAIN_BITS))

    def blocks_of(extent: Value, block: Value) -> Value:
        return e.binary("udiv", e.add(extent, e.sub(block, number(1))), block)

    across, down = blocks_of(size["n"], columns), blocks_of(size["m"], rows)
    total = e.mul(e.mul(size["outer"], size["inner"]), e.mul(across, down))
    first = e.mul(chunk, share)

    def one_block(index: Value) -> None:
        line, across_at = divided(e, index, across)
        batch, down_at = divided(e, line, down)
        outer, inner = divided(e, batch, size["inner"])
        row, column = e.mul(down_at, rows), e.mul(across_at, columns)
        height, width = minimum(e, rows, e.sub(size["m"], row)), minimum(e, columns, e.sub(size["n"], column))
        call_function(e, "@block", slots, scratch, outer, inner, row, height, column, width)

    repeat(e, first, minimum(e, e.add(first, share), total), 1, one_block, "block")
    close_function(e)


def emit_block(e: Emitter, a: Operand, b: Operand, shape: TileShape, kind: str) -> None:
    """``@block``: ``rows`` by ``columns`` of C from ``row``, ``column``, over blocks of K in ascending order."""
    arguments = open_function(
        e, "block", "ptr slots, ptr scratch, i64 outer, i64 inner, i64 row, i64 rows, i64 column, i64 columns"
    )
    _Block(e, a, b, shape, kind, arguments).emit()
    close_function(e)


class _Block:
    def __init__(self, e: Emitter, a: Operand, b: Operand, shape: TileShape, kind: str, arguments: list[Value]) -> None:
        self.e, self.a, self.b, self.shape, self.kind = e, a, b, shape, kind
        self.slots, self.scratch, self.outer, self.inner, self.row, self.rows, self.column, self.columns = arguments
        self.size = load_slots(e, self.slots)
        self.a_start = self._start("a", storage_kind(a.element), e.mul(self.row, self.size["a_row"]))
        self.b_start = self._start("b", storage_kind(b.element), e.mul(self.column, self.size["b_column"]))
        self.c_start = self._start("c", kind, e.add(e.mul(self.row, self.size["c_row"]), self.column))
        if b.windowed:
            self.row_table = self.scratch
            self.column_table = e.offset(self.scratch, shape.depth, "i64")
            self.scratch = e.offset(self.scratch, e.add(number(shape.depth * 8 + 63), e.mul(self.columns, number(8))), "i8")
        self.tile = self.scratch
        self.panel = e.offset(self.scratch, tile_bytes(shape), "i8")
        self.slivers = e.offset(self.panel, panel_bytes(shape), "i8")
        width = e.mul(e.binary("udiv", e.add(self.columns, number(shape.columns - 1)), number(shape.columns)), number(shape.columns))
        self.sums = e.offset(e.offset(self.slivers, e.mul(width, number(shape.depth)), kind), shape.lanes * shape.columns, kind)
        self.sums_row = e.add(width, number(64 // shape.itemsize))
        self.whole = e.mul(e.binary("udiv", self.columns, number(shape.columns)), number(shape.columns))
        self.packs_a, self.packs_b = self._packs_a(), self._packs_b()
        self.fused = e.compare("ne", self.size["epilogue"], _NULL)
        self.finish = e.select(self.fused, self.size["epilogue"], Value("@" + STORE, "ptr"))
        own = len(SLOTS) + (len(WINDOW_SLOTS) if b.windowed else 0)
        self.finish_slots = e.select(self.fused, e.offset(self.slots, own, "i64"), self.slots)

    def _start(self, name: str, kind: str, place: Value) -> Value:
        """The address of the block's part of an operand in its batch."""
        e, size = self.e, self.size
        batch = e.add(e.mul(self.outer, size[f"{name}_outer"]), e.mul(self.inner, size[f"{name}_inner"]))
        return e.offset(size[name], e.add(batch, place), kind)

    def emit(self) -> None:
        if self.b.windowed:
            fill_offsets(self.e, self.slots, "column", self.column_table, self.column, self.columns)
        # Without any K the loop runs once, over nothing, and finishes zeros.
        stop = self.e.intrinsic("smax", self.size["k"], number(1))
        repeat(self.e, number(0), stop, self.shape.depth, self._depth_block, "depth")

    def _depth_block(self, first: Value) -> None:
        e, shape, size = self.e, self.shape, self.size
        depth = minimum(e, number(shape.depth), e.sub(size["k"], first))
        last = e.compare("sge", e.add(first, number(shape.depth)), size["k"])
        b_source = e.offset(self.b_start, e.mul(first, size["b_row"]), storage_kind(self.b.element))

        if self.b.windowed:
            fill_offsets(e, self.slots, "row", self.row_table, first, depth)

        def pack_sliver(start: Value) -> None:
            source = e.offset(b_source, e.mul(start, size["b_column"]), storage_kind(self.b.element))
            target = e.offset(self.slivers, e.mul(start, number(shape.depth)), self.kind)
            width = minimum(e, number(shape.columns), e.sub(self.columns, start))
            if self.b.windowed:
                table = e.offset(self.column_table, start, "i64")
                call_function(e, "@pack_windows", self.b_start, self.row_table, table, depth, width, target)
                return
            call_function(e, "@pack_b", source, size["b_row"], size["b_column"], depth, width, target)

        # The tiles read whole vectors, so a sliver at the edge is packed in any case.
        repeat(e, e.select(self.packs_b, number(0), self.whole), self.columns, shape.columns, pack_sliver, "pack")
        tall, low = self._panel_counts()

        def panel(index: Value) -> None:
            above = minimum(e, index, tall)
            row = e.add(e.mul(above, number(shape.tall)), e.mul(e.sub(index, above), number(shape.low)))
            self._panel(e.compare("slt", index, tall), row, first, depth, last, b_source)

        repeat(e, number(0), e.add(tall, low), 1, panel, "panel")

    def _panel_counts(self) -> tuple[Value, Value]:
        """How many tall panels there are, and how many low ones after them; two low ones take a few rows more than a tall one."""
        e, tall, low = self.e, self.shape.tall, self.shape.low
        full, rest = divided(e, self.rows, number(tall))
        few = e.binary("and", e.compare("sgt", rest, number(0)), e.compare("sle", rest, number(2 * low - tall)))
        count = e.sub(full, minimum(e, full, e.convert("zext", few, "i64")))
        left = e.sub(self.rows, e.mul(count, number(tall)))
        return count, e.binary("udiv", e.add(left, number(low - 1)), number(low))

    def _packs_b(self) -> Value:
        """Whether B is packed: it must be, or reading it in place is slow (far or split lines) and enough panels of A need it."""
        e = self.e
        if self.b.layout != "row" or self.b.must_pack:
            return e.const(True, "i1")
        apart = e.mul(self.size["b_row"], number(self.shape.itemsize))
        few_sets = e.compare("eq", e.binary("and", apart, number(FEW_SETS_BYTES - 1)), number(0))
        far = e.binary("or", e.compare("sge", apart, number(PAGE_BYTES)), few_sets)
        split = e.binary("and", e.binary("or", apart, e.convert("ptrtoint", self.b_start, "i64")), number(63))
        slow = e.binary("or", far, e.compare("ne", split, number(0)))
        return e.binary("and", slow, e.compare("sgt", self.rows, number(2 * self.shape.tall)))

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

    def _panel(self, is_tall: Value, row: Value, first: Value, depth: Value, last: Value, b_source: Value) -> None:
        """A few rows of the block, over all its columns."""
        e, shape, size = self.e, self.shape, self.size
        tile = e.select(is_tall, _function(shape.tall), _function(shape.low))
        rows = e.select(is_tall, number(shape.tall), minimum(e, e.sub(self.rows, row), number(shape.low)))
        element = storage_kind(self.a.element)
        source = e.offset(self.a_start, e.add(e.mul(row, size["a_row"]), e.mul(first, size["a_column"])), element)
        when(
            e, self.packs_a,
            lambda: call_function(e, "@pack_a", source, size["a_row"], size["a_column"], rows, depth, self.panel),
        )  # fmt: skip
        a = e.select(self.packs_a, self.panel, source)
        if self.a.layout == "row":
            a_row, a_depth = e.select(self.packs_a, number(shape.row_pitch), size["a_row"]), number(1)
        else:
            a_row, a_depth = number(1), e.select(self.packs_a, number(shape.panel), size["a_column"])
        following = e.offset(source, e.mul(size["a_row"], number(shape.tall)), element)
        panel_ahead = following, *self._steps_ahead(depth)

        def sliver(start: Value) -> None:
            b, b_depth = self._sliver_of_b(start, b_source)
            far = self._far_lines(start, row, b_source, panel_ahead)
            self._tile(tile, [a, a_row, a_depth, b, b_depth, depth], (row, start), rows, first, last, far)

        repeat(e, number(0), self.columns, shape.columns, sliver, "sliver")

    def _sliver_of_b(self, start: Value, b_source: Value) -> tuple[Value, Value]:
        """Where B's columns from ``start`` on are read, and how far apart their rows are."""
        e, shape = self.e, self.shape
        packed = e.offset(self.slivers, e.mul(start, number(shape.depth)), self.kind)
        if self.b.layout != "row" or self.b.must_pack:
            return packed, number(shape.columns)
        in_place = e.binary("and", e.compare("slt", start, self.whole), e.binary("xor", self.packs_b, e.const(True, "i1")))
        b = e.select(in_place, e.offset(b_source, start, self.kind), packed)
        return b, e.select(in_place, self.size["b_row"], number(shape.columns))

    def _steps_ahead(self, depth: Value) -> tuple[Value, Value]:
        """How tiles ask for a panel of A: bytes from line to line, and the mask of the step that counts them."""
        e, size = self.e, self.size
        if self.a.layout != "row":
            return e.mul(size["a_column"], number(self.a.element.itemsize)), number(-1)
        # Dense rows are best asked for in the order of memory, which the hardware foresees.
        dense = e.compare("eq", size["a_row"], depth)
        row = e.mul(size["a_row"], number(self.a.element.itemsize))
        return e.select(dense, number(2 * LINE_BYTES), row), e.select(dense, number(-1), number(LINES_AHEAD - 1))

    def _far_lines(
        self, start: Value, row: Value, b_source: Value, panel_ahead: tuple[Value, Value, Value]
    ) -> tuple[Value, Value, Value]:
        """What a tile asks for beforehand: the last of a panel the next panel of A, those of the first panel the next sliver of B."""
        e, shape, size = self.e, self.shape, self.size
        following = e.add(start, number(shape.columns))
        inside = e.compare("slt", following, self.columns)
        far, far_row, mask = choose(e, inside, (_NULL, number(0), number(0)), panel_ahead)
        if self.b.layout != "row" or self.b.must_pack:
            return far, far_row, mask
        reads = e.binary("and", inside, e.compare("eq", row, number(0)))
        in_b, b_row = e.offset(b_source, following, self.kind), e.mul(size["b_row"], number(shape.itemsize))
        return choose(e, reads, (in_b, b_row, number(-1)), (far, far_row, mask))

    def _tile(
        self, tile: Value, operands: list[Value], place: tuple[Value, Value], rows: Value, first: Value, last: Value,
        far: tuple[Value, Value, Value],
    ) -> None:  # fmt: skip
        """One tile at ``place`` (row, column) of the block: into the running sums, into C, or to the epilogue."""
        e, shape, size = self.e, self.shape, self.size
        row, start = place
        width = minimum(e, number(shape.columns), e.sub(self.columns, start))
        inner, column, apart = self._batch_at(start, width)

        def finish(source: Value, pitch: Value, inner: Value, column: Value, width: Value) -> None:
            call_function(
                e, self.finish.text, source, pitch, rows, width, self.outer, inner, e.add(self.row, row), column, self.finish_slots
            )

        when(e, e.binary("and", last, self.fused), lambda: finish(_NULL, number(0), inner, column, width))
        sums = e.offset(self.sums, e.add(e.mul(row, self.sums_row), start), self.kind)
        added = e.select(e.compare("eq", first, number(0)), _NULL, sums)
        along = start if apart is None else e.add(e.mul(inner, size["c_inner"]), e.sub(column, self.column))
        in_c = e.offset(self.c_start, e.add(e.mul(row, size["c_row"]), along), self.kind)
        plain = e.binary("or", self.fused, e.compare("ne", width, number(shape.columns)))
        plain = plain if apart is None else e.binary("or", plain, apart)
        finishes = e.binary("and", last, plain)
        out = e.select(finishes, self.tile, e.select(last, in_c, sums))
        out_row = e.select(finishes, number(shape.columns), e.select(last, size["c_row"], self.sums_row))
        call_function(e, tile.text, *operands, added, self.sums_row, out, out_row, rows, *far)
        if apart is None:
            when(e, finishes, lambda: finish(self.tile, number(shape.columns), inner, column, width))
        else:
            when(e, finishes, lambda: self._finish_batches(finish, inner, column, width))

    def _batch_at(self, start: Value, width: Value) -> tuple[Value, Value, Value | None]:
        """The inner batch and the column within it of the block's column ``start``; of windows also whether a tile spans batches."""
        e, column = self.e, self.e.add(self.column, start)
        if not self.b.windowed:
            return self.inner, column, None
        inner, within = divided(e, column, self.size["n"])
        return inner, within, e.compare("sgt", e.add(within, width), self.size["n"])

    def _finish_batches(
        self, finish: Callable[[Value, Value, Value, Value, Value], None], inner: Value, column: Value, width: Value
    ) -> None:
        """A finished tile whose columns belong to several batches: each gets its own."""
        e = self.e

        def one(_: Value, carried: list[Value]) -> list[Value]:
            at, inner, column = carried
            own = minimum(e, e.sub(width, at), e.sub(self.size["n"], column))
            finish(e.offset(self.tile, at, self.kind), number(self.shape.columns), inner, column, own)
            return [e.add(at, own), e.add(inner, number(1)), number(0)]

        count = e.add(e.binary("udiv", e.sub(e.add(column, width), number(1)), self.size["n"]), number(1))
        e.loop(number(0), count, 1, [number(0), inner, column], one, "batch")


def choose(e: Emitter, condition: Value, yes: tuple[Value, Value, Value], no: tuple[Value, Value, Value]) -> tuple[Value, Value, Value]:
    a, b, c = (e.select(condition, x, y) for x, y in zip(yes, no, strict=True))
    return a, b, c


def _function(height: int) -> Value:
    return Value("@" + tile_name(height), "ptr")
