"""The innermost code of the matrix product: register tiles, and the loop that hands finished tiles to the epilogue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from flambeau.codegen.cpu.emitter import Emitter, Value

__all__ = ["Context", "Epilogue", "Prologue", "TileShape", "emit_finish", "emit_tile", "lane_mask", "tile_name"]

FIXED_SLOTS = ("error", "grain")
SLOTS = (
    *FIXED_SLOTS, "a", "b", "c", "batch", "m", "n", "k",
    "a_batch", "a_row", "a_column", "b_batch", "b_row", "b_column", "c_batch", "c_row",
)  # fmt: skip


@dataclass(frozen=True)
class TileShape:
    """A register tile of ``heights[0]`` rows by ``vectors * lanes`` columns, its lower variants, and the depth of one block of K."""

    lanes: int
    vectors: int
    heights: tuple[int, int, int]
    depth: int
    itemsize: int

    @property
    def columns(self) -> int:
        return self.lanes * self.vectors

    @property
    def panel(self) -> int:
        """Rows of a packed panel of A: the tallest tile, rounded up to whole vectors."""
        return -(-self.heights[0] // self.lanes) * self.lanes

    @property
    def row_pitch(self) -> int:
        """Distance of the rows of a panel packed by rows: one cache line off a power of two, so that they use different sets."""
        return self.depth + 64 // self.itemsize


@dataclass(frozen=True)
class Context:
    """What fused code may use besides the value: the slots of the launch, loaded at the entry of the function it is in."""

    values: dict[str, Value]
    extra: tuple[Value, ...]

    def slot(self, index: int) -> Value:
        """Extra slot number ``index`` as i64."""
        return self.extra[index]

    def output(self, e: Emitter, batch: Value, row: Value, column: Value, kind: str) -> Value:
        """The address of ``C[batch, row, column]`` when its elements are stored as ``kind``."""
        start = e.add(e.mul(batch, self.values["c_batch"]), e.mul(row, self.values["c_row"]))
        return e.offset(self.values["c"], e.add(start, column), kind)


class Epilogue(Protocol):
    """Takes over each finished vector of C and does the stores itself.

    ``value`` holds ``C[batch, row, column : column + width]`` in the compute type; with a ``mask`` only its true lanes exist.
    Every element is handed over exactly once, after its whole sum over K.
    """

    def emit(
        self, e: Emitter, context: Context, value: Value, batch: Value, row: Value, column: Value, mask: Value | None
    ) -> None: ...


class Prologue(Protocol):
    """Maps an operand's elements on their way into the product.

    ``value`` holds elements in the compute type, the first at ``[batch, row, column]`` of the operand and the next ones along
    ``axis`` (``"row"``: the row index grows). Lanes outside ``mask`` do not exist; their result is ignored.
    """

    def emit(
        self, e: Emitter, context: Context, value: Value, batch: Value, row: Value, column: Value, axis: str, mask: Value | None
    ) -> Value: ...


def open_function(e: Emitter, name: str, parameters: str) -> list[Value]:
    """Begin an internal function; ``parameters`` reads like ``"ptr a, i64 rows"``."""
    values = []
    for parameter in parameters.split(", "):
        kind, text = parameter.split(" ")
        values.append(Value("%" + text, kind))
    e.begin(f"define internal void @{name}({', '.join(map(str, values))}) #0")
    return values


def close_function(e: Emitter) -> None:
    e.emit("ret void")
    e.end()


def call_function(e: Emitter, name: str, *operands: Value) -> None:
    e.emit(f"call void @{name}({', '.join(map(str, operands))})")


def load_context(e: Emitter, slots: Value, extra_slots: int) -> Context:
    values = {
        name: e.load(e.offset(slots, i, "i64"), "ptr" if name in ("a", "b", "c") else "i64", align=8)
        for i, name in enumerate(SLOTS)
        if name not in FIXED_SLOTS
    }
    extra = tuple(e.load(e.offset(slots, len(SLOTS) + i, "i64"), "i64", align=8) for i in range(extra_slots))
    return Context(values, extra)


def lane_mask(e: Emitter, count: Value, width: int) -> Value:
    """Lanes 0 .. count - 1 of ``width``; ``count`` is an i64 that fits i32."""
    return e.compare("slt", e.lanes("i32", width), e.convert("trunc", count, "i32"))


def repeat(e: Emitter, start: Value, stop: Value, step: int | Value, body: Callable[[Value], None], stem: str) -> None:
    """A loop that carries no values."""

    def carry_nothing(index: Value, _: list[Value]) -> list[Value]:
        body(index)
        return []

    e.loop(start, stop, step, [], carry_nothing, stem)


def when(e: Emitter, condition: Value, body: Callable[[], None]) -> None:
    """What ``body`` emits runs if the condition holds."""
    yes, after = e.fresh_label("yes"), e.fresh_label("after")
    e.branch_if(condition, yes, after)
    e.label(yes)
    body()
    e.branch(after)
    e.label(after)


def minimum(e: Emitter, a: Value, b: Value) -> Value:
    return e.intrinsic("smin", a, b)


def number(value: int) -> Value:
    return Value(str(value), "i64")


TILE_PARAMETERS = (
    "ptr a, i64 a_row, i64 a_depth, ptr b, i64 b_depth, i64 depth, ptr sums, i64 sums_row, ptr out, i64 out_row, i64 rows, "
    "ptr ahead, i64 ahead_row, ptr soon, i64 soon_row"
)
# By rows, the tallest tile asks for one line of the next panel at each step of K: step k for row k % ROWS_AHEAD from ``ahead``.
ROWS_AHEAD = 16
# How many steps of K ahead the lines of B are asked for: some 100 cycles, the latency of the second-level cache and more.
PREFETCH_STEPS = 8


def tile_name(height: int) -> str:
    return f"tile{height}"


def emit_tile(e: Emitter, shape: TileShape, kind: str, height: int, by_rows: bool, fused: bool) -> None:
    """One register tile: ``out[i] = sums[i] + sum over k of A[i, k] * B[k]`` for ``height`` rows.

    A null ``sums`` adds nothing. The tallest tile needs all its rows; in the others, rows from ``rows`` on repeat the last one.
    ``by_rows``: in the tallest tile A's depth stride is 1, otherwise its row stride is 1. What will be written is at ``soon``.
    """
    parameters = open_function(e, tile_name(height), TILE_PARAMETERS)
    a, a_row, a_depth, b, b_depth, depth, sums, sums_row, out, out_row, rows, ahead, ahead_row, soon, soon_row = parameters
    lanes, vectors = shape.lanes, shape.vectors
    whole = height == shape.heights[0]
    row_of = [number(i) if whole else minimum(e, number(i), e.sub(rows, number(1))) for i in range(height)]
    for row in row_of:
        target = e.offset(soon, e.mul(row, soon_row), kind)
        for v in range(vectors):
            e.prefetch(e.offset(target, v * lanes, kind), write=True)
    operand = _OperandRows(e, kind, a, a_row, a_depth, row_of, whole, by_rows)
    b_ahead = e.mul(b_depth, number(PREFETCH_STEPS))
    zeros = [e.const(0.0, kind, lanes)] * (height * vectors)

    def step(k: Value, carried: list[Value]) -> list[Value]:
        count = len(operand.start)
        cursor, row_of_b, totals = carried[:count], carried[count], carried[count + 1 :]
        columns = [e.load(e.offset(row_of_b, v * lanes, kind), kind, lanes) for v in range(vectors)]
        for v in range(vectors):
            e.prefetch(e.offset(e.offset(row_of_b, b_ahead, kind), v * lanes, kind))
        if operand.mode == "columns":
            e.prefetch(e.offset(cursor[0], e.mul(a_depth, number(PREFETCH_STEPS)), kind))
        if whole and by_rows:
            inside = e.binary("and", k, number(ROWS_AHEAD - 1))
            later = e.add(e.mul(inside, ahead_row), e.mul(e.sub(k, inside), number(shape.itemsize)))
            e.prefetch(e.offset(ahead, later, "i8"), level=2)
        for i in range(height):
            scalar = e.splat(operand.load(cursor, i), lanes)
            for v in range(vectors):
                at = i * vectors + v
                totals[at] = e.fma(scalar, columns[v], totals[at]) if fused else e.add(totals[at], e.mul(scalar, columns[v]))
        return [*operand.advance(cursor), e.offset(row_of_b, b_depth, kind), *totals]

    totals = e.loop(number(0), depth, 1, [*operand.start, b, *zeros], step, "depth")[len(operand.start) + 1 :]
    starts = [e.mul(row, sums_row) for row in row_of]

    def add_sums(_: Value, values: list[Value]) -> list[Value]:
        return [
            e.add(e.load(e.offset(sums, e.add(starts[i // vectors], number(i % vectors * lanes)), kind), kind, lanes), value)
            for i, value in enumerate(values)
        ]

    present = e.convert("zext", e.compare("ne", sums, Value("null", "ptr")), "i64")
    totals = e.loop(number(0), present, 1, totals, add_sums, "sums")
    for i in range(height):
        target = e.offset(out, e.mul(row_of[i], out_row), kind)
        for v in range(vectors):
            e.store(totals[i * vectors + v], e.offset(target, v * lanes, kind))
    close_function(e)


class _OperandRows:
    """The addresses of the rows of A in a register tile, arranged so that they need few registers."""

    def __init__(
        self, e: Emitter, kind: str, a: Value, a_row: Value, a_depth: Value, row_of: list[Value], whole: bool, by_rows: bool
    ) -> None:
        self.e, self.kind, self.depth = e, kind, a_depth
        self.mode = "clamped" if not whole else "rows" if by_rows else "columns"
        if self.mode == "clamped":
            self.pointers = [e.offset(a, e.mul(row, a_row), kind) for row in row_of]
            self.start = [number(0)]
        elif self.mode == "rows":
            # A base for every three rows: the other two are reached by the addressing modes base + stride and base + 2 stride.
            self.within = [number(0), a_row, e.mul(a_row, number(2))]
            self.start = [e.offset(a, e.mul(a_row, number(i)), kind) for i in range(0, len(row_of), 3)]
        else:
            self.start = [a]

    def load(self, cursor: list[Value], row: int) -> Value:
        e, kind = self.e, self.kind
        if self.mode == "clamped":
            return e.load(e.offset(self.pointers[row], cursor[0], kind), kind)
        if self.mode == "rows":
            return e.load(e.offset(cursor[row // 3], self.within[row % 3], kind), kind)
        return e.load(e.offset(cursor[0], row, kind), kind)

    def advance(self, cursor: list[Value]) -> list[Value]:
        e = self.e
        if self.mode == "clamped":
            return [e.add(cursor[0], self.depth)]
        if self.mode == "rows":
            return [e.offset(pointer, 1, self.kind) for pointer in cursor]
        return [e.offset(cursor[0], self.depth, self.kind)]


def emit_finish(e: Emitter, shape: TileShape, kind: str, epilogue: Epilogue, extra_slots: int) -> None:
    """Hand a finished tile, stored with rows of ``shape.columns``, to the epilogue, vector by vector."""
    tile, rows, columns, batch, row, column, slots = open_function(
        e, "finish", "ptr tile, i64 rows, i64 columns, i64 batch, i64 row, i64 column, ptr slots"
    )
    lanes = shape.lanes
    context = load_context(e, slots, extra_slots)

    def one_vector(i: Value, first: Value, mask: Value | None) -> None:
        value = e.load(e.offset(tile, e.add(e.mul(i, number(shape.columns)), first), kind), kind, lanes)
        epilogue.emit(e, context, value, batch, e.add(row, i), e.add(column, first), mask)

    def one_row(i: Value) -> None:
        def whole(first: Value) -> None:
            one_vector(i, first, None)

        def rest(first: Value) -> None:
            one_vector(i, first, mask)

        repeat(e, number(0), full, lanes, whole, "vector")
        repeat(e, full, columns, lanes, rest, "rest")

    full = e.binary("and", columns, number(-lanes))
    mask = lane_mask(e, e.sub(columns, full), lanes)
    repeat(e, number(0), rows, 1, one_row, "row")
    close_function(e)
