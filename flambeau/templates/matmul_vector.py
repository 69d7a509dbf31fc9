"""Matrix products with a single row, C[b, 0, n] = sum over k of A[b, 0, k] * B[b, k, n]: bound by reading B, so nothing is packed."""

from __future__ import annotations

from collections.abc import Callable

from flambeau.codegen.cpu.casts import cast
from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.templates.matmul_pack import Operand, storage_kind
from flambeau.templates.matmul_plan import MatmulPlan
from flambeau.templates.matmul_tile import (
    SLOTS,
    Context,
    Epilogue,
    call_function,
    close_function,
    lane_mask,
    load_context,
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
BLOCK_VECTORS = 32
LEAST_BYTES, MOST_CHUNKS = 1 << 18, 64


def block_columns(lanes: int) -> int:
    """Columns of C that are computed in one go."""
    return BLOCK_VECTORS * lanes


def plan_vector_product(lanes: int, itemsize: int, batch: int, m: int, n: int, k: int) -> MatmulPlan:
    """Chunks of some blocks of columns each; ``grain`` is their number."""
    if m > 1:
        raise ValueError(f"matmul: a kernel for one row of A was given {m} rows; use a general kernel.")
    blocks = batch * m * -(-n // block_columns(lanes))
    if blocks == 0:
        return MatmulPlan(0, 0, 0)
    size = max(1, k * min(n, block_columns(lanes)) * itemsize)
    share = max(-(-LEAST_BYTES // size), -(-blocks // MOST_CHUNKS))
    # The row of A in the compute type, read by whole vectors, then the results of a block.
    scratch = (-(-k // lanes) * lanes + block_columns(lanes)) * itemsize
    return MatmulPlan(-(-blocks // share), share, -(-scratch // 64) * 64)


def emit_vector_product(
    e: Emitter, name: str, a: Operand, b: Operand, kind: str, lanes: int, epilogue: Epilogue, extra_slots: int, fused: bool
) -> None:
    """The exported function ``name`` and what it calls; ``b`` is by rows or by columns."""
    product = _VectorProduct(e, a, b, kind, lanes, extra_slots, fused)
    product.emit_row_of_a()
    product.emit_block(epilogue)
    product.emit_entry(name)


class _VectorProduct:
    def __init__(self, e: Emitter, a: Operand, b: Operand, kind: str, lanes: int, extra_slots: int, fused: bool) -> None:
        self.e, self.a, self.b, self.kind, self.lanes, self.extra_slots, self.fused = e, a, b, kind, lanes, extra_slots, fused

    def multiply_add(self, x: Value, y: Value, total: Value) -> Value:
        e = self.e
        return e.fma(x, y, total) if self.fused else e.add(total, e.mul(x, y))

    def element(
        self, context: Context, operand: Operand, start: Value, at: tuple[Value, Value, Value], axis: str, mask: Value | None
    ) -> Value:
        """Elements of an operand from address ``start``, converted and mapped; ``at`` is their batch, row and column."""
        e, raw = self.e, storage_kind(operand.element)
        width = 1 if axis == "" else self.lanes
        loaded = e.load(start, raw, width) if mask is None else e.masked_load(start, raw, mask)
        value = cast(e, operand.element, operand.element.compute, loaded)
        if operand.prologue is None:
            return value
        return operand.prologue.emit(e, context, value, *at, axis or "column", mask)

    def emit_row_of_a(self) -> None:
        """``@row_of_a``: the row of A of one batch in the compute type, zeros up to a whole vector."""
        e, lanes = self.e, self.lanes
        target, batch, slots = open_function(e, "row_of_a", "ptr target, i64 batch, ptr slots")
        context = load_context(e, slots, self.extra_slots)
        size = context.values
        source = e.offset(size["a"], e.mul(batch, size["a_batch"]), storage_kind(self.a.element))
        k = size["k"]

        def vector(at: Value) -> None:
            mask = lane_mask(e, minimum(e, e.sub(k, at), number(lanes)), lanes)
            start = e.offset(source, at, storage_kind(self.a.element))
            value = self.element(context, self.a, start, (batch, number(0), at), "column", mask)
            e.store(e.select(mask, value, e.like(0.0, value)), e.offset(target, at, self.kind))

        def scalar(at: Value) -> None:
            start = e.offset(source, e.mul(at, size["a_column"]), storage_kind(self.a.element))
            e.store(self.element(context, self.a, start, (batch, number(0), at), "", None), e.offset(target, at, self.kind))

        if self.a.layout == "row":
            repeat(e, number(0), k, lanes, vector, "vector")
        else:
            whole = e.binary("and", e.add(k, number(lanes - 1)), number(-lanes))
            repeat(e, number(0), k, 1, scalar, "scalar")
            zero = e.const(0.0, self.kind)
            repeat(e, k, whole, 1, lambda at: e.store(zero, e.offset(target, at, self.kind)), "pad")
        close_function(e)

    def emit_block(self, epilogue: Epilogue) -> None:
        """``@block``: ``width`` columns of one batch from ``column``, into ``results`` and from there to the epilogue."""
        e, lanes, kind = self.e, self.lanes, self.kind
        x, results, batch, column, width, slots = open_function(
            e, "block", "ptr x, ptr results, i64 batch, i64 column, i64 width, ptr slots"
        )
        context = load_context(e, slots, self.extra_slots)
        compute = self._by_rows if self.b.layout == "row" else self._by_columns
        compute(context, x, results, batch, column, width)

        def finish(at: Value) -> None:
            value = e.load(e.offset(results, at, kind), kind, lanes)
            mask = lane_mask(e, minimum(e, e.sub(width, at), number(lanes)), lanes)
            epilogue.emit(e, context, value, batch, number(0), e.add(column, at), mask)

        repeat(e, number(0), width, lanes, finish, "finish")
        close_function(e)

    def _source(self, context: Context, batch: Value, column: Value) -> Value:
        e, size = self.e, context.values
        start = e.add(e.mul(batch, size["b_batch"]), e.mul(column, size["b_column"]))
        return e.offset(size["b"], start, storage_kind(self.b.element))

    def _by_columns(self, context: Context, x: Value, results: Value, batch: Value, column: Value, width: Value) -> None:
        """B's columns are contiguous: dot products, `TOGETHER` of them at a time, lanes along K."""
        e, lanes, kind, size = self.e, self.lanes, self.kind, context.values
        source, raw, k = self._source(context, batch, column), storage_kind(self.b.element), size["k"]
        whole = e.binary("and", k, number(-lanes))

        def several(first: Value) -> None:
            last = e.sub(width, number(1))
            chosen = [minimum(e, e.add(first, number(i)), last) for i in range(TOGETHER)]
            starts = [e.offset(source, e.mul(index, size["b_column"]), raw) for index in chosen]

            def step(at: Value, totals: list[Value], mask: Value | None = None) -> list[Value]:
                left, sums = e.load(e.offset(x, at, kind), kind, lanes), []
                for start, index, total in zip(starts, chosen, totals, strict=True):
                    place = batch, at, e.add(column, index)
                    right = self.element(context, self.b, e.offset(start, at, raw), place, "row", mask)
                    right = right if mask is None else e.select(mask, right, e.like(0.0, right))
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

    def _by_rows(self, context: Context, x: Value, results: Value, batch: Value, column: Value, width: Value) -> None:
        """B's rows are contiguous: scalars of A times pieces of rows of B, `TOGETHER` of them at a time, lanes along the columns."""
        e, lanes, k = self.e, self.lanes, context.values["k"]
        source = self._source(context, batch, column)
        zero = e.const(0.0, self.kind, lanes)
        repeat(e, number(0), width, lanes, lambda at: e.store(zero, e.offset(results, at, self.kind)), "zero")
        place = batch, column, width
        most = e.binary("and", k, number(-TOGETHER))
        for first, stop, count in ((number(0), most, TOGETHER), (most, k, 1)):
            repeat(e, first, stop, count, self._rows_adder(context, x, results, source, place, count), "rows")

    def _rows_adder(
        self, context: Context, x: Value, results: Value, source: Value, place: tuple[Value, Value, Value], count: int
    ) -> Callable[[Value], None]:
        """The body of a loop over K that adds ``count`` rows of B to the results."""
        e, lanes, kind, raw = self.e, self.lanes, self.kind, storage_kind(self.b.element)
        batch, column, width = place
        whole = e.binary("and", width, number(-lanes))

        def add_rows(k: Value) -> None:
            steps = [e.add(k, number(i)) for i in range(count)]
            scalars = [e.splat(e.load(e.offset(x, step, kind), kind), lanes) for step in steps]
            rows = [e.offset(source, e.mul(step, context.values["b_row"]), raw) for step in steps]

            def vector(at: Value, mask: Value | None = None) -> None:
                target = e.offset(results, at, kind)
                total = e.load(target, kind, lanes)
                for step, scalar, row in zip(steps, scalars, rows, strict=True):
                    start = e.offset(row, at, raw)
                    right = self.element(context, self.b, start, (batch, step, e.add(column, at)), "column", mask)
                    total = self.multiply_add(scalar, right, total)
                e.store(total, target)

            def rest(at: Value) -> None:
                vector(at, lane_mask(e, e.sub(width, at), lanes))

            repeat(e, number(0), whole, lanes, vector, "vector")
            repeat(e, whole, width, lanes, rest, "rest")

        return add_rows

    def emit_entry(self, name: str) -> None:
        """The exported function: chunk number ``chunk`` computes its share of the blocks, those of one batch following one another."""
        e, columns = self.e, block_columns(self.lanes)
        e.begin(f"define void @{name}(ptr %slots, i64 %chunk, ptr %scratch) #0")
        slots, chunk, scratch = Value("%slots", "ptr"), Value("%chunk", "i64"), Value("%scratch", "ptr")
        size = load_context(e, slots, 0).values
        share = e.load(e.offset(slots, SLOTS.index("grain"), "i64"), "i64", align=8)
        across = e.binary("udiv", e.add(size["n"], number(columns - 1)), number(columns))
        first = e.mul(chunk, share)
        stop = minimum(e, e.add(first, share), e.mul(size["batch"], across))
        x = e.offset(scratch, columns, self.kind)

        def one_block(index: Value, held: list[Value]) -> list[Value]:
            batch = e.binary("udiv", index, across)
            when(e, e.compare("ne", batch, held[0]), lambda: call_function(e, "row_of_a", x, batch, slots))
            column = e.mul(e.sub(index, e.mul(batch, across)), number(columns))
            width = minimum(e, number(columns), e.sub(size["n"], column))
            call_function(e, "block", x, scratch, batch, column, width, slots)
            return [batch]

        e.loop(first, stop, 1, [number(-1)], one_block, "block")
        close_function(e)
