"""Cholesky, LU and QR factorizations, systems and inverses of small matrices, one a lane."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from flambeau.codegen.cpu.emitter import Value
from flambeau.codegen.cpu.lanes import Lanes, any_lane, fma, select
from flambeau.templates.factor_kernel import FactorKernel, FactorSpec, Sizes, number
from flambeau.templates.lane_matrices import Index, LaneFrame, Table, power_of_two, together

__all__ = ["lane_cholesky", "lane_elimination", "lane_qr", "lane_triangular_solve"]


class _Factor(LaneFrame):
    """A frame with one table of so many columns, and how matrices get into tables and out of them."""

    def __init__(self, spec: FactorSpec, vectors: int, columns: str = "n") -> None:
        flags = "".join(f"_{k}{int(bool(v))}" for k, v in spec.attributes if k not in ("operator", "batched"))
        super().__init__(spec, f"lane_{spec.kind}{flags}_{spec.element.name}_{''.join(map(str, spec.parts))}", vectors)
        e = self.e
        wide = {"n": self.n, "m": e.intrinsic("smax", self.m, self.n), "nk": e.add(self.n, self.k), "nn": e.add(self.n, self.n)}
        self.columns = wide[columns]
        self.a = Table(self, 0, e.binary("or", self.columns, number(1)))

    def read(self, table: Table, source: int, first: Value, rows: Value, columns: Value, shift: Index = 0) -> None:
        """As `read_matrix`, of an operand."""
        self.read_matrix(table, self.source(source, first, self.e.mul(rows, columns)), rows, columns, shift)

    def write(self, part: int, first: Value, rows: Value, columns: Value, get: Callable[[Value, Value], Lanes]) -> None:
        """As `write_matrix`, of a part that is asked for."""
        if part in self.spec.parts:
            self.write_matrix(get, self.result(part, first, self.e.mul(rows, columns), 0), rows, columns)

    def write_info(self, part: int, info: Lanes, first: Value) -> None:
        """Give out what went wrong in each lane (i32, 0: nothing), and report it."""
        if part in self.spec.parts:
            base = self.e.offset(self[f"t{part}"], first, "i32")
            self.scatter(info, base, self.each_lane(number(1)), 0)
        self.tell(Lanes(self.e, self.e.compare("ne", info.value, self.whole(0).value)), first, info)

    def noted(self, info: Lanes, bad: Lanes, at: Value) -> Lanes:
        """``info``, or ``at`` + 1 where this is the first thing that is ``bad``."""
        return select(bad & info.equals(0), self.whole(self.e.add(at, number(1))), info)

    def kernel(self, text: str, pieces: tuple[str, ...], operations: object) -> FactorKernel:
        bytes_each = self.width * self.spec.element.itemsize
        sizes = {
            "a": lambda z: z.n * (z.n | 1), "nk": lambda z: z.n * ((z.n + z.k) | 1), "nn": lambda z: z.n * (2 * z.n | 1),
            "line": lambda z: max(z.m, z.n, z.k), "mm": lambda z: max(z.m, z.n) * (max(z.m, z.n) | 1),
        }  # fmt: skip
        # Rows are written by whole vectors of neighbours, for which a few elements more are read.
        made = tuple((lambda z, size=sizes[piece]: bytes_each * (size(z) + 2 * self.narrow)) for piece in pieces)

        def nanoseconds(z: Sizes) -> float:
            return (30 + 10 * z.m * (z.n + z.k) + operations(z)) / self.width  # type: ignore[operator]

        return FactorKernel(self.spec, self.name, text, (), made, lambda z: 0, nanoseconds, self.width)


# -- Cholesky -----------------------------------------------------------------------------------------------
@cache
def lane_cholesky(spec: FactorSpec, vectors: int) -> FactorKernel:
    """Column after column of L; ``upper`` reads and writes the transposes."""
    f = _Factor(spec, vectors)
    e, upper = f.e, bool(spec["upper"])

    def mirror(i: Value) -> None:
        f.loop(0, i, lambda j: f.a.set(f.a.get(j, i), i, j), "mirrored")

    def column(j: Value, info: Lanes) -> list[Lanes]:
        (square,) = together(f, 0, j, 1, lambda k, s: [_plus_square(f.a.get(j, k), s[0])])
        pivot = f.a.get(j, j) - square
        info = f.noted(info, Lanes(e, e.compare("ule", pivot.value, f.constant(0.0).value)), j)
        root = pivot.square_root()
        f.a.set(root, j, j)
        inverse = 1.0 / root

        def rows(which: list[Value]) -> None:
            def term(k: Value, sums: list[Lanes]) -> list[Lanes]:
                common = f.a.get(j, k)
                return [fma(f.a.get(i, k), common, s) for i, s in zip(which, sums, strict=True)]

            for i, total in zip(which, together(f, 0, j, len(which), term), strict=True):
                f.a.set((f.a.get(i, j) - total) * inverse, i, j)

        f.neighbours(e.add(j, number(1)), f.n, rows, "below")
        return [info]

    def element(i: Value, j: Value) -> Lanes:
        row, at = (j, i) if upper else (i, j)
        inside = Lanes(e, e.splat(e.compare("sge", row, at), f.width))
        return select(inside, f.a.get(e.intrinsic("smin", row, e.sub(f.n, number(1))), at), f.constant(0.0))

    def block(first: Value) -> None:
        f.open(first)
        f.read(f.a, 0, first, f.n, f.n)
        if upper:
            f.loop(0, f.n, mirror, "mirror")
        (info,) = f.fold(0, f.n, [f.whole(0)], column, "column")
        f.write(0, first, f.n, f.n, element)
        f.write_info(1, info, first)

    return f.kernel(f.each(block, f.width), ("a",), lambda z: z.n**3 / 3)


def _plus_square(x: Lanes, total: Lanes) -> Lanes:
    return fma(x, x, total)


# -- triangular systems -------------------------------------------------------------------------------------
@cache
def lane_triangular_solve(spec: FactorSpec, vectors: int) -> FactorKernel:
    """Substitution, row after row."""
    f = _Factor(spec, vectors, "nk")
    upper, unit = bool(spec["upper"]), bool(spec["unit"])

    def block(first: Value) -> None:
        f.open(first)
        f.read(f.a, 0, first, f.n, f.n)
        f.read(f.a, 1, first, f.n, f.k, f.n)
        _substitute(f, upper, unit)
        f.write(0, first, f.n, f.k, lambda i, j: f.a.get(i, f.e.add(f.n, j)))

    return f.kernel(f.each(block, f.width), ("nk",), lambda z: z.n * z.n * z.k)


def _substitute(f: _Factor, upper: bool, unit: bool) -> None:
    """Solve for the columns after the first n, by the triangle in these."""
    e = f.e

    def solve(i: Value) -> None:
        inverse = None if unit else 1.0 / f.a.get(i, i)

        def columns(which: list[Value]) -> None:
            def term(k: Value, sums: list[Lanes]) -> list[Lanes]:
                factor = f.a.get(i, k)
                return [fma(factor, f.a.get(k, j), s) for j, s in zip(which, sums, strict=True)]

            known = (e.add(i, number(1)), f.n) if upper else (number(0), i)
            for j, total in zip(which, together(f, *known, len(which), term), strict=True):
                value = f.a.get(i, j) - total
                f.a.set(value if inverse is None else value * inverse, i, j)

        f.neighbours(f.n, f.columns, columns, "unknowns")

    (f.down if upper else f.loop)(0, f.n, solve, "substitution")


# -- elimination --------------------------------------------------------------------------------------------
@cache
def lane_elimination(spec: FactorSpec, vectors: int) -> FactorKernel:
    """``lu``, ``solve`` or ``inverse``: elimination with row swaps, of right-hand sides in further columns too."""
    columns = {"lu": "n", "solve": "nk", "inverse": "nn"}[spec.kind]
    f = _Factor(spec, vectors, columns)
    e = f.e

    def block(first: Value) -> None:
        f.open(first)
        f.read(f.a, 0, first, f.n, f.n)
        if spec.kind == "solve":
            f.read(f.a, 1, first, f.n, f.k, f.n)
        elif spec.kind == "inverse":
            _identity(f)
        start = [f.whole(0), f.constant(1.0)]
        info, determinant = f.fold(0, f.n, start, lambda k, info, product: _eliminate(f, k, info, product, first), "pivot")
        if spec.kind == "lu":
            f.write(0, first, f.n, f.n, f.a.get)
            f.write(3, first, number(1), number(1), lambda i, j: determinant)
            f.write_info(2, info, first)
            return
        _substitute(f, True, False)
        f.write(0, first, f.n, e.sub(f.columns, f.n), lambda i, j: f.a.get(i, e.add(f.n, j)))
        f.write_info(1, info, first)

    piece = "a" if columns == "n" else columns
    return f.kernel(f.each(block, f.width), (piece,), lambda z: z.n**3 + (4 * z.n * z.n * (z.k or z.n) if columns != "n" else 0))


def _identity(f: _Factor) -> None:
    def row(i: Value) -> None:
        def one(j: Value) -> None:
            same = f.whole(i).equals(f.whole(j))
            f.a.set(select(same, f.constant(1.0), 0.0), i, f.e.add(f.n, j))

        f.loop(0, f.n, one, "one")

    f.loop(0, f.n, row, "identity")


def _eliminate(f: _Factor, k: Value, info: Lanes, product: Lanes, first: Value) -> list[Lanes]:
    """Swap the row with the largest element of column k up, and subtract it from those below; the product of pivots and signs grows."""
    e, after = f.e, f.e.add(k, number(1))
    start = f.a.get(k, k)

    def larger(i: Value, top: Lanes, row: Lanes) -> list[Lanes]:
        size = f.a.get(i, k).absolute()
        found = size > top
        return [select(found, size, top), select(found, f.whole(i), row)]

    _, chosen = f.fold(after, f.n, [start.absolute(), f.whole(k)], larger, "search")
    _swap(f, k, after, chosen)
    if f.spec.kind == "lu" and 1 in f.spec.parts:
        base = e.offset(f["t1"], e.mul(first, f.n), "i32")
        f.scatter(chosen + 1, base, f.each_lane(f.n), k)
    pivot = f.a.get(k, k)
    zero = pivot.equals(0.0)
    info = f.noted(info, zero, k)
    inverse = 1.0 / select(zero, f.constant(1.0), pivot)

    def rows(which: list[Value]) -> None:
        factors = [f.a.get(i, k) * inverse for i in which]
        for i, factor in zip(which, factors, strict=True):
            f.a.set(factor, i, k)

        def element(j: Value) -> None:
            common = f.a.get(k, j)
            for i, factor in zip(which, factors, strict=True):
                f.a.set(f.a.get(i, j) - factor * common, i, j)

        f.loop(after, f.columns, element, "subtract")

    f.neighbours(after, f.n, rows, "rows")
    product = product * pivot
    return [info, select(chosen.equals(f.whole(k)), product, -product)]


def _swap(f: _Factor, k: Value, after: Value, chosen: Lanes) -> None:
    """Swap row k with each lane's chosen one."""
    e = f.e

    def with_row(i: Value) -> None:
        here = chosen.equals(f.whole(i))
        swap, done = e.fresh_label("swap"), e.fresh_label("swapped")
        e.branch_if(any_lane(here), swap, done)
        e.label(swap)

        def element(j: Value) -> None:
            up, down = f.a.get(k, j), f.a.get(i, j)
            f.a.set(select(here, down, up), k, j)
            f.a.set(select(here, up, down), i, j)

        f.loop(0, f.columns, element, "element")
        e.branch(done)
        e.label(done)

    f.loop(after, f.n, with_row, "candidate")


# -- QR -----------------------------------------------------------------------------------------------------
@cache
def lane_qr(spec: FactorSpec, vectors: int) -> FactorKernel:
    """Householder's reflections from the first column on; Q is their product, made from the last one on."""
    f = _Factor(spec, vectors, "m")
    e = f.e
    q, tau = Table(f, 1, f.a.columns), Table(f, 2)
    rank = f.m if spec["complete"] else f.least()

    def reflect(k: Value) -> None:
        after = e.add(k, number(1))
        top = f.fold(k, f.m, [f.constant(0.0)], lambda i, t: [t.intrinsic("maxnum", f.a.get(i, k).absolute())], "largest")[0]
        power = power_of_two(top)
        scale = 1.0 / power
        alpha = f.a.get(k, k) * scale
        (square,) = together(f, after, f.m, 1, lambda i, s: [_plus_square(f.a.get(i, k) * scale, s[0])])
        flat = square.equals(0.0)
        beta = select(flat, alpha, -fma(alpha, alpha, square).square_root().with_sign_of(alpha))
        factor = select(flat, f.constant(0.0), scale / (alpha - beta))
        own = select(flat, f.constant(0.0), (beta - alpha) / beta)
        tau.set(own, k)
        f.loop(after, f.m, lambda i: f.a.set(f.a.get(i, k) * factor, i, k), "normal")
        _apply(f, f.a, k, own, after, f.n)
        f.a.set(beta * power, k, k)

    def block(first: Value) -> None:
        f.open(first)
        f.read(f.a, 0, first, f.m, f.n)
        f.loop(0, f.least(), reflect, "reflection")
        inside = lambda i, j: Lanes(e, e.splat(e.compare("sle", i, j), f.width))  # noqa: E731
        f.write(1, first, rank, f.n, lambda i, j: select(inside(i, j), f.a.get(i, j), f.constant(0.0)))
        if 0 in spec.parts:
            f.loop(0, f.m, lambda i: f.loop(0, rank, lambda j: q.set(_one(f, i, j), i, j), "unit"), "identity")
            f.down(0, f.least(), lambda k: _apply(f, q, k, tau.get(k), k, rank), "product")
            f.write(0, first, f.m, rank, q.get)

    return f.kernel(f.each(block, f.width), ("mm", "mm", "line"), lambda z: 6 * z.m * z.n * max(z.m, z.n))


def _one(f: _Factor, i: Value, j: Value) -> Lanes:
    return select(f.whole(i).equals(f.whole(j)), f.constant(1.0), 0.0)


def _apply(f: _Factor, table: Table, k: Value, tau: Lanes, begin: Value, end: Value) -> None:
    """Reflection k, whose vector stands below the diagonal of column k of ``a``, on columns of a table."""
    after = f.e.add(k, number(1))

    def columns(which: list[Value]) -> None:
        def term(i: Value, sums: list[Lanes]) -> list[Lanes]:
            v = f.a.get(i, k)
            return [fma(v, table.get(i, j), s) for j, s in zip(which, sums, strict=True)]

        sums = together(f, after, f.m, len(which), term)
        totals = [tau * (table.get(k, j) + s) for j, s in zip(which, sums, strict=True)]
        for j, total in zip(which, totals, strict=True):
            table.set(table.get(k, j) - total, k, j)

        def element(i: Value) -> None:
            v = f.a.get(i, k)
            for j, total in zip(which, totals, strict=True):
                table.set(table.get(i, j) - v * total, i, j)

        f.loop(after, f.m, element, "reflect")

    f.neighbours(begin, end, columns, "columns")
