"""Window functions: weights that fade a stretch of a signal in and out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flambeau import ops
from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.ops.declare import default_float
from flambeau.tensor.creation import finished


def cosine_sum(
    operator: str, length: int, weights: Sequence[float], periodic: bool, kind: dtype | None, requires_grad: bool, options: dict[str, Any]
) -> Any:
    """weights[0] - weights[1] cos(t) + weights[2] cos(2 t) - ..., with t from 0 to 2 pi over the window."""
    wanted = _checked(operator, length, kind)
    turn = _places(length, 0.0, 2 * math.pi / max(length if periodic else length - 1, 1))
    total: Any = ops.full((length,), weights[0], dtypes.float64)
    for k, weight in enumerate(weights[1:], start=1):
        total = ops.add(total, ops.mul(ops.cos(ops.mul(turn, float(k))), weight * (-1) ** k))
    return _window(operator, length, total, wanted, requires_grad, options)


def _checked(operator: str, length: int, kind: dtype | None) -> dtype:
    if length < 0:
        raise RuntimeError(f"{operator}: requires non-negative window length, got {length}")
    wanted = kind or default_float()
    if not wanted.is_floating_point:
        raise RuntimeError(f"{operator}: expects floating point dtypes, got {wanted}")
    return wanted


def _places(length: int, start: float, step: float) -> Any:
    return ops.arange(start, step, length, dtypes.float64)


def _window(operator: str, length: int, values: Any, kind: dtype, requires_grad: bool, options: dict[str, Any]) -> Any:
    # A window of one place is 1, whatever the formula gives.
    made = ops.ones((1,), kind) if length == 1 else ops.to_dtype(values, kind)
    return finished(operator, made, requires_grad, **options)


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: dtype | None = None, requires_grad: bool = False,
    **options: Any,
) -> Any:  # fmt: skip
    """I0(beta sqrt(1 - r * r)) / I0(beta), with r from -1 to 1 over the window."""
    wanted = _checked("kaiser_window", window_length, dtype)
    r = _places(window_length, -1.0, 2 / max(window_length if periodic else window_length - 1, 1))
    inside = ops.mul(ops.sqrt(ops.clamp(ops.sub(1.0, ops.square(r)), 0.0)), beta)
    values = ops.true_divide(ops.i0(inside), ops.i0(ops.full((), beta, dtypes.float64)))
    return _window("kaiser_window", window_length, values, wanted, requires_grad, options)


def hann_window(
    window_length: int, periodic: bool = True, *, dtype: dtype | None = None, requires_grad: bool = False, **options: Any
) -> Any:
    """(1 - cos(t)) / 2."""
    return cosine_sum("hann_window", window_length, (0.5, 0.5), periodic, dtype, requires_grad, options)


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: dtype | None = None,
    requires_grad: bool = False, **options: Any,
) -> Any:  # fmt: skip
    """alpha - beta cos(t)."""
    return cosine_sum("hamming_window", window_length, (alpha, beta), periodic, dtype, requires_grad, options)


def blackman_window(
    window_length: int, periodic: bool = True, *, dtype: dtype | None = None, requires_grad: bool = False, **options: Any
) -> Any:
    """0.42 - 0.5 cos(t) + 0.08 cos(2 t)."""
    return cosine_sum("blackman_window", window_length, (0.42, 0.5, 0.08), periodic, dtype, requires_grad, options)


def bartlett_window(
    window_length: int, periodic: bool = True, *, dtype: dtype | None = None, requires_grad: bool = False, **options: Any
) -> Any:
    """A triangle from 0 up to 1 and down to 0."""
    kind = _checked("bartlett_window", window_length, dtype)
    place = _places(window_length, -1.0, 2 / max(window_length if periodic else window_length - 1, 1))
    return _window("bartlett_window", window_length, ops.sub(1.0, ops.abs(place)), kind, requires_grad, options)
