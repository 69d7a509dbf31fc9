"""Eigenvalues and eigenvectors of small symmetric matrices, one a lane.

Householder's reflections make each matrix tridiagonal, implicit QL steps diagonal (Bowdler, Martin, Reinsch and Wilkinson 1968); all
lanes take steps together, each on the block that its own matrix has come to.
"""

from __future__ import annotations

from functools import cache

from flambeau.codegen.cpu.emitter import Value
from flambeau.codegen.cpu.lanes import Lanes, any_lane, fma, select
from flambeau.templates.factor_kernel import FactorKernel, FactorSpec, Sizes, number
from flambeau.templates.lane_matrices import SMALLEST_SQUARE, LaneFrame, Table, inverse_root, power_of_two, together

__all__ = ["lane_eigh"]

_MOST_STEPS = 30  # for each eigenvalue, on average
_TINY = 2.0**-60  # beside a matrix whose largest element is about 1


class _Eigh(LaneFrame):
    def __init__(self, spec: FactorSpec, vectors: int) -> None:
        self.with_vectors = 1 in spec.parts
        super().__init__(spec, f"lane_eigh_{spec.element.name}_{'vectors' if self.with_vectors else 'values'}", vectors)
        e = self.e
        # An odd pitch keeps the elements of a column in different sets of the cache; ``q`` holds a vector in each row.
        self.pitch = e.binary("or", self.n, number(1))
        self.a, self.q = Table(self, 0, self.pitch), Table(self, 1, self.pitch)
        self.d, self.off, self.tau = Table(self, 2), Table(self, 3), Table(self, 4)
        self.w = Table(self, 5)
        self.count = Value(e.fresh("count"), "ptr")
        e.emit(f"{self.count.text} = alloca i64")
        self.place = Value(e.fresh("place"), "ptr")
        e.emit(f"{self.place.text} = alloca <{self.width} x i32>, align 64")

    # -- in and out -----------------------------------------------------------------------------------------
    def read(self, first: Value) -> Lanes:
        """Fill ``a`` from one triangle, scaled by a power of two to elements of about 1 at most; the inverse of the scale."""
        e, n = self.e, self.n
        self.read_matrix(self.a, self.source(0, first, e.mul(n, n)), n, n)
        lower = bool(self.spec["lower"])

        def places(i: Value, j: Value) -> tuple[Value, Value]:
            return (i, j) if lower else (j, i)

        def row(i: Value, top: Lanes) -> list[Lanes]:
            def element(j: Value, top: Lanes) -> list[Lanes]:
                return [top.intrinsic("maxnum", self.a.get(*places(i, j)).absolute())]

            return self.fold(0, e.add(i, number(1)), [top], element, "element")

        (top,) = self.fold(0, n, [self.constant(0.0)], row, "row")
        power = power_of_two(top)
        scale = 1.0 / power

        def rescale(i: Value) -> None:
            def element(j: Value) -> None:
                value = self.a.get(*places(i, j)) * scale
                self.a.set(value, i, j)
                self.a.set(value, j, i)

            self.loop(0, e.add(i, number(1)), element, "scaled")

        self.loop(0, n, rescale, "scale")
        return power

    def write(self, first: Value, power: Lanes, failed: Lanes) -> None:
        """Store eigenvalues and columns of eigenvectors in ascending order of the former."""
        e, n = self.e, self.n
        sorted_values = Table(self, 6)
        lanes = Lanes(e, e.lanes("i32", self.width))

        def column(i: Value) -> None:
            own = self.d.get(i)

            def earlier(j: Value, rank: Lanes) -> list[Lanes]:
                other = self.d.get(j)
                before = e.select(e.compare("slt", j, i), (other <= own).value, (other < own).value)
                return [rank + Lanes(e, e.convert("zext", before, "i32"))]

            (rank,) = self.fold(0, n, [self.whole(0)], earlier, "rank")
            # NaN compares with nothing.
            rank = rank.intrinsic("smin", self.whole(e.sub(n, number(1)))) * self.width + lanes
            self.scatter(own * power, sorted_values.pointer, rank, 0)
            if self.with_vectors:
                step = e.mul(self.pitch, number(self.width))
                self.loop(0, n, lambda k: self.scatter(self.q.get(i, k), self.a.pointer, rank, e.mul(k, step)), "component")

        self.loop(0, n, column, "column")
        if 0 in self.spec.parts:
            self.write_matrix(lambda _, j: sorted_values.get(j), self.result(0, first, n, 2), number(1), n)
        if self.with_vectors:
            self.write_matrix(self.a.get, self.result(1, first, e.mul(n, n), 1), n, n)
        self.tell(failed, first)

    # -- to a tridiagonal matrix ----------------------------------------------------------------------------
    def tridiagonal(self) -> None:
        """``a`` becomes d and off; column k of ``a`` below the diagonal keeps the vector of reflection k, tau its factor."""
        e, n = self.e, self.n

        def reflect(k: Value) -> None:
            start = e.add(k, number(1))
            self.d.set(self.a.get(k, k), k)
            alpha = self.a.get(start, k)
            square = self.fold(e.add(k, number(2)), n, [self.constant(0.0)], lambda i, s: [self._squared(i, k, s)], "length")[0]
            length = fma(alpha, alpha, square)
            # What is this short beside the largest element is left out: its square would be too inexact for a reflection.
            flat = square.equals(0.0) | (length < SMALLEST_SQUARE[self.kind])
            beta = select(flat, alpha, -length.square_root().with_sign_of(alpha))
            tau = select(flat, self.constant(0.0), (beta - alpha) / beta)
            factor = select(flat, self.constant(0.0), 1.0 / (alpha - beta))
            self.off.set(beta, k)
            self.tau.set(tau, k)
            self.a.set(self.constant(1.0), start, k)
            self.loop(e.add(k, number(2)), n, lambda i: self.a.set(self.a.get(i, k) * factor, i, k), "normal")
            self._update(k, start, tau)

        self.loop(0, e.sub(n, number(1)), reflect, "reflection")
        last = e.sub(n, number(1))
        self.d.set(self.a.get(last, last), last)
        self.off.set(self.constant(0.0), last)

    def _squared(self, i: Value, k: Value, total: Lanes) -> Lanes:
        value = self.a.get(i, k)
        return fma(value, value, total)

    def _update(self, k: Value, start: Value, tau: Lanes) -> None:
        """A - v w' - w v' for the rest of the matrix, with w = tau (A v - tau/2 (v' A v) v)."""
        n = self.n

        def product(rows: list[Value]) -> None:
            def term(j: Value, sums: list[Lanes]) -> list[Lanes]:
                v = self.a.get(j, k)
                return [fma(self.a.get(i, j), v, s) for i, s in zip(rows, sums, strict=True)]

            for i, total in zip(rows, together(self, start, n, len(rows), term), strict=True):
                self.w.set(tau * total, i)

        self.neighbours(start, n, product, "product")
        (inner,) = together(self, start, n, 1, lambda i, s: [fma(self.w.get(i), self.a.get(i, k), s[0])])
        half = inner * tau * 0.5
        self.loop(start, n, lambda i: self.w.set(self.w.get(i) - half * self.a.get(i, k), i), "shift")

        def subtract(rows: list[Value]) -> None:
            v, w = [self.a.get(i, k) for i in rows], [self.w.get(i) for i in rows]

            def element(j: Value) -> None:
                vj, wj = self.a.get(j, k), self.w.get(j)
                for i, vi, wi in zip(rows, v, w, strict=True):
                    self.a.set(self.a.get(i, j) - vi * wj - wi * vj, i, j)

            self.loop(start, n, element, "subtract")

        self.neighbours(start, n, subtract, "update")

    def reflections(self) -> None:
        """``q`` becomes the product of the reflections, from the last one on."""
        e, n = self.e, self.n

        def unit(i: Value) -> None:
            self.loop(0, n, lambda j: self.q.set(select(self._equal(i, j), self.constant(1.0), 0.0), i, j), "unit")

        self.loop(0, n, unit, "identity")

        def apply(k: Value) -> None:
            start, tau = e.add(k, number(1)), self.tau.get(k)

            def columns(which: list[Value]) -> None:
                def term(i: Value, sums: list[Lanes]) -> list[Lanes]:
                    v = self.a.get(i, k)
                    return [fma(v, self.q.get(j, i), s) for j, s in zip(which, sums, strict=True)]

                totals = [tau * s for s in together(self, start, n, len(which), term)]

                def element(i: Value) -> None:
                    v = self.a.get(i, k)
                    for j, total in zip(which, totals, strict=True):
                        self.q.set(self.q.get(j, i) - v * total, j, i)

                self.loop(start, n, element, "reflect")

            self.neighbours(start, n, columns, "columns")

        self.down(0, e.sub(n, number(1)), apply, "reflection")

    def _equal(self, i: Value, j: Value) -> Lanes:
        return self.whole(i).equals(self.whole(j))

    # -- to a diagonal matrix -------------------------------------------------------------------------------
    def diagonal(self) -> Lanes:
        """QL steps until ``off`` is negligible, in each lane at its own place; marks the lanes that need too many."""
        e = self.e
        e.store(number(0), self.count)
        e.store(self.whole(0).value, self.place)
        head, step, after = (e.fresh_label(stem) for stem in ("steps", "step", "converged"))
        e.branch(head)
        e.label(head)
        start, end, corner = self._block(Lanes(e, e.load(self.place, "i32", self.width)))
        e.store(start.value, self.place)
        active, taken = start < end, e.load(self.count, "i64")
        most = e.mul(self.n, number(_MOST_STEPS))
        e.branch_if(e.binary("and", any_lane(active), e.compare("slt", taken, most)), step, after)
        e.label(step)
        e.store(e.add(taken, number(1)), self.count)
        self._step(start, end, corner, active)
        e.branch(head)
        e.label(after)
        return active

    def _block(self, start: Lanes) -> tuple[Lanes, Lanes, Lanes]:
        """In each lane the first index from ``start`` on whose ``off`` is not negligible, the next one whose ``off`` is, and d there."""
        e, last = self.e, self.e.sub(self.n, number(1))

        def look(i: Value, start: Lanes, end: Lanes, corner: Lanes, open_: Lanes) -> list[Lanes]:
            here, off, at = self.d.get(i), self.off.get(i), self.whole(i)
            size = here.absolute() + self.d.get(e.add(i, number(1))).absolute()
            small = off.absolute() <= (size * self.epsilon).at_least(_TINY * self.epsilon)
            self.off.set(select(small, self.constant(0.0), off), i)
            found = small & open_ & (start < at)
            start = select(small & start.equals(at), at + 1, start)
            return [start, select(found, at, end), select(found, here, corner), open_ & (found ^ True)]

        initial = [start, self.whole(last), self.d.get(last), self.true()]
        start, end, corner, _ = self.fold(self._extreme("smin", start), last, initial, look, "look")
        return start, end, corner

    def _extreme(self, kind: str, x: Lanes) -> Value:
        """The largest (smax) or smallest (smin) of the lanes."""
        e, name = self.e, f"llvm.vector.reduce.{kind}.v{self.width}i32"
        e.declare(f"declare i32 @{name}(<{self.width} x i32>)")
        out = Value(e.fresh(), "i32")
        e.emit(f"{out.text} = call i32 @{name}({x.value})")
        return e.convert("sext", out, "i64")

    def _step(self, start: Lanes, end: Lanes, corner: Lanes, active: Lanes) -> None:
        """One implicit QL step on the block from ``start`` to ``end`` of every active lane."""
        e = self.e
        own = start * self.width + Lanes(e, e.lanes("i32", self.width))

        def pick(table: Table, at: Lanes) -> Lanes:
            return Lanes(e, e.gather(e.offset(table.pointer, at.value, self.kind), self.kind, self.true().value))

        first, off = pick(self.d, own), pick(self.off, own)
        g = (pick(self.d, own + self.width) - first) / (off + off)
        r = fma(g, g, 1.0).square_root()
        g = corner - first + off / (g + r.with_sign_of(g))
        low = self._extreme("smin", select(active, start, self.whole(self.n)))
        stop = self._extreme("smax", select(active, end, self.whole(0)))

        def rotate(i: Value, g: Lanes, s: Lanes, c: Lanes, shift: Lanes) -> list[Lanes]:
            after = e.add(i, number(1))
            here = active & (self.whole(i) < end) & (self.whole(i) >= start)
            off, old = self.off.get(i), self.off.get(after)
            f, b = s * off, c * off
            square = fma(f, f, g * g)
            nothing = square < SMALLEST_SQUARE[self.kind]
            inverse = inverse_root(select(nothing, self.constant(1.0), square))
            r = select(nothing, self.constant(0.0), square * inverse)
            s2, c2 = select(nothing, self.constant(0.0), f * inverse), select(nothing, self.constant(1.0), g * inverse)
            self.off.set(select(here & (self.whole(after) < end), r, old), after)
            next_ = self.d.get(after)
            g2 = next_ - shift
            r = fma(self.d.get(i) - g2, s2, c2 * b * 2.0)
            shift2 = s2 * r
            self.d.set(select(here, g2 + shift2, next_), after)
            g2 = fma(c2, r, -b)
            if self.with_vectors:
                self._turn(i, after, select(here, s2, 0.0), select(here, c2, 1.0))
            return [select(here, new, was) for new, was in ((g2, g), (s2, s), (c2, c), (shift2, shift))]

        g, _, _, shift = self.fold_down(low, stop, [g, self.constant(1.0), self.constant(1.0), self.constant(0.0)], rotate)
        for table, value in ((self.d, first - shift), (self.off, g)):
            e.scatter(value.value, e.offset(table.pointer, own.value, self.kind), active.value)

    def fold_down(self, start: Value, stop: Value, initial: list[Lanes], body: object) -> list[Lanes]:
        """As `fold`, from the last index to the first."""
        e, last = self.e, self.e.sub(stop, number(1))
        return self.fold(start, stop, initial, lambda i, *values: body(e.sub(e.add(last, start), i), *values), "rotation")  # type: ignore[operator]

    def _turn(self, i: Value, after: Value, s: Lanes, c: Lanes) -> None:
        """Rotate two vectors of ``q``."""

        def rows(which: list[Value]) -> None:
            for k in which:
                low, high = self.q.get(i, k), self.q.get(after, k)
                self.q.set(fma(s, low, c * high), after, k)
                self.q.set(fma(c, low, -(s * high)), i, k)

        self.neighbours(0, self.n, rows, "turn")


@cache
def lane_eigh(spec: FactorSpec, vectors: int) -> FactorKernel:
    """The kernel for eigenvalues and, where part 1 is asked for, eigenvectors; sizes from 1 on."""
    f = _Eigh(spec, vectors)

    def block(first: Value) -> None:
        f.open(first)
        power = f.read(first)
        f.tridiagonal()
        if f.with_vectors:
            f.reflections()
        f.write(first, power, f.diagonal())

    text = f.each(block, f.width)
    vector = f.width * spec.element.itemsize
    # Rows are written by whole vectors of neighbours, for which a few elements more are read.
    squares = (lambda z: vector * (z.n * (z.n | 1) + 2 * f.narrow),) * 2
    lines = (lambda z: vector * (z.n + 2 * f.narrow),) * 5

    def nanoseconds(z: Sizes) -> float:
        return (200 + 60 * z.n**2 + 3 * z.n**3) / f.width

    return FactorKernel(spec, f.name, text, (), (*squares, *lines), lambda z: 0, nanoseconds, f.width)
