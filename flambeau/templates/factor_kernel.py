"""What kernels that factor batches of matrices share: their slots, memory of a thread, loops over the batch, reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.codegen.cpu.errors import NO_FACTORIZATION, emit_report, operator_number
from flambeau.core.dtypes import dtype

__all__ = ["FUNCTIONS", "MOST_PIECES", "FactorFrame", "FactorKernel", "FactorSpec", "Sizes", "number"]

FUNCTIONS, MOST_PIECES = 2, 7
SIZES = ("batch", "m", "n", "k", "work")


@dataclass(frozen=True)
class Sizes:
    """How many matrices, their rows and columns, and the columns of the right-hand sides."""

    batch: int
    m: int
    n: int
    k: int

    @property
    def least(self) -> int:
        return min(self.m, self.n)


@dataclass(frozen=True)
class FactorSpec:
    """A factorization of ``sources`` operands of type ``element``: the parts wanted of it and its other attributes.

    Where ``kind`` begins with "complex_", matrices hold pairs of elements.
    """

    kind: str
    element: dtype
    sources: int
    parts: tuple[int, ...]
    attributes: tuple[tuple[str, object], ...]
    vector_bits: int
    features: frozenset[str]

    def __getitem__(self, name: str) -> object:
        return dict(self.attributes)[name]

    @property
    def operator(self) -> str:
        """Who is to raise where a matrix has no factorization; empty: nobody."""
        return str(dict(self.attributes).get("operator", ""))

    @property
    def letter(self) -> str:
        """How LAPACK calls the type."""
        return ("cz" if self.is_complex else "sd")[self.element.itemsize // 8]

    @property
    def is_complex(self) -> bool:
        return self.kind.startswith("complex_")

    @property
    def slots(self) -> tuple[str, ...]:
        """The names of the kernel's arguments."""
        functions = (f"f{i}" for i in range(FUNCTIONS))
        pieces = (f"piece{i}" for i in range(MOST_PIECES))
        operands = (f"s{i}" for i in range(self.sources))
        return ("error", "grain", *functions, *SIZES, *pieces, *operands, *(f"t{part}" for part in self.parts))


@dataclass(frozen=True)
class FactorKernel:
    """The text of one exported function ``name``.

    Chunk c works on the matrices [c * grain, (c + 1) * grain); grain is a multiple of ``block``. ``symbols`` are the functions of LAPACK
    that the first slots hold. Each of ``pieces`` tells the bytes of a thread's memory for some sizes, ``work`` what goes into the slot of
    that name. A matrix takes about ``nanoseconds``.
    """

    spec: FactorSpec
    name: str
    text: str
    symbols: tuple[str, ...]
    pieces: tuple[Callable[[Sizes], int], ...]
    work: Callable[[Sizes], int]
    nanoseconds: Callable[[Sizes], float]
    block: int = 1

    def piece_offsets(self, sizes: Sizes) -> tuple[list[int], int]:
        """Where each piece begins, and the bytes of all."""
        offsets, total = [], 0
        for piece in self.pieces:
            offsets.append(total)
            total += -(-piece(sizes) // 64) * 64
        return offsets + [0] * (MOST_PIECES - len(offsets)), total


def number(value: int) -> Value:
    return Value(str(value), "i64")


class FactorFrame:
    """Opens and closes the exported function; slots are read by name."""

    def __init__(self, spec: FactorSpec, name: str) -> None:
        self.spec = spec
        self.e = e = Emitter(spec.features)
        self.name = name
        self.real = spec.element.llvm
        # Complex elements are moved, not calculated with.
        self.kind = f"i{16 * spec.element.itemsize}" if spec.is_complex else self.real
        e.begin(f"define void @{name}(ptr %args, i64 %chunk, ptr %scratch) #0")
        self._slots = {slot: self._load(i, slot) for i, slot in enumerate(spec.slots)}
        self.batch, self.m, self.n, self.k, self.work = (self[slot] for slot in SIZES)
        self._constants: dict[tuple[str, str], Value] = {}

    def _load(self, index: int, slot: str) -> Value:
        e = self.e
        pointer = slot == "error" or (slot[0] in "fst" and slot[1:].isdigit())
        return e.load(e.offset(Value("%args", "ptr"), index, "i64"), "ptr" if pointer else "i64", align=8)

    def __getitem__(self, slot: str) -> Value:
        return self._slots[slot]

    def piece(self, index: int) -> Value:
        """A piece of the thread's own memory."""
        return self.e.offset(Value("%scratch", "ptr"), self[f"piece{index}"], "i8")

    def source(self, index: int, at: Value, count: Value) -> Value:
        """Operand ``index`` of matrix ``at``, which has ``count`` elements."""
        return self.e.offset(self[f"s{index}"], self.e.mul(at, count), self.kind)

    def result(self, part: int, at: Value, count: Value, piece: int, kind: str = "") -> Value:
        """Where a part of matrix ``at`` goes: the target, or own memory when it is not asked for."""
        if part not in self.spec.parts:
            return self.piece(piece)
        return self.e.offset(self[f"t{part}"], self.e.mul(at, count), kind or self.kind)

    def least(self) -> Value:
        return self.e.intrinsic("smin", self.m, self.n)

    def repeat(self, count: Value, body: Callable[[Value], None], stem: str, start: Value | None = None, step: int = 1) -> None:
        """``for i in range(start, count, step): body(i)``."""

        def once(index: Value, _: list[Value]) -> Sequence[Value]:
            body(index)
            return ()

        self.e.loop(number(0) if start is None else start, count, step, (), once, stem)

    def each(self, body: Callable[[Value], None], block: int = 1) -> str:
        """``body(first matrix)`` for every block of this chunk's; then the function ends. Returns the module."""
        e = self.e
        begin = e.mul(Value("%chunk", "i64"), self["grain"])
        end = e.intrinsic("smin", e.add(begin, self["grain"]), self.batch)
        self.repeat(end, body, "matrix", begin, block)
        e.emit("ret void")
        e.end()
        return e.module(f'nounwind "prefer-vector-width"="{self.spec.vector_bits}"')

    def report(self, info: Value, at: Value) -> None:
        """Tell the launcher that matrix ``at`` has no factorization, where ``info`` (i32) is not zero and somebody asks."""
        if not self.spec.operator:
            return
        e = self.e
        bound = self.batch if self.spec["batched"] else number(0)
        bad, fine = e.fresh_label("bad"), e.fresh_label("fine")
        e.branch_if(e.compare("ne", info, e.const(0, "i32")), bad, fine)
        e.label(bad)
        emit_report(e, self["error"], NO_FACTORIZATION, operator_number(self.spec.operator), at, e.convert("sext", info, "i64"), bound)
        e.branch(fine)
        e.label(fine)
