"""Conversions between element types in registers, with torch's results on x86 and no undefined values."""

from __future__ import annotations

import math

from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.codegen.cpu.lanes import Lanes, select
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype


def cast(e: Emitter, source: dtype, target: dtype, value: Value) -> Value:
    """``value`` of type ``source`` as ``target``, in its register kind.

    Out of range or NaN: float to int32 and the narrower signed types goes through int32, whose answer is the least
    integer; float to int64 and the unsigned types through int64 in the same way. Integers reach the smaller floats through float32.
    """
    if source is target:
        return value
    x = Lanes(e, value)
    if source.category == "bool":
        return _from_bool(x, target).value
    if target.category == "bool":
        return _to_bool(x, source).value
    if source.is_floating_point:
        x = widen(x, source)
        return (_float_to_float(x, target) if target.is_floating_point else _float_to_integer(x, target)).value
    if target.is_floating_point:
        kind = "float" if target.is_float8 else target.compute.llvm
        return _float_to_float(x.convert("sitofp" if source.is_signed else "uitofp", kind), target).value
    if target.itemsize == source.itemsize:
        return value
    if target.itemsize < source.itemsize:
        return x.convert("trunc", target.llvm).value
    return x.convert("sext" if source.is_signed else "zext", target.llvm).value


def widen(x: Lanes, source: dtype) -> Lanes:
    """A 16-bit float as float; float and double stay."""
    if source is dtypes.float16:
        return x.convert("fpext", "float")
    if source is dtypes.bfloat16:
        return x.convert("zext", "i32").shift_left(16).convert("bitcast", "float")
    if source is dtypes.float8_e5m2:  # the upper half of a float16
        return x.convert("zext", "i16").shift_left(8).convert("bitcast", "half").convert("fpext", "float")
    if source is dtypes.float8_e4m3fn:  # as a float16, whose exponents are 8 lower; all ones are NaN
        bits = x.convert("zext", "i16")
        half = (bits & 0x7F).shift_left(7) | (bits & 0x80).shift_left(8)
        wide = half.convert("bitcast", "half").convert("fpext", "float") * 256.0
        return select((bits & 0x7F).equals(0x7F), math.nan, wide)
    return x


def _from_bool(x: Lanes, target: dtype) -> Lanes:
    if not target.is_floating_point:
        return x.convert("zext", target.llvm)
    if target is dtypes.bfloat16:
        return x.convert("zext", "i32").convert("uitofp", "float").bits().shift_right_logical(16).convert("trunc", "i16")
    if target.is_float8:
        return _float_to_float(x.convert("uitofp", "float"), target)
    return Lanes(x.e, x.e.select(x.value, x.e.const(1, target.llvm, x.width), x.e.const(0, target.llvm, x.width)))


def _to_bool(x: Lanes, source: dtype) -> Lanes:
    if source is dtypes.bfloat16:  # all bits but the sign
        return x.shift_left(1).compare("ne", 0)
    x = widen(x, source)
    return Lanes(x.e, x.e.compare("une" if source.is_floating_point else "ne", x.value, x.other(0)))


def _float_to_float(x: Lanes, target: dtype) -> Lanes:
    if x.kind == target.llvm:
        return x
    if target is dtypes.float64:
        return x.convert("fpext", "double")
    if x.kind == "double":  # the 16-bit floats are reached through float, as in torch
        x = x.convert("fptrunc", "float")
    if target is dtypes.float16:
        return x.convert("fptrunc", "half")
    if target.is_float8:
        return _round_to_float8(x, target)
    return _round_to_bfloat16(x) if target is dtypes.bfloat16 else x


def _round_to_bfloat16(x: Lanes) -> Lanes:
    """Round to nearest even on the bits; a NaN gives the quiet NaN 0x7fc0."""
    bits = x.bits()
    odd = bits.shift_right_logical(16) & 1
    rounded = (bits + odd + 0x7FFF).shift_right_logical(16)
    return select(x.is_nan(), 0x7FC0, rounded).convert("trunc", "i16")


def _round_to_float8(x: Lanes, target: dtype) -> Lanes:
    """Round to nearest even: e4m3fn ends at its largest number, e5m2 at infinity; a NaN gives 0x7f."""
    mantissa, bias, most = (3, 7, 0x7E) if target is dtypes.float8_e4m3fn else (2, 15, 0x7C)
    size, lost = x.absolute(), 23 - mantissa
    # Adding a number whose last digit is the least one that is wanted rounds what is below the normal numbers.
    start = 2.0 ** (1 - bias - mantissa + 23)
    tiny = (size + start).bits() - size.like(start).bits()
    bits = size.bits()
    odd = bits.shift_right_logical(lost) & 1
    normal = (bits + odd + ((1 << (lost - 1)) - 1 - ((127 - bias) << 23))).shift_right(lost)
    code = select(size < 2.0 ** (1 - bias), tiny, normal).intrinsic("smin", most)
    sign = x.bits().shift_right_logical(24) & 0x80
    return (select(x.is_nan(), 0x7F, code) | sign).convert("trunc", "i8")


def _float_to_integer(x: Lanes, target: dtype) -> Lanes:
    if target is dtypes.uint64:  # the upper half of its numbers is reached from 2**63 on
        upper = x >= 2.0**63
        low = _float_to_integer(select(upper, x - 2.0**63, x), dtypes.int64)
        return select(upper, low ^ -(1 << 63), low)
    bits = 64 if target is dtypes.int64 or not target.is_signed else 32
    bound = 2.0 ** (bits - 1)
    # fptosi is undefined out of range; the least integer is what the x86 instruction gives there
    inside = select(x.absolute() < bound, x, -bound)
    wide = inside.convert("fptosi", f"i{bits}")
    return wide if wide.kind == target.llvm else wide.convert("trunc", target.llvm)


def bitcast(e: Emitter, source: dtype, target: dtype, value: Value) -> Value:
    """The same bits as another type of equal size; bool counts as one byte that holds 0 or 1."""
    if source.itemsize != target.itemsize or source.is_complex or target.is_complex:
        raise NotImplementedError(
            f"bitcast from {source} to {target}: only types of one size have a pointwise bitcast; view the memory instead"
        )
    if source.category == "bool" or target.category == "bool":
        return cast(e, source, target, value)
    return value if source.llvm == target.llvm else e.convert("bitcast", value, target.llvm)
