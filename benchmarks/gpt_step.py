"""The training step of examples/gpt.py, flambeau beside torch, eager and compiled: first calls and steady steps.

Run ``python -m benchmarks.gpt_step [--threads N] [--rounds N] [--no-compile]``; needs torch, and a C++ compiler for torch.compile. Each
measurement is a process of its own, so that no library's waiting threads disturb the other's, and rounds alternate. flambeau's caches
are empty in the first round; torch's are wherever it keeps them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WARMING, TIMED = 8, 30


def child(mode: str, threads: int) -> None:
    """Print the seconds of the first call and the median of the steady ones; `torch` is whatever the process was started with."""
    torch: Any = import_module("torch")
    sys.path.insert(0, str(ROOT / "examples"))
    gpt = import_module("gpt")
    options = gpt.parse([])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = gpt.GPT(options.layers, options.width, options.heads, options.block, options.dropout, options.tie)
    optimizer = gpt.make_optimizer(model, options)
    batches = gpt.Batches(gpt.corpus(None, options.data_bytes), options.block, options.batch, "cpu")

    def train_step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = gpt.loss_of(model, x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), options.clip)
        optimizer.step()
        return loss.detach()

    step = torch.compile(train_step) if mode == "compiled" else train_step
    times: list[float] = []
    for _ in range(1 + WARMING + TIMED):
        x, y = batches.random()
        started = time.perf_counter()
        step(x, y).item()
        times.append(time.perf_counter() - started)
    print(times[0], statistics.median(times[-TIMED:]))


def run(library: str, mode: str, threads: int, cache: str) -> tuple[float, float]:
    """First call and steady step of a fresh process, in seconds."""
    runner = ["-m", "flambeau", "run"] if library == "flambeau" else []
    command = [sys.executable, *runner, str(Path(__file__).resolve()), "--child", mode, "--threads", str(threads)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "FLAMBEAU_CACHE_DIR": cache, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    first, steady = done.stdout.split()[-2:]
    return float(first), float(steady)


def main() -> None:
    """Measure in rounds and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.threads)
        return
    subjects = [(library, mode) for mode in ("eager", "compiled") for library in ("flambeau", "torch")]
    if options.no_compile:
        subjects.remove(("torch", "compiled"))
    found: dict[tuple[str, str], list[tuple[float, float]]] = {subject: [] for subject in subjects}
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(options.rounds):
            for library, mode in subjects:
                found[library, mode].append(run(library, mode, options.threads, cache))
    print(f"{options.threads} threads, {options.rounds} rounds; milliseconds of first calls, later processes and steady steps")
    for (library, mode), results in found.items():
        later = statistics.median(first for first, _ in results[1:]) if results[1:] else float("nan")
        steady = [s for _, s in results]
        calls = f"first {results[0][0] * 1e3:8.0f}   later {later * 1e3:7.0f}"
        print(f"{library:9} {mode:9} {calls}   steady {statistics.median(steady) * 1e3:6.1f}   quietest {min(steady) * 1e3:6.1f}")
    for mode in sorted({mode for library, mode in subjects if library == "torch"}, reverse=True):
        ours, theirs = ([s for _, s in found[library, mode]] for library in ("flambeau", "torch"))
        print(f"{mode}: {statistics.median(theirs) / statistics.median(ours):.2f}x torch, quietest {min(theirs) / min(ours):.2f}x")


if __name__ == "__main__":
    main()
