"""torch.signal.windows: windows of ``M`` places, symmetric (``sym``) or one period of a periodic one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.core.layout import strided
from flambeau.tensor import functions_windows as functions
from flambeau.tensor.creation import arange, ones, tensor

# ruff: noqa: N803 - torch's own names


def _cosines(
    name: str, M: int, weights: Sequence[float], sym: bool, dtype: dtype | None, requires_grad: bool, options: dict[str, Any]
) -> Any:
    if not isinstance(weights, (list, tuple)):
        raise TypeError(f"{name}: coefficients must be a list of numbers, got {type(weights).__name__}")
    if not weights:
        raise ValueError(f"{name}: coefficients cannot be empty")
    _check(name, M, dtype, options)
    return functions.cosine_sum(name, M, weights, not sym, dtype, requires_grad, options)


def _check(name: str, M: int, dtype: dtype | None, options: dict[str, Any]) -> None:
    if M < 0:
        raise ValueError(f"{name}: requires non-negative window length, got M={M}")
    if options.get("layout", strided) is not strided:
        raise ValueError(f"{name}: is implemented for strided tensors only, got {options['layout']}")
    if dtype not in (None, dtypes.float32, dtypes.float64):
        raise ValueError(f"{name}: expects float32 or float64 dtypes, got {dtype}")


def _centred(name: str, M: int, sym: bool, dtype: dtype | None, options: dict[str, Any]) -> Any:
    """The distance of each place from the middle."""
    _check(name, M, dtype, options)
    middle = (M - 1 if sym else M) / 2
    return arange(M, dtype=dtypes.float64) - middle


def _typed(window: Any, dtype: dtype | None, requires_grad: bool, options: dict[str, Any]) -> Any:
    if window.numel() == 1:
        return ones(1, dtype=dtype, requires_grad=requires_grad, **options)
    out = window.to(dtype or tensor(1.0).dtype)
    return out.requires_grad_() if requires_grad else out


def general_cosine(
    M: int, *, a: Sequence[float], sym: bool = True, dtype: dtype | None = None, requires_grad: bool = False, **options: Any
) -> Any:
    """a[0] - a[1] cos(t) + a[2] cos(2 t) - ..."""
    return _cosines("general_cosine", M, a, sym, dtype, requires_grad, options)


def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: dtype | None = None, requires_grad: bool = False, **options: Any
) -> Any:
    """alpha - (1 - alpha) cos(t)."""
    return _cosines("general_hamming", M, (alpha, 1 - alpha), sym, dtype, requires_grad, options)


def hamming(M: int, *, sym: bool = True, dtype: dtype | None = None, requires_grad: bool = False, **options: Any) -> Any:
    """0.54 - 0.46 cos(t)."""
    return _cosines("hamming", M, (0.54, 0.46), sym, dtype, requires_grad, options)


def hann(M: int, *, sym: bool = True, dtype: dtype | None = None, requires_grad: bool = False, **options: Any) -> Any:
    """(1 - cos(t)) / 2.

    >>> import flambeau as torch
    >>> torch.signal.windows.hann(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return _cosines("hann", M, (0.5, 0.5), sym, dtype, requires_grad, options)


def blackman(M: int, *, sym: bool = True, dtype: dtype | None = None, requires_grad: bool = False, **options: Any) -> Any:
    """0.42 - 0.5 cos(t) + 0.08 cos(2 t)."""
    return _cosines("blackman", M, (0.42, 0.5, 0.08), sym, dtype, requires_grad, options)


def nuttall(M: int, *, sym: bool = True, dtype: dtype | None = None, requires_grad: bool = False, **options: Any) -> Any:
    """Four cosines whose side lobes are least."""
    return _cosines("nuttall", M, (0.3635819, 0.4891775, 0.1365995, 0.0106411), sym, dtype, requires_grad, options)


def bartlett(M: int, *, sym: bool = True, dtype: dtype | None = None, requires_grad: bool = False, **options: Any) -> Any:
    """A triangle from 0 up to 1 and down to 0."""
    distance = _centred("bartlett", M, sym, dtype, options)
    return _typed(1 - distance.abs() * (2 / max(M - 1 if sym else M, 1)), dtype, requires_grad, options)


def cosine(M: int, *, sym: bool = True, dtype: dtype | None = None, requires_grad: bool = False, **options: Any) -> Any:
    """Half a wave of the sine, sampled between its zeros."""
    _centred("cosine", M, sym, dtype, options)
    places = (arange(M, dtype=dtypes.float64) + 0.5) * (math.pi / max(M if sym else M + 1, 1))
    return _typed(places.sin(), dtype, requires_grad, options)


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: dtype | None = None, requires_grad: bool = False,
    **options: Any,
) -> Any:  # fmt: skip
    """exp(-|n - center| / tau)."""
    if tau <= 0:
        raise ValueError(f"exponential: tau must be positive, got {tau}")
    if sym and center is not None:
        raise ValueError("exponential: center must be None for symmetric windows")
    distance = _centred("exponential", M, sym, dtype, options)
    if center is not None:
        distance = arange(M, dtype=dtypes.float64) - center
    return _typed((distance.abs() / -tau).exp(), dtype, requires_grad, options)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, dtype: dtype | None = None, requires_grad: bool = False, **options: Any) -> Any:
    """exp(-((n - middle) / std) ** 2 / 2)."""
    if std <= 0:
        raise ValueError(f"gaussian: standard deviation must be positive, got {std}")
    scaled = _centred("gaussian", M, sym, dtype, options) / std
    return _typed((scaled * scaled * -0.5).exp(), dtype, requires_grad, options)


def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: dtype | None = None, requires_grad: bool = False, **options: Any
) -> Any:
    """I0(beta sqrt(1 - r * r)) / I0(beta), with r from -1 to 1 over the window."""
    if beta < 0:
        raise ValueError(f"kaiser: beta must be non-negative, got {beta}")
    _check("kaiser", M, dtype, options)
    return functions.kaiser_window(M, not sym, beta, dtype=dtype, requires_grad=requires_grad, **options)
