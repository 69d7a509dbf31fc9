"""Writes LLVM IR as text: typed values, arithmetic, memory and loops with explicit phis."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

FLOAT_KINDS = frozenset(("half", "float", "double"))

# LLVM's names of the machine's features that change which instructions are written
DEFAULT_FEATURES = frozenset(("fma", "avx512f", "avx512vl", "avx512dq", "avx512bw"))


class Value(NamedTuple):
    """An SSA value or constant: its text, its LLVM element type and its number of lanes (1 is a scalar)."""

    text: str
    kind: str
    width: int = 1

    @property
    def type(self) -> str:
        return self.kind if self.width == 1 else f"<{self.width} x {self.kind}>"

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


def float_text(value: float, kind: str) -> str:
    """The exact LLVM spelling of a float constant, NaN payload and sign of zero kept."""
    if kind == "half":
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if kind == "float":
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def mangled(kind: str, width: int) -> str:
    """The suffix of an overloaded intrinsic's name, such as ``v16f32``."""
    short = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}.get(kind, kind)
    return short if width == 1 else f"v{width}{short}"


class Emitter:
    """Collects one module's text. All arithmetic is exact as written: no fast-math flags unless a method says so."""

    def __init__(self, features: frozenset[str] = DEFAULT_FEATURES) -> None:
        self.features = features
        self.lines: list[str] = []
        self.declarations: dict[str, None] = {}
        self.globals: list[str] = []
        self.block = "entry"
        self._count = 0

    # -- text ---------------------------------------------------------------------------------------------
    def fresh(self, stem: str = "t") -> str:
        self._count += 1
        return f"%{stem}{self._count}"

    def fresh_label(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def emit(self, text: str) -> None:
        self.lines.append("  " + text)

    def comment(self, text: str) -> None:
        self.lines.append("  ; " + text.replace("\n", " "))

    def begin(self, signature: str) -> None:
        """Open a function, e.g. ``define void @k(ptr %args, i64 %chunk, ptr %scratch) #0``."""
        self.lines.append(signature + " {")
        self.label("entry")

    def end(self) -> None:
        self.lines.append("}")

    def label(self, name: str) -> None:
        self.lines.append(name + ":")
        self.block = name

    def declare(self, text: str) -> None:
        self.declarations[text] = None

    def module(self, attributes: str) -> str:
        """The whole module; ``attributes`` is the text of attribute group #0."""
        parts = [*self.globals, *self.declarations, *self.lines, f"attributes #0 = {{ {attributes} }}", ""]
        return "\n".join(parts)

    # -- constants and lanes ------------------------------------------------------------------------------
    def const(self, value: float | int | bool, kind: str, width: int = 1) -> Value:
        if kind in FLOAT_KINDS:
            text = float_text(float(value), kind)
        elif kind == "i1":
            text = "true" if value else "false"
        else:
            text = str(int(value))
        return Value(text if width == 1 else f"splat ({kind} {text})", kind, width)

    def like(self, value: float | int | bool, other: Value) -> Value:
        """A constant of the type of ``other``."""
        return self.const(value, other.kind, other.width)

    def splat(self, value: Value, width: int) -> Value:
        """``value`` in every lane; a vector of that width is returned unchanged."""
        if value.width == width:
            return value
        if not value.text.startswith("%"):
            return Value(f"splat ({value})", value.kind, width)
        first, out = self.fresh(), self.fresh()
        vector = f"<{width} x {value.kind}>"
        self.emit(f"{first} = insertelement {vector} poison, {value}, i32 0")
        self.emit(f"{out} = shufflevector {vector} {first}, {vector} poison, <{width} x i32> zeroinitializer")
        return Value(out, value.kind, width)

    def lanes(self, kind: str, width: int, step: int = 1) -> Value:
        """The constant vector 0, step, 2*step, ..."""
        if width == 1:
            return self.const(0, kind)
        return Value("<" + ", ".join(f"{kind} {i * step}" for i in range(width)) + ">", kind, width)

    def first_lanes(self, count: int, width: int) -> Value:
        """The mask of the first ``count`` lanes, hidden from LLVM: of one known lane of 16 bits it would store 32."""
        limit = self.fresh()
        self.emit(f'{limit} = call i32 asm "", "=r,0"(i32 {count})')
        return self.compare("slt", self.lanes("i32", width), Value(limit, "i32"))

    def extract(self, value: Value, lane: int) -> Value:
        out = self.fresh()
        self.emit(f"{out} = extractelement {value}, i32 {lane}")
        return Value(out, value.kind)

    def shuffle(self, a: Value, b: Value, mask: Sequence[int]) -> Value:
        out = self.fresh()
        lanes = ", ".join(f"i32 {m}" for m in mask)
        self.emit(f"{out} = shufflevector {a}, {b}, <{len(mask)} x i32> <{lanes}>")
        return Value(out, a.kind, len(mask))

    def opaque(self, value: Value) -> Value:
        """The same value, of which LLVM does not know where it comes from; unchanged where it does not fit into one register."""
        bits = {"i8": 8, "i16": 16, "i32": 32, "float": 32, "i64": 64, "double": 64}.get(value.kind, 0) * value.width
        if bits not in (128, 256, 512) or (bits == 512 and "avx512f" not in self.features):
            return value
        out = self.fresh()
        self.emit(f'{out} = call {value.type} asm "", "={"v" if "avx512vl" in self.features else "x"},0"({value})')
        return Value(out, value.kind, value.width)

    # -- arithmetic ---------------------------------------------------------------------------------------
    def binary(self, opcode: str, a: Value, b: Value, flags: str = "") -> Value:
        """Any two-operand instruction (``fadd``, ``mul``, ``and``, ``shl`` ...); lanes are matched by splatting."""
        if a.width != b.width:
            width = max(a.width, b.width)
            a, b = self.splat(a, width), self.splat(b, width)
        assert a.kind == b.kind, (opcode, a, b)
        out = self.fresh()
        self.emit(f"{out} = {opcode}{' ' + flags if flags else ''} {a}, {b.text}")
        return Value(out, a.kind, a.width)

    def arithmetic(self, name: str, a: Value, b: Value) -> Value:
        """``add``, ``sub`` or ``mul`` in the operands' own type."""
        return self.binary("f" + name if a.kind in FLOAT_KINDS else name, a, b)

    def add(self, a: Value, b: Value) -> Value:
        return self.arithmetic("add", a, b)

    def sub(self, a: Value, b: Value) -> Value:
        return self.arithmetic("sub", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        return self.arithmetic("mul", a, b)

    def div(self, a: Value, b: Value) -> Value:
        return self.binary("fdiv", a, b)

    def neg(self, a: Value) -> Value:
        if a.kind in FLOAT_KINDS:
            out = self.fresh()
            self.emit(f"{out} = fneg {a}")
            return Value(out, a.kind, a.width)
        return self.sub(self.like(0, a), a)

    def compare(self, predicate: str, a: Value, b: Value) -> Value:
        """``predicate`` in LLVM's words: ``oeq``/``une``/``olt``/``uno`` for floats, ``eq``/``slt``/``ult`` for integers."""
        if a.width != b.width:
            width = max(a.width, b.width)
            a, b = self.splat(a, width), self.splat(b, width)
        out = self.fresh()
        self.emit(f"{out} = {'fcmp' if a.kind in FLOAT_KINDS else 'icmp'} {predicate} {a}, {b.text}")
        return Value(out, "i1", a.width)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        width = max(condition.width, a.width, b.width)
        if width > 1:
            condition, a, b = self.splat(condition, width), self.splat(a, width), self.splat(b, width)
        out = self.fresh()
        self.emit(f"{out} = select {condition}, {a}, {b}")
        return Value(out, a.kind, a.width)

    def convert(self, opcode: str, a: Value, kind: str) -> Value:
        """Any conversion instruction: ``fpext``, ``fptosi``, ``zext``, ``bitcast`` (same lane count) ..."""
        out = self.fresh()
        to = kind if a.width == 1 else f"<{a.width} x {kind}>"
        self.emit(f"{out} = {opcode} {a} to {to}")
        return Value(out, kind, a.width)

    def intrinsic(self, name: str, *operands: Value, flags: str = "") -> Value:
        """``llvm.<name>`` overloaded on one type, result of the same type: fma, sqrt, fabs, floor, smax, umin ..."""
        first = operands[0]
        full = f"llvm.{name}.{mangled(first.kind, first.width)}"
        self.declare(f"declare {first.type} @{full}({', '.join(o.type for o in operands)})")
        out = self.fresh()
        self.emit(f"{out} = call{' ' + flags if flags else ''} {first.type} @{full}({', '.join(map(str, operands))})")
        return Value(out, first.kind, first.width)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        return self.intrinsic("fma", a, b, c)

    def call(self, result: str, name: str, *operands: Value) -> Value:
        """Call an external or module function by its name."""
        self.declare(f"declare {result} @{name}({', '.join(o.type for o in operands)})")
        if result == "void":
            self.emit(f"call void @{name}({', '.join(map(str, operands))})")
            return Value("void", "void")
        out = self.fresh()
        self.emit(f"{out} = call {result} @{name}({', '.join(map(str, operands))})")
        return Value(out, result)

    # -- memory -------------------------------------------------------------------------------------------
    def offset(self, pointer: Value, index: Value | int, kind: str) -> Value:
        """``pointer + index`` elements of ``kind``; an address for each lane of ``index``."""
        index = self.const(index, "i64") if isinstance(index, int) else index
        if index.text == "0":
            return pointer
        out = self.fresh("p")
        self.emit(f"{out} = getelementptr {kind}, {pointer}, {index}")
        return Value(out, "ptr", index.width)

    def load(self, pointer: Value, kind: str, width: int = 1, align: int = 1) -> Value:
        out = self.fresh()
        value = Value(out, kind, width)
        self.emit(f"{out} = load {value.type}, {pointer}, align {align}")
        return value

    def store(self, value: Value, pointer: Value, align: int = 1, nontemporal: bool = False) -> None:
        self.emit(f"store {value}, {pointer}, align {align}{', !nontemporal !0' if nontemporal else ''}")
        if nontemporal and "!0 = !{i32 1}" not in self.globals:
            self.globals.append("!0 = !{i32 1}")

    def masked_load(self, pointer: Value, kind: str, mask: Value, align: int = 1, otherwise: Value | None = None) -> Value:
        """Lanes with a false mask are not read and give those of ``otherwise``, or zero."""
        out = Value(self.fresh(), kind, mask.width)
        rest = "zeroinitializer" if otherwise is None else otherwise.text
        name = f"llvm.masked.load.{mangled(kind, mask.width)}.p0"
        self.declare(f"declare {out.type} @{name}(ptr, i32, <{mask.width} x i1>, {out.type})")
        self.emit(f"{out.text} = call {out.type} @{name}({pointer}, i32 {align}, {mask}, {out.type} {rest})")
        return out

    def gather(self, pointers: Value, kind: str, mask: Value) -> Value:
        """What each lane's pointer leads to; lanes with a false mask are not read and give zero."""
        out = Value(self.fresh(), kind, pointers.width)
        name = f"llvm.masked.gather.{mangled(kind, pointers.width)}.{mangled('ptr', pointers.width)}"
        self.declare(f"declare {out.type} @{name}({pointers.type}, i32, {mask.type}, {out.type})")
        self.emit(f"{out.text} = call {out.type} @{name}({pointers}, i32 1, {mask}, {out.type} zeroinitializer)")
        return out

    def scatter(self, value: Value, pointers: Value, mask: Value) -> None:
        """Store each lane where its pointer leads to; lanes with a false mask are not stored."""
        name = f"llvm.masked.scatter.{mangled(value.kind, value.width)}.{mangled('ptr', value.width)}"
        self.declare(f"declare void @{name}({value.type}, {pointers.type}, i32, {mask.type})")
        self.emit(f"call void @{name}({value}, {pointers}, i32 1, {mask})")

    def masked_store(self, value: Value, pointer: Value, mask: Value, align: int = 1) -> None:
        name = f"llvm.masked.store.{mangled(value.kind, value.width)}.p0"
        self.declare(f"declare void @{name}({value.type}, ptr, i32, <{mask.width} x i1>)")
        self.emit(f"call void @{name}({value}, {pointer}, i32 {align}, {mask})")

    def prefetch(self, pointer: Value, write: bool = False, level: int = 1) -> None:
        """Ask for the cache line of ``pointer``, which may be any address, in the cache of that level."""
        self.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.emit(f"call void @llvm.prefetch.p0({pointer}, i32 {int(write)}, i32 {4 - level}, i32 1)")

    # -- control ------------------------------------------------------------------------------------------
    def branch(self, target: str) -> None:
        self.emit(f"br label %{target}")

    def branch_if(self, condition: Value, yes: str, no: str) -> None:
        self.emit(f"br {condition}, label %{yes}, label %{no}")

    def loop(
        self,
        start: Value,
        stop: Value,
        step: int | Value,
        carried: Iterable[Value],
        body: Callable[[Value, list[Value]], Sequence[Value]],
        stem: str = "loop",
    ) -> list[Value]:
        """``for i in range(start, stop, step)`` over i64 with carried values; zero iterations are fine.

        ``body(i, values)`` returns the next carried values. The final ones are returned.
        """
        head, inside, after = (self.fresh_label(stem + s) for s in (".", ".body", ".end"))
        before, initial = self.block, list(carried)
        index = Value(f"%{head}.i", "i64")
        values = [Value(f"%{head}.v{k}", v.kind, v.width) for k, v in enumerate(initial)]
        self.branch(head)
        self.label(head)
        at = len(self.lines)
        go = self.compare("slt", index, stop)
        self.branch_if(go, inside, after)
        self.label(inside)
        results = list(body(index, values))
        following = self.add(index, self.const(step, "i64") if isinstance(step, int) else step)
        self.branch(head)
        phis = [f"  {index.text} = phi i64 [ {start.text}, %{before} ], [ {following.text}, %{self.block} ]"]
        for value, first, last in zip(values, initial, results, strict=True):
            phis.append(
                f"  {value.text} = phi {value.type} [ {first.text}, %{before} ], [ {last.text}, %{self.block} ]"
            )
        self.lines[at:at] = phis
        self.label(after)
        return values
