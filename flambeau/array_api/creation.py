"""Making arrays."""

from __future__ import annotations

import builtins
from typing import Any

from flambeau.array_api.array import Array
from flambeau.core.dtypes import int64
from flambeau.tensor import creation, functions_shape


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Array:
    """An array of the elements of ``obj``, in memory of its own with ``copy``."""
    return creation.asarray(obj, dtype=dtype, device=device, copy=copy).as_subclass(Array)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Array:
    """start, start + step, ... before ``stop``; none where the step leads away from it."""
    start, stop = (0, start) if stop is None else (start, stop)
    if dtype is None and builtins.all(isinstance(value, int) for value in (start, stop, step)):
        dtype = int64
    if (stop - start) * step <= 0:
        return creation.empty(0, dtype=dtype, device=device).as_subclass(Array)
    return creation.arange(start, stop, step, dtype=dtype, device=device).as_subclass(Array)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """Undefined elements."""
    return creation.empty(_shape(shape), dtype=dtype, device=device).as_subclass(Array)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """Zeros."""
    return creation.zeros(_shape(shape), dtype=dtype, device=device).as_subclass(Array)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """Ones."""
    return creation.ones(_shape(shape), dtype=dtype, device=device).as_subclass(Array)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """One value everywhere."""
    return creation.full(_shape(shape), fill_value, dtype=dtype, device=device).as_subclass(Array)


def _shape(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def empty_like(x: Array, /, *, dtype: Any = None, device: Any = None) -> Array:
    """Undefined elements in the shape of another array."""
    return empty(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def zeros_like(x: Array, /, *, dtype: Any = None, device: Any = None) -> Array:
    """Zeros in the shape of another array."""
    return zeros(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def ones_like(x: Array, /, *, dtype: Any = None, device: Any = None) -> Array:
    """Ones in the shape of another array."""
    return ones(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def full_like(x: Array, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Array:
    """One value in the shape of another array."""
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device or x.device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Array:
    """Ones on the diagonal ``k`` places above the main one."""
    columns = n_rows if n_cols is None else n_cols
    out = zeros((n_rows, columns), dtype=dtype, device=device)
    if -n_rows < k < columns:
        out.diagonal(k).fill_(1)
    return out


def linspace(start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True) -> Array:
    """``num`` numbers at equal distances from ``start`` to ``stop``, which is left out without ``endpoint``."""
    if not endpoint:
        return creation.linspace(start, stop, num + 1, dtype=dtype, device=device)[:num].as_subclass(Array)
    return creation.linspace(start, stop, num, dtype=dtype, device=device).as_subclass(Array)


def meshgrid(*arrays: Array, indexing: str = "xy") -> list[Array]:
    """The coordinates of a grid from those along each axis."""
    return list(functions_shape.meshgrid(*arrays, indexing=indexing))


def tril(x: Array, /, *, k: int = 0) -> Array:
    """The elements not above a diagonal, else 0."""
    return functions_shape.tril(x, k)


def triu(x: Array, /, *, k: int = 0) -> Array:
    """The elements not below a diagonal, else 0."""
    return functions_shape.triu(x, k)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """The memory of another library's array as an array here, or a copy of it."""
    out = creation.from_dlpack(x).as_subclass(Array)
    out = out if device is None else out.to(device)
    return out.clone() if copy else out
