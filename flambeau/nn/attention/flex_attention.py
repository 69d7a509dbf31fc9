"""torch.nn.attention.flex_attention: attention whose scores and masks are functions of positions. The scores are stored."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from flambeau.tensor.creation import arange, zeros
from flambeau.tensor.functions_index import where
from flambeau.tensor.functions_linear import matmul
from flambeau.tensor.functions_shape import repeat_interleave

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask", "flex_attention", "noop_mask", "or_masks",
]  # fmt: skip

_DEFAULT_SPARSE_BLOCK_SIZE = 128


class AuxRequest(NamedTuple):
    """What to give beside the result."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The logarithms of the sums of exponentials, and the largest scores, of each query."""

    lse: Any = None
    max_scores: Any = None


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """True everywhere."""
    return token_q.new_ones((), dtype=bool)


def and_masks(*mask_mods: Callable[..., Any]) -> Callable[..., Any]:
    """Where all masks are true."""
    return lambda b, h, q, k: _joined([mask(b, h, q, k) for mask in mask_mods], True)


def or_masks(*mask_mods: Callable[..., Any]) -> Callable[..., Any]:
    """Where one of the masks is true."""
    return lambda b, h, q, k: _joined([mask(b, h, q, k) for mask in mask_mods], False)


def _joined(masks: list[Any], every: bool) -> Any:
    found = masks[0]
    for mask in masks[1:]:
        found = found & mask if every else found | mask
    return found


def _over_positions(function: Callable[..., Any], with_scores: bool) -> Callable[..., Any]:
    """``function`` of one score and its four positions, for all of them."""
    vmap = import_module("flambeau.func").vmap  # Above the layers, and not needed to import this.
    lead = (0,) if with_scores else ()
    for dims in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)):
        function = vmap(function, in_dims=(*lead, *dims))
    return function


def _positions(shape: tuple[int, ...], device: Any) -> list[Any]:
    return [arange(size, device=device) for size in shape]


def create_mask(mod_fn: Callable[..., Any], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None) -> Any:  # noqa: N803
    """The mask as a tensor of bools (B, H, Q_LEN, KV_LEN).

    >>> from flambeau.nn.attention.flex_attention import create_mask
    >>> create_mask(lambda b, h, q, k: q >= k, 1, 1, 2, 2)[0, 0].tolist()
    [[True, False], [True, True]]
    """
    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    found = _over_positions(mod_fn, with_scores=False)(*_positions(shape, device))
    return found.expand(shape)


class BlockMask:
    """A mask by the function that says which key each query sees; ``mask`` is the tensor of it."""

    def __init__(self, mask_mod: Callable[..., Any], mask: Any, block_size: Any) -> None:
        self.mask_mod, self.mask, self.BLOCK_SIZE = mask_mod, mask, block_size
        self.seq_lengths = tuple(mask.shape[-2:])

    @property
    def shape(self) -> Any:
        """(B, H, queries, keys)."""
        return self.mask.shape

    def to(self, device: Any) -> BlockMask:
        """The mask on another device."""
        return BlockMask(self.mask_mod, self.mask.to(device), self.BLOCK_SIZE)

    def to_dense(self) -> Any:
        """The tensor of bools."""
        return self.mask


def create_block_mask(
    mask_mod: Callable[..., Any], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None,  # noqa: N803
    BLOCK_SIZE: Any = _DEFAULT_SPARSE_BLOCK_SIZE, _compile: bool = False, **unused: Any,  # noqa: N803
) -> BlockMask:  # fmt: skip
    """The mask that `flex_attention` takes."""
    return BlockMask(mask_mod, create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device), BLOCK_SIZE)


def flex_attention(
    query: Any, key: Any, value: Any, score_mod: Callable[..., Any] | None = None, block_mask: BlockMask | None = None,
    scale: float | None = None, enable_gqa: bool = False, return_lse: bool = False, kernel_options: Any = None, *, return_aux: Any = None,
) -> Any:  # fmt: skip
    """softmax(score_mod(scale * query keyᵀ)) value, over the keys that the mask leaves; queries without any get zeros.

    ``query`` (B, H, Q, E), ``key`` (B, H, K, E), ``value`` (B, H, K, V) give (B, H, Q, V). ``score_mod(score, b, h, q, k)`` changes each
    score. Keys and values with fewer heads need ``enable_gqa``; ValueError otherwise.
    """
    heads = query.shape[1] // key.shape[1]
    if heads != 1:
        if not enable_gqa:
            raise ValueError(f"flex_attention: query has {query.shape[1]} heads, key has {key.shape[1]}; set enable_gqa=True to share keys")
        key, value = repeat_interleave(key, heads, 1), repeat_interleave(value, heads, 1)
    scores = matmul(query, key.mT) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if score_mod is not None:
        kind = scores.dtype
        scores = _over_positions(score_mod, with_scores=True)(scores, *_positions(tuple(scores.shape), query.device)).to(kind)
    if block_mask is not None:
        visible = block_mask.mask[..., : scores.shape[-2], : scores.shape[-1]]
        scores = where(visible, scores, -math.inf)
    sums = scores.logsumexp(-1)
    empty = sums.isneginf().unsqueeze(-1)
    result = matmul(where(empty, zeros((), dtype=scores.dtype, device=scores.device), scores.softmax(-1)), value)
    if return_aux is not None:
        return result, AuxOutput(sums if return_aux.lse else None, scores.amax(-1) if return_aux.max_scores else None)
    return (result, sums) if return_lse else result
