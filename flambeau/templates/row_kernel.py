"""What kernels over rows share: their slots, how their work is cut, and running values inside a vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.codegen.cpu.reduction import combine, identity
from flambeau.core.dtypes import dtype

__all__ = ["SLOTS", "RowFrame", "RowKernel", "cache_line_multiple", "number", "prefix"]

SLOTS = ("error", "grain", "x", "out", "outer", "n", "inner")


@dataclass(frozen=True)
class RowKernel:
    """The text of one exported function ``name`` that works along the middle axis of contiguous [outer, n, inner] memory.

    Slots: `SLOTS`, sizes as int64. Chunk ``c`` runs the iterations [c * grain, min((c + 1) * grain, iterations)); each takes up to
    ``block`` neighbours along the inner axis, in about ``nanoseconds(n, inner)``. ``scratch_bytes(n, inner)`` is what a thread needs.
    """

    name: str
    text: str
    block: int
    nanoseconds: Callable[[int, int], float]
    scratch_bytes: Callable[[int, int], int]

    def iterations(self, outer: int, n: int, inner: int) -> int:
        return outer * -(-inner // self.block) if n else 0

    def cost(self, n: int, inner: int = 1) -> int:
        """The rough time of one iteration, in whole nanoseconds."""
        return max(1, round(self.nanoseconds(n, inner)))


def number(value: int) -> Value:
    return Value(str(value), "i64")


def cache_line_multiple(size: int) -> int:
    return -(-size // 64) * 64


class RowFrame:
    """Opens and closes the exported function; the slots are attributes."""

    def __init__(self, e: Emitter, name: str) -> None:
        self.e = e
        e.begin(f"define void @{name}(ptr %args, i64 %chunk, ptr %scratch) #0")
        self.scratch = Value("%scratch", "ptr")
        self.x, self.out = self._slot("x", "ptr"), self._slot("out", "ptr")
        self.outer, self.n, self.inner = (self._slot(slot, "i64") for slot in ("outer", "n", "inner"))

    def _slot(self, name: str, kind: str) -> Value:
        e = self.e
        return e.load(e.offset(Value("%args", "ptr"), SLOTS.index(name), "i64"), kind, align=8)

    def iterations(self, block: int, body: Callable[[Value, Value], None]) -> None:
        """``body(outer index, first inner index)`` for this chunk's iterations; then the function ends."""
        e = self.e
        blocks = e.binary("udiv", e.add(self.inner, number(block - 1)), number(block))
        grain = self._slot("grain", "i64")
        begin = e.mul(Value("%chunk", "i64"), grain)
        end = e.intrinsic("smin", e.add(begin, grain), e.mul(self.outer, blocks))

        def iteration(index: Value, _: list[Value]) -> list[Value]:
            outer = e.binary("udiv", index, blocks)
            body(outer, e.mul(e.sub(index, e.mul(outer, blocks)), number(block)))
            return []

        e.loop(begin, end, 1, [], iteration, "iteration")
        e.emit("ret void")
        e.end()


def prefix(e: Emitter, kind: str, operand: dtype, vector: Value) -> Value:
    """Lane ``i`` of the result combines the lanes 0 to ``i``, by doubling distances (always the same order)."""
    width, distance = vector.width, 1
    while distance < width:
        fill = e.like(identity(kind, operand), vector)
        earlier = e.shuffle(vector, fill, [width + lane if lane < distance else lane - distance for lane in range(width)])
        vector = combine(e, kind, operand, earlier, vector)
        distance *= 2
    return vector
