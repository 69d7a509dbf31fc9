"""Singular values and vectors of small square matrices, one a lane.

Kogbetliantz's method (1955): rotations from both sides make pairs of rows and columns diagonal, in sweeps over all pairs, until nothing
beside the diagonals is left. Left and right vectors are products of rotations, so they are orthonormal for singular matrices too.
"""

from __future__ import annotations

from functools import cache

from flambeau.codegen.cpu.emitter import Value
from flambeau.codegen.cpu.lanes import Lanes, any_lane, fma, select
from flambeau.templates.factor_kernel import FactorKernel, FactorSpec, Sizes, number
from flambeau.templates.lane_matrices import SMALLEST_SQUARE, LaneFrame, Table, inverse_root, power_of_two

__all__ = ["lane_svd"]

_MOST_SWEEPS = 40
NOT_FINITE = -4  # what LAPACK calls it


class _Svd(LaneFrame):
    def __init__(self, spec: FactorSpec, vectors: int) -> None:
        super().__init__(spec, f"lane_svd_{spec.element.name}_{''.join(map(str, spec.parts))}", vectors)
        e = self.e
        self.pitch = e.binary("or", self.n, number(1))
        self.a, self.u, self.v = (Table(self, i, self.pitch) for i in range(3))  # u and v hold a vector in each row
        self.sorted, self.worst, self.limit = Table(self, 3), Table(self, 4), Table(self, 5)
        self.sides = [t for t, part in ((self.u, 0), (self.v, 2)) if part in spec.parts]
        self.count = Value(e.fresh("count"), "ptr")
        e.emit(f"{self.count.text} = alloca i64")

    def start(self, first: Value) -> Lanes:
        """Read, scale by a power of two to elements of about 1 at most, and begin with no rotations; returns the inverse scale."""
        e, n = self.e, self.n
        self.read_matrix(self.a, self.source(0, first, e.mul(n, n)), n, n)

        def largest(i: Value, top: Lanes) -> list[Lanes]:
            return self.fold(0, n, [top], lambda j, t: [t.intrinsic("maxnum", self.a.get(i, j).absolute())], "size")

        (top,) = self.fold(0, n, [self.constant(0.0)], largest, "largest")
        power = power_of_two(top)
        scale = 1.0 / power

        def squared(i: Value, total: Lanes) -> list[Lanes]:
            return self.fold(0, n, [total], lambda j, t: [_plus_square(self.a.get(i, j) * scale, t)], "square")

        (square,) = self.fold(0, n, [self.constant(0.0)], squared, "squares")
        # Rotations leave errors of about the machine's precision of the whole matrix.
        self.limit.set(square.square_root() * (4 * self.epsilon), 0)

        def prepare(i: Value) -> None:
            def one(j: Value) -> None:
                self.a.set(self.a.get(i, j) * scale, i, j)
                for side in self.sides:
                    side.set(select(self.whole(i).equals(self.whole(j)), self.constant(1.0), 0.0), i, j)

            self.loop(0, n, one, "one")

        self.loop(0, n, prepare, "prepare")
        return power

    def sweeps(self) -> Lanes:
        """Sweep until all lanes are diagonal; marks those that are not after many sweeps."""
        e = self.e
        e.store(number(0), self.count)
        self.worst.set(self.constant(4.0), 0)
        head, sweep, after = (e.fresh_label(stem) for stem in ("sweeps", "sweep", "diagonal"))
        e.branch(head)
        e.label(head)
        # Written so that NaN counts as not diagonal.
        active = Lanes(e, e.compare("ugt", self.worst.get(0).value, self.limit.get(0).value))
        taken = e.load(self.count, "i64")
        e.branch_if(e.binary("and", any_lane(active), e.compare("slt", taken, number(_MOST_SWEEPS))), sweep, after)
        e.label(sweep)
        e.store(e.add(taken, number(1)), self.count)
        self.worst.set(select(active, self.constant(0.0), self.worst.get(0)), 0)
        self.loop(0, self.n, lambda p: self.loop(e.add(p, number(1)), self.n, lambda q: self._pair(p, q, active), "pair"), "first")
        e.branch(head)
        e.label(after)
        return active

    def _pair(self, p: Value, q: Value, active: Lanes) -> None:
        """Make rows and columns p and q diagonal in the active lanes: a rotation that makes them symmetric, then Jacobi's."""
        a, b, c, d = self.a.get(p, p), self.a.get(p, q), self.a.get(q, p), self.a.get(q, q)
        off = b.absolute() + c.absolute()
        worst = self.worst.get(0)
        self.worst.set(select(active & Lanes(self.e, self.e.compare("ugt", off.value, worst.value)), off, worst), 0)
        # Rotations by next to nothing would fill the matrix with denormals, which are slow.
        turning = active & Lanes(self.e, self.e.compare("ugt", off.value, (self.limit.get(0) * 0.125).value))
        one, zero = self.constant(1.0), self.constant(0.0)
        t, u = c - b, a + d
        square = fma(t, t, u * u)
        nothing = square < SMALLEST_SQUARE[self.kind]
        inverse = inverse_root(select(nothing, one, square))
        c1, s1 = select(nothing, one, u * inverse), select(nothing, zero, t * inverse)
        x, y, z = fma(c1, a, s1 * c), fma(c1, b, s1 * d), fma(c1, d, -(s1 * b))
        flat = y.absolute() < SMALLEST_SQUARE[self.kind]
        ratio = (z - x) / select(flat, one, y + y)
        # Of a huge ratio the square overflows, and the tangent is zero as it should be.
        tangent = one / (ratio.absolute() + fma(ratio, ratio, 1.0).square_root())
        tangent = select(flat, zero, tangent.with_sign_of(ratio))
        c2 = inverse_root(fma(tangent, tangent, 1.0))
        s2 = tangent * c2
        right = select(turning, c2, one), select(turning, s2, zero)
        left = select(turning, fma(c2, c1, s2 * s1), one), select(turning, fma(s2, c1, -(c2 * s1)), zero)
        self._rotate(self.a, p, q, *left, by_rows=True)
        self._rotate(self.a, p, q, *right, by_rows=False)
        for at in ((p, q), (q, p)):
            self.a.set(select(turning, zero, self.a.get(*at)), *at)
        for side in self.sides:
            self._rotate(side, p, q, *(left if side is self.u else right), by_rows=True)

    def _rotate(self, table: Table, p: Value, q: Value, c: Lanes, s: Lanes, by_rows: bool) -> None:
        """Row (or column) p becomes c * p - s * q, and q becomes s * p + c * q."""

        def several(which: list[Value]) -> None:
            for k in which:
                first, second = ((p, k), (q, k)) if by_rows else ((k, p), (k, q))
                low, high = table.get(*first), table.get(*second)
                table.set(fma(c, low, -(s * high)), *first)
                table.set(fma(s, low, c * high), *second)

        self.neighbours(0, self.n, several, "turn")

    def finish(self, first: Value, power: Lanes, failed: Lanes) -> None:
        """Store what was asked for, in descending order of the singular values."""
        e, n = self.e, self.n
        row = e.mul(self.pitch, number(self.width))
        info = select(self.worst.get(0).is_nan(), self.whole(NOT_FINITE), self.whole(1))
        self.loop(0, n, lambda i: self.worst.set(self.a.get(i, i), i), "diagonal")
        if 1 in self.spec.parts:

            def value(i: Value) -> None:
                self.scatter(self.worst.get(i).absolute() * power, self.sorted.pointer, self._place(i, number(1)), 0)

            self.loop(0, n, value, "value")
            self.write_matrix(lambda _, j: self.sorted.get(j), self.result(1, first, n, 0), number(1), n)
        for side, part, along, across in ((self.u, 0, number(1), row), (self.v, 2, self.pitch, number(self.width))):
            if part in self.spec.parts:
                self._put_in_order(side, along, across)
                self.write_matrix(self.a.get, self.result(part, first, e.mul(n, n), 0), n, n)
        self.tell(failed, first, info)

    def _put_in_order(self, side: Table, along: Value, across: Value) -> None:
        """Store the vectors of a side in ``a``: one after another ``along``, their components ``across``."""

        def vector(i: Value) -> None:
            negative, steps = self.worst.get(i) < 0.0, self._place(i, along)

            def component(k: Value) -> None:
                value = side.get(i, k)
                value = select(negative, -value, value) if side is self.u else value
                self.scatter(value, self.a.pointer, steps, self.e.mul(k, across))

            self.loop(0, self.n, component, "component")

        self.loop(0, self.n, vector, "vector")

    def _place(self, i: Value, along: Value) -> Lanes:
        """In each lane the element ``along`` vectors further for each singular value that comes before number ``i``."""
        e = self.e
        return self._rank(i).binary("mul", self.whole(along)) * self.width + Lanes(e, e.lanes("i32", self.width))

    def _rank(self, i: Value) -> Lanes:
        e, size = self.e, self.worst.get(i).absolute()

        def earlier(j: Value, rank: Lanes) -> list[Lanes]:
            other = self.worst.get(j).absolute()
            before = e.select(e.compare("slt", j, i), (other >= size).value, (other > size).value)
            return [rank + Lanes(e, e.convert("zext", before, "i32"))]

        (rank,) = self.fold(0, self.n, [self.whole(0)], earlier, "rank")
        return rank.intrinsic("smin", self.whole(e.sub(self.n, number(1))))  # NaN compares with nothing


def _plus_square(x: Lanes, total: Lanes) -> Lanes:
    return fma(x, x, total)


@cache
def lane_svd(spec: FactorSpec, vectors: int) -> FactorKernel:
    """The kernel for singular values and the vectors asked for, of square matrices from size 1 on."""
    f = _Svd(spec, vectors)

    def block(first: Value) -> None:
        f.open(first)
        power = f.start(first)
        f.finish(first, power, f.sweeps())

    text = f.each(block, f.width)
    each = f.width * spec.element.itemsize
    # Rows are written by whole vectors of neighbours, for which a few elements more are read.
    squares = (lambda z: each * (z.n * (z.n | 1) + 2 * f.narrow),) * 3
    lines = (lambda z: each * (z.n + 2 * f.narrow),) * 3

    def nanoseconds(z: Sizes) -> float:
        return (200 + 300 * z.n**2 + (8 + 8 * len(f.sides)) * z.n**3) / f.width

    return FactorKernel(spec, f.name, text, (), (*squares, *lines), lambda z: 0, nanoseconds, f.width)
