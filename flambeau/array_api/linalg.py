"""Linear algebra."""

from __future__ import annotations

from typing import Any

from flambeau import linalg as torch_linalg
from flambeau.array_api.array import met
from flambeau.linalg import det as det
from flambeau.linalg import inv as inv
from flambeau.linalg import matrix_power as matrix_power
from flambeau.linalg import slogdet as slogdet
from flambeau.tensor import functions_linear, functions_shape
from flambeau.tensor.functions_linear import outer as outer
from flambeau.tensor.tensor_class import Tensor


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The product of matrices, batches of them, or vectors."""
    return torch_linalg.matmul(*met(x1, x2))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes swapped."""
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: needs at least 2 dimensions, got {x.ndim}")
    return x.mT


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """Sums of products over the last axes of one and the first of the other, or over given ones."""
    x1, x2 = met(x1, x2)
    return functions_linear.tensordot(x1, x2, axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Sums of products along an axis, the first factor conjugated."""
    if not -min(x1.ndim, x2.ndim) <= axis < 0:
        raise ValueError(f"vecdot: axis must be from {-min(x1.ndim, x2.ndim)} to -1, got {axis}")
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot: the sizes along axis {axis} differ: {x1.shape[axis]} and {x2.shape[axis]}")
    x1, x2 = met(x1, x2)
    return (x1.conj() * x2).sum(axis, dtype=x1.dtype)


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """L with x = L @ L.mH, or with ``upper`` its conjugate transpose."""
    return torch_linalg.cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross product of vectors of 3 elements."""
    x1, x2 = functions_shape.broadcast_tensors(*met(x1, x2))
    return torch_linalg.cross(x1, x2, dim=axis)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """A diagonal of the matrices in the last two axes."""
    return torch_linalg.diagonal(x, offset=offset)


def eigh(x: Tensor, /) -> Any:
    """Eigenvalues and eigenvectors of symmetric or Hermitian matrices."""
    return torch_linalg.eigh(x)


def eigvalsh(x: Tensor, /) -> Tensor:
    """Eigenvalues of symmetric or Hermitian matrices."""
    return torch_linalg.eigvalsh(x)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """A norm of matrices."""
    return torch_linalg.matrix_norm(x, ord, (-2, -1), keepdims)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """How many singular values are above ``rtol`` times the largest."""
    return torch_linalg.matrix_rank(x, rtol=rtol)


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """The pseudoinverse."""
    return torch_linalg.pinv(x, rtol=rtol)


def qr(x: Tensor, /, *, mode: str = "reduced") -> Any:
    """Q with orthonormal columns and an upper triangle R with x = Q @ R."""
    return torch_linalg.qr(x, mode)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """X with x1 @ X = x2, a vector if ``x2`` has one axis, else matrices."""
    x1, x2 = met(x1, x2)
    if x2.ndim == 1:
        return torch_linalg.solve(x1, x2.expand(*x1.shape[:-2], -1).unsqueeze(-1)).squeeze(-1)
    batch = functions_shape.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return torch_linalg.solve(x1.expand(*batch, *x1.shape[-2:]), x2.expand(*batch, *x2.shape[-2:]))


def svd(x: Tensor, /, *, full_matrices: bool = True) -> Any:
    """U, S and Vh with x = U @ diag(S) @ Vh."""
    return torch_linalg.svd(x, full_matrices)


def svdvals(x: Tensor, /) -> Tensor:
    """Singular values."""
    return torch_linalg.svdvals(x)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sum of a diagonal of the matrices in the last two axes."""
    return torch_linalg.diagonal(x, offset=offset).sum(-1, dtype=dtype)


def vector_norm(x: Tensor, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    """A norm of vectors, of all elements without an axis."""
    if axis == ():
        return x.abs() if ord != 0 else (x != 0).to(x.abs().dtype)
    return torch_linalg.vector_norm(x, ord, axis, keepdims)
