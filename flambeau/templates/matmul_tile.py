"""The innermost code of the matrix product: register tiles, and the plain store of finished ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.codegen.cpu.epilogue import PARAMETERS as EPILOGUE_PARAMETERS

__all__ = ["SLOTS", "TileShape", "emit_store", "emit_tile", "lane_mask", "load_slots", "tile_name"]

SLOTS = (
    "error", "grain", "a", "b", "c", "outer", "inner", "m", "n", "k", "a_outer", "a_inner", "a_row", "a_column",
    "b_outer", "b_inner", "b_row", "b_column", "c_outer", "c_inner", "c_row", "epilogue",
)  # fmt: skip
POINTERS = ("a", "b", "c", "epilogue")
STORE = "store"


@dataclass(frozen=True)
class TileShape:
    """A register tile of ``tall`` rows by ``vectors * lanes`` columns, one of up to ``low`` rows, and the depth of one block of K.

    ``tall`` is below twice ``low``.
    """

    lanes: int
    vectors: int
    tall: int
    low: int
    depth: int
    itemsize: int

    @property
    def columns(self) -> int:
        return self.lanes * self.vectors

    @property
    def panel(self) -> int:
        """Rows of a packed panel of A: the tall tile, rounded up to whole vectors."""
        return -(-self.tall // self.lanes) * self.lanes

    @property
    def row_pitch(self) -> int:
        """Distance of the rows of a panel packed by rows: one cache line off a power of two, so that they use different sets."""
        return self.depth + 64 // self.itemsize


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


def call_function(e: Emitter, function: str, *operands: Value) -> None:
    """Call a function by its name with the sign in front (``@block``) or by the value that holds its address."""
    e.emit(f"call void {function}({', '.join(map(str, operands))})")


def load_slots(e: Emitter, slots: Value, names: Iterable[str] = SLOTS[2:]) -> dict[str, Value]:
    """What the launch says, by the names in `SLOTS`."""
    return {n: e.load(e.offset(slots, SLOTS.index(n), "i64"), "ptr" if n in POINTERS else "i64", align=8) for n in names}


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


def divided(e: Emitter, value: Value, divisor: Value) -> tuple[Value, Value]:
    """Quotient and remainder of two numbers that are not negative."""
    quotient = e.binary("udiv", value, divisor)
    return quotient, e.sub(value, e.mul(quotient, divisor))


def number(value: int) -> Value:
    return Value(str(value), "i64")


TILE_PARAMETERS = (
    "ptr a, i64 a_row, i64 a_depth, ptr b, i64 b_depth, i64 depth, ptr sums, i64 sums_row, ptr out, i64 out_row, i64 rows, "
    "ptr far, i64 far_row, i64 far_mask"
)
# How many steps of K ahead the lines of B are asked for: some 100 cycles, the latency of the second-level cache and more.
PREFETCH_STEPS = 8
LINE_BYTES = 64


def tile_name(height: int) -> str:
    return f"tile{height}"


def emit_tile(e: Emitter, shape: TileShape, kind: str, height: int, by_rows: bool, fused: bool) -> None:
    """One register tile: ``out[i] = sums[i] + sum over k of A[i, k] * B[k]`` for ``height`` rows.

    A null ``sums`` adds nothing. The tall tile needs all its rows; in the low one, rows from ``rows`` on repeat the last one.
    ``by_rows``: in the tall tile A's depth stride is 1, otherwise its row stride is 1. At step k the tall tile asks for two
    lines that will be needed much later: with i = k & far_mask, at i * far_row + (k - i) * (bytes of an element) from ``far``.
    """
    a, a_row, a_depth, b, b_depth, depth, sums, sums_row, out, out_row, rows, far, far_row, far_mask = open_function(
        e, tile_name(height), TILE_PARAMETERS
    )
    lanes, vectors = shape.lanes, shape.vectors
    whole = height == shape.tall
    row_of = [number(i) if whole else minimum(e, number(i), e.sub(rows, number(1))) for i in range(height)]
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
        if whole:
            inside = e.binary("and", k, far_mask)
            later = e.offset(far, e.add(e.mul(inside, far_row), e.mul(e.sub(k, inside), number(shape.itemsize))), "i8")
            e.prefetch(later, level=2)
            e.prefetch(e.offset(later, LINE_BYTES, "i8"), level=2)
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


def emit_store(e: Emitter, lanes: int, kind: str) -> None:
    """``@store``, called like an epilogue: C takes the finished elements as they are."""
    tile, pitch, rows, columns, outer, inner, row, column, slots = open_function(e, STORE, EPILOGUE_PARAMETERS)
    size = load_slots(e, slots, ("c", "c_outer", "c_inner", "c_row"))
    start = e.add(e.mul(outer, size["c_outer"]), e.mul(inner, size["c_inner"]))
    c = e.offset(size["c"], e.add(e.add(start, e.mul(row, size["c_row"])), column), kind)

    def one_row(i: Value) -> None:
        source, target = e.offset(tile, e.mul(i, pitch), kind), e.offset(c, e.mul(i, size["c_row"]), kind)

        def vector(at: Value) -> None:
            value = e.load(e.offset(source, at, kind), kind, lanes)
            e.masked_store(value, e.offset(target, at, kind), lane_mask(e, minimum(e, e.sub(columns, at), number(lanes)), lanes))

        repeat(e, number(0), columns, lanes, vector, "vector")

    repeat(e, number(0), rows, 1, one_row, "row")
    close_function(e)
