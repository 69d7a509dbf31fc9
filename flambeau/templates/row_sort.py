"""Kernels for the stable order of the elements along the middle axis of contiguous [outer, n, inner] memory.

Each element becomes a record of an unsigned key that orders like the element, and its index. Short rows are sorted by comparing all
pairs; others by counting the key's bytes from the lowest on (Knuth, The Art of Computer Programming 3, sections 5.2 and 5.2.5). A
byte that all keys of the row share costs no pass.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.codegen.cpu.lanes import Lanes, select
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.templates.row_kernel import RowFrame, RowKernel, cache_line_multiple, number, prefix

__all__ = ["row_argsort"]

_BUCKETS = 256
# Rows of up to this many vectors are sorted by comparing all pairs.
_SHORT_VECTORS = 12
_INFINITY = {
    dtypes.float16: 0x7C00, dtypes.bfloat16: 0x7F80, dtypes.float32: 0x7F800000, dtypes.float64: 0x7FF0000000000000,
}  # fmt: skip


@cache
def row_argsort(element: dtype, descending: bool, vector_bits: int, features: frozenset[str]) -> RowKernel:
    """The kernel that writes to ``out`` (int64, the shape of ``x``) the indices that sort the rows of ``x``, of ``element``.

    Equal elements keep their order, in both directions; NaN is larger than all others, and -0.0 equals 0.0.
    Raises NotImplementedError for complex types; ``scratch_bytes`` does for rows of 2**32 elements and more of up to 4 bytes.

    >>> from flambeau.core import dtypes
    >>> row_argsort(dtypes.int64, True, 512, frozenset({"avx512f"})).name
    'argsort_int64_descending'
    """
    if element.is_complex:
        raise NotImplementedError(f"row_argsort: {element} has no order; sort by abs() or by the real part.")
    name = f"argsort_{element.name}_{'descending' if descending else 'ascending'}"
    writer = _Writer(Emitter(features), name, element, descending, vector_bits)
    writer.frame.iterations(1, writer.iteration)
    text = writer.e.module(f'nounwind "prefer-vector-width"="{vector_bits}"')

    def nanoseconds(n: int, inner: int) -> float:
        if n <= writer.short:
            return 30 + n * (3 + n / writer.width * (0.5 if writer.packed else 1))
        return element.itemsize * (100 + 2 * n) + 3 * n

    return RowKernel(name, text, 1, nanoseconds, writer.scratch_bytes)


class _Writer:
    """Writes the body of one kernel. Scratch holds the counters of every byte of a key, then two arrays of records."""

    def __init__(self, e: Emitter, name: str, element: dtype, descending: bool, vector_bits: int) -> None:
        self.e = e
        self.frame = RowFrame(e, name)
        self.element = element
        self.descending = descending
        self.digits = element.itemsize
        self.width = vector_bits // 64
        # A key of up to four bytes shares one word with its index, so that records compare as one unsigned number.
        self.packed = element.itemsize <= 4
        self.record_bytes = 8 if self.packed else 16
        self.short = _SHORT_VECTORS * self.width
        self.counter_bytes = 8 * _BUCKETS * self.digits

    def scratch_bytes(self, n: int, inner: int) -> int:
        if self.packed and n >= 1 << 32:
            raise NotImplementedError(f"argsort: rows of {self.element} have up to 2**32 - 1 elements, got {n}; cast to float64 or int64")
        if n <= self.short:
            return 2 * 8 * (self.short + self.width)
        return self.counter_bytes + 2 * cache_line_multiple(n * self.record_bytes)

    # -- records --------------------------------------------------------------------------------------------
    def key(self, x: Value) -> Value:
        """The unsigned number that orders as the element in memory at ``x`` does, in an integer of its size."""
        kind = f"i{8 * self.element.itemsize}"
        bits = Lanes(self.e, self.e.load(x, kind, align=self.element.itemsize))
        sign = -1 << (8 * self.element.itemsize - 1)
        if self.element.is_floating_point:
            magnitude = bits & ~sign
            negative = bits.shift_right(8 * self.element.itemsize - 1)
            ordered = bits ^ (negative | sign)
            ordered = select(magnitude.equals(0), sign, ordered)
            key = select(magnitude > _INFINITY[self.element], -1, ordered)
        else:
            key = bits ^ sign if self.element.is_signed else bits
        return (key ^ -1 if self.descending else key).value

    def record(self, key: Value, index: Value) -> Value:
        e = self.e
        if self.packed:
            wide = e.convert("zext", key, "i64")
            return e.binary("or", e.binary("shl", wide, number(32)), index)
        first, both = Value(e.fresh(), "i64", 2), Value(e.fresh(), "i64", 2)
        e.emit(f"{first.text} = insertelement <2 x i64> poison, {key}, i32 0")
        e.emit(f"{both.text} = insertelement {first}, {index}, i32 1")
        return both

    def at(self, records: Value, index: Value) -> Value:
        """The address of a record."""
        return self.e.offset(records, index, f"[{self.record_bytes} x i8]")

    def load_record(self, pointer: Value) -> Value:
        return self.e.load(pointer, "i64", self.record_bytes // 8, align=self.record_bytes)

    def load_index(self, pointer: Value) -> Value:
        e = self.e
        if self.packed:
            return e.binary("and", e.load(pointer, "i64", align=8), number((1 << 32) - 1))
        return e.load(e.offset(pointer, 1, "i64"), "i64", align=8)

    def digit(self, word: Value, number_of_byte: int) -> Value:
        """One byte of the key, where ``word`` is the first of a record."""
        shift = 8 * number_of_byte + (32 if self.packed else 0)
        return self.e.binary("and", self.e.binary("lshr", word, number(shift)), number(_BUCKETS - 1))

    # -- one row --------------------------------------------------------------------------------------------
    def iteration(self, outer: Value, lane: Value) -> None:
        e, frame = self.e, self.frame
        base = e.add(e.mul(outer, e.mul(frame.n, frame.inner)), lane)
        x, out = e.offset(frame.x, base, f"i{8 * self.element.itemsize}"), e.offset(frame.out, base, "i64")
        first = e.offset(frame.scratch, self.counter_bytes, "i8")
        size = e.binary("and", e.add(e.mul(frame.n, number(self.record_bytes)), number(63)), number(-64))
        second = e.offset(first, size, "i8")
        short, long, end = (e.fresh_label(stem) for stem in ("short", "long", "end"))
        e.branch_if(e.compare("sle", frame.n, number(self.short)), short, long)
        e.label(short)
        self.rank_all(x, out)
        e.branch(end)
        e.label(long)
        records = self.sort_by_bytes(x, first, second)

        def store(index: Value, _: list[Value]) -> list[Value]:
            target = e.offset(out, e.mul(index, frame.inner), "i64")
            e.store(self.load_index(self.at(records, index)), target, align=8)
            return []

        e.loop(number(0), frame.n, 1, [], store, "store")
        e.branch(end)
        e.label(end)

    def each_record(self, x: Value, body: Callable[[Value, Value, Value], None]) -> None:
        """``body(index, key as i64, record)`` for the elements of the row."""
        e, frame = self.e, self.frame

        def step(index: Value, _: list[Value]) -> list[Value]:
            key = self.key(e.offset(x, e.mul(index, frame.inner), f"i{8 * self.element.itemsize}"))
            record = self.record(key, index)
            body(index, record if self.packed else key, record)
            return []

        e.loop(number(0), frame.n, 1, [], step, "element")

    # -- short rows -----------------------------------------------------------------------------------------
    def rank_all(self, x: Value, out: Value) -> None:
        """An element's place is how many others go before it: all pairs are compared, a vector at a time."""
        e, width = self.e, self.width
        words = self.frame.scratch
        ranks = e.offset(words, self.short + width, "i64")

        def keep(index: Value, word: Value, record: Value) -> None:
            e.store(word, e.offset(words, index, "i64"), align=8)

        def vector(start: Value, _: list[Value]) -> list[Value]:
            own = e.load(e.offset(words, start, "i64"), "i64", width, align=8)
            indices = e.add(e.lanes("i64", width), e.splat(start, width))

            def compare(index: Value, counts: list[Value]) -> list[Value]:
                other = e.splat(e.load(e.offset(words, index, "i64"), "i64", align=8), width)
                more = e.add(counts[0], e.const(1, "i64", width))
                return [e.select(self.goes_before(other, index, own, indices), more, counts[0])]

            (counts,) = e.loop(number(0), self.frame.n, 1, [e.const(0, "i64", width)], compare, "compare")
            e.store(counts, e.offset(ranks, start, "i64"), align=8)
            return []

        def place(index: Value, _: list[Value]) -> list[Value]:
            rank = e.load(e.offset(ranks, index, "i64"), "i64", align=8)
            e.store(index, e.offset(out, e.mul(rank, self.frame.inner), "i64"), align=8)
            return []

        self.each_record(x, keep)
        e.loop(number(0), self.frame.n, width, [], vector, "rank")
        e.loop(number(0), self.frame.n, 1, [], place, "place")

    def goes_before(self, other: Value, other_index: Value, own: Value, own_indices: Value) -> Value:
        e = self.e
        less = e.compare("ult", other, own)
        if self.packed:
            return less
        earlier = e.compare("slt", e.splat(other_index, self.width), own_indices)
        return e.binary("or", less, e.binary("and", e.compare("eq", other, own), earlier))

    # -- long rows ------------------------------------------------------------------------------------------
    def counters(self, number_of_byte: int) -> Value:
        return self.e.offset(self.frame.scratch, _BUCKETS * number_of_byte, "i64")

    def sort_by_bytes(self, x: Value, first: Value, second: Value) -> Value:
        """Sort the records of the row; the result lies in ``first`` or ``second``, whose address is given."""
        self.count(x, first)
        source, target = first, second
        for number_of_byte in range(self.digits):
            source, target = self.sort_by_byte(number_of_byte, source, target)
        return source

    def count(self, x: Value, records: Value) -> None:
        """Write the records, and how often each value of each byte occurs."""
        e = self.e

        def clear(index: Value, _: list[Value]) -> list[Value]:
            e.store(e.const(0, "i64", self.width), e.offset(self.frame.scratch, index, "i64"), align=8)
            return []

        def increment(index: Value, word: Value, record: Value) -> None:
            e.store(record, self.at(records, index), align=self.record_bytes)
            for number_of_byte in range(self.digits):
                counter = e.offset(self.counters(number_of_byte), self.digit(word, number_of_byte), "i64")
                e.store(e.add(e.load(counter, "i64", align=8), number(1)), counter, align=8)

        e.loop(number(0), number(_BUCKETS * self.digits), self.width, [], clear, "clear")
        self.each_record(x, increment)

    def sort_by_byte(self, number_of_byte: int, source: Value, target: Value) -> tuple[Value, Value]:
        """Move the records to ``target`` in the order of one byte, unless all share it; returns where they are, and the other array."""
        e, counters = self.e, self.counters(number_of_byte)
        differ, after, before = e.fresh_label("differ"), e.fresh_label("after"), e.block
        any_digit = self.digit(e.load(source, "i64", align=8), number_of_byte)
        occurs = e.load(e.offset(counters, any_digit, "i64"), "i64", align=8)
        e.branch_if(e.compare("eq", occurs, self.frame.n), after, differ)
        e.label(differ)
        self.starts(counters)

        def move(index: Value, _: list[Value]) -> list[Value]:
            pointer = self.at(source, index)
            record = self.load_record(pointer)
            word = record if self.packed else e.extract(record, 0)
            counter = e.offset(counters, self.digit(word, number_of_byte), "i64")
            place = e.load(counter, "i64", align=8)
            e.store(e.add(place, number(1)), counter, align=8)
            e.store(record, self.at(target, place), align=self.record_bytes)
            return []

        e.loop(number(0), self.frame.n, 1, [], move, "move")
        moved = e.block
        e.branch(after)
        e.label(after)
        now, other = Value(e.fresh("p"), "ptr"), Value(e.fresh("p"), "ptr")
        e.emit(f"{now.text} = phi ptr [ {source.text}, %{before} ], [ {target.text}, %{moved} ]")
        e.emit(f"{other.text} = phi ptr [ {target.text}, %{before} ], [ {source.text}, %{moved} ]")
        return now, other

    def starts(self, counters: Value) -> None:
        """Turn the counts of one byte's values into where the records of each value start."""
        e = self.e

        def step(index: Value, carried: list[Value]) -> list[Value]:
            pointer = e.offset(counters, index, "i64")
            counts = e.load(pointer, "i64", self.width, align=8)
            ends = e.add(carried[0], prefix(e, "sum", dtypes.int64, counts))
            e.store(e.sub(ends, counts), pointer, align=8)
            return [e.shuffle(ends, Value("poison", "i64", self.width), [self.width - 1] * self.width)]

        e.loop(number(0), number(_BUCKETS), self.width, [e.const(0, "i64", self.width)], step, "starts")
