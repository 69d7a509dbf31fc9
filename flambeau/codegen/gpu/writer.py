"""Writes a kernel's expression nodes as lines of Triton, each once in the outermost scope where it is known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from flambeau.codegen.cpu.errors import operator_number
from flambeau.codegen.cpu.phases import Free, dependencies
from flambeau.codegen.gpu.pointwise import TAKES_LITERALS, emit_pointwise, triton_type
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import Atom, Dim, is_nonnegative, terms_of
from flambeau.ir.kernel import CHECK, INDEX, INSIDE, LOAD, RESULT, SCALAR, Kernel, Store, axes_in, loaded_nodes, operands
from flambeau.ir.node import Node

# Types in which numbers are passed; others are converted inside.
SCALAR_TYPES = {dtypes.float32: "fp32", dtypes.float64: "fp64", dtypes.float16: "fp32", dtypes.bfloat16: "fp32"}
# Functions in a shorter form, for results of 16 bits: relative errors below 1e-5.
NARROW = {"erf": "narrow_erf", "exp": "tl.exp"}
# Combining stores that the hardware does as one step.
ATOMIC = {
    "add": frozenset((dtypes.int32, dtypes.int64, dtypes.float16, dtypes.float32, dtypes.float64)),
    "max": frozenset((dtypes.int32, dtypes.int64)),
    "min": frozenset((dtypes.int32, dtypes.int64)),
}
MERGE = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum"}
Dims = frozenset[str]


class Scope:
    """One level of indentation: its lines, the values named in it and the axes that it gives places."""

    def __init__(self, axes: Iterable[str], indent: int, header: str = "") -> None:
        self.axes = frozenset(axes)
        self.header = header
        self.indent = indent
        self.lines: list[str] = []
        self.values: dict[Node, str] = {}

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)


class Writer:
    """The text of one kernel in the making.

    Values are blocks: ``x`` runs over outer points, ``r`` over inner ones; ``blocks`` says for each axis which of the two it
    varies along (neither: it is a number). ``masks`` are the conditions under which a block is within its axes.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        # Whether whatever is computed here is rounded to 16 bits in the end.
        self.narrow = all(s.value.dtype.is_floating_point and s.value.dtype.itemsize == 2 for s in kernel.stores)
        self.order = kernel.nodes()
        self.free: Free = dependencies(kernel, self.order)
        self.scopes: list[Scope] = [Scope((), 1)]
        self.blocks: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.masks: dict[str, str] = {}
        self.shapes: dict[str, str] = {}
        self.position = "0"
        # Whether loops count in plain numbers, which have no methods.
        self.walks = False
        self.dims: dict[Node, Dims] = {}
        self.result: tuple[str, Dims] | None = None
        self._count = 0

    # -- scopes ---------------------------------------------------------------------------------------------
    @property
    def scope(self) -> Scope:
        return self.scopes[-1]

    def open(self, header: str, axes: Iterable[str]) -> None:
        """Begin an indented block that gives ``axes`` their places."""
        self.scopes.append(Scope(axes, self.scope.indent + 1, header))

    def close(self) -> None:
        inner = self.scopes.pop()
        self.scope.line(inner.header)
        self.scope.lines += inner.lines

    def name(self) -> str:
        self._count += 1
        return f"v{self._count - 1}"

    def text(self) -> list[str]:
        assert len(self.scopes) == 1
        return self.scopes[0].lines

    # -- index arithmetic -------------------------------------------------------------------------------------
    def dim(self, value: Dim, wide: bool = False) -> str:
        """An index as text; with ``wide`` computed in 64 bits."""
        parts: list[str] = []
        for monomial, coefficient in terms_of(value):
            factors = [self.atom(a) for a in monomial]
            if "0" in factors:
                continue
            if wide and factors:
                factors[0] = f"tl.cast({factors[0]}, tl.int64)" if self.walks else f"{factors[0]}.to(tl.int64)"
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            sign = ("-" if coefficient < 0 else "") if not parts else (" - " if coefficient < 0 else " + ")
            parts.append(sign + " * ".join(factors))
        return "".join(parts) or "0"

    def group(self, value: Dim) -> str:
        text = self.dim(value)
        return text if text.isidentifier() or text.isdigit() else f"({text})"

    def atom(self, a: Atom) -> str:
        if a.kind == "loaded":
            return f"{self.value(a.payload)}.to(INDEX)"  # type: ignore[arg-type]
        if a.kind in ("axis", "symbol"):
            return self.names.get(a.name, a.name)
        x, y = a.arguments
        if a.kind == "min":
            return f"tl.minimum({self.dim(x)}, {self.dim(y)})"
        if not is_nonnegative(x):
            return f"{'floor_divide' if a.kind == 'floordiv' else 'modulo'}({self.dim(x)}, {self.dim(y)})"
        return f"({self.group(x)} {'//' if a.kind == 'floordiv' else '%'} {self.group(y)})"

    def dims_of_index(self, value: Dim) -> Dims:
        found = {self.blocks[name] for name in axes_in(value) if name in self.blocks}
        for node in loaded_nodes(value):
            found |= self.dims[node]
        return frozenset(found)

    # -- values -----------------------------------------------------------------------------------------------
    def value(self, node: Node) -> str:
        """The text that stands for an evaluated node."""
        for scope in reversed(self.scopes):
            if node in scope.values:
                return scope.values[node]
        raise AssertionError(f"internal error: {node!r} is used before it is computed")

    def known(self, node: Node) -> bool:
        return any(node in scope.values for scope in self.scopes)

    def put(self, node: Node, text: str, dims: Dims) -> None:
        """Give a node the text that stands for it at the innermost scope."""
        self.scope.values[node] = text
        self.dims[node] = dims

    def evaluate(self, order: Iterable[Node]) -> None:
        """Write every node of a topological order that has no text yet."""
        for node in order:
            if not self.known(node):
                self._write(node)

    def _depth(self, node: Node) -> int:
        """The outermost scope in which all that the node needs is known."""
        depth = 0
        for number, scope in enumerate(self.scopes):
            if scope.axes & self.free[node] or any(operand in scope.values for operand in operands(node)):
                depth = number
        if node.op is LOAD and any(s.buffer == node.attributes["buffer"] for s in self.kernel.stores):
            return len(self.scopes) - 1
        return depth

    def _write(self, node: Node) -> None:
        place = self.scopes[self._depth(node)]
        text, dims = self._expression(node, place)
        self.dims[node] = dims
        if not text.isidentifier() and not _is_literal(node):
            name = self.name()
            place.line(f"{name} = {text}")
            text = name
        place.values[node] = text

    def _expression(self, node: Node, place: Scope) -> tuple[str, Dims]:
        a = node.attributes
        if node.op is LOAD:
            return self._load(node)
        if node.op is SCALAR:
            return self._scalar(node), frozenset()
        if node.op is INDEX:
            return self._index(a["value"])
        if node.op is INSIDE:
            return self._inside(node)
        if node.op is CHECK:
            return self._check(node, place)
        if node.op is RESULT:
            assert self.result is not None, "the result of a template exists only inside its epilogue"
            return self.result
        if (number := number_of(node)) is not None:
            return literal(number, node.dtype), frozenset()
        dims: Dims = frozenset(d for s in node.sources for d in self.dims[s])
        operand = node.sources[-1].dtype
        texts = self._arguments(node)
        if node.op.name in NARROW and self.narrow and operand is dtypes.float32:
            return f"{NARROW[node.op.name]}({texts[0]})", dims
        return emit_pointwise(node.op.name, operand, texts, a), dims

    def _arguments(self, node: Node) -> list[str]:
        """The texts of the sources; numbers are written out where a tensor beside them tells their type."""
        texts = [self.value(s) for s in node.sources]
        data = node.sources[1:] if node.op.name == "where" else node.sources
        plain = node.op.name in TAKES_LITERALS and not all(_is_literal(s) for s in data)
        if plain and all(s.dtype is not dtypes.bool_ for s in node.sources if _is_literal(s)):
            return texts
        return [f"tl.full((), {t}, {triton_type(s.dtype)})" if _is_literal(s) else t for s, t in zip(node.sources, texts, strict=True)]

    def _scalar(self, node: Node) -> str:
        name = f"c{node.attributes['slot']}"
        if node.dtype is dtypes.bool_:
            return f"{name} != 0"
        passed = SCALAR_TYPES.get(node.dtype, "i64")
        return name if passed in ("fp64", "i64") and node.dtype.itemsize == 8 or node.dtype is dtypes.float32 else (
            f"{name}.to({triton_type(node.dtype)})")  # fmt: skip

    def _index(self, value: Dim) -> tuple[str, Dims]:
        text = self.dim(value, wide=True)
        return f"tl.full((), {text}, tl.int64)" if text.lstrip("-").isdigit() else text, self.dims_of_index(value)

    def _inside(self, node: Node) -> tuple[str, Dims]:
        value, lower, upper = (node.attributes[k] for k in ("value", "lower", "upper"))
        dims = self.dims_of_index(value) | self.dims_of_index(lower) | self.dims_of_index(upper)
        at, low, high = self.dim(value), self.dim(lower), self.dim(upper)
        if all(text.lstrip("-").isdigit() for text in (at, low, high)):
            return f"tl.full((), {int(low) <= int(at) < int(high)}, tl.int1)", frozenset()
        at = f"tl.cast({at}, INDEX)" if self.walks and not dims else at
        tests = [] if is_nonnegative(value - lower) else [f"({at} >= {low})"]
        tests += [] if is_nonnegative(upper - 1 - value) else [f"({at} < {high})"]
        return " & ".join(tests) or "tl.full((), True, tl.int1)", dims if tests else frozenset()

    # -- memory -------------------------------------------------------------------------------------------------
    def mask(self, dims: Dims, index: Dim = 0, valid: Node | None = None) -> str:
        """The condition for an access; an empty text means always."""
        tests = [self.masks[d] for d in sorted(dims, reverse=True) if d in self.masks]
        if valid is not None:
            tests.append(self.value(valid))
        for node in loaded_nodes(index):
            size = node.attributes.get("size", 1)
            if node.op is CHECK and not is_nonnegative(size - 1):
                tests.append(f"({self.dim(size)} > 0)")
        return " & ".join(dict.fromkeys(tests))

    def pointer(self, buffer: int, index: Dim, dims: Dims) -> str:
        text = f"b{buffer} + {self.group(index)}" if not isinstance(index, int) or index else f"b{buffer}"
        return text if self.dims_of_index(index) == dims else f"tl.broadcast_to({text}, {self.shape(dims)})"

    def shape(self, dims: Dims) -> str:
        sides = [self.shapes[d] if d in dims else "1" for d in self.shapes]
        return f"[{', '.join(sides)}]"

    def _load(self, node: Node) -> tuple[str, Dims]:
        buffer, index = node.attributes["buffer"], node.attributes["index"]
        valid = node.sources[0] if node.sources else None
        if self.never_inside(index):
            return f"tl.full((), 0, {triton_type(node.dtype)})", frozenset()
        dims = self.dims_of_index(index) | (self.dims[valid] if valid is not None else frozenset())
        mask = self.mask(dims, index, valid)
        return f"tl.load({self.pointer(buffer, index, dims)}{f', mask={mask}, other=0' if mask else ''})", dims

    @staticmethod
    def never_inside(index: Dim) -> bool:
        """Whether the index was checked against a size of 0."""
        sizes = [n.attributes["size"] for n in loaded_nodes(index) if n.op is CHECK]
        return any(isinstance(s, int) and s < 1 for s in sizes)

    def _check(self, node: Node, place: Scope) -> tuple[str, Dims]:
        index, size = self.value(node.sources[0]), node.attributes["size"]
        dims = self.dims[node.sources[0]] | self.dims_of_index(size)
        valid = node.sources[1] if len(node.sources) > 1 else None
        every = dims | {"x"} if valid is None else dims | self.dims[valid] | {"x"}
        bound = self.dim(size)
        bad = f"(({index} < 0) | ({index} >= {bound})) & {self.mask(every, 0, valid)}"
        number = operator_number(str(node.attributes["operator"]))
        position = self.position if "r" in every or "r" not in self.shapes else "x.to(tl.int64)"
        place.line(f"report(record, {number}, {position}, {index}, {bound}, {bad})  # {node.attributes['operator']}")
        last = str(size - 1) if isinstance(size, int) else f"{bound} - 1"
        return f"tl.maximum(tl.minimum({index}, {last}), 0)", dims

    def store(self, store: Store, merged: bool) -> None:
        """Write a store; with ``merged`` one that combines reads, combines and writes without the hardware's help."""
        if self.never_inside(store.index):
            return
        valid = store.valid
        dims = self.dims_of_index(store.index) | self.dims[store.value] | {"x"}
        dims |= self.dims[valid] if valid is not None else frozenset()
        element, value = store.value.dtype, self.value(store.value)
        if _is_literal(store.value):
            value = f"tl.full((), {value}, {triton_type(element)})"
        pointer, mask = self.pointer(store.buffer, store.index, dims), self.mask(dims, store.index, valid)
        if store.mode != "set" and not merged:
            value = f"tl.broadcast_to({value}, {self.shape(dims)})" if self.dims[store.value] != dims else value
            self.scope.line(f'tl.atomic_{store.mode}({pointer}, {value}, mask={mask}, sem="relaxed")')
            return
        if store.mode != "set":
            old = self.name()
            self.scope.line(f"{old} = tl.load({pointer}, mask={mask}, other=0)")
            value = merge(store.mode, element, old, value)
        self.scope.line(f"tl.store({pointer}, {value}, mask={mask})")


def merge(mode: str, element: dtype, old: str, new: str) -> str:
    """What a combining store leaves; the 16-bit floats are combined in float32 and rounded."""
    wide = element.compute
    if wide is element:
        return emit_pointwise(MERGE[mode], element, [old, new], {})
    out = emit_pointwise(MERGE[mode], wide, [f"{old}.to({triton_type(wide)})", f"{new}.to({triton_type(wide)})"], {})
    return f"({out}).to({triton_type(element)})"


def is_atomic(store: Store) -> bool:
    """Whether the hardware combines in one step."""
    return store.value.dtype in ATOMIC.get(store.mode, ())


def number_of(node: Node) -> Any:
    """The number that a node is, or None."""
    if node.op.name == "full":
        return node.attributes["value"]
    if node.op.name == "cast" and (inner := number_of(node.sources[0])) is not None:
        return node.op.reference(np.asarray(inner).astype(node.sources[0].dtype.numpy), **node.attributes).item()
    return None


def _is_literal(node: Node) -> bool:
    return number_of(node) is not None


def literal(value: Any, element: dtype) -> str:
    """A number as Triton reads it, exactly as ``element`` holds it."""
    triton_type(element)
    with np.errstate(over="ignore"):
        exact = np.asarray(value).astype(element.numpy).astype(np.float64 if element.is_floating_point else element.numpy).item()
    if isinstance(exact, float) and not math.isfinite(exact):
        return f'float("{exact}")'
    return repr(exact)


def function(name: str, parameters: Sequence[str], body: Sequence[str]) -> str:
    """A Triton function as text."""
    return "\n".join(["", "", "@triton.jit", f"def {name}({', '.join(parameters)}):", *body, ""])


def parameters_of(kernel: Kernel) -> list[str]:
    """The run-time arguments of a kernel, in order."""
    numbers = [f"c{i}" for i in range(len(kernel.scalars))]
    return ["record", *(f"b{i}" for i in range(len(kernel.buffers))), *kernel.sizes, *numbers]


def signature_of(kernel: Kernel, index: str) -> Mapping[str, str]:
    """Triton's types of the run-time arguments; ``index`` (i32 or i64) is that of sizes."""
    out = {"record": "*i64"}
    short = {"int1": "i1", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "int8": "i8", "int16": "i16", "int32": "i32",
             "int64": "i64", "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}  # fmt: skip
    for i, b in enumerate(kernel.buffers):
        out[f"b{i}"] = "*" + short[triton_type(b.dtype).removeprefix("tl.")]
    out |= dict.fromkeys(kernel.sizes, index)
    return out | {f"c{i}": SCALAR_TYPES.get(d, "i64") for i, d in enumerate(kernel.scalars)}
