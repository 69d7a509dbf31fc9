"""What the first call of a compiled training step costs: with an empty cache (cold), and in a second process (warm).

Run ``python -m benchmarks.first_calls [--rounds N] [--threads N] [gpt2] [gpt] [mlp]``. ``gpt2`` is a GPT-2-small (12 layers of width 768,
50257 tokens, 2 rows of 256) with AdamW, forward, backward and update in one compiled function; ``gpt`` is the step of examples/gpt.py.
A cost is the first call less a steady one, in seconds on the clock and of processor time; the least of the rounds counts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("gpt2", "gpt", "mlp")
COUNTED = ("captures", "bytecodes", "kernel_compiles", "schedules")


def gpt2() -> tuple[Any, Any]:
    """The training step of a GPT-2-small, and its batches."""
    torch: Any = import_module("torch")
    sys.path.insert(0, str(ROOT / "examples"))
    example: Any = import_module("gpt")
    models: Any = import_module("benchmarks.models")
    example.VOCABULARY = 50257
    model = example.GPT(layers=12, width=768, heads=12, block=256, dropout=0.0, tie=True)
    tokens = torch.randint(0, 50257, (2, 257))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    return models.training(model, example.loss_of, optimizer), models.again(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())


def child(name: str, mode: str, threads: int) -> None:
    """Measure one model; prints seconds of the first call and a steady one, on the clock and of the processor, and what was counted."""
    torch: Any = import_module("torch")
    models: Any = import_module("benchmarks.models")
    events: Any = import_module("flambeau.core.events")
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    step, batches = gpt2() if name == "gpt2" else models.MODELS[name]()
    call = torch.compile(step) if mode == "compiled" else step
    times = []
    for number in range(4):
        batch = next(batches)
        started, used = time.perf_counter(), time.process_time()
        loss = call(*batch).item()
        times.append((time.perf_counter() - started, time.process_time() - used))
        if number == 0:
            counted = [events.counters[what] for what in COUNTED]
    steady = [min(column) for column in zip(*times[1:], strict=True)]
    print(*times[0], *steady, *counted, loss)


def run(name: str, mode: str, cache: str, threads: int) -> list[float]:
    """The measurement of a fresh process."""
    command = [sys.executable, "-m", "flambeau", "run", "-m", "benchmarks.first_calls", name, "--child", mode, "--threads", str(threads)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT), "FLAMBEAU_CACHE_DIR": cache}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{mode} {name} failed:\n{done.stderr[-2000:]}")
    return list(map(float, done.stdout.split()[-9:]))


def report(title: str, rounds: list[list[float]]) -> None:
    """One line: the least costs, and what was counted in the last round."""
    clock = min(r[0] - r[2] for r in rounds)
    processor = min(r[1] - r[3] for r in rounds)
    counts = ", ".join(f"{int(n)} {what}" for what, n in zip(COUNTED, rounds[-1][4:8], strict=True))
    costs = f"{clock:6.2f} s clock  {processor:6.2f} s processor   steady {min(r[2] for r in rounds):6.3f} s"
    print(f"{title:24} {costs}   {counts}", flush=True)


def main() -> None:
    """Measure the chosen models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--eager", action="store_true", help="the step itself, not compiled")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.models[0], options.child, options.threads)
        return
    mode = "eager" if options.eager else "compiled"
    for name in options.models or NAMES:
        cold, warm = [], []
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory() as cache:
                cold.append(run(name, mode, cache, options.threads))
                warm.append(run(name, mode, cache, options.threads))
                warm.append(run(name, mode, cache, options.threads))
        report(f"{name} {mode} cold", cold)
        report(f"{name} {mode} warm", warm)


if __name__ == "__main__":
    main()
