"""The one module that touches Triton: turns kernel text into machine code for NVIDIA GPUs, with no GPU and no PyTorch.

Machine code is kept in the disk cache, so that a later process does not import Triton at all.
"""

from __future__ import annotations

import json
import linecache
import os
import struct
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from flambeau.core import events
from flambeau.core.config import config
from flambeau.core.events import counters
from flambeau.runtime import disk_cache

if TYPE_CHECKING:
    from flambeau.codegen.gpu.kernel_code import KernelText

__all__ = ["Cubin", "GpuCompilerError", "Variant", "compile_variant", "get_cubin", "triton_version"]

_NAMESPACE = "cubins"
# Raise when this module changes what it makes of the same text.
_FORMAT = 1
_DIVISIBLE = [["tt.divisibility", 16]]
_lock = threading.Lock()


class GpuCompilerError(RuntimeError):
    """Triton refused a kernel's text: a fault of flambeau, not of the user's program."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A text with all that decides its machine code.

    ``signature`` holds Triton's types of the run-time arguments, ``constants`` the values of the others, ``index`` the type of
    positions (i32 or i64). ``aligned`` names the arguments that are multiples of 16. ``capability`` is 80, 90, 100, ...
    """

    text: KernelText
    signature: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, int], ...]
    index: str
    warps: int
    aligned: frozenset[str]
    capability: int
    stages: int = 3

    def key(self) -> str:
        """The name of the machine code in the disk cache."""
        parts = self.signature, self.constants, self.index, self.warps, sorted(self.aligned), self.capability, self.stages
        return disk_cache.key(_FORMAT, triton_version(), self.text.text, parts)


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code: ``name`` is its entry, ``shared`` its bytes of shared memory, ``scratch`` its bytes of global scratch."""

    code: bytes
    name: str
    shared: int
    warps: int
    scratch: int

    def to_bytes(self) -> bytes:
        """For the disk."""
        head = json.dumps([self.name, self.shared, self.warps, self.scratch]).encode()
        return struct.pack("<I", len(head)) + head + self.code

    @staticmethod
    def from_bytes(data: bytes) -> Cubin:
        """The inverse of `to_bytes`; ValueError for anything else."""
        if len(data) < 4:
            raise ValueError("a cubin's entry in the cache is cut short")
        (length,) = struct.unpack_from("<I", data)
        name, shared, warps, scratch = json.loads(data[4 : 4 + length])
        return Cubin(data[4 + length :], name, shared, warps, scratch)


@cache
def triton_version() -> str:
    """The installed Triton's version, found without importing it; ModuleNotFoundError when there is none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("triton")
    except PackageNotFoundError:
        raise ModuleNotFoundError(
            "flambeau needs Triton to compile kernels for NVIDIA GPUs, and it is not installed: pip install 'flambeau[cuda]'", name="triton"
        ) from None


def get_cubin(variant: Variant) -> Cubin:
    """The machine code of a variant, from the disk or compiled now.

    Raises ModuleNotFoundError without Triton and `GpuCompilerError` when Triton refuses the text.
    """
    key = variant.key()
    data = disk_cache.get(_NAMESPACE, key)
    if data is not None:
        try:
            found = Cubin.from_bytes(data)
            counters["gpu_kernel_disk_hits"] += 1
            return found
        except ValueError:
            disk_cache.discard(_NAMESPACE, key)
    found = compile_variant(variant)
    disk_cache.put(_NAMESPACE, key, found.to_bytes())
    return found


def compile_variant(variant: Variant) -> Cubin:
    """Compile a variant, whatever the disk holds."""
    compiled = _compile(variant)
    counters["gpu_kernel_compiles"] += 1
    if events.enabled("kernel_text"):
        events.emit("kernel_text", names=variant.text.name, text=variant.text.text)
    if config.debug >= 6:
        events.emit("assembly", names=variant.text.name, text=compiled.asm["ptx"])
    meta = compiled.metadata
    scratch = int(getattr(meta, "global_scratch_size", 0) or 0)
    return Cubin(compiled.asm["cubin"], meta.name, int(meta.shared), int(meta.num_warps), scratch)


def _compile(variant: Variant) -> Any:
    triton_version()
    started = time.perf_counter()
    import triton  # pyright: ignore[reportMissingImports]
    import triton.language as tl  # pyright: ignore[reportMissingImports]
    from triton.backends.compiler import GPUTarget  # pyright: ignore[reportMissingImports]
    from triton.compiler import ASTSource  # pyright: ignore[reportMissingImports]

    function = load_function(variant.text)
    values: Mapping[str, Any] = {**dict(variant.constants), "INDEX": tl.int32 if variant.index == "i32" else tl.int64}
    names = list(variant.text.parameters)
    signature = dict(variant.signature) | dict.fromkeys(values, "constexpr")
    source = ASTSource(
        function, signature={n: signature[n] for n in names}, constexprs={(names.index(n),): v for n, v in values.items()},
        attrs={(names.index(n),): _DIVISIBLE for n in sorted(variant.aligned)},
    )  # fmt: skip
    options = {"num_warps": variant.warps, "num_stages": variant.stages, "enable_fp_fusion": False, "sanitize_overflow": False}
    with _lock, tempfile.TemporaryDirectory(prefix="flambeau-triton-") as folder:
        before = os.environ.get("TRITON_CACHE_DIR")
        os.environ["TRITON_CACHE_DIR"] = folder  # Ours is the cache; Triton's own would grow without bound.
        try:
            compiled = triton.compile(source, target=GPUTarget("cuda", variant.capability, 32), options=options)
        except Exception as error:
            raise GpuCompilerError(f"Triton {triton.__version__} refused {variant.text.name}: {error}\n{variant.text.text}") from error
        finally:
            if before is None:
                del os.environ["TRITON_CACHE_DIR"]
            else:
                os.environ["TRITON_CACHE_DIR"] = before
    events.emit("kernel_compile", kernels=1, milliseconds=(time.perf_counter() - started) * 1e3)
    return compiled


@cache
def load_function(text: KernelText) -> Any:
    """The kernel of a text as a Triton function. Triton reads the source of functions again, so it is told where that is."""
    file = f"<flambeau {text.name}>"
    linecache.cache[file] = (len(text.text), None, text.text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"__name__": f"flambeau_{text.name}"}
    exec(compile(text.text, file, "exec"), space)  # noqa: S102 - our own text
    return space[text.name]
