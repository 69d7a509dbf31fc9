"""Batched matrix products with fused prologue and epilogue, as kernel text for sizes and strides known only at run time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from flambeau.codegen.cpu.casts import cast
from flambeau.codegen.cpu.emitter import Emitter, Value
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.templates.matmul_block import emit_block, emit_entry
from flambeau.templates.matmul_pack import Operand, emit_pack_a, emit_pack_b
from flambeau.templates.matmul_plan import MatmulPlan, plan_blocks, tile_shape
from flambeau.templates.matmul_tile import SLOTS, Context, Epilogue, Prologue, emit_finish, emit_tile
from flambeau.templates.matmul_vector import emit_vector_product, plan_vector_product

__all__ = [
    "SLOTS", "Context", "Epilogue", "MatmulKernel", "MatmulPlan", "MatmulSpec", "Prologue", "StoreEpilogue", "matmul_kernel",
    "vector_kernel",
]  # fmt: skip


@dataclass(frozen=True)
class MatmulSpec:
    """What one kernel for ``C[b, m, n] = sum over k of A[b, m, k] * B[b, k, n]`` is generated for.

    ``a_dtype`` and ``b_dtype`` are float64 together, or any of float32, float16 and bfloat16, which accumulate in float32.
    ``a_layout`` and ``b_layout`` say which stride is 1: ``"row"`` the column's, ``"col"`` the row's, ``"any"`` perhaps none.
    ``vector_bits`` and ``features`` (LLVM's names) describe the machine. ``extra_slots`` i64 slots follow the template's own,
    for the prologues and the epilogue.
    """

    a_dtype: dtype
    b_dtype: dtype
    a_layout: str
    b_layout: str
    vector_bits: int
    features: frozenset[str]
    extra_slots: int = 0
    name: str = "matmul"

    def __post_init__(self) -> None:
        allowed = (dtypes.float32, dtypes.float16, dtypes.bfloat16)
        if (self.a_dtype, self.b_dtype) != (dtypes.float64,) * 2 and not {self.a_dtype, self.b_dtype} <= set(allowed):
            raise NotImplementedError(
                f"matmul: got {self.a_dtype} times {self.b_dtype}; the kernels take float64 with float64, or any of float32, "
                "float16 and bfloat16. Convert the operands first."
            )
        if not {self.a_layout, self.b_layout} <= {"row", "col", "any"}:
            raise ValueError(f"matmul: layouts are 'row', 'col' or 'any', got {self.a_layout!r} and {self.b_layout!r}.")

    @property
    def compute(self) -> dtype:
        return self.a_dtype.compute

    @property
    def lanes(self) -> int:
        """Elements of the compute type in a vector."""
        return self.vector_bits // (8 * self.compute.itemsize)

    @property
    def fused(self) -> bool:
        return "fma" in self.features

    @property
    def attributes(self) -> str:
        return f'nounwind "prefer-vector-width"="{self.vector_bits}"'


@dataclass(frozen=True)
class StoreEpilogue:
    """Stores C as ``element``; what a kernel without an epilogue does in its compute type."""

    element: dtype

    def emit(
        self, e: Emitter, context: Context, value: Value, batch: Value, row: Value, column: Value, mask: Value | None
    ) -> None:
        stored = cast(e, self.element.compute, self.element, value)
        target = context.output(e, batch, row, column, self.element.llvm)
        if mask is None:
            e.store(stored, target)
        else:
            e.masked_store(stored, target, mask)


@dataclass(frozen=True)
class MatmulKernel:
    """The text of one exported function ``name`` and how to launch it for given sizes.

    Slots, in order: `SLOTS` (strides in elements, 0 for a broadcast batch; C's column stride is 1), then the extra ones. With an
    epilogue of its own, the kernel takes C's slots as a hint only: where memory will be written soon, or 0.
    For each size, `plan` gives the number of chunks, the value of the ``grain`` slot and the bytes of scratch a thread needs.
    """

    name: str
    text: str
    spec: MatmulSpec
    planner: Callable[[int, int, int, int], MatmulPlan]

    @property
    def slots(self) -> tuple[str, ...]:
        return (*SLOTS, *(f"extra{i}" for i in range(self.spec.extra_slots)))

    def plan(self, batch: int, m: int, n: int, k: int) -> MatmulPlan:
        """How ``batch`` products of (m, k) with (k, n) are cut: a pure function of the sizes."""
        return self.planner(batch, m, n, k)

    def chunks(self, batch: int, m: int, n: int, k: int) -> int:
        return self.plan(batch, m, n, k).chunks

    def grain(self, batch: int, m: int, n: int, k: int) -> int:
        return self.plan(batch, m, n, k).grain

    def scratch_bytes(self, batch: int, m: int, n: int, k: int) -> int:
        return self.plan(batch, m, n, k).scratch_bytes


def matmul_kernel(
    spec: MatmulSpec,
    epilogue: Epilogue | None = None,
    a_prologue: Prologue | None = None,
    b_prologue: Prologue | None = None,
) -> MatmulKernel:
    """Generate the kernel; one serves every batch, M, N, K (0 included) and every stride of its layouts.

    >>> from flambeau.core import dtypes
    >>> spec = MatmulSpec(dtypes.float32, dtypes.float32, "row", "col", 512, frozenset({"fma", "avx512f"}))
    >>> matmul_kernel(spec).chunks(1, 2048, 384, 128) > 1
    True
    """
    a, b = Operand(spec.a_dtype, spec.a_layout, a_prologue), Operand(spec.b_dtype, spec.b_layout, b_prologue)
    kind = spec.compute.llvm
    shape = tile_shape(spec.lanes, spec.compute.itemsize)
    e = Emitter(spec.features)
    for height in shape.heights:
        emit_tile(e, shape, kind, height, spec.a_layout == "row", spec.fused)
    emit_finish(e, shape, kind, epilogue or StoreEpilogue(spec.compute), spec.extra_slots)
    emit_pack_a(e, a, shape, kind, spec.extra_slots)
    emit_pack_b(e, b, shape, kind, spec.extra_slots)
    emit_block(e, a, b, shape, kind, stores_directly=epilogue is None)
    emit_entry(e, spec.name)
    return MatmulKernel(spec.name, e.module(spec.attributes), spec, partial(plan_blocks, shape, a, b))


def vector_kernel(
    spec: MatmulSpec,
    epilogue: Epilogue | None = None,
    a_prologue: Prologue | None = None,
    b_prologue: Prologue | None = None,
) -> MatmulKernel:
    """Generate the kernel for M = 1, which reads B once and in place; B's layout is ``"row"`` or ``"col"``.

    A product with N = 1 is such a product of the transposes: exchange A and B with their ``row`` and ``col``, where C's elements
    are then contiguous. Raises NotImplementedError for a B that is neither, for which `matmul_kernel` serves.

    >>> from flambeau.core import dtypes
    >>> spec = MatmulSpec(dtypes.float32, dtypes.bfloat16, "row", "col", 512, frozenset({"fma", "avx512f"}))
    >>> vector_kernel(spec).chunks(1, 1, 4096, 4096)
    8
    """
    if spec.b_layout == "any":
        raise NotImplementedError("matmul: the kernel for one row needs a B that is contiguous along one axis; use matmul_kernel.")
    a, b = Operand(spec.a_dtype, spec.a_layout, a_prologue), Operand(spec.b_dtype, spec.b_layout, b_prologue)
    finish = epilogue or StoreEpilogue(spec.compute)
    e = Emitter(spec.features)
    emit_vector_product(e, spec.name, a, b, spec.compute.llvm, spec.lanes, finish, spec.extra_slots, spec.fused)
    return MatmulKernel(spec.name, e.module(spec.attributes), spec, partial(plan_vector_product, spec.lanes, spec.compute.itemsize))
