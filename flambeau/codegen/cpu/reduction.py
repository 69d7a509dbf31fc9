"""How reductions start, combine two partial results and fold the lanes of a vector, in a fixed order."""

from __future__ import annotations

from flambeau.codegen.cpu.emitter import FLOAT_KINDS, Emitter, Value
from flambeau.core.dtypes import dtype

KINDS = ("sum", "prod", "max", "min", "any", "all")


def identity(kind: str, operand: dtype) -> float | int | bool:
    """The value that leaves ``combine`` unchanged: 0 for sum, -inf or the least integer for max, and so on."""
    if kind in ("any", "all"):
        return kind == "all"
    if kind in ("sum", "prod"):
        return operand.numpy.type(kind == "prod").item()
    if kind not in KINDS:
        raise KeyError(f"reduction kind {kind!r} is not one of {', '.join(KINDS)}")
    if operand.is_floating_point:
        return float("-inf") if kind == "max" else float("inf")
    if operand.category == "bool":
        return kind == "min"
    bits = 8 * operand.itemsize
    if operand.is_signed:
        return -(1 << (bits - 1)) if kind == "max" else (1 << (bits - 1)) - 1
    return 0 if kind == "max" else (1 << bits) - 1


def combine(e: Emitter, kind: str, operand: dtype, a: Value, b: Value) -> Value:
    """One step of a reduction over values of ``operand``; max and min give NaN when either side is NaN.

    ``any`` and ``all`` take i1; on bool, sum and max are ``or``, prod and min are ``and``.
    """
    if a.kind == "i1":
        return e.binary("or" if kind in ("sum", "max", "any") else "and", a, b)
    if kind in ("sum", "prod"):
        return e.arithmetic("add" if kind == "sum" else "mul", a, b)
    if kind in ("max", "min"):
        return extremum(e, kind, operand, a, b)
    raise KeyError(f"reduction {kind!r} of {operand} is not defined: any and all take bool")


def extremum(e: Emitter, kind: str, operand: dtype, a: Value, b: Value) -> Value:
    """The larger (``max``) or smaller (``min``) of two values; NaN when either is NaN."""
    if a.kind not in FLOAT_KINDS:
        return e.intrinsic(("s" if operand.is_signed else "u") + kind, a, b)
    # An ordered compare picks b when either is NaN, which is what maxps and minps do: only a NaN in a is left.
    picked = e.select(e.compare("ogt" if kind == "max" else "olt", a, b), a, b)
    return e.select(e.compare("uno", a, a), a, picked)


def horizontal(e: Emitter, kind: str, operand: dtype, vector: Value) -> Value:
    """Fold all lanes into a scalar: upper half onto lower half, again and again (always the same order)."""
    while vector.width > 1:
        half = vector.width // 2
        if half == 1:
            return combine(e, kind, operand, e.extract(vector, 0), e.extract(vector, 1))
        poison = Value("poison", vector.kind, vector.width)
        low = e.shuffle(vector, poison, range(half))
        high = e.shuffle(vector, poison, range(half, 2 * half))
        vector = combine(e, kind, operand, low, high)
    return vector
