"""Systems of linear equations, inverses and determinants."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from flambeau import ops
from flambeau.core.dtypes import int64
from flambeau.tensor.arguments import given
from flambeau.tensor.autocasting import as_one


class InverseInfo(NamedTuple):
    """The inverse, and where elimination met a zero, or 0 (int32)."""

    inverse: Any
    info: Any


class LeastSquares(NamedTuple):
    """The solution, the squared distances, the rank and the singular values; what the driver does not tell is empty."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


def solve(A: Any, B: Any, *, left: bool = True, out: Any = None) -> Any:
    """X with A @ X = B (X @ A = B where not ``left``); B may be one vector for each matrix. LinAlgError where A is singular.

    >>> import flambeau as torch
    >>> torch.linalg.solve(torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    return given(out, ops.solve(A, B, left=left))


def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False, out: Any = None) -> Any:
    """X as by `solve`, and info (int32): where elimination met a zero, from 1 on, or 0."""
    return given(out, ops.solve_ex(A, B, left=left, check_errors=check_errors))


def solve_triangular(
    A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False, out: Any = None
) -> Any:
    """X with A @ X = B (X @ A = B where not ``left``) of one triangle of A; ``unitriangular``: with ones on its diagonal."""
    return given(out, ops.solve_triangular(A, B, upper=upper, left=left, unitriangular=unitriangular))


def inv(A: Any, *, out: Any = None) -> Any:
    """The inverse matrices; LinAlgError where one is singular."""
    return given(out, ops.inverse(A))


def inv_ex(A: Any, *, check_errors: bool = False, out: Any = None) -> Any:
    """The inverse, and info (int32): where elimination met a zero, from 1 on, or 0."""
    return given(out, InverseInfo(*ops.inverse_ex(A, check_errors=check_errors)))


def pinv(A: Any, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None, out: Any = None) -> Any:
    """The pseudoinverse, without singular values up to max(atol, rtol * the largest).

    >>> import flambeau as torch
    >>> torch.linalg.pinv(torch.tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    return given(out, ops.pinv(A, atol, rtol if rcond is None else rcond, hermitian))


def det(A: Any, *, out: Any = None) -> Any:
    """The determinants of square matrices."""
    return given(out, ops.det(A))


def slogdet(A: Any, *, out: Any = None) -> Any:
    """The sign of determinants and the logarithm of their sizes: (0, -inf) of singular matrices."""
    return given(out, ops.slogdet(A))


@as_one
def lstsq(A: Any, B: Any, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """X that makes ||A @ X - B|| smallest, by the pseudoinverse; of several the smallest.

    ``driver`` ("gelsy" by default, "gelsd", "gelss", "gels") decides which of rank and singular values are told, as in torch.

    >>> import flambeau as torch
    >>> torch.linalg.lstsq(torch.tensor([[1.0], [1.0]]), torch.tensor([[1.0], [3.0]])).solution
    tensor([[2.0000]])
    """
    _check_least_squares(A, B, driver)
    m, n = A.meta.shape[-2:]
    vector = len(B.meta.shape) == len(A.meta.shape) - 1
    right = ops.unsqueeze(B, -1) if vector else B
    inverse = ops.pinv(A, None, rcond)
    x = ops.matmul(inverse, right)
    nothing = ops.narrow(ops.flatten(ops.real(x) if x.is_complex() else x), 0, 0, 0)  # differentiable, as in torch
    rank = ops.matrix_rank(A.detach(), None, rcond) if driver != "gels" else ops.full((0,), 0, dtype=int64)
    values = ops.svdvals(A.detach()) if driver in ("gelsd", "gelss") else nothing.detach()
    residuals = nothing
    if m > n and driver in ("gels", "gelsd", "gelss") and (driver == "gels" or bool((rank == n).all())):
        distance = ops.sub(ops.matmul(A, x), right)
        residuals = ops.sum(ops.square(ops.abs(distance)), -2)
    return LeastSquares(ops.squeeze(x, -1) if vector else x, residuals, rank, values)


def _check_least_squares(A: Any, B: Any, driver: str | None) -> None:
    a, b = A.meta.shape, B.meta.shape
    if len(a) < 2:
        raise RuntimeError("torch.linalg.lstsq: input must have at least 2 dimensions.")
    if len(b) < 1:
        raise RuntimeError("torch.linalg.lstsq: other must have at least 1 dimension.")
    if A.meta.dtype is not B.meta.dtype:
        raise RuntimeError("torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's dtype "
                           f"{A.meta.dtype} and other's dtype {B.meta.dtype}")  # fmt: skip
    if len(a) - len(b) not in (0, 1):
        raise RuntimeError("torch.linalg.lstsq: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1")
    if a[-2] != b[-1 if len(b) < len(a) else -2]:
        raise RuntimeError(f"torch.linalg.lstsq: input.size(-2) should match other.size({-1 if len(b) < len(a) else -2})")
    if driver not in (None, "gels", "gelsd", "gelss", "gelsy"):
        raise RuntimeError("torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")


def tensorinv(A: Any, ind: int = 2, *, out: Any = None) -> Any:
    """The inverse of the map from the last dimensions to the first ``ind``, as a tensor."""
    shape = A.meta.shape
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'.")
    rows, columns = math.prod(shape[:ind]), math.prod(shape[ind:])
    if rows != columns:
        raise RuntimeError(
            f"Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got {columns} != {rows}"
        )
    return given(out, ops.reshape(ops.inverse(ops.reshape(A, (rows, columns))), (*shape[ind:], *shape[:ind])))


def tensorsolve(A: Any, B: Any, dims: Any = None, *, out: Any = None) -> Any:
    """X with tensordot(A, X, X.ndim) = B; the dimensions ``dims`` of A are moved to its end first."""
    rank = len(A.meta.shape)
    if dims is not None:
        last = [d % rank for d in dims]
        A = ops.permute(A, (*(d for d in range(rank) if d not in last), *last))
    rest = A.meta.shape[len(B.meta.shape) :]
    size = math.prod(rest)
    if size != math.prod(A.meta.shape[: len(B.meta.shape)]):
        raise RuntimeError("Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
                           f"but got {size} != {math.prod(A.meta.shape[: len(B.meta.shape)])}")  # fmt: skip
    solution = ops.solve(ops.reshape(A, (size, size)), ops.reshape(B, (size,)))
    return given(out, ops.reshape(solution, rest))
