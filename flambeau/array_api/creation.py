"""Making arrays."""

from __future__ import annotations

import builtins
from typing import Any

from flambeau.core.dtypes import int64
from flambeau.tensor import creation, functions_shape
from flambeau.tensor.tensor_class import Tensor


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """An array of the elements of ``obj``, in memory of its own with ``copy``."""
    return creation.asarray(obj, dtype=dtype, device=device, copy=copy)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Tensor:
    """start, start + step, ... before ``stop``; none where the step leads away from it."""
    start, stop = (0, start) if stop is None else (start, stop)
    if dtype is None and builtins.all(isinstance(value, int) for value in (start, stop, step)):
        dtype = int64
    if (stop - start) * step <= 0:
        return creation.empty(0, dtype=dtype, device=device)
    return creation.arange(start, stop, step, dtype=dtype, device=device)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Undefined elements."""
    return creation.empty(_shape(shape), dtype=dtype, device=device)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros."""
    return creation.zeros(_shape(shape), dtype=dtype, device=device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones."""
    return creation.ones(_shape(shape), dtype=dtype, device=device)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """One value everywhere."""
    return creation.full(_shape(shape), fill_value, dtype=dtype, device=device)


def _shape(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def empty_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Undefined elements in the shape of another array."""
    return empty(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def zeros_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros in the shape of another array."""
    return zeros(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def ones_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones in the shape of another array."""
    return ones(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def full_like(x: Tensor, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """One value in the shape of another array."""
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device or x.device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones on the diagonal ``k`` places above the main one."""
    columns = n_rows if n_cols is None else n_cols
    out = zeros((n_rows, columns), dtype=dtype, device=device)
    if -n_rows < k < columns:
        out.diagonal(k).fill_(1)
    return out


def linspace(start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True) -> Tensor:
    """``num`` numbers at equal distances from ``start`` to ``stop``, which is left out without ``endpoint``."""
    if not endpoint:
        return creation.linspace(start, stop, num + 1, dtype=dtype, device=device)[:num]
    return creation.linspace(start, stop, num, dtype=dtype, device=device)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """The coordinates of a grid from those along each axis."""
    return tuple(functions_shape.meshgrid(*arrays, indexing=indexing))


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The elements not above a diagonal, else 0."""
    return functions_shape.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The elements not below a diagonal, else 0."""
    return functions_shape.triu(x, k)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """The memory of another library's array as an array here, or a copy of it."""
    out = creation.from_dlpack(x)
    out = out if device is None else out.to(device)
    return out.clone() if copy else out
