"""Running sums and sorts along the middle axis of contiguous [outer, length, inner] memory on the GPU, as Triton text."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from flambeau.codegen.cpu.reduction import identity
from flambeau.codegen.gpu.kernel_code import NARROW_BELOW, Configuration, KernelText, ceiling_power, finish
from flambeau.codegen.gpu.pointwise import triton_type
from flambeau.codegen.gpu.reduction import combine
from flambeau.codegen.gpu.writer import literal, signature_of
from flambeau.core.dtypes import dtype
from flambeau.ir.kernel import BufferParameter, Kernel

# Run-time arguments after the two buffers.
SIZES = ("lines", "length", "inner")
# Elements of a row that are scanned at once, and the longest row that is sorted.
SCANNED, SORTED = 2048, 512

_COMBINE = {"sum": "add", "prod": "multiply"}


def can_sort(element: dtype, length: int) -> bool:
    """Whether rows are sorted here: a key and its place share 64 bits, and a program holds a whole row."""
    return element.itemsize <= 4 and length <= SORTED


def row_signature(source: dtype, target: dtype, index: str) -> Mapping[str, str]:
    """Triton's types of the run-time arguments: record, source, target, sizes."""
    buffers = BufferParameter(source, "read"), BufferParameter(target, "write")
    return signature_of(Kernel((), (), "", buffers, SIZES, (), ()), index)


def configure(lines: int, length: int, inner: int) -> Configuration:
    """The launch for ``lines`` rows (outer times inner)."""
    r = min(SCANNED, ceiling_power(length))
    x = max(1, min(1024 // r, ceiling_power(lines)))
    index = "i32" if lines * length < NARROW_BELOW else "i64"
    return Configuration("row", (("X", x), ("R", r)), min(8, max(1, x * r // 256)), index, -(-lines // x))


_FIRST = [
    "    x = (tl.program_id(0).to(INDEX) * X + tl.arange(0, X))[:, None]",
    "    in_x = x < lines",
    "    start = (x // inner) * length * inner + x % inner",
]


def _text(body: list[str]) -> KernelText:
    return finish(["record", "b0", "b1", *SIZES, *(f"{c}: tl.constexpr" for c in ("X", "R", "INDEX"))], _FIRST + body)


@cache
def scan_text(kind: str, element: dtype) -> KernelText:
    """The running ``sum``, ``prod``, ``max`` or ``min``, block after block of a row."""
    floats = element.is_floating_point
    by = _COMBINE.get(kind) or {"max": ("larger", "maximum"), "min": ("smaller", "minimum")}[kind][floats]
    nothing, name = literal(identity(kind, element), element), triton_type(element)
    return _text([
        f"    total = tl.full([X, 1], {nothing}, {name})",
        "    for first in range(0, length, R):",
        "        r = first + tl.arange(0, R)[None, :].to(INDEX)",
        "        inside = in_x & (r < length)",
        f"        v = tl.where(inside, tl.load(b0 + (start + r * inner), mask=inside, other=0), {nothing}).to({name})",
        f"        running = {combine(kind, element, 'total', f'tl.associative_scan(v, 1, {by})')}",
        "        tl.store(b1 + (start + r * inner), running, mask=inside)",
        f"        total = {combine(kind, element, 'total', f'tl.reduce(v, 1, {by}, keep_dims=True)')}",
    ])  # fmt: skip


@cache
def argsort_text(element: dtype, descending: bool) -> KernelText:
    """Where the elements of each row are in order, equal ones as they come; NaN counts as largest."""
    lines = [
        "    r = tl.arange(0, R)[None, :].to(INDEX)",
        "    inside = in_x & (r < length)",
        "    v = tl.load(b0 + (start + r * inner), mask=inside, other=0)",
    ]
    if element.is_floating_point:
        lines += [
            "    v = tl.where(v == 0, 0.0, v.to(tl.float32))",
            "    bits = v.to(tl.int32, bitcast=True)",
            "    key = tl.where(v != v, 2147483647, bits ^ ((bits >> 31) & 2147483647))  # ordered like the floats",
        ]
    else:
        lines.append("    key = v.to(tl.int32)")
    lines += [
        f"    key = {'-1 - ' if descending else ''}key.to(tl.int64)",
        "    both = tl.where(inside, key * 4294967296 + r, 9223372036854775807)",
        "    place = tl.sort(both, 1) & 4294967295",
        "    tl.store(b1 + (start + r * inner), place, mask=inside)",
    ]
    return _text(lines)
