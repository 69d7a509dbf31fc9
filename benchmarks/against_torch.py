"""The speed that users of large kernels, optimizers, matrix products and tiny operators meet: flambeau beside torch in one process.

Run ``python -m benchmarks.against_torch [--threads N] [--seconds S] [--json FILE] [--no-compile] [words of case names]``; needs torch, and
a C++ compiler for torch.compile. Calls alternate, so that a busy machine slows all alike; medians are compared. Processor time and the
quietest call stand beside them. Large kernels are also held against a copy of the bytes that they must move, products against the
measured peak of fused multiply-adds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

OPTIONS = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
OPTIONS.add_argument("words", nargs="*", help="run only cases whose names contain one of these")
OPTIONS.add_argument("--threads", type=int, default=2)
OPTIONS.add_argument("--seconds", type=float, default=3.0, help="for each case")
OPTIONS.add_argument("--json", default="", help="where to write the results")
OPTIONS.add_argument("--settle", type=float, default=0.03, help="seconds of uncounted calls in each turn; 0 alternates single calls")
OPTIONS.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
CHOSEN = OPTIONS.parse_args()
os.environ["OMP_NUM_THREADS"] = os.environ["FLAMBEAU_NUM_THREADS"] = str(CHOSEN.threads)

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional  # noqa: E402

import flambeau  # noqa: E402
import flambeau.nn.functional  # noqa: E402
from benchmarks.ceilings import copy_bandwidth, peak_flops  # noqa: E402

Call = Callable[[], object]
FLAMBEAU, EAGER, COMPILED = "flambeau", "torch", "torch.compile"
LIBRARIES = ((FLAMBEAU, flambeau), (EAGER, torch))
# OpenMP's workers wait for more work by spinning, for milliseconds after each call of torch, on the cores that the next call needs.
SETTLING = CHOSEN.settle
# Seconds of a turn's counted calls.
TURN = 0.03 if SETTLING else 0.0


@dataclass
class Case:
    """Calls that do the same by library, the bytes and floating point operations of one, and against which of torch's it is measured."""

    name: str
    calls: dict[str, Call]
    moved: int = 0
    flops: int = 0
    against: str = EAGER


@dataclass
class Timing:
    """Seconds of one library's calls: in the middle, of the quietest, and of the processor for the cheapest."""

    median: float
    least: float
    processor: float


@dataclass
class Result:
    """What was measured for one case. ``ceiling`` is the share of the machine's bandwidth or peak."""

    name: str
    timings: dict[str, Timing]
    ratio: float
    against: str
    ceiling: float | None = None
    notes: dict[str, float] = field(default_factory=dict)


# -- cases ----------------------------------------------------------------------------------------------
def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.standard_normal(shape, dtype=np.float32) for shape in shapes]


def both(name: str, shapes: Sequence[tuple[int, ...]], function: Callable[..., object], compiled: bool = False, **numbers: object) -> Case:
    """``function(library, *tensors)`` in each library, and under both compilers when ``compiled``."""
    calls: dict[str, Call] = {}
    for label, library in LIBRARIES:
        tensors = [library.tensor(a) for a in arrays(*shapes)]

        def body(*operands: object, library: object = library) -> object:
            return function(library, *operands)

        call = body
        if compiled and library is flambeau:
            call = flambeau.compile(body)
        calls[label] = lambda call=call, tensors=tensors: call(*tensors)
        if compiled and library is torch and not CHOSEN.no_compile:
            fast = torch.compile(body, dynamic=False)
            calls[COMPILED] = lambda fast=fast, tensors=tensors: fast(*tensors)
    return Case(name, calls, **numbers)  # type: ignore[arg-type]


def gelu_chain(library: object, x: object, b: object, y: object) -> object:
    return library.nn.functional.gelu(x + b, approximate="tanh") * y  # type: ignore[attr-defined]


def linear_gelu(library: object, x: object, w: object, b: object) -> object:
    return library.nn.functional.gelu(library.nn.functional.linear(x, w, b))  # type: ignore[attr-defined]


def three_operators(library: object, x: object, y: object) -> object:
    return (x + y) * y - x  # type: ignore[operator]


def softmax_case(rows: int, columns: int) -> Case:
    return both(f"softmax {rows}x{columns}", [(rows, columns)], lambda t, x: t.softmax(x, -1), moved=8 * rows * columns)


def layer_norm_case(rows: int, columns: int) -> Case:
    return both(
        f"layer_norm {rows}x{columns}", [(rows, columns), (columns,), (columns,)],
        lambda t, x, w, b: t.nn.functional.layer_norm(x, (columns,), w, b), moved=8 * rows * columns,
    )  # fmt: skip


def adam_case(parameters: int, tensors: int = 100) -> Case:
    calls: dict[str, Call] = {}
    for label, library in LIBRARIES:
        made = [library.nn.Parameter(library.tensor(a)) for a in arrays(*[(parameters // tensors,)] * tensors)]
        for parameter in made:
            parameter.grad = library.ones_like(parameter)
        calls[label] = library.optim.AdamW(made, fused=True).step
    return Case(f"AdamW {parameters / 1e6:g}M in {tensors}", calls, moved=28 * parameters)


def product_case(n: int) -> Case:
    case = both(f"mm {n}", [(n, n), (n, n)], lambda t, a, b: t.mm(a, b), flops=2 * n**3)
    return case


def small_cases() -> list[Case]:
    add = both("x + y, 16 elements", [(16,), (16,)], lambda t, x, y: x + y)
    recorded: dict[str, Call] = {}
    plain: dict[str, Call] = {}
    for label, library in LIBRARIES:
        x, y = (library.tensor(a) for a in arrays((16,), (16,)))
        plain[label] = lambda x=x, y=y: x + y
        z = x.clone().requires_grad_()
        recorded[label] = lambda z=z, y=y: z + y
    add.calls = plain
    three = both("compiled (x + y) * y - x, 16 elements", [(16,), (16,)], three_operators, compiled=True, against=COMPILED)
    ten = both("compiled sum of 10 tensors, 16 elements", [(16,)] * 10, lambda _, *xs: sum(xs[1:], xs[0]), compiled=True, against=COMPILED)
    return [add, Case("x + y with gradient, 16 elements", recorded), three, ten, changing_case(range(2, 18))]


def changing_case(sizes: Sequence[int]) -> Case:
    """A compiled function of tensors whose first size is another one at each call."""
    calls: dict[str, Call] = {}
    for label, library in LIBRARIES:
        pairs = itertools.cycle([[library.from_numpy(a) for a in arrays((n, 4), (n, 4))] for n in sizes])

        def body(x: object, y: object, library: object = library) -> object:
            return three_operators(library, x, y)

        call = body if library is torch else flambeau.compile(body, dynamic=True)
        calls[label] = lambda call=call, pairs=pairs: call(*next(pairs))
        if library is torch and not CHOSEN.no_compile:
            fast = torch.compile(body, dynamic=True)
            calls[COMPILED] = lambda fast=fast, pairs=pairs: fast(*next(pairs))
    return Case("compiled (x + y) * y - x, changing sizes", calls, against=COMPILED)


def outer_cases() -> list[Case]:
    """Reductions over other axes than the last, norms over channels, and a convolution of each channel on its own."""
    images = (8, 64, 56, 56)

    def norm(library: object, x: object, w: object) -> object:
        return library.nn.functional.group_norm(x, 8, w, w)  # type: ignore[attr-defined]

    def depthwise(library: object, x: object, w: object) -> object:
        return library.nn.functional.conv2d(x, w, None, 1, 3, 1, 64)  # type: ignore[attr-defined]

    return [
        both("sum(0) 64x32768", [(64, 32768)], lambda t, x: x.sum(0), moved=4 * 64 * 32768),
        both("sum(0) 8x64x56x56", [images], lambda t, x: x.sum(0), moved=4 * 8 * 64 * 3136),
        both("softmax(0) 1024x1024", [(1024, 1024)], lambda t, x: t.softmax(x, 0), moved=8 << 20),
        both("softmax(1) 8x64x56x56", [images], lambda t, x: t.softmax(x, 1), moved=8 * 8 * 64 * 3136),
        both("group_norm 8x64x56x56", [images, (64,)], norm, moved=8 * 8 * 64 * 3136),
        both("depthwise 7x7 8x64x56x56", [images, (64, 1, 7, 7)], depthwise, flops=2 * 49 * 8 * 64 * 3136),
    ]


def makers() -> dict[str, Callable[[], list[Case]]]:
    """The groups of cases, each made when its turn comes, so that memory is used once."""
    square = 4096
    chain = [(square, square), (square,), (square, square)]
    linear = [(2048, 512), (2048, 512), (2048,)]
    return {
        "gelu": lambda: [both("gelu(x + b) * y 4096x4096", chain, gelu_chain, True, moved=12 * square**2, against=COMPILED)],
        "softmax": lambda: [softmax_case(4096, 1024), softmax_case(1024, 32768)],
        "layer_norm": lambda: [layer_norm_case(square, square)],
        "AdamW": lambda: [adam_case(2_500_000), adam_case(38_000_000)],
        "mm": lambda: [product_case(n) for n in (512, 1024, 2048)],
        "linear": lambda: [both("gelu(linear) 2048x512 to 2048", linear, linear_gelu, True, flops=2 * 2048 * 512 * 2048, against=COMPILED)],
        "outer": outer_cases,
        "small": small_cases,
    }


# -- measuring ------------------------------------------------------------------------------------------
def measure(case: Case) -> Result:
    """Alternate turns of the libraries; the first calls of a turn are not counted, for by then the other's workers have gone to sleep."""
    repeats = max(1, int(2e-4 / max(once(case.calls[FLAMBEAU]), 1e-8)))
    walls: dict[str, list[float]] = {label: [] for label in case.calls}
    processor: dict[str, list[float]] = {label: [] for label in case.calls}
    for call in case.calls.values():
        call()
    end = time.perf_counter() + CHOSEN.seconds * len(case.calls)
    while time.perf_counter() < end or len(walls[FLAMBEAU]) < 7:
        for label, call in case.calls.items():
            settle(call)
            turn = time.perf_counter() + TURN
            while True:
                wall, used = time.perf_counter(), time.process_time()
                for _ in range(repeats):
                    call()
                ended = time.perf_counter()
                walls[label].append((ended - wall) / repeats)
                processor[label].append((time.process_time() - used) / repeats)
                if ended >= turn:
                    break
    timings = {label: Timing(statistics.median(walls[label]), min(walls[label]), min(processor[label])) for label in case.calls}
    against = case.against if case.against in timings else EAGER
    return Result(case.name, timings, timings[against].median / timings[FLAMBEAU].median, against)


def settle(call: Call) -> None:
    """Call for SETTLING seconds."""
    end = time.perf_counter() + SETTLING
    while time.perf_counter() < end:
        call()


def once(call: Call) -> float:
    for _ in range(3):
        call()
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def import_result(runs: int = 5) -> Result:
    """Seconds of ``import`` in a fresh process."""
    timings: dict[str, Timing] = {}
    for label, library in LIBRARIES:
        script = f"import time; t = time.perf_counter(); import {library.__name__}; print(time.perf_counter() - t)"
        command = [sys.executable, "-c", script]
        found = [float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(runs)]
        timings[label] = Timing(statistics.median(found), min(found), min(found))
    return Result("import", timings, timings[EAGER].median / timings[FLAMBEAU].median, EAGER)


def show(result: Result) -> None:
    parts = [f"{label} {spelled(t.median)} (least {spelled(t.least)}, cpu {spelled(t.processor)})" for label, t in result.timings.items()]
    share = "" if result.ceiling is None else f"  {100 * result.ceiling:.0f} % of the ceiling"
    quiet = result.timings[result.against].least / result.timings[FLAMBEAU].least
    print(f"{result.name:38} {result.ratio:6.2f}x {result.against}, quietest {quiet:5.2f}x{share}\n    " + " | ".join(parts), flush=True)


def spelled(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.4g} {unit}"
    return f"{seconds * 1e9:.4g} ns"


def main() -> None:
    torch.set_num_threads(CHOSEN.threads)
    peak, bandwidth = peak_flops(CHOSEN.threads), copy_bandwidth(128)
    print(f"{CHOSEN.threads} threads; peak {peak / 1e9:.0f} GF/s, copy of 128 MiB {bandwidth / 1e9:.1f} GB/s; torch {torch.__version__}")
    results: list[Result] = []
    for group, make in makers().items():
        for case in make() if not CHOSEN.words or any(w in group for w in CHOSEN.words) else ():
            result = measure(case)
            if case.moved or case.flops:
                rate = (case.moved or case.flops) / result.timings[FLAMBEAU].least
                result.ceiling = rate / (bandwidth if case.moved else peak)
            results.append(result)
            show(result)
    if not CHOSEN.words or "import" in CHOSEN.words:
        results.append(import_result())
        show(results[-1])
    if CHOSEN.json:
        machine = {"threads": CHOSEN.threads, "peak_flops": peak, "copy_bandwidth": bandwidth}
        with open(CHOSEN.json, "w", encoding="utf-8") as file:
            json.dump({**machine, "results": [asdict(r) for r in results]}, file, indent=1)


if __name__ == "__main__":
    main()
