"""Rows of a table by their numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.core.symbolic import Dim
from flambeau.ir.node import Node
from flambeau.ops.cases import Calls, SampleMaker, case
from flambeau.ops.declare import Value, broadcast_to, op
from flambeau.ops.indexing import insertion_points, positions_from, size_number
from flambeau.ops.pointwise import require_float
from flambeau.ops.reduce import reduced


def _embedding_samples(m: SampleMaker) -> Calls:
    weight = m.float(5, 3)
    return [case(m.int(2, 4, low=0, high=5), weight), case(np.array(2), weight), case(m.int(6, low=0, high=5), weight, -1)]


@op(samples=_embedding_samples)
def embedding(x: Value, weight: Value, padding_idx: int | None = None, scale_grad_by_freq: bool = False) -> Node:
    """weight[x]: integers [...] and a table [rows, width] -> [..., width]. Row ``padding_idx`` gets no gradient.

    ``scale_grad_by_freq`` divides the gradient of a row by how often x names it.
    """
    if weight.rank != 2:
        raise RuntimeError(f"embedding: 'weight' must be 2-D, got shape {list(weight.shape)}")
    at = positions_from(x, "embedding")
    rows = p.take(weight, at)
    if scale_grad_by_freq:
        often = p.scatter(p.constant(0, (weight.shape[0],), dtypes.int64), p.constant(1, at.shape, dtypes.int64), at, mode="add")
        share = p.converted(p.take(often, at), rows.dtype.compute)
        scaled = p.div(p.converted(rows, share.dtype), p.expand(p.reshape(share, shape=(*at.shape, 1)), shape=rows.shape))
        rows = p.attach(rows, p.converted(scaled, rows.dtype))
    if padding_idx is None:
        return rows
    return p.where(p.expand(_is_padding(at, weight, padding_idx), shape=rows.shape), p.detach(rows), rows)


def _is_padding(at: Node, weight: Node, padding_idx: int) -> Node:
    count = weight.shape[0]
    if padding_idx < -count or padding_idx >= count:
        raise AssertionError(f"embedding: padding_idx must be within num_embeddings ({count}), got {padding_idx}")
    padding = padding_idx + count if padding_idx < 0 else padding_idx
    return p.reshape(p.eq(at, size_number(padding, at)), shape=(*at.shape, 1))


MODES = ("sum", "mean", "max")


def _bag_samples(m: SampleMaker) -> Calls:
    weight, bags, line = m.float(6, 3), m.int(2, 4, low=0, high=6), m.random.permutation(6)
    offsets = np.array([0, 3, 3])
    out = [case(bags, weight, None, mode) for mode in MODES[:2]] + [case(np.array([[0, 3, 5], [1, 2, 4]]), weight, None, "max")]
    out += [case(line, weight, offsets, mode) for mode in MODES]
    out += [case(line, weight, offsets, mode, None, 2) for mode in MODES]
    return [*out, case(bags, weight, None, "sum", m.float(2, 4)), case(line, weight, offsets, "sum", m.float(6), -1)]


@op(promote="same", promoted=("weight", "per_sample_weights"), samples=_bag_samples)
def embedding_bag(
    x: Value, weight: Value, offsets: Value | None = None, mode: str = "mean", per_sample_weights: Value | None = None,
    padding_idx: int | None = None, scale_grad_by_freq: bool = False,
) -> Node:  # fmt: skip
    """The sum, mean or maximum of each bag's rows: bags are the rows of x [bags, size], or begin at ``offsets`` in a vector x.

    Elements equal to ``padding_idx`` count nothing; a bag of nothing gives zeros.
    """
    if mode not in MODES or (per_sample_weights is not None and mode != "sum"):
        raise ValueError(f"embedding_bag: mode has to be one of sum, mean or max, with per_sample_weights only sum, got {mode!r}")
    if (x.rank == 1) != (offsets is not None) or x.rank not in (1, 2):
        raise ValueError(f"embedding_bag: needs a 2-D input, or a 1-D input and offsets, got {x.rank}-D and offsets {offsets}")
    require_float("embedding_bag", weight)
    at = p.reshape(positions_from(x, "embedding_bag"), shape=(x.aval.numel,))
    rows = embedding(at, weight, None, scale_grad_by_freq)
    if per_sample_weights is not None:
        scale = p.reshape(p.converted(per_sample_weights, rows.dtype), shape=(*at.shape, 1))
        rows = p.mul(rows, p.expand(scale, shape=rows.shape))
    padded = p.constant(False, (*at.shape, 1), dtypes.bool_) if padding_idx is None else _is_padding(at, weight, padding_idx)
    return _combined_bags(rows, padded, x.shape if offsets is None else _bags_of(at, offsets), mode)


def _bags_of(at: Node, offsets: Node) -> tuple[Node, Dim]:
    """The bag of each element of a vector, and how many bags there are."""
    place = p.iota(shape=at.shape, axis=0, dtype=dtypes.int64)
    following = insertion_points(p.converted(offsets, dtypes.int64), place, right=True)
    return p.sub(following, p.number(1, following)), offsets.shape[0]


def _combined_bags(rows: Node, padded: Node, bags: tuple[Any, ...], mode: str) -> Node:
    """Rows [n, width] of bags (their shape [bags, size], or the bag of each row and the number of bags) combined."""
    least = -math.inf if mode == "max" else 0
    rows = p.where(p.expand(padded, shape=rows.shape), p.number(least, rows), rows)
    counted = p.converted(p.invert(padded), rows.dtype)
    if isinstance(bags[0], Node):
        bag, count = bags
        out = p.scatter(p.constant(least, (count, rows.shape[1]), rows.dtype), rows, bag, mode="max" if mode == "max" else "add")
        members = p.scatter(p.constant(0, (count, 1), rows.dtype), counted, bag, mode="add")
    else:
        out = reduced(p.reshape(rows, shape=(*bags, rows.shape[1])), "max" if mode == "max" else "sum", (1,))
        members = reduced(p.reshape(counted, shape=(*bags, 1)), "sum", (1,))
    members = broadcast_to(members, out.shape)
    if mode == "max":
        return p.where(p.eq(members, p.number(0, members)), p.number(0, out), out)
    return p.div(out, p.maximum(members, p.number(1, members))) if mode == "mean" else out
