"""Accumulators of reductions: carried through loops in registers and combined in an order that only the type decides."""

from __future__ import annotations

from collections.abc import Sequence

from flambeau.codegen.cpu.emitter import FLOAT_KINDS, Emitter, Value
from flambeau.codegen.cpu.reduction import combine, horizontal, identity
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.ir.kernel import ARGREDUCE
from flambeau.ir.node import Node

NO_POSITION = (1 << 63) - 1
ROW_PARTIALS = 64


def partial_sums(node: Node) -> int:
    """Into how many interleaved partial results a row is reduced where the order changes the result; 1 where it does not."""
    element = node.sources[0].dtype
    if node.op is ARGREDUCE or not element.is_floating_point or node.attributes["kind"] not in ("sum", "prod"):
        return 1
    return ROW_PARTIALS if element.itemsize <= 4 else ROW_PARTIALS // 2


class Accumulator:
    """One reduction in progress: ``count`` registers of ``width`` lanes (an ARGREDUCE has a position with each)."""

    def __init__(self, e: Emitter, node: Node, width: int, count: int) -> None:
        self.e = e
        self.node = node
        self.kind: str = node.attributes["kind"]
        self.element: dtype = node.sources[0].dtype
        self.width = width
        self.count = count
        self.with_position = node.op is ARGREDUCE
        if self.element is dtypes.bfloat16 or self.element.is_complex:
            raise NotImplementedError(f"reduction {self.kind} of {self.element}: cast its operand to {self.element.compute} first")

    def start(self) -> list[Value]:
        value = self.e.const(identity(self.kind, self.element), self.element.llvm, self.width)
        position = self.e.const(NO_POSITION, "i64", self.width)
        return [value, position] * self.count if self.with_position else [value] * self.count

    def step(self, values: Sequence[Value], at: int, operand: Value, position: Value | None, mask: Value | None) -> list[Value]:
        """Take ``operand`` (in the lanes of ``mask``) into register ``at``."""
        out = list(values)
        if self.with_position:
            assert position is not None
            old = (out[2 * at], out[2 * at + 1])
            new = self.better(old, (operand, position))
            out[2 * at: 2 * at + 2] = new if mask is None else [self.e.select(mask, n, o) for n, o in zip(new, old, strict=True)]
            return out
        new = combine(self.e, self.kind, self.element, out[at], operand)
        out[at] = new if mask is None else self.e.select(mask, new, out[at])
        return out

    def step_at(self, values: Sequence[Value], ordinal: Value, operand: Value, mask: Value | None) -> list[Value]:
        """Take ``operand`` into the register whose number is the run-time ``ordinal``."""
        out = list(values)
        # As wide as the elements, so that each comparison is the mask of a blend.
        bits = f"i{8 * max(self.element.itemsize, 4)}"
        number = self.e.splat(ordinal if bits == ordinal.kind else self.e.convert("trunc", ordinal, bits), self.width)
        for at in range(self.count):
            here = self.e.compare("eq", number, self.e.like(at, number))
            out = self.step(out, at, operand, None, here if mask is None else self.e.binary("and", here, mask))
        return out

    def better(self, a: tuple[Value, Value], b: tuple[Value, Value]) -> tuple[Value, Value]:
        """The extremum of two (value, position) pairs: NaN wins, then the smaller position."""
        e, (x, p), (y, q) = self.e, a, b
        signed = "s" if self.element.is_signed else "u"
        floating = x.kind in FLOAT_KINDS
        wins = e.compare(("o" if floating else signed) + ("gt" if self.kind == "max" else "lt"), y, x)
        ties = e.compare("oeq" if floating else "eq", x, y)
        if floating:
            x_nan, y_nan = e.compare("uno", x, x), e.compare("uno", y, y)
            x_not_nan = e.compare("ord", x, x)
            wins = e.binary("or", wins, e.binary("and", y_nan, x_not_nan))
            ties = e.binary("or", ties, e.binary("and", x_nan, y_nan))
        take = e.binary("or", wins, e.binary("and", ties, e.compare("slt", q, p)))
        return e.select(take, y, x), e.select(take, q, p)

    def merge(self, earlier: Sequence[Value], later: Sequence[Value]) -> list[Value]:
        """Register by register, the results of two stretches."""
        if not self.with_position:
            return [combine(self.e, self.kind, self.element, a, b) for a, b in zip(earlier, later, strict=True)]
        at = range(0, 2 * self.count, 2)
        return [v for i in at for v in self.better((earlier[i], earlier[i + 1]), (later[i], later[i + 1]))]

    def finish(self, values: Sequence[Value], fold_lanes: bool) -> Value:
        """The result: upper registers onto lower ones, then (``fold_lanes``) upper lanes onto lower ones."""
        if self.with_position:
            return self.finish_position([(values[2 * i], values[2 * i + 1]) for i in range(self.count)], fold_lanes)
        left = list(values)
        while len(left) > 1:
            half = (len(left) + 1) // 2
            combined = [combine(self.e, self.kind, self.element, a, b) for a, b in zip(left, left[half:], strict=False)]
            left = combined + left[len(combined) : half]
        return horizontal(self.e, self.kind, self.element, left[0]) if fold_lanes else left[0]

    def finish_position(self, pairs: list[tuple[Value, Value]], fold_lanes: bool) -> Value:
        e = self.e
        while len(pairs) > 1:
            half = (len(pairs) + 1) // 2
            combined = [self.better(a, b) for a, b in zip(pairs, pairs[half:], strict=False)]
            pairs = combined + pairs[len(combined) : half]
        value, position = pairs[0]
        while fold_lanes and value.width > 1:
            half = value.width // 2
            if half == 1:
                low, high = ([e.extract(v, lane) for v in (value, position)] for lane in (0, 1))
            else:
                poison = [Value("poison", v.kind, v.width) for v in (value, position)]
                low = [e.shuffle(v, p, range(half)) for v, p in zip((value, position), poison, strict=True)]
                high = [e.shuffle(v, p, range(half, 2 * half)) for v, p in zip((value, position), poison, strict=True)]
            value, position = self.better((low[0], low[1]), (high[0], high[1]))
        return position
