"""The primitive behind Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.aval import Aval
from flambeau.ir.node import Node
from flambeau.prims.declare import prim, require
from flambeau.prims.reduction import flip


def _rule(x: Aval, axis: int) -> Aval:
    fits = x.dtype.name in ("float32", "float64") and len(x.shape) >= 2 and x.shape[-1] == 2 and axis == len(x.shape) - 2
    require(fits, "fourier", f"needs float32 or float64 [..., n, 2] and axis -2, got {x} and axis {axis}")
    return x


def _reference(x: Any, axis: int) -> Any:
    out = np.fft.fft(x[..., 0] + 1j * x[..., 1]) if x.size else np.zeros(x.shape[:-1], complex)
    return np.stack([out.real, out.imag], -1).astype(x.dtype)


fourier = prim(
    "fourier", "row", _rule, _reference,
    "sums over j of x[j] * exp(-2 pi i j k / n) along ``axis``, which is -2; x has real and imaginary parts in its last axis",
)  # fmt: skip


def swap_parts(x: Node) -> Node:
    """Real and imaginary parts in each other's place: what turns the transform into n times its inverse, and back."""
    return flip(x, x.rank - 1)


# The conjugate transpose of the transform.
fourier.derivative = lambda g, out, x, axis: (swap_parts(fourier(swap_parts(g), axis=axis)),)
