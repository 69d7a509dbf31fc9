"""Packing B from sliding windows: where its rows and columns lie is worked out digit by digit, so that no matrix of windows is made.

An element is at the sum of an offset of its row and one of its column. Both offsets are laid out in tables: the rows' for each
block of K, the columns' for each block of C.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from flambeau.codegen.cpu.casts import cast
from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.templates.matmul_pack import Operand, storage_kind
from flambeau.templates.matmul_tile import (
    TileShape,
    call_function,
    close_function,
    divided,
    lane_mask,
    load_window_slots,
    number,
    open_function,
    repeat,
)

__all__ = ["emit_offsets", "emit_pack_windows", "fill_offsets"]

# Runs of neighbouring elements in a vector of columns that are loaded one by one; more are gathered.
MOST_RUNS = 4


def emit_offsets(e: Emitter) -> None:
    """``@offsets``: the offsets of positions ``first`` .. ``first + count - 1``, whose digits have the sizes s1 .. s3 after the first."""
    table, first, count, *digits = open_function(
        e, "offsets", "ptr table, i64 first, i64 count, i64 s1, i64 s2, i64 s3, i64 t0, i64 t1, i64 t2, i64 t3"
    )
    sizes, strides = digits[:3], digits[3:]
    start: list[Value] = []
    rest = first
    for size in reversed(sizes):
        rest, digit = divided(e, rest, size)
        start.insert(0, digit)

    def one(i: Value, values: list[Value]) -> list[Value]:
        total = e.mul(values[0], strides[0])
        for value, stride in zip(values[1:], strides[1:], strict=True):
            total = e.add(total, e.mul(value, stride))
        e.store(total, e.offset(table, i, "i64"))
        following: list[Value] = []
        carry = number(1)
        for value, size in zip(reversed(values[1:]), reversed(sizes), strict=True):
            grown = e.add(value, carry)
            over = e.compare("eq", grown, size)
            following.insert(0, e.select(over, number(0), grown))
            carry = e.convert("zext", over, "i64")
        return [e.add(values[0], carry), *following]

    e.loop(number(0), count, 1, [rest, *start], one, "offset")
    close_function(e)


def fill_offsets(e: Emitter, slots: Value, which: str, table: Value, first: Value, count: Value) -> None:
    """Lay out the offsets of B's rows (``which`` is "row") or columns from ``first`` on in ``table``."""
    call_function(e, "@offsets", table, first, count, *load_window_slots(e, slots, which))


def emit_pack_windows(e: Emitter, operand: Operand, shape: TileShape, kind: str) -> None:
    """``@pack_windows``: one sliver of B, ``depth`` by ``columns`` (at most ``shape.columns``), as lines of ``shape.columns`` elements."""
    _WindowPacker(e, operand, shape, kind).emit()
    close_function(e)


class _WindowPacker:
    def __init__(self, e: Emitter, operand: Operand, shape: TileShape, kind: str) -> None:
        self.e, self.operand, self.shape, self.kind = e, operand, shape, kind
        self.source, self.row_table, self.column_table, self.depth, self.columns, self.target = open_function(
            e, "pack_windows", "ptr source, ptr row_table, ptr column_table, i64 depth, i64 columns, ptr target"
        )

    def emit(self) -> None:
        for first in range(0, self.shape.columns, self.shape.lanes):
            self._vector(number(first), lane_mask(self.e, self.e.sub(self.columns, number(first)), self.shape.lanes))

    def _vector(self, first: Value, present: Value) -> None:
        """The columns from ``first`` on, over all rows: in as many loads as there are runs of neighbours, or gathered."""
        e, lanes = self.e, self.shape.lanes
        table = e.offset(self.column_table, first, "i64")
        offsets = e.load(table, "i64", lanes)
        # A run is where the offset grows as the lane does.
        apart = e.sub(offsets, e.lanes("i64", lanes))
        runs: list[tuple[Value, Value]] = []
        left, counts = present, []
        for _ in range(MOST_RUNS):
            lane = self._first_lane(left)
            start = e.sub(e.load(e.offset(table, lane, "i64"), "i64"), lane)
            inside = e.binary("and", left, e.compare("eq", apart, e.splat(start, lanes)))
            # Without a lane the run is never read, but its address should not be far from the others.
            runs.append((start, inside))
            left = e.binary("xor", left, inside)
            counts.append(self._any(left))
        after = e.fresh_label("packed")
        for count in (1, 2, MOST_RUNS):
            inside, further = e.fresh_label("runs"), e.fresh_label("more")
            e.branch_if(counts[count - 1], further, inside)
            e.label(inside)
            self._rows(first, partial(self._loaded, runs[:count]))
            e.branch(after)
            e.label(further)
        self._rows(first, partial(self._gathered, offsets, present))
        e.branch(after)
        e.label(after)

    def _bits(self, mask: Value) -> Value:
        out = self.e.fresh()
        self.e.emit(f"{out} = bitcast {mask} to i{mask.width}")
        return self.e.convert("zext", Value(out, f"i{mask.width}"), "i64")

    def _any(self, mask: Value) -> Value:
        return self.e.compare("ne", self._bits(mask), number(0))

    def _first_lane(self, mask: Value) -> Value:
        """The first lane of a mask; lane 0 of an empty one."""
        e, bits = self.e, self._bits(mask)
        out = e.fresh()
        e.declare("declare i64 @llvm.cttz.i64(i64, i1)")
        e.emit(f"{out} = call i64 @llvm.cttz.i64({bits}, i1 false)")
        return e.binary("and", Value(out, "i64"), number(mask.width - 1))

    def _rows(self, first: Value, load: Callable[[Value], Value]) -> None:
        """One vector of each row of the sliver; ``load`` reads it, given the address of the row."""
        e, element = self.e, self.operand.element

        def one(k: Value) -> None:
            row = e.offset(self.source, e.load(e.offset(self.row_table, k, "i64"), "i64"), storage_kind(element))
            at = e.add(e.mul(k, number(self.shape.columns)), first)
            e.store(cast(e, element, element.compute, load(row)), e.offset(self.target, at, self.kind))

        repeat(e, number(0), self.depth, 1, one, "pack")

    def _loaded(self, runs: list[tuple[Value, Value]], row: Value) -> Value:
        e, raw = self.e, storage_kind(self.operand.element)
        value: Value | None = None
        for start, inside in runs:
            value = e.masked_load(e.offset(row, start, raw), raw, inside, otherwise=value)
        assert value is not None
        return value

    def _gathered(self, offsets: Value, present: Value, row: Value) -> Value:
        raw = storage_kind(self.operand.element)
        return self.e.gather(self.e.offset(row, offsets, raw), raw, present)
