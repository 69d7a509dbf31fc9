"""Kernels for running sums, products, maxima and minima along the middle axis of contiguous [outer, n, inner] memory."""

from __future__ import annotations

from functools import cache

from flambeau.codegen.cpu.casts import cast
from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.codegen.cpu.reduction import combine, identity
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.templates.row_kernel import RowFrame, RowKernel, number, prefix

__all__ = ["row_scan"]

_KINDS = ("sum", "prod", "max", "min")
# Vectors side by side along the inner axis: enough independent chains to hide an addition's latency.
_VECTORS = 4


@cache
def row_scan(kind: str, element: dtype, vector_bits: int, features: frozenset[str]) -> RowKernel:
    """The kernel that writes to ``out`` the running ``sum``, ``prod``, ``max`` or ``min`` of ``x``, both of ``element``.

    float32 sums and products are accumulated in float64 and rounded once an element. Maxima and minima are NaN from the first NaN
    on; integers wrap around. A row's result does not depend on the other rows or on chunks.
    Raises KeyError for another kind, NotImplementedError for bool, complex and 16-bit float types.

    >>> from flambeau.core import dtypes
    >>> row_scan("sum", dtypes.float32, 512, frozenset({"avx512f"})).name
    'scan_sum_float32'
    """
    if kind not in _KINDS:
        raise KeyError(f"row_scan: kind {kind!r} is not one of {', '.join(_KINDS)}")
    if not (element.is_integer or element in (dtypes.float32, dtypes.float64)):
        raise NotImplementedError(f"row_scan: {element} has no running {kind}; cast to an integer type, float32 or float64 first.")
    writer = _Writer(Emitter(features), kind, element, vector_bits)
    name = f"scan_{kind}_{element.name}"
    frame = RowFrame(writer.e, name)
    frame.iterations(writer.block, lambda outer, first: writer.iteration(frame, outer, first))
    text = writer.e.module(f'nounwind "prefer-vector-width"="{vector_bits}"')
    step = 0.8 if writer.row_width == 1 else 0.2 + 2 / writer.row_width
    lane = 0.1 * element.itemsize

    def nanoseconds(n: int, inner: int) -> float:
        return 15 + n * (step if inner == 1 else 1 + lane * min(inner, writer.block))

    return RowKernel(name, text, writer.block, nanoseconds, lambda n, inner: 0)


class _Writer:
    """Writes the body of one kernel."""

    def __init__(self, e: Emitter, kind: str, element: dtype, vector_bits: int) -> None:
        self.e = e
        self.kind = kind
        self.element = element
        rounds = kind in ("sum", "prod") and element.is_floating_point
        self.sums = dtypes.float64 if rounds else element
        self.width = vector_bits // (8 * self.sums.itemsize)
        # In float64 nothing wider hides what a regrouped product or sum can do: overflow where one by one there is none.
        self.row_width = 1 if rounds and element is dtypes.float64 else self.width
        self.block = _VECTORS * self.width

    # -- steps ----------------------------------------------------------------------------------------------
    def start(self, width: int) -> Value:
        return self.e.const(identity(self.kind, self.sums), self.sums.llvm, width)

    def load(self, pointer: Value, width: int, mask: Value | None) -> Value:
        e, size = self.e, self.element.itemsize
        if mask is None:
            value = e.load(pointer, self.element.llvm, width, align=size)
        else:
            value = e.masked_load(pointer, self.element.llvm, mask, align=size)
        return cast(e, self.element, self.sums, value)

    def store(self, value: Value, pointer: Value, mask: Value | None) -> None:
        value = cast(self.e, self.sums, self.element, value)
        if mask is None:
            self.e.store(value, pointer, align=self.element.itemsize)
        else:
            self.e.masked_store(value, pointer, mask, align=self.element.itemsize)

    def first_lanes(self, count: Value, width: int) -> Value:
        e = self.e
        return e.compare("slt", e.lanes("i64", width), e.splat(count, width))

    def iteration(self, frame: RowFrame, outer: Value, first: Value) -> None:
        e, kind = self.e, self.element.llvm
        row, lanes, done = (e.fresh_label(stem) for stem in ("row", "lanes", "done"))
        base = e.add(e.mul(outer, e.mul(frame.n, frame.inner)), first)
        x, out = e.offset(frame.x, base, kind), e.offset(frame.out, base, kind)
        e.branch_if(e.compare("eq", frame.inner, number(1)), row, lanes)
        e.label(row)
        self.along_row(x, out, frame.n)
        e.branch(done)
        e.label(lanes)
        self.along_lanes(x, out, frame.n, frame.inner, e.sub(frame.inner, first))
        e.branch(done)
        e.label(done)

    # -- inner == 1: vectors lie along the row ----------------------------------------------------------------
    def along_row(self, x: Value, out: Value, n: Value) -> None:
        e, width = self.e, self.row_width

        def step(index: Value, carried: Value, mask: Value | None) -> Value:
            inside = prefix(e, self.kind, self.sums, self.load(e.offset(x, index, self.element.llvm), width, mask))
            running = combine(e, self.kind, self.sums, carried, inside)
            self.store(running, e.offset(out, index, self.element.llvm), mask)
            return running if width == 1 else e.shuffle(running, Value("poison", running.kind, width), [width - 1] * width)

        whole = e.binary("and", n, number(-width))
        (carried,) = e.loop(number(0), whole, width, [self.start(width)], lambda i, v: [step(i, v[0], None)], "along")
        if width == 1:
            return
        rest, end = e.fresh_label("rest"), e.fresh_label("end")
        e.branch_if(e.compare("slt", whole, n), rest, end)
        e.label(rest)
        step(whole, carried, self.first_lanes(e.sub(n, whole), width))
        e.branch(end)
        e.label(end)

    # -- inner > 1: vectors lie along the inner axis, one running value a lane ----------------------------------
    def along_lanes(self, x: Value, out: Value, n: Value, inner: Value, left: Value) -> None:
        e = self.e
        full, part, end = (e.fresh_label(stem) for stem in ("full", "part", "end"))
        e.branch_if(e.compare("sge", left, number(self.block)), full, part)
        e.label(full)
        self.down(x, out, n, inner, _VECTORS, None)
        e.branch(end)
        e.label(part)

        def vector(lane: Value, _: list[Value]) -> list[Value]:
            mask = self.first_lanes(e.sub(left, lane), self.width)
            self.down(e.offset(x, lane, self.element.llvm), e.offset(out, lane, self.element.llvm), n, inner, 1, mask)
            return []

        e.loop(number(0), left, self.width, [], vector, "vector")
        e.branch(end)
        e.label(end)

    def down(self, x: Value, out: Value, n: Value, inner: Value, vectors: int, mask: Value | None) -> None:
        e, kind = self.e, self.element.llvm

        def step(index: Value, carried: list[Value]) -> list[Value]:
            at = e.mul(index, inner)
            source, target = e.offset(x, at, kind), e.offset(out, at, kind)
            values = [self.load(e.offset(source, k * self.width, kind), self.width, mask) for k in range(vectors)]
            results = [combine(e, self.kind, self.sums, a, b) for a, b in zip(carried, values, strict=True)]
            for k, result in enumerate(results):
                self.store(result, e.offset(target, k * self.width, kind), mask)
            return results

        e.loop(number(0), n, 1, [self.start(self.width)] * vectors, step, "down")
