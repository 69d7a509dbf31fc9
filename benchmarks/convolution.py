"""Convolutions against torch, runs of both in turn, best of several: forward, and forward with both gradients.

Run ``python -m benchmarks.convolution [threads [name ...]]``; needs torch. A name chooses the cases that begin with it. Compiled are
convolution, bias and relu in one function, against torch's operators one after another.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

THREADS = int(sys.argv[1]) if len(sys.argv) > 1 else 1
os.environ["OMP_NUM_THREADS"] = str(THREADS)

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional  # noqa: E402

import flambeau  # noqa: E402
import flambeau.nn.functional  # noqa: E402

SECONDS, ROUNDS = 0.03, 7
Shape = tuple[int, ...]
Call = Callable[[], object]
# Name, images, filters, options.
CASES: tuple[tuple[str, Shape, Shape, dict[str, Any]], ...] = (
    ("small 3x3", (16, 32, 28, 28), (32, 32, 3, 3), {"padding": 1}),
    ("small 3x3 step 2", (16, 32, 28, 28), (64, 32, 3, 3), {"padding": 1, "stride": 2}),
    ("small depthwise", (16, 32, 28, 28), (32, 1, 3, 3), {"padding": 1, "groups": 32}),
    ("small depthwise step 2", (16, 32, 28, 28), (32, 1, 3, 3), {"padding": 1, "groups": 32, "stride": 2}),
    ("small 1x1", (16, 32, 28, 28), (32, 32, 1, 1), {}),
    ("small groups", (16, 32, 28, 28), (64, 8, 3, 3), {"padding": 1, "groups": 4}),
    ("resnet stem", (8, 3, 224, 224), (64, 3, 7, 7), {"padding": 3, "stride": 2}),
    ("resnet 64", (8, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}),
    ("resnet 128 step 2", (8, 64, 56, 56), (128, 64, 3, 3), {"padding": 1, "stride": 2}),
    ("resnet 128", (8, 128, 28, 28), (128, 128, 3, 3), {"padding": 1}),
    ("resnet 128 1x1 step 2", (8, 64, 56, 56), (128, 64, 1, 1), {"stride": 2}),
    ("resnet 256 step 2", (8, 128, 28, 28), (256, 128, 3, 3), {"padding": 1, "stride": 2}),
    ("resnet 256", (8, 256, 14, 14), (256, 256, 3, 3), {"padding": 1}),
    ("resnet 512 step 2", (8, 256, 14, 14), (512, 256, 3, 3), {"padding": 1, "stride": 2}),
    ("resnet 512", (8, 512, 7, 7), (512, 512, 3, 3), {"padding": 1}),
    ("resnet 512 1x1 step 2", (8, 256, 14, 14), (512, 256, 1, 1), {"stride": 2}),
    ("convnext depthwise 7x7", (8, 96, 56, 56), (96, 1, 7, 7), {"padding": 3, "groups": 96}),
    ("mobilenet depthwise", (8, 96, 56, 56), (96, 1, 3, 3), {"padding": 1, "groups": 96}),
)


def calls(library: Any, images: Shape, filters: Shape, options: dict[str, Any]) -> dict[str, Call]:
    """What is measured of one library, by name."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape, dtype=np.float32) for shape in (images, filters, filters[:1])]
    x, weight, bias = (library.from_numpy(a).requires_grad_() for a in arrays)

    def forward() -> Any:
        return library.nn.functional.conv2d(x, weight, bias, **options)

    def activated(x: Any, weight: Any, bias: Any) -> Any:
        return library.nn.functional.conv2d(x, weight, bias, **options).relu()

    fused = library.compile(activated) if library is flambeau else activated
    g = library.ones_like(forward())

    def without_gradient(call: Callable[..., Any]) -> Call:
        def run() -> object:
            with library.no_grad():
                return call()

        return run

    def both(call: Callable[..., Any]) -> Call:
        return lambda: library.autograd.grad(call(), [x, weight, bias], g)

    def compiled() -> Any:
        return fused(x, weight, bias)

    return {
        "forward": without_gradient(forward), "both": both(forward),
        "compiled forward": without_gradient(compiled), "compiled both": both(compiled),
    }  # fmt: skip


def best_times(runs: list[Call]) -> list[float]:
    """The best time of each call, in seconds; all take turns, so that a busy machine is so for all."""
    best = [float("inf")] * len(runs)
    for run in runs:
        run()
    for _ in range(ROUNDS):
        for i, run in enumerate(runs):
            stop = time.perf_counter() + SECONDS
            while time.perf_counter() < stop:
                started = time.perf_counter()
                run()
                best[i] = min(best[i], time.perf_counter() - started)
    return best


def main() -> None:
    torch.set_num_threads(THREADS)
    flambeau.set_num_threads(THREADS)
    for name, images, filters, options in CASES:
        if len(sys.argv) > 2 and not name.startswith(tuple(sys.argv[2:])):
            continue
        ours, theirs = (calls(library, images, filters, options) for library in (flambeau, torch))
        parts: list[str] = []
        for what in ours:
            mine, other = best_times([ours[what], theirs[what]])
            parts.append(f"{what} {mine * 1e3:7.2f} ms {other / mine:5.2f}x")
        print(f"{name:24} {'   '.join(parts)}", flush=True)


if __name__ == "__main__":
    main()
