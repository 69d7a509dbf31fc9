"""A value with its emitter, so that numeric code reads as arithmetic; and the helpers that such code shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from flambeau.codegen.cpu.emitter import FLOAT_KINDS, Emitter, Value


class Format(NamedTuple):
    """A binary float format: its LLVM kind, the integer kind of its bits and the numbers that describe it."""

    kind: str
    integer: str
    mantissa: int  # stored bits
    bias: int

    @property
    def magic(self) -> float:
        """Adding it rounds to an integer, which is then found in the low bits of the sum."""
        return 1.5 * 2.0**self.mantissa

    @property
    def magic_bits(self) -> int:
        return ((self.bias + self.mantissa) << self.mantissa) | (1 << (self.mantissa - 1))

    @property
    def one_bits(self) -> int:
        return self.bias << self.mantissa

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)


FORMATS = {"float": Format("float", "i32", 23, 127), "double": Format("double", "i64", 52, 1023)}


class Lanes:
    """A scalar or vector value bound to its emitter; Python numbers become constants of the same type.

    ``+ - * /`` and the comparisons (ordered for floats, signed for integers) give one instruction each.
    """

    __slots__ = ("e", "value")

    def __init__(self, e: Emitter, value: Value) -> None:
        self.e = e
        self.value = value

    @property
    def kind(self) -> str:
        return self.value.kind

    @property
    def width(self) -> int:
        return self.value.width

    @property
    def format(self) -> Format:
        return FORMATS[self.value.kind]

    def other(self, operand: Lanes | float | int) -> Value:
        return operand.value if isinstance(operand, Lanes) else self.e.like(operand, self.value)

    def like(self, number: float | int | bool) -> Lanes:
        """A constant of this type."""
        return Lanes(self.e, self.e.like(number, self.value))

    def arithmetic(self, name: str, left: Value, right: Value) -> Lanes:
        return Lanes(self.e, self.e.arithmetic(name, left, right))

    def __add__(self, operand: Lanes | float | int) -> Lanes:
        return self.arithmetic("add", self.value, self.other(operand))

    def __sub__(self, operand: Lanes | float | int) -> Lanes:
        return self.arithmetic("sub", self.value, self.other(operand))

    def __rsub__(self, operand: float | int) -> Lanes:
        return self.arithmetic("sub", self.other(operand), self.value)

    def __mul__(self, operand: Lanes | float | int) -> Lanes:
        return self.arithmetic("mul", self.value, self.other(operand))

    def __truediv__(self, operand: Lanes | float | int) -> Lanes:
        return Lanes(self.e, self.e.div(self.value, self.other(operand)))

    def __rtruediv__(self, operand: float | int) -> Lanes:
        return Lanes(self.e, self.e.div(self.other(operand), self.value))

    def __neg__(self) -> Lanes:
        return Lanes(self.e, self.e.neg(self.value))

    def __and__(self, operand: Lanes | int) -> Lanes:
        return self.binary("and", operand)

    def __or__(self, operand: Lanes | int) -> Lanes:
        return self.binary("or", operand)

    def __xor__(self, operand: Lanes | int) -> Lanes:
        return self.binary("xor", operand)

    def binary(self, opcode: str, operand: Lanes | float | int) -> Lanes:
        return Lanes(self.e, self.e.binary(opcode, self.value, self.other(operand)))

    def shift_left(self, count: int) -> Lanes:
        return self.binary("shl", count)

    def shift_right(self, count: int) -> Lanes:
        """Arithmetic shift: the sign is kept."""
        return self.binary("ashr", count)

    def shift_right_logical(self, count: int) -> Lanes:
        return self.binary("lshr", count)

    def compare(self, predicate: str, operand: Lanes | float | int) -> Lanes:
        prefix = "o" if self.kind in FLOAT_KINDS else "" if predicate in ("eq", "ne") else "s"
        return Lanes(self.e, self.e.compare(prefix + predicate, self.value, self.other(operand)))

    def __lt__(self, operand: Lanes | float | int) -> Lanes:
        return self.compare("lt", operand)

    def __le__(self, operand: Lanes | float | int) -> Lanes:
        return self.compare("le", operand)

    def __gt__(self, operand: Lanes | float | int) -> Lanes:
        return self.compare("gt", operand)

    def __ge__(self, operand: Lanes | float | int) -> Lanes:
        return self.compare("ge", operand)

    def equals(self, operand: Lanes | float | int) -> Lanes:
        return self.compare("eq", operand)

    def is_nan(self) -> Lanes:
        return Lanes(self.e, self.e.compare("uno", self.value, self.value))

    def convert(self, opcode: str, kind: str) -> Lanes:
        return Lanes(self.e, self.e.convert(opcode, self.value, kind))

    def bits(self) -> Lanes:
        return self.convert("bitcast", self.format.integer)

    def as_float(self, number_format: Format) -> Lanes:
        """Read integer bits as a float of that format."""
        return self.convert("bitcast", number_format.kind)

    def intrinsic(self, name: str, *operands: Lanes | float | int) -> Lanes:
        return Lanes(self.e, self.e.intrinsic(name, self.value, *(self.other(o) for o in operands)))

    def absolute(self) -> Lanes:
        return self.intrinsic("fabs")

    def square_root(self) -> Lanes:
        return self.intrinsic("sqrt")

    def with_sign_of(self, operand: Lanes) -> Lanes:
        return self.intrinsic("copysign", operand)

    def at_most(self, limit: float) -> Lanes:
        """The smaller of both; a NaN stays (the operand order is that of minps)."""
        bound = self.like(limit)
        return select(bound < self, bound, self)

    def at_least(self, limit: float) -> Lanes:
        """The larger of both; a NaN stays."""
        bound = self.like(limit)
        return select(bound > self, bound, self)


def select(condition: Lanes, yes: Lanes | float | int, no: Lanes | float | int) -> Lanes:
    """``yes`` where the condition holds, else ``no``; at most one of them may be a number."""
    typed = yes if isinstance(yes, Lanes) else no
    assert isinstance(typed, Lanes)
    return Lanes(condition.e, condition.e.select(condition.value, typed.other(yes), typed.other(no)))


def fma(a: Lanes, b: Lanes | float, c: Lanes | float) -> Lanes:
    """``a * b + c``, rounded once where the machine has the instruction (else product and sum each round)."""
    if "fma" in a.e.features:
        return Lanes(a.e, a.e.fma(a.value, a.other(b), a.other(c)))
    return a * b + c


def polynomial(x: Lanes, coefficients: Sequence[float]) -> Lanes:
    """Horner's rule; the highest power's coefficient comes first."""
    result: Lanes | float = coefficients[0]
    for coefficient in coefficients[1:]:
        result = fma(x, result, coefficient)
    assert isinstance(result, Lanes)
    return result


def any_lane(mask: Lanes) -> Value:
    """An i1 scalar: whether the mask holds in at least one lane."""
    if mask.width == 1:
        return mask.value
    word = mask.e.fresh()
    mask.e.emit(f"{word} = bitcast {mask.value} to i{mask.width}")
    return mask.e.compare("ne", Value(word, f"i{mask.width}"), mask.e.const(0, f"i{mask.width}"))


def replace_where(mask: Lanes, usual: Lanes, rare: Callable[[], Lanes]) -> Lanes:
    """``usual``, but ``rare()`` in the lanes of the mask; the rare code is jumped over when no lane needs it."""
    e = mask.e
    inside, after = e.fresh_label("rare"), e.fresh_label("common")
    before, condition = e.block, any_lane(mask)
    e.branch_if(condition, inside, after)
    e.label(inside)
    replaced = select(mask, rare(), usual).value
    last = e.block
    e.branch(after)
    e.label(after)
    out = Value(e.fresh(), replaced.kind, replaced.width)
    e.emit(f"{out.text} = phi {out.type} [ {usual.value.text}, %{before} ], [ {replaced.text}, %{last} ]")
    return Lanes(e, out)


def call_library(name: str, *operands: Lanes) -> Lanes:
    """The C library's double function ``name`` lane by lane; float operands go through double."""
    e, kind, width = operands[0].e, operands[0].kind, operands[0].width
    wide = [o.convert("fpext", "double") if kind == "float" else o for o in operands]
    if width == 1:
        result = Lanes(e, e.call("double", name, *(o.value for o in wide)))
    else:
        vector = Value("poison", "double", width)
        for lane in range(width):
            scalar = e.call("double", name, *(e.extract(o.value, lane) for o in wide))
            out = e.fresh()
            e.emit(f"{out} = insertelement {vector}, {scalar}, i32 {lane}")
            vector = Value(out, "double", width)
        result = Lanes(e, vector)
    return result.convert("fptrunc", "float") if kind == "float" else result


def by_parts(operands: Sequence[Lanes], width: int, function: Callable[..., Lanes]) -> Lanes:
    """Apply ``function`` to consecutive parts of ``width`` lanes and join the results."""
    e, total = operands[0].e, operands[0].width
    if total == width:
        return function(*operands)
    half = total // 2

    def part(operand: Lanes, start: int) -> Lanes:
        poison = Value("poison", operand.kind, total)
        return Lanes(e, e.shuffle(operand.value, poison, range(start, start + half)))

    low = by_parts([part(o, 0) for o in operands], width, function)
    high = by_parts([part(o, half) for o in operands], width, function)
    return Lanes(e, e.shuffle(low.value, high.value, range(total)))
