"""Kernels of operators, as schedules make them, for tests of GPU code."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.codegen.gpu.kernel_code import Configuration, KernelCode
from flambeau.compilation.triton_driver import Variant
from flambeau.ir.kernel import Kernel
from flambeau.ops.declare import ALL
from flambeau.schedule.operands import MatmulOperands
from flambeau.tensor.dispatch import plan_call, take_apart


def kernels_of(operator: str, *arguments: Any) -> list[Kernel]:
    """The kernels of an operator's call."""
    bound = plan_call(take_apart(ALL[operator], arguments, {}), ()).run.bound
    assert bound is not None
    return [call.built.kernel for call in bound.program.schedule.calls if call.built is not None]


def products_of(operator: str, *arguments: Any) -> list[tuple[Kernel, MatmulOperands]]:
    """The epilogues and operands of the products of matrices in an operator's call."""
    bound = plan_call(take_apart(ALL[operator], arguments, {}), ()).run.bound
    assert bound is not None
    return [(c.built.kernel, c.operands) for c in bound.program.schedule.calls if c.built is not None and c.operands is not None]


def samples() -> dict[str, Kernel]:
    """One kernel of each kind, by a name."""
    x = torch.randn(6, 40)
    row = torch.randn(40)
    number = torch.tensor([0, 3, 5])
    half = x.bfloat16()
    found = {
        "add": kernels_of("add", x, row), "gelu": kernels_of("gelu", x), "turned": kernels_of("add", x.t(), torch.randn(40, 6)),
        "softmax": kernels_of("softmax", x, 1), "layer_norm": kernels_of("layer_norm", x, (40,), row, row, 1e-5),
        "argmax": kernels_of("argmax", x, 1), "columns": kernels_of("sum", x, (0,)), "any": kernels_of("any", x > 0, 1),
        "prod": kernels_of("prod", x, 1), "gather": kernels_of("index_select", x, 0, number),
        "scatter": kernels_of("index_add", x, 0, number, x[:3]),
        "scatter_in_order": kernels_of("index_add", half, 0, number, half[:3]),
        "integers": kernels_of("floor_divide", torch.arange(9), torch.arange(1, 10)), "half": kernels_of("exp", x.half()),
        "join": kernels_of("cat", [x, x], 1),
    }  # fmt: skip
    return {name: kernels[-1] for name, kernels in found.items()}


def variants(kernel: Kernel, capability: int) -> list[Variant]:
    """Every form of a kernel, with narrow and wide positions."""
    code = KernelCode(kernel)
    blocks = {"flat": (("X", 256),), "serial": (("X", 32),), "block": (("X", 4), ("R", 64)), "loop": (("X", 2), ("R", 128))}
    forms = ["block", "loop"] if kernel.inner else ["serial" if code.serial else "flat"]
    return [variant(code, Configuration(form, blocks[form], 4, index, 1), capability) for form in forms for index in ("i32", "i64")]


def variant(code: KernelCode, chosen: Configuration, capability: int) -> Variant:
    signature = tuple(code.signature(chosen.index).items())
    aligned = frozenset(name for name, kind in signature if kind.startswith("*"))
    return Variant(code.text(chosen.form), signature, chosen.constants, chosen.index, chosen.warps, aligned, capability)
