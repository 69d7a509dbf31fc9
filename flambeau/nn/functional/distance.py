"""Distances between pairs of vectors."""

from __future__ import annotations

from flambeau import ops
from flambeau.tensor import Tensor
from flambeau.tensor.autocasting import as_one

__all__ = ["cosine_similarity", "pairwise_distance", "pdist"]


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between x1 and x2 along `dim`."""
    return ops.cosine_similarity(x1, x2, dim, eps)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last dimension."""
    return ops.pairwise_distance(x1, x2, p, eps, keepdim)


@as_one
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm distances of all pairs of rows of (N, M): (0, 1), (0, 2), ..., (1, 2), ... in one vector."""
    if input.dim() != 2:
        raise RuntimeError(f"pdist: only supports 2D tensors, got: {input.dim()}D")
    count = input.size(0)
    first = [i for i in range(count) for _ in range(i + 1, count)]
    second = [j for i in range(count) for j in range(i + 1, count)]
    return ops.pairwise_distance(input[first], input[second], p, 0.0)
