"""Primitives that make or rearrange elements without computing: constants, ranges, views, padding, joining."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core.aval import Aval
from flambeau.core.dtypes import dtype, require_numbers
from flambeau.core.symbolic import Dim, differs, product
from flambeau.ir.node import Node
from flambeau.prims.declare import prim, require

Shape = tuple[Dim, ...]
Ints = tuple[int, ...]


def _full_reference(shape: Shape, value: Any, dtype: dtype, weak: bool = False) -> Any:
    return np.full(shape, value, dtype.numpy)


full = prim(
    "full", "source", lambda shape, value, dtype, weak=False: Aval(shape, dtype, weak), _full_reference,
    "a constant in every place; ``weak`` when it stands for a Python number",
)  # fmt: skip


def constant(value: complex | float | int | bool, shape: Shape, dtype: dtype) -> Node:
    """``full`` with the value normalized to the dtype's own kind of Python number."""
    require_numbers(dtype)
    if dtype.is_complex:
        value = complex(value)
    elif isinstance(value, complex):
        raise TypeError(f"the complex number {value} is no {dtype}")
    elif dtype.is_floating_point:
        with np.errstate(over="ignore"):
            value = float(value) if dtype.itemsize > 2 else float(dtype.numpy.type(value))  # what is folded knows no 16-bit types
    elif dtype.name == "bool":
        value = bool(value)
    else:
        bits = 8 * dtype.itemsize
        value = (int(value) + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1)) if dtype.is_signed else int(value) % (1 << bits)
    return full(shape=shape, value=value, dtype=dtype)


def _iota_reference(shape: Shape, axis: int, dtype: dtype) -> Any:
    line = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])  # type: ignore[arg-type]
    return np.broadcast_to(line, shape).astype(dtype.numpy)  # type: ignore[arg-type]


iota = prim("iota", "source", lambda shape, axis, dtype: Aval(shape, dtype), _iota_reference, "the index along ``axis``")


def _expand_rule(x: Aval, shape: Shape) -> Aval:
    ok = len(x.shape) == len(shape) and all(a is b or not differs(a, b) or a == 1 for a, b in zip(x.shape, shape, strict=True))
    require(ok, "expand", f"cannot expand {x} to {shape}")
    return Aval(shape, x.dtype)


expand = prim("expand", "view", _expand_rule, lambda x, shape: np.broadcast_to(x, shape), "repeat axes of size 1")


def _reshape_rule(x: Aval, shape: Shape) -> Aval:
    require(not differs(product(x.shape), product(shape)), "reshape", f"cannot view {x} as {shape}")
    return Aval(shape, x.dtype)


reshape = prim("reshape", "view", _reshape_rule, lambda x, shape: x.reshape(shape), "the same elements in row-major order")


def _permute_rule(x: Aval, axes: tuple[int, ...]) -> Aval:
    require(sorted(axes) == list(range(len(x.shape))), "permute", f"{axes} does not order the axes of {x}")
    return Aval(tuple(x.shape[a] for a in axes), x.dtype)


permute = prim("permute", "view", _permute_rule, lambda x, axes: x.transpose(axes), "axis i of the result is ``axes[i]`` of x")


def _slice_rule(x: Aval, starts: Shape, sizes: Shape, steps: tuple[int, ...]) -> Aval:
    require(len(starts) == len(sizes) == len(steps) == len(x.shape), "slice", f"rank of {x} differs from {sizes}")
    return Aval(sizes, x.dtype)


def _slice_reference(x: Any, starts: Ints, sizes: Ints, steps: Ints) -> Any:
    for axis, (start, size, step) in enumerate(zip(starts, sizes, steps, strict=True)):
        x = np.take(x, start + step * np.arange(size), axis=axis)
    return x


slice_ = prim("slice", "view", _slice_rule, _slice_reference, "element i along an axis is element start + i * step of x")


def _pad_rule(x: Aval, low: Shape, high: Shape, interior: tuple[int, ...], value: Any) -> Aval:
    sizes = [
        lo + n + (0 if inside == 0 else (n - 1) * inside) + hi
        for n, lo, hi, inside in zip(x.shape, low, high, interior, strict=True)
    ]
    return Aval(tuple(sizes), x.dtype)


def _pad_reference(x: Any, low: Any, high: Any, interior: Any, value: Any) -> Any:
    shape = _pad_rule(Aval(x.shape, None), low, high, interior, value).shape  # type: ignore[arg-type]
    out = np.full(shape, value, x.dtype)  # type: ignore[arg-type]
    out[tuple(slice(lo, lo + (n - 1) * (i + 1) + 1 if n else lo, i + 1) for n, lo, i in zip(x.shape, low, interior, strict=True))] = x
    return out


pad = prim("pad", "view", _pad_rule, _pad_reference, "x with ``value`` before, after and (``interior`` of them) between elements")


def _cat_rule(*xs: Aval, axis: int) -> Aval:
    first = xs[0]
    for x in xs[1:]:
        rest = not any(differs(a, b) for i, (a, b) in enumerate(zip(x.shape, first.shape, strict=True)) if i != axis)
        require(rest and x.dtype is first.dtype, "cat", f"{x} does not fit {first} along axis {axis}")
    total: Dim = 0
    for x in xs:
        total = total + x.shape[axis]
    return Aval(tuple(total if i == axis else d for i, d in enumerate(first.shape)), first.dtype)


def _cat_reference(*xs: Any, axis: int) -> Any:
    return np.concatenate(xs, axis)


cat = prim("cat", "view", _cat_rule, _cat_reference, "operands one after another along ``axis``")


join = prim("join", "join", _cat_rule, _cat_reference, "``cat`` of operands that are computed in its memory")


def _as_strided_rule(x: Aval, shape: Shape, strides: Shape, offset: Dim) -> Aval:
    require(len(x.shape) == 1, "as_strided", f"needs a flat operand, got {x}")
    return Aval(shape, x.dtype)


def _as_strided_reference(x: Any, shape: Ints, strides: Ints, offset: int) -> Any:
    index: Any = np.full(shape, offset)
    for axis, stride in enumerate(strides):
        line = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
        index = index + stride * line
    return x[index]


as_strided = prim("as_strided", "view", _as_strided_rule, _as_strided_reference, "element (i, j, ...) is x[offset + i*s0 + j*s1 + ...]")


def window_count(n: Dim, size: Dim, step: Dim, dilation: Dim) -> Dim:
    """How many windows of ``size`` elements, ``dilation`` apart, begin every ``step`` elements of ``n``."""
    return (n - (size - 1) * dilation - 1) // step + 1


def _window_rule(x: Aval, axis: int, size: Dim, step: int, dilation: int) -> Aval:
    require(0 <= axis < len(x.shape) and step > 0 and dilation > 0, "window", f"axis {axis}, step {step}, dilation {dilation} of {x}")
    count = window_count(x.shape[axis], size, step, dilation)
    return Aval((*x.shape[:axis], count, *x.shape[axis + 1 :], size), x.dtype)


def _window_reference(x: Any, axis: int, size: int, step: int, dilation: int) -> Any:
    count = int(window_count(x.shape[axis], size, step, dilation))  # type: ignore[arg-type]
    places = step * np.arange(count)[:, None] + dilation * np.arange(size)[None, :]
    return np.moveaxis(np.take(x, places, axis=axis), axis + 1, -1)


window = prim(
    "window", "view", _window_rule, _window_reference,
    "sliding windows in a new last axis: element (..., w, ..., k) is x[..., w * step + k * dilation, ...]",
)  # fmt: skip


def _diagonal_reference(x: Any) -> Any:
    return np.diagonal(x, axis1=-2, axis2=-1)


def _diagonal_rule(x: Aval) -> Aval:
    require(len(x.shape) >= 2 and not differs(x.shape[-1], x.shape[-2]), "diagonal", f"needs square matrices, got {x}")
    return Aval(x.shape[:-1], x.dtype)


diagonal = prim(
    "diagonal", "view", _diagonal_rule, _diagonal_reference,
    "the main diagonals of square matrices: element (..., i) is x[..., i, i]",
)  # fmt: skip


def select_index(axis: int, start: Dim, size: Dim, step: int, shape: Shape) -> dict[str, Any]:
    """Attributes of a ``slice`` that cuts one axis only."""
    rank = len(shape)
    return {
        "starts": tuple(start if i == axis else 0 for i in range(rank)),
        "sizes": tuple(size if i == axis else shape[i] for i in range(rank)),
        "steps": tuple(step if i == axis else 1 for i in range(rank)),
    }
