"""Primitives that combine many elements: reductions, products of matrices, scans and sorts."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.core import dtypes
from flambeau.core.aval import Aval
from flambeau.core.symbolic import Dim, differs, shapes_differ
from flambeau.ir.node import Node
from flambeau.prims import pointwise as p
from flambeau.prims.declare import Gradients, prim, require
from flambeau.prims.structure import constant, expand, permute, reshape, select_index, slice_

REDUCTIONS: dict[str, Any] = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "any": np.any, "all": np.all}


def _reduce_rule(x: Aval, kind: str, axes: tuple[int, ...]) -> Aval:
    require(kind in REDUCTIONS, "reduce", f"unknown kind {kind!r}")
    require(list(axes) == sorted(set(axes)), "reduce", f"axes must be sorted and distinct, got {axes}")
    return Aval(tuple(d for i, d in enumerate(x.shape) if i not in axes), x.dtype)


def _reduce_reference(x: Any, kind: str, axes: tuple[int, ...]) -> Any:
    out = REDUCTIONS[kind](x, axis=axes)
    return np.asarray(out).astype(x.dtype)


reduce = prim("reduce", "reduce", _reduce_rule, _reduce_reference, "combine along ``axes`` by sum, prod, max, min, any or all")


def restore(x: Node, axes: tuple[int, ...], shape: tuple[Dim, ...]) -> Node:
    """Undo the dropping of ``axes``: put them back with size 1 and expand to ``shape``."""
    kept = tuple(1 if i in axes else d for i, d in enumerate(shape))
    return expand(reshape(x, shape=kept), shape=shape)


@reduce.differentiate
def _reduce_derivative(g: Node, out: Node, x: Node, kind: str, axes: tuple[int, ...]) -> Gradients:
    spread = restore(g, axes, x.shape)
    if kind == "sum":
        return (spread,)
    if kind in ("max", "min"):
        hit = p.cast(p.eq(x, restore(out, axes, x.shape)), to=x.dtype)
        count = restore(reduce(hit, kind="sum", axes=axes), axes, x.shape)
        return (p.div(p.mul(spread, hit), count),)
    if kind == "prod":
        zero, one = p.number(0, x), p.number(1, x)
        is_zero = p.eq(x, zero)
        zeros = restore(reduce(p.cast(is_zero, to=x.dtype), kind="sum", axes=axes), axes, x.shape)
        others = restore(reduce(p.where(is_zero, one, x), kind="prod", axes=axes), axes, x.shape)
        single = p.where(is_zero, others, zero)
        ordinary = p.div(others, p.where(is_zero, one, x))
        value = p.where(p.eq(zeros, zero), ordinary, p.where(p.eq(zeros, one), single, zero))
        return (p.mul(spread, value),)
    return (None,)


def _argreduce_rule(x: Aval, kind: str, axis: int) -> Aval:
    return Aval(tuple(d for i, d in enumerate(x.shape) if i != axis), dtypes.int64)


def _argreduce_reference(x: Any, kind: str, axis: int) -> Any:
    return np.asarray({"max": np.argmax, "min": np.argmin}[kind](x, axis=axis)).astype(np.int64)


argreduce = prim("argreduce", "reduce", _argreduce_rule, _argreduce_reference, "first position of the max or min; NaN counts as both")


def _matmul_rule(a: Aval, b: Aval) -> Aval:
    ok = len(a.shape) == len(b.shape) >= 2 and a.dtype is b.dtype and not differs(a.shape[-1], b.shape[-2])
    require(ok and not shapes_differ(a.shape[:-2], b.shape[:-2]), "matmul", f"cannot multiply {a} and {b}")
    return Aval((*a.shape[:-1], b.shape[-1]), a.dtype)


def _matmul_reference(a: Any, b: Any) -> Any:
    if a.dtype.kind == "f" and a.dtype.itemsize >= 4:
        return a @ b
    wide = np.float64 if a.dtype.kind not in "iub" else a.dtype
    return (a.astype(wide) @ b.astype(wide)).astype(a.dtype)


matmul = prim("matmul", "matmul", _matmul_rule, _matmul_reference, "batched product: [..., M, K] x [..., K, N] -> [..., M, N]")


def transpose(x: Node) -> Node:
    """Swap the last two axes."""
    rank = len(x.shape)
    return permute(x, axes=(*range(rank - 2), rank - 1, rank - 2))


matmul.derivative = lambda g, out, a, b: (matmul(g, transpose(b)), matmul(transpose(a), g))

SCANS: dict[str, Any] = {"sum": np.cumsum, "prod": np.cumprod, "max": np.maximum.accumulate, "min": np.minimum.accumulate}

scan = prim(
    "scan", "row", lambda x, kind, axis: x, lambda x, kind, axis: SCANS[kind](x, axis=axis).astype(x.dtype),
    "running sum, prod, max or min along ``axis``",
)  # fmt: skip


def flip(x: Node, axis: int) -> Node:
    """The axis in reverse order."""
    size = x.shape[axis]
    return slice_(x, **select_index(axis, size - 1, size, -1, x.shape))


@scan.differentiate
def _scan_derivative(g: Node, out: Node, x: Node, kind: str, axis: int) -> Gradients:
    if kind == "sum":
        return (flip(scan(flip(g, axis), kind="sum", axis=axis), axis),)
    if kind == "prod":
        # The first zero of a row takes the products of the others; what follows it reaches no further zero.
        is_zero, one = p.eq(x, p.number(0, x)), p.number(1, x)
        zeros = scan(p.cast(is_zero, to=dtypes.int64), kind="sum", axis=axis)
        first = p.bitwise_and(is_zero, p.eq(zeros, p.number(1, zeros)))
        others = scan(p.where(first, one, x), kind="prod", axis=axis)
        later, at_zero = (flip(scan(flip(p.mul(g, v), axis), kind="sum", axis=axis), axis) for v in (out, others))
        return (p.where(first, at_zero, p.where(is_zero, p.number(0, x), p.div(later, p.where(is_zero, one, x)))),)
    raise NotImplementedError(f"derivative of a running {kind}: take the values at the running arg{kind} instead")


def _argsort_reference(x: Any, axis: int, descending: bool) -> Any:
    if not descending:
        return np.argsort(x, axis=axis, kind="stable").astype(np.int64)
    order = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - order, axis).astype(np.int64)


argsort = prim(
    "argsort", "row", lambda x, axis, descending: Aval(x.shape, dtypes.int64), _argsort_reference,
    "stable order along ``axis``; NaN is largest",
)  # fmt: skip


def zeros_like(x: Node) -> Node:
    return constant(0, x.shape, x.dtype)
