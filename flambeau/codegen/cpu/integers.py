"""Integer division, remainder, powers and shifts that never trap and never give an undefined value."""

from __future__ import annotations

from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.codegen.cpu.lanes import Lanes, select
from flambeau.core.dtypes import dtype


def truncdiv(e: Emitter, operand: dtype, a: Value, b: Value) -> Value:
    """Quotient rounded toward zero; 0 for a zero divisor, and the least integer / -1 wraps to itself."""
    x, y = Lanes(e, a), Lanes(e, b)
    quotient = _quotient(x, y, operand)
    if operand.is_signed:
        quotient = select(y.equals(-1), -x, quotient)
    return select(y.equals(0), 0, quotient).value


def remainder(e: Emitter, operand: dtype, a: Value, b: Value) -> Value:
    """What truncdiv leaves, with the sign of ``a``; 0 for a zero divisor."""
    x, y = Lanes(e, a), Lanes(e, b)
    rest = x - Lanes(e, truncdiv(e, operand, a, b)) * y
    return select(y.equals(0), 0, rest).value


def _quotient(x: Lanes, y: Lanes, operand: dtype) -> Lanes:
    """The quotient wherever it is defined and fits; some defined value elsewhere."""
    # A float quotient of p bits truncates to the right integer when the dividend has fewer than p bits.
    if operand.itemsize < 8 and x.width > 1:
        wide = "float" if operand.itemsize < 4 else "double"
        convert, back = ("sitofp", "fptosi") if operand.is_signed else ("uitofp", "fptoui")
        divisor = select(y.equals(0), 1, y)
        ratio = x.convert(convert, wide) / divisor.convert(convert, wide)
        if operand.itemsize < 4:
            return ratio.convert("fptosi", "i32").convert("trunc", operand.llvm)
        # the only quotient out of range is 2^31, which truncdiv replaces
        return ratio.at_most(2.0**31 - 1).convert(back, operand.llvm)
    if not operand.is_signed:
        return x.binary("udiv", select(y.equals(0), 1, y))
    # -1 is handled by negation: the least integer / -1 would trap
    return x.binary("sdiv", select(y.equals(0) | y.equals(-1), 1, y))


def shift_left(e: Emitter, operand: dtype, a: Value, b: Value) -> Value:
    """``a << b``; 0 for a count that is negative or not below the width."""
    count = Lanes(e, b)
    inside = _below_width(count, operand)
    return select(inside, Lanes(e, a).binary("shl", select(inside, count, 0)), 0).value


def shift_right(e: Emitter, operand: dtype, a: Value, b: Value) -> Value:
    """``a >> b`` with the sign kept; only the sign is left for a count that is negative or not below the width."""
    count = Lanes(e, b)
    if operand.is_signed:
        last = 8 * operand.itemsize - 1
        return Lanes(e, a).binary("ashr", Lanes(e, e.intrinsic("umin", b, e.like(last, b)))).value
    inside = _below_width(count, operand)
    return select(inside, Lanes(e, a).binary("lshr", select(inside, count, 0)), 0).value


def _below_width(count: Lanes, operand: dtype) -> Lanes:
    bound = count.e.like(8 * operand.itemsize, count.value)
    return Lanes(count.e, count.e.compare("ult", count.value, bound))


def power(e: Emitter, operand: dtype, a: Value, b: Value) -> Value:
    """``a ** b`` modulo 2^bits by squaring; a negative exponent gives the truncated reciprocal (1, -1 or 0)."""
    base, exponent = Lanes(e, a), Lanes(e, b)
    one = base.like(1)
    used = _bits_in_use(e, b)
    leading = e.intrinsic("ctlz", used, Value("false", "i1"))
    rounds = e.sub(e.const(8 * operand.itemsize, used.kind), leading)
    stop = rounds if rounds.kind == "i64" else e.convert("zext", rounds, "i64")

    def square(_: Value, carried: list[Value]) -> list[Value]:
        result, factor, left = (Lanes(e, v) for v in carried)
        odd = (left & 1).compare("ne", 0)
        step = select(odd, result * factor, result)
        return [step.value, (factor * factor).value, left.shift_right_logical(1).value]

    result = Lanes(e, e.loop(e.const(0, "i64"), stop, 1, [one.value, a, b], square, "power")[0])
    if not operand.is_signed:
        return result.value
    parity = select((exponent & 1).equals(0), one, -1)
    reciprocal = select(base.equals(1), 1, select(base.equals(-1), parity, 0))
    return select(exponent < 0, reciprocal, result).value


def _bits_in_use(e: Emitter, value: Value) -> Value:
    """The ``or`` of all lanes."""
    return value if value.width == 1 else e.call(value.kind, f"llvm.vector.reduce.or.v{value.width}{value.kind}", value)
