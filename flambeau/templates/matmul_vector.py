"""Matrix products with a single row, C[b, 0, n] = sum over k of A[b, 0, k] * B[b, k, n]: bound by reading B, so nothing is packed."""

from __future__ import annotations

from collections.abc import Callable

from flambeau.codegen.cpu.casts import cast
from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.templates.matmul_pack import Operand, storage_kind
from flambeau.templates.matmul_plan import GRAIN_BITS, MatmulPlan
from flambeau.templates.matmul_tile import (
    SLOTS,
    STORE,
    call_function,
    close_function,
    divided,
    emit_store,
    lane_mask,
    load_slots,
    minimum,
    number,
    open_function,
    repeat,
    when,
)

__all__ = ["emit_vector_product", "plan_vector_product"]

# Columns of B whose dot products are computed together, and rows of B that are added up in one pass over the results.
TOGETHER = 8
# Vectors of results in a block: long enough runs of a row for the hardware to foresee, short enough to stay in the first-level cache.
LEAST_VECTORS, MOST_VECTORS = 8, 32
LEAST_BYTES, MOST_CHUNKS = 1 << 18, 64


def plan_vector_product(lanes: int, itemsize: int, threads: int, batch: int, m: int, n: int, k: int) -> MatmulPlan:
    """Chunks of some blocks of columns each; ``grain`` holds the columns of a block and the blocks of a chunk."""
    if m > 1:
        raise ValueError(f"matmul: a kernel for one row of A was given {m} rows; use a general kernel.")
    if batch * m * n == 0:
        return MatmulPlan(0, 0, 0)
    vectors = MOST_VECTORS
    while vectors > LEAST_VECTORS and batch * -(-n // (vectors * lanes)) < 2 * threads:
        vectors //= 2
    columns = vectors * lanes
    blocks = batch * -(-n // columns)
    size = max(1, k * min(n, columns) * itemsize)
    share = max(-(-LEAST_BYTES // size), -(-blocks // MOST_CHUNKS))
    # The results of a block, then the row of A in the compute type, read by whole vectors.
    scratch = (-(-k // lanes) * lanes + columns) * itemsize
    return MatmulPlan(-(-blocks // share), columns | share << GRAIN_BITS, -(-scratch // 64) * 64)


def emit_vector_product(e: Emitter, name: str, a: Operand, b: Operand, kind: str, lanes: int, fused: bool) -> None:
    """The exported function ``name`` and what it calls; ``b`` is by rows or by columns."""
    product = _VectorProduct(e, a, b, kind, lanes, fused)
    emit_store(e, lanes, kind)
    product.emit_row_of_a()
    product.emit_block()
    product.emit_entry(name)


class _VectorProduct:
    def __init__(self, e: Emitter, a: Operand, b: Operand, kind: str, lanes: int, fused: bool) -> None:
        self.e, self.a, self.b, self.kind, self.lanes, self.fused = e, a, b, kind, lanes, fused

    def multiply_add(self, x: Value, y: Value, total: Value) -> Value:
        e = self.e
        return e.fma(x, y, total) if self.fused else e.add(total, e.mul(x, y))

    def element(self, operand: Operand, start: Value, width: int, mask: Value | None) -> Value:
        """Elements of an operand from address ``start``, converted."""
        e, raw = self.e, storage_kind(operand.element)
        loaded = e.load(start, raw, width) if mask is None else e.masked_load(start, raw, mask)
        return cast(e, operand.element, operand.element.compute, loaded)

    def emit_row_of_a(self) -> None:
        """``@row_of_a``: the row of A of one batch in the compute type, zeros up to a whole vector."""
        e, lanes = self.e, self.lanes
        target, outer, inner, slots = open_function(e, "row_of_a", "ptr target, i64 outer, i64 inner, ptr slots")
        size = load_slots(e, slots, ("a", "a_outer", "a_inner", "a_column", "k"))
        batch = e.add(e.mul(outer, size["a_outer"]), e.mul(inner, size["a_inner"]))
        source = e.offset(size["a"], batch, storage_kind(self.a.element))
        k = size["k"]

        def vector(at: Value) -> None:
            mask = lane_mask(e, minimum(e, e.sub(k, at), number(lanes)), lanes)
            value = self.element(self.a, e.offset(source, at, storage_kind(self.a.element)), lanes, mask)
            e.store(value, e.offset(target, at, self.kind))

        def scalar(at: Value) -> None:
            start = e.offset(source, e.mul(at, size["a_column"]), storage_kind(self.a.element))
            e.store(self.element(self.a, start, 1, None), e.offset(target, at, self.kind))

        if self.a.layout == "row":
            repeat(e, number(0), k, lanes, vector, "vector")
        else:
            whole = e.binary("and", e.add(k, number(lanes - 1)), number(-lanes))
            repeat(e, number(0), k, 1, scalar, "scalar")
            zero = e.const(0.0, self.kind)
            repeat(e, k, whole, 1, lambda at: e.store(zero, e.offset(target, at, self.kind)), "pad")
        close_function(e)

    def emit_block(self) -> None:
        """``@block``: ``width`` columns of one batch from ``column``, into ``results`` and from there to C or the epilogue."""
        e = self.e
        x, results, outer, inner, column, width, slots = open_function(
            e, "block", "ptr x, ptr results, i64 outer, i64 inner, i64 column, i64 width, ptr slots"
        )
        size = load_slots(e, slots, ("b", "b_outer", "b_inner", "b_row", "b_column", "k", "epilogue"))
        batch = e.add(e.mul(outer, size["b_outer"]), e.mul(inner, size["b_inner"]))
        source = e.offset(size["b"], e.add(batch, e.mul(column, size["b_column"])), storage_kind(self.b.element))
        compute = self._by_rows if self.b.layout == "row" else self._by_columns
        compute(size, x, results, source, width)
        plain = e.compare("eq", size["epilogue"], Value("null", "ptr"))
        finish = e.select(plain, Value("@" + STORE, "ptr"), size["epilogue"])
        own = e.select(plain, slots, e.offset(slots, len(SLOTS), "i64"))
        call_function(e, finish.text, results, number(0), number(1), width, outer, inner, number(0), column, own)
        close_function(e)

    def _by_columns(self, size: dict[str, Value], x: Value, results: Value, source: Value, width: Value) -> None:
        """B's columns are contiguous: dot products, `TOGETHER` of them at a time, lanes along K."""
        e, lanes, kind = self.e, self.lanes, self.kind
        raw, k = storage_kind(self.b.element), size["k"]
        whole = e.binary("and", k, number(-lanes))

        def several(first: Value) -> None:
            last = e.sub(width, number(1))
            chosen = [minimum(e, e.add(first, number(i)), last) for i in range(TOGETHER)]
            starts = [e.offset(source, e.mul(index, size["b_column"]), raw) for index in chosen]

            def step(at: Value, totals: list[Value], mask: Value | None = None) -> list[Value]:
                left, sums = e.load(e.offset(x, at, kind), kind, lanes), []
                for start, total in zip(starts, totals, strict=True):
                    right = self.element(self.b, e.offset(start, at, raw), lanes, mask)
                    sums.append(self.multiply_add(left, right, total))
                return sums

            def rest(at: Value, totals: list[Value]) -> list[Value]:
                return step(at, totals, lane_mask(e, e.sub(k, at), lanes))

            totals = e.loop(number(0), whole, lanes, [e.const(0.0, kind, lanes)] * TOGETHER, step, "dot")
            totals = e.loop(whole, k, lanes, totals, rest, "rest")
            for i in range(TOGETHER):
                e.store(self._sum(totals[i]), e.offset(results, e.add(first, number(i)), kind))

        repeat(e, number(0), width, TOGETHER, several, "columns")

    def _sum(self, value: Value) -> Value:
        """The sum of the lanes: halves are added until one lane is left."""
        e, half = self.e, value.width // 2
        while half:
            value = e.add(value, e.shuffle(value, value, [(lane + half) % value.width for lane in range(value.width)]))
            half //= 2
        return e.extract(value, 0)

    def _by_rows(self, size: dict[str, Value], x: Value, results: Value, source: Value, width: Value) -> None:
        """B's rows are contiguous: scalars of A times pieces of rows of B, `TOGETHER` of them at a time, lanes along the columns."""
        e, lanes, k = self.e, self.lanes, size["k"]
        zero = e.const(0.0, self.kind, lanes)
        repeat(e, number(0), width, lanes, lambda at: e.store(zero, e.offset(results, at, self.kind)), "zero")
        most = e.binary("and", k, number(-TOGETHER))
        for first, stop, count in ((number(0), most, TOGETHER), (most, k, 1)):
            repeat(e, first, stop, count, self._rows_adder(size["b_row"], x, results, source, width, count), "rows")

    def _rows_adder(
        self, b_row: Value, x: Value, results: Value, source: Value, width: Value, count: int
    ) -> Callable[[Value], None]:
        """The body of a loop over K that adds ``count`` rows of B to the results."""
        e, lanes, kind, raw = self.e, self.lanes, self.kind, storage_kind(self.b.element)
        whole = e.binary("and", width, number(-lanes))

        def add_rows(k: Value) -> None:
            steps = [e.add(k, number(i)) for i in range(count)]
            scalars = [e.splat(e.load(e.offset(x, step, kind), kind), lanes) for step in steps]
            rows = [e.offset(source, e.mul(step, b_row), raw) for step in steps]
            ahead = e.mul(b_row, number(TOGETHER))

            def vector(at: Value, mask: Value | None = None) -> None:
                target = e.offset(results, at, kind)
                total = e.load(target, kind, lanes)
                for scalar, row in zip(scalars, rows, strict=True):
                    start = e.offset(row, at, raw)
                    if mask is None:
                        # The next rows: pieces so short end before the hardware has foreseen them.
                        e.prefetch(e.offset(start, ahead, raw))
                    total = self.multiply_add(scalar, self.element(self.b, start, lanes, mask), total)
                e.store(total, target)

            def rest(at: Value) -> None:
                vector(at, lane_mask(e, e.sub(width, at), lanes))

            repeat(e, number(0), whole, lanes, vector, "vector")
            repeat(e, whole, width, lanes, rest, "rest")

        return add_rows

    def emit_entry(self, name: str) -> None:
        """The exported function: chunk number ``chunk`` computes its share of the blocks, those of one batch following one another."""
        e = self.e
        e.begin(f"define void @{name}(ptr %slots, i64 %chunk, ptr %scratch) #0")
        slots, chunk, scratch = Value("%slots", "ptr"), Value("%chunk", "i64"), Value("%scratch", "ptr")
        size = load_slots(e, slots, ("grain", "outer", "inner", "n"))
        columns = e.binary("and", size["grain"], number((1 << GRAIN_BITS) - 1))
        share = e.binary("lshr", size["grain"], number(GRAIN_BITS))
        across = e.binary("udiv", e.add(size["n"], e.sub(columns, number(1))), columns)
        first = e.mul(chunk, share)
        stop = minimum(e, e.add(first, share), e.mul(e.mul(size["outer"], size["inner"]), across))
        x = e.offset(scratch, columns, self.kind)

        def one_block(index: Value, held: list[Value]) -> list[Value]:
            batch, block = divided(e, index, across)
            outer, inner = divided(e, batch, size["inner"])
            when(e, e.compare("ne", batch, held[0]), lambda: call_function(e, "@row_of_a", x, outer, inner, slots))
            column = e.mul(block, columns)
            width = minimum(e, columns, e.sub(size["n"], column))
            call_function(e, "@block", x, scratch, outer, inner, column, width, slots)
            return [batch]

        e.loop(first, stop, 1, [number(-1)], one_block, "block")
        close_function(e)
