"""Products of matrices on the GPU as Triton text, with the pointwise work that follows fused in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flambeau.codegen.gpu.kernel_code import NARROW_BELOW, Configuration, KernelText, ceiling_power, finish
from flambeau.codegen.gpu.pointwise import TRITON_NAMES, triton_type
from flambeau.codegen.gpu.writer import Writer, parameters_of, signature_of
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.core.symbolic import is_constant
from flambeau.ir.kernel import RESULT, Kernel
from flambeau.schedule.operands import MatmulOperands
from flambeau.schedule.windows import MOST_DIGITS

# Run-time arguments after those of the epilogue: factors, sizes, strides (outer batch, inner batch, row, column) of each factor.
FACTORS = ("left", "right")
SIZES = ("rows", "columns", "depth", "inner")
STRIDES = tuple(f"{side}_{axis}" for side in FACTORS for axis in ("outer", "inner", "row", "column"))
# With windows as the second factor: of its rows and of its columns, the sizes of all digits but the first and the strides of all.
WINDOWS = tuple(
    f"{axis}_{what}_{i}" for axis in ("depth", "column") for what, first in (("size", 1), ("step", 0)) for i in range(first, MOST_DIGITS)
)
# Rows and columns of a tile, depth of a step, warps and steps on their way at once, by the bytes of what is multiplied and how the
# second factor lies; the fastest of those measured on an H200.
TILES = {
    (2, "row"): (128, 256, 64, 8, 4), (2, "column"): (256, 128, 64, 8, 3), (2, "window"): (128, 128, 64, 8, 3),
    (4, "row"): (64, 64, 32, 4, 2), (4, "column"): (64, 64, 32, 4, 3), (4, "window"): (64, 64, 32, 4, 2),
    (8, "row"): (64, 64, 16, 4, 3), (8, "column"): (64, 64, 16, 4, 3), (8, "window"): (64, 64, 16, 4, 3),
}  # fmt: skip
# Row tiles that share columns one after another, so that these stay in the cache.
GROUP = 8


@dataclass(frozen=True)
class GpuMatmul:
    """The product of two types of factors, each contiguous along its rows or its columns, and the epilogue around its result."""

    kernel: Kernel
    types: tuple[dtype, dtype]
    contiguous: tuple[str, str]  # of each factor: "row" (the column stride is 1), "column", or "window"

    @staticmethod
    def of(kernel: Kernel, operands: MatmulOperands) -> GpuMatmul:
        """The template for a scheduled product."""
        left, right = ("row" if is_constant(s[3], 1) else "column" for s in operands.strides)
        right = right if operands.windows is None else "window"
        return GpuMatmul(kernel, operands.dtypes, (left, right))

    @property
    def compute(self) -> dtype:
        """The type of the sums."""
        found = [n.dtype for n in self.kernel.nodes() if n.op is RESULT]
        return found[0] if found else self.types[0].compute

    @property
    def arguments(self) -> tuple[str, ...]:
        """The run-time arguments after those of the epilogue."""
        return (*FACTORS, *SIZES, *STRIDES, *(WINDOWS if self.contiguous[1] == "window" else ()))

    @property
    def multiplies(self) -> dtype:
        """The type that products are made of: 16-bit floats as they are, when both factors have the same."""
        return self.types[0] if self.types[0] is self.types[1] else self.compute

    def configure(self, batch: int, rows: int, columns: int, elements: int) -> Configuration:
        """The launch of a product of these sizes; ``programs`` counts the tiles of one batch."""
        x, r, depth, warps, stages = TILES[self.multiplies.itemsize, self.contiguous[1]]
        x, r = (min(most, max(16, ceiling_power(size))) for most, size in ((x, rows), (r, columns)))
        # Smaller tiles where there would be fewer than the GPU has multiprocessors.
        while max(x, r) > 64 and batch * -(-rows // x) * -(-columns // r) < 128:
            x, r = (x // 2, r) if x >= r else (x, r // 2)
        index = "i32" if max(elements, batch * rows * columns) < NARROW_BELOW else "i64"
        tiles = -(-rows // x) * -(-columns // r)
        warps = warps if x * r >= 128 * 128 else 4
        return Configuration("matmul", (("X", x), ("R", r), ("K", depth)), warps, index, tiles, stages)

    def signature(self, index: str) -> Mapping[str, str]:
        """Triton's types of the run-time arguments."""
        short = {"int1": "i1", "uint8": "u8", "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}
        names = [TRITON_NAMES[t] for t in self.types]
        kinds = ["*" + short.get(name, name.replace("int", "i")) for name in names]
        return {**signature_of(self.kernel, index), **dict(zip(FACTORS, kinds, strict=True)), **dict.fromkeys(self.arguments[2:], index)}

    def text(self) -> KernelText:
        """The module."""
        w = Writer(self.kernel)
        w.shapes = {"x": "X", "r": "R"}
        w.masks = {"x": "in_x", "r": "in_r"}
        w.position = "(x.to(tl.int64) * columns + r)"
        self._places(w)
        self._sum(w)
        w.result = "total", frozenset(("x", "r"))
        w.evaluate(w.order)
        for store in self.kernel.stores:
            w.store(store, merged=True)
        constants = [f"{c}: tl.constexpr" for c in ("X", "R", "K", "INDEX")]
        return finish([*parameters_of(self.kernel), *self.arguments, *constants], w.text())

    def _places(self, w: Writer) -> None:
        """Which tile of which batch the program makes, and the rows and columns in it."""
        for line in (
            "down = tl.cdiv(rows, X)",
            "across = tl.cdiv(columns, R)",
            f"group = tl.program_id(0) // ({GROUP} * across)",
            f"height = tl.minimum(down - group * {GROUP}, {GROUP})",
            f"place = tl.program_id(0) % ({GROUP} * across)",
            f"x = ((group * {GROUP} + place % height).to(INDEX) * X + tl.arange(0, X))[:, None]",
            "r = ((place // height).to(INDEX) * R + tl.arange(0, R))[None, :]",
            "in_x = x < rows",
            "in_r = r < columns",
            "o = tl.program_id(1).to(INDEX) // inner",
            "i = tl.program_id(1).to(INDEX) % inner",
        ):
            w.scope.line(line)
        for a, name in zip(self.kernel.outer, ("o", "i", "x", "r"), strict=True):
            w.names[a.name] = "0" if is_constant(a.size, 1) else name
            if name in "xr" and not is_constant(a.size, 1):
                w.blocks[a.name] = name

    def _sum(self, w: Writer) -> None:
        compute, wide = triton_type(self.compute), triton_type(self.multiplies)
        steps = ["1" if side == "row" else f"{name}_column" for name, side in zip(FACTORS, self.contiguous, strict=True)]
        rows = ["1" if side == "column" else f"{name}_row" for name, side in zip(FACTORS, self.contiguous, strict=True)]
        windows = self.contiguous[1] == "window"
        by_depth, by_column = (", ".join(names) for names in (WINDOWS[: len(WINDOWS) // 2], WINDOWS[len(WINDOWS) // 2 :]))
        places = f"moved(i * columns + r, {by_column})" if windows else f"i * right_inner + k[:, None] * {rows[1]} + r * {steps[1]}"
        further = f"right + moved((start + k)[:, None], {by_depth})" if windows else "right"
        lines = [
            "k = tl.arange(0, K)",
            f"left += o * left_outer + i * left_inner + x * {rows[0]} + k[None, :] * {steps[0]}",
            f"right += o * right_outer + {places}",
            f"total = tl.zeros([X, R], {compute})",
            "for start in range(0, depth, K):",
            "    in_k = start + k < depth",
            "    a = tl.load(left, mask=in_x & in_k[None, :], other=0)",
            f"    b = tl.load({further}, mask=in_k[:, None] & in_r, other=0)",
        ]
        for name, kind in zip("ab", self.types, strict=True):
            if kind is not self.multiplies:
                lines.append(f"    {name} = {name}.to({wide})")
        # Three products of TF32 parts carry float32's digits. Factors that lie so keep float32's own units waiting for memory.
        precision = "tf32x3" if self.multiplies is dtypes.float32 and self.contiguous[1] == "column" else "ieee"
        lines.append(f'    total = tl.dot(a, b, total, input_precision="{precision}", out_dtype={compute})')
        lines += [f"    left += K * {steps[0]}", *([] if windows else [f"    right += K * {rows[1]}"])]
        for line in lines:
            w.scope.line(line)
