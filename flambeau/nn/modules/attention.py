"""Multi-head attention as a Module."""

from __future__ import annotations

from typing import Any

from flambeau.core.dtypes import dtype
from flambeau.nn import functional as F  # noqa: N812
from flambeau.nn import init
from flambeau.nn.modules.linear import NonDynamicallyQuantizableLinear
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.tensor import Tensor
from flambeau.tensor.creation import empty

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """softmax(Q K.T / sqrt(head size)) V in `num_heads` heads of projections of query, key and value (Vaswani et al., 2017).

    Inputs (L, N, E), or (N, L, E) with `batch_first`, or (L, E). Returns the output and the weights, averaged over heads, or None.

    >>> import flambeau as torch
    >>> attention, x = torch.nn.MultiheadAttention(8, 2), torch.ones(5, 3, 8)
    >>> [tuple(t.shape) for t in attention(x, x, x)]
    [(5, 3, 8), (3, 5, 5)]
    """

    in_proj_weight: Tensor | None
    in_proj_bias: Tensor | None
    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False, device: Any = None,
        dtype: dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} instead")
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        self._create_projections(bias, options)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **options)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, Parameter(empty((1, 1, embed_dim), **options)) if add_bias_kv else None)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _create_projections(self, bias: bool, options: dict[str, Any]) -> None:
        separate = {"q_proj_weight": self.embed_dim, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        if self._qkv_same_embed_dim:
            self.in_proj_weight = Parameter(empty((3 * self.embed_dim, self.embed_dim), **options))
            for name in separate:
                self.register_parameter(name, None)
        else:
            for name, size in separate.items():
                self.register_parameter(name, Parameter(empty((self.embed_dim, size), **options)))
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", Parameter(empty(3 * self.embed_dim, **options)) if bias else None)

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)  # type: ignore[arg-type]
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None, need_weights: bool = True,
        attn_mask: Tensor | None = None, average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Attention, and with `need_weights` its weights; for the masks see `functional.multi_head_attention_forward`."""
        swap = self.batch_first and query.dim() == 3
        if swap:
            # The same tensor stays the same object: one product then projects all three.
            swapped = {id(x): x.transpose(0, 1) for x in (query, key, value)}
            query, key, value = swapped[id(query)], swapped[id(key)], swapped[id(value)]
        output, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k, self.bias_v,
            self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias, training=self.training,
            key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim, q_proj_weight=self.q_proj_weight, k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight, average_attn_weights=average_attn_weights, is_causal=is_causal,
        )  # fmt: skip
        return (output.transpose(0, 1) if swap else output), weights
