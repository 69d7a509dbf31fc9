"""The primitive behind Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.aval import Aval
from flambeau.prims.declare import prim, require


def _rule(x: Aval, axis: int, inverse: bool, norm: str) -> Aval:
    fits = x.dtype.name in ("float32", "float64") and len(x.shape) >= 2 and x.shape[-1] == 2 and axis == len(x.shape) - 2
    require(fits, "fourier", f"needs float32 or float64 [..., n, 2] and axis -2, got {x} and axis {axis}")
    require(norm in NORMS, "fourier", f"norm {norm!r}")
    return x


def _reference(x: Any, axis: int, inverse: bool, norm: str) -> Any:
    transform = np.fft.ifft if inverse else np.fft.fft
    scale = {"none": "forward" if inverse else "backward", "root": "ortho", "length": "backward" if inverse else "forward"}[norm]
    out = transform(x[..., 0] + 1j * x[..., 1], norm=scale) if x.size else np.zeros(x.shape[:-1], complex)
    return np.stack([out.real, out.imag], -1).astype(x.dtype)


# What the sums are divided by: nothing, the root of n, or n.
NORMS = ("none", "root", "length")
fourier = prim(
    "fourier", "row", _rule, _reference,
    "sums over j of x[j] * exp(-2 pi i j k / n), the sign turned for the inverse, along ``axis``, which is -2; real and imaginary "
    "parts lie in the last axis",
)  # fmt: skip
# The conjugate transpose of the transform.
fourier.derivative = lambda g, out, x, axis, inverse, norm: (fourier(g, axis=axis, inverse=not inverse, norm=norm),)
