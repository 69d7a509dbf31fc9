"""From a kernel to the Triton text of one function, and what the host must know to launch it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from flambeau.codegen.cpu.phases import needed, plan_phases, store_nodes
from flambeau.codegen.gpu.helpers import helper_texts, with_imports
from flambeau.codegen.gpu.reduction import Accumulation, reduce_block
from flambeau.codegen.gpu.writer import Writer, function, is_atomic, parameters_of, signature_of
from flambeau.core.symbolic import Dim, axis, delinearize, evaluate, is_constant, product
from flambeau.ir.kernel import ARGREDUCE, REDUCE, Kernel, KernelAxis, loaded_nodes
from flambeau.ir.node import Node

# Elements of a row that one program holds at once; longer rows are walked over.
LONGEST_BLOCK = 16384
# Warps of the largest programs, which are halved where two such programs do not fit a processor.
MOST_WARPS = 32
# Bytes of a pointwise block in its widest buffer, 32 for each of 128 threads.
POINTWISE_BYTES = 4096
# Sizes and positions below this are computed in 32 bits.
NARROW_BELOW = (1 << 31) - (1 << 21)


@dataclass(frozen=True, slots=True)
class Configuration:
    """A launch of a text: its constants, its warps, whether positions take 32 bits ("i32") or 64 ("i64"), and its programs."""

    form: str
    constants: tuple[tuple[str, int], ...]
    warps: int
    index: str
    programs: int
    stages: int = 3


@dataclass(frozen=True)
class KernelText:
    """A module of Triton text with the name of its kernel. ``parameters`` are the arguments, constants included."""

    text: str
    name: str
    parameters: tuple[str, ...]


class KernelCode:
    """A kernel as Triton text, in the form that fits the sizes: ``flat`` (no reductions), ``block`` (a whole row is held at
    once), ``loop`` (rows are walked over) or ``serial`` (combining stores in order, one after another)."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._texts: dict[str, KernelText] = {}
        if any(set(n.attributes["axes"]) != {a.name for a in kernel.inner} for n in kernel.nodes() if n.op in (REDUCE, ARGREDUCE)):
            raise NotImplementedError("a reduction over some of a kernel's inner axes on the GPU; make a kernel of its own for it")
        lone = any(s.mode != "set" and loaded_nodes(s.index) and not is_atomic(s) for s in kernel.stores)
        if lone and kernel.inner:
            raise NotImplementedError("a reduction and a combining store that is no atomic operation in one kernel on the GPU; part them")

    @cached_property
    def points(self) -> Dim:
        """How many outer points there are that programs divide among themselves."""
        return product(a.size for a in self.kernel.outer if a not in self.serial)

    @cached_property
    def serial(self) -> tuple[KernelAxis, ...]:
        """Outer axes that one program walks along, because stores that meet must be combined one after another."""
        stores = [s for s in self.kernel.stores if s.mode != "set" and loaded_nodes(s.index) and not is_atomic(s)]
        if not stores:
            return ()
        return tuple(a for a in self.kernel.outer if not a.parallel) or self.kernel.outer

    def configure(self, sizes: Mapping[str, int], elements: int) -> Configuration:
        """The launch for these sizes, when no buffer has more than ``elements`` elements."""
        points = evaluate(self.points, sizes)
        row = evaluate(product(a.size for a in self.kernel.inner), sizes)
        index = "i32" if max(points, row, points * row, elements) < NARROW_BELOW else "i64"
        if self.serial:
            block = min(128, ceiling_power(max(points, 1)))
            return Configuration("serial", (("X", block),), 1, index, -(-points // block))
        if not self.kernel.inner:
            block = POINTWISE_BYTES // max(2, *(b.dtype.itemsize for b in self.kernel.buffers))
            return Configuration("flat", (("X", block),), 4, index, -(-points // block))
        x, r, form = row_blocks(self.lanes_outside, points, row)
        warps = MOST_WARPS if form == "block" and r == LONGEST_BLOCK else min(16, max(1 if self.lanes_outside else 2, x * r // 1024))
        return Configuration(form, (("X", x), ("R", r)), warps, index, -(-points // x))

    @property
    def lanes_outside(self) -> bool:
        return bool(self.kernel.outer) and self.kernel.vector == self.kernel.outer[-1].name

    def signature(self, index: str) -> Mapping[str, str]:
        """Triton's types of the run-time arguments."""
        return signature_of(self.kernel, index)

    def text(self, form: str) -> KernelText:
        """The module for a form."""
        found = self._texts.get(form)
        if found is None:
            found = self._texts[form] = _Emission(self.kernel, form, self.serial).module()
        return found


def ceiling_power(value: int) -> int:
    """The least power of two that is not below ``value``."""
    return 1 << max(value - 1, 0).bit_length()


def row_blocks(lanes_outside: bool, points: int, row: int) -> tuple[int, int, str]:
    """Points and row elements that a program holds, and the form of its text."""
    whole = ceiling_power(max(row, 1))
    if lanes_outside and whole > 32:
        x = min(64, ceiling_power(max(points, 1)))
        r = min(whole, 2048 // x)
        return x, r, "block" if r == whole else "loop"
    if whole > LONGEST_BLOCK:
        return 1, 4096, "loop"
    x = max(1, min(1024 // whole, ceiling_power(max(points, 1)))) if whole <= 1024 else 1
    return x, whole, "block"


class _Emission:
    """Writes one form of a kernel."""

    def __init__(self, kernel: Kernel, form: str, serial: Sequence[KernelAxis]) -> None:
        self.kernel = kernel
        self.form = form
        self.serial = tuple(serial)
        self.w = Writer(kernel)

    def module(self) -> KernelText:
        w, kernel = self.w, self.kernel
        rows = self.form in ("block", "loop")
        w.shapes = {"x": "X", "r": "R"} if rows else {"x": "X"}
        self.outer_places("[:, None]" if rows else "")
        {"flat": self.flat, "serial": self.in_order, "block": self.block, "loop": self.loop}[self.form]()
        constants = [*w.shapes.values(), "INDEX"]
        parameters = [*parameters_of(kernel), *(f"{c}: tl.constexpr" for c in constants)]
        return finish(parameters, w.text())

    def outer_places(self, shape: str) -> None:
        """The block of outer points, and the place on each axis."""
        w = self.w
        axes = [a for a in self.kernel.outer if a not in self.serial]
        block = "tl.program_id(0).to(INDEX) * X + tl.arange(0, X)"
        w.scope.line(f"x = {f'({block}){shape}' if shape else block}")
        w.scope.line(f"in_x = x < {w.dim(product(a.size for a in axes))}")
        w.masks["x"] = "in_x"
        self.places("x", axes)
        w.position = "x.to(tl.int64)"

    def places(self, block: str, axes: Sequence[KernelAxis]) -> None:
        """Name the place on each of the axes that a block runs over in row-major order."""
        w = self.w
        w.names |= {a.name: "0" for a in axes if is_constant(a.size, 1)}
        axes = [a for a in axes if a.name not in w.names]
        for a in axes:
            w.blocks[a.name] = block
        if len(axes) == 1:
            w.names[axes[0].name] = block
            return
        total = axis(block, product(a.size for a in axes))
        for a, place in zip(axes, delinearize(total, [a.size for a in axes]), strict=True):
            text = w.dim(place)
            w.scope.line(f"{a.name} = {text[1:-1] if text.startswith('(') else text}")

    def store_all(self, merged: bool = False) -> None:
        for store in self.kernel.stores:
            self.w.store(store, merged or not (store.mode != "set" and is_atomic(store)))

    # -- forms ----------------------------------------------------------------------------------------------
    def flat(self) -> None:
        self.w.evaluate(self.w.order)
        self.store_all()

    def in_order(self) -> None:
        """Each point of the serial axes after the last, so that what meets is combined in order."""
        w = self.w
        w.walks = True
        for a in self.serial:
            w.open(f"for {a.name} in range(0, {w.dim(a.size)}):", (a.name,))
        w.evaluate(w.order)
        self.store_all(merged=True)
        w.scope.line("tl.debug_barrier()")
        for _ in self.serial:
            w.close()

    def block(self) -> None:
        w = self.w
        w.scope.line("r = tl.arange(0, R)[None, :].to(INDEX)")
        self.row_places()
        for node in w.order:
            if node.op is REDUCE or node.op is ARGREDUCE:
                self.reduce(node)
            else:
                w.evaluate((node,))
        self.store_all()

    def row_places(self) -> None:
        w, total = self.w, product(a.size for a in self.kernel.inner)
        w.scope.line(f"in_r = r < {w.dim(total)}")
        w.masks["r"] = "in_r"
        self.places("r", self.kernel.inner)
        w.position = f"(x.to(tl.int64) * {w.group(total)} + r)"

    def reduce(self, node: Node) -> None:
        w = self.w
        position, _ = w._index(node.attributes["position"]) if node.op is ARGREDUCE else ("", frozenset())
        name = w.name()
        w.scope.line(f"{name} = {reduce_block(node, w.value(node.sources[0]), position)}")
        w.put(node, name, w.dims[node.sources[0]] - {"r"})

    def loop(self) -> None:
        """One walk over the rows for each phase."""
        w = self.w
        phases, last = plan_phases(self.kernel, w.order, w.free)
        total = product(a.size for a in self.kernel.inner)
        for phase in phases:
            sums = [Accumulation(node, w.name()) for node in phase.reductions]
            for accumulation in sums:
                for line in accumulation.start():
                    w.scope.line(line)
            w.evaluate(n for n in needed(phase.roots) if not w.free[n] & {a.name for a in self.kernel.inner})
            w.open(f"for start in range(0, {w.dim(total)}, R):", [a.name for a in self.kernel.inner])
            w.scope.line("r = start + tl.arange(0, R)[None, :].to(INDEX)")
            self.row_places()
            w.evaluate(needed(phase.roots))
            for accumulation in sums:
                position, _ = w._index(accumulation.position) if accumulation.position is not None else ("", frozenset())
                for line in accumulation.step(w.value(accumulation.node.sources[0]), position):
                    w.scope.line(line)
            for store in phase.stores:
                w.store(store, not (store.mode != "set" and is_atomic(store)))
            w.close()
            del w.masks["r"]
            for accumulation in sums:
                for line in accumulation.finish():
                    w.scope.line(line)
                w.put(accumulation.node, accumulation.name, frozenset({"x"}))
        w.evaluate(n for s in last for n in needed(store_nodes(s)))
        for store in last:
            w.store(store, not (store.mode != "set" and is_atomic(store)))


def finish(parameters: Sequence[str], body: Sequence[str]) -> KernelText:
    """The module of a kernel with these parameters and lines; its name comes from its text."""
    text = "\n".join(body)
    whole = with_imports(helper_texts(text) + function("kernel", parameters, body))
    name = f"k_{hashlib.sha256(whole.encode()).hexdigest()[:16]}"
    return KernelText(whole.replace("def kernel(", f"def {name}("), name, tuple(p.partition(":")[0] for p in parameters))
