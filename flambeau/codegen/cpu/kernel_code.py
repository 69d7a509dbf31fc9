"""From a kernel to the LLVM text of one function, and what the host must know to run it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.codegen.cpu.loops import LoopEmitter
from flambeau.codegen.cpu.plan import KernelPlan
from flambeau.core.symbolic import Dim
from flambeau.ir.kernel import CHECK, Kernel

_PLACEHOLDER = "@k_"
# Written bytes above which a kernel goes around the caches, which would not hold them for whoever reads them.
_STREAM_ABOVE = 8 << 20
# Lines far from one another, as turned tiles write them, pass badly through the caches.
_STREAM_TILES_ABOVE = 3 << 20
# Lines at the ends of a row are written in parts, around the caches and through them, which takes a hundred times as long.
SHORTEST_STREAM = 4096


@dataclass(frozen=True)
class KernelCode:
    """A kernel as text. ``iterations``, ``cost`` and ``scratch_bytes`` are expressions over the kernel's size symbols.

    Chunk ``c`` runs the iterations [c * grain, min((c + 1) * grain, iterations)), each of about ``cost`` nanoseconds.
    ``scratch_bytes`` of memory private to the running thread are needed. Where more than ``stream_above`` bytes are written, in
    rows of ``row_bytes`` that are whole lines or at least ``SHORTEST_STREAM`` bytes long, the streaming form is faster.
    ``operators`` names the operators whose indices are checked: ``errors.operator_number`` of each is what error records hold.
    """

    text: str
    name: str
    iterations: Dim
    cost: Dim
    scratch_bytes: Dim
    operators: tuple[str, ...]
    stream_above: int
    row_bytes: Dim


def emit_kernel(kernel: Kernel, features: frozenset[str], checked: bool = False, streaming: bool = False) -> KernelCode:
    """Generate the function of a kernel for a machine with ``features`` (LLVM's names).

    Its arguments are slots of 8 bytes: error record, grain, buffers, sizes, scalars. With ``checked`` each buffer's element
    count follows; accesses outside of them are reported and left out. With ``streaming`` whole vectors are written around the
    caches, which pays where a result is larger than they are. Equal kernels give equal text in every process.
    Raises NotImplementedError for what kernels cannot express yet.
    """
    plan = KernelPlan(kernel, features, streaming)
    e = Emitter(features)
    e.begin(f"define void {_PLACEHOLDER}(ptr %args, i64 %chunk, ptr %scratch) #0")

    def slot(index: int) -> Value:
        return e.load(e.offset(Value("%args", "ptr"), index, "i64"), "i64", align=8)

    loops = LoopEmitter(e, plan, slot, checked)
    loops.emit_chunk(Value("%chunk", "i64"))
    if streaming:
        # Before other threads hear that the chunk is done.
        e.declare("declare void @llvm.x86.sse.sfence()")
        e.emit("call void @llvm.x86.sse.sfence()")
    e.emit("ret void")
    e.end()
    text = e.module(function_attributes(features))
    name = f"k_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    operators = tuple(dict.fromkeys(str(n.attributes["operator"]) for n in plan.order if n.op is CHECK))
    text = text.replace(_PLACEHOLDER + "(", f"@{name}(")
    if plan.tiling is None:
        return KernelCode(text, name, plan.iterations, plan.cost, plan.scratch_bytes, operators, _STREAM_ABOVE, row_bytes(kernel))
    return KernelCode(text, name, plan.iterations, plan.cost, plan.scratch_bytes, operators, _STREAM_TILES_ABOVE, SHORTEST_STREAM)


def row_bytes(kernel: Kernel) -> Dim:
    """How much a kernel writes along its lanes."""
    size = next((a.size for a in (*kernel.outer, *kernel.inner) if a.name == kernel.vector), 0)
    return size * max(store.value.dtype.itemsize for store in kernel.stores)


def function_attributes(features: frozenset[str]) -> str:
    """The attributes of generated functions: vectors as wide as the code is written."""
    bits = 512 if "avx512f" in features else 256
    return f'nounwind "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'
