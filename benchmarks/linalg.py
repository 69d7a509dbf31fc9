"""Linear algebra on batches of matrices against torch, interleaved, best of several runs: microseconds a matrix, and the ratio.

Run ``python -m benchmarks.linalg [threads] [operator ...]``; needs torch.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

THREADS = int(sys.argv[1]) if len(sys.argv) > 1 else 2
os.environ["OMP_NUM_THREADS"] = str(THREADS)

import torch  # noqa: E402

import flambeau  # noqa: E402

# Rows of a matrix, matrices in a batch.
SHAPES = ((2, 100_000), (4, 100_000), (8, 100_000), (16, 100_000), (32, 10_000), (64, 1_000), (128, 100), (256, 20))
OPERATORS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "eigh": lambda t, x, spd, b: t.linalg.eigh(spd), "eigvalsh": lambda t, x, spd, b: t.linalg.eigvalsh(spd),
    "svd": lambda t, x, spd, b: t.linalg.svd(x), "svdvals": lambda t, x, spd, b: t.linalg.svdvals(x),
    "cholesky": lambda t, x, spd, b: t.linalg.cholesky(spd), "solve": lambda t, x, spd, b: t.linalg.solve(x, b),
    "inv": lambda t, x, spd, b: t.linalg.inv(x), "det": lambda t, x, spd, b: t.linalg.det(x), "qr": lambda t, x, spd, b: t.linalg.qr(x),
    "solve_triangular": lambda t, x, spd, b: t.linalg.solve_triangular(x, b, upper=True),
}  # fmt: skip


def best(calls: list[Callable[[], Any]], seconds: float = 1.0) -> list[float]:
    """The quietest run of each call, which take turns; of one thread in processor time, which other programs disturb least."""
    clock = time.process_time if THREADS == 1 else time.perf_counter
    for call in calls:
        call()
    found, end = [float("inf")] * len(calls), time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, call in enumerate(calls):
            started = clock()
            call()
            found[i] = min(found[i], clock() - started)
    return found


def main() -> None:
    torch.set_num_threads(THREADS)
    flambeau.set_num_threads(THREADS)
    chosen = sys.argv[2:] or list(OPERATORS)
    print(f"{'operator':<18} {'n':>4} {'batch':>7} {'flambeau us':>12} {'torch us':>10} {'ratio':>7}")
    for name in chosen:
        for n, batch in SHAPES:
            x = torch.randn(batch, n, n) + n**0.5 * torch.eye(n)
            operands = x, x @ x.mT + torch.eye(n), torch.randn(batch, n, 1)
            ours = [flambeau.from_numpy(v.numpy()) for v in operands]
            mine, theirs = best([
                lambda name=name, ours=ours: OPERATORS[name](flambeau, *ours),
                lambda name=name, operands=operands: OPERATORS[name](torch, *operands),
            ])  # fmt: skip
            numbers = f"{mine / batch * 1e6:12.3f} {theirs / batch * 1e6:10.3f} {theirs / mine:6.1f}x"
            print(f"{name:<18} {n:4d} {batch:7d} {numbers}", flush=True)


if __name__ == "__main__":
    main()
