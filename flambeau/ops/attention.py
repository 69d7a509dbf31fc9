"""Scaled dot-product attention."""

from __future__ import annotations

import math

from flambeau import prims as p
from flambeau.core import dtypes
from flambeau.ir.node import Node
from flambeau.ops.activation import softmax
from flambeau.ops.cases import Calls, SampleMaker, case
from flambeau.ops.create import below_diagonal
from flambeau.ops.declare import Value, broadcast_to, op
from flambeau.ops.dropout import dropped
from flambeau.ops.matmul import batched_product


def _repeated_heads(x: Node, query: Node) -> Node:
    """Each head of x [..., heads, length, width] as often as the query has heads for one of them."""
    heads, wanted = x.shape[-3], query.shape[-3]
    if not wanted % heads == 0:
        raise RuntimeError(f"scaled_dot_product_attention: {wanted} query heads are not a multiple of {heads} key and value heads")
    shape = (*x.shape[:-3], heads, wanted // heads, *x.shape[-2:])
    spread = p.expand(p.reshape(x, shape=(*x.shape[:-2], 1, *x.shape[-2:])), shape=shape)
    return p.reshape(spread, shape=(*x.shape[:-3], wanted, *x.shape[-2:]))


def _masked(scores: Node, allowed: Node) -> Node:
    return p.where(allowed, scores, p.number(-math.inf, scores))


def _masked_weights(scores: Node, allowed: Node) -> Node:
    """softmax over the last axis of what is allowed; rows in which nothing is become zeros, not NaN."""
    some = p.reduce(allowed, kind="any", axes=(scores.rank - 1,))
    some = p.expand(p.reshape(some, shape=(*some.shape, 1)), shape=scores.shape)
    zero = p.number(0, scores)
    return p.where(some, softmax(p.where(some, _masked(scores, allowed), zero), -1), zero)


def _weights(scores: Node, attn_mask: Node | None, is_causal: bool) -> Node:
    if is_causal:
        return softmax(_masked(scores, below_diagonal(scores.shape, 0)), -1)
    if attn_mask is None:
        return softmax(scores, -1)
    if attn_mask.dtype is dtypes.bool_:
        return _masked_weights(scores, broadcast_to(attn_mask, scores.shape))
    scores = p.add(scores, broadcast_to(p.cast(attn_mask, to=scores.dtype), scores.shape))
    return _masked_weights(scores, p.lt(p.number(-math.inf, scores), scores))


def _attention_samples(m: SampleMaker) -> Calls:
    q, k, v = m.float(2, 2, 3, 4), m.float(2, 2, 5, 4), m.float(2, 2, 5, 6)
    mask = m.bool(3, 5)
    mask[:, 0] = True
    partly = mask.copy()
    partly[1] = False
    return [
        case(q, k, v), case(q, k, v, mask), case(q, k, v, m.float(2, 1, 3, 5)), case(q, k, v, is_causal=True), case(q, k, v, scale=0.3),
        case(q, k, v, partly), case(m.float(3, 4), m.float(5, 4), m.float(5, 2)),
        case(m.float(2, 4, 3, 2), m.float(2, 2, 3, 2), m.float(2, 2, 3, 2), is_causal=True, enable_gqa=True),
    ]  # fmt: skip


@op(promote="same", promoted=("query", "key", "value"), samples=_attention_samples)
def scaled_dot_product_attention(
    query: Value, key: Value, value: Value, attn_mask: Value | None = None, dropout_p: float = 0.0, is_causal: bool = False,
    *, scale: float | None = None, enable_gqa: bool = False,
) -> Node:  # fmt: skip
    """softmax(query @ key.T * scale + mask) @ value: [..., l, e], [..., s, e], [..., s, v] -> [..., l, v].

    A bool mask says what takes part, a float mask is added; ``is_causal`` lets row i see columns up to i. ``scale`` is
    1 / sqrt(e) unless given; ``enable_gqa`` repeats the heads of key and value for those of the query.
    """
    if attn_mask is not None and is_causal:
        raise RuntimeError("scaled_dot_product_attention: explicit attn_mask should not be set when is_causal=True; set one of them")
    if enable_gqa:
        key, value = _repeated_heads(key, query), _repeated_heads(value, query)
    scores = batched_product(query, p.transpose(key), "scaled_dot_product_attention")
    scores = p.mul(scores, _scale(scores, query, scale))
    weights = _weights(scores, attn_mask, is_causal)
    if dropout_p:
        weights = dropped(weights, dropout_p, weights.shape)
    return batched_product(weights, value, "scaled_dot_product_attention")


def _scale(scores: Node, query: Node, scale: float | None) -> Node:
    if scale is not None:
        return p.number(scale, scores)
    width = p.full(shape=scores.shape, value=query.shape[-1], dtype=dtypes.int64)
    return p.div(p.number(1, scores), p.sqrt(p.cast(width, to=scores.dtype)))
