"""Kernels in which every lane of a vector works on a matrix of its own: what those for small matrices share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flambeau.codegen.cpu.emitter import Value
from flambeau.codegen.cpu.lanes import Lanes, any_lane, by_parts, fma, select
from flambeau.templates.factor_kernel import FactorFrame, FactorSpec, number
from flambeau.templates.matmul_pack import transposed

__all__ = ["SMALLEST_SQUARE", "Index", "LaneFrame", "Table", "as_value", "inverse_root", "power_of_two", "together"]

# So many neighbours are worked on at once where they do not depend on each other: that hides the time of a multiplication.
TOGETHER = 4
Index = Value | int
# Squares below are lost to rounding beside a matrix whose largest element is about 1.
SMALLEST_SQUARE = {"float": 2.0**-120, "double": 2.0**-1000}
# Longer rows are moved by whole vectors, which are turned around in registers: addresses for each lane are slow.
_SHORT_ROW = 5


class Table:
    """Memory of a thread that holds one vector for each index, or for each row and column of ``columns``."""

    def __init__(self, frame: LaneFrame, piece: int, columns: Value | None = None) -> None:
        self.frame, self.columns = frame, columns
        self.pointer = frame.piece(piece)

    def _at(self, row: Index, column: Index | None) -> Value:
        e, frame = self.frame.e, self.frame
        index = as_value(row)
        if column is not None:
            assert self.columns is not None
            index = e.add(e.mul(index, self.columns), as_value(column))
        return e.offset(self.pointer, index, f"<{frame.width} x {frame.kind}>")

    def get(self, row: Index, column: Index | None = None) -> Lanes:
        frame = self.frame
        return Lanes(frame.e, frame.e.load(self._at(row, column), frame.kind, frame.width, align=frame.spec.element.itemsize))

    def set(self, value: Lanes, row: Index, column: Index | None = None, exists: Value | None = None) -> None:
        """Store; nothing where ``exists`` is false."""
        e, align = self.frame.e, self.frame.spec.element.itemsize
        if exists is None:
            e.store(value.value, self._at(row, column), align=align)
        else:
            e.masked_store(value.value, self._at(row, column), e.splat(exists, self.frame.width), align=align)


def as_value(index: Index) -> Value:
    return number(index) if isinstance(index, int) else index


class LaneFrame(FactorFrame):
    """A frame whose body works on ``width`` matrices, one a lane; ``inside`` masks those that exist.

    Values are several ``vectors`` long where operations that wait for each other take most of the time.
    """

    def __init__(self, spec: FactorSpec, name: str, vectors: int) -> None:
        super().__init__(spec, f"{name}_{vectors}")
        self.vectors = vectors
        self.width = vectors * spec.vector_bits // (8 * spec.element.itemsize)
        self.narrow = self.width // vectors
        self.together = TOGETHER // vectors
        self.epsilon = 2.0 ** (-24 if spec.element.itemsize == 4 else -53)
        self.inside = Lanes(self.e, Value("poison", "i1", self.width))

    def open(self, first: Value) -> None:
        """Begin a block of matrices with number ``first``."""
        e = self.e
        left = e.convert("trunc", e.intrinsic("smin", e.sub(self.batch, first), number(self.width)), "i32")
        self.inside = Lanes(e, e.compare("slt", e.lanes("i32", self.width), e.splat(left, self.width)))

    def constant(self, value: float) -> Lanes:
        return Lanes(self.e, self.e.const(value, self.kind, self.width))

    def whole(self, value: Index) -> Lanes:
        """A 32-bit whole number in every lane."""
        if isinstance(value, int):
            return Lanes(self.e, self.e.const(value, "i32", self.width))
        return Lanes(self.e, self.e.splat(self.e.convert("trunc", value, "i32"), self.width))

    def true(self) -> Lanes:
        return Lanes(self.e, self.e.const(True, "i1", self.width))

    def each_lane(self, count: Value) -> Lanes:
        """The distance of each lane's matrix of ``count`` elements from the first one's."""
        return Lanes(self.e, self.e.binary("mul", self.e.lanes("i32", self.width), self.whole(count).value))

    def gather(self, base: Value, steps: Lanes, at: Value, kind: str = "") -> Lanes:
        """Element ``at`` of every lane's matrix; zero where there is no matrix."""
        e, kind = self.e, kind or self.kind
        pointers = e.offset(e.offset(base, at, kind), steps.value, kind)
        return Lanes(e, e.gather(pointers, kind, self.inside.value))

    def scatter(self, value: Lanes, base: Value, steps: Lanes, at: Index) -> None:
        """Store element ``at`` of every lane's matrix."""
        e = self.e
        pointers = e.offset(e.offset(base, as_value(at), value.kind), steps.value, value.kind)
        e.scatter(value.value, pointers, self.inside.value)

    def read_matrix(self, table: Table, base: Value, rows: Value, columns: Value, shift: Index = 0) -> None:
        """Row i and column j of every lane's matrix at ``base`` go to row i and column ``shift`` + j."""
        e = self.e
        size = e.mul(rows, columns)
        steps = self.each_lane(size)

        def one(i: Value, j: Value) -> None:
            table.set(self.gather(base, steps, e.add(e.mul(i, columns), j)), i, e.add(j, as_value(shift)))

        def several(i: Value, j: Value) -> None:
            start = e.add(e.mul(i, columns), j)
            left = self._first(e.sub(columns, j))
            groups = [transposed(e, [e.masked_load(p, self.kind, m) for p, m in self._lines(base, start, size, left, g)])
                      for g in range(self.vectors)]  # fmt: skip
            for k, parts in enumerate(zip(*groups, strict=True)):
                at, exists = e.add(j, number(k)), e.compare("slt", e.add(j, number(k)), columns)
                table.set(Lanes(e, self._joined(parts)), i, e.add(at, as_value(shift)), exists)

        self._by_rows(rows, columns, one, several)

    def write_matrix(self, get: Callable[[Value, Value], Lanes], base: Value, rows: Value, columns: Value) -> None:
        """Element (i, j) of every lane's matrix at ``base`` becomes ``get(i, j)``, which may be asked for more columns."""
        e = self.e
        size = e.mul(rows, columns)
        steps = self.each_lane(size)

        def one(i: Value, j: Value) -> None:
            self.scatter(get(i, j), base, steps, e.add(e.mul(i, columns), j))

        def several(i: Value, j: Value) -> None:
            start = e.add(e.mul(i, columns), j)
            left = self._first(e.sub(columns, j))
            values = [get(i, e.add(j, number(k))).value for k in range(self.narrow)]
            for g in range(self.vectors):
                parts = [self._part(v, g) for v in values]
                for value, (pointer, mask) in zip(transposed(e, parts), self._lines(base, start, size, left, g), strict=True):
                    e.masked_store(value, pointer, mask)

        self._by_rows(rows, columns, one, several)

    def _by_rows(self, rows: Value, columns: Value, one: Callable[..., None], several: Callable[..., None]) -> None:
        """Go through matrices by single elements, or by as many neighbours as a vector holds where there are enough."""
        e = self.e
        long, short, end = (e.fresh_label(stem) for stem in ("long", "short", "end"))
        e.branch_if(e.compare("sgt", columns, number(_SHORT_ROW)), long, short)
        e.label(long)
        self.loop(0, rows, lambda i: self.repeat(columns, lambda j: several(i, j), "piece", step=self.narrow), "long")
        e.branch(end)
        e.label(short)
        self.loop(0, rows, lambda i: self.loop(0, columns, lambda j: one(i, j), "single"), "short")
        e.branch(end)
        e.label(end)

    def _first(self, count: Value) -> Value:
        """The mask of the first ``count`` of the lanes of one vector."""
        e = self.e
        return e.compare("slt", e.lanes("i64", self.narrow), e.splat(count, self.narrow))

    def _lines(self, base: Value, start: Value, size: Value, left: Value, group: int) -> list[tuple[Value, Value]]:
        """For each matrix of a group of lanes where element ``start`` is, and the mask of what there is to move."""
        e, lines = self.e, []
        for lane in range(group * self.narrow, (group + 1) * self.narrow):
            there = e.splat(e.extract(self.inside.value, lane), self.narrow)
            at = e.add(start, e.mul(size, number(lane)))
            lines.append((e.offset(base, at, self.kind), e.binary("and", left, there)))
        return lines

    def _part(self, value: Value, group: int) -> Value:
        if self.vectors == 1:
            return value
        lanes = range(group * self.narrow, (group + 1) * self.narrow)
        return self.e.shuffle(value, Value("poison", value.kind, value.width), lanes)

    def _joined(self, parts: Sequence[Value]) -> Value:
        return parts[0] if len(parts) == 1 else self.e.shuffle(parts[0], parts[1], range(2 * self.narrow))

    def tell(self, failed: Lanes, first: Value, info: Lanes | None = None) -> None:
        """Report the first lane that failed; ``info`` says how, where it is not one thing."""
        e = self.e
        if not self.spec.operator:
            return
        found = (failed & self.inside).value
        bad, fine = e.fresh_label("failed"), e.fresh_label("fine")
        e.branch_if(any_lane(Lanes(e, found)), bad, fine)
        e.label(bad)
        word = e.convert("zext", Value(self._bits(found), f"i{self.width}"), "i64")
        e.declare("declare i64 @llvm.cttz.i64(i64, i1)")
        lane = Value(e.fresh(), "i64")
        e.emit(f"{lane.text} = call i64 @llvm.cttz.i64({word}, i1 true)")
        value = Value(e.fresh(), "i32")
        e.emit(f"{value.text} = extractelement {(info or self.whole(1)).value}, {lane}")
        self.report(value, e.add(first, lane))
        e.branch(fine)
        e.label(fine)

    def _bits(self, mask: Value) -> str:
        word = self.e.fresh()
        self.e.emit(f"{word} = bitcast {mask} to i{self.width}")
        return word

    def fold(self, start: Index, stop: Index, initial: Sequence[Lanes], body: Callable[..., Sequence[Lanes]], stem: str) -> list[Lanes]:
        """``for i in range(start, stop): values = body(i, *values)``."""
        e = self.e

        def step(index: Value, values: list[Value]) -> list[Value]:
            return [v.value for v in body(index, *(Lanes(e, v) for v in values))]

        return [Lanes(e, v) for v in e.loop(as_value(start), as_value(stop), 1, [v.value for v in initial], step, stem)]

    def loop(self, start: Index, stop: Index, body: Callable[[Value], None], stem: str = "loop") -> None:
        """``for i in range(start, stop): body(i)``."""
        self.repeat(as_value(stop), body, stem, as_value(start))

    def down(self, start: Index, stop: Index, body: Callable[[Value], None], stem: str = "down") -> None:
        """``for i in reversed(range(start, stop)): body(i)``."""
        e, last = self.e, self.e.sub(as_value(stop), number(1))
        self.repeat(as_value(stop), lambda i: body(e.sub(e.add(last, as_value(start)), i)), stem, as_value(start))

    def neighbours(self, start: Index, stop: Index, body: Callable[[list[Value]], None], stem: str) -> None:
        """``body`` on lists of a few neighbouring indices, then on single ones."""
        e, begin, end = self.e, as_value(start), as_value(stop)
        whole = e.add(begin, e.binary("and", e.sub(end, begin), number(-self.together)))
        self.repeat(whole, lambda i: body([e.add(i, number(k)) for k in range(self.together)]), stem + "s", begin, self.together)
        self.repeat(end, lambda i: body([i]), stem, whole)


def power_of_two(x: Lanes) -> Lanes:
    """The largest power of two up to x; 1 for 0 and for what has no full precision."""
    form = x.format
    exponent = (x.bits() & ((2 * form.bias + 1) << form.mantissa)).as_float(form)
    return select(exponent.equals(0.0), x.like(1.0), exponent)


def inverse_root(x: Lanes) -> Lanes:
    """1 / sqrt(x) of positive x to about the last bit: an estimate of 14 bits and Newton's steps where the machine has one."""
    e = x.e
    narrow = 16 if x.kind == "float" else 8
    if "avx512f" not in e.features or x.width % narrow:
        return 1.0 / x.square_root()
    name = "llvm.x86.avx512.rsqrt14.ps.512" if x.kind == "float" else "llvm.x86.avx512.rsqrt14.pd.512"
    mask = f"i{narrow}"

    def estimate(part: Lanes) -> Lanes:
        kind = part.value.type
        e.declare(f"declare {kind} @{name}({kind}, {kind}, {mask})")
        out = Value(e.fresh(), part.kind, narrow)
        e.emit(f"{out.text} = call {kind} @{name}({part.value}, {kind} zeroinitializer, {mask} -1)")
        return Lanes(e, out)

    y = by_parts([x], narrow, estimate)
    for _ in range(1 if x.kind == "float" else 2):
        error = fma(-(x * y), y, 1.0)
        y = fma(y * error, fma(error, 0.375, 0.5), y)
    return y


def together(frame: LaneFrame, start: Index, stop: Index, count: int, term: Callable[[Value, list[Lanes]], list[Lanes]]) -> list[Lanes]:
    """``count`` sums side by side: ``term(i, sums)`` gives the sums with the terms of ``i`` added."""
    zero = [frame.constant(0.0)] * count
    return frame.fold(start, stop, zero, lambda i, *sums: term(i, list(sums)), "sum")
