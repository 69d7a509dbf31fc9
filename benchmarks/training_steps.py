"""Training steps of ordinary models, flambeau beside torch, eager and compiled: first calls, steady steps, memory.

Run ``python -m benchmarks.training_steps [--threads N] [--rounds N] [--seconds S] [--no-compile] [models]``; needs torch, and a C++
compiler for torch.compile. Each measurement is a process of its own, so that no library's waiting threads disturb the other's, and
rounds alternate. flambeau's caches are empty in the first round; torch's are wherever it keeps them. Memory is the peak of the
resident pages over those that the process had once the library was imported, of the last round, where no library compiles.
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
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("gpt", "vit", "lstm", "mlp", "resnet")
WARMING = 4


class Measured(NamedTuple):
    """Seconds of the first call and of a step in the middle of the others; MiB after the import and at the peak; the last loss."""

    first: float
    steady: float
    imported: float
    peak: float
    loss: float

    @property
    def used(self) -> float:
        return self.peak - self.imported


def resident(which: str) -> float:
    """MiB of this process in memory: VmRSS now, VmHWM at the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{which}:")) / 1024


def child(name: str, mode: str, threads: int, seconds: float) -> None:
    """Measure one model and print the result; `torch` is whatever the process was started with."""
    torch: Any = import_module("torch")
    imported = resident("VmRSS")
    models: Any = import_module("benchmarks.models")
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    step, batches = models.MODELS[name]()
    call = torch.compile(step) if mode == "compiled" else step
    times: list[float] = []
    loss, end = 0.0, float("inf")
    while len(times) < WARMING + 3 or time.perf_counter() < end:
        batch = next(batches)
        started = time.perf_counter()
        loss = call(*batch).item()
        times.append(time.perf_counter() - started)
        if len(times) == WARMING:
            end = time.perf_counter() + seconds
    print(times[0], statistics.median(times[WARMING:]), imported, resident("VmHWM"), loss)


def run(name: str, library: str, mode: str, options: argparse.Namespace, cache: str) -> Measured:
    """The measurement of a fresh process."""
    runner = ["-m", "flambeau", "run"] if library == "flambeau" else []
    command = [sys.executable, *runner, "-m", "benchmarks.training_steps", name, "--child", mode]
    command += ["--threads", str(options.threads), "--seconds", str(options.seconds)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "FLAMBEAU_CACHE_DIR": cache, "OMP_NUM_THREADS": str(options.threads)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{library} {mode} {name} failed:\n{done.stderr[-2000:]}")
    return Measured(*map(float, done.stdout.split()[-5:]))


def compare(name: str, options: argparse.Namespace) -> None:
    """Measure one model in rounds and print the medians."""
    subjects = [(library, mode) for mode in ("eager", "compiled") for library in ("flambeau", "torch")]
    if options.no_compile:
        subjects.remove(("torch", "compiled"))
    found: dict[tuple[str, str], list[Measured]] = {subject: [] for subject in subjects}
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(options.rounds):
            for library, mode in subjects:
                found[library, mode].append(run(name, library, mode, options, cache))
    steady = {subject: statistics.median(m.steady for m in results) for subject, results in found.items()}
    for (library, mode), results in found.items():
        later = statistics.median(m.first for m in results[1:]) if results[1:] else float("nan")
        calls = f"first {results[0].first * 1e3:8.0f}   later {later * 1e3:7.0f}   steady {steady[library, mode] * 1e3:8.2f}"
        last, quietest = results[-1], min(m.steady for m in results) * 1e3
        rest = f"quietest {quietest:8.2f}   memory {last.used:5.0f} over {last.imported:4.0f} MiB   loss {last.loss:.5f}"
        print(f"{name:7} {library:9} {mode:9} {calls}   {rest}")
    for mode in ("eager", "compiled"):
        against = [subject for subject in subjects if subject[0] == "torch" and (mode == "compiled" or subject[1] == "eager")]
        ratios = [f"{steady[subject] / steady['flambeau', mode]:.2f}x torch {subject[1]}" for subject in against]
        memory = [f"{found['flambeau', mode][-1].used / found[subject][-1].used:.2f}x torch {subject[1]}" for subject in against]
        print(f"{name:7} {mode}: speed {', '.join(ratios)}; memory {', '.join(memory)}", flush=True)


def main() -> None:
    """Measure the chosen models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of steady steps in each process")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.models[0], options.child, options.threads, options.seconds)
        return
    print(f"{options.threads} threads, {options.rounds} rounds; milliseconds of first calls, of first calls in later processes, of steps")
    for name in options.models or NAMES:
        compare(name, options)


if __name__ == "__main__":
    main()
