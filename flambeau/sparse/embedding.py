"""Gradients of tables of rows as sparse tensors: only the rows that were looked up."""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.core import dtypes
from flambeau.sparse.tensor import CooTensor
from flambeau.tensor.function import Function

__all__ = ["SparseRows"]


class SparseRows(Function):
    """``weight[at]``; the gradient of the weight has the rows ``at``, none summed yet, without those equal to ``padding``."""

    @staticmethod
    def forward(ctx: Any, weight: Any, at: Any, padding: int | None, by_frequency: bool) -> Any:
        ctx.save_for_backward(at)
        ctx.shape, ctx.padding, ctx.by_frequency = weight.shape, padding, by_frequency
        return ops.embedding(at, weight, None, False)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (at,) = ctx.saved_tensors
        rows, values = ops.to_dtype(at.reshape(-1), dtypes.int64), gradient.reshape(-1, ctx.shape[1])
        if ctx.by_frequency:
            values = values / ops.bincount(rows, None, ctx.shape[0])[rows].unsqueeze(1)
        if ctx.padding is not None:
            kept = rows != ctx.padding % ctx.shape[0]
            rows, values = rows[kept], values[kept]
        return CooTensor(rows.unsqueeze(0), values, ctx.shape), None, None, None
