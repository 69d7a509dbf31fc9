"""Norms of vectors and matrices, ranks and condition numbers."""

from __future__ import annotations

from typing import Any

from flambeau import ops
from flambeau.core.dtypes import dtype
from flambeau.tensor.arguments import given


def vector_norm(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: dtype | None = None, out: Any = None) -> Any:
    """(sum |x| ** ord) ** (1 / ord) along ``dim``; the largest for inf, the smallest for -inf, the count of nonzeros for 0.

    >>> import flambeau as torch
    >>> torch.linalg.vector_norm(torch.tensor([3.0, -4.0]))
    tensor(5.)
    """
    return given(out, ops.vector_norm(x, ord, dim, keepdim, dtype=dtype))


def matrix_norm(
    A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: dtype | None = None, out: Any = None
) -> Any:
    """A norm of matrices: "fro", "nuc", inf and -inf (sums of rows), 1 and -1 (of columns), 2 and -2 (singular values)."""
    return given(out, ops.matrix_norm(A, ord, tuple(dim), keepdim, dtype=dtype))


def norm(input: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, out: Any = None, dtype: dtype | None = None) -> Any:
    """A norm of vectors where ``dim`` is one dimension, of matrices where it is two; of all elements where neither is given."""
    rank = len(input.meta.shape)
    if isinstance(ord, str) and dim is not None and not isinstance(dim, int) and len(dim) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}")
    if ord is None:
        return vector_norm(input, 2, dim, keepdim, dtype=dtype, out=out)
    if dim is None:
        if rank not in (1, 2):
            raise RuntimeError(f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {rank}D.")
        dim = tuple(range(rank))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}")
    if len(dims) == 2:
        return matrix_norm(input, ord, dims, keepdim, dtype=dtype, out=out)
    return vector_norm(input, ord, dims, keepdim, dtype=dtype, out=out)


def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None, out: Any = None) -> Any:
    """How many singular values are above max(atol, rtol * the largest).

    >>> import flambeau as torch
    >>> torch.linalg.matrix_rank(torch.ones(3, 3))
    tensor(1)
    """
    return given(out, ops.matrix_rank(A, atol, rtol, hermitian) if tol is None else ops.matrix_rank(A, tol, 0.0, hermitian))


def cond(A: Any, p: Any = None, *, out: Any = None) -> Any:
    """The condition number norm(A, p) * norm(inv(A), p), by singular values where p is None, 2 or -2."""
    return given(out, ops.cond(A, p))
