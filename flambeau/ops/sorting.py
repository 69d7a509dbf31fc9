"""Order along a dimension: sorting, the largest elements and the k-th one. All are stable; NaN is largest."""

from __future__ import annotations

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.ir.node import Node
from flambeau.ops.cases import Calls, SampleMaker, case
from flambeau.ops.declare import Size, Value, normalize_dim, op
from flambeau.ops.reduce import ValuesIndices, take_along
from flambeau.ops.view import cut, with_axis, without_axis


def _chosen(x: Node, index: Node, axis: int) -> ValuesIndices:
    return ValuesIndices(take_along(x, index, axis), index)


def _alone(x: Node) -> ValuesIndices:
    """The answer for a number: itself, at place 0."""
    return ValuesIndices(x, p.constant(0, (), dtypes.int64))


def _sort_samples(m: SampleMaker) -> Calls:
    ties = m.int(4, 9, low=0, high=4)
    return [case(m.float(9)), case(m.float(3, 7), 0), case(ties, 1, True), case(ties, -2, False), case(m.float()), case(m.float(2, 0))]


@op(samples=_sort_samples)
def sort(x: Value, dim: int = -1, descending: bool = False, stable: bool = True) -> ValuesIndices:
    """The elements in order along ``dim``, and where each was; equal ones keep their order."""
    axis = normalize_dim(dim, x.rank, "sort")
    return _chosen(x, p.argsort(x, axis=axis, descending=descending), axis) if x.rank else _alone(x)


@op(samples=_sort_samples)
def argsort(x: Value, dim: int = -1, descending: bool = False, stable: bool = True) -> Node:
    """Where each element of the sorted dimension was."""
    axis = normalize_dim(dim, x.rank, "argsort")
    return p.argsort(x, axis=axis, descending=descending) if x.rank else p.constant(0, (), dtypes.int64)


@op(samples=lambda m: [case(m.float(5)), case(m.float(4, 3))])
def msort(x: Value) -> Node:
    """Sorted along the first dimension."""
    return _chosen(x, p.argsort(x, axis=0, descending=False), 0).values if x.rank else x


def _topk_samples(m: SampleMaker) -> Calls:
    x = m.float(3, 8)
    return [case(x, 3), case(x, 2, 0, False), case(x, 8, 1), case(x, 0), case(m.int(9, low=0, high=3), 4), case(m.float(), 1)]


@op(samples=_topk_samples)
def topk(x: Value, k: Size, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesIndices:
    """The k largest (or smallest) elements along ``dim`` in order, and where they are; of equal ones the first."""
    axis = normalize_dim(dim, x.rank, "topk")
    if k < 0 or k > (x.shape[axis] if x.rank else 1):
        raise RuntimeError(f"topk: selected index k out of range, got k {k} for shape {list(x.shape)} and dim {dim}")
    if not x.rank:
        return _alone(x)
    return _chosen(x, cut(p.argsort(x, axis=axis, descending=largest), axis, 0, k), axis)


@op(samples=lambda m: [case(m.float(7), 3), case(m.float(3, 5), 2, 0), case(m.float(3, 5), 5, 1, True), case(m.float(), 1)])
def kthvalue(x: Value, k: Size, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The k-th smallest element along ``dim``, counted from 1, and where it is."""
    axis = normalize_dim(dim, x.rank, "kthvalue")
    if k < 1 or k > (x.shape[axis] if x.rank else 1):
        raise RuntimeError(f"kthvalue: selected number k out of range for dimension {axis}, got k {k} for shape {list(x.shape)}")
    if not x.rank:
        return _alone(x)
    index = cut(p.argsort(x, axis=axis, descending=False), axis, k - 1, 1)
    chosen = _chosen(x, index, axis)
    return chosen if keepdim else ValuesIndices(*(without_axis(v, axis) for v in chosen))


def _mode_samples(m: SampleMaker) -> Calls:
    x = m.int(4, 9, low=0, high=3)
    return [case(x), case(x, 0), case(x.astype(float), 1, True), case(m.float(5)), case(m.float())]


@op(promote="same", samples=_mode_samples)
def mode(x: Value, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The most frequent element along ``dim`` (the smallest of several), and the last place where it is."""
    axis = normalize_dim(dim, x.rank, "mode")
    if not x.rank:
        return _alone(x)
    order = p.argsort(x, axis=axis, descending=False)
    last = p.argreduce(_length_of_run(take_along(x, order, axis), axis), kind="max", axis=axis)
    index = take_along(order, with_axis(last, axis), axis)
    chosen = _chosen(x, index, axis)
    return chosen if keepdim else ValuesIndices(*(without_axis(v, axis) for v in chosen))


def _length_of_run(x: Node, axis: int) -> Node:
    """For each element of sorted x how many equal ones end with it."""
    place = p.iota(shape=x.shape, axis=axis, dtype=dtypes.int64)
    size = x.shape[axis]
    if size == 1:
        return p.number(1, place)
    changed = p.ne(cut(x, axis, 1, size - 1), cut(x, axis, 0, size - 1))
    low = tuple(1 if a == axis else 0 for a in range(x.rank))
    begins = p.pad(changed, low=low, high=(0,) * x.rank, interior=(0,) * x.rank, value=True)
    start = p.scan(p.where(begins, place, p.number(0, place)), kind="max", axis=axis)
    return p.add(p.sub(place, start), p.number(1, place))
