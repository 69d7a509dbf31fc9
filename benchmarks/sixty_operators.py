"""What the first calls of sixty different operators cost, with empty and with filled caches, beside torch.

Run ``python -m benchmarks.sixty_operators [--rounds N] [--threads N] [--each]``; needs torch. Each measurement is a process of its
own that makes operands and calls every operator, then again: the cost is the first pass without the second. flambeau's caches are
empty in the first process of a round and filled in the next one. Seconds by the clock and of all processors; ``--each`` lists the
operators.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def operators(torch: Any) -> dict[str, Callable[[], Any]]:
    """Sixty operators on small operands."""
    F = torch.nn.functional
    x, y = torch.randn(48, 64), torch.randn(48, 64)
    positive, square, row = x.abs() + 0.5, torch.randn(64, 64), torch.randn(64)
    index, labels = torch.randint(0, 48, (20,)), torch.randint(0, 64, (48,))
    images, filters = torch.randn(2, 3, 16, 16), torch.randn(4, 3, 3, 3)
    truth, batches, words = x > 0, torch.randn(4, 8, 64), torch.randint(0, 48, (4, 10))
    columns = torch.randint(0, 64, (48, 5))
    return {
        "add": lambda: x + y, "sub": lambda: x - 2.0, "mul": lambda: x * row, "div": lambda: x / positive, "pow": lambda: positive**1.5,
        "exp": lambda: x.exp(), "log": lambda: positive.log(), "sqrt": lambda: positive.sqrt(), "rsqrt": lambda: positive.rsqrt(),
        "sin": lambda: x.sin(), "cos": lambda: x.cos(), "tanh": lambda: x.tanh(), "sigmoid": lambda: x.sigmoid(), "erf": lambda: x.erf(),
        "relu": lambda: F.relu(x), "gelu": lambda: F.gelu(x), "silu": lambda: F.silu(x), "abs": lambda: (-x).abs(),
        "floor": lambda: x.floor(), "clamp": lambda: x.clamp(-1, 1), "maximum": lambda: torch.maximum(x, y), "lt": lambda: x < y,
        "where": lambda: torch.where(truth, x, y), "logical_and": lambda: truth & (y > 0), "lerp": lambda: torch.lerp(x, y, 0.3),
        "addcmul": lambda: torch.addcmul(x, x, y, value=0.5), "masked_fill": lambda: x.masked_fill(truth, 0.0),
        "to": lambda: x.to(torch.float64), "sum": lambda: x.sum(), "mean": lambda: x.mean(1), "amax": lambda: x.amax(0),
        "argmax": lambda: x.argmax(1), "var": lambda: x.var(1), "norm": lambda: x.norm(), "prod": lambda: x.prod(1),
        "any": lambda: truth.any(), "cumsum": lambda: x.cumsum(1), "logsumexp": lambda: x.logsumexp(1),
        "softmax": lambda: torch.softmax(x, 1), "log_softmax": lambda: torch.log_softmax(x, 1), "sort": lambda: x.sort(1),
        "topk": lambda: x.topk(5, 1), "mm": lambda: x @ square, "bmm": lambda: torch.bmm(batches, batches.transpose(1, 2)),
        "addmm": lambda: torch.addmm(row, x, square), "linear": lambda: F.linear(x, square, row),
        "cat": lambda: torch.cat([x, y], 1), "stack": lambda: torch.stack([x, y]), "index_select": lambda: x.index_select(0, index),
        "gather": lambda: x.gather(1, columns), "index_add": lambda: x.index_add(0, index, y[:20]), "tril": lambda: x.tril(),
        "roll": lambda: x.roll(3, 1), "pad": lambda: F.pad(x, (1, 2)), "embedding": lambda: F.embedding(words, x),
        "layer_norm": lambda: F.layer_norm(x, (64,), row, row), "conv2d": lambda: F.conv2d(images, filters, padding=1),
        "max_pool2d": lambda: F.max_pool2d(images, 2), "cross_entropy": lambda: F.cross_entropy(x, labels),
        "mse_loss": lambda: F.mse_loss(x, y),
    }  # fmt: skip


def clocks() -> tuple[float, float]:
    """Seconds by the clock, and of this process and its children on all processors."""
    times = os.times()
    return time.perf_counter(), times.user + times.system + times.children_user + times.children_system


def child(threads: int) -> None:
    """Call each operator in two passes; prints seconds (clock, processors) of either pass, and of each first call, as JSON."""
    torch: Any = import_module("torch")
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    passes: list[tuple[float, float]] = []
    each: dict[str, float] = {}
    for number in range(2):
        before = clocks()
        calls = operators(torch)
        assert len(calls) == 60
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            if not number:
                each[name] = time.perf_counter() - started
        passes.append((clocks()[0] - before[0], clocks()[1] - before[1]))
    print(json.dumps({"first": passes[0], "again": passes[1], "each": each}))


def run(library: str, threads: int, cache: str) -> dict[str, Any]:
    runner = ["-m", "flambeau", "run"] if library == "flambeau" else []
    command = [sys.executable, *runner, "-m", "benchmarks.sixty_operators", "--child", "--threads", str(threads)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "FLAMBEAU_CACHE_DIR": cache, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure in rounds, print the least of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--each", action="store_true", help="the first call of every operator, costliest first")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.threads)
        return
    compileall.compile_dir(ROOT / "flambeau", quiet=1)  # as an installed package is
    found: dict[str, list[dict[str, Any]]] = {"torch": [], "cold": [], "warm": []}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as cache:
            for state in found:
                found[state].append(run("torch" if state == "torch" else "flambeau", options.threads, cache))
    cost = {s: [min(r["first"][i] - r["again"][i] for r in results) for i in (0, 1)] for s, results in found.items()}
    for state, (clock, processors) in cost.items():
        over = "" if state == "torch" else f"   over torch's {clock - cost['torch'][0]:6.3f} and {processors - cost['torch'][1]:6.3f}"
        print(f"{state:6} {clock:6.3f} s, {processors:6.3f} s of processors{over}")
    if options.each:
        middle = {s: {n: statistics.median(r["each"][n] for r in results) for n in results[0]["each"]} for s, results in found.items()}
        for name in sorted(middle["cold"], key=lambda n: -middle["cold"][n]):
            print(f"  {name:14} " + "   ".join(f"{state} {middle[state][name] * 1e3:7.2f} ms" for state in found))


if __name__ == "__main__":
    main()
