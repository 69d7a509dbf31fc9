"""Packing: operands of the matrix product copied into scratch memory, converted, in the order in which tiles read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flambeau.codegen.cpu.casts import cast
from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.core.dtypes import dtype
from flambeau.templates.matmul_tile import (
    LINE_BYTES,
    TileShape,
    close_function,
    lane_mask,
    minimum,
    number,
    open_function,
    repeat,
    when,
)

__all__ = ["Operand", "emit_pack_a", "emit_pack_b", "storage_kind"]

# How many lines ahead packing asks for its input: strided lines are not foreseen by the hardware.
AHEAD = 16


def storage_kind(element: dtype) -> str:
    """The LLVM type of ``element`` in memory."""
    return element.llvm


@dataclass(frozen=True)
class Operand:
    """How one operand lies in memory: element type and the layout, ``row``, ``col`` or (B only) ``window``."""

    element: dtype
    layout: str

    @property
    def must_pack(self) -> bool:
        return self.element is not self.element.compute

    @property
    def windowed(self) -> bool:
        return self.layout == "window"


class _Packer:
    """Loads elements of one operand at positions within the block being packed, converted."""

    def __init__(self, e: Emitter, operand: Operand, kind: str, name: str, sizes: tuple[str, str]) -> None:
        self.e, self.operand, self.kind = e, operand, kind
        self.source, self.row_stride, self.column_stride, self.first, self.second, self.target = open_function(
            e, name, f"ptr source, i64 row_stride, i64 column_stride, i64 {sizes[0]}, i64 {sizes[1]}, ptr target"
        )

    def pointer(self, row: Value, column: Value) -> Value:
        e = self.e
        at = e.add(e.mul(row, self.row_stride), e.mul(column, self.column_stride))
        return e.offset(self.source, at, storage_kind(self.operand.element))

    def load(self, row: Value, column: Value, mask: Value) -> Value:
        e, element = self.e, self.operand.element
        return cast(e, element, element.compute, e.masked_load(self.pointer(row, column), storage_kind(element), mask))

    def prefetch(self, row: Value, column: Value) -> None:
        self.e.prefetch(self.pointer(row, column))

    def columns_from(self, row: Value, column: Value, count: int) -> Iterator[Value]:
        """Where ``row`` of ``count`` columns lies, by adding alone."""
        e, kind = self.e, storage_kind(self.operand.element)
        start = self.pointer(row, column)
        steps = [number(0), self.column_stride, *(e.mul(self.column_stride, number(i)) for i in (2, 3, 4))]
        for at in range(count):
            if at and at % 4 == 0:
                start = e.offset(start, steps[4], kind)
            yield e.offset(start, steps[at % 4], kind)

    def prefetch_columns(self, row: Value, column: Value, count: int) -> None:
        for pointer in self.columns_from(row, column, count):
            self.e.prefetch(pointer)

    def load_columns(self, row: Value, column: Value, count: int, rows: int) -> list[Value]:
        """``rows`` elements of each of ``count`` columns, all of which exist."""
        e, element = self.e, self.operand.element
        pointers = self.columns_from(row, column, count)
        return [cast(e, element, element.compute, e.load(pointer, storage_kind(element), rows)) for pointer in pointers]

    def store(self, value: Value, at: Value) -> None:
        self.e.store(value, self.e.offset(self.target, at, self.kind))


def emit_pack_a(e: Emitter, operand: Operand, shape: TileShape, kind: str) -> None:
    """``@pack_a``: one panel of A, ``rows`` (at most ``shape.tall``) by ``depth``.

    By rows: rows of ``shape.row_pitch`` elements. Otherwise a line of ``shape.panel`` elements for each step of K.
    """
    packer = _Packer(e, operand, kind, "pack_a", ("rows", "depth"))
    rows, depth = packer.first, packer.second
    lanes, lines = shape.lanes, range(0, shape.panel, shape.lanes)
    masks = [lane_mask(e, e.sub(rows, number(first)), lanes) for first in lines] if operand.layout == "col" else []

    def copy_row(row: Value) -> None:
        start = e.mul(row, number(shape.row_pitch))

        def vector(k: Value) -> None:
            mask = lane_mask(e, e.sub(depth, k), lanes)
            packer.store(packer.load(row, k, mask), e.add(start, k))

        repeat(e, number(0), depth, lanes, vector, "vector")

    def copy_line(k: Value) -> None:
        start = e.mul(k, number(shape.panel))
        packer.prefetch(number(0), e.add(k, number(AHEAD)))
        for first, mask in zip(lines, masks, strict=True):
            packer.store(packer.load(number(first), k, mask), e.add(start, number(first)))

    if operand.layout == "row":
        repeat(e, number(0), rows, 1, copy_row, "pack")
    else:
        repeat(e, number(0), depth, 1, copy_line, "pack")
    close_function(e)


def emit_pack_b(e: Emitter, operand: Operand, shape: TileShape, kind: str) -> None:
    """``@pack_b``: one sliver of B, ``depth`` by ``columns`` (at most ``shape.columns``), as lines of ``shape.columns`` elements."""
    packer = _Packer(e, operand, kind, "pack_b", ("depth", "columns"))
    depth, columns = packer.first, packer.second
    lanes, width, square = shape.lanes, shape.columns, 16 // shape.itemsize
    last = e.sub(columns, number(1))
    lines = range(0, width, lanes)
    masks = [lane_mask(e, e.sub(columns, number(first)), lanes) for first in lines] if operand.layout == "row" else []

    def copy_line(k: Value) -> None:
        start = e.mul(k, number(width))
        for first, mask in zip(lines, masks, strict=True):
            packer.prefetch(e.add(k, number(AHEAD)), number(first))
            packer.store(packer.load(k, number(first), mask), e.add(start, number(first)))

    def transpose_line(line: Value) -> None:
        """As much of K as a line of memory holds: read at once, for columns far apart push one another out of the nearest cache."""
        stop = minimum(e, e.add(line, number(LINE_BYTES // operand.element.itemsize)), depth)

        def group(first: Value) -> None:
            packer.prefetch_columns(stop, first, lanes)
            all_there = e.compare("sle", e.add(first, number(lanes)), columns)
            repeat(e, line, stop, square, lambda k: transpose_square(k, first, all_there), "square")

        repeat(e, number(0), columns, lanes, group, "group")

    def transpose_square(k: Value, first: Value, all_there: Value) -> None:
        whole = e.binary("and", all_there, e.compare("sle", e.add(k, number(square)), depth))
        mask = lane_mask(e, e.sub(depth, k), square)

        def put(pieces: list[Value]) -> None:
            rows = [joined(e, pieces[i::square]) for i in range(square)]
            for i, value in enumerate(transposed(e, rows)):
                packer.store(value, e.add(e.mul(e.add(k, number(i)), number(width)), first))

        def edge() -> None:
            # Columns past the last repeat it: their lanes must hold numbers, and are never stored in C.
            chosen = [minimum(e, e.add(first, number(i)), last) for i in range(lanes)]
            put([packer.load(k, column, mask) for column in chosen])

        when(e, whole, lambda: put(packer.load_columns(k, first, lanes, square)))
        when(e, e.binary("xor", whole, e.const(True, "i1")), edge)

    if operand.layout == "row":
        repeat(e, number(0), depth, 1, copy_line, "pack")
    else:
        repeat(e, number(0), depth, LINE_BYTES // operand.element.itemsize, transpose_line, "pack")
    close_function(e)


def joined(e: Emitter, parts: list[Value]) -> Value:
    """The lanes of all parts, one after another."""
    while len(parts) > 1:
        width = 2 * parts[0].width
        parts = [e.shuffle(a, b, range(width)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def transposed(e: Emitter, rows: list[Value]) -> list[Value]:
    """The transposes of the squares of ``len(rows)`` by as many lanes that lie side by side, by swapping ever larger blocks."""
    size, lanes = len(rows), rows[0].width
    block = 1
    while block < size:
        upper = [lanes + lane - block if lane & block else lane for lane in range(lanes)]
        lower = [lanes + lane if lane & block else lane + block for lane in range(lanes)]
        for i in range(size):
            if not i & block:
                a, b = rows[i], rows[i + block]
                rows[i], rows[i + block] = e.shuffle(a, b, upper), e.shuffle(a, b, lower)
        block *= 2
    return rows
