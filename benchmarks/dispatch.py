"""What a call costs on tensors too small to matter: operators, methods, views, gradients, in-place changes; flambeau beside torch.

Run ``python -m benchmarks.dispatch [words of case names]``. Blocks of calls of both libraries alternate in one process; the median
of each is printed in nanoseconds a call, and all as JSON at the end. torch is left out where it is not installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

BLOCKS = 15
BLOCK_SECONDS = 0.004

# Name, set-up, what is timed. ``T`` is the library.
CASES = (
    ("add", "x, y = T.randn(16), T.randn(16)", "x + y"),
    ("add number", "x = T.randn(16)", "x + 1.5"),
    ("number minus", "x = T.randn(16)", "1.5 - x"),
    ("mul 2d", "x, y = T.randn(4, 4), T.randn(4, 4)", "x * y"),
    ("sub broadcast", "x, y = T.randn(4, 4), T.randn(4)", "x - y"),
    ("neg", "x = T.randn(16)", "-x"),
    ("compare", "x, y = T.randn(16), T.randn(16)", "x < y"),
    ("exp method", "x = T.randn(16)", "x.exp()"),
    ("relu method", "x = T.randn(16)", "x.relu()"),
    ("add function", "x, y = T.randn(16), T.randn(16)", "T.add(x, y)"),
    ("exp function", "x = T.randn(16)", "T.exp(x)"),
    ("relu functional", "x = T.randn(16)", "F.relu(x)"),
    ("add under no_grad", "x, y = T.randn(16, requires_grad=True), T.randn(16); T.set_grad_enabled(False)", "x + y"),
    ("add grad", "x, y = T.randn(16, requires_grad=True), T.randn(16)", "x + y"),
    ("mul grad", "x, y = T.randn(16, requires_grad=True), T.randn(16, requires_grad=True)", "x * y"),
    ("exp grad", "x = T.randn(16, requires_grad=True)", "x.exp()"),
    ("relu grad", "x = T.randn(16, requires_grad=True)", "x.relu()"),
    ("chain grad backward", "x = T.randn(16, requires_grad=True)", "(x * x).sum().backward()"),
    ("sum", "x = T.randn(16)", "x.sum()"),
    ("softmax", "x = T.randn(4, 4)", "T.softmax(x, 1)"),
    ("softmax dim=", "x = T.randn(4, 4)", "x.softmax(dim=-1)"),
    ("layer_norm", "x, w, b = T.randn(4, 4), T.randn(4), T.randn(4)", "F.layer_norm(x, (4,), w, b)"),
    ("linear", "x, w, b = T.randn(4, 4), T.randn(4, 4), T.randn(4)", "F.linear(x, w, b)"),
    ("linear parameters", "m = T.nn.Linear(4, 4); x = T.randn(4, 4); T.set_grad_enabled(False)", "F.linear(x, m.weight, m.bias)"),
    ("linear grad", "m = T.nn.Linear(4, 4); x = T.randn(4, 4)", "F.linear(x, m.weight, m.bias)"),
    ("matmul", "x, w = T.randn(4, 4), T.randn(4, 4)", "x @ w"),
    ("view", "x = T.randn(4, 4)", "x.view(2, 8)"),
    ("transpose", "x = T.randn(4, 4)", "x.transpose(0, 1)"),
    ("index", "x = T.randn(4, 4)", "x[1]"),
    ("add_", "x, y = T.zeros(16), T.zeros(16)", "x.add_(y)"),
    ("+=", "x, y = T.zeros(16), T.zeros(16)", "x += y"),
    ("add_ alpha", "x, y = T.zeros(16), T.zeros(16)", "x.add_(y, alpha=0.1)"),
    ("empty", "", "T.empty(16)"),
    ("detach", "x = T.randn(16)", "x.detach()"),
    ("no_grad", "", "with T.no_grad(): pass"),
)  # fmt: skip


def compile_case(library: Any, setup: str, statement: str) -> Callable[[int], float]:
    """A function that runs the statement n times and gives the seconds."""
    scope: dict[str, Any] = {"T": library, "F": library.nn.functional, "clock": time.perf_counter}
    library.set_grad_enabled(True)
    lines = [f"def case(n):\n    {setup or 'pass'}\n    for _ in range(3):\n        {statement}",
             "    start = clock()", "    for _ in range(n):", f"        {statement}", "    return clock() - start"]  # fmt: skip
    exec("\n".join(lines), scope)
    return scope["case"]


def measure(runs: dict[str, Callable[[int], float]], libraries: dict[str, Any]) -> dict[str, float]:
    """Nanoseconds a call for each library, from alternating blocks."""
    counts: dict[str, int] = {}
    for name, run in runs.items():
        run(20)
        counts[name] = max(int(BLOCK_SECONDS / (run(100) / 100)), 1)
        libraries[name].set_grad_enabled(True)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(BLOCKS):
        for name, run in runs.items():
            times[name].append(run(counts[name]) / counts[name])
            libraries[name].set_grad_enabled(True)
    return {name: statistics.median(found) * 1e9 for name, found in times.items()}


def main() -> None:
    libraries: dict[str, Any] = {"flambeau": importlib.import_module("flambeau")}
    if importlib.util.find_spec("torch") is not None:
        libraries["torch"] = importlib.import_module("torch")
        libraries["torch"].set_num_threads(1)
    libraries["flambeau"].set_num_threads(1)
    results: dict[str, dict[str, float]] = {}
    for name, setup, statement in CASES:
        if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
            continue
        try:
            runs = {key: compile_case(library, setup, statement) for key, library in libraries.items()}
            found = results[name] = measure(runs, libraries)
        except (NotImplementedError, AttributeError) as error:
            print(f"{name:24} not there: {error}")
            continue
        print(f"{name:24}" + "".join(f"{key:>12} {value:9.0f} ns" for key, value in found.items()), flush=True)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
