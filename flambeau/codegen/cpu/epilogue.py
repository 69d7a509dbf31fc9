"""A kernel as the last part of a template: a function of its own that the template calls for each finished part of its result."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.codegen.cpu.expressions import ExpressionEmitter
from flambeau.codegen.cpu.index_forms import IndexForms
from flambeau.codegen.cpu.kernel_code import function_attributes
from flambeau.codegen.cpu.memory import memory_kind
from flambeau.codegen.cpu.nest import Nest
from flambeau.codegen.cpu.phases import dependencies, needed, store_nodes
from flambeau.codegen.cpu.stores import emit_store
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import Dim
from flambeau.ir.kernel import LOAD, RESULT, Kernel, axes_in, loaded_nodes

# ``tile`` holds the elements [outer, inner, row:row + rows, column:column + columns] of the result in its compute type, with rows
# ``pitch`` elements apart, readable up to a whole vector. A null ``tile`` announces the
# call: memory is asked for beforehand.
PARAMETERS = "ptr tile, i64 pitch, i64 rows, i64 columns, i64 outer, i64 inner, i64 row, i64 column, ptr slots"
_PLACEHOLDER = "@e_"


@dataclass(frozen=True)
class EpilogueCode:
    """The text of a module and the name of its function, whose parameters are `PARAMETERS`.

    ``slots`` are those of the kernel: error record, grain (unused), buffers, sizes, scalars.
    """

    text: str
    name: str


def emit_epilogue(
    kernel: Kernel, compute: dtype, lanes: int, features: frozenset[str], checked: bool = False, aligned: bool = True
) -> EpilogueCode:
    """Do the stores of a kernel whose outer axes are (outer batch, inner batch, row, column) on parts of a result of type ``compute``.

    The ``lanes`` run along the column; ``aligned`` promises that it is a multiple of them in lane 0. With ``checked`` each buffer's
    element count follows the other slots. Equal kernels give equal text in every process. Raises ValueError when the kernel has other axes.
    """
    if len(kernel.outer) != 4 or kernel.inner or kernel.vector != kernel.outer[-1].name:
        raise ValueError(
            f"an epilogue has outer axes (outer, inner, row, column), no inner ones, and lanes along the column; got\n{kernel}"
        )
    e = Emitter(features)
    parameters = [Value("%" + text, kind) for kind, text in (p.split(" ") for p in PARAMETERS.split(", "))]
    e.begin(f"define void {_PLACEHOLDER}({', '.join(map(str, parameters))}) #0")
    _Epilogue(e, kernel, compute, lanes, parameters, checked, aligned).emit()
    e.emit("ret void")
    e.end()
    text = e.module(function_attributes(features))
    name = f"e_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return EpilogueCode(text.replace(_PLACEHOLDER + "(", f"@{name}("), name)


class _Epilogue:
    def __init__(
        self, e: Emitter, kernel: Kernel, compute: dtype, lanes: int, parameters: list[Value], checked: bool, aligned: bool
    ) -> None:
        self.e, self.kernel, self.compute = e, kernel, compute
        self.tile, self.pitch, rows, columns, outer, inner, self.row, self.column, slots = parameters
        self.names = [a.name for a in kernel.outer]
        self.order = kernel.nodes()
        self.nest = Nest(e)
        self.nest.bind({self.names[0]: outer, self.names[1]: inner})
        free = dependencies(kernel, self.order)
        self.x = ExpressionEmitter(
            self.nest, kernel, free, lanes, lambda slot: e.load(e.offset(slots, slot, "i64"), "i64", align=8),
            IndexForms(kernel, self.order, free), checked, aligned,
        )  # fmt: skip
        self.row_end, self.column_end = e.add(self.row, rows), e.add(self.column, columns)

    def emit(self) -> None:
        e, lines = self.e, self._lines()
        announced = e.compare("eq", self.tile, Value("null", "ptr"))
        self.nest.when(announced, lambda: self._loop(self.column, self.column_end, True, lambda: self._ask(lines)))
        self.nest.when(e.binary("xor", announced, e.const(True, "i1")), self._compute_all)

    def _compute_all(self) -> None:
        """Whole vectors of columns without masks, which cost much on some processors, and what is left of the columns with them."""
        e, columns = self.e, self.e.sub(self.column_end, self.column)
        whole_end = e.add(self.column, e.binary("and", columns, e.const(-self.x.width, "i64")))
        self._loop(self.column, whole_end, False, self._compute)
        self._loop(whole_end, self.column_end, True, self._compute)

    def _loop(self, start: Value, stop: Value, masked: bool, body: Callable[[], None]) -> None:
        """Vectors of columns, and inside, so that what depends on the column alone is done once, rows."""
        e, x = self.e, self.x

        def one_row(_: Value, carried: list[Value]) -> list[Value]:
            body()
            return carried

        def one_vector(column: Value, carried: list[Value]) -> list[Value]:
            if masked:
                x.masks = {0: e.compare("slt", e.lanes("i32", x.width), e.convert("trunc", e.sub(stop, column), "i32"))}
            self.nest.loop(self.names[2], self.row, self.row_end, 1, [], one_row)
            return carried

        self.nest.loop(self.names[3], start, stop, x.width, [], one_vector)
        x.masks = {}

    def _lines(self) -> dict[tuple[int, Dim], str]:
        """The accesses that come line after line, row after row: buffer and index, with the type in memory."""
        accesses = [(n.attributes["buffer"], n.attributes["index"], n.dtype) for n in self.order if n.op is LOAD]
        accesses += [(s.buffer, s.index, s.value.dtype) for s in self.kernel.stores]
        return {
            (buffer, index): memory_kind(element)
            for buffer, index, element in accesses
            if self.names[2] in axes_in(index) and not loaded_nodes(index) and self.x.steps.is_contiguous(index)
        }

    def _ask(self, lines: dict[tuple[int, Dim], str]) -> None:
        written = {s.buffer for s in self.kernel.stores}
        for (buffer, index), kind in lines.items():
            self.e.prefetch(self.x.memory.address(buffer, index, kind), level=2 if buffer in written else 1)

    def _compute(self) -> None:
        """One vector of the result."""
        e, x, kind = self.e, self.x, self.compute.llvm
        (row, _), (column, _) = self.nest.axis(self.names[2]), self.nest.axis(self.names[3])
        at = e.add(e.mul(e.sub(row, self.row), self.pitch), e.sub(column, self.column))
        value = e.load(e.offset(self.tile, at, kind), kind, x.width)
        for node in self.order:
            if node.op is RESULT:
                x.preset(node, 0, value)
        x.evaluate(needed([n for s in self.kernel.stores for n in store_nodes(s)]))
        for store in self.kernel.stores:
            emit_store(x, store, 0, True)
