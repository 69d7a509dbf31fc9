"""Kernels for discrete Fourier transforms of rows of complex numbers, any length: Stockham passes and Bluestein's chirp.

A row is taken apart into its real and imaginary parts, so that vectors hold one kind of part. What depends on the length (passes,
roots of unity, chirp) is data, see `fourier_plan`: one kernel serves all lengths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.core.dtypes import dtype
from flambeau.templates.fourier_plan import HEADER, PASS_WORDS, RADICES, SHORT_STEPS, factors_of, padded_length
from flambeau.templates.row_kernel import SLOTS, RowFrame, RowKernel, cache_line_multiple, number

__all__ = ["row_fourier"]

Complex = tuple[Value, Value]


@cache
def row_fourier(element: dtype, form: str, vector_bits: int, features: frozenset[str]) -> RowKernel:
    """The kernel that writes to ``out`` the transforms of the rows of ``x``, of ``element``, float32 or float64.

    Forms: "forward" and "inverse" of [outer, n, 2]; "real" from [outer, n] to [outer, n // 2 + 1, 2]; "hermitian" back from that.

    The slot after `SLOTS` holds the address of the plan for n, which says what results are multiplied by. The inverse transform is
    the forward one with real and imaginary parts in each other's place.
    """
    name = f"fourier_{form}_{element.name}"
    writer = _Writer(Emitter(features), name, element, form, vector_bits)
    text = writer.write(f'nounwind "prefer-vector-width"="{vector_bits}"')

    def nanoseconds(n: int, inner: int) -> float:
        n = n // 2 if form in ("real", "hermitian") and n % 2 == 0 else n
        length = padded_length(n)
        passes = len(factors_of(length) or ())
        return 50 + length * element.itemsize / 4 * (0.6 + 0.5 * passes * (1 if length == n else 2))

    def scratch_bytes(n: int, inner: int) -> int:
        n = n // 2 if form in ("real", "hermitian") and n % 2 == 0 else n
        return 4 * cache_line_multiple((padded_length(n) + 1) * element.itemsize)

    return RowKernel(name, text, 1, nanoseconds, scratch_bytes)


class _Writer:
    """Writes a routine for each kind of pass, then the kernel that calls them."""

    def __init__(self, e: Emitter, name: str, element: dtype, form: str, vector_bits: int) -> None:
        self.e = e
        self.name = name
        self.form = form
        self.order = (1, 0) if form in ("inverse", "hermitian") else (0, 1)
        self.kind = element.llvm
        self.size = element.itemsize
        self.lanes = vector_bits // (8 * element.itemsize)

    def write(self, attributes: str) -> str:
        for radix in RADICES:
            for step in (*SHORT_STEPS, 0):
                if step < self.lanes:
                    self.routine(radix, step)
        self.kernel()
        return self.e.module(attributes)

    # -- complex arithmetic -----------------------------------------------------------------------------
    def add(self, a: Complex, b: Complex) -> Complex:
        return self.e.add(a[0], b[0]), self.e.add(a[1], b[1])

    def sub(self, a: Complex, b: Complex) -> Complex:
        return self.e.sub(a[0], b[0]), self.e.sub(a[1], b[1])

    def turned(self, a: Complex, b: Complex, sign: int) -> Complex:
        """a + sign * i * b."""
        e = self.e
        return (e.sub(a[0], b[1]), e.add(a[1], b[0])) if sign > 0 else (e.add(a[0], b[1]), e.sub(a[1], b[0]))

    def weighted(self, start: Complex | None, *terms: tuple[float, Complex]) -> Complex:
        """start + the sum of factor * value."""
        e = self.e
        parts: list[Value] = []
        for k in (0, 1):
            total = None if start is None else start[k]
            for factor, value in terms:
                weight = e.like(factor, value[k])
                total = e.mul(weight, value[k]) if total is None else e.fma(weight, value[k], total)
            assert total is not None
            parts.append(total)
        return parts[0], parts[1]

    def product(self, a: Complex, b: Complex) -> Complex:
        e = self.e
        b = e.splat(b[0], a[0].width), e.splat(b[1], a[0].width)
        real = e.fma(a[0], b[0], e.neg(e.mul(a[1], b[1])))
        return real, e.fma(a[0], b[1], e.mul(a[1], b[0]))

    def butterfly(self, x: Sequence[Complex]) -> list[Complex]:
        """The transform of 2, 3, 4 or 5 numbers."""
        if len(x) == 2:
            return [self.add(*x), self.sub(*x)]
        if len(x) == 3:
            a, b, c = x
            both, apart = self.add(b, c), self.weighted(None, (math.sqrt(0.75), self.sub(b, c)))
            middle = self.weighted(a, (-0.5, both))
            return [self.add(a, both), self.turned(middle, apart, -1), self.turned(middle, apart, 1)]
        if len(x) == 4:
            a, b, c, d = x
            even, odd, low, high = self.add(a, c), self.add(b, d), self.sub(a, c), self.sub(b, d)
            return [self.add(even, odd), self.turned(low, high, -1), self.sub(even, odd), self.turned(low, high, 1)]
        a, b, c, d, f = x
        (c1, s1), (c2, s2) = ((math.cos(t), math.sin(t)) for t in (0.4 * math.pi, 0.8 * math.pi))
        near, far, near_gap, far_gap = self.add(b, f), self.add(c, d), self.sub(b, f), self.sub(c, d)
        first, second = self.weighted(a, (c1, near), (c2, far)), self.weighted(a, (c2, near), (c1, far))
        one, two = self.weighted(None, (s1, near_gap), (s2, far_gap)), self.weighted(None, (s2, near_gap), (-s1, far_gap))
        return [
            self.add(a, self.add(near, far)), self.turned(first, one, -1), self.turned(second, two, -1), self.turned(second, two, 1),
            self.turned(first, one, 1),
        ]  # fmt: skip

    # -- passes -----------------------------------------------------------------------------------------
    def load(self, arrays: Complex, at: Value, width: int, mask: Value | None = None) -> Complex:
        e = self.e
        pointers = [e.offset(a, at, self.kind) for a in arrays]
        if mask is None:
            found = [e.load(p, self.kind, width, align=self.size) for p in pointers]
        else:
            found = [e.masked_load(p, self.kind, mask, align=self.size) for p in pointers]
        return found[0], found[1]

    def store(self, value: Complex, arrays: Complex, at: Value, mask: Value | None = None) -> None:
        e = self.e
        for part, array in zip(value, arrays, strict=True):
            pointer = e.offset(array, at, self.kind)
            if mask is None:
                e.store(part, pointer, align=self.size)
            else:
                e.masked_store(part, pointer, mask, align=self.size)

    def routine(self, radix: int, step: int) -> None:
        """One pass: x at q + s * (p + m * k) for k below the radix gives y at q + s * (radix * p + j), for all p < m and q < s.

        With a ``step`` s is that and shorter than a vector, which holds several p; else vectors lie along q.
        """
        e = self.e
        e.begin(f"define internal void @pass_{radix}_{step}(ptr %xr, ptr %xi, ptr %yr, ptr %yi, i64 %m, i64 %s, ptr %roots) #0")
        x, y = (Value("%xr", "ptr"), Value("%xi", "ptr")), (Value("%yr", "ptr"), Value("%yi", "ptr"))
        m, s = Value("%m", "i64"), Value("%s", "i64")
        if step:
            self.short_step(radix, step, x, y, e.mul(m, s))
        else:
            self.long_step(radix, x, y, m, s)
        e.emit("ret void")
        e.end()

    def long_step(self, radix: int, x: Complex, y: Complex, m: Value, s: Value) -> None:
        e, lanes = self.e, self.lanes
        stride = e.mul(m, s)
        whole = e.binary("and", s, number(-lanes))

        def group(p: Value, _: list[Value]) -> list[Value]:
            roots = e.offset(Value("%roots", "ptr"), e.mul(p, number(2 * (radix - 1))), self.kind)
            factors = [self.load((roots, e.offset(roots, 1, self.kind)), number(2 * j), 1) for j in range(radix - 1)]
            source, target = e.mul(p, s), e.mul(e.mul(p, s), number(radix))

            def step(q: Value, mask: Value | None) -> None:
                start = e.add(source, q)
                values = [self.load(x, e.add(start, e.mul(stride, number(k))), lanes, mask) for k in range(radix)]
                for j, value in enumerate(self.butterfly(values)):
                    value = self.product(value, factors[j - 1]) if j else value
                    self.store(value, y, e.add(e.add(target, q), e.mul(s, number(j))), mask)

            e.loop(number(0), whole, lanes, [], lambda q, _: [] if step(q, None) is None else [], "along")
            self.when(e.compare("slt", whole, s), lambda: step(whole, self.first_lanes(e.sub(s, whole))))
            return []

        e.loop(number(0), m, 1, [], group, "group")

    def short_step(self, radix: int, step: int, x: Complex, y: Complex, count: Value) -> None:
        e, lanes = self.e, self.lanes
        roots = Value("%roots", "ptr")

        def results(t: Value, width: int) -> list[Complex]:
            values = [self.load(x, e.add(t, e.mul(count, number(k))), width) for k in range(radix)]
            out = self.butterfly(values)
            for j in range(1, radix):
                row = e.offset(roots, e.mul(count, number(2 * (j - 1))), self.kind)
                out[j] = self.product(out[j], self.load((row, e.offset(row, count, self.kind)), t, width))
            return out

        def vectors(t: Value, _: list[Value]) -> list[Value]:
            found = results(t, lanes)
            at = e.mul(t, number(radix))
            for part, array in ((0, y[0]), (1, y[1])):
                ordered = self.interleaved([f[part] for f in found], step)
                for k, value in enumerate(ordered):
                    e.store(value, e.offset(array, e.add(at, number(k * lanes)), self.kind), align=self.size)
            return []

        def single(t: Value, _: list[Value]) -> list[Value]:
            p = e.binary("udiv", t, number(step))
            at = e.add(e.sub(t, e.mul(p, number(step))), e.mul(p, number(step * radix)))
            for j, value in enumerate(results(t, 1)):
                self.store(value, y, e.add(at, number(j * step)))
            return []

        whole = e.binary("and", count, number(-lanes))
        e.loop(number(0), whole, lanes, [], vectors, "vectors")
        e.loop(whole, count, 1, [], single, "single")

    def interleaved(self, vectors: Sequence[Value], step: int) -> list[Value]:
        """Runs of ``step`` lanes from each vector in turn, as vectors of the same length."""
        lanes, radix = self.lanes, len(vectors)
        order = [(j, p * step + q) for p in range(lanes // step) for j in range(radix) for q in range(step)]
        return [self.gathered(vectors, order[k * lanes : (k + 1) * lanes]) for k in range(radix)]

    def gathered(self, vectors: Sequence[Value], lanes: Sequence[tuple[int, int]]) -> Value:
        """The lanes (vector, lane) as one vector, two vectors at a time."""
        width = self.lanes
        used = sorted({j for j, _ in lanes})
        out = vectors[used[0]]
        done = {used[0]}
        mask = [lane if j == used[0] else -1 for j, lane in lanes]
        for j in used[1:]:
            mask = [width + lane if of == j else (m if of in done else 0) for (of, lane), m in zip(lanes, mask, strict=True)]
            out = self.e.shuffle(out, vectors[j], mask)
            done.add(j)
            mask = list(range(width))
        return out if len(used) > 1 else self.e.shuffle(out, out, mask)

    # -- the kernel -------------------------------------------------------------------------------------
    def when(self, condition: Value, body: Callable[[], None]) -> None:
        e = self.e
        inside, after = e.fresh_label("then"), e.fresh_label("after")
        e.branch_if(condition, inside, after)
        e.label(inside)
        body()
        e.branch(after)
        e.label(after)

    def first_lanes(self, count: Value) -> Value:
        return self.e.compare("slt", self.e.lanes("i64", self.lanes), self.e.splat(count, self.lanes))

    def kernel(self) -> None:
        e = self.e
        frame = RowFrame(e, self.name)
        plan = e.load(e.offset(Value("%args", "ptr"), len(SLOTS), "i64"), "ptr", align=8)
        words = [e.load(e.offset(plan, k, "i64"), "i64", align=8) for k in range(HEADER)]
        passes, length, chirped, chirp_at, spectrum_at, scale_at, base, joins_at = words
        numbers = e.offset(plan, e.add(number(HEADER), e.mul(passes, number(PASS_WORDS))), "i64")
        room = e.binary("and", e.add(e.mul(e.add(length, number(1)), number(self.size)), number(63)), number(-64))
        parts = [frame.scratch]
        for _ in range(3):
            parts.append(e.offset(parts[-1], room, "i8"))
        chirp, spectrum = (self.halves(e.offset(numbers, at, self.kind), n) for at, n in ((chirp_at, base), (spectrum_at, length)))
        joins = self.halves(e.offset(numbers, joins_at, self.kind), e.add(base, number(1)))
        self.scale = e.load(e.offset(numbers, scale_at, self.kind), self.kind, align=self.size)
        is_chirped, is_halved = (e.compare("ne", word, number(0)) for word in (chirped, joins_at))

        def run(values: Sequence[Value]) -> list[Value]:
            return self.passes(passes, plan, numbers, values)

        def straight() -> Complex:
            real, imaginary, _, _ = run(parts)
            return real, imaginary

        def convolved() -> Complex:
            self.multiply((parts[0], parts[1]), chirp, base)
            self.clear((parts[0], parts[1]), base, length)
            there = run(parts)
            self.multiply((there[0], there[1]), spectrum, length)
            # The way back is the way there with real and imaginary parts in each other's place.
            imaginary, real, _, _ = run([there[1], there[0], there[3], there[2]])
            self.multiply((real, imaginary), chirp, base)
            return real, imaginary

        half = e.add(e.binary("lshr", frame.n, number(1)), number(1))
        of_pairs, of_half = e.mul(frame.n, number(2)), e.mul(half, number(2))
        strides = {"real": (frame.n, of_half), "hermitian": (of_half, frame.n)}.get(self.form, (of_pairs, of_pairs))

        def iteration(outer: Value, first: Value) -> None:
            source, target = (e.offset(p, e.mul(outer, stride), self.kind) for p, stride in zip((frame.x, frame.out), strides, strict=True))
            arrays = parts[0], parts[1]
            if self.form == "real":
                self.either(is_halved, lambda: self.take_apart(source, arrays, base), lambda: self.take_real(source, arrays, base))
            elif self.form == "hermitian":
                split = lambda: self.split_halves(source, arrays, joins, base)  # noqa: E731
                self.either(is_halved, split, lambda: self.take_half(source, arrays, base))
            else:
                self.take_apart(source, arrays, base)
            found = self.choose(is_chirped, convolved, straight)
            if self.form == "real":
                join = lambda: self.join_halves(found, target, joins, base)  # noqa: E731
                self.either(is_halved, join, lambda: self.put_together(found, target, half))
            elif self.form == "hermitian":
                put = lambda: self.put_together(found, target, base)  # noqa: E731
                self.either(is_halved, put, lambda: self.put_real(found, target, base))
            else:
                self.put_together(found, target, base)

        frame.iterations(1, iteration)

    def halves(self, start: Value, count: Value) -> Complex:
        return start, self.e.offset(start, count, self.kind)

    def either(self, condition: Value, yes: Callable[[], None], no: Callable[[], None]) -> None:
        e = self.e
        labels = [e.fresh_label(stem) for stem in ("yes", "no", "after")]
        e.branch_if(condition, labels[0], labels[1])
        for label, body in zip(labels, (yes, no), strict=False):
            e.label(label)
            body()
            e.branch(labels[2])
        e.label(labels[2])

    def choose(self, condition: Value, yes: Callable[[], Complex], no: Callable[[], Complex]) -> Complex:
        """The pointers that one of two ways leads to."""
        e = self.e
        found: list[tuple[Complex, str]] = []
        self.either(condition, lambda: found.append((yes(), e.block)), lambda: found.append((no(), e.block)))
        out = Value(e.fresh("real"), "ptr"), Value(e.fresh("imaginary"), "ptr")
        for k in (0, 1):
            ways = ", ".join(f"[ {pointers[k].text}, %{block} ]" for pointers, block in found)
            e.emit(f"{out[k].text} = phi ptr {ways}")
        return out

    def passes(self, count: Value, plan: Value, numbers: Value, parts: Sequence[Value]) -> list[Value]:
        """All passes over arrays (real, imaginary, and two for results); returns them as they lie at the end."""
        e = self.e

        def one(index: Value, values: list[Value]) -> list[Value]:
            row = e.offset(plan, e.add(number(HEADER), e.mul(index, number(PASS_WORDS))), "i64")
            code, m, s, at = (e.load(e.offset(row, k, "i64"), "i64", align=8) for k in range(PASS_WORDS))
            roots = e.offset(numbers, at, self.kind)
            kinds = [(k, f"pass_{r}_{step}") for k, (r, step) in enumerate((r, st) for r in RADICES for st in (*SHORT_STEPS, 0))
                     if step < self.lanes]  # fmt: skip
            labels = {k: e.fresh_label("pass") for k, _ in kinds}
            after = e.fresh_label("passed")
            cases = " ".join(f"i64 {k}, label %{label}" for k, label in labels.items())
            e.emit(f"switch i64 {code.text}, label %{after} [ {cases} ]")
            arguments = ", ".join(map(str, (*values, m, s, roots)))
            for k, routine in kinds:
                e.label(labels[k])
                e.emit(f"call void @{routine}({arguments})")
                e.branch(after)
            e.label(after)
            return [values[2], values[3], values[0], values[1]]

        return e.loop(number(0), count, 1, parts, one, "passes")

    def along(self, count: Value, body: Callable[[Value, int], None], start: Value | None = None) -> None:
        """``body(index, width)`` over ``start`` to ``count``, by vectors and then one by one."""
        e = self.e
        start = start or number(0)
        whole = e.add(start, e.binary("and", e.sub(count, start), number(-self.lanes)))
        e.loop(start, whole, self.lanes, [], lambda i, _: [] if body(i, self.lanes) is None else [], "by_vectors")
        e.loop(whole, count, 1, [], lambda i, _: [] if body(i, 1) is None else [], "one_by_one")

    def take_apart(self, source: Value, arrays: Complex, n: Value) -> None:
        e = self.e

        def body(i: Value, width: int) -> None:
            at = e.offset(source, e.mul(i, number(2)), self.kind)
            pair = [e.load(e.offset(at, k * width, self.kind), self.kind, width, align=self.size) for k in (0, 1)]
            if width > 1:
                pair = [e.shuffle(pair[0], pair[1], range(k, 2 * width, 2)) for k in (0, 1)]
            self.store((pair[self.order[0]], pair[self.order[1]]), arrays, i)

        self.along(n, body)

    def put_together(self, arrays: Complex, target: Value, n: Value) -> None:
        e = self.e

        def body(i: Value, width: int) -> None:
            found = self.load(arrays, i, width)
            self.put_pair([e.mul(found[k], e.splat(self.scale, width)) for k in self.order], target, i)

        self.along(n, body)

    def put_pair(self, pair: Sequence[Value], target: Value, at: Value) -> None:
        """Real and imaginary parts one beside the other."""
        e, width = self.e, pair[0].width
        if width > 1:
            order = [lane + part * width for lane in range(width) for part in (0, 1)]
            pair = [e.shuffle(pair[0], pair[1], order[k * width : (k + 1) * width]) for k in (0, 1)]
        start = e.offset(target, e.mul(at, number(2)), self.kind)
        for k in (0, 1):
            e.store(pair[k], e.offset(start, k * width, self.kind), align=self.size)

    # -- real rows --------------------------------------------------------------------------------------
    def take_real(self, source: Value, arrays: Complex, n: Value) -> None:
        """A real row with imaginary parts of 0."""
        e = self.e

        def body(i: Value, width: int) -> None:
            real = e.load(e.offset(source, i, self.kind), self.kind, width, align=self.size)
            self.store((real, e.like(0.0, real)), arrays, i)

        self.along(n, body)

    def put_real(self, arrays: Complex, target: Value, n: Value) -> None:
        e = self.e

        def body(i: Value, width: int) -> None:
            real = self.load(arrays, i, width)[self.order[0]]
            e.store(e.mul(real, e.splat(self.scale, width)), e.offset(target, i, self.kind), align=self.size)

        self.along(n, body)

    def take_half(self, source: Value, arrays: Complex, n: Value) -> None:
        """A row of odd length from its first half: what follows are the conjugates in reverse. The first one is real."""
        e = self.e
        swapped = arrays[self.order[0]], arrays[self.order[1]]

        def one(k: Value, _: list[Value]) -> list[Value]:
            at = e.offset(source, e.mul(k, number(2)), self.kind)
            real, imaginary = (e.load(e.offset(at, part, self.kind), self.kind, align=self.size) for part in (0, 1))
            first = e.compare("eq", k, number(0))
            imaginary = e.select(first, e.like(0.0, imaginary), imaginary)
            self.store((real, imaginary), swapped, k)
            self.store((real, e.neg(imaginary)), swapped, e.select(first, k, e.sub(n, k)))
            return []

        e.loop(number(0), e.binary("lshr", e.add(n, number(1)), number(1)), 1, [], one, "half")

    def mirrored(self, arrays: Complex, end: Value, width: int) -> Complex:
        """Lane i holds the element at ``end`` - i."""
        e = self.e
        found = self.load(arrays, e.sub(end, number(width - 1)), width)
        if width == 1:
            return found
        order = range(width - 1, -1, -1)
        return e.shuffle(found[0], found[0], order), e.shuffle(found[1], found[1], order)

    def join_halves(self, arrays: Complex, target: Value, joins: Complex, n: Value) -> None:
        """From the transform Z of x[2 j] + i x[2 j + 1], n of them: (Z[k] + conj Z[n - k] - i w^k (Z[k] - conj Z[n - k])) / 2."""
        e = self.e
        self.store(self.load(arrays, number(0), 1), arrays, n)

        def body(k: Value, width: int) -> None:
            (a, b), (c, d) = self.load(arrays, k, width), self.mirrored(arrays, e.sub(n, k), width)
            even = e.add(a, c), e.sub(b, d)
            odd = self.product((e.add(b, d), e.sub(c, a)), self.load(joins, k, width))
            half = e.mul(e.like(0.5, self.scale), self.scale)
            pair = [e.mul(part, e.splat(half, width)) for part in self.add(even, odd)]
            self.put_pair(pair, target, k)

        self.along(e.add(n, number(1)), body)

    def split_halves(self, source: Value, arrays: Complex, joins: Complex, n: Value) -> None:
        """The inverse of `join_halves`, twice as large: X[k] + conj X[n - k] + i conj(w^k) (X[k] - conj X[n - k])."""
        e = self.e
        # In order in the other two arrays, where the ends are made real.
        room = e.sub(self.address(arrays[1]), self.address(arrays[0]))
        rest = e.offset(arrays[1], room, "i8"), e.offset(arrays[1], e.add(room, room), "i8")
        order, self.order = self.order, (0, 1)
        self.take_apart(source, rest, e.add(n, number(1)))
        self.order = order
        zero = e.const(0.0, self.kind)
        for at in (number(0), n):
            e.store(zero, e.offset(rest[1], at, self.kind), align=self.size)

        def body(k: Value, width: int) -> None:
            (a, b), (c, d) = self.load(rest, k, width), self.mirrored(rest, e.sub(n, k), width)
            u, v = self.load(joins, k, width)
            even = e.add(a, c), e.sub(b, d)
            odd = self.product((e.neg(e.add(b, d)), e.sub(a, c)), (u, e.neg(v)))
            found = self.add(even, odd)
            self.store((found[self.order[0]], found[self.order[1]]), arrays, k)

        self.along(n, body)

    def address(self, pointer: Value) -> Value:
        return self.e.convert("ptrtoint", pointer, "i64")

    def multiply(self, arrays: Complex, factors: Complex, count: Value) -> None:
        self.along(count, lambda i, width: self.store(self.product(self.load(arrays, i, width), self.load(factors, i, width)), arrays, i))

    def clear(self, arrays: Complex, start: Value, end: Value) -> None:
        zero = {width: self.e.const(0.0, self.kind, width) for width in (1, self.lanes)}
        self.along(end, lambda i, width: self.store((zero[width], zero[width]), arrays, i), start)
