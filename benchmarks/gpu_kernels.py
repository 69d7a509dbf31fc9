"""Times of flambeau's kernels on a GPU beside PyTorch's, where that is installed: bandwidth, products, launches.

    python benchmarks/gpu_kernels.py

Each case is timed with events over many calls after a warm-up, twice, and the better is shown.
"""

from __future__ import annotations

import importlib.util
import operator
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import flambeau
import flambeau.nn.functional as F

# (name, what is computed on x, bytes moved for each element of x)
ROWS: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "add": (lambda f, x: x + 1, 2),
    "softmax": (lambda f, x: f.softmax(x, -1), 2),
    "layer_norm": (lambda f, x: f.layer_norm(x, (x.shape[-1],)), 2),
    "gelu": (lambda f, x: f.gelu(x), 2),
    "sum of rows": (lambda f, x: x.sum(-1), 1),
    "sum of columns": (lambda f, x: x.sum(0), 1),
}


def milliseconds(library: Any, call: Callable[[], Any], runs: int) -> float:
    """The time of one call."""
    for _ in range(3):
        call()
    best = float("inf")
    for _ in range(2):
        first, then = library.cuda.Event(enable_timing=True), library.cuda.Event(enable_timing=True)
        library.cuda.synchronize()
        first.record()
        for _ in range(runs):
            call()
        then.record()
        library.cuda.synchronize()
        best = min(best, first.elapsed_time(then) / runs)
    return best


def libraries() -> list[tuple[str, Any, Any]]:
    found: list[tuple[str, Any, Any]] = [("flambeau", flambeau, F)]
    if importlib.util.find_spec("torch") is not None:
        import torch  # noqa: PLC0415
        import torch.nn.functional as torch_functional  # noqa: PLC0415

        torch.backends.cuda.matmul.allow_tf32 = False
        found.append(("torch", torch, torch_functional))
    return found


def report(name: str, values: list[tuple[str, float]]) -> None:
    print(f"{name:44}" + "   ".join(f"{who} {value:10.2f}" for who, value in values), flush=True)


def main() -> None:
    print(f"{flambeau.cuda.get_device_name()}: GB/s of rows, TFLOP/s of products, microseconds of launches")
    for kind in ("float32", "bfloat16"):
        for rows, columns in ((8192, 16384), (32768, 1024)):
            for name, (call, moves) in ROWS.items():
                values = []
                for who, library, functional in libraries():
                    x = _filled(library, rows, columns, kind)
                    spent = milliseconds(library, partial(call, functional, x), 20)
                    values.append((who, rows * columns * x.element_size() * moves / spent / 1e6))
                report(f"{name} {kind} {rows}x{columns} GB/s", values)
        values = []
        for who, library, functional in libraries():
            x, y = (_filled(library, 8192, 16384, kind) for _ in range(2))
            chain = partial(_chain, functional)
            for form, call, moves in ((who, chain, 7), (f"{who}.compile", library.compile(chain), 3)):
                spent = milliseconds(library, partial(call, x, y[0], y), 20)
                values.append((form, x.numel() * x.element_size() * moves / spent / 1e6))
        report(f"gelu(x + b) * y {kind} 8192x16384 GB/s", values)
    for kind, size in (("float32", 4096), ("bfloat16", 8192), ("float16", 4096), ("float64", 2048)):
        values = []
        for who, library, _ in libraries():
            a, b = (_filled(library, size, size, kind) for _ in range(2))
            spent = milliseconds(library, partial(operator.matmul, a, b), 10)
            values.append((who, 2 * size**3 / spent / 1e9))
        report(f"matmul {kind} {size} TFLOP/s", values)
    values = []
    for who, library, _ in libraries():
        x = _filled(library, 8, 8, "float32")
        for _ in range(100):
            x + 1
        library.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(2000):
            x + 1
        values.append((who, (time.perf_counter() - started) / 2000 * 1e6))
        library.cuda.synchronize()
    report("launch of x + 1 on 8x8, us", values)


def _chain(functional: Any, x: Any, b: Any, y: Any) -> Any:
    return functional.gelu(x + b) * y


def _filled(library: Any, rows: int, columns: int, kind: str) -> Any:
    """Numbers that differ from place to place, made on the GPU."""
    across, down = (library.arange(n).to("cuda").to(library.float32) for n in (columns, rows))
    return (across * 0.37 + down[:, None] * 0.11).sin().to(getattr(library, kind))


if __name__ == "__main__":
    main()
