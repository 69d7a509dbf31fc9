"""Triton text of kernels: as read by a person, compiled for three generations of GPUs with none present, and right when interpreted."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau as torch
from flambeau.codegen.gpu.helpers import SOURCES
from flambeau.codegen.gpu.kernel_code import KernelCode, finish, row_blocks
from flambeau.codegen.gpu.pointwise import POINTWISE, emit_pointwise
from flambeau.compilation import triton_driver
from flambeau.compilation.triton_driver import Cubin, GpuCompilerError, Variant, compile_variant, get_cubin
from flambeau.core import dtypes
from flambeau.ops.declare import ALL
from flambeau.prims.declare import ALL as PRIMITIVES
from flambeau.schedule.split import CPU_PIECES, GPU_PIECES, long_reductions
from flambeau.templates import gpu_rows
from flambeau.templates.gpu_matmul import GpuMatmul
from flambeau.tensor.dispatch import plan_call, take_apart
from tests.gpu.gpu_kernels import kernels_of, products_of, samples, variants

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed here: pip install triton (of the extra cuda)"
)
needs_interpreter = pytest.mark.skipif(
    importlib.util.find_spec("triton") is not None and importlib.metadata.version("triton") < "3.9",
    reason="the interpreter of this Triton turns arrays into numbers in a way that numpy no longer allows",
)
CAPABILITIES = (80, 90, 100)


def test_softmax_reads_as_written_by_hand(request: pytest.FixtureRequest) -> None:
    code = KernelCode(kernels_of("softmax", torch.randn(8, 96), 1)[0])
    text = "\n".join(code.text(form).text for form in ("block", "loop"))
    path = HERE / "texts" / "softmax.txt"
    if request.config.getoption("--update-golden"):
        path.write_text(text)
    assert path.read_text() == text, "if this change is intended: pytest tests/gpu --update-golden, and read the diff"


def test_one_text_serves_all_sizes() -> None:
    first, second = (KernelCode(kernels_of("softmax", torch.randn(*shape), 1)[0]) for shape in ((8, 96), (1000, 7)))
    assert first.text("block") == second.text("block")


def test_every_pointwise_primitive_has_its_entry() -> None:
    nothing = {"copy", "detach", "attach", "own", "slope", "beside"}
    pointwise = {name for name, prim in PRIMITIVES.items() if prim.family == "pointwise"} - nothing
    assert pointwise == set(POINTWISE)


def test_types_without_a_form_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="compute it in torch.float32 instead"):
        emit_pointwise("exp", dtypes.float16, ["v"], {})
    with pytest.raises(NotImplementedError, match="complex64"):
        emit_pointwise("add", dtypes.complex64, ["v", "w"], {})
    with pytest.raises(NotImplementedError, match="not defined"):
        emit_pointwise("sqrt", dtypes.int32, ["v"], {})


@pytest.mark.parametrize(("outside", "points", "row", "form"), [
    (False, 10, 96, "block"), (False, 4, 16384, "block"), (False, 4, 16385, "loop"), (True, 1000, 16, "block"), (True, 1000, 5000, "loop"),
])  # fmt: skip
def test_blocks_hold_short_rows_whole(outside: bool, points: int, row: int, form: str) -> None:
    x, r, chosen = row_blocks(outside, points, row)
    assert chosen == form
    assert (r >= row) == (form == "block")
    assert x & (x - 1) == 0 and r & (r - 1) == 0 and x * r <= 16384


def test_positions_are_wide_only_where_needed() -> None:
    code = KernelCode(kernels_of("add", torch.randn(4, 5), torch.randn(5))[0])
    assert code.configure({"n0": 1000, "n1": 1000}, 10**6).index == "i32"
    assert code.configure({"n0": 1 << 16, "n1": 1 << 16}, 1 << 32).index == "i64"
    assert code.configure({"n0": 1000, "n1": 1000}, 1 << 31).index == "i64"


def test_flambeau_loads_no_triton() -> None:
    program = "import flambeau, sys; flambeau.randn(3).exp(); assert not any(m.split('.')[0] in ('triton', 'cuda') for m in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def a_variant() -> Variant:
    return variants(samples()["add"], 90)[0]


def test_missing_triton_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    triton_driver.triton_version.cache_clear()
    with pytest.raises(ModuleNotFoundError, match=re.escape("pip install 'flambeau[cuda]'")):
        get_cubin(a_variant())
    triton_driver.triton_version.cache_clear()


def test_cubins_survive_the_disk() -> None:
    cubin = Cubin(b"\x7fELF\0rest", "k_1", 2048, 4, 0)
    assert Cubin.from_bytes(cubin.to_bytes()) == cubin
    for damaged in (b"", b"\1", cubin.to_bytes()[:20]):
        with pytest.raises(ValueError):
            Cubin.from_bytes(damaged)


@needs_triton
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_kernels_compile_with_no_gpu(capability: int) -> None:
    for name, kernel in samples().items():
        for variant in variants(kernel, capability):
            cubin = compile_variant(variant)
            assert cubin.code[:4] == b"\x7fELF", name
            assert cubin.name == variant.text.name and cubin.shared <= 100 << 10, name
    assert "torch" not in sys.modules


FLOATS, INTEGERS = (dtypes.float32, dtypes.float64), (dtypes.int64, dtypes.int32, dtypes.int8, dtypes.uint8)


def every_primitive() -> str:
    """A text that applies every pointwise primitive to every type that has it."""
    lines, operands = [], {}
    for number, element in enumerate((*FLOATS, *INTEGERS, dtypes.bool_)):
        lines.append(f"    x{number} = tl.load(b{number} + x)")
        for name in POINTWISE:
            same_size = {8: dtypes.int64, 4: dtypes.int32, 1: dtypes.uint8}[element.itemsize]
            attributes = {"to": same_size if name == "bitcast" else dtypes.bfloat16}
            values = [f"x{number} != x{number}" if name == "where" else f"x{number}", f"x{number}", f"x{number}"]
            try:
                text = emit_pointwise(name, element, values, attributes)
            except NotImplementedError:
                continue
            lines += [f"    y = {text}", f"    tl.store(out + {len(operands)}, tl.max(y.to(tl.float32)))"]
            operands[name, element] = text
    assert len(operands) > 150
    return "\n".join(lines)


@needs_triton
def test_every_primitive_compiles() -> None:
    names = [f"b{i}" for i in range(7)]
    text = finish([*names, "out", "X: tl.constexpr", "INDEX: tl.constexpr"], ["    x = tl.arange(0, X)", every_primitive()])
    kinds = ("fp32", "fp64", "i64", "i32", "i8", "u8", "i1")
    signature = tuple((n, "*" + k) for n, k in zip(names, kinds, strict=True)) + (("out", "*fp32"),)
    assert all(f"def {name}(" in text.text for name in ("truncdiv", "remainder", "power", "shift_left", "shift_right", "digamma"))
    assert compile_variant(Variant(text, signature, (("X", 32),), "i32", 1, frozenset(), 90)).code[:4] == b"\x7fELF"


@needs_triton
def test_a_refused_text_is_our_fault(capfd: pytest.CaptureFixture[str]) -> None:
    good = a_variant()
    bad = type(good.text)(good.text.text.replace("tl.load(b0", "tl.lod(b0"), good.text.name, good.text.parameters)
    triton_driver.load_function.cache_clear()
    with pytest.raises(GpuCompilerError, match="refused k_"):
        compile_variant(Variant(bad, good.signature, good.constants, good.index, 4, good.aligned, 90))


@needs_triton
def test_a_second_process_loads_no_triton(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from tests.gpu.gpu_kernels import samples, variants\n"
        "from flambeau.compilation.triton_driver import get_cubin\n"
        "print(len(get_cubin(variants(samples()['softmax'], 90)[0]).code), 'triton' in sys.modules)"
    )
    environment = {**os.environ, "FLAMBEAU_CACHE_DIR": str(tmp_path), "FLAMBEAU_CACHE": "on"}
    command = [sys.executable, "-c", program]
    runs = [subprocess.run(command, env=environment, cwd=ROOT, check=True, capture_output=True, text=True) for _ in range(2)]
    outputs = [run.stdout.split() for run in runs]
    assert outputs[0][1] == "True" and outputs[1][1] == "False"
    assert outputs[0][0] == outputs[1][0]


@needs_triton
@needs_interpreter
@pytest.mark.parametrize("first", [0, 30, 60])
def test_random_kernels_mean_the_same(first: int) -> None:
    """Triton's interpreter on the CPU, with no PyTorch, against the reference interpreter."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "FLAMBEAU_CACHE": "off"}
    command = [sys.executable, str(HERE / "interpreted.py"), str(first), str(first + 30)]
    run = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    found = re.search(r"compared (\d+), failed 0, torch imported: False", run.stdout)
    assert found is not None and int(found[1]) >= 30, run.stdout


def test_helpers_are_written_once() -> None:
    code = KernelCode(samples()["gather"])
    text = code.text("flat").text
    assert text.count("def report(") == 1
    assert all(source.startswith("\ndef ") for source in SOURCES.values())


@needs_triton
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_templates_compile_with_no_gpu(capability: int) -> None:
    x = torch.randn(4, 3, 9, 9)
    called = (
        ("matmul", x.bfloat16(), x.bfloat16()), ("linear", x, torch.randn(7, 9), torch.randn(7)), ("matmul", x.double(), x.double()),
        ("conv2d", x, torch.randn(5, 3, 3, 3)),
    )  # fmt: skip
    products = [product for name, *arguments in called for product in products_of(name, *arguments)]
    assert len(products) == 4 and any(operands.windows is not None for _, operands in products)
    for kernel, operands in products:
        template = GpuMatmul.of(kernel, operands)
        chosen = template.configure(1, 4096, 4096, 1 << 24)
        signature = tuple(template.signature("i32").items())
        stages = chosen.stages if capability >= 90 else min(chosen.stages, 3)
        aligned = frozenset(n for n, _ in signature if n != "record")
        variant = Variant(template.text(), signature, chosen.constants, "i32", chosen.warps, aligned, capability, stages)
        assert compile_variant(variant).shared <= (227 << 10 if capability >= 90 else 163 << 10)
    for element in (dtypes.float32, dtypes.int64, dtypes.uint8) if capability == 90 else ():
        rows = [(gpu_rows.scan_text(kind, element), element) for kind in ("prod", "max")]
        rows += [(gpu_rows.argsort_text(element, True), dtypes.int64)] if gpu_rows.can_sort(element, 16) else []
        for text, target in rows:
            chosen = gpu_rows.configure(100, 16, 1)
            signature = tuple(gpu_rows.row_signature(element, target, "i64").items())
            variant = Variant(text, signature, chosen.constants, "i64", chosen.warps, frozenset(), capability)
            assert compile_variant(variant).code[:4] == b"\x7fELF"


def test_products_take_tiles_that_fill_the_gpu() -> None:
    kernel = samples()["add"]
    template = GpuMatmul(kernel, (dtypes.bfloat16, dtypes.bfloat16), ("row", "row"))
    large, small, thin = (template.configure(1, *sizes, 1 << 20) for sizes in ((8192, 8192), (300, 300), (1, 5000)))
    assert dict(large.constants) == {"X": 128, "R": 256, "K": 64} and large.programs == 64 * 32 and large.warps == 8
    assert dict(small.constants)["X"] == 64 and small.programs == 5 * 5 and small.warps == 4
    assert dict(thin.constants)["X"] == 16


def test_a_gpu_cuts_reductions_in_more_pieces() -> None:
    columns, rows = (plan_call(take_apart(ALL["sum"], (torch.ones(2048, 1024), (axis,)), {}), ()).run.function.graph for axis in (0, 1))
    sizes = {"s0": 2048, "s1": 1024, "d0": 2048, "d1": 1024}
    assert long_reductions(columns, sizes, GPU_PIECES) and not long_reductions(columns, sizes, CPU_PIECES)
    assert not long_reductions(rows, sizes, GPU_PIECES)
