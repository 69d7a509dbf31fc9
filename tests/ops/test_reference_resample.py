"""Resampling against numpy, as products with dense weights, and derivatives against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flambeau import ops
from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.ir.graph import graph_input
from flambeau.ops.declare import ALL
from tests.ops.operator_cases import check_against, check_gradient, operators_of


def _cubic(distance: Any) -> Any:
    d, a = np.abs(distance), -0.75
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    return np.where(d <= 1, near, np.where(d < 2, a * (d**3 - 5 * d**2 + 8 * d - 4), 0))


def _weights(n: int, target: int, mode: str, align_corners: bool, scale: float | None) -> Any:
    place = np.arange(target)
    ratio = n / target if scale is None else scale
    if mode.startswith("nearest"):
        at = np.floor((place + (0.5 if mode == "nearest-exact" else 0)) * ratio).astype(int)
        return np.eye(n)[np.minimum(at, n - 1)]
    source = place * ((n - 1) / max(target - 1, 1)) if align_corners else (place + 0.5) * ratio - 0.5
    if mode != "bicubic":
        source = np.maximum(source, 0)
    out = np.zeros((target, n))
    for offset in range(-1, 3):
        at = np.floor(source) + offset
        weight = _cubic(source - at) if mode == "bicubic" else np.maximum(1 - np.abs(source - at), 0)
        np.add.at(out, (place, np.clip(at, 0, n - 1).astype(int)), weight)
    return out


def _smooth_weights(n: int, target: int, mode: str) -> Any:
    out = np.zeros((target, n))
    for i in range(target):
        centre, stretch = (i + 0.5) * n / target, max(n / target, 1)
        reach = stretch * (2 if mode == "bicubic" else 1)
        for j in range(max(int(centre - reach + 0.5), 0), min(int(centre + reach + 0.5), n)):
            d = abs(j + 0.5 - centre) / stretch
            cubic = 1.5 * d**3 - 2.5 * d**2 + 1 if d < 1 else -0.5 * (d**3 - 5 * d**2 + 8 * d - 4) if d < 2 else 0
            out[i, j] = cubic if mode == "bicubic" else max(1 - d, 0)
    return out / out.sum(1, keepdims=True)


def _interpolate(
    x: Any, size: Any, mode: str = "nearest", align_corners: bool = False, scales: Any = None, antialias: bool = False
) -> Any:
    for i, target in enumerate(size):
        n, scale = x.shape[2 + i], None if scales is None else scales[i]
        weights = _smooth_weights(n, target, mode) if antialias else _weights(n, target, mode, align_corners, scale)
        x = np.moveaxis(np.tensordot(weights, x, (1, 2 + i)), 0, 2 + i)
    return x


def test_body_equals_numpy() -> None:
    check_against(ALL["interpolate"], _interpolate)


def test_gradient_equals_differences() -> None:
    assert check_gradient(ALL["interpolate"]) > 0


def test_every_operator_is_tested() -> None:
    assert {o.name for o in operators_of("resample")} == {"interpolate"}


def test_modes_and_ranks_must_fit() -> None:
    with pytest.raises(NotImplementedError, match="do not go together"):
        ops.interpolate(graph_input("x", Aval((1, 2, 3), dtypes.float32)), (4,), "bilinear")
