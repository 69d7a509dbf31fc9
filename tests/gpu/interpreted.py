"""Runs kernel texts on numpy arrays by Triton's interpreter, and compares random kernels with the reference interpreter.

A script, because Triton reads TRITON_INTERPRET when it is imported: ``TRITON_INTERPRET=1 python tests/gpu/interpreted.py 0 60``
runs the random kernels of those seeds and prints how many it compared. The functions of libdevice are numpy's here.
"""

from __future__ import annotations

import shutil
import struct
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]
from triton.runtime import interpreter  # pyright: ignore[reportMissingImports]

from flambeau.codegen.cpu.errors import operator_number
from flambeau.codegen.gpu.kernel_code import Configuration, KernelCode, KernelText, ceiling_power
from flambeau.compilation.cuda_program import scalar_bits
from flambeau.core import dtypes
from flambeau.core.symbolic import evaluate, product
from flambeau.ir.kernel import Kernel
from flambeau.prims.declare import ALL as PRIMITIVES
from tests.kernel_reference import run_kernel
from tests.unit.random_kernels import random_case


def _apply(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*tensors: Any) -> Any:
        arrays = [t.handle.data for t in tensors]
        with np.errstate(all="ignore"):
            out = np.asarray(function(*arrays)).astype(arrays[0].dtype)
        return tl.tensor(interpreter.TensorHandle(out, tensors[0].handle.dtype), tensors[0].type)

    return call


NUMPY_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
               "atan2": "arctan2", "pow": "power", "sqrt_rn": "sqrt"}  # fmt: skip
SAME_NAMES = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil",
              "trunc", "rint", "fmod", "copysign", "nextafter")  # fmt: skip
LIBRARY = SimpleNamespace(
    **{name: _apply(getattr(np, name)) for name in SAME_NAMES}, **{ours: _apply(getattr(np, name)) for ours, name in NUMPY_NAMES.items()},
    **{name: _apply(PRIMITIVES[name].reference) for name in ("erf", "erfc", "erfinv", "lgamma")},
)  # fmt: skip


@cache
def functions_of(text: KernelText) -> Any:
    """The kernel of a text as the interpreter runs it. It reads the source from a file."""
    folder = tempfile.mkdtemp(prefix="flambeau-interpreted-")
    path = Path(folder) / f"{text.name}.py"
    path.write_text(text.text)
    space: dict[str, Any] = {"__name__": "interpreted"}
    exec(compile(text.text, str(path), "exec"), space)
    space["libdevice"] = LIBRARY
    shutil.rmtree(folder)
    return space[text.name]


KINDS = {"i1": "bool", "u8": "uint8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "fp16": "float16", "bf16": "bfloat16",
         "fp32": "float32", "fp64": "float64"}  # fmt: skip


class Address:
    """A pointer in the form that the interpreter asks of tensors."""

    def __init__(self, address: int, kind: str) -> None:
        self.address = address
        self.dtype = KINDS[kind]

    def data_ptr(self) -> int:
        return self.address

    def untyped_storage(self) -> Address:
        return self

    def cpu(self) -> Address:
        return self

    def new_empty(self, *_: object, **__: object) -> Address:
        return self

    def set_(self, *_: object) -> None:
        return None

    def copy_(self, other: Address) -> None:
        assert other.address == self.address

    storage_offset = size = stride = lambda self: 0


def run_text(
    text: KernelText, signature: Sequence[tuple[str, str]], values: Sequence[int], constants: Mapping[str, Any], index: str,
    grid: tuple[int, ...],
) -> None:  # fmt: skip
    """Run a kernel; ``values`` are the 8-byte slots of its run-time arguments."""
    arguments: dict[str, Any] = {}
    for (name, kind), value in zip(signature, values, strict=True):
        if kind[0] == "*":
            arguments[name] = Address(value & (1 << 64) - 1, kind[1:])
        elif kind[:2] == "fp":
            form, passed = ("<d", tl.float64) if kind == "fp64" else ("<f", tl.float32)
            number = struct.unpack_from(form, struct.pack("<q", value))[0]
            array = np.array([number], np.float64 if passed is tl.float64 else np.float32)
            arguments[name] = tl.tensor(interpreter.TensorHandle(array, passed), passed)
        else:
            arguments[name] = value
    chosen = {**constants, "INDEX": tl.int32 if index == "i32" else tl.int64}
    with np.errstate(all="ignore"):
        functions_of(text)[grid](**arguments, **chosen)


def interpret(code: KernelCode, chosen: Configuration, buffers: Sequence[np.ndarray], sizes: Mapping[str, int], numbers: Sequence[Any],
              record: np.ndarray) -> None:  # fmt: skip
    """Run a configuration of a kernel on flat arrays, which it changes in place."""
    kernel = code.kernel
    values = [record.ctypes.data, *(a.ctypes.data for a in buffers), *(sizes[n] for n in kernel.sizes)]
    values += [scalar_bits(v, d) for v, d in zip(numbers, kernel.scalars, strict=True)]
    signature = list(code.signature(chosen.index).items())
    run_text(code.text(chosen.form), signature, values, dict(chosen.constants), chosen.index, (chosen.programs,))


def configurations(code: KernelCode, sizes: Mapping[str, int]) -> list[Configuration]:
    """The one that is chosen, and small blocks that reach every edge."""
    chosen = code.configure(sizes, 1 << 20)
    points = evaluate(code.points, sizes)
    out = [chosen]
    if chosen.form in ("block", "loop"):
        row = evaluate(product(a.size for a in code.kernel.inner), sizes)
        out.append(Configuration("block", (("X", 2), ("R", ceiling_power(max(row, 1)))), 4, "i64", -(-points // 2)))
        out.append(Configuration("loop", (("X", 4), ("R", 16)), 4, "i32", -(-points // 4)))
    return [c for c in out if c.programs <= 64]


def uses_bfloat16(kernel: Kernel) -> bool:
    """Whether numbers pass through bfloat16, to which the interpreter does not round as machines do."""
    return dtypes.bfloat16 in {*kernel.scalars, *(b.dtype for b in kernel.buffers), *(n.dtype for n in kernel.nodes())}


def compare(seed: int) -> int:
    """Compare one random kernel in each form; how many runs were compared."""
    case = random_case(seed)
    kernel = case.kernel
    assert isinstance(kernel, Kernel)
    expected = [a.copy() for a in case.arrays]
    reports = run_kernel(kernel, expected, case.sizes, case.numbers)
    code = KernelCode(kernel)
    compared = 0
    for chosen in configurations(code, case.sizes):
        found = [a.copy() for a in case.arrays]
        record = np.zeros(6, np.int64)
        interpret(code, chosen, found, case.sizes, case.numbers, record)
        for number, (a, b) in enumerate(zip(found, expected, strict=True)):
            kind = kernel.buffers[number].dtype
            tolerance = 4e-3 if kind is dtypes.float16 else 2e-2 if uses_bfloat16(kernel) else 1e-4
            if kind.is_floating_point:
                wide = a.astype(np.float64), b.astype(np.float64)
                np.testing.assert_allclose(*wide, rtol=tolerance, atol=1e-6, err_msg=f"seed {seed} {chosen}")
            else:
                np.testing.assert_array_equal(a, b, err_msg=f"seed {seed} {chosen}")
        assert bool(record[0]) == bool(reports), f"seed {seed} {chosen}: reported {record}, expected {reports}"
        if reports:
            assert (int(record[4]), int(record[5])) in {(v, s) for _, v, s in reports}, f"seed {seed}: {record}"
            assert int(record[2]) in {operator_number(name) for name, _, _ in reports}
        compared += 1
    return compared


if __name__ == "__main__":
    first, last = int(sys.argv[1]), int(sys.argv[2])
    total, failures = 0, []
    for number in range(first, last):
        try:
            total += compare(number)
        except NotImplementedError as error:
            print(f"seed {number}: {error}")
        except Exception as error:
            if "mask has unsupported dtype" in str(error):
                print(f"seed {number}: the interpreter takes no masks of single elements")
                continue
            failures.append((number, f"{type(error).__name__}: {str(error)[:600]}"))
    for number, message in failures:
        print(f"FAILED seed {number}: {message}")
    print(f"triton {triton.__version__}: compared {total}, failed {len(failures)}, torch imported: {'torch' in sys.modules}")
    sys.exit(bool(failures))
