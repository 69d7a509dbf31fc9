"""Kernels that fill memory with the next numbers of a Mersenne twister's state, in PyTorch's order.

The recurrence and its tempering are those of Matsumoto and Nishimura, "Mersenne Twister", ACM TOMACS 8 (1998); normal numbers
come from the Box-Muller transform. A fill is sequential: each kernel has exactly one chunk.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.codegen.cpu.lanes import Lanes, fma, polynomial, select
from flambeau.codegen.cpu.pointwise import emit_pointwise
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype

__all__ = ["SCRATCH_BYTES", "SLOTS", "RandomFill", "random_fill"]

# Slot 1 is the grain of every kernel and not used here.
SLOTS = ("error", "grain", "state", "out", "count")

_WORDS, _SHIFT, _PADDING = 624, 397, 16
_POSITION, _HAS_NORMAL, _NORMAL = 4 * (_WORDS + _PADDING), 4 * (_WORDS + _PADDING) + 8, 4 * (_WORDS + _PADDING) + 16
# Words that are made at a time, and what a last vector may write past them.
_BLOCK = 1024
SCRATCH_BYTES = 4 * (_BLOCK + _PADDING)
_GROUP = 16

_KINDS = {
    ("uniform", dtypes.float32), ("uniform", dtypes.float64), ("uniform53", dtypes.float64), ("word", dtypes.int64),
    ("normal", dtypes.float32), ("normal", dtypes.float64), ("permutation", dtypes.int64),
}  # fmt: skip


@dataclass(frozen=True)
class RandomFill:
    """The text of one exported function ``name``; launch it with one chunk, `SLOTS` and `SCRATCH_BYTES` bytes of scratch.

    The state at its slot's address is 640 words (the last 16 scratch space), then int64 position, int64 whether a normal number
    is kept, and that number as float64. It is advanced by what was drawn.
    """

    name: str
    text: str
    kind: str
    element: dtype


@cache
def random_fill(kind: str, element: dtype, vector_bits: int, features: frozenset[str]) -> RandomFill:
    """The kernel that writes ``count`` numbers of a kind.

    ``uniform``: [0, 1) with 24 bits (float32, one word) or 53 bits (float64, two words); ``uniform53``: the latter; ``word``:
    int64 holding 32 random bits; ``normal``: mean 0, deviation 1; ``permutation``: 0 .. count - 1 shuffled (int64).
    Raises NotImplementedError for another kind or type.

    >>> from flambeau.core import dtypes
    >>> random_fill("uniform", dtypes.float32, 512, frozenset({"fma", "avx512f"})).name
    'uniform_float32'
    """
    if (kind, element) not in _KINDS:
        raise NotImplementedError(f"random numbers of kind {kind!r} in {element}; draw float32, float64 or int64 and cast them.")
    name = f"{kind}_{element.name}"
    writer = _Writer(Emitter(features), vector_bits // 32)
    writer.twist()
    writer.take_words()
    writer.entry(name, {"uniform": writer.uniform, "uniform53": writer.uniform, "word": writer.word, "normal": writer.normal,
                        "permutation": writer.permutation}[kind], element)  # fmt: skip
    return RandomFill(name, writer.e.module(f'nounwind "prefer-vector-width"="{vector_bits}"'), kind, element)


def _pointer(text: str) -> Value:
    return Value(text, "ptr")


def _number(text: str) -> Value:
    return Value(text, "i64")


class _Writer:
    """Writes the functions of one module; ``width`` is the number of 32-bit lanes in a vector."""

    def __init__(self, e: Emitter, width: int) -> None:
        self.e = e
        self.width = min(width, _PADDING)

    def number(self, value: int) -> Value:
        return self.e.const(value, "i64")

    def byte(self, pointer: Value, offset: int) -> Value:
        return self.e.offset(pointer, offset, "i8")

    def words(self, pointer: Value, index: Value | int, width: int | None = None) -> Lanes:
        return Lanes(self.e, self.e.load(self.e.offset(pointer, index, "i32"), "i32", width or self.width, align=4))

    # -- the twister --------------------------------------------------------------------------------------
    def twist(self) -> None:
        """``@twist(state)``: the next 624 words in place. The padding holds the first new words, so that vectors may run past the end."""
        e = self.e
        e.begin("define internal void @twist(ptr %state) #0")
        state = _pointer("%state")

        def step(start: Value, source: Value) -> Lanes:
            old, following, far = self.words(state, start), self.words(state, e.add(start, self.number(1))), self.words(state, source)
            joined = (old & -0x80000000) | (following & 0x7FFFFFFF)
            odd = select((joined & 1).equals(1), joined.like(-0x66F74F21), 0)
            new = far ^ joined.shift_right_logical(1) ^ odd
            e.store(new.value, e.offset(state, start, "i32"), align=4)
            return new

        first = step(self.number(0), self.number(_SHIFT))
        e.store(first.value, e.offset(state, _WORDS, "i32"), align=4)
        middle = (_WORDS - _SHIFT) // self.width * self.width + self.width

        def lower(index: Value, _: list[Value]) -> list[Value]:
            step(index, e.add(index, self.number(_SHIFT)))
            return []

        def upper(index: Value, _: list[Value]) -> list[Value]:
            step(index, e.sub(index, self.number(_WORDS - _SHIFT)))
            return []

        e.loop(self.number(self.width), self.number(middle), self.width, [], lower, "lower")
        e.loop(self.number(middle), self.number(_WORDS), self.width, [], upper, "upper")
        e.emit("ret void")
        e.end()

    def temper(self, y: Lanes) -> Lanes:
        y = y ^ y.shift_right_logical(11)
        y = y ^ (y.shift_left(7) & -0x62D3A980)
        y = y ^ (y.shift_left(15) & -0x103A0000)
        return y ^ y.shift_right_logical(18)

    def take_words(self) -> None:
        """``@take(state, target, count)``: the next words; up to a vector more is written, undefined, past them."""
        e = self.e
        e.begin("define internal void @take(ptr %state, ptr %target, i64 %count) #0")
        state, target, count = _pointer("%state"), _pointer("%target"), _number("%count")
        place = self.byte(state, _POSITION)
        position = e.load(place, "i64", align=8)
        e.branch("head")
        e.label("head")
        at = len(e.lines)
        done, used = _number("%done"), _number("%used")
        e.branch_if(e.compare("slt", done, count), "more", "finish")
        e.label("more")
        e.branch_if(e.compare("sge", used, self.number(_WORDS)), "refill", "copy")
        e.label("refill")
        e.emit("call void @twist(ptr %state)")
        e.branch("copy")
        e.label("copy")
        start = _number(e.fresh())
        e.emit(f"{start.text} = phi i64 [ {used.text}, %more ], [ 0, %refill ]")
        length = e.intrinsic("smin", e.sub(count, done), e.sub(self.number(_WORDS), start))
        source, goal = e.offset(state, start, "i32"), e.offset(target, done, "i32")

        def move(index: Value, _: list[Value]) -> list[Value]:
            e.store(self.temper(self.words(source, index)).value, e.offset(goal, index, "i32"), align=4)
            return []

        e.loop(self.number(0), length, self.width, [], move, "move")
        after_done, after_used = e.add(done, length), e.add(start, length)
        e.branch("head")
        e.lines[at:at] = [f"  {done.text} = phi i64 [ 0, %entry ], [ {after_done.text}, %{e.block} ]",
                          f"  {used.text} = phi i64 [ {position.text}, %entry ], [ {after_used.text}, %{e.block} ]"]  # fmt: skip
        e.label("finish")
        e.store(used, place, align=8)
        e.emit("ret void")
        e.end()

    def take(self, state: Value, scratch: Value, count: Value) -> None:
        self.e.emit(f"call void @take({state}, {scratch}, {count})")

    # -- the entry ----------------------------------------------------------------------------------------
    def entry(self, name: str, body: Callable[[Value, Value, Value, Value, dtype], None], element: dtype) -> None:
        e = self.e
        e.begin(f"define void @{name}(ptr %args, i64 %chunk, ptr %scratch) #0")
        slots = _pointer("%args")
        state, out = (e.load(e.offset(slots, SLOTS.index(slot), "i64"), "ptr", align=8) for slot in ("state", "out"))
        count = e.load(e.offset(slots, SLOTS.index("count"), "i64"), "i64", align=8)
        body(state, out, count, _pointer("%scratch"), element)
        e.emit("ret void")
        e.end()

    def blocks(self, state: Value, count: Value, scratch: Value, words_each: int, body: Callable[[Value, Value], None]) -> None:
        """``body(first element, elements)`` for blocks of elements, each of ``words_each`` words that lie in scratch."""
        e, size = self.e, _BLOCK // words_each

        def block(first: Value, _: list[Value]) -> list[Value]:
            length = e.intrinsic("smin", e.sub(count, first), self.number(size))
            self.take(state, scratch, e.mul(length, self.number(words_each)))
            body(first, length)
            return []

        e.loop(self.number(0), count, size, [], block, "block")

    def store_first(self, value: Value, pointer: Value, left: Value) -> None:
        """Store the lanes below ``left``."""
        e, width = self.e, value.width
        mask = e.compare("slt", e.lanes("i64", width), e.splat(left, width))
        e.masked_store(value, pointer, mask, align=8 if value.kind in ("double", "i64") else 4)

    # -- uniform numbers and words ------------------------------------------------------------------------
    def uniform(self, state: Value, out: Value, count: Value, scratch: Value, element: dtype) -> None:
        """[0, 1) with as many bits as the type's significand has."""
        single = element is dtypes.float32
        make = self.uniform24 if single else self.uniform53
        self.convert(state, out, count, scratch, element, 1 if single else 2, make)

    def word(self, state: Value, out: Value, count: Value, scratch: Value, element: dtype) -> None:
        def make(source: Value, index: Value, width: int) -> Lanes:
            return self.words(source, index, width).convert("zext", "i64")

        self.convert(state, out, count, scratch, element, 1, make)

    def convert(
        self, state: Value, out: Value, count: Value, scratch: Value, element: dtype, words_each: int,
        make: Callable[[Value, Value, int], Lanes],
    ) -> None:  # fmt: skip
        e, width = self.e, self.width * 4 // element.itemsize

        def block(first: Value, length: Value) -> None:
            target = e.offset(out, first, element.llvm)

            def step(index: Value, _: list[Value]) -> list[Value]:
                value = make(scratch, index, width).value
                self.store_first(value, e.offset(target, index, element.llvm), e.sub(length, index))
                return []

            e.loop(self.number(0), length, width, [], step, "convert")

        self.blocks(state, count, scratch, words_each, block)

    def uniform24(self, source: Value, index: Value, width: int) -> Lanes:
        return (self.words(source, index, width) & 0xFFFFFF).convert("sitofp", "float") * 2.0**-24

    def uniform53(self, source: Value, index: Value, width: int) -> Lanes:
        """Two words an element, the first in the high half."""
        e = self.e
        pair = Lanes(e, e.load(e.offset(source, index, "i64"), "i64", width, align=4))
        joined = pair.shift_left(32) | pair.shift_right_logical(32)
        return (joined & (1 << 53) - 1).convert("sitofp", "double") * 2.0**-53

    # -- normal numbers -----------------------------------------------------------------------------------
    def normal(self, state: Value, out: Value, count: Value, scratch: Value, element: dtype) -> None:
        """Fewer than 16 one by one; else groups of 16, where a remainder is made by drawing the last 16 once more."""
        e = self.e
        e.branch_if(e.compare("slt", count, self.number(_GROUP)), "few", "many")
        e.label("few")
        self.normal_singles(state, out, count, scratch, element)
        e.emit("ret void")
        e.label("many")
        words_each = 1 if element is dtypes.float32 else 2
        rest = e.binary("urem", count, self.number(_GROUP))
        whole = e.sub(count, rest)

        def block(first: Value, length: Value) -> None:
            def group(index: Value, _: list[Value]) -> list[Value]:
                self.normal_group(scratch, index, e.offset(out, e.add(first, index), element.llvm), element)
                return []

            e.loop(self.number(0), length, _GROUP, [], group, "group")

        self.blocks(state, whole, scratch, words_each, block)
        e.branch_if(e.compare("eq", rest, self.number(0)), "even", "uneven")
        e.label("uneven")
        self.take(state, scratch, e.mul(rest, self.number(words_each)))
        self.take(state, scratch, self.number(_GROUP * words_each))
        self.normal_group(scratch, self.number(0), e.offset(out, e.sub(count, self.number(_GROUP)), element.llvm), element)
        e.branch("even")
        e.label("even")

    def normal_group(self, source: Value, index: Value, target: Value, element: dtype) -> None:
        """16 numbers from 16 uniform ones: 8 cosines, then 8 sines."""
        if element is dtypes.float64:
            self.normal_group_double(source, index, target)
            return
        e, half = self.e, _GROUP // 2
        u1 = 1.0 - self.uniform24(source, index, half)
        u2 = self.uniform24(source, e.add(index, self.number(half)), half)
        logarithm = Lanes(e, emit_pointwise(e, "log", dtypes.float32, [u1.value], {}))
        radius = (logarithm * -2.0).square_root()
        cosine, sine = _cosine_and_sine(u2 * (2.0 * math.pi))
        e.store((radius * cosine).value, target, align=4)
        e.store((radius * sine).value, e.offset(target, half, "float"), align=4)

    def normal_group_double(self, source: Value, index: Value, target: Value) -> None:
        e, half = self.e, self.number(_GROUP // 2)

        def lane(number: Value, _: list[Value]) -> list[Value]:
            at = e.add(index, number)
            u1, u2 = 1.0 - self.uniform53(source, at, 1), self.uniform53(source, e.add(at, half), 1)
            radius = (Lanes(e, e.call("double", "log", u1.value)) * -2.0).square_root()
            angle = u2 * (2.0 * math.pi)
            for name, offset in (("cos", number), ("sin", e.add(number, half))):
                value = radius * Lanes(e, e.call("double", name, angle.value))
                e.store(value.value, e.offset(target, offset, "double"), align=8)
            return []

        e.loop(self.number(0), half, 1, [], lane, "lane")

    def normal_singles(self, state: Value, out: Value, count: Value, scratch: Value, element: dtype) -> None:
        """Pairs in double precision; the second of a pair is kept in the state for the next call."""
        e = self.e
        flag, kept = self.byte(state, _HAS_NORMAL), self.byte(state, _NORMAL)

        def one(index: Value, _: list[Value]) -> list[Value]:
            reuse, draw, after = (e.fresh_label(stem) for stem in ("reuse", "draw", "after"))
            e.branch_if(e.compare("ne", e.load(flag, "i64", align=8), self.number(0)), reuse, draw)
            e.label(reuse)
            old = e.load(kept, "double", align=8)
            e.store(self.number(0), flag, align=8)
            e.branch(after)
            e.label(draw)
            self.take(state, scratch, self.number(4))
            u1, u2 = self.uniform53(scratch, self.number(0), 1), self.uniform53(scratch, self.number(1), 1)
            radius = (Lanes(e, e.call("double", "log1p", (-u2).value)) * -2.0).square_root()
            angle = u1 * (2.0 * math.pi)
            e.store((radius * Lanes(e, e.call("double", "sin", angle.value))).value, kept, align=8)
            e.store(self.number(1), flag, align=8)
            new = (radius * Lanes(e, e.call("double", "cos", angle.value))).value
            e.branch(after)
            e.label(after)
            value = Value(e.fresh(), "double")
            e.emit(f"{value.text} = phi double [ {old.text}, %{reuse} ], [ {new.text}, %{draw} ]")
            stored = value if element is dtypes.float64 else e.convert("fptrunc", value, "float")
            e.store(stored, e.offset(out, index, element.llvm), align=4)
            return []

        e.loop(self.number(0), count, 1, [], one, "single")

    # -- permutations -------------------------------------------------------------------------------------
    def permutation(self, state: Value, out: Value, count: Value, scratch: Value, element: dtype) -> None:
        """Fisher and Yates: number ``i`` changes places with one of those from ``i`` on."""
        e = self.e

        def count_up(index: Value, _: list[Value]) -> list[Value]:
            e.store(index, e.offset(out, index, "i64"), align=8)
            return []

        def block(first: Value, length: Value) -> None:
            def swap(index: Value, _: list[Value]) -> list[Value]:
                at = e.add(first, index)
                word = e.convert("zext", self.words(scratch, index, 1).value, "i64")
                left, right = e.offset(out, at, "i64"), e.offset(out, e.add(at, e.binary("urem", word, e.sub(count, at))), "i64")
                a, b = e.load(left, "i64", align=8), e.load(right, "i64", align=8)
                e.store(b, left, align=8)
                e.store(a, right, align=8)
                return []

            e.loop(self.number(0), length, 1, [], swap, "swap")

        e.loop(self.number(0), count, 1, [], count_up, "count")
        self.blocks(state, e.sub(count, self.number(1)), scratch, 1, block)


# Taylor coefficients up to x**13 and x**12, highest first: on [-pi/4, pi/4] the rest is below 1e-12.
_SINE = [(-1) ** k / math.factorial(2 * k + 1) for k in range(6, -1, -1)]
_COSINE = [(-1) ** k / math.factorial(2 * k) for k in range(6, -1, -1)]


def _cosine_and_sine(angle: Lanes) -> tuple[Lanes, Lanes]:
    """Both for a float32 angle in [0, 2 pi], computed in double precision so that each is rounded once."""
    x = angle.convert("fpext", "double")
    magic = x.format.magic
    shifted = fma(x, 2.0 / math.pi, magic)
    quadrant = shifted.bits()
    rest = fma(shifted - magic, -math.pi / 2, x)
    square = rest * rest
    sine, cosine = polynomial(square, _SINE) * rest, polynomial(square, _COSINE)
    odd = (quadrant & 1).equals(1)
    quarter = quadrant.shift_left(62)
    sine_sign = quarter & -(1 << 63)
    cosine_sign = (quarter ^ quarter.shift_left(1)) & -(1 << 63)

    def signed(value: Lanes, sign: Lanes) -> Lanes:
        return (value.bits() ^ sign).as_float(value.format).convert("fptrunc", "float")

    return signed(select(odd, sine, cosine), cosine_sign), signed(select(odd, cosine, sine), sine_sign)
