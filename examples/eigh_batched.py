"""Eigenvalues and eigenvectors of many small symmetric matrices: a table of matrices per second by size, and a plot.

Up to some size a batch is worked on with one matrix in each lane of a vector, beyond by LAPACK, matrix after matrix. PyTorch and numpy
stand beside where they are installed; every answer is held against its definition.

    python examples/eigh_batched.py --plot out/eigh.png
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import flambeau

SIZES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256)


def libraries() -> dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]:
    """For each library here: how it takes an array, and its function."""
    found: dict[str, Any] = {"flambeau": (flambeau.from_numpy, flambeau.linalg.eigh)}
    if importlib.util.find_spec("torch") is not None:
        import torch  # noqa: PLC0415

        if torch.linalg is not flambeau.linalg:
            torch.set_num_threads(flambeau.get_num_threads())
            found["torch"] = (torch.from_numpy, torch.linalg.eigh)
    found["numpy"] = (lambda x: x, np.linalg.eigh)
    return found


def batch_of(n: int, most: int) -> int:
    """How many matrices: about as much work at every size."""
    return max(8, min(most, 300_000_000 // (30 * n**3 + 500 * n)))


def check(x: Any, answer: Any) -> float:
    """The largest residual |A V - V w| in units of n * epsilon * |A|; an error where vectors are not orthonormal."""
    values, vectors = (np.asarray(part).astype(np.float64) for part in answer)
    n, epsilon = x.shape[-1], np.finfo(x.dtype).eps
    size = np.linalg.norm(x.astype(np.float64), 2, axis=(-2, -1))
    off = np.linalg.norm(np.swapaxes(vectors, -1, -2) @ vectors - np.eye(n), 2, axis=(-2, -1))
    if off.max() > 4 * n * epsilon:
        raise ArithmeticError(f"vectors of size {n} are not orthonormal: off by {off.max()}")
    residual = np.linalg.norm(x @ vectors - vectors * values[..., None, :], 2, axis=(-2, -1))
    return float((residual / (n * epsilon * size)).max())


def measure(x: Any, seconds: float) -> dict[str, float]:
    """Matrices per second of each library, from the quietest of runs that take turns."""
    calls = {name: (function, take(x)) for name, (take, function) in libraries().items()}
    best = dict.fromkeys(calls, float("inf"))
    for function, operand in calls.values():
        function(operand)
    end = time.perf_counter() + seconds
    while True:
        for name, (function, operand) in calls.items():
            started = time.perf_counter()
            function(operand)
            best[name] = min(best[name], time.perf_counter() - started)
        if time.perf_counter() > end:
            return {name: len(x) / spent for name, spent in best.items()}


def plot(path: Path, sizes: list[int], rates: dict[str, list[float]]) -> None:
    """Draw the rates into a file of any format that matplotlib knows."""
    import matplotlib.pyplot as plt  # noqa: PLC0415 # pyright: ignore[reportMissingImports]

    figure, axes = plt.subplots(figsize=(8, 5))
    for name, values in rates.items():
        axes.loglog(sizes, values, marker="o", label=name)
    axes.set(xlabel="rows of a matrix", ylabel="matrices per second", title="eigh of a batch of symmetric float32 matrices")
    axes.grid(which="both", alpha=0.3)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, bbox_inches="tight")


def main(arguments: list[str] | None = None) -> dict[str, list[float]]:
    """Compare, print a table, and return matrices per second by library."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--most", type=int, default=100_000, help="matrices in a batch")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each size")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--plot", type=Path, help="draw the rates into this file (needs matplotlib)")
    options = parser.parse_args(arguments)
    random = np.random.default_rng(0)
    rates: dict[str, list[float]] = {name: [] for name in libraries()}
    print(f"{'size':>5} {'batch':>7}" + "".join(f"{name + ' /s':>16}" for name in rates) + "   residual    ratios")
    for n in options.sizes:
        x = random.standard_normal((batch_of(n, options.most), n, n)).astype(options.dtype)
        x += np.swapaxes(x, -1, -2).copy()
        residual = check(x[:1000], flambeau.linalg.eigh(flambeau.from_numpy(x[:1000])))
        found = measure(x, options.seconds)
        for name, rate in found.items():
            rates[name].append(rate)
        ratios = ", ".join(f"{found['flambeau'] / rate:.1f}x {name}" for name, rate in found.items() if name != "flambeau")
        print(f"{n:5d} {len(x):7d}" + "".join(f"{rate:16,.0f}" for rate in found.values()) + f"   {residual:8.2f}    {ratios}", flush=True)
    if options.plot:
        if importlib.util.find_spec("matplotlib") is None:
            parser.error("--plot needs matplotlib: pip install matplotlib")
        plot(options.plot, options.sizes, rates)
        print(f"the plot is in {options.plot}")
    return rates


if __name__ == "__main__":
    main()
