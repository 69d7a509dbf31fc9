"""Reductions, order, and sets."""

from __future__ import annotations

from typing import Any, NamedTuple

from flambeau.core.dtypes import bool_, int64
from flambeau.tensor import functions_index
from flambeau.tensor.functions_complex import view_as_complex, view_as_real
from flambeau.tensor.functions_shape import cat
from flambeau.tensor.tensor_class import Tensor

Axis = int | tuple[int, ...] | None


def _kept(x: Tensor, axis: Axis) -> Any:
    """All axes where none is given, so that ``keepdims`` holds for them too."""
    return tuple(range(x.ndim)) if axis is None else axis


# -- sums and means ---------------------------------------------------------------------------------------
def sum(x: Tensor, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Sums along axes; integers are summed in int64."""
    if axis == () or not x.ndim:
        return x.to(dtype or (x.dtype if x.is_floating_point() or x.is_complex() else int64), copy=True)
    return x.sum(_kept(x, axis), keepdims, dtype=dtype)


def prod(x: Tensor, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Products along axes; integers are multiplied in int64."""
    out = x.to(dtype or (x.dtype if x.is_floating_point() or x.is_complex() else int64))
    axes = _kept(x, axis)
    for a in sorted(({axes % x.ndim} if isinstance(axes, int) else {a % x.ndim for a in axes}), reverse=True):
        out = out.prod(a, keepdims)
    return out.clone() if out is x else out


def mean(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Means along axes."""
    return x.clone() if axis == () or not x.ndim else x.mean(_kept(x, axis), keepdims)


def var(x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Squared deviations from the mean over N - ``correction``."""
    if axis == () or not x.ndim:
        return x * 0.0 / (1 - correction) if correction != 1 else x * float("nan")
    axes = _kept(x, axis)
    count = 1
    for a in (axes,) if isinstance(axes, int) else axes:
        count *= x.shape[a]
    squares = (x - x.mean(axes, True)).square().sum(axes, keepdims)
    return squares / (count - correction) if count - correction else squares / squares.new_zeros(())


def std(x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The root of `var`."""
    return var(x, axis=axis, correction=correction, keepdims=keepdims).sqrt()


def cumulative_sum(x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """Running sums along an axis, with the empty sum first if asked for."""
    return _running("cumsum", 0, x, axis, dtype, include_initial)


def cumulative_prod(x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """Running products along an axis, with the empty product first if asked for."""
    return _running("cumprod", 1, x, axis, dtype, include_initial)


def _running(method: str, start: int, x: Tensor, axis: int | None, dtype: Any, initial: bool) -> Tensor:
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"{method}: an array of {x.ndim} dimensions needs an axis")
        axis = 0
    out = getattr(x, method)(axis, dtype=dtype)
    if initial:
        shape = list(out.shape)
        shape[axis] = 1
        out = cat([out.new_full(shape, start), out], axis)
    return out


# -- extremes and logic -----------------------------------------------------------------------------------
def max(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest elements along axes."""
    return x.clone() if axis == () or not x.ndim else x.amax(_kept(x, axis), keepdims)


def min(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest elements along axes."""
    return x.clone() if axis == () or not x.ndim else x.amin(_kept(x, axis), keepdims)


def all(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether all elements along axes differ from 0."""
    return (x != 0) if axis == () or not x.ndim else x.all(_kept(x, axis), keepdims).to(bool_)


def any(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether an element along axes differs from 0."""
    return (x != 0) if axis == () or not x.ndim else x.any(_kept(x, axis), keepdims).to(bool_)


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the first largest element along an axis is."""
    return x.argmax(axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the first smallest element along an axis is."""
    return x.argmin(axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """How many elements along axes differ from 0."""
    return sum(x != 0, axis=axis, keepdims=keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The places of the elements that differ from 0, an array for each axis."""
    if not x.ndim:
        raise ValueError("nonzero: needs an array with at least one axis")
    return x.nonzero(as_tuple=True)


# -- order ------------------------------------------------------------------------------------------------
def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order along an axis."""
    return x.sort(dim=axis, descending=descending, stable=stable).values if x.ndim else x.clone()


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Where the elements in order were."""
    return x.sort(dim=axis, descending=descending, stable=stable).indices


def searchsorted(x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """Where elements would be put into a sorted array."""
    return functions_index.searchsorted(x1, x2, side=side, sorter=sorter)


# -- sets -------------------------------------------------------------------------------------------------
class AllUnique(NamedTuple):
    """What `unique_all` gives."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives."""

    values: Tensor
    inverse_indices: Tensor


def _unique(x: Tensor, **wanted: bool) -> Any:
    """`torch.unique`; complex numbers as rows of their parts."""
    if not x.is_complex():
        return functions_index.unique(x, **wanted)
    found = functions_index.unique(view_as_real(x.flatten()), dim=0, **wanted)
    values, *rest = found if wanted else (found,)
    values = view_as_complex(values.contiguous())
    if not wanted:
        return values
    return (values, rest[0].reshape(x.shape), *rest[1:]) if wanted.get("return_inverse") else (values, *rest)


def unique_all(x: Tensor, /) -> AllUnique:
    """The values that occur, where each is first, which one each element is, and how often each occurs."""
    values, inverse, counts = _unique(x, return_inverse=True, return_counts=True)
    order = inverse.flatten().sort(stable=True).indices
    return AllUnique(values, order[counts.cumsum(0) - counts], inverse, counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The values that occur, and how often each does."""
    return UniqueCounts(*_unique(x, return_counts=True))


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The values that occur, and which one each element is."""
    return UniqueInverse(*_unique(x, return_inverse=True))


def unique_values(x: Tensor, /) -> Tensor:
    """The values that occur."""
    return _unique(x)
