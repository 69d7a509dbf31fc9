"""Factorizations by LAPACK, one matrix after another; a batch is spread over threads.

LAPACK stores matrices by columns, so a matrix stored by rows is to it the transpose. Triangles and inverses need no more than other
names for that; other matrices are turned on the way in and out, in a thread's own memory. Eigenvectors and singular vectors are, so that
their signs are those that other callers of LAPACK get.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.templates.factor_kernel import FactorFrame, FactorKernel, FactorSpec, Sizes, number

__all__ = ["lapack_kernel"]

_TILE = 16
_BLOCK = 64  # LAPACK's block sizes are at most that


class _Lapack(FactorFrame):
    """A frame with what calls of LAPACK need."""

    def __init__(self, spec: FactorSpec, name: str) -> None:
        super().__init__(spec, name)
        e = self.e
        self._info = Value(e.fresh("info"), "ptr")
        e.emit(f"{self._info.text} = alloca i32")
        self._words = {}
        for slot in ("m", "n", "k", "work", "least"):
            value = e.intrinsic("smax", self.least() if slot == "least" else self[slot], number(1))
            self._words["ld" + slot] = self._kept(e.convert("trunc", value, "i32"))
            plain = self.least() if slot == "least" else self[slot]
            self._words[slot] = self._kept(e.convert("trunc", plain, "i32"))
        iwork = e.add(e.mul(self.n, number(5)), number(3))
        self._words["iwork"] = self._kept(e.convert("trunc", iwork, "i32"))
        rwork = e.add(iwork, e.mul(number(2), e.mul(self.n, self.n)))
        self._words["rwork"] = self._kept(e.convert("trunc", rwork, "i32"))
        self._words["single"] = self._kept(e.const(1, "i32"))
        one = Value(f"<{self.real} 1.0, {self.real} 0.0>", self.real, 2) if spec.is_complex else e.const(1.0, self.kind)
        self._words["one"] = self._kept(one)
        for letter in "LUNVSAR":
            self._words[letter] = self._kept(e.const(ord(letter), "i8"))

    def _kept(self, value: Value) -> Value:
        """A place in memory that holds the value: LAPACK takes everything by address."""
        pointer = Value(self.e.fresh("word"), "ptr")
        self.e.emit(f"{pointer.text} = alloca {value.type}")
        self.e.store(value, pointer)
        return pointer

    def call(self, function: int, *operands: str | Value, info: bool = True) -> Value:
        """Call function ``function`` of the kernel; returns what it leaves in its last operand, info, where it has one.

        Operands are addresses, letters, or the names of what `_kept` holds.
        """
        e = self.e
        letters = sum(isinstance(o, str) and o.isupper() for o in operands)
        pointers = [self._words[o] if isinstance(o, str) else o for o in operands]
        e.store(e.const(0, "i32"), self._info)
        given = [*map(str, [*pointers, self._info] if info else pointers), *["i64 1"] * letters]
        e.emit(f"call void {self[f'f{function}'].text}({', '.join(given)})")
        return e.load(self._info, "i32")

    def turn(self, target: Value, source: Value, rows: Value, columns: Value) -> None:
        """Store the transpose of a matrix of so many rows and columns, in tiles of some rows."""
        e = self.e

        def tile(first: Value) -> None:
            last = e.intrinsic("smin", e.add(first, number(_TILE)), rows)

            def column(c: Value) -> None:
                line = e.offset(target, e.mul(c, rows), self.kind)
                start = e.offset(source, c, self.kind)

                def element(r: Value) -> None:
                    value = e.load(e.offset(start, e.mul(r, columns), self.kind), self.kind)
                    e.store(value, e.offset(line, r, self.kind))

                self.repeat(last, element, "element", first)

            self.repeat(columns, column, "column")

        self.repeat(rows, tile, "tile", step=_TILE)

    def copy(self, target: Value, source: Value, count: Value) -> None:
        """Store ``count`` elements."""
        e, width = self.e, self.spec.vector_bits // (8 * self.spec.element.itemsize)
        count = e.mul(count, number(2)) if self.spec.is_complex else count
        whole = e.binary("and", count, number(-width))

        def several(i: Value, lanes: int) -> None:
            e.store(e.load(e.offset(source, i, self.real), self.real, lanes), e.offset(target, i, self.real))

        self.repeat(whole, lambda i: several(i, width), "vector", step=width)
        self.repeat(count, lambda i: several(i, 1), "rest", whole)

    def triangle(self, target: Value, source: Value, rows: Value, columns: Value, upper: bool, strides: tuple[Value, Value]) -> None:
        """Store a triangle by rows, with zeros on its other side; ``strides`` are the source's."""
        e = self.e

        def row(r: Value) -> None:
            def element(c: Value) -> None:
                at = e.add(e.mul(r, strides[0]), e.mul(c, strides[1]))
                value = e.load(e.offset(source, at, self.kind), self.kind)
                inside = e.compare("sle", *((r, c) if upper else (c, r)))
                value = e.select(inside, value, e.const(0, self.kind))
                e.store(value, e.offset(target, e.add(e.mul(r, columns), c), self.kind))

            self.repeat(columns, element, "entry")

        self.repeat(rows, row, "row")

    def finish(self, info: Value, at: Value, part: int) -> None:
        """Give ``info`` out as a part, and report it."""
        if part in self.spec.parts:
            self.e.store(info, self.e.offset(self[f"t{part}"], at, "i32"))
        self.report(info, at)


def _turned(upper: object) -> str:
    """Which triangle LAPACK has to be told of a matrix stored by rows."""
    return "L" if upper else "U"


# -- bodies: each works on one matrix ---------------------------------------------------------------------------
def _cholesky(f: _Lapack, at: Value) -> None:
    square, upper = f.e.mul(f.n, f.n), bool(f.spec["upper"])
    out = f.result(0, at, square, 0)
    f.triangle(out, f.source(0, at, square), f.n, f.n, upper, (f.n, number(1)))
    f.finish(f.call(0, _turned(upper), "n", out, "ldn"), at, 1)


def _triangular_solve(f: _Lapack, at: Value) -> None:
    """X A = B of the transposed matrices, in place."""
    e = f.e
    count = e.mul(f.n, f.k)
    out = f.result(0, at, count, 0)
    f.copy(out, f.source(1, at, count), count)
    letters = "R", _turned(f.spec["upper"]), "N", "U" if f.spec["unit"] else "N"
    f.call(0, *letters, "k", "n", "one", f.source(0, at, e.mul(f.n, f.n)), "ldn", out, "ldk", info=False)


def _lu(f: _Lapack, at: Value) -> None:
    size = f.e.mul(f.m, f.n)
    f.turn(f.piece(0), f.source(0, at, size), f.m, f.n)
    pivots = f.result(1, at, f.least(), 1, "i32")
    info = f.call(0, "m", "n", f.piece(0), "ldm", pivots)
    if 0 in f.spec.parts:
        f.turn(f.result(0, at, size, 0), f.piece(0), f.n, f.m)
    if 3 in f.spec.parts:
        for i, value in enumerate(_determinant(f, pivots)):
            f.e.store(value, f.e.offset(f.result(3, at, number(1), 0), i, f.real))
    f.finish(info, at, 2)


def _determinant(f: _Lapack, pivots: Value) -> list[Value]:
    """The determinant, or its real and imaginary parts."""
    e, parts = f.e, 2 if f.spec.is_complex else 1

    def factor(k: Value, values: list[Value]) -> list[Value]:
        place = e.offset(f.piece(0), e.mul(k, e.add(f.m, number(1))), f.kind)
        found = _product(e, values, [e.load(e.offset(place, i, f.real), f.real) for i in range(parts)])
        row = e.convert("sext", e.load(e.offset(pivots, k, "i32"), "i32"), "i64")
        return [e.select(e.compare("eq", row, e.add(k, number(1))), v, e.neg(v)) for v in found]

    return e.loop(number(0), f.least(), 1, [e.const(1.0 - i, f.real) for i in range(parts)], factor, "factor")


def _product(e: Emitter, a: list[Value], b: list[Value]) -> list[Value]:
    if len(a) == 1:
        return [e.mul(a[0], b[0])]
    return [e.sub(e.mul(a[0], b[0]), e.mul(a[1], b[1])), e.add(e.mul(a[0], b[1]), e.mul(a[1], b[0]))]


def _solve(f: _Lapack, at: Value) -> None:
    e = f.e
    square, count = e.mul(f.n, f.n), e.mul(f.n, f.k)
    f.turn(f.piece(0), f.source(0, at, square), f.n, f.n)
    f.turn(f.piece(1), f.source(1, at, count), f.n, f.k)
    info = f.call(0, "n", "k", f.piece(0), "ldn", f.piece(2), f.piece(1), "ldn")
    if 0 in f.spec.parts:
        f.turn(f.result(0, at, count, 0), f.piece(1), f.k, f.n)
    f.finish(info, at, 1)


def _inverse(f: _Lapack, at: Value) -> None:
    """The transpose's inverse is the inverse's transpose."""
    square = f.e.mul(f.n, f.n)
    out = f.result(0, at, square, 2)
    f.copy(out, f.source(0, at, square), square)
    f.call(0, "n", "n", out, "ldn", f.piece(0))
    f.finish(f.call(1, "n", out, "ldn", f.piece(0), f.piece(1), "work"), at, 1)


def _eigh(f: _Lapack, at: Value) -> None:
    square, vectors = f.e.mul(f.n, f.n), 1 in f.spec.parts
    f.turn(f.piece(0), f.source(0, at, square), f.n, f.n)
    values = f.result(0, at, f.n, 3, f.real)
    operands = "V" if vectors else "N", "L" if f.spec["lower"] else "U", "n", f.piece(0), "ldn", values
    info = f.call(0, *operands, f.piece(1), "work", *((f.piece(4), "rwork") if f.spec.is_complex else ()), f.piece(2), "iwork")
    info = f.e.select(_ends_with_nan(f, values), f.e.const(1, "i32"), info)  # LAPACK finds fault with NaN only now and then
    if vectors:
        f.turn(f.result(1, at, square, 0), f.piece(0), f.n, f.n)
    f.report(info, at)


def _ends_with_nan(f: _Lapack, values: Value) -> Value:
    """Whether there are values and the last one is NaN."""
    e = f.e
    some = e.compare("sgt", f.n, number(0))
    # Without values there is no memory for them either.
    place = e.select(some, e.offset(values, e.sub(f.n, number(1)), f.real), f.piece(3))
    last = e.load(place, f.real)
    return e.binary("and", e.compare("uno", last, last), some)


def _eig(f: _Lapack, at: Value) -> None:
    """Vectors of conjugate values come as one real and one imaginary part, side by side."""
    e, square = f.e, f.e.mul(f.n, f.n)
    f.turn(f.piece(0), f.source(0, at, square), f.n, f.n)
    if f.spec.is_complex:
        operands = "n", f.piece(0), "ldn", f.result(0, at, f.n, 1), f.piece(3), "single", f.piece(4), "ldn", f.piece(5), "work", f.piece(6)
        f.report(f.call(0, "N", "V" if 2 in f.spec.parts else "N", *operands), at)
        if 2 in f.spec.parts:
            f.turn(f.result(2, at, square, 0), f.piece(4), f.n, f.n)
        return
    real, imaginary = f.result(0, at, f.n, 1), f.result(1, at, f.n, 2)
    job = "V" if {2, 3} & set(f.spec.parts) else "N"
    operands = "n", f.piece(0), "ldn", real, imaginary, f.piece(3), "single", f.piece(4), "ldn", f.piece(5), "work"
    f.report(f.call(0, "N", job, *operands), at)
    if job == "N":
        return
    zero = e.const(0.0, f.kind)

    def column(j: Value) -> None:
        value = e.load(e.offset(imaginary, j, f.kind), f.kind)
        first, second = e.compare("ogt", value, zero), e.compare("olt", value, zero)
        sign = e.select(first, e.const(1.0, f.kind), e.select(second, e.const(-1.0, f.kind), zero))
        shifts = e.sub(j, e.convert("zext", second, "i64")), e.add(j, e.convert("zext", first, "i64"))
        for part, shift, factor in ((2, shifts[0], None), (3, shifts[1], sign)):
            if part in f.spec.parts:
                _spread(f, f.result(part, at, square, 0), j, e.offset(f.piece(4), e.mul(shift, f.n), f.kind), factor)

    f.repeat(f.n, column, "vector")


def _spread(f: _Lapack, target: Value, j: Value, line: Value, factor: Value | None) -> None:
    """Column j of the target becomes a line, times a factor."""
    e = f.e

    def element(i: Value) -> None:
        value = e.load(e.offset(line, i, f.kind), f.kind)
        e.store(value if factor is None else e.mul(value, factor), e.offset(target, e.add(e.mul(i, f.n), j), f.kind))

    f.repeat(f.n, element, "component")


def _svd(f: _Lapack, at: Value) -> None:
    e, full = f.e, f.spec["full"]
    least, size = f.least(), f.e.mul(f.m, f.n)
    f.turn(f.piece(0), f.source(0, at, size), f.m, f.n)
    job = "N" if f.spec.parts == (1,) else "A" if full else "S"
    values = f.result(1, at, least, 3, f.real)
    operands = f.piece(0), "ldm", values, f.piece(1), "ldm", f.piece(2), "ldn" if full else "ldleast", f.piece(4), "work"
    info = f.call(0, job, "m", "n", *operands, *((f.piece(6),) if f.spec.is_complex else ()), f.piece(5))
    rows, columns = (f.n, f.m) if full else (least, least)
    if 0 in f.spec.parts:
        f.turn(f.result(0, at, e.mul(f.m, columns), 0), f.piece(1), columns, f.m)
    if 2 in f.spec.parts:
        f.turn(f.result(2, at, e.mul(rows, f.n), 0), f.piece(2), f.n, rows)
    f.report(info, at)


def _qr(f: _Lapack, at: Value) -> None:
    e = f.e
    rank = f.m if f.spec["complete"] else f.least()
    f.turn(f.piece(0), f.source(0, at, e.mul(f.m, f.n)), f.m, f.n)
    f.call(0, "m", "n", f.piece(0), "ldm", f.piece(1), f.piece(2), "work")
    if 1 in f.spec.parts:
        f.triangle(f.result(1, at, e.mul(rank, f.n), 0), f.piece(0), rank, f.n, True, (number(1), f.m))
    if 0 in f.spec.parts:
        name = "m" if f.spec["complete"] else "least"
        f.call(1, "m", name, "least", f.piece(0), "ldm", f.piece(1), f.piece(2), "work")
        f.turn(f.result(0, at, e.mul(f.m, rank), 0), f.piece(0), rank, f.m)


def _geqrf(f: _Lapack, at: Value) -> None:
    size = f.e.mul(f.m, f.n)
    f.turn(f.piece(0), f.source(0, at, size), f.m, f.n)
    f.call(0, "m", "n", f.piece(0), "ldm", f.result(1, at, f.least(), 1), f.piece(2), "work")
    if 0 in f.spec.parts:
        f.turn(f.result(0, at, size, 0), f.piece(0), f.n, f.m)


def _ldl(f: _Lapack, at: Value) -> None:
    square = f.e.mul(f.n, f.n)
    f.triangle(f.piece(3), f.source(0, at, square), f.n, f.n, False, (f.n, number(1)))
    f.turn(f.piece(0), f.piece(3), f.n, f.n)
    info = f.call(0, "L", "n", f.piece(0), "ldn", f.result(1, at, f.n, 1, "i32"), f.piece(2), "work")
    if 0 in f.spec.parts:
        f.turn(f.result(0, at, square, 0), f.piece(0), f.n, f.n)
    f.finish(info, at, 2)


def _ldl_solve(f: _Lapack, at: Value) -> None:
    e = f.e
    square, count = e.mul(f.n, f.n), e.mul(f.n, f.k)
    f.turn(f.piece(0), f.source(0, at, square), f.n, f.n)
    f.turn(f.piece(1), f.source(1, at, count), f.n, f.k)
    pivots = e.offset(f["s2"], e.mul(at, f.n), "i32")
    f.call(0, "L", "n", "k", f.piece(0), "ldn", pivots, f.piece(1), "ldn")
    f.turn(f.result(0, at, count, 0), f.piece(1), f.k, f.n)


# -- what each calls and needs ----------------------------------------------------------------------------------
_Count = Callable[[Sizes], int]


class _Body:
    """``write`` emits the calls of ``symbols``. A matrix takes ``square`` nanoseconds for each element and some for ``operations``;
    ``pieces`` are bytes of a thread's memory by sizes and the bytes of an element, ``work`` the elements of LAPACK's own."""

    def __init__(
        self, write: Callable[[_Lapack, Value], None], symbols: tuple[str, ...], square: float, operations: Callable[[Sizes], float],
        work: _Count = lambda z: 0, *pieces: Callable[[Sizes, int], int],
    ) -> None:  # fmt: skip
        self.write, self.symbols, self.square, self.operations = write, symbols, square, operations
        self.work, self.pieces = work, pieces


def _eigh_work(z: Sizes) -> int:
    return 1 + 6 * z.n + 2 * z.n * z.n + _BLOCK * z.n


def _svd_work(z: Sizes) -> int:
    return 5 * z.least * z.least + 11 * z.least + _BLOCK * (z.m + z.n)


_BODIES = {
    "cholesky": _Body(_cholesky, ("potrf",), 2, lambda z: z.n**3 / 3, lambda z: 0, lambda z, size: size * z.n * z.n),
    "triangular_solve": _Body(_triangular_solve, ("trsm",), 0.3, lambda z: z.n * z.n * z.k),
    "lu": _Body(
        _lu, ("getrf",), 5, lambda z: z.m * z.n * z.least, lambda z: 0, lambda z, size: size * z.m * z.n, lambda z, size: 4 * z.least
    ),
    "solve": _Body(
        _solve, ("gesv",), 5, lambda z: z.n**3 * 2 / 3 + 2 * z.n * z.n * z.k, lambda z: 0,
        lambda z, size: size * z.n * z.n, lambda z, size: size * z.n * z.k, lambda z, size: 4 * z.n,
    ),
    "inverse": _Body(
        _inverse, ("getrf", "getri"), 8, lambda z: 2 * z.n**3, lambda z: _BLOCK * z.n,
        lambda z, size: 4 * z.n, lambda z, size: size * _BLOCK * z.n, lambda z, size: size * z.n * z.n,
    ),
    "eigh": _Body(
        _eigh, ("syevd",), 80, lambda z: 9 * z.n**3, _eigh_work, lambda z, size: size * z.n * z.n, lambda z, size: size * _eigh_work(z),
        lambda z, size: 4 * (3 + 5 * z.n), lambda z, size: size * z.n,
    ),
    "eig": _Body(
        _eig, ("geev",), 300, lambda z: 25 * z.n**3, lambda z: _BLOCK * z.n, lambda z, size: size * z.n * z.n, lambda z, size: size * z.n,
        lambda z, size: size * z.n, lambda z, size: size, lambda z, size: size * z.n * z.n, lambda z, size: size * _BLOCK * z.n,
    ),
    "svd": _Body(
        _svd, ("gesdd",), 150, lambda z: 20 * z.m * z.n * z.least, _svd_work, lambda z, size: size * z.m * z.n,
        lambda z, size: size * z.m * z.m, lambda z, size: size * z.n * z.n, lambda z, size: size * z.least,
        lambda z, size: size * _svd_work(z), lambda z, size: 32 * z.least,
    ),
    "qr": _Body(
        _qr, ("geqrf", "orgqr"), 20, lambda z: 4 * z.m * z.n * z.least, lambda z: _BLOCK * max(z.m, z.n),
        lambda z, size: size * z.m * max(z.m, z.n), lambda z, size: size * z.least, lambda z, size: size * _BLOCK * max(z.m, z.n),
    ),
    "geqrf": _Body(
        _geqrf, ("geqrf",), 10, lambda z: 2 * z.m * z.n * z.least, lambda z: _BLOCK * z.n,
        lambda z, size: size * z.m * z.n, lambda z, size: size * z.least, lambda z, size: size * _BLOCK * z.n,
    ),
    "ldl": _Body(
        _ldl, ("sytrf",), 8, lambda z: z.n**3, lambda z: _BLOCK * z.n, lambda z, size: size * z.n * z.n, lambda z, size: 4 * z.n,
        lambda z, size: size * _BLOCK * z.n, lambda z, size: size * z.n * z.n,
    ),
    "ldl_solve": _Body(
        _ldl_solve, ("sytrs",), 2, lambda z: 2 * z.n * z.n * z.k, lambda z: 0,
        lambda z, size: size * z.n * z.n, lambda z, size: size * z.n * z.k,
    ),
}  # fmt: skip


# What LAPACK calls the functions of complex matrices differently, and the real numbers that these need besides.
_COMPLEX_NAMES = {"syevd": "heevd", "orgqr": "ungqr"}
_HERMITIAN_NAMES = {"sytrf": "hetrf", "sytrs": "hetrs"}
_REAL_WORK: dict[str, _Count] = {
    "eigh": lambda z: 3 + 5 * z.n + 2 * z.n * z.n, "eig": lambda z: 2 * z.n,
    "svd": lambda z: 7 * z.least + 5 * z.least * z.least + 2 * max(z.m, z.n) * z.least,
}  # fmt: skip


@cache
def lapack_kernel(spec: FactorSpec) -> FactorKernel:
    """The kernel that calls LAPACK for each matrix of a batch.

    >>> from flambeau.core import dtypes
    >>> lapack_kernel(FactorSpec("lu", dtypes.float64, 1, (0, 1), (("wide", False),), 512, frozenset())).symbols
    ('dgetrf_',)
    """
    kind, size = spec.kind.removeprefix("complex_"), spec.element.itemsize
    body = _BODIES[kind]
    name = f"{spec.kind}_{spec.element.name}"
    frame = _Lapack(spec, name)
    text = frame.each(lambda at: body.write(frame, at))
    names, counts = list(body.symbols), list(body.pieces)
    if spec.is_complex:
        changed = _COMPLEX_NAMES | (_HERMITIAN_NAMES if dict(spec.attributes).get("hermitian") else {})
        names, size = [changed.get(symbol, symbol) for symbol in names], 2 * size
        if kind in _REAL_WORK:
            counts.append(lambda z, size: size // 2 * _REAL_WORK[kind](z))
    symbols = tuple(f"{spec.letter}{symbol}_" for symbol in names)
    pieces = tuple((lambda z, piece=piece: max(1, piece(z, size))) for piece in counts)

    def nanoseconds(z: Sizes) -> float:
        return 100 + body.square * z.m * z.n + body.operations(z) * size / 60

    return FactorKernel(spec, name, text, symbols, pieces, lambda z: max(1, body.work(z)), nanoseconds)
