"""The innermost code of the matrix product: register tiles, and the plain store of finished ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.codegen.cpu.epilogue import PARAMETERS as EPILOGUE_PARAMETERS

__all__ = ["SLOTS", "WINDOW_SLOTS", "TileShape", "emit_store", "emit_tile", "lane_mask", "load_slots", "load_window_slots", "tile_name"]

SLOTS = (
    "error", "grain", "a", "b", "c", "outer", "inner", "m", "n", "k", "a_outer", "a_inner", "a_row", "a_column",
    "b_outer", "b_inner", "b_row", "b_column", "c_outer", "c_inner", "c_row", "epilogue",
)  # fmt: skip
# What follows where B is read from windows: the sizes of its rows' and columns' digits after the first, and the strides of all.
WINDOW_SLOTS = tuple(f"{axis}_{name}" for axis in ("row", "column") for name in ("s1", "s2", "s3", "t0", "t1", "t2", "t3"))
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


def load_window_slots(e: Emitter, slots: Value, which: str) -> list[Value]:
    """The `WINDOW_SLOTS` of B's rows (``which`` is "row") or columns."""
    places = [len(SLOTS) + i for i, name in enumerate(WINDOW_SLOTS) if name.startswith(which + "_")]
    return [e.load(e.offset(slots, place, "i64"), "i64", align=8) for place in places]


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
# Steps of K that the tall tile takes at once: what counts and points is done once for all, which leaves the core's width to products.
UNROLLED = 2


def tile_name(height: int) -> str:
    return f"tile{height}"


def emit_tile(e: Emitter, shape: TileShape, kind: str, height: int, by_rows: bool, fused: bool) -> None:
    """One register tile: ``out[i] = sums[i] + sum over k of A[i, k] * B[k]`` for ``height`` rows.

    A null ``sums`` adds nothing. The tall tile needs all its rows; in the low one, rows from ``rows`` on repeat the last one.
    ``by_rows``: in the tall tile A's depth stride is 1, otherwise its row stride is 1. Unless ``far`` is null the tall tile asks
    at step k for two lines that will be needed much later: with i = k & far_mask, at i * far_row + (k - i) * (bytes of an
    element) from ``far``.
    """
    _Tile(e, shape, kind, height, by_rows, fused).emit()
    close_function(e)


class _Tile:
    def __init__(self, e: Emitter, shape: TileShape, kind: str, height: int, by_rows: bool, fused: bool) -> None:
        self.e, self.shape, self.kind, self.fused = e, shape, kind, fused
        self.whole = height == shape.tall
        a, a_row, a_depth, self.b, self.b_depth, self.depth, *rest = open_function(e, tile_name(height), TILE_PARAMETERS)
        self.sums, self.sums_row, self.out, self.out_row, self.rows, self.far, self.far_row, self.far_mask = rest
        last = e.sub(self.rows, number(1))
        self.row_of = [number(i) if self.whole else minimum(e, number(i), last) for i in range(height)]
        self.operand = _OperandRows(e, kind, a, a_row, a_depth, self.row_of, self.whole, by_rows)
        self.b_ahead = e.mul(self.b_depth, number(PREFETCH_STEPS))

    def emit(self) -> None:
        e, null = self.e, Value("null", "ptr")
        zeros = [e.const(0.0, self.kind, self.shape.lanes)] * (len(self.row_of) * self.shape.vectors)
        carried, many = [*self.operand.start, self.b, *zeros], number(0)
        if self.whole:
            repeat(e, number(0), self.rows, 1, self._ask_for_out, "ask")
            many = e.select(e.compare("ne", self.far, null), number(0), e.binary("and", self.depth, number(-UNROLLED)))
            carried = e.loop(number(0), many, UNROLLED, carried, self._steps, "depth")
        totals = e.loop(many, self.depth, 1, carried, self._last_step, "rest")[len(self.operand.start) + 1 :]
        present = e.convert("zext", e.compare("ne", self.sums, null), "i64")
        for at, total in enumerate(e.loop(number(0), present, 1, totals, self._add_sums, "sums")):
            e.store(total, self._place(self.out, self.out_row, at))

    def _place(self, start: Value, pitch: Value, at: int) -> Value:
        """Where the vector number ``at`` of the tile lies in memory whose rows are ``pitch`` apart."""
        e, (i, v) = self.e, divmod(at, self.shape.vectors)
        return e.offset(e.offset(start, e.mul(self.row_of[i], pitch), self.kind), v * self.shape.lanes, self.kind)

    def _ask_for_out(self, row: Value) -> None:
        start = self.e.offset(self.out, self.e.mul(row, self.out_row), self.kind)
        for v in range(self.shape.vectors):
            self.e.prefetch(self.e.offset(start, v * self.shape.lanes, self.kind), level=2)

    def _ask_far(self, k: Value) -> None:
        e = self.e
        inside = e.binary("and", k, self.far_mask)
        along = e.mul(e.sub(k, inside), number(self.shape.itemsize))
        line = e.offset(self.far, e.add(e.mul(inside, self.far_row), along), "i8")
        e.prefetch(line, level=2)
        e.prefetch(e.offset(line, LINE_BYTES, "i8"), level=2)

    def _last_step(self, k: Value, carried: list[Value]) -> list[Value]:
        if self.whole:
            self._ask_far(k)
        return self._step(carried)

    def _steps(self, _: Value, carried: list[Value]) -> list[Value]:
        for _step in range(UNROLLED):
            carried = self._step(carried)
        return carried

    def _step(self, carried: list[Value]) -> list[Value]:
        """The sums after one more step of K; ``carried`` is the operand's cursor, the row of B and the sums so far."""
        e, kind, lanes, vectors = self.e, self.kind, self.shape.lanes, self.shape.vectors
        bases = len(self.operand.start)
        cursor, row, totals = carried[:bases], carried[bases], carried[bases + 1 :]
        columns = [e.load(e.offset(row, v * lanes, kind), kind, lanes) for v in range(vectors)]
        for v in range(vectors):
            e.prefetch(e.offset(e.offset(row, self.b_ahead, kind), v * lanes, kind))
        self.operand.prefetch(cursor)
        for at, total in enumerate(totals):
            if at % vectors == 0:
                scalar = e.splat(self.operand.load(cursor, at // vectors), lanes)
            column = columns[at % vectors]
            totals[at] = e.fma(scalar, column, total) if self.fused else e.add(total, e.mul(scalar, column))
        return [*self.operand.advance(cursor), e.offset(row, self.b_depth, kind), *totals]

    def _add_sums(self, _: Value, totals: list[Value]) -> list[Value]:
        e, lanes = self.e, self.shape.lanes
        return [e.add(e.load(self._place(self.sums, self.sums_row, at), self.kind, lanes), total) for at, total in enumerate(totals)]


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

    def prefetch(self, cursor: list[Value]) -> None:
        """Ask for what a later step reads, where the hardware does not foresee it."""
        if self.mode == "columns":
            ahead = self.e.mul(self.depth, number(PREFETCH_STEPS))
            self.e.prefetch(self.e.offset(cursor[0], ahead, self.kind))

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
    whole = e.binary("and", columns, number(-lanes))

    def one_row(i: Value) -> None:
        source, target = e.offset(tile, e.mul(i, pitch), kind), e.offset(c, e.mul(i, size["c_row"]), kind)

        def load(at: Value) -> Value:
            return e.load(e.offset(source, at, kind), kind, lanes)

        def edge(at: Value) -> None:
            e.masked_store(load(at), e.offset(target, at, kind), lane_mask(e, e.sub(columns, at), lanes))

        repeat(e, number(0), whole, lanes, lambda at: e.store(load(at), e.offset(target, at, kind)), "vector")
        repeat(e, whole, columns, lanes, edge, "edge")

    repeat(e, number(0), rows, 1, one_row, "row")
    close_function(e)
