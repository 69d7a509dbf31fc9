"""Reductions, running sums and normalizations over the elements where a mask is True; the mask broadcasts to the input.

An element that is left out counts as what changes nothing: 0 in sums, 1 in products, -inf in maxima. Where all are left out, that is
the result; of means, variances and softmaxes it is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flambeau import ops
from flambeau.core.dtypes import dtype
from flambeau.ops.declare import normalize_dims
from flambeau.tensor import functions_math
from flambeau.tensor import functions_reduce as reduce
from flambeau.tensor.tensor_class import Tensor
from flambeau.tensor.type_info import finfo, iinfo

Dims = int | Sequence[int] | None


def _kept(input: Tensor, mask: Any, value: float, kind: dtype | None) -> Tensor:
    """The input in type ``kind``, with ``value`` where the mask leaves elements out."""
    x = input if kind is None else ops.to_dtype(input, kind)
    if mask is None:
        return x
    if not x.meta.dtype.is_inexact and math.isinf(value):
        value = (iinfo(x.meta.dtype).max if value > 0 else iinfo(x.meta.dtype).min) if x.meta.dtype.is_integer else value > 0
    return ops.where(_mask(x, mask), x, ops.full((), value, x.meta.dtype))


def _mask(x: Tensor, mask: Any) -> Any:
    """The mask in the shape of x; RuntimeError where it does not broadcast, or is not of bools."""
    if mask.dtype.name != "bool":
        raise RuntimeError(f"a mask must be of bools, got {mask.dtype}; convert it with .bool()")
    return mask if mask.shape == x.meta.shape else mask.expand(x.meta.shape)


def _axes(input: Tensor, dim: Dims) -> tuple[int, ...]:
    return normalize_dims(dim, input.ndim, "masked")


def sum(input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Any = None) -> Tensor:
    """The sum of what the mask keeps.

    >>> import flambeau as torch
    >>> torch.masked.sum(torch.tensor([1.0, 2.0, 4.0]), mask=torch.tensor([True, False, True]))
    tensor(5.)
    """
    return reduce.sum(_kept(input, mask, 0, dtype), _axes(input, dim), keepdim)


def prod(input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Any = None) -> Tensor:
    """The product of what the mask keeps."""
    out = _kept(input, mask, 1, dtype)
    for axis in reversed(_axes(input, dim)):
        out = reduce.prod(out, axis, True)
    return out if keepdim else ops.reshape(out, [n for i, n in enumerate(out.shape) if i not in _axes(input, dim)])


def amax(input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Any = None) -> Tensor:
    """The largest element that the mask keeps."""
    return reduce.amax(_kept(input, mask, -math.inf, dtype), _axes(input, dim), keepdim)


def amin(input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Any = None) -> Tensor:
    """The smallest element that the mask keeps."""
    return reduce.amin(_kept(input, mask, math.inf, dtype), _axes(input, dim), keepdim)


def argmax(input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Any = None) -> Tensor:
    """Where the largest element is that the mask keeps, as a number of the input's type, as in PyTorch."""
    return reduce.argmax(_kept(input, mask, -math.inf, dtype), dim, keepdim).to(dtype or input.dtype)


def argmin(input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Any = None) -> Tensor:
    """Where the smallest element is that the mask keeps, as a number of the input's type, as in PyTorch."""
    return reduce.argmin(_kept(input, mask, math.inf, dtype), dim, keepdim).to(dtype or input.dtype)


def cumsum(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Any = None) -> Tensor:
    """The running sum of what the mask keeps."""
    return reduce.cumsum(_kept(input, mask, 0, dtype), dim)


def cumprod(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Any = None) -> Tensor:
    """The running product of what the mask keeps."""
    return reduce.cumprod(_kept(input, mask, 1, dtype), dim)


def softmax(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Any = None) -> Tensor:
    """Softmax over what the mask keeps."""
    return reduce.softmax(_kept(input, mask, -math.inf, dtype), dim)


def log_softmax(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Any = None) -> Tensor:
    """Its logarithm."""
    return reduce.log_softmax(_kept(input, mask, -math.inf, dtype), dim)


def softmin(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Any = None) -> Tensor:
    """Softmax of the elements' negatives."""
    return reduce.softmax(-_kept(input, mask, math.inf, dtype), dim)


def logsumexp(input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Any = None) -> Tensor:
    """log(sum(exp)) of what the mask keeps."""
    return reduce.logsumexp(_kept(input, mask, -math.inf, dtype), _axes(input, dim), keepdim)


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: dtype | None = None, input_mask: Any = None, other_mask: Any = None
) -> Tensor:
    """log(exp(input) + exp(other)) of what the masks keep."""
    return ops.logaddexp(_kept(input, input_mask, -math.inf, dtype), _kept(other, other_mask, -math.inf, dtype))


def _count(input: Tensor, axes: Sequence[int], keepdim: bool, mask: Any) -> Tensor:
    ones = ops.ones(input.meta.shape, input.meta.dtype)
    return reduce.sum(_kept(ones, mask, 0, None), axes, keepdim)


def mean(input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Any = None) -> Tensor:
    """The mean of what the mask keeps."""
    axes = _axes(input, dim)
    x = input if dtype is None else ops.to_dtype(input, dtype)
    return reduce.sum(_kept(x, mask, 0, None), axes, keepdim) / _count(x, axes, keepdim, mask)


def median(input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: dtype | None = None, mask: Any = None) -> Tensor:
    """The middle one of the elements along ``dim`` that the mask keeps, the lower of two; NaN where there is none."""
    if not input.is_floating_point():
        raise ValueError(f"input must be a floating point tensor, got {input.dtype}; convert it with .float()")
    return functions_math.nanmedian(_kept(input, mask, math.nan, dtype), dim, keepdim).values


def var(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *, correction: float | None = None, keepdim: bool = False,
    dtype: dtype | None = None, mask: Any = None,
) -> Tensor:  # fmt: skip
    """The variance of what the mask keeps, less ``correction`` (1, or 0 where ``unbiased`` is False) elements."""
    axes = _axes(input, dim)
    x = _kept(input, None, 0, dtype if dtype is not None else None if input.is_floating_point() else mean(input, mask=mask).dtype)
    distance = _kept(x - mean(x, axes, keepdim=True, mask=mask), mask, 0, None)
    less = (0 if unbiased is False else 1) if correction is None else correction
    return reduce.sum(distance * distance, axes, keepdim) / ops.clamp(_count(x, axes, keepdim, mask) - less, 0)


def std(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *, correction: float | None = None, keepdim: bool = False,
    dtype: dtype | None = None, mask: Any = None,
) -> Tensor:  # fmt: skip
    """The standard deviation of what the mask keeps."""
    return ops.sqrt(var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask))


def norm(
    input: Tensor, ord: float | None = 2.0, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Any = None
) -> Tensor:
    """The vector norm of order ``ord`` of what the mask keeps."""
    order = 2.0 if ord is None else float(ord)
    return ops.vector_norm(_kept(input, mask, math.inf if order == -math.inf else 0, dtype), order, _axes(input, dim), keepdim)


def normalize(input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: dtype | None = None, mask: Any = None) -> Tensor:
    """What the mask keeps, divided by its norm along ``dim``, taken as at least ``eps``; 0 elsewhere."""
    x = _kept(input, mask, 0, dtype)
    return x / ops.clamp(norm(x, ord, dim, keepdim=True, mask=mask), max(eps, finfo(x.dtype).tiny))
