"""How many bytecodes a second the machine runs, and how many times slower than CPython that is.

Run ``python -m benchmarks.machine``; the best of several runs of a loop of arithmetic, calls and container accesses.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from flambeau.capture.machine import Machine, Semantics

COUNT = 5000
RUNS = 12


def work(count: int) -> int:
    total, table = 0, {}
    for i in range(count):
        if i % 3 == 0:
            total += i
        else:
            table[i & 7] = total
        total = max(total, helper(i, total)) & 0xFFFF
    return total


def helper(a: int, b: int) -> int:
    return a * b + 1 if a > b else a - b


def best(run: Callable[[], int]) -> float:
    """The seconds of the fastest run."""
    seconds = []
    for _ in range(RUNS):
        started = time.process_time()
        run()
        seconds.append(time.process_time() - started)
    return min(seconds)


def main() -> None:
    machine = Machine(Semantics())
    assert machine.call_function(work, (COUNT,), {}) == work(COUNT)
    steps = machine.steps
    interpreted, native = best(lambda: machine.call_function(work, (COUNT,), {})), best(lambda: work(COUNT))
    version = ".".join(map(str, sys.version_info[:2]))
    rate, slower = steps / interpreted / 1e6, interpreted / native
    print(f"Python {version}: {steps} bytecodes, {rate:.2f} million a second, {slower:.0f} times slower than CPython")


if __name__ == "__main__":
    main()
