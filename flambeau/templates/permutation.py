"""The kernel that turns the row swaps of a factorization into a permutation."""

from __future__ import annotations

from functools import cache

from flambeau.codegen.cpu.emitter import Value
from flambeau.templates.factor_kernel import FactorFrame, FactorKernel, FactorSpec, number

__all__ = ["permutation_kernel"]


@cache
def permutation_kernel(spec: FactorSpec) -> FactorKernel:
    """Swaps (int32, from 1 on, ``n`` of them) to the row that each of ``m`` rows comes from (int64).

    A swap with a row outside is one with the nearest row.
    """
    f = FactorFrame(spec, "permutation")
    e = f.e

    def one(at: Value) -> None:
        swaps, out = e.offset(f["s0"], e.mul(at, f.n), "i32"), e.offset(f["t0"], e.mul(at, f.m), "i64")
        f.repeat(f.m, lambda i: e.store(i, e.offset(out, i, "i64")), "start")

        def swap(k: Value) -> None:
            row = e.convert("sext", e.load(e.offset(swaps, k, "i32"), "i32"), "i64")
            row = e.intrinsic("smax", e.intrinsic("smin", e.sub(row, number(1)), e.sub(f.m, number(1))), number(0))
            first, second = e.offset(out, k, "i64"), e.offset(out, row, "i64")
            values = e.load(first, "i64"), e.load(second, "i64")
            e.store(values[1], first)
            e.store(values[0], second)

        f.repeat(e.intrinsic("smin", f.n, f.m), swap, "swap")

    text = f.each(one)
    return FactorKernel(spec, f.name, text, (), (), lambda z: 0, lambda z: 2.0 * (z.m + z.n))
