"""A kernel as the last part of a template: its expressions are evaluated for each vector that the template has finished."""

from __future__ import annotations

from typing import Protocol

from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.codegen.cpu.expressions import ExpressionEmitter
from flambeau.codegen.cpu.index_forms import IndexForms
from flambeau.codegen.cpu.nest import Nest
from flambeau.codegen.cpu.phases import dependencies, needed, store_nodes
from flambeau.codegen.cpu.stores import emit_store
from flambeau.ir.kernel import RESULT, Kernel


class Slots(Protocol):
    """Where a template's fused code finds its own arguments."""

    def slot(self, index: int) -> Value: ...


class KernelEpilogue:
    """Does the stores of a kernel whose outer axes are batch, row and column, in this order, with lanes along the column.

    Its arguments are the template's extra slots: the error record, then the kernel's buffers, sizes and scalars.
    """

    def __init__(self, kernel: Kernel) -> None:
        if len(kernel.outer) != 3 or kernel.inner or kernel.vector != kernel.outer[-1].name:
            raise ValueError(f"an epilogue has outer axes (batch, row, column), no inner ones, and lanes along the column; got\n{kernel}")
        self.kernel = kernel
        self.order = kernel.nodes()
        self.free = dependencies(kernel, self.order)
        self.forms = IndexForms(kernel, self.order, self.free)
        self.results = [n for n in self.order if n.op is RESULT]
        self.extra_slots = 1 + len(kernel.buffers) + len(kernel.sizes) + len(kernel.scalars)

    def emit(self, e: Emitter, context: Slots, value: Value, batch: Value, row: Value, column: Value, mask: Value | None) -> None:
        """Store what the kernel makes of ``value``, the elements [batch, row, column ...] of the template's result."""
        nest = Nest(e)
        nest.bind({a.name: place for a, place in zip(self.kernel.outer, (batch, row, column), strict=True)})
        # Kernels have a slot for the grain that an epilogue has no use for.
        x = ExpressionEmitter(nest, self.kernel, self.free, value.width, lambda slot: context.slot(max(slot - 1, 0)), self.forms)
        for node in self.results:
            x.preset(node, 0, value)

        def stores() -> None:
            x.evaluate(needed([n for s in self.kernel.stores for n in store_nodes(s)]))
            for store in self.kernel.stores:
                emit_store(x, store, 0, value.width > 1)

        if value.width > 1 or mask is None:
            x.masks = {} if mask is None else {0: mask}
            stores()
        else:
            nest.when(mask, stores)


def epilogue_of(kernel: Kernel) -> KernelEpilogue:
    """The epilogue that does a kernel's stores; ValueError when its axes are not those of a template's result."""
    return KernelEpilogue(kernel)
