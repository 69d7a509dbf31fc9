"""Rows of a table by their numbers."""

from __future__ import annotations

import numpy as np

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.ir.node import Node
from flambeau.ops.cases import Calls, SampleMaker, case
from flambeau.ops.declare import Value, broadcast_to, op
from flambeau.ops.indexing import insertion_points, positions_from, size_number


def _embedding_samples(m: SampleMaker) -> Calls:
    weight = m.float(5, 3)
    return [case(m.int(2, 4, low=0, high=5), weight), case(np.array(2), weight), case(m.int(6, low=0, high=5), weight, -1)]


@op(samples=_embedding_samples)
def embedding(x: Value, weight: Value, padding_idx: int | None = None) -> Node:
    """weight[x]: integers [...] and a table [rows, width] -> [..., width]. Row ``padding_idx`` gets no gradient."""
    if weight.rank != 2:
        raise RuntimeError(f"embedding: 'weight' must be 2-D, got shape {list(weight.shape)}")
    at = positions_from(x, "embedding")
    rows = p.take(weight, at)
    if padding_idx is None:
        return rows
    count = weight.shape[0]
    if padding_idx < -count or padding_idx >= count:
        raise AssertionError(f"embedding: padding_idx must be within num_embeddings ({count}), got {padding_idx}")
    padding = padding_idx + count if padding_idx < 0 else padding_idx
    is_padding = p.reshape(p.eq(at, size_number(padding, at)), shape=(*at.shape, 1))
    return p.where(p.expand(is_padding, shape=rows.shape), p.detach(rows), rows)


MODES = ("sum", "mean", "max")


def _bag_samples(m: SampleMaker) -> Calls:
    weight, bags, line = m.float(6, 3), m.int(2, 4, low=0, high=6), m.int(7, low=0, high=6)
    offsets = np.array([0, 3, 3])
    out = [case(bags, weight, None, mode) for mode in MODES]
    out += [case(line, weight, offsets, mode) for mode in ("sum", "mean")]
    return [*out, case(bags, weight, None, "sum", m.float(2, 4)), case(line, weight, offsets, "sum", m.float(7))]


@op(promote="same", promoted=("weight", "per_sample_weights"), samples=_bag_samples)
def embedding_bag(
    x: Value, weight: Value, offsets: Value | None = None, mode: str = "mean", per_sample_weights: Value | None = None
) -> Node:
    """The sum, mean or maximum of each bag's rows: bags are the rows of x [bags, size], or begin at ``offsets`` in a vector x."""
    if mode not in MODES or (per_sample_weights is not None and mode != "sum"):
        raise ValueError(f"embedding_bag: mode has to be one of sum, mean or max, with per_sample_weights only sum, got {mode!r}")
    if (x.rank == 1) != (offsets is not None) or x.rank not in (1, 2):
        raise ValueError(f"embedding_bag: needs a 2-D input, or a 1-D input and offsets, got {x.rank}-D and offsets {offsets}")
    rows = embedding(x, weight)
    if per_sample_weights is not None:
        scale = p.converted(per_sample_weights, rows.dtype)
        rows = p.mul(rows, p.expand(p.reshape(scale, shape=(*x.shape, 1)), shape=rows.shape))
    if offsets is None:
        kind = "max" if mode == "max" else "sum"
        out = p.reduce(rows, kind=kind, axes=(1,))
        return out if mode != "mean" else p.div(out, p.converted(size_number(x.shape[1], out), out.dtype))
    return _bags_of_line(x, rows, offsets, mode)


def _bags_of_line(x: Node, rows: Node, offsets: Node, mode: str) -> Node:
    if mode == "max":
        raise NotImplementedError("embedding_bag: mode 'max' with offsets is not supported; pad the bags to a 2-D input")
    place = p.iota(shape=x.shape, axis=0, dtype=dtypes.int64)
    following = insertion_points(p.converted(offsets, dtypes.int64), place, right=True)
    bag = p.sub(following, p.number(1, following))
    out = p.scatter(p.constant(0, (offsets.shape[0], rows.shape[1]), rows.dtype), rows, bag, mode="add")
    if mode == "sum":
        return out
    line = p.constant(0, (offsets.shape[0],), rows.dtype)
    count = p.scatter(line, p.constant(1, x.shape, rows.dtype), bag, mode="add")
    count = p.reshape(p.maximum(count, p.number(1, count)), shape=(*count.shape, 1))
    return p.div(out, broadcast_to(count, out.shape))
