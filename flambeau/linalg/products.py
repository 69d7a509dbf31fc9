"""Products of matrices and vectors, and powers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau import ops
from flambeau.tensor.arguments import given
from flambeau.tensor.functions_factor import matrix_exp as matrix_exp
from flambeau.tensor.functions_linear import matmul as matmul
from flambeau.tensor.functions_linear import matrix_power as matrix_power


def cross(input: Any, other: Any, *, dim: int = -1, out: Any = None) -> Any:
    """The cross product of vectors of 3 along ``dim``; the other dimensions broadcast.

    >>> import flambeau as torch
    >>> torch.linalg.cross(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    return given(out, ops.cross(input, other, dim))


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """A view of the diagonals of matrices."""
    return ops.diagonal(A, offset, dim1, dim2)


def vecdot(x: Any, y: Any, *, dim: int = -1, out: Any = None) -> Any:
    """The sums of products along ``dim``; the other dimensions broadcast."""
    return given(out, ops.vecdot(x, y, dim))


def vander(x: Any, N: int | None = None) -> Any:
    """The powers x ** 0 ... x ** (N - 1) in a new last dimension.

    >>> import flambeau as torch
    >>> torch.linalg.vander(torch.tensor([2, 3]))
    tensor([[1, 2],
            [1, 3]])
    """
    return ops.vander(x, (x.meta.shape or (1,))[-1] if N is None else N)


def multi_dot(tensors: Sequence[Any], *, out: Any = None) -> Any:
    """The product of matrices in the order that costs least (Godbole 1973); the first and the last may be vectors.

    >>> import flambeau as torch
    >>> torch.linalg.multi_dot([torch.ones(2, 3), torch.ones(3, 4), torch.ones(4)])
    tensor([12., 12.])
    """
    parts = list(tensors)
    if len(parts) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(parts)}")
    ranks = [len(t.meta.shape) for t in parts]
    for where, rank in (("first", ranks[0]), ("last", ranks[-1])):
        if rank not in (1, 2):
            raise RuntimeError(f"multi_dot(): the {where} tensor must be 1D or 2D but got {rank}D")
    if any(rank != 2 for rank in ranks[1:-1]):
        raise RuntimeError("multi_dot(): all tensors between the first and the last must be 2D")
    parts[0] = ops.unsqueeze(parts[0], 0) if ranks[0] == 1 else parts[0]
    parts[-1] = ops.unsqueeze(parts[-1], 1) if ranks[-1] == 1 else parts[-1]
    for i, (a, b) in enumerate(zip(parts, parts[1:], strict=False)):
        if a.meta.shape[1] != b.meta.shape[0]:
            raise RuntimeError(f"multi_dot(): tensors {i} and {i + 1} with shapes {list(a.meta.shape)} and {list(b.meta.shape)} "
                               "cannot be multiplied")  # fmt: skip
    result = _multiplied(parts, _splits([parts[0].meta.shape[0], *(t.meta.shape[1] for t in parts)]), 0, len(parts) - 1)
    result = ops.squeeze(result, 0) if ranks[0] == 1 else result
    result = ops.squeeze(result, -1) if ranks[-1] == 1 else result
    return given(out, result)


def _splits(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """For each run of matrices where to split it: matrix i is [sizes[i], sizes[i + 1]]."""
    count = len(sizes) - 1
    costs = {(i, i): 0 for i in range(count)}
    splits: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            options = [(costs[i, k] + costs[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)]
            costs[i, j], splits[i, j] = min(options)
    return splits


def _multiplied(parts: Sequence[Any], splits: dict[tuple[int, int], int], first: int, last: int) -> Any:
    if first == last:
        return parts[first]
    at = splits[first, last]
    return ops.mm(_multiplied(parts, splits, first, at), _multiplied(parts, splits, at + 1, last))
