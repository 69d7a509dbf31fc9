"""Affine maps and tables."""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.core.dtypes import int64
from flambeau.sparse.embedding import SparseRows
from flambeau.tensor import Tensor
from flambeau.tensor.grad_mode import no_grad

__all__ = ["bilinear", "embedding", "embedding_bag", "grouped_mm", "linear", "one_hot"]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias: (*, in_features), (out_features, in_features) and (out_features) to (*, out_features).

    >>> import flambeau as torch
    >>> torch.nn.functional.linear(torch.ones(2), torch.ones(1, 2))
    tensor([2.])
    """
    return ops.linear(input, weight, bias)


def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None
) -> Tensor:
    """A product for each group: of parts of rows [m, k] x [g, k, n], of columns [g, m, k] x [k, n], or of the inner size [m, k] x [k, n].

    ``offs`` [g] holds the end of each part; [g, m, k] x [g, k, n] needs none. Its values are read, so that compiled code goes on after.

    >>> import flambeau as torch
    >>> ends = torch.tensor([1, 3], dtype=torch.int32)
    >>> torch.nn.functional.grouped_mm(torch.ones(3, 2), torch.tensor([1.0, 10.0]).reshape(2, 1, 1).expand(2, 2, 1), offs=ends)
    tensor([[ 2.],
            [20.],
            [20.]])
    """
    if bias is not None:
        raise RuntimeError("grouped_mm: Bias not supported yet")
    if mat_a.ndim == 3 and mat_b.ndim == 3:
        out = ops.bmm(mat_a, mat_b)
    elif offs is None:
        raise RuntimeError(f"grouped_mm: needs offs for matrices of {mat_a.ndim} and {mat_b.ndim} dimensions")
    else:
        ends = offs.tolist()
        parts = [slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        if mat_a.ndim == 2 and mat_b.ndim == 2:
            out = ops.stack([ops.mm(mat_a[:, part], mat_b[part]) for part in parts], 0)
        elif mat_a.ndim == 2:
            out = ops.cat([ops.mm(mat_a[part], mat_b[i]) for i, part in enumerate(parts)], 0)
        else:
            out = ops.cat([ops.mm(mat_a[i], mat_b[:, part]) for i, part in enumerate(parts)], 1)
    return out if out_dtype is None else out.to(out_dtype)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The sum over i and j of input1[i] * weight[:, i, j] * input2[j], plus bias."""
    return ops.bilinear(input1, input2, weight, bias)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """1 at each element's position in a new last dimension of `num_classes` (-1: the largest element + 1), 0 elsewhere; int64.

    Raises RuntimeError for elements that are negative or too large.
    """
    if not tensor.numel() and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor; pass num_classes")
    # One truth is all that a given number of classes needs to know, so that a compiled function is the same for all values that fit.
    if num_classes == -1 or (tensor.numel() and bool(((tensor < 0) | (tensor >= num_classes)).any())):
        if int(tensor.min()) < 0:
            raise RuntimeError("one_hot: Class values must be non-negative.")
        largest = int(tensor.max())
        if num_classes != -1:
            raise RuntimeError(f"one_hot: Class values must be smaller than num_classes, got {largest} for {num_classes} classes.")
        num_classes = largest + 1
    return ops.one_hot(tensor, num_classes)


def _padding_row(padding_idx: int | None, weight: Tensor) -> int | None:
    if padding_idx is None:
        return None
    rows = weight.size(0)
    if not -rows <= padding_idx < rows:
        raise AssertionError(f"embedding: padding_idx must be within num_embeddings ({rows}), got {padding_idx}")
    return padding_idx % rows


def _renormalize(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    """Shrink the rows that are looked up to `max_norm`, in place."""
    with no_grad():
        rows = input.reshape(-1).unique()
        values = weight.index_select(0, rows)
        lengths = values.norm(norm_type, dim=1, keepdim=True)
        weight.index_copy_(0, rows, (lengths > max_norm).to(values.dtype) * values * (max_norm / (lengths + 1e-7) - 1) + values)


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """Rows of `weight` (num_embeddings, dim): integer input (*) to (*, dim). The row `padding_idx` gets no gradient.

    With `sparse` the gradient of the weight is a sparse tensor that has the rows looked up; see `optim.SparseAdam`.

    Raises IndexError for an index out of range.
    """
    row = _padding_row(padding_idx, weight)
    if max_norm is not None:
        _renormalize(weight, input, max_norm, norm_type)
    if sparse:
        return SparseRows.apply(weight, input, row, scale_grad_by_freq)
    return ops.embedding(input, weight, row, scale_grad_by_freq)


def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None, norm_type: float = 2,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """Sums, means or maxima (`mode`) of rows of `weight` for each bag: input (bags, length), or (total) with `offsets`.

    What equals `padding_idx` counts nothing. Raises IndexError for an index out of range.
    """
    if max_norm is not None:
        _renormalize(weight, input, max_norm, norm_type)
    if offsets is not None and include_last_offset:
        offsets = offsets[:-1]
    if sparse and mode == "max":
        raise ValueError("embedding_bag: mode 'max' has no sparse gradients; use 'sum' or 'mean', or sparse=False")
    if sparse and weight.requires_grad:
        if scale_grad_by_freq:
            raise RuntimeError("embedding_bag: sparse gradients are not scaled by frequency; use scale_grad_by_freq=False or sparse=False")
        rows = SparseRows.apply(weight, input, padding_idx, False).reshape(-1, weight.shape[1])
        numbers = ops.reshape(ops.arange(0, 1, rows.shape[0], int64), input.shape)
        padding = None if padding_idx is None else input == padding_idx % weight.shape[0]
        if padding is not None:  # a row of zeros, which counts nothing
            rows = ops.cat([rows, ops.zeros((1, weight.shape[1]), rows.dtype)], 0)
            numbers = ops.where(padding, rows.shape[0] - 1, numbers)
        last = None if padding is None else rows.shape[0] - 1
        return ops.embedding_bag(numbers, rows, offsets, mode, per_sample_weights, last, False)
    return ops.embedding_bag(input, weight, offsets, mode, per_sample_weights, padding_idx, scale_grad_by_freq)
