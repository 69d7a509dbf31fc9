"""Attention."""

from __future__ import annotations

import math
from typing import Any

from flambeau import ops
from flambeau.core.dtypes import bool_
from flambeau.nn.functional.activation import softmax
from flambeau.nn.functional.dropout import dropout
from flambeau.nn.functional.linear import linear
from flambeau.nn.functional.padding import pad
from flambeau.tensor import Tensor
from flambeau.tensor.creation import zeros, zeros_like

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """softmax(query @ key.T * scale + mask) @ value: (*, L, E), (*, S, E), (*, S, Ev) to (*, L, Ev).

    `attn_mask` broadcasts to (*, L, S): bool (True takes part) or a number that is added. `is_causal` lets position i see up to i;
    `scale` is 1 / sqrt(E) by default; `enable_gqa` shares heads of key and value (dimension -3) between heads of query.
    """
    return ops.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)


def _project(
    query: Tensor, key: Tensor, value: Tensor, weights: tuple[Tensor | None, ...], in_proj_weight: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    if in_proj_weight is None:
        biases = (None, None, None) if bias is None else tuple(bias.chunk(3))
        q, k, v = (linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))  # type: ignore[arg-type]
        return q, k, v
    if query is key and key is value:
        # One product for all three where the input is the same.
        q, k, v = linear(query, in_proj_weight, bias).chunk(3, dim=-1)
        return q, k, v
    parts = in_proj_weight.chunk(3)
    return _project(query, key, value, tuple(parts), None, bias)


def _as_added(mask: Tensor | None, like: Tensor) -> Tensor | None:
    """A mask whose True means "left out", as numbers to add."""
    if mask is None or mask.dtype is not bool_:
        return mask
    return zeros_like(mask, dtype=like.dtype).masked_fill_(mask, float("-inf"))


def _checked_mask(mask: Tensor | None, heads: int, batch: int, target: int, source: int) -> Tensor | None:
    if mask is None or mask.dim() not in (2, 3):
        if mask is None:
            return None
        raise RuntimeError(f"attn_mask's dimension {mask.dim()} is not supported")
    if mask.dim() == 2:
        mask = mask.unsqueeze(0)
        wanted = (1, target, source)
    else:
        wanted = (batch * heads, target, source)
    if tuple(mask.shape) != wanted:
        shape = wanted if len(wanted) == 3 and wanted[0] != 1 else wanted[1:]
        raise RuntimeError(f"The shape of the {len(shape)}D attn_mask is {tuple(mask.shape)}, but should be {shape}.")
    return mask


def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int, in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float,
    out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: bool = True, key_padding_mask: Tensor | None = None,
    need_weights: bool = True, attn_mask: Tensor | None = None, use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None, static_v: Tensor | None = None, average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Multi-head attention of query (L, N, E), key and value (S, N, E), or without N; results (L, N, E) and (N, L, S).

    Masks: bool (True is left out) or numbers that are added; `key_padding_mask` (N, S), `attn_mask` (L, S) or (N * heads, L, S).
    """
    batched = query.dim() == 3
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    target, batch, width = query.shape
    if width != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}")
    if width % num_heads:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {num_heads}")
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    causal = is_causal and key_padding_mask is None and not need_weights
    separate = (q_proj_weight, k_proj_weight, v_proj_weight)
    q, k, v = _project(query, key, value, separate, None if use_separate_proj_weight else in_proj_weight, in_proj_bias)
    mask = None if causal else _checked_mask(_as_added(attn_mask, q), num_heads, batch, target, k.size(0))
    padding = _as_added(key_padding_mask, q)
    heads = _Heads(batch, num_heads, width // num_heads)
    k, v, extra = heads.extended(k, v, bias_k, bias_v, add_zero_attn, static_k, static_v)
    mask = None if mask is None else pad(mask, (0, extra))
    padding = None if padding is None else pad(padding, (0, extra))
    mask = heads.merged(mask, padding)
    output, weights = heads.attend(heads.split(q), k, v, mask, dropout_p if training else 0.0, need_weights, causal)
    output = linear(output.reshape(target * batch, width), out_proj_weight, out_proj_bias).reshape(target, batch, -1)
    if weights is not None and average_attn_weights:
        weights = weights.mean(dim=1)
    if not batched:
        output, weights = output.squeeze(1), None if weights is None else weights.squeeze(0)
    return output, weights


class _Heads:
    """The split of (length, batch, width) into heads."""

    def __init__(self, batch: int, heads: int, size: int) -> None:
        self.batch = batch
        self.heads = heads
        self.size = size

    def split(self, x: Tensor) -> Tensor:
        """(length, batch, width) as (batch, heads, length, size)."""
        return x.reshape(x.size(0), self.batch * self.heads, self.size).transpose(0, 1).reshape(self.batch, self.heads, -1, self.size)

    def extended(
        self, k: Tensor, v: Tensor, bias_k: Tensor | None, bias_v: Tensor | None, add_zero: bool, static_k: Any, static_v: Any
    ) -> tuple[Tensor, Tensor, int]:
        """Keys and values split into heads, with learned and zero positions at the end, and how many those are."""
        extra = 0
        if bias_k is not None and bias_v is not None:
            k, v = ops.cat([k, bias_k.repeat(1, self.batch, 1)]), ops.cat([v, bias_v.repeat(1, self.batch, 1)])
            extra += 1
        shape = (self.batch, self.heads, -1, self.size)
        k = self.split(k) if static_k is None else static_k.reshape(shape)
        v = self.split(v) if static_v is None else static_v.reshape(shape)
        if add_zero:
            nothing = zeros(self.batch, self.heads, 1, self.size, dtype=k.dtype, device=k.device)
            k, v = ops.cat([k, nothing], dim=2), ops.cat([v, nothing], dim=2)
            extra += 1
        return k, v, extra

    def merged(self, mask: Tensor | None, padding: Tensor | None) -> Tensor | None:
        """Both masks in a shape that broadcasts to (batch, heads, target, source)."""
        if mask is not None:
            mask = mask.unsqueeze(0) if mask.size(0) == 1 else mask.reshape(self.batch, self.heads, *mask.shape[1:])
        if padding is not None:
            padding = padding.reshape(self.batch, 1, 1, -1)
            mask = padding if mask is None else mask + padding
        return mask

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float, need_weights: bool, causal: bool
    ) -> tuple[Tensor, Tensor | None]:
        """The values seen, as (target, batch, width), and with `need_weights` the weights (batch, heads, target, source)."""
        weights = None
        if need_weights:
            scores = (q * math.sqrt(1.0 / self.size)) @ k.transpose(-2, -1)
            weights = softmax(scores if mask is None else scores + mask, dim=-1)
            weights = dropout(weights, dropout_p) if dropout_p > 0.0 else weights
            out = weights @ v
        else:
            out = scaled_dot_product_attention(q, k, v, mask, dropout_p, causal)
        return out.permute(2, 0, 1, 3).reshape(q.size(2), self.batch, self.heads * self.size), weights

