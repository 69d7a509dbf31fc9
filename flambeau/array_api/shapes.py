"""Shapes, joins and places."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from flambeau.tensor import functions_index, functions_shape
from flambeau.tensor.tensor_class import Tensor
from flambeau.tensor.type_info import promote_types


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """The arrays in the shape that they meet in."""
    return list(functions_shape.broadcast_tensors(*arrays))


def broadcast_to(x: Tensor, /, shape: Any) -> Tensor:
    """The array in a larger shape, its elements repeated."""
    return functions_shape.broadcast_to(x, tuple(shape))


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """The arrays one after another along an axis, flattened without one."""
    kind = reduce(promote_types, (x.dtype for x in arrays))
    parts = [x.to(kind) if axis is not None else x.to(kind).flatten() for x in arrays]
    return functions_shape.cat(parts, axis or 0)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """The arrays along a new axis."""
    kind = reduce(promote_types, (x.dtype for x in arrays))
    return functions_shape.stack([x.to(kind) for x in arrays], axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis."""
    return x.unbind(axis)


def expand_dims(x: Tensor, /, axis: int = 0) -> Tensor:
    """An axis of size 1 inserted."""
    return x.unsqueeze(axis)


def squeeze(x: Tensor, /, axis: Any) -> Tensor:
    """Axes of size 1 dropped; ValueError for others."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    for a in axes:
        if not -x.ndim <= a < x.ndim:
            raise IndexError(f"squeeze: there is no axis {a} in an array of {x.ndim} dimensions")
        if x.shape[a] != 1:
            raise ValueError(f"squeeze: axis {a} has size {x.shape[a]}, not 1")
    return x.squeeze(axes) if axes else x


def flip(x: Tensor, /, *, axis: Any = None) -> Tensor:
    """The order along axes reversed, along all without one."""
    return x.flip(tuple(range(x.ndim)) if axis is None else axis)


def moveaxis(x: Tensor, source: Any, destination: Any, /) -> Tensor:
    """Axes moved to other places."""
    return functions_shape.moveaxis(x, source, destination)


def permute_dims(x: Tensor, /, axes: Any) -> Tensor:
    """The axes in another order."""
    return x.permute(tuple(axes))


def reshape(x: Tensor, /, shape: Any, *, copy: bool | None = None) -> Tensor:
    """The elements in another shape; with ``copy`` False never, with True always in memory of their own."""
    if copy is False:
        return x.view(tuple(shape))
    out = x.reshape(tuple(shape))
    return out.clone() if copy else out


def roll(x: Tensor, /, shift: Any, *, axis: Any = None) -> Tensor:
    """Elements moved along axes, those that leave at one end come back at the other."""
    return x.roll(shift, () if axis is None else axis)


def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Each element repeated along an axis, of the flattened array without one."""
    return functions_shape.repeat_interleave(x, repeats, axis)


def tile(x: Tensor, repetitions: Any, /) -> Tensor:
    """The array repeated along its axes."""
    return functions_shape.tile(x, tuple(repetitions))


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The slices along an axis that the indices name."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take: an array of {x.ndim} dimensions needs an axis")
        axis = 0
    if not -x.ndim <= axis < x.ndim:
        raise IndexError(f"take: there is no axis {axis} in an array of {x.ndim} dimensions")
    return x[(slice(None),) * (axis % x.ndim) + (indices.long(),)]


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """The elements along an axis that the indices name, place by place."""
    return functions_index.take_along_dim(x, indices.long(), axis)


def diff(x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """The differences of neighbours along an axis, ``n`` times."""
    parts = [part for part in (prepend, x, append) if part is not None]
    joined = concat(parts, axis=axis) if len(parts) > 1 else x
    for _ in range(n):
        size = joined.shape[axis]
        joined = joined.narrow(axis, 1, max(size - 1, 0)) - joined.narrow(axis, 0, max(size - 1, 0)) if size else joined
    return joined
