"""Functions of single elements that differ from torch's."""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.tensor import functions_complex, functions_pointwise
from flambeau.tensor.tensor_class import Tensor


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Elements kept between bounds, in the type of ``x``."""
    bounds = [b.to(x.dtype) if isinstance(b, Tensor) else b for b in (min, max)]
    if bounds == [None, None]:
        return x.clone()
    # As tensors, since a bound that is a float would change the type of integers.
    low, high = (None if b is None else b if isinstance(b, Tensor) else _number(b, x) for b in bounds)
    return functions_pointwise.clamp(x, low, high)


def _number(bound: Any, like: Tensor) -> Tensor:
    return ops.full((), bound, dtype=like.dtype)


def round(x: Tensor, /) -> Tensor:
    """The nearest integers, halves to even; of complex numbers both parts."""
    if x.is_complex():
        return functions_complex.complex(functions_pointwise.round(x.real), functions_pointwise.round(x.imag))
    return functions_pointwise.round(x)


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1; x / abs(x) of complex numbers. NaN stays."""
    out = functions_complex.sgn(x)
    return out if not x.is_floating_point() else _with_nan(x, out)


def _with_nan(x: Tensor, out: Tensor) -> Tensor:
    """``out``, NaN where x is."""
    return ops.where(x != x, x, out)
