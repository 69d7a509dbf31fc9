"""One softmax written three ways, and what a compiler makes of each: a table of times, and a plot over the length of the rows.

The first way is the formula, five operators with a pass over memory each; the second is the library's operator; the third is the
formula compiled, which becomes one kernel that reads every row once. An ordinary PyTorch program.

    flambeau run examples/softmax_three_ways.py --plot out/softmax.svg
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch

COLORS = {"formula": "#c0392b", "operator": "#2980b9", "compiled": "#27ae60"}


def formula(x: torch.Tensor) -> torch.Tensor:
    """The definition, shifted by the largest element so that nothing overflows."""
    shifted = x - x.amax(-1, keepdim=True)
    exponentials = shifted.exp()
    return exponentials / exponentials.sum(-1, keepdim=True)


def operator(x: torch.Tensor) -> torch.Tensor:
    """The library's own."""
    return torch.softmax(x, -1)


def seconds(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, least: float = 0.2) -> float:
    """The quietest call of those in ``least`` seconds."""
    function(x)
    best, end = float("inf"), time.perf_counter() + least
    while time.perf_counter() < end:
        started = time.perf_counter()
        function(x)
        best = min(best, time.perf_counter() - started)
    return best


def plot(path: Path, lengths: list[int], rates: dict[str, list[float]]) -> None:
    """Gigabytes a second, read and written, over the length of a row, as SVG."""
    width, height, margin = 640, 400, 60
    most = max(max(values) for values in rates.values()) * 1.1
    across = [margin + i * (width - 2 * margin) / max(len(lengths) - 1, 1) for i in range(len(lengths))]
    down = lambda rate: height - margin - rate / most * (height - 2 * margin)  # noqa: E731
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">']
    out.append(f'<rect width="{width}" height="{height}" fill="white"/><text x="{margin}" y="24">softmax: GB/s over row length</text>')
    for x, length in zip(across, lengths, strict=True):
        out.append(f'<text x="{x:.0f}" y="{height - margin + 18}" text-anchor="middle">{length}</text>')
    for share in range(5):
        rate = most * share / 4
        out.append(f'<text x="{margin - 8}" y="{down(rate) + 4:.0f}" text-anchor="end">{rate:.0f}</text>')
        out.append(f'<line x1="{margin}" x2="{width - margin}" y1="{down(rate):.0f}" y2="{down(rate):.0f}" stroke="#ddd"/>')
    for number, (name, values) in enumerate(rates.items()):
        points = " ".join(f"{x:.1f},{down(rate):.1f}" for x, rate in zip(across, values, strict=True))
        out.append(f'<polyline points="{points}" fill="none" stroke="{COLORS[name]}" stroke-width="2"/>')
        out.append(f'<text x="{width - margin - 70}" y="{40 + 16 * number}" fill="{COLORS[name]}">{name}</text>')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*out, "</svg>\n"]), encoding="utf-8")


def main(arguments: list[str] | None = None) -> dict[str, list[float]]:
    """Compare, print a table, and return gigabytes a second by way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=1 << 23, help="of each matrix")
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 256, 1024, 4096, 16384, 65536])
    parser.add_argument("--seconds", type=float, default=0.2, help="for each measurement")
    parser.add_argument("--plot", type=Path, help="draw the rates into this SVG file")
    options = parser.parse_args(arguments)
    ways: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "formula": formula, "operator": operator, "compiled": torch.compile(formula),
    }  # fmt: skip
    rates: dict[str, list[float]] = {name: [] for name in ways}
    print("rows x length     " + "".join(f"{name:>22}" for name in ways))
    for length in options.lengths:
        x = torch.randn(max(options.elements // length, 1), length)
        expected = operator(x)
        cells: list[str] = []
        for name, way in ways.items():
            torch.testing.assert_close(way(x), expected)
            spent = seconds(way, x, options.seconds)
            rates[name].append(8 * x.numel() / spent / 1e9)
            cells.append(f"{spent * 1e3:9.3f} ms {rates[name][-1]:5.1f} GB/s")
        print(f"{x.shape[0]:7d} x {length:<8d}" + "".join(f"{cell:>22}" for cell in cells), flush=True)
    if options.plot:
        plot(options.plot, options.lengths, rates)
        print(f"the plot is in {options.plot}")
    return rates


if __name__ == "__main__":
    main()
