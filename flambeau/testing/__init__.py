"""torch.testing: comparison of tensors in tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core import dtypes
from flambeau.core.dtypes import dtype
from flambeau.tensor import Tensor, tensor
from flambeau.tensor.base import TensorBase
from flambeau.tensor.functions_random import rand, randint

__all__ = ["assert_close", "make_tensor"]

# Relative and absolute tolerances where none are given.
_TOLERANCES = {
    dtypes.float16: (1e-3, 1e-5), dtypes.bfloat16: (1.6e-2, 1e-5), dtypes.float32: (1.3e-6, 1e-5), dtypes.float64: (1e-7, 1e-7),
}  # fmt: skip


def assert_close(
    actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None, atol: float | None = None,
    equal_nan: bool = False, check_device: bool = True, check_dtype: bool = True, check_layout: bool = True, check_stride: bool = False,
    msg: Any = None,
) -> None:  # fmt: skip
    """AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere, and shapes and dtypes agree.

    Sequences and mappings are compared part by part. The tolerances depend on the dtype unless given.

    >>> import flambeau as torch
    >>> torch.testing.assert_close(torch.tensor([1.0]), torch.tensor([1.0 + 1e-7]))
    """
    options = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan, "check_dtype": check_dtype, "check_stride": check_stride, "msg": msg}
    if isinstance(expected, dict):
        if set(actual) != set(expected):
            raise AssertionError(f"The keys of the mappings do not match: {sorted(map(str, actual))} and {sorted(map(str, expected))}")
        for key, value in expected.items():
            assert_close(actual[key], value, **options)
    elif isinstance(expected, (list, tuple)):
        if len(actual) != len(expected):
            raise AssertionError(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
        for ours, theirs in zip(actual, expected, strict=True):
            assert_close(ours, theirs, **options)
    else:
        _assert_tensors_close(_as_tensor(actual), _as_tensor(expected), rtol, atol, equal_nan, check_dtype, check_stride, msg)


def _as_tensor(value: Any) -> Any:
    if isinstance(value, TensorBase):
        return value
    if isinstance(value, (bool, int, float)):
        return tensor(value, dtype=dtypes.float64 if isinstance(value, float) else None)
    if isinstance(value, (np.ndarray, np.generic)):
        return tensor(value)
    raise TypeError(f"No comparison pair was able to handle inputs of type {type(value).__name__}.")


def _assert_tensors_close(
    actual: Any, expected: Any, rtol: float | None, atol: float | None, equal_nan: bool, check_dtype: bool, check_stride: bool, msg: Any
) -> None:
    if actual.shape != expected.shape:
        raise AssertionError(f"The values for attribute 'shape' do not match: {actual.shape} != {expected.shape}.")
    if check_dtype and actual.dtype is not expected.dtype:
        raise AssertionError(f"The values for attribute 'dtype' do not match: {actual.dtype} != {expected.dtype}.")
    if check_stride and actual.stride() != expected.stride():
        raise AssertionError(f"The values for attribute 'stride()' do not match: {actual.stride()} != {expected.stride()}.")
    pairs = [_TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in (actual, expected)]
    relative = max(p[0] for p in pairs) if rtol is None else rtol
    absolute = max(p[1] for p in pairs) if atol is None else atol
    ours, theirs = (t.detach().array().astype(np.float64) for t in (actual, expected))
    close = np.isclose(ours, theirs, relative, absolute, equal_nan)
    if close.all():
        return
    text = _difference(ours, theirs, close, relative, absolute)
    raise AssertionError(msg(text) if callable(msg) else msg or text)


def _difference(ours: Any, theirs: Any, close: Any, relative: float, absolute: float) -> str:
    if not ours.ndim:
        return f"Scalars are not close!\n\nExpected {theirs.item()} but got {ours.item()}."
    with np.errstate(all="ignore"):
        distance = np.where(close, 0.0, np.abs(ours - theirs))
        ratio = distance / np.abs(theirs)
    wrong = close.size - int(close.sum())
    places = [tuple(map(int, np.unravel_index(np.nanargmax(d), d.shape))) for d in (distance, ratio)]
    return (
        f"Tensor-likes are not close!\n\nMismatched elements: {wrong} / {close.size} ({100 * wrong / close.size:.1f}%)\n"
        f"Greatest absolute difference: {distance[places[0]]} at index {places[0]} (up to {absolute} allowed)\n"
        f"Greatest relative difference: {ratio[places[1]]} at index {places[1]} (up to {relative} allowed)"
    )


def make_tensor(
    *shape: Any, dtype: dtype, device: Any = None, low: float | None = None, high: float | None = None, requires_grad: bool = False,
    noncontiguous: bool = False, exclude_zero: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of random numbers in [low, high): by default [-9, 10), for bool 0 and 1."""
    size = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    drawn_size = (*size[:-1], 2 * size[-1]) if noncontiguous and size else size
    if dtype is dtypes.bool_:
        out = randint(0, 2, drawn_size).to(dtype)
    elif dtype.is_floating_point:
        start, end = -9.0 if low is None else low, 9.0 if high is None else high
        out = (rand(drawn_size, dtype=dtype.compute) * (end - start) + start).to(dtype)
    else:
        start, end = (0 if dtype is dtypes.uint8 else -9) if low is None else int(low), 10 if high is None else int(high)
        out = randint(start, end, drawn_size).to(dtype)
    if exclude_zero:
        out = out.masked_fill(out == 0, 1)
    if noncontiguous and size:
        out = out[..., ::2]
    return out.requires_grad_() if requires_grad else out


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = True, msg: str = ""
) -> None:
    """The old name of `assert_close`, for values of any types and devices."""
    if (rtol is None) != (atol is None):
        raise ValueError("assert_allclose: give both rtol and atol, or neither")
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=False, check_dtype=False, msg=msg or None)
