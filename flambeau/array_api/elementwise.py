"""Functions of single elements that differ from torch's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau import ops
from flambeau.array_api.array import met
from flambeau.tensor import functions_complex, functions_index
from flambeau.tensor import functions_pointwise as pointwise
from flambeau.tensor.tensor_class import Tensor


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Elements kept between bounds, in the type of ``x``."""
    bounds = [b.to(x.dtype) if isinstance(b, Tensor) else b for b in (min, max)]
    if bounds == [None, None]:
        return x.clone()
    # As tensors, since a bound that is a float would change the type of integers.
    low, high = (None if b is None else b if isinstance(b, Tensor) else _number(b, x) for b in bounds)
    return pointwise.clamp(x, low, high)


def _number(bound: Any, like: Tensor) -> Tensor:
    return ops.full((), bound, dtype=like.dtype)


def round(x: Tensor, /) -> Tensor:
    """The nearest integers, halves to even; of complex numbers both parts."""
    if x.is_complex():
        return functions_complex.complex(pointwise.round(x.real), pointwise.round(x.imag))
    return pointwise.round(x)


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1; x / abs(x) of complex numbers. NaN stays."""
    out = functions_complex.sgn(x)
    return out if not x.is_floating_point() else _with_nan(x, out)


def _with_nan(x: Tensor, out: Tensor) -> Tensor:
    """``out``, NaN where x is."""
    return ops.where(x != x, x, out)


# -- functions of two arrays, or of an array and a number -------------------------------------------------
def _promoted(function: Callable[..., Any]) -> Callable[[Any, Any], Tensor]:
    @functools.wraps(function)
    def promoted(x1: Any, x2: Any, /) -> Tensor:
        return function(*met(x1, x2))

    return promoted


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """The elements of ``x1`` where the condition holds, else those of ``x2``."""
    return functions_index.where(condition, *met(x1, x2))


add = _promoted(pointwise.add)
atan2 = _promoted(pointwise.atan2)
bitwise_and = _promoted(pointwise.bitwise_and)
bitwise_left_shift = _promoted(pointwise.bitwise_left_shift)
bitwise_or = _promoted(pointwise.bitwise_or)
bitwise_right_shift = _promoted(pointwise.bitwise_right_shift)
bitwise_xor = _promoted(pointwise.bitwise_xor)
copysign = _promoted(pointwise.copysign)
divide = _promoted(pointwise.divide)
equal = _promoted(pointwise.eq)
greater = _promoted(pointwise.greater)
greater_equal = _promoted(pointwise.greater_equal)
hypot = _promoted(pointwise.hypot)
less = _promoted(pointwise.less)
less_equal = _promoted(pointwise.less_equal)
logaddexp = _promoted(pointwise.logaddexp)
logical_and = _promoted(pointwise.logical_and)
logical_or = _promoted(pointwise.logical_or)
logical_xor = _promoted(pointwise.logical_xor)
maximum = _promoted(pointwise.maximum)
minimum = _promoted(pointwise.minimum)
multiply = _promoted(pointwise.multiply)
nextafter = _promoted(pointwise.nextafter)
not_equal = _promoted(pointwise.ne)
pow = _promoted(pointwise.pow)
subtract = _promoted(pointwise.subtract)
