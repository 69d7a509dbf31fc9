"""The primitives behind Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.core.symbolic import Dim, differs
from flambeau.ir.node import Node
from flambeau.prims import pointwise as p
from flambeau.prims import structure as s
from flambeau.prims.declare import Gradients, prim, require

# What the sums are divided by: nothing, the root of n, or n.
NORMS = ("none", "root", "length")


def _require(name: str, fits: bool, x: Aval, axis: int, norm: str) -> None:
    fits = fits and x.dtype.name in ("float32", "float64") and norm in NORMS
    require(fits, name, f"cannot transform {x} along axis {axis}, norm {norm!r}")


def _is_row_of_pairs(x: Aval, axis: int) -> bool:
    return len(x.shape) >= 2 and not differs(x.shape[-1], 2) and axis == len(x.shape) - 2


def _rule(x: Aval, axis: int, inverse: bool, norm: str) -> Aval:
    _require("fourier", _is_row_of_pairs(x, axis), x, axis, norm)
    return x


def _real_rule(x: Aval, axis: int, norm: str) -> Aval:
    _require("fourier_real", axis == len(x.shape) - 1, x, axis, norm)
    return Aval((*x.shape[:-1], x.shape[-1] // 2 + 1, 2), x.dtype)


def _hermitian_rule(x: Aval, axis: int, n: Dim, norm: str) -> Aval:
    _require("fourier_hermitian", _is_row_of_pairs(x, axis), x, axis, norm)
    return Aval((*x.shape[:-2], n), x.dtype)


def _scale(norm: str, inverse: bool) -> Any:
    return {"none": "forward" if inverse else "backward", "root": "ortho", "length": "backward" if inverse else "forward"}[norm]


def _pairs(z: Any, like: Any) -> Any:
    return np.stack([z.real, z.imag], -1).astype(like.dtype)


def _reference(x: Any, axis: int, inverse: bool, norm: str) -> Any:
    transform = np.fft.ifft if inverse else np.fft.fft
    z = x[..., 0] + 1j * x[..., 1]
    return _pairs(transform(z, norm=_scale(norm, inverse)) if z.size else z, x)


def _real_reference(x: Any, axis: int, norm: str) -> Any:
    return _pairs(np.fft.rfft(x, norm=_scale(norm, False)), x)


def _hermitian_reference(x: Any, axis: int, n: int, norm: str) -> Any:
    return np.fft.irfft(x[..., 0] + 1j * x[..., 1], n, norm=_scale(norm, True)).astype(x.dtype)


fourier = prim(
    "fourier", "row", _rule, _reference,
    "sums over j of x[j] * exp(-2 pi i j k / n), the sign turned for the inverse, along ``axis``, which is -2; real and imaginary "
    "parts lie in the last axis",
)  # fmt: skip
fourier_real = prim(
    "fourier_real", "row", _real_rule, _real_reference,
    "the first n // 2 + 1 sums of real numbers along ``axis``, the last; parts as in fourier",
)
fourier_hermitian = prim(
    "fourier_hermitian", "row", _hermitian_rule, _hermitian_reference,
    "the inverse sums, which are ``n`` real numbers, of what starts with x along ``axis``, which is -2, and goes on with conjugates",
)  # fmt: skip


@fourier.differentiate
def _derivative(g: Node, out: Node, x: Node, axis: int, inverse: bool, norm: str) -> Gradients:
    """The conjugate transpose of the transform."""
    return (fourier(g, axis=axis, inverse=not inverse, norm=norm),)


def _weighted(x: Node, n: Dim, factor: float) -> Node:
    """Spectra [..., n // 2 + 1, 2] times ``factor`` where an element stands for its conjugate too."""
    place = s.iota(shape=x.shape, axis=x.rank - 2, dtype=dtypes.int64)
    twice = p.add(place, place)
    alone = p.bitwise_or(p.eq(place, p.number(0, place)), p.eq(twice, s.full(shape=x.shape, value=n, dtype=dtypes.int64)))
    return p.where(alone, x, p.mul(x, p.number(factor, x)))


@fourier_real.differentiate
def _real_derivative(g: Node, out: Node, x: Node, axis: int, norm: str) -> Gradients:
    n = x.shape[axis]
    return (fourier_hermitian(_weighted(g, n, 0.5), axis=axis, n=n, norm=norm),)


@fourier_hermitian.differentiate
def _hermitian_derivative(g: Node, out: Node, x: Node, axis: int, n: Dim, norm: str) -> Gradients:
    return (_weighted(fourier_real(g, axis=axis, norm=norm), n, 2.0),)
