"""Batched matrix products as kernel text for sizes and strides known only at run time; what is done with C is another text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from flambeau.codegen.cpu.emitter import Emitter
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.templates.matmul_block import emit_block, emit_entry
from flambeau.templates.matmul_pack import Operand, emit_pack_a, emit_pack_b
from flambeau.templates.matmul_plan import MatmulPlan, plan_blocks, tile_shape
from flambeau.templates.matmul_tile import SLOTS, WINDOW_SLOTS, emit_store, emit_tile
from flambeau.templates.matmul_vector import emit_vector_product, plan_vector_product
from flambeau.templates.matmul_window import emit_offsets, emit_pack_windows

__all__ = ["SLOTS", "WINDOW_SLOTS", "MatmulKernel", "MatmulPlan", "MatmulSpec", "matmul_kernel", "vector_kernel"]


@dataclass(frozen=True)
class MatmulSpec:
    """What one kernel for ``C[b, m, n] = sum over k of A[b, m, k] * B[b, k, n]`` is generated for.

    ``a_dtype`` and ``b_dtype`` are float64 together, or any of float32, float16 and bfloat16, which accumulate in float32.
    ``a_layout`` and ``b_layout`` say which stride is 1: ``"row"`` the column's, ``"col"`` the row's. With ``b_layout`` ``"window"`` the
    positions of B's rows and columns are numbers whose digits have a stride each, given in `WINDOW_SLOTS`; A must be the same in all
    inner batches, whose columns follow on one another in B's.
    ``vector_bits`` and ``features`` (LLVM's names) describe the machine.
    """

    a_dtype: dtype
    b_dtype: dtype
    a_layout: str
    b_layout: str
    vector_bits: int
    features: frozenset[str]
    name: str = "matmul"

    def __post_init__(self) -> None:
        allowed = (dtypes.float32, dtypes.float16, dtypes.bfloat16)
        if (self.a_dtype, self.b_dtype) != (dtypes.float64,) * 2 and not {self.a_dtype, self.b_dtype} <= set(allowed):
            raise NotImplementedError(
                f"matmul: got {self.a_dtype} times {self.b_dtype}; the kernels take float64 with float64, or any of float32, "
                "float16 and bfloat16. Convert the operands first."
            )
        if self.a_layout not in ("row", "col") or self.b_layout not in ("row", "col", "window"):
            raise ValueError(f"matmul: layouts are 'row' or 'col' (B's also 'window'), got {self.a_layout!r} and {self.b_layout!r}.")

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
    def slots(self) -> tuple[str, ...]:
        """The slots of the kernel; those of an epilogue follow."""
        return SLOTS + WINDOW_SLOTS if self.b_layout == "window" else SLOTS

    @property
    def attributes(self) -> str:
        return f'nounwind "prefer-vector-width"="{self.vector_bits}"'


@dataclass(frozen=True)
class MatmulKernel:
    """The text of one exported function ``name`` and how to launch it for given sizes.

    Slots are `SLOTS`, and for windows `WINDOW_SLOTS`. There are ``outer * inner`` batches, with a stride for either level (0 for a
    broadcast one); strides are in elements. C is of the compute type and its column stride is 1. With the address of an epilogue
    (`codegen.cpu.epilogue`) in its slot C is not touched: the epilogue gets every finished part of the result, and its own slots,
    which follow the others.
    For each size, `plan` gives the number of chunks, the value of the ``grain`` slot and the bytes of scratch a thread needs.
    """

    name: str
    text: str
    spec: MatmulSpec
    planner: Callable[[int, int, int, int, int], MatmulPlan]

    def plan(self, batch: int, m: int, n: int, k: int, threads: int = 1) -> MatmulPlan:
        """How ``batch`` products of (m, k) with (k, n) are cut for so many threads; an element's bits are the same for every cut.

        Of windows the inner batches count as columns.
        """
        return self.planner(threads, batch, m, n, k)


def matmul_kernel(spec: MatmulSpec) -> MatmulKernel:
    """Generate the kernel; one serves every batch, M, N, K (0 included) and every stride of its layouts.

    >>> from flambeau.core import dtypes
    >>> spec = MatmulSpec(dtypes.float32, dtypes.float32, "row", "col", 512, frozenset({"fma", "avx512f"}))
    >>> matmul_kernel(spec).plan(1, 2048, 384, 128, threads=2).chunks > 1
    True
    """
    a, b = Operand(spec.a_dtype, spec.a_layout), Operand(spec.b_dtype, spec.b_layout)
    kind = spec.compute.llvm
    shape = tile_shape(spec.lanes, spec.compute.itemsize)
    e = Emitter(spec.features)
    for height in (shape.tall, shape.low):
        emit_tile(e, shape, kind, height, spec.a_layout == "row", spec.fused)
    emit_store(e, shape.lanes, kind)
    emit_pack_a(e, a, shape, kind)
    if b.windowed:
        emit_offsets(e)
        emit_pack_windows(e, b, shape, kind)
    else:
        emit_pack_b(e, b, shape, kind)
    emit_block(e, a, b, shape, kind)
    emit_entry(e, spec.name, b)
    return MatmulKernel(spec.name, e.module(spec.attributes), spec, partial(plan_blocks, shape, a, b))


def vector_kernel(spec: MatmulSpec) -> MatmulKernel:
    """Generate the kernel for M = 1, which reads B once and in place.

    A product with N = 1 is such a product of the transposes: exchange A and B with their ``row`` and ``col``, where C's elements
    are then contiguous.

    >>> from flambeau.core import dtypes
    >>> spec = MatmulSpec(dtypes.float32, dtypes.bfloat16, "row", "col", 512, frozenset({"fma", "avx512f"}))
    >>> vector_kernel(spec).plan(1, 1, 4096, 4096, threads=2).chunks
    8
    """
    a, b = Operand(spec.a_dtype, spec.a_layout), Operand(spec.b_dtype, spec.b_layout)
    e = Emitter(spec.features)
    emit_vector_product(e, spec.name, a, b, spec.compute.llvm, spec.lanes, spec.fused)
    return MatmulKernel(spec.name, e.module(spec.attributes), spec, partial(plan_vector_product, spec.lanes, spec.compute.itemsize))
