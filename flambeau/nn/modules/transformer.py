"""The Transformer's layers and stacks (Vaswani et al., "Attention Is All You Need", 2017)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from flambeau.core.dtypes import dtype
from flambeau.nn import functional as F  # noqa: N812
from flambeau.nn import init
from flambeau.nn.modules.attention import MultiheadAttention
from flambeau.nn.modules.container import ModuleList
from flambeau.nn.modules.dropout import Dropout
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.normalization import LayerNorm
from flambeau.tensor import Tensor
from flambeau.tensor.creation import full

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer", "_get_activation_fn",
]  # fmt: skip

Activation = str | Callable[[Tensor], Tensor]


def _get_activation_fn(activation: str) -> Callable[[Tensor], Tensor]:
    if activation == "relu":
        return F.relu
    if activation == "gelu":
        return F.gelu
    raise RuntimeError(f"activation should be relu/gelu, not {activation}")


def _clones(module: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


def _causal_mask(size: int, like: Tensor | None = None) -> Tensor:
    """(size, size) with minus infinity above the diagonal and 0 elsewhere."""
    options: dict[str, Any] = {} if like is None else {"dtype": like.dtype, "device": like.device}
    return full((size, size), float("-inf"), **options).triu(1)


def _is_causal(mask: Tensor | None, given: bool | None, size: int) -> bool:
    """What the caller says, or whether the mask is the causal one."""
    if given is not None or mask is None:
        return bool(given)
    return tuple(mask.shape) == (size, size) and mask.is_floating_point() and bool((mask == _causal_mask(size, mask)).all())


class _Layer(Module):
    """What encoder and decoder layers share: the feed-forward block and where normalization stands."""

    def _create_feed_forward(
        self, d_model: int, dim_feedforward: int, dropout: float, activation: Activation, bias: bool, options: dict[str, Any]
    ) -> None:
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **options)
        self.activation = _get_activation_fn(activation) if isinstance(activation, str) else activation

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _add_norms(self, count: int, d_model: int, eps: float, bias: bool, dropout: float, options: dict[str, Any]) -> None:
        for number in range(1, count + 1):
            self.add_module(f"norm{number}", LayerNorm(d_model, eps=eps, bias=bias, **options))
        for number in range(1, count + 1):
            self.add_module(f"dropout{number}", Dropout(dropout))

    def _attend(
        self, attention: MultiheadAttention, x: Tensor, memory: Tensor, mask: Tensor | None, padding: Tensor | None, causal: bool
    ) -> Tensor:
        return attention(x, memory, memory, attn_mask=mask, key_padding_mask=padding, is_causal=causal, need_weights=False)[0]


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward block, each with a residual and layer normalization after it, or before (`norm_first`).

    Input (S, N, d_model), or (N, S, d_model) with `batch_first`.
    """

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1, activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: Any = None,
        dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        options = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **options)
        self._create_feed_forward(d_model, dim_feedforward, dropout, activation, bias, options)
        self.norm_first = norm_first
        self._add_norms(2, d_model, layer_norm_eps, bias, dropout, options)

    def forward(
        self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        """The layer's output, of the shape of `src`."""

        def attended(x: Tensor) -> Tensor:
            return self.dropout1(self._attend(self.self_attn, x, x, src_mask, src_key_padding_mask, is_causal))

        x = src
        if self.norm_first:
            x = x + attended(self.norm1(x))
            return x + self.dropout2(self._feed_forward(self.norm2(x)))
        x = self.norm1(x + attended(x))
        return self.norm2(x + self.dropout2(self._feed_forward(x)))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output, and a feed-forward block."""

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1, activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: Any = None,
        dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        options = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, bias=bias, **options)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, bias=bias, **options)
        self._create_feed_forward(d_model, dim_feedforward, dropout, activation, bias, options)
        self.norm_first = norm_first
        self._add_norms(3, d_model, layer_norm_eps, bias, dropout, options)

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """The layer's output, of the shape of `tgt`."""

        def attended(x: Tensor) -> Tensor:
            return self.dropout1(self._attend(self.self_attn, x, x, tgt_mask, tgt_key_padding_mask, tgt_is_causal))

        def informed(x: Tensor) -> Tensor:
            out = self._attend(self.multihead_attn, x, memory, memory_mask, memory_key_padding_mask, memory_is_causal)
            return self.dropout2(out)

        x = tgt
        if self.norm_first:
            x = x + attended(self.norm1(x))
            x = x + informed(self.norm2(x))
            return x + self.dropout3(self._feed_forward(self.norm3(x)))
        x = self.norm1(x + attended(x))
        x = self.norm2(x + informed(x))
        return self.norm3(x + self.dropout3(self._feed_forward(x)))


class TransformerEncoder(Module):
    """`num_layers` copies of an encoder layer, and a normalization at the end if given."""

    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None, enable_nested_tensor: bool = True, mask_check: bool = True
    ) -> None:
        super().__init__()
        self.layers = _clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None, is_causal: bool | None = None
    ) -> Tensor:
        """The last layer's output, of the shape of `src`."""
        batch_first = bool(getattr(getattr(self.layers[0], "self_attn", None), "batch_first", False))
        causal = _is_causal(mask, is_causal, src.size(1 if batch_first and src.dim() == 3 else 0))
        for layer in self.layers:
            src = layer(src, src_mask=mask, is_causal=causal, src_key_padding_mask=src_key_padding_mask)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """`num_layers` copies of a decoder layer, and a normalization at the end if given."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """The last layer's output, of the shape of `tgt`."""
        batch_first = bool(getattr(getattr(self.layers[0], "self_attn", None), "batch_first", False))
        causal = _is_causal(tgt_mask, tgt_is_causal, tgt.size(1 if batch_first and tgt.dim() == 3 else 0))
        for layer in self.layers:
            tgt = layer(
                tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=causal, memory_is_causal=memory_is_causal,
            )  # fmt: skip
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder and a decoder; all weights start by `xavier_uniform_`."""

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6, dim_feedforward: int = 2048,
        dropout: float = 0.1, activation: Activation = F.relu, custom_encoder: Any = None, custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: Any = None,
        dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        layer: tuple[Any, ...] = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device, dtype,
        )  # fmt: skip

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)

        if custom_encoder is None:
            custom_encoder = TransformerEncoder(TransformerEncoderLayer(*layer), num_encoder_layers, norm())
        if custom_decoder is None:
            custom_decoder = TransformerDecoder(TransformerDecoderLayer(*layer), num_decoder_layers, norm())
        self.encoder = custom_encoder
        self.decoder = custom_decoder
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, src_is_causal: bool | None = None, tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """The decoder's output, of the shape of `tgt`."""
        if src.dim() == 3 and src.size(0 if self.batch_first else 1) != tgt.size(0 if self.batch_first else 1):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal, memory_is_causal=memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: dtype | None = None) -> Tensor:
        """(sz, sz) with minus infinity above the diagonal and 0 elsewhere."""
        return full((sz, sz), float("-inf"), dtype=dtype, device=device).triu(1)
