"""Sampling at places against loops over pixels, and derivatives against differences."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from flambeau.ops.declare import ALL
from tests.ops.operator_cases import check_against, check_gradient, operators_of


def _inside(place: float, n: int, padding_mode: str, align_corners: bool) -> float:
    if padding_mode == "reflection":
        low, high = (0.0, n - 1.0) if align_corners else (-0.5, n - 0.5)
        while high > low and not low <= place <= high:
            place = 2 * low - place if place < low else 2 * high - place
    return place if padding_mode == "zeros" else min(max(place, 0.0), n - 1.0)


def _cubic(distance: float) -> float:
    d, a = abs(distance), -0.75
    return (a + 2) * d**3 - (a + 3) * d**2 + 1 if d <= 1 else a * (d**3 - 5 * d**2 + 8 * d - 4) if d < 2 else 0.0


def _taps(coordinate: float, n: int, mode: str, padding_mode: str, align_corners: bool) -> list[tuple[int, float]]:
    place = (coordinate + 1) / 2 * (n - 1) if align_corners else ((coordinate + 1) * n - 1) / 2
    if mode == "bicubic":
        whole = int(np.floor(place))
        return [(int(_inside(i, n, padding_mode, align_corners)), _cubic(place - i)) for i in range(whole - 1, whole + 3)]
    place = _inside(place, n, padding_mode, align_corners)
    if mode == "nearest":
        return [(int(np.rint(place)), 1.0)]
    whole = int(np.floor(place))
    return [(whole, 1 - place + whole), (whole + 1, place - whole)]


def _grid_sample(x: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = False) -> Any:
    lengths = x.shape[2:]
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for at in np.ndindex(grid.shape[:-1]):
        taps = [_taps(c, n, mode, padding_mode, align_corners) for c, n in zip(grid[at][::-1], lengths, strict=True)]
        for tap in product(*taps):
            if all(0 <= i < n for (i, _), n in zip(tap, lengths, strict=True)):
                out[(at[0], slice(None), *at[1:])] += x[(at[0], slice(None), *(i for i, _ in tap))] * np.prod([w for _, w in tap])
    return out


def test_body_equals_numpy() -> None:
    check_against(ALL["grid_sample"], _grid_sample)


def test_gradient_equals_differences() -> None:
    assert check_gradient(ALL["grid_sample"]) > 0


def test_every_operator_is_tested() -> None:
    assert {o.name for o in operators_of("grid_sample")} == {"grid_sample"}
